//! JSON as strict readers want it: no NaN, no Infinity; what is undefined is null.

use serde::Serialize;

/// A document as indented JSON that ends with a line break. Floats that are not finite become null.
///
/// # Panics
/// If a map in `value` has keys that are not strings, which no document of this project has.
#[must_use]
pub fn document<T: Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).expect("invariant: documents have string keys only") + "\n"
}

/// A value as one line of JSON without its line break.
///
/// # Panics
/// As [`document`].
#[must_use]
pub fn line<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("invariant: documents have string keys only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefined_and_unlimited_are_null() {
        assert_eq!(
            line(&[Some(f64::NAN), Some(f64::INFINITY), None, Some(1.5)]),
            "[null,null,null,1.5]"
        );
        let back: serde_json::Value = serde_json::from_str(&document(&f64::NEG_INFINITY)).unwrap();
        assert!(back.is_null());
    }

    #[test]
    fn a_result_survives_being_written_and_read() {
        let result = crate::sample::sample();
        let text = document(&result);
        assert!(text.ends_with("}\n"));
        assert_eq!(
            serde_json::from_str::<goodput_sweep::RunResult>(&text).unwrap(),
            result
        );
    }
}
