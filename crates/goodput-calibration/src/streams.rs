//! Engine steps out of the instants at which tokens came.
//!
//! An engine that batches continuously gives each decoding sequence its token at the end of the same
//! step. Token events of different streams that come together therefore mark a step's end, and the
//! time between two such marks is the time of one step, whose batch is whoever got a token.

use crate::{observed::Observed, sample::StepSample};

/// Most steps that are taken as one sample. A prompt that takes longer was waiting, not computed.
const MOST_MERGED: usize = 16;
/// A request sent by this share of a step after its start may still have been part of it.
const LATE_SHARE: f64 = 0.2;

/// What the instants came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    /// Steps whose batch is known, in order of time.
    pub samples: Vec<StepSample>,
    /// Steps left out because some stream got no token in them, or two: streams that were read in
    /// bunches, preempted or cut off.
    pub unclear: usize,
    /// Steps left out because prompts were waiting rather than being computed.
    pub waiting: usize,
}

/// Reads the steps off all requests of one run, whatever part of a load point they belong to: all of
/// them were in the batch. Requests without kept instants make the steps they took part in unclear.
///
/// `budget` is the most tokens a step may have, where it is known.
#[must_use]
pub fn steps_of(requests: &[Observed], budget: Option<f64>) -> Steps {
    let marks = marks(requests);
    let mut reading = Reading {
        requests,
        budget,
        steps: steps(requests, &marks),
        found: Steps::default(),
    };
    reading.prefills();
    reading.collect();
    reading.found
}

/// The end of a step: whose tokens came then.
struct Mark {
    at: f64,
    /// (request, place of the event in it)
    events: Vec<(usize, usize)>,
}

