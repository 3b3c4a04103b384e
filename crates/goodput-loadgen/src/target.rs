//! Whom the load is sent to, and how.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use crate::error::TargetError;

/// Which of the two generation APIs is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Api {
    /// `POST {base}/chat/completions`.
    #[default]
    Chat,
    /// `POST {base}/completions`.
    Completions,
}

/// Which HTTP is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpVersion {
    /// 1.1, read by our own reader: every event is stamped at the read.
    #[default]
    Http1,
    /// 2: agreed on by ALPN over TLS, by prior knowledge without.
    Http2,
}

/// A bearer key. It is never shown: not by `Debug`, not in an error.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerKey(String);

impl BearerKey {
    /// Keeps `key`.
    #[must_use]
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }
}

impl fmt::Debug for BearerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerKey(hidden)")
    }
}

/// Counts the tokens of a text, as a tokenizer on this machine does.
#[derive(Clone)]
pub struct TextCounter(Arc<dyn Fn(&str) -> u32 + Send + Sync>);

impl TextCounter {
    /// A counter that asks `count`.
    #[must_use]
    pub fn new(count: impl Fn(&str) -> u32 + Send + Sync + 'static) -> Self {
        Self(Arc::new(count))
    }

    /// The tokens of `text`.
    #[must_use]
    pub fn count(&self, text: &str) -> u32 {
        (self.0)(text)
    }
}

impl fmt::Debug for TextCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TextCounter")
    }
}

/// Time limits of a request. Each strikes on its own, names itself in the record
/// ([`goodput_record::TimeoutPhase`]) and is absent unless set: no hidden limit ends a long answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// On the set-up of a connection (TCP and TLS).
    pub connect: Option<Duration>,
    /// From the send to the first token event.
    pub first_token: Option<Duration>,
    /// Between two reads after the first token; a stream that flows is never idle.
    pub idle: Option<Duration>,
    /// From the send to the end of the answer.
    pub total: Option<Duration>,
}

impl Default for Limits {
    /// Ten seconds to connect, nothing else: a queue may be long and an answer slow.
    fn default() -> Self {
        Self {
            connect: Some(Duration::from_secs(10)),
            first_token: None,
            idle: None,
            total: None,
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [
            ("connect", self.connect),
            ("first token", self.first_token),
            ("idle", self.idle),
            ("total", self.total),
        ];
        for (i, (name, limit)) in named.into_iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            match limit {
                Some(limit) => write!(f, "{comma}{name} {limit:?}")?,
                None => write!(f, "{comma}{name} none")?,
            }
        }
        Ok(())
    }
}

/// The parts of a server's base URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port, the scheme's own if none was given.
    pub port: u16,
    /// Path of the API as clients know it, without a slash at its end: `/v1`, or empty.
    pub base: String,
}

impl Endpoint {
    /// Reads a base URL: `http://host:port/v1`.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        let bad = |why| TargetError::Url {
            url: without_userinfo(url),
            why,
        };
        let uri: http::Uri = url.trim().parse().map_err(|_| bad("it cannot be read"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) => return Err(bad("its scheme is neither http nor https")),
            None => return Err(bad("it has no scheme")),
        };
        let authority = uri.authority().ok_or_else(|| bad("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("a user name or password has no place in it"));
        }
        if uri.query().is_some() {
            return Err(bad("a query has no place in it"));
        }
        // A port beyond 65535 reads as none, and none as the scheme's own.
        let bare = authority
            .as_str()
            .trim_end_matches(|c: char| c.is_ascii_digit());
        if bare.ends_with(':') && uri.port_u16().is_none_or(|port| port == 0) {
            return Err(bad("its port is not a number from 1 to 65535"));
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(bad("it has no host"));
        }
        Ok(Self {
            tls,
            host,
            port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// `host:port` as in the `Host` header; the scheme's own port is left out.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        if self.port == if self.tls { 443 } else { 80 } {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }

    /// The path of the server itself, above `/v1`: where `/metrics` and `/health` live.
    #[must_use]
    pub fn root(&self) -> &str {
        self.base.strip_suffix("/v1").unwrap_or(&self.base)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.base)
    }
}

fn without_userinfo(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            format!("{}://{}", &url[..scheme], &url[at + 1..])
        }
        _ => url.to_owned(),
    }
}

/// Whom the load is sent to, and how.
#[derive(Clone, Debug)]
pub struct Target {
    /// The server.
    pub endpoint: Endpoint,
    /// The model's id, as sent in every request.
    pub model: String,
    /// Which API.
    pub api: Api,
    /// Which HTTP.
    pub http: HttpVersion,
    /// Whether answers are asked for as event streams.
    pub stream: bool,
    /// Sent as `Authorization: Bearer`.
    pub key: Option<BearerKey>,
    /// Sent with every request.
    pub headers: Vec<(String, String)>,
    /// Fields added to every request's body; they win over ours.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// Time limits of a request.
    pub limits: Limits,
    /// PEM file of further certificate authorities that are trusted.
    pub authorities: Option<PathBuf>,
    /// Whether the answers' text is kept and handed over with the record.
    pub keep_text: bool,
    /// Counts the tokens of an answer that came without `usage`.
    pub counter: Option<TextCounter>,
}

impl Target {
    /// A target at `endpoint` with the defaults: streamed chat over HTTP/1.1.
    #[must_use]
    pub fn new(endpoint: Endpoint, model: impl Into<String>) -> Self {
        Self {
            endpoint,
            model: model.into(),
            api: Api::default(),
            http: HttpVersion::default(),
            stream: true,
            key: None,
            headers: Vec::new(),
            extra_body: serde_json::Map::new(),
            limits: Limits::default(),
            authorities: None,
            keep_text: false,
            counter: None,
        }
    }

