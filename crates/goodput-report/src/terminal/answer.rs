//! The answers.

use goodput_ledger::{Mode, PointRow};
use goodput_sweep::{OperatingPoint, RunResult, SCALE_OUT_SHARE, same_point};

use crate::{
    number::{NONE, count, number, percent_short, span_ms},
    style::{Ink, Style, wrap},
};

/// Columns of an answer's name and of its figure.
const NAME: usize = 11;
const FIGURE: usize = 34;

/// One line: the answer's name, its figure and what it means.
type Line = (&'static str, String, String);

/// Which load to sell, cap and scale at; where the peak is; what is not an answer.
#[must_use]
pub fn answer(result: &RunResult, style: Style) -> String {
    let answers = &result.operating_point;
    let gpus = result
        .holds_for
        .gpus
        .map_or_else(String::new, |n| format!(" of {n} GPUs"));
    let mut out = style.paint(Ink::Heading, &format!("ANSWER, per replica{gpus}")) + "\n";
    if let [only] = result.points.as_slice() {
        return out + &written(&of_one(result, only), style) + &written(&rates(only), style);
    }
    let found = [
        sell(result),
        scale_out(answers),
        cap(result),
        peak(answers),
        not_this(answers).map(not_this_line),
        at_sell(answers),
        per_gpu(answers),
    ];
    for line in found.into_iter().flatten().chain(missing(answers)) {
        out += &written(&line, style);
    }
    out
}

/// What a single load point says of the objective.
fn of_one(result: &RunResult, point: &PointRow) -> Line {
    let objective = result.objective();
    let share = point
        .slo_attainment
        .map_or_else(|| NONE.to_owned(), percent_short);
    let figure = format!(
        "{share} of {} at {}",
        count(point.requests),
        load_words(point)
    );
    let kept = percent_short(objective);
    let meaning = match point.attainment_interval {
        _ if !point.valid => "the point is not valid".to_owned(),
        Some(i) if i.low >= objective => format!("at least {}: keeps {kept}", percent_short(i.low)),
        Some(i) if i.high < objective => {
            format!("at most {}: breaks {kept}", percent_short(i.high))
        }
        Some(i) => {
            let (low, high) = (percent_short(i.low), percent_short(i.high));
            format!("{low} to {high}: whether it keeps {kept} is not decided")
        }
        None => "no request was judged".to_owned(),
    };
    ("in SLO", figure, meaning)
}

/// What one stream and the replica get at a load point.
fn rates(point: &PointRow) -> Line {
    let stream = point.stream_tok_s.map_or_else(|| NONE.to_owned(), number);
    let (all, good) = (number(point.throughput_tok_s), number(point.goodput_tok_s));
    (
        "rates",
        format!("stream {stream} | replica {all} | good {good} tok/s"),
        String::new(),
    )
}

fn written((name, figure, meaning): &Line, style: Style) -> String {
    let name = style.paint(Ink::Heading, &format!("{name:<NAME$}"));
    let before = 3 + NAME + figure.chars().count().max(FIGURE);
    let meaning = wrap(meaning, style.width.saturating_sub(before).max(30));
    let meaning = meaning.join(&format!("\n{}", " ".repeat(before)));
    format!("  {name}{figure:<FIGURE$} {meaning}")
        .trim_end()
        .to_owned()
        + "\n"
}

fn sell(result: &RunResult) -> Option<Line> {
    let sell = result.operating_point.by_objective.as_ref()?;
    let objective = result.objective();
    let figure = format!(
        "{} req/s = {} good tok/s",
        number(sell.rate_req_s),
        number(sell.goodput_tok_s)
    );
    let meaning = format!(
        "highest tested open-loop rate that keeps {}",
        percent_short(objective)
    );
    Some(("sell", figure, meaning))
}

fn cap(result: &RunResult) -> Option<Line> {
    let answers = &result.operating_point;
    let cap = answers.by_clauses.as_ref()?;
    Some(("cap", cap_figure(answers, cap), cap_meaning(result, cap)))
}

fn peak(answers: &OperatingPoint) -> Option<Line> {
    let peak = answers.by_goodput.as_ref()?;
    let good = number(peak.row.goodput_tok_s);
    let figure = format!(
        "{good} good tok/s at {}{}",
        load(&peak.row),
        not_worse(answers)
    );
    Some((
        "peak",
        figure,
        late(peak.late_share, "not an operating point"),
    ))
}

fn not_this_line(most: &PointRow) -> Line {
    let figure = format!("{} tok/s at {}", number(most.throughput_tok_s), load(most));
    let late = percent_short(most.late_share().unwrap_or(0.0));
    (
        "not this",
        figure,
        format!("throughput; {late} of it is late"),
    )
}

fn missing(answers: &OperatingPoint) -> impl Iterator<Item = Line> {
    let edge = "the peak lies at the edge of the tested loads: test further out".to_owned();
    let edge = (answers.by_goodput.is_some() && !answers.peak_bracketed).then_some(edge);
    answers
        .missing
        .iter()
        .cloned()
        .chain(edge)
        .map(|reason| match reason.split_once(": ") {
            Some((what, why)) => (NONE, what.to_owned(), why.to_owned()),
            None => (NONE, reason, String::new()),
        })
}

/// The one load at which to add a replica.
fn scale_out(answers: &OperatingPoint) -> Option<Line> {
    let (threshold, share) = (ScaleOut::of(answers)?, percent_short(SCALE_OUT_SHARE));
    let meaning = match threshold {
        ScaleOut::Rate(_) => format!("{share} of the rate to sell: add a replica there"),
        ScaleOut::Tokens(_) => {
            format!("{share} of the goodput at the cap, as no rate is proven")
        }
    };
    Some(("scale out", threshold.figure(), meaning))
}

/// Where to add a replica. Demand comes as requests: where a rate to sell is proven, its share is the
/// threshold. The share of the goodput at the cap stands in for it, and is higher: a closed loop
/// sends a request only when one has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ScaleOut {
    /// Arrivals a second.
    Rate(f64),
    /// Good tokens a second.
    Tokens(f64),
}

