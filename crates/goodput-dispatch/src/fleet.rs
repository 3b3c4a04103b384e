//! The replicas: their state, what they have in hand, and who can be sent to.

use std::{collections::BTreeSet, time::Duration};

use goodput_record::{Timestamp, nanos};
use goodput_stats::{Draws, Stream, whole_u32};

use crate::{
    config::{Config, Gate},
    request::ReplicaId,
    ring::Ring,
};

/// What a replica does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// All of it.
    #[default]
    Whole,
    /// Up to the first token; then [`crate::Dispatcher::hand_over`].
    Prefill,
    /// From the first token on.
    Decode,
}

/// How much a replica may have in hand. It is sent a request while it is below both, so the last
/// one may take it over the limit on work: else a request larger than that limit would never go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests in flight.
    pub in_flight: u32,
    /// Outstanding work, in the dispatcher's unit.
    pub work: u64,
}

impl Limits {
    /// So many requests, whatever their work.
    #[must_use]
    pub const fn in_flight(in_flight: u32) -> Self {
        Self {
            in_flight,
            work: u64::MAX,
        }
    }
}

/// What a replica is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// Its place is free: it is gone, or never was.
    Gone,
    /// It is starting, and answers nothing.
    Starting,
    /// It answers, but only probes are sent.
    Warming,
    /// It is sent requests.
    Ready,
    /// It is left out until then: it failed, or asked for a pause.
    LeftOut(Timestamp),
    /// It finishes what it has.
    Draining,
}

#[derive(Clone, Copy, Debug)]
struct Replica {
    state: ReplicaState,
    role: Role,
    limits: Limits,
    /// Its speed relative to the others', in 1024ths.
    weight: u32,
    in_flight: u32,
    work: u64,
    last_sent: u64,
    /// Requests that it may have in flight while it proves itself.
    allowance: u32,
    failures: u32,
    /// Times in a row that it was left out for failures.
    ejections: u32,
    warm_probes: u32,
    fastest_probe: Option<Duration>,
}

impl Replica {
    /// Smaller is better. Ties go to the one not sent to for the longest.
    fn load(&self) -> Load {
        let scaled = u128::from(self.work) * u128::from(NOMINAL) / u128::from(self.weight.max(1));
        Load {
            work: u64::try_from(scaled).unwrap_or(u64::MAX),
            last_sent: self.last_sent,
        }
    }

    fn has_room(&self) -> bool {
        self.state == ReplicaState::Ready
            && self.in_flight < self.limits.in_flight.min(self.allowance)
            && self.work < self.limits.work
    }
}

/// The weight of a replica like the others.
pub(crate) const NOMINAL: u32 = 1 << 10;

/// How busy a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    pub(crate) work: u64,
    last_sent: u64,
}

/// TTFTs behind the fleet's median.
const SAMPLES: usize = 64;
/// Below so many there is no median.
const FEWEST_SAMPLES: usize = 8;

/// All replicas.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    replicas: Vec<Replica>,
    /// For requests that begin, and for those that were prefilled elsewhere.
    pub(crate) entry: Ring,
    pub(crate) decode: Ring,
    wakes: BTreeSet<(Timestamp, ReplicaId)>,
    ready: [u32; 2],
    left_out: u32,
    work: [u64; 2],
    slots: u64,
    sends: u64,
    ttfts: [u64; SAMPLES],
    ttft_count: usize,
    slow_start: u32,
}

/// 0 for replicas that begin requests, 1 for those that only decode.
const fn side(role: Role) -> usize {
    match role {
        Role::Whole | Role::Prefill => 0,
        Role::Decode => 1,
    }
}

