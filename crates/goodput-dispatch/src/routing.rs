//! From a request to a replica.

use crate::{
    config::{Guard, Policy},
    dispatcher::Dispatcher,
    fleet::Role,
    request::{Event, ReplicaId, Route},
    slab::{Landmarks, Open, Stage},
};

impl Dispatcher {
    /// The place of a request's tenant in its class.
    pub(crate) fn flow(&self, open: &Open) -> u32 {
        if self.config.fair_tenants {
            open.tenant
        } else {
            0
        }
    }

    /// Whether a class may have one more request at the replicas. (Whoever waits waits for want of
    /// that or of a replica, so a newcomer overtakes nobody.)
    pub(crate) fn may_send(&self, class: u8) -> bool {
        let class = usize::from(class);
        let share = self.config.classes[class].in_flight_share;
        if share >= 1.0 {
            return true;
        }
        let most = (share * self.fleet.slots() as f64).max(1.0);
        f64::from(self.class_in_flight[class]) + 1.0 <= most
    }

    /// A replica with room, by the policy.
    pub(crate) fn choose(&mut self, open: &Open, marks: &Landmarks) -> Option<ReplicaId> {
        if self.fleet.entry.len() == 0 {
            return None;
        }
        self.decisions += 1;
        if let (Some(guard), Some(hash)) = (self.config.sticky_sessions, open.session)
            && let Some(home) = self.home(hash, open, guard)
        {
            return Some(home);
        }
        let decision = (self.config.seed, self.decisions);
        let chosen = match self.config.policy {
            Policy::RoundRobin => self.fleet.entry.next(),
            Policy::Random => self.fleet.any(decision.0, decision.1),
            Policy::LeastWork => self.fleet.entry.least(open.avoid),
            Policy::PowerOfTwo => self.fleet.better_of_two(decision.0, decision.1),
            Policy::PrefixAffinity(guard) => {
                let mut deepest_first = marks.hashes().iter().rev();
                deepest_first.find_map(|&hash| self.home(hash, open, guard))
            }
        };
        match chosen {
            Some(replica) if open.avoid != Some(replica) => Some(replica),
            _ => self.fleet.entry.least(open.avoid),
        }
    }

    /// The least busy of the replicas that know a hash, if it has room and is not overloaded.
    fn home(&self, hash: u64, open: &Open, guard: Guard) -> Option<ReplicaId> {
        let usable = |&id: &ReplicaId| self.fleet.entry.has(id) && open.avoid != Some(id);
        let homes = self.affinity.as_ref()?.homes(hash).filter(usable);
        let home = homes.min_by_key(|&id| self.fleet.load(id))?;
        let work = self.fleet.load(home).work.saturating_add(open.work());
        let mean = self.fleet.mean_work(open.work());
        // One request alone is above the mean of several replicas, and may go home all the same.
        let most = guard.factor * mean.max(open.work()) as f64 + guard.slack as f64;
        (work as f64 <= most).then_some(home)
    }

    /// Books a request at a replica.
    pub(crate) fn send(&mut self, slot: u32, replica: ReplicaId) {
        let whole = self.fleet.role(replica) == Role::Whole;
        let open = self.open.at_mut(slot);
        open.booked = if whole {
            open.work()
        } else {
            open.prefill_work
        };
        open.stage = Stage::Sent(replica);
        open.attempts = open.attempts.saturating_add(1);
        let open = *open;
        if open.attempts == 1 {
            self.counters.sent += 1;
        } else {
            self.counters.retries += 1;
        }
        self.class_in_flight[usize::from(open.class)] += 1;
        let weight = self.tenants.weight(open.tenant);
        self.queue
            .sent(open.class, self.flow(&open), weight, open.work());
        self.fleet.take(replica, open.booked);
        if let Some(affinity) = &mut self.affinity {
            let marks = self.open.landmarks(slot);
            for &hash in open.session.iter().chain(marks.hashes()) {
                affinity.learn(hash, replica);
            }
        }
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn pump(&mut self) {
        self.pump_but(None);
    }

    /// The same; what becomes of the request in `own` is returned instead of told as an event.
    pub(crate) fn pump_but(&mut self, own: Option<u32>) -> Option<Route> {
        let mut route = None;
        if self.queue.len() == 0 && self.handing.is_empty() {
            return route;
        }
        while let Some(&(_, slot)) = self.handing.first() {
            let Some(replica) = self.fleet.decode.least(None) else {
                break;
            };
            if let Stage::Handing(from) = self.open.at(slot).stage {
                self.move_to_decode(slot, from, replica);
                self.tell_sent(slot, replica);
            }
            self.handing.pop_first();
        }
        while self.fleet.entry.len() > 0 {
            let work = |slot| self.open.at(slot).work();
            let next = self.queue.next(|class| self.may_send(class), work);
            let Some(slot) = next else {
                break;
            };
            let open = *self.open.at(slot);
            let marks = self.open.landmarks(slot);
            let Some(replica) = self.choose(&open, &marks) else {
                break;
            };
            self.queue.remove(self.flow(&open), &open, slot);
            self.send(slot, replica);
            if own == Some(slot) {
                let ticket = self.open.ticket(slot);
                route = Some(Route::Send { ticket, replica });
            } else {
                self.tell_sent(slot, replica);
            }
        }
        route
    }

    fn tell_sent(&mut self, slot: u32, replica: ReplicaId) {
        let (id, ticket) = (self.open.at(slot).id, self.open.ticket(slot));
        self.outbox.push_back(Event::Send {
            id,
            ticket,
            replica,
        });
    }

    /// From its prefill replica to one that decodes.
    pub(crate) fn move_to_decode(&mut self, slot: u32, from: ReplicaId, to: ReplicaId) {
        let open = self.open.at_mut(slot);
        let before = std::mem::replace(&mut open.booked, open.decode_work);
        open.stage = Stage::Sent(to);
        let work = open.booked;
        self.counters.handed_over += 1;
        self.fleet.take(to, work);
        self.release(from, before);
    }
}
