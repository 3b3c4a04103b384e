//! JSON as Python's programs write it, read without holding the whole of it.

use std::{
    fmt,
    io::{self, BufRead, Read},
    marker::PhantomData,
};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, SeqAccess, Visitor},
};

use super::{Tool, Trouble};

/// JSON in which Python's `NaN`, `Infinity` and `-Infinity` are `null`: they stand for a figure that
/// does not exist, and no JSON reader takes them.
#[derive(Debug)]
pub(super) struct WithoutNan<R> {
    text: R,
    in_string: bool,
    escaped: bool,
    /// A minus that may belong to `-Infinity`.
    minus: bool,
    /// Letters of such a word still to be left out.
    left_out: usize,
    ready: Vec<u8>,
    taken: usize,
}

impl<R: BufRead> WithoutNan<R> {
    pub(super) const fn new(text: R) -> Self {
        Self {
            text,
            in_string: false,
            escaped: false,
            minus: false,
            left_out: 0,
            ready: Vec::new(),
            taken: 0,
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.left_out > 0 {
            self.left_out -= 1;
            return;
        }
        if self.in_string {
            self.in_string = self.escaped || byte != b'"';
            self.escaped = byte == b'\\' && !self.escaped;
            self.ready.push(byte);
            return;
        }
        let word = match byte {
            b'N' => "NaN",
            b'I' => "Infinity",
            _ => "",
        };
        if self.minus && byte != b'I' {
            self.ready.push(b'-');
        }
        self.minus = byte == b'-';
        if !word.is_empty() {
            self.ready.extend_from_slice(b"null");
            self.left_out = word.len() - 1;
        } else if !self.minus {
            self.in_string = byte == b'"';
            self.ready.push(byte);
        }
    }
}

impl<R: BufRead> Read for WithoutNan<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.ready.len() {
            self.ready.clear();
            self.taken = 0;
            let piece = self.text.fill_buf()?.to_vec();
            if piece.is_empty() {
                return Ok(0);
            }
            self.text.consume(piece.len());
            for byte in piece {
                self.byte(byte);
            }
        }
        let length = into.len().min(self.ready.len() - self.taken);
        into[..length].copy_from_slice(&self.ready[self.taken..self.taken + length]);
        self.taken += length;
        Ok(length)
    }
}

/// Hands every line to `each`. The answer: whether the last line was torn off, as that of a program
/// that was stopped while it wrote; it is left out.
pub(super) fn lines<T: DeserializeOwned>(
    mut text: impl BufRead,
    tool: Tool,
    mut each: impl FnMut(T),
) -> Result<bool, Trouble> {
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = text.read_until(b'\n', &mut line);
        if read.map_err(|e| Trouble::unreadable(&e))? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(&line) {
            Ok(value) => each(value),
            Err(e) if e.is_eof() && line.last() != Some(&b'\n') => return Ok(true),
            Err(e) => return Err(Trouble::line(tool, number, &e)),
        }
    }
    Ok(false)
}

/// Hands every element of the one array that `text` is to `each`.
pub(super) fn elements<T: DeserializeOwned>(
    text: impl BufRead,
    tool: Tool,
    each: impl FnMut(T),
) -> Result<(), Trouble> {
    struct Each<T, F>(F, PhantomData<T>);
    impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<T, F> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of requests")
        }
        fn visit_seq<A: SeqAccess<'de>>(mut self, mut all: A) -> Result<(), A::Error> {
            while let Some(one) = all.next_element()? {
                (self.0)(one);
            }
            Ok(())
        }
    }
    let mut json = serde_json::Deserializer::from_reader(text);
    json.deserialize_seq(Each(each, PhantomData))
        .and_then(|()| json.end())
        .map_err(|e| Trouble::form(tool, &e))
}

/// A text of which only the length is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextLength {
    /// Unicode scalar values.
    pub(super) characters: u64,
    /// Words.
    pub(super) words: u64,
}

impl<'de> Deserialize<'de> for TextLength {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = TextLength;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_str<E>(self, text: &str) -> Result<TextLength, E> {
                Ok(TextLength {
                    characters: text.chars().count() as u64,
                    words: text.split_whitespace().count() as u64,
                })
            }
            fn visit_unit<E>(self) -> Result<TextLength, E> {
                Ok(TextLength::default())
            }
        }
        from.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text as it reads where it comes in pieces of `piece` bytes.
    fn read(text: &str, piece: usize) -> String {
        let pieces = io::BufReader::with_capacity(piece, text.as_bytes());
        let mut out = String::new();
        WithoutNan::new(pieces).read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn text_that_is_not_a_number_stands_for_nothing_in_every_cutting() {
        let text = r#"{"a": NaN, "b": [-Infinity, Infinity, -1.5e-3], "c": "NaN \" Infinity \\", "d": NaN}"#;
        for piece in 1..text.len() {
            let value: serde_json::Value = serde_json::from_str(&read(text, piece)).unwrap();
            assert!(value["a"].is_null() && value["b"][0].is_null() && value["b"][1].is_null());
            assert_eq!(value["b"][2], -0.0015);
            assert_eq!(value["c"], "NaN \" Infinity \\");
            assert!(value["d"].is_null());
        }
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_a_broken_one_is_named() {
        let read = |text: &str| {
            let mut seen = Vec::new();
            lines(text.as_bytes(), Tool::AiPerf, |n: u32| seen.push(n)).map(|torn| (torn, seen))
        };
        assert_eq!(read("1\n\n2\n").unwrap(), (false, vec![1, 2]));
        assert_eq!(
            read("1\n2").unwrap(),
            (false, vec![1, 2]),
            "whole without an end"
        );
        let (torn, seen) = {
            let mut seen = Vec::new();
            let torn = lines("[1]\n[2".as_bytes(), Tool::AiPerf, |n: Vec<u32>| {
                seen.extend(n);
            });
            (torn.unwrap(), seen)
        };
        assert_eq!((torn, seen), (true, vec![1]));
        let broken = read("1\nx\n2\n").unwrap_err();
        assert!(broken.message.contains("line 2"), "{}", broken.message);
    }

    #[test]
    fn an_array_is_handed_on_one_by_one_and_must_be_whole() {
        let read = |text: &str| {
            let mut seen = Vec::new();
            elements(text.as_bytes(), Tool::InferencePerf, |n: u32| seen.push(n)).map(|()| seen)
        };
        assert_eq!(read(" [1, 2]\n").unwrap(), [1, 2]);
        assert!(read("[1, 2").is_err() && read("[1] x").is_err() && read("{}").is_err());
    }
}
