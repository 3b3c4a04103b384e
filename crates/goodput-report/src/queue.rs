//! How long requests wait: the face of `plan queue`.

use goodput_perf_model::queueing::{
    Change, Formula, FormulaRow, Held, LadderRow, Lever, LeverRow, Overview, Question, QueueError,
    View, Views,
};
use serde_json::{Value, json};

use crate::{
    json::document,
    number::{NONE, number, percent, percent_short, span},
    style::{Ink, Style, wrap},
};

/// What is shown.
#[derive(Clone, Debug)]
pub struct Document {
    /// The load that was asked about.
    pub question: Question,
    /// What formulas say of it; `None`: it has no steady state.
    pub answer: Option<Overview>,
    /// A replica seen as servers, where one was named.
    pub views: Option<Views>,
}

/// The finding on variance: where the essay's sentence holds.
#[must_use]
pub fn lever_finding(lever: &Lever) -> String {
    let cut = percent_short(lever.base.cut);
    let at_rate = match lever.scv_at_rate {
        Some(scv) => format!(
            "only an SCV of service times above {} would turn that here",
            number(scv)
        ),
        None => "at this utilization no spread of service times turns that".to_owned(),
    };
    let holds = lever.base.scv_service > lever.scv_at_utilization;
    format!(
        "\"Reducing variance improves the tail more than a proportional reduction in mean service time\" does not hold at a fixed \
         rate, where a mean smaller by {cut} also empties the server: {at_rate}. It holds at a fixed utilization, and \
         only against a smaller mean that leaves the long requests long, for an SCV above {}: here it is {}, so it {}. \
         If all times shrink alike, the mean always wins.",
        number(lever.scv_at_utilization),
        number(lever.base.scv_service),
        if holds { "holds" } else { "does not hold" },
    )
}

/// The whole as terminal text.
#[must_use]
pub fn human(document: &Document, style: Style) -> String {
    let question = &document.question;
    let mut out = head(document);
    if let Some(views) = &document.views {
        out.push_str(&views_table(views, question.rate_per_s, style));
    }
    let Some(answer) = &document.answer else {
        out.push_str(&unstable(question, style));
        return out;
    };
    out.push_str(&formulas_table(answer, style));
    out.push_str(&ladder_table(answer, style));
    out.push_str(&lever_table(&answer.lever, style));
    out.push_str(&meanings(answer, style));
    out
}

fn head(document: &Document) -> String {
    let q = &document.question;
    let servers = match q.servers.get() {
        1 => "1 server".to_owned(),
        n => format!("{n} servers"),
    };
    let mut out = format!(
        "queue     {} req/s | service {} (1/mu) | {servers} | SCV arrivals {}, service {}\n",
        number(q.rate_per_s),
        span(q.service_s),
        number(q.scv_arrivals),
        number(q.scv_service),
    );
    let load = match &document.answer {
        Some(answer) => format!(
            "utilization {} | {} servers busy on average | {}% of requests wait (Erlang C)",
            number(answer.utilization),
            number(answer.erlangs),
            percent(Some(answer.delayed)),
        ),
        None => format!("utilization {} | unstable", number(utilization(q))),
    };
    out.push_str(&format!("load      {load}\n"));
    out
}

fn utilization(q: &Question) -> f64 {
    q.rate_per_s * q.service_s / f64::from(q.servers.get())
}

/// Servers at which the load would have a steady state: more than it keeps busy.
fn servers_at_least(q: &Question) -> f64 {
    (q.rate_per_s * q.service_s).floor() + 1.0
}

fn unstable(q: &Question, style: Style) -> String {
    let words = format!(
        "UNSTABLE  more comes in than goes out: the queue grows without end, and no wait is its mean. It takes at \
         least {} servers, or fewer than {} req/s, to have one.",
        number(servers_at_least(q)),
        number(f64::from(q.servers.get()) / q.service_s),
    );
    let lines = wrap(&words, style.width);
    format!("\n{}\n", style.paint(Ink::Alarm, &lines.join("\n")))
}

fn heading(text: &str, style: Style) -> String {
    format!("\n{}\n", style.paint(Ink::Heading, text))
}

fn formulas_table(answer: &Overview, style: Style) -> String {
    let service = answer.question.service_s;
    let mut out = heading(
        "WAIT BEFORE SERVICE             mean      p50       p99   mean in services",
        style,
    );
    for row in &answer.formulas {
        let FormulaRow {
            formula,
            wait_s,
            wait_p50_s,
            wait_p99_s,
        } = *row;
        let about = |exact: bool, text: String| if exact { text } else { format!("~{text}") };
        let quantile = |s: f64| about(formula.quantiles_are_exact(), wait(s));
        out.push_str(&format!(
            "{:<26}{:>10}{:>9}{:>10}{:>19}\n",
            formula.name(),
            about(formula.mean_is_exact(), wait(wait_s)),
            quantile(wait_p50_s),
            quantile(wait_p99_s),
            services(wait_s / service),
        ));
    }
    out.push_str("~ approximate: quantiles take a delayed request's wait as exponential; heavy tails are longer\n");
    out
}

