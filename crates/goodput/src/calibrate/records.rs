//! The records of result folders as samples of engine steps.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use goodput_calibration::{Observed, PointFacts, Replayed, StepSample, requests_of, steps_of};
use goodput_ledger::PointRow;
use goodput_perf_model::Extent;
use goodput_record::SeriesId;
use goodput_results::{Folder, each_request};
use goodput_sweep::RunResult;

use crate::{exit::Failure, report::killed::result_of};

/// Points of one folder are numbered from a multiple of this.
const FOLDER: u32 = 10_000;

/// One folder's requests, and what its server said of its cache.
pub(super) struct Run {
    /// All requests that reached the server, whatever part of a point they belong to.
    pub(super) requests: Vec<Observed>,
    /// Tokens that the server counted beyond those planned, of each prompt it counted.
    pub(super) beyond: Vec<i64>,
    /// Usage of the KV cache, 0 to 1, at seconds since the run's epoch.
    pub(super) kv_usage: Vec<(f64, f64)>,
}

/// What was read.
pub(super) struct Records {
    folders: Vec<PathBuf>,
    pub(super) results: Vec<RunResult>,
    pub(super) runs: Vec<Run>,
    pub(super) samples: Vec<StepSample>,
    /// `steps`, `requests` or `points`.
    pub(super) samples_are: &'static str,
    pub(super) unclear: usize,
    pub(super) waiting: usize,
    /// Whether samples of load points are used that are invalid in their own run.
    pub(super) untrusted: bool,
}

impl Records {
    /// Reads folders. `step_tokens` is the most tokens a step may have, where it is known.
    pub(super) fn read(folders: &[PathBuf], step_tokens: Option<u32>) -> Result<Self, Failure> {
        let mut records = Self {
            folders: folders.to_vec(),
            results: Vec::new(),
            runs: Vec::new(),
            samples: Vec::new(),
            samples_are: "steps",
            unclear: 0,
            waiting: 0,
            untrusted: false,
        };
        for (number, path) in (0_u32..).zip(folders) {
            let result = result_of(path)?;
            one_engine(&result)?;
            if records.results.iter().any(|other| is_same(other, &result)) {
                return Err(Failure::usage(format!(
                    "run {} is named twice, the second time as {}: its records would count twice",
                    result.run,
                    path.display()
                ))
                .hint("name every run once"));
            }
            let folder = Folder::open(path);
            let (requests, beyond) = requests(&folder, number * FOLDER)?;
            records.runs.push(Run {
                requests,
                beyond,
                kv_usage: kv_usage(&folder),
            });
            records.results.push(result);
        }
        records.sample(step_tokens.map(f64::from));
        records.balance();
        Ok(records)
    }

    /// Single steps where all folders kept gaps; else whole requests, else load points.
    fn sample(&mut self, step_tokens: Option<f64>) {
        let gaps = |run: &Run| run.requests.iter().any(|r| r.events.len() > 1);
        if self.runs.iter().all(gaps) {
            for run in &self.runs {
                let steps = steps_of(&run.requests, step_tokens);
                self.samples.extend(steps.samples);
                self.unclear += steps.unclear;
                self.waiting += steps.waiting;
            }
            return;
        }
        if self.runs.iter().all(|run| !run.requests.is_empty()) {
            self.samples_are = "requests";
            self.samples = self
                .runs
                .iter()
                .flat_map(|run| requests_of(&run.requests))
                .collect();
            return;
        }
        self.samples_are = "points";
        for (number, result) in (0_u32..).zip(&self.results) {
            let facts = result
                .points
                .iter()
                .filter_map(|p| facts(p, number * FOLDER));
            self.samples.extend(facts.flat_map(|f| f.samples()));
        }
    }

