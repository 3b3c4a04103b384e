use goodput_ledger::SpeedShift;
use proptest::prelude::*;

use super::*;
use crate::tests::plain_row;

/// A look `second` seconds after the start: (server's running, server's ended, ours in flight, ours
/// ended).
fn look(second: u64, server: (u32, u64), ours: (u32, u64)) -> Look {
    Look {
        sample: EngineSample {
            at: Timestamp::from_millis(1_000 * second),
            running: Some(server.0),
            waiting: Some(0),
            requests_ended: Some(server.1),
            ..EngineSample::default()
        },
        in_flight: ours.0,
        ended: ours.1,
    }
}

fn window() -> Range<Timestamp> {
    Timestamp::from_millis(1_500)..Timestamp::from_millis(11_500)
}

/// Twelve looks at 8 users who end 4 requests a second, beside `foreign` others who end `more`.
fn looks(foreign: u32, more: u64) -> Vec<Look> {
    (0..13)
        .map(|s| {
            let ours = if s == 0 || s == 12 { 0 } else { 8 };
            look(s, (ours + foreign, 100 + (4 + more) * s), (ours, 4 * s))
        })
        .collect()
}

fn marked(looks: &[Look]) -> PointRow {
    let mut row = plain_row();
    row.server = watch(looks, &window(), true);
    mark(&mut row);
    row
}

#[test]
fn a_server_of_our_own_is_not_marked() {
    let row = marked(&looks(0, 0));
    assert!(row.valid && row.warnings.is_empty(), "{:?}", row.warnings);
    assert_eq!(row.server.as_ref().unwrap().foreign_share, Some(0.0));
    assert_eq!(
        seen(&[row]).as_deref(),
        Some("1 replica seen | no foreign traffic")
    );
}

#[test]
fn foreign_requests_in_the_server_are_noticed() {
    let row = marked(&looks(2, 0));
    assert!(!row.valid);
    assert!(
        row.warnings[0].contains("20% of its load"),
        "{:?}",
        row.warnings
    );
    assert!(row.warnings[0].contains("10 requests at a time, ours were 8"));
    assert!(seen(&[row]).unwrap().contains("FOREIGN"));
}

#[test]
fn foreign_requests_that_ended_between_looks_are_noticed() {
    let row = marked(&looks(0, 1));
    assert!(!row.valid);
    assert!(
        row.warnings[0].contains("60 requests ended in it, 48 of them ours"),
        "{:?}",
        row.warnings
    );
}

#[test]
fn what_we_gave_up_is_not_foreign() {
    let mut row = plain_row();
    row.outcomes.insert("timed_out".to_owned(), 3);
    row.server = watch(&looks(3, 0), &window(), true);
    mark(&mut row);
    assert!(row.valid, "{:?}", row.warnings);
}

#[test]
fn the_parts_of_a_load_that_other_processes_send_are_not_foreign() {
    let mut row = plain_row();
    row.server = watch(&looks(16, 8), &window(), false);
    mark(&mut row);
    assert!(row.valid, "{:?}", row.warnings);
    let server = row.server.as_ref().unwrap();
    assert_eq!((server.foreign_share, server.ours_p50), (None, None));
    assert_eq!(server.in_server_p50, Some(24.0));
    assert!(seen(&[row]).unwrap().contains("not known"));
}

#[test]
fn a_moment_of_another_count_is_jitter() {
    let mut jittered = looks(0, 0);
    jittered[4].sample.running = Some(12);
    jittered[8].sample.running = Some(11);
    jittered[12].sample.requests_ended = Some(100 + 48 + 3);
    assert!(marked(&jittered).valid);
}

#[test]
fn without_counters_nothing_is_known() {
    let blind: Vec<Look> = (0..12)
        .map(|s| Look {
            sample: EngineSample {
                at: Timestamp::from_millis(1_000 * s),
                ..EngineSample::default()
            },
            in_flight: 8,
            ended: 4 * s,
        })
        .collect();
    let row = watch(&blind, &window(), true).unwrap();
    assert_eq!((row.foreign_share, row.in_server_p50), (None, None));
    assert_eq!(watch(&blind[..1], &window(), true), None);
}

