//! The conditions of `#(…)`: what an element's value is compared with and how.

use super::glob::Glob;
use super::text::text_bool;
use super::{Budget, Kind, LimitExceeded, Value};
use crate::sensor::number::parse_float_or_zero;

/// Comparison of a query; `=` is also written `==`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// No operator: the value must exist.
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Like,
    NotLike,
    /// Something that starts like an operator and is none: nothing matches.
    Unknown,
}

impl Operator {
    /// Splits the text from the first operator character on into operator and value.
    pub(super) fn split(text: &[u8]) -> (Self, &[u8]) {
        match text {
            [] => (Self::Exists, text),
            [b'!', b'=', rest @ ..] => (Self::NotEqual, rest),
            [b'!', b'%', rest @ ..] => (Self::NotLike, rest),
            [b'<', b'=', rest @ ..] => (Self::LessOrEqual, rest),
            [b'>', b'=', rest @ ..] => (Self::GreaterOrEqual, rest),
            [b'=', b'=', rest @ ..] | [b'=', rest @ ..] => (Self::Equal, rest),
            [b'<', rest @ ..] => (Self::Less, rest),
            [b'>', rest @ ..] => (Self::Greater, rest),
            [b'%', rest @ ..] => (Self::Like, rest),
            [_] => (Self::Unknown, &[]),
            _ => (Self::Exists, text),
        }
    }
}

/// Whether an element's value satisfies a query.
pub(super) fn matches(
    operator: Operator,
    wanted: &[u8],
    value: &Value<'_>,
    budget: &Budget,
) -> Result<bool, LimitExceeded> {
    if let Some(word) = wanted.strip_prefix(b"~") {
        let Some(is) = is_like(word, value) else {
            return Ok(false);
        };
        return Ok(operator == Operator::Exists || compare_bool(operator, b"true", is));
    }
    if !value.exists() {
        return Ok(false);
    }
    match (operator, value.kind()) {
        (Operator::Exists, _) => Ok(true),
        (Operator::Like, Kind::String) => Glob::new(wanted).matches(&value.text(), budget),
        (Operator::NotLike, Kind::String) => Ok(!Glob::new(wanted).matches(&value.text(), budget)?),
        (_, Kind::String) => Ok(compare(operator, &*value.text(), wanted)),
        (_, Kind::Number) => Ok(compare(
            operator,
            &value.number(),
            &parse_float_or_zero(wanted),
        )),
        (_, Kind::True) => Ok(compare_bool(operator, wanted, true)),
        (_, Kind::False) => Ok(compare_bool(operator, wanted, false)),
        (_, Kind::Null | Kind::Json) => Ok(false),
    }
}

/// Loose truth for the `~` values; `None` for an unknown word.
fn is_like(word: &[u8], value: &Value<'_>) -> Option<bool> {
    match word {
        b"*" => Some(value.exists()),
        b"null" => Some(value.kind() == Kind::Null),
        b"true" => Some(loose_bool(value) == Some(true)),
        b"false" => Some(value.kind() == Kind::Null || loose_bool(value) == Some(false)),
        _ => None,
    }
}

fn loose_bool(value: &Value<'_>) -> Option<bool> {
    match value.kind() {
        Kind::True => Some(true),
        Kind::False => Some(false),
        Kind::String => text_bool(&value.text()),
        Kind::Number => Some(value.number() != 0.0),
        Kind::Null | Kind::Json => None,
    }
}

fn compare<T: PartialOrd + ?Sized>(operator: Operator, value: &T, wanted: &T) -> bool {
    match operator {
        Operator::Equal => value == wanted,
        Operator::NotEqual => value != wanted,
        Operator::Less => value < wanted,
        Operator::LessOrEqual => value <= wanted,
        Operator::Greater => value > wanted,
        Operator::GreaterOrEqual => value >= wanted,
        Operator::Exists | Operator::Like | Operator::NotLike | Operator::Unknown => false,
    }
}

/// Booleans order false before true; the other side counts only as the exact words.
fn compare_bool(operator: Operator, wanted: &[u8], value: bool) -> bool {
    let (same, other) = if value {
        (b"true".as_slice(), b"false".as_slice())
    } else {
        (b"false".as_slice(), b"true".as_slice())
    };
    match operator {
        Operator::Equal => wanted == same,
        Operator::NotEqual => wanted != same,
        Operator::Greater => value && wanted == other,
        Operator::Less => !value && wanted == other,
        Operator::GreaterOrEqual => value,
        Operator::LessOrEqual => !value,
        Operator::Exists | Operator::Like | Operator::NotLike | Operator::Unknown => false,
    }
}
