//! Values that know their unit, as fields of a raw config type.

use std::{fmt, marker::PhantomData, ops::Deref, time::Duration};

use serde::{Deserialize, Deserializer, de};

use crate::problem::TextError;

/// What can be read from one config value.
pub trait FromText: Sized {
    /// Reads the value. A bare TOML number or boolean comes as its digits or word.
    fn from_text(text: &str) -> Result<Self, TextError>;
}

/// A config field of type `T`, read by [`FromText`].
///
/// It takes a string, and also a bare number, so that the reader can say what is missing ("`500`
/// has no unit") instead of "invalid type: integer".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed<T>(pub T);

/// A duration with its unit: "500ms", "1.5s", "28d".
pub type DurationText = Typed<Duration>;

impl<T> Deref for Typed<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: FromText> Deserialize<'de> for Typed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader(PhantomData))
    }
}

struct Reader<T>(PhantomData<T>);

impl<T: FromText> Reader<T> {
    fn read<E: de::Error>(text: &str) -> Result<Typed<T>, E> {
        T::from_text(text).map(Typed).map_err(E::custom)
    }
}

impl<T: FromText> de::Visitor<'_> for Reader<T> {
    type Value = Typed<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Self::read(text)
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        Self::read(&number.to_string())
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        Self::read(&number.to_string())
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        Self::read(&number.to_string())
    }
    fn visit_bool<E: de::Error>(self, word: bool) -> Result<Self::Value, E> {
        Self::read(&word.to_string())
    }
}
