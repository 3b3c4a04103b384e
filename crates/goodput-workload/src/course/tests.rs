use super::*;

fn s(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn span(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn point(window: Window) -> CoursePlan {
    let settle = Settle::FirstWave {
        at_most: Duration::from_secs(10),
    };
    CoursePlan::new(settle, window)
}

fn counted(n: u32) -> CoursePlan {
    CoursePlan {
        settle: Settle::None,
        ..point(Window::Requests(NonZeroU32::new(n).unwrap()))
    }
}

/// A closed loop in virtual time: user `u`'s `k`-th request takes `takes(u, k)` seconds.
/// Returns the course, and (phase, origin, end) of every request.
fn closed(
    plan: &CoursePlan,
    users: u32,
    takes: impl Fn(u32, u32) -> u64,
) -> (Course, Vec<(Phase, Timestamp, Timestamp)>) {
    let mut course = Course::new(plan, Some(users), s(0));
    let mut log = Vec::new();
    let mut open = Vec::new();
    let mut issue = |course: &mut Course, open: &mut Vec<_>, user, k, at: Timestamp| {
        if let Some(phase) = course.arrive(at, k == 0) {
            let end = at.after(span(takes(user, k)));
            log.push((phase, at, end));
            open.push((end, user, k, phase));
        }
    };
    for user in 0..users {
        issue(&mut course, &mut open, user, 0, s(0));
    }
    while !course.over() {
        open.sort_by_key(|o| std::cmp::Reverse((o.0, o.1)));
        let due = open.last().map_or(Timestamp::FAR_FUTURE, |o| o.0);
        let change = course.next_change();
        if due >= change {
            course.tick(change);
            continue;
        }
        let (at, user, k, phase) = open.pop().expect("a closed loop is never empty");
        course.end(phase, at);
        course.tick(at);
        issue(&mut course, &mut open, user, k + 1, at);
    }
    (course, log)
}

fn of(log: &[(Phase, Timestamp, Timestamp)], phase: Phase) -> usize {
    log.iter().filter(|r| r.0 == phase).count()
}

#[test]
fn one_request_is_exactly_one_and_measured() {
    let (course, log) = closed(&counted(1), 1, |_, _| 3);
    assert_eq!(log, [(Phase::Measured, s(0), s(3))]);
    assert_eq!(course.window(), (s(0)..s(3), WindowRule::LastEnd));
}

#[test]
fn the_first_wave_is_dropped_and_the_load_held_while_draining() {
    let plan = point(Window::Duration(span(10)));
    // The last user's first request takes 7 s, all others 2 s.
    let (course, log) = closed(&plan, 4, |user, k| if (user, k) == (3, 0) { 7 } else { 2 });
    assert_eq!(of(&log, Phase::FirstWave), 4);
    assert_eq!(course.window(), (s(7)..s(17), WindowRule::Fixed));
    assert!(
        log.iter()
            .all(|r| (r.0 == Phase::Measured) == (r.1 >= s(7) && r.1 < s(17)))
    );
    assert_eq!(course.in_flight_at_end(), 4);
    // Until the last measured request has ended there are always four.
    let last = log
        .iter()
        .filter(|r| r.0 == Phase::Measured)
        .map(|r| r.2)
        .max()
        .unwrap();
    for at in [8, 12, 16, 17] {
        let open = log.iter().filter(|r| r.1 <= s(at) && r.2 > s(at)).count();
        assert_eq!(open, 4, "at {at} s, drained at {last:?}");
    }
}

#[test]
fn a_slow_first_wave_is_waited_for_only_so_long() {
    let mut plan = point(Window::Duration(span(5)));
    plan.settle = Settle::FirstWave { at_most: span(4) };
    let (course, log) = closed(&plan, 2, |user, k| if (user, k) == (0, 0) { 60 } else { 1 });
    assert_eq!(course.window().0, s(4)..s(9));
    assert_eq!(of(&log, Phase::FirstWave), 2);
    assert_eq!(of(&log, Phase::Measured), 5);
}

/// O-ST-05: the last answer of one slot takes a minute; throughput is that of the steady window.
#[test]
fn stragglers_do_not_stretch_a_counted_window() {
    let (course, log) = closed(
        &counted(800),
        8,
        |user, k| if (user, k) == (7, 99) { 60 } else { 1 },
    );
    let (window, rule) = course.window();
    assert_eq!((window.clone(), rule), (s(0)..s(99), WindowRule::LastIssue));
    let tokens_in_window: u64 = log.iter().filter(|r| r.2 <= window.end).map(|_| 100).sum();
    assert_eq!(tokens_in_window / 99, 800);
    let whole = log
        .iter()
        .map(|r| if r.2 == s(159) { 6_000.0 } else { 100.0 })
        .sum::<f64>()
        / 159.0;
    assert!((whole - 540.3).abs() < 0.1, "{whole}");
}

/// O-ST-10: what is in flight when the window closes is counted, and neither success nor failure.
#[test]
fn requests_in_flight_at_the_end_are_counted() {
    let plan = CoursePlan {
        settle: Settle::None,
        ..point(Window::Duration(span(60)))
    };
    let (course, log) = closed(&plan, 10, |_, _| 7);
    assert_eq!(course.in_flight_at_end(), 10);
    assert_eq!(of(&log, Phase::Measured), 90);
}

#[test]
fn draining_ends_at_its_limit() {
    let mut plan = point(Window::Duration(span(5)));
    (plan.settle, plan.drain) = (Settle::None, span(20));
    let (mut course, _) = closed(&plan, 1, |_, _| 1_000);
    assert!(course.over());
    assert!(course.arrive(s(25), false).is_none());
}

#[test]
fn an_interrupt_sends_nothing_more_and_keeps_what_was_measured() {
    let plan = CoursePlan {
        settle: Settle::None,
        ..point(Window::Duration(span(60)))
    };
    let mut course = Course::new(&plan, Some(1), s(0));
    assert_eq!(course.arrive(s(0), true), Some(Phase::Measured));
    course.interrupt(s(5));
    assert!(!course.sending() && !course.over());
    assert_eq!(course.arrive(s(5), false), None);
    assert_eq!(course.next_change(), s(10), "the grace");
    course.end(Phase::Measured, s(6));
    course.tick(s(6));
    assert!(course.over());
    assert_eq!(course.window().0, s(0)..s(5));
}

#[test]
fn an_open_loop_settles_for_a_span_and_belongs_by_its_due_time() {
    let mut plan = point(Window::Duration(span(10)));
    plan.settle = Settle::Fixed(span(2));
    let mut course = Course::new(&plan, None, s(0));
    let phases: Vec<_> = (0..14)
        .map(|at| course.arrive(s(at), false).unwrap())
        .collect();
    assert_eq!(phases.iter().filter(|p| **p == Phase::Settling).count(), 2);
    assert_eq!(phases.iter().filter(|p| **p == Phase::Measured).count(), 10);
    assert_eq!(phases.iter().filter(|p| **p == Phase::Drain).count(), 2);
}

#[test]
fn a_timed_window_may_close_early_and_drains_as_ever() {
    let plan = CoursePlan {
        settle: Settle::None,
        ..point(Window::Duration(span(60)))
    };
    let mut course = Course::new(&plan, Some(1), s(0));
    assert_eq!(course.arrive(s(0), true), Some(Phase::Measured));
    course.close_early(s(20));
    assert!(course.sending() && !course.measuring() && !course.over());
    // Load is kept up meanwhile, and what comes now is no longer measured.
    assert_eq!(course.arrive(s(21), true), Some(Phase::Drain));
    course.end(Phase::Measured, s(30));
    course.tick(s(30));
    assert!(course.over());
    assert_eq!(course.window(), (s(0)..s(20), WindowRule::Fixed));
    course.exhausted(s(31));
    assert!(!course.ran_dry(), "it had more to send");
}

#[test]
fn a_window_that_its_workload_cannot_fill_says_so() {
    for window in [Window::Duration(span(60)), counted(3).window] {
        let plan = CoursePlan {
            settle: Settle::None,
            ..point(window)
        };
        let mut course = Course::new(&plan, Some(1), s(0));
        course.arrive(s(0), true);
        course.exhausted(s(1));
        assert!(!course.ran_dry(), "the answer may bring the next request");
        course.end(Phase::Measured, s(2));
        course.exhausted(s(2));
        assert!(course.ran_dry() && course.over());
    }
}

#[test]
fn a_counted_window_does_not_close_early() {
    let mut course = Course::new(&counted(3), Some(1), s(0));
    course.arrive(s(0), true);
    course.close_early(s(1));
    assert!(course.measuring());
}
