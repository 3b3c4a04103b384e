//! Loads and a log for the tests.

use std::{cell::RefCell, collections::VecDeque, num::NonZeroU32, rc::Rc};

use goodput_perf_model::Profile;
use goodput_record::{
    Arrival, Outcome, RequestRecord, RequestSummary, SeriesId, Sink, Timestamp, Vantage,
};
use goodput_sim::{
    Engine, EngineRequest,
    drive::{Due, Plan, RunReport, Source, run},
};
use goodput_stats::{Draws, Stream};

/// Every ended request, in the order of the ends.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) arrived: RefCell<u64>,
    pub(crate) ended: RefCell<Vec<RequestSummary>>,
}

impl Sink for Log {
    fn arrived(&self, _arrival: &Arrival) {
        *self.arrived.borrow_mut() += 1;
    }
    fn ended(&self, record: RequestRecord) {
        self.ended.borrow_mut().push(record.summary);
    }
}

/// Input and output tokens of the request of a number.
pub(crate) type Lengths = fn(u64) -> (u32, u32);

pub(crate) fn due(index: u64, session: u32, origin: Timestamp, lengths: (u32, u32)) -> Due {
    let (input, output) = lengths;
    Due {
        arrival: Arrival {
            id: index,
            origin,
            series: SeriesId::default(),
            vantage: Vantage::Engine,
            session,
            step: 0,
            steps: 1,
            planned_input_tokens: input,
            planned_cached_tokens: 0,
            planned_output_tokens: output,
        },
        request: EngineRequest::new(index, input, output),
    }
}

/// Poisson arrivals.
pub(crate) struct Poisson {
    seed: u64,
    per_second: f64,
    count: u64,
    lengths: Lengths,
    index: u64,
    next: Timestamp,
}

impl Poisson {
    pub(crate) fn new(seed: u64, per_second: f64, count: u64, lengths: Lengths) -> Self {
        let mut source = Self {
            seed,
            per_second,
            count,
            lengths,
            index: 0,
            next: Timestamp::ZERO,
        };
        source.step();
        source
    }

    fn step(&mut self) {
        let unit = Draws::new(self.seed, Stream(1), self.index).unit();
        let gap = -libm::log(1.0 - unit) / self.per_second;
        self.next = Timestamp::from_seconds(self.next.seconds() + gap);
    }
}

impl Source for Poisson {
    fn next_due(&self) -> Option<Timestamp> {
        (self.index < self.count).then_some(self.next)
    }
    fn take(&mut self, _now: Timestamp) -> Option<Due> {
        // Every run of one test sees other lengths.
        let lengths = (self.lengths)(self.index + self.seed * self.count);
        let due = due(self.index, 0, self.next, lengths);
        self.index += 1;
        self.step();
        Some(due)
    }
    fn ended(&mut self, _session: u32, _at: Timestamp, _outcome: Outcome) {}
}

/// Users who ask again as soon as they are answered; they begin over the first second.
pub(crate) struct Closed {
    ready: VecDeque<(u32, Timestamp)>,
    lengths: Lengths,
    index: u64,
}

impl Closed {
    pub(crate) fn new(users: u32, lengths: Lengths) -> Self {
        let ready = (0..users).map(|user| {
            let at = 1e9 * f64::from(user) / f64::from(users);
            (user, Timestamp::from_seconds(at / 1e9))
        });
        Self {
            ready: ready.collect(),
            lengths,
            index: 0,
        }
    }
}

impl Source for Closed {
    fn next_due(&self) -> Option<Timestamp> {
        self.ready.front().map(|r| r.1)
    }
    fn take(&mut self, _now: Timestamp) -> Option<Due> {
        let (user, at) = self.ready.pop_front()?;
        let due = due(self.index, user, at, (self.lengths)(self.index));
        self.index += 1;
        Some(due)
    }
    fn ended(&mut self, session: u32, at: Timestamp, _outcome: Outcome) {
        let later = self.ready.iter().position(|r| r.1 > at);
        let place = later.unwrap_or(self.ready.len());
        self.ready.insert(place, (session, at));
    }
}

pub(crate) struct Run {
    pub(crate) engine: Engine,
    pub(crate) report: RunReport,
    pub(crate) ended: Vec<RequestSummary>,
}

pub(crate) fn simulate(profile: &Profile, source: &mut impl Source, plan: &Plan) -> Run {
    let sink = Rc::new(Log::default());
    let mut engine = Engine::new(profile);
    let report = run(&mut engine, source, &sink, plan, |_| {});
    let ended = sink.ended.take();
    assert_eq!(report.arrived, *sink.arrived.borrow());
    assert_eq!(u64::try_from(ended.len()).unwrap(), report.arrived);
    Run {
        engine,
        report,
        ended,
    }
}

/// A profile without any limit that binds.
pub(crate) fn unbounded() -> Profile {
    let most = NonZeroU32::new(1 << 30).unwrap();
    Profile {
        max_num_seqs: most,
        max_batched_tokens: most,
        kv_blocks: 1 << 30,
        context_limit: 1 << 30,
        prefix_cache: false,
        ..Profile::builtin("laptop").unwrap()
    }
}

/// A standard normal draw, by Box and Muller.
pub(crate) fn normal(draws: &mut Draws) -> f64 {
    let radius = (-2.0 * libm::log(1.0 - draws.unit())).sqrt();
    radius * libm::cos(2.0 * std::f64::consts::PI * draws.unit())
}

/// Whole tokens, at least one.
pub(crate) fn tokens(value: f64) -> u32 {
    let whole = value.round().clamp(1.0, 1e9);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped"
    )]
    let whole = whole as u32;
    whole
}

/// Lengths with the percentiles of Azure's conversations of 2023: 1020, 2735 and 4142 tokens in, 129,
/// 424 and 601 out at the 50th, 90th and 99th; between them the logarithm is linear.
pub(crate) fn conversation(index: u64) -> (u32, u32) {
    let mut draws = Draws::new(7, Stream(2), index);
    let input = [
        (0.0, 30.0),
        (0.5, 1_020.0),
        (0.9, 2_735.0),
        (0.99, 4_142.0),
        (1.0, 7_000.0),
    ];
    let output = [
        (0.0, 12.0),
        (0.5, 129.0),
        (0.9, 424.0),
        (0.99, 601.0),
        (1.0, 900.0),
    ];
    let mut draw = |table: &[(f64, f64)]| {
        let share = draws.unit();
        let above = table.iter().position(|p| p.0 > share).unwrap();
        let (low, high) = (table[above - 1], table[above]);
        let part = (share - low.0) / (high.0 - low.0);
        tokens(low.1 * libm::pow(high.1 / low.1, part))
    };
    (draw(&input), draw(&output))
}
