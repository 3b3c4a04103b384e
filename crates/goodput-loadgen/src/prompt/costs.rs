//! What each piece of a corpus costs, in thousandths of a token.

use std::collections::BTreeMap;

use super::corpus::Corpus;

/// Thousandths of a token: whole where a server has counted, fractions where a fit has.
pub(super) const UNIT: u32 = 1_000;

/// The costs of the pieces of a corpus, each in its place behind other text.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    pub(super) sentences: Vec<u32>,
    /// For each closing, the cost of its first n words, from n = 1.
    pub(super) closings: Vec<Vec<u32>>,
    pub(super) openers: [Vec<u32>; 4],
}

impl Costs {
    /// Prices every piece by `cost`.
    pub(super) fn new(corpus: &Corpus, mut cost: impl FnMut(&str) -> u32) -> Self {
        let closings = corpus.closings.iter();
        Self {
            sentences: corpus.sentences.iter().map(|text| cost(text)).collect(),
            closings: closings
                .map(|closing| {
                    (1..=closing.ends.len())
                        .map(|n| cost(closing.words(n)))
                        .collect()
                })
                .collect(),
            openers: corpus
                .openers
                .each_ref()
                .map(|words| words.iter().map(|word| cost(word)).collect()),
        }
    }

    /// Prices by counts of whole pieces; a piece that was not counted costs a token for a word.
    pub(super) fn of_table(corpus: &Corpus, table: &BTreeMap<Box<str>, u32>) -> Self {
        Self::new(corpus, |text| {
            let counted = table.get(text).map(|tokens| tokens.saturating_mul(UNIT));
            counted.unwrap_or_else(|| thousandths(text.split_whitespace().count() as f64))
        })
    }
}

/// Every piece of a corpus once: what a server is asked to count.
pub(super) fn pieces(corpus: &Corpus) -> Vec<Box<str>> {
    let mut pieces: Vec<Box<str>> = Vec::new();
    Costs::new(corpus, |text| {
        pieces.push(text.into());
        0
    });
    pieces.sort_unstable();
    pieces.dedup();
    pieces
}

/// Tokens as thousandths; what is not positive is 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is the clamp wanted"
)]
pub(super) fn thousandths(tokens: f64) -> u32 {
    (tokens * f64::from(UNIT)).round() as u32
}
