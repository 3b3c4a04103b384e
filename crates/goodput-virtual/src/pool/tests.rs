use std::{num::NonZeroU32, sync::Arc, time::Duration};

use goodput_dispatch::{Class, Gate, Guard, Limits, Policy, Role, TenantId};
use goodput_ledger::{Latency, PointRow};
use goodput_perf_model::{
    Profile, Scheduler, StepTime,
    queueing::{ManyServers, SingleServer},
};
use goodput_record::Timestamp;
use goodput_slo::Slo;
use goodput_sweep::auto::Look;
use goodput_workload::{Arrivals, Load, WorkloadSpec};

use super::*;
use crate::{Detail, Pace, PointPlan, Replica, Setting, run_point};

fn laptop() -> Profile {
    Profile::builtin("laptop").unwrap()
}

/// With few places: about 30 requests a second of `chat-short` fill it.
fn small() -> Profile {
    Profile {
        max_num_seqs: NonZeroU32::new(8).unwrap(),
        ..laptop()
    }
}

fn preset(name: &str) -> Arc<WorkloadSpec> {
    Arc::new(WorkloadSpec::preset(name).unwrap())
}

fn stream(rate: f64) -> StreamPlan {
    let slos = vec![Slo::from_argument("ttft=500ms,tpot=40ms").unwrap()];
    let load = Load::Open { per_second: rate };
    StreamPlan::new(&preset("chat-short"), load, slos)
}

fn plan(policy: Policy, replicas: usize, rate: f64, seconds: u64) -> PoolPlan {
    let mut plan = PoolPlan::new(policy, 5, Duration::from_secs(seconds));
    plan.replicas = vec![ReplicaPlan::new(&small()); replicas];
    plan.streams = vec![stream(rate)];
    plan
}

fn row(plan: &PoolPlan, stream: usize) -> PointRow {
    run_pool(plan).unwrap().row(plan, stream).unwrap()
}

fn attainment(plan: &PoolPlan, stream: usize) -> f64 {
    row(plan, stream).slo_attainment.unwrap()
}

const GUARD: Guard = Guard {
    factor: 1.25,
    slack: 2_000_000_000,
};

#[test]
fn a_pool_of_one_replica_without_a_limit_is_that_replica() {
    let mut plan = plan(Policy::LeastWork, 1, 8.0, 20);
    plan.replicas[0].limits = Limits::in_flight(u32::MAX);
    plan.detail = Detail::EveryToken;
    let pool = row(&plan, 0);
    let streams = &plan.streams[0];
    let setting = Setting::new(&streams.workload, &streams.slos, plan.seed);
    let point = PointPlan::new(0, streams.load, plan.course);
    let mut replica = Replica::new(&small());
    let alone = run_point(&mut replica, &setting, &point, |_, _, _| Look::Wait).row(&point);
    assert_eq!(
        (pool.requests, pool.ttft_p99_ms),
        (alone.requests, alone.ttft_p99_ms)
    );
    assert_eq!(
        (pool.tpot_p99_ms, pool.stall_p99_ms),
        (alone.tpot_p99_ms, alone.stall_p99_ms)
    );
    assert_eq!(pool.goodput_interval, alone.goodput_interval);
}

