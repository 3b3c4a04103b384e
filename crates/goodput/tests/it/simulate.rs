//! `goodput simulate`: the same folder as a sweep, computed; the same bytes on every machine.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::program::{Place, Ran};

/// A small simulated sweep into `out`, in JSON, with further flags.
fn simulate(place: &Place, out: &str, flags: &[&str]) -> Ran {
    let mut args = vec!["simulate", "--seed", "5", "--out", out, "--format", "json"];
    args.extend(["--concurrency", "4,64", "--rate", "20", "--duration", "10s"]);
    args.extend(flags);
    place.run(&args)
}

fn json_of(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap()
}

/// FNV-1a, 64 bit.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

#[test]
fn one_seed_gives_the_same_bytes_on_any_machine() {
    let place = Place::new("simulate-digest");
    for out in ["a", "b"] {
        simulate(&place, out, &["--keep-gaps"]).exits(0);
    }
    for file in ["requests.jsonl", "server_metrics.jsonl", "points.csv"] {
        let [a, b] = ["a", "b"].map(|out| place.read(&format!("{out}/{file}")));
        assert!(a == b, "{file} differs between two runs of one seed");
        assert!(a.lines().count() > 3, "{file}");
    }
    // What the engine, the workload or the form of a record changes, changes this: then it is set
    // anew, on purpose.
    assert_eq!(
        format!("{:016x}", digest(&place.read("a/requests.jsonl"))),
        "e9e9240cd7f28538"
    );
}

