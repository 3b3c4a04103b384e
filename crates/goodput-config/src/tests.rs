use std::{num::NonZeroU32, time::Duration};

use insta::assert_snapshot;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    slo: Vec<RawSlo>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSlo {
    ttft: Option<Spanned<DurationText>>,
    tpot: Option<Spanned<DurationText>>,
    objective: Option<Typed<Percent>>,
    context: Option<Typed<Tokens>>,
}

fn rendered(text: &str) -> String {
    match parse::<Raw>("slo.toml", text) {
        Ok(raw) => format!("{raw:?}"),
        Err(error) => error.render("slo.toml", text, false),
    }
}

#[test]
fn all_problems_are_told_at_once_each_with_its_place() {
    let text = "[[slo]]\ntfft = \"500ms\"\ntpot = 50\n[[slo]]\nttft = \"5 m\"\nobjective = 0.99\ncontext = -5\n";
    assert_snapshot!(rendered(text), @r#"
    error: unknown field `tfft`
     --> slo.toml:2:1
      |
    2 | tfft = "500ms"
      | ^^^^ expected one of `ttft`, `tpot`, `objective`, `context`
      |
      = help: did you mean `ttft`?

    error: `50` has no unit
     --> slo.toml:3:8
      |
    3 | tpot = 50
      |        ^^
      |
      = note: expected a number with its unit, such as "500ms", "1.5s", "10min" or "28d"
      = help: write "50ms" or "50s", as it is meant

    error: `m` is not a unit of time
     --> slo.toml:5:8
      |
    5 | ttft = "5 m"
      |        ^^^^^ expected one of `ns`, `us`, `ms`, `s`, `min`, `h`, `d`
      |
      = help: write "5min" for minutes, "5ms" for milliseconds

    error: `0.99` has no percent sign
     --> slo.toml:6:13
      |
    6 | objective = 0.99
      |             ^^^^ expected a share from 0% to 100%, such as "99%" or "99.9%"
      |
      = help: write "99%"

    error: `-5` is below zero
     --> slo.toml:7:11
      |
    7 | context = -5
      |           ^^
      |
      = note: expected a whole number of tokens, such as 512, "32k" (32,000) or "32Ki" (32,768)
      = help: drop the minus sign
    "#);
}

#[test]
fn a_text_that_is_no_toml_is_told_with_its_place() {
    assert_snapshot!(rendered("[[slo]]\nttft = 500ms\ntpot =\n"), @r#"
    error: a text must stand in quotes
     --> slo.toml:2:8
      |
    2 | ttft = 500ms
      |        ^^^^^
      |
      = help: write "500ms"

    error: a value is missing
     --> slo.toml:3:7
      |
    3 | tpot =
      |       ^
    "#);
}

#[test]
fn a_problem_without_a_place_names_the_file() {
    let problem = TextError::new("the file has no SLO")
        .hint("begin with `[[slo]]`")
        .at(None);
    let error = ConfigError::of("slo.toml", problem);
    assert_snapshot!(error.render("slo.toml", "", false), @r"
    error: the file has no SLO
    --> slo.toml
     = help: begin with `[[slo]]`
    ");
}

#[test]
fn reading_goes_on_after_a_problem() {
    let reading = read::<Raw>("[[slo]]\nttft = \"500ms\"\ntpto = \"50ms\"\nobjective = \"99%\"");
    assert_eq!(reading.problems.len(), 1);
    let slo = &reading.raw.unwrap().slo[0];
    assert_eq!(
        slo.ttft.as_ref().unwrap().get_ref().0,
        Duration::from_millis(500)
    );
    assert_eq!(slo.objective.unwrap().0, Percent::of(99));
    assert!(slo.tpot.is_none() && slo.context.is_none());
}

#[test]
fn places_behind_wide_characters_do_not_break_the_rendering() {
    let text = "# ünïcödé ☃\n[[slo]]\n\"tpöt\" = \"☃\"";
    assert!(rendered(text).contains("unknown field `tpöt`"));
}

#[track_caller]
fn refuses<T: std::fmt::Debug>(result: Result<T, TextError>, message: &str, hint: Option<&str>) {
    let error = result.unwrap_err();
    assert_eq!(
        (error.message.as_str(), error.hint.as_deref()),
        (message, hint)
    );
}

#[test]
fn durations_need_a_unit_and_are_exact() {
    let nanos = |text: &str| parse_duration(text).unwrap().as_nanos();
    assert_eq!(nanos("500ms"), 500_000_000);
    assert_eq!(nanos("1.5s"), 1_500_000_000);
    assert_eq!(nanos(" 0.12 ms "), 120_000);
    assert_eq!(nanos("28d"), 28 * 86_400 * 1_000_000_000);
    assert_eq!(nanos("10min"), 600_000_000_000);
    assert_eq!(nanos("1_000us"), nanos("1ms"));
    refuses(
        parse_duration("0.5"),
        "`0.5` has no unit",
        Some(r#"write "0.5ms" or "0.5s", as it is meant"#),
    );
    refuses(
        parse_duration("-5ms"),
        "`-5ms` is below zero",
        Some("drop the minus sign"),
    );
    refuses(
        parse_duration("5m"),
        "`m` is not a unit of time",
        Some(r#"write "5min" for minutes, "5ms" for milliseconds"#),
    );
    refuses(
        parse_duration("500msec"),
        "`msec` is not a unit of time",
        Some(r#"did you mean "500ms"?"#),
    );
    refuses(
        parse_duration("0.5ns"),
        "`0.5ns` is finer than a nanosecond",
        None,
    );
    refuses(
        parse_duration("900000d"),
        "`900000d` is longer than 584 years",
        None,
    );
    for text in [
        "", "ms", "1.5.5s", ".5s", "5.s", "1e3s", "½s", "--5s", "_5s",
    ] {
        parse_duration(text).unwrap_err();
    }
}

#[test]
fn percent_needs_its_sign_and_is_exact() {
    assert_eq!(parse_percent("99.9 %").unwrap().billionths(), 999_000_000);
    assert_eq!(parse_percent("99.95%").unwrap().to_string(), "99.95%");
    refuses(
        parse_percent("0.99"),
        "`0.99` has no percent sign",
        Some(r#"write "99%""#),
    );
    refuses(
        parse_percent("99"),
        "`99` has no percent sign",
        Some(r#"write "99%""#),
    );
    refuses(parse_percent("101%"), "`101%` is more than the whole", None);
    let ninety_nine = Percent::of(99);
    assert!(ninety_nine.is_kept_by(99, 100));
    assert!(!ninety_nine.is_kept_by(98_999_999_999_999_999, 100_000_000_000_000_000));
}

#[test]
fn counts_and_sizes() {
    assert_eq!(parse_tokens("32k"), Ok(32_000));
    assert_eq!(parse_tokens("32Ki"), Ok(32_768));
    assert_eq!(parse_tokens("1.5k"), Ok(1_500));
    parse_tokens("1.5").unwrap_err();
    parse_tokens("5000M").unwrap_err();
    assert_eq!(parse_bytes("80GB"), Ok(80_000_000_000));
    assert_eq!(parse_bytes("0.5KiB"), Ok(512));
    refuses(
        parse_bytes("80gb"),
        "`gb` is not a unit of size",
        Some(r#"did you mean "80GB"?"#),
    );
    refuses(parse_bytes("80"), "`80` has no unit", None);
    assert_eq!(parse_amount("20"), Ok(Amount::Requests(20)));
    assert_eq!(
        parse_amount("30s"),
        Ok(Amount::Span(Duration::from_secs(30)))
    );
}

#[test]
fn lists_of_loads_rise_and_hold_each_once() {
    let list = |text: &str| -> Vec<u32> {
        parse_concurrency(text)
            .unwrap()
            .into_iter()
            .map(NonZeroU32::get)
            .collect()
    };
    assert_eq!(list("4,1, 2,2"), [1, 2, 4]);
    assert_eq!(list("50:100:10"), [50, 60, 70, 80, 90, 100]);
    assert_eq!(list("1..128x2"), [1, 2, 4, 8, 16, 32, 64, 128]);
    assert_eq!(list("1..10x1.5"), [1, 2, 3, 5, 8]);
    assert_eq!(list("1,10:20:5,15"), [1, 10, 15, 20]);
    assert_eq!(parse_rates("0.1:0.3:0.1").unwrap(), [0.1, 0.2, 0.3]);
    for text in [
        "",
        "1,,2",
        "0",
        "1..8x1",
        "8..1x2",
        "1:9:0",
        "1:9",
        "-1",
        "a",
        "1:2000000:1",
        "2000000",
    ] {
        parse_concurrency(text).unwrap_err();
    }
    let error = parse_concurrency("1..128").unwrap_err();
    assert_snapshot!(error.to_string(), @r"
    `1..128` is neither a number nor a range
    expected: `1,2,4`, `50:100:10` (from:to:step) or `1..128x2` (doubling)
    hint: say how it rises: `1..128x2` doubles, `1:128:1` takes every number
    ");
    parse_rates("0").unwrap_err();
}

#[test]
fn suggestions_are_near_or_absent() {
    let known = ["ttft", "ttft_answer", "tpot", "e2e"];
    assert_eq!(suggest("tfft", &known), Some("ttft"));
    assert_eq!(suggest("TTFT-Answer", &known), Some("ttft_answer"));
    assert_eq!(suggest("latency", &known), None);
}

proptest! {
    #[test]
    fn a_duration_reads_back_as_it_was_written(nanos in prop_oneof![0_u64..5_000_000_000, any::<u64>()]) {
        let span = Duration::from_nanos(nanos);
        let text = duration_text(span);
        // 18 digits are 31 years in nanoseconds.
        if nanos < 1_000_000_000_000_000_000 {
            prop_assert_eq!(parse_duration(&text), Ok(span), "{}", text);
        }
    }

    #[test]
    fn no_text_breaks_a_reader(text in "\\PC{0,24}") {
        let _ = parse_duration(&text);
        let _ = parse_percent(&text);
        let _ = parse_tokens(&text);
        let _ = parse_bytes(&text);
        let _ = parse_concurrency(&text);
        let _ = rendered(&text);
    }

    #[test]
    fn no_slo_file_breaks_the_reader(value in "[0-9a-z\"'.\\[\\]{}=\n# -]{0,40}") {
        let _ = rendered(&format!("[[slo]]\nttft = {value}\nobjective = \"99%\"\n"));
    }

    #[test]
    fn a_percent_reads_back(billionths in 0_u32..=1_000_000_000) {
        let whole = billionths / 10_000_000;
        let text = format!("{whole}.{:07}%", billionths % 10_000_000);
        let read = parse_percent(&text).unwrap();
        prop_assert_eq!(read.billionths(), billionths);
        prop_assert_eq!(parse_percent(&read.to_string()), Ok(read));
    }
}
