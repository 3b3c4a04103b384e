//! Cases in which other tools went wrong.

use std::time::Duration;

use goodput_record::{Outcome, TrajectoryRecord};

use super::*;
use crate::{ClauseVerdict, Objective, SloFile};

/// O-SL-04: closed tabs are neither all errors nor all forgotten.
#[test]
fn a_client_that_leaves_is_judged_by_what_it_had_to_endure() {
    let slo = slo("ttft=500ms,tpot=50ms");
    let left = |tokens: &[u64], at| {
        Story::ok(tokens)
            .ending(Outcome::Cancelled, at)
            .judged(&slo)
    };
    assert_eq!(left(&[], 200), Verdict::Excused, "not judged yet");
    assert_eq!(missed(&slo, left(&[], 900)), ["ttft"], "already broken");
    assert_eq!(
        left(&[300], 900),
        Verdict::Met,
        "ttft met, no tpot of one token"
    );
    assert_eq!(left(&[300, 350], 900), Verdict::Met);
    assert_eq!(
        missed(&slo, left(&[300, 351], 900)),
        ["tpot"],
        "judged on what came"
    );
    assert_eq!(left(&[], 500), Verdict::Excused, "a bound is inclusive");
}

#[test]
fn a_client_that_leaves_before_the_end_leaves_e2e_open() {
    let slo = slo("ttft=500ms,e2e=2s");
    let left = |at| {
        Story::ok(&[300])
            .ending(Outcome::Cancelled, at)
            .judged(&slo)
    };
    assert_eq!(left(900), Verdict::Excused);
    assert_eq!(missed(&slo, left(2_001)), ["e2e"]);
}

#[test]
fn a_client_that_leaves_in_a_silence_has_seen_a_stall() {
    let slo = slo("ttft=500ms,stall=1s");
    let left = |at| {
        Story::ok(&[300, 350])
            .ending(Outcome::Cancelled, at)
            .judged(&slo)
    };
    assert_eq!(left(1_350), Verdict::Met);
    assert_eq!(missed(&slo, left(1_351)), ["stall"]);
}

/// O-SL-07: what is excused stands in the file, and overload does not.
#[test]
fn bad_requests_and_own_limits_are_excused_by_name() {
    let text = r#"
        [[slo]]
        name = "chat"
        objective = "99% over 28d"
        clauses = ["ttft <= 500ms"]
        excused = ["400", "shed 429"]
        [slo.workload]
        preset = "azure-conversation"
    "#;
    let slo = SloFile::parse("slo.toml", text).unwrap().remove(0);
    let ended = |outcome, status| Story::ok(&[]).ending(outcome, 5).status(status);
    let many = [
        (100, Story::ok(&[400]).status(200)),
        (10, ended(Outcome::Failed, 400)),
        (10, ended(Outcome::Shed, 429)),
        (5, ended(Outcome::Rejected, 429)),
        (5, ended(Outcome::Rejected, 503)),
        (5, ended(Outcome::Failed, 500)),
    ];
    let (mut met, mut judged, mut excused) = (0, 0, 0);
    for (count, story) in many {
        match story.judged(&slo) {
            Verdict::Met => (met, judged) = (met + count, judged + count),
            Verdict::Missed(misses) => {
                assert!(misses.by_outcome());
                judged += count;
            }
            Verdict::Excused => excused += count,
        }
    }
    assert_eq!((met, judged, excused), (100, 115, 20));
    assert_eq!(slo.summary().excused, ["400", "shed 429"]);
}

#[test]
fn without_a_name_every_bad_end_is_a_miss() {
    let slo = slo("ttft=500ms");
    for outcome in Outcome::ALL {
        let verdict = Story::ok(&[400]).ending(outcome, 450).judged(&slo);
        match outcome {
            Outcome::Ok | Outcome::Cancelled => assert_eq!(verdict, Verdict::Met),
            _ => assert_eq!(missed(&slo, verdict), ["outcome"], "{outcome:?}"),
        }
    }
}

