//! The dispatcher: offers in, decisions out.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use goodput_record::{Timestamp, nanos};
use goodput_stats::mix;

use crate::{
    affinity::{Affinity, landmarks},
    config::{Config, Order, Policy, Terms, Unsound, check_terms},
    fleet::{Fleet, Limits, ReplicaState, Role},
    pace::Pace,
    queue::Queue,
    request::{Counters, Ended, Event, Offer, ReplicaId, Route, TenantId, Ticket, Was, Why},
    slab::{Landmarks, Open, Slab, Stage},
    tenants::Tenants,
};

/// Sends requests to replicas, or lets them wait, or refuses them. See the crate's page.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    pub(crate) config: Config,
    pub(crate) now: Timestamp,
    pub(crate) open: Slab,
    pub(crate) fleet: Fleet,
    pub(crate) queue: Queue,
    pub(crate) tenants: Tenants,
    pub(crate) affinity: Option<Affinity>,
    /// Prefilled requests without a place to decode, as they came.
    pub(crate) handing: BTreeSet<(u64, u32)>,
    pub(crate) outbox: VecDeque<Event>,
    pub(crate) probes: BTreeSet<(Timestamp, ReplicaId)>,
    pub(crate) pace: Pace,
    pub(crate) counters: Counters,
    /// Requests of a class at replicas.
    pub(crate) class_in_flight: Vec<u32>,
    pub(crate) decisions: u64,
    pub(crate) closing: bool,
}

impl Dispatcher {
    /// A dispatcher without replicas.
    pub fn new(config: Config) -> Result<Self, Unsound> {
        config.check()?;
        let remembers =
            config.sticky_sessions.is_some() || matches!(config.policy, Policy::PrefixAffinity(_));
        Ok(Self {
            now: Timestamp::ZERO,
            open: Slab::default(),
            fleet: Fleet::new(&config),
            queue: Queue::new(&config.classes),
            tenants: Tenants::new(config.tenants, config.terms),
            affinity: remembers.then(|| Affinity::new(config.remembered)),
            handing: BTreeSet::new(),
            outbox: VecDeque::new(),
            probes: BTreeSet::new(),
            pace: Pace::default(),
            counters: Counters::default(),
            class_in_flight: vec![0; config.classes.len()],
            decisions: 0,
            closing: false,
            config,
        })
    }

    /// A request has come.
    pub fn offer(&mut self, now: Timestamp, offer: &Offer<'_>) -> Route {
        self.reach(now);
        self.counters.offered += 1;
        let tenant = self.tenants.place(offer.tenant);
        let work = offer.prefill_work.saturating_add(offer.decode_work);
        if self.closing {
            return self.shed(Why::Closing, self.config.longest_pause());
        }
        if let Err((why, wait)) = self.tenants.check(tenant, self.now, work) {
            let retry_after = wait.max(Duration::from_secs(1));
            return self.shed(why, retry_after);
        }
        let class = offer.class.min(self.last_class());
        let sends = self.may_send(class);
        let open = self.opened(offer, class, tenant);
        let by_prefix = matches!(self.config.policy, Policy::PrefixAffinity(_));
        let marks = if by_prefix {
            landmarks(offer.prefix)
        } else {
            Landmarks::NONE
        };
        let chosen = if sends {
            self.choose(&open, &marks)
        } else {
            None
        };
        let Some(replica) = chosen else {
            return self.wait(open, &marks);
        };
        self.tenants.open(tenant, self.now, work);
        let ticket = self.open.insert(open, &marks);
        self.send(ticket.slot, replica);
        Route::Send { ticket, replica }
    }

