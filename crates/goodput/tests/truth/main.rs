//! The true curve of a profile, in virtual time, and whether a sweep in real time finds its best
//! load.
//!
//! In virtual time there is no client, no socket and no noise: workload, engine and books alone.
//! The sweeps take minutes and are run by `suites/truth.sh`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "the curves are read in the log")]

use std::{num::NonZeroU32, process::Command, sync::Arc, time::Duration};

use goodput_ledger::PointRow;
use goodput_perf_model::Profile;
use goodput_slo::Slo;
use goodput_sweep::auto::Look;
use goodput_virtual::{Detail, PointPlan, Replica, Setting, run_point};
use goodput_workload::{CoursePlan, Load, Settle, Window, WorkloadSpec};

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

impl Case {
    fn slo(&self) -> Slo {
        Slo::from_argument(self.slo).unwrap()
    }

    /// The true row at a concurrency, over about this many measured requests.
    fn true_row(&self, users: u32, requests: u32) -> PointRow {
        let profile = Profile::builtin(self.profile).unwrap();
        let workload = Arc::new(WorkloadSpec::preset(self.workload).unwrap());
        let slos = [self.slo()];
        let setting = Setting {
            detail: Detail::Bins,
            ..Setting::new(&workload, &slos, 11)
        };
        let load = Load::Closed(NonZeroU32::new(users).unwrap());
        let settle = Settle::FirstWave {
            at_most: Duration::from_mins(10),
        };
        let requests = NonZeroU32::new(requests).unwrap();
        let course = CoursePlan {
            hold_load: true,
            ..CoursePlan::new(settle, Window::Requests(requests))
        };
        let plan = PointPlan::new(users, load, course);
        let mut replica = Replica::new(&profile);
        run_point(&mut replica, &setting, &plan, |_, _, _| Look::Wait).row(&plan)
    }

    /// The grid with the loads halfway between its neighbours.
    fn finer(&self) -> Vec<u32> {
        let halfway = self.grid.windows(2).map(|pair| pair[0].midpoint(pair[1]));
        let mut all: Vec<u32> = self.grid.iter().copied().chain(halfway).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn curve(&self, users: &[u32], requests: u32) -> Curve {
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
const FEW: u32 = 600;
/// Requests a point of a curve that a sweep is held against.
const MANY: u32 = 20_000;

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
fn a_sweep_finds_the_best(case: &Case, budget: &str) {
    if std::env::var_os("GOODPUT_SUITES").is_none() {
        println!("skipped: a sweep in real time is run by suites/truth.sh");
        return;
    }
    let out = format!("{}/truth-{}", env!("CARGO_TARGET_TMPDIR"), case.profile);
    let _ = std::fs::remove_dir_all(&out);
    let output = Command::new(env!("CARGO_BIN_EXE_goodput"))
        .args([
            "sweep",
            "--profile",
            case.profile,
            "--workload",
            case.workload,
        ])
        .args(["--slo", case.slo, "--rate", "none"])
        .args(["--budget", budget, "--out", &out])
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
    a_sweep_finds_the_best(&LAPTOP, "60s");
}

#[test]
fn a_sweep_over_the_kv_cliff_finds_the_best_true_goodput() {
    a_sweep_finds_the_best(&KV_CLIFF, "150s");
}

#[test]
fn a_sweep_of_a_mixture_of_experts_finds_the_best_true_goodput() {
    a_sweep_finds_the_best(&EXPERTS, "180s");
}