/// O-SL-08: at 90 % the greatest burn is 10, so a page at 13.44 never comes.
#[test]
fn burn_rates_follow_from_objective_and_window() {
    let objective = |text: &str| Objective::parse(text, None).unwrap();
    let hours = |n: u64| Duration::from_secs(n * 3_600);
    let (ninety, ninety_nine) = (objective("90% over 28d"), objective("99% over 28d"));
    let page = ninety_nine.burn_rate_spending(0.02, hours(1));
    let ticket = ninety_nine.burn_rate_spending(0.10, hours(72));
    assert!((page - 13.44).abs() < 1e-9, "{page}");
    assert!((ticket - 0.933_333).abs() < 1e-5, "{ticket}");
    assert!((objective("99% over 30d").burn_rate_spending(0.02, hours(1)) - 14.4).abs() < 1e-9);
    assert!((ninety.max_burn_rate() - 10.0).abs() < 1e-9);
    assert!(page > ninety.max_burn_rate() && page < ninety_nine.max_burn_rate());
}

/// O-ST-11: by the mean a preempted request misses, by the median it does not; a clause says which.
#[test]
fn a_preempted_request_misses_by_the_mean_and_not_by_the_median() {
    let mut at = 100;
    let mut tokens = vec![at];
    for gap in [45, 45, 45, 45, 45, 45, 45, 45, 45, 900] {
        at += gap;
        tokens.push(at);
    }
    let story = Story::ok(&tokens);
    assert_eq!(
        missed(&slo("tpot=50ms"), story.judged(&slo("tpot=50ms"))),
        ["tpot"]
    );
    assert_eq!(story.judged(&slo("tpot_median=50ms")), Verdict::Met);
    let both = slo("stall=500ms,tpot_median=50ms,tpot=50ms,itl_p99=1s");
    assert_eq!(missed(&both, story.judged(&both)), ["tpot", "stall"]);
    let exact = slo("tpot=130.5ms");
    assert_eq!(story.judged(&exact), Verdict::Met, "a bound is inclusive");
}

/// O-SSE-18: one token has no TPOT; the TTFT clause decides.
#[test]
fn one_token_keeps_a_tpot_clause_vacuously() {
    let slo = slo("ttft=200ms,tpot=50ms");
    let record = Story::ok(&[180]).record();
    assert_eq!(slo.judge(&record.summary, &record.gaps), Verdict::Met);
    let each: Vec<_> = (0..2)
        .map(|i| slo.judge_clause(i, &record.summary, &record.gaps))
        .collect();
    assert_eq!(each, [ClauseVerdict::Met, ClauseVerdict::Vacuous]);
    assert_eq!(missed(&slo, Story::ok(&[201]).judged(&slo)), ["ttft"]);
}

/// O-SSE-22: an answer that came whole has no TTFT and no TPOT, and is not 0 ms fast either.
#[test]
fn an_answer_that_was_not_streamed_is_judged_by_e2e_alone() {
    let slo = slo("ttft=500ms,tpot=50ms,e2e=1s");
    let whole = |ended| Story::ok(&[]).tokens(2).not_streamed(ended);
    let record = whole(900).record();
    let each: Vec<_> = (0..3)
        .map(|i| slo.judge_clause(i, &record.summary, &record.gaps))
        .collect();
    assert_eq!(
        each,
        [
            ClauseVerdict::Vacuous,
            ClauseVerdict::Vacuous,
            ClauseVerdict::Met
        ]
    );
    assert_eq!(whole(900).judged(&slo), Verdict::Met);
    assert_eq!(missed(&slo, whole(1_001).judged(&slo)), ["e2e"]);
}

#[test]
fn a_burst_has_no_tpot_to_miss() {
    let slo = slo("ttft=2s,tpot=1ms");
    assert_eq!(Story::ok(&[900, 900, 900]).judged(&slo), Verdict::Met);
}

