//! The full parser: every shape a chunk or a whole answer is known to take, through serde.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

use super::{Choice, Chunk, Finish, Text, Tool, Usage};
use crate::{answer::printable, timings::EngineTimings};

/// Reads an event's data. The error says what was wrong with it.
pub(crate) fn parse(data: &[u8]) -> Result<Chunk<'_>, String> {
    Ok(read(data)?.into_chunk(Part::Delta))
}

/// Reads a whole answer that was not streamed.
pub(crate) fn parse_whole(data: &[u8]) -> Result<Chunk<'_>, String> {
    let wire = read(data)?;
    if wire.choices.is_none() && wire.error_message().is_none() {
        return Err("JSON without `choices`".to_owned());
    }
    Ok(wire.into_chunk(Part::Message))
}

/// The message of an error body of any known shape: OpenAI's `error`, vLLM's older flat one,
/// pydantic's `detail`. `None` if it is no error.
pub(crate) fn error_message(body: &[u8]) -> Option<String> {
    let wire: WireError = serde_json::from_slice(body).ok()?;
    wire.message()
}

fn read(data: &[u8]) -> Result<WireChunk<'_>, String> {
    // serde also reads a struct from an array, which no server means.
    if data.first() != Some(&b'{') {
        return Err("not a JSON object".to_owned());
    }
    serde_json::from_slice(data).map_err(|error| error.to_string())
}

#[derive(Deserialize)]
struct WireError {
    error: Option<Value>,
    message: Option<Value>,
    detail: Option<Value>,
    object: Option<Value>,
}

impl WireError {
    fn message(&self) -> Option<String> {
        let none = |value: &Value| value.is_null() || value == "" || *value == false;
        if let Some(error) = self.error.as_ref().filter(|error| !none(error)) {
            let inner = error.get("message").or_else(|| error.get("detail"));
            return Some(plain(inner.filter(|inner| !none(inner)).unwrap_or(error)));
        }
        let message = self.message.as_ref().or(self.detail.as_ref());
        if self.object.as_ref().and_then(Value::as_str) == Some("error") {
            return Some(message.map_or_else(|| "an error without a message".to_owned(), plain));
        }
        message.filter(|message| !message.is_null()).map(plain)
    }
}

/// A message for people: strings without their quotes; of pydantic's list the first `msg`.
fn plain(value: &Value) -> String {
    if let Some(text) = value.as_str() {
        return printable(text);
    }
    let first = value.get(0).unwrap_or(value);
    let place: Vec<String> = first
        .get("loc")
        .and_then(Value::as_array)
        .map(|loc| loc.iter().map(plain).collect())
        .unwrap_or_default();
    match first.get("msg").and_then(Value::as_str) {
        Some(message) if place.is_empty() => printable(message),
        Some(message) => format!("{}: {}", place.join("."), printable(message)),
        None => value.to_string(),
    }
}

#[derive(Deserialize)]
struct WireChunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<WireChoice<'a>>>,
    usage: Option<WireUsage>,
    timings: Option<WireTimings>,
    error: Option<Value>,
    message: Option<Value>,
    detail: Option<Value>,
    object: Option<Value>,
    model: Option<Value>,
    system_fingerprint: Option<Value>,
    eval_count: Option<Count>,
    eval_duration: Option<Count>,
    prompt_eval_count: Option<Count>,
    prompt_eval_duration: Option<Count>,
}

