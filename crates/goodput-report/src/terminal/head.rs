//! What was tested, and whether the tester itself kept up.

use goodput_ledger::PointRow;
use goodput_sweep::{HoldsFor, RunResult, ServerFacts, WorkloadFacts};

use crate::{
    number::{NONE, number, number_or_none, percent_short},
    style::{Ink, Style, wrap},
};

/// Columns before the facts of a line.
const LABEL: usize = 10;

/// The lines that say what server, SLO and workload the figures are about.
#[must_use]
pub fn head(holds_for: &HoldsFor, style: Style) -> String {
    let mut out = line("server", &server(holds_for), style);
    for slo in &holds_for.slos {
        out += &line("slo", &format!("{}: {}", slo.name, slo.sentence), style);
    }
    out + &line("workload", &workload(&holds_for.workload), style)
}

/// The line that says whether the load generator kept its schedule, by the worst of the points.
#[must_use]
pub fn client(result: &RunResult, style: Style) -> String {
    if result.holds_for.server.simulated.is_some() {
        let facts = "none: computed in virtual time, as the engine sees its requests";
        return line("client", facts, style);
    }
    let points = &result.points;
    let worst = |of: fn(&PointRow) -> Option<f64>| {
        points
            .iter()
            .filter_map(of)
            .fold(None, |most: Option<f64>, v| {
                Some(most.map_or(v, |m| m.max(v)))
            })
    };
    let lag = worst(|p| p.send_lag_p99_ms);
    let cpu = worst(|p| p.client_cpu_share).map_or_else(|| NONE.to_owned(), percent_short);
    let invalid = points.iter().filter(|p| !p.valid).count();
    let trust = match (points.len(), invalid) {
        (0, _) => "nothing measured".to_owned(),
        // Another tool took the figures.
        _ if points
            .iter()
            .all(|p| p.loop_lag_p99_ms.is_none() && p.client_cpu_share.is_none()) =>
        {
            "not watched by who took these figures".to_owned()
        }
        (_, 0) => "trusted".to_owned(),
        (all, bad) if all == bad => style.paint(Ink::Alarm, "not trusted: no point is valid"),
        (all, bad) => format!("{} of {all} points trusted", all - bad),
    };
    let lag = lag.map_or_else(|| NONE.to_owned(), |ms| format!("{} ms", number(ms)));
    line(
        "client",
        &format!("send lag p99 {lag} | cpu {cpu} | {trust}"),
        style,
    )
}

fn line(label: &str, text: &str, style: Style) -> String {
    let label = style.paint(Ink::Faint, &format!("{label:<LABEL$}"));
    let indent = " ".repeat(LABEL);
    let lines = wrap(text, style.width.saturating_sub(LABEL).max(30));
    label + &lines.join(&format!("\n{indent}")) + "\n"
}

fn server(holds_for: &HoldsFor) -> String {
    let mut facts = vec![holds_for.model.clone(), engine(&holds_for.server)];
    let flags = &holds_for.server.flags;
    facts.extend(flags.iter().map(|(name, value)| format!("{name} {value}")));
    if let Some(gpus) = holds_for.gpus {
        facts.push(format!("{gpus} GPUs"));
    }
    if let Some(hardware) = &holds_for.hardware {
        facts.push(format!("{} x {}", hardware.count, hardware.accelerator));
    }
    let server = &holds_for.server;
    if let Some(simulated) = &server.simulated {
        facts.extend(
            simulated
                .what_if
                .iter()
                .map(|what| format!("WHAT IF {what}")),
        );
        facts.extend(
            simulated
                .fitted_on
                .iter()
                .map(|on| format!("fitted on {on}")),
        );
    }
    if !server.faults.is_empty() {
        facts.push(format!("FAULTS {}", server.faults.join(", ")));
    }
    facts.extend(server.seen.clone());
    facts.extend(
        server
            .not_watched
            .as_ref()
            .map(|why| format!("not watched: {why}")),
    );
    facts.push(server.url.clone());
    facts.retain(|fact| !fact.is_empty());
    facts.join(" | ")
}

/// The engine with its version; an emulated or a simulated one says so first.
pub(crate) fn engine(server: &ServerFacts) -> String {
    let name = match (&server.engine, &server.version) {
        (Some(engine), Some(version)) => format!("{engine} {version}"),
        (Some(engine), None) => engine.clone(),
        (None, _) => "engine not known".to_owned(),
    };
    if let Some(simulated) = &server.simulated {
        return format!(
            "SIMULATED from profile {}: no figure was measured",
            simulated.profile
        );
    }
    if server.emulated {
        format!("EMULATED {name}: no figure is about real hardware")
    } else {
        name
    }
}

fn workload(facts: &WorkloadFacts) -> String {
    let lengths =
        |[p50, p90, p99]: [f64; 3]| format!("{}/{}/{}", whole(p50), whole(p90), whole(p99));
    format!(
        "{}: in {}  out {} tokens (p50/p90/p99) | prefix reuse {} | {}",
        facts.name,
        lengths(facts.input),
        lengths(facts.output),
        percent_short(facts.cached_share),
        facts.output_policy,
    )
}

fn whole(tokens: f64) -> String {
    number_or_none(Some(tokens.round())).replace(',', "")
}
