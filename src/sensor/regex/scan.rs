//! The small tokens of a pattern: escapes, counts, flags and group names.
//!
//! Every function takes the rest of the pattern and gives back what follows the token.

use super::error::{RegexError, RegexErrorKind as Kind};

/// Returns the part of `from` that was read when `rest` is what is left.
pub(super) fn consumed<'p>(from: &'p str, rest: &str) -> &'p str {
    &from[..from.len() - rest.len()]
}

/// Splits off the first character.
pub(super) fn next_char(text: &str) -> Option<(char, &str)> {
    let mut chars = text.chars();
    chars.next().map(|c| (c, chars.as_str()))
}

/// Reads an escape such as `\n`, `\x41`, `\012` or `\.`; `text` starts with the backslash.
///
/// The value is a number and not a `char`: `\x{D800}` is valid and never matches.
pub(super) fn escape(text: &str) -> Result<(u32, &str), RegexError> {
    let Some((c, rest)) = next_char(&text[1..]) else {
        return Err(RegexError::new(Kind::TrailingBackslash, ""));
    };
    let value = match c {
        '1'..='7' if !rest.starts_with(|d: char| d.is_digit(8)) => None,
        '0'..='7' => return Ok(octal(c, rest)),
        'x' => return hexadecimal(text, rest),
        'a' => Some(7),
        'f' => Some(12),
        'n' => Some(10),
        'r' => Some(13),
        't' => Some(9),
        'v' => Some(11),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(u32::from(c)),
        _ => None,
    };
    match value {
        Some(value) => Ok((value, rest)),
        None => Err(RegexError::new(Kind::InvalidEscape, consumed(text, rest))),
    }
}

fn octal(first: char, rest: &str) -> (u32, &str) {
    let mut value = first.to_digit(8).unwrap_or(0);
    let mut rest = rest;
    for _ in 0..2 {
        match next_char(rest).and_then(|(c, after)| Some((c.to_digit(8)?, after))) {
            Some((digit, after)) => {
                value = value * 8 + digit;
                rest = after;
            }
            None => break,
        }
    }
    (value, rest)
}

fn hexadecimal<'p>(escape: &'p str, rest: &'p str) -> Result<(u32, &'p str), RegexError> {
    let invalid = |rest| RegexError::new(Kind::InvalidEscape, consumed(escape, rest));
    let (first, rest) = next_char(rest).ok_or_else(|| invalid(rest))?;
    if first == '{' {
        return braced_hexadecimal(rest).map_err(invalid);
    }
    let (second, rest) = next_char(rest).ok_or_else(|| invalid(rest))?;
    match (first.to_digit(16), second.to_digit(16)) {
        (Some(high), Some(low)) => Ok((high * 16 + low, rest)),
        _ => Err(invalid(rest)),
    }
}

/// Reads digits up to `}`; the error is what follows the offending character.
fn braced_hexadecimal(digits: &str) -> Result<(u32, &str), &str> {
    let mut value = 0u32;
    let mut rest = digits;
    loop {
        let (c, after) = next_char(rest).ok_or(rest)?;
        if c == '}' {
            let empty = rest.len() == digits.len();
            return if empty {
                Err(after)
            } else {
                Ok((value, after))
            };
        }
        let digit = c.to_digit(16).ok_or(after)?;
        value = value * 16 + digit;
        if value > u32::from(char::MAX) {
            return Err(after);
        }
        rest = after;
    }
}

/// The numbers of `{2}`, `{2,}` or `{2,3}`; `None` stands for a number that is too long to matter.
pub(super) struct Count<'p> {
    pub min: Option<u32>,
    pub max: CountMax,
    pub rest: &'p str,
}

/// The upper end of a count.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum CountMax {
    Unbounded,
    TooLong,
    Number(u32),
}

/// Reads a count; `None` means that the brace is an ordinary character.
pub(super) fn count(text: &str) -> Option<Count<'_>> {
    let (min, rest) = number(text.strip_prefix('{')?)?;
    let (max, rest) = match rest.strip_prefix(',') {
        None => (min.map_or(CountMax::TooLong, CountMax::Number), rest),
        Some(rest) if rest.starts_with('}') => (CountMax::Unbounded, rest),
        Some(rest) => {
            let (max, rest) = number(rest)?;
            (max.map_or(CountMax::TooLong, CountMax::Number), rest)
        }
    };
    let rest = rest.strip_prefix('}')?;
    Some(Count { min, max, rest })
}

fn number(text: &str) -> Option<(Option<u32>, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let leading_zero = digits.len() > 1 && digits.starts_with('0');
    if digits.is_empty() || leading_zero {
        return None;
    }
    let value = if digits.len() > 8 {
        None
    } else {
        digits.parse().ok()
    };
    Some((value, rest))
}

/// The flags that `(?…)` sets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    pub fold_case: bool,
    pub multi_line: bool,
    pub dot_newline: bool,
    pub ungreedy: bool,
}

/// What follows `(?`.
pub(super) enum Group<'p> {
    /// `(?P<name>` or `(?<name>`.
    Named(&'p str),
    /// `(?i:`.
    Flagged(Flags),
    /// `(?i)`.
    SetFlags(Flags),
}

/// Reads `(?P<name>`, `(?<name>`, `(?flags:` or `(?flags)`.
pub(super) fn group(text: &str, flags: Flags) -> Result<(Group<'_>, &str), RegexError> {
    let name = (text.strip_prefix("(?P<"))
        .or_else(|| text.strip_prefix("(?<"))
        .filter(|name| !name.is_empty());
    match name {
        Some(name) => named_group(text, name),
        None => flag_group(text, flags),
    }
}

fn named_group<'p>(text: &'p str, name: &'p str) -> Result<(Group<'p>, &'p str), RegexError> {
    let invalid = |part| Err(RegexError::new(Kind::InvalidNamedCapture, part));
    let Some((name, rest)) = name.split_once('>') else {
        return invalid(text);
    };
    let valid = |c: char| c == '_' || c.is_ascii_alphanumeric();
    if name.is_empty() || !name.chars().all(valid) {
        return invalid(consumed(text, rest));
    }
    Ok((Group::Named(name), rest))
}

fn flag_group(text: &str, mut flags: Flags) -> Result<(Group<'_>, &str), RegexError> {
    let mut rest = &text[2..];
    let (mut value, mut saw_flag) = (true, false);
    while let Some((c, after)) = next_char(rest) {
        rest = after;
        match c {
            'i' => flags.fold_case = value,
            'm' => flags.multi_line = value,
            's' => flags.dot_newline = value,
            'U' => flags.ungreedy = value,
            '-' if value => {
                (value, saw_flag) = (false, false);
                continue;
            }
            ':' | ')' if value || saw_flag => {
                let group = if c == ':' {
                    Group::Flagged(flags)
                } else {
                    Group::SetFlags(flags)
                };
                return Ok((group, rest));
            }
            _ => break,
        }
        saw_flag = true;
    }
    Err(RegexError::new(
        Kind::InvalidPerlSyntax,
        consumed(text, rest),
    ))
}
