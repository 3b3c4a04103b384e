//! Requests that share beginnings and are otherwise their own, one after the other.

use std::sync::Arc;

use goodput_record::{BlockRun, Blocks, Timestamp};
use goodput_stats::Draws;

use crate::{
    arrivals::Schedule,
    lengths::Lengths,
    prompt::{Role, Segment, blocks_between, extend},
    script::stream,
    spec::{Shape, WorkloadSpec},
    workload::schedule,
};

/// A request whose prompt begins with one of a few texts and goes on with one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRequest {
    /// Its number within the load point; also that of its session.
    pub index: u64,
    /// When it is due.
    pub due: Timestamp,
    /// Tokens of the prompt.
    pub input_tokens: u32,
    /// Output tokens asked for, at least 1.
    pub output_tokens: u32,
    /// Of the input tokens, those that a cache which never forgets would hold.
    pub cached_tokens: u32,
    /// Which of the shared beginnings it has.
    beginning: usize,
    /// The segment behind it.
    own: Segment,
}

/// What prompts begin with.
#[derive(Clone, Debug)]
struct Beginning {
    /// The system prompt, and what the group adds to it, in tokens.
    tokens: [u32; 2],
    /// The names of all up to the end of either.
    chains: [u64; 2],
    asked_before: bool,
}

/// The requests of an open loop in which each is a session of its own and drawn, not read from a
/// trace: the same requests as [`crate::Workload`] hands out, at a small part of the cost.
#[derive(Clone, Debug)]
pub struct SharedRequests {
    spec: Arc<WorkloadSpec>,
    input: Lengths,
    output: Lengths,
    schedule: Schedule,
    seed: u64,
    /// By group, those that were drawn; only one where there are no groups.
    beginnings: Vec<Option<Beginning>>,
    system_asked_before: bool,
    next: Option<SharedRequest>,
}

impl SharedRequests {
    /// `None` where the requests have sessions or are the rows of a trace.
    #[must_use]
    pub fn new(spec: &Arc<WorkloadSpec>, per_second: f64, seed: u64) -> Option<Self> {
        let Shape::Drawn { input, output } = &spec.shape else {
            return None;
        };
        if spec.sessions.is_some() {
            return None;
        }
        let mut requests = Self {
            input: input.clone(),
            output: output.clone(),
            schedule: schedule(spec, per_second, seed),
            spec: Arc::clone(spec),
            seed,
            beginnings: Vec::new(),
            system_asked_before: false,
            next: None,
        };
        requests.plan();
        Some(requests)
    }

    /// The next request.
    #[must_use]
    pub const fn peek(&self) -> Option<&SharedRequest> {
        self.next.as_ref()
    }

    /// Hands it out.
    pub fn take(&mut self) -> Option<SharedRequest> {
        let taken = self.next?;
        self.plan();
        Some(taken)
    }

    /// The whole blocks of a request's prompt, as [`crate::Prompt::blocks`] names them.
    #[must_use]
    pub fn blocks(&self, request: &SharedRequest, block_tokens: u32) -> Blocks {
        let mut blocks = Blocks::new();
        let Some(Some(beginning)) = self.beginnings.get(request.beginning) else {
            return blocks;
        };
        let mut tokens = 0;
        for (id, more) in beginning.chains.into_iter().zip(beginning.tokens) {
            let behind = tokens + u64::from(more);
            let count = blocks_between(tokens, behind, block_tokens);
            blocks.push(BlockRun { id, blocks: count });
            tokens = behind;
        }
        let behind = tokens + u64::from(request.own.tokens);
        blocks.push(BlockRun {
            id: extend(beginning.chains[1], &request.own),
            blocks: blocks_between(tokens, behind, block_tokens),
        });
        blocks
    }

    fn draws(&self, stream: goodput_stats::Stream, index: u64) -> Draws {
        Draws::new(self.seed, stream, index)
    }

