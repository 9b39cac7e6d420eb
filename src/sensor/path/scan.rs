//! Lenient steps over JSON text: strings, numbers, words and whole containers, without validating them.

use crate::sensor::json::plain_run;

/// End of a string whose content starts at `at`: the index after its closing quote, `None` if it has none.
pub(super) fn string_end(json: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = plain_run(json, at);
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// End of a number that starts at `at`.
pub(super) fn number_end(json: &[u8], at: usize) -> usize {
    end_where(json, at + 1, |byte| {
        byte <= b' ' || matches!(byte, b',' | b']' | b'}')
    })
}

/// End of a word (`true`, `null`, …) that starts at `at`.
pub(super) fn word_end(json: &[u8], at: usize) -> usize {
    end_where(json, at + 1, |byte| !byte.is_ascii_lowercase())
}

fn end_where(json: &[u8], at: usize, stop: impl Fn(u8) -> bool) -> usize {
    let rest = json.get(at..).unwrap_or_default();
    rest.iter()
        .position(|byte| stop(*byte))
        .map_or(json.len(), |offset| at + offset)
}

/// End of the container that opens at `at`, whatever byte stands there; brackets of any kind count alike.
pub(super) fn container_end(json: &[u8], at: usize) -> usize {
    balanced_end(json, at + 1, 1)
}

/// End of the bracketed or quoted text that starts at 0; the whole text if it is not closed.
pub(super) fn group_end(text: &[u8]) -> usize {
    match text.first() {
        Some(b'"') => string_end(text, 1).unwrap_or(text.len()),
        _ => container_end(text, 0),
    }
}

fn balanced_end(json: &[u8], mut at: usize, mut depth: usize) -> usize {
    loop {
        at = next_structural(json, at);
        let Some(byte) = json.get(at) else {
            return json.len();
        };
        at += 1;
        match byte {
            b'"' => match string_end(json, at) {
                Some(end) => at = end,
                None => return json.len(),
            },
            b'{' | b'[' | b'(' => depth += 1,
            _ => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
        }
    }
}

const STRUCTURAL: [bool; 256] = {
    let mut table = [false; 256];
    let marks = b"\"{}[]()";
    let mut at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    table
};

fn next_structural(json: &[u8], at: usize) -> usize {
    let rest = json.get(at..).unwrap_or_default();
    rest.iter()
        .position(|byte| STRUCTURAL[*byte as usize])
        .map_or(json.len(), |offset| at + offset)
}

/// How a value starts, read from its first byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    String,
    Container,
    Number,
    Word,
}

/// The kind of value that starts at `at`; `None` if none does.
pub(super) fn start_at(json: &[u8], at: usize) -> Option<Start> {
    match json.get(at)? {
        b'"' => Some(Start::String),
        b'{' | b'[' => Some(Start::Container),
        b't' | b'f' => Some(Start::Word),
        b'n' if json.get(at + 1).is_some_and(|next| *next != b'u') => Some(Start::Number),
        b'n' => Some(Start::Word),
        b'+' | b'-' | b'0'..=b'9' | b'i' | b'I' | b'N' => Some(Start::Number),
        _ => None,
    }
}
