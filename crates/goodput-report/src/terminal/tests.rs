use goodput_ledger::{PointRow, WithFailures};
use goodput_sweep::{RunResult, Side};

use super::*;
use crate::sample::{sample, scaled};

fn files(folder: &str) -> Files<'_> {
    Files {
        folder,
        names: &["report.html", "result.json", "points.csv", "requests.jsonl"],
    }
}

#[test]
fn a_whole_run() {
    insta::assert_snapshot!(run(
        &sample(),
        Some(files("runs/q32-chat-1130")),
        0,
        Style::plain()
    ));
}

fn compared(base: &RunResult, other: &RunResult) -> goodput_sweep::Comparison {
    goodput_sweep::compare(&Side::alone(base), &Side::alone(other))
}

#[test]
fn a_gate_says_what_each_rule_comes_to() {
    insta::assert_snapshot!(comparison(&crate::change::tests::gated(), Style::plain()));
}

#[test]
fn two_runs_of_one_model() {
    let mut other = scaled(1.25, 1.4);
    other.points.truncate(3);
    other.operating_point.by_objective = None;
    insta::assert_snapshot!(comparison(&compared(&sample(), &other), Style::plain()));
}

/// What a load that is not valid leaves open stands beside the change it may have made, on every face.
#[test]
fn a_caveat_stands_beside_its_change() {
    let mut both = compared(&sample(), &scaled(0.9, 1.0));
    let cap = both
        .answers
        .iter_mut()
        .find(|a| a.figure == "cap_in_flight");
    let caveat = "other: no valid point at 40 in flight: the cap may be higher";
    cap.unwrap().caveats = vec![caveat.to_owned()];
    let faces = [
        comparison(&both, Style::plain()),
        crate::markdown::comparison(&both),
        crate::csv::comparison(&both),
    ];
    for face in faces {
        let (before, _) = face.split_once(caveat).expect("the caveat");
        let figure = before.replace('\\', "");
        assert!(
            figure.rfind("cap_in_flight") > figure.rfind("sell_req_s"),
            "{face}"
        );
    }
}

/// A load that was measured twice is not held against itself.
#[test]
fn the_peak_measured_again_is_not_what_to_avoid() {
    let mut result = sample();
    assert!(answer(&result, Style::plain()).contains("not this"));
    let found = &mut result.operating_point;
    let mut again = found.by_goodput.as_ref().unwrap().row.clone();
    (again.point, again.throughput_tok_s) = (99, 2000.0);
    found.by_throughput = Some(again);
    let text = answer(&result, Style::plain());
    assert!(!text.contains("not this"), "{text}");
}

/// There is one threshold: by the rate to sell, or as long as there is none by the goodput at the cap.
#[test]
fn where_to_scale_out_is_told_once() {
    let mut result = sample();
    let answers = |result: &RunResult| answer(result, Style::plain());
    let both = |a: &RunResult, b: &RunResult| comparison(&compared(a, b), Style::plain());
    assert!(
        answers(&result).contains("3.22 req/s  "),
        "{}",
        answers(&result)
    );
    assert!(!both(&result, &result).contains("scale_out_at_tok_s"));
    result.operating_point.by_objective = None;
    result.operating_point.scale_out_at_req_s = None;
    let text = answers(&result);
    assert!(text.contains("925 good tok/s"), "{text}");
    assert!(text.contains("70% of the goodput at the cap"), "{text}");
    let text = both(&result, &result);
    assert!(text.contains("scale_out_at_tok_s") && !text.contains("scale_out_at_req_s"));
}

#[test]
fn two_models_are_ranked_by_characters_and_never_by_tokens() {
    let mut other = sample();
    other.holds_for.model = "Other-8B".to_owned();
    let best = &mut other.operating_point.by_objective.as_mut().unwrap().row;
    let good = &mut best.slos[0].good_characters_per_s;
    *good = good.map(|rate| rate * 1.5);
    let text = comparison(&compared(&sample(), &other), Style::plain());
    assert!(
        text.contains("other gives more good text, at the rate to sell: +50.0%"),
        "{text}"
    );
    assert!(!text.contains("tok_s"), "{text}");
}

