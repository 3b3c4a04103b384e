//! A string of a chunk, left as it stands in the JSON until someone asks for it.

use std::borrow::Cow;

/// A JSON string's value. Decoded it is WTF-8: UTF-8 that may hold a lone surrogate, because half
/// of an escaped pair may stand in the next chunk.
#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    /// Free of escapes: the value itself.
    Plain(&'a [u8]),
    /// With escapes, all of them well formed.
    Escaped(&'a [u8]),
    /// Decoded by the full parser.
    Owned(Vec<u8>),
}

impl Default for Text<'_> {
    fn default() -> Self {
        Self::Plain(b"")
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        self.decode(&mut a) == other.decode(&mut b)
    }
}

impl Text<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Plain(raw) | Self::Escaped(raw) => raw.is_empty(),
            Self::Owned(bytes) => bytes.is_empty(),
        }
    }

    /// The value as WTF-8; `scratch` is used where there are escapes.
    pub(crate) fn decode<'s>(&'s self, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        match self {
            Self::Plain(raw) => raw,
            Self::Owned(bytes) => bytes,
            Self::Escaped(raw) => {
                scratch.clear();
                unescape(raw, scratch);
                scratch
            }
        }
    }

    /// Two strings one after the other.
    pub(crate) fn join(self, more: Self) -> Self {
        if more.is_empty() {
            return self;
        }
        if self.is_empty() {
            return more;
        }
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut joined = self.decode(&mut a).to_vec();
        joined.extend_from_slice(more.decode(&mut b));
        Self::Owned(joined)
    }
}

impl<'a> From<Cow<'a, [u8]>> for Text<'a> {
    fn from(value: Cow<'a, [u8]>) -> Self {
        match value {
            Cow::Borrowed(raw) => Self::Plain(raw),
            Cow::Owned(bytes) => Self::Owned(bytes),
        }
    }
}

/// Undoes the escapes of a JSON string whose escapes are known to be well formed.
fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let escape = rest.get(at + 1).copied().unwrap_or_default();
        rest = rest.get(at + 2..).unwrap_or_default();
        match escape {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let unit = take_unit(&mut rest);
                push_unit(unit, &mut rest, out);
            }
            other => out.push(other),
        }
    }
    out.extend_from_slice(rest);
}

/// The four hexadecimal digits that `rest` begins with.
fn take_unit(rest: &mut &[u8]) -> u32 {
    let digits = rest.get(..4).unwrap_or_default();
    *rest = rest.get(4..).unwrap_or_default();
    digits.iter().fold(0, |unit, &digit| {
        unit << 4 | char::from(digit).to_digit(16).unwrap_or_default()
    })
}

/// Writes one UTF-16 unit, with the unit behind it if the two are a pair.
fn push_unit(unit: u32, rest: &mut &[u8], out: &mut Vec<u8>) {
    let mut code = unit;
    if (0xD800..0xDC00).contains(&unit)
        && let Some(after) = rest.strip_prefix(b"\\u")
    {
        let mut after = after;
        let low = take_unit(&mut after);
        if (0xDC00..0xE000).contains(&low) {
            code = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            *rest = after;
        }
    }
    push_wtf8(code, out);
}

/// Writes a code point, lone surrogates included, as (generalised) UTF-8.
fn push_wtf8(code: u32, out: &mut Vec<u8>) {
    if let Some(c) = char::from_u32(code) {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        // A surrogate is three bytes of six and four bits each: 0xED, 0xA0..=0xBF, 0x80..=0xBF.
        let byte = |shift: u32, mask: u32, mark: u8| {
            mark | u8::try_from(code >> shift & mask).unwrap_or_default()
        };
        out.extend([
            byte(12, 0xF, 0xE0),
            byte(6, 0x3F, 0x80),
            byte(0, 0x3F, 0x80),
        ]);
    }
}