/// Fast-forwarding saves time and changes nothing that is judged.
#[test]
fn less_detail_is_the_same_goodput() {
    let at = |detail, patience| {
        let mut plan = plan(Policy::LeastWork, 2, 45.0, 20);
        plan.streams[0].patience.total = patience;
        let slower = Timestamp::from_millis(9_000);
        plan.replicas[1].pace = Pace::steps(vec![(slower, 1.3)]);
        plan.detail = detail;
        let run = run_pool(&plan).unwrap();
        (run.row(&plan, 0).unwrap(), run.dispatch, run.abandoned)
    };
    let patience = [None, Some(Duration::from_millis(700))];
    let less = [(Detail::Bins, 0.002), (Detail::Ends, 0.03)];
    for (patience, (detail, tolerance)) in patience.into_iter().flat_map(|p| less.map(|l| (p, l))) {
        let (all, bins) = (at(Detail::EveryToken, patience), at(detail, patience));
        assert_eq!((all.1, all.2), (bins.1, bins.2));
        let (all, bins) = (all.0, bins.0);
        assert_eq!(all.slo_attainment, bins.slo_attainment);
        assert_eq!(
            (all.ttft_p99_ms, all.e2e_p95_ms),
            (bins.ttft_p99_ms, bins.e2e_p95_ms)
        );
        assert_eq!(
            (all.tpot_p99_ms, all.outcomes),
            (bins.tpot_p99_ms, bins.outcomes)
        );
        for (all, bins) in [
            (all.goodput_tok_s, bins.goodput_tok_s),
            (all.throughput_tok_s, bins.throughput_tok_s),
        ] {
            assert!((all / bins - 1.0).abs() < tolerance, "{all} {bins}");
        }
    }
}

#[test]
fn the_same_pool_does_the_same_and_every_request_ends() {
    for policy in [
        Policy::PowerOfTwo,
        Policy::RoundRobin,
        Policy::PrefixAffinity(GUARD),
    ] {
        let plan = plan(policy, 3, 40.0, 10);
        let (one, two) = (run_pool(&plan).unwrap(), run_pool(&plan).unwrap());
        assert_eq!(one.row(&plan, 0), two.row(&plan, 0));
        assert_eq!((one.dispatch, &one.replicas), (two.dispatch, &two.replicas));
        let c = one.dispatch;
        assert_eq!(one.streams[0].books.open(), 0);
        assert_eq!(
            c.offered,
            c.sent + c.shed.iter().sum::<u64>() + c.expired + c.cancelled
        );
        assert_eq!(one.replicas.iter().map(|r| r.sent).sum::<u64>(), c.sent);
        assert!(one.invalid.is_empty());
    }
}

/// Theory through the whole pool: workload, dispatcher, engines and books. Replicas that take one
/// request at a time and one token each are servers with a fixed service time.
#[test]
fn one_queue_before_servers_of_fixed_service_waits_as_theory_says() {
    const SERVICE_S: f64 = 0.01;
    let fixed = "arrivals = \"poisson\"\ninput.fixed = 1000\noutput.fixed = 1\n";
    let workload = Arc::new(WorkloadSpec::parse("fixed.toml", fixed).unwrap());
    let profile = Profile {
        max_num_seqs: NonZeroU32::MIN,
        prefix_cache: false,
        step_time: StepTime {
            prefill_s: SERVICE_S / 1000.0,
            ..StepTime::default()
        },
        ..laptop()
    };
    for servers in [1, 4] {
        let rate = 0.8 * f64::from(servers) / SERVICE_S;
        let waits: Vec<f64> = (0..8)
            .map(|seed| {
                let mut plan = plan(Policy::LeastWork, 0, rate, 50);
                plan.seed = seed;
                plan.streams[0].workload = Arc::clone(&workload);
                let mut replica = ReplicaPlan::new(&profile);
                replica.limits = Limits::in_flight(1);
                plan.replicas = vec![replica; servers as usize];
                let run = run_pool(&plan).unwrap();
                let ttft = run.streams[0].books.distribution(Latency::Ttft);
                ttft.mean().unwrap() / 1e9 - SERVICE_S
            })
            .collect();
        let mean = waits.iter().sum::<f64>() / 8.0;
        let square = waits.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / 7.0;
        let error = (square / 8.0).sqrt();
        let theory = if servers == 1 {
            let load = SingleServer::new(rate, SERVICE_S).unwrap();
            load.mg1_wait_s(0.0).unwrap()
        } else {
            let count = NonZeroU32::new(servers).unwrap();
            ManyServers::new(rate, SERVICE_S, count)
                .unwrap()
                .mdk_wait_s()
        };
        println!("M/D/{servers}: {mean} +- {error}, theory {theory}");
        assert!(error < 0.05 * theory, "the test says nothing: {error}");
        // With several servers theory is an approximation, good to about 2 % here.
        let tolerance = 3.0 * error + if servers > 1 { 0.02 * theory } else { 0.0 };
        assert!(
            (mean - theory).abs() < tolerance,
            "{mean} +- {error}, {theory}"
        );
    }
}

