//! Samples from whole requests, where the instants of their tokens were not kept.

use crate::{observed::Observed, sample::StepSample};

/// One sample for each request with two tokens or more: its decoding took as many steps as it got
/// further tokens, and what else these steps worked on is known from the other requests' first and
/// last tokens. A stream's tokens are taken to come evenly between the two.
///
/// A request that waited without decoding when it was sent also tells its prefill: one alone, from its
/// send to its first token.
#[must_use]
pub fn requests_of(requests: &[Observed]) -> Vec<StepSample> {
    let mut order: Vec<&Observed> = requests.iter().filter(|r| r.first.is_some()).collect();
    order.sort_by(|a, b| a.sent.total_cmp(&b.sent));
    // Nobody is longer in the server than this: where to stop looking.
    let longest = order.iter().map(|r| r.last - r.sent).fold(0.0, f64::max);
    let mut samples = Vec::new();
    for (place, request) in order.iter().enumerate() {
        let from = order.partition_point(|r| r.sent < request.sent - longest);
        let company: Vec<&Observed> = order[from..]
            .iter()
            .enumerate()
            .filter(|(i, other)| from + i != place && other.sent < request.last)
            .map(|(_, other)| *other)
            .collect();
        samples.extend(decode_of(request, &company));
        samples.extend(alone_of(request, &company));
    }
    samples
}

fn decode_of(request: &Observed, company: &[&Observed]) -> Option<StepSample> {
    let first = request.first?;
    let steps = request.output - 1.0;
    let seconds = request.last - first;
    if steps < 1.0 || seconds <= 0.0 {
        return None;
    }
    let mut sample = StepSample {
        seconds,
        steps,
        decodes: steps,
        context: steps * (request.input + request.output / 2.0),
        prefill: 0.0,
        pairs: 0.0,
        prefill_steps: 0.0,
        from_send: false,
        point: request.point,
        weight: 1.0,
    };
    for other in company {
        let Some(began) = other.first else { continue };
        if began > first && began <= request.last {
            sample.prefill += other.computed();
            sample.pairs += other.pairs();
            sample.prefill_steps += 1.0;
        }
        let (from, to) = (began.max(first), other.last.min(request.last));
        let length = other.last - began;
        if to > from && length > 0.0 {
            let share = (to - from) / seconds;
            let middle = (f64::midpoint(from, to) - began) / length;
            sample.decodes += share * steps;
            sample.context += share * steps * (other.input + 1.0 + middle * (other.output - 1.0));
        }
    }
    Some(sample)
}

/// The prefill of a request during which nobody else was in the server.
fn alone_of(request: &Observed, company: &[&Observed]) -> Option<StepSample> {
    let first = request.first?;
    let disturbed = company
        .iter()
        .any(|other| other.sent < first && other.last > request.sent);
    (!disturbed && first > request.sent).then(|| StepSample {
        seconds: first - request.sent,
        steps: 1.0,
        decodes: 0.0,
        context: 0.0,
        prefill: request.computed(),
        pairs: request.pairs(),
        prefill_steps: 1.0,
        from_send: true,
        point: request.point,
        weight: 1.0,
    })
}
