//! What a calibration found.

use goodput_calibration::{CalibrationDocument, CoefficientRow, Known, PointQuality};

use crate::{
    number::{number, percent_short},
    style::{Ink, Style, wrap},
};

/// Columns of a coefficient's words.
const WORDS: usize = 40;

/// The coefficients with their intervals, how well each load is met, and what is open.
#[must_use]
pub fn calibration(found: &CalibrationDocument, style: Style) -> String {
    let mut out = head(found);
    out.push('\n');
    out += &style.paint(Ink::Heading, "COEFFICIENTS");
    out += "                                   value   90% interval     of a step\n";
    for row in &found.coefficients {
        out += &coefficient(row, style);
    }
    if let Some(knee) = found.knee_tokens {
        out += &format!(
            "arithmetic outgrows the weight reads from {} tokens in a step on\n",
            number(knee)
        );
    }
    out.push('\n');
    out += &style.paint(Ink::Heading, "LOADS");
    out += "    point  samples   batch    step   fit is off by\n";
    for point in &found.points {
        out += &load(point);
    }
    let open: Vec<String> = found.coefficients.iter().filter_map(opening).collect();
    if !open.is_empty() || !found.warnings.is_empty() {
        out.push('\n');
    }
    for line in open.iter().chain(&found.warnings) {
        out += &marked("!", line, style);
    }
    for line in &found.advice {
        out += &marked("-> would settle it:", line, style);
    }
    out
}

fn head(found: &CalibrationDocument) -> String {
    let mut out = format!("records   {}\n", found.folders.join(" "));
    out += &format!("samples   {} {}", found.samples, found.samples_are);
    for (count, what) in [
        (found.pauses, "pauses left out"),
        (found.unclear, "not clear who took part"),
        (found.waiting, "with waiting prompts"),
    ] {
        if count > 0 {
            out += &format!(" | {count} {what}");
        }
    }
    out += &format!(
        "\nfit       median error {}",
        percent_short(found.median_error)
    );
    match found.condition {
        Some(condition) => out += &format!(" | condition number {}\n", number(condition)),
        None => out += " | some coefficients have no data\n",
    }
    if let Some(refined) = found.refined {
        out += &format!(
            "refined   on {} load points, {} replays: loss {:.3e} to {:.3e}\n",
            refined.points, refined.tries, refined.before, refined.after
        );
    }
    let ranges = &found.ranges;
    out += &format!(
        "holds for {} to {} sequences decoding, contexts of {} to {} tokens",
        number(ranges.batch.0),
        number(ranges.batch.1),
        number(ranges.context.0),
        number(ranges.context.1)
    );
    match ranges.prefill {
        // A sample may see several prompts, and a part of one.
        Some((low, high)) => {
            out += &format!(
                ", {} to {} prompt tokens a sample\n",
                number(low),
                number(high)
            );
        }
        None => out += ", no prompts\n",
    }
    if let Some(tokens) = found.template_tokens.filter(|&tokens| tokens > 0) {
        out += &format!(
            "prompts   the server counts {tokens} tokens more than planned: its template\n"
        );
    }
    if let Some(kv) = found.kv {
        out += &format!(
            "KV cache  {} tokens [{} to {}], by its usage at {} looks\n",
            number(kv.tokens),
            number(kv.quartiles.0),
            number(kv.quartiles.1),
            kv.looks
        );
    }
    out
}

fn coefficient(row: &CoefficientRow, style: Style) -> String {
    let interval = row.interval.map_or_else(
        || "unknown".to_owned(),
        |(low, high)| format!("[{} to {}]", time(low), time(high)),
    );
    let known = match row.known {
        Known::Settled => String::new(),
        Known::Negligible => "of no account".to_owned(),
        Known::Unsettled => style.paint(Ink::Alarm, "not settled"),
        Known::NoData => style.paint(Ink::Alarm, "no data"),
    };
    let line = format!(
        "  {:<9} {:<WORDS$} {:>9}   {:<22} {:>4}  {known}",
        row.name,
        row.words,
        time(row.seconds),
        interval,
        percent_short(row.share),
    );
    format!("{}\n", line.trim_end())
}