impl<'a> WireChunk<'a> {
    fn into_chunk(self, part: Part) -> Chunk<'a> {
        let (error, timings) = (self.error_message(), self.timings());
        let text = |value: &Option<Value>| Some(value.as_ref()?.as_str()?.to_owned());
        let mut choices = self
            .choices
            .unwrap_or_default()
            .into_iter()
            .map(|choice| choice.read(part));
        Chunk {
            choice: choices.next(),
            more_choices: choices.collect(),
            usage: self.usage.map(WireUsage::read),
            timings,
            error,
            model: text(&self.model),
            fingerprint: text(&self.system_fingerprint),
        }
    }

    fn error_message(&self) -> Option<String> {
        let flat = self.choices.is_none();
        WireError {
            error: self.error.clone(),
            message: self.message.clone().filter(|_| flat),
            detail: self.detail.clone().filter(|_| flat),
            object: self.object.clone(),
        }
        .message()
    }

    fn timings(&self) -> Option<EngineTimings> {
        if let Some(timings) = &self.timings {
            return Some(timings.read());
        }
        let of = |count: &Option<Count>| count.as_ref().and_then(|count| count.0);
        let nanos = |count| of(count).map(std::time::Duration::from_nanos);
        let ollama = EngineTimings {
            prompt_tokens: of(&self.prompt_eval_count).and_then(narrow),
            output_tokens: of(&self.eval_count).and_then(narrow),
            prefill: nanos(&self.prompt_eval_duration),
            decode: nanos(&self.eval_duration),
        };
        (ollama != EngineTimings::default()).then_some(ollama)
    }
}

/// Which member of a choice holds its text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Delta,
    Message,
}

#[derive(Deserialize)]
struct WireChoice<'a> {
    index: Option<Count>,
    #[serde(borrow)]
    delta: Option<WireDelta<'a>>,
    #[serde(borrow)]
    message: Option<WireDelta<'a>>,
    #[serde(borrow)]
    text: Option<WireText<'a>>,
    #[serde(borrow)]
    finish_reason: Option<WireText<'a>>,
}

impl<'a> WireChoice<'a> {
    fn read(self, part: Part) -> Choice<'a> {
        let delta = if part == Part::Delta {
            self.delta
        } else {
            self.message
        };
        let mut choice = delta.map(WireDelta::read).unwrap_or_default();
        choice.index = self
            .index
            .and_then(|index| index.0)
            .and_then(narrow)
            .unwrap_or(0);
        choice.content = std::mem::take(&mut choice.content).join(text(self.text));
        let mut scratch = Vec::new();
        choice.finish = Finish::read(text(self.finish_reason).decode(&mut scratch));
        choice
    }
}

#[derive(Deserialize, Default)]
struct WireDelta<'a> {
    #[serde(borrow)]
    content: Option<WireText<'a>>,
    #[serde(borrow)]
    reasoning: Option<WireText<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<WireText<'a>>,
    #[serde(borrow)]
    refusal: Option<WireText<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<WireTool<'a>>>,
    #[serde(borrow)]
    function_call: Option<WireFunction<'a>>,
}

impl<'a> WireDelta<'a> {
    fn read(self) -> Choice<'a> {
        let (one, other) = (text(self.reasoning), text(self.reasoning_content));
        // Some proxies send the same text under both names.
        let reasoning = if one == other { one } else { one.join(other) };
        let calls = self.tool_calls.unwrap_or_default().into_iter();
        let mut tools = calls
            .filter_map(|call| call.function)
            .chain(self.function_call)
            .map(|function| Tool {
                name: text(function.name),
                arguments: text(function.arguments),
            });
        Choice {
            content: text(self.content).join(text(self.refusal)),
            reasoning,
            tool: tools.next().unwrap_or_default(),
            more_tools: tools.collect(),
            ..Choice::default()
        }
    }
}

#[derive(Deserialize)]
struct WireTool<'a> {
    #[serde(borrow)]
    function: Option<WireFunction<'a>>,
}

#[derive(Deserialize)]
struct WireFunction<'a> {
    #[serde(borrow)]
    name: Option<WireText<'a>>,
    #[serde(borrow)]
    arguments: Option<WireText<'a>>,
}

