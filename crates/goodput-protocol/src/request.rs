//! Request bodies, written straight to bytes.

use std::collections::BTreeMap;

use serde_json::Value;

/// Who speaks in a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChatRole {
    /// The frame of the conversation.
    System,
    /// The one who asks.
    User,
    /// An earlier answer.
    Assistant,
}

impl ChatRole {
    const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChatMessage<'a> {
    /// Who speaks.
    pub role: ChatRole,
    /// What is said.
    pub content: &'a str,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptBody<'a> {
    /// For `/chat/completions`.
    Chat(&'a [ChatMessage<'a>]),
    /// For `/completions`.
    Text(&'a str),
}

/// How the length of the answer is steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputLimit {
    /// No limit is sent: the answer ends where the model ends it.
    NaturalEnd,
    /// The answer ends at this many tokens at the latest.
    MaxTokens(u32),
    /// The answer has exactly this many tokens: the end-of-sequence token is ignored, where the
    /// server knows `ignore_eos` (vLLM, SGLang, llama.cpp) or `min_tokens`.
    IgnoreEos(u32),
}

/// The name of the output limit's field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitField {
    /// `max_tokens`: understood by every engine.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`: asked for by newer hosted chat APIs.
    MaxCompletionTokens,
}

/// Which usage reports a streamed answer is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsageReports {
    /// No `stream_options`: for servers that refuse the field.
    None,
    /// One report at the end (`include_usage`).
    #[default]
    AtEnd,
    /// A running report with every event (`continuous_usage_stats`, vLLM), which tells the tokens
    /// of each event.
    EveryEvent,
}

/// Fields of the user's own, which go before ours of the same name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtraFields {
    fields: BTreeMap<String, Value>,
    /// The fields as they stand in a body, each behind a comma.
    bytes: Vec<u8>,
}

impl ExtraFields {
    /// Takes the fields to add to every body.
    #[must_use]
    pub fn new(fields: BTreeMap<String, Value>) -> Self {
        let mut bytes = Vec::new();
        for (name, value) in &fields {
            bytes.push(b',');
            write_json(&mut bytes, name);
            bytes.push(b':');
            bytes.extend_from_slice(value.to_string().as_bytes());
        }
        Self { fields, bytes }
    }

    /// Whether a field of this name is among them.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }
}

/// One request for an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerRequest<'a> {
    /// The model's name as the server knows it.
    pub model: &'a str,
    /// What is asked.
    pub prompt: PromptBody<'a>,
    /// How long the answer may get.
    pub output: OutputLimit,
    /// The name of the limit's field.
    pub limit_field: LimitField,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// Which usage reports a stream is to have.
    pub usage: UsageReports,
    /// Fields of the user's own.
    pub extra: &'a ExtraFields,
}

impl AnswerRequest<'_> {
    /// Appends the JSON body to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let extra = self.extra;
        out.extend_from_slice(b"{\"model\":");
        match extra.fields.get("model") {
            Some(Value::String(model)) => write_json(out, model),
            _ => write_json(out, self.model),
        }
        match self.prompt {
            PromptBody::Chat(messages) if !extra.has("messages") => write_messages(out, messages),
            PromptBody::Text(text) if !extra.has("prompt") => {
                out.extend_from_slice(b",\"prompt\":");
                write_json(out, text);
            }
            _ => {}
        }
        self.write_limit(out);
        if !extra.has("stream") {
            let stream: &[u8] = if self.stream {
                b",\"stream\":true"
            } else {
                b",\"stream\":false"
            };
            out.extend_from_slice(stream);
        }
        if self.stream && !extra.has("stream_options") {
            out.extend_from_slice(match self.usage {
                UsageReports::None => b"",
                UsageReports::AtEnd => b",\"stream_options\":{\"include_usage\":true}".as_slice(),
                UsageReports::EveryEvent => {
                    b",\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}"
                }
            });
        }
        if extra.has("model") {
            write_all_but_model(out, extra);
        } else {
            out.extend_from_slice(&extra.bytes);
        }
        out.push(b'}');
    }

    fn write_limit(&self, out: &mut Vec<u8>) {
        let (OutputLimit::MaxTokens(tokens) | OutputLimit::IgnoreEos(tokens)) = self.output else {
            return;
        };
        let mut field = |name: &str, value: &str| {
            if !self.extra.has(name) {
                out.extend_from_slice(format!(",\"{name}\":{value}").as_bytes());
            }
        };
        let tokens = tokens.to_string();
        match self.limit_field {
            LimitField::MaxTokens => field("max_tokens", &tokens),
            LimitField::MaxCompletionTokens => field("max_completion_tokens", &tokens),
        }
        if matches!(self.output, OutputLimit::IgnoreEos(_)) {
            field("min_tokens", &tokens);
            field("ignore_eos", "true");
        }
    }
}

