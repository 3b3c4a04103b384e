//! Engine metrics: Prometheus' text format read, the engines' names for the same quantities, and
//! vLLM's names written.

mod engine;
mod exposition;
#[cfg(test)]
mod tests;
mod vllm;

pub use engine::{engine_of, engine_sample};
pub use exposition::{Metric, metrics};
pub use vllm::{Bounds, MetricHistogram, VllmMetrics, write_vllm_metrics};