fn started(values: &[f64]) -> Vec<Look> {
    let mut all = looks(0, 0);
    all.truncate(values.len());
    for (look, &start) in all.iter_mut().zip(values) {
        look.sample.started_unix_s = Some(start);
    }
    all
}

#[test]
fn start_times_that_come_back_are_replicas_and_those_that_do_not_are_restarts() {
    let lives_of = |values: &[f64]| lives(&started(values));
    assert_eq!(lives_of(&[5.0; 8]), (1, 0));
    assert_eq!(lives_of(&[5.0, 9.0, 5.0, 9.0, 9.0]), (2, 0));
    assert_eq!(lives_of(&[5.0, 9.0, 13.0, 5.0]), (3, 0));
    let corrected = [5.0, 6.0, 5.0, 5.5];
    assert_eq!(lives_of(&corrected), (1, 0), "a clock's corrections");
    assert_eq!(lives_of(&[9.0, 9.0, 5.0, 5.0]), (2, 0), "an older process");
    assert_eq!(lives_of(&[5.0, 5.0, 9.0, 9.0]), (1, 1));
    assert_eq!(lives_of(&[5.0, 9.0, 9.0, 12.0]), (1, 2));
}

#[test]
fn counters_tell_the_same_without_start_times() {
    assert_eq!(lives_by_counter(&[1, 2, 2, 9]), (1, 0));
    assert_eq!(lives_by_counter(&[100, 110, 0, 8, 16]), (1, 1));
    assert_eq!(lives_by_counter(&[100, 50, 104, 55]), (2, 0));
    assert_eq!(lives_by_counter(&[100, 110, 3, 114]), (2, 0));
    assert_eq!(lives_by_counter(&[100, 99, 101, 104]), (2, 0));
}

#[test]
fn streams_that_break_off_at_once_are_a_restart_and_one_by_one_are_not() {
    let cut = |together, all| {
        let mut row = plain_row();
        (row.checks.cut_together, row.checks.cut) = (together, all);
        mark(&mut row);
        row
    };
    let row = cut(8, 8);
    assert!(!row.valid && row.warnings[0].contains("8 streams broke off at once, of 8"));
    assert!(cut(2, 2).valid, "two of eight");
    assert!(cut(5, 40).valid, "a fault that goes on");
}

#[test]
fn a_restart_and_a_slowed_server_take_the_point_away() {
    let row = marked(&started(&[5.0, 5.0, 5.0, 9.0, 9.0, 9.0]));
    assert!(!row.valid && row.warnings[0].contains("restarted"));
    let mut row = plain_row();
    row.checks.speed_shift = Some(SpeedShift {
        at_s: 5.0,
        before_tok_s: 50.0,
        after_tok_s: 40.0,
    });
    mark(&mut row);
    assert!(!row.valid && row.warnings[0].contains("20% slower 5 s into the window"));
    let mut row = plain_row();
    row.checks.speed_shift = Some(SpeedShift {
        at_s: 5.0,
        before_tok_s: 50.0,
        after_tok_s: 47.0,
    });
    mark(&mut row);
    assert!(row.valid);
}

proptest! {
    // However our requests come and go, a server that holds them and no others is never called
    // shared, restarted or several.
    #[test]
    fn our_own_requests_are_never_foreign(
        counts in prop::collection::vec((0_u32..200, 0_u64..20), 2..40),
    ) {
        let mut ended = 0;
        let all: Vec<Look> = (0..).zip(&counts).map(|(s, &(in_flight, more))| {
            ended += more;
            look(s, (in_flight, 1_000 + ended), (in_flight, ended))
        }).collect();
        let window = Timestamp::ZERO..Timestamp::from_millis(100_000);
        let row = watch(&all, &window, true).unwrap();
        prop_assert_eq!(row.foreign_share, Some(0.0));
        prop_assert_eq!((row.replicas_seen, row.restarts), (1, 0));
    }
}