    /// Gives every load point the same say. A low load has the most steps and the least to tell of the
    /// loads above it; where the form does not fit the engine quite, the fit should be off alike
    /// everywhere. Means of load points count by their requests, as they are.
    fn balance(&mut self) {
        if self.samples_are == "points" {
            return;
        }
        let mut counts: BTreeMap<u32, f64> = BTreeMap::new();
        for sample in &self.samples {
            *counts.entry(sample.point).or_default() += 1.0;
        }
        let each = self.samples.len() as f64 / counts.len().max(1) as f64;
        for sample in &mut self.samples {
            sample.weight = each / counts[&sample.point];
        }
    }

    /// Load points that can be sent again to a simulated engine, as they were sent.
    pub(super) fn replayed(&self) -> Vec<Replayed> {
        let mut points = Vec::new();
        for (number, (run, result)) in (0_u32..).zip(self.runs.iter().zip(&self.results)) {
            for row in result.points.iter().filter(|p| p.valid || self.untrusted) {
                let point = number * FOLDER + row.point;
                let own = run.requests.iter().filter(|r| r.point == point);
                let own: Vec<Observed> = own.cloned().collect();
                points.extend(Replayed::of(&own, row.concurrency));
            }
        }
        points
    }

    /// Samples of load points that are valid in their own run. Those of no point (warm-up) are as good
    /// as the run's first one.
    pub(super) fn valid(&self) -> Vec<StepSample> {
        let invalid: BTreeSet<u32> = (0_u32..)
            .zip(&self.results)
            .flat_map(|(number, result)| {
                let own = result.points.iter().filter(|p| !p.valid);
                own.map(move |p| number * FOLDER + p.point)
            })
            .collect();
        let all = self.samples.iter().copied();
        all.filter(|s| !invalid.contains(&s.point)).collect()
    }

    /// The folders as typed.
    pub(super) fn names(&self) -> Vec<String> {
        self.folders
            .iter()
            .map(|f| f.display().to_string())
            .collect()
    }

    /// What the server's template adds to a prompt: the median of the tokens counted beyond those
    /// planned. `None` where it counted none.
    pub(super) fn template_tokens(&self) -> Option<u32> {
        let all = self.runs.iter().flat_map(|run| &run.beyond);
        let mut all: Vec<i64> = all.copied().collect();
        all.sort_unstable();
        let median = *all.get(all.len() / 2)?;
        Some(u32::try_from(median).unwrap_or(0))
    }

    /// The shortest and the longest prompt.
    pub(super) fn prompts(&self) -> Option<Extent> {
        let all = self.runs.iter().flat_map(|run| &run.requests);
        extent(all.map(|r| r.input))
    }

    /// The lowest and the highest rate of requests that ended.
    pub(super) fn rates(&self) -> Option<Extent> {
        let points = self.results.iter().flat_map(|r| &r.points);
        extent(points.map(|p| p.completed_req_s))
    }

    /// What a reader should know of the records.
    pub(super) fn warnings(&self, pauses: usize, coefficients: usize) -> Vec<String> {
        let mut said = Vec::new();
        if self.samples.len() < 3 * coefficients {
            said.push(format!(
                "{} samples for {coefficients} coefficients: the fit meets them closely whatever they are, and its error says nothing",
                self.samples.len()
            ));
        }
        if self.samples_are != "steps" {
            said.push(format!(
                "tokens' instants were not kept, so a sample is the mean step of one of the {}: coefficients that act on single steps are told apart poorly; measure with --keep-gaps",
                self.samples_are
            ));
        }
        let steps = self.samples.len() + self.unclear + self.waiting;
        if self.unclear * 5 > steps {
            said.push(format!(
                "in {} of {steps} steps it is not clear who took part: tokens of one step came far apart, or several at once",
                self.unclear
            ));
        }
        if self.waiting * 2 > steps {
            said.push(format!(
                "in {} of {steps} steps prompts waited: measure lower loads",
                self.waiting
            ));
        }
        if pauses * 20 > self.samples.len() {
            said.push(format!(
                "{pauses} of {} samples are much longer than the fit: preemptions, other work on the machine, or a form that does not fit this engine",
                self.samples.len()
            ));
        }
        let invalid = self
            .results
            .iter()
            .flat_map(|r| &r.points)
            .filter(|p| !p.valid)
            .count();
        if invalid > 0 && self.untrusted {
            said.push(format!("{invalid} load points are invalid in their own run, and the others are not enough: all are used, and the profile is not to be trusted (exit 3)"));
        } else if invalid > 0 {
            said.push(format!(
                "{invalid} load points are invalid in their own run and left out"
            ));
        }
        said
    }
}