fn text(wire: Option<WireText<'_>>) -> Text<'_> {
    wire.map_or_else(Text::default, |wire| wire.0)
}

/// A string, or a list of parts with a `text` each. Read as bytes, because serde would refuse
/// half of an escaped surrogate pair in a string.
struct WireText<'a>(Text<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for WireText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of parts")
            }
            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Text<'de>, E> {
                Ok(Cow::Borrowed(bytes).into())
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text<'de>, E> {
                Ok(Text::Owned(bytes.to_vec()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Text<'de>, A::Error> {
                let mut joined = Text::default();
                while let Some(part) = parts.next_element::<WirePart<'de>>()? {
                    joined = joined.join(text(part.text));
                }
                Ok(joined)
            }
        }
        deserializer.deserialize_bytes(TextVisitor).map(Self)
    }
}

#[derive(Deserialize)]
struct WirePart<'a> {
    #[serde(borrow)]
    text: Option<WireText<'a>>,
}

#[derive(Deserialize)]
struct WireUsage {
    completion_tokens: Option<Count>,
    prompt_tokens: Option<Count>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<OutputDetails>,
    prompt_cache_hit_tokens: Option<Count>,
    reasoning_tokens: Option<Count>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<Count>,
}

#[derive(Deserialize)]
struct OutputDetails {
    reasoning_tokens: Option<Count>,
}

impl WireUsage {
    fn read(self) -> Usage {
        let mut odd = false;
        let mut count = |count: Option<Count>| {
            let read = count.and_then(|count| count.0).and_then(narrow);
            odd |= count.is_some() && read.is_none();
            read
        };
        let cached = self.prompt_tokens_details.and_then(|d| d.cached_tokens);
        let reasoning = self
            .completion_tokens_details
            .and_then(|d| d.reasoning_tokens);
        let (output, input) = (count(self.completion_tokens), count(self.prompt_tokens));
        let cached = count(cached).or(count(self.prompt_cache_hit_tokens));
        let reasoning = count(reasoning).or(count(self.reasoning_tokens));
        Usage {
            output,
            input,
            cached,
            reasoning,
            odd,
        }
    }
}

/// llama.cpp's `timings`, in milliseconds.
#[derive(Deserialize)]
struct WireTimings {
    prompt_n: Option<Count>,
    prompt_ms: Option<f64>,
    predicted_n: Option<Count>,
    predicted_ms: Option<f64>,
}

impl WireTimings {
    fn read(&self) -> EngineTimings {
        let count = |count: &Option<Count>| count.as_ref().and_then(|c| c.0).and_then(narrow);
        let span = |millis: Option<f64>| {
            let seconds = millis.filter(|ms| *ms >= 0.0)? / 1e3;
            std::time::Duration::try_from_secs_f64(seconds).ok()
        };
        EngineTimings {
            prompt_tokens: count(&self.prompt_n),
            output_tokens: count(&self.predicted_n),
            prefill: span(self.prompt_ms),
            decode: span(self.predicted_ms),
        }
    }
}

fn narrow(count: u64) -> Option<u32> {
    u32::try_from(count).ok()
}

/// A count, or `None` for whatever is none: negative numbers, fractions, words.
#[derive(Clone, Copy)]
struct Count(Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountVisitor;
        impl<'de> Visitor<'de> for CountVisitor {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count")
            }
            fn visit_u64<E>(self, n: u64) -> Result<Count, E> {
                Ok(Count(Some(n)))
            }
            fn visit_i64<E>(self, n: i64) -> Result<Count, E> {
                Ok(Count(u64::try_from(n).ok()))
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "only whole numbers below 2^53 pass"
            )]
            fn visit_f64<E>(self, n: f64) -> Result<Count, E> {
                let whole = (0.0..9e15).contains(&n) && n.fract() == 0.0;
                Ok(Count(whole.then_some(n as u64)))
            }
            fn visit_str<E>(self, _: &str) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_unit<E>(self) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Count, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
        }
        deserializer.deserialize_any(CountVisitor)
    }
}
