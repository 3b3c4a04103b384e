use std::time::Duration;

use goodput_perf_model::Profile;
use goodput_stats::{Draws, Stream, sampler::log_normal};

use crate::{AgentShape, SplitRule, Times, TrajectoryError, TrajectoryQuestion, plan_trajectory};

/// Trajectories whose steps grow, with a slow day that all steps of a trajectory share.
fn drawn(count: u64, shared: f64) -> Times {
    let rows = (0..count).map(|i| {
        let mut draws = Draws::new(3, Stream(9), i);
        let day = log_normal(&mut draws, 1.0, shared);
        let step = |k: u32| day * log_normal(&mut draws, 0.3 + 0.1 * f64::from(k), 0.3);
        (0..10).map(step).collect()
    });
    Times::new(rows.collect()).unwrap()
}

#[test]
fn every_split_adds_up_to_the_deadline() {
    for shared in [0.0, 0.5] {
        let times = drawn(400, shared);
        for rule in SplitRule::ALL {
            for deadline in [5.0, 10.0, 100.0] {
                let sum: f64 = times.split(rule, deadline).iter().sum();
                assert!((sum - deadline).abs() < 1e-9 * deadline, "{rule:?} {sum}");
            }
        }
    }
    let equal = drawn(10, 0.0).split(SplitRule::Equal, 10.0);
    assert_eq!(equal, vec![1.0; 10], "the essay's ten steps of a second");
}

/// Steps that keep their budgets keep the deadline: no rule lets a late trajectory pass.
#[test]
fn no_late_trajectory_goes_unseen() {
    let times = drawn(2_000, 0.3);
    for rule in SplitRule::ALL {
        for row in times.rows() {
            let late = row.iter().sum::<f64>() > 10.0 + 1e-9;
            let seen = times.broken(rule, 10.0, row).contains(&true);
            assert!(seen || !late, "{rule:?} {row:?}");
        }
    }
}

/// What is gained: a rule that knows the steps alarms for fewer trajectories than equal parts do.
#[test]
fn budgets_that_know_the_steps_alarm_less() {
    let times = drawn(3_000, 0.0);
    let flagged = |rule| {
        let rows = times.rows().iter();
        rows.filter(|row| times.broken(rule, 12.0, row).contains(&true))
            .count()
    };
    let [equal, proportional, variance, tail, online] = SplitRule::ALL.map(flagged);
    assert!(proportional < equal && variance < equal && tail < equal);
    let late = times
        .rows()
        .iter()
        .filter(|row| row.iter().sum::<f64>() > 12.0)
        .count();
    assert!(late <= online);
}

fn question() -> TrajectoryQuestion {
    TrajectoryQuestion {
        shape: AgentShape {
            steps: 10,
            first_input: 1_000,
            next_input: 200,
            output: 60,
            sigma: 0.4,
            tool: Duration::ZERO,
        },
        deadline: Duration::from_secs(10),
        objective: 0.9,
        profile: Profile::builtin("laptop").unwrap(),
        price: None,
        trajectories: 150,
        seed: 5,
    }
}

#[test]
fn a_ten_step_agent_with_ten_seconds() {
    let plan = plan_trajectory(&question()).unwrap();
    assert!(plan.kept.value.unwrap() >= 0.9);
    let rate = |rule| {
        let row = plan.rules.iter().find(|row| row.rule == rule).unwrap();
        row.trajectories_per_s.value.unwrap_or(0.0)
    };
    let whole = plan.trajectories_per_s.value.unwrap();
    assert!(SplitRule::ALL.map(rate).iter().all(|r| *r <= whole));
    let budgets = &plan.rules[1].budgets_ms;
    assert!(budgets[9] > budgets[1], "contexts grow: {budgets:?}");
    assert_eq!(plan.cost.value, None);
}

#[test]
fn deadlines_that_cannot_be_kept_are_refused() {
    let hurried = TrajectoryQuestion {
        deadline: Duration::from_millis(200),
        ..question()
    };
    assert!(matches!(
        plan_trajectory(&hurried),
        Err(TrajectoryError::NoLoad { .. })
    ));
    let mut tools = question();
    tools.shape.tool = Duration::from_secs(2);
    assert!(matches!(
        plan_trajectory(&tools),
        Err(TrajectoryError::ToolsOnly { .. })
    ));
    let mut none = question();
    none.shape.steps = 0;
    assert!(matches!(
        plan_trajectory(&none),
        Err(TrajectoryError::Shape(_))
    ));
}
