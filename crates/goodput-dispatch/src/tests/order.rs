//! Who is next: classes, deadlines, sizes.

use std::time::Duration;

use goodput_record::Timestamp;

use crate::*;

use super::world::{Fate, Job, config, mean, patient, poisson, run, waits};

fn order_of(order: Order, jobs: &[Job]) -> Vec<Fate> {
    run(config(Policy::LeastWork, vec![patient(order)]), 1, 1, jobs)
}

#[test]
fn shortest_first_waits_less_on_average_and_nobody_is_overtaken_beyond_the_ageing() {
    let jobs = poisson(5, 0.9, 5_000);
    let ageing = Duration::from_micros(20);
    let fifo = mean(&waits(&jobs, &order_of(Order::Fifo, &jobs)));
    let short = order_of(Order::ShortestFirst { ageing }, &jobs);
    let sjf = mean(&waits(&jobs, &short));
    assert!(sjf < 0.75 * fifo, "{sjf} of {fifo}");
    // No later request that came after the handicap ran out began before.
    let began = |fate: &Fate| match fate {
        Fate::Served { began, .. } => *began,
        _ => panic!("all are served"),
    };
    for (i, job) in jobs.iter().enumerate().step_by(7) {
        let handicap = ageing.saturating_mul(u32::try_from(job.work).unwrap());
        let safe = job.at.after(handicap);
        let later = (i + 1..jobs.len()).find(|&j| jobs[j].at > safe);
        if let Some(later) = later {
            assert!(began(&short[i]) <= began(&short[later]));
        }
    }
}

#[test]
fn earliest_deadline_first_keeps_more_deadlines_than_first_come() {
    let mut jobs = poisson(8, 0.9, 5_000);
    for (i, job) in jobs.iter_mut().enumerate() {
        let slack = if i % 2 == 0 { 4.0 } else { 40.0 };
        job.deadline = Some(job.at.after(Duration::from_secs_f64(slack)));
    }
    let kept = |fates: &[Fate]| {
        let in_time = |(job, fate): (&Job, &Fate)| match fate {
            Fate::Served { began, .. } => Some(*began) <= job.deadline,
            _ => false,
        };
        jobs.iter().zip(fates).filter(|&pair| in_time(pair)).count()
    };
    let (fifo, edf) = (
        kept(&order_of(Order::Fifo, &jobs)),
        kept(&order_of(Order::Deadline, &jobs)),
    );
    assert!(edf > fifo + 400, "{edf} against {fifo} of 5000");
}

#[test]
fn without_a_deadline_one_comes_after_all_that_have_one() {
    let job = |ms, deadline: Option<u64>| Job {
        at: Timestamp::from_millis(ms),
        class: 0,
        tenant: 0,
        service: Duration::from_secs(1),
        work: 1,
        deadline: deadline.map(Timestamp::from_millis),
    };
    let jobs = [
        job(0, None),
        job(1, None),
        job(2, Some(9_000)),
        job(3, Some(5_000)),
    ];
    let waits = waits(&jobs, &order_of(Order::Deadline, &jobs));
    assert!(waits[3] < waits[2] && waits[2] < waits[1]);
}

/// Two classes, the first of which alone would fill the server.
fn two_classes(share: f64) -> (f64, f64) {
    let mut jobs = poisson(4, 2.0, 4_000);
    for (i, job) in jobs.iter_mut().enumerate() {
        job.class = u8::from(i % 4 == 3);
    }
    let lesser = Class {
        guaranteed_share: share,
        ..patient(Order::Fifo)
    };
    let config = config(Policy::LeastWork, vec![patient(Order::Fifo), lesser]);
    let fates = run(config, 1, 1, &jobs);
    let until = jobs.last().unwrap().at;
    let mut done = [0.0; 2];
    for (job, fate) in jobs.iter().zip(&fates) {
        if let Fate::Served { ended, .. } = fate
            && *ended <= until
        {
            done[usize::from(job.class)] += job.service.as_secs_f64();
        }
    }
    (done[0] / until.seconds(), done[1] / until.seconds())
}

