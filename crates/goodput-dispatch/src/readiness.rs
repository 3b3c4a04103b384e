//! The life of a replica: from its start through warm-up, failures and pauses to its end.

use std::time::Duration;

use goodput_record::Timestamp;

use crate::{
    config::{Config, Ejection},
    dispatcher::Dispatcher,
    fleet::{Limits, ReplicaState, Role},
    request::{Ended, Event, ReplicaId},
};

impl Config {
    /// Nobody, and nothing, is put off for longer.
    pub(crate) fn longest_pause(&self) -> Duration {
        let rule = self.ejection.unwrap_or_default();
        let Ejection { longest_pause, .. } = rule;
        longest_pause
    }
}

impl Dispatcher {
    /// A replica has been ordered and starts. `weight`: its speed relative to the others', above 0.
    /// `None`: 65,535 are there already.
    pub fn join(&mut self, role: Role, limits: Limits, weight: f64) -> Option<ReplicaId> {
        self.fleet.join(role, limits, weight)
    }

    /// A replica answers now: it is probed where there is a gate, else ready.
    pub fn up(&mut self, now: Timestamp, replica: ReplicaId) {
        self.reach(now);
        if self.fleet.state(replica) == ReplicaState::Starting {
            self.warm_up(replica, false);
        }
    }

    /// A replica's process is lost: what it had in flight is to be settled or retried one by one, its
    /// cache is gone, and it is starting again.
    pub fn down(&mut self, now: Timestamp, replica: ReplicaId) {
        self.reach(now);
        if self.fleet.state(replica) == ReplicaState::Gone {
            return;
        }
        self.fleet.set_state(replica, ReplicaState::Starting);
        self.probes.retain(|probe| probe.1 != replica);
        if let Some(affinity) = &mut self.affinity {
            affinity.forget(replica);
        }
    }

    /// A replica is to go: it gets nothing new, and is gone when what it has has ended.
    pub fn drain(&mut self, now: Timestamp, replica: ReplicaId) {
        self.reach(now);
        if self.fleet.state(replica) == ReplicaState::Gone {
            return;
        }
        self.fleet.set_state(replica, ReplicaState::Draining);
        self.probes.retain(|probe| probe.1 != replica);
        if self.fleet.in_hand(replica).0 == 0 {
            self.gone(replica);
        }
    }

    /// A warm-up request has ended: with this TTFT, or without one.
    pub fn probed(&mut self, now: Timestamp, replica: ReplicaId, ttft: Option<Duration>) {
        self.reach(now);
        if self.fleet.state(replica) != ReplicaState::Warming {
            return;
        }
        let gate = self.config.gate.unwrap_or_default();
        if self.fleet.probed(replica, ttft, &gate) {
            self.ready(replica, false);
        } else if ttft.is_some() {
            self.outbox.push_back(Event::Probe { replica });
        } else {
            let again = self.now.after(gate.retry_after);
            self.probes.insert((again, replica));
        }
    }

    fn warm_up(&mut self, replica: ReplicaId, on_probation: bool) {
        if self.config.gate.is_none() {
            self.ready(replica, on_probation);
            return;
        }
        self.fleet.set_state(replica, ReplicaState::Warming);
        self.outbox.push_back(Event::Probe { replica });
    }

    fn ready(&mut self, replica: ReplicaId, on_probation: bool) {
        self.fleet.begin(replica, on_probation);
        self.outbox.push_back(Event::Ready { replica });
        self.pump();
    }

    fn gone(&mut self, replica: ReplicaId) {
        self.fleet.set_state(replica, ReplicaState::Gone);
        if let Some(affinity) = &mut self.affinity {
            affinity.forget(replica);
        }
        self.outbox.push_back(Event::Drained { replica });
    }

    /// Ends what is due of pauses, and sends probes that were put off.
    pub(crate) fn wake_replicas(&mut self) {
        while let Some((at, replica)) = self.fleet.next_wake()
            && at <= self.now
        {
            if self.fleet.was_ejected(replica) {
                self.warm_up(replica, true);
            } else {
                self.fleet.set_state(replica, ReplicaState::Ready);
                self.outbox.push_back(Event::Ready { replica });
            }
        }
        while let Some(&(at, replica)) = self.probes.first()
            && at <= self.now
        {
            self.probes.pop_first();
            self.outbox.push_back(Event::Probe { replica });
        }
    }

    /// A request has left a replica that had so much of its work, and it says something of the
    /// replica how.
    pub(crate) fn leave(&mut self, replica: ReplicaId, booked: u64, how: Ended) {
        match how {
            Ended::Ok => self.fleet.succeeded(replica),
            Ended::Cancelled => {}
            Ended::Failed => {
                if let Some(pause) = self.fleet.failed(replica, &self.config) {
                    self.leave_out(replica, pause);
                }
            }
            Ended::Refused { retry_after } => {
                let pause = retry_after.unwrap_or(Duration::from_secs(1));
                if self.fleet.state(replica) == ReplicaState::Ready {
                    self.leave_out(replica, pause.min(self.config.longest_pause()));
                }
            }
        }
        self.release(replica, booked);
    }

    pub(crate) fn release(&mut self, replica: ReplicaId, booked: u64) {
        if self.fleet.release(replica, booked) {
            self.gone(replica);
        }
    }

    fn leave_out(&mut self, replica: ReplicaId, pause: Duration) {
        let until = self.now.after(pause);
        self.fleet.set_state(replica, ReplicaState::LeftOut(until));
        self.outbox.push_back(Event::LeftOut { replica, until });
    }
}
