//! What only the whole of an SLO can tell: clauses that contradict or never bind.

use std::{ops::Range, time::Duration};

use goodput_config::{Problem, TextError, duration_text};

use crate::{clause::Clause, judge::Misses, metric::Metric};

/// Slower than this a fast reader waits: people read 5 to 10 tokens a second (second essay).
const READING_PACE: Duration = Duration::from_millis(100);

/// Something and its place in the text.
#[derive(Clone, Debug)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    pub(crate) span: Option<Range<usize>>,
}

/// What is wrong, and what is only odd.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

impl Findings {
    fn refuse(&mut self, clause: &Placed<Clause>, error: TextError) {
        self.problems.push(error.at(clause.span.clone()));
    }

    fn warn(&mut self, clause: &Placed<Clause>, error: TextError) {
        self.warnings.push(error.at(clause.span.clone()));
    }
}

/// Puts the clauses in order and checks them against each other.
pub(crate) fn check(
    mut clauses: Vec<Placed<Clause>>,
    streamed: bool,
    findings: &mut Findings,
) -> Vec<Clause> {
    clauses.sort_by_key(|c| c.value.rank());
    repeated(&clauses, findings);
    if !streamed {
        unwatched_pace(&clauses, findings);
    }
    trajectory(&clauses, findings);
    never_binding(&clauses, findings);
    slower_than_reading(&clauses, findings);
    if let Some(extra) = clauses.get(Misses::MOST_CLAUSES) {
        let most = Misses::MOST_CLAUSES;
        findings.refuse(
            extra,
            TextError::new(format!("an SLO has at most {most} clauses")),
        );
    }
    clauses.into_iter().map(|c| c.value).collect()
}

fn repeated(clauses: &[Placed<Clause>], findings: &mut Findings) {
    for pair in clauses.windows(2) {
        let [first, second] = pair else { continue };
        let name = second.value.name();
        if first.value.rank() == second.value.rank() {
            let error = TextError::new(format!("`{name}` is bounded twice"));
            findings.refuse(
                second,
                error.hint(format!(
                    "keep one of `{}` and `{}`",
                    first.value, second.value
                )),
            );
        } else if first.value.metric == second.value.metric {
            let note = TextError::new(format!(
                "`{}` is bounded by two clauses",
                first.value.metric
            ))
            .hint("for goodput the tighter bound judges every request");
            findings.warn(second, note);
        }
    }
}

fn unwatched_pace(clauses: &[Placed<Clause>], findings: &mut Findings) {
    for clause in clauses.iter().filter(|c| c.value.metric.is_pace()) {
        let metric = clause.value.metric;
        let error = TextError::new(format!("`{metric}` in a class that is not streamed"))
            .expected("no clause on the pace of tokens, since nobody watches them come")
            .hint("bound `e2e` instead, or set `streamed = true`");
        findings.refuse(clause, error);
    }
}

/// A session has at least one step, so its deadline lies beyond what each step may take.
fn trajectory(clauses: &[Placed<Clause>], findings: &mut Findings) {
    let Some(whole) = clauses
        .iter()
        .find(|c| c.value.metric == Metric::Trajectory)
    else {
        return;
    };
    if !whole.value.bound.is_fixed() {
        let error =
            TextError::new("a trajectory deadline cannot grow with the lengths of a request");
        findings.refuse(
            whole,
            error.expected("a fixed time, such as `trajectory <= 30s`"),
        );
        return;
    }
    let deadline = whole.value.bound.base();
    for step in clauses.iter().filter(|c| is_instant(c.value.metric)) {
        if step.value.bound.base() > deadline {
            let deadline = duration_text(deadline);
            let error = TextError::new(format!(
                "a single step may take longer than the {deadline} of its session"
            ))
            .expected(format!("a deadline above `{}`", step.value))
            .hint("give the session at least the sum of its steps' bounds and its tool time");
            findings.refuse(whole, error);
            return;
        }
    }
}

/// Bounds on instants from the origin: `ttft <= ttft_answer <= e2e` in every request, so a looser
/// bound on an earlier one says nothing.
fn never_binding(clauses: &[Placed<Clause>], findings: &mut Findings) {
    let instants: Vec<_> = clauses
        .iter()
        .filter(|c| is_instant(c.value.metric))
        .collect();
    for (i, early) in instants.iter().enumerate() {
        let (Some(span), None) = (early.value.fixed_bound(), early.value.percentile) else {
            continue;
        };
        let later = instants[i + 1..].iter().find(|late| {
            late.value.metric != early.value.metric
                && late.value.percentile.is_none()
                && is_before(early.value.metric, late.value.metric)
                && late.value.fixed_bound().is_some_and(|s| s <= span)
        });
        if let Some(late) = later {
            let note = TextError::new(format!("`{}` never binds", early.value)).hint(format!(
                "`{}` is tighter and comes later in every request",
                late.value
            ));
            findings.warn(early, note);
        }
    }
}

fn is_instant(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Ttft | Metric::TtftAnswer | Metric::TimeToToken(_) | Metric::E2e
    )
}

/// Whether `early` comes no later than `late` in every request.
fn is_before(early: Metric, late: Metric) -> bool {
    match (early, late) {
        (Metric::TtftAnswer, Metric::TimeToToken(_)) => false,
        (Metric::TimeToToken(n), Metric::TimeToToken(m)) => n < m,
        _ => early < late,
    }
}

fn slower_than_reading(clauses: &[Placed<Clause>], findings: &mut Findings) {
    for clause in clauses {
        let Clause { metric, bound, .. } = clause.value;
        if matches!(metric, Metric::Tpot | Metric::TpotMedian) && bound.base() > READING_PACE {
            let note = TextError::new(format!("`{}` is slower than people read", clause.value))
                .hint("people read 5 to 10 tokens a second, 100ms to 200ms each; chat is often held to 50ms");
            findings.warn(clause, note);
        }
    }
}