    fn opened(&self, offer: &Offer<'_>, class: u8, tenant: u32) -> Open {
        let rule = &self.config.classes[usize::from(class)];
        let work = offer.prefill_work.saturating_add(offer.decode_work);
        let key = match rule.order {
            Order::Fifo => 0,
            Order::Deadline => offer.deadline.map_or(u64::MAX, Timestamp::nanos),
            Order::ShortestFirst { ageing } => {
                let handicap = nanos(ageing).saturating_mul(work);
                self.now.nanos().saturating_add(handicap)
            }
        };
        let mut open = Open {
            generation: 0,
            stage: Stage::Waiting,
            id: offer.id,
            class,
            attempts: 0,
            tenant,
            seq: self.counters.offered,
            key,
            expires: self.now.after(rule.max_wait),
            prefill_work: offer.prefill_work,
            decode_work: offer.decode_work,
            booked: 0,
            avoid: None,
            session: None,
        };
        if self.config.sticky_sessions.is_some() {
            open.session = offer.session.map(|s| mix(s ^ SESSIONS));
        }
        open
    }

    /// Puts a request into the queue, if need be in another one's place.
    fn wait(&mut self, open: Open, marks: &Landmarks) -> Route {
        if let Some(retry_after) = self.hopeless(open.expires) {
            return self.shed(Why::NoReplica, retry_after);
        }
        let flow = self.flow(&open);
        let limit = self.config.classes[usize::from(open.class)].queue_limit;
        let class_full = self.queue.len_of(open.class) >= limit as usize;
        if class_full || self.queue.len() >= self.config.queue_limit {
            let victim = if class_full {
                self.queue.victim_within(open.class, flow)
            } else {
                self.queue.victim(open.class, flow)
            };
            let Some(victim) = victim else {
                let retry_after = self.retry_after(open.class);
                return self.shed(Why::QueueFull, retry_after);
            };
            self.displace(victim);
        }
        let (tenant, work, until) = (open.tenant, open.work(), open.expires);
        self.tenants.open(tenant, self.now, work);
        let ticket = self.open.insert(open, marks);
        self.queue.insert(flow, &open, ticket.slot);
        Route::Wait { ticket, until }
    }

    fn shed(&mut self, why: Why, retry_after: Duration) -> Route {
        self.counters.shed[why as usize] += 1;
        Route::Shed { why, retry_after }
    }

    /// When to come back, if no replica can be there before the request would expire.
    fn hopeless(&self, expires: Timestamp) -> Option<Duration> {
        if self.fleet.ready() > 0 || self.fleet.is_coming() {
            return None;
        }
        let wake = self.fleet.next_wake().map(|(at, _)| at);
        match wake {
            Some(at) if at <= expires => None,
            Some(at) => at.since(self.now),
            None => Some(self.config.longest_pause()),
        }
    }

    /// Time for what waits ahead of a new request of this class, or until a replica comes back.
    fn retry_after(&mut self, class: u8) -> Duration {
        if self.fleet.ready() == 0 {
            let wake = self
                .fleet
                .next_wake()
                .and_then(|(at, _)| at.since(self.now));
            return wake.unwrap_or_else(|| self.config.longest_pause());
        }
        let ahead = self.queue.work_ahead(class);
        self.pace.time_for(self.now, ahead)
    }

    fn displace(&mut self, slot: u32) {
        let open = *self.open.at(slot);
        let retry_after = self.retry_after(open.class);
        self.leave_queue(slot);
        if open.attempts == 0 {
            self.counters.shed[Why::Displaced as usize] += 1;
        } else {
            self.counters.settled += 1;
        }
        self.outbox.push_back(Event::Shed {
            id: open.id,
            why: Why::Displaced,
            retry_after,
        });
    }

    /// Takes a waiting request out of the books altogether.
    fn leave_queue(&mut self, slot: u32) {
        let flow = self.flow(self.open.at(slot));
        let open = self.open.remove(slot);
        self.queue.remove(flow, &open, slot);
        self.tenants.close(open.tenant, self.now, open.work(), 0);
    }

