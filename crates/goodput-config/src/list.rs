//! Lists and ranges of loads, as they stand behind `--concurrency` and `--rate`.

use std::num::NonZeroU32;

use crate::{decimal::Decimal, problem::TextError};

/// No sweep has more load points than this.
const MOST: usize = 1_000;
/// Values are kept in millionths while a range is laid out, so that 0.1 ten times is 1.
const UNIT: u64 = 1_000_000;

/// Reads concurrencies: "1,2,4", "50:100:10" (from:to:step), "1..128x2" (each twice the last), or
/// several of these behind commas.
///
/// An end is included if it is reached. They come out in rising order, each once, rounded to whole
/// numbers; at least one, each from 1 to 1,000,000.
pub fn parse_concurrency(text: &str) -> Result<Vec<NonZeroU32>, TextError> {
    let mut loads = Vec::new();
    for value in values(text)? {
        let nearest = u32::try_from((value + UNIT / 2) / UNIT).ok();
        let load = nearest
            .and_then(NonZeroU32::new)
            .filter(|n| n.get() <= 1_000_000);
        loads.push(load.ok_or_else(|| {
            TextError::new(format!(
                "`{text}` asks for a concurrency outside 1 to 1,000,000"
            ))
        })?);
    }
    loads.dedup();
    Ok(loads)
}

/// Reads rates in requests per second, in the same forms as [`parse_concurrency`]. Above zero.
pub fn parse_rates(text: &str) -> Result<Vec<f64>, TextError> {
    let rates = values(text)?;
    if rates.first() == Some(&0) {
        return Err(TextError::new("a rate of 0 sends nothing").expected("rates above zero"));
    }
    Ok(rates.into_iter().map(|r| r as f64 / UNIT as f64).collect())
}

fn refuse(item: &str) -> TextError {
    let why = if item.is_empty() {
        "an entry of the list is empty".to_owned()
    } else {
        format!("`{item}` is neither a number nor a range")
    };
    TextError::new(why).expected("`1,2,4`, `50:100:10` (from:to:step) or `1..128x2` (doubling)")
}

/// All values in rising order, each once, in millionths.
fn values(text: &str) -> Result<Vec<u64>, TextError> {
    let mut all = Vec::new();
    for item in text.split(',').map(str::trim) {
        range(item, &mut all)?;
        if all.len() > MOST {
            return Err(TextError::new(format!(
                "`{text}` has more than {MOST} values"
            )));
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Adds the values of one entry.
fn range(item: &str, all: &mut Vec<u64>) -> Result<(), TextError> {
    let number = |text: &str| {
        let value = Decimal::parse(text.trim()).and_then(|d| d.times(UNIT));
        value.ok_or_else(|| refuse(item))
    };
    let (from, to, step) = if let Some((from, rest)) = item.split_once("..") {
        let Some((to, factor)) = rest.split_once('x') else {
            return Err(refuse(item).hint(format!(
                "say how it rises: `{item}x2` doubles, `{from}:{rest}:1` takes every number"
            )));
        };
        (from, to, Step::Times(number(factor)?))
    } else if let [from, to, step] = item.split(':').collect::<Vec<_>>()[..] {
        (from, to, Step::Plus(number(step)?))
    } else {
        all.push(number(item)?);
        return Ok(());
    };
    let (from, to) = (number(from)?, number(to)?);
    if from > to || from == 0 {
        return Err(TextError::new(format!("`{item}` is empty"))
            .expected("a range from above 0 up to something larger"));
    }
    if !step.rises() {
        return Err(TextError::new(format!("`{item}` does not rise"))
            .expected("a step above 0, or a factor above 1"));
    }
    let mut value = from;
    while value <= to && all.len() <= MOST {
        all.push(value);
        value = step.after(value);
    }
    Ok(())
}

/// How a range goes on, in millionths.
#[derive(Clone, Copy)]
enum Step {
    Plus(u64),
    Times(u64),
}

impl Step {
    fn rises(self) -> bool {
        match self {
            Self::Plus(step) => step > 0,
            Self::Times(factor) => factor > UNIT,
        }
    }

    fn after(self, value: u64) -> u64 {
        let next = match self {
            Self::Plus(step) => value.saturating_add(step),
            Self::Times(factor) => {
                let product = u128::from(value) * u128::from(factor) / u128::from(UNIT);
                u64::try_from(product).unwrap_or(u64::MAX)
            }
        };
        next.max(value.saturating_add(1))
    }
}
