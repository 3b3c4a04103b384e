//! Tables of CSV, and summaries of errors.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

/// A row by column name.
pub(crate) type Row = BTreeMap<String, String>;

/// Reads a CSV file without quoted commas, gzipped if its name says so.
pub(crate) fn read(path: &Path) -> Vec<Row> {
    let mut text = String::new();
    let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if path.extension().is_some_and(|e| e == "gz") {
        flate2::read::GzDecoder::new(file).read_to_string(&mut text)
    } else {
        let mut file = file;
        file.read_to_string(&mut text)
    }
    .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text.lines();
    let names: Vec<String> = fields(lines.next().unwrap_or_default());
    lines
        .map(|line| names.iter().cloned().zip(fields(line)).collect())
        .collect()
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().expect("never empty").push(c),
        }
    }
    fields
}

/// A number of a row; `None` where the cell is empty or no number.
pub(crate) fn number(row: &Row, name: &str) -> Option<f64> {
    row.get(name)?.trim().parse().ok()
}

/// The text of a cell.
pub(crate) fn text<'a>(row: &'a Row, name: &str) -> &'a str {
    row.get(name).map_or("", String::as_str)
}

/// The `q` quantile.
pub(crate) fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    goodput_stats::quantile(&sorted, q).unwrap_or(f64::NAN)
}

/// Prints a line about relative errors, and whether their median is within `goal`.
pub(crate) fn summary(what: &str, errors: &[f64], goal: f64) {
    if errors.is_empty() {
        println!("{what:<44} none");
        return;
    }
    let sizes: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
    let median = quantile(&sizes, 0.5);
    let verdict = if median <= goal { "within" } else { "MISSES" };
    println!(
        "{what:<44} n {:>3}  median {:>4.1} %  p90 {:>5.1} %  bias {:>+5.1} %  {verdict} {:.0} %",
        errors.len(),
        100.0 * median,
        100.0 * quantile(&sizes, 0.9),
        100.0 * quantile(errors, 0.5),
        100.0 * goal,
    );
}
