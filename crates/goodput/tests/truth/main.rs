//! The true curve of a profile, in virtual time, and whether a sweep in real time finds its best
//! load.
//!
//! In virtual time there is no client, no socket and no noise: workload, engine and books alone.
//! The sweeps take minutes and are run by `suites/truth.sh`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "the curves are read in the log")]

use std::{cell::RefCell, num::NonZeroU32, process::Command, rc::Rc, sync::Arc, time::Duration};

use goodput_ledger::{ClientRow, Mode, PointBooks, PointFacts, PointRow};
use goodput_record::{Arrival, Outcome, Phase, RequestRecord, SeriesId, Sink, Timestamp, Vantage};
use goodput_sim::{
    Engine, EngineRequest, Profile,
    drive::{Due, Plan, Source, run},
};
use goodput_slo::Slo;
use goodput_workload::{Load, Shard, Workload, WorkloadSpec, point_seed};

/// What is swept: a profile with the work and the SLO it is asked for.
struct Case {
    profile: &'static str,
    workload: &'static str,
    slo: &'static str,
    /// Users of the closed loop, in rising order.
    grid: &'static [u32],
}

/// The profile of the first look: its slots fill up.
const LAPTOP: Case = Case {
    profile: "laptop",
    workload: "chat-short",
    slo: "chat",
    grid: &[1, 2, 4, 8, 16, 32, 48, 64, 96, 128],
};
/// A replica with little memory: its cache fills up long before its slots.
const KV_CLIFF: Case = Case {
    profile: "qwen3-8b-h100-shared",
    workload: "azure-conversation",
    slo: "chat",
    grid: &[8, 16, 32, 48, 64, 96],
};
/// A mixture of experts: a step grows quickly at small batches.
const EXPERTS: Case = Case {
    profile: "qwen3-30b-a3b-h100",
    workload: "azure-conversation",
    slo: "chat",
    grid: &[32, 64, 96, 128],
};

/// Which part of the point a request belongs to, by its place among all that were taken.
#[derive(Clone, Copy)]
struct Course {
    settling: u64,
    measured: u64,
    drain: u64,
}

impl Course {
    /// The start-up herd and the emptying at the end stay outside.
    fn new(users: u32, measured: u64) -> Self {
        let apart = (2 * u64::from(users)).max(measured / 10);
        Self {
            settling: apart,
            measured,
            drain: apart,
        }
    }

    fn phase(self, number: u64) -> Phase {
        if number < self.settling {
            Phase::Settling
        } else if number < self.settling + self.measured {
            Phase::Measured
        } else {
            Phase::Drain
        }
    }

    fn all(self) -> u64 {
        self.settling + self.measured + self.drain
    }
}

/// The workload as a source of the engine's requests.
struct Planned {
    workload: Workload,
    block_tokens: u32,
    course: Course,
    taken: u64,
}

impl Source for Planned {
    fn next_due(&self) -> Option<Timestamp> {
        (self.taken < self.course.all()).then(|| self.workload.next_due())?
    }

    fn take(&mut self, now: Timestamp) -> Option<Due> {
        let planned = self.workload.take(now)?;
        let index = self.taken;
        self.taken += 1;
        Some(Due {
            arrival: Arrival {
                id: index,
                origin: planned.due,
                series: SeriesId::default(),
                vantage: Vantage::Engine,
                session: planned.session,
                step: planned.step,
                steps: planned.steps,
                planned_input_tokens: planned.input_tokens,
                planned_cached_tokens: planned.cached_tokens,
                planned_output_tokens: planned.output_tokens,
            },
            request: EngineRequest {
                index,
                input_tokens: planned.input_tokens,
                output_tokens: planned.output_tokens,
                blocks: planned.prompt.blocks(self.block_tokens),
            },
        })
    }

    fn ended(&mut self, session: u32, at: Timestamp, outcome: Outcome) {
        if outcome == Outcome::Ok {
            self.workload.ended(session, at);
        } else {
            self.workload.abandoned(session, at);
        }
    }
}

/// The books, and where their window lies.
struct Books {
    course: Course,
    posted: RefCell<PointBooks>,
    window: RefCell<Option<(Timestamp, Timestamp)>>,
}