/// The columns of the sample's SLO in a pipe.
fn narrow() -> Columns {
    Columns::of(&sample().holds_for.slos, Style::plain())
}

fn table(result: &RunResult, width: usize) -> String {
    let style = Style {
        color: false,
        width,
    };
    closed_table(result, style)
}

#[test]
fn e2e_is_shown_where_the_slo_asks_for_it_or_there_is_room() {
    let mut result = sample();
    assert!(!table(&result, 100).contains("e2e ms"));
    assert!(table(&result, 140).contains("e2e ms"));
    result.holds_for.slos[0].clauses[0].metric = "e2e".to_owned();
    for width in [80, 100, 140] {
        let text = table(&result, width);
        let heading = text.lines().nth(1).unwrap();
        let at = heading.match_indices("p99").nth(2).unwrap().0 + "p99".len();
        let row = text.lines().find(|l| l.starts_with("        8")).unwrap();
        let e2e = crate::number::millis(result.points[1].e2e_p99_ms);
        assert!(row[..at].ends_with(&format!(" {e2e}")), "{text}");
    }
}

#[test]
fn rows_without_a_mark_fit_the_terminal() {
    let mut result = sample();
    for metric in ["ttft", "e2e"] {
        metric.clone_into(&mut result.holds_for.slos[0].clauses[0].metric);
        for width in 80..=140 {
            let text = table(&result, width);
            let longest = text
                .lines()
                .filter(|l| !l.contains("cap") && !l.contains("peak") && !l.contains("timed out"))
                .map(|l| l.chars().count())
                .max();
            // Two more columns than 80 hold are what an SLO on E2E takes.
            let room = if metric == "e2e" {
                width.max(86)
            } else {
                width
            };
            assert!(longest.unwrap() <= room, "{width}\n{text}");
        }
    }
}

/// A closed-loop point of which nothing came back but 503.
fn refused() -> PointRow {
    let mut row = sample().points.remove(2);
    row.outcomes = [("rejected".to_owned(), 20)].into();
    row.requests = 20;
    (row.ttft_n, row.tpot_n) = (0, 0);
    (
        row.ttft_p50_ms,
        row.ttft_p99_ms,
        row.tpot_p50_ms,
        row.tpot_p99_ms,
    ) = (None, None, None, None);
    row.ttft_p99_with_failures = WithFailures::default();
    (row.goodput_tok_s, row.throughput_tok_s, row.completed_req_s) = (0.0, 0.0, 0.0);
    row.slo_attainment = Some(0.0);
    row
}

#[test]
fn a_point_without_any_success_shows_dashes_and_what_failed() {
    let line = closed_row(&refused(), Scale(100.0), "", narrow(), Style::plain());
    insta::assert_snapshot!(line);
}

#[test]
fn a_percentile_among_failures_is_only_known_to_be_above_a_bound() {
    let mut row = sample().points.remove(2);
    row.ttft_p99_with_failures = WithFailures {
        ms: None,
        over_ms: Some(10_000.0),
    };
    let line = closed_row(&row, Scale(1000.0), "", narrow(), Style::plain());
    assert!(line.contains(">10000"), "{line}");
}

#[test]
fn too_few_samples_for_a_percentile_are_said() {
    let mut row = sample().points.remove(2);
    row.ttft_n = 71;
    let line = closed_row(&row, Scale(1000.0), "", narrow(), Style::plain());
    assert!(line.contains("270*"), "{line}");
    assert!(run(&sample(), None, 0, Style::plain()).contains("* under 100 samples"));
}

#[test]
fn a_run_without_points_or_answers_says_why() {
    let mut result = sample();
    result.points.clear();
    result.findings.clear();
    result.complete = false;
    result.incomplete_because = Some("stopped by signal 2".to_owned());
    result.operating_point = goodput_sweep::OperatingPoint {
        missing: vec!["no peak: no request met the SLO at any load".to_owned()],
        ..Default::default()
    };
    let text = run(&result, Some(files("runs/x/")), 1, Style::plain());
    assert!(text.contains("nothing measured"), "{text}");
    assert!(text.contains("INCOMPLETE: stopped by signal 2"), "{text}");
    assert!(
        text.contains("no peak") && text.contains(" no request met the SLO at any load"),
        "{text}"
    );
    assert!(text.contains("exit 1"), "{text}");
}

