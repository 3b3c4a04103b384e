use std::{collections::BTreeMap, sync::OnceLock, time::Duration};

use goodput_ledger::{Between, MeasuredPoint, MeasuredRequest, Mode};
use goodput_record::{RequestRow, nanos};
use goodput_stats::{Draws, Stream};
use proptest::prelude::*;

use super::*;
use crate::{BootSummary, document::Finding};

/// A sweep of twelve points; its findings and invalid points are taken out.
pub(crate) fn sample() -> RunResult {
    static READ: OnceLock<RunResult> = OnceLock::new();
    let read = READ.get_or_init(|| {
        let text = include_str!("../../../goodput-report/tests/sample.json");
        let mut result: RunResult = serde_json::from_str(text).unwrap();
        (result.findings, result.charts) = (Vec::new(), Vec::new());
        for point in &mut result.points {
            (point.valid, point.warnings) = (true, Vec::new());
        }
        result
    });
    read.clone()
}

/// The sample with one load, 16 in flight, of this goodput and this relative reach of its interval.
fn at_16(goodput: f64, reach: f64) -> RunResult {
    let mut result = sample();
    result.points.retain(|p| p.concurrency == Some(16));
    let point = &mut result.points[0];
    point.goodput_tok_s = goodput;
    point.goodput_interval = Some(Between {
        low: goodput * (1.0 - reach),
        high: goodput * (1.0 + reach),
    });
    result
}

fn against(base: &RunResult, other: &RunResult, rules: &[&str]) -> Gate {
    let rules: Vec<Rule> = rules.iter().map(|r| Rule::parse(r).unwrap()).collect();
    let comparison = compare(&Side::alone(base), &Side::alone(other));
    Gate::judge(&comparison, &rules, Undecided::Pass)
}

/// The verdict on goodput that changes by `percent`, known to about `reach` percent.
#[track_caller]
fn check(percent: f64, reach: f64, rule: &str, expect: Word) {
    let reach = reach / 100.0 / 2.0_f64.sqrt();
    let gate = against(
        &at_16(1000.0, reach),
        &at_16(1000.0 * (1.0 + percent / 100.0), reach),
        &[rule],
    );
    let case = &gate.cases[0];
    assert_eq!(case.word, expect, "{percent}% +- {reach}: {case:?}");
}

#[test]
fn a_tolerated_change_passes_fails_or_is_left_open() {
    use Word::*;
    let rule = "goodput_tok_s < -3%";
    check(-4.0, 2.0, rule, Fail);
    check(-2.0, 0.8, rule, Pass);
    check(-2.0, 2.5, rule, NotDecided);
    check(-4.0, 6.0, rule, NotDecided);
    check(0.0, 2.0, rule, Pass);
    check(0.0, 5.0, rule, NotDecided);
    check(20.0, 5.0, rule, Pass);
}

#[test]
fn an_improvement_that_is_asked_for_must_be_seen() {
    use Word::*;
    let rule = "goodput_tok_s < +5%";
    check(2.0, 1.0, rule, Fail);
    check(4.5, 2.0, rule, NotDecided);
    check(8.0, 1.0, rule, Pass);
}

#[test]
fn a_level_is_held_against_the_other_alone() {
    use Word::*;
    check(-50.0, 1.0, "goodput_tok_s < 400 tok/s", Pass);
    check(-50.0, 1.0, "goodput_tok_s < 600 tok/s", Fail);
    check(-50.0, 1.0, "goodput_tok_s < 501 tok/s", NotDecided);
    check(-50.0, 1.0, "goodput_tok_s < -600 tok/s", Pass);
    check(-50.0, 1.0, "goodput_tok_s > +10 tok/s", Pass);
    check(50.0, 1.0, "goodput_tok_s > +10 tok/s", Fail);
}

#[test]
fn an_open_rule_says_how_much_more_would_close_it() {
    let gate = against(
        &at_16(1000.0, 0.03),
        &at_16(1000.0, 0.03),
        &["goodput_tok_s < -3%"],
    );
    // The interval reaches 4.2 %: twice the requests bring it to 3 %.
    assert!(
        gate.cases[0].why.contains("about 2 times the requests"),
        "{:?}",
        gate.cases[0]
    );
    assert_eq!(gate.verdict, GateVerdict::Pass);
}

