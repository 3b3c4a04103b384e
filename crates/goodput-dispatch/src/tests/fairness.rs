//! Tenants: parts by weight, limits that hit only their own.

use std::time::Duration;

use goodput_record::Timestamp;

use crate::*;

use super::world::{Fate, Job, World, mean, patient, poisson};

/// Work done for each of three tenants while all of them wait, and the mean wait of the last one's
/// requests.
fn shares(fair: bool, weights: [u32; 3], demand: [u64; 3]) -> ([f64; 3], f64) {
    let count: u64 = demand.iter().sum();
    let mut jobs = poisson(6, 20.0, 300 * count);
    for (i, job) in (0_u64..).zip(&mut jobs) {
        let place = i % count;
        job.tenant = if place < demand[0] {
            0
        } else if place < demand[0] + demand[1] {
            1
        } else {
            2
        };
    }
    let config = Config {
        classes: vec![patient(Order::Fifo)],
        queue_limit: u32::MAX,
        fair_tenants: fair,
        ..Config::new(Policy::LeastWork)
    };
    let mut world = World::new(config, jobs.len());
    for (tenant, weight) in (0..).zip(weights) {
        let terms = Terms {
            weight,
            ..Terms::new()
        };
        world.dispatcher.set_terms(TenantId(tenant), terms).unwrap();
    }
    for _ in 0..4 {
        world.add(Limits::in_flight(1));
    }
    world.run(&jobs);
    let until = jobs.last().unwrap().at;
    let (mut done, mut waits) = ([0.0; 3], Vec::new());
    for (job, fate) in jobs.iter().zip(&world.fates) {
        let Some(Fate::Served { began, .. }) = fate else {
            panic!("nobody is refused")
        };
        if *began <= until {
            done[job.tenant as usize] += job.service.as_secs_f64();
        }
        if job.tenant == 2 {
            waits.push(began.since(job.at).unwrap().as_secs_f64());
        }
    }
    let all: f64 = done.iter().sum();
    (done.map(|d| d / all), mean(&waits))
}

#[test]
fn tenants_that_all_want_more_than_their_part_get_it_by_weight() {
    let (got, _) = shares(true, [1, 1, 2], [8, 8, 8]);
    for (got, part) in got.into_iter().zip([0.25, 0.25, 0.5]) {
        assert!((got / part - 1.0).abs() < 0.03, "{got} of {part}");
    }
    // However much more one of them asks for.
    let (got, _) = shares(true, [1, 1, 1], [20, 8, 8]);
    assert!(
        got.iter().all(|got| (got * 3.0 - 1.0).abs() < 0.04),
        "{got:?}"
    );
}

#[test]
fn a_tenant_within_its_part_hardly_notices_anothers_burst() {
    let (_, fair) = shares(true, [1, 1, 1], [22, 1, 1]);
    let (_, unfair) = shares(false, [1, 1, 1], [22, 1, 1]);
    assert!(
        fair < 1.0 && unfair > 100.0 * fair,
        "{fair} against {unfair}"
    );
}

#[test]
fn who_comes_back_after_a_pause_has_saved_nothing_up() {
    let job = |at, tenant| Job {
        at: Timestamp::from_millis(at),
        class: 0,
        tenant,
        service: Duration::from_millis(10),
        work: 10,
        deadline: None,
    };
    // Tenant 0 alone for a second, then both ask for everything.
    let alone = (0..100).map(|i| job(10 * i, 0));
    let both = (0..200).map(|i| job(1_000, i % 2));
    let jobs: Vec<Job> = alone.chain(both).collect();
    let config = Config::new(Policy::LeastWork);
    let mut world = World::new(config, jobs.len());
    world.add(Limits::in_flight(1));
    world.run(&jobs);
    let upto = Timestamp::from_millis(1_500);
    let served = |tenant| {
        let began = |fate: &Fate| matches!(fate, Fate::Served { began, .. } if *began < upto);
        let pairs = jobs.iter().zip(&world.fates).skip(100);
        pairs
            .filter(|(j, f)| j.tenant == tenant && began(&f.unwrap()))
            .count()
    };
    assert!(
        served(0).abs_diff(served(1)) <= 2,
        "{} {}",
        served(0),
        served(1)
    );
}

