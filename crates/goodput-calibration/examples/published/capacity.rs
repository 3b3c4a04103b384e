//! Where the KV cache caps concurrency.

use std::path::Path;

use goodput_calibration::plateau;
use goodput_perf_model::{Catalogue, KvMemory};

use crate::table::{number, read, text};

/// Share of the memory that an engine uses by default, and what activations and graphs take of it.
const UTILIZATION: f64 = 0.9;
const OTHER_BYTES: u64 = 2 << 30;

pub(crate) fn report(folder: &Path) {
    curve_of_nim(folder);
    tokens_of_silybench(folder);
}

/// Llama-3.3-70B in fp8 on two H100, 5,000 tokens in and 500 out (NVIDIA's own table): the cap by the
/// memory that weights leave, beside the sequences seen decoding where more users add none.
fn curve_of_nim(folder: &Path) {
    let mut points = Vec::new();
    for row in read(&folder.join("doc_concurrency_tables.csv")) {
        let of = |name: &str| number(&row, name);
        let (Some(users), Some(ttft), Some(itl)) =
            (of("concurrency"), of("ttft_avg_ms"), of("itl_avg_ms"))
        else {
            continue;
        };
        let shape = (of("isl"), of("osl")) == (Some(5000.0), Some(500.0));
        if shape && of("n_gpu") == Some(2.0) && text(&row, "precision") == "fp8" {
            let decoding = itl * (500.0 - 1.0);
            points.push((users, users * decoding / (ttft + decoding)));
        }
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let catalogue = Catalogue::builtin().expect("the built-in catalogue");
    let model = catalogue
        .model("meta-llama/Meta-Llama-3.1-70B")
        .expect("in the catalogue");
    let device = catalogue.accelerator("H100-SXM").expect("in the catalogue");
    let memory = KvMemory {
        device_bytes: device.memory_bytes,
        utilization: UTILIZATION,
        weight_bytes: model.weight_bytes(1) / 2,
        other_bytes: OTHER_BYTES,
    };
    // A cache in fp8 as the weights. TensorRT-LLM admits a request only when its whole length fits
    // (its default capacity scheduler policy, GUARANTEED_NO_EVICT).
    let token = model.kv_shape().bytes_per_token_per_device(1, 2);
    let cap = f64::from(memory.blocks(token, 16)) * 16.0 / 5_500.0;
    let seen = plateau(&points).expect("the table goes far past the cap");
    verdict(
        "70B fp8 on 2 H100, 5000/500: sequences by memory",
        cap,
        seen,
    );
}

/// Qwen3-8B on one H100 (silybench): tokens the engine reported, by the memory that weights leave.
fn tokens_of_silybench(folder: &Path) {
    let catalogue = Catalogue::builtin().expect("the built-in catalogue");
    let model = catalogue.model("Qwen/Qwen3-8B").expect("in the catalogue");
    let device = catalogue.accelerator("H100-SXM").expect("in the catalogue");
    let mut told: Vec<u64> = Vec::new();
    for row in read(&folder.join("silybench_sweep.csv")) {
        if text(&row, "precision") == "bf16"
            && let Some(tokens) = number(&row, "kv_cache_tokens")
        {
            told.push(goodput_stats::whole_u64(tokens));
        }
    }
    told.sort_unstable();
    told.dedup();
    let memory = KvMemory {
        device_bytes: device.memory_bytes,
        utilization: UTILIZATION,
        weight_bytes: model.weight_bytes(2),
        other_bytes: OTHER_BYTES,
    };
    let blocks = memory.blocks(model.kv_shape().bytes_per_token(2), 16);
    let tokens = u64::from(blocks) * 16;
    for told in told {
        verdict(
            "Qwen3-8B bf16 on 1 H100: tokens by memory",
            tokens as f64,
            told as f64,
        );
        let mut points = Vec::new();
        for row in read(&folder.join("silybench_sweep.csv")) {
            let of = |name: &str| number(&row, name).unwrap_or(f64::NAN);
            if text(&row, "workload") == "longctx" {
                // Those that decode, and those whose prompt is being computed: the longest gaps between
                // tokens are steps with a prompt.
                let decoding = of("tpot_p95_ms") * (of("osl") - 1.0);
                let held_s = (decoding + of("itl_p99_ms")) / 1e3;
                points.push((of("concurrency"), of("req_s") * held_s));
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let seen = plateau(&points).expect("the table goes far past the cap");
        // vLLM admits by what a request needs now: half its answer on average, and half a block.
        let cap = told as f64 / (8_192.0 + 256.0 + 8.0);
        verdict("  8192/512: sequences by the tokens it told of", cap, seen);
    }
}

fn verdict(what: &str, said: f64, seen: f64) {
    let error = said / seen - 1.0;
    let word = if error.abs() <= 0.05 {
        "within"
    } else {
        "MISSES"
    };
    println!(
        "{what:<52} {said:>9.1} of {seen:>9.1}  {:>+5.1} %  {word} 5 %",
        100.0 * error
    );
}
