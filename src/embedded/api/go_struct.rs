//! Typed structs out of JSON values, read as Go's decoder reads them: `null` is the zero value of every type, and what does
//! not fit its field is told in Go's words.

mod names;
mod reader;

use std::fmt;

use serde::de::{self, DeserializeOwned};
use serde_json::Value;

use reader::Reader;

/// What a field takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Number,
    Truth,
    Text,
    List,
    Map,
    /// A text or a number with a syntax of its own.
    Scalar,
    /// Either, without a word about it in the schema.
    Any,
}

/// One step on the way to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Of a struct, or the key of a map.
    Field(String),
    Item(usize),
}

/// Where a value does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub path: Vec<Step>,
    pub takes: Takes,
}

/// Why a value is not of its type, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// `None` where the value is of the right type and its text is wrong. Boxed, since most values fit.
    pub place: Option<Box<Place>>,
    /// The decoder's words.
    pub text: String,
    /// Those of the converter, which makes structs of what was patched or applied.
    pub converted: String,
}

impl Misfit {
    /// What is wrong with the text of a value, not with its type.
    #[must_use]
    pub fn told(text: impl Into<String>) -> Self {
        let text = text.into();
        Misfit {
            place: None,
            converted: text.clone(),
            text,
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Misfit {}

impl de::Error for Misfit {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Misfit::told(text.to_string())
    }
}

/// The struct that a value describes.
///
/// # Errors
/// Something in it does not fit.
pub fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, Misfit> {
    T::deserialize(Reader::new(value))
}

#[cfg(test)]
mod tests;