#[test]
fn one_more_replica_never_lowers_attainment() {
    for seed in 0..4 {
        let at = |replicas| {
            let mut plan = plan(Policy::LeastWork, replicas, 70.0, 12);
            plan.seed = seed;
            attainment(&plan, 0)
        };
        let shares = [at(1), at(2), at(3), at(4)];
        assert!(shares.windows(2).all(|w| w[0] <= w[1]), "{shares:?}");
        assert!(shares[0] < 0.5 && shares[3] > 0.99, "{shares:?}");
    }
}

#[test]
fn all_times_doubled_double_everything() {
    let mut base = plan(Policy::LeastWork, 2, 40.0, 20);
    let mut slow = plan(Policy::LeastWork, 2, 20.0, 40);
    for replica in &mut slow.replicas {
        replica.profile.step_time = replica.profile.step_time.slowed(2.0);
    }
    // In whole numbers: else the rounding of times decides who of two with equal work is next.
    for plan in [&mut base, &mut slow] {
        plan.work = Some(WorkRule {
            input_ns: 1.0,
            output_ns: 20.0,
        });
    }
    slow.streams[0].slos = vec![Slo::from_argument("ttft=1s,tpot=80ms").unwrap()];
    let (base, slow) = (row(&base, 0), row(&slow, 0));
    assert_eq!(base.requests, slow.requests);
    for (once, twice) in [
        (base.ttft_p50_ms, slow.ttft_p50_ms),
        (base.ttft_p99_ms, slow.ttft_p99_ms),
        (base.tpot_p50_ms, slow.tpot_p50_ms),
        (base.e2e_p95_ms, slow.e2e_p95_ms),
    ] {
        let ratio = twice.unwrap() / once.unwrap();
        assert!((ratio - 2.0).abs() < 0.002, "{ratio}");
    }
    assert_eq!(base.slo_attainment, slow.slo_attainment);
}

/// Three replicas of which the last comes up in the middle of the window, cold.
fn scale_up(gate: bool, cold: bool) -> (PointRow, PoolRun) {
    let mut plan = plan(Policy::LeastWork, 3, 40.0, 30);
    plan.streams[0].slos = vec![Slo::from_argument("ttft=1s").unwrap()];
    plan.replicas[2].up_at = Timestamp::from_millis(10_000);
    plan.replicas[2].warm_up = cold.then_some(WarmUp {
        requests: 6,
        factor: 100.0,
    });
    plan.dispatch.gate = gate.then(Gate::new);
    // Probes as long as the prompts of the preset are in the middle.
    plan.probe_tokens = 200;
    let run = run_pool(&plan).unwrap();
    (run.row(&plan, 0).unwrap(), run)
}

#[test]
fn a_cold_replica_hurts_its_first_requests_and_a_gate_keeps_them_away() {
    let (warm, _) = scale_up(false, false);
    let (hurt, _) = scale_up(false, true);
    let (gated, gated_run) = scale_up(true, true);
    let p99 = |row: &PointRow| row.ttft_p99_ms.unwrap();
    println!("p99: {:?}", [p99(&warm), p99(&hurt), p99(&gated)]);
    assert!(p99(&hurt) > 3.0 * p99(&warm), "{:?}", hurt.ttft_p99_ms);
    assert!(p99(&gated) < 1.3 * p99(&warm), "{:?}", gated.ttft_p99_ms);
    // Its first requests are those that are late, and nobody else.
    let late = |row: &PointRow| (1.0 - row.slo_attainment.unwrap()) * row.requests as f64;
    assert!((5.0..80.0).contains(&late(&hurt)), "{}", late(&hurt));
    assert!(late(&gated) < 0.5 && late(&warm) < 0.5);
    let probes = gated_run.replicas.iter().map(|r| r.sent).sum::<u64>() - gated_run.dispatch.sent;
    assert!((9..60).contains(&probes), "{probes}");
}

