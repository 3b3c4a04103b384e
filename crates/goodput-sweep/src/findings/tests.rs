//! Each finding is seen in a point that has its fault, and in none that has not.

use goodput_ledger::{Mode, PointRow, SpeedShift, WatchRow};

use crate::{
    Finding, HardwareFacts, HoldsFor, Question, answers, findings, mark, tests::plain_row,
};

const QUESTION: Question = Question {
    objective: 0.9,
    e2e_at_tokens: 250,
};

fn said(points: &[PointRow], holds_for: &HoldsFor) -> Vec<Finding> {
    findings(points, &answers(points, QUESTION), holds_for)
}

fn with(change: impl FnOnce(&mut PointRow)) -> PointRow {
    let mut row = plain_row();
    change(&mut row);
    row
}

/// The finding of this name in a point so changed; the plain point must be without it.
#[track_caller]
fn found(name: &str, change: impl FnOnce(&mut PointRow)) -> Option<Finding> {
    found_in(name, &[with(change)])
}

#[track_caller]
fn found_in(name: &str, points: &[PointRow]) -> Option<Finding> {
    let named = |f: &Finding| f.name == name;
    let holds_for = HoldsFor {
        boot: "this boot only".to_owned(),
        ..HoldsFor::default()
    };
    assert!(
        !said(&[plain_row()], &holds_for).iter().any(named),
        "{name} in a healthy point"
    );
    said(points, &holds_for).into_iter().find(named)
}

#[track_caller]
fn check(finding: Option<Finding>, severe: bool, evidence: &[&str]) {
    let finding = finding.expect("a finding");
    for part in evidence {
        assert!(finding.evidence.contains(part), "{}", finding.evidence);
    }
    assert_eq!(finding.severe, severe, "{}", finding.evidence);
    assert!(!finding.advice.is_empty());
}

fn open(row: &mut PointRow) {
    row.mode = Mode::Open;
    row.concurrency = None;
    row.rate_req_s = Some(row.requests as f64 / row.window_s);
}

#[test]
fn a_healthy_point_has_no_fault() {
    let names: Vec<String> = said(&[plain_row()], &HoldsFor::default())
        .into_iter()
        .map(|f| f.name)
        .collect();
    assert_eq!(names, [""; 0]);
}

#[test]
fn answers_without_usage_are_counted() {
    let none = found("no-usage", |p| p.checks.usage_absent = 40);
    check(none, false, &["with 40 of 160 answers"]);
}

#[test]
fn littles_law_holds_or_is_named() {
    // Seven requests a second of 1.14 s are eight in flight: twelve, or four, were not these.
    let more = found("littles-law", |p| p.in_flight_mean *= 1.5);
    check(more, false, &["by Little's law; 12.00 were, 51.4% more"]);
    let fewer = found("littles-law", |p| p.in_flight_mean *= 0.5);
    check(
        fewer,
        true,
        &["7.93 in flight by Little's law; 4.00 were", "% fewer"],
    );
    let open_loop = found("littles-law", |p| {
        open(p);
        p.checks.e2e_mean_ms = p.checks.e2e_mean_ms.map(|ms| ms * 2.0);
    });
    check(open_loop, true, &["req/s"]);
    // A window hardly longer than a request, and failures, leave the law nothing to say.
    assert_eq!(
        found("littles-law", |p| {
            p.in_flight_mean *= 0.5;
            p.e2e_p95_ms = Some(p.window_s * 1e3);
        }),
        None
    );
    assert_eq!(
        found("littles-law", |p| {
            p.in_flight_mean *= 0.5;
            p.outcomes.insert("ok".to_owned(), p.requests / 2);
        }),
        None
    );
}

/// What is said to differ is printed with the digits in which it does.
#[test]
fn two_figures_that_differ_are_not_printed_alike() {
    let little = found("littles-law", |p| {
        open(p);
        (p.requests, p.window_s) = (200, 400.0);
        p.outcomes.insert("ok".to_owned(), p.requests);
        p.rate_req_s = Some(0.5);
        p.checks.e2e_mean_ms = Some(8.0);
        p.e2e_p95_ms = Some(10.0);
        (p.in_flight_mean, p.in_flight_at_end) = (0.0043, 0);
    });
    check(
        little,
        false,
        &["are 0.0040 in flight by Little's law; 0.0043 were, 7.5% more"],
    );
}

