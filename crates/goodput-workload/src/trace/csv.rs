//! Tables with a header: Azure, `BurstGPT` and plain ones.

use super::{Broken, RawRequest, Read, Reader, TraceError, detect::TraceFormat, instant};

/// The cells of a line, without blanks and quotes around them.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',')
        .map(|cell| cell.trim().trim_matches('"').trim())
}

/// The names of a header, as letters only: "Request tokens" and `request_tokens` are the same.
pub(super) fn columns(header: &str) -> Vec<String> {
    let plain = |cell: &str| {
        let letters = cell.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    cells(header).map(plain).collect()
}

/// Where the columns are.
struct Layout {
    arrival: Option<usize>,
    input: usize,
    output: usize,
    session: Option<usize>,
    elapsed: Option<usize>,
    count: usize,
}

impl Layout {
    fn of(header: &str, format: TraceFormat) -> Result<Self, Broken> {
        let names = columns(header);
        let find = |known: &[&str]| names.iter().position(|name| known.contains(&name.as_str()));
        let expected = match format {
            TraceFormat::Azure => "the header TIMESTAMP,ContextTokens,GeneratedTokens",
            TraceFormat::BurstGpt => "a header with Timestamp, Request tokens and Response tokens",
            _ => "the header arrival_s,input_tokens,output_tokens",
        };
        let missing = || Broken::new(format!("the header is `{header}`"), expected);
        Ok(Self {
            arrival: find(&["timestamp", "arrivals", "arrival"]),
            input: find(&["contexttokens", "requesttokens", "inputtokens"]).ok_or_else(missing)?,
            output: find(&["generatedtokens", "responsetokens", "outputtokens"])
                .ok_or_else(missing)?,
            session: find(&["sessionid", "session"]),
            elapsed: find(&["elapsedtime", "durations"]),
            count: names.len(),
        })
    }

    fn row(&self, line: &str) -> Result<Read, Broken> {
        let cells: Vec<&str> = cells(line).collect();
        if cells.len() != self.count {
            let what = format!("{} cells", cells.len());
            return Err(Broken::new(
                what,
                format!("{} as in the header", self.count),
            ));
        }
        let tokens = |place: usize, what: &str| {
            let text = cells.get(place).copied().unwrap_or_default();
            let broken = || Broken::new(format!("{what} are `{text}`"), "a whole number");
            // Tables that went through a data frame have "12.0".
            let whole = text.strip_suffix(".0").unwrap_or(text);
            whole.parse::<u32>().map(u64::from).map_err(|_| broken())
        };
        let cell = |place: Option<usize>| {
            let text = place.and_then(|place| cells.get(place).copied());
            text.filter(|text| !text.is_empty())
        };
        let at_ns = match self.arrival {
            Some(_) => Some(instant::parse(cell(self.arrival).unwrap_or_default())?),
            None => None,
        };
        Ok(Read::Request(RawRequest {
            at_ns,
            input_tokens: tokens(self.input, "input tokens")?,
            output_tokens: tokens(self.output, "output tokens")?,
            session: cell(self.session).map(str::to_owned),
            duration_ns: cell(self.elapsed).and_then(|text| {
                let span = instant::parse(text).ok()?;
                u64::try_from(span).ok()
            }),
            blocks: Vec::new(),
        }))
    }
}

pub(super) fn read(bytes: &[u8], reader: &mut Reader) -> Result<(), TraceError> {
    let mut layout = None;
    for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        let Ok(line) = std::str::from_utf8(line) else {
            reader.broken(
                number,
                Broken::new("not UTF-8", "a text file, decompressed"),
            )?;
            continue;
        };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        match &layout {
            Some(known) => {
                let row = Layout::row(known, line);
                reader.row(number, row)?;
            }
            None => {
                layout = match Layout::of(line, reader.format()) {
                    Ok(layout) => Some(layout),
                    Err(broken) => {
                        return Err(TraceError::Row {
                            format: reader.format(),
                            row: number,
                            what: broken.what,
                            expected: broken.expected,
                        });
                    }
                };
            }
        }
    }
    Ok(())
}
