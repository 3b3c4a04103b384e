//! The script of a session: what each of its steps says, from (seed, session, step) alone.

use std::time::Duration;

use goodput_stats::{Draws, mix};

use crate::{
    lengths::Lengths,
    plan::Reply,
    prompt::{Role, Segment},
    spec::{RowStep, Rows, Sessions, Shape, WorkloadSpec},
};

/// What each stream of randomness is for. Numbers never change: recorded seeds stay valid.
pub(crate) mod stream {
    use goodput_stats::Stream;

    pub(crate) const GAP: Stream = Stream(0x574C_0001);
    pub(crate) const INPUT: Stream = Stream(0x574C_0002);
    pub(crate) const OUTPUT: Stream = Stream(0x574C_0003);
    pub(crate) const ROW: Stream = Stream(0x574C_0004);
    pub(crate) const STEPS: Stream = Stream(0x574C_0005);
    pub(crate) const THINK: Stream = Stream(0x574C_0006);
    pub(crate) const GROUP: Stream = Stream(0x574C_0007);
    pub(crate) const GROUP_TOKENS: Stream = Stream(0x574C_0008);
    pub(crate) const GROUP_KEY: Stream = Stream(0x574C_0009);
    pub(crate) const SYSTEM_KEY: Stream = Stream(0x574C_000A);
    pub(crate) const UNIQUE_KEY: Stream = Stream(0x574C_000B);
    pub(crate) const REPLY_KEY: Stream = Stream(0x574C_000C);
    pub(crate) const BLOCK_KEY: Stream = Stream(0x574C_000D);
}

/// A session under way.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) number: u64,
    pub(crate) step: u16,
    pub(crate) steps: u16,
    /// Steps that lie before the load point and were never sent.
    pub(crate) skipped: u16,
    /// The prompt of the current step.
    pub(crate) segments: Vec<Segment>,
    pub(crate) replies: Vec<Reply>,
    /// Output tokens of the current step.
    pub(crate) output_tokens: u32,
    /// How many leading segments another request may start with.
    pub(crate) shareable: usize,
}

/// The scripts of all sessions under one seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scripts<'a> {
    pub(crate) spec: &'a WorkloadSpec,
    pub(crate) seed: u64,
    /// Request numbers set apart for each session.
    pub(crate) stride: u16,
}

