//! SLO files.

use goodput_config::Severity;
use insta::assert_snapshot;
use proptest::prelude::*;

use crate::{LengthPercentiles, Metric, SloFile, SloSummary, WorkloadStatement};

fn refused(text: &str) -> String {
    match SloFile::check("slo.toml", text) {
        Ok(file) => panic!("accepted: {:?}", file.slos),
        Err(error) => error.render("slo.toml", text, false),
    }
}

const TIERS: &str = r#"
# Two tiers of one deployment.
[[slo]]
name = "chat"
class = "chat"
objective = "99% over 28d"
clauses = ["tpot_median <= 50ms", "ttft <= 300ms + 0.12ms x uncached_input_tokens"]
excused = ["cancelled", "400", "shed 429"]

[slo.workload]
model = "Qwen3-32B"
precision = "fp8"
input_tokens = { p50 = 1020, p90 = 2735, p99 = 4142 }
output_tokens = { p50 = 129, p90 = 424, p99 = 601 }
cached_share = "35%"

[[slo]]
name = "agents"
class = "agent"
objective = "95% over 7d"
streamed = false
clauses = ["ttft <= 1s", "e2e <= 5s", "trajectory <= 50s"]
workload = { preset = "azure-code" }
"#;

#[test]
fn a_file_holds_several_tiers() {
    let slos = SloFile::parse("slo.toml", TIERS).unwrap();
    assert_snapshot!(slos[0].sentence(), @"99% of chat requests over 28d have ttft <= 300ms + 120us x uncached_input_tokens and tpot_median <= 50ms");
    assert_snapshot!(slos[1].sentence(), @"95% of agent requests over 7d have ttft <= 1s and e2e <= 5s; 95% of agent sessions over 7d end within 50s");
    assert!(slos[0].is_for("chat") && !slos[0].is_for("agent"));
    assert_eq!(
        slos[0].clauses()[0].metric,
        Metric::Ttft,
        "clauses have a fixed order"
    );
    let workload = slos[0].workload().unwrap();
    assert_eq!(
        workload.input_tokens,
        Some(LengthPercentiles::of(1020, 2735, 4142))
    );
    assert_snapshot!(workload.to_string(), @"Qwen3-32B in fp8, in 1020/2735/4142, out 129/424/601 tokens (p50/p90/p99), 35% of the input cached");
    assert!(slos[1].judges_trajectories());
}

