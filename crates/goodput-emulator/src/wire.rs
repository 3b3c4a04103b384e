//! The bytes of the answers, in vLLM's form: stream events, whole answers, models, errors.
//!
//! An event of a stream is put together from parts encoded once a request, a word, and numbers:
//! nothing is serialized or allocated per token.

use std::rc::Rc;

use serde::Serialize;
use serde_json::json;

use crate::{
    api::{Api, ApiError, Ask, Finish},
    http::{push, push_chunk, push_last_chunk, push_number},
    words,
};

/// The version that `/version` and the fingerprints tell.
pub(crate) const VERSION: &str = concat!("goodput-emulator-", env!("CARGO_PKG_VERSION"));

/// Token counts of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) input: u32,
    pub(crate) output: u32,
    pub(crate) cached: u32,
}

/// Writes the events of one streamed answer.
#[derive(Clone, Debug)]
pub(crate) struct EventWriter {
    api: Api,
    model_id: Rc<str>,
    /// `data: {"id":...,"choices":[`
    head: Vec<u8>,
}

/// The words of one event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    pub(crate) index: usize,
    pub(crate) key: u64,
    /// The position of the first word and of the word after the last.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Why the answer ends with this event, if it does.
    pub(crate) finish: Option<&'a Finish>,
    /// The counts so far, for those who asked to have them on every event.
    pub(crate) usage: Option<Counts>,
}

impl EventWriter {
    /// A writer for the answer called `id`.
    pub(crate) fn new(api: Api, id: &str, created: u64, model_id: &Rc<str>) -> Self {
        let object = match api {
            Api::Chat => "chat.completion.chunk",
            Api::Completions => "text_completion",
        };
        let mut head = Vec::with_capacity(160);
        push(&mut head, "data: {\"id\":");
        push_json(&mut head, id);
        push(&mut head, ",\"object\":\"");
        push(&mut head, object);
        push(&mut head, "\",\"created\":");
        push_number(&mut head, created);
        push(&mut head, ",\"model\":");
        push_json(&mut head, &**model_id);
        push(&mut head, ",\"choices\":[");
        let model_id = Rc::clone(model_id);
        Self {
            api,
            model_id,
            head,
        }
    }

    pub(crate) fn model_id(&self) -> &str {
        &self.model_id
    }

    /// The chunk that only names the role.
    pub(crate) fn role(&self, out: &mut Vec<u8>, index: usize, usage: Option<Counts>) {
        push_chunk(out, |out| {
            out.extend_from_slice(&self.head);
            push(out, "{\"index\":");
            push_number(out, index as u64);
            push(
                out,
                ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\
                 \"finish_reason\":null}]",
            );
            push_running(out, usage);
            push(out, "}\n\n");
        });
    }

    /// An event with words.
    pub(crate) fn words(&self, out: &mut Vec<u8>, words: Words<'_>) {
        push_chunk(out, |out| {
            out.extend_from_slice(&self.head);
            push(out, "{\"index\":");
            push_number(out, words.index as u64);
            push(
                out,
                match self.api {
                    Api::Chat => ",\"delta\":{\"content\":\"",
                    Api::Completions => ",\"text\":\"",
                },
            );
            push_words(out, &words);
            push(
                out,
                match self.api {
                    Api::Chat => "\"},\"logprobs\":null,\"finish_reason\":",
                    Api::Completions => "\",\"logprobs\":null,\"finish_reason\":",
                },
            );
            match (words.finish, self.api) {
                (None, Api::Chat) => push(out, "null"),
                (None, Api::Completions) => push(out, "null,\"stop_reason\":null"),
                (Some(finish), _) => {
                    push_json(out, finish.name());
                    push(out, ",\"stop_reason\":");
                    push_json(out, &finish.stop_reason());
                }
            }
            push(out, "}]");
            push_running(out, words.usage);
            push(out, "}\n\n");
        });
    }

    /// The event that has only the counts.
    pub(crate) fn usage(&self, out: &mut Vec<u8>, counts: Counts) {
        push_chunk(out, |out| {
            out.extend_from_slice(&self.head);
            push(out, "],\"usage\":");
            push_counts(out, counts);
            push(out, ",\"prompt_tokens_details\":{\"cached_tokens\":");
            push_number(out, u64::from(counts.cached));
            push(out, "}},\"system_fingerprint\":\"");
            push(out, VERSION);
            push(out, "\"}\n\n");
        });
    }
}

/// The end of a stream: `[DONE]` if it is not to be left out, and the end of the body.
pub(crate) fn end_stream(out: &mut Vec<u8>, done: bool) {
    if done {
        push_chunk(out, |out| push(out, "data: [DONE]\n\n"));
    }
    push_last_chunk(out);
}

