//! The event-stream framing: lines, fields and events out of bytes cut anywhere.
//!
//! Only LF, CR and CRLF end a line; a field's value loses at most one leading space; comments and
//! events without data vanish (WHATWG HTML, section 9.2.6). One leniency: data that is pending
//! when the body ends is handed over too, marked as flushed.

use memchr::memchr2;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event that has data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    /// Its data lines, joined by LF.
    pub(crate) data: &'a [u8],
    /// Whether the server named it `error`.
    pub(crate) named_error: bool,
    /// Whether the body ended before its blank line.
    pub(crate) flushed: bool,
}

/// A line or an event is longer than the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Cuts an event stream into events. Holds at most one unfinished line and one unfinished event.
#[derive(Clone, Debug)]
pub(crate) struct EventReader {
    /// An unfinished line.
    line: Vec<u8>,
    /// Data of an unfinished event, and how many lines it came in.
    data: Vec<u8>,
    data_lines: usize,
    named_error: bool,
    /// The last byte was a CR, so that a LF right behind it belongs to it.
    after_cr: bool,
    first_line_over: bool,
    max_bytes: usize,
}

impl EventReader {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            data_lines: 0,
            named_error: false,
            after_cr: false,
            first_line_over: false,
            max_bytes,
        }
    }

    /// Forgets everything but its memory.
    pub(crate) fn reset(&mut self) {
        self.line.clear();
        self.data.clear();
        self.data_lines = 0;
        self.named_error = false;
        self.after_cr = false;
        self.first_line_over = false;
    }

    /// Takes the next bytes of the body; `on_event` gets every event that is now complete.
    pub(crate) fn on_bytes(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(Event<'_>),
    ) -> Result<(), TooLong> {
        let mut rest = bytes;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let line = &rest[..end];
            rest = self.line_end(&rest[end..]);
            if self.line.len() + line.len() > self.max_bytes {
                return Err(TooLong);
            }
            if !self.line.is_empty() {
                self.line.extend_from_slice(line);
                let whole = std::mem::take(&mut self.line);
                self.on_line(&whole, false, &mut on_event)?;
                self.line = whole;
                self.line.clear();
            } else if let Some(data) = self.lone_data(line)
                && matches!(rest.first(), Some(b'\n' | b'\r'))
            {
                // The usual case: a whole event inside one read, used where it lies.
                rest = self.line_end(rest);
                on_event(Event {
                    data,
                    named_error: std::mem::take(&mut self.named_error),
                    flushed: false,
                });
            } else {
                self.on_line(line, false, &mut on_event)?;
            }
        }
        if self.line.len() + rest.len() > self.max_bytes {
            return Err(TooLong);
        }
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// Ends the body: what is pending is handed over as it is.
    pub(crate) fn finish(&mut self, mut on_event: impl FnMut(Event<'_>)) {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            // A line above the cap was refused when it came.
            let _ = self.on_line(&line, true, &mut on_event);
        }
        self.dispatch(true, &mut on_event);
        self.reset();
    }

    /// Steps over the line end that `rest` begins with.
    fn line_end<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        match rest {
            [b'\r', b'\n', after @ ..] | [b'\n', after @ ..] => after,
            [b'\r', after @ ..] => {
                self.after_cr = after.is_empty();
                after
            }
            _ => rest,
        }
    }

    /// The value of a data line that is the first of its event.
    fn lone_data<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        if self.data_lines > 0 || !self.first_line_over {
            return None;
        }
        let value = line.strip_prefix(b"data:")?;
        Some(value.strip_prefix(b" ").unwrap_or(value))
    }

    fn on_line(
        &mut self,
        line: &[u8],
        flushed: bool,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<(), TooLong> {
        let line = if self.first_line_over {
            line
        } else {
            self.first_line_over = true;
            line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
        };
        if line.is_empty() {
            self.dispatch(flushed, on_event);
            return Ok(());
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.data.len() + value.len() >= self.max_bytes {
                    return Err(TooLong);
                }
                if self.data_lines > 0 {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.data_lines += 1;
            }
            b"event" => self.named_error = value == b"error",
            // Comments have an empty field name; `id` and `retry` steer a reconnection, which a
            // generated answer cannot have.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, flushed: bool, on_event: &mut impl FnMut(Event<'_>)) {
        let named_error = std::mem::take(&mut self.named_error);
        if std::mem::take(&mut self.data_lines) > 0 {
            on_event(Event {
                data: &self.data,
                named_error,
                flushed,
            });
        }
        self.data.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a body, each with whether it was flushed.
    fn events(pieces: &[&str]) -> Vec<(String, bool)> {
        let mut reader = EventReader::new(1 << 10);
        let mut events = Vec::new();
        let mut keep = |event: Event<'_>| {
            events.push((
                String::from_utf8(event.data.to_vec()).unwrap(),
                event.flushed,
            ));
        };
        for piece in pieces {
            reader.on_bytes(piece.as_bytes(), &mut keep).unwrap();
        }
        reader.finish(&mut keep);
        events
    }

    #[track_caller]
    fn check(pieces: &[&str], expected: &[(&str, bool)]) {
        let seen = events(pieces);
        let seen: Vec<(&str, bool)> = seen.iter().map(|(d, f)| (d.as_str(), *f)).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn data_lines_of_one_event_are_joined_by_lf() {
        check(&["data: a\ndata\ndata:b\n\n"], &[("a\n\nb", false)]);
        check(
            &["data: a\r\ndata: b\r\n\r\ndata: c\r\r"],
            &[("a\nb", false), ("c", false)],
        );
    }

    #[test]
    fn a_cr_at_the_end_of_a_read_may_be_half_a_line_end() {
        check(
            &["data: a\r", "\ndata: b\r", "\n\r", "\n"],
            &[("a\nb", false)],
        );
        check(&["data: a\r", "data: b\r", "\r"], &[("a\nb", false)]);
        check(&["data: a\r", "", "\ndata: b\n\n"], &[("a\nb", false)]);
    }

    #[test]
    fn one_leading_space_is_dropped_and_no_more() {
        check(
            &["\ndata:  a\n\ndata:b\n\ndata:\tc\n\n"],
            &[(" a", false), ("b", false), ("\tc", false)],
        );
    }

    #[test]
    fn other_fields_comments_and_empty_blocks_make_no_event() {
        check(
            &["id: 7\n\nretry: 1\n\n: data: x\n\n\n\nxdata: y\n\ndatax: z\n\n"],
            &[],
        );
        check(&[": a\ndata: b\n: c\nid: 1\n\n\n"], &[("b", false)]);
    }

    #[test]
    fn what_is_pending_at_the_end_is_flushed() {
        check(&["data: a\n"], &[("a", true)]);
        check(
            &["data: a\n\ndata: [DO", "NE]"],
            &[("a", false), ("[DONE]", true)],
        );
        check(&["data: a\n\nid: 3"], &[("a", false)]);
    }

    #[test]
    fn the_cap_holds_for_lines_and_for_joined_data() {
        let mut reader = EventReader::new(100);
        let long = "x".repeat(101);
        assert_eq!(reader.on_bytes(long.as_bytes(), |_| ()), Err(TooLong));
        let mut reader = EventReader::new(100);
        let lines = "data: 0123456789\n".repeat(11);
        assert_eq!(reader.on_bytes(lines.as_bytes(), |_| ()), Err(TooLong));
        let mut reader = EventReader::new(100);
        let comment = ":".repeat(99) + "\n";
        for _ in 0..9 {
            assert_eq!(reader.on_bytes(comment.as_bytes(), |_| ()), Ok(()));
        }
    }

    #[test]
    fn only_its_own_event_is_named_error() {
        let mut reader = EventReader::new(100);
        let mut named = Vec::new();
        let body = "\nevent: error\ndata: a\n\ndata: b\n\nevent: error\n\ndata: c\n\n";
        reader
            .on_bytes(body.as_bytes(), |event| named.push(event.named_error))
            .unwrap();
        assert_eq!(named, [true, false, false]);
    }
}
