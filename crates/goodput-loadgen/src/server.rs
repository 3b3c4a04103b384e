//! Finding out who the server is before anything is asked of it.

use goodput_protocol::{EngineKind, Head, MediaType, ServerIdentity, explain, one_line};
use serde::Deserialize;

use crate::{
    client::Client,
    fetch::{FetchError, Reply},
    refusal::advice,
};

/// What a server shows of itself.
#[derive(Clone, Debug, Default)]
pub struct ServerFacts {
    /// Engine, version, models, context.
    pub identity: ServerIdentity,
    /// The model's id to send: the one asked for, else the first that is served.
    pub model: String,
    /// Whether `/metrics` can be scraped.
    pub metrics: bool,
    /// Whether `/tokenize` counts tokens.
    pub tokenize: bool,
    /// What a user should know before the load starts; each a sentence.
    pub notes: Vec<String>,
}

/// Why the server cannot be measured, in one message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// Nobody answers.
    #[error("{0}")]
    Unreachable(#[source] FetchError),
    /// Somebody answers who is no inference server, or not at this path.
    #[error(
        "{url} is not the base URL of an OpenAI-compatible API: GET {path} gave {what}; {hint}"
    )]
    NotAnApi {
        /// The URL as given.
        url: String,
        /// What was asked for.
        path: String,
        /// What came.
        what: String,
        /// What to try.
        hint: String,
    },
    /// The key is missing or wrong.
    #[error("{url} answered {status}: {said}; {hint}")]
    Unauthorized {
        /// The URL.
        url: String,
        /// 401 or 403.
        status: u16,
        /// The server's word.
        said: String,
        /// What to do.
        hint: &'static str,
    },
    /// The server is up and not ready.
    #[error("{url} is not ready ({status}: {said}); wait until it has loaded its model")]
    Loading {
        /// The URL.
        url: String,
        /// The status.
        status: u16,
        /// The server's word.
        said: String,
    },
    /// The model is not among those served.
    #[error(
        "the server does not serve `{}`; it serves {}",
        one_line(model),
        list(served)
    )]
    UnknownModel {
        /// As asked for.
        model: String,
        /// What is served.
        served: Vec<String>,
    },
    /// No model was named and the server lists none.
    #[error("no model was named, and {url} lists none: name it with --model")]
    NoModel {
        /// The URL.
        url: String,
    },
}

