//! The passive source: says what is due, hands it out, is told of ends.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
    time::Duration,
};

use goodput_record::Timestamp;

use crate::{
    arrivals::{Arrivals, Schedule},
    cache::SeenPrefixes,
    plan::{Load, PlannedRequest, Shard},
    prompt::Prompt,
    script::{Scripts, Session},
    spec::{History, Shape, WorkloadSpec},
};

/// The requests of one load point, as they fall due.
///
/// ```text
/// loop { wait until next_due(); while let Some(r) = take(now) { send(r) }; on an end: ended(..) }
/// ```
#[derive(Clone, Debug)]
pub struct Workload {
    spec: Arc<WorkloadSpec>,
    seed: u64,
    stride: u16,
    shard: Shard,
    source: Source,
    /// Sessions by number: one entry from its first step to its last.
    sessions: BTreeMap<u32, Session>,
    /// Steps that wait for their due time.
    waiting: BinaryHeap<Reverse<(Timestamp, u32)>>,
    /// Resumed sessions of other shares, whose prefixes will have been asked for by then.
    elsewhere: BinaryHeap<Reverse<(Timestamp, u32)>>,
    seen: SeenPrefixes,
}

/// Where new sessions come from.
#[derive(Clone, Debug)]
enum Source {
    /// Each user of this share opens a session when its last one has ended.
    Users { count: u32 },
    /// The schedule opens them.
    Schedule(Schedule),
}

/// Users of a closed loop start this far apart, unless the ramp would be longer than
/// [`LONGEST_RAMP`].
const RAMP_STEP: Duration = Duration::from_millis(10);
/// The longest default ramp.
const LONGEST_RAMP: Duration = Duration::from_secs(5);

impl Workload {
    /// The requests of one load point. Give every point a seed of its own
    /// ([`crate::point_seed`]), or a server's cache will know the prompts of the second.
    ///
    /// The users of a closed loop start 10 ms apart, all within 5 s. In an open loop with sessions,
    /// those that would have begun before are under way: what is left of each is a session of its
    /// own, with the history in its first prompt.
    #[must_use]
    pub fn new(spec: &Arc<WorkloadSpec>, load: Load, seed: u64, shard: Shard) -> Self {
        let ramp = match load {
            Load::Closed(users) => RAMP_STEP.saturating_mul(users.get()).min(LONGEST_RAMP),
            Load::Open { .. } => Duration::ZERO,
        };
        Self::with_ramp(spec, load, seed, shard, ramp)
    }

    /// Like [`Workload::new`], with the users of a closed loop spread evenly over `ramp`.
    #[must_use]
    pub fn with_ramp(
        spec: &Arc<WorkloadSpec>,
        load: Load,
        seed: u64,
        shard: Shard,
        ramp: Duration,
    ) -> Self {
        let mut workload = Self::empty(spec, load, seed, shard, spec.lead_s());
        workload.resume_sessions();
        if let Load::Closed(users) = load {
            for user in 0..users.get() {
                let due =
                    Timestamp::ZERO.after(ramp.mul_f64(f64::from(user) / f64::from(users.get())));
                if shard.has(u64::from(user)) {
                    workload.begin(u64::from(user), due);
                }
            }
        }
        workload.fetch();
        workload
    }

    /// Like [`Workload::new`] in an open loop, with no session under way at its start.
    pub(crate) fn from_cold(spec: &Arc<WorkloadSpec>, per_second: f64, seed: u64) -> Self {
        let mut workload = Self::empty(spec, Load::Open { per_second }, seed, Shard::WHOLE, 0.0);
        workload.fetch();
        workload
    }

    fn empty(spec: &Arc<WorkloadSpec>, load: Load, seed: u64, shard: Shard, lead_s: f64) -> Self {
        let source = match load {
            Load::Closed(users) => Source::Users { count: users.get() },
            Load::Open { per_second } => {
                Source::Schedule(schedule(spec, per_second, seed).with_lead(lead_s))
            }
        };
        Self {
            spec: Arc::clone(spec),
            seed,
            stride: spec.longest_session(),
            shard,
            source,
            sessions: BTreeMap::new(),
            waiting: BinaryHeap::new(),
            elsewhere: BinaryHeap::new(),
            seen: SeenPrefixes::default(),
        }
    }

    /// Lets the sessions that began before the load point go on within it, as if their earlier
    /// steps had been answered at once. Without them the rate of requests would be reached only
    /// when as many sessions end as begin.
    fn resume_sessions(&mut self) {
        while let Source::Schedule(schedule) = &mut self.source {
            let Some((number, began_s)) = schedule.peek_seconds().filter(|(_, at)| *at < 0.0)
            else {
                return;
            };
            schedule.advance();
            let Some(mut session) = self.scripts().open(number) else {
                return;
            };
            let mut at_s = began_s;
            while at_s < 0.0
                && let Some(wait) = self.scripts().next(&mut session)
            {
                at_s += wait.as_secs_f64();
            }
            let Ok(short) = u32::try_from(number) else {
                return;
            };
            if at_s < 0.0 {
                continue;
            }
            let due = Timestamp::from_seconds(at_s);
            if self.shard.has(number) {
                session.skipped = session.step;
                session.replies.clear();
                self.sessions.insert(short, session);
                self.waiting.push(Reverse((due, short)));
            } else {
                self.elsewhere.push(Reverse((due, short)));
            }
        }
    }

