//! Prompts as text: planned segments to natural English of the asked number of tokens.
//!
//! Random tokens would falsify what is measured: speculative decoding guesses nothing of them, and
//! the experts of a mixture are hit as no text hits them. So prompts are sentences of prose (the
//! project's own, or the user's file) in an order drawn from the segment's key. Every segment
//! begins with a few words drawn from its key alone, so that no two share a prefix by accident.
//!
//! How many tokens a text has is known from the server's `/tokenize` ([`PromptWriter::counted`]),
//! or fitted to the `usage` of a few calibration prompts ([`PromptWriter::calibrated`]), or
//! assumed. What the server then counts stands beside what was asked for ([`PromptWriter::overhead`]
//! is what it adds to every prompt).

mod calibration;
mod corpus;
mod costs;
#[cfg(test)]
mod tests;
mod writer;

pub use calibration::{CalibrationError, CalibrationPrompt, Fit, calibration_prompts};
pub use corpus::{Corpus, CorpusError};
pub use writer::{CountedBy, PromptWriter, WrittenMessage};