impl ScaleOut {
    pub(crate) fn of(answers: &OperatingPoint) -> Option<Self> {
        let rate = answers.scale_out_at_req_s.map(Self::Rate);
        rate.or(answers.scale_out_at_tok_s.map(Self::Tokens))
    }

    pub(crate) fn value(self) -> f64 {
        match self {
            Self::Rate(value) | Self::Tokens(value) => value,
        }
    }

    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::Rate(_) => "req/s",
            Self::Tokens(_) => "good tok/s",
        }
    }

    pub(crate) fn figure(self) -> String {
        format!("{} {}", number(self.value()), self.unit())
    }
}

fn cap_figure(answers: &OperatingPoint, cap: &PointRow) -> String {
    match answers.run_at {
        Some([low, high]) if low < high => format!("{}, run at {low} to {high}", load_words(cap)),
        Some([low, _]) => format!("{}, run at {low}", load_words(cap)),
        None => load_words(cap),
    }
}

fn cap_meaning(result: &RunResult, cap: &PointRow) -> String {
    let clauses = result
        .holds_for
        .slos
        .first()
        .map_or(&[][..], |slo| &slo.clauses);
    let names: Vec<String> = clauses
        .iter()
        .map(|c| format!("p{} {}", number(c.needed * 100.0), c.metric))
        .collect();
    let held = match names.as_slice() {
        [] => "every clause holds".to_owned(),
        [one] => format!("{one} holds"),
        [first, second] => format!("{first} and {second} both hold"),
        many => format!("{} all hold", many.join(", ")),
    };
    let joint = cap
        .slo_attainment
        .map_or_else(String::new, |a| format!(" ({} meet all)", percent_short(a)));
    format!("last load where {held}{joint}")
}

fn not_worse(answers: &OperatingPoint) -> String {
    let (Some(low), Some(high)) = (
        answers.not_worse.iter().copied().reduce(f64::min),
        answers.not_worse.iter().copied().reduce(f64::max),
    ) else {
        return String::new();
    };
    if low < high {
        format!(" [{}..{}]", number(low), number(high))
    } else {
        String::new()
    }
}

fn late(share: Option<f64>, then: &str) -> String {
    match share {
        Some(share) if share > 0.001 => format!("{} is late here: {then}", percent_short(share)),
        Some(_) => "nothing is late here".to_owned(),
        None => String::new(),
    }
}

/// The load of most throughput, where it is another one than that of most goodput. One load may have
/// been measured more than once.
pub(crate) fn not_this(answers: &OperatingPoint) -> Option<&PointRow> {
    let most = answers.by_throughput.as_ref()?;
    let peak = answers.by_goodput.as_ref();
    let is_peak = peak.is_some_and(|peak| same_point(&peak.row, most));
    (!is_peak).then_some(most)
}

fn at_sell(answers: &OperatingPoint) -> Option<Line> {
    let sell = answers.by_objective.as_ref()?;
    let stream = sell.stream_tok_s.map_or_else(|| NONE.to_owned(), number);
    let figure = format!(
        "stream {stream} | replica {} | good {} tok/s;  {} tokens take {} (p95 {})",
        number(sell.throughput_tok_s),
        number(sell.goodput_tok_s),
        sell.e2e_at_tokens,
        span_ms(sell.e2e_p50_ms),
        span_ms(sell.e2e_p95_ms),
    );
    Some(("at sell", figure, String::new()))
}

/// Goodput a GPU at each answer, where the number of GPUs was told.
fn per_gpu(answers: &OperatingPoint) -> Option<Line> {
    let sell = answers.by_objective.as_ref().map(|sell| &sell.row);
    let peak = answers.by_goodput.as_ref().map(|peak| &peak.row);
    let at = |name: &str, row: Option<&PointRow>| {
        Some(format!("{} at {name}", number(row?.goodput_tok_s_per_gpu?)))
    };
    let cap = answers.by_clauses.as_ref();
    let found = [at("sell", sell), at("cap", cap), at("peak", peak)];
    let found: Vec<String> = found.into_iter().flatten().collect();
    let figure = format!("good tok/s: {}", found.join(" | "));
    (!found.is_empty()).then_some(("per GPU", figure, String::new()))
}

/// The load without its unit: `56`, `5.2 req/s`.
fn load(point: &PointRow) -> String {
    match point.mode {
        Mode::Closed => number(point.load()),
        Mode::Open => format!("{} req/s", number(point.load())),
    }
}

/// The load with its unit: `40 in flight`.
pub(crate) fn load_words(point: &PointRow) -> String {
    let load = number(point.load());
    match (point.mode, &point.other_arrivals) {
        (Mode::Closed, _) => format!("{load} in flight"),
        (Mode::Open, None) => format!("{load} req/s"),
        (Mode::Open, Some(arrivals)) => format!("{load} req/s {arrivals}"),
    }
}