#[test]
fn a_flood_cannot_take_the_whole_queue() {
    let config = Config {
        queue_limit: 100,
        ..Config::new(Policy::LeastWork)
    };
    let mut dispatcher = Dispatcher::new(config).unwrap();
    let now = Timestamp::ZERO;
    let id = dispatcher
        .join(Role::Whole, Limits::in_flight(1), 1.0)
        .unwrap();
    dispatcher.up(now, id);
    let mut offer = |tenant, id| {
        let offer = Offer {
            tenant: TenantId(tenant),
            ..Offer::new(id, 1, 0)
        };
        !matches!(dispatcher.offer(now, &offer), Route::Shed { .. })
    };
    assert_eq!((0..500).filter(|&id| offer(1, id)).count(), 101);
    assert_eq!((500..520).filter(|&id| offer(2, id)).count(), 20);
}

const fn rate(per_second: f64, burst: f64) -> Rate {
    Rate { per_second, burst }
}

#[test]
fn a_rate_lets_through_what_it_says_and_tells_when_to_come_back() {
    let mut dispatcher = Dispatcher::new(Config::new(Policy::LeastWork)).unwrap();
    let id = dispatcher
        .join(Role::Whole, Limits::in_flight(10_000), 1.0)
        .unwrap();
    dispatcher.up(Timestamp::ZERO, id);
    let terms = Terms {
        requests: Some(rate(2.0, 5.0)),
        ..Terms::new()
    };
    dispatcher.set_terms(TenantId(7), terms).unwrap();
    let mut offer = |ms, tenant| {
        let offer = Offer {
            tenant: TenantId(tenant),
            ..Offer::new(0, 1, 0)
        };
        dispatcher.offer(Timestamp::from_millis(ms), &offer)
    };
    let mut sent = 0;
    for ms in (0..10_000).step_by(10) {
        match offer(ms, 7) {
            Route::Send { .. } => sent += 1,
            Route::Shed { why, retry_after } => {
                assert!(why.is_tenants_own());
                assert!(retry_after >= Duration::from_secs(1));
            }
            Route::Wait { .. } => panic!("there is room"),
        }
        assert!(matches!(offer(ms, 8), Route::Send { .. }), "another tenant");
    }
    // Five at once, and two a second for just under ten seconds.
    assert_eq!(sent, 24);
}

#[test]
fn work_is_reserved_as_predicted_and_settled_as_it_came() {
    let mut dispatcher = Dispatcher::new(Config::new(Policy::LeastWork)).unwrap();
    let now = Timestamp::ZERO;
    let id = dispatcher
        .join(Role::Whole, Limits::in_flight(10), 1.0)
        .unwrap();
    dispatcher.up(now, id);
    let terms = Terms {
        work: Some(rate(100.0, 1_000.0)),
        ..Terms::new()
    };
    dispatcher.set_terms(TenantId(0), terms).unwrap();
    let Route::Send { ticket, .. } = dispatcher.offer(now, &Offer::new(0, 100, 900)) else {
        panic!()
    };
    let refused = dispatcher.offer(now, &Offer::new(1, 100, 300));
    assert!(matches!(
        refused,
        Route::Shed {
            why: Why::TenantRate,
            ..
        }
    ));
    // It came to 200 of the 1,000: 800 are there again.
    dispatcher.settle(now, ticket, Ended::Ok, Some(200));
    let Route::Send { ticket, .. } = dispatcher.offer(now, &Offer::new(2, 100, 700)) else {
        panic!()
    };
    // And 1,100 more than predicted are owed: eleven seconds, and four more for the next 400.
    dispatcher.settle(now, ticket, Ended::Ok, Some(1_900));
    let Route::Shed { retry_after, .. } = dispatcher.offer(now, &Offer::new(3, 100, 300)) else {
        panic!()
    };
    assert_eq!(retry_after, Duration::from_secs(15));
}

#[test]
fn tenants_beyond_the_last_place_share_it() {
    let config = Config {
        tenants: 4,
        terms: Terms {
            open: Some(3),
            ..Terms::new()
        },
        ..Config::new(Policy::LeastWork)
    };
    let mut dispatcher = Dispatcher::new(config).unwrap();
    let now = Timestamp::ZERO;
    let id = dispatcher
        .join(Role::Whole, Limits::in_flight(99), 1.0)
        .unwrap();
    dispatcher.up(now, id);
    let mut sent = |tenant| {
        let offer = Offer {
            tenant: TenantId(tenant),
            ..Offer::new(0, 1, 0)
        };
        matches!(dispatcher.offer(now, &offer), Route::Send { .. })
    };
    assert_eq!((0..10).filter(|_| sent(3)).count(), 3);
    assert_eq!(
        (100..1_000_000).step_by(999).filter(|&t| sent(t)).count(),
        3
    );
}
