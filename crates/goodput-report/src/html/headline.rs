//! The sentence to remember.

use goodput_ledger::PointRow;
use goodput_sweep::{ByObjective, RunResult};

use super::text::{escape, paragraph, sentence_case};
use crate::{
    number::{NONE, count, number, percent_short},
    terminal::{load_words, not_this},
};

/// The one sentence to remember, and how sure it is.
pub(super) fn headline(result: &RunResult) -> String {
    let (sentence, why) = sentence(result);
    format!("<h1>{}</h1>\n{}", escape(&sentence), paragraph("sub", &why))
}

fn sentence(result: &RunResult) -> (String, String) {
    let answers = &result.operating_point;
    if let [only] = result.points.as_slice() {
        return bench(only);
    }
    if let Some(sell) = &answers.by_objective {
        return (
            format!(
                "Sell {} requests a second per replica.",
                number(sell.rate_req_s)
            ),
            sold(result, sell),
        );
    }
    let missing = sentence_case(&answers.missing.join(". "));
    match (&answers.by_clauses, &answers.by_goodput) {
        (Some(cap), _) => (format!("Cap each replica at {}.", load_words(cap)), missing),
        (None, Some(peak)) => (
            format!(
                "No tested load holds every clause; goodput peaks at {}.",
                load_words(&peak.row)
            ),
            missing,
        ),
        (None, None) => ("No tested load meets the SLO.".to_owned(), missing),
    }
}

fn sold(result: &RunResult, sell: &ByObjective) -> String {
    let objective = result.objective();
    format!(
        "At this rate {} of {} requests met the SLO, and at least {} with 95% confidence. The objective is {}.",
        percent_short(sell.attainment),
        count(sell.row.requests),
        percent_short(sell.interval.low),
        percent_short(objective),
    )
}

fn bench(point: &PointRow) -> (String, String) {
    let share = point
        .slo_attainment
        .map_or_else(|| NONE.to_owned(), percent_short);
    let interval = point.attainment_interval.map_or_else(String::new, |i| {
        let (low, high) = (percent_short(i.low), percent_short(i.high));
        format!(" The 95% interval is {low} to {high}.")
    });
    (
        format!("{share} of requests met the SLO at {}.", load_words(point)),
        format!(
            "{} requests were measured.{interval}",
            count(point.requests)
        ),
    )
}

/// What the goodput curve shows, in a sentence.
pub(super) fn curve_sentence(result: &RunResult) -> String {
    let answers = &result.operating_point;
    let (Some(peak), Some(most)) = (&answers.by_goodput, not_this(answers)) else {
        return String::new();
    };
    format!(
        "Goodput peaks at {}; throughput goes on to {} tok/s at {}, where {} of it is late.",
        load_words(&peak.row),
        number(most.throughput_tok_s),
        load_words(most),
        percent_short(most.late_share().unwrap_or(0.0)),
    )
}
