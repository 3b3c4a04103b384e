//! Figures as people read them: three significant digits, thousands apart, a dash for what does
//! not exist.

/// What stands for a figure that does not exist.
pub const NONE: &str = "-";

/// A figure with three significant digits; from 100 on whole, with thousands apart: `0.353`,
/// `7.44`, `45`, `1,422`. Trailing zeros after the point are left out.
#[must_use]
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let size = value.abs();
    let decimals = match size {
        s if s >= 99.95 || s == 0.0 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.9995 => 2,
        s if s >= 0.099_95 => 3,
        _ => 4,
    };
    let text = thousands(&format!("{value:.decimals$}"));
    if decimals == 0 {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// [`number`] of a figure that may not exist.
#[must_use]
pub fn number_or_none(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), number)
}

/// A figure with a fixed number of decimals, for columns.
#[must_use]
pub fn fixed(value: Option<f64>, decimals: usize) -> String {
    match value {
        Some(v) if v.is_finite() => format!("{v:.decimals$}"),
        _ => NONE.to_owned(),
    }
}

/// Milliseconds for a column: whole from 10 on, else with one decimal.
#[must_use]
pub fn millis(value: Option<f64>) -> String {
    let decimals = usize::from(value.is_some_and(|ms| ms.abs() < 9.95));
    fixed(value, decimals)
}

/// A count with thousands apart.
#[must_use]
pub fn count(value: u64) -> String {
    thousands(&value.to_string())
}

/// A share (0 to 1) in percent with one decimal, without the sign. A share that is not whole never
/// reads as 100.0 or 0.0.
#[must_use]
pub fn percent(share: Option<f64>) -> String {
    let Some(share) = share.filter(|s| s.is_finite()) else {
        return NONE.to_owned();
    };
    match share {
        s if (0.999_95..1.0).contains(&s) => ">99.99".to_owned(),
        s if (0.9995..1.0).contains(&s) => format!("{:.2}", (s * 10_000.0).floor() / 100.0),
        s if s > 0.0 && s < 0.0005 => "<0.1".to_owned(),
        s => format!("{:.1}", s * 100.0),
    }
}

/// A share in percent, as short as it can be said: `99%`, `99.5%`.
#[must_use]
pub fn percent_short(share: f64) -> String {
    let text = percent(Some(share));
    let short = text.strip_suffix(".0").unwrap_or(&text);
    format!("{short}%")
}

/// Seconds as people say them: `850 ms`, `5.6 s`, `21m 40s`, `2h 05m`.
#[must_use]
pub fn span(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return NONE.to_owned();
    }
    if seconds < 0.9995 {
        return format!("{} ms", number(seconds * 1e3));
    }
    if seconds < 99.5 {
        return format!("{} s", number((seconds * 10.0).round() / 10.0));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a float-to-integer cast saturates"
    )]
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 {
        format!("{hours}h {minutes:02}m")
    } else {
        format!("{minutes}m {rest:02}s")
    }
}

/// Milliseconds as people say them: `75 ms`, `5.6 s`.
#[must_use]
pub fn span_ms(ms: Option<f64>) -> String {
    ms.map_or_else(|| NONE.to_owned(), |ms| span(ms / 1e3))
}

fn thousands(digits: &str) -> String {
    let (sign, digits) = digits
        .strip_prefix('-')
        .map_or(("", digits), |rest| ("-", rest));
    let (whole, fraction) = digits
        .split_once('.')
        .map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough() {
        let shown = [
            0.0,
            0.012_34,
            0.353_2,
            0.999_6,
            4.6,
            7.444,
            45.04,
            99.97,
            1422.3,
            1_234_567.8,
        ];
        let expect = [
            "0",
            "0.0123",
            "0.353",
            "1",
            "4.6",
            "7.44",
            "45",
            "100",
            "1,422",
            "1,234,568",
        ];
        assert_eq!(shown.map(number), expect);
        assert_eq!(number(-1500.0), "-1,500");
        assert_eq!([f64::NAN, f64::INFINITY].map(number), ["-", "-"]);
    }

    #[test]
    fn what_does_not_exist_is_a_dash_and_never_zero() {
        assert_eq!(number_or_none(None), "-");
        assert_eq!(millis(None), "-");
        assert_eq!(percent(None), "-");
        assert_eq!(span_ms(None), "-");
        assert_eq!(fixed(Some(f64::NAN), 2), "-");
    }

    #[test]
    fn a_share_below_one_never_reads_as_all() {
        let shown = [1.0, 0.999_99, 0.999_7, 0.999_4, 0.5, 0.0001, 0.0].map(|s| percent(Some(s)));
        assert_eq!(
            shown,
            ["100.0", ">99.99", "99.97", "99.9", "50.0", "<0.1", "0.0"]
        );
        assert_eq!(
            [0.99, 0.995, 1.0].map(percent_short),
            ["99%", "99.5%", "100%"]
        );
    }

    #[test]
    fn spans_have_the_unit_people_use() {
        let shown = [0.0423, 0.85, 5.6, 59.96, 1300.0, 7500.0].map(span);
        assert_eq!(
            shown,
            ["42.3 ms", "850 ms", "5.6 s", "60 s", "21m 40s", "2h 05m"]
        );
        assert_eq!([7.31, 75.2].map(|ms| millis(Some(ms))), ["7.3", "75"]);
    }
}
