//! The tables of load points.

use goodput_ledger::{Mode, PointRow};
use goodput_stats::min_samples_for;
use goodput_sweep::{RunResult, SloFacts};

use crate::{
    bar::bar,
    number::{NONE, count, fixed, millis, number, percent},
    style::{Ink, Style, wrap},
};

/// The widest a bar gets, and the narrowest that still says something.
const BAR: usize = 24;
const NARROW: usize = 8;
/// A bar of half the table's width or more leaves room for two columns.
const ROOMY: usize = 16;
/// Columns before the bar.
const BEFORE_BAR: usize = 73;
/// Columns that E2E takes.
const E2E: usize = 13;
/// Columns behind the bar: `  peak`.
const MARK: usize = 6;
/// What is said above the bars.
const LEGEND: [&str; 2] = ["# good", ". late"];

/// What stands before a warning below a row, and before its further lines.
const WARNING: &str = "           ! ";
const WARNING_ON: &str = "             ";

/// What a full bar stands for, in tokens a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale(pub f64);

impl Scale {
    /// The scale at which the largest throughput of `points` fills the bar.
    #[must_use]
    pub fn of(points: &[PointRow]) -> Self {
        let closed = points.iter().filter(|p| p.mode == Mode::Closed);
        Self(closed.map(|p| p.throughput_tok_s).fold(0.0, f64::max))
    }
}

/// Which columns the closed-loop table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    e2e: bool,
    bar: usize,
}

impl Columns {
    /// E2E has its columns where an SLO has a clause on it, and where they fit beside a bar. A bar
    /// that does not fit is left out.
    #[must_use]
    pub fn of(slos: &[SloFacts], style: Style) -> Self {
        let left = style.width.saturating_sub(BEFORE_BAR);
        let asked = slos
            .iter()
            .flat_map(|slo| &slo.clauses)
            .any(|clause| clause.metric == "e2e");
        let e2e = asked || left >= ROOMY + E2E + MARK;
        let left = left.saturating_sub(if e2e { E2E } else { 0 });
        let legend = LEGEND.concat().len() + 2;
        let bar = if left < legend {
            0
        } else {
            left.saturating_sub(MARK).clamp(NARROW, BAR)
        };
        Self { e2e, bar }
    }

    /// The same without bars: what a full one stands for is not known before all rows are.
    #[must_use]
    pub const fn without_bars(self) -> Self {
        Self { bar: 0, ..self }
    }
}

/// The two heading lines of the closed-loop table.
#[must_use]
pub fn closed_heading(columns: Columns, style: Style) -> String {
    let (over, under) = if columns.e2e {
        ("      e2e ms", format!(" {:>5} {:>6}", "p50", "p99"))
    } else {
        ("", String::new())
    };
    let first =
        format!("CLOSED LOOP (capacity)      ttft ms     tpot ms{over}   in SLO       tok/s");
    let second = format!(
        "{:>9}  {:>5} {:<7} {:>5} {:>6} {:>5} {:>5}{under}  {:>6}  {:>5} {:>5}",
        "in flight", "req/s", "", "p50", "p99", "p50", "p99", "%", "good", "all"
    );
    let first = style.paint(Ink::Heading, &first);
    let second = style.paint(Ink::Faint, &second);
    if columns.bar == 0 {
        return format!("{first}\n{second}\n");
    }
    let [good, late] = LEGEND;
    let (good, late) = (style.paint(Ink::Good, good), style.paint(Ink::Late, late));
    format!("{first}\n{second}   {good}  {late}\n")
}

/// One line of the closed-loop table. `mark` stands behind the bar: `peak`.
#[must_use]
pub fn closed_row(
    point: &PointRow,
    scale: Scale,
    mark: &str,
    columns: Columns,
    style: Style,
) -> String {
    let figures = closed_figures(point, columns);
    let figures = if point.valid {
        figures
    } else {
        style.paint(Ink::Faint, &figures)
    };
    let bar = match columns.bar {
        0 => String::new(),
        width => {
            let (good, all) = (point.goodput_tok_s, point.throughput_tok_s);
            format!("   {} ", bar(good, all, scale.0, width, style))
        }
    };
    let sessions = point
        .trajectory_attainment
        .map(|s| format!("{}% of sessions", percent(Some(s))));
    let mut notes: Vec<String> = sessions.into_iter().chain(failures(point)).collect();
    if !mark.is_empty() {
        notes.insert(0, style.paint(Ink::Heading, mark));
    }
    format!("{figures}{bar} {}", notes.join(", "))
        .trim_end()
        .to_owned()
        + "\n"
}