/// Puts token events that came together into marks.
fn marks(requests: &[Observed]) -> Vec<Mark> {
    let mut all: Vec<(f64, usize, usize)> = Vec::new();
    for (r, request) in requests.iter().enumerate() {
        let events = request.events.iter().enumerate();
        all.extend(events.map(|(place, (at, _))| (*at, r, place)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut marks: Vec<Mark> = Vec::new();
    // The mark in which each request was seen last.
    let mut seen = vec![usize::MAX; requests.len()];
    let mut step = f64::INFINITY;
    for (at, r, place) in all {
        let current = marks.len().wrapping_sub(1);
        let gap = place.checked_sub(1).map(|p| at - requests[r].events[p].0);
        let apart = 0.5 * gap.unwrap_or(step);
        let joins = marks.last().is_some_and(|m| at - m.at < apart) && seen[r] != current;
        if !joins {
            if let Some(last) = marks.last() {
                step = at - last.at;
            }
            marks.push(Mark {
                at,
                events: Vec::new(),
            });
        }
        seen[r] = marks.len() - 1;
        if let Some(mark) = marks.last_mut() {
            mark.events.push((r, place));
        }
    }
    marks
}

/// What one step did, as far as tokens tell.
#[derive(Clone, Debug, Default)]
struct Step {
    start: f64,
    end: f64,
    decodes: f64,
    context: f64,
    /// Requests whose first token it gave.
    began: Vec<usize>,
    /// Whether everybody who was decoding got one token in it, and had got one at its start.
    clear: bool,
    point: u32,
}

/// The step that ends at each mark. The first mark has no start.
fn steps(requests: &[Observed], marks: &[Mark]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::with_capacity(marks.len());
    let mut emitted = vec![0.0; requests.len()];
    let mut seen = vec![usize::MAX; requests.len()];
    let mut active = 0_usize;
    for (m, mark) in marks.iter().enumerate() {
        let mut step = Step {
            start: m.checked_sub(1).map_or(mark.at, |before| marks[before].at),
            end: mark.at,
            ..Step::default()
        };
        let mut odd = 0;
        let decoding = active;
        for &(r, place) in &mark.events {
            let request = &requests[r];
            step.point = request.point;
            if place == 0 {
                step.began.push(r);
                active += 1;
            } else {
                step.decodes += 1.0;
                step.context += request.input + emitted[r];
                odd += usize::from(seen[r] + 1 != m);
            }
            emitted[r] += f64::from(request.events[place].1);
            seen[r] = m;
            if place + 1 == request.events.len() {
                active -= 1;
            }
        }
        let missing = decoding.abs_diff(mark.events.len() - step.began.len());
        step.clear = odd == 0 && missing == 0;
        steps.push(step);
    }
    steps
}

struct Reading<'a> {
    requests: &'a [Observed],
    budget: Option<f64>,
    steps: Vec<Step>,
    found: Steps,
}

impl Reading<'_> {
    /// Takes out steps in which somebody without known instants took part.
    fn taint(&mut self, from: f64, to: f64) {
        let begin = self.steps.partition_point(|s| s.end <= from);
        for step in self.steps[begin..].iter_mut().take_while(|s| s.start < to) {
            step.clear = false;
        }
    }

    fn prefills(&mut self) {
        let requests = self.requests;
        for request in requests.iter().filter(|r| r.events.is_empty()) {
            self.taint(request.sent, request.last);
        }
        // An event of several tokens is several steps, or one of a speculating engine: not one step.
        for request in requests {
            for pair in request.events.windows(2).filter(|p| p[1].1 > 1) {
                self.taint(pair[0].0, pair[1].0);
            }
        }
    }

    /// The first step that can have worked on a request's prompt, given the one that gave its first
    /// token: it was sent before the step's start, or so shortly after that it may have slipped in.
    fn first_step_of(&self, request: &Observed, last: usize) -> usize {
        let mut first = last;
        while first > 0 {
            let step = &self.steps[first - 1];
            let slack = LATE_SHARE * (step.end - step.start);
            if step.start + slack < request.sent {
                break;
            }
            first -= 1;
        }
        let Some(budget) = self.budget else {
            return first;
        };
        // It cannot have taken more steps than its tokens fill.
        let room = (budget - self.steps[last].decodes).max(1.0);
        let mut need = 1;
        while (need as f64) * room < request.computed() {
            need += 1;
        }
        first.max((last + 1).saturating_sub(need + 1))
    }

    /// Whether nothing ran when the request was sent, so that its first step began with it.
    fn was_idle(&self, request: &Observed, last: usize) -> bool {
        let step = &self.steps[last];
        step.decodes == 0.0 && step.began.len() == 1 && request.sent >= step.start
    }

    fn collect(&mut self) {
        // Whose prompts each step may have worked on: merged where they overlap.
        let mut begins: Vec<usize> = (0..self.steps.len()).collect();
        for (last, begin) in begins.iter_mut().enumerate() {
            for r in &self.steps[last].began {
                *begin = (*begin).min(self.first_step_of(&self.requests[*r], last));
            }
        }
        let mut end = self.steps.len();
        let mut groups = Vec::new();
        while end > 0 {
            let last = end - 1;
            let (mut begin, mut at) = (begins[last], last);
            while at > begin {
                at -= 1;
                begin = begin.min(begins[at]);
            }
            groups.push(begin..end);
            end = begin;
        }
        for group in groups.into_iter().rev() {
            self.sample(group);
        }
    }

    fn sample(&mut self, group: std::ops::Range<usize>) {
        let steps = &self.steps[group.clone()];
        let last = &steps[steps.len() - 1];
        let began: Vec<usize> = steps.iter().flat_map(|s| s.began.clone()).collect();
        if let [only] = began[..]
            && steps.len() == 1
            && self.was_idle(&self.requests[only], group.start)
        {
            let request = &self.requests[only];
            let seconds = last.end - request.sent;
            let point = last.point;
            self.push(steps_sample(seconds, steps, &[request], point, true));
            return;
        }
        if group.start == 0 || !steps.iter().all(|s| s.clear && s.decodes > 0.0) {
            self.found.unclear += steps.len();
            return;
        }
        if steps.len() > MOST_MERGED {
            self.found.waiting += steps.len();
            return;
        }
        let requests: Vec<&Observed> = began.iter().map(|r| &self.requests[*r]).collect();
        let seconds = last.end - steps[0].start;
        let sample = steps_sample(seconds, steps, &requests, last.point, false);
        self.push(sample);
    }

    fn push(&mut self, sample: StepSample) {
        if sample.seconds > 0.0 {
            self.found.samples.push(sample);
        }
    }
}

fn steps_sample(
    seconds: f64,
    steps: &[Step],
    began: &[&Observed],
    point: u32,
    from_send: bool,
) -> StepSample {
    StepSample {
        seconds,
        steps: steps.len() as f64,
        decodes: steps.iter().map(|s| s.decodes).sum(),
        context: steps.iter().map(|s| s.context).sum(),
        prefill: began.iter().map(|r| r.computed()).sum(),
        pairs: began.iter().map(|r| r.pairs()).sum(),
        prefill_steps: f64::from(u8::from(!began.is_empty())),
        from_send,
        point,
        weight: 1.0,
    }
}
