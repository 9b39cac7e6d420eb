//! Texts of JSON strings: unescaping, quoting, and texts that stand for booleans.

use std::borrow::Cow;

use crate::sensor::number;

/// The value of a raw string with its quotes; it may lack the closing one.
pub(super) fn string_value(raw: &[u8]) -> Cow<'_, [u8]> {
    let body = raw.strip_prefix(b"\"").unwrap_or(raw);
    let body = match body.split_last() {
        Some((b'"', rest)) if !ends_in_escape(rest) => rest,
        _ => body,
    };
    if body.contains(&b'\\') {
        Cow::Owned(unescape(body))
    } else {
        Cow::Borrowed(body)
    }
}

fn ends_in_escape(body: &[u8]) -> bool {
    body.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Undoes the escapes of a JSON string's body; stops at an escape that JSON does not have.
#[must_use]
pub fn unescape(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    while let Some(&byte) = body.get(at) {
        if byte != b'\\' {
            if byte < b' ' {
                break;
            }
            out.push(byte);
            at += 1;
            continue;
        }
        let Some(used) = unescape_one(&body[at + 1..], &mut out) else {
            break;
        };
        at += 1 + used;
    }
    out
}

/// Appends what the escape after a backslash stands for and gives its length.
fn unescape_one(rest: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let plain = match rest.first()? {
        b'\\' => b'\\',
        b'/' => b'/',
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'"' => b'"',
        b'u' => return unescape_unicode(rest, out),
        _ => return None,
    };
    out.push(plain);
    Some(1)
}

fn unescape_unicode(rest: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let first = hex4(rest.get(1..5)?);
    let (code, used) = match (first, rest.get(5..11)) {
        (0xd800..=0xdfff, Some([b'\\', b'u', low @ ..])) => (join_surrogates(first, hex4(low)), 11),
        _ => (first, 5),
    };
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(used)
}

/// The value of four hexadecimal digits; 0 where they are not.
fn hex4(digits: &[u8]) -> u32 {
    std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .unwrap_or(0)
}

fn join_surrogates(high: u32, low: u32) -> u32 {
    if (0xd800..0xdc00).contains(&high) && (0xdc00..0xe000).contains(&low) {
        0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)
    } else {
        0xfffd
    }
}

/// Appends the text as a JSON string, with `<`, `>`, `&`, U+2028 and U+2029 escaped as Go does.
pub fn quote_json(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            quote_char(out, character);
        }
        // Go replaces every single byte that is not UTF-8.
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
    out.push(b'"');
}

fn quote_char(out: &mut Vec<u8>, character: char) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\u{c}' => out.extend_from_slice(b"\\f"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\0'..=' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if character != ' ' => {
            out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
        }
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// The boolean that a text stands for, in any case of letters.
pub(super) fn text_bool(text: &[u8]) -> Option<bool> {
    number::parse_bool(&text.to_ascii_lowercase()).ok()
}
