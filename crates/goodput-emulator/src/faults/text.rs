//! Faults as they are written: `stall=every 10s,2s`.

use std::{num::NonZeroU32, time::Duration};

use super::{Convoy, Faults, Restart, RoleChunk, SlowStart, Slowdown, Stall};

/// A fault that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fault `{item}`: {problem}")]
pub struct FaultError {
    /// The text of the one fault.
    pub item: String,
    /// What is wrong and what was expected.
    pub problem: String,
}

/// The name of each fault, an example of its value, and what it does, for messages and help.
pub const FAULTS: [(&str, &str, &str); 20] = [
    (
        "slow-start",
        "20s,x3",
        "for so long after the start a step takes so many times as long",
    ),
    (
        "loading",
        "30s",
        "for so long after the start every request gets 503",
    ),
    (
        "convoy",
        "every 30s,24000 tokens",
        "a long prompt of someone else, again and again",
    ),
    (
        "foreign",
        "every 250ms,200 tokens",
        "a request of someone else, so many tokens in and out, again and again",
    ),
    (
        "slowdown",
        "after 30s,20%",
        "from then on a step takes so much longer",
    ),
    (
        "restart",
        "after 30s,5s",
        "the server dies once, forgets all, and loads for so long",
    ),
    ("kv", "0.3", "only this share of the KV blocks is left"),
    (
        "stall",
        "every 10s,2s",
        "the engine stands still, again and again",
    ),
    ("errors", "5%", "this share of requests gets 500"),
    (
        "reject",
        "10%,503",
        "this share of requests is refused, with 429 unless said",
    ),
    (
        "cut",
        "3%",
        "this share of streams loses its connection in the middle",
    ),
    (
        "error-event",
        "2%",
        "this share of streams ends in an error event",
    ),
    (
        "html",
        "100%",
        "this share of requests gets a web page with status 200",
    ),
    (
        "buffer",
        "16kB",
        "nothing is passed on before so much has come together",
    ),
    ("tokens-per-event", "4", "so many tokens in one event"),
    (
        "role-chunk",
        "none",
        "when the role chunk comes: first, early or none",
    ),
    ("keepalive", "1s", "a comment line after so much silence"),
    ("no-usage", "", "token counts are never sent"),
    ("no-done", "", "streams end without [DONE]"),
    (
        "ignore-max-tokens",
        "",
        "answers have their natural length, whatever was asked",
    ),
];

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
            "convoy" => self.convoy = Some(convoy("convoy", value)?),
            "foreign" => self.foreign = Some(convoy("foreign", value)?),
            "slowdown" => self.slowdown = Some(slowdown(value)?),
            "restart" => self.restart = Some(restart(value)?),
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
}

fn unknown(name: &str) -> String {
    let names = FAULTS.map(|(name, ..)| name);
    match goodput_config::suggest(name, &names) {
        Some(near) => format!("there is no such fault; did you mean `{near}`?"),
        None => format!("there is no such fault; there are {}", names.join(", ")),
    }
}

fn example(name: &str) -> &'static str {
    let found = FAULTS.iter().find(|(known, ..)| *known == name);
    found.map_or("", |(_, example, _)| example)
}

fn duration(text: &str) -> Result<Duration, String> {
    match goodput_config::parse_duration(text) {
        Ok(span) if !span.is_zero() => Ok(span),
        _ => Err(format!("`{text}` is not a time above zero such as 20s")),
    }
}

/// Two values, the first of which begins with `word`.
fn two<'a>(name: &str, word: &str, text: &'a str) -> Result<(&'a str, &'a str), String> {
    let halves = text.split_once(',').map(|(a, b)| (a.trim(), b.trim()));
    let both = halves.and_then(|(a, b)| Some((a.strip_prefix(word)?.trim(), b)));
    both.ok_or_else(|| format!("expected two values as in `{}`", example(name)))
}

fn slow_start(text: &str) -> Result<SlowStart, String> {
    let (lasting, factor) = text.split_once(',').unwrap_or((text, "x3"));
    let factor = factor.trim();
    Ok(SlowStart {
        lasting: duration(lasting.trim())?,
        factor: count(factor.strip_prefix('x').unwrap_or(factor))?,
    })
}

fn slowdown(text: &str) -> Result<Slowdown, String> {
    let (after, longer) = two("slowdown", "after", text)?;
    let percent = longer.strip_suffix('%').unwrap_or(longer).trim();
    Ok(Slowdown {
        after: duration(after)?,
        percent: count(percent)?,
    })
}

fn restart(text: &str) -> Result<Restart, String> {
    let (after, loading) = two("restart", "after", text)?;
    Ok(Restart {
        after: duration(after)?,
        loading: duration(loading)?,
    })
}

fn convoy(name: &str, text: &str) -> Result<Convoy, String> {
    let (every, tokens) = two(name, "every", text)?;
    let tokens = tokens.strip_suffix("tokens").unwrap_or(tokens).trim();
    Ok(Convoy {
        every: duration(every)?,
        tokens: count(tokens)?.get(),
    })
}

fn stall(text: &str) -> Result<Stall, String> {
    let (every, lasting) = two("stall", "every", text)?;
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
    let size = goodput_config::parse_bytes(text).ok();
    let size = size.and_then(|size| usize::try_from(size).ok());
    size.filter(|&size| size > 0)
        .ok_or_else(|| format!("`{text}` is not a size such as 16kB"))
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
        check("foreign=every 250ms,200", |f| {
            f.foreign = Some(Convoy {
                every: Duration::from_millis(250),
                tokens: 200,
            });
        });
        check("slowdown=after 30s,20%", |f| {
            f.slowdown = Some(Slowdown {
                after: seconds(30),
                percent: NonZeroU32::new(20).unwrap(),
            });
        });
        check("restart=after 30s, 5s", |f| {
            f.restart = Some(Restart {
                after: seconds(30),
                loading: seconds(5),
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
            ("slowdown=20%", "after 30s,20%"),
            ("restart=every 3s,1s", "after 30s,5s"),
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
}
