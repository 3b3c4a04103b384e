//! The fast way through a chunk: one pass over its bytes, nothing copied, nothing allocated.
//!
//! It knows the shape that nearly every event of a stream has: at most one choice, at most one
//! tool call in it, plain keys, whole numbers. On anything else it gives up and the full parser
//! reads the event instead. Where it does answer, its answer is the full parser's (a property
//! test), so it must be as strict as that one in whatever it steps over.

use super::{Choice, Chunk, Finish, Text, Tool, Usage};

/// Deeper values are left to the full parser, which has a limit of its own.
const MAX_DEPTH: u32 = 32;

/// Reads a chunk of the usual shape; `None` if it is of any other.
pub(crate) fn scan(bytes: &[u8]) -> Option<Chunk<'_>> {
    let mut scanner = Scanner { bytes, at: 0 };
    let mut chunk = Chunk::default();
    let mut seen = Seen::default();
    scanner.object(|s, key| match key {
        b"choices" => {
            seen.once(1)?;
            s.choices(&mut chunk.choice)
        }
        b"usage" => {
            seen.once(2)?;
            chunk.usage = s.or_default(|s| s.usage().map(Some))?;
            Some(())
        }
        // Errors and reports that come once a stream: not worth a second implementation.
        b"error"
        | b"timings"
        | b"message"
        | b"detail"
        | b"eval_count"
        | b"eval_duration"
        | b"prompt_eval_count"
        | b"prompt_eval_duration" => None,
        // The full parser reads these as text, so here they must be good text.
        b"model" => {
            seen.once(4)?;
            s.or_default(Scanner::plain)?;
            Some(())
        }
        b"object" => {
            seen.once(8)?;
            s.or_default(Scanner::plain)?;
            Some(())
        }
        b"system_fingerprint" => {
            seen.once(16)?;
            s.or_default(Scanner::plain)?;
            Some(())
        }
        _ => s.skip(0),
    })?;
    scanner.space();
    (scanner.at == bytes.len() && seen.has(1)).then_some(chunk)
}

/// Which known keys of an object have come; the full parser refuses a key that comes twice.
#[derive(Default)]
struct Seen(u32);

impl Seen {
    fn once(&mut self, bit: u32) -> Option<()> {
        if self.has(bit) {
            return None;
        }
        self.0 |= bit;
        Some(())
    }

