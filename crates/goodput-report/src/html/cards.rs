//! The answers, a card each.

use goodput_ledger::{Mode, PointRow};
use goodput_sweep::{ByObjective, OperatingPoint, RunResult, SCALE_OUT_SHARE};

use super::text::{escape, sentence_case, words};
use crate::{
    number::{NONE, number, number_or_none, percent_short, span_ms},
    terminal::{ScaleOut, load_words, not_this},
};

struct Card {
    class: &'static str,
    name: &'static str,
    figure: String,
    unit: &'static str,
    lines: Vec<String>,
}

/// The five answers, and what a user gets at the rate to sell.
pub(super) fn cards(result: &RunResult) -> String {
    if result.points.len() < 2 {
        return result.points.first().map(strip).unwrap_or_default();
    }
    let answers = &result.operating_point;
    let cards = [
        Some(sell(result)),
        Some(cap(result)),
        scale_out(answers),
        Some(peak(answers)),
        not_this_card(answers),
    ];
    let cards: Vec<String> = cards
        .into_iter()
        .flatten()
        .map(|card| card.html())
        .collect();
    let at_sell = answers
        .by_objective
        .as_ref()
        .map(at_sell)
        .unwrap_or_default();
    format!("<div class=\"cards\">{}</div>\n{at_sell}", cards.concat())
}

impl Card {
    fn html(&self) -> String {
        let lines: Vec<String> = self
            .lines
            .iter()
            .map(|line| format!("<p>{}</p>", words(line)))
            .collect();
        format!(
            "<article class=\"card {}\"><h3>{}</h3><p class=\"figure\"><span>{}</span><small>{}</small></p>{}</article>\n",
            self.class,
            self.name,
            escape(&self.figure),
            self.unit,
            lines.concat(),
        )
    }

    /// A card that says why there is no answer.
    fn missing(
        class: &'static str,
        name: &'static str,
        answers: &OperatingPoint,
        word: &str,
    ) -> Self {
        let reason = answers.missing.iter().find(|reason| reason.contains(word));
        let reason = reason.map_or("", |reason| {
            reason
                .split_once(": ")
                .map_or(reason.as_str(), |(_, why)| why)
        });
        Self {
            class,
            name,
            figure: "\u{2013}".to_owned(),
            unit: "",
            lines: vec![sentence_case(reason)],
        }
    }
}

fn sell(result: &RunResult) -> Card {
    let answers = &result.operating_point;
    let objective = result.objective();
    let Some(sell) = &answers.by_objective else {
        return Card::missing("sell", "Sell", answers, "sell");
    };
    Card {
        class: "sell",
        name: "Sell",
        figure: number(sell.rate_req_s),
        unit: "req/s",
        lines: vec![
            format!("{} good tokens a second", number(sell.goodput_tok_s)),
            format!(
                "The highest tested rate that surely keeps {}.",
                percent_short(objective)
            ),
        ],
    }
}

fn cap(result: &RunResult) -> Card {
    let answers = &result.operating_point;
    let Some(cap) = &answers.by_clauses else {
        return Card::missing("cap", "Cap", answers, "cap");
    };
    let run_at = match answers.run_at {
        Some([low, high]) if low < high => format!("Run at {low} to {high}."),
        Some([low, _]) => format!("Run at {low}."),
        None => String::new(),
    };
    Card {
        class: "cap",
        name: "Cap",
        figure: number(cap.load()),
        unit: if cap.mode == Mode::Closed {
            "in flight"
        } else {
            "req/s"
        },
        lines: vec![
            run_at,
            format!(
                "The last load where every clause holds; {} meet all of them.",
                cap.slo_attainment
                    .map_or_else(|| NONE.to_owned(), percent_short)
            ),
        ],
    }
}

fn scale_out(answers: &OperatingPoint) -> Option<Card> {
    let threshold = ScaleOut::of(answers)?;
    let share = percent_short(SCALE_OUT_SHARE);
    let line = match threshold {
        ScaleOut::Rate(_) => format!("Add a replica here: {share} of the rate to sell."),
        ScaleOut::Tokens(_) => {
            format!("{share} of the goodput at the cap, until there is a rate to sell.")
        }
    };
    Some(Card {
        class: "scale",
        name: "Scale out",
        figure: number(threshold.value()),
        unit: threshold.unit(),
        lines: vec![line],
    })
}