#[test]
fn a_tenants_burst_is_its_own_affair_where_tenants_are_fair() {
    let at = |fair: bool| {
        let mut plan = plan(Policy::LeastWork, 2, 10.0, 20);
        let mut burst = stream(120.0);
        burst.tenant = TenantId(1);
        plan.streams.push(burst);
        plan.dispatch.fair_tenants = fair;
        // Few enough in the engines for the queue to be where requests wait.
        for replica in &mut plan.replicas {
            replica.limits = Limits::in_flight(10);
        }
        (attainment(&plan, 0), attainment(&plan, 1))
    };
    let (fair, unfair) = (at(true), at(false));
    println!("fair {fair:?}, not {unfair:?}");
    assert!(fair.0 > 0.95 && unfair.0 < 0.3, "{fair:?} {unfair:?}");
    assert!(fair.1 < 0.5);
}

#[test]
fn urgent_work_goes_first_where_there_are_classes() {
    let at = |classes: usize| {
        let mut plan = plan(Policy::LeastWork, 2, 20.0, 20);
        let mut batch = stream(100.0);
        batch.class = u8::try_from(classes - 1).unwrap();
        plan.streams.push(batch);
        plan.dispatch.classes = vec![Class::new(); classes];
        plan.dispatch.fair_tenants = false;
        for replica in &mut plan.replicas {
            replica.limits = Limits::in_flight(10);
        }
        attainment(&plan, 0)
    };
    let (together, apart) = (at(1), at(2));
    println!("in time: apart {apart}, together {together}");
    assert!(apart > 0.95 && together < 0.5, "{apart} {together}");
}

/// The same without a queue at the dispatcher: the engines themselves prefer what is urgent.
#[test]
fn urgent_prompts_go_first_inside_the_engines() {
    let at = |priority| {
        let mut plan = plan(Policy::LeastWork, 2, 20.0, 20);
        let mut batch = stream(100.0);
        batch.priority = priority;
        plan.streams.push(batch);
        for replica in &mut plan.replicas {
            replica.limits = Limits::in_flight(u32::MAX);
        }
        attainment(&plan, 0)
    };
    let (together, apart) = (at(0), at(1));
    println!("in time: apart {apart}, together {together}");
    assert!(apart > 0.95 && together < 0.5, "{apart} {together}");
}

#[test]
fn work_for_clients_that_left_is_counted_and_is_no_goodput() {
    let mut plan = plan(Policy::LeastWork, 1, 60.0, 40);
    plan.replicas[0].limits = Limits::in_flight(u32::MAX);
    plan.streams[0].patience = Patience {
        first_token: Some(Duration::from_secs(1)),
        total: Some(Duration::from_secs(3)),
        leaving: Some(Leaving {
            share: 0.1,
            mean: Duration::from_millis(500),
        }),
    };
    let run = run_pool(&plan).unwrap();
    let row = run.row(&plan, 0).unwrap();
    let outcome = |name: &str| row.outcomes.get(name).copied().unwrap_or(0);
    assert!(
        outcome("timed_out") > 20 && outcome("cancelled") > 5,
        "{:?}",
        row.outcomes
    );
    assert_eq!(run.streams[0].books.open(), 0);
    assert!(run.abandoned.requests > 20 && run.abandoned.output_tokens > 100);
    assert!(row.goodput_tok_s < row.throughput_tok_s);
    // Whoever leaves is taken out of the engine: nothing is worked on for nobody.
    let c = run.replicas[0].counters;
    assert_eq!(c.submitted, c.finished + c.cancelled);
    assert!(c.cancelled >= run.abandoned.requests);
}