impl Fleet {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            replicas: Vec::new(),
            entry: Ring::default(),
            decode: Ring::default(),
            wakes: BTreeSet::new(),
            ready: [0; 2],
            left_out: 0,
            work: [0; 2],
            slots: 0,
            sends: 0,
            ttfts: [0; SAMPLES],
            ttft_count: 0,
            slow_start: config.slow_start.unwrap_or(u32::MAX).max(1),
        }
    }

    /// A place for a replica that starts.
    pub(crate) fn join(&mut self, role: Role, limits: Limits, weight: f64) -> Option<ReplicaId> {
        let free = |r: &Replica| r.state == ReplicaState::Gone && r.in_flight == 0;
        let place = self.replicas.iter().position(free);
        let place = place.unwrap_or(self.replicas.len());
        let id = ReplicaId(u16::try_from(place).ok().filter(|&id| id < u16::MAX)?);
        let replica = Replica {
            state: ReplicaState::Starting,
            role,
            limits,
            weight: whole_u32(weight * f64::from(NOMINAL)).max(1),
            in_flight: 0,
            work: 0,
            last_sent: 0,
            allowance: u32::MAX,
            failures: 0,
            ejections: 0,
            warm_probes: 0,
            fastest_probe: None,
        };
        if place == self.replicas.len() {
            self.replicas.push(replica);
        } else {
            self.replicas[place] = replica;
        }
        Some(id)
    }

    pub(crate) fn state(&self, id: ReplicaId) -> ReplicaState {
        let replica = self.replicas.get(id.index());
        replica.map_or(ReplicaState::Gone, |r| r.state)
    }

    pub(crate) fn role(&self, id: ReplicaId) -> Role {
        let replica = self.replicas.get(id.index());
        replica.map_or(Role::Whole, |r| r.role)
    }

    /// Requests in flight and outstanding work.
    pub(crate) fn in_hand(&self, id: ReplicaId) -> (u32, u64) {
        let replica = self.replicas.get(id.index());
        replica.map_or((0, 0), |r| (r.in_flight, r.work))
    }

    pub(crate) fn load(&self, id: ReplicaId) -> Load {
        self.replicas[id.index()].load()
    }

    /// Moves a replica to another state.
    pub(crate) fn set_state(&mut self, id: ReplicaId, state: ReplicaState) {
        let Some(replica) = self.replicas.get_mut(id.index()) else {
            return;
        };
        let side = side(replica.role);
        let before = std::mem::replace(&mut replica.state, state);
        if let ReplicaState::LeftOut(until) = before {
            self.wakes.remove(&(until, id));
            self.left_out -= 1;
        }
        if let ReplicaState::LeftOut(until) = state {
            self.wakes.insert((until, id));
            self.left_out += 1;
        }
        let (was, is) = (before == ReplicaState::Ready, state == ReplicaState::Ready);
        if was && !is {
            self.ready[side] -= 1;
            self.work[side] -= replica.work;
            self.slots -= u64::from(replica.limits.in_flight) * u64::from(side == 0);
        } else if is && !was {
            self.ready[side] += 1;
            self.work[side] += replica.work;
            self.slots += u64::from(replica.limits.in_flight) * u64::from(side == 0);
        }
        if state == ReplicaState::Starting {
            (replica.warm_probes, replica.fastest_probe) = (0, None);
            (replica.failures, replica.ejections) = (0, 0);
        }
        self.refresh(id);
    }

    /// A replica becomes ready, and begins slowly where that is asked for.
    pub(crate) fn begin(&mut self, id: ReplicaId, on_probation: bool) {
        if let Some(replica) = self.replicas.get_mut(id.index()) {
            replica.allowance = if on_probation { 1 } else { self.slow_start };
        }
        self.set_state(id, ReplicaState::Ready);
    }

    pub(crate) fn set_limits(&mut self, id: ReplicaId, limits: Limits) {
        let Some(replica) = self.replicas.get_mut(id.index()) else {
            return;
        };
        let before = std::mem::replace(&mut replica.limits, limits);
        if replica.state == ReplicaState::Ready && side(replica.role) == 0 {
            self.slots -= u64::from(before.in_flight);
            self.slots += u64::from(limits.in_flight);
        }
        self.refresh(id);
    }

    /// Tells the ring whether the replica can be sent to, and how busy it is.
    fn refresh(&mut self, id: ReplicaId) {
        let replica = &self.replicas[id.index()];
        let load = replica.has_room().then(|| replica.load());
        match replica.role {
            Role::Whole | Role::Prefill => self.entry.set(id, load),
            Role::Decode => self.decode.set(id, load),
        }
    }

    /// A request is sent.
    pub(crate) fn take(&mut self, id: ReplicaId, work: u64) {
        self.sends += 1;
        let sends = self.sends;
        let replica = &mut self.replicas[id.index()];
        replica.in_flight += 1;
        replica.work = replica.work.saturating_add(work);
        replica.last_sent = sends;
        if replica.state == ReplicaState::Ready {
            let total = &mut self.work[side(replica.role)];
            *total = total.saturating_add(work);
        }
        self.refresh(id);
    }

    /// Part of a request's work is done.
    pub(crate) fn lighten(&mut self, id: ReplicaId, work: u64) {
        let replica = &mut self.replicas[id.index()];
        replica.work = replica.work.saturating_sub(work);
        if replica.state == ReplicaState::Ready {
            let total = &mut self.work[side(replica.role)];
            *total = total.saturating_sub(work);
        }
        self.refresh(id);
    }

    /// A request has left the replica. Whether a draining one has nothing left.
    pub(crate) fn release(&mut self, id: ReplicaId, work: u64) -> bool {
        self.replicas[id.index()].in_flight -= 1;
        self.lighten(id, work);
        let replica = &self.replicas[id.index()];
        replica.state == ReplicaState::Draining && replica.in_flight == 0
    }

    /// An answer came: the replica has proven itself once more.
    pub(crate) fn succeeded(&mut self, id: ReplicaId) {
        let slow_start = self.slow_start;
        let replica = &mut self.replicas[id.index()];
        (replica.failures, replica.ejections) = (0, 0);
        if replica.allowance < u32::MAX {
            let grown = replica.allowance.saturating_add(1).max(slow_start);
            let enough = grown >= replica.limits.in_flight;
            replica.allowance = if enough { u32::MAX } else { grown };
            self.refresh(id);
        }
    }

    /// A failure. For how long the replica is left out, if it is.
    pub(crate) fn failed(&mut self, id: ReplicaId, config: &Config) -> Option<Duration> {
        let rule = config.ejection?;
        let all = self.ready[0] + self.ready[1] + self.left_out;
        let most = f64::from(all) * rule.at_most;
        let allowed = f64::from(self.left_out + 1) <= most;
        let replica = &mut self.replicas[id.index()];
        replica.failures = replica.failures.saturating_add(1);
        let proving = replica.allowance == 1 && replica.ejections > 0;
        let enough = proving || replica.failures >= rule.failures.max(1);
        if !enough || !allowed || replica.state != ReplicaState::Ready {
            return None;
        }
        let doublings = replica.ejections.min(20);
        replica.ejections += 1;
        replica.failures = 0;
        let pause = rule.pause.saturating_mul(1 << doublings);
        Some(pause.min(rule.longest_pause))
    }

    /// Whether a replica was left out for failures, and not because it asked for a pause.
    pub(crate) fn was_ejected(&self, id: ReplicaId) -> bool {
        self.replicas[id.index()].ejections > 0
    }

    /// The next replica whose pause is over, and when.
    pub(crate) fn next_wake(&self) -> Option<(Timestamp, ReplicaId)> {
        self.wakes.first().copied()
    }

    /// Replicas that take whole requests or begin them: how many are ready.
    pub(crate) fn ready(&self) -> u32 {
        self.ready[0]
    }

    /// Whether a replica starts or warms up, so that waiting may help however long it takes.
    pub(crate) fn is_coming(&self) -> bool {
        let comes = |r: &Replica| {
            matches!(r.state, ReplicaState::Starting | ReplicaState::Warming) && side(r.role) == 0
        };
        self.replicas.iter().any(comes)
    }

    /// Requests that all ready replicas may have in flight.
    pub(crate) const fn slots(&self) -> u64 {
        self.slots
    }

    /// Mean outstanding work of the ready replicas that begin requests, if `more` came.
    pub(crate) fn mean_work(&self, more: u64) -> u64 {
        self.work[0].saturating_add(more) / u64::from(self.ready[0].max(1))
    }

    /// Remembers a TTFT for the median.
    pub(crate) fn sample(&mut self, ttft: Duration) {
        self.ttfts[self.ttft_count % SAMPLES] = nanos(ttft);
        self.ttft_count += 1;
    }

    fn median_ttft(&self) -> Option<Duration> {
        let count = self.ttft_count.min(SAMPLES);
        if count < FEWEST_SAMPLES {
            return None;
        }
        let mut sorted = self.ttfts;
        let (_, median, _) = sorted[..count].select_nth_unstable(count / 2);
        Some(Duration::from_nanos(*median))
    }

    /// Books a probe's TTFT. Whether the replica is warm now.
    pub(crate) fn probed(&mut self, id: ReplicaId, ttft: Option<Duration>, gate: &Gate) -> bool {
        let median = self.median_ttft();
        let replica = &mut self.replicas[id.index()];
        let Some(ttft) = ttft else {
            replica.warm_probes = 0;
            return false;
        };
        let fastest = replica.fastest_probe.map_or(ttft, |f| f.min(ttft));
        let leap = replica
            .fastest_probe
            .is_some_and(|before| before > fastest.mul_f64(gate.within));
        replica.fastest_probe = Some(fastest);
        let reference = median.unwrap_or(fastest);
        if ttft > reference.mul_f64(gate.within) {
            replica.warm_probes = 0;
        } else if median.is_none() && leap {
            // What came before was measured against a slower one, and was cold.
            replica.warm_probes = 1;
        } else {
            replica.warm_probes += 1;
        }
        replica.warm_probes >= gate.probes.max(1)
    }

    /// One of the replicas with room on this side, with equal chances.
    pub(crate) fn any(&self, seed: u64, decision: u64) -> Option<ReplicaId> {
        let room = self.entry.len();
        let mut draws = Draws::new(seed, ROUTING, decision);
        (room > 0).then(|| self.entry.nth(below(&mut draws, room)))?
    }

    /// Two different ones, the better first; the same twice where there is only one.
    pub(crate) fn better_of_two(&self, seed: u64, decision: u64) -> Option<ReplicaId> {
        let room = self.entry.len();
        if room < 2 {
            return self.entry.nth(0);
        }
        let mut draws = Draws::new(seed, ROUTING, decision);
        let first = below(&mut draws, room);
        let second = (first + 1 + below(&mut draws, room - 1)) % room;
        let (a, b) = (self.entry.nth(first)?, self.entry.nth(second)?);
        Some(if self.load(b) < self.load(a) { b } else { a })
    }
}

/// Draws of routing.
const ROUTING: Stream = Stream(0x726f_7574);

/// A whole number below `count`, at least 1, with chances equal to one part in 2^32.
fn below(draws: &mut Draws, count: u32) -> u32 {
    let wide = (draws.bits() >> 32) * u64::from(count);
    u32::try_from(wide >> 32).unwrap_or(0)
}
