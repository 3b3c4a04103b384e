//! Heads and framing, whole and cut anywhere.

use proptest::prelude::*;

use super::*;
use crate::stream::EndOfBody;

/// Everything one response gives: body, end of body if the connection closed now, reusable, and
/// what is left of the bytes.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    head: Option<Head>,
    body: Vec<u8>,
    complete: bool,
    on_close: EndOfBody,
    reusable: bool,
    left: usize,
}

fn read(pieces: &[&[u8]]) -> Result<Seen, HttpError> {
    let mut reader = ResponseReader::new();
    let (mut body, mut left) = (Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        while let Some(part) = reader.next(&mut rest)? {
            match part {
                Piece::Body(bytes) => body.extend_from_slice(bytes),
                Piece::Head => assert!(reader.head().is_some()),
                Piece::End => assert!(reader.is_complete()),
            }
        }
        left += rest.len();
    }
    Ok(Seen {
        head: reader.head().cloned(),
        body,
        complete: reader.is_complete(),
        on_close: reader.on_close(),
        reusable: reader.is_reusable(),
        left,
    })
}

fn whole(text: &str) -> Seen {
    let seen = read(&[text.as_bytes()]).unwrap();
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(read(&bytes).unwrap(), seen, "byte by byte");
    seen
}

#[test]
fn a_chunked_body_is_joined_and_its_extensions_and_trailers_dropped() {
    let seen = whole(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
         Transfer-Encoding: chunked\r\nServer: llama.cpp\r\n\r\n\
         5;a=b;c=\"d\"\r\nhello\r\nA\r\n, my world\r\n1 \r\n!\r\n000\r\nx-sum: 1\r\ny: 2\r\n\r\nrest",
    );
    assert_eq!(seen.body, b"hello, my world!");
    let head = seen.head.unwrap();
    assert_eq!(
        (head.status, head.media_type),
        (200, MediaType::EventStream)
    );
    assert_eq!(head.server.as_deref(), Some("llama.cpp"));
    assert_eq!((seen.complete, seen.reusable, seen.left), (true, true, 4));
    assert_eq!(seen.on_close, EndOfBody::Clean);
}

#[test]
fn a_body_without_its_last_chunk_is_cut_even_between_chunks() {
    let full = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let head = full.find("3\r\n").unwrap();
    for end in head..full.len() {
        let seen = whole(&full[..end]);
        assert_eq!(
            (seen.on_close, seen.complete, seen.reusable),
            (EndOfBody::Cut, false, false),
            "{end}"
        );
    }
    assert_eq!(whole(full).on_close, EndOfBody::Clean);
}

#[test]
fn a_counted_body_ends_at_its_length() {
    let seen = whole("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcd");
    assert_eq!(
        (seen.body.as_slice(), seen.left, seen.reusable),
        (b"abc".as_slice(), 1, true)
    );
    let short = whole("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab");
    assert_eq!(short.on_close, EndOfBody::Cut);
    let empty = whole("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    assert_eq!((empty.complete, empty.body.len()), (true, 0));
    let twice = whole("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na");
    assert!(twice.complete);
}

#[test]
fn a_body_without_a_length_ends_with_the_connection() {
    let seen = whole("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}");
    assert_eq!(
        (seen.complete, seen.on_close, seen.reusable),
        (false, EndOfBody::Clean, false)
    );
    let other = whole("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ncontent-length: 1\r\n\r\nabc");
    assert_eq!(
        other.body, b"abc",
        "a transfer coding that is not chunked runs to the close"
    );
}

#[test]
fn interim_heads_are_passed_over() {
    let seen = whole(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n\
         HTTP/1.1 204 No Content\r\nretry-after: 7\r\n\r\n",
    );
    let head = seen.head.unwrap();
    assert_eq!(
        (head.status, head.retry_after_seconds, seen.complete),
        (204, Some(7), true)
    );
}

#[test]
fn a_switch_of_protocols_is_a_final_answer() {
    let seen = whole("HTTP/1.1 101 Switching Protocols\r\n\r\n");
    assert_eq!((seen.head.unwrap().status, seen.reusable), (101, false));
}

#[test]
fn keep_alive_follows_version_and_header() {
    let reusable = |first: &str, headers: &str| {
        whole(&format!(
            "{first} 200 OK\r\ncontent-length: 0\r\n{headers}\r\n"
        ))
        .reusable
    };
    assert!(reusable("HTTP/1.1", ""));
    assert!(reusable("HTTP/1.1", "Connection: Keep-Alive\r\n"));
    assert!(!reusable("HTTP/1.1", "Connection: foo, Close\r\n"));
    assert!(!reusable("HTTP/1.0", ""));
    assert!(reusable("HTTP/1.0", "connection: keep-alive\r\n"));
    assert!(
        !reusable("HTTP/1.1", "transfer-encoding: chunked\r\n"),
        "not yet complete"
    );
    let both =
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    let both = whole(both);
    assert_eq!(
        (both.complete, both.reusable),
        (true, false),
        "two lengths: read chunked, then close"
    );
}

#[test]
fn what_is_no_response_is_refused() {
    let error = |text: &str| read(&[text.as_bytes()]).unwrap_err();
    assert!(matches!(
        error("SSH-2.0-OpenSSH_9.6\r\n"),
        HttpError::Head(_)
    ));
    assert!(matches!(
        error("\x15\x03\x01\x00\x02\x02"),
        HttpError::Head(_)
    ));
    assert_eq!(
        error("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"),
        HttpError::Length
    );
    assert_eq!(
        error("HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n"),
        HttpError::Length
    );
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for broken in [
        "x\r\n",
        "\r\n",
        "11111111111111111\r\n",
        "1\r\nab\r\n",
        "-1\r\n",
    ] {
        assert!(
            matches!(error(&format!("{chunked}{broken}")), HttpError::Chunk(_)),
            "{broken:?}"
        );
    }
    let long = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(70_000));
    assert_eq!(error(&long), HttpError::LongHead);
    let trailers = format!("{chunked}0\r\n{}", "a: b\r\n".repeat(5_000));
    assert!(matches!(error(&trailers), HttpError::Chunk(_)));
}

#[test]
fn media_types_are_read_whatever_their_case_and_parameters() {
    assert_eq!(
        MediaType::read("Text/Event-Stream;charset=utf-8"),
        MediaType::EventStream
    );
    assert_eq!(MediaType::read("application/problem+json"), MediaType::Json);
    assert_eq!(MediaType::read("text/html"), MediaType::Html);
    assert_eq!(MediaType::read(""), MediaType::Other);
}

proptest! {
    #[test]
    fn any_chunks_and_cuts_give_the_same_body(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        for chunk in &chunks {
            bytes.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        let seen = read(&pieces).unwrap();
        prop_assert_eq!(seen.body, chunks.concat());
        prop_assert!(seen.complete && seen.reusable);
    }
}
