//! Reading one value where it stands: the first of a text, the next of a container, or a `!literal` of a path.

use super::scan::{self, Start};
use super::{Kind, Value};

/// Reads the first value of a text; a container takes the whole rest of the text.
pub(super) fn parse(json: &[u8]) -> Value<'_> {
    let Some(at) = json.iter().position(|byte| *byte > b' ') else {
        return Value::missing();
    };
    let Some(start) = scan::start_at(json, at) else {
        return Value::missing();
    };
    let end = match start {
        Start::Container => json.len(),
        Start::String => scan::string_end(json, at + 1).unwrap_or(json.len()),
        Start::Number => scan::number_end(json, at),
        Start::Word => scan::word_end(json, at),
    };
    value_of(json, start, at, end)
}

/// The value that spans `at..end`, of the kind that its first byte says.
pub(super) fn value_of(json: &[u8], start: Start, at: usize, end: usize) -> Value<'_> {
    let raw = json.get(at..end).unwrap_or_default();
    let kind = match (start, raw.first()) {
        (Start::String, _) => Kind::String,
        (Start::Container, _) => Kind::Json,
        (Start::Number, _) => Kind::Number,
        (Start::Word, Some(b't')) => Kind::True,
        (Start::Word, Some(b'f')) => Kind::False,
        (Start::Word, _) => Kind::Null,
    };
    Value::new(kind, raw)
}

/// Reads the next value at or after `at`: where it ends and what it is; `None` if there is none or it is a string
/// without an end.
pub(super) fn next_value(json: &[u8], mut at: usize) -> Option<(usize, Value<'_>)> {
    loop {
        let Some(start) = scan::start_at(json, at) else {
            json.get(at)?;
            at += 1;
            continue;
        };
        let end = end_of(json, start, at)?;
        return Some((end, value_of(json, start, at, end)));
    }
}

/// End of the value that starts at `at`; `None` for a string without an end.
pub(super) fn end_of(json: &[u8], start: Start, at: usize) -> Option<usize> {
    match start {
        Start::String => scan::string_end(json, at + 1),
        Start::Container => Some(scan::container_end(json, at)),
        Start::Number => Some(scan::number_end(json, at)),
        Start::Word => Some(scan::word_end(json, at)),
    }
}

/// Splits a path `!literal…` into the literal and the rest of the path.
pub(super) fn split_static(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let body = path.strip_prefix(b"!")?;
    if let Some(b'{' | b'[' | b'"' | b'+' | b'-' | b'0'..=b'9') = body.first() {
        return Some(body.split_at(scan::container_end(body, 0)));
    }
    let end = body
        .iter()
        .position(|byte| matches!(byte, b'|' | b'.'))
        .unwrap_or(body.len());
    let (name, rest) = body.split_at(end);
    let known = ["true", "false", "null", "nan", "inf"]
        .iter()
        .any(|word| name.eq_ignore_ascii_case(word.as_bytes()));
    known.then_some((name, rest))
}