#[test]
fn a_summary_stands_in_a_result() {
    let slo = SloFile::parse("slo.toml", TIERS).unwrap().remove(0);
    let json = serde_json::to_string_pretty(&slo.summary()).unwrap();
    assert_snapshot!(json, @r#"
    {
      "name": "chat",
      "class": "chat",
      "sentence": "99% of chat requests over 28d have ttft <= 300ms + 120us x uncached_input_tokens and tpot_median <= 50ms",
      "objective": 0.99,
      "window": "28d",
      "streamed": true,
      "clauses": [
        {
          "text": "ttft <= 300ms + 120us x uncached_input_tokens",
          "metric": "ttft",
          "percentile": null,
          "bound_ms": null
        },
        {
          "text": "tpot_median <= 50ms",
          "metric": "tpot_median",
          "percentile": null,
          "bound_ms": 50.0
        }
      ],
      "excused": [
        "cancelled",
        "400",
        "shed 429"
      ],
      "workload": {
        "preset": null,
        "model": "Qwen3-32B",
        "precision": "fp8",
        "input_tokens": {
          "p50": 1020,
          "p90": 2735,
          "p99": 4142
        },
        "output_tokens": {
          "p50": 129,
          "p90": 424,
          "p99": 601
        },
        "cached_share": 0.35
      }
    }
    "#);
    let back: SloSummary = serde_json::from_str(&json).unwrap();
    assert_eq!(back, slo.summary());
}

#[test]
#[expect(clippy::too_many_lines, reason = "the snapshot is long")]
fn every_problem_of_a_file_is_told_at_once() {
    let text = r#"
[[slo]]
name = "chat one"
objective = 0.99
clauses = ["tfft <= 500ms", "tpot <= 50"]
excused = ["canceled"]

[[slo]]
name = "tools"
objective = "99% over 28d"
streamed = false
clauses = ["ttft <= 1s", "tpot <= 50ms"]
[slo.workload]
input_tokens = { p50 = 100, p90 = 50 }
output_tokens = { p50 = "1k" }

[[slo]]
name = "tools"
objectiv = "99% over 28d"
ttft = "500ms"
clauses = ["e2e <= 5s"]
workload = { preset = "azure-conversation" }
"#;
    assert_snapshot!(refused(text), @r#"
    error: `chat one` cannot name an SLO
     --> slo.toml:3:8
      |
    3 | name = "chat one"
      |        ^^^^^^^^^^ expected letters, digits, `-`, `_` and `.`

    error: `0.99` has no percent sign
     --> slo.toml:4:13
      |
    4 | objective = 0.99
      |             ^^^^ expected a share from 0% to 100%, such as "99%" or "99.9%"
      |
      = help: write "99%"

    error: unknown clause `tfft`
     --> slo.toml:5:13
      |
    5 | clauses = ["tfft <= 500ms", "tpot <= 50"]
      |             ^^^^
      |
      = note: expected one of `ttft`, `ttft_answer`, `time_to_token_N`, `tpot`, `tpot_median`, `itl_p99`, `stall`, `e2e`, `trajectory`
      = help: did you mean `ttft`?

    error: `50` has no unit
     --> slo.toml:5:38
      |
    5 | clauses = ["tfft <= 500ms", "tpot <= 50"]
      |                                      ^^
      |
      = note: expected a number with its unit, such as "500ms", "1.5s", "10min" or "28d"
      = help: write "50ms" or "50s", as it is meant

    error: `canceled` is no outcome and no status of an error
     --> slo.toml:6:12
      |
    6 | excused = ["canceled"]
      |            ^^^^^^^^^^
      |
      = note: expected an outcome, an HTTP status, or both: "cancelled", "400", "shed 429"
      = help: did you mean `cancelled`?

    error: `tpot` in a class that is not streamed
      --> slo.toml:12:27
       |
    12 | clauses = ["ttft <= 1s", "tpot <= 50ms"]
       |                           ^^^^^^^^^^^^
       |
       = note: expected no clause on the pace of tokens, since nobody watches them come
       = help: bound `e2e` instead, or set `streamed = true`

    error: a higher percentile is below a lower one
      --> slo.toml:14:16
       |
    14 | input_tokens = { p50 = 100, p90 = 50 }
       |                ^^^^^^^^^^^^^^^^^^^^^^^ expected p50 <= p90 <= p99

    error: two SLOs are called `tools`
      --> slo.toml:18:8
       |
    18 | name = "tools"
       |        ^^^^^^^ expected a name of its own, by which results call it

    error: unknown field `objectiv`
      --> slo.toml:19:1
       |
    19 | objectiv = "99% over 28d"
       | ^^^^^^^^
       |
       = note: expected one of `name`, `class`, `objective`, `streamed`, `clauses`, `excused`, `workload`
       = help: did you mean `objective`?

    error: unknown field `ttft`
      --> slo.toml:20:1
       |
    20 | ttft = "500ms"
       | ^^^^
       |
       = note: expected one of `name`, `class`, `objective`, `streamed`, `clauses`, `excused`, `workload`
       = help: bounds stand in a list: `clauses = ["ttft <= 500ms"]`
    "#);
}

#[test]
fn an_slo_without_a_workload_is_a_slogan() {
    let text = "[[slo]]\nname = \"chat\"\nobjective = \"99%\"\nclauses = [\"ttft <= 500ms\"]\n";
    assert_snapshot!(refused(&text.replace("99%", "99% over 28d")), @r#"
    error: an SLO without a workload is a slogan
     --> slo.toml:1:1
      |
    1 | [[slo]]
      | ^^^^^^^
      |
      = note: expected the workload it is meant for, at least a preset or the input and output lengths
      = help: add `[slo.workload]` with `preset = "azure-conversation"`, or with `model`, `precision`, `input_tokens` and `output_tokens` percentiles and `cached_share`
    "#);
    assert_snapshot!(refused(text), @r#"
    error: `99%` has no window
     --> slo.toml:3:13
      |
    3 | objective = "99%"
      |             ^^^^^ expected a share and a window, such as "99% over 28d"
      |
      = help: write "99% over 28d"
    "#);
    let empty = format!(
        "{}[slo.workload]\nmodel = \"Qwen3-32B\"\n",
        text.replace("99%", "99% over 28d")
    );
    assert!(refused(&empty).contains("an SLO without a workload is a slogan"));
}

#[test]
fn what_is_missing_is_named() {
    assert_snapshot!(refused(""), @r"
    error: the file has no SLO
    --> slo.toml
     = help: begin with `[[slo]]`; `goodput slo presets` shows some
    ");
    assert_snapshot!(refused("[[slo]]\n"), @r#"
    error: an SLO has no name
     --> slo.toml:1:1
      |
    1 | [[slo]]
      | ^^^^^^^
      |
      = help: add `name = "chat"`, say: results call it so

    error: an SLO has no objective
     --> slo.toml:1:1
      |
    1 | [[slo]]
      | ^^^^^^^
      |
      = help: add `objective = "99% over 28d"`

    error: an SLO without a clause judges nothing
     --> slo.toml:1:1
      |
    1 | [[slo]]
      | ^^^^^^^
      |
      = help: add `clauses = ["ttft <= 500ms", "tpot <= 50ms"]`

    error: an SLO without a workload is a slogan
     --> slo.toml:1:1
      |
    1 | [[slo]]
      | ^^^^^^^
      |
      = note: expected the workload it is meant for, at least a preset or the input and output lengths
      = help: add `[slo.workload]` with `preset = "azure-conversation"`, or with `model`, `precision`, `input_tokens` and `output_tokens` percentiles and `cached_share`
    "#);
    assert_snapshot!(refused("slo = 5"), @r"
    error: invalid type: integer `5`
     --> slo.toml:1:7
      |
    1 | slo = 5
      |       ^ expected a sequence
    ");
}

#[test]
fn a_run_of_another_workload_is_told_apart() {
    let slos = SloFile::parse("slo.toml", TIERS).unwrap();
    let said = slos[0].workload().unwrap();
    assert_eq!(said.differences(said), [""; 0]);
    assert_eq!(said.differences(&WorkloadStatement::default()), [""; 0]);
    let run = WorkloadStatement {
        precision: Some("bf16".into()),
        input_tokens: Some(LengthPercentiles::of(1100, 2500, 4000)),
        output_tokens: Some(LengthPercentiles::of(129, 424, 900)),
        cached_share: Some(0.0),
        ..said.clone()
    };
    assert_snapshot!(said.differences(&run).join("\n"), @r"
    the SLO is for precision fp8, the run has bf16
    the SLO is for output lengths 129/424/601 (p50/p90/p99), the run has 129/424/900
    the SLO is for 35% of the input cached, the run plans 0%
    ");
}

#[test]
fn odd_files_are_taken_with_a_warning() {
    let text = TIERS.replace("\"400\"", "\"429\"").replace("50ms", "250ms");
    let file = SloFile::check("slo.toml", &text).unwrap();
    let shown: Vec<String> = file
        .warnings
        .iter()
        .map(|w| w.render("slo.toml", &text, Severity::Warning, false))
        .collect();
    assert_snapshot!(shown.join("\n\n"), @r#"
    warning: `tpot_median <= 250ms` is slower than people read
     --> slo.toml:7:13
      |
    7 | clauses = ["tpot_median <= 250ms", "ttft <= 300ms + 0.12ms x uncached_input_tokens"]
      |             ^^^^^^^^^^^^^^^^^^^^
      |
      = help: people read 5 to 10 tokens a second, 100ms to 200ms each; chat is often held to 50ms

    warning: `429` excuses a server that sheds for overload, too
     --> slo.toml:8:25
      |
    8 | excused = ["cancelled", "429", "shed 429"]
      |                         ^^^^^
      |
      = help: `"shed 429"` excuses only a tenant that our gateway held to its limit
    "#);
}

proptest! {
    /// A file with a hole or a stray piece in it is read or refused, never a crash, and every
    /// problem lies inside it.
    #[test]
    fn a_damaged_file_is_refused_in_its_place(
        from in 0..TIERS.len(), length in 0_usize..60, piece in "[a-z0-9=\"'\\[\\]{}, .%<#\n☃]{0,8}",
    ) {
        let to = TIERS.len().min(from + length);
        let text = format!("{}{piece}{}", &TIERS[..from], &TIERS[to..]);
        let problems = match SloFile::check("slo.toml", &text) {
            Ok(file) => file.warnings,
            Err(error) => {
                prop_assert!(!error.problems.is_empty());
                let _ = error.render("slo.toml", &text, true);
                error.problems
            }
        };
        for problem in problems {
            prop_assert!(problem.span.is_none_or(|s| s.start <= s.end && s.end <= text.len()));
        }
    }
}
