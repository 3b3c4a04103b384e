use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::{Demand, Profile};

fn single(utilization: f64) -> SingleServer {
    SingleServer::new(utilization, 1.0).unwrap()
}

fn many(servers: u32, utilization: f64) -> ManyServers {
    let rate = utilization * f64::from(servers);
    ManyServers::new(rate, 1.0, NonZeroU32::new(servers).unwrap()).unwrap()
}

fn near(value: f64, expected: f64, relative: f64) {
    let error = (value - expected).abs();
    assert!(
        error <= relative * expected.abs() + 1e-15,
        "{value} {expected}"
    );
}

/// The essay's table: one, nine and nineteen service times.
#[test]
fn the_wait_at_half_nine_tenths_and_nineteen_twentieths_of_load() {
    for (utilization, service_times) in [(0.5, 1.0), (0.9, 9.0), (0.95, 19.0)] {
        near(single(utilization).mm1_wait_s(), service_times, 1e-9);
    }
    let slow = SingleServer::new(0.9 / 0.12, 0.12).unwrap();
    near(slow.mm1_wait_s(), 9.0 * 0.12, 1e-9);
}

/// Erlang B at 1 % loss (the traffic table of ITU-T E.500 handbooks: 10 lines carry 4.46 Erlang, 20
/// carry 12.0, 100 carry 84.1) and Erlang C at 80 % load (H. C. Tijms, "A First Course in Stochastic
/// Models", 2003, table of delay probabilities: 0.5541, 0.4092, 0.2091 for 5, 10, 25 servers).
#[test]
fn erlangs_formulas_give_the_published_tables() {
    for (lines, erlangs) in [(5, 1.36), (10, 4.46), (20, 12.03), (100, 84.06)] {
        let blocked = erlang_b(lines, erlangs);
        assert!((blocked - 0.01).abs() < 5e-5, "{lines}: {blocked}");
    }
    for (servers, delayed) in [(5, 0.5541), (10, 0.4092), (25, 0.2091)] {
        let found = erlang_c(servers, 0.8 * f64::from(servers));
        assert!((found - delayed).abs() < 5e-5, "{servers}: {found}");
    }
    // Two servers at half load: exactly a third.
    near(erlang_c(2, 1.0), 1.0 / 3.0, 1e-12);
    assert!((erlang_c(10, 10.0) - 1.0).abs() < 1e-12);
    // No underflow with thousands of servers: far below load nobody waits, near it nearly all.
    assert!(erlang_c(10_000, 5_000.0) < 1e-12);
    assert!(erlang_c(10_000, 9_999.0) > 0.95);
}

#[test]
fn half_of_markovs_wait_is_left_when_all_services_are_equal() {
    near(single(0.8).md1_wait_s(), 2.0, 1e-12);
    near(single(0.8).mg1_wait_s(0.0).unwrap(), 2.0, 1e-12);
    near(single(0.8).mg1_wait_s(4.0).unwrap(), 10.0, 1e-12);
}

#[test]
fn the_second_moment_of_an_exponential_wait_is_known() {
    // M/M/1's wait is 0 with 1 - rho, else exponential with mean 1/(1 - rho): E[W^2] = 2 rho/(1-rho)^2.
    let load = single(0.7);
    let second = load.mg1_wait_second_moment(1.0, 6.0).unwrap();
    near(second, 2.0 * 0.7 / (0.3 * 0.3), 1e-12);
}

/// Crommelin's exact mean wait of M/D/k (1932), in service times.
fn crommelin(servers: u32, utilization: f64) -> f64 {
    let (k, load) = (f64::from(servers), f64::from(servers) * utilization);
    let mut sum = 0.0;
    for i in 1..2_000 {
        let mean = f64::from(i) * load;
        let first = f64::from(i) * k;
        let mut log = -mean + first * libm::log(mean) - libm::lgamma(first + 1.0);
        let at_first = libm::exp(log);
        let (mut tail, mut n) = (0.0, first);
        while log > -60.0 {
            tail += libm::exp(log);
            n += 1.0;
            log += libm::log(mean / n);
        }
        sum += tail - (tail - at_first) / utilization;
    }
    sum
}

#[test]
fn cosmetatos_is_near_the_exact_wait_of_equal_services() {
    near(crommelin(1, 0.8), 2.0, 1e-6);
    for servers in [1, 2, 5, 10, 25] {
        for utilization in [0.5, 0.7, 0.8, 0.9] {
            let exact = crommelin(servers, utilization);
            near(many(servers, utilization).mdk_wait_s(), exact, 0.02);
        }
    }
}

