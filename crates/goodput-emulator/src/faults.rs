//! Faults on request: what can go wrong with a replica, switched on by name.
//!
//! Every fault that strikes single requests is drawn from the seed and the request's number in
//! order of arrival, so a run with the same seed and order has the same victims.

use std::{num::NonZeroU32, time::Duration};

use goodput_stats::{Draws, Stream};

/// The faults of a replica. The default has none.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Faults {
    /// A cold replica: steps take a multiple of their time at first.
    pub slow_start: Option<SlowStart>,
    /// How long after the start everything is answered with 503.
    pub loading: Option<Duration>,
    /// Long prompts of someone else, at regular times.
    pub convoy: Option<Convoy>,
    /// Share of the KV blocks that is left, above 0 and up to 1.
    pub kv: Option<f64>,
    /// The engine stands still, at regular times.
    pub stall: Option<Stall>,
    /// Share of requests answered with 500, 0 to 1.
    pub errors: f64,
    /// Share of requests refused, 0 to 1, and with what.
    pub reject: f64,
    /// The status of a refusal: 429 or 503.
    pub reject_status: u16,
    /// Share of streams whose connection is cut in the middle, 0 to 1.
    pub cut: f64,
    /// Share of streams that end in an error event in the middle, 0 to 1.
    pub error_event: f64,
    /// Share of requests answered with a web page and status 200, 0 to 1.
    pub html: f64,
    /// Nothing is passed on before this many bytes have come together, as some proxies do.
    pub buffer: Option<usize>,
    /// Tokens in one event; a stream's last event may have fewer.
    pub tokens_per_event: NonZeroU32,
    /// When the role chunk of a chat stream is sent.
    pub role_chunk: RoleChunk,
    /// A comment line after this much silence.
    pub keepalive: Option<Duration>,
    /// Token counts are never sent.
    pub no_usage: bool,
    /// Streams end without `[DONE]`.
    pub no_done: bool,
    /// Answers have their natural length, whatever limit was asked.
    pub ignore_max_tokens: bool,
}

/// A cold replica: for the first `lasting`, steps take `factor` times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowStart {
    /// How long after the start.
    pub lasting: Duration,
    /// How many times as long.
    pub factor: NonZeroU32,
}

/// A prompt of `tokens` tokens from nowhere, every `every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convoy {
    /// The time between two.
    pub every: Duration,
    /// Input tokens of each; cut to what the context holds.
    pub tokens: u32,
}

/// The engine stands still for `lasting`, every `every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// From the start of one to the start of the next.
    pub every: Duration,
    /// How long; shorter than `every`.
    pub lasting: Duration,
}

/// When the role chunk of a chat stream is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoleChunk {
    /// An event of its own right before the first token, as vLLM does.
    #[default]
    First,
    /// With the head of the response, long before the first token.
    Early,
    /// Never.
    Absent,
}

/// A fault that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fault `{item}`: {problem}")]
pub struct FaultError {
    /// The text of the one fault.
    pub item: String,
    /// What is wrong and what was expected.
    pub problem: String,
}

/// The name of each fault with an example of its value, for messages and help.
pub const FAULTS: [(&str, &str); 17] = [
    ("slow-start", "20s or 20s,x3"),
    ("loading", "30s"),
    ("convoy", "every 30s,24000 tokens"),
    ("kv", "0.3"),
    ("stall", "every 10s,2s"),
    ("errors", "5%"),
    ("reject", "10% or 10%,503"),
    ("cut", "3%"),
    ("error-event", "2%"),
    ("html", "100%"),
    ("buffer", "16kB"),
    ("tokens-per-event", "4"),
    ("role-chunk", "first, early or none"),
    ("keepalive", "1s"),
    ("no-usage", ""),
    ("no-done", ""),
    ("ignore-max-tokens", ""),
];

impl Default for Faults {
    fn default() -> Self {
        Self {
            slow_start: None,
            loading: None,
            convoy: None,
            kv: None,
            stall: None,
            errors: 0.0,
            reject: 0.0,
            reject_status: 429,
            cut: 0.0,
            error_event: 0.0,
            html: 0.0,
            buffer: None,
            tokens_per_event: NonZeroU32::MIN,
            role_chunk: RoleChunk::First,
            keepalive: None,
            no_usage: false,
            no_done: false,
            ignore_max_tokens: false,
        }
    }
}

