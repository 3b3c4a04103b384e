//! The published raw records, from the folder that the environment variable `GOODPUT_DATA` names:
//! they give the published figures where those are right, and the corrected ones where they are not.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{Got, evidence, import, slos};
use crate::import::{ImportAsk, ToldLoad};

/// A published file. `None`, and the test holds nothing, where `GOODPUT_DATA` names no folder.
fn published(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("GOODPUT_DATA") else {
        println!("skipped: GOODPUT_DATA names no folder with published results");
        return None;
    };
    Some(Path::new(&folder).join("published").join(name))
}

/// The rows of a CSV by their first column.
fn table(path: &Path) -> BTreeMap<String, BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let row = names.iter().zip(&cells);
            let row = row.map(|(n, c)| ((*n).to_owned(), (*c).to_owned()));
            (cells[0].to_owned(), row.collect())
        })
        .collect()
}

fn near(ours: f64, published: &str, off: f64) -> bool {
    let published: f64 = published.parse().unwrap();
    (ours - published).abs() <= off * published.abs()
}

fn quantile(values: &[f64], q: f64) -> f64 {
    let nanos = values.iter().map(|ms| goodput_record::nanos_of(ms / 1e3));
    let mut sorted: Vec<u64> = nanos.collect();
    sorted.sort_unstable();
    goodput_stats::quantile(&sorted, q).unwrap() / 1e6
}

fn dstack(name: &str) -> Option<(Got, BTreeMap<String, String>)> {
    let file = published(&format!("dstack_vllm_requests_{name}.jsonl.gz"))?;
    let summary = table(&published("dstack_vllm_summaries.csv")?).remove(name)?;
    let ask = ImportAsk {
        load: Some(ToldLoad::Rate(16.0)),
        ..ImportAsk::default()
    };
    Some((import(&[file], &ask, &slos("chat")).unwrap(), summary))
}

#[test]
fn dstack_figures_come_out_as_published_with_the_fault_and_right_without_it() {
    for (name, empty, right_median) in [
        ("h100x8_405b_fp8_16qps", 379, 956.39),
        ("mi300x8_405b_fp8_16qps", 378, 2383.75),
    ] {
        let Some((import, summary)) = dstack(name) else {
            return;
        };
        let rows = &import.requests;
        assert_eq!(rows.len().to_string(), summary["completed"]);
        // As published: every answer that did not come has a TTFT of 0.
        let with_zeros: Vec<f64> = rows.iter().map(|r| r.ttft_ms.unwrap_or(0.0)).collect();
        for (q, published) in [(0.5, "median_ttft_ms"), (0.99, "p99_ttft_ms")] {
            let ours = quantile(&with_zeros, q);
            assert!(near(ours, &summary[published], 1e-5), "{name}: {ours}");
        }
        // Gaps between tokens are right as published.
        let gaps: Vec<f64> = rows
            .iter()
            .filter_map(|r| r.gap_ns.as_deref())
            .flatten()
            .map(|&ns| ns as f64 / 1e6)
            .collect();
        for (q, published) in [(0.5, "median_itl_ms"), (0.99, "p99_itl_ms")] {
            let ours = quantile(&gaps, q);
            assert!(near(ours, &summary[published], 1e-5), "{name}: {ours}");
        }
        let tokens: u64 = rows
            .iter()
            .filter_map(|r| r.output_tokens)
            .map(u64::from)
            .sum();
        assert_eq!(tokens.to_string(), summary["total_output_tokens"]);
        // As they are: the books.
        let row = &import.points[0];
        assert_eq!(row.outcomes["empty"], empty, "{name}");
        assert_eq!(row.ttft_n, 1000 - empty);
        assert!(
            (row.ttft_p50_ms.unwrap() - right_median).abs() < 0.01,
            "{name}: {:?}",
            row.ttft_p50_ms
        );
        // TPOT to the last token is a little shorter than to the end of the stream.
        let published: f64 = summary["median_tpot_ms"].parse().unwrap();
        let ratio = row.tpot_p50_ms.unwrap() / published;
        assert!((0.98..1.0).contains(&ratio), "{name}: {ratio}");
        let told = evidence(&import, "empty-answers-called-success").unwrap();
        let median: f64 = summary["median_ttft_ms"].parse().unwrap();
        for figure in [median / 1e3, right_median / 1e3] {
            assert!(told.contains(&format!("{figure:.3} s")), "{told}");
        }
        for name in ["another-tpot", "start-times-not-told", "one-token-answers"] {
            assert!(evidence(&import, name).is_some(), "{name}");
        }
    }
}

#[test]
fn llmperf_percentiles_come_out_as_published_over_survivors_and_failures_are_misses() {
    let (Some(file), Some(summaries)) = (
        published("llmperf_requests.csv.gz"),
        published("llmperf_summaries.csv"),
    ) else {
        return;
    };
    for (run, summary) in table(&summaries) {
        let ask = ImportAsk {
            run: Some(run.clone()),
            load: Some(ToldLoad::Users(5)),
            ..ImportAsk::default()
        };
        let import = import(std::slice::from_ref(&file), &ask, &slos("ttft=1s")).unwrap();
        let row = &import.points[0];
        for (ours, column) in [
            (row.ttft_p50_ms, "results_ttft_s_quantiles_p50"),
            (row.ttft_p90_ms, "results_ttft_s_quantiles_p90"),
            (row.ttft_p95_ms, "results_ttft_s_quantiles_p95"),
            (row.ttft_p99_ms, "results_ttft_s_quantiles_p99"),
            (row.e2e_p50_ms, "results_end_to_end_latency_s_quantiles_p50"),
            (row.e2e_p99_ms, "results_end_to_end_latency_s_quantiles_p99"),
        ] {
            let ours = ours.unwrap() / 1e3;
            assert!(near(ours, &summary[column], 1e-8), "{run} {column}: {ours}");
        }
        let errors: u64 = summary["results_number_errors"].parse().unwrap();
        let failed: u64 = row
            .outcomes
            .iter()
            .filter(|o| o.0 != "ok")
            .map(|o| o.1)
            .sum();
        assert_eq!(failed, errors, "{run}");
        assert_eq!(
            evidence(&import, "failures-were-left-out").is_some(),
            errors > 0,
            "{run}"
        );
        let slo = row.first_slo().unwrap();
        assert_eq!(
            slo.met + slo.missed,
            row.requests,
            "{run}: failures stay in the denominator"
        );
        assert!(slo.missed >= errors);
        // The published figure between tokens holds the wait for the first one; ours does not.
        let published: f64 = summary["results_inter_token_latency_s_quantiles_p50"]
            .parse()
            .unwrap();
        assert!(row.tpot_p50_ms.unwrap() / 1e3 < published, "{run}");
    }
}
