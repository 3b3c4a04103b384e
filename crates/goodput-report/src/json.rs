//! JSON as strict readers want it: no NaN, no Infinity; what is undefined is null.

use std::io::{Result, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// Levels that have a line for each of their values. What lies deeper (quantiles, bars of requests)
/// is read by programs, and would be most of the file if it were indented.
const INDENTED: usize = 3;

/// A document as indented JSON that ends with a line break. Floats that are not finite become null.
///
/// # Panics
/// If a map in `value` has keys that are not strings, which no document of this project has.
#[must_use]
pub fn document<T: Serialize>(value: &T) -> String {
    let mut bytes = Vec::new();
    let format = Outline::default();
    value
        .serialize(&mut Serializer::with_formatter(&mut bytes, format))
        .expect("invariant: documents have string keys only");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("invariant: JSON is text")
}

/// Indented down to [`INDENTED`], compact below.
#[derive(Default)]
struct Outline {
    indented: PrettyFormatter<'static>,
    depth: usize,
}

impl Outline {
    const fn is_deep(&self) -> bool {
        self.depth > INDENTED
    }
}

impl Formatter for Outline {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.depth += 1;
        if self.is_deep() {
            CompactFormatter.begin_array(out)
        } else {
            self.indented.begin_array(out)
        }
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        let deep = self.is_deep();
        self.depth -= 1;
        if deep {
            CompactFormatter.end_array(out)
        } else {
            self.indented.end_array(out)
        }
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Result<()> {
        if self.is_deep() {
            CompactFormatter.begin_array_value(out, first)
        } else {
            self.indented.begin_array_value(out, first)
        }
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        if self.is_deep() {
            CompactFormatter.end_array_value(out)
        } else {
            self.indented.end_array_value(out)
        }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.depth += 1;
        if self.is_deep() {
            CompactFormatter.begin_object(out)
        } else {
            self.indented.begin_object(out)
        }
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        let deep = self.is_deep();
        self.depth -= 1;
        if deep {
            CompactFormatter.end_object(out)
        } else {
            self.indented.end_object(out)
        }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Result<()> {
        if self.is_deep() {
            CompactFormatter.begin_object_key(out, first)
        } else {
            self.indented.begin_object_key(out, first)
        }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        if self.is_deep() {
            CompactFormatter.begin_object_value(out)
        } else {
            self.indented.begin_object_value(out)
        }
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        if self.is_deep() {
            CompactFormatter.end_object_value(out)
        } else {
            self.indented.end_object_value(out)
        }
    }
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
    fn what_lies_deep_takes_one_line() {
        let value = serde_json::json!({"a": {"b": {"c": [1, {"d": []}], "e": {}}}, "f": [[]]});
        let text = document(&value);
        assert_eq!(
            text,
            "{\n  \"a\": {\n    \"b\": {\n      \"c\": [1,{\"d\":[]}],\n      \"e\": {}\n    }\n  },\n  \"f\": [\n    []\n  ]\n}\n"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
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