    fn has(&self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Bytes that may stand in a string without being looked at: not `"`, not `\`, no control.
const IN_STRING: [bool; 256] = {
    let mut table = [true; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = false;
        byte += 1;
    }
    table[b'"' as usize] = false;
    table[b'\\' as usize] = false;
    table
};

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// Steps over white space and takes the next byte.
    fn next(&mut self) -> Option<u8> {
        self.space();
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Reads an object; `field` reads the value of each key.
    fn object(&mut self, mut field: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.expect(b'{')?;
        if self.eat(b'}') {
            return Some(());
        }
        loop {
            let Text::Plain(key) = self.string()? else {
                return None;
            };
            if !key.is_ascii() {
                return None;
            }
            self.expect(b':')?;
            field(self, key)?;
            match self.next()? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Reads an array; `element` reads each element.
    fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.eat(b']') {
            return Some(());
        }
        loop {
            element(self)?;
            match self.next()? {
                b',' => {}
                b']' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Reads a string and leaves it where it lies.
    fn string(&mut self) -> Option<Text<'a>> {
        self.expect(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = self.bytes.get(self.at..)?;
            let plain = rest.iter().position(|&b| !IN_STRING[usize::from(b)])?;
            self.at += plain;
            match rest[plain] {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return None,
            }
        }
        let raw = &self.bytes[start..self.at];
        self.at += 1;
        Some(if escaped {
            Text::Escaped(raw)
        } else {
            Text::Plain(raw)
        })
    }

    /// Steps over one well-formed escape.
    fn escape(&mut self) -> Option<()> {
        let length = match self.bytes.get(self.at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' => {
                let digits = self.bytes.get(self.at + 2..self.at + 6)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                6
            }
            _ => return None,
        };
        self.at += length;
        Some(())
    }

    /// A string that the full parser reads as text: UTF-8, and here without escapes.
    fn plain(&mut self) -> Option<&'a [u8]> {
        match self.string()? {
            Text::Plain(raw) if raw.is_ascii() => Some(raw),
            _ => None,
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes.get(self.at..)?.starts_with(word).then(|| {
            self.at += word.len();
        })
    }

    fn null(&mut self) -> Option<()> {
        self.space();
        self.word(b"null")
    }

    /// What `value` reads; the default for `null`.
    fn or_default<T: Default>(&mut self, value: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.space();
        if self.peek() == Some(b'n') {
            self.null()?;
            return Some(T::default());
        }
        value(self)
    }

    /// Reads a count into `number`; `null` is none.
    fn count_into(&mut self, number: &mut Option<u32>) -> Option<()> {
        *number = self.or_default(|s| s.count().map(Some))?;
        Some(())
    }

    /// A whole number below a thousand million.
    fn count(&mut self) -> Option<u32> {
        self.space();
        let rest = self.bytes.get(self.at..)?;
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 || digits > 9 || (digits > 1 && rest[0] == b'0') {
            return None;
        }
        self.at += digits;
        Some(
            rest[..digits]
                .iter()
                .fold(0, |number, digit| number * 10 + u32::from(digit - b'0')),
        )
    }

    /// Steps over any value.
    fn skip(&mut self, depth: u32) -> Option<()> {
        self.space();
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'n' => self.word(b"null"),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'{' if depth < MAX_DEPTH => self.object(|s, _| s.skip(depth + 1)),
            b'[' if depth < MAX_DEPTH => self.array(|s| s.skip(depth + 1)),
            _ => self.skip_number(),
        }
    }

    fn skip_number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let first = self.peek()?;
        let digits = self.skip_digits()?;
        if first == b'0' && digits > 1 {
            return None;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.skip_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.skip_digits()?;
        }
        Some(())
    }

    /// Steps over at least one digit.
    fn skip_digits(&mut self) -> Option<usize> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > start).then(|| self.at - start)
    }

    /// No choice or one.
    fn choices(&mut self, found: &mut Option<Choice<'a>>) -> Option<()> {
        self.array(|s| {
            if found.is_some() {
                return None;
            }
            *found = Some(s.choice()?);
            Some(())
        })
    }

    fn choice(&mut self) -> Option<Choice<'a>> {
        let mut choice = Choice::default();
        let mut seen = Seen::default();
        self.object(|s, key| {
            match key {
                b"index" => {
                    seen.once(1)?;
                    choice.index = s.count()?;
                }
                b"delta" => {
                    // Both `delta` and `text` in one choice: odd.
                    seen.once(2)?;
                    s.delta(&mut choice)?;
                }
                b"text" => {
                    seen.once(2)?;
                    choice.content = s.string()?;
                }
                b"finish_reason" => {
                    seen.once(4)?;
                    choice.finish = Finish::read(s.or_default(Self::plain)?);
                }
                b"message" => return None,
                _ => s.skip(0)?,
            }
            Some(())
        })?;
        Some(choice)
    }

    fn delta(&mut self, choice: &mut Choice<'a>) -> Option<()> {
        let mut seen = Seen::default();
        self.object(|s, key| {
            match key {
                b"content" => {
                    seen.once(1)?;
                    choice.content = s.or_default(Self::string)?;
                }
                b"reasoning" | b"reasoning_content" => {
                    seen.once(2)?;
                    choice.reasoning = s.or_default(Self::string)?;
                }
                b"tool_calls" => {
                    seen.once(4)?;
                    choice.tool = s.or_default(Self::tools)?;
                }
                b"refusal" => {
                    seen.once(8)?;
                    s.null()?;
                }
                b"function_call" => {
                    seen.once(16)?;
                    s.null()?;
                }
                _ => s.skip(0)?,
            }
            Some(())
        })
    }

    /// Exactly one piece of a tool call.
    fn tools(&mut self) -> Option<Tool<'a>> {
        let mut tool = None;
        self.array(|s| {
            if tool.is_some() {
                return None;
            }
            tool = Some(s.tool()?);
            Some(())
        })?;
        tool
    }

    fn tool(&mut self) -> Option<Tool<'a>> {
        let mut tool = Tool::default();
        let mut seen = Seen::default();
        self.object(|s, key| match key {
            b"function" => {
                seen.once(1)?;
                s.object(|s, key| {
                    match key {
                        b"name" => {
                            seen.once(2)?;
                            tool.name = s.or_default(Self::string)?;
                        }
                        b"arguments" => {
                            seen.once(4)?;
                            tool.arguments = s.or_default(Self::string)?;
                        }
                        _ => s.skip(0)?,
                    }
                    Some(())
                })
            }
            _ => s.skip(0),
        })?;
        Some(tool)
    }

    fn usage(&mut self) -> Option<Usage> {
        let mut usage = Usage::default();
        let mut seen = Seen::default();
        self.object(|s, key| {
            match key {
                b"completion_tokens" => {
                    seen.once(1)?;
                    s.count_into(&mut usage.output)?;
                }
                b"prompt_tokens" => {
                    seen.once(2)?;
                    s.count_into(&mut usage.input)?;
                }
                b"prompt_tokens_details" => {
                    seen.once(4)?;
                    s.detail(b"cached_tokens", &mut usage.cached)?;
                }
                b"completion_tokens_details" => {
                    seen.once(8)?;
                    s.detail(b"reasoning_tokens", &mut usage.reasoning)?;
                }
                // Another place for a number that is read above.
                b"reasoning_tokens" | b"prompt_cache_hit_tokens" => return None,
                _ => s.skip(0)?,
            }
            Some(())
        })?;
        Some(usage)
    }

    /// One number of an object that may be `null`.
    fn detail(&mut self, wanted: &[u8], number: &mut Option<u32>) -> Option<()> {
        let mut seen = Seen::default();
        self.or_default(|s| {
            s.object(|s, key| {
                if key != wanted {
                    return s.skip(0);
                }
                seen.once(1)?;
                s.count_into(number)
            })
        })
    }
}