fn list(models: &[String]) -> String {
    // They are the server's words, and shown on a terminal.
    let quoted = |model: &String| format!("`{}`", one_line(model));
    let shown: Vec<_> = models.iter().take(20).map(quoted).collect();
    let more = models.len().saturating_sub(shown.len());
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Asks the server who it is. Sends only `GET`s and one `/tokenize`; no token is generated.
///
/// The model asked for is the target's; an empty one stands for the first that is served.
pub async fn probe_server(client: &Client) -> Result<ServerFacts, ProbeError> {
    let mut facts = ServerFacts {
        model: client.target().model.clone(),
        ..ServerFacts::default()
    };
    models(client, &mut facts).await?;
    let root = client.target().endpoint.root().to_owned();
    if let Some(reply) = found(client, &format!("{root}/version"), &mut facts.notes).await {
        facts.identity.add_version(&reply.body);
    }
    if let Some(reply) = found(client, &format!("{root}/metrics"), &mut facts.notes).await
        && let Ok(text) = std::str::from_utf8(&reply.body)
        && goodput_protocol::metrics(text).next().is_some()
    {
        facts.metrics = true;
        facts.identity.add_metrics(text);
    }
    let engine = facts.identity.engine;
    if matches!(engine, EngineKind::Unknown | EngineKind::LlamaCpp)
        && let Some(reply) = found(client, &format!("{root}/props"), &mut facts.notes).await
    {
        facts.identity.add_props(&reply.body);
    }
    for (path, engine) in [
        ("/info", EngineKind::Tgi),
        ("/get_server_info", EngineKind::Sglang),
    ] {
        let maybe = [EngineKind::Unknown, engine].contains(&facts.identity.engine);
        let path = format!("{root}{path}");
        if maybe && let Some(reply) = found(client, &path, &mut facts.notes).await {
            facts.identity.add_info(&reply.body);
        }
    }
    choose_model(client, &mut facts)?;
    let counted = client.ask_tokens(&facts.model, "one two three").await;
    facts.tokenize = matches!(counted, Ok(Some(_)));
    if let Err(error) = counted {
        facts.notes.push(no_answer("POST /tokenize", &error));
    }
    Ok(facts)
}

/// A side request that may well find nothing. That it got no answer at all is noted: the server may
/// have what was asked for, and it was not seen.
async fn found(client: &Client, path: &str, notes: &mut Vec<String>) -> Option<Reply> {
    let reply = match client.get(path).await {
        Ok(reply) => reply,
        Err(error) => {
            notes.push(no_answer(&format!("GET {path}"), &error));
            return None;
        }
    };
    (reply.head.status == 200 && reply.head.media_type != MediaType::Html).then_some(reply)
}

fn no_answer(what: &str, error: &FetchError) -> String {
    format!("{what}: {error}; taken as not there")
}

async fn models(client: &Client, facts: &mut ServerFacts) -> Result<(), ProbeError> {
    let endpoint = &client.target().endpoint;
    let path = format!("{}/models", endpoint.base);
    let reply = client.get(&path).await.map_err(ProbeError::Unreachable)?;
    let said = client.target().hide_secrets(&explain(&reply.body));
    facts.identity.add_head(&reply.head);
    let url = endpoint.to_string();
    match reply.head.status {
        200 if facts.identity.add_models(&reply.body) => Ok(()),
        status @ (401 | 403) => Err(ProbeError::Unauthorized {
            url,
            status,
            hint: advice(status, &said),
            said,
        }),
        status @ (502..=504) => Err(ProbeError::Loading { url, status, said }),
        404 | 405 => unlisted(client, facts, path, &reply, &said).await,
        _ => Err(not_an_api(url, path, &reply.head, &said)),
    }
}

/// The server lists no models: a wrong path, or one of the proxies that do not.
async fn unlisted(
    client: &Client,
    facts: &mut ServerFacts,
    path: String,
    reply: &Reply,
    said: &str,
) -> Result<(), ProbeError> {
    let endpoint = &client.target().endpoint;
    let url = endpoint.to_string();
    if !endpoint.base.ends_with("/v1") {
        let deeper = format!("{}/v1/models", endpoint.base);
        if let Some(found) = found(client, &deeper, &mut facts.notes).await
            && ServerIdentity::default().add_models(&found.body)
        {
            return Err(ProbeError::NotAnApi {
                hint: format!("use {url}/v1"),
                what: what(&reply.head),
                url,
                path,
            });
        }
    }
    if facts.model.is_empty() || reply.head.media_type == MediaType::Html {
        return Err(not_an_api(url, path, &reply.head, said));
    }
    facts
        .notes
        .push("the server does not list its models: the one named is taken as it is".to_owned());
    Ok(())
}

fn not_an_api(url: String, path: String, head: &Head, said: &str) -> ProbeError {
    let words = if head.media_type == MediaType::Html {
        String::new()
    } else {
        format!(" ({said})")
    };
    ProbeError::NotAnApi {
        url,
        path,
        what: format!("{}{words}", what(head)),
        hint: "expected a JSON list of models; use the server's base as clients know it: http://HOST:PORT/v1".to_owned(),
    }
}

fn what(head: &Head) -> String {
    let kind = head.content_type.as_deref().unwrap_or("no content type");
    match head.media_type {
        MediaType::Html => format!("status {} and a web page", head.status),
        _ => format!("status {} and {kind}", head.status),
    }
}

fn choose_model(client: &Client, facts: &mut ServerFacts) -> Result<(), ProbeError> {
    let served = &facts.identity.models;
    if facts.model.is_empty() {
        let url = client.target().endpoint.to_string();
        facts.model = served.first().cloned().ok_or(ProbeError::NoModel { url })?;
        if served.len() > 1 {
            facts.notes.push(format!(
                "no model was named: the first of {} is taken",
                list(served)
            ));
        }
        return Ok(());
    }
    if served.is_empty() || served.contains(&facts.model) {
        return Ok(());
    }
    if facts.identity.engine == EngineKind::LlamaCpp {
        // It answers to any name, with the model it has.
        facts.notes.push(format!(
            "the server answers as {} whatever the name",
            list(served)
        ));
        return Ok(());
    }
    Err(ProbeError::UnknownModel {
        model: facts.model.clone(),
        served: served.clone(),
    })
}

/// What `/tokenize` answers: vLLM counts, llama.cpp lists.
#[derive(Deserialize)]
struct Tokenized {
    count: Option<u32>,
    #[serde(default)]
    tokens: Vec<serde::de::IgnoredAny>,
}

impl Client {
    /// How many tokens the server's own tokenizer makes of `text`, special tokens left out; `None`
    /// if it has no `/tokenize`.
    pub async fn count_tokens(&self, model: &str, text: &str) -> Option<u32> {
        self.ask_tokens(model, text).await.ok().flatten()
    }

    /// The same; an error where there was no answer at all.
    async fn ask_tokens(&self, model: &str, text: &str) -> Result<Option<u32>, FetchError> {
        let path = format!("{}/tokenize", self.target().endpoint.root());
        // vLLM and the emulator read `prompt`, llama.cpp and SGLang `content` or `prompt`.
        let ask = serde_json::json!({
            "model": model,
            "prompt": text,
            "content": text,
            "add_special_tokens": false,
            "add_special": false,
        });
        let reply = self.post(&path, ask.to_string().into_bytes()).await?;
        let told = serde_json::from_slice(&reply.body).ok();
        let count = |seen: Tokenized| {
            let listed = u32::try_from(seen.tokens.len()).ok().filter(|n| *n > 0);
            seen.count.or(listed)
        };
        Ok(told.filter(|_| reply.head.status == 200).and_then(count))
    }
}