fn closed_figures(point: &PointRow, columns: Columns) -> String {
    let load = point
        .concurrency
        .map_or_else(|| NONE.to_owned(), |n| n.to_string());
    let flag = flag(point);
    let e2e = if columns.e2e {
        let p99 = starred(millis(point.e2e_p99_ms), point.ttft_n);
        format!(" {:>5} {p99:>6}", millis(point.e2e_p50_ms))
    } else {
        String::new()
    };
    format!(
        "{load:>9}  {:>5} {flag:<7} {:>5} {:>6} {:>5} {:>5}{e2e}  {:>6}  {:>5} {:>5}",
        fixed(Some(point.completed_req_s), 2),
        millis(point.ttft_p50_ms),
        ttft_p99(point),
        millis(point.tpot_p50_ms),
        starred(millis(point.tpot_p99_ms), point.tpot_n),
        percent(point.slo_attainment),
        fixed(Some(point.goodput_tok_s), 0),
        fixed(Some(point.throughput_tok_s), 0),
    )
}

/// The closed-loop table of a run, with the peak, the cap and the throughput's maximum marked.
/// Empty if there is none.
#[must_use]
pub fn closed_table(result: &RunResult, style: Style) -> String {
    let mut points: Vec<&PointRow> = result
        .points
        .iter()
        .filter(|p| p.mode == Mode::Closed)
        .collect();
    if points.is_empty() {
        return String::new();
    }
    points.sort_by(|a, b| a.load().total_cmp(&b.load()));
    let scale = Scale::of(&result.points);
    let columns = Columns::of(&result.holds_for.slos, style);
    let mut out = closed_heading(columns, style);
    for point in &points {
        out += &closed_row(point, scale, mark(result, point), columns, style);
    }
    if points
        .iter()
        .any(|p| too_few(p.ttft_n) || too_few(p.tpot_n))
    {
        out += &style.paint(
            Ink::Faint,
            "  * under 100 samples: close to the maximum, not a p99",
        );
        out.push('\n');
    }
    out
}

/// What the answers make of a point.
fn mark(result: &RunResult, point: &PointRow) -> &'static str {
    if result.points.len() < 2 {
        return "";
    }
    let answers = &result.operating_point;
    let is = |row: Option<&PointRow>| row.is_some_and(|row| row.point == point.point);
    let peak = is(answers.by_goodput.as_ref().map(|best| &best.row));
    let cap = is(answers.by_clauses.as_ref());
    match (peak, cap) {
        (true, true) => "cap, peak",
        (true, false) => "peak",
        (false, true) => "cap",
        (false, false) => "",
    }
}

/// The heading of the open-loop lines.
#[must_use]
pub fn open_heading(arrivals: &str, style: Style) -> String {
    let arrivals = if arrivals.is_empty() {
        String::new()
    } else {
        format!(", {arrivals}")
    };
    style.paint(Ink::Heading, &format!("OPEN LOOP (latency{arrivals})")) + "\n"
}

/// One open-loop point: what share met the SLO, how sure that is, and what it means for the
/// objective (0 to 1).
#[must_use]
pub fn open_row(point: &PointRow, objective: f64, style: Style) -> String {
    let rate = point.rate_req_s.map_or_else(|| NONE.to_owned(), number);
    let n = count(point.requests);
    let share = percent(point.slo_attainment);
    let (bound, verdict) = match point.attainment_interval {
        Some(i) if !point.valid => (at("at least", i.low), "not valid, not used"),
        Some(i) if i.low >= objective => (at("at least", i.low), "keeps the objective"),
        Some(i) if i.high < objective => (at("at most", i.high), "breaks it"),
        Some(i) => (
            format!("{}..{}%", percent(Some(i.low)), percent(Some(i.high))),
            "not decided: the interval holds the objective",
        ),
        None => (String::new(), "no request was judged"),
    };
    let mut line = format!("{rate:>5} req/s  n {n:>6}  {share:>6}% in SLO, {bound:<15}  {verdict}");
    if !point.valid {
        line += &style.paint(Ink::Alarm, &format!("  {}", flag(point)));
    }
    if let Some(share) = point.trajectory_attainment {
        line += &format!(", {}% of sessions in SLO", percent(Some(share)));
    }
    for note in failures(point) {
        line += &format!(", {note}");
    }
    line + "\n"
}

