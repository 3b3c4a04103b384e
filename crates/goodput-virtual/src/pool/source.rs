//! Where the requests of a stream come from.

use goodput_record::{Blocks, Timestamp};
use goodput_workload::{Load, Shard, SharedRequest, SharedRequests, Workload};

use crate::pool::plan::StreamPlan;

/// The requests of a stream: one after the other where nothing but the schedule decides when they come.
pub(super) enum Requests {
    Alone(SharedRequests),
    Whole(Workload),
}

/// A request that is due.
pub(super) struct Planned {
    pub(super) due: Timestamp,
    pub(super) session: u32,
    pub(super) step: u16,
    pub(super) steps: u16,
    pub(super) input_tokens: u32,
    pub(super) output_tokens: u32,
    pub(super) cached_tokens: u32,
    pub(super) blocks: Blocks,
}

impl Requests {
    pub(super) fn new(stream: &StreamPlan, seed: u64) -> Self {
        let alone = match stream.load {
            Load::Open { per_second } => SharedRequests::new(&stream.workload, per_second, seed),
            Load::Closed(_) => None,
        };
        alone.map_or_else(
            || {
                Self::Whole(Workload::new(
                    &stream.workload,
                    stream.load,
                    seed,
                    Shard::WHOLE,
                ))
            },
            Self::Alone,
        )
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        match self {
            Self::Alone(requests) => requests.peek().map(|request| request.due),
            Self::Whole(workload) => workload.next_due(),
        }
    }

    /// The next request, if it is due. `block_tokens`: the size of the blocks that are told, if any.
    pub(super) fn take(&mut self, now: Timestamp, block_tokens: Option<u32>) -> Option<Planned> {
        match self {
            Self::Alone(requests) => {
                requests.peek().filter(|request| request.due <= now)?;
                let request = requests.take()?;
                let blocks = block_tokens.map(|tokens| requests.blocks(&request, tokens));
                alone(&request, blocks.unwrap_or_default())
            }
            Self::Whole(workload) => {
                let planned = workload.take(now)?;
                let blocks = block_tokens.map(|tokens| planned.prompt.blocks(tokens));
                Some(Planned {
                    due: planned.due,
                    session: planned.session,
                    step: planned.step,
                    steps: planned.steps,
                    input_tokens: planned.input_tokens,
                    output_tokens: planned.output_tokens,
                    cached_tokens: planned.cached_tokens,
                    blocks: blocks.unwrap_or_default(),
                })
            }
        }
    }

    pub(super) fn ended(&mut self, session: u32, at: Timestamp) {
        if let Self::Whole(workload) = self {
            workload.ended(session, at);
        }
    }

    pub(super) fn abandoned(&mut self, session: u32, at: Timestamp) {
        if let Self::Whole(workload) = self {
            workload.abandoned(session, at);
        }
    }
}

fn alone(request: &SharedRequest, blocks: Blocks) -> Option<Planned> {
    Some(Planned {
        due: request.due,
        session: u32::try_from(request.index).ok()?,
        step: 0,
        steps: 1,
        input_tokens: request.input_tokens,
        output_tokens: request.output_tokens,
        cached_tokens: request.cached_tokens,
        blocks,
    })
}
