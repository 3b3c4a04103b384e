//! The sentences that prompts are made of.

use std::{ops::Range, sync::OnceLock};

/// Sentences, and the words that every segment opens with.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// Each a sentence, without blanks around it.
    pub(super) sentences: Vec<Box<str>>,
    /// Sentences that may be cut after any word, to reach a length exactly.
    pub(super) closings: Vec<Closing>,
    /// Words of the opening, by their place in it.
    pub(super) openers: [Vec<Box<str>>; 4],
}

/// A sentence that may be cut after any word.
#[derive(Clone, Debug)]
pub(super) struct Closing {
    pub(super) text: Box<str>,
    /// Where each word ends, in bytes.
    pub(super) ends: Vec<usize>,
}

impl Closing {
    fn new(text: &str) -> Self {
        let ends = words(text).map(|word| word.end).collect();
        Self {
            text: text.into(),
            ends,
        }
    }

    /// The first `count` words.
    pub(super) fn words(&self, count: usize) -> &str {
        let end = count.checked_sub(1).and_then(|last| self.ends.get(last));
        end.and_then(|&end| self.text.get(..end)).unwrap_or("")
    }
}

/// The words of a text, by their bytes.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.split_whitespace().map(|word| {
        let start = word.as_ptr().addr() - text.as_ptr().addr();
        start..start + word.len()
    })
}

/// A text from which no prompts can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the text has {found} sentences of at most {LONGEST_WORDS} words; at least {FEWEST} are needed, \
     or prompts would repeat themselves"
)]
pub struct CorpusError {
    /// Sentences found.
    pub found: usize,
}

/// Fewer sentences would repeat within one prompt.
const FEWEST: usize = 20;
/// Longer ones are no sentences, but tables or code.
const LONGEST_WORDS: usize = 60;
/// Sentences of a user's text that are cut to reach a length exactly.
const CLOSINGS: usize = 6;

impl Corpus {
    /// The project's own prose.
    #[must_use]
    pub fn prose() -> Self {
        static PROSE: OnceLock<Corpus> = OnceLock::new();
        let make = || Self {
            sentences: lines(include_str!("prose.txt")).collect(),
            closings: include_str!("closings.txt")
                .lines()
                .map(Closing::new)
                .collect(),
            openers: openers(),
        };
        PROSE.get_or_init(make).clone()
    }

    /// A text of the user's: its sentences, in any language that parts words with blanks.
    pub fn from_text(text: &str) -> Result<Self, CorpusError> {
        let mut sentences: Vec<Box<str>> = Vec::new();
        for paragraph in text.split("\n\n") {
            let mut from = 0;
            let mut last = 0;
            for word in words(paragraph) {
                last = word.end;
                let ends = paragraph.get(word.clone()).is_some_and(ends_sentence);
                if ends {
                    sentences.extend(sentence(paragraph, from..last));
                    from = last;
                }
            }
            sentences.extend(sentence(paragraph, from..last));
        }
        if sentences.len() < FEWEST {
            return Err(CorpusError {
                found: sentences.len(),
            });
        }
        let mut longest: Vec<&Box<str>> = sentences.iter().collect();
        longest.sort_by_key(|sentence| std::cmp::Reverse(sentence.split_whitespace().count()));
        let closings = longest
            .iter()
            .take(CLOSINGS)
            .map(|text| Closing::new(text))
            .collect();
        Ok(Self {
            sentences,
            closings,
            openers: openers(),
        })
    }
}

fn ends_sentence(word: &str) -> bool {
    let bare = word.trim_end_matches(['"', '\'', ')', '\u{201D}', '\u{2019}', '\u{00BB}']);
    bare.ends_with(['.', '!', '?'])
}

/// The sentence in `range`, with single blanks; `None` for nothing and for what is no sentence.
fn sentence(text: &str, range: Range<usize>) -> Option<Box<str>> {
    let words: Vec<&str> = text.get(range)?.split_whitespace().collect();
    let fits = (1..=LONGEST_WORDS).contains(&words.len());
    fits.then(|| words.join(" ").into_boxed_str())
}

fn lines(text: &'static str) -> impl Iterator<Item = Box<str>> {
    text.lines().map(Box::from)
}

/// "quiet harbour, seven lanterns:" with 64 words for each place: 16.8 million openings.
fn openers() -> [Vec<Box<str>>; 4] {
    let mut kinds = include_str!("openers.txt").lines();
    let mut kind = || kinds.next().unwrap_or_default().split(' ');
    let (which, what): (Vec<&str>, Vec<&str>) = (kind().collect(), kind().collect());
    let with = |words: &[&str], mark: &str| {
        let marked = words
            .iter()
            .map(|word| format!("{word}{mark}").into_boxed_str());
        marked.collect()
    };
    [
        with(&which, ""),
        with(&what, ","),
        with(&which, ""),
        with(&what, ":"),
    ]
}