    /// A request that was sent has ended; its place is free again. `used`: the work it came to,
    /// where that is known better than predicted. `false`: the ticket's request is not at a
    /// replica, or no more; nothing happens.
    pub fn settle(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        how: Ended,
        used: Option<u64>,
    ) -> bool {
        self.reach(now);
        let Some(&open) = self.open.get(ticket) else {
            return false;
        };
        let (Stage::Sent(replica) | Stage::Handing(replica)) = open.stage else {
            return false;
        };
        self.handing.remove(&(open.seq, ticket.slot));
        self.open.remove(ticket.slot);
        self.counters.settled += 1;
        let used = used.unwrap_or_else(|| open.work());
        self.tenants.close(open.tenant, self.now, open.work(), used);
        if let Some(beyond) = used.checked_sub(open.work()).filter(|&w| w > 0) {
            let weight = self.tenants.weight(open.tenant);
            self.queue
                .correct(open.class, self.flow(&open), weight, beyond);
        }
        self.pace.done(self.now, used);
        self.class_in_flight[usize::from(open.class)] -= 1;
        self.leave(replica, open.booked, how);
        self.pump();
        true
    }

    /// The request's first token came. The replica has that much less to do, and the fleet's median
    /// TTFT one sample more. `ttft`: from its origin, as the readiness gate is to judge it.
    pub fn first_token(&mut self, now: Timestamp, ticket: Ticket, ttft: Duration) {
        self.reach(now);
        let Some(&open) = self.open.get(ticket) else {
            return;
        };
        let Stage::Sent(replica) = open.stage else {
            return;
        };
        self.fleet.sample(ttft);
        let done = open.prefill_work.min(open.booked);
        if done > 0 && self.fleet.role(replica) == Role::Whole {
            self.open.at_mut(ticket.slot).booked -= done;
            self.fleet.lighten(replica, done);
            self.pump();
        }
    }

    /// The attempt at a replica came to nothing before the client saw a token: the request is sent
    /// to another one, or waits for one, or is given up.
    pub fn retry(&mut self, now: Timestamp, ticket: Ticket, how: Ended) -> Route {
        self.reach(now);
        let found = self.open.get(ticket).copied();
        let Some((open, replica)) = found.and_then(|open| match open.stage {
            Stage::Sent(replica) | Stage::Handing(replica) => Some((open, replica)),
            Stage::Vacant | Stage::Waiting => None,
        }) else {
            return Route::Shed {
                why: Why::Attempts,
                retry_after: Duration::ZERO,
            };
        };
        if open.attempts >= self.config.attempts {
            self.settle(now, ticket, how, None);
            let retry_after = self.retry_after(open.class);
            return Route::Shed {
                why: Why::Attempts,
                retry_after,
            };
        }
        self.handing.remove(&(open.seq, ticket.slot));
        self.class_in_flight[usize::from(open.class)] -= 1;
        let place = self.open.at_mut(ticket.slot);
        (place.stage, place.avoid, place.booked) = (Stage::Waiting, Some(replica), 0);
        let waiting = *place;
        let flow = self.flow(&waiting);
        // It is in the queue while the replica is released, so that it keeps its place in the order.
        self.queue.insert(flow, &waiting, ticket.slot);
        self.leave(replica, open.booked, how);
        if let Some(retry_after) = self.hopeless(waiting.expires) {
            self.leave_queue(ticket.slot);
            self.counters.settled += 1;
            let why = Why::NoReplica;
            return Route::Shed { why, retry_after };
        }
        let until = waiting.expires;
        let route = self.pump_but(Some(ticket.slot));
        route.unwrap_or(Route::Wait { ticket, until })
    }

    /// Gives a request up, wherever it is.
    pub fn cancel(&mut self, now: Timestamp, ticket: Ticket) -> Was {
        self.reach(now);
        let Some(&open) = self.open.get(ticket) else {
            return Was::Over;
        };
        match open.stage {
            Stage::Vacant => Was::Over,
            Stage::Waiting => {
                self.leave_queue(ticket.slot);
                if open.attempts == 0 {
                    self.counters.cancelled += 1;
                } else {
                    self.counters.settled += 1;
                }
                self.pump();
                Was::Waiting
            }
            Stage::Sent(replica) | Stage::Handing(replica) => {
                self.settle(now, ticket, Ended::Cancelled, None);
                Was::At(replica)
            }
        }
    }

