//! What was tested, what was found beside the answers, what words mean, where the data is.

use goodput_sweep::{Finding, RunResult, SimulatedFacts, SloFacts};

use super::text::{escape, pairs, prose, sentence_case};
use crate::number::{NONE, number, percent_short, span};

/// What takes trust away from the answers, before anyone acts on them.
pub(super) fn read_first(result: &RunResult) -> String {
    let mut notes: Vec<String> = Vec::new();
    if !result.complete {
        let why = result
            .incomplete_because
            .as_deref()
            .unwrap_or("it was stopped");
        notes.push(format!(
            "The run is not complete: {why}. The figures cover what was measured until then."
        ));
    }
    if let Some(simulated) = &result.holds_for.server.simulated {
        notes.push(computed(simulated));
    }
    if result.holds_for.server.emulated {
        notes.push(
            "The server was an emulated replica. No figure here is about real hardware.".to_owned(),
        );
    }
    let severe = result.findings.iter().filter(|finding| finding.severe);
    notes.extend(severe.map(one_sentence));
    if notes.is_empty() {
        return String::new();
    }
    let items: Vec<String> = notes
        .iter()
        .map(|note| format!("<li>{}</li>", prose(note)))
        .collect();
    format!(
        "<aside class=\"first\"><h3>Read this first</h3><ul>{}</ul></aside>\n",
        items.concat()
    )
}

/// What the figures of a simulated replica rest on.
fn computed(simulated: &SimulatedFacts) -> String {
    let changed = if simulated.what_if.is_empty() {
        String::new()
    } else {
        format!(", with {}", simulated.what_if.join(", "))
    };
    let fitted = simulated.fitted_on.as_ref().map_or_else(String::new, |on| {
        format!(" It was fitted on {on}; beyond that it extrapolates.")
    });
    format!(
        "Nothing here was measured: a replica was computed in virtual time from the profile {}{changed}. \
         The profile's numbers: {}.{fitted}",
        simulated.profile,
        simulated.source.trim().trim_end_matches('.'),
    )
}

fn one_sentence(finding: &Finding) -> String {
    if finding.advice.is_empty() {
        return finding.evidence.clone();
    }
    format!(
        "{}. {}",
        finding.evidence.trim_end_matches('.'),
        sentence_case(&finding.advice)
    )
}

pub(super) fn findings(result: &RunResult) -> String {
    let article = |finding: &Finding| {
        let class = if finding.severe {
            "finding severe"
        } else {
            "finding"
        };
        let advice = if finding.advice.is_empty() {
            String::new()
        } else {
            format!("<p class=\"advice\">{}</p>", prose(&finding.advice))
        };
        format!(
            "<article class=\"{class}\"><h3>{}</h3><p>{}</p>{advice}</article>\n",
            escape(&heading(&finding.name)),
            prose(&finding.evidence),
        )
    };
    result.findings.iter().map(article).collect()
}