    /// `text` with the key hidden, and what headers of secrets carry: some servers repeat in their
    /// error what they refuse.
    #[must_use]
    pub fn hide_secrets(&self, text: &str) -> String {
        let key = self.key.iter().map(|key| key.0.as_str());
        let carried = self.headers.iter().filter(|(name, _)| {
            let name = name.to_ascii_lowercase();
            SECRET.iter().any(|word| name.contains(word))
        });
        let carried = carried.flat_map(|(_, value)| value.split_whitespace());
        let secrets = key.chain(carried.filter(|word| word.len() >= SECRET_BYTES_MIN));
        secrets
            .filter(|secret| !secret.is_empty())
            .fold(text.to_owned(), |text, secret| {
                text.replace(secret, "(hidden)")
            })
    }

    /// Path of the generation API.
    #[must_use]
    pub fn path(&self) -> String {
        let verb = match self.api {
            Api::Chat => "chat/completions",
            Api::Completions => "completions",
        };
        format!("{}/{verb}", self.endpoint.base)
    }

    /// Headers of every request, checked: name in lower case, value. The key is the last.
    pub(crate) fn checked_headers(&self) -> Result<Vec<(String, String)>, TargetError> {
        let mut checked = Vec::with_capacity(self.headers.len() + 1);
        for (name, value) in &self.headers {
            let bad = |why| TargetError::Header {
                name: name.clone(),
                why,
            };
            let parsed: http::HeaderName = name.parse().map_err(|_| bad("its name is no name"))?;
            if OURS.contains(&parsed.as_str()) {
                return Err(bad("goodput sets it itself"));
            }
            http::HeaderValue::from_str(value)
                .map_err(|_| bad("its value has bytes no header may have"))?;
            checked.push((parsed.as_str().to_owned(), value.clone()));
        }
        if let Some(BearerKey(key)) = &self.key {
            let value = format!("Bearer {key}");
            http::HeaderValue::from_str(&value).map_err(|_| TargetError::Header {
                name: "authorization".to_owned(),
                why: "the key has bytes no header may have (a line break at its end?)",
            })?;
            checked.push(("authorization".to_owned(), value));
        }
        Ok(checked)
    }
}

/// What the names of headers with secrets have in them.
const SECRET: [&str; 5] = ["auth", "key", "token", "secret", "cookie"];
/// Shorter words of such a header (`Bearer`) are no secrets.
const SECRET_BYTES_MIN: usize = 8;

/// Headers that frame a request or tie it to its record.
const OURS: [&str; 6] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "x-request-id",
    "expect",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_taken_apart() {
        let of = |url: &str| Endpoint::parse(url).unwrap();
        let plain = of("http://127.0.0.1:8000/v1/");
        assert_eq!(
            (plain.tls, plain.port, plain.base.as_str(), plain.root()),
            (false, 8000, "/v1", "")
        );
        assert_eq!(plain.authority(), "127.0.0.1:8000");
        let nested = of("https://example.com/serving/v1");
        assert_eq!((nested.port, nested.root()), (443, "/serving"));
        assert_eq!(nested.to_string(), "https://example.com/serving/v1");
        assert_eq!(of("http://[::1]:80").authority(), "[::1]");
    }

    #[test]
    fn a_wrong_url_says_what_was_expected() {
        for url in [
            "localhost:8000",
            "ftp://x/v1",
            "http:///v1",
            "",
            "http://a/v1?key=1",
        ] {
            let said = Endpoint::parse(url).unwrap_err().to_string();
            assert!(said.contains("expected http://HOST:PORT/v1"), "{said}");
        }
    }

    #[test]
    fn a_port_that_is_none_is_said_and_not_replaced() {
        for url in [
            "http://h:99999/v1",
            "http://[::1]:70000/v1",
            "http://h:0/v1",
        ] {
            let said = Endpoint::parse(url).unwrap_err().to_string();
            assert!(said.contains(url) && said.contains("65535"), "{said}");
        }
        assert_eq!(Endpoint::parse("http://[::1]/v1").unwrap().port, 80);
        assert_eq!(Endpoint::parse("https://h8/v1").unwrap().port, 443);
        assert_eq!(Endpoint::parse("http://h:65535").unwrap().port, 65_535);
    }

    #[test]
    fn secrets_are_never_shown() {
        let mut target = Target::new(Endpoint::parse("http://h/v1").unwrap(), "m");
        target.key = Some(BearerKey::new("sk-secret\n"));
        assert!(!format!("{target:?}").contains("secret"));
        let said = target.checked_headers().unwrap_err().to_string();
        assert!(
            !said.contains("secret") && said.contains("line break"),
            "{said}"
        );
        let said = Endpoint::parse("http://me:secret@h/v1")
            .unwrap_err()
            .to_string();
        assert!(!said.contains("secret"), "{said}");
    }

    #[test]
    fn what_a_server_repeats_is_hidden() {
        let mut target = Target::new(Endpoint::parse("http://h/v1").unwrap(), "m");
        target.key = Some(BearerKey::new("sk-one"));
        target.headers = vec![
            ("Authorization".to_owned(), "Bearer sk-another".to_owned()),
            ("x-team".to_owned(), "something".to_owned()),
        ];
        let said = target.hide_secrets("wrong: sk-one, Bearer sk-another, something");
        assert_eq!(said, "wrong: (hidden), Bearer (hidden), something");
    }

    #[test]
    fn no_limit_is_hidden() {
        assert_eq!(
            Limits::default().to_string(),
            "connect 10s, first token none, idle none, total none"
        );
    }
}
