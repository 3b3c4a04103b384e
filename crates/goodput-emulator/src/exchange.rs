//! One request that engines are answering, and the bytes its answer becomes.

use std::rc::Rc;

use goodput_record::Timestamp;

use crate::{
    api::{Api, ApiError, Ask},
    faults::{Faults, RoleChunk, Strike},
    http::{Framing, ResponseHead},
    wire::{self, Counts, EventWriter, Words},
};

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) ask: Ask,
    id: String,
    created: u64,
    writer: EventWriter,
    request_id: Option<String>,
    pub(crate) keep_alive: bool,
    /// When the request was read.
    pub(crate) arrived: Timestamp,
    /// The engine that answers it.
    pub(crate) replica: usize,
    /// The number of its first choice inside the engine; the others follow.
    pub(crate) first_index: u64,
    pub(crate) progress: Vec<Progress>,
    /// Choices that have not ended.
    open: usize,
    /// Output tokens so far, of all choices.
    made: u32,
    strike: Strike,
}

/// How far one choice is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    made: u32,
    written: u32,
    role: bool,
    /// Input tokens found in the cache; `None` until it is admitted.
    pub(crate) cached: Option<u32>,
    pub(crate) first: Option<Timestamp>,
    pub(crate) last: Option<Timestamp>,
}

/// What is told with a request beside its body.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) number: u64,
    pub(crate) arrived: Timestamp,
    pub(crate) created: u64,
    pub(crate) request_id: Option<String>,
    pub(crate) keep_alive: bool,
    pub(crate) replica: usize,
    pub(crate) first_index: u64,
    pub(crate) strike: Strike,
}

/// What more tokens came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More will come.
    GoesOn,
    /// The answer is whole.
    Ended,
    /// A fault ends it here: the engine's work is to be cancelled, and the connection, if `cut`,
    /// dropped.
    Struck { cut: bool },
}

impl Exchange {
    pub(crate) fn new(ask: Ask, opening: Opening, model_id: &Rc<str>) -> Self {
        let prefix = match ask.api {
            Api::Chat => "chatcmpl",
            Api::Completions => "cmpl",
        };
        let id = match opening.request_id.as_deref().filter(|id| is_plain(id)) {
            Some(id) => format!("{prefix}-{id}"),
            None => format!("{prefix}-{:016x}", goodput_stats::mix(opening.number + 1)),
        };
        Self {
            writer: EventWriter::new(ask.api, &id, opening.created, model_id),
            id,
            created: opening.created,
            request_id: opening.request_id,
            keep_alive: opening.keep_alive,
            arrived: opening.arrived,
            replica: opening.replica,
            first_index: opening.first_index,
            progress: vec![Progress::default(); ask.choices.len()],
            open: ask.choices.len(),
            made: 0,
            strike: opening.strike,
            ask,
        }
    }

    /// Writes what a stream begins with: the head at once, as vLLM does, long before a token.
    pub(crate) fn begin(&mut self, faults: &Faults, out: &mut Vec<u8>) {
        if !self.ask.stream {
            return;
        }
        self.head("text/event-stream; charset=utf-8", Framing::Chunked)
            .write(out);
        if faults.role_chunk == RoleChunk::Early {
            for choice in 0..self.progress.len() {
                self.role(choice, faults, out);
            }
        }
    }

    /// `count` more tokens of a choice.
    pub(crate) fn tokens(
        &mut self,
        choice: usize,
        count: u32,
        faults: &Faults,
        out: &mut Vec<u8>,
    ) -> Step {
        let planned = self.ask.choices[choice].output_tokens;
        let progress = &mut self.progress[choice];
        progress.made = (progress.made + count).min(planned);
        let ended = progress.made == planned;
        let ready = progress.made - progress.written >= faults.tokens_per_event.get();
        self.made += count;
        if self.ask.stream && (ready || ended) {
            self.event(choice, ended, faults, out);
        }
        if let Some(struck) = self.struck(out) {
            return struck;
        }
        if ended {
            self.open -= 1;
        }
        if self.open > 0 {
            return Step::GoesOn;
        }
        self.end(faults, out);
        Step::Ended
    }