/// A finding's stable name as a heading: `closed-loop-queue` is "Closed loop queue", `tpot-under-floor`
/// "TPOT under floor".
fn heading(name: &str) -> String {
    let word = |word: &str| match word {
        "ttft" | "tpot" | "e2e" | "slo" => word.to_uppercase(),
        plain => plain.to_owned(),
    };
    let words: Vec<String> = name.split('-').map(word).collect();
    let words = words.join(" ");
    let mut characters = words.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

pub(super) fn tested(result: &RunResult) -> String {
    let mut out = String::from("<div class=\"facts-grid\">");
    for slo in &result.holds_for.slos {
        out += &block(&format!("SLO: {}", slo.name), &slo_facts(slo));
    }
    out += &block("Workload", &workload(result));
    out += &block("Server", &server(result));
    out += &block("Run", &run(result));
    out + "</div>\n"
}

fn block(heading: &str, html: &str) -> String {
    format!("<div><h3>{}</h3>{html}</div>\n", escape(heading))
}

fn slo_facts(slo: &SloFacts) -> String {
    let clauses: Vec<&str> = slo
        .clauses
        .iter()
        .map(|clause| clause.clause.as_str())
        .collect();
    pairs([
        ("In a sentence", slo.sentence.clone()),
        ("Clauses", clauses.join(", ")),
        (
            "Objective",
            format!(
                "{} over {} days",
                percent_short(slo.objective),
                number(slo.window_days)
            ),
        ),
        ("Why", slo.reason.clone()),
    ])
}

fn workload(result: &RunResult) -> String {
    let facts = &result.holds_for.workload;
    let lengths = |v: [f64; 3]| v.map(number).join(" / ") + " tokens (p50 / p90 / p99)";
    pairs([
        ("Name", facts.name.clone()),
        ("Source", facts.source.clone()),
        ("Input", lengths(facts.input)),
        ("Output", lengths(facts.output)),
        ("Reusable prefix", percent_short(facts.cached_share)),
        ("Arrivals", facts.arrivals.clone()),
        ("Output policy", facts.output_policy.clone()),
        ("Prompts", facts.prompts.clone()),
        ("Lengths counted by", facts.counted_by.clone()),
    ])
}

fn server(result: &RunResult) -> String {
    let (server, holds) = (&result.holds_for.server, &result.holds_for);
    let flags: Vec<String> = server
        .flags
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let hardware = holds.hardware.as_ref().map_or_else(String::new, |h| {
        let (count, name, bits) = (h.count, &h.accelerator, h.weight_bits);
        let read = number(h.weight_read_ms);
        format!("{count} x {name}; reading weights of {bits} bits once takes {read} ms")
    });
    let unseen = server.not_watched.as_ref();
    let watched = unseen.map(|why| format!("no: {why}"));
    pairs([
        ("Model", holds.model.clone()),
        ("Engine", crate::terminal::engine(server)),
        ("URL", server.url.clone()),
        (
            "GPUs",
            holds.gpus.map_or_else(String::new, |n| n.to_string()),
        ),
        ("Hardware", hardware),
        ("Settings", flags.join(", ")),
        ("Faults asked for", server.faults.join(", ")),
        (
            "Watched",
            server.seen.clone().or(watched).unwrap_or_default(),
        ),
        ("Holds for", holds.boot.clone()),
    ])
}

fn run(result: &RunResult) -> String {
    let most = |of: fn(&goodput_ledger::PointRow) -> Option<f64>| {
        result.points.iter().filter_map(of).reduce(f64::max)
    };
    let lag = most(|p| p.send_lag_p99_ms)
        .map_or_else(|| NONE.to_owned(), |ms| format!("{} ms", number(ms)));
    let cpu = most(|p| p.client_cpu_share).map_or_else(|| NONE.to_owned(), percent_short);
    let settings: Vec<String> = result
        .settings
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let valid = result.points.iter().filter(|p| p.valid).count();
    pairs([
        (
            "Started",
            result.started.replace('T', " ").replace('Z', " UTC"),
        ),
        ("Took", span(result.duration_s)),
        (
            "Points",
            format!("{}, of which {valid} valid", result.points.len()),
        ),
        (
            "Load generator",
            format!("send lag p99 {lag}, CPU {cpu} of one core, at its worst point"),
        ),
        ("Seed", result.seed.to_string()),
        ("Settings", settings.join(" ")),
        ("Program", format!("goodput {}", result.goodput_version)),
    ])
}

pub(super) fn definitions(result: &RunResult) -> String {
    if result.definitions.is_empty() {
        return String::new();
    }
    let items = result
        .definitions
        .iter()
        .map(|(name, text)| (name.as_str(), text.clone()));
    format!("<div class=\"definitions\">{}</div>", pairs(items))
}

pub(super) fn files(result: &RunResult) -> String {
    let file = |name: &str, what: &str| format!("<li><a href=\"{name}\">{name}</a> {what}</li>");
    format!(
        "<p class=\"note\">Beside this page, in the folder of run {}:</p><ul>{}{}{}{}</ul>\n",
        escape(&result.run),
        file("result.json", "everything here as numbers"),
        file("points.csv", "one load point a line"),
        file("requests.jsonl", "one request a line"),
        file(
            "server_metrics.jsonl",
            "what the server said of itself, where it did"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::heading;

    #[test]
    fn a_name_reads_as_a_heading() {
        assert_eq!(heading("closed-loop-queue"), "Closed loop queue");
        assert_eq!(heading("tpot-under-floor"), "TPOT under floor");
        assert_eq!(heading(""), "");
    }
}