impl Scripts<'_> {
    /// The number of a request.
    pub(crate) fn index(&self, session: u64, step: u16) -> u64 {
        session * u64::from(self.stride) + u64::from(step)
    }

    /// Opens a session at its first step. `None` when the rows are used up.
    pub(crate) fn open(&self, number: u64) -> Option<Session> {
        let mut session = Session {
            number,
            step: 0,
            steps: 1,
            skipped: 0,
            segments: Vec::new(),
            replies: Vec::new(),
            output_tokens: 1,
            shareable: 0,
        };
        match &self.spec.shape {
            Shape::Drawn { input, output } => {
                let index = self.index(number, 0);
                let tokens = input.draw(&mut self.draws(stream::INPUT, index));
                self.fill(&mut session, tokens);
                session.output_tokens = output.draw(&mut self.draws(stream::OUTPUT, index));
                if let Some(sessions) = &self.spec.sessions {
                    session.steps = self.steps(sessions, output, &session);
                }
            }
            Shape::Rows(rows) => {
                let (steps, lap) = self.row(rows, number)?;
                session.steps = u16::try_from(steps.len()).unwrap_or(u16::MAX);
                self.fill_from_row(&mut session, steps.first()?, lap, rows.block_tokens);
            }
        }
        self.mark_shareable(&mut session);
        Some(session)
    }

    /// How many steps a session has that stands at its first: as drawn, or fewer if the context
    /// is full before.
    fn steps(&self, sessions: &Sessions, output: &Lengths, session: &Session) -> u16 {
        let drawn = sessions
            .steps
            .draw(&mut self.draws(stream::STEPS, session.number));
        let drawn = u16::try_from(drawn).unwrap_or(u16::MAX);
        let Some(limit) = sessions.context_limit else {
            return drawn;
        };
        let first: u32 = session.segments.iter().map(|s| s.tokens).sum();
        let mut tokens = first.saturating_add(session.output_tokens);
        (1..drawn)
            .find(|&step| {
                let index = self.index(session.number, step);
                let input = sessions
                    .next_input
                    .draw(&mut self.draws(stream::INPUT, index));
                let output = output.draw(&mut self.draws(stream::OUTPUT, index));
                tokens = tokens.saturating_add(input).saturating_add(output);
                tokens > limit
            })
            .unwrap_or(drawn)
    }

    /// Moves a session on to its next step and says how long it waits first. `None` if it was the
    /// last.
    pub(crate) fn next(&self, session: &mut Session) -> Option<Duration> {
        if session.step + 1 >= session.steps {
            return None;
        }
        let answered = self.index(session.number, session.step);
        session.replies.push(Reply {
            segment: u32::try_from(session.segments.len()).unwrap_or(u32::MAX),
            step: session.step - session.skipped,
        });
        session.segments.push(Segment {
            key: self.draws(stream::REPLY_KEY, answered).bits(),
            tokens: session.output_tokens,
            role: Role::Assistant,
        });
        session.step += 1;
        let index = self.index(session.number, session.step);
        let wait = match &self.spec.shape {
            Shape::Drawn { output, .. } => {
                let sessions = self.spec.sessions.as_ref()?;
                let tokens = sessions
                    .next_input
                    .draw(&mut self.draws(stream::INPUT, index));
                session.segments.push(self.unique(index, tokens));
                session.output_tokens = output.draw(&mut self.draws(stream::OUTPUT, index));
                sessions
                    .think_time
                    .draw(&mut self.draws(stream::THINK, index))
            }
            Shape::Rows(rows) => {
                let (steps, _) = self.row(rows, session.number)?;
                let step = steps.get(usize::from(session.step))?;
                self.continue_from_row(session, step, index);
                step.wait
            }
        };
        self.mark_shareable(session);
        Some(wait)
    }

    fn draws(&self, stream: goodput_stats::Stream, index: u64) -> Draws {
        Draws::new(self.seed, stream, index)
    }

    fn unique(&self, index: u64, tokens: u32) -> Segment {
        Segment {
            key: self.draws(stream::UNIQUE_KEY, index).bits(),
            tokens,
            role: Role::User,
        }
    }

    /// The first prompt: shared prefixes, then words of its own, `tokens` long in all; longer
    /// where the prefixes leave no room for a token of its own.
    fn fill(&self, session: &mut Session, tokens: u32) {
        let mut used = 0;
        if self.spec.system_tokens > 0 {
            used = self.spec.system_tokens;
            session.segments.push(Segment {
                key: self.draws(stream::SYSTEM_KEY, 0).bits(),
                tokens: used,
                role: Role::System,
            });
        }
        if let Some(groups) = &self.spec.groups {
            let group = groups
                .popularity
                .draw(&mut self.draws(stream::GROUP, session.number));
            let group = u64::from(group);
            let length = groups
                .tokens
                .draw(&mut self.draws(stream::GROUP_TOKENS, group));
            used += length;
            session.segments.push(Segment {
                key: self.draws(stream::GROUP_KEY, group).bits(),
                tokens: length,
                role: Role::User,
            });
        }
        let own = tokens.saturating_sub(used).max(1);
        session
            .segments
            .push(self.unique(self.index(session.number, 0), own));
    }

    /// The steps of the row behind a session, and how often the rows were gone through before.
    fn row<'r>(&self, rows: &'r Rows, number: u64) -> Option<(&'r [RowStep], u64)> {
        let count = rows.sessions.len() as u64;
        let (place, lap) = if rows.in_order {
            (number.checked_rem(count)?, number.checked_div(count)?)
        } else {
            let mut draws = self.draws(stream::ROW, number);
            (draws.bits().checked_rem(count)?, 0)
        };
        if lap > 0 && !rows.repeat {
            return None;
        }
        let session = rows.sessions.get(usize::try_from(place).ok()?)?;
        Some((&session.steps, lap))
    }

    fn fill_from_row(&self, session: &mut Session, step: &RowStep, lap: u64, block_tokens: u32) {
        session.output_tokens = step.output_tokens;
        if step.blocks.is_empty() {
            return self.fill(session, step.input_tokens);
        }
        let salt = self.draws(stream::BLOCK_KEY, lap).bits();
        let mut left = step.input_tokens;
        for block in &step.blocks {
            let tokens = left.min(block_tokens);
            if tokens == 0 {
                break;
            }
            left -= tokens;
            session.segments.push(Segment {
                key: mix(salt ^ mix(*block)),
                tokens,
                role: Role::User,
            });
        }
        if left > 0 {
            session
                .segments
                .push(self.unique(self.index(session.number, 0), left));
        }
    }

    /// A later prompt of a recorded session: the history goes on where the recorded prompt is
    /// longer than it, and was dropped by the client where it is not.
    fn continue_from_row(&self, session: &mut Session, step: &RowStep, index: u64) {
        let history: u32 = session.segments.iter().map(|s| s.tokens).sum();
        let added = step
            .input_tokens
            .checked_sub(history)
            .filter(|&added| added > 0);
        if added.is_none() {
            session.segments.clear();
            session.replies.clear();
        }
        let tokens = added.unwrap_or(step.input_tokens);
        session.segments.push(self.unique(index, tokens));
        session.output_tokens = step.output_tokens;
    }

    fn mark_shareable(&self, session: &mut Session) {
        let blocks = matches!(&self.spec.shape, Shape::Rows(rows) if rows.block_tokens > 0);
        session.shareable = if blocks || session.step + 1 < session.steps {
            session.segments.len()
        } else {
            self.shared_segments()
        };
    }

    /// How many leading segments of a drawn prompt other sessions have, too.
    pub(crate) fn shared_segments(&self) -> usize {
        usize::from(self.spec.system_tokens > 0) + usize::from(self.spec.groups.is_some())
    }
}