/// A comment line, which keeps a silent connection open.
pub(crate) fn comment(out: &mut Vec<u8>) {
    push_chunk(out, |out| push(out, ": keep-alive\n\n"));
}

/// An error in the middle of a stream that began with status 200.
pub(crate) fn error_event(out: &mut Vec<u8>) {
    push_chunk(out, |out| {
        push(
            out,
            "data: {\"error\":{\"message\":\"EngineCore encountered an issue.\",\
             \"type\":\"InternalServerError\",\"param\":null,\"code\":500}}\n\n",
        );
    });
}

fn push_words(out: &mut Vec<u8>, words: &Words<'_>) {
    let last = match words.finish {
        Some(Finish::StopString { last, .. }) => Some(last),
        _ => None,
    };
    let whole = words.to - u32::from(last.is_some());
    for position in words.from..whole {
        words::push_word(out, words.key, position);
    }
    if let Some(last) = last {
        push(out, last);
    }
}

fn push_counts(out: &mut Vec<u8>, counts: Counts) {
    push(out, "{\"prompt_tokens\":");
    push_number(out, u64::from(counts.input));
    push(out, ",\"total_tokens\":");
    push_number(out, u64::from(counts.input) + u64::from(counts.output));
    push(out, ",\"completion_tokens\":");
    push_number(out, u64::from(counts.output));
}

fn push_running(out: &mut Vec<u8>, usage: Option<Counts>) {
    if let Some(counts) = usage {
        push(out, ",\"usage\":");
        push_counts(out, counts);
        push(out, ",\"completion_tokens_details\":null}");
    }
}

fn push_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("invariant: plain values always serialize");
}

impl Finish {
    /// vLLM's `finish_reason`.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Natural | Self::StopString { .. } => "stop",
        }
    }

    fn stop_reason(&self) -> Option<&str> {
        match self {
            Self::StopString { stop, .. } => Some(stop),
            _ => None,
        }
    }
}

/// The whole answer to a request that is not streamed.
pub(crate) fn whole(
    ask: &Ask,
    id: &str,
    created: u64,
    model_id: &str,
    counts: Option<Counts>,
) -> Vec<u8> {
    let choices: Vec<_> = ask
        .choices
        .iter()
        .enumerate()
        .map(|(index, choice)| {
            let mut text = Vec::new();
            let words = Words {
                index,
                key: choice.key,
                from: 0,
                to: choice.output_tokens,
                finish: Some(&choice.finish),
                usage: None,
            };
            push_words(&mut text, &words);
            let text = String::from_utf8(text).expect("invariant: the words are ASCII");
            let (name, reason) = (choice.finish.name(), choice.finish.stop_reason());
            match ask.api {
                Api::Chat => json!({"index": index, "message": {"role": "assistant",
                    "content": text, "refusal": null}, "logprobs": null, "finish_reason": name,
                    "stop_reason": reason}),
                Api::Completions => json!({"index": index, "text": text, "logprobs": null,
                    "finish_reason": name, "stop_reason": reason}),
            }
        })
        .collect();
    let object = match ask.api {
        Api::Chat => "chat.completion",
        Api::Completions => "text_completion",
    };
    let mut body = json!({"id": id, "object": object, "created": created, "model": model_id,
        "choices": choices, "system_fingerprint": VERSION});
    if let Some(counts) = counts {
        body["usage"] = json!({"prompt_tokens": counts.input,
            "total_tokens": counts.input + counts.output, "completion_tokens": counts.output,
            "prompt_tokens_details": {"cached_tokens": counts.cached}});
    }
    to_bytes(&body)
}

/// The answer to `/v1/models`.
pub(crate) fn models(model_id: &str, created: u64, context_limit: u32) -> Vec<u8> {
    to_bytes(
        &json!({"object": "list", "data": [{"id": model_id, "object": "model",
        "created": created, "owned_by": "goodput", "root": model_id, "parent": null,
        "max_model_len": context_limit}]}),
    )
}

/// The answer to `/tokenize`.
pub(crate) fn tokens(ids: &[u32], strings: Option<&[String]>, context_limit: u32) -> Vec<u8> {
    to_bytes(
        &json!({"count": ids.len(), "max_model_len": context_limit, "tokens": ids,
        "token_strs": strings}),
    )
}

/// The body of an error.
pub(crate) fn error(error: &ApiError) -> Vec<u8> {
    to_bytes(
        &json!({"error": {"message": error.message, "type": error.kind,
        "param": error.param, "code": error.status}}),
    )
}

/// What a gateway shows when it has lost its way.
pub(crate) const HTML: &str = "<!DOCTYPE html>\n<html><head><title>Welcome</title></head>\
    <body><h1>It works</h1><p>This is not the server you are looking for.</p></body></html>\n";

fn to_bytes(value: &serde_json::Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("invariant: a JSON value always serializes")
}