#[test]
fn idle_users_are_a_smaller_load() {
    let idle = found("users-idle", |p| p.concurrency = Some(16));
    check(idle, false, &["16 in flight only 8.0"]);
}

fn hardware(bits_known: bool) -> HoldsFor {
    HoldsFor {
        hardware: Some(HardwareFacts {
            accelerator: "H100-SXM".to_owned(),
            count: 1,
            weight_bits: 16,
            bits_known,
            weight_read_ms: 4.79,
            source: "a data sheet".to_owned(),
        }),
        ..HoldsFor::default()
    }
}

#[test]
fn a_step_shorter_than_the_weights_read_is_impossible() {
    let floor = |tpot_ms, tokens_per_event, bits_known| {
        let row = with(|p| {
            p.tpot_p50_ms = Some(tpot_ms);
            p.lengths.tokens_per_event = Some(tokens_per_event);
        });
        said(&[row], &hardware(bits_known))
            .into_iter()
            .find(|f| f.name == "tpot-under-floor")
    };
    assert_eq!(floor(6.9, 1.0, true), None);
    assert_eq!(floor(4.7, 1.0, true), None, "bandwidths are rounded");
    // Half of 6.9: two events counted for a token.
    check(floor(3.45, 1.0, true), true, &["3.45 ms", "4.79 ms"]);
    check(floor(3.45, 1.0, false), false, &["16 bits assumed"]);
    check(floor(1.0, 1.0, false), true, &["1.00 ms"]);
    // Two tokens a step are two tokens a step.
    assert_eq!(floor(3.45, 2.0, true), None);
    // Without hardware there is no floor.
    assert_eq!(
        found("tpot-under-floor", |p| p.tpot_p50_ms = Some(0.01)),
        None
    );
}

#[test]
fn an_open_loop_that_did_not_send_is_none() {
    let shy = |share| {
        found("open-loop-not-open", |p| {
            open(p);
            p.sent_share = Some(share);
        })
    };
    assert_eq!(shy(1.0), None);
    assert_eq!(shy(0.98), None);
    check(shy(0.97), true, &["97.0%"]);
}

#[test]
fn empty_answers_are_counted() {
    let empty = |n| {
        found("empty-answers", move |p| {
            p.outcomes.insert("empty".to_owned(), n);
        })
    };
    check(empty(1), false, &["1 of"]);
    check(empty(60), true, &["60 of"]);
}

#[test]
fn a_measured_first_wave_that_sets_the_tail_is_a_herd() {
    let herd = |change: fn(&mut PointRow)| {
        found("first-wave-herd", move |p| {
            p.checks.first_wave_measured = 8;
            p.checks.first_wave_ttft_p50_ms = p.ttft_p50_ms.map(|ms| ms * 5.0);
            p.checks.first_wave_in_tail = 2;
            change(p);
        })
    };
    check(herd(|_| ()), true, &["each of 8 users", "500 ms", "100 ms"]);
    assert_eq!(herd(|p| p.checks.first_wave_in_tail = 0), None);
    assert_eq!(
        herd(|p| p.checks.first_wave_ttft_p50_ms = p.ttft_p50_ms),
        None
    );
}

#[test]
fn few_requests_a_user_are_said_where_the_first_wave_is_among_them() {
    let few = |users: u32, first_wave| {
        found("few-requests-per-user", move |p| {
            p.concurrency = Some(users);
            p.in_flight_mean = f64::from(users);
            p.checks.first_wave_measured = first_wave;
        })
    };
    // 160 requests in all.
    assert_eq!(few(8, 8), None, "twenty each");
    check(few(32, 32), false, &["every user had 5.0", "the first one"]);
    assert_eq!(few(32, 0), None, "the first wave was left out");
    check(few(64, 0), false, &["every user had 2.5"]);
}

#[test]
fn equal_lengths_are_said() {
    let alike = found("fixed-lengths", |p| {
        p.checks.planned_input_range = Some([512, 512]);
    });
    check(alike, false, &["all inputs have 512 tokens"]);
    let one = with(|p| p.checks.planned_output_range = Some([64, 64]));
    let other = with(|p| p.checks.planned_output_range = Some([128, 128]));
    assert_eq!(found_in("fixed-lengths", &[one, other]), None);
}