#[test]
fn kimura_lies_between_equal_and_exponential_services() {
    let load = many(5, 0.8);
    near(load.kimura_wait_s(1.0).unwrap(), load.mmk_wait_s(), 1e-12);
    near(load.kimura_wait_s(0.0).unwrap(), load.mdk_wait_s(), 1e-12);
    assert!(load.kimura_wait_s(2.0).is_err());
}

#[test]
fn sakasegawa_is_near_erlang() {
    for (servers, utilization) in [(1, 0.5), (2, 0.8), (5, 0.9), (20, 0.95)] {
        let load = many(servers, utilization);
        near(
            load.sakasegawa_wait_s(1.0, 1.0).unwrap(),
            load.mmk_wait_s(),
            0.05,
        );
    }
}

proptest! {
    #[test]
    fn one_of_many_servers_is_one_server(rho in 0.01..0.999_f64, scv in 0.0..5.0_f64, q in 0.0..0.999_f64) {
        let (one, many) = (single(rho), many(1, rho));
        near(many.mmk_wait_s(), one.mm1_wait_s(), 1e-9);
        near(many.mdk_wait_s(), one.md1_wait_s(), 1e-9);
        near(many.lee_longton_wait_s(scv).unwrap(), one.mg1_wait_s(scv).unwrap(), 1e-9);
        near(many.allen_cunneen_wait_s(1.0, scv).unwrap(), one.gg1_wait_s(1.0, scv).unwrap(), 1e-9);
        near(one.gg1_wait_s(1.0, scv).unwrap(), one.mg1_wait_s(scv).unwrap(), 1e-9);
        near(many.mmk_wait_quantile_s(q).unwrap(), one.mm1_wait_quantile_s(q).unwrap(), 1e-9);
    }

    #[test]
    fn a_quantile_is_the_wait_that_the_rest_exceeds(k in 1..50_u32, rho in 0.05..0.99_f64, q in 0.0..0.999_f64) {
        let load = many(k, rho);
        let wait = load.mmk_wait_quantile_s(q).unwrap();
        if wait > 0.0 {
            near(load.mmk_wait_above(wait), 1.0 - q, 1e-6);
        } else {
            prop_assert!(load.delayed() <= 1.0 - q + 1e-9);
        }
        let same = load.wait_quantile_s(load.mmk_wait_s(), q).unwrap();
        near(same, wait, 1e-9);
    }

    #[test]
    fn many_servers_wait_less_than_one_as_fast_as_all(k in 2..100_u32, rho in 0.05..0.99_f64) {
        let fast = SingleServer::new(rho * f64::from(k), 1.0 / f64::from(k)).unwrap();
        prop_assert!(many(k, rho).mmk_wait_s() <= fast.mm1_wait_s());
    }
}

#[test]
fn what_has_no_steady_state_has_no_wait() {
    for utilization in [1.0, 1.2] {
        let refused = SingleServer::new(utilization, 1.0).unwrap_err();
        assert_eq!(refused, QueueError::Unstable { utilization });
        assert!(refused.to_string().contains("grows without end"));
        let two = ManyServers::new(2.0 * utilization, 1.0, NonZeroU32::new(2).unwrap());
        assert_eq!(two, Err(QueueError::Unstable { utilization }));
    }
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(SingleServer::new(wrong, 1.0).is_err());
        assert!(SingleServer::new(1.0, wrong).is_err());
    }
    assert!(single(0.5).mg1_wait_s(-0.1).is_err());
    assert!(single(0.5).gg1_wait_s(f64::NAN, 1.0).is_err());
    assert!(single(0.5).mm1_wait_quantile_s(1.0).is_err());
}

#[test]
fn a_heavy_tail_is_one_power_heavier_in_the_wait() {
    let load = single(0.5);
    let at = |time| heavy_tail_wait_above(&load, 2.5, time).unwrap();
    near(at(2_000.0) / at(1_000.0), libm::pow(2.0, -1.5), 1e-9);
    assert_eq!(heavy_tail_wait_above(&load, 1.0, 100.0), None);
    assert_eq!(heavy_tail_wait_above(&load, 2.5, 0.1), None);
    assert!(!heavy_tail_mean_wait_is_finite(2.0) && heavy_tail_mean_wait_is_finite(2.1));
    // Far out the exponential of the same mean forgets the tail.
    let exponential = load.mm1_wait_above(60.0);
    assert!(at(60.0) > 1e6 * exponential);
}

