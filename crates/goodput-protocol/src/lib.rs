//! The language that inference servers speak: OpenAI's answers, streamed or whole, HTTP/1.1
//! framing, request bodies, engine metrics.
//!
//! Everything here is sans IO. Bytes come in with the instant they were read at, values go out;
//! the crate never touches a clock, a file or a socket, and computes no latency.
//!
//! - [`ExchangeReader`] reads one HTTP/1.1 response from its first byte to its end. It is made of
//!   [`ResponseReader`] (head and transfer framing) and [`ReplyReader`] (event stream, whole
//!   answer or error; for any transport), which reads streams with [`StreamReader`].
//! - [`AnswerRequest`] writes the body of a request.
//! - [`engine_sample`] reads an engine's metrics, [`write_vllm_metrics`] writes vLLM's.
//! - [`ServerIdentity`] gathers what a server says of itself.
//!
//! A token of the usual shape costs no allocation: its chunk is scanned where it lies in the read
//! buffer. Any other shape is read by a full parser, and both agree (a property test).
//!
//! ```
//! use goodput_protocol::{ExchangeReader, StreamEvents, StreamOptions};
//! use goodput_record::{Outcome, Timestamp, TokenCount};
//!
//! struct Instants(Vec<Timestamp>);
//! impl StreamEvents for Instants {
//!     fn token_event(&mut self, at: Timestamp, _tokens: u32, _answer: bool) {
//!         self.0.push(at);
//!     }
//! }
//!
//! let reads: [(u64, &str); 3] = [
//!     (8, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: wait\n\n"),
//!     (250, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {\"cho"),
//!     (290, "ices\":[{\"index\":0,\"delta\":{\"content\":\"!\"}}]}\n\ndata: [DONE]\n\n"),
//! ];
//! let (mut reader, mut out) = (ExchangeReader::new(StreamOptions::default()), Instants(vec![]));
//! for (ms, bytes) in reads {
//!     reader.on_bytes(Timestamp::from_millis(ms), bytes.as_bytes(), &mut out);
//! }
//! let end = reader.finish(&mut out);
//! assert_eq!(end.outcome, Outcome::Ok);
//! assert_eq!(end.output_tokens, Some(TokenCount::AtLeast(2)), "no usage: a lower bound");
//! assert_eq!(out.0, [Timestamp::from_millis(250), Timestamp::from_millis(290)]);
//! ```

#![expect(
    clippy::doc_markdown,
    reason = "names of engines and companies are no code"
)]

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
mod tally;
mod timings;

pub use answer::one_line;
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
