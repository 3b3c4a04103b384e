//! The same requests sent to a simulated engine, as they were sent to the real one.

use std::{cell::RefCell, rc::Rc, time::Duration};

use goodput_perf_model::Profile;
use goodput_record::{
    Arrival, Outcome, RequestRecord, SeriesId, Sink, Timestamp, Vantage, nanos_of, span_of,
};
use goodput_sim::{
    Engine, EngineRequest,
    drive::{Due, Plan, Source, run},
};
use goodput_stats::{quantile, whole_u32};

use crate::observed::Observed;

/// Levels at which distributions are compared.
pub(crate) const LEVELS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// Quantiles of TTFT, TPOT and E2E, in seconds, at [`LEVELS`].
pub(crate) type Quantiles = [Vec<f64>; 3];

/// One load point's requests in the order in which they were sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// Users of a closed loop, who send one request after the other; `None`: sent at given instants.
    users: Option<usize>,
    /// (sent, in seconds from the first; prompt tokens; tokens answered)
    requests: Vec<(f64, u32, u32)>,
    /// What was measured.
    pub(crate) measured: Quantiles,
}

impl Replayed {
    /// A load point of `users` in a closed loop, or of an open loop. `None` where a request failed, found
    /// part of its prompt in a cache or was not answered: a replay would be of another load. Fewer
    /// than twenty requests have no quantiles worth comparing.
    #[must_use]
    pub fn of(requests: &[Observed], users: Option<u32>) -> Option<Self> {
        let whole = requests
            .iter()
            .all(|r| r.first.is_some() && r.cached <= 0.0 && r.output >= 1.0);
        if !whole || requests.len() < 20 {
            return None;
        }
        let mut order: Vec<&Observed> = requests.iter().collect();
        order.sort_by(|a, b| a.sent.total_cmp(&b.sent));
        let start = order.first()?.sent;
        let times = order.iter().map(|r| Times {
            ttft: r.first.unwrap_or(r.sent) - r.sent,
            e2e: r.last - r.sent,
            output: r.output,
        });
        let measured = quantiles(&times.collect::<Vec<Times>>());
        let plan = |r: &&Observed| {
            (
                r.sent - start,
                whole_u32(r.input).max(1),
                whole_u32(r.output),
            )
        };
        Some(Self {
            users: users.map(|n| n as usize),
            requests: order.iter().map(plan).collect(),
            measured,
        })
    }

    /// What a replica of this profile makes of them. `None` where it cannot take one of them.
    pub(crate) fn simulate(&self, profile: &Profile) -> Option<Quantiles> {
        let ingest = span_of(profile.ingest_s);
        let mut line = Line {
            point: self,
            ingest,
            next: 0,
            free: Vec::new(),
            refused: false,
        };
        let kept = Rc::new(Kept::default());
        let plan = Plan::until(Timestamp::FAR_FUTURE);
        run(&mut Engine::new(profile), &mut line, &kept, &plan, |_| {});
        if line.refused {
            return None;
        }
        let seconds = |span: Option<Duration>| span.map(|s| s.as_secs_f64());
        let times = kept.0.take().into_iter().filter_map(|record| {
            let summary = &record.summary;
            Some(Times {
                ttft: seconds(summary.ttft())? + profile.ingest_s,
                e2e: seconds(summary.e2e())? + profile.ingest_s,
                output: f64::from(summary.end().output_tokens?.get()),
            })
        });
        Some(quantiles(&times.collect::<Vec<Times>>()))
    }
}

struct Times {
    ttft: f64,
    e2e: f64,
    output: f64,
}

fn quantiles(times: &[Times]) -> Quantiles {
    let of = |f: &dyn Fn(&Times) -> Option<f64>| {
        let mut values: Vec<f64> = times.iter().filter_map(f).collect();
        values.sort_by(f64::total_cmp);
        LEVELS
            .iter()
            .filter_map(|q| quantile(&values, *q))
            .collect()
    };
    [
        of(&|t| Some(t.ttft)),
        of(&|t| (t.output > 1.5).then(|| (t.e2e - t.ttft) / (t.output - 1.0))),
        of(&|t| Some(t.e2e)),
    ]
}

/// Where the replayed requests come from.
struct Line<'a> {
    point: &'a Replayed,
    /// The way in: the engine sees a request so long after its send.
    ingest: Duration,
    next: usize,
    /// When users became free who have not sent again.
    free: Vec<Timestamp>,
    refused: bool,
}

impl Line<'_> {
    fn due(&self) -> Option<Timestamp> {
        let (sent, ..) = *self.point.requests.get(self.next)?;
        let at = Timestamp::from_nanos(nanos_of(sent));
        match self.point.users {
            // The users' first requests come when they came.
            Some(users) if self.next >= users => self.free.iter().min().copied(),
            _ => Some(at),
        }
    }
}

impl Source for Line<'_> {
    fn next_due(&self) -> Option<Timestamp> {
        Some(self.due()?.after(self.ingest))
    }

    fn take(&mut self, _: Timestamp) -> Option<Due> {
        let at = self.next_due()?;
        let (_, input, output) = *self.point.requests.get(self.next)?;
        if self.point.users.is_some_and(|users| self.next >= users) {
            let first = self.free.iter().min().copied()?;
            let place = self.free.iter().position(|f| *f == first)?;
            self.free.swap_remove(place);
        }
        let index = self.next as u64;
        self.next += 1;
        Some(Due {
            arrival: Arrival {
                id: index,
                origin: at,
                series: SeriesId::default(),
                vantage: Vantage::Engine,
                session: 0,
                step: 0,
                steps: 1,
                planned_input_tokens: input,
                planned_cached_tokens: 0,
                planned_output_tokens: output,
            },
            request: EngineRequest::new(index, input, output),
        })
    }

    fn ended(&mut self, _: u32, at: Timestamp, outcome: Outcome) {
        self.refused |= outcome != Outcome::Ok;
        self.free.push(at);
    }
}

#[derive(Default)]
struct Kept(RefCell<Vec<RequestRecord>>);

impl Sink for Kept {
    fn arrived(&self, _: &Arrival) {}

    fn ended(&self, record: RequestRecord) {
        self.0.borrow_mut().push(record);
    }
}