#[test]
fn an_undecided_rule_fails_where_that_is_asked() {
    let (base, other) = (at_16(1000.0, 0.03), at_16(1000.0, 0.03));
    let comparison = compare(&Side::alone(&base), &Side::alone(&other));
    let rules = [Rule::parse("goodput_tok_s < -3%").unwrap()];
    let judge = |undecided| Gate::judge(&comparison, &rules, undecided).verdict;
    assert_eq!(judge(Undecided::Pass), GateVerdict::Pass);
    assert_eq!(judge(Undecided::Fail), GateVerdict::Fail);
}

/// A candidate that died half-way does not pass by the loads that it did measure.
#[test]
fn a_run_that_was_broken_off_decides_nothing() {
    let (base, mut other) = (at_16(1000.0, 0.001), at_16(1000.0, 0.001));
    let rule = ["goodput_tok_s < -3%"];
    assert_eq!(against(&base, &other, &rule).verdict, GateVerdict::Pass);
    other.complete = false;
    other.incomplete_because = Some("killed".to_owned());
    let gate = against(&base, &other, &rule);
    assert_eq!(gate.verdict, GateVerdict::NotEvaluable);
    assert!(
        gate.cases[0].why.contains("not complete: killed"),
        "{:?}",
        gate.cases[0]
    );
}

#[test]
fn what_is_not_valid_decides_nothing() {
    let (base, mut other) = (at_16(1000.0, 0.001), at_16(500.0, 0.001));
    let rule = ["goodput_tok_s < -3%"];
    assert_eq!(against(&base, &other, &rule).verdict, GateVerdict::Fail);
    other.points[0].valid = false;
    other.points[0].warnings = vec!["the client was too slow".to_owned()];
    let gate = against(&base, &other, &rule);
    assert_eq!(gate.verdict, GateVerdict::NotEvaluable);
    assert!(
        gate.cases[0]
            .why
            .contains("other: not valid: the client was too slow")
    );
    assert_eq!(gate.cases[0].value, None);
}

#[test]
fn a_result_that_is_doubted_decides_nothing() {
    let (base, mut other) = (at_16(1000.0, 0.001), at_16(500.0, 0.001));
    let finding = |severe| Finding {
        name: "one-burst".to_owned(),
        evidence: "all at once".to_owned(),
        advice: String::new(),
        severe,
    };
    other.findings = vec![finding(false)];
    let rule = ["goodput_tok_s < -3%"];
    assert_eq!(against(&base, &other, &rule).verdict, GateVerdict::Fail);
    other.findings = vec![finding(true)];
    let gate = against(&base, &other, &rule);
    assert_eq!(gate.verdict, GateVerdict::NotEvaluable);
    assert!(gate.cases[0].why.contains("one-burst: all at once"));
}

#[test]
fn a_load_that_one_did_not_measure_is_no_pass() {
    let base = at_16(1000.0, 0.001);
    let gate = against(
        &base,
        &base,
        &["goodput_tok_s < -3% at 17", "goodput_tok_s < -3% at 16"],
    );
    let words: Vec<Word> = gate.cases.iter().map(|c| c.word).collect();
    assert_eq!(words, [Word::NotEvaluable, Word::Pass]);
    assert_eq!(gate.verdict, GateVerdict::NotEvaluable);
    let mut nothing = base.clone();
    nothing.points.clear();
    let gate = against(&base, &nothing, &["goodput_tok_s < -3%"]);
    assert_eq!(gate.verdict, GateVerdict::NotEvaluable);
}

#[test]
fn one_rate_by_other_arrivals_is_another_load() {
    let mut base = sample();
    base.points.retain(|p| p.rate_req_s == Some(4.6));
    let mut other = base.clone();
    other.points[0].other_arrivals = Some("poisson".to_owned());
    let rule = ["goodput_tok_s < -3%"];
    assert_eq!(
        against(&base, &other, &rule).verdict,
        GateVerdict::NotEvaluable
    );
    base.points.push(other.points[0].clone());
    let gate = against(&base, &other, &rule);
    assert_eq!(gate.cases[0].place, "4.6 req/s, poisson");
}

