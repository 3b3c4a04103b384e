//! Requests of which only the lengths matter, one after the other.

use std::sync::Arc;

use goodput_record::Timestamp;

use crate::{
    arrivals::Schedule,
    lengths::Lengths,
    script::stream,
    spec::{Shape, WorkloadSpec},
    workload::schedule,
};
use goodput_stats::StreamDraws;

/// A request without a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainRequest {
    /// Its number within the load point; also that of its session.
    pub index: u64,
    /// When it is due.
    pub due: Timestamp,
    /// Tokens of the prompt.
    pub input_tokens: u32,
    /// Output tokens asked for, at least 1.
    pub output_tokens: u32,
}

/// The requests of an open loop in which each is a session of its own and no two share a prefix: the
/// same requests as [`crate::Workload`] hands out, without their prompts and with no memory of them.
#[derive(Clone, Debug)]
pub struct PlainRequests {
    input: Lengths,
    output: Lengths,
    input_draws: StreamDraws,
    output_draws: StreamDraws,
    schedule: Schedule,
    next: Option<PlainRequest>,
}

impl PlainRequests {
    /// `None` where more than lengths matters: sessions, shared prefixes, the rows of a trace.
    #[must_use]
    pub fn new(spec: &Arc<WorkloadSpec>, per_second: f64, seed: u64) -> Option<Self> {
        let Shape::Drawn { input, output } = &spec.shape else {
            return None;
        };
        if spec.sessions.is_some() || spec.groups.is_some() || spec.system_tokens > 0 {
            return None;
        }
        let mut requests = Self {
            input: input.clone(),
            output: output.clone(),
            input_draws: StreamDraws::new(seed, stream::INPUT),
            output_draws: StreamDraws::new(seed, stream::OUTPUT),
            schedule: schedule(spec, per_second, seed),
            next: None,
        };
        requests.plan();
        Some(requests)
    }

    /// The next request.
    #[must_use]
    pub const fn peek(&self) -> Option<&PlainRequest> {
        self.next.as_ref()
    }

    /// Hands it out.
    pub fn take(&mut self) -> Option<PlainRequest> {
        let taken = self.next?;
        self.plan();
        Some(taken)
    }

    fn plan(&mut self) {
        self.next = self.schedule.peek().map(|(index, due)| {
            self.schedule.advance();
            PlainRequest {
                index,
                due,
                input_tokens: self.input.draw(&mut self.input_draws.at(index)),
                output_tokens: self.output.draw(&mut self.output_draws.at(index)),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Load, Shard, Workload};

    #[test]
    fn plain_requests_are_those_of_the_workload() {
        let spec = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
        let mut plain = PlainRequests::new(&spec, 20.0, 7).unwrap();
        let load = Load::Open { per_second: 20.0 };
        let mut whole = Workload::new(&spec, load, 7, Shard::WHOLE);
        for _ in 0..2_000 {
            let planned = whole.take(Timestamp::FAR_FUTURE).unwrap();
            whole.ended(planned.session, planned.due);
            let expected = PlainRequest {
                index: planned.index,
                due: planned.due,
                input_tokens: planned.input_tokens,
                output_tokens: planned.output_tokens,
            };
            assert_eq!(plain.take(), Some(expected));
        }
    }

    #[test]
    fn what_shares_prefixes_or_goes_on_is_not_plain() {
        for preset in crate::presets() {
            let spec = Arc::new(WorkloadSpec::preset(preset.name).unwrap());
            let shares = spec.sessions.is_some() || spec.groups.is_some() || spec.system_tokens > 0;
            let rows = matches!(spec.shape, Shape::Rows(_));
            let plain = PlainRequests::new(&spec, 1.0, 1).is_some();
            assert_eq!(plain, !shares && !rows, "{}", preset.name);
        }
    }
}