#[test]
fn two_events_a_token_are_named() {
    let twice = |requests, ratio| {
        found("events-above-usage", move |p| {
            p.checks.usage_below_events = requests;
            p.checks.events_per_usage_token = ratio;
        })
    };
    check(
        twice(160, Some(2.0)),
        true,
        &["2.00 events a token", "100.0%"],
    );
    check(twice(2, Some(2.0)), false, &["1.2%"]);
    check(twice(160, Some(1.02)), false, &["1.02"]);
    check(twice(160, None), true, &["a usage of 0 tokens"]);
}

#[test]
fn a_usage_that_cannot_be_is_named() {
    let odd = found("usage-not-a-count", |p| p.checks.usage_not_a_count = 160);
    check(odd, false, &["100.0% of requests"]);
}

#[test]
fn counts_of_the_same_text_agree_or_are_named() {
    let ratio = |r| {
        found("token-counts-disagree", move |p| {
            p.checks.tokenizer_over_usage = Some(r);
        })
    };
    assert_eq!(ratio(1.05), None);
    check(ratio(2.0), false, &["2.00 tokens for one of usage"]);
    let text = |characters| {
        found("token-counts-disagree", move |p| {
            p.checks.usage_absent = 0;
            p.lengths.characters_per_token = Some(characters);
        })
    };
    assert_eq!(text(4.2), None);
    assert_eq!(text(1.4), None, "Chinese");
    check(text(0.3), false, &["0.30 characters"]);
    check(text(40.0), false, &["40.00 characters"]);
}

#[test]
fn answers_beyond_their_limit_are_named() {
    let longer = |share| {
        found("max-tokens-ignored", move |p| {
            p.checks.longer_share = Some(share);
        })
    };
    check(longer(0.01), false, &["1.0%"]);
    check(longer(0.9), true, &["90.0%", "asked were 100"]);
    let row = with(|p| p.checks.longer_share = Some(0.9));
    let mut natural = HoldsFor::default();
    natural.workload.output_policy = "natural".to_owned();
    let names = said(&[row], &natural);
    assert!(names.iter().all(|f| f.name != "max-tokens-ignored"));
}

#[test]
fn an_end_mark_that_was_to_be_ignored_takes_trust_away() {
    let row = with(|p| p.lengths.early_stop_share = Some(0.4));
    let severe = |policy: &str| {
        let mut holds_for = HoldsFor::default();
        holds_for.workload.output_policy = policy.to_owned();
        let all = said(std::slice::from_ref(&row), &holds_for);
        all.into_iter()
            .find(|f| f.name == "early-stops")
            .unwrap()
            .severe
    };
    assert!(severe("ignore_eos"));
    assert!(!severe("max_tokens"));
}

#[test]
fn bunches_of_single_tokens_are_a_buffer_or_a_guess() {
    let bunched = |share, bunch| {
        found("bunched-events", move |p| {
            p.checks.bunched_share = Some(share);
            p.checks.events_per_bunch = Some(bunch);
        })
    };
    assert_eq!(bunched(0.1, 1.1), None);
    check(bunched(0.66, 3.0), false, &["66.0%", "3.0 at a time"]);
    check(bunched(0.95, 20.0), true, &["20.0 at a time"]);
    assert_eq!(
        found("bunched-events", |p| {
            p.checks.bunched_share = Some(0.9);
            p.checks.events_per_bunch = Some(10.0);
            p.burst_share = Some(1.0);
        }),
        None,
        "whole streams in one burst are called so"
    );
    let late = |lag_ms, bunch| {
        found("bunched-events", move |p| {
            p.checks.bunched_share = Some(0.7);
            p.checks.events_per_bunch = Some(bunch);
            p.tpot_p50_ms = Some(4.0);
            p.loop_lag_p99_ms = Some(lag_ms);
        })
    };
    assert_eq!(late(8.0, 4.0), None, "this machine was late by two tokens");
    assert!(late(8.0, 20.0).is_some());
    assert!(late(0.2, 4.0).is_some());
}

