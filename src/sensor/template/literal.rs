//! Numbers and texts as Go's source has them.

use super::tree::OperandKind;
use crate::sensor::number::parse_float;

/// Reads a number: whole unless its text has a point or an exponent.
///
/// # Errors
/// What is wrong with it, in Go's words.
pub(super) fn number(text: &str) -> Result<OperandKind, &'static str> {
    if let Some(value) = integer(text) {
        return Ok(match i64::try_from(value) {
            Ok(value) => OperandKind::Int(value, text.to_string()),
            Err(_) if u64::try_from(value).is_ok() => OperandKind::TooLarge(text.to_string()),
            Err(_) => return Err("integer overflow"),
        });
    }
    let value = parse_float(text.as_bytes()).map_err(|_| "bad number syntax")?;
    if text.contains(['.', 'e', 'E', 'p', 'P']) {
        Ok(OperandKind::Float(value, text.to_string()))
    } else {
        // It looks like a whole number and is none that fits.
        Err("integer overflow")
    }
}

/// Whether this is a number that stands for a multiple of the imaginary unit.
pub(super) fn is_imaginary(text: &str) -> bool {
    text.strip_suffix('i')
        .is_some_and(|number| parse_float(number.as_bytes()).is_ok())
}

/// A whole number with its base in front of the digits.
pub(super) fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let misplaced =
        digits.starts_with('_') && radix == 10 || digits.ends_with('_') || digits.contains("__");
    if misplaced || digits.starts_with(['+', '-']) {
        return None;
    }
    let size = i128::from_str_radix(&digits.replace('_', ""), radix).ok()?;
    Some(if negative { -size } else { size })
}

/// Takes quotes and escapes off a text or character constant.
pub(super) fn unquote(text: &str) -> Option<String> {
    if let Some(raw) = text.strip_prefix('`') {
        return raw.strip_suffix('`').map(|raw| raw.replace('\r', ""));
    }
    let quote = text.chars().next()?;
    let inner = text.get(1..text.len().checked_sub(1)?)?;
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            out.extend_from_slice(c.to_string().as_bytes());
            continue;
        }
        let escape = rest.chars().next()?;
        rest = &rest[escape.len_utf8()..];
        let simple = match escape {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' => b'\\',
            c if c == quote => u8::try_from(quote).ok()?,
            'x' => digits(&mut rest, 2, 16).and_then(|value| u8::try_from(value).ok())?,
            '0'..='7' => {
                rest = &inner[inner.len() - rest.len() - 1..];
                digits(&mut rest, 3, 8).and_then(|value| u8::try_from(value).ok())?
            }
            'u' | 'U' => {
                let value = digits(&mut rest, if escape == 'u' { 4 } else { 8 }, 16)?;
                out.extend_from_slice(char::from_u32(value)?.to_string().as_bytes());
                continue;
            }
            _ => return None,
        };
        out.push(simple);
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

fn digits(rest: &mut &str, count: usize, radix: u32) -> Option<u32> {
    let text = rest.get(..count)?;
    if !text.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    *rest = &rest[count..];
    u32::from_str_radix(text, radix).ok()
}