#[test]
fn a_rule_looks_at_every_shared_load_and_a_figure_without_interval_is_open() {
    let result = sample();
    let gate = against(&result, &result, &["ttft_p99_ms > +10%"]);
    assert_eq!(gate.cases.len(), result.points.len());
    assert_eq!(gate.count(Word::NotDecided), result.points.len());
    assert_eq!(gate.verdict, GateVerdict::Pass);
}

#[test]
fn an_answer_that_is_gone_fails_where_every_load_that_would_do_breaks() {
    let (base, mut other) = (sample(), sample());
    let rule = ["sell_req_s < -10%"];
    // Tested: 4.6 keeps, 5.2 breaks; the truth of either lies between.
    assert_eq!(
        against(&base, &other, &rule).cases[0].word,
        Word::NotDecided
    );
    assert_eq!(
        against(&base, &other, &["sell_req_s < -20%"]).cases[0].word,
        Word::Pass
    );
    other.operating_point.by_objective = None;
    let gate = against(&base, &other, &rule);
    assert_eq!(
        gate.cases[0].word,
        Word::NotEvaluable,
        "5.2 breaks, 4.6 might do: {gate:?}"
    );
    let slow = other
        .points
        .iter_mut()
        .find(|p| p.rate_req_s == Some(4.6))
        .unwrap();
    slow.rate_req_s = Some(3.0);
    slow.attainment_interval = Some(Between {
        low: 0.5,
        high: 0.6,
    });
    let gate = against(&base, &other, &rule);
    assert_eq!(gate.cases[0].word, Word::Fail, "{gate:?}");
    assert_eq!(gate.cases[0].value, None, "what is gone is not 0");
}

/// The sample as it comes out where these closed loads were disturbed.
fn disturbed(loads: &[u32]) -> RunResult {
    let mut result = sample();
    for point in &mut result.points {
        point.valid = !point.concurrency.is_some_and(|n| loads.contains(&n));
    }
    let question = crate::Question {
        objective: result.holds_for.slos[0].objective,
        e2e_at_tokens: 250,
    };
    result.operating_point = crate::answers(&result.points, question);
    result
}

fn answer<'a>(comparison: &'a Comparison, name: &str) -> &'a Compared {
    let mut answers = comparison.answers.iter();
    answers.find(|a| a.figure == name).unwrap()
}

/// A cap that is lower only because the next load was not valid has not fallen.
#[test]
fn an_answer_beside_a_load_that_is_not_valid_says_so() {
    let (base, other) = (disturbed(&[]), disturbed(&[40]));
    let comparison = compare(&Side::alone(&base), &Side::alone(&other));
    let cap = answer(&comparison, "cap_in_flight");
    assert_eq!((cap.base, cap.other), (Some(40.0), Some(32.0)));
    assert_eq!(
        cap.caveats,
        ["other: no valid point at 40 in flight: the cap may be higher"]
    );
    assert_eq!(
        answer(&comparison, "scale_out_at_tok_s").caveats,
        cap.caveats
    );
    for free in ["sell_req_s", "peak_goodput_tok_s"] {
        assert_eq!(answer(&comparison, free).caveats, [""; 0], "{free}");
    }
    let rules = [
        "cap_in_flight < -10%",
        "scale_out_at_tok_s < -1%",
        "cap_in_flight < -50%",
    ];
    let gate = against(&base, &other, &rules);
    let words: Vec<Word> = gate.cases.iter().map(|c| c.word).collect();
    // From 32 to below 48 it may be: that is not a loss of half.
    assert_eq!(words, [Word::NotEvaluable, Word::NotEvaluable, Word::Pass]);
    assert!(gate.cases[0].why.contains("no valid point at 40 in flight"));
}

#[test]
fn loads_that_are_not_valid_elsewhere_change_no_answer() {
    let base = disturbed(&[]);
    let caveats = |other: &RunResult, name: &str| {
        let comparison = compare(&Side::alone(&base), &Side::alone(other));
        answer(&comparison, name).caveats.clone()
    };
    let none = [""; 0];
    for far in [8, 64] {
        assert_eq!(caveats(&disturbed(&[far]), "cap_in_flight"), none, "{far}");
    }
    // The load was measured again, and that point is valid.
    let mut again = disturbed(&[40]);
    let mut row = again.points[4].clone();
    (row.valid, row.point) = (true, 99);
    again.points.push(row);
    assert_eq!(caveats(&again, "cap_in_flight"), none);
    let peak = caveats(&disturbed(&[56, 64]), "peak_goodput_tok_s");
    assert_eq!(
        peak,
        ["other: no valid points at 56 in flight and 64 in flight: the peak may lie there"]
    );
}

