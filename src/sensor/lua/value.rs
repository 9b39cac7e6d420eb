//! Lua values on their way in and out of library functions: numbers are written as gopher-lua writes them.

use std::borrow::Cow;
use std::ops::Deref;

use mlua::{BorrowedBytes, LuaString, Value};

use crate::sensor::number::format_general;

/// Writes a number: whole numbers of 64 bits without exponent or point, others as Go's `%v`.
pub(super) fn number_text(number: f64) -> String {
    match whole(number) {
        Some(integer) => integer.to_string(),
        None => format_general(number),
    }
}

/// Returns the number as an integer where it is one and fits.
pub(super) fn whole(number: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let fits = number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number);
    fits.then_some(number as i64)
}

/// Returns the number that a value is.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(integer) => Some(*integer as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// An argument that is a text, or a number written as one.
pub(super) enum Text {
    Lua(LuaString),
    Own(String),
}

impl Text {
    /// Reads an argument; the error is Lua's for a wrong type.
    pub fn argument(value: &Value, position: usize, function: &str) -> mlua::Result<Self> {
        match value {
            Value::String(text) => Ok(Self::Lua(text.clone())),
            value => match number(value) {
                Some(number) => Ok(Self::Own(number_text(number))),
                None => Err(bad_argument(position, function, "string", value)),
            },
        }
    }

    pub fn bytes(&self) -> Bytes<'_> {
        match self {
            Self::Lua(text) => Bytes::Lua(text.as_bytes()),
            Self::Own(text) => Bytes::Own(text.as_bytes()),
        }
    }
}

/// The bytes of a [`Text`].
pub(super) enum Bytes<'a> {
    Lua(BorrowedBytes),
    Own(&'a [u8]),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Lua(bytes) => bytes,
            Self::Own(bytes) => bytes,
        }
    }
}

/// Reads an optional whole number; a number in a text is none, as upstream.
pub(super) fn integer_or(
    value: &Value,
    default: i64,
    position: usize,
    function: &str,
) -> mlua::Result<i64> {
    match value {
        Value::Nil => Ok(default),
        value => integer(value, position, function),
    }
}

/// Reads a whole number; what does not fit is the smallest one, as in Go on amd64.
pub(super) fn integer(value: &Value, position: usize, function: &str) -> mlua::Result<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    match number(value) {
        Some(number) if (-LIMIT..LIMIT).contains(&number) => Ok(number as i64),
        Some(_) => Ok(i64::MIN),
        None => Err(bad_argument(position, function, "number", value)),
    }
}

/// Lua's error for an argument of a wrong type.
pub(super) fn bad_argument(
    position: usize,
    function: &str,
    expected: &str,
    got: &Value,
) -> mlua::Error {
    let got = type_name(got);
    mlua::Error::runtime(format!(
        "bad argument #{position} to {function} ({expected} expected, got {got})"
    ))
}

/// Returns the name that `type` gives a value.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        value => value.type_name(),
    }
}

/// Changes the case character by character; bytes that are not UTF-8 stay.
pub(super) fn change_case(text: &[u8], upper: bool) -> Cow<'_, [u8]> {
    if text.is_ascii() {
        let changed = if upper {
            text.to_ascii_uppercase()
        } else {
            text.to_ascii_lowercase()
        };
        return Cow::Owned(changed);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut buffer = [0; 4];
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            let changed = if upper {
                single(c.to_uppercase(), c)
            } else {
                single(c.to_lowercase(), c)
            };
            out.extend_from_slice(changed.encode_utf8(&mut buffer).as_bytes());
        }
        out.extend_from_slice(chunk.invalid());
    }
    Cow::Owned(out)
}

/// Go changes one character to one character: where the full mapping is longer, the character stays.
fn single(mut mapped: impl Iterator<Item = char>, original: char) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(c), None) => c,
        _ => original,
    }
}