impl Faults {
    /// Reads faults given one by one, as in `stall=every 10s,2s`.
    pub fn parse<'a>(items: impl IntoIterator<Item = &'a str>) -> Result<Self, FaultError> {
        let mut faults = Self::default();
        for item in items {
            faults.add(item)?;
        }
        Ok(faults)
    }

    /// Switches on one more fault.
    pub fn add(&mut self, item: &str) -> Result<(), FaultError> {
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        let (name, value) = (name.trim(), value.trim());
        self.set(name, value).map_err(|problem| FaultError {
            item: item.to_owned(),
            problem,
        })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "slow-start" => self.slow_start = Some(slow_start(value)?),
            "loading" => self.loading = Some(duration(value)?),
            "convoy" => self.convoy = Some(convoy(value)?),
            "kv" => self.kv = Some(kv(value)?),
            "stall" => self.stall = Some(stall(value)?),
            "errors" => self.errors = share(value)?,
            "reject" => (self.reject, self.reject_status) = reject(value)?,
            "cut" => self.cut = share(value)?,
            "error-event" => self.error_event = share(value)?,
            "html" => self.html = if value.is_empty() { 1.0 } else { share(value)? },
            "buffer" => self.buffer = Some(bytes(value)?),
            "tokens-per-event" => self.tokens_per_event = count(value)?,
            "role-chunk" => self.role_chunk = role_chunk(value)?,
            "keepalive" => self.keepalive = Some(duration(value)?),
            "no-usage" => self.no_usage = flag(value)?,
            "no-done" => self.no_done = flag(value)?,
            "ignore-max-tokens" => self.ignore_max_tokens = flag(value)?,
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// What strikes request `index`, which will have `tokens` output tokens.
    pub(crate) fn strike(&self, seed: u64, index: u64, tokens: u32) -> Strike {
        let draw = |stream| Draws::new(seed, Stream(stream), index);
        let hits = |stream, share| share > 0.0 && draw(stream).unit() < share;
        if hits(HTML, self.html) {
            return Strike::Html;
        }
        if hits(REJECT, self.reject) {
            return Strike::Reject;
        }
        if hits(ERROR, self.errors) {
            return Strike::Error;
        }
        // Somewhere inside the answer: after at least one token and before the last.
        let after = |stream| {
            let room = u64::from(tokens.saturating_sub(1)).max(1);
            let draws = &mut draw(stream);
            draws.bits();
            u32::try_from(1 + draws.bits() % room).unwrap_or(1)
        };
        if hits(CUT, self.cut) {
            return Strike::Cut { after: after(CUT) };
        }
        if hits(ERROR_EVENT, self.error_event) {
            return Strike::ErrorEvent {
                after: after(ERROR_EVENT),
            };
        }
        Strike::None
    }
}

const HTML: u64 = 0x6661_756c_0001;
const REJECT: u64 = 0x6661_756c_0002;
const ERROR: u64 = 0x6661_756c_0003;
const CUT: u64 = 0x6661_756c_0004;
const ERROR_EVENT: u64 = 0x6661_756c_0005;

/// What strikes one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    None,
    Html,
    Reject,
    Error,
    /// The connection is cut after so many tokens.
    Cut {
        after: u32,
    },
    /// An error event comes after so many tokens.
    ErrorEvent {
        after: u32,
    },
}

fn unknown(name: &str) -> String {
    let names = FAULTS.map(|(name, _)| name);
    match goodput_config::suggest(name, &names) {
        Some(near) => format!("there is no such fault; did you mean `{near}`?"),
        None => format!("there is no such fault; there are {}", names.join(", ")),
    }
}

fn example(name: &str) -> &'static str {
    let found = FAULTS.iter().find(|(known, _)| *known == name);
    found.map_or("", |(_, example)| example)
}

fn duration(text: &str) -> Result<Duration, String> {
    match goodput_config::parse_duration(text) {
        Ok(span) if !span.is_zero() => Ok(span),
        _ => Err(format!("`{text}` is not a time above zero such as 20s")),
    }
}

fn two<'a>(name: &str, text: &'a str) -> Result<(&'a str, &'a str), String> {
    let halves = text.split_once(',').map(|(a, b)| (a.trim(), b.trim()));
    let every = halves.and_then(|(a, b)| Some((a.strip_prefix("every")?.trim(), b)));
    every.ok_or_else(|| format!("expected two values as in `{}`", example(name)))
}

fn slow_start(text: &str) -> Result<SlowStart, String> {
    let (lasting, factor) = text.split_once(',').unwrap_or((text, "x3"));
    let factor = factor.trim();
    Ok(SlowStart {
        lasting: duration(lasting.trim())?,
        factor: count(factor.strip_prefix('x').unwrap_or(factor))?,
    })
}

fn convoy(text: &str) -> Result<Convoy, String> {
    let (every, tokens) = two("convoy", text)?;
    let tokens = tokens.strip_suffix("tokens").unwrap_or(tokens).trim();
    Ok(Convoy {
        every: duration(every)?,
        tokens: count(tokens)?.get(),
    })
}

fn stall(text: &str) -> Result<Stall, String> {
    let (every, lasting) = two("stall", text)?;
    let stall = Stall {
        every: duration(every)?,
        lasting: duration(lasting)?,
    };
    if stall.lasting >= stall.every {
        return Err("it must be shorter than the time from one to the next".to_owned());
    }
    Ok(stall)
}

fn kv(text: &str) -> Result<f64, String> {
    match share(text) {
        Ok(left) if left > 0.0 => Ok(left),
        _ => Err(format!(
            "`{text}` is not a share of the KV cache such as 0.3 or 30%"
        )),
    }
}