/// A wait. One that is not none never reads as none.
fn wait(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0 ms".to_owned();
    }
    if seconds < 5e-5 {
        return "<0.1 ms".to_owned();
    }
    span(seconds)
}

/// A wait in service times.
fn services(times: f64) -> String {
    if times > 0.0 && times < 5e-5 {
        return "<0.0001".to_owned();
    }
    number(times)
}

fn ladder_table(answer: &Overview, style: Style) -> String {
    let name = if answer.question.servers.get() == 1 {
        Formula::Kingman.name()
    } else {
        Formula::AllenCunneen.name()
    };
    let mut out = heading(
        "UTILIZATION    req/s      mean       p99   mean in services",
        style,
    );
    for row in &answer.ladder {
        let LadderRow {
            utilization,
            rate_per_s,
            wait_s,
            service_times,
            wait_p99_s,
        } = *row;
        let pool = if (0.6..=0.75).contains(&utilization) {
            "   interactive pools"
        } else {
            ""
        };
        out.push_str(&format!(
            "{:>11}{:>9}{:>10}{:>10}{:>19}{pool}\n",
            number(utilization),
            number(rate_per_s),
            wait(wait_s),
            wait(wait_p99_s),
            services(service_times),
        ));
    }
    out.push_str(&format!("by {name}, with the SCVs above\n"));
    out
}

const fn change_words(change: Change) -> &'static str {
    match change {
        Change::None => "as it is",
        Change::LessVariance => "less variance, same mean",
        Change::SmallerMean => "smaller mean, all times shrink alike",
        Change::SmallerMeanSameVariance => "smaller mean, same variance",
    }
}

/// Below such a mean wait, in seconds, there is nothing for a lever to move.
const HARDLY_ANY_S: f64 = 5e-5;

