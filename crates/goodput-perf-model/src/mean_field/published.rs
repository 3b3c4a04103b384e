//! First principles held against published measurements: nothing is fitted to these loads, but two of
//! the default assumptions come from the closed loops' rows with one user.
//!
//! The tables are not in this repository: they lie in a folder that the environment variable
//! `GOODPUT_DATA` names. Without it the tests say so and hold nothing.

use std::{collections::BTreeMap, num::NonZeroU32, path::PathBuf};

use crate::{Assumptions, Catalogue, Demand, Precision, Profile};

type Row = BTreeMap<String, String>;

/// The rows of a table by column.
#[expect(
    clippy::disallowed_methods,
    reason = "what others published is not part of the project"
)]
fn table(name: &str) -> Option<Vec<Row>> {
    let Some(folder) = std::env::var_os("GOODPUT_DATA") else {
        println!("skipped: GOODPUT_DATA names no folder with published tables");
        return None;
    };
    let path = PathBuf::from(folder).join("published").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let names: Vec<String> = lines
        .next()
        .unwrap()
        .split(',')
        .map(str::to_owned)
        .collect();
    let row = |line: &str| {
        let cells = line.split(',').map(str::to_owned);
        names.iter().cloned().zip(cells).collect()
    };
    Some(lines.map(row).collect())
}

fn number(row: &Row, name: &str) -> f64 {
    row[name]
        .parse()
        .unwrap_or_else(|_| panic!("{name}: {}", row[name]))
}

fn on_h100(model: &str) -> Profile {
    let catalogue = Catalogue::builtin().unwrap();
    Profile::from_catalogue(
        catalogue.model(model).unwrap(),
        catalogue.accelerator("H100-SXM").unwrap(),
        NonZeroU32::MIN,
        Precision::Bf16,
        &Assumptions::default(),
    )
    .unwrap()
}

fn demand(input: f64, output: f64) -> Demand {
    Demand {
        prefill_tokens: input,
        prefill_pairs: input * (input + 1.0) / 2.0,
        output_tokens: output,
        context_tokens: input + output / 2.0,
    }
}

/// Stages that kept their rate, on the server without a prefix cache. It computes prompts whole; what
/// is missing near saturation is the price of the convoy, which no mean knows.
#[test]
fn the_mean_field_gives_tpot_of_open_loops_of_llama_8b() {
    let Some(rows) = table("inference_perf_kubecon.csv") else {
        return;
    };
    let profile = on_h100("meta-llama/Meta-Llama-3.1-8B");
    let open = |row: &&Row| {
        let kept = number(row, "rate_sent") / number(row, "rate_requested");
        row["variant"] == "vllm" && kept > 0.98
    };
    let mut held = 0;
    for row in rows.iter().filter(open) {
        let output = number(row, "output_len_mean");
        let demand = demand(number(row, "prompt_len_mean"), output);
        // The published TPOT is half the truth.
        let decoding = number(row, "e2e_mean_s") - number(row, "ttft_mean_s");
        let measured = decoding / (output - 1.0);
        let rate = number(row, "rate_done");
        let field = profile.mean_field(&demand, rate).unwrap();
        let error = field.tpot_s / measured - 1.0;
        println!(
            "{rate:6.1} req/s: measured {:.2} ms, {:+.1} %",
            measured * 1e3,
            error * 1e2
        );
        assert!(error.abs() < 0.11, "{rate}");
        held += 1;
    }
    assert_eq!(held, 4);
}

/// Throughput over five shapes and 1 to 512 users, below and at the KV cap.
#[test]
fn the_mean_field_gives_throughput_of_closed_loops_of_qwen_8b() {
    let Some(rows) = table("silybench_sweep.csv") else {
        return;
    };
    let mut profile = on_h100("Qwen/Qwen3-8B");
    profile.with("max_num_seqs=1024").unwrap();
    let bf16 = rows.iter().filter(|row| row["precision"] == "bf16");
    let mut errors: Vec<f64> = bf16
        .map(|row| {
            let demand = demand(number(row, "isl"), number(row, "osl"));
            let field = profile.closed_loop(&demand, number(row, "concurrency"));
            let tokens = field.rate_req_s * demand.output_tokens;
            let error = tokens / number(row, "out_tok_s") - 1.0;
            println!(
                "{} {} users: {:+.1} %",
                row["workload"],
                row["concurrency"],
                error * 1e2
            );
            error.abs()
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
    println!(
        "{} loads: median {median:.3}, worst {worst:.3}",
        errors.len()
    );
    assert!(errors.len() > 40 && median < 0.04 && worst < 0.25);
}

/// The engine reported 377,024 tokens of KV cache.
#[test]
fn the_kv_cache_of_qwen_8b_is_a_little_smaller_than_the_data_sheets_say() {
    let profile = on_h100("Qwen/Qwen3-8B");
    let error = profile.kv_tokens() as f64 / 377_024.0 - 1.0;
    assert!((0.0..0.08).contains(&error), "{error}");
}
