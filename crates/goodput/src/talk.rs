//! The one place that prints: data to stdout, talk to stderr.

use std::io::{self, IsTerminal, Write};

use goodput_report::Style;

use crate::flags::{ColorWhen, Talk};

/// How to speak to the one who runs the program.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "five independent facts of two streams"
)]
pub(crate) struct Voice {
    quiet: bool,
    verbose: bool,
    /// Whether stdout takes colour.
    pub(crate) color_out: bool,
    /// Whether stderr takes colour.
    pub(crate) color_err: bool,
    /// Whether stderr is a terminal on which lines can be drawn over.
    pub(crate) live: bool,
}

impl Voice {
    /// From flags, terminals and `NO_COLOR`.
    pub(crate) fn new(talk: &Talk) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let color = |terminal: bool| match talk.color {
            ColorWhen::Auto => terminal && !no_color,
            ColorWhen::Always => true,
            ColorWhen::Never => false,
        };
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            quiet: talk.quiet,
            verbose: talk.verbose,
            color_out: color(out),
            color_err: color(err),
            live: err && !talk.quiet,
        }
    }

    /// Talk, unless quiet.
    pub(crate) fn say(self, line: &str) {
        if !self.quiet {
            error_line(line);
        }
    }

    /// Talk for those who asked for more.
    pub(crate) fn detail(self, line: &str) {
        if self.verbose {
            error_line(line);
        }
    }

    /// How text for stderr looks.
    pub(crate) fn style_err(self) -> Style {
        style(self.color_err)
    }

    /// How text for stdout looks.
    pub(crate) fn style_out(self) -> Style {
        style(self.color_out)
    }

    /// Whether so many lines of talk are still on the screen, so that they can be taken back.
    pub(crate) fn can_take_back(self, lines: usize) -> bool {
        let height = rustix::termios::tcgetwinsize(io::stderr()).map(|w| usize::from(w.ws_row));
        self.live && height.is_ok_and(|height| lines < height)
    }

    /// Takes back the last `lines` lines of talk, on a terminal.
    pub(crate) fn take_back(self, lines: usize) {
        if self.live && lines > 0 {
            let mut err = io::stderr().lock();
            let _ = write!(err, "\r\x1b[{lines}A\x1b[J");
            let _ = err.flush();
        }
    }

    /// A line that the next one draws over; only where stderr is a terminal.
    pub(crate) fn progress(self, line: &str) {
        if self.live {
            let mut err = io::stderr().lock();
            let _ = write!(err, "\r\x1b[2K{line}");
            let _ = err.flush();
        }
    }
}

/// What has to be said even to those who want quiet.
pub(crate) fn error_line(line: &str) {
    // Nobody is left to be told when stderr itself is closed.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Data. A reader that has seen enough is no error.
///
/// # Errors
/// Any failure to write but a closed pipe.
pub(crate) fn data(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| {
            if text.ends_with('\n') {
                Ok(())
            } else {
                out.write_all(b"\n")
            }
        })
        .and_then(|()| out.flush());
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Terminal text as wide as the terminal says it is.
fn style(color: bool) -> Style {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let width = columns
        .or_else(|| {
            rustix::termios::tcgetwinsize(io::stderr())
                .ok()
                .map(|w| usize::from(w.ws_col))
        })
        .filter(|&w| w > 0);
    Style {
        color,
        width: width.unwrap_or(100).clamp(80, 140),
    }
}
