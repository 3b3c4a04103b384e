//! HTTP/1.1, the server's side, without a socket: requests out of bytes, responses into bytes.

use std::{borrow::Cow, ops::Range};

/// The longest request head that is read.
const MAX_HEAD: usize = 64 * 1024;
/// The longest request body that is read: a prompt of millions of tokens.
pub(crate) const MAX_BODY: usize = 64 * 1024 * 1024;
const MAX_HEADERS: usize = 64;

/// The head of a request, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: Method,
    /// The path without its query.
    pub(crate) path: String,
    /// `x-request-id`, to be echoed.
    pub(crate) request_id: Option<String>,
    /// The key of `authorization: Bearer`.
    pub(crate) bearer: Option<String>,
    /// Whether another request may follow.
    pub(crate) keep_alive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    Other,
}

/// What the bytes read so far amount to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reading<'a> {
    /// More bytes are needed; the client may be waiting for `100 Continue`.
    Partial { wants_continue: bool },
    /// A whole request, in the first `used` bytes.
    Whole {
        head: Head,
        body: Cow<'a, [u8]>,
        used: usize,
    },
    /// Not HTTP, or too much of it: answer with this status and close.
    Bad { status: u16, why: &'static str },
}

const fn bad(status: u16, why: &'static str) -> Reading<'static> {
    Reading::Bad { status, why }
}

/// Reads the request at the beginning of `input`.
pub(crate) fn read_request(input: &[u8]) -> Reading<'_> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let start = match request.parse(input) {
        Ok(httparse::Status::Complete(start)) => start,
        Ok(httparse::Status::Partial) if input.len() > MAX_HEAD => {
            return bad(431, "the request head is too long");
        }
        Ok(httparse::Status::Partial) => {
            return Reading::Partial {
                wants_continue: false,
            };
        }
        Err(_) => return bad(400, "Invalid HTTP request received."),
    };
    let mut head = Head {
        method: match request.method {
            Some("GET") => Method::Get,
            Some("POST") => Method::Post,
            _ => Method::Other,
        },
        path: path_of(request.path.unwrap_or("/")),
        request_id: None,
        bearer: None,
        keep_alive: request.version == Some(1),
    };
    let mut length = 0;
    let (mut chunked, mut expects) = (false, false);
    for header in request.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or("").trim();
        match header.name.to_ascii_lowercase().as_str() {
            "content-length" => match value.parse() {
                Ok(stated) => length = stated,
                Err(_) => return bad(400, "content-length is not a number"),
            },
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" if has_word(value, "close") => head.keep_alive = false,
            "connection" if has_word(value, "keep-alive") => head.keep_alive = true,
            "expect" => expects = value.eq_ignore_ascii_case("100-continue"),
            "x-request-id" => head.request_id = Some(value.to_owned()),
            "authorization" => head.bearer = value.strip_prefix("Bearer ").map(str::to_owned),
            _ => {}
        }
    }
    if length > MAX_BODY {
        return bad(413, "the request body is too long");
    }
    let rest = &input[start..];
    let wants_continue = expects && rest.is_empty();
    if chunked {
        return match read_chunks(rest) {
            Ok(Some((body, used))) => Reading::Whole {
                head,
                body: Cow::Owned(body),
                used: start + used,
            },
            Ok(None) if rest.len() > MAX_BODY => bad(413, "the request body is too long"),
            Ok(None) => Reading::Partial { wants_continue },
            Err(()) => bad(400, "the chunks of the body are malformed"),
        };
    }
    match rest.get(..length) {
        Some(body) => Reading::Whole {
            head,
            body: Cow::Borrowed(body),
            used: start + length,
        },
        None => Reading::Partial { wants_continue },
    }
}

/// Whether a list of words holds `word`.
fn has_word(list: &str, word: &str) -> bool {
    list.split(',')
        .any(|one| one.trim().eq_ignore_ascii_case(word))
}

/// The path of a request target: without query, and without scheme and host where it has them.
fn path_of(target: &str) -> String {
    let target = target.split(['?', '#']).next().unwrap_or("/");
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    };
    path.to_owned()
}

/// The body of a chunked request and the length of its framing, once it is whole.
fn read_chunks(input: &[u8]) -> Result<Option<(Vec<u8>, usize)>, ()> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let (head, size) = match httparse::parse_chunk_size(&input[at..]).map_err(|_| ())? {
            httparse::Status::Complete(found) => found,
            httparse::Status::Partial => return Ok(None),
        };
        let size = usize::try_from(size).map_err(|_| ())?;
        if size > MAX_BODY {
            return Err(());
        }
        let start = at + head;
        if size == 0 {
            return Ok(end_of_trailers(&input[start..]).map(|end| (body, start + end)));
        }
        let Range { start, end } = start..start + size;
        match input.get(start..end + 2) {
            Some(chunk) if chunk.ends_with(b"\r\n") => body.extend_from_slice(&input[start..end]),
            Some(_) => return Err(()),
            None => return Ok(None),
        }
        at = end + 2;
    }
}

