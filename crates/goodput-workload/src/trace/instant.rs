//! Instants of traces, exact to the nanosecond.

use std::time::Duration;

use goodput_stats::{Draws, Stream};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use super::{Broken, RawRequest};

/// Reads an instant: seconds ("12", "0.001"), or a date and time in UTC with a blank or a T between
/// them, with or without a fraction, Z or an offset. Digits past the ninth are cut.
pub(super) fn parse(text: &str) -> Result<i128, Broken> {
    let broken = || {
        Broken::new(
            format!("the instant is `{text}`"),
            "seconds, or a date and time like 2024-05-10 00:00:00.009930 (UTC)",
        )
    };
    if let Some(nanos) = seconds(text) {
        return Ok(nanos);
    }
    let text = &cut_fraction(text);
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant.as_nanosecond());
    }
    let civil: DateTime = text.parse().map_err(|_| broken())?;
    let instant = TimeZone::UTC.to_timestamp(civil).map_err(|_| broken())?;
    Ok(instant.as_nanosecond())
}

/// Decimal seconds to nanoseconds, without a binary fraction between.
fn seconds(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 18 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanos: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    let whole: i128 = whole.parse().ok()?;
    Some(whole * 1_000_000_000 + nanos.parse::<i128>().ok()?)
}

/// The text with at most nine digits behind the point.
fn cut_fraction(text: &str) -> String {
    let Some((head, tail)) = text.split_once('.') else {
        return text.to_owned();
    };
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, rest) = tail.split_at(digits);
    format!("{head}.{}{rest}", fraction.get(..9).unwrap_or(fraction))
}

/// The length of a tick of Mooncake's clock.
const TICK: Duration = Duration::from_secs(3);

/// Spreads requests whose times are ticks over the three seconds after their tick, evenly by
/// chance and in the order of the file. Left alone if most instants are different: then somebody
/// has spread them already.
pub(super) fn spread_ticks(requests: &mut [RawRequest]) {
    let instants = requests.chunk_by(|a, b| a.at_ns == b.at_ns).count();
    if instants * 2 > requests.len() {
        return;
    }
    let tick_ns = TICK.as_nanos() as f64;
    let mut number = 0;
    for tick in requests.chunk_by_mut(|a, b| a.at_ns == b.at_ns) {
        let draws = tick.iter().map(|_| {
            number += 1;
            Draws::new(0, Stream(0x5449_434B), number).unit() * tick_ns
        });
        let mut offsets: Vec<f64> = draws.collect();
        offsets.sort_by(f64::total_cmp);
        for (request, offset) in tick.iter_mut().zip(offsets) {
            #[expect(clippy::cast_possible_truncation, reason = "below 3e9")]
            let offset = offset as i128;
            request.at_ns = request.at_ns.map(|at| at + offset);
        }
    }
}