impl Sink for Books {
    fn arrived(&self, arrival: &Arrival) {
        self.posted.borrow_mut().arrived(arrival);
        if self.course.phase(arrival.id) == Phase::Measured {
            let mut window = self.window.borrow_mut();
            let (from, _) = window.unwrap_or((arrival.origin, arrival.origin));
            *window = Some((from, arrival.origin));
        }
    }

    fn ended(&self, record: RequestRecord) {
        let phase = self.course.phase(record.summary.id());
        let mut books = self.posted.borrow_mut();
        books.post(&record.summary, &record.gaps, phase);
    }
}

impl Case {
    fn slo(&self) -> Slo {
        Slo::from_argument(self.slo).unwrap()
    }

    /// The true row at a concurrency, over this many measured requests.
    fn true_row(&self, users: u32, requests: u64) -> PointRow {
        let profile = Profile::builtin(self.profile).unwrap();
        let spec = Arc::new(WorkloadSpec::preset(self.workload).unwrap());
        let load = Load::Closed(NonZeroU32::new(users).unwrap());
        let course = Course::new(users, requests);
        let mut source = Planned {
            workload: Workload::new(&spec, load, point_seed(11, users), Shard::WHOLE),
            block_tokens: profile.block_tokens.get(),
            course,
            taken: 0,
        };
        let sink = Rc::new(Books {
            course,
            posted: RefCell::new(PointBooks::new(&[self.slo()], Duration::from_millis(100))),
            window: RefCell::default(),
        });
        let mut engine = Engine::new(&profile);
        let plan = Plan::until(Timestamp::FAR_FUTURE);
        let report = run(&mut engine, &mut source, &sink, &plan, |_| {});
        assert_eq!(report.arrived, course.all());
        let (from, to) = sink.window.borrow().unwrap();
        let books = sink.posted.borrow();
        books.row(&PointFacts {
            point: users,
            mode: Mode::Closed,
            concurrency: Some(users),
            rate_req_s: None,
            window: from..to,
            gpus: None,
            in_flight_peak: None,
            in_flight_at_end: 0,
            sent_share: None,
            loop_lag_p99_ns: None,
            client_cpu_share: None,
            client: ClientRow::default(),
            server_cached_share: None,
            server_timings: (0, 0, None),
            invalid: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// The grid with the loads halfway between its neighbours.
    fn finer(&self) -> Vec<u32> {
        let halfway = self.grid.windows(2).map(|pair| pair[0].midpoint(pair[1]));
        let mut all: Vec<u32> = self.grid.iter().copied().chain(halfway).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn curve(&self, users: &[u32], requests: u64) -> Curve {
        let rows: Vec<PointRow> = users
            .iter()
            .map(|&users| self.true_row(users, requests))
            .collect();
        for row in &rows {
            println!(
                "{:<22} {:>4} in flight: {:>6.0} tok/s, {:>6.0} good, {:>5.1} % in time, ttft p50 {:>6.0} ms, tpot p50 {:.1} ms",
                self.profile,
                row.concurrency.unwrap(),
                row.throughput_tok_s,
                row.goodput_tok_s,
                100.0 * row.slo_attainment.unwrap(),
                row.ttft_p50_ms.unwrap(),
                row.tpot_p50_ms.unwrap(),
            );
        }
        Curve(rows)
    }
}

/// True rows in rising order of load.
struct Curve(Vec<PointRow>);

impl Curve {
    fn peak(&self) -> &PointRow {
        let by_goodput = |a: &&PointRow, b: &&PointRow| a.goodput_tok_s.total_cmp(&b.goodput_tok_s);
        self.0.iter().max_by(by_goodput).unwrap()
    }

    fn most_throughput(&self) -> f64 {
        self.0
            .iter()
            .map(|r| r.throughput_tok_s)
            .fold(0.0, f64::max)
    }

    fn last(&self) -> &PointRow {
        self.0.last().unwrap()
    }

    /// The peak lies strictly inside, and past it throughput stays while goodput does not.
    fn has_the_form_of_the_essay(&self) {
        let (peak, last) = (self.peak(), self.last());
        assert!(
            peak.concurrency > self.0[0].concurrency,
            "the peak is the first load"
        );
        assert!(
            peak.concurrency < last.concurrency,
            "the peak is the last load"
        );
        assert!(
            last.goodput_tok_s < 0.5 * peak.goodput_tok_s,
            "goodput at the last load: {} of {}",
            last.goodput_tok_s,
            peak.goodput_tok_s
        );
        assert!(
            last.throughput_tok_s >= 0.8 * self.most_throughput(),
            "throughput at the last load: {} of {}",
            last.throughput_tok_s,
            self.most_throughput()
        );
    }
}

/// Requests a point of the tests that always run.
const FEW: u64 = 600;
/// Requests a point of a curve that a sweep is held against.
const MANY: u64 = 20_000;

#[test]
fn the_slots_of_the_laptop_profile_fill_up() {
    let curve = LAPTOP.curve(LAPTOP.grid, FEW);
    curve.has_the_form_of_the_essay();
    // 48 slots: to serve 64 users at once no request can be faster, only later.
    let at = |users| {
        curve
            .0
            .iter()
            .find(|r| r.concurrency == Some(users))
            .unwrap()
    };
    assert!(at(32).slo_attainment.unwrap() > 0.95);
    assert!(at(128).ttft_p50_ms.unwrap() > 5.0 * at(32).ttft_p50_ms.unwrap());
    assert!(at(128).tpot_p50_ms.unwrap() < 1.5 * at(48).tpot_p50_ms.unwrap());
}

/// Past the KV limit throughput falls by a few percent and goodput collapses.
#[test]
fn past_the_kv_limit_goodput_collapses_and_throughput_hardly_falls() {
    let curve = KV_CLIFF.curve(KV_CLIFF.grid, FEW);
    curve.has_the_form_of_the_essay();
    let last = curve.last();
    assert!(last.throughput_tok_s >= 0.93 * curve.most_throughput());
    assert!(last.goodput_tok_s < 0.2 * curve.peak().goodput_tok_s);
}

#[test]
fn a_mixture_of_experts_has_a_peak_inside_too() {
    EXPERTS.curve(EXPERTS.grid, FEW).has_the_form_of_the_essay();
}

/// A virtual curve is the same on every machine and in every run.
#[test]
fn a_true_row_is_reproducible() {
    let row = || LAPTOP.true_row(8, 200);
    assert_eq!(row(), row());
}

/// Sweeps `case` in real time and holds the load it finds against the true curve.
fn a_sweep_finds_the_best(case: &Case, duration: &str) {
    if std::env::var_os("GOODPUT_SUITES").is_none() {
        println!("skipped: a sweep in real time is run by suites/truth.sh");
        return;
    }
    let out = format!("{}/truth-{}", env!("CARGO_TARGET_TMPDIR"), case.profile);
    let _ = std::fs::remove_dir_all(&out);
    let grid: Vec<String> = case.grid.iter().map(ToString::to_string).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_goodput"))
        .args([
            "sweep",
            "--profile",
            case.profile,
            "--workload",
            case.workload,
        ])
        .args([
            "--slo",
            case.slo,
            "--concurrency",
            &grid.join(","),
            "--rate",
            "none",
        ])
        .args(["--duration", duration, "--out", &out])
        .output()
        .unwrap();
    let (said, talk) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    println!("{talk}\n{said}");
    let text = std::fs::read_to_string(format!("{out}/result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let found = &result["operating_point"]["by_goodput"]["row"]["concurrency"];
    let found = u32::try_from(found.as_u64().unwrap()).unwrap();
    let curve = case.curve(&case.finer(), MANY);
    let at_found = case.true_row(found, MANY).goodput_tok_s;
    let best = curve.peak().goodput_tok_s.max(at_found);
    let share = at_found / best;
    println!(
        "{}: the sweep found {found} in flight, whose true goodput of {at_found:.0} tok/s is {:.1} % of the best ({:.0} at {} in flight)",
        case.profile,
        100.0 * share,
        curve.peak().goodput_tok_s,
        curve.peak().concurrency.unwrap(),
    );
    assert!(share >= 0.9, "{share}");
}

// Run with one thread: two sweeps at once would take each other's cores.

#[test]
fn a_sweep_of_the_laptop_profile_finds_the_best_true_goodput() {
    a_sweep_finds_the_best(&LAPTOP, "8s");
}

#[test]
fn a_sweep_over_the_kv_cliff_finds_the_best_true_goodput() {
    a_sweep_finds_the_best(&KV_CLIFF, "12s");
}

#[test]
fn a_sweep_of_a_mixture_of_experts_finds_the_best_true_goodput() {
    a_sweep_finds_the_best(&EXPERTS, "8s");
}
