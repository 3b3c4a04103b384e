//! Where measured data corrects what is usually said of load tests.

use goodput_ledger::{Mode, PointRow};
use goodput_sweep::RunResult;

use super::text::escape;
use crate::{
    chart::by_load,
    number::{number, percent_short, span_ms},
    terminal::load_words,
};

/// Each rule with what this run shows; nothing without a closed loop of several loads.
pub(super) fn lessons(result: &RunResult) -> String {
    let closed: Vec<&PointRow> = by_load(&result.points, Mode::Closed)
        .into_iter()
        .filter(|p| p.valid)
        .collect();
    let (Some(first), Some(last)) = (closed.first(), closed.last()) else {
        return String::new();
    };
    if first.point == last.point {
        return String::new();
    }
    let lessons = [
        queue(first, last),
        past_the_peak(result, last),
        batching(first, &closed),
        joint(result),
    ];
    lessons
        .into_iter()
        .flatten()
        .map(|(rule, seen)| {
            format!(
                "<article class=\"lesson\"><h3>{}</h3><p>{}</p></article>\n",
                escape(rule),
                escape(&seen)
            )
        })
        .collect()
}

type Lesson = (&'static str, String);

fn queue(first: &PointRow, last: &PointRow) -> Option<Lesson> {
    let (few, many) = (first.ttft_p50_ms?, last.ttft_p50_ms?);
    let seen = format!(
        "Median TTFT went from {} at {} to {} at {}.",
        span_ms(Some(few)),
        load_words(first),
        span_ms(Some(many)),
        load_words(last),
    );
    // Prompts of a larger batch take longer too, but then so does each token; only a wait grows alone.
    let slower = last.tpot_p50_ms? / first.tpot_p50_ms?;
    let meaning = if many > 3.0 * few && many / few > 2.0 * slower {
        " Each token took far less longer: the difference is a wait. A closed loop never has more requests open than users, but past the engine's admission limit they wait inside the engine, and TTFT shows it."
    } else {
        " It hardly queued at the loads tested here. Past its admission limit an engine holds requests back even in a closed loop; only then does TTFT show it."
    };
    Some((
        "\u{201c}A closed loop cannot queue\u{201d}: it does, inside the engine",
        seen + meaning,
    ))
}

fn past_the_peak(result: &RunResult, last: &PointRow) -> Option<Lesson> {
    let peak = &result.operating_point.by_goodput.as_ref()?.row;
    if peak.point == last.point || peak.throughput_tok_s <= 0.0 || peak.goodput_tok_s <= 0.0 {
        return None;
    }
    let change = |from: f64, to: f64| format!("{:+.0}%", (to / from - 1.0) * 100.0);
    let seen = format!(
        "From {} to {} throughput changed by {}, goodput by {}. Beyond the KV cache's limit throughput itself falls by 0 to 3%: a throughput chart does not show the collapse.",
        load_words(peak),
        load_words(last),
        change(peak.throughput_tok_s, last.throughput_tok_s),
        change(peak.goodput_tok_s, last.goodput_tok_s),
    );
    Some((
        "\u{201c}Throughput falls past capacity\u{201d}: goodput does, throughput hardly",
        seen,
    ))
}

fn batching(first: &PointRow, closed: &[&PointRow]) -> Option<Lesson> {
    let most = closed
        .iter()
        .max_by(|a, b| a.throughput_tok_s.total_cmp(&b.throughput_tok_s))?;
    if first.throughput_tok_s <= 0.0 {
        return None;
    }
    let gain = most.throughput_tok_s / first.throughput_tok_s;
    let seen = if gain < 1.15 {
        format!(
            "Not on this server: the most throughput, at {}, is {} times that at {}. More users share the same tokens.",
            load_words(most),
            number(gain),
            load_words(first)
        )
    } else {
        format!(
            "Throughput at {} is {} times that at {}, for {} times the users.",
            load_words(most),
            number(gain),
            load_words(first),
            number(most.load() / first.load())
        )
    };
    Some(("\u{201c}Batching multiplies throughput\u{201d}", seen))
}

fn joint(result: &RunResult) -> Option<Lesson> {
    let cap = result.operating_point.by_clauses.as_ref()?;
    let objective = result.holds_for.slos.first()?.objective;
    let attainment = cap.slo_attainment.filter(|a| *a < objective)?;
    let seen = format!(
        "At {} each clause holds at its own percentile, yet only {} of requests meet all of them. That is why the rate to sell is judged on the joint share.",
        load_words(cap),
        percent_short(attainment),
    );
    Some(("Clauses that hold one by one need not hold together", seen))
}