fn at(which: &str, share: f64) -> String {
    format!("{which:<8} {:>5}%", percent(Some(share)))
}

/// The open-loop lines of a run. Empty if there is none.
#[must_use]
pub fn open_table(result: &RunResult, style: Style) -> String {
    let mut points: Vec<&PointRow> = result
        .points
        .iter()
        .filter(|p| p.mode == Mode::Open)
        .collect();
    if points.is_empty() {
        return String::new();
    }
    points.sort_by(|a, b| a.load().total_cmp(&b.load()));
    let objective = result.objective();
    let (own, other): (Vec<&PointRow>, Vec<&PointRow>) =
        points.iter().partition(|p| p.other_arrivals.is_none());
    let mut out = String::new();
    for points in [own, other] {
        let Some(first) = points.first() else {
            continue;
        };
        let arrivals = first.other_arrivals.as_ref().map_or_else(
            || result.holds_for.workload.arrivals.clone(),
            |other| other_arrivals(other),
        );
        out += &open_heading(&arrivals, style);
        for point in points {
            out += &open_row(point, objective, style);
        }
    }
    out
}

/// Arrivals that are not the workload's own, in words.
#[must_use]
pub fn other_arrivals(name: &str) -> String {
    format!("{name} arrivals, beside the workload's own")
}

/// `!clock` for an invalid point: the first word of its first warning, where it is a name.
fn flag(point: &PointRow) -> String {
    if point.valid {
        return String::new();
    }
    let named = point.warnings.iter().find_map(|warning| {
        let (name, _) = warning.split_once(':')?;
        (name.len() <= 6 && !name.contains(' ')).then_some(name)
    });
    format!("!{}", named.unwrap_or("void"))
}

/// The warnings on a point, below its row: why it is not valid, and what else is to be known of it.
#[must_use]
pub fn warnings(point: &PointRow, style: Style) -> String {
    let ink = if point.valid { Ink::Faint } else { Ink::Alarm };
    let width = style.width.saturating_sub(WARNING.len()).max(30);
    let lines = point.warnings.iter().flat_map(|warning| {
        let lines = wrap(warning, width).into_iter().enumerate();
        lines.map(|(number, line)| {
            let before = if number == 0 { WARNING } else { WARNING_ON };
            style.paint(ink, &format!("{before}{line}")) + "\n"
        })
    });
    lines.collect()
}

/// What did not end well, by outcome.
fn failures(point: &PointRow) -> Vec<String> {
    let failed = point
        .outcomes
        .iter()
        .filter(|(name, n)| name.as_str() != "ok" && **n > 0);
    failed
        .map(|(name, n)| format!("{} {}", count(*n), name.replace('_', " ")))
        .collect()
}

/// TTFT p99 in which failures are worse than any latency.
fn ttft_p99(point: &PointRow) -> String {
    let adjusted = point.ttft_p99_with_failures;
    match (adjusted.over_ms, adjusted.ms) {
        (Some(over), _) => format!(">{}", millis(Some(over))),
        (None, ms) => starred(millis(ms.or(point.ttft_p99_ms)), point.ttft_n),
    }
}

fn starred(figure: String, samples: u64) -> String {
    if figure != NONE && too_few(samples) {
        figure + "*"
    } else {
        figure
    }
}

/// Whether a p99 of so many samples says nothing about the tail.
pub(crate) fn too_few(samples: u64) -> bool {
    samples > 0 && samples < min_samples_for(0.99)
}