fn write_messages(out: &mut Vec<u8>, messages: &[ChatMessage<'_>]) {
    out.extend_from_slice(b",\"messages\":[");
    for (i, message) in messages.iter().enumerate() {
        out.extend_from_slice(if i == 0 { b"" } else { b"," });
        out.extend_from_slice(b"{\"role\":\"");
        out.extend_from_slice(message.role.name().as_bytes());
        out.extend_from_slice(b"\",\"content\":");
        write_json(out, message.content);
        out.push(b'}');
    }
    out.push(b']');
}

fn write_all_but_model(out: &mut Vec<u8>, extra: &ExtraFields) {
    let mut others = extra.fields.clone();
    others.remove("model");
    out.extend_from_slice(&ExtraFields::new(others).bytes);
}

/// Writes a string as JSON.
fn write_json(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("invariant: writing a string to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn body(request: &AnswerRequest<'_>) -> Value {
        let mut out = Vec::new();
        request.write(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

    fn request<'a>(prompt: PromptBody<'a>, extra: &'a ExtraFields) -> AnswerRequest<'a> {
        AnswerRequest {
            model: "m",
            prompt,
            output: OutputLimit::MaxTokens(7),
            limit_field: LimitField::MaxTokens,
            stream: true,
            usage: UsageReports::AtEnd,
            extra,
        }
    }

    #[test]
    fn a_chat_body_has_messages_limit_stream_and_usage() {
        let messages = [
            ChatMessage {
                role: ChatRole::System,
                content: "be \"short\"",
            },
            ChatMessage {
                role: ChatRole::User,
                content: "hi\n\u{1F600}",
            },
        ];
        let none = ExtraFields::default();
        assert_eq!(
            body(&request(PromptBody::Chat(&messages), &none)),
            json!({
                "model": "m",
                "messages": [
                    {"role": "system", "content": "be \"short\""},
                    {"role": "user", "content": "hi\n\u{1F600}"},
                ],
                "max_tokens": 7,
                "stream": true,
                "stream_options": {"include_usage": true},
            })
        );
    }

    #[test]
    fn output_policies_and_usage_reports_are_what_they_say() {
        let none = ExtraFields::default();
        let mut request = request(PromptBody::Text("x"), &none);
        request.output = OutputLimit::IgnoreEos(9);
        request.limit_field = LimitField::MaxCompletionTokens;
        request.usage = UsageReports::EveryEvent;
        assert_eq!(
            body(&request),
            json!({
                "model": "m", "prompt": "x", "max_completion_tokens": 9, "min_tokens": 9,
                "ignore_eos": true, "stream": true,
                "stream_options": {"include_usage": true, "continuous_usage_stats": true},
            })
        );
        request.output = OutputLimit::NaturalEnd;
        request.stream = false;
        assert_eq!(
            body(&request),
            json!({"model": "m", "prompt": "x", "stream": false})
        );
    }

    #[test]
    fn the_users_own_fields_go_before_ours() {
        let own = json!({"temperature": 0, "max_tokens": 3, "stream_options": {"a": 1}, "model": "other"});
        let own = ExtraFields::new(serde_json::from_value(own).unwrap());
        assert_eq!(
            body(&request(PromptBody::Text("x"), &own)),
            json!({
                "model": "other", "prompt": "x", "stream": true, "temperature": 0,
                "max_tokens": 3, "stream_options": {"a": 1},
            })
        );
    }

    proptest! {
        #[test]
        fn any_text_survives(text in any::<String>()) {
            let none = ExtraFields::default();
            let seen = body(&request(PromptBody::Text(&text), &none));
            prop_assert_eq!(seen["prompt"].as_str(), Some(text.as_str()));
        }
    }
}
