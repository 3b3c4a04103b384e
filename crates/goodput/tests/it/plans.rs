//! `goodput plan`, `plan pools`, `plan trajectory`: small ones, and what is refused.

use serde_json::Value;

use crate::program::Place;

const SLO: &str = "ttft=500ms,tpot=10ms,objective=90%";

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_plan_from_a_profile_has_its_faces_and_no_invented_cost() {
    let place = Place::new("plan-profile");
    let mut args = vec!["plan", "--rate", "95,400", "--profile", "laptop"];
    args.extend(["--workload", "chat-short", "--slo", SLO]);
    args.extend(["--requests", "1000", "--format", "json", "--out", "out"]);
    let plan = json_of(&place.run(&args).exits(0).stdout);
    let answers = plan["answers"].as_array().unwrap();
    let number = |answer: &Value, name: &str| answer[name]["value"].as_f64().unwrap();
    assert_eq!(answers.len(), 2);
    for answer in answers {
        let (least, run) = (number(answer, "lower_bound"), number(answer, "replicas"));
        assert!(run > least, "headroom and a spare: {answer}");
        assert_eq!(answer["cost"]["per_hour"]["value"], Value::Null);
    }
    assert!(place.read("out/plan.html").contains("<html"));
    assert!(place.read("out/plan.md").contains("95 req/s"));
}

#[test]
fn a_plan_from_a_result_says_that_it_was_simulated() {
    let place = Place::new("plan-from");
    let mut args = vec!["simulate", "--profile", "laptop", "--slo", SLO];
    args.extend(["--rate", "40,80", "--duration", "10s", "--out", "run"]);
    args.extend(["--workload", "chat-short"]);
    place.run(&args).exits(0);
    let args = ["plan", "--from", "run", "--rate", "400", "--gpus", "1"];
    let plan = place.run(&args).exits(0).stdout;
    assert!(plan.contains("budget    80 req/s"), "{plan}");
    assert!(plan.contains("| simulated"), "{plan}");
    let missing = place.run(&["plan", "--from", "nowhere", "--rate", "4"]);
    missing.exits(2).one_error();
}

const POOLS: &str = r#"
profile = "laptop"
[[class]]
name = "chat"
rate = 300
slo = "ttft=500ms,tpot=10ms,objective=90%"
workload = "chat-short"
[[class]]
name = "long"
rate = 3
slo = "e2e=10min,objective=90%"
workload = "azure-conversation"
priority = 1
"#;

#[test]
fn pools_are_compared_three_ways() {
    let place = Place::new("plan-pools");
    place.write("pools.toml", POOLS);
    let args = [
        "plan",
        "pools",
        "pools.toml",
        "--requests",
        "400",
        "--format",
        "json",
    ];
    let plan = json_of(&place.run(&args).exits(0).stdout);
    let ways = plan["ways"].as_array().unwrap();
    assert_eq!(ways.len(), 3);
    assert!(
        ways.iter()
            .all(|way| way["fractional"]["value"].as_f64() > Some(1.0))
    );
    assert_eq!(ways[0]["pools"].as_array().unwrap().len(), 2);
    place.write("typo.toml", &POOLS.replace("rate = 3\n", "rat = 3\n"));
    let typo = place.run(&["plan", "pools", "typo.toml"]).exits(2);
    typo.one_error().says(&["typo.toml", "rat"]);
    place.write("none.toml", "profile = \"laptop\"\nclass = []\n");
    place
        .run(&["plan", "pools", "none.toml"])
        .exits(2)
        .one_error();
}

#[test]
fn a_trajectory_is_split_by_five_rules_or_refused() {
    let place = Place::new("plan-trajectory");
    let mut args = vec!["plan", "trajectory", "--profile", "laptop", "--steps", "5"];
    args.extend([
        "--first-input",
        "500",
        "--next-input",
        "100",
        "--output",
        "50",
    ]);
    args.extend([
        "--trajectories",
        "60",
        "--objective",
        "80%",
        "--format",
        "json",
    ]);
    let plan = json_of(&place.run(&args).exits(0).stdout);
    let rules = plan["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 5);
    for rule in rules {
        let budgets = rule["budgets_ms"].as_array().unwrap();
        let sum: f64 = budgets.iter().map(|ms| ms.as_f64().unwrap()).sum();
        assert!((sum - 10_000.0).abs() < 1e-3, "{sum}");
    }
    args.extend(["--deadline", "20ms"]);
    place.run(&args).exits(1).one_error();
    let refused = ["plan", "trajectory", "--profile", "laptop", "--tool", "2s"];
    place.run(&refused).exits(2).one_error().says(&["tools"]);
}

#[test]
fn demands_and_slos_that_nothing_serves_are_said() {
    let place = Place::new("plan-refused");
    let base = [
        "plan",
        "--profile",
        "laptop",
        "--workload",
        "chat-short",
        "--requests",
        "300",
    ];
    let with = |more: &[&str]| place.run(&[&base[..], more].concat());
    with(&["--slo", "ttft=1ms", "--rate", "9"])
        .exits(1)
        .one_error();
    let few = with(&["--slo", SLO, "--rate", "4000", "--replicas", "1,2"]);
    few.exits(1).one_error().says(&["most on the list is 2"]);
    with(&["--slo", SLO, "--rate", "-3"]).exits(2);
    with(&["--slo", SLO]).exits(2).one_error();
    place.run(&["plan", "--rate", "9"]).exits(2).one_error();
}

#[test]
fn pools_for_several_demands_have_a_table_each_and_a_page() {
    let place = Place::new("plan-pools-scale");
    place.write("pools.toml", POOLS);
    let mut args = vec!["plan", "pools", "pools.toml", "--requests", "400"];
    args.extend(["--scale", "1,3", "--format", "json", "--out", "out"]);
    let plans = json_of(&place.run(&args).exits(0).stdout);
    let plans = plans["plans"].as_array().unwrap();
    let needed = |plan: &Value| plan["ways"][0]["fractional"]["value"].as_f64().unwrap();
    assert_eq!(plans.len(), 2);
    assert!((needed(&plans[1]) / needed(&plans[0]) - 3.0).abs() < 1e-9);
    let page = place.read("out/plan.html");
    assert!(page.contains("Demand x 3") && page.contains("rate of class chat, 300 x 3"));
    place
        .run(&["plan", "pools", "pools.toml", "--scale", "0"])
        .exits(2)
        .one_error();
}

#[test]
fn a_what_if_of_a_plan_says_what_it_would_be_without() {
    let place = Place::new("plan-what-if");
    let mut args = vec!["plan", "--rate", "400", "--profile", "laptop", "--slo", SLO];
    args.extend(["--workload", "chat-short", "--requests", "500"]);
    args.extend(["--what-if", "prompts=x2"]);
    let told = place.run(&args).exits(0).stdout;
    assert!(told.contains("prompts=x2: a budget of"), "{told}");
    assert!(told.contains("without that"), "{told}");
    args.extend(["--what-if", "promts=x2"]);
    place.run(&args).exits(2).one_error().says(&["prompts"]);
    let gpus = ["plan", "--rate", "9", "--profile", "laptop", "--gpus", "4"];
    place.run(&gpus).exits(2).one_error().says(&["--gpus 4"]);
}
