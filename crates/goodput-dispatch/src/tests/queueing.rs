//! Theory: what a queue before k servers comes to, and what routing is worth.

use crate::*;

use super::world::{Fate, config, mean, patient, poisson, run, waits};

/// The probability to wait of M/M/k at `offered` erlangs: Erlang C, from Erlang B by recursion.
fn erlang_c(servers: u16, offered: f64) -> f64 {
    let blocked = (1..=servers).fold(1.0, |b, j| offered * b / (f64::from(j) + offered * b));
    let rho = offered / f64::from(servers);
    blocked / (1.0 - rho * (1.0 - blocked))
}

/// Mean wait and its standard error over runs.
fn mean_wait(policy: Policy, servers: u16, limit: u32, rho: f64, runs: u64) -> (f64, f64) {
    let rate = rho * f64::from(servers);
    let means: Vec<f64> = (0..runs)
        .map(|seed| {
            let jobs = poisson(seed, rate, 20_000);
            let config = config(policy, vec![patient(Order::Fifo)]);
            let waits = waits(&jobs, &run(config, servers, limit, &jobs));
            mean(&waits[2_000..])
        })
        .collect();
    let center = mean(&means);
    let square = means.iter().map(|m| (m - center).powi(2)).sum::<f64>() / (runs - 1) as f64;
    (center, (square / runs as f64).sqrt())
}

#[test]
fn the_queue_before_k_servers_is_that_of_erlang() {
    for (servers, rho, runs) in [(1, 0.7, 16), (4, 0.8, 16), (16, 0.85, 16)] {
        let offered = rho * f64::from(servers);
        let theory = erlang_c(servers, offered) / (f64::from(servers) - offered);
        let (wait, error) = mean_wait(Policy::LeastWork, servers, 1, rho, runs);
        println!("{servers} servers at {rho}: {wait} +- {error}, Erlang says {theory}");
        assert!(error < 0.06 * theory, "the test says nothing: {error}");
        assert!(
            (wait - theory).abs() < 3.0 * error,
            "{servers} servers at {rho}: {wait} +- {error}, Erlang says {theory}"
        );
    }
}

#[test]
fn the_order_of_the_policies_is_that_of_theory() {
    let wait = |policy| mean_wait(policy, 16, u32::MAX, 0.9, 4).0;
    let (random, two) = (wait(Policy::Random), wait(Policy::PowerOfTwo));
    let (turns, least) = (wait(Policy::RoundRobin), wait(Policy::LeastWork));
    println!("mean waits: random {random}, turns {turns}, two {two}, least {least}");
    // Random is sixteen M/M/1: nine service times.
    assert!((random / 9.0 - 1.0).abs() < 0.25, "{random}");
    assert!(two < random / 4.0, "{two} of {random}");
    assert!(
        turns < random && two < turns && least < two,
        "{turns} {least}"
    );
}

/// Least work, known exactly, is the central queue: who comes is begun as early as can be.
#[test]
fn least_work_known_exactly_is_a_central_queue() {
    let jobs = poisson(3, 3.6, 5_000);
    let fifo = || config(Policy::LeastWork, vec![patient(Order::Fifo)]);
    let central = mean(&waits(&jobs, &run(fifo(), 4, 1, &jobs)));
    let spread = mean(&waits(&jobs, &run(fifo(), 4, u32::MAX, &jobs)));
    // The work of a request under way is counted whole, which costs a little.
    assert!(
        spread >= central * 0.999 && spread < central * 1.25,
        "{spread} {central}"
    );
}

#[test]
fn one_more_server_makes_nobody_wait_longer_in_a_central_queue() {
    for seed in 0..5 {
        let jobs = poisson(seed, 3.5, 3_000);
        let run = |servers| {
            let config = config(Policy::LeastWork, vec![patient(Order::Fifo)]);
            waits(&jobs, &run(config, servers, 1, &jobs))
        };
        let (few, more) = (run(4), run(5));
        // First come, first served in a central queue: path by path, not only on average.
        assert!(few.iter().zip(&more).all(|(few, more)| more <= few));
    }
}

#[test]
fn one_more_server_is_no_worse_with_queues_of_their_own() {
    for seed in 0..5 {
        let jobs = poisson(seed, 3.5, 3_000);
        let run = |servers| {
            let config = config(Policy::LeastWork, vec![patient(Order::Fifo)]);
            mean(&waits(&jobs, &run(config, servers, u32::MAX, &jobs)))
        };
        assert!(run(5) <= run(4));
    }
}

#[test]
fn the_same_seed_sends_everybody_the_same_way() {
    let jobs = poisson(3, 14.0, 2_000);
    let go = |seed| {
        let config = Config {
            seed,
            ..config(Policy::PowerOfTwo, vec![patient(Order::Fifo)])
        };
        run(config, 16, 4, &jobs)
    };
    assert_eq!(go(1), go(1));
    assert_ne!(go(1), go(2));
    let served = |fates: &[Fate]| fates.iter().all(|f| matches!(f, Fate::Served { .. }));
    assert!(served(&go(1)));
}
