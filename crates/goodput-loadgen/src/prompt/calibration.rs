//! Tokens of a text fitted to what a server says of a few prompts.

use super::{corpus::Corpus, costs::thousandths};

/// A prompt of one user message, sent so that the server counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalibrationPrompt {
    /// The message.
    pub text: String,
}

/// Why no fit could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// Fewer than two counts: what the server adds cannot be told from the text.
    #[error("{found} counts of calibration prompts; at least 2 of different length are needed")]
    TooFew {
        /// Counts given.
        found: usize,
    },
    /// The counts do not grow with the text.
    #[error(
        "the server's prompt_tokens do not grow with the prompt: its usage cannot be used to set \
         input lengths"
    )]
    NoGrowth,
}

/// Tokens = `overhead` + `per_word` x words + `per_mark` x punctuation marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// What the server adds to a prompt: chat template and special tokens.
    pub overhead: f64,
    /// Tokens of a word.
    pub per_word: f64,
    /// Tokens of a punctuation mark; 0 where it is part of its word.
    pub per_mark: f64,
}

impl Fit {
    /// A token for every word and one for every mark, which is what the large vocabularies of
    /// today's tokenizers make of plain English (Gemma 3: 1.009 and 1.011 by a fit to this prose);
    /// nothing added.
    pub(super) const ASSUMED: Self = Self {
        overhead: 0.0,
        per_word: 1.0,
        per_mark: 1.0,
    };

    /// Fits to (prompt, tokens the server counted) by least squares.
    pub fn to(counts: &[(CalibrationPrompt, u32)]) -> Result<Self, CalibrationError> {
        if counts.len() < 2 {
            return Err(CalibrationError::TooFew {
                found: counts.len(),
            });
        }
        let rows: Vec<([f64; 3], f64)> = counts
            .iter()
            .map(|(prompt, tokens)| {
                let (words, marks) = features(&prompt.text);
                ([1.0, words, marks], f64::from(*tokens))
            })
            .collect();
        // Marks are left out where they cannot be told from words, or would count below nothing.
        let fits = [
            least_squares::<3>(&rows),
            least_squares::<2>(&rows).map(|[a, b]| [a, b, 0.0]),
        ];
        fits.into_iter()
            .flatten()
            .find(|[_, word, mark]| *word > 0.05 && *mark > -0.05)
            .map(|[overhead, per_word, per_mark]| Self {
                overhead: overhead.max(0.0),
                per_word,
                per_mark: per_mark.max(0.0),
            })
            .ok_or(CalibrationError::NoGrowth)
    }

    /// Thousandths of a token that a text costs, without the overhead; at least 1.
    pub(super) fn cost(&self, text: &str) -> u32 {
        let (words, marks) = features(text);
        thousandths(self.per_word * words + self.per_mark * marks).max(1)
    }
}

/// Words and punctuation marks of a text.
fn features(text: &str) -> (f64, f64) {
    let marks = text.chars().filter(char::is_ascii_punctuation).count();
    (text.split_whitespace().count() as f64, marks as f64)
}

/// Prompts to be counted: short and long, with few marks and with many. One answer token is enough
/// of an answer to each.
#[must_use]
pub fn calibration_prompts(corpus: &Corpus) -> Vec<CalibrationPrompt> {
    let prompt = |text: String| CalibrationPrompt { text };
    let sentences = |from: usize, count: usize| {
        let chosen = corpus.sentences.iter().cycle().skip(from).take(count);
        chosen.map(AsRef::as_ref).collect::<Vec<&str>>().join(" ")
    };
    let openings = |count: usize| {
        let words = (0..count).flat_map(|i| {
            corpus
                .openers
                .iter()
                .filter_map(move |words| words.get(i * 7 % words.len()))
        });
        words.map(AsRef::as_ref).collect::<Vec<&str>>().join(" ")
    };
    let closings = corpus
        .closings
        .iter()
        .cycle()
        .take(8)
        .map(|c| c.text.as_ref());
    vec![
        prompt(sentences(0, 2)),
        prompt(sentences(2, 40)),
        prompt(openings(40)),
        prompt(closings.collect::<Vec<&str>>().join(" ")),
        prompt(sentences(42, 80)),
    ]
}

/// The coefficients of the first N features that fit best. `None` if the rows do not tell them
/// apart.
fn least_squares<const N: usize>(rows: &[([f64; 3], f64)]) -> Option<[f64; N]> {
    let mut normal = [[0.0; N]; N];
    let mut right = [0.0; N];
    for (features, tokens) in rows {
        for i in 0..N {
            right[i] += features[i] * tokens;
            for (j, cell) in normal[i].iter_mut().enumerate() {
                *cell += features[i] * features[j];
            }
        }
    }
    solve(normal, right)
}

/// Gaussian elimination; the matrix is symmetric and not negative, so the diagonal serves as pivot.
fn solve<const N: usize>(mut matrix: [[f64; N]; N], mut right: [f64; N]) -> Option<[f64; N]> {
    for pivot in 0..N {
        let (row, value) = (matrix[pivot], right[pivot]);
        if row[pivot].abs() < 1e-6 {
            return None;
        }
        for below in pivot + 1..N {
            let factor = matrix[below][pivot] / row[pivot];
            for (cell, above) in matrix[below].iter_mut().zip(row) {
                *cell -= factor * above;
            }
            right[below] -= factor * value;
        }
    }
    let mut solution = [0.0; N];
    for i in (0..N).rev() {
        let known: f64 = (i + 1..N).map(|j| matrix[i][j] * solution[j]).sum();
        solution[i] = (right[i] - known) / matrix[i][i];
    }
    Some(solution)
}