#[test]
fn a_speed_that_depends_on_the_number_gives_the_classics() {
    // A constant speed and much room: M/M/1.
    let one = StateDependent::new(0.8, 2_000, |_| 1.0).unwrap();
    near(one.mean_present, 4.0, 1e-9);
    near(one.sojourn_s, 5.0, 1e-9);
    // As fast as there are requests: Erlang's B.
    let lost = StateDependent::new(4.46, 10, f64::from).unwrap();
    near(lost.blocked, erlang_b(10, 4.46), 1e-12);
    // Up to k of them: M/M/k.
    let five = StateDependent::new(4.0, 5_000, |n| f64::from(n.min(5))).unwrap();
    near(five.sojourn_s - 1.0, many(5, 0.8).mmk_wait_s(), 1e-9);
    // Overloaded by far, with thousands of places: full, and no underflow.
    let full = StateDependent::new(1e6, 5_000, |_| 1.0).unwrap();
    near(full.throughput_per_s, 1.0, 1e-6);
    near(full.mean_present, 5_000.0, 1e-6);
    assert_eq!(StateDependent::new(1.0, 0, |_| 1.0), None);
    assert_eq!(StateDependent::new(1.0, 3, |_| 0.0), None);
    near(five.present.iter().sum(), 1.0, 1e-12);
}

#[test]
fn a_replica_seen_as_servers_is_overloaded_slow_or_free() {
    let profile = Profile::builtin("qwen3-8b-h100").unwrap();
    let demand = Demand::of(&[(511, 128)]).unwrap();
    let capacity = profile.capacity(&demand).unwrap().rate_req_s;
    let seen = views(&profile, &demand, 0.6 * capacity);
    // Alone a request takes a second, and tens come in it.
    assert!(
        matches!(seen.alone.wait_s, Err(QueueError::Unstable { utilization }) if utilization > 10.0)
    );
    let (fast, places) = (seen.peak_rate.wait_s.unwrap(), seen.places.wait_s.unwrap());
    assert!(places < 1e-3 && fast > 10.0 * places, "{fast} {places}");
    let state = StateDependent::of_replica(&profile, &demand, 0.6 * capacity, 2_000).unwrap();
    let field = profile.mean_field(&demand, 0.6 * capacity).unwrap();
    let stay = field.tpot_s * demand.output_tokens + field.step_s;
    near(state.sojourn_s, stay, 0.05);
}

fn lever(utilization: f64, scv: f64, cut: f64) -> Lever {
    variance_lever(many(1, utilization), scv, cut).unwrap()
}

#[test]
fn at_a_fixed_rate_a_smaller_mean_wins_by_far() {
    for scv in [0.2, 1.0, 4.0, 20.0] {
        let lever = lever(0.9, scv, 0.2);
        let wait = |change, held| lever.row(change, held).unwrap().wait_s / lever.before.wait_s;
        let variance = wait(Change::LessVariance, Held::Rate);
        assert!(
            wait(Change::SmallerMean, Held::Rate) < 0.35 * variance,
            "{scv}"
        );
        assert!(wait(Change::SmallerMeanSameVariance, Held::Rate) < 0.5 * variance);
        assert_eq!(lever.scv_at_rate, None);
        // What is sold again is not gained, but it still beats less variance where all shrinks.
        near(wait(Change::SmallerMean, Held::Utilization), 0.8, 1e-9);
        assert!(wait(Change::LessVariance, Held::Utilization) > 0.8);
    }
}

#[test]
fn less_variance_wins_at_a_fixed_utilization_where_the_long_ones_stay() {
    for (utilization, cut) in [(0.3, 0.1), (0.7, 0.2), (0.95, 0.4)] {
        let threshold = lever(utilization, 1.0, cut).scv_at_utilization;
        near(threshold, (1.0 - cut) / (2.0 - cut), 1e-12);
        for (scv, wins) in [(threshold * 1.01, true), (threshold * 0.99, false)] {
            let lever = lever(utilization, scv, cut);
            let row = |change| lever.row(change, Held::Utilization).unwrap();
            let (variance, mean) = (
                row(Change::LessVariance),
                row(Change::SmallerMeanSameVariance),
            );
            assert_eq!(variance.wait_s < mean.wait_s, wins, "{utilization} {scv}");
            assert_eq!(variance.wait_p99_s < mean.wait_p99_s, wins);
        }
    }
}

