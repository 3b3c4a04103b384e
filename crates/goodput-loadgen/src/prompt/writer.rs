//! Segments to text.

use std::{collections::BTreeMap, future::Future};

use goodput_stats::{Draws, Stream};
use goodput_workload::{PlannedRequest, Role, Segment};

use super::{
    calibration::{CalibrationError, CalibrationPrompt, Fit},
    corpus::Corpus,
    costs::{Costs, UNIT, pieces},
};

/// Who said how many tokens a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedBy {
    /// The server's `/tokenize`, piece by piece: lengths are right but for seams.
    Tokenize,
    /// A fit to the server's `usage` of a few prompts: right on average.
    Calibration,
    /// Nobody: a token for a word and one for a punctuation mark.
    Assumption,
}

impl CountedBy {
    /// In a few words, for a report.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Tokenize => "counted by the server's /tokenize",
            Self::Calibration => "fitted to the server's usage",
            Self::Assumption => "assumed: a token a word and a token a punctuation mark",
        }
    }
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said; never empty.
    pub text: String,
}

/// Writes prompts: same segment, same text.
#[derive(Clone, Debug)]
pub struct PromptWriter {
    corpus: Corpus,
    costs: Costs,
    counted_by: CountedBy,
    overhead: Option<f64>,
}

/// Which words and sentences a segment has. The number never changes.
const TEXT: Stream = Stream(0x5052_4F53);

impl PromptWriter {
    /// A writer for a server that counts nothing: a token for a word and one for a mark.
    #[must_use]
    pub fn assuming(corpus: Corpus) -> Self {
        let costs = Costs::new(&corpus, |text| Fit::ASSUMED.cost(text));
        Self {
            corpus,
            costs,
            counted_by: CountedBy::Assumption,
            overhead: None,
        }
    }

    /// A writer fitted to what the server counted of
    /// [`calibration_prompts`](super::calibration_prompts).
    pub fn calibrated(
        corpus: Corpus,
        counts: &[(CalibrationPrompt, u32)],
    ) -> Result<Self, CalibrationError> {
        let fit = Fit::to(counts)?;
        let costs = Costs::new(&corpus, |text| fit.cost(text));
        Ok(Self {
            corpus,
            costs,
            counted_by: CountedBy::Calibration,
            overhead: Some(fit.overhead),
        })
    }

    /// A writer that has had every piece of its corpus counted, some 600 short texts. `count` asks
    /// the server for the tokens of a text, with or without special tokens.
    pub async fn counted<F, Answer, E>(corpus: Corpus, mut count: F) -> Result<Self, E>
    where
        F: FnMut(String) -> Answer,
        Answer: Future<Output = Result<u32, E>>,
    {
        // Behind a carrier each piece has the blank before it that it will have in a prompt.
        let carrier = count(CARRIER.to_owned()).await?;
        let mut table: BTreeMap<Box<str>, u32> = BTreeMap::new();
        for piece in pieces(&corpus) {
            let tokens = count(format!("{CARRIER} {piece}")).await?;
            table.insert(piece, tokens.saturating_sub(carrier).max(1));
        }
        let costs = Costs::of_table(&corpus, &table);
        Ok(Self {
            corpus,
            costs,
            counted_by: CountedBy::Tokenize,
            overhead: None,
        })
    }

    /// Who said how many tokens a text has.
    #[must_use]
    pub fn counted_by(&self) -> CountedBy {
        self.counted_by
    }

    /// Tokens that the server adds to a prompt of one message (chat template, special tokens), on
    /// top of those asked for; `None` where only the answers' `usage` will tell.
    #[must_use]
    pub fn overhead(&self) -> Option<f64> {
        self.overhead
    }

