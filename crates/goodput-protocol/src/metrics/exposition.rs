//! Prometheus' text exposition format, read line by line.

/// One sample line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric<'a> {
    /// The metric's name.
    pub name: &'a str,
    /// The labels as they stand between the braces; empty if there are none.
    pub labels: &'a str,
    /// The value.
    pub value: f64,
}

impl<'a> Metric<'a> {
    /// The value of one label, its escapes left as they are.
    #[must_use]
    pub fn label(&self, wanted: &str) -> Option<&'a str> {
        let mut rest = self.labels;
        while let Some((name, value)) = rest.split_once("=\"") {
            let name = name.trim_matches([',', ' ']);
            let end = quote(value)?;
            if name == wanted {
                return Some(&value[..end]);
            }
            rest = &value[end + 1..];
        }
        None
    }
}

/// Reads every sample line of `text`. Comments and lines that are no samples are passed over: a
/// scrape that was cut still tells what it holds.
pub fn metrics(text: &str) -> impl Iterator<Item = Metric<'_>> {
    text.lines().filter_map(read)
}

fn read(line: &str) -> Option<Metric<'_>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let name_end = line.find(['{', ' ', '\t'])?;
    let (name, rest) = line.split_at(name_end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => {
            let end = closing_brace(inside)?;
            (&inside[..end], &inside[end + 1..])
        }
        None => ("", rest),
    };
    let value = rest.split_whitespace().next()?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        number => number.parse().ok()?,
    };
    Some(Metric {
        name,
        labels,
        value,
    })
}

/// Where the labels end: the first brace outside a quoted value.
fn closing_brace(inside: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + inside[from..].find(['"', '}'])?;
        if inside.as_bytes()[at] == b'}' {
            return Some(at);
        }
        from = at + 1;
        from += quote(&inside[from..])? + 1;
    }
}

/// Where a quoted value ends: the first quote without a backslash before it.
fn quote(value: &str) -> Option<usize> {
    let mut escaped = false;
    value.bytes().position(|byte| {
        let end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        end
    })
}