/// The end of the trailer fields, which are not looked at.
fn end_of_trailers(input: &[u8]) -> Option<usize> {
    if input.starts_with(b"\r\n") {
        return Some(2);
    }
    let blank = input.windows(4).position(|four| four == b"\r\n\r\n");
    blank.map(|blank| blank + 4)
}

/// How the body of a response is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
}

/// What a response head says beside its status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseHead<'a> {
    pub(crate) status: u16,
    pub(crate) content_type: &'a str,
    pub(crate) framing: Framing,
    pub(crate) request_id: Option<&'a str>,
    pub(crate) keep_alive: bool,
    /// Seconds, on a refusal.
    pub(crate) retry_after: Option<u32>,
}

impl ResponseHead<'_> {
    /// Appends the head to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 ");
        push_number(out, u64::from(self.status));
        out.push(b' ');
        push(out, reason(self.status));
        push(out, "\r\nserver: goodput-emulator\r\ncontent-type: ");
        push(out, self.content_type);
        match self.framing {
            Framing::Length(length) => {
                push(out, "\r\ncontent-length: ");
                push_number(out, length as u64);
            }
            Framing::Chunked => push(
                out,
                "\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\ntransfer-encoding: chunked",
            ),
        }
        if let Some(id) = self.request_id {
            push(out, "\r\nx-request-id: ");
            push(out, id);
        }
        if let Some(seconds) = self.retry_after {
            push(out, "\r\nretry-after: ");
            push_number(out, u64::from(seconds));
        }
        if !self.keep_alive {
            push(out, "\r\nconnection: close");
        }
        push(out, "\r\n\r\n");
    }
}

/// The phrase of a status.
const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Unknown",
    }
}

pub(crate) fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends one chunk of a chunked body: its bytes are what `write` appends.
///
/// Room for the size is left first and filled in afterwards, so nothing is copied: sizes have
/// four digits, which covers 64 kB, with leading zeros where they are smaller.
pub(crate) fn push_chunk(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"0000\r\n");
    let start = out.len();
    write(out);
    let size = out.len() - start;
    debug_assert!(size > 0 && size <= 0xFFFF, "a chunk has 1 to 65535 bytes");
    for (place, shift) in [(6, 12), (5, 8), (4, 4), (3, 0)] {
        out[start - place] = DIGITS[(size >> shift) & 0xF];
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a chunked body.
pub(crate) fn push_last_chunk(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] = b"POST /v1/completions?x=1 HTTP/1.1\r\nHost: h\r\nX-Request-Id: 17\r\n\
        Authorization: Bearer k\r\nContent-Length: 5\r\n\r\nhelloGET /next";
    const CHUNKED: &[u8] = b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\
        Connection: TE, close\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\nrest";

    #[test]
    fn a_request_is_read_whole_and_its_end_is_known() {
        let Reading::Whole { head, body, used } = read_request(PLAIN) else {
            panic!("whole");
        };
        assert_eq!(
            (head.method, head.path.as_str()),
            (Method::Post, "/v1/completions")
        );
        assert_eq!(head.request_id.as_deref(), Some("17"));
        assert_eq!(head.bearer.as_deref(), Some("k"));
        assert!(head.keep_alive);
        assert_eq!(&*body, b"hello");
        assert_eq!(&PLAIN[used..], b"GET /next");

        let Reading::Whole { head, body, used } = read_request(CHUNKED) else {
            panic!("whole");
        };
        assert!(!head.keep_alive);
        assert_eq!(&*body, b"hello");
        assert_eq!(&CHUNKED[used..], b"rest");
    }

    #[test]
    fn every_beginning_of_a_request_is_partial() {
        for whole in [&PLAIN[..PLAIN.len() - 9], &CHUNKED[..CHUNKED.len() - 4]] {
            for end in 0..whole.len() {
                let reading = read_request(&whole[..end]);
                assert!(
                    matches!(reading, Reading::Partial { .. }),
                    "{end}: {reading:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_not_http_is_refused() {
        for (bytes, expected) in [
            (&b"\x16\x03\x01\x02\x00\x01"[..], 400),
            (b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
            (
                b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
                413,
            ),
            (
                b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                400,
            ),
        ] {
            let Reading::Bad { status, .. } = read_request(bytes) else {
                panic!("{bytes:?}");
            };
            assert_eq!(status, expected);
        }
        let long = [b"GET / HTTP/1.1\r\nx: ".as_slice(), &vec![b'a'; MAX_HEAD]].concat();
        assert!(matches!(
            read_request(&long),
            Reading::Bad { status: 431, .. }
        ));
    }

    #[test]
    fn a_client_that_waits_is_told_to_go_on() {
        let head = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(
            read_request(head),
            Reading::Partial {
                wants_continue: true
            }
        );
    }

    #[test]
    fn a_chunk_states_its_size() {
        let mut out = b"head".to_vec();
        push_chunk(&mut out, |out| out.extend_from_slice(&[b'x'; 26]));
        push_last_chunk(&mut out);
        let expected = format!("head001a\r\n{}\r\n0\r\n\r\n", "x".repeat(26));
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
