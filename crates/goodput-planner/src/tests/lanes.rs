//! Runs in brief and runs with whole records are the same runs.

use std::sync::Arc;

use goodput_perf_model::Profile;
use goodput_slo::Slo;
use goodput_workload::WorkloadSpec;

use crate::{
    LoadFigures,
    mix::{ClassLoad, run_mix, run_watched},
};

fn figures(seen: &LoadFigures) -> Vec<Option<f64>> {
    vec![
        Some(seen.requests as f64),
        seen.attainment,
        seen.interval.map(|i| i.low),
        seen.ttft_p99_ms,
        seen.tpot_p50_ms,
        seen.tpot_p99_ms,
        seen.e2e_p99_ms,
        Some(seen.goodput_req_s),
        Some(seen.in_flight_mean),
        Some(seen.refused_share),
        Some(f64::from(u8::from(seen.valid))),
    ]
}

/// Two classes with priorities, a KV cache that is too small for them, and a load from idle to lost.
#[test]
fn a_run_in_brief_has_the_figures_of_one_with_whole_records() {
    let mut profile = Profile::builtin("laptop").unwrap();
    profile.kv_blocks = 300;
    profile.prefix_cache = false;
    let chat = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
    let long = Arc::new(WorkloadSpec::preset("azure-conversation").unwrap());
    let tight = Slo::from_argument("ttft<=500ms,tpot_median<=10ms,objective=90%").unwrap();
    let loose = Slo::from_argument("e2e<=60s").unwrap();
    for rate_req_s in [2.0, 8.0, 40.0] {
        let classes = [
            ClassLoad {
                workload: &chat,
                slo: &tight,
                rate_req_s,
                priority: 0,
            },
            ClassLoad {
                workload: &long,
                slo: &loose,
                rate_req_s: rate_req_s / 10.0,
                priority: 1,
            },
        ];
        let brief = run_mix(&profile, &classes, 300.0, 7);
        let whole = run_watched(&profile, &classes, 300.0, 7, |_, _| {});
        for (brief, whole) in brief.iter().zip(&whole) {
            for (a, b) in figures(brief).into_iter().zip(figures(whole)) {
                let same = match (a, b) {
                    (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * b.abs().max(1.0),
                    (a, b) => a == b,
                };
                assert!(same, "{rate_req_s}: {brief:?} {whole:?}");
            }
        }
    }
}
