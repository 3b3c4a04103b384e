//! Closed loops: tables of concurrency, TTFT and TPOT.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use goodput_calibration::{Fit, Form, Load, PointFacts, Replica, Routing, Term};
use goodput_perf_model::Demand;

use crate::table::{Row, number, quantile, read, summary, text};

/// Lengths of a shape.
#[derive(Clone, Copy, Debug)]
struct Shape {
    input: f64,
    pairs: f64,
    output: f64,
    context: f64,
}

impl Shape {
    /// All requests alike.
    fn fixed(input: f64, output: f64) -> Self {
        Self {
            input,
            pairs: input * (input + 1.0) / 2.0,
            output,
            context: input + output / 2.0,
        }
    }

    /// Lengths uniform from 0.8 to 1.0 times the nominal ones, as `InferenceX` draws them: the mean is
    /// 0.9, the second moment 0.81 + 0.04 / 12.
    fn drawn(input: f64, output: f64) -> Self {
        let second = 0.81 + 0.04 / 12.0;
        Self {
            input: 0.9 * input,
            pairs: input * input * second / 2.0,
            output: 0.9 * output,
            context: 0.9 * input + output * second / (2.0 * 0.9),
        }
    }
}

/// One configuration: its curves by shape.
struct Group {
    name: String,
    routing: Option<Routing>,
    /// By nominal lengths: the shape, and (users, TTFT, TPOT, requests a second where told).
    curves: BTreeMap<(u32, u32), (Shape, Vec<Point>)>,
}

type Point = (f64, f64, f64, Option<f64>);

/// Experts of a layer and experts a token is sent to, by the models' published configs on the Hugging
/// Face hub. No entry: dense.
const ROUTING: [(&str, u32, u32); 7] = [
    ("Kimi-K2", 384, 8),
    ("MiniMax-M2", 256, 8),
    ("Qwen3-235B", 128, 8),
    ("Qwen3.5-397B", 512, 10),
    ("DeepSeek", 256, 8),
    ("gpt-oss-120b", 128, 4),
    ("GLM-5", 256, 8),
];

fn routing(model: &str) -> Option<Routing> {
    let (_, count, per_token) = *ROUTING.iter().find(|r| model.contains(r.0))?;
    Some(Routing { count, per_token })
}

/// TTFT times its smallest value at a lower concurrency, from which on users wait for a place (KV,
/// slots, the host's own limit) rather than for their prefill.
const WAITS: [f64; 3] = [2.0, 3.0, 4.0];

pub(crate) fn report(folder: &Path, rows: bool) {
    let groups = groups(folder);
    let central = groups.iter().filter(|g| rows && !g.is_p95());
    for (what, error) in central.flat_map(|g| asked(g, WAITS[0])) {
        println!("  {:>+6.1} %  {what}", 100.0 * error);
    }
    for (kind, goal, dense) in [("dense", 0.05, true), ("MoE", 0.10, false)] {
        for waits in WAITS {
            let what = format!("{kind}, TTFT below {waits} times its least");
            summary(&what, &errors(folder, dense, waits), goal);
        }
    }
    for name in ["Llama-3.1-70B", "Llama-3.1-8B", "Qwen3-32B", "Qwen3-8B"] {
        let errors: Vec<f64> = groups
            .iter()
            .filter(|g| g.name.contains(name))
            .flat_map(|g| asked(g, WAITS[0]))
            .map(|a| a.1)
            .collect();
        let note = if name == "Qwen3-8B" {
            " (p95 of TPOT, not in the above)"
        } else {
            ""
        };
        summary(&format!("  {name}{note}"), &errors, 0.05);
    }
}

/// Relative errors of all predictions, of dense models or of mixtures of experts.
pub(crate) fn errors(folder: &Path, dense: bool, waits: f64) -> Vec<f64> {
    let groups = groups(folder);
    let own = groups
        .iter()
        .filter(|g| g.routing.is_none() == dense && !g.is_p95());
    own.flat_map(|g| asked(g, waits)).map(|a| a.1).collect()
}

/// The highest concurrency of each curve, predicted from the lower ones: name and relative error.
fn asked(group: &Group, waits: f64) -> Vec<(String, f64)> {
    let mut samples = Vec::new();
    let mut targets = Vec::new();
    for (number, ((isl, osl), (shape, points))) in (0_u32..).zip(&group.curves) {
        let free = unhindered(shape, points, waits);
        let Some((target, lower)) = free.split_last().filter(|(_, lower)| lower.len() >= 2) else {
            continue;
        };
        for &(users, ttft, tpot, rate) in lower {
            let facts = PointFacts {
                point: number,
                users: Some(users),
                requests_s: rate,
                input: shape.input,
                pairs: shape.pairs,
                output: shape.output,
                context: shape.context,
                tpot_s: tpot,
                ttft_s: Some(ttft),
                weight: users * users,
            };
            samples.extend(facts.samples());
        }
        targets.push((
            format!("{} {isl}/{osl} x{}", group.name, target.0),
            *shape,
            *target,
        ));
    }
    let form = Form {
        routing: group.routing,
        ..Form::default()
    };
    if samples.len() < 4 {
        return Vec::new();
    }
    let Ok(fit) = Fit::of(&samples, form, &[]) else {
        return Vec::new();
    };
    let replica = Replica {
        step: form.step_time(&fit.theta, None),
        ingest_s: fit.get(Term::Ingest).unwrap_or(0.0),
        slots: f64::INFINITY,
    };
    targets
        .into_iter()
        .filter_map(|(what, shape, (users, _, tpot, _))| {
            let means = replica.means(&demand(&shape), Load::Users(users))?;
            Some((what, means.tpot_s / tpot - 1.0))
        })
        .collect()
}