    /// The messages of a request: segments of one speaker in a row are one message. Where `served`
    /// has the answer to an earlier step, it stands in place of the planned text.
    #[must_use]
    pub fn messages(
        &self,
        request: &PlannedRequest,
        served: &[Option<String>],
    ) -> Vec<WrittenMessage> {
        let answer = |place: usize| {
            let mut replies = request.replies.iter();
            let reply = replies.find(|reply| reply.segment as usize == place)?;
            served.get(usize::from(reply.step))?.as_deref()
        };
        let segments = request.prompt.segments();
        let mut place = 0;
        let messages = segments.chunk_by(|a, b| a.role == b.role).map(|turn| {
            let tokens: usize = turn.iter().map(|segment| segment.tokens as usize).sum();
            let mut text = String::with_capacity(tokens.saturating_mul(BYTES_A_TOKEN));
            for segment in turn {
                match answer(place) {
                    Some(answer) => append(&mut text, answer),
                    None => self.write(segment, &mut text),
                }
                place += 1;
            }
            WrittenMessage {
                role: turn[0].role,
                text,
            }
        });
        messages.collect()
    }

    /// The prompt of a request as one text, for an API without messages.
    #[must_use]
    pub fn text(&self, request: &PlannedRequest, served: &[Option<String>]) -> String {
        let messages = self.messages(request, served).into_iter();
        messages
            .map(|message| message.text)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Appends the text of a segment: an opening of its own, sentences, and a closing cut to the
    /// length. At least one word, however short the segment.
    pub fn write(&self, segment: &Segment, out: &mut String) {
        let mut draws = Draws::new(segment.key, TEXT, u64::from(segment.tokens));
        let mut left = i64::from(segment.tokens) * i64::from(UNIT);
        let written = out.len();
        for (words, costs) in self.corpus.openers.iter().zip(&self.costs.openers) {
            let word = pick(&mut draws, words.len());
            let cost = i64::from(costs[word]);
            if out.len() > written && cost - left > i64::from(UNIT / 2) {
                break;
            }
            append(out, &words[word]);
            left -= cost;
        }
        self.write_sentences(&mut draws, &mut left, out);
        self.write_closing(&mut draws, left, out);
    }

    fn write_sentences(&self, draws: &mut Draws, left: &mut i64, out: &mut String) {
        let mut misses = 0;
        while misses < MISSES {
            let sentence = pick(draws, self.corpus.sentences.len());
            let cost = i64::from(self.costs.sentences[sentence]);
            if cost <= *left {
                append(out, &self.corpus.sentences[sentence]);
                *left -= cost;
            } else {
                misses += 1;
            }
        }
    }

    /// As many words of closings as come nearest to what is left.
    fn write_closing(&self, draws: &mut Draws, mut left: i64, out: &mut String) {
        while left > i64::from(UNIT / 2) {
            let closing = pick(draws, self.corpus.closings.len());
            let costs = &self.costs.closings[closing];
            let over = costs.partition_point(|&cost| i64::from(cost) <= left);
            let miss = |count: usize| {
                let cost = count
                    .checked_sub(1)
                    .map_or(0, |last| i64::from(costs[last]));
                (left - cost).abs()
            };
            let count = if over < costs.len() && miss(over + 1) < miss(over) {
                over + 1
            } else {
                over
            };
            let Some(last) = count.checked_sub(1) else {
                return;
            };
            append(out, self.corpus.closings[closing].words(count));
            left -= i64::from(costs[last]);
        }
    }
}

/// Room for a token's text, with some to spare.
const BYTES_A_TOKEN: usize = 6;
/// What pieces are counted behind.
const CARRIER: &str = "a";
/// Sentences that may turn out too long before the closing is written.
const MISSES: u32 = 4;

fn pick(draws: &mut Draws, count: usize) -> usize {
    // The bias of a remainder over 64 bits is far below what could be seen.
    usize::try_from(draws.bits() % count.max(1) as u64).unwrap_or(0)
}

fn append(out: &mut String, text: &str) {
    if !out.is_empty() {
        out.push(' ');
    }
    out.push_str(text);
}
