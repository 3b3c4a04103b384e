//! A `tokenizer.json` on this machine, for servers that count nothing. Built in with the feature
//! `tokenizer`; everything else needs none.

use std::path::Path;

use goodput_loadgen::TextCounter;

use crate::exit::Failure;

/// The counter of a `tokenizer.json`.
#[cfg(feature = "tokenizer")]
pub(crate) fn load(path: &Path) -> Result<TextCounter, Failure> {
    let tokenizer = tokenizers::Tokenizer::from_file(path).map_err(|e| {
        Failure::usage(format!("cannot read the tokenizer {}: {e}", path.display()))
    })?;
    Ok(TextCounter::new(move |text| {
        // Special tokens are the server's to add; a text that cannot be encoded has none.
        let tokens = tokenizer
            .encode(text, false)
            .map_or(0, |encoded| encoded.len());
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }))
}

/// Says how to get a program that has one.
#[cfg(not(feature = "tokenizer"))]
pub(crate) fn load(path: &Path) -> Result<TextCounter, Failure> {
    Err(Failure::usage(format!("this build cannot read the tokenizer {}", path.display()))
        .hint("build it with `cargo build --release --features tokenizer`; most servers count tokens themselves"))
}