    /// A prefill replica has done its part: the request goes to a decode replica now, or waits for
    /// one, with its KV blocks where they are.
    pub fn hand_over(&mut self, now: Timestamp, ticket: Ticket) -> Route {
        self.reach(now);
        let found = self.open.get(ticket).map(|open| (open.stage, open.seq));
        let Some((Stage::Sent(from), seq)) = found else {
            return Route::Shed {
                why: Why::Attempts,
                retry_after: Duration::ZERO,
            };
        };
        self.fleet.succeeded(from);
        if self.handing.is_empty()
            && let Some(replica) = self.fleet.decode.least(None)
        {
            self.move_to_decode(ticket.slot, from, replica);
            self.pump();
            return Route::Send { ticket, replica };
        }
        self.open.at_mut(ticket.slot).stage = Stage::Handing(from);
        self.handing.insert((seq, ticket.slot));
        Route::Wait {
            ticket,
            until: Timestamp::FAR_FUTURE,
        }
    }

    /// Gives a tenant other terms than the usual ones.
    pub fn set_terms(&mut self, tenant: TenantId, terms: Terms) -> Result<(), Unsound> {
        check_terms(&terms)?;
        self.tenants.set_terms(tenant, terms);
        Ok(())
    }

    /// Changes what a replica may have in hand. What it has beyond that stays.
    pub fn set_limits(&mut self, now: Timestamp, replica: ReplicaId, limits: Limits) {
        self.reach(now);
        self.fleet.set_limits(replica, limits);
        self.pump();
    }

    /// Takes nothing new from now on. What waits goes on waiting, what is in flight ends.
    pub const fn close(&mut self) {
        self.closing = true;
    }

    /// When something happens without anybody's doing; then [`Dispatcher::poll`] is to be called.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        let wake = self.fleet.next_wake().map(|(at, _)| at);
        let probe = self.probes.first().map(|(at, _)| *at);
        if self.queue.len() == 0 && wake.is_none() && probe.is_none() {
            return None;
        }
        let expiry = self.queue.first_expiry().map(|(at, _)| at);
        [expiry, wake, probe].into_iter().flatten().min()
    }

    /// What has happened up to `now`, one event at a time. To be called until there is none after
    /// every other call that takes a time, and when [`Dispatcher::next_event`] is due.
    pub fn poll(&mut self, now: Timestamp) -> Option<Event> {
        self.reach(now);
        if let Some(event) = self.outbox.pop_front() {
            return Some(event);
        }
        if self.queue.len() == 0 && self.handing.is_empty() && self.next_event().is_none() {
            return None;
        }
        self.on_time();
        self.outbox.pop_front()
    }

    /// What was counted so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Requests in the queue.
    #[must_use]
    pub const fn waiting(&self) -> u32 {
        self.queue.len()
    }

    /// Requests open: waiting, or at a replica.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Requests of a tenant that are open.
    #[must_use]
    pub fn open_of(&self, tenant: TenantId) -> u32 {
        self.tenants.open_of(tenant)
    }

    /// What a replica is at.
    #[must_use]
    pub fn state(&self, replica: ReplicaId) -> ReplicaState {
        self.fleet.state(replica)
    }

    /// Requests that a replica has in flight, and its outstanding work.
    #[must_use]
    pub fn in_hand(&self, replica: ReplicaId) -> (u32, u64) {
        self.fleet.in_hand(replica)
    }

    /// Time never goes back: an earlier instant counts as the latest one.
    pub(crate) fn reach(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    fn last_class(&self) -> u8 {
        u8::try_from(self.config.classes.len() - 1).unwrap_or(u8::MAX)
    }

    /// Fires what is due.
    fn on_time(&mut self) {
        while let Some((at, slot)) = self.queue.first_expiry()
            && at <= self.now
        {
            let open = *self.open.at(slot);
            let retry_after = self.retry_after(open.class);
            self.leave_queue(slot);
            if open.attempts == 0 {
                self.counters.expired += 1;
            } else {
                self.counters.settled += 1;
            }
            let id = open.id;
            self.outbox.push_back(Event::Expired { id, retry_after });
        }
        self.wake_replicas();
        self.pump();
    }
}

/// Sets hashes of sessions apart from those of prompts.
const SESSIONS: u64 = 0x7365_7373_696f_6e73;
