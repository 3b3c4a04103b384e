//! `goodput trace`: what a trace is like, and a workload made from it.

use std::{fmt::Write, fs, io::Read, path::Path};

use flate2::read::MultiGzDecoder;
use goodput_workload::{KeyOfNames, ReadOptions, Trace, TraceFacts, TraceFormat};

use crate::{
    exit::{Exit, Failure},
    flags::{Format, TraceFlags},
    print,
    talk::Voice,
    text::{MOST_DATA, at_most, read_bytes, too_long},
};

/// `goodput trace inspect`.
pub(crate) fn inspect(flags: &TraceFlags, voice: Voice) -> Result<Exit, Failure> {
    let facts = read(flags, voice)?.inspect();
    match flags.format {
        Format::Human => print(&in_words(&facts))?,
        Format::Json => print(&goodput_report::json::document(&facts))?,
        Format::Csv => {
            let row = serde_json::to_value(&facts)
                .map_err(|e| Failure::untrusted(format!("cannot write the facts: {e}")))?;
            let names: Vec<&str> = row
                .as_object()
                .into_iter()
                .flat_map(|r| r.keys())
                .map(String::as_str)
                .collect();
            print(&goodput_report::csv::table(
                &names,
                std::slice::from_ref(&row),
            ))?;
        }
    }
    Ok(Exit::Yes)
}

/// `goodput trace convert`.
pub(crate) fn convert(flags: &TraceFlags, out: &Path, voice: Voice) -> Result<Exit, Failure> {
    let trace = read(flags, voice)?;
    let name = out
        .file_stem()
        .map_or_else(|| "trace".to_owned(), |s| s.to_string_lossy().into_owned());
    let text = trace.convert(&name, fresh_key()?);
    fs::write(out, text)
        .map_err(|e| Failure::untrusted(format!("cannot write {}: {e}", out.display())))?;
    voice.say(&format!(
        "{} requests, without any text; block names are hashed under a key that was thrown away",
        trace.requests.len()
    ));
    print(&format!("goodput sweep --workload {}", out.display()))?;
    Ok(Exit::Yes)
}

/// Reads a trace, unpacked where it is packed.
pub(crate) fn read(flags: &TraceFlags, voice: Voice) -> Result<Trace, Failure> {
    let form = flags.form.as_deref().map(|name| {
        TraceFormat::from_name(name).ok_or_else(|| {
            let known: Vec<&str> = TraceFormat::ALL.iter().map(|f| f.name()).collect();
            Failure::usage(format!("there is no trace form `{name}`"))
                .hint(format!("known: {}", known.join(", ")))
        })
    });
    let options = ReadOptions {
        format: form.transpose()?,
        skip_broken: flags.skip_broken,
        ..ReadOptions::default()
    };
    let shown = flags.file.display();
    let trace = Trace::read(&bytes(&flags.file)?, options)
        .map_err(|e| Failure::usage(format!("{shown}: {e}")))?;
    for (reason, rows) in trace.skipped_by_reason() {
        voice.say(&format!("note: {rows} rows left out: {reason}"));
    }
    Ok(trace)
}

fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let trouble =
        |e: std::io::Error| Failure::usage(format!("cannot read {}: {e}", path.display()));
    let raw = read_bytes("the trace", path, MOST_DATA)?;
    if !raw.starts_with(&[0x1f, 0x8b]) {
        return Ok(raw);
    }
    at_most(MultiGzDecoder::new(raw.as_slice()), MOST_DATA)
        .map_err(trouble)?
        .ok_or_else(|| too_long("the unpacked trace", path, MOST_DATA))
}

/// A key that nobody has: block names of two conversions cannot be joined.
fn fresh_key() -> Result<KeyOfNames, Failure> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|e| Failure::untrusted(format!("no randomness for the key: {e}")))?;
    let half = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    Ok(KeyOfNames([half(0), half(8)]))
}

/// The facts as lines of a name and a text.
fn in_words(facts: &TraceFacts) -> String {
    let rows = [timing(facts), lengths(facts), prefixes(facts)].concat();
    let mut out = String::new();
    for (name, text) in rows {
        let _ = writeln!(out, "{name:<12} {text}");
    }
    out
}

fn timing(facts: &TraceFacts) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("form", facts.format.clone()),
        ("requests", facts.requests.to_string()),
    ];
    if let (Some(span), Some(rate)) = (facts.span_s, facts.rate_req_s) {
        let span = goodput_report::number::span(span);
        rows.push(("rate", format!("{rate:.3} req/s over {span}")));
    }
    if let Some(cv) = facts.gap_cv {
        rows.push(("gaps", format!("CV {cv:.2} (Poisson 1)")));
    }
    let bursts: Vec<String> = facts
        .dispersion
        .iter()
        .filter_map(|b| Some(format!("{}s {:.1}", b.window_s, b.index?)))
        .collect();
    if !bursts.is_empty() {
        let text = format!(
            "{} (variance/mean of counts, Poisson 1)",
            bursts.join(" | ")
        );
        rows.push(("dispersion", text));
    }
    rows
}

fn lengths(facts: &TraceFacts) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    for (name, lengths) in [
        ("input", &facts.input_tokens),
        ("output", &facts.output_tokens),
    ] {
        if let Some(p) = lengths {
            let text = format!(
                "p50 {:.0}  p90 {:.0}  p99 {:.0}  max {:.0}  mean {:.0} tokens",
                p.p50, p.p90, p.p99, p.max, p.mean
            );
            rows.push((name, text));
        }
    }
    if let Some(r) = facts.length_correlation {
        rows.push((
            "correlation",
            format!("{r:.2} between input and output length"),
        ));
    }
    if let (Some(sessions), Some(steps)) = (facts.sessions, facts.steps_mean) {
        rows.push(("sessions", format!("{sessions}, {steps:.1} requests each")));
    }
    rows
}

fn prefixes(facts: &TraceFacts) -> Vec<(&'static str, String)> {
    let Some(reuse) = &facts.reuse else {
        return vec![("prefixes", "not told by this form".to_owned())];
    };
    let share = 100.0 * reuse.unbounded_token_share;
    let whole = format!("{share:.1}% of input tokens reusable with an unbounded cache");
    let limited = reuse.by_cache.iter().map(|cache| {
        let (blocks, tokens) = (100.0 * cache.block_share, 100.0 * cache.token_share);
        let text = format!(
            "{blocks:.1}% of blocks, {tokens:.1}% of tokens with {} blocks (LRU)",
            cache.blocks
        );
        ("", text)
    });
    std::iter::once(("prefixes", whole))
        .chain(limited)
        .collect()
}