    fn plan(&mut self) {
        let Some((index, due)) = self.schedule.peek() else {
            self.next = None;
            return;
        };
        self.schedule.advance();
        let tokens = self.input.draw(&mut self.draws(stream::INPUT, index));
        let output_tokens = self.output.draw(&mut self.draws(stream::OUTPUT, index));
        let group = self.spec.groups.as_ref().map_or(0, |groups| {
            let mut draws = self.draws(stream::GROUP, index);
            groups.popularity.draw(&mut draws) as usize
        });
        if self.beginnings.len() <= group {
            self.beginnings.resize(group + 1, None);
        }
        if self.beginnings[group].is_none() {
            self.beginnings[group] = Some(self.beginning(group as u64));
        }
        let Some(beginning) = &mut self.beginnings[group] else {
            return;
        };
        let [system, of_group] = beginning.tokens;
        let used = system.saturating_add(of_group);
        let own = tokens.saturating_sub(used).max(1);
        let input_tokens = used.saturating_add(own);
        let shared = match (self.system_asked_before, beginning.asked_before) {
            (_, true) => used,
            (true, false) => system,
            (false, false) => 0,
        };
        beginning.asked_before = true;
        self.system_asked_before = true;
        let limit = shared.min(input_tokens - 1);
        let rest = limit.checked_rem(self.spec.block_tokens).unwrap_or(limit);
        self.next = Some(SharedRequest {
            index,
            due,
            input_tokens,
            output_tokens,
            cached_tokens: limit - rest,
            beginning: group,
            own: Segment {
                key: self.draws(stream::UNIQUE_KEY, index).bits(),
                tokens: own,
                role: Role::User,
            },
        });
    }

    fn beginning(&self, group: u64) -> Beginning {
        let system = self.spec.system_tokens;
        let (mut tokens, mut chains) = ([system, 0], [0; 2]);
        if system > 0 {
            let segment = Segment {
                key: self.draws(stream::SYSTEM_KEY, 0).bits(),
                tokens: system,
                role: Role::System,
            };
            chains = [extend(0, &segment); 2];
        }
        if let Some(groups) = &self.spec.groups {
            let mut draws = self.draws(stream::GROUP_TOKENS, group);
            let segment = Segment {
                key: self.draws(stream::GROUP_KEY, group).bits(),
                tokens: groups.tokens.draw(&mut draws),
                role: Role::User,
            };
            tokens[1] = segment.tokens;
            chains[1] = extend(chains[0], &segment);
        }
        Beginning {
            tokens,
            chains,
            asked_before: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Load, Shard, Workload};

    const ALL: &str = "
        input.uniform = { min = 50, max = 900 }
        output.log_normal = { median = 60, sigma = 0.7, max = 500 }";
    const SYSTEM: &str = "prefixes.system_tokens = 60\n";
    const GROUPS: &str = "prefixes.groups = { count = 9, zipf = 1.0, tokens = { uniform = { min = 30, max = 300 } } }\n";

    #[test]
    fn shared_requests_are_those_of_the_workload() {
        for shared in ["", SYSTEM, GROUPS, &format!("{SYSTEM}{GROUPS}")] {
            let spec = WorkloadSpec::parse("w.toml", &format!("{shared}{ALL}")).unwrap();
            let spec = Arc::new(spec);
            let mut quick = SharedRequests::new(&spec, 20.0, 7).unwrap();
            let load = Load::Open { per_second: 20.0 };
            let mut whole = Workload::new(&spec, load, 7, Shard::WHOLE);
            let mut cached = 0;
            for _ in 0..1_000 {
                let planned = whole.take(Timestamp::FAR_FUTURE).unwrap();
                whole.ended(planned.session, planned.due);
                let request = quick.take().unwrap();
                assert_eq!(
                    (request.index, request.due, request.input_tokens),
                    (planned.index, planned.due, planned.input_tokens)
                );
                assert_eq!(
                    (request.output_tokens, request.cached_tokens),
                    (planned.output_tokens, planned.cached_tokens)
                );
                for block in [1, 16, 100] {
                    assert_eq!(quick.blocks(&request, block), planned.prompt.blocks(block));
                }
                cached += request.cached_tokens;
            }
            assert_eq!(cached > 0, !shared.is_empty());
        }
    }

    #[test]
    fn sessions_and_rows_are_not_told_so() {
        for preset in crate::presets() {
            let spec = Arc::new(WorkloadSpec::preset(preset.name).unwrap());
            let drawn = matches!(spec.shape, Shape::Drawn { .. }) && spec.sessions.is_none();
            assert_eq!(SharedRequests::new(&spec, 1.0, 1).is_some(), drawn);
        }
    }
}
