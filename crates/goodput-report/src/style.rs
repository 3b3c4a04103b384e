//! How terminal text looks: colour or none, and how wide.

/// Colour and width of terminal text. The caller knows the terminal; this crate does not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether ANSI colours are written.
    pub color: bool,
    /// Columns to fill.
    pub width: usize,
}

impl Style {
    /// No colour, 100 columns: for files and pipes.
    #[must_use]
    pub const fn plain() -> Self {
        Self {
            color: false,
            width: 100,
        }
    }

    pub(crate) fn paint(self, ink: Ink, text: &str) -> String {
        if !self.color || text.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{}m{text}\x1b[0m", ink.code())
    }
}

/// What a piece of text means. Meaning never rests on colour alone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ink {
    Heading,
    Good,
    Late,
    Alarm,
    Faint,
}

impl Ink {
    const fn code(self) -> &'static str {
        match self {
            Self::Heading => "1",
            Self::Good => "36",
            Self::Late => "33",
            Self::Alarm => "1;31",
            Self::Faint => "2",
        }
    }
}

/// Breaks `text` into lines of at most `width` characters, at spaces where it can.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_no_escape_is_written() {
        assert_eq!(Style::plain().paint(Ink::Alarm, "!"), "!");
        let color = Style {
            color: true,
            width: 80,
        };
        assert_eq!(color.paint(Ink::Good, "#"), "\x1b[36m#\x1b[0m");
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_stand_alone() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("abcdefgh i", 3), ["abcdefgh", "i"]);
        assert!(wrap("  ", 9).is_empty());
    }
}
