//! `--slo` on the command line, and the presets.

use std::time::Duration;

use goodput_config::Percent;
use insta::assert_snapshot;

use super::*;
use crate::{Metric, presets, presets_table};

fn refused(text: &str) -> String {
    match Slo::from_argument(text) {
        Ok(slo) => panic!("accepted: {}", slo.sentence()),
        Err(error) => error.render("--slo", text, false),
    }
}

/// O-CI-02: a clause that is not understood is never skipped.
#[test]
fn what_is_not_understood_is_refused() {
    assert_snapshot!(refused("tfft=500"), @r"
    error: unknown clause `tfft`
     --> --slo:1:1
      |
    1 | tfft=500
      | ^^^^
      |
      = note: expected one of `ttft`, `ttft_answer`, `time_to_token_N`, `tpot`, `tpot_median`, `itl_p99`, `stall`, `e2e`, `trajectory`
      = help: did you mean `ttft`?
    ");
    assert_snapshot!(refused("ttft=-5"), @r#"
    error: `-5` is below zero
     --> --slo:1:6
      |
    1 | ttft=-5
      |      ^^
      |
      = note: expected a number with its unit, such as "500ms", "1.5s", "10min" or "28d"
      = help: drop the minus sign
    "#);
    assert_snapshot!(refused("ttft=0.5"), @r#"
    error: `0.5` has no unit
     --> --slo:1:6
      |
    1 | ttft=0.5
      |      ^^^
      |
      = note: expected a number with its unit, such as "500ms", "1.5s", "10min" or "28d"
      = help: write "0.5ms" or "0.5s", as it is meant
    "#);
    let accepted = Slo::from_argument("ttft=500ms,tpot=50ms").unwrap();
    assert_snapshot!(accepted.sentence(), @"99% of requests over 28d have ttft <= 500ms and tpot <= 50ms");
}

#[test]
fn every_problem_of_a_flag_is_told_at_once() {
    assert_snapshot!(refused("tpot_p50=50ms,ttft<500ms,e2e=0s,ttft_p99=1s,p90 stall=2m,p0 ttft=1s,time_to_token=1s,ttft=300ms + 1ms x inputs"), @r#"
    error: unknown clause `tpot_p50`
     --> --slo:1:1
      |
    1 | tpot_p50=50ms,ttft<500ms,e2e=0s,ttft_p99=1s,p90 stall=2m,p0 ttft=1s,time_to_token=1s,ttft=300ms + 1ms x inputs
      | ^^^^^^^^
      |
      = note: expected one of `ttft`, `ttft_answer`, `time_to_token_N`, `tpot`, `tpot_median`, `itl_p99`, `stall`, `e2e`, `trajectory`
      = help: did you mean `tpot_median`?

    error: a clause bounds a time from above, inclusively
     --> --slo:1:15
      |
    1 | tpot_p50=50ms,ttft<500ms,e2e=0s,ttft_p99=1s,p90 stall=2m,p0 ttft=1s,time_to_token=1s,ttft=300ms + 1ms x inputs
      |               ^^^^^^^^^^
      |
      = note: expected `ttft <= 500ms`, `p90 tpot <= 40ms` or `ttft <= 300ms + 0.12ms x input_tokens`
      = help: write `<=`

    error: a bound of zero can never be met
     --> --slo:1:30
      |
    1 | tpot_p50=50ms,ttft<500ms,e2e=0s,ttft_p99=1s,p90 stall=2m,p0 ttft=1s,time_to_token=1s,ttft=300ms + 1ms x inputs
      |                              ^^ expected the longest time that is still good, inclusive

    error: unknown clause `ttft_p99`
     --> --slo:1:33
      |
    1 | tpot_p50=50ms,ttft<500ms,e2e=0s,ttft_p99=1s,p90 stall=2m,p0 ttft=1s,time_to_token=1s,ttft=300ms + 1ms x inputs
      |                                 ^^^^^^^^
      |
      = note: expected one of `ttft`, `ttft_answer`, `time_to_token_N`, `tpot`, `tpot_median`, `itl_p99`, `stall`, `e2e`, `trajectory`
      = help: a percentile stands in front: `p99 ttft <= ...`

    error: `m` is not a unit of time
     --> --slo:1:55
      |
    1 | tpot_p50=50ms,ttft<500ms,e2e=0s,ttft_p99=1s,p90 stall=2m,p0 ttft=1s,time_to_token=1s,ttft=300ms + 1ms x inputs
      |                                                       ^^ expected one of `ns`, `us`, `ms`, `s`, `min`, `h`, `d`
      |
      = help: write "2min" for minutes, "2ms" for milliseconds

    error: `p0` is not a percentile
     --> --slo:1:58
      |
    1 | tpot_p50=50ms,ttft<500ms,e2e=0s,ttft_p99=1s,p90 stall=2m,p0 ttft=1s,time_to_token=1s,ttft=300ms + 1ms x inputs
      |                                                          ^^ expected p50, p90, p99 or p99.9, say

    error: unknown clause `time_to_token`
     --> --slo:1:69
      |
    1 | tpot_p50=50ms,ttft<500ms,e2e=0s,ttft_p99=1s,p90 stall=2m,p0 ttft=1s,time_to_token=1s,ttft=300ms + 1ms x inputs
      |                                                                     ^^^^^^^^^^^^^
      |
      = note: expected one of `ttft`, `ttft_answer`, `time_to_token_N`, `tpot`, `tpot_median`, `itl_p99`, `stall`, `e2e`, `trajectory`
      = help: name the token: `time_to_token_20` bounds the time to the 20th

    error: unknown length `inputs`
     --> --slo:1:99
      |
    1 | tpot_p50=50ms,ttft<500ms,e2e=0s,ttft_p99=1s,p90 stall=2m,p0 ttft=1s,time_to_token=1s,ttft=300ms + 1ms x inputs
      |                                                                                                   ^^^^^^^^^^^^
      |
      = note: expected one of `input_tokens`, `uncached_input_tokens`, `output_tokens`
    "#);
}

#[test]
fn half_a_clause_is_refused() {
    assert_snapshot!(refused("ttft="), @r"
    error: `ttft` has no bound
     --> --slo:1:1
      |
    1 | ttft=
      | ^^^^^
      |
      = note: expected `ttft <= 500ms`, `p90 tpot <= 40ms` or `ttft <= 300ms + 0.12ms x input_tokens`
    ");
    assert_snapshot!(refused("ttft=500ms,tpot"), @r"
    error: `tpot` has no bound
     --> --slo:1:12
      |
    1 | ttft=500ms,tpot
      |            ^^^^
      |
      = note: expected `ttft <= 500ms`, `p90 tpot <= 40ms` or `ttft <= 300ms + 0.12ms x input_tokens`
      = help: write `tpot <= 50ms`, say
    ");
    assert_snapshot!(refused("ttft=500ms,"), @r"
    error: an entry of the list is empty
     --> --slo:1:12
      |
    1 | ttft=500ms,
      |            ^ expected clauses behind single commas
    ");
    assert_snapshot!(refused("objective=99%"), @r"
    error: an SLO without a clause judges nothing
     --> --slo:1:1
      |
    1 | objective=99%
      | ^^^^^^^^^^^^^
      |
      = help: write `ttft=500ms,tpot=50ms`, say
    ");
    assert_snapshot!(refused("ttft=1s,objective=100%"), @r#"
    error: an objective of 100% leaves no error budget
     --> --slo:1:9
      |
    1 | ttft=1s,objective=100%
      |         ^^^^^^^^^^^^^^ expected a share below 100%
      |
      = help: write "99.9% over 28d", say: one slow request must not break the promise
    "#);
}

#[test]
fn clauses_that_cannot_all_hold_are_refused() {
    assert_snapshot!(refused("ttft=500ms,ttft=1s,e2e=30s,trajectory=10s"), @r"
    error: `ttft` is bounded twice
     --> --slo:1:12
      |
    1 | ttft=500ms,ttft=1s,e2e=30s,trajectory=10s
      |            ^^^^^^^
      |
      = help: keep one of `ttft <= 500ms` and `ttft <= 1s`

    error: a single step may take longer than the 10s of its session
     --> --slo:1:28
      |
    1 | ttft=500ms,ttft=1s,e2e=30s,trajectory=10s
      |                            ^^^^^^^^^^^^^^ expected a deadline above `e2e <= 30s`
      |
      = help: give the session at least the sum of its steps' bounds and its tool time
    ");
    assert_snapshot!(refused("e2e=30s,p90 trajectory=100s"), @r"
    error: a trajectory deadline takes no percentile
     --> --slo:1:9
      |
    1 | e2e=30s,p90 trajectory=100s
      |         ^^^
      |
      = help: the objective says how many sessions must keep it
    ");
    assert_snapshot!(refused("trajectory=1s + 1ms x output_tokens"), @r"
    error: a trajectory deadline cannot grow with the lengths of a request
     --> --slo:1:1
      |
    1 | trajectory=1s + 1ms x output_tokens
      | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ expected a fixed time, such as `trajectory <= 30s`
    ");
}

#[test]
fn odd_clauses_are_taken_with_a_warning() {
    let text = "ttft=5s,e2e=2s,tpot=300ms,p50 ttft=1s";
    let (_, warnings) = Slo::from_argument_and_warnings(text).unwrap();
    let shown: Vec<String> = warnings
        .iter()
        .map(|w| w.render("--slo", text, goodput_config::Severity::Warning, false))
        .collect();
    assert_snapshot!(shown.join("\n\n"), @r"
    warning: `ttft` is bounded by two clauses
     --> --slo:1:27
      |
    1 | ttft=5s,e2e=2s,tpot=300ms,p50 ttft=1s
      |                           ^^^^^^^^^^^
      |
      = help: for goodput the tighter bound judges every request

    warning: `ttft <= 5s` never binds
     --> --slo:1:1
      |
    1 | ttft=5s,e2e=2s,tpot=300ms,p50 ttft=1s
      | ^^^^^^^
      |
      = help: `e2e <= 2s` is tighter and comes later in every request

    warning: `tpot <= 300ms` is slower than people read
     --> --slo:1:16
      |
    1 | ttft=5s,e2e=2s,tpot=300ms,p50 ttft=1s
      |                ^^^^^^^^^^
      |
      = help: people read 5 to 10 tokens a second, 100ms to 200ms each; chat is often held to 50ms
    ");
}

#[test]
fn a_misspelt_preset_is_refused_with_a_guess() {
    assert_snapshot!(refused("chta"), @r"
    error: `chta` is no SLO preset, and no file of that name
     --> --slo:1:1
      |
    1 | chta
      | ^^^^
      |
      = note: expected one of `chat`, `completion`, `agent-step`, `batch`, `voice`, `chat-p90`; a file; or clauses such as `ttft=500ms,tpot=50ms`
      = help: did you mean `chat`?
    ");
    assert_snapshot!(refused("agent-step"), @r"
    error: the preset `agent-step` needs your e2e bound for a step
     --> --slo:1:1
      |
    1 | agent-step
      | ^^^^^^^^^^ expected `agent-step:e2e=5s`
      |
      = help: derive it from the session: 10 steps within 50s leave 5s for each, tool time included
    ");
    assert_snapshot!(refused("batch:tpot=50ms"), @r"
    error: `tpot` in a class that is not streamed
     --> --slo:1:7
      |
    1 | batch:tpot=50ms
      |       ^^^^^^^^^
      |
      = note: expected no clause on the pace of tokens, since nobody watches them come
      = help: bound `e2e` instead, or set `streamed = true`
    ");
}

#[test]
fn presets_hold_the_essays_values() {
    let ms = Duration::from_millis;
    let bounds = |argument: &str| -> Vec<(Metric, Duration)> {
        let slo = Slo::from_argument(argument).unwrap();
        slo.clauses()
            .iter()
            .map(|c| (c.metric, c.fixed_bound().unwrap()))
            .collect()
    };
    assert_eq!(
        bounds("chat"),
        [(Metric::Ttft, ms(500)), (Metric::TpotMedian, ms(50))]
    );
    assert_eq!(
        bounds("completion"),
        [(Metric::Ttft, ms(200)), (Metric::TpotMedian, ms(30))]
    );
    assert_eq!(
        bounds("voice"),
        [(Metric::Ttft, ms(300)), (Metric::TpotMedian, ms(25))]
    );
    assert_eq!(
        bounds("agent-step:e2e=5s"),
        [(Metric::Ttft, ms(1_000)), (Metric::E2e, ms(5_000))]
    );
    assert_eq!(bounds("batch"), [(Metric::E2e, ms(600_000))]);
    assert_eq!(
        bounds("chat:ttft=300ms"),
        [(Metric::Ttft, ms(300)), (Metric::TpotMedian, ms(50))]
    );
    let p90 = Slo::preset("chat-p90").unwrap();
    let clauses: Vec<_> = p90
        .percentile_clauses()
        .map(|(i, p, c)| (i, p, c.metric))
        .collect();
    let ninety = Percent::of(90);
    assert_eq!(
        clauses,
        [(0, ninety, Metric::Ttft), (1, ninety, Metric::Tpot)]
    );
    let chat = Slo::preset("chat").unwrap();
    assert_eq!(chat.required_share(0), Percent::of(99));
    assert_eq!(chat.objective().window, Duration::from_hours(28 * 24));
    for preset in presets() {
        let asked = preset.asks.map_or(String::new(), |(metric, example)| {
            format!(":{metric}={example}")
        });
        let (slo, warnings) =
            Slo::from_argument_and_warnings(&format!("{}{asked}", preset.name)).unwrap();
        assert_eq!(warnings, [], "{}", preset.name);
        assert_eq!(
            slo.is_streamed(),
            !["agent-step", "batch"].contains(&preset.name)
        );
        assert!(slo.workload().is_some());
    }
}

#[test]
fn the_table_of_presets_says_what_and_why() {
    assert_snapshot!(presets_table(), @r#"
    chat        chat, streamed to a reader
      bounds    ttft <= 500ms and tpot_median <= 50ms
      objective 99% of requests over 28d within every bound
      workload  azure-conversation, in 1020/2735/4142, out 129/424/601 tokens (p50/p90/p99)
      why       about 20 tok/s exceeds comfortable reading speed
      values    the essay's values (TTFT, TPOT, and Why Throughput Is the Wrong Target)

    completion  code completion, inline
      bounds    ttft <= 200ms and tpot_median <= 30ms
      objective 99% of requests over 28d within every bound
      workload  azure-code, in 1469/5188/7436, out 13/55/251 tokens (p50/p90/p99)
      why       competes with the user's own typing
      values    the essay's values; the objective is the one it gives for chat

    agent-step  one tool-calling step of an agent
      bounds    ttft <= 1s and e2e <= what you give: --slo agent-step:e2e=5s
      objective 99% of requests over 28d within every bound
      tpot      not judged: not streamed to a human
      workload  azure-code, in 1469/5188/7436, out 13/55/251 tokens (p50/p90/p99)
      why       nothing is streamed to a human; what counts is the sum over the whole trajectory
      values    the essay's TTFT, and its TPOT "irrelevant"; your e2e; the objective is the one it gives for chat

    batch       batch summarization
      bounds    e2e <= 10min
      objective 99% of requests over 28d within every bound
      tpot      not judged: not streamed to a human
      workload  mooncake-conversation, in 6909/27367/85400, out 350/597/1119 tokens (p50/p90/p99), 37% of the input cached
      why       only end-to-end throughput matters
      values    the essay's "minutes", and its TPOT "irrelevant"; that they are 10 is ours; the objective is the one it gives for chat

    voice       voice, in real time
      bounds    ttft <= 300ms and tpot_median <= 25ms
      objective 99% of requests over 28d within every bound
      workload  azure-conversation, in 1020/2735/4142, out 129/424/601 tokens (p50/p90/p99)
      why       must outrun speech synthesis
      values    the essay's values; the objective is the one it gives for chat

    chat-p90    chat, by percentiles
      bounds    p90 ttft <= 500ms and p90 tpot <= 40ms
      objective 90% of requests over 28d within every bound, and each percentile as stated
      workload  azure-conversation, in 1020/2735/4142, out 129/424/601 tokens (p50/p90/p99)
      why       two clauses, since they fail for different reasons and need different fixes
      values    the second essay's values (Inference SLOs); it gives no window, 28d is the first essay's
    "#);
}
