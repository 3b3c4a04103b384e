//! The tail of TTFT by simulation.

use std::{cell::RefCell, rc::Rc};

use goodput_perf_model::Profile;
use goodput_record::{
    Arrival, Outcome, RequestRecord, SeriesId, Sink, Timestamp, Vantage, nanos_of,
};
use goodput_sim::{
    Engine, EngineRequest,
    drive::{Due, Plan, Source, run},
};
use goodput_stats::{Draws, Stream, sampler, whole_u32};

/// Seconds of a stage.
const SECONDS: f64 = 60.0;

/// TTFT at p99 of an open loop of 60 s, in seconds.
pub(crate) fn ttft_p99(profile: &Profile, rate: f64, lengths: (f64, f64), even: bool) -> f64 {
    let mut arrivals = Arrivals {
        rate,
        lengths: (whole_u32(lengths.0), whole_u32(lengths.1)),
        even,
        at: 0.0,
        sent: 0,
    };
    let kept = Rc::new(Kept::default());
    let plan = Plan::until(Timestamp::from_seconds(SECONDS));
    run(
        &mut Engine::new(profile),
        &mut arrivals,
        &kept,
        &plan,
        |_| {},
    );
    let records = kept.0.take();
    let times = records.iter().filter_map(|r| r.summary.ttft());
    let seconds: Vec<f64> = times.map(|t| t.as_secs_f64()).collect();
    crate::table::quantile(&seconds, 0.99)
}

struct Arrivals {
    rate: f64,
    lengths: (u32, u32),
    even: bool,
    at: f64,
    sent: u64,
}

impl Source for Arrivals {
    fn next_due(&self) -> Option<Timestamp> {
        Some(Timestamp::from_nanos(nanos_of(self.at)))
    }

    fn take(&mut self, _: Timestamp) -> Option<Due> {
        let (index, at) = (self.sent, Timestamp::from_nanos(nanos_of(self.at)));
        let gap = if self.even {
            1.0
        } else {
            sampler::exponential(&mut Draws::new(11, Stream(1), index))
        };
        self.at += gap / self.rate;
        self.sent += 1;
        let (input, output) = self.lengths;
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

    fn ended(&mut self, _: u32, _: Timestamp, _: Outcome) {}
}

#[derive(Default)]
struct Kept(RefCell<Vec<RequestRecord>>);

impl Sink for Kept {
    fn arrived(&self, _: &Arrival) {}

    fn ended(&self, record: RequestRecord) {
        self.0.borrow_mut().push(record);
    }
}