#[test]
fn prefill_and_decode_apart_are_one_request_with_a_transfer_in_between() {
    let transfer = Transfer {
        bytes_per_token: 1e5,
        bytes_per_s: 1e9,
        latency: Duration::from_millis(1),
    };
    let mut split = plan(Policy::LeastWork, 2, 1.0, 40);
    split.replicas[0].role = Role::Prefill;
    split.replicas[1].role = Role::Decode;
    split.transfer = Some(transfer);
    split.detail = Detail::EveryToken;
    let whole = PoolPlan {
        detail: Detail::EveryToken,
        ..plan(Policy::LeastWork, 1, 1.0, 40)
    };
    let run = run_pool(&split).unwrap();
    let (apart, together) = (run.row(&split, 0).unwrap(), row(&whole, 0));
    assert_eq!(apart.requests, together.requests);
    assert_eq!(apart.outcomes, together.outcomes);
    assert_eq!(run.dispatch.handed_over, run.dispatch.sent);
    let rates = (apart.throughput_tok_s, together.throughput_tok_s);
    assert!((rates.0 / rates.1 - 1.0).abs() < 0.02, "{rates:?}");
    // At so low a rate the first token is as fast, and the transfer lies in one gap.
    let ratio = apart.ttft_p50_ms.unwrap() / together.ttft_p50_ms.unwrap();
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
    let stall = apart.stall_p50_ms.unwrap();
    assert!(
        stall > 10.0 && together.stall_p50_ms.unwrap() < 10.0,
        "{stall}"
    );
    // Without a way from one to the other there is no pool.
    split.transfer = None;
    assert_eq!(run_pool(&split).err(), Some(PoolFault::NoDecode));
}

#[test]
fn decode_apart_is_not_held_up_by_long_prompts() {
    let spec = preset("chat-short");
    let bursty = Arc::new((*spec).clone().with_arrivals(Arrivals::Gamma { cv: 3.0 }));
    let at = |roles: &[Role]| {
        let mut plan = plan(Policy::LeastWork, 2, 30.0, 20);
        plan.replicas = vec![ReplicaPlan::new(&laptop()); 2];
        plan.streams[0].workload = Arc::clone(&bursty);
        for (replica, &role) in plan.replicas.iter_mut().zip(roles) {
            replica.role = role;
        }
        plan.transfer = Some(Transfer {
            bytes_per_token: 1e5,
            bytes_per_s: 1e11,
            latency: Duration::ZERO,
        });
        plan.detail = Detail::EveryToken;
        row(&plan, 0).stall_p99_ms.unwrap()
    };
    let together = at(&[Role::Whole, Role::Whole]);
    let apart = at(&[Role::Prefill, Role::Decode]);
    assert!(apart < together, "{apart} against {together}");
}

#[test]
fn affinity_finds_more_in_the_caches_than_taking_turns() {
    let at = |policy, sticky| {
        let mut plan = plan(policy, 4, 8.0, 40);
        plan.streams[0].workload = preset("agent");
        plan.dispatch.sticky_sessions = sticky;
        let run = run_pool(&plan).unwrap();
        let sum = |f: fn(&ReplicaRun) -> u64| run.replicas.iter().map(f).sum::<u64>() as f64;
        sum(|r| r.counters.prefix_hits) / sum(|r| r.counters.prefix_queries)
    };
    let turns = at(Policy::RoundRobin, None);
    let prefix = at(Policy::PrefixAffinity(GUARD), None);
    let session = at(Policy::LeastWork, Some(GUARD));
    println!("from the caches: prefix {prefix}, session {session}, turns {turns}");
    assert!(prefix > turns + 0.1, "{prefix} {session} {turns}");
    assert!(session > turns + 0.1, "{prefix} {session} {turns}");
}