fn demand(shape: &Shape) -> Demand {
    Demand {
        prefill_tokens: shape.input,
        prefill_pairs: shape.pairs,
        output_tokens: shape.output,
        context_tokens: shape.context,
    }
}

/// The points of a curve up to the first at which users wait for a place: the TTFT jumps, or more than
/// a fifth of a request's time goes by before its first token.
fn unhindered(shape: &Shape, points: &[Point], waits: f64) -> Vec<Point> {
    let mut free: Vec<Point> = Vec::new();
    for &point in points {
        let (users, ttft, tpot, rate) = point;
        let decoding = tpot * (shape.output - 1.0);
        let share = rate.map_or(ttft / (ttft + decoding), |x| 1.0 - x * decoding / users);
        let least = free.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
        // Where requests a second are told, the TTFT beside them is a p95 of everybody's first request.
        let jumps = rate.is_none() && ttft > waits * least;
        if users > 8.0 && (share > 0.2 || jumps) {
            break;
        }
        free.push(point);
    }
    free
}

fn groups(folder: &Path) -> Vec<Group> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for row in read(&folder.join("silicon_agg.csv.gz")) {
        let key = [
            "model",
            "gpu",
            "precision",
            "backend",
            "backend_version",
            "source_class",
            "tp_size",
            "pp_size",
            "attention_dp_size",
            "moe_tp_size",
            "moe_ep_size",
        ];
        let name = key.map(|k| text(&row, k)).join(" ");
        let drawn = text(&row, "source_class") != "local-aic-gap-analysis";
        add(
            &mut groups,
            name,
            &row,
            drawn,
            ["concurrency", "ttft_ms", "tpot_ms", ""],
        );
    }
    for row in read(&folder.join("silybench_sweep.csv")) {
        let name = format!(
            "{} {} {}",
            text(&row, "model"),
            text(&row, "gpu"),
            text(&row, "precision")
        );
        let columns = ["concurrency", "ttft_p95_ms", "tpot_p95_ms", "req_s"];
        add(&mut groups, name, &row, false, columns);
    }
    for row in read(&folder.join("doc_concurrency_tables.csv")) {
        if text(&row, "lengths") == "stated" {
            let name = ["model", "engine", "gpu", "n_gpu", "precision"].map(|k| text(&row, k));
            let columns = ["concurrency", "ttft_avg_ms", "itl_avg_ms", ""];
            add(&mut groups, name.join(" "), &row, false, columns);
        }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.iter_mut().for_each(Group::settle);
    // The same run is published under several dates and names: it counts once.
    let mut seen = BTreeSet::new();
    for group in &mut groups {
        group.curves.retain(|_, (_, points)| {
            let print = |p: &Point| p.0.to_bits() ^ p.2.to_bits().rotate_left(20);
            seen.insert(points.iter().map(print).collect::<Vec<u64>>())
        });
    }
    // A hybrid of attention and state-space layers is no transformer.
    groups.retain(|g| !g.name.contains("Nemotron"));
    groups
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lengths of prompts"
)]
fn add(
    groups: &mut BTreeMap<String, Group>,
    name: String,
    row: &Row,
    drawn: bool,
    columns: [&str; 4],
) {
    let of = |column: &str| number(row, column);
    let (Some(users), Some(ttft), Some(tpot)) = (of(columns[0]), of(columns[1]), of(columns[2]))
    else {
        return;
    };
    let (Some(isl), Some(osl)) = (of("isl"), of("osl")) else {
        return;
    };
    let group = groups.entry(name.clone()).or_insert_with(|| Group {
        routing: routing(&name),
        name,
        curves: BTreeMap::new(),
    });
    let shape = if drawn {
        Shape::drawn(isl, osl)
    } else {
        Shape::fixed(isl, osl)
    };
    let curve = group
        .curves
        .entry((isl as u32, osl as u32))
        .or_insert((shape, Vec::new()));
    curve
        .1
        .push((users, ttft / 1e3, tpot / 1e3, of(columns[3])));
}

impl Group {
    /// Whether its TPOT is a p95: such a table tells its own requests a second.
    fn is_p95(&self) -> bool {
        self.curves
            .values()
            .flat_map(|c| &c.1)
            .any(|p| p.3.is_some())
    }

    /// Curves in order of users, several measurements of one load as their median.
    fn settle(&mut self) {
        for (_, points) in self.curves.values_mut() {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut settled: Vec<Point> = Vec::new();
            for same in points.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
                let median = |f: &dyn Fn(&Point) -> f64| {
                    quantile(&same.iter().map(f).collect::<Vec<f64>>(), 0.5)
                };
                let rate = same[0].3.map(|_| median(&|p| p.3.unwrap_or(f64::NAN)));
                settled.push((same[0].0, median(&|p| p.1), median(&|p| p.2), rate));
            }
            *points = settled;
        }
    }
}
