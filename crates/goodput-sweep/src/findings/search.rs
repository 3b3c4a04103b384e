//! Findings on the searches: what they could not settle, and what they saw change.

use crate::{
    auto::{Found, FoundRate},
    document::{Finding, OperatingPoint},
};

/// The best load could be another one.
pub(super) fn peak_not_resolved(answers: &OperatingPoint) -> Option<Finding> {
    let peak = searched(answers)?;
    let best = peak.best.filter(|_| !peak.resolved)?;
    let loads: Vec<String> = peak.not_worse.iter().map(ToString::to_string).collect();
    let evidence = format!(
        "{best} in flight is the best of {} loads tested, but not surely by 3%: not distinguishably worse are {}",
        peak.tested.len(),
        loads.join(", ")
    );
    Some(Finding::new(
        "peak-not-resolved",
        evidence,
        "any of these loads may be the best; --budget with more time tells them apart",
    ))
}

/// The rate to sell has no near neighbour that breaks the objective.
pub(super) fn rate_not_resolved(answers: &OperatingPoint) -> Option<Finding> {
    let rate = answers.search.as_ref()?.rate.as_ref()?;
    if rate.resolved || rate.tried.is_empty() {
        return None;
    }
    let evidence = match (rate.rate_req_s, rate.above_req_s) {
        (Some(kept), Some(above)) => format!(
            "{} req/s keeps the objective, the next rate tested above it is {} req/s: what lies between is not known",
            super::three_digits(kept),
            super::three_digits(above)
        ),
        (Some(kept), None) => format!(
            "{} req/s keeps the objective and no higher rate was tested",
            super::three_digits(kept)
        ),
        (None, _) => format!(
            "none of {} rates tested surely keeps the objective: {}",
            rate.tried.len(),
            nearest(rate)
        ),
    };
    Some(Finding::new(
        "rate-not-resolved",
        evidence,
        "--budget with more time narrows it; an objective near 100% needs many requests",
    ))
}

fn nearest(rate: &FoundRate) -> String {
    let low = |t: &&crate::auto::Tried| t.interval.map_or(0.0, |i| i.low);
    let best = rate.tried.iter().max_by(|a, b| low(a).total_cmp(&low(b)));
    best.and_then(|t| Some((t.rate_req_s, t.interval?)))
        .map_or_else(
            || "no request was judged".to_owned(),
            |(rate, i)| {
                format!(
                    "at {} req/s between {} and {} met it",
                    super::three_digits(rate),
                    super::percent(i.low),
                    super::percent(i.high)
                )
            },
        )
}

/// A load measured again had changed by more than chance.
pub(super) fn server_changed(answers: &OperatingPoint) -> Option<Finding> {
    let peak = searched(answers).filter(|peak| peak.changed)?;
    let evidence = format!(
        "a load measured again gave another goodput than before, by more than chance, after {:.0} s of windows: what was measured before it does not count for the peak",
        peak.measured_s
    );
    Some(Finding::new(
        "server-changed",
        evidence,
        "look for a clock that dropped, other traffic, or a cache that filled; measure again when it is steady",
    ))
}

fn searched(answers: &OperatingPoint) -> Option<&Found> {
    answers.search.as_ref()?.peak.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{auto::Tried, document::Search};
    use goodput_ledger::Between;

    fn answers(peak: Option<Found>, rate: Option<FoundRate>) -> OperatingPoint {
        OperatingPoint {
            search: Some(Search {
                peak,
                rate,
                poisson_rate: None,
            }),
            ..OperatingPoint::default()
        }
    }

    fn peak(resolved: bool, changed: bool) -> Found {
        Found {
            best: Some(12),
            not_worse: vec![11, 12, 14],
            tested: vec![8, 11, 12, 14, 16],
            resolved,
            changed,
            ..Found::default()
        }
    }

    #[test]
    fn a_settled_search_raises_nothing() {
        let settled = answers(
            Some(peak(true, false)),
            Some(FoundRate {
                rate_req_s: Some(5.0),
                above_req_s: Some(5.2),
                resolved: true,
                ..FoundRate::default()
            }),
        );
        assert_eq!(peak_not_resolved(&settled), None);
        assert_eq!(rate_not_resolved(&settled), None);
        assert_eq!(server_changed(&settled), None);
        assert_eq!(peak_not_resolved(&OperatingPoint::default()), None);
    }

    #[test]
    fn what_could_not_be_settled_is_said_with_its_rivals() {
        let found = peak_not_resolved(&answers(Some(peak(false, false)), None)).unwrap();
        assert!(found.evidence.contains("11, 12, 14"), "{}", found.evidence);
        let tried = Tried {
            rate_req_s: 4.0,
            keeps: None,
            seems_to_keep: true,
            interval: Some(Between {
                low: 0.97,
                high: 0.995,
            }),
        };
        let rate = FoundRate {
            tried: vec![tried],
            ..FoundRate::default()
        };
        let found = rate_not_resolved(&answers(None, Some(rate))).unwrap();
        assert!(found.evidence.contains("97.0%"), "{}", found.evidence);
        assert!(server_changed(&answers(Some(peak(true, true)), None)).is_some());
    }
}