#[test]
fn pieces_of_a_fixed_size_and_guesses_are_told_apart() {
    let row = |mean, by_request: [f64; 4]| {
        with(|p| {
            p.lengths.tokens_per_event = Some(mean);
            p.checks.tokens_per_event = Some(by_request);
        })
    };
    let fixed = row(3.9, [3.6, 3.9, 4.0, 4.0]);
    check(
        found_in("tokens-per-event", std::slice::from_ref(&fixed)),
        false,
        &["3.90 tokens", "in pieces"],
    );
    assert_eq!(found_in("speculative-decoding", &[fixed]), None);
    let guessed = row(2.4, [1.9, 2.4, 3.1, 3.6]);
    check(
        found_in("speculative-decoding", std::slice::from_ref(&guessed)),
        false,
        &["2.40 tokens", "1.90 to 3.10"],
    );
    assert_eq!(found_in("tokens-per-event", &[guessed]), None);
}

#[test]
fn hits_that_nobody_meant_are_named() {
    let hits = |planned, seen| {
        found("unmeant-prefix-hits", move |p| {
            p.lengths.planned_cached_share = Some(planned);
            p.lengths.reported_cached_share = Some(seen);
        })
    };
    assert_eq!(hits(0.0, 0.01), None);
    assert_eq!(hits(0.4, 0.4), None);
    check(hits(0.0, 0.1), false, &["10.0%"]);
    check(hits(0.0, 0.496), true, &["49.6%"]);
}

fn watched(change: impl FnOnce(&mut WatchRow)) -> PointRow {
    with(|p| {
        let mut server = WatchRow {
            looks: 12,
            in_server_p50: Some(8.0),
            ours_p50: Some(8.0),
            foreign_in_server: Some(0.0),
            ended_in_server: Some(160),
            ended_ours: Some(160),
            foreign_share: Some(0.0),
            replicas_seen: 1,
            answered_as: Vec::new(),
            restarts: 0,
            started_unix_s: Some(1.7e9),
        };
        change(&mut server);
        p.server = Some(server);
        mark(p);
    })
}

#[test]
fn what_became_of_the_server_is_named() {
    let quiet = watched(|_| ());
    for name in [
        "foreign-traffic",
        "server-restarted",
        "two-boots",
        "several-replicas",
        "server-sees-less",
        "clock",
        "drift",
    ] {
        assert_eq!(found_in(name, &[quiet.clone(), quiet.clone()]), None);
    }
    let shared = watched(|s| {
        (s.in_server_p50, s.foreign_in_server) = (Some(10.0), Some(2.0));
        s.foreign_share = Some(0.2);
    });
    check(
        found_in("foreign-traffic", &[quiet.clone(), shared]),
        false,
        &["1 of 2 points", "20% of its load"],
    );
    let restarted = watched(|s| s.restarts = 1);
    check(
        found_in("server-restarted", &[restarted]),
        false,
        &["two boots"],
    );
    let later = watched(|s| s.started_unix_s = Some(1.8e9));
    check(
        found_in("two-boots", &[quiet.clone(), later]),
        true,
        &["had been restarted since 8 in flight"],
    );
    let several = watched(|s| s.replicas_seen = 2);
    check(
        found_in("several-replicas", &[several]),
        false,
        &["at least 2"],
    );
    let two_names = watched(|s| s.answered_as = vec!["m (fp_1)".to_owned(), "m (fp_2)".to_owned()]);
    check(
        found_in("several-replicas", &[two_names]),
        false,
        &["m (fp_1) and m (fp_2)"],
    );
    let less = watched(|s| s.in_server_p50 = Some(4.0));
    check(
        found_in("server-sees-less", &[less]),
        false,
        &["4 requests", "50.0%"],
    );
}

#[test]
fn a_server_that_slows_down_is_named_within_a_point_and_between_two() {
    let slowed = with(|p| {
        p.checks.speed_shift = Some(SpeedShift {
            at_s: 4.0,
            before_tok_s: 100.0,
            after_tok_s: 80.0,
        });
        mark(p);
    });
    check(
        found_in("clock", &[plain_row(), slowed]),
        false,
        &["1 of 2 points", "20% slower 4 s into the window"],
    );
    let later = with(|p| p.tpot_p50_ms = p.tpot_p50_ms.map(|ms| ms * 1.12));
    check(
        found_in("drift", &[plain_row(), later]),
        true,
        &["8 in flight was measured more than once", "12.0% longer"],
    );
    let alike = with(|p| p.tpot_p50_ms = p.tpot_p50_ms.map(|ms| ms * 1.03));
    assert_eq!(found_in("drift", &[plain_row(), alike]), None);
}