#[test]
fn an_emulated_server_says_so_in_its_first_line() {
    let mut result = sample();
    result.holds_for.server.emulated = true;
    assert!(head(&result.holds_for, Style::plain()).contains("EMULATED"));
}

#[test]
fn colour_changes_no_letter() {
    let color = Style {
        color: true,
        width: 100,
    };
    let painted = run(&sample(), Some(files("runs/x")), 0, color);
    let mut plain = String::new();
    let mut rest = painted.as_str();
    while let Some((before, escape)) = rest.split_once('\u{1b}') {
        plain += before;
        rest = escape.split_once('m').unwrap().1;
    }
    assert!(painted.len() > plain.len() + rest.len());
    assert_eq!(
        plain + rest,
        run(&sample(), Some(files("runs/x")), 0, Style::plain())
    );
}

#[test]
fn the_moving_line_fits_the_terminal() {
    let live = Live {
        load: "40 in flight".to_owned(),
        phase: "measuring",
        point: (5, Some(14)),
        done: 0.52,
        requests: 1204,
        in_flight: 40,
        attainment: Some(0.984),
        throughput_tok_s: Some(1343.0),
        left_s: Some(760.0),
    };
    let line = live.line(Style {
        color: false,
        width: 120,
    });
    insta::assert_snapshot!(line);
    assert_eq!(
        live.line(Style {
            color: false,
            width: 40
        })
        .chars()
        .count(),
        39
    );
    insta::assert_snapshot!(cost(10, 4, 1300.0, Style::plain()));
}

#[test]
fn figures_a_gpu_are_shown_where_their_number_is_known() {
    let mut result = sample();
    assert!(!answer(&result, Style::plain()).contains("per GPU"));
    result.holds_for.gpus = Some(2);
    result
        .operating_point
        .by_clauses
        .as_mut()
        .unwrap()
        .goodput_tok_s_per_gpu = Some(660.7);
    let text = answer(&result, Style::plain());
    assert!(text.contains("ANSWER, per replica of 2 GPUs"), "{text}");
    assert!(text.contains("per GPU    good tok/s: 661 at cap"), "{text}");
}

#[test]
fn one_point_is_told_by_itself() {
    let mut result = sample();
    result.points = vec![result.points.remove(7)];
    insta::assert_snapshot!(
        closed_table(&result, Style::plain()) + &answer(&result, Style::plain())
    );
}

#[test]
fn every_further_slo_is_shown_point_by_point() {
    let mut result = crate::sample::sample();
    assert_eq!(tiers(&result, Style::plain()), "", "one SLO has no tiers");
    let mut voice = result.holds_for.slos[0].clone();
    voice.name = "voice".to_owned();
    result.holds_for.slos.push(voice);
    for point in &mut result.points {
        let mut said = point.slos[0].clone();
        said.attainment = Some(0.5);
        point.slos.push(said);
    }
    let text = tiers(&result, Style::plain());
    assert!(text.starts_with("TIER voice: "), "{text}");
    let valid = result.points.iter().filter(|p| p.valid).count();
    assert_eq!(text.matches("50.0% in SLO").count(), valid);
    assert_eq!(text.matches("misses").count(), valid);
}

/// While a run goes on nobody knows what a full bar will stand for, and why a point is not used is
/// wanted at once.
#[test]
fn a_row_of_a_running_table_has_its_reason_below_it() {
    let mut row = sample().points[0].clone();
    row.valid = false;
    row.warnings = vec!["the server was restarted: ".to_owned() + &"and so on ".repeat(12)];
    let columns = narrow().without_bars();
    let line = closed_row(&row, Scale(1.0), "", columns, Style::plain());
    assert!(!closed_heading(columns, Style::plain()).contains("# good"));
    assert!(!line.contains('#') && line.contains("!void"), "{line}");
    let below = warnings(&row, Style::plain());
    assert!(
        below.starts_with("           ! the server was restarted"),
        "{below}"
    );
    assert_eq!(below.lines().count(), 2);
    assert!(
        below
            .lines()
            .all(|line| line.chars().count() <= Style::plain().width)
    );
    row.warnings.clear();
    assert_eq!(warnings(&row, Style::plain()), "");
}
