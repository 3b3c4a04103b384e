//! Pools of replicas behind one dispatcher, in virtual time.
//!
//! Several streams of requests, each with its workload, load, SLOs, class and tenant, come to a
//! [`goodput_dispatch::Dispatcher`] that sends them to simulated engines. Engines may start cold,
//! change their pace, or split the work into prefill and decode; clients may lose patience. What is
//! recorded is what a gateway would see, in the same books as everything else.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use goodput_dispatch::Policy;
//! use goodput_perf_model::Profile;
//! use goodput_slo::Slo;
//! use goodput_virtual::pool::{PoolPlan, ReplicaPlan, StreamPlan, run_pool};
//! use goodput_workload::{Load, WorkloadSpec};
//!
//! let profile = Profile::builtin("laptop").unwrap();
//! let workload = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
//! let slos = vec![Slo::from_argument("ttft=500ms,tpot=50ms").unwrap()];
//! let mut plan = PoolPlan::new(Policy::LeastWork, 7, Duration::from_secs(20));
//! plan.replicas = vec![ReplicaPlan::new(&profile); 2];
//! plan.streams = vec![StreamPlan::new(&workload, Load::Open { per_second: 30.0 }, slos)];
//! let run = run_pool(&plan).unwrap();
//! assert!(run.row(&plan, 0).unwrap().slo_attainment.unwrap() > 0.9);
//! ```

mod desk;
mod filing;
#[cfg(test)]
mod laws;
mod life;
mod outcome;
mod plan;
mod replica;
mod run;
mod source;
#[cfg(test)]
mod tests;
mod work;

pub use outcome::{Abandoned, PoolRun, ReplicaRun, StreamRun};
pub use plan::{Leaving, Patience, PoolFault, PoolPlan, ReplicaPlan, StreamPlan, Transfer, WarmUp};
pub use run::run_pool;
pub use work::WorkRule;
