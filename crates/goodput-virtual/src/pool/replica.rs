//! A simulated engine with its start, its warm-up and its pace.

use std::num::NonZeroU32;

use goodput_dispatch::{ReplicaId, Role};
use goodput_perf_model::{Profile, StepTime};
use goodput_record::Timestamp;
use goodput_sim::{EngineEvents, EngineRequest, Refusal, Server};

use crate::{
    pace::Pace,
    pool::plan::{ReplicaPlan, WarmUp},
};

/// A replica of a pool.
#[derive(Debug)]
pub(super) struct PoolReplica {
    pub(super) id: ReplicaId,
    pub(super) engine: Server,
    pub(super) role: Role,
    pub(super) block_tokens: u32,
    pub(super) sent: u64,
    step_time: StepTime,
    pace: Pace,
    warm_up: Option<WarmUp>,
}

impl PoolReplica {
    pub(super) fn new(id: ReplicaId, plan: &ReplicaPlan, fast: bool) -> Self {
        let profile = match plan.role {
            Role::Decode => decoding(&plan.profile),
            Role::Whole | Role::Prefill => plan.profile.clone(),
        };
        let engine = Server::new(&profile);
        let mut replica = Self {
            id,
            engine: if fast { engine.fast_forward() } else { engine },
            role: plan.role,
            block_tokens: profile.block_tokens.get(),
            sent: 0,
            step_time: profile.step_time,
            pace: plan.pace.clone(),
            warm_up: plan.warm_up.filter(|w| w.requests > 0),
        };
        replica.set_pace(Timestamp::ZERO);
        replica
    }

    /// Takes on the pace that holds now; the instant at which it changes next.
    pub(super) fn set_pace(&mut self, now: Timestamp) -> Option<Timestamp> {
        let cold = self.warm_up.map_or(1.0, |w| w.factor);
        let factor = self.pace.at(now) * cold;
        self.engine.set_step_time(self.step_time.slowed(factor));
        self.pace.next_change(now)
    }

    /// A request has ended here: one less until it is warm.
    pub(super) fn served(&mut self, now: Timestamp) {
        let Some(warm_up) = &mut self.warm_up else {
            return;
        };
        warm_up.requests -= 1;
        if warm_up.requests == 0 {
            self.warm_up = None;
            self.set_pace(now);
        }
    }

    pub(super) fn submit(&mut self, now: Timestamp, request: EngineRequest) -> Result<(), Refusal> {
        self.sent += 1;
        self.engine.submit(now, request)
    }

    pub(super) fn advance(&mut self, to: Timestamp, out: &mut impl EngineEvents) {
        self.engine.advance(to, out);
    }
}

/// A replica that only decodes: prompts come with their KV blocks, all at once and without work.
fn decoding(profile: &Profile) -> Profile {
    let batch = profile.max_num_seqs.get();
    let widest = profile.context_limit.saturating_add(batch);
    Profile {
        step_time: StepTime {
            prefill_s: 0.0,
            pair_s: 0.0,
            compute_s: 0.0,
            ..profile.step_time
        },
        max_batched_tokens: NonZeroU32::new(widest).unwrap_or(NonZeroU32::MIN),
        chunked_prefill: true,
        prefix_cache: false,
        ..profile.clone()
    }
}