#[test]
fn a_simulated_folder_is_a_result_like_any_other() {
    let place = Place::new("simulate-folder");
    simulate(&place, "out", &[]).exits(0);
    let result = place.result();
    assert_eq!(result["kind"], "simulate");
    let server = &result["holds_for"]["server"];
    assert_eq!(server["simulated"]["profile"], "laptop");
    assert_eq!(
        (&server["url"], &server["emulated"]),
        (&json!(""), &json!(false))
    );
    for point in result["points"].as_array().unwrap() {
        // There is no client: what it would say of itself is absent, not zero.
        for figure in ["send_lag_p99_ms", "loop_lag_p99_ms", "client_cpu_share"] {
            assert_eq!(point[figure], Value::Null, "{figure}");
        }
        assert_eq!(point["valid"], true);
        assert!(point["tpot_p50_ms"].as_f64().unwrap() > 4.0);
    }
    let rows = place.rows();
    assert!(rows.iter().all(|row| row["vantage"] == "engine"));
    let counted: u64 = result["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| point["requests"].as_u64().unwrap())
        .sum();
    assert_eq!(place.measured_rows().len() as u64, counted);
    let metrics = place.read("out/server_metrics.jsonl");
    assert!(metrics.contains("vllm:num_requests_running"));
    let report = place.run(&["report", "out"]).exits(0);
    assert!(
        report.stdout.contains("SIMULATED from profile laptop"),
        "{report}"
    );
    simulate(&place, "again", &["--seed", "5"]).exits(2);
    simulate(&place, "slow", &["--slo", "ttft=1ms"]).exits(1);
    place.run(&["compare", "out", "slow", "--across"]).exits(0);
}

#[test]
fn without_records_the_figures_are_the_same() {
    let place = Place::new("simulate-no-records");
    let with = json_of(&simulate(&place, "out", &[]).exits(0));
    let without = json_of(&simulate(&place, "bare", &["--no-records"]).exits(0));
    assert!(!place.path.join("bare/requests.jsonl").exists());
    assert!(!place.path.join("bare/server_metrics.jsonl").exists());
    let points = |result: &Value| result["points"].as_array().unwrap().clone();
    for (with, without) in points(&with).iter().zip(&points(&without)) {
        for figure in [
            "requests",
            "slo_attainment",
            "ttft_p99_ms",
            "tpot_p99_ms",
            "e2e_p95_ms",
        ] {
            assert_eq!(with[figure], without[figure], "{figure}");
        }
        let [a, b] = [with, without].map(|p| p["goodput_tok_s"].as_f64().unwrap());
        assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
    }
}

#[test]
fn what_ifs_stand_beside_their_base_under_the_same_requests() {
    let place = Place::new("simulate-what-if");
    // The second changes nothing: the profile has 48 slots.
    let asked = ["--what-if", "max_num_seqs=24,48", "--what-if", "prompts=x2"];
    let ran = simulate(&place, "out", &asked).exits(0);
    for folder in ["base", "what-if-1", "what-if-2", "what-if-3"] {
        assert!(
            place
                .path
                .join("out")
                .join(folder)
                .join("result.json")
                .exists()
        );
    }
    assert!(place.read("out/report.html").contains("max_num_seqs=24"));
    let told = json_of(&ran);
    assert_eq!(
        serde_json::from_str::<Value>(&place.read("out/what-if.json")).unwrap(),
        told
    );
    let variant = |number: usize| told["variants"][number].clone();
    let figure = |number: usize, name: &str| -> Value {
        let figures = variant(number)["at_base"].as_array().unwrap().clone();
        figures
            .into_iter()
            .find(|f| f["figure"] == name)
            .unwrap_or_else(|| panic!("no {name} in {}", variant(number)))
    };
    assert!(variant(1)["pairs"].as_u64().unwrap() > 500);
    for name in ["ttft_p50_ms", "tpot_p50_ms", "goodput_tok_s"] {
        assert_eq!(figure(1, name)["change"], 0.0, "{name}");
        assert_eq!(figure(1, name)["distinguishable"], false, "{name}");
    }
    // Half the slots: shorter steps, and a queue.
    let (ttft, tpot) = (figure(0, "ttft_p50_ms"), figure(0, "tpot_p50_ms"));
    assert!(ttft["change"].as_f64().unwrap() > 0.5 && ttft["distinguishable"] == true);
    assert!(tpot["change"].as_f64().unwrap() < -0.1 && tpot["distinguishable"] == true);
    assert!(figure(2, "tpot_p50_ms")["change"].as_f64().unwrap() > 0.1);
    assert_eq!(variant(2)["pairs"], Value::Null, "other prompts");
}

#[test]
fn a_simulated_curve_is_held_against_another() {
    let place = Place::new("simulate-overlay");
    simulate(&place, "sim", &[]).exits(0);
    // Stands for a measured one: the same engine, a little slower.
    simulate(&place, "out", &["--what-if", "step_time.weights_s=x1.2"]).exits(0);
    let mut slower: Value = serde_json::from_str(&place.read("out/what-if-1/result.json")).unwrap();
    let server = &mut slower["holds_for"]["server"];
    server.as_object_mut().unwrap().remove("simulated");
    place.write("out/what-if-1/result.json", &slower.to_string());
    let overlay = |flags: &[&str]| {
        let mut args = vec!["report", "out/what-if-1", "--overlay", "sim"];
        args.extend(flags);
        place.run(&args)
    };
    let told = json_of(&overlay(&["--format", "json"]).exits(0));
    let loads = told["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 3);
    let error = |name: &str| -> f64 {
        let errors = told["median_error"].as_array().unwrap();
        let found = errors.iter().find(|e| e[0] == name).unwrap();
        found[1].as_f64().unwrap()
    };
    // Of steps of some 5 ms it makes 0.6 ms less: the prediction is some 10 % too low.
    assert!((0.04..0.2).contains(&error("tpot_p50_ms")), "{told}");
    assert!(
        place
            .read("sim/overlay.html")
            .contains("Error of the prediction")
    );
    assert!(overlay(&[]).exits(0).stdout.contains("median error"));
    // A page that cannot be written keeps nothing from being read.
    let unwritten = overlay(&["--html", "nowhere/page.html"]).exits(3);
    assert!(unwritten.stdout.contains("median error"), "{unwritten}");
    unwritten.says(&["cannot write nowhere/page.html", "--html FILE"]);
    place
        .run(&["report", "sim", "--overlay", "sim"])
        .exits(2)
        .one_error()
        .says(&["was simulated itself"]);
    place
        .run(&["report", "out/what-if-1", "--overlay", "out/what-if-1"])
        .exits(2)
        .one_error();
}

#[test]
fn what_cannot_be_simulated_is_refused_with_a_reason() {
    let place = Place::new("simulate-refused");
    let refused = |flags: &[&str], words: &[&str]| {
        simulate(&place, "never", flags)
            .exits(2)
            .one_error()
            .says(words);
        assert!(!place.path.join("never").exists(), "{flags:?}");
    };
    refused(&["--profile", "lapptop"], &["did you mean `laptop`?"]);
    refused(&["--profile", "gone.toml"], &["gone.toml"]);
    refused(
        &["--url", "http://x:1/v1"],
        &["asks no server", "goodput sweep"],
    );
    refused(&["--what-if", "max_num_sq=3"], &["max_num_seqs"]);
    refused(&["--what-if", "prompt=x2"], &["did you mean `prompts`?"]);
    refused(&["--what-if", "kv_blocks=-4"], &["-4"]);
    refused(&["--what-if", "gpus=2"], &["laptop"]);
    refused(&["--what-if", "faster"], &["key=value"]);
    refused(&["--what-if", ";"], &["changes nothing", "key=value"]);
    refused(&["--what-if", "prompts=x999"], &["context"]);
    refused(&["--no-records", "--keep-gaps"], &["--no-records"]);
    refused(&["--requests", "0"], &["--requests 0"]);
}

#[test]
fn a_model_on_a_device_is_a_profile() {
    let place = Place::new("simulate-catalogue");
    let run = |profile: &str, out: &str, more: &[&str]| {
        let flags = ["--profile", profile, "--workload", "chat-short"];
        simulate(&place, out, &[&flags, more].concat())
    };
    let told = json_of(&run("qwen3-8b@2xh100-sxm:fp8", "fp8", &[]).exits(0));
    let server = &told["holds_for"]["server"]["simulated"];
    assert_eq!(server["profile"], "qwen3-8b-fp8-2xh100-sxm");
    // Two devices can be told from one only where the profile was computed.
    run("Qwen/Qwen3-8B@H100-SXM", "bf16", &["--what-if", "gpus=2"]).exits(0);
    let mine = "[[accelerator]]\nname = \"H100-SXM\"\nmemory_bytes = 0\n";
    place.write("mine.toml", mine);
    for (profile, words) in [
        (
            "meta-llama/Meta-Llama-3.1-70B@H100-SXM",
            &["needs", "GB on each of 1 x H100-SXM", "take more devices"][..],
        ),
        ("Qwen/Qwen3-8B@7xH100-SXM", &["cannot be split over 7"]),
        ("Qwen/Qwen3-8B@0xH100-SXM", &["0 is no number of devices"]),
        ("Qwen/Qwen3-8B@H100", &["no accelerator `H100`", "H100-SXM"]),
        ("Qwen/Qwen9@H100-SXM", &["no model `Qwen/Qwen9`"]),
        (
            "Qwen/Qwen3-8B@H100-SXM:fp7",
            &["no precision `fp7`", "w4a16"],
        ),
        ("openai/gpt-oss-120b@H100-SXM", &["4 bits", ":PRECISION"]),
        ("Qwen/Qwen3-8B@H100-SXM+no.toml", &["the catalogue no.toml"]),
        ("Qwen/Qwen3-8B@H100-SXM+mine.toml", &["mine.toml"]),
    ] {
        let ran = run(profile, "never", &[]).exits(2).one_error();
        ran.says(words);
    }
    assert!(!place.path.join("never").exists());
}

/// A replica that can hold no request of the workload: no figure is made up.
#[test]
fn a_workload_that_never_fits_the_cache_has_no_figures() {
    let place = Place::new("simulate-kv");
    let laptop = include_str!("../../../goodput-perf-model/profiles/laptop.toml");
    place.write(
        "tiny.toml",
        &laptop
            .replace("kv_blocks = 8192", "kv_blocks = 1")
            .replace("block_tokens = 16", "block_tokens = 1"),
    );
    let args = ["--profile", "tiny.toml", "--workload", "chat-short"];
    let ran = simulate(&place, "out", &args).exits(3);
    assert!(ran.stdout.contains("KV blocks, has 1"), "{ran}");
    for point in place.result()["points"].as_array().unwrap() {
        assert_eq!(point["valid"], false);
        for figure in ["ttft_p50_ms", "tpot_p50_ms"] {
            assert_eq!(point[figure], Value::Null, "{figure}");
        }
    }
}

/// Lengths asked for, by point and session.
type Asked = BTreeMap<(u64, u64), (u64, u64)>;

/// One workload and seed through the simulator alone and through load generator, socket and
/// emulator. How close the times come is held by `suites/closure.sh`, which wants a quiet machine;
/// here only what no machine can change.
#[test]
fn the_network_serves_the_requests_that_the_simulator_serves() {
    let place = Place::new("simulate-closure");
    let common = |out: &'static str| {
        let mut args = vec!["--seed", "9", "--workload", "chat-short", "--slo", "chat"];
        args.extend(["--requests", "60", "--warmup", "0", "--concurrency", "4"]);
        args.extend(["--rate", "30", "--format", "json", "--out", out]);
        args
    };
    let run = |verb: &'static str, out: &'static str| {
        let args: Vec<&str> = std::iter::once(verb).chain(common(out)).collect();
        json_of(&place.run(&args).measured())
    };
    let (simulated, measured) = (run("simulate", "sim"), run("sweep", "out"));
    let asked = |out: &str| -> Asked {
        let text = place.read(&format!("{out}/requests.jsonl"));
        let rows = text.lines().map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let number = |name: &str| row[name].as_u64().unwrap();
            let lengths = (
                number("planned_input_tokens"),
                number("planned_output_tokens"),
            );
            ((number("point"), number("session")), lengths)
        });
        rows.collect()
    };
    let (of_sim, of_net) = (asked("sim"), asked("out"));
    let both = of_sim.keys().filter(|key| of_net.contains_key(*key));
    let both: Vec<_> = both.collect();
    assert!(both.iter().all(|key| of_sim[*key] == of_net[*key]));
    // A schedule is sent whole. Which user of a closed loop is the one to send the last request is
    // the server's to say.
    let (open, closed): (Vec<&(u64, u64)>, Vec<_>) = both.iter().partition(|key| key.0 == 1);
    assert_eq!((of_sim.len(), of_net.len(), open.len()), (120, 120, 60));
    assert!(closed.len() >= 50, "{}", closed.len());
    for index in 0..2 {
        let tpot = |result: &Value| result["points"][index]["tpot_p50_ms"].as_f64().unwrap();
        let (simulated, measured_ms) = (tpot(&simulated), tpot(&measured));
        // The emulator cannot answer before the engine does; how late it is, is the machine's.
        assert!(
            measured_ms > 0.97 * simulated,
            "{measured_ms} ms measured, {simulated} ms simulated"
        );
    }
}
