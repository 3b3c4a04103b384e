//! How far first principles go: profiles from the catalogue, nothing fitted, against the aggregated
//! (not prefill/decode-split) runs of `InferenceX` that `AIConfigurator` re-published.
//!
//! ```sh
//! zcat silicon_agg.csv.gz | cargo run --release -p goodput-perf-model --example first_principles
//! ```
//!
//! The table has a model, a GPU, tensor parallelism, lengths (uniform from 0.8 to 1.0 of the nominal) and
//! users in a closed loop, and a central value of TPOT. Rows with data parallelism, with a
//! model that the catalogue lacks, and past the KV cap are left out and counted.

use std::{
    collections::BTreeMap,
    io::{BufRead, stdin},
    num::NonZeroU32,
};

use goodput_perf_model::{Assumptions, Catalogue, Demand, Precision, Profile};

type Row = BTreeMap<String, String>;

fn main() {
    let catalogue = Catalogue::builtin().expect("invariant: the built-in catalogue is sound");
    let mut lines = stdin().lock().lines().map_while(Result::ok);
    let heading = lines.next().unwrap_or_default();
    let names: Vec<String> = heading.split(',').map(str::to_owned).collect();
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut left_out: BTreeMap<&str, u32> = BTreeMap::new();
    for line in lines {
        let cells = line.split(',').map(str::to_owned);
        let row: Row = names.iter().cloned().zip(cells).collect();
        match error(&catalogue, &row) {
            Ok((kind, error)) => {
                let group = format!("{} {} {}", row["model"], row["gpu"], row["precision"]);
                for group in [group, format!("ALL {kind}")] {
                    groups.entry(group).or_default().push(error);
                }
            }
            Err(why) => *left_out.entry(why).or_default() += 1,
        }
    }
    tell("group", "runs", "median error", "median of absolute errors");
    for (group, errors) in groups {
        let runs = errors.len().to_string();
        let middle = median(errors.clone());
        let size = median(errors.into_iter().map(f64::abs).collect());
        let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
        tell(&group, &runs, &percent(middle), &percent(size));
    }
    for (why, count) in left_out {
        tell(&format!("left out: {why}"), &count.to_string(), "", "");
    }
}

#[expect(clippy::print_stdout, reason = "a study prints its figures")]
fn tell(group: &str, runs: &str, middle: &str, size: &str) {
    println!("{group:<52} {runs:>5} {middle:>13} {size:>10}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The relative error of TPOT, and the kind of model; or why there is none.
fn error(catalogue: &Catalogue, row: &Row) -> Result<(&'static str, f64), &'static str> {
    let number = |name: &str| row[name].parse::<f64>().map_err(|_| "a cell is empty");
    if !["", "0", "1"].contains(&row["attention_dp_size"].as_str()) {
        return Err("data parallelism");
    }
    let device = match row["gpu"].as_str() {
        "h100_sxm" => "H100-SXM",
        "h200_sxm" => "H200-SXM",
        "b200_sxm" => "B200-SXM",
        "b300_sxm" => "B300-SXM",
        "gb200" => "GB200",
        _ => return Err("another GPU"),
    };
    let device = catalogue.accelerator(device).ok_or("another GPU")?;
    let name = row["model"].replace("zhipuai/", "zai-org/");
    let model = catalogue.model_served_as(&name).ok_or("another model")?;
    let precision = match (row["precision"].as_str(), row["gemm_quant_mode"].as_str()) {
        ("", "") => "bf16",
        ("", _) => "fp8",
        (told, _) => told,
    };
    let precision = Precision::named(precision).ok_or("another precision")?;
    let gpus = row["tp_size"].parse::<u32>().ok();
    let gpus = gpus.and_then(NonZeroU32::new).ok_or("a cell is empty")?;
    let assumed = Assumptions::default();
    let mut profile = Profile::from_catalogue(model, device, gpus, precision, &assumed)
        .map_err(|_| "refused: does not fit, cannot be split, or no peak")?;
    profile.max_num_seqs = NonZeroU32::new(1_024).ok_or("no sequences")?;
    let (input, output) = (0.9 * number("isl")?, 0.9 * number("osl")?);
    let demand = Demand {
        prefill_tokens: input,
        prefill_pairs: input * input / 2.0,
        output_tokens: output,
        context_tokens: input + output / 2.0,
    };
    let field = profile.closed_loop(&demand, number("concurrency")?);
    if field.waiting > 0.0 {
        return Err("past the KV cap");
    }
    let kind = match (model.experts, model.latent_values) {
        (None, _) => "dense",
        (Some(_), None) => "mixtures of experts",
        (Some(_), Some(_)) => "mixtures of experts with latent attention",
    };
    Ok((kind, field.tpot_s * 1e3 / number("tpot_ms")? - 1.0))
}