fn reject(text: &str) -> Result<(f64, u16), String> {
    let (part, status) = text.split_once(',').unwrap_or((text, "429"));
    match status.trim() {
        "429" => Ok((share(part.trim())?, 429)),
        "503" => Ok((share(part.trim())?, 503)),
        other => Err(format!("`{other}` is not 429 or 503")),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number.trim(), 100.0),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>().map(|number| number / scale);
    match share {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!("`{text}` is not a share from 0% to 100%")),
    }
}

fn count(text: &str) -> Result<NonZeroU32, String> {
    let count = text.replace('_', "").parse();
    count.map_err(|_| format!("`{text}` is not a whole number above zero"))
}

fn bytes(text: &str) -> Result<usize, String> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = match lower.find(|c: char| !c.is_ascii_digit()) {
        Some(end) => lower.split_at(end),
        None => (lower.as_str(), "b"),
    };
    let unit = match unit.trim() {
        "b" => Some(1),
        "k" | "kb" => Some(1_000),
        "kib" => Some(1_024),
        "m" | "mb" => Some(1_000_000),
        "mib" => Some(1_048_576),
        _ => None,
    };
    let size = unit.and_then(|unit: usize| number.parse::<usize>().ok()?.checked_mul(unit));
    let size = size.filter(|&size| size > 0);
    size.ok_or_else(|| format!("`{text}` is not a size such as 16kB"))
}

fn role_chunk(text: &str) -> Result<RoleChunk, String> {
    match text {
        "first" => Ok(RoleChunk::First),
        "early" => Ok(RoleChunk::Early),
        "none" => Ok(RoleChunk::Absent),
        _ => Err(format!("`{text}` is not first, early or none")),
    }
}

fn flag(text: &str) -> Result<bool, String> {
    if text.is_empty() {
        Ok(true)
    } else {
        Err("it takes no value".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(item: &str, expected: impl FnOnce(&mut Faults)) {
        let mut faults = Faults::default();
        expected(&mut faults);
        assert_eq!(Faults::parse([item]), Ok(faults));
    }

    #[test]
    fn each_fault_is_read() {
        let seconds = Duration::from_secs;
        check("slow-start=20s", |f| {
            f.slow_start = Some(SlowStart {
                lasting: seconds(20),
                factor: NonZeroU32::new(3).unwrap(),
            });
        });
        check("convoy=every 30s,24000 tokens", |f| {
            f.convoy = Some(Convoy {
                every: seconds(30),
                tokens: 24_000,
            });
        });
        check("stall=every 10s, 2s", |f| {
            f.stall = Some(Stall {
                every: seconds(10),
                lasting: seconds(2),
            });
        });
        check("kv=0.3", |f| f.kv = Some(0.3));
        check("errors=5%", |f| f.errors = 0.05);
        check("reject=10%,503", |f| {
            (f.reject, f.reject_status) = (0.1, 503);
        });
        check("cut=3%", |f| f.cut = 0.03);
        check("error-event=2%", |f| f.error_event = 0.02);
        check("html", |f| f.html = 1.0);
        check("buffer=16kB", |f| f.buffer = Some(16_000));
        check("tokens-per-event=4", |f| {
            f.tokens_per_event = NonZeroU32::new(4).unwrap();
        });
        check("role-chunk=early", |f| f.role_chunk = RoleChunk::Early);
        check("keepalive=1s", |f| f.keepalive = Some(seconds(1)));
        check("loading=500ms", |f| {
            f.loading = Some(Duration::from_millis(500));
        });
        check("no-usage", |f| f.no_usage = true);
        check("no-done", |f| f.no_done = true);
        check("ignore-max-tokens", |f| f.ignore_max_tokens = true);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (item, says) in [
            ("stal=every 10s,2s", "did you mean `stall`"),
            ("stall=10s", "every 10s,2s"),
            ("stall=every 2s,2s", "shorter"),
            ("errors=120%", "0% to 100%"),
            ("kv=0", "0.3"),
            ("reject=10%,404", "429 or 503"),
            ("buffer=many", "16kB"),
            ("no-done=yes", "no value"),
            ("keepalive=0s", "above zero"),
        ] {
            let error = Faults::parse([item]).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
            assert!(error.contains(item), "{error}");
        }
    }

    #[test]
    fn a_share_of_requests_is_struck_and_always_the_same() {
        let faults = Faults::parse(["errors=5%", "cut=3%"]).unwrap();
        let struck = |seed| -> Vec<Strike> {
            (0..10_000)
                .map(|index| faults.strike(seed, index, 100))
                .collect()
        };
        let strikes = struck(1);
        assert_eq!(strikes, struck(1));
        assert_ne!(strikes, struck(2));
        let errors = strikes.iter().filter(|s| **s == Strike::Error).count();
        assert!((400..600).contains(&errors), "{errors}");
        let cuts: Vec<u32> = strikes
            .iter()
            .filter_map(|strike| match strike {
                Strike::Cut { after } => Some(*after),
                _ => None,
            })
            .collect();
        assert!((200..400).contains(&cuts.len()), "{}", cuts.len());
        assert!(cuts.iter().all(|after| (1..100).contains(after)));
        assert!(cuts.iter().any(|after| *after > 50));
    }
}