fn peak(answers: &OperatingPoint) -> Card {
    let Some(peak) = &answers.by_goodput else {
        return Card::missing("peak", "Peak", answers, "peak");
    };
    let interval = peak.interval.map_or_else(String::new, |i| {
        format!("[{} to {}] ", number(i.low), number(i.high))
    });
    let late = match peak.late_share {
        Some(share) if share >= 0.0005 => {
            let share = percent_short(share);
            format!("{share} of the tokens are late here: not an operating point.")
        }
        Some(_) => "No token is late here.".to_owned(),
        None => String::new(),
    };
    let edge = if answers.peak_bracketed {
        ""
    } else {
        "At the edge of the tested loads: test further out."
    };
    Card {
        class: "peak",
        name: "Peak",
        figure: number(peak.row.goodput_tok_s),
        unit: "good tok/s",
        lines: vec![
            format!("{interval}at {}", load_words(&peak.row)),
            late,
            edge.to_owned(),
        ],
    }
}

fn not_this_card(answers: &OperatingPoint) -> Option<Card> {
    let most = not_this(answers)?;
    Some(Card {
        class: "not",
        name: "Not this",
        figure: number(most.throughput_tok_s),
        unit: "tok/s",
        lines: vec![
            format!("At {}", load_words(most)),
            format!(
                "The most throughput; {} of it is late.",
                percent_short(most.late_share().unwrap_or(0.0))
            ),
        ],
    })
}

/// What users and the replica get at the rate to sell.
fn at_sell(sell: &ByObjective) -> String {
    let e2e = format!("{} tokens take", sell.e2e_at_tokens);
    let slo = sell.row.first_slo();
    let p95 = span_ms(sell.e2e_p95_ms);
    let mut facts = vec![("At this rate one stream gets", stream(sell.stream_tok_s))];
    facts.extend(replica(sell.throughput_tok_s, sell.goodput_tok_s));
    facts.extend([
        (
            e2e.as_str(),
            format!("{} (p95 {p95})", span_ms(sell.e2e_p50_ms)),
        ),
        (
            "characters in time",
            text_rate(slo.and_then(|s| s.good_characters_per_s)),
        ),
        (
            "words in time",
            text_rate(slo.and_then(|s| s.good_words_per_s)),
        ),
    ]);
    if let Some(good) = sell.row.goodput_tok_s_per_gpu {
        facts.push(("in time, a GPU", format!("{} tok/s", number(good))));
    }
    facts_strip(&facts)
}

/// The main figures of a single point.
fn strip(point: &PointRow) -> String {
    let two = |p50, p99| format!("{} / {}", span_ms(p50), span_ms(p99));
    let words = point.first_slo().and_then(|s| s.good_words_per_s);
    let mut facts = vec![
        ("TTFT p50 / p99", two(point.ttft_p50_ms, point.ttft_p99_ms)),
        ("TPOT p50 / p99", two(point.tpot_p50_ms, point.tpot_p99_ms)),
        ("one stream gets", stream(point.stream_tok_s)),
    ];
    facts.extend(replica(point.throughput_tok_s, point.goodput_tok_s));
    facts.push(("words in time", text_rate(words)));
    facts_strip(&facts)
}

fn stream(tok_s: Option<f64>) -> String {
    format!("{} tok/s", number_or_none(tok_s))
}

fn replica(all: f64, good: f64) -> [(&'static str, String); 2] {
    [
        ("the replica gives", format!("{} tok/s", number(all))),
        ("of these in time", format!("{} tok/s", number(good))),
    ]
}

fn text_rate(per_second: Option<f64>) -> String {
    format!("{}/s", number_or_none(per_second))
}

fn facts_strip(facts: &[(&str, String)]) -> String {
    let items: Vec<String> = facts
        .iter()
        .map(|(name, value)| {
            format!(
                "<div><dt>{}</dt><dd>{}</dd></div>",
                escape(name),
                escape(value)
            )
        })
        .collect();
    format!("<dl class=\"strip\">{}</dl>\n", items.concat())
}