#[test]
fn a_class_that_is_not_streamed_never_judges_the_pace() {
    let mut tool = slo("ttft=1s,tpot=1ms");
    tool.streamed = false;
    assert_eq!(Story::ok(&[500, 900, 1_500]).judged(&tool), Verdict::Met);
}

#[test]
fn the_nth_token_needs_its_gaps_and_an_early_end_stands_for_it() {
    let slo = slo("ttft=500ms,time_to_token_3=1s");
    assert!(slo.needs_gaps());
    assert!(!super::slo("ttft=500ms,tpot_median=50ms").needs_gaps());
    assert_eq!(
        Story::ok(&[300, 400, 1_000, 5_000]).judged(&slo),
        Verdict::Met
    );
    let late = Story::ok(&[300, 400, 1_001, 5_000]);
    assert_eq!(missed(&slo, late.judged(&slo)), ["time_to_token_3"]);
    assert_eq!(
        Story::ok(&[300, 1_000]).judged(&slo),
        Verdict::Met,
        "it is all there"
    );
    let slow = Story::ok(&[300, 1_001]);
    assert_eq!(missed(&slo, slow.judged(&slo)), ["time_to_token_3"]);
    let without = |story: &Story| slo.judge(&story.record().summary, &Gaps::NotKept);
    assert_eq!(
        without(&late),
        Verdict::Excused,
        "not known is neither met nor missed"
    );
    assert_eq!(
        without(&Story::ok(&[300, 400, 900, 1_000])),
        Verdict::Met,
        "all came in time"
    );
}

#[test]
fn a_bound_may_grow_with_what_was_not_cached() {
    let slo = slo("ttft=300ms + 0.12ms x uncached_input_tokens");
    let mut story = Story::ok(&[420]);
    story.end.input_tokens = Some(5_000);
    story.end.cached_tokens = Some(4_000);
    assert_eq!(
        story.judged(&slo),
        Verdict::Met,
        "300 + 0.12 x 1000 is 420, inclusive"
    );
    story.tokens_at = vec![420 * MS + 1];
    assert_eq!(missed(&slo, story.judged(&slo)), ["ttft"]);
    story.end.cached_tokens = None;
    story.planned = (5_000, 4_500);
    assert_eq!(
        missed(&slo, story.judged(&slo)),
        ["ttft"],
        "the plan stands in: 300 + 60"
    );
    story.planned = (5_000, 3_999);
    assert_eq!(story.judged(&slo), Verdict::Met);
}

#[test]
fn a_session_is_judged_by_its_deadline() {
    let slo = slo("ttft=1s,trajectory=10s");
    let session = |steps: u16, ended_ms: u64, failed: bool| {
        let step = Story::ok(&[100]).record().summary;
        let mut whole = TrajectoryRecord::begin(&step);
        whole.steps_planned = steps;
        let end = if failed { Outcome::Failed } else { Outcome::Ok };
        whole.add(
            &Story::ok(&[200, ended_ms])
                .ending(end, ended_ms)
                .record()
                .summary,
        );
        slo.judge_trajectory(&whole).unwrap()
    };
    assert_eq!(session(2, 10_000, false), Verdict::Met);
    assert_eq!(missed(&slo, session(2, 10_001, false)), ["trajectory"]);
    assert_eq!(
        missed(&slo, session(3, 9_000, false)),
        ["outcome"],
        "a step is missing"
    );
    assert_eq!(missed(&slo, session(2, 9_000, true)), ["outcome"]);
    assert_eq!(
        missed(&slo, session(2, 11_000, true)),
        ["trajectory", "outcome"]
    );
    let step = Story::ok(&[100]).record().summary;
    let whole = TrajectoryRecord::begin(&step);
    assert_eq!(super::slo("ttft=1s").judge_trajectory(&whole), None);
    assert_eq!(
        slo.judge(&step, &Gaps::NotKept),
        Verdict::Met,
        "a step has no session deadline"
    );
}