#[test]
fn a_strict_class_starves_the_lesser_one_and_a_guaranteed_share_does_not() {
    let (urgent, lesser) = two_classes(0.0);
    assert!(lesser < 0.02 && urgent > 0.95, "{urgent} {lesser}");
    let (urgent, lesser) = two_classes(0.2);
    assert!((lesser - 0.2).abs() < 0.02, "{urgent} {lesser}");
    assert!((urgent + lesser - 1.0).abs() < 0.02);
}

#[test]
fn an_urgent_request_overtakes_all_that_wait() {
    let mut jobs = poisson(4, 5.0, 100);
    for job in &mut jobs {
        job.class = 1;
    }
    jobs[60].class = 0;
    let classes = vec![patient(Order::Fifo); 2];
    let fates = run(config(Policy::LeastWork, classes), 1, 1, &jobs);
    let wait = waits(&jobs, &fates);
    let longest = jobs
        .iter()
        .map(|j| j.service.as_secs_f64())
        .fold(0.0, f64::max);
    assert!(wait[60] <= longest && wait[59] > 10.0, "{}", wait[60]);
}

#[test]
fn what_a_class_may_not_hold_stays_free_for_others() {
    let held = Class {
        in_flight_share: 0.5,
        ..patient(Order::Fifo)
    };
    let config = config(Policy::LeastWork, vec![patient(Order::Fifo), held]);
    let mut dispatcher = Dispatcher::new(config).unwrap();
    let now = Timestamp::ZERO;
    for _ in 0..2 {
        let id = dispatcher
            .join(Role::Whole, Limits::in_flight(4), 1.0)
            .unwrap();
        dispatcher.up(now, id);
    }
    let mut offer = |class, id| {
        let offer = Offer {
            class,
            ..Offer::new(id, 1, 0)
        };
        matches!(dispatcher.offer(now, &offer), Route::Send { .. })
    };
    let batch = (0..8).filter(|&id| offer(1, id)).count();
    let chat = (8..16).filter(|&id| offer(0, id)).count();
    assert_eq!((batch, chat), (4, 4));
}

#[test]
fn a_full_queue_gives_way_to_urgent_work_and_says_when_to_come_back() {
    let small = Class {
        max_wait: Duration::from_mins(1),
        ..Class::new()
    };
    let config = Config {
        queue_limit: 2,
        classes: vec![small; 2],
        ..Config::new(Policy::LeastWork)
    };
    let mut dispatcher = Dispatcher::new(config).unwrap();
    let id = dispatcher
        .join(Role::Whole, Limits::in_flight(1), 1.0)
        .unwrap();
    dispatcher.up(Timestamp::ZERO, id);
    let batch = |id| Offer {
        class: 1,
        ..Offer::new(id, 100, 0)
    };
    let at = Timestamp::from_millis;
    let Route::Send { ticket, .. } = dispatcher.offer(at(0), &batch(0)) else {
        panic!()
    };
    assert!(dispatcher.settle(at(1_000), ticket, Ended::Ok, None));
    assert!(matches!(
        dispatcher.offer(at(1_000), &batch(1)),
        Route::Send { .. }
    ));
    for id in 2..4 {
        assert!(matches!(
            dispatcher.offer(at(1_000), &batch(id)),
            Route::Wait { .. }
        ));
    }
    // 200 units wait, and 100 a second get done.
    let Route::Shed { why, retry_after } = dispatcher.offer(at(1_000), &batch(4)) else {
        panic!()
    };
    assert_eq!((why, retry_after), (Why::QueueFull, Duration::from_secs(2)));
    let urgent = dispatcher.offer(at(1_000), &Offer::new(5, 100, 0));
    assert!(matches!(urgent, Route::Wait { .. }));
    let mut events = Vec::new();
    while let Some(event) = dispatcher.poll(at(1_000)) {
        events.push(event);
    }
    let displaced = |e: &&Event| {
        matches!(
            e,
            Event::Shed {
                id: 3,
                why: Why::Displaced,
                ..
            }
        )
    };
    assert_eq!(events.iter().filter(displaced).count(), 1, "{events:?}");
}