fn extent(values: impl Iterator<Item = f64>) -> Option<Extent> {
    values.fold(None, |extent: Option<Extent>, v| {
        let Extent { min, max } = extent.unwrap_or(Extent { min: v, max: v });
        Some(Extent {
            min: min.min(v),
            max: max.max(v),
        })
    })
}

/// Whether two documents are of one run. Simulated runs of one seed share their name.
fn is_same(one: &RunResult, other: &RunResult) -> bool {
    one.run == other.run && one.epoch_unix_ns == other.epoch_unix_ns
}

/// Whose batch a request was in is only known of one replica.
fn one_engine(result: &RunResult) -> Result<(), Failure> {
    let most = result.points.iter().filter_map(|p| p.server.as_ref());
    let most = most.map(|w| w.replicas_seen).max().unwrap_or(1);
    if most > 1 {
        return Err(Failure::usage(format!(
            "{most} replicas answered in run {}: which request was in whose batch is not known",
            result.run
        ))
        .hint("measure one replica by itself"));
    }
    Ok(())
}

/// The requests, and by how many tokens each prompt was longer than planned.
fn requests(folder: &Folder, first: u32) -> Result<(Vec<Observed>, Vec<i64>), Failure> {
    let file = folder.file("requests.jsonl");
    let (mut requests, mut beyond) = (Vec::new(), Vec::new());
    if file.exists() {
        each_request(&file, |row| {
            let record = row.to_record(SeriesId::default());
            let (arrival, end) = (record.summary.arrival(), record.summary.end());
            let counted = end.input_tokens.map(i64::from);
            beyond.extend(counted.map(|n| n - i64::from(arrival.planned_input_tokens)));
            requests.extend(Observed::of(first + row.point, &record));
        })?;
    }
    Ok((requests, beyond))
}

/// What `server_metrics.jsonl` has of the KV cache's usage; nothing where there is none.
fn kv_usage(folder: &Folder) -> Vec<(f64, f64)> {
    const NAMES: [&str; 3] = [
        "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc",
        "sglang:token_usage",
    ];
    let Ok(text) = fs::read_to_string(folder.file("server_metrics.jsonl")) else {
        return Vec::new();
    };
    let look = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).ok()?;
        let name = row.get("name")?.as_str()?;
        if !NAMES.iter().any(|known| name.starts_with(known)) {
            return None;
        }
        let at = goodput_record::Timestamp::from_nanos(row.get("t_ns")?.as_u64()?);
        Some((at.seconds(), row.get("value")?.as_f64()?))
    };
    let lines = text.lines().filter(|line| line.contains("usage"));
    lines.filter_map(look).collect()
}

/// A row of figures as a sample's facts: medians where means are not kept.
fn facts(row: &PointRow, first: u32) -> Option<PointFacts> {
    let tpot_s = row.tpot_mean_ms? / 1e3;
    let input = row.lengths.input[0].or(row.lengths.planned_input[0])?;
    Some(PointFacts {
        point: first + row.point,
        users: row.concurrency.map(f64::from),
        requests_s: Some(row.completed_req_s),
        ttft_s: row.ttft_p50_ms.map(|ms| ms / 1e3),
        ..PointFacts::fixed_lengths(input, row.lengths.output_mean?, tpot_s)
    })
}
