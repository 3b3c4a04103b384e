//! Characters and words of text that comes in pieces.

use std::str;

/// Where one channel of one choice stands between two pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    /// The first half of a surrogate pair whose second half may open the next piece; 0 if none.
    high: u16,
    in_word: bool,
}

/// Sums over all channels of all choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measure {
    /// Unicode scalar values.
    pub(crate) characters: u32,
    /// Runs between white space.
    pub(crate) words: u32,
    /// Characters that could not be read, counted as one U+FFFD each.
    pub(crate) replaced: u32,
}

impl Measure {
    /// Counts one piece (WTF-8, or any bytes) and gives its readable text to `emit`.
    pub(crate) fn add(&mut self, flow: &mut Flow, piece: &[u8], mut emit: impl FnMut(&str)) {
        if flow.high == 0
            && let Ok(text) = str::from_utf8(piece)
        {
            self.count(flow, text);
            emit(text);
            return;
        }
        let mut rest = piece;
        while !rest.is_empty() {
            if let Some(unit) = surrogate(rest) {
                rest = &rest[3..];
                self.unit(flow, unit, &mut emit);
                continue;
            }
            self.close(flow, &mut emit);
            let valid = match str::from_utf8(rest) {
                Ok(text) => text,
                Err(error) => str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
            };
            if valid.is_empty() {
                rest = &rest[1..];
                self.replace(flow, &mut emit);
            } else {
                rest = &rest[valid.len()..];
                self.count(flow, valid);
                emit(valid);
            }
        }
    }

    /// Ends a channel: half a pair that waits becomes a replacement character.
    pub(crate) fn close(&mut self, flow: &mut Flow, emit: &mut impl FnMut(&str)) {
        if std::mem::take(&mut flow.high) != 0 {
            self.replace(flow, emit);
        }
    }

    /// One half of a surrogate pair.
    fn unit(&mut self, flow: &mut Flow, unit: u16, emit: &mut impl FnMut(&str)) {
        let pair = char::decode_utf16([flow.high, unit]).next();
        if flow.high != 0
            && let Some(Ok(c)) = pair
        {
            flow.high = 0;
            let mut buffer = [0; 4];
            let text = &*c.encode_utf8(&mut buffer);
            self.count(flow, text);
            emit(text);
            return;
        }
        self.close(flow, emit);
        if unit < 0xDC00 {
            flow.high = unit;
        } else {
            self.replace(flow, emit);
        }
    }

    fn replace(&mut self, flow: &mut Flow, emit: &mut impl FnMut(&str)) {
        self.replaced = self.replaced.saturating_add(1);
        self.count(flow, "\u{FFFD}");
        emit("\u{FFFD}");
    }

    fn count(&mut self, flow: &mut Flow, text: &str) {
        let (mut characters, mut words) = (0, 0);
        for c in text.chars() {
            characters += 1;
            let in_word = !c.is_whitespace();
            words += u32::from(in_word && !flow.in_word);
            flow.in_word = in_word;
        }
        self.characters = self.characters.saturating_add(characters);
        self.words = self.words.saturating_add(words);
    }
}

/// The surrogate that the bytes begin with, in generalised UTF-8.
fn surrogate(bytes: &[u8]) -> Option<u16> {
    match bytes {
        [0xED, middle @ 0xA0..=0xBF, last @ 0x80..=0xBF, ..] => {
            Some(0xD000 | u16::from(middle & 0x3F) << 6 | u16::from(last & 0x3F))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(pieces: &[&[u8]]) -> (Measure, String) {
        let (mut sum, mut flow, mut text) = (Measure::default(), Flow::default(), String::new());
        for piece in pieces {
            sum.add(&mut flow, piece, |t| text.push_str(t));
        }
        sum.close(&mut flow, &mut |t: &str| text.push_str(t));
        (sum, text)
    }

    #[test]
    fn a_word_may_be_spread_over_pieces() {
        let (sum, text) = measure(&[b"he", b"llo wo", b"", b"rld", b" ", b"x "]);
        assert_eq!((sum.words, sum.characters), (3, 14));
        assert_eq!(text, "hello world x ");
    }

    #[test]
    fn halves_of_a_pair_are_joined_over_pieces() {
        let (sum, text) = measure(&[b"hi \xED\xA0\xBD", b"\xED\xB8\x80"]);
        assert_eq!((sum.characters, sum.words, sum.replaced), (4, 2, 0));
        assert_eq!(text, "hi \u{1F600}");
    }

    #[test]
    fn lone_halves_and_broken_bytes_are_replaced_and_counted() {
        let (sum, text) = measure(&[b"\xED\xA0\xBDa", b"\xED\xB8\x80", b"\xFF", b"\xED\xA0\xBD"]);
        assert_eq!(text, "\u{FFFD}a\u{FFFD}\u{FFFD}\u{FFFD}");
        assert_eq!((sum.characters, sum.replaced), (5, 4));
    }

    #[test]
    fn unicode_white_space_separates_words() {
        let (sum, _) = measure(&["a\u{2028}b\u{3000}c".as_bytes()]);
        assert_eq!((sum.characters, sum.words), (5, 3));
    }
}
