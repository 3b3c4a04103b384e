//! `goodput trace`: what a trace is like, and a workload made from it.

use std::{fmt::Write, fs, io::Read, path::Path};

use flate2::read::MultiGzDecoder;
use goodput_workload::{KeyOfNames, Percentiles, ReadOptions, Trace, TraceFacts, TraceFormat};

use crate::{
    exit::{Exit, Failure},
    flags::{Format, TraceFlags},
    print,
    talk::Voice,
};

/// `goodput trace inspect`.
pub(crate) fn inspect(flags: &TraceFlags, voice: Voice) -> Result<Exit, Failure> {
    let facts = read(flags, voice)?.inspect();
    match flags.format {
        Format::Human => print(&in_words(&facts))?,
        Format::Json | Format::Csv => print(&goodput_report::json::document(&facts))?,
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
    let raw = fs::read(path).map_err(trouble)?;
    if !raw.starts_with(&[0x1f, 0x8b]) {
        return Ok(raw);
    }
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(raw.as_slice())
        .read_to_end(&mut unpacked)
        .map_err(trouble)?;
    Ok(unpacked)
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

fn in_words(facts: &TraceFacts) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{name:<12} {text}");
    };
    line("form", facts.format.clone());
    line("requests", facts.requests.to_string());
    if let (Some(span), Some(rate)) = (facts.span_s, facts.rate_req_s) {
        line(
            "rate",
            format!(
                "{rate:.3} req/s over {}",
                goodput_report::number::span(span)
            ),
        );
    }
    if let Some(cv) = facts.gap_cv {
        line("gaps", format!("CV {cv:.2} (Poisson 1)"));
    }
    let bursts: Vec<String> = facts
        .dispersion
        .iter()
        .filter_map(|b| Some(format!("{}s {:.1}", b.window_s, b.index?)))
        .collect();
    if !bursts.is_empty() {
        line(
            "dispersion",
            format!(
                "{} (variance/mean of counts, Poisson 1)",
                bursts.join(" | ")
            ),
        );
    }
    let lengths = |p: &Percentiles| {
        format!(
            "p50 {:.0}  p90 {:.0}  p99 {:.0}  max {:.0}  mean {:.0} tokens",
            p.p50, p.p90, p.p99, p.max, p.mean
        )
    };
    if let Some(input) = &facts.input_tokens {
        line("input", lengths(input));
    }
    if let Some(output) = &facts.output_tokens {
        line("output", lengths(output));
    }
    if let Some(r) = facts.length_correlation {
        line(
            "correlation",
            format!("{r:.2} between input and output length"),
        );
    }
    if let (Some(sessions), Some(steps)) = (facts.sessions, facts.steps_mean) {
        line("sessions", format!("{sessions}, {steps:.1} requests each"));
    }
    match &facts.reuse {
        None => line("prefixes", "not told by this form".to_owned()),
        Some(reuse) => {
            line(
                "prefixes",
                format!(
                    "{:.1}% of input tokens reusable with an unbounded cache",
                    100.0 * reuse.unbounded_token_share
                ),
            );
            for cache in &reuse.by_cache {
                line(
                    "",
                    format!(
                        "{:.1}% of blocks, {:.1}% of tokens with {} blocks (LRU)",
                        100.0 * cache.block_share,
                        100.0 * cache.token_share,
                        cache.blocks
                    ),
                );
            }
        }
    }
    out
}