#[test]
fn a_rate_is_no_cap() {
    let (base, mut other) = (sample(), sample());
    let rate = other.points.iter().find(|p| p.mode == Mode::Open).cloned();
    other.operating_point.by_clauses = rate;
    let comparison = compare(&Side::alone(&base), &Side::alone(&other));
    let cap = answer(&comparison, "cap_in_flight");
    assert_eq!((cap.base, cap.other), (Some(40.0), None));
}

#[test]
fn two_results_differ_in_more_than_their_figures() {
    let (base, mut other) = (sample(), sample());
    assert!(mismatches(&base, &other).is_empty() && differences(&base, &other).is_empty());
    other.holds_for.gpus = Some(2);
    other.holds_for.server.version = None;
    other
        .holds_for
        .server
        .flags
        .insert("max_num_seqs".to_owned(), "128".to_owned());
    other
        .settings
        .insert("faults".to_owned(), "errors=5%".to_owned());
    other.settings.insert("seed".to_owned(), "8".to_owned());
    let mut tier = other.holds_for.slos[0].clone();
    tier.sentence = "more".to_owned();
    other.holds_for.slos.push(tier);
    let found = differences(&base, &other);
    let names: Vec<&str> = found.iter().map(|m| m.what.as_str()).collect();
    assert_eq!(
        names,
        [
            "server version",
            "gpus",
            "slo 2",
            "server max_num_seqs",
            "faults"
        ]
    );
    assert!(
        found.iter().any(|m| m.other == "-"),
        "what is unsaid is a dash"
    );
    assert!(mismatches(&base, &other).is_empty());
    other.holds_for.slos[0].sentence = "another".to_owned();
    assert_eq!(mismatches(&base, &other)[0].what, "slo");
}

#[test]
fn tokens_of_two_models_are_not_held_against_each_other() {
    let (base, mut other) = (sample(), sample());
    other.holds_for.model = "another".to_owned();
    let gate = against(
        &base,
        &other,
        &["goodput_tok_s < -3% at 16", "ttft_p99_ms > +3% at 16"],
    );
    assert_eq!(gate.cases[0].word, Word::NotEvaluable);
    assert!(gate.cases[0].why.contains("tokens of two models"));
    assert_eq!(gate.cases[1].word, Word::NotDecided);
}

/// The sample's point with requests a tenth of a second apart; what `plan` draws is the same in
/// every run, what `noise` draws is not.
fn run(plan: u64, noise: u64, slower: f64) -> (RunResult, BTreeMap<u32, MeasuredPoint>) {
    let mut result = at_16(1.0, 0.1);
    let template = json_row();
    let rows = (0..1200_u64).map(|i| {
        let planned = Draws::new(plan, Stream(1), i).bits() % 100;
        let own = Draws::new(noise, Stream(2), i).unit();
        let tokens = 50 + u32::try_from(planned).unwrap();
        let ttft = slower * (0.150 + 0.002 * planned as f64 + 0.020 * own);
        let mut row = template.clone();
        row.id = format!("r-{i}");
        row.session = u32::try_from(i).unwrap();
        (row.planned_output_tokens, row.output_tokens) = (tokens, Some(tokens));
        row.origin_ns = i * 100_000_000;
        let first = row.origin_ns + nanos(Duration::from_secs_f64(ttft));
        (row.first_token_ns, row.last_token_ns) = (Some(first), Some(first + 2_000_000_000));
        row.end_ns = first + 2_000_000_000;
        row
    });
    let slo = result.holds_for.slos[0].name.clone();
    let measured: MeasuredPoint = rows
        .filter_map(|mut row| {
            let verdict = std::mem::take(&mut row.verdicts).into_values().next();
            row.verdicts = [(slo.clone(), verdict.unwrap())].into();
            MeasuredRequest::of(&row, &slo)
        })
        .collect();
    let point = &mut result.points[0];
    point.ttft_p50_ms = measured
        .bounded(goodput_ledger::Sampled::Quantile(
            goodput_ledger::Latency::Ttft,
            0.5,
        ))
        .map(|b| b.value);
    let number = point.point;
    (result, [(number, measured)].into())
}

