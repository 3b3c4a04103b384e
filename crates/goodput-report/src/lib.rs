//! Faces of a result: terminal text, JSON, CSV, Markdown, `JUnit` and one self-contained HTML page.
//!
//! Takes values, returns strings. Never prints, never opens a file, never asks the terminal. This
//! is the only place that formats figures for people; a figure that does not exist is a dash here
//! and null or an empty cell in files.

#![expect(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "text is what this crate makes; write! to a string would need a thrown-away result each"
)]

mod bar;
mod change;
mod chart;

pub mod csv;
pub mod html;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod number;
pub mod plan;
pub mod queue;
#[cfg(test)]
mod sample;
mod style;
pub mod terminal;

pub use style::Style;