#[test]
fn a_replica_that_drains_ends_what_it_has_and_gets_nothing_more() {
    let mut plan = plan(Policy::RoundRobin, 2, 20.0, 20);
    plan.replicas[1].drain_at = Some(Timestamp::from_millis(6_000));
    let run = run_pool(&plan).unwrap();
    let c = run.replicas[1].counters;
    assert_eq!(c.submitted, c.finished);
    let share = run.replicas[1].sent as f64 / run.dispatch.sent as f64;
    assert!((0.08..0.2).contains(&share), "{share}");
    assert_eq!(run.row(&plan, 0).unwrap().outcomes.len(), 1);
}

#[test]
fn a_slow_replica_gets_less_where_work_counts() {
    let share = |policy| {
        let mut plan = plan(policy, 2, 15.0, 20);
        plan.replicas = vec![ReplicaPlan::new(&laptop()); 2];
        plan.replicas[1].pace = Pace::steady(4.0);
        let run = run_pool(&plan).unwrap();
        run.replicas[1].sent as f64 / run.dispatch.sent as f64
    };
    let (turns, least) = (share(Policy::RoundRobin), share(Policy::LeastWork));
    assert!((turns - 0.5).abs() < 0.1 && least < 0.4, "{turns} {least}");
}

#[test]
fn what_is_shed_comes_back_when_told_in_a_closed_loop() {
    let mut plan = plan(Policy::LeastWork, 1, 1.0, 20);
    plan.streams[0].load = Load::Closed(NonZeroU32::new(40).unwrap());
    plan.replicas[0].limits = Limits::in_flight(4);
    plan.dispatch.queue_limit = 2;
    let run = run_pool(&plan).unwrap();
    let row = run.row(&plan, 0).unwrap();
    let shed = row.outcomes.get("shed").copied().unwrap();
    // Thirty-four users come back about every second or less often.
    assert!((20..1_500).contains(&shed), "{shed}");
    assert!(run.invalid.is_empty());
}

/// A pool of llama.cpp servers: a request that dies with its neighbours is a failure, and is told so.
#[test]
fn replicas_with_slots_fail_together_where_their_cells_run_out() {
    let at = |blocks| {
        let mut plan = plan(Policy::LeastWork, 2, 30.0, 20);
        for replica in &mut plan.replicas {
            replica.profile.scheduler = Scheduler::Slots { unified_kv: true };
            replica.profile.kv_blocks = blocks;
            replica.limits = Limits::in_flight(8);
        }
        run_pool(&plan).unwrap().row(&plan, 0).unwrap()
    };
    let (roomy, tight) = (at(8_192), at(130));
    assert_eq!(roomy.outcomes.len(), 1, "{:?}", roomy.outcomes);
    assert!(
        tight.outcomes.contains_key("error_event"),
        "{:?}",
        tight.outcomes
    );
    assert!(tight.slo_attainment < roomy.slo_attainment);
}

#[test]
fn a_pool_that_cannot_be_is_refused() {
    let mut none = plan(Policy::LeastWork, 0, 1.0, 1);
    assert_eq!(run_pool(&none).err(), Some(PoolFault::NoReplica));
    none.streams.clear();
    assert_eq!(run_pool(&none).err(), Some(PoolFault::NoStream));
    let mut bound = plan(Policy::LeastWork, 2, 1.0, 1);
    bound.replicas[0].role = Role::Prefill;
    bound.replicas[1].role = Role::Decode;
    bound.replicas[1].profile.step_time = StepTime {
        compute_s: 1e-3,
        ..laptop().step_time
    };
    bound.transfer = Some(Transfer {
        bytes_per_token: 1.0,
        bytes_per_s: 1.0,
        latency: Duration::ZERO,
    });
    assert_eq!(run_pool(&bound).err(), Some(PoolFault::ComputeBound(1)));
    let mut classes = plan(Policy::LeastWork, 1, 1.0, 1);
    classes.dispatch.classes.clear();
    let told = run_pool(&classes).err().unwrap().to_string();
    assert!(told.contains("0 classes"), "{told}");
}