fn json_row() -> RequestRow {
    let line = r#"{
        "id": "r-0", "point": 2, "phase": "measured", "vantage": "client", "tenant": "", "class": "",
        "pool": "", "model": "m", "replica": "", "session": 0, "step": 0, "steps": 1,
        "origin_ns": 0, "sent_ns": 0, "connect_ms": null, "dispatched_ns": null, "attempts": 1,
        "first_byte_ns": 1, "first_token_ns": 1, "first_answer_ns": null, "last_token_ns": 1,
        "end_ns": 1, "ttft_ms": null, "ttft_answer_ms": null, "tpot_ms": null,
        "tpot_median_ms": null, "itl_p99_ms": null, "stall_ms": null, "e2e_ms": null,
        "outcome": "ok", "timeout_phase": null, "http_status": 200, "finish_reason": "length",
        "input_tokens": 100, "planned_input_tokens": 100, "cached_tokens": null,
        "planned_cached_tokens": 0, "output_tokens": 50, "output_tokens_source": "usage",
        "planned_output_tokens": 50, "reasoning_tokens": null, "events": 50, "characters": 200,
        "words": 40, "choices": 1, "streamed": true, "one_burst": false,
        "verdicts": {"chat": "met"}
    }"#;
    serde_json::from_str(line).unwrap()
}

/// The change of the median TTFT between two runs.
fn ttft(
    base: &(RunResult, BTreeMap<u32, MeasuredPoint>),
    other: &(RunResult, BTreeMap<u32, MeasuredPoint>),
) -> Compared {
    let side = |s: &(RunResult, BTreeMap<u32, MeasuredPoint>)| s.1.clone();
    let comparison = compare(
        &Side {
            result: &base.0,
            measured: side(base),
        },
        &Side {
            result: &other.0,
            measured: side(other),
        },
    );
    let figures = comparison.points[0].figures.iter();
    figures
        .clone()
        .find(|f| f.figure == "ttft_p50_ms")
        .unwrap()
        .clone()
}

#[test]
fn one_seed_pairs_request_by_request_and_two_do_not() {
    let width = |c: &Compared| c.change_interval.map(|i| i.high - i.low).unwrap();
    let (base, mut other) = (run(1, 1, 1.0), run(1, 2, 1.03));
    let paired = ttft(&base, &other);
    assert_eq!(paired.evidence, Evidence::Paired);
    other.0.seed += 1;
    let plain = ttft(&base, &other);
    assert_eq!(plain.evidence, Evidence::Independent);
    assert!(width(&paired) < 0.5 * width(&plain), "{paired:?} {plain:?}");
    // The same seed, but another workload after all.
    other.0.seed = base.0.seed;
    let stranger = run(2, 2, 1.03);
    assert_eq!(ttft(&base, &stranger).evidence, Evidence::Independent);
}

/// The sample's point on boots whose goodputs are these.
fn booted(goodputs: &[f64]) -> RunResult {
    let mean = goodputs.iter().sum::<f64>() / goodputs.len() as f64;
    let mut result = at_16(mean, 0.001);
    result.boots = (1..)
        .zip(goodputs)
        .map(|(boot, goodput)| BootSummary {
            boot,
            run: format!("{boot:08x}"),
            started: String::new(),
            server_started_unix_s: None,
            points: at_16(*goodput, 0.001).points,
        })
        .collect();
    result
}

#[test]
fn boots_speak_where_there_are_boots() {
    let rule = ["goodput_tok_s < -3%"];
    let steady = [1000.0, 1001.0, 999.0, 1000.0];
    let wild = [900.0, 1100.0, 950.0, 1050.0];
    let lower = |goodputs: &[f64]| goodputs.iter().map(|g| 0.93 * g).collect::<Vec<_>>();
    let gate = against(&booted(&steady), &booted(&lower(&steady)), &rule);
    assert_eq!(
        (gate.cases[0].word, gate.cases[0].evidence),
        (Word::Fail, Evidence::Boots)
    );
    let gate = against(&booted(&wild), &booted(&lower(&wild)), &rule);
    assert_eq!(gate.cases[0].word, Word::NotDecided, "{gate:?}");
    // One boot against several is one of their kind: what a restart changes is not forgotten.
    let gate = against(&booted(&wild), &at_16(930.0, 0.001), &rule);
    assert_eq!(
        (gate.cases[0].word, gate.cases[0].evidence),
        (Word::NotDecided, Evidence::Boots)
    );
    let gate = against(&at_16(1000.0, 0.001), &at_16(930.0, 0.001), &rule);
    assert_eq!(gate.cases[0].word, Word::Fail, "of this boot only");
}

