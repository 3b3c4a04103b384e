//! The language that inference servers speak: OpenAI's answers, streamed or whole, HTTP/1.1
//! framing, request bodies, engine metrics.
//!
//! Everything here is sans IO. Bytes come in with the instant they were read at, values go out;
//! the crate never touches a clock, a file or a socket.

mod answer;
mod chunk;
mod end;
mod http;
mod identity;
mod measure;
mod metrics;
mod reply;
mod request;
mod sse;
mod stream;
mod timings;

pub use end::StreamEnd;
pub use http::{Head, HttpError, MediaType, Piece, ResponseReader};
pub use identity::{EngineKind, ModelCard, ModelList, ModelMeta, ServerIdentity};
pub use metrics::{
    Bounds, Metric, MetricHistogram, VllmMetrics, engine_of, engine_sample, metrics,
    write_vllm_metrics,
};
pub use reply::{ExchangeReader, ReplyReader, explain};
pub use request::{
    AnswerRequest, ChatMessage, ChatRole, ExtraFields, LimitField, OutputLimit, PromptBody,
    UsageReports,
};
pub use stream::{Channel, EndOfBody, StreamEvents, StreamOptions, StreamReader, read_whole};
pub use timings::{EngineTimings, Plausibility, plausibility};