fn load(point: &PointQuality) -> String {
    format!(
        "  {:>12}  {:>7}  {:>6}  {:>7}   {:>+5.1} %\n",
        point.point,
        point.samples,
        number(point.batch),
        time(point.seconds),
        100.0 * point.bias
    )
}

/// Why a coefficient is open.
fn opening(row: &CoefficientRow) -> Option<String> {
    match row.known {
        Known::Settled | Known::Negligible => None,
        Known::NoData => Some(format!(
            "{}: no sample depends on it; it is taken as 0",
            row.name
        )),
        Known::Unsettled => Some(match row.mistaken_for {
            Some(other) => format!("{}: these records cannot tell it from {other}", row.name),
            None if row.interval.is_none() => {
                format!("{}: too few samples to say how far it is known", row.name)
            }
            None => format!("{}: its interval is wide", row.name),
        }),
    }
}

fn marked(mark: &str, line: &str, style: Style) -> String {
    let mut out = String::new();
    for (i, part) in wrap(line, style.width.saturating_sub(mark.len() + 1))
        .into_iter()
        .enumerate()
    {
        let lead = if i == 0 {
            mark.to_owned()
        } else {
            " ".repeat(mark.len())
        };
        out += &format!("{lead} {part}\n");
    }
    out
}

/// Seconds with four significant digits in the unit that reads best: an interval may be as narrow as
/// one part in a thousand.
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s <= 0.0 => return "0".to_owned(),
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s if s >= 1e-6 => (s * 1e6, "us"),
        s => (s * 1e9, "ns"),
    };
    let decimals = match value {
        v if v >= 999.95 => 0,
        v if v >= 99.995 => 1,
        v if v >= 9.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use goodput_calibration::Ranges;

    use super::*;

    fn row(name: &'static str, seconds: f64, known: Known) -> CoefficientRow {
        CoefficientRow {
            name,
            words: "words",
            seconds,
            interval: (known != Known::NoData).then_some((0.9 * seconds, 1.1 * seconds)),
            inflation: None,
            mistaken_for: (known == Known::Unsettled).then_some("pair"),
            share: 0.5,
            known,
        }
    }

    #[test]
    fn what_is_open_is_said_and_what_would_settle_it() {
        let found = CalibrationDocument {
            folders: vec!["runs/low".to_owned()],
            samples_are: "steps".to_owned(),
            samples: 1_234,
            pauses: 3,
            unclear: 0,
            waiting: 0,
            median_error: 0.0123,
            condition: Some(110.0),
            knee_tokens: None,
            coefficients: vec![
                row("step", 4.0e-3, Known::Settled),
                row("prefill", 8.0e-6, Known::Unsettled),
                row("ingest", 0.0, Known::NoData),
            ],
            points: Vec::new(),
            ranges: Ranges {
                batch: (1.0, 16.0),
                context: (60.0, 1_000.0),
                prefill: None,
                points: 2,
                samples: 1_234,
            },
            advice: vec!["a larger batch".to_owned()],
            kv: None,
            template_tokens: Some(24),
            refined: None,
            warnings: Vec::new(),
        };
        let text = calibration(&found, Style::plain());
        for part in [
            "samples   1234 steps | 3 pauses left out\n",
            "4.000 ms   [3.600 ms to 4.400 ms]",
            "not settled",
            "! prefill: these records cannot tell it from pair\n",
            "! ingest: no sample depends on it; it is taken as 0\n",
            "-> would settle it: a larger batch\n",
            "contexts of 60 to 1,000 tokens, no prompts\n",
            "counts 24 tokens more than planned: its template\n",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        // A sum over the requests of a sample is no length of a prompt.
        let mut summed = found;
        summed.ranges.prefill = Some((4.0, 18_368.0));
        let text = calibration(&summed, Style::plain());
        let part = "1,000 tokens, 4 to 18,368 prompt tokens a sample\n";
        assert!(text.contains(part), "{part} in\n{text}");
    }
}
