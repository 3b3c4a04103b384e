//! From flags to a target: address, key, headers, limits.

use std::{collections::BTreeMap, time::Duration};

use goodput_config::parse_duration;
use goodput_loadgen::{Api, BearerKey, Endpoint, HttpVersion, Limits, Target};

use super::tokenizer;
use crate::{
    exit::Failure,
    flags::{self, ServerFlags},
    text::read_text,
};

/// What stands in a saved setting where a secret was.
pub(crate) const HIDDEN: &str = "(hidden)";

/// Makes the target of `url`. The model is asked of the server later where none is given.
pub(crate) fn target(url: &str, flags: &ServerFlags) -> Result<Target, Failure> {
    let endpoint = Endpoint::parse(url).map_err(|e| Failure::usage(e.to_string()))?;
    let mut target = Target::new(endpoint, flags.model.clone().unwrap_or_default());
    target.api = match flags.api {
        flags::Api::Chat => Api::Chat,
        flags::Api::Completions => Api::Completions,
    };
    target.http = match flags.http {
        flags::Http::V1 => HttpVersion::Http1,
        flags::Http::V2 => HttpVersion::Http2,
    };
    target.stream = !flags.no_stream;
    target.key = key(flags)?;
    target.headers = flags
        .headers
        .iter()
        .map(|h| header(h))
        .collect::<Result<_, _>>()?;
    for field in &flags.body {
        let (name, value) = body_field(field)?;
        target.extra_body.insert(name, value);
    }
    target.limits = limits(flags)?;
    target.authorities.clone_from(&flags.ca_file);
    target.counter = flags
        .tokenizer
        .as_deref()
        .map(tokenizer::load)
        .transpose()?;
    Ok(target)
}

/// The bearer key: from the flag, the file or the environment, in this order.
fn key(flags: &ServerFlags) -> Result<Option<BearerKey>, Failure> {
    if let Some(key) = &flags.api_key {
        return Ok(Some(BearerKey::new(key.clone())));
    }
    if let Some(path) = &flags.api_key_file {
        let text = read_text("the key file", path)?;
        return Ok(Some(BearerKey::new(text.trim())));
    }
    let from_environment = std::env::var(&flags.api_key_env).ok();
    Ok(from_environment
        .filter(|key| !key.is_empty())
        .map(BearerKey::new))
}

fn header(text: &str) -> Result<(String, String), Failure> {
    let (name, value) = text.split_once(':').ok_or_else(|| {
        Failure::usage("a --header has no colon").hint("write it as 'name: value'")
    })?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn body_field(text: &str) -> Result<(String, serde_json::Value), Failure> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Failure::usage(format!("--body {text} has no equals sign"))
            .hint("write it as temperature=0")
    })?;
    // A bare word is a string: users do not quote twice.
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((name.to_owned(), value))
}

fn limits(flags: &ServerFlags) -> Result<Limits, Failure> {
    let limit = |name: &str, text: Option<&String>| -> Result<Option<Duration>, Failure> {
        text.map(|text| duration(name, text)).transpose()
    };
    Ok(Limits {
        connect: Some(duration("--timeout-connect", &flags.timeout_connect)?),
        first_token: limit("--timeout-first-token", flags.timeout_first_token.as_ref())?,
        idle: limit("--timeout-idle", flags.timeout_idle.as_ref())?,
        total: limit("--timeout-total", flags.timeout_total.as_ref())?,
    })
}

/// A duration given to a flag.
pub(crate) fn duration(flag: &str, text: &str) -> Result<Duration, Failure> {
    parse_duration(text).map_err(|problem| {
        let failure = Failure::usage(format!("{flag} {text}: {}", problem.message));
        match problem.hint {
            Some(hint) => failure.hint(hint),
            None => failure.hint("write it with its unit: 500ms, 30s, 10min"),
        }
    })
}

/// The server settings as they may be saved and shown: no key, no header value.
pub(crate) fn saved(flags: &ServerFlags) -> BTreeMap<String, String> {
    let mut saved = BTreeMap::new();
    let mut put = |name: &str, value: String| {
        saved.insert(name.to_owned(), value);
    };
    put("api", format!("{:?}", flags.api).to_lowercase());
    put(
        "http",
        if flags.http == flags::Http::V1 {
            "1.1"
        } else {
            "2"
        }
        .to_owned(),
    );
    put("stream", (!flags.no_stream).to_string());
    put("timeout_connect", flags.timeout_connect.clone());
    for (name, limit) in [
        ("timeout_first_token", &flags.timeout_first_token),
        ("timeout_idle", &flags.timeout_idle),
        ("timeout_total", &flags.timeout_total),
    ] {
        put(name, limit.clone().unwrap_or_else(|| "none".to_owned()));
    }
    if flags.api_key.is_some() {
        put("api_key", HIDDEN.to_owned());
    }
    for text in &flags.headers {
        let name = text
            .split(':')
            .next()
            .unwrap_or_default()
            .trim()
            .to_lowercase();
        put(&format!("header {name}"), HIDDEN.to_owned());
    }
    for text in &flags.body {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let secret = ["key", "token", "secret", "password"]
            .iter()
            .any(|w| name.to_lowercase().contains(w))
            && !name.ends_with("tokens");
        put(
            &format!("body {name}"),
            if secret { HIDDEN } else { value }.to_owned(),
        );
    }
    saved
}