#[test]
fn at_a_fixed_rate_less_variance_wins_only_below_half_load_with_a_large_spread() {
    let quiet = lever(0.3, 1.0, 0.2);
    let threshold = quiet.scv_at_rate.unwrap();
    for (scv, wins) in [(threshold * 1.01, true), (threshold * 0.99, false)] {
        let lever = lever(0.3, scv, 0.2);
        let row = |change| lever.row(change, Held::Rate).unwrap().wait_s;
        let (variance, mean) = (
            row(Change::LessVariance),
            row(Change::SmallerMeanSameVariance),
        );
        assert_eq!(variance < mean, wins, "{scv}");
    }
    assert_eq!(lever(0.56, 1.0, 0.2).scv_at_rate, None);
    assert!(lever(0.55, 1.0, 0.2).scv_at_rate.is_some());
}

#[test]
fn an_engine_can_be_put_beside_the_lever() {
    let base = lever(0.7, 1.0, 0.2);
    let lever = base
        .clone()
        .with_engine(|row| (row.held == Held::Rate).then_some(2.0 * row.wait_p99_s));
    near(
        lever.before.engine_p99_s.unwrap(),
        2.0 * base.before.wait_p99_s,
        1e-12,
    );
    assert_eq!(
        lever
            .rows
            .iter()
            .filter(|r| r.engine_p99_s.is_some())
            .count(),
        3
    );
    assert!(variance_lever(many(1, 0.7), 1.0, 1.0).is_err());
    assert!(variance_lever(many(1, 0.7), -1.0, 0.2).is_err());
}

#[test]
fn the_lever_of_many_servers_turns_at_its_thresholds() {
    for (servers, utilization, scv) in [(8, 0.5, None), (8, 0.95, None), (2, 0.4, Some(Held::Rate))]
    {
        let probe = variance_lever(many(servers, utilization), 1.0, 0.2).unwrap();
        let threshold = match scv {
            Some(_) => probe.scv_at_rate,
            None => Some(probe.scv_at_utilization),
        };
        let held = scv.unwrap_or(Held::Utilization);
        let Some(threshold) = threshold else { continue };
        for (scv, wins) in [(threshold * 1.01, true), (threshold * 0.99, false)] {
            let lever = variance_lever(many(servers, utilization), scv, 0.2).unwrap();
            let wait = |change| lever.row(change, held).unwrap().wait_s;
            let better = wait(Change::LessVariance) < wait(Change::SmallerMeanSameVariance);
            assert_eq!(better, wins, "{servers} {utilization} {scv}");
        }
    }
}

#[test]
fn the_overview_has_the_essays_table_among_its_rows() {
    let question = Question {
        rate_per_s: 0.9 / 0.12,
        service_s: 0.12,
        servers: NonZeroU32::MIN,
        scv_arrivals: 1.0,
        scv_service: 1.0,
        cut: 0.2,
    };
    let seen = overview(&question).unwrap();
    let ladder = |utilization: f64| {
        let row = seen
            .ladder
            .iter()
            .find(|r| (r.utilization - utilization).abs() < 1e-9);
        row.unwrap().service_times
    };
    for (utilization, services) in [(0.5, 1.0), (0.9, 9.0), (0.95, 19.0)] {
        near(ladder(utilization), services, 1e-9);
    }
    assert_eq!(seen.formulas.len(), 4);
    assert!(seen.formulas.iter().all(|row| row.wait_p99_s >= row.wait_s));
    let five = Question {
        servers: NonZeroU32::new(5).unwrap(),
        rate_per_s: 4.0 / 0.12,
        scv_service: 2.0,
        ..question
    };
    let seen = overview(&five).unwrap();
    assert!(
        seen.formulas
            .iter()
            .all(|row| row.formula != Formula::Kimura)
    );
    near(
        seen.formulas[0].wait_s / 0.12,
        many(5, 0.8).mmk_wait_s(),
        1e-9,
    );
    let over = Question {
        rate_per_s: 100.0,
        ..five
    };
    assert!(matches!(overview(&over), Err(QueueError::Unstable { .. })));
}