/// Two results over ten loads with goodputs that are off by a normal error of `error` each.
fn noisy(seed: u64, change: f64, error: f64) -> (RunResult, RunResult) {
    let mut draws = Draws::new(seed, Stream(9), 0);
    let mut off = || error * ((0..12).map(|_| draws.unit()).sum::<f64>() - 6.0);
    let mut result = |change: f64| {
        let mut result = sample();
        result.points.retain(|p| p.mode == Mode::Closed);
        for point in &mut result.points {
            let truth = 1000.0 * (1.0 + change);
            let reach = 1.96 * error * truth;
            point.goodput_tok_s = truth * (1.0 + off());
            point.goodput_interval = Some(Between {
                low: point.goodput_tok_s - reach,
                high: point.goodput_tok_s + reach,
            });
        }
        result
    };
    (result(0.0), result(change))
}

#[test]
fn two_equal_servers_fail_a_gate_in_one_of_twenty_runs_at_most() {
    let rules = ["goodput_tok_s < -1%", "goodput_tok_s > +1%"];
    let runs = 400;
    let failed = |change: f64| {
        let one = |seed| {
            let (base, other) = noisy(seed, change, 0.02);
            against(&base, &other, &rules).verdict == GateVerdict::Fail
        };
        (0..runs).filter(|seed| one(*seed)).count() as f64 / runs as f64
    };
    let (equal, worse) = (failed(0.0), failed(-0.15));
    assert!(equal <= 0.06, "{equal}");
    assert!(worse >= 0.99, "a loss of 15 % is seen: {worse}");
}

#[test]
fn a_change_beyond_its_bound_seldom_passes() {
    // True change -5 %, tolerated -3 %: the chance that a load passes is that of its interval.
    let runs = 200;
    let passed: usize = (0..runs)
        .map(|seed| {
            let (base, other) = noisy(seed, -0.05, 0.005);
            against(&base, &other, &["goodput_tok_s < -3%"]).count(Word::Pass)
        })
        .sum();
    let share = passed as f64 / f64::from(u32::try_from(runs).unwrap() * 10);
    assert!(share <= 0.01, "{share}");
}

#[test]
fn a_comparison_survives_being_written_and_read() {
    let (base, other) = noisy(1, -0.1, 0.01);
    let mut comparison = compare(&Side::alone(&base), &Side::alone(&other));
    comparison.gate = Some(against(&base, &other, &["goodput_tok_s < -3%"]));
    let text = serde_json::to_string(&comparison).unwrap();
    assert_eq!(
        serde_json::from_str::<Comparison>(&text).unwrap(),
        comparison
    );
}

proptest! {
    #[test]
    fn a_better_other_is_never_judged_worse(
        reach in 0.001..0.2_f64, low in 0.3..1.5_f64, more in 0.0..0.5_f64, bound in -20_i32..20,
    ) {
        let rank = |word| match word {
            Word::Fail => 0,
            Word::NotDecided => 1,
            _ => 2,
        };
        let rule = format!("goodput_tok_s < {bound:+}%");
        let word = |other: f64| {
            against(&at_16(1000.0, reach), &at_16(1000.0 * other, reach), &[&rule]).cases[0].word
        };
        prop_assert!(rank(word(low)) <= rank(word(low + more)));
    }

    #[test]
    fn a_result_against_itself_breaks_no_tolerance(reach in 0.0001..0.5_f64, bound in 0_i32..30) {
        let result = at_16(1000.0, reach);
        let rules = [format!("goodput_tok_s < -{bound}%"), format!("goodput_tok_s > +{bound}%")];
        let gate = against(&result, &result, &[&rules[0], &rules[1]]);
        prop_assert_eq!(gate.count(Word::Fail), 0);
    }
}