fn lever_table(lever: &Lever, style: Style) -> String {
    if lever.before.wait_s < HARDLY_ANY_S {
        let title = heading("VARIANCE AS A LEVER", style);
        let words = "hardly a request waits at this utilization: neither less variance nor a smaller mean moves anything";
        return format!("{title}{words}\n");
    }
    let cut = percent_short(lever.base.cut);
    let title = format!(
        "{:<43}utilization    mean   change      p99   p99 engine",
        format!("VARIANCE AS A LEVER, each cut by {cut}")
    );
    let mut out = heading(&title, style);
    let before = &lever.before;
    let row = |row: &LeverRow, indent: &str| {
        let change = (row.wait_s / before.wait_s - 1.0) * 100.0;
        let change = match row.change {
            Change::None => NONE.to_owned(),
            _ => format!("{change:+.0}%"),
        };
        format!(
            "{:<43}{:>11}{:>8}{:>9}{:>9}{:>13}\n",
            format!("{indent}{}", change_words(row.change)),
            number(row.utilization),
            wait(row.wait_s),
            change,
            format!("~{}", wait(row.wait_p99_s)),
            row.engine_p99_s.map_or_else(|| NONE.to_owned(), wait),
        )
    };
    out.push_str(&row(before, ""));
    for (held, words) in [
        (Held::Rate, "at the same rate"),
        (Held::Utilization, "at the same utilization, the rest sold"),
    ] {
        out.push_str(&format!("{words}\n"));
        for one in lever.rows.iter().filter(|row| row.held == held) {
            out.push_str(&row(one, "  "));
        }
    }
    if before.engine_p99_s.is_some() {
        out.push_str(
            "p99 engine: through the simulated engine, to within about 12%; ~ is a formula's\n",
        );
    }
    for line in wrap(&lever_finding(lever), style.width) {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

const VIEWS: [&str; 3] = [
    "a request that is alone",
    "one over the peak rate",
    "places as servers",
];

fn views_of(views: &Views) -> [&View; 3] {
    [&views.alone, &views.peak_rate, &views.places]
}

fn views_table(views: &Views, rate: f64, style: Style) -> String {
    let mut out = heading(
        "WHAT 1/mu IS              servers   service   utilization   mean wait (M/M/1, M/M/k)",
        style,
    );
    for (name, view) in VIEWS.iter().zip(views_of(views)) {
        let waits = match &view.wait_s {
            Ok(seconds) => wait(*seconds),
            Err(QueueError::Unstable { .. }) => "unstable".to_owned(),
            Err(_) => NONE.to_owned(),
        };
        let servers = view.servers.get();
        out.push_str(&format!(
            "{name:<26}{servers:>7}{:>10}{:>14}{waits:>12}\n",
            span(view.service_s),
            number(rate * view.service_s / f64::from(servers)),
        ));
    }
    let ttft = match views.ttft_s {
        Some(seconds) => format!(
            "the engine itself: first token after {} on average",
            span(seconds)
        ),
        None => "the engine itself: past its capacity".to_owned(),
    };
    out.push_str(&format!(
        "the tables below take the last | {ttft} (mean field)\n"
    ));
    out
}

/// Where the words begin beside a formula's name.
const COLUMN: usize = 26;

fn meanings(answer: &Overview, style: Style) -> String {
    let mut out = heading("WHAT EACH MEANS FOR CONTINUOUS BATCHING", style);
    for row in &answer.formulas {
        let lines = wrap(row.formula.for_batching(), style.width - COLUMN);
        for (i, line) in lines.iter().enumerate() {
            let name = if i == 0 { row.formula.name() } else { "" };
            out.push_str(&format!("{name:<COLUMN$}{line}\n"));
        }
    }
    let mu = "1/mu: a batching engine works on many requests at once, so a request's time alone is no service time. Take \
              one over the peak request rate (one fast server), or a request's whole stay with places as servers \
              (--profile computes both).";
    for line in wrap(mu, style.width) {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// The same as one JSON document. Waits are in milliseconds.
#[must_use]
pub fn json(shown: &Document) -> String {
    let q = &shown.question;
    let answer = shown.answer.as_ref();
    document(&json!({
        "question": {
            "rate_req_s": q.rate_per_s, "service_ms": q.service_s * 1e3, "servers": q.servers,
            "scv_arrivals": q.scv_arrivals, "scv_service": q.scv_service, "cut": q.cut,
        },
        "stable": answer.is_some(),
        "utilization": utilization(q),
        "servers_at_least": servers_at_least(q),
        "delayed": answer.map(|a| a.delayed),
        "formulas": answer.map(|a| a.formulas.iter().map(formula_json).collect::<Vec<_>>()),
        "ladder": answer.map(|a| a.ladder.iter().map(ladder_json).collect::<Vec<_>>()),
        "variance_lever": answer.map(|a| lever_json(&a.lever)),
        "views": shown.views.as_ref().map(|v| views_json(v, q.rate_per_s)),
        "ttft_mean_field_ms": shown.views.as_ref().and_then(|v| v.ttft_s).map(|s| s * 1e3),
    }))
}

fn formula_json(row: &FormulaRow) -> Value {
    let formula = row.formula;
    json!({
        "formula": formula.name(), "wait_mean_ms": row.wait_s * 1e3, "wait_p50_ms": row.wait_p50_s * 1e3,
        "wait_p99_ms": row.wait_p99_s * 1e3, "mean_exact": formula.mean_is_exact(),
        "quantiles_exact": formula.quantiles_are_exact(), "for_batching": formula.for_batching(),
    })
}

fn ladder_json(row: &LadderRow) -> Value {
    json!({
        "utilization": row.utilization, "rate_req_s": row.rate_per_s, "wait_mean_ms": row.wait_s * 1e3,
        "wait_mean_services": row.service_times, "wait_p99_ms": row.wait_p99_s * 1e3,
    })
}

fn lever_json(lever: &Lever) -> Value {
    let row = |row: &LeverRow| {
        let change = match row.change {
            Change::None => "none",
            Change::LessVariance => "less_variance",
            Change::SmallerMean => "smaller_mean",
            Change::SmallerMeanSameVariance => "smaller_mean_same_variance",
        };
        let held = match row.held {
            Held::Rate => "rate",
            Held::Utilization => "utilization",
        };
        json!({
            "change": change, "held": held, "rate_req_s": row.rate_per_s, "service_ms": row.service_s * 1e3,
            "scv_service": row.scv_service, "utilization": row.utilization, "wait_mean_ms": row.wait_s * 1e3,
            "wait_p99_ms": row.wait_p99_s * 1e3, "wait_p99_engine_ms": row.engine_p99_s.map(|s| s * 1e3),
        })
    };
    json!({
        "before": row(&lever.before),
        "rows": lever.rows.iter().map(row).collect::<Vec<_>>(),
        "variance_wins_above_scv": {
            "at_utilization": lever.scv_at_utilization, "at_rate": lever.scv_at_rate,
        },
        "finding": lever_finding(lever),
    })
}

fn views_json(views: &Views, rate: f64) -> Value {
    let row = |(name, view): (&&str, &View)| {
        let servers = view.servers.get();
        json!({
            "one_over_mu": name, "servers": servers, "service_ms": view.service_s * 1e3,
            "utilization": rate * view.service_s / f64::from(servers),
            "wait_mean_ms": view.wait_s.as_ref().ok().map(|s| s * 1e3),
        })
    };
    VIEWS.iter().zip(views_of(views)).map(row).collect()
}

#[cfg(test)]
mod tests;