    /// When the next request is due. `None`: nothing until a request in flight ends, or nothing
    /// ever ([`Workload::exhausted`]).
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.waiting.peek().map(|Reverse((due, _))| *due)
    }

    /// Whether no request will ever be due again and none is in flight.
    #[must_use]
    pub fn exhausted(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Hands out the earliest request that is due at `now`, if there is one. However late it is
    /// taken, it keeps its due time, and none is ever left out.
    pub fn take(&mut self, now: Timestamp) -> Option<PlannedRequest> {
        let &Reverse((due, number)) = self.waiting.peek()?;
        if due > now {
            return None;
        }
        self.waiting.pop();
        let request = self.plan(number, due);
        self.fetch();
        request
    }

    /// Tells that the request of `session` that is in flight has ended at `at`: its next step, or
    /// the same user's next session, falls due.
    pub fn ended(&mut self, session: u32, at: Timestamp) {
        self.release(session, at, true);
    }

    /// Tells that the request of `session` failed at `at` and that the session ends with it.
    pub fn abandoned(&mut self, session: u32, at: Timestamp) {
        self.release(session, at, false);
    }

    fn scripts(&self) -> Scripts<'_> {
        Scripts {
            spec: &self.spec,
            seed: self.seed,
            stride: self.stride,
        }
    }

    fn plan(&mut self, number: u32, due: Timestamp) -> Option<PlannedRequest> {
        while let Some(&Reverse(other)) = self.elsewhere.peek()
            && other < (due, number)
        {
            self.elsewhere.pop();
            if let Some(session) = self.scripts().open(u64::from(other.1)) {
                self.seen.add(&session.segments, session.shareable);
            }
        }
        let session = self.sessions.get(&number)?;
        let cached_tokens = self
            .seen
            .reusable(&session.segments, self.spec.block_tokens);
        self.seen.add(&session.segments, session.shareable);
        let prompt = Prompt::new(session.segments.as_slice());
        Some(PlannedRequest {
            index: self.scripts().index(session.number, session.step),
            due,
            class: self.spec.class.clone(),
            tenant: self.spec.tenant.clone(),
            session: number,
            step: session.step - session.skipped,
            steps: session.steps - session.skipped,
            input_tokens: prompt.tokens(),
            output_tokens: session.output_tokens,
            cached_tokens,
            prompt,
            replies: session.replies.clone(),
        })
    }

    fn release(&mut self, number: u32, at: Timestamp, go_on: bool) {
        let Some(mut session) = self.sessions.remove(&number) else {
            return;
        };
        let open = matches!(self.source, Source::Schedule(_));
        let wait = if go_on {
            self.scripts().next(&mut session)
        } else {
            None
        };
        if let Some(wait) = wait {
            if self.spec.history() == History::Served {
                let upto_reply = session.segments.len() - 1;
                self.seen.add(&session.segments, upto_reply);
            }
            let due = if open { at.after(wait) } else { at };
            self.sessions.insert(number, session);
            self.waiting.push(Reverse((due, number)));
        } else {
            // The rows of a trace may ask for the same blocks again; drawn text is nobody else's.
            if matches!(self.spec.shape, Shape::Drawn { .. }) {
                let shared = self.scripts().shared_segments();
                self.seen.forget(&session.segments, shared);
            }
            if let Source::Users { count } = self.source {
                self.begin(session.number + u64::from(count), at);
            }
        }
    }

    /// Prefixes that are remembered.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.seen.len()
    }

    /// Whether `session` has a request in flight or to come.
    #[must_use]
    pub fn goes_on(&self, session: u32) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Opens a session and lets its first step wait for `due`. Past the last row nothing happens.
    fn begin(&mut self, number: u64, due: Timestamp) -> bool {
        let Ok(short) = u32::try_from(number) else {
            return false;
        };
        let Some(session) = self.scripts().open(number) else {
            return false;
        };
        self.sessions.insert(short, session);
        self.waiting.push(Reverse((due, short)));
        true
    }

    /// Takes arrivals off the schedule until the earliest of this share waits. Prefixes that
    /// other shares ask for on the way are remembered, so that all shares plan the same hits.
    fn fetch(&mut self) {
        while let Source::Schedule(schedule) = &mut self.source {
            let Some((number, due)) = schedule.peek() else {
                return;
            };
            if self.next_due().is_some_and(|next| next <= due) {
                return;
            }
            let Source::Schedule(schedule) = &mut self.source else {
                return;
            };
            schedule.advance();
            if self.shard.has(number) {
                if !self.begin(number, due) {
                    return;
                }
            } else if let Some(session) = self.scripts().open(number) {
                self.seen.add(&session.segments, session.shareable);
            } else {
                return;
            }
        }
    }
}

pub(crate) fn schedule(spec: &WorkloadSpec, per_second: f64, seed: u64) -> Schedule {
    let rate = per_second / spec.mean_steps();
    let profile = spec.profile.clone();
    match (&spec.arrivals, &spec.shape) {
        (Arrivals::Trace, Shape::Rows(rows)) => {
            let times: Vec<u64> = rows.sessions.iter().map(|s| s.arrival_ns).collect();
            Schedule::given(&times, rate, profile, rows.repeat)
        }
        (Arrivals::Gamma { cv }, _) => Schedule::renewal(Some(*cv), rate, profile, seed),
        _ => Schedule::renewal(None, rate, profile, seed),
    }
}
