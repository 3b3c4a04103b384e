//! The bodies of requests, and the tokens of their prompts.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};

use crate::{
    api::{Api, ApiError},
    tokenizer::TokenSink,
};

/// The body of a request, with what is not looked at left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Body<'a> {
    #[serde(borrow)]
    pub(crate) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    #[serde(borrow)]
    prompt: Option<Prompt<'a>>,
    pub(crate) stream: Option<bool>,
    pub(crate) stream_options: Option<StreamOptions>,
    pub(crate) n: Option<u32>,
    pub(crate) max_tokens: Option<i64>,
    pub(crate) max_completion_tokens: Option<i64>,
    pub(crate) min_tokens: Option<u32>,
    pub(crate) ignore_eos: Option<bool>,
    pub(crate) stop: Option<Stop>,
    pub(crate) temperature: Option<f64>,
    return_token_strs: Option<bool>,
    add_generation_prompt: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StreamOptions {
    #[serde(deserialize_with = "or_default")]
    pub(crate) include_usage: bool,
    #[serde(deserialize_with = "or_default")]
    pub(crate) continuous_usage_stats: bool,
}

fn or_default<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content<'a> {
    #[serde(borrow)]
    Text(Cow<'a, str>),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Prompt<'a> {
    #[serde(borrow)]
    Text(Cow<'a, str>),
    Ids(Vec<u32>),
    Texts(Vec<String>),
    IdLists(Vec<Vec<u32>>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Stop {
    One(String),
    Several(Vec<String>),
}

impl<'a> Body<'a> {
    /// Reads a body.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, ApiError> {
        serde_json::from_slice(bytes).map_err(|error| {
            let kind = if error.is_data() {
                "value_error"
            } else {
                "json_invalid"
            };
            let message = format!("1 validation error:\n  {{'type': '{kind}', 'msg': '{error}'}}");
            ApiError::malformed(message, Some("body"))
        })
    }

    /// Puts the tokens of every prompt into sinks made by `sink`.
    pub(crate) fn tokenize(
        &self,
        api: Api,
        sink: &dyn Fn() -> TokenSink,
    ) -> Result<Vec<TokenSink>, ApiError> {
        match api {
            Api::Chat => {
                let messages = self.messages.as_deref();
                let messages = messages.ok_or_else(|| ApiError::missing("messages"))?;
                let opening = self.add_generation_prompt.unwrap_or(true);
                Ok(vec![chat_tokens(messages, opening, sink())?])
            }
            Api::Completions => {
                let prompt = self.prompt.as_ref();
                let prompt = prompt.ok_or_else(|| ApiError::missing("prompt"))?;
                let sinks = prompt_tokens(prompt, sink);
                if sinks.is_empty() || sinks.iter().any(|sink| sink.tokens() == 0) {
                    return Err(ApiError::bad_request(
                        "Either prompt or prompt_embeds must be provided and non-empty. \
                         (parameter=prompt)",
                        Some("prompt"),
                    ));
                }
                Ok(sinks)
            }
        }
    }
}

fn chat_tokens(
    messages: &[Message<'_>],
    opening: bool,
    mut sink: TokenSink,
) -> Result<TokenSink, ApiError> {
    if messages.is_empty() {
        return Err(ApiError::bad_request(
            "Cannot apply chat template to an empty conversation. Provide at least one message.",
            None,
        ));
    }
    for message in messages {
        sink.open_message(&message.role);
        match &message.content {
            Some(Content::Text(text)) => sink.words(text),
            Some(Content::Parts(parts)) => parts.iter().for_each(|part| sink.words(&part.text)),
            None => {}
        }
        sink.close_message();
    }
    if opening {
        sink.open_message("assistant");
    }
    Ok(sink)
}

fn prompt_tokens(prompt: &Prompt<'_>, sink: &dyn Fn() -> TokenSink) -> Vec<TokenSink> {
    let text = |text: &str| {
        let mut sink = sink();
        sink.words(text);
        sink
    };
    let ids = |ids: &[u32]| {
        let mut sink = sink();
        for &id in ids {
            sink.id(id);
        }
        sink
    };
    match prompt {
        Prompt::Text(one) => vec![text(one)],
        Prompt::Texts(several) => several.iter().map(|one| text(one)).collect(),
        Prompt::Ids(one) => vec![ids(one)],
        Prompt::IdLists(several) => several.iter().map(|one| ids(one)).collect(),
    }
}

/// The answer to `/tokenize`: the tokens, and their text where it was asked and is known.
pub(crate) fn tokenize(body: &Body<'_>) -> Result<(Vec<u32>, Option<Vec<String>>), ApiError> {
    let api = if body.messages.is_some() {
        Api::Chat
    } else {
        Api::Completions
    };
    let sinks = body.tokenize(api, &|| TokenSink::with_ids(u32::MAX))?;
    let ids = sinks.first().map(|sink| sink.ids().to_vec());
    let strings = match &body.prompt {
        Some(Prompt::Text(text)) if body.return_token_strs == Some(true) => {
            Some(text.split_ascii_whitespace().map(str::to_owned).collect())
        }
        _ => None,
    };
    Ok((ids.unwrap_or_default(), strings))
}
