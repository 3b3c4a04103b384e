//! What a request goes through in a pool, from its dispatch to its end.

use std::cmp::Reverse;

use goodput_dispatch::{Ended as Settled, ReplicaId, Role, Route, Was};
use goodput_record::{Outcome, TimeoutPhase, Timestamp};
use goodput_sim::{EngineEvents, EngineRequest};
use goodput_stats::{Draws, Stream, sampler::exponential};

use crate::pool::{
    desk::{PROBES, place_of},
    run::{Limit, Run},
};

/// Draws of clients that leave.
const LEAVING: Stream = Stream(0x006c_6561_7665);

impl Run<'_> {
    pub(super) fn watch_patience(&mut self, index: u64, origin: Timestamp, stream: usize) {
        let patience = self.plan.streams[stream].patience;
        let leaves = patience.leaving.and_then(|rule| {
            let mut draws = Draws::new(self.plan.seed, LEAVING, index);
            let leaves = draws.unit() < rule.share;
            leaves.then(|| rule.mean.mul_f64(exponential(&mut draws)))
        });
        let limits = [
            (patience.first_token, Limit::FirstToken),
            (patience.total, Limit::Total),
            (leaves, Limit::Leaves),
        ];
        for (span, limit) in limits {
            if let Some(span) = span {
                self.limits
                    .push(Reverse((origin.after(span), index, limit)));
            }
        }
    }

    /// Puts a request into an engine.
    pub(super) fn submit(&mut self, now: Timestamp, index: u64, place: usize) {
        self.desk.dispatched(index, now, place);
        let Some(open) = self.desk.get_mut(index) else {
            return;
        };
        let (ticket, Some(mut request)) = (open.ticket, open.request.take()) else {
            return;
        };
        let replica = &mut self.replicas[place];
        if replica.role == Role::Prefill {
            request.output_tokens = 1;
        }
        let refused = replica.submit(now, request).is_err();
        self.clock.set(place, replica.engine.next_event());
        if refused {
            if let Some(ticket) = ticket {
                self.dispatcher
                    .settle(now, ticket, Settled::Cancelled, None);
            }
            self.desk.close(now, index, Outcome::Rejected, None);
        }
    }

    pub(super) fn first_token(&mut self, index: u64, at: Timestamp) {
        if let Some(open) = self.desk.get(index)
            && let Some(ticket) = open.ticket
        {
            let ttft = at.since(open.arrival.origin).unwrap_or_default();
            self.dispatcher.first_token(at, ticket, ttft);
        }
    }

    pub(super) fn engine_done(&mut self, index: u64, at: Timestamp, outcome: Outcome) {
        let Some(open) = self.desk.get(index) else {
            return;
        };
        let Some(ticket) = open.ticket else {
            return;
        };
        let role = open
            .at
            .map_or(Role::Whole, |place| self.replicas[place].role);
        if role == Role::Prefill && outcome == Outcome::Ok && open.emitted < open.output_tokens {
            if let Route::Send { replica, .. } = self.dispatcher.hand_over(at, ticket) {
                self.begin_transfer(at, index, replica);
            }
            return;
        }
        let how = if outcome == Outcome::Ok {
            Settled::Ok
        } else {
            Settled::Failed
        };
        let (prefill, decode) = self
            .work
            .of_request(open.arrival.planned_input_tokens, open.emitted);
        self.dispatcher
            .settle(at, ticket, how, Some(prefill + decode));
        self.desk.close(at, index, outcome, None);
    }

    pub(super) fn begin_transfer(&mut self, now: Timestamp, index: u64, replica: ReplicaId) {
        let Some(open) = self.desk.get_mut(index) else {
            return;
        };
        let place = place_of(replica);
        open.at = Some(place);
        let left = open.output_tokens - open.emitted;
        // The first token was answered, but its keys and values are not computed yet.
        let prompt = open.arrival.planned_input_tokens;
        open.request = Some(EngineRequest::new(index, prompt + 1, left));
        let transfer = self.plan.transfer.map(|t| t.time(prompt));
        let arrives = now.after(transfer.unwrap_or_default());
        self.transfers.push(Reverse((arrives, index, place)));
    }

    pub(super) fn end_transfer(&mut self, now: Timestamp) {
        if let Some(Reverse((_, index, place))) = self.transfers.pop() {
            self.submit(now, index, place);
        }
    }

    pub(super) fn end_patience(&mut self, now: Timestamp) {
        let Some(Reverse((_, index, limit))) = self.limits.pop() else {
            return;
        };
        let Some(open) = self.desk.get(index) else {
            return;
        };
        let (outcome, phase) = match limit {
            Limit::FirstToken if open.emitted > 0 => return,
            Limit::FirstToken => (Outcome::TimedOut, Some(TimeoutPhase::FirstToken)),
            Limit::Total => (Outcome::TimedOut, Some(TimeoutPhase::Total)),
            Limit::Leaves => (Outcome::Cancelled, None),
        };
        self.give_up(now, index, outcome, phase);
    }

    pub(super) fn give_up(
        &mut self,
        now: Timestamp,
        index: u64,
        outcome: Outcome,
        phase: Option<TimeoutPhase>,
    ) {
        let Some(open) = self.desk.get(index) else {
            return;
        };
        let was = open
            .ticket
            .map(|ticket| self.dispatcher.cancel(now, ticket));
        if let Some(place) = open.at {
            let engine = &mut self.replicas[place].engine;
            // Nothing is told before now that was not told yet; but steps have begun.
            engine.advance(now, &mut self.desk);
            if let Some((count, at)) = engine.untold(index) {
                self.desk.tokens(at, index, count);
            }
            debug_assert!(self.desk.heard.is_empty(), "invariant: engines go first");
            engine.cancel(now, index);
            self.clock.set(place, engine.next_event());
        }
        let closed = self.desk.close(now, index, outcome, phase);
        if let (Some(Was::At(_)), Some((input, emitted))) = (was, closed) {
            self.abandoned.requests += 1;
            self.abandoned.output_tokens += u64::from(emitted);
            self.abandoned.input_tokens += u64::from(if emitted > 0 { input } else { 0 });
        }
    }

    pub(super) fn probe(&mut self, now: Timestamp, place: usize) {
        let index = PROBES + self.probe_count;
        self.probe_count += 1;
        self.probes[place] = now;
        let replica = &mut self.replicas[place];
        let request = EngineRequest::new(index, self.plan.probe_tokens.max(1), 1);
        let refused = replica.submit(now, request).is_err();
        self.clock.set(place, replica.engine.next_event());
        if refused {
            self.dispatcher.probed(now, replica.id, None);
        }
    }
}