    fn event(&mut self, choice: usize, ended: bool, faults: &Faults, out: &mut Vec<u8>) {
        if faults.role_chunk == RoleChunk::First && !self.progress[choice].role {
            self.role(choice, faults, out);
        }
        let plan = &self.ask.choices[choice];
        let progress = &mut self.progress[choice];
        let from = std::mem::replace(&mut progress.written, progress.made);
        let words = Words {
            index: choice,
            key: plan.key,
            from,
            to: progress.made,
            finish: ended.then_some(&plan.finish),
            usage: self.running_usage(choice, faults),
        };
        self.writer.words(out, words);
    }

    fn role(&mut self, choice: usize, faults: &Faults, out: &mut Vec<u8>) {
        self.progress[choice].role = true;
        if self.ask.api == Api::Chat {
            let usage = self.running_usage(choice, faults);
            self.writer.role(out, choice, usage);
        }
    }

    fn running_usage(&self, choice: usize, faults: &Faults) -> Option<Counts> {
        let asked = self.ask.include_usage && self.ask.continuous_usage && !faults.no_usage;
        asked.then(|| Counts {
            input: self.ask.input_tokens,
            output: self.progress[choice].written,
            cached: 0,
        })
    }

    /// Whether a fault ends the answer here.
    fn struck(&self, out: &mut Vec<u8>) -> Option<Step> {
        match self.strike {
            Strike::Cut { after } if self.made >= after => Some(Step::Struck { cut: true }),
            Strike::ErrorEvent { after } if self.made >= after => {
                if self.ask.stream {
                    wire::error_event(out);
                    wire::end_stream(out, false);
                } else {
                    let body = wire::error(&ApiError::internal());
                    let mut head = self.head("application/json", Framing::Length(body.len()));
                    head.status = 500;
                    head.write(out);
                    out.extend_from_slice(&body);
                }
                Some(Step::Struck { cut: false })
            }
            _ => None,
        }
    }

    fn end(&self, faults: &Faults, out: &mut Vec<u8>) {
        let counts = self.counts();
        if self.ask.stream {
            if self.ask.include_usage && !faults.no_usage {
                self.writer.usage(out, counts);
            }
            wire::end_stream(out, !faults.no_done);
            return;
        }
        let counts = (!faults.no_usage).then_some(counts);
        let model_id = self.writer.model_id();
        let body = wire::whole(&self.ask, &self.id, self.created, model_id, counts);
        self.head("application/json", Framing::Length(body.len()))
            .write(out);
        out.extend_from_slice(&body);
    }

    fn counts(&self) -> Counts {
        let n = self.ask.n as usize;
        let firsts = self.progress.iter().step_by(n);
        Counts {
            input: self.ask.input_tokens,
            output: self.ask.output_tokens(),
            cached: firsts.map(|progress| progress.cached.unwrap_or(0)).sum(),
        }
    }

    fn head<'a>(&'a self, content_type: &'a str, framing: Framing) -> ResponseHead<'a> {
        ResponseHead {
            status: 200,
            content_type,
            framing,
            request_id: self.request_id.as_deref(),
            keep_alive: self.keep_alive,
            retry_after: None,
        }
    }

    /// The choice's number in the engine.
    pub(crate) fn index_of(&self, choice: usize) -> u64 {
        self.first_index + choice as u64
    }

    /// The numbers in the engine of all its choices.
    pub(crate) fn indices(&self) -> std::ops::Range<u64> {
        self.first_index..self.index_of(self.progress.len())
    }
}

/// Whether a client's id may stand inside ours.
fn is_plain(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    (1..=128).contains(&id.len()) && id.chars().all(plain)
}
