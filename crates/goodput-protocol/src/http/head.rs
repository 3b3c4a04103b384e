//! What is kept of a response's head.

/// What kind of body a response says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `text/event-stream`.
    EventStream,
    /// `application/json` or another `+json` type.
    Json,
    /// `text/html`.
    Html,
    /// Another type, or none.
    Other,
}

impl MediaType {
    /// Reads a `content-type` value, whatever its parameters and case.
    #[must_use]
    pub fn read(value: &str) -> Self {
        let essence = value.split(';').next().unwrap_or_default().trim();
        let essence = essence.to_ascii_lowercase();
        match essence.as_str() {
            "text/event-stream" => Self::EventStream,
            "application/json" | "text/json" => Self::Json,
            "text/html" | "application/xhtml+xml" => Self::Html,
            other if other.ends_with("+json") => Self::Json,
            _ => Self::Other,
        }
    }
}

/// The head of a final response: its status and the headers that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// What `content-type` says.
    pub media_type: MediaType,
    /// The `content-type` as it stands.
    pub content_type: Option<String>,
    /// The `content-encoding`, lower case, unless it is `identity`.
    pub content_encoding: Option<String>,
    /// The `server` header.
    pub server: Option<String>,
    /// `retry-after` in seconds, where it is a number (not a date).
    pub retry_after_seconds: Option<u64>,
    /// The `location` of a redirect.
    pub location: Option<String>,
}

impl Head {
    /// A head of which only the status is known; other transports fill in what they read.
    #[must_use]
    pub const fn new(status: u16) -> Self {
        Self {
            status,
            media_type: MediaType::Other,
            content_type: None,
            content_encoding: None,
            server: None,
            retry_after_seconds: None,
            location: None,
        }
    }

    /// Notes one header; `name` in any case. Headers that do not matter are ignored.
    pub fn header(&mut self, name: &str, value: &[u8]) {
        let text = || String::from_utf8_lossy(value).trim().to_owned();
        if name.eq_ignore_ascii_case("content-type") {
            let text = text();
            self.media_type = MediaType::read(&text);
            self.content_type = Some(text);
        } else if name.eq_ignore_ascii_case("content-encoding") {
            let text = text().to_ascii_lowercase();
            self.content_encoding = Some(text).filter(|t| !t.is_empty() && t != "identity");
        } else if name.eq_ignore_ascii_case("server") {
            self.server = Some(text());
        } else if name.eq_ignore_ascii_case("retry-after") {
            self.retry_after_seconds = text().parse().ok();
        } else if name.eq_ignore_ascii_case("location") {
            self.location = Some(text());
        }
    }
}
