//! Texts.

use std::collections::BTreeMap;

use super::words::{camel_case, separated};
use super::{
    Answer, Arguments, Context, Function, new_bytes, new_text, new_text_map, new_texts, text_of,
    texts_of,
};
use crate::sensor::number::quote;
use crate::sensor::template::limits::{Failure, MAX_TEXT, TooLarge};
use crate::sensor::template::value::Value;

pub(super) const TABLE: &[Function] = &[
    Function("upper", 1, Some(1), |_, a| {
        new_text(map_chars(a.text(0)?, true))
    }),
    Function("lower", 1, Some(1), |_, a| {
        new_text(map_chars(a.text(0)?, false))
    }),
    Function("title", 1, Some(1), |_, a| {
        new_text(first_letters(a.text(0)?, true, |c| {
            c != '_' && !c.is_alphanumeric() && (c.is_ascii() || c.is_whitespace())
        }))
    }),
    Function("untitle", 1, Some(1), |_, a| {
        new_text(first_letters(a.text(0)?, false, char::is_whitespace))
    }),
    Function("trim", 1, Some(1), |_, a| new_text(a.text(0)?.trim())),
    Function("trimAll", 2, Some(2), |_, a| {
        new_text(trim_all(a.text(1)?, a.text(0)?))
    }),
    Function("trimall", 2, Some(2), |_, a| {
        new_text(trim_all(a.text(1)?, a.text(0)?))
    }),
    Function("trimPrefix", 2, Some(2), |_, a| {
        let text = a.text(1)?;
        new_text(text.strip_prefix(a.text(0)?).unwrap_or(text))
    }),
    Function("trimSuffix", 2, Some(2), |_, a| {
        let text = a.text(1)?;
        new_text(text.strip_suffix(a.text(0)?).unwrap_or(text))
    }),
    Function("nospace", 1, Some(1), |_, a| {
        new_text(without_blanks(a.text(0)?))
    }),
    Function("contains", 2, Some(2), |_, a| {
        Ok(Value::Bool(a.text(1)?.contains(a.text(0)?)))
    }),
    Function("hasPrefix", 2, Some(2), |_, a| {
        Ok(Value::Bool(a.text(1)?.starts_with(a.text(0)?)))
    }),
    Function("hasSuffix", 2, Some(2), |_, a| {
        Ok(Value::Bool(a.text(1)?.ends_with(a.text(0)?)))
    }),
    Function("replace", 3, Some(3), replace),
    Function("repeat", 2, Some(2), repeat),
    Function("substr", 3, Some(3), substr),
    Function("trunc", 2, Some(2), trunc),
    Function("abbrev", 2, Some(2), |_, a| {
        let (width, text) = (a.int(0)?, a.text(1)?);
        new_bytes(&abbreviated(text.as_bytes(), 0, width))
    }),
    Function("abbrevboth", 3, Some(3), |_, a| {
        let (left, width, text) = (a.int(0)?, a.int(1)?, a.text(2)?);
        if left > 0 && width < 7 {
            return new_text(text);
        }
        new_bytes(&abbreviated(text.as_bytes(), left, width))
    }),
    Function("hello", 0, Some(0), |_, _| new_text("Hello!")),
    Function("quote", 0, None, |_, a| {
        new_text(quoted(a, |text| quote(text.as_bytes())))
    }),
    Function("squote", 0, None, |_, a| {
        new_text(quoted(a, |text| format!("'{text}'")))
    }),
    Function("cat", 0, None, |_, a| {
        let parts: Vec<String> = a
            .all()
            .iter()
            .filter(|value| **value != Value::Nil)
            .map(text_of)
            .collect();
        new_text(parts.join(" "))
    }),
    Function("indent", 2, Some(2), |_, a| {
        new_text(indent(a.int(0)?, a.text(1)?)?)
    }),
    Function("nindent", 2, Some(2), |_, a| {
        new_text(format!("\n{}", indent(a.int(0)?, a.text(1)?)?))
    }),
    Function("plural", 3, Some(3), |_, a| {
        new_text(if a.int(2)? == 1 {
            a.text(0)?
        } else {
            a.text(1)?
        })
    }),
    Function("initials", 1, Some(1), |_, a| {
        new_text(initials(a.text(0)?))
    }),
    Function("swapcase", 1, Some(1), |_, a| {
        new_text(swap_case(a.text(0)?))
    }),
    Function("snakecase", 1, Some(1), |_, a| {
        new_text(separated(a.text(0)?, '_'))
    }),
    Function("kebabcase", 1, Some(1), |_, a| {
        new_text(separated(a.text(0)?, '-'))
    }),
    Function("camelcase", 1, Some(1), |_, a| {
        new_text(camel_case(a.text(0)?))
    }),
    Function("wrap", 2, Some(2), |_, a| {
        new_bytes(&wrap(a.text(1)?.as_bytes(), a.int(0)?, "\n", false))
    }),
    Function("wrapWith", 3, Some(3), |_, a| {
        new_bytes(&wrap(a.text(2)?.as_bytes(), a.int(0)?, a.text(1)?, true))
    }),
    Function("split", 2, Some(2), |_, a| {
        numbered(split(a.text(1)?, a.text(0)?))
    }),
    Function("splitn", 3, Some(3), |_, a| {
        let most = usize::try_from(a.int(1)?).unwrap_or(usize::MAX);
        numbered(split_at_most(a.text(2)?, a.text(0)?, most))
    }),
    Function("splitList", 2, Some(2), |_, a| {
        new_texts(split(a.text(1)?, a.text(0)?))
    }),
    Function("join", 2, Some(2), |_, a| {
        let separator = a.text(0)?;
        let texts = texts_of(a.any(1));
        let length = texts.iter().fold(0usize, |sum, text| {
            sum.saturating_add(text.len() + separator.len())
        });
        if length > MAX_TEXT {
            Err(TooLarge.into())
        } else {
            new_text(texts.join(separator))
        }
    }),
    Function("sortAlpha", 1, Some(1), |_, a| {
        let mut texts = match a.any(0) {
            Value::Nil => vec![text_of(&Value::Nil)],
            value => texts_of(value),
        };
        texts.sort_unstable();
        new_texts(texts)
    }),
    Function("toStrings", 1, Some(1), |_, a| {
        new_texts(texts_of(a.any(0)))
    }),
    Function("toString", 1, Some(1), |_, a| new_text(text_of(a.any(0)))),
];

/// Changes the case character by character, as Go does: what would become two characters stays.
fn map_chars(text: &str, upper: bool) -> String {
    text.chars().map(|c| change(c, upper)).collect()
}

/// The other case of a character, where that is one character.
pub(super) fn change(c: char, upper: bool) -> char {
    let single = |mut mapped: std::char::ToUppercase| match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    };
    if upper {
        return single(c.to_uppercase());
    }
    let mut mapped = c.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

fn first_letters(text: &str, upper: bool, is_separator: impl Fn(char) -> bool) -> String {
    let mut before = ' ';
    text.chars()
        .map(|c| {
            let starts = is_separator(before);
            before = c;
            if starts { change(c, upper) } else { c }
        })
        .collect()
}

/// Every byte for a character of its own, as the functions do that upstream takes from an older library.
fn bytes_as_characters(text: &str) -> impl Iterator<Item = char> + '_ {
    text.bytes().map(char::from)
}

fn without_blanks(text: &str) -> String {
    if bytes_as_characters(text).any(char::is_whitespace) {
        bytes_as_characters(text)
            .filter(|c| !c.is_whitespace())
            .collect()
    } else {
        text.to_owned()
    }
}

fn initials(text: &str) -> String {
    let mut before = ' ';
    let first = |c: &char| {
        let starts = before.is_whitespace() && !c.is_whitespace();
        before = *c;
        starts
    };
    bytes_as_characters(text).filter(first).collect()
}

fn trim_all<'t>(text: &'t str, characters: &str) -> &'t str {
    text.trim_matches(|c| characters.contains(c))
}

fn split<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    if separator.is_empty() {
        let starts = text
            .char_indices()
            .map(|(at, c)| &text[at..at + c.len_utf8()]);
        return starts.collect();
    }
    text.split(separator).collect()
}

fn split_at_most<'t>(text: &'t str, separator: &str, most: usize) -> Vec<&'t str> {
    if most == 0 {
        return Vec::new();
    }
    if !separator.is_empty() {
        return text.splitn(most, separator).collect();
    }
    let mut parts = split(text, separator);
    if let Some(rest) = parts
        .get(most.saturating_sub(1)..)
        .filter(|rest| rest.len() > 1)
    {
        let length: usize = rest.iter().map(|part| part.len()).sum();
        parts.truncate(most);
        if let Some(last) = parts.last_mut() {
            *last = &text[text.len() - length..];
        }
    }
    parts
}

fn numbered(parts: Vec<&str>) -> Answer {
    let members = parts
        .into_iter()
        .enumerate()
        .map(|(place, part)| (format!("_{place}"), Value::text(part)));
    new_text_map(members.collect::<BTreeMap<_, _>>())
}

fn replace(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let (old, new, text) = (a.text(0)?, a.text(1)?, a.text(2)?);
    let count = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(old).count()
    };
    if count.saturating_mul(new.len()).saturating_add(text.len()) > MAX_TEXT {
        return Err(TooLarge.into());
    }
    new_text(text.replace(old, new))
}

fn repeat(context: &mut Context, a: &Arguments<'_>) -> Answer {
    let count =
        usize::try_from(a.int(0)?).map_err(|_| "strings: negative Repeat count".to_string())?;
    let text = a.text(1)?;
    let length = text.len().saturating_mul(count);
    if length > MAX_TEXT {
        return Err(TooLarge.into());
    }
    context.steps.take(length / 16)?;
    new_text(if length == 0 {
        String::new()
    } else {
        text.repeat(count)
    })
}

fn substr(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let (start, end, bytes) = (a.int(0)?, a.int(1)?, a.text(2)?.as_bytes());
    let place = |n: i64| usize::try_from(n).unwrap_or(usize::MAX);
    let range = if start < 0 {
        bytes.get(..place(end))
    } else if end < 0 || place(end) > bytes.len() {
        bytes.get(place(start)..)
    } else {
        bytes.get(place(start)..place(end))
    };
    range.map_or_else(|| Err("slice bounds out of range".into()), new_bytes)
}

fn trunc(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let (count, bytes) = (a.int(0)?, a.text(1)?.as_bytes());
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if size >= bytes.len() {
        return new_bytes(bytes);
    }
    new_bytes(if count < 0 {
        &bytes[bytes.len() - size..]
    } else {
        &bytes[..size]
    })
}

/// Cuts a text to `width` bytes, dots included; `offset` is how much may be left out at the beginning.
fn abbreviated(text: &[u8], offset: i64, width: i64) -> Vec<u8> {
    let width = usize::try_from(width).unwrap_or(0);
    if width < 4 || text.len() <= width {
        return text.to_vec();
    }
    let kept = width - 3;
    let offset = usize::try_from(offset)
        .unwrap_or(0)
        .min(text.len().saturating_sub(kept));
    if offset <= 4 {
        return [&text[..kept], b"..."].concat();
    }
    if offset + kept < text.len() {
        let middle = abbreviated(&text[offset..], 0, kept as i64);
        return [b"...", middle.as_slice()].concat();
    }
    [b"...", &text[text.len() - kept..]].concat()
}

fn quoted(a: &Arguments<'_>, quote: impl Fn(&str) -> String) -> String {
    let parts: Vec<String> = a
        .all()
        .iter()
        .filter(|value| **value != Value::Nil)
        .map(|value| quote(&text_of(value)))
        .collect();
    parts.join(" ")
}

fn indent(spaces: i64, text: &str) -> Result<String, Failure> {
    let spaces =
        usize::try_from(spaces).map_err(|_| "strings: negative Repeat count".to_string())?;
    let lines = text.matches('\n').count() + 1;
    if spaces.saturating_mul(lines).saturating_add(text.len()) > MAX_TEXT {
        return Err(TooLarge.into());
    }
    let pad = " ".repeat(spaces);
    Ok(format!("{pad}{}", text.replace('\n', &format!("\n{pad}"))))
}

fn swap_case(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            c if c.is_uppercase() => change(c, false),
            c if c.is_lowercase() => change(c, true),
            c => c,
        })
        .collect()
}

/// Breaks lines at blanks, counting bytes; a word longer than a line is cut only on demand.
fn wrap(text: &[u8], width: i64, new_line: &str, cut_words: bool) -> Vec<u8> {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let new_line = if new_line.is_empty() { "\n" } else { new_line }.as_bytes();
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while rest.len() > width {
        if rest[0] == b' ' {
            rest = &rest[1..];
            continue;
        }
        let within = rest[..=width].iter().rposition(|c| *c == b' ');
        let behind = || {
            let blank = rest[width..].iter().position(|c| *c == b' ');
            blank.map(|at| width + at)
        };
        let (end, skipped) = match within {
            Some(blank) => (blank, 1),
            None if cut_words => (width, 0),
            None => match behind() {
                Some(blank) => (blank, 1),
                None => break,
            },
        };
        out.extend_from_slice(&rest[..end]);
        out.extend_from_slice(new_line);
        if out.len() > MAX_TEXT {
            break;
        }
        rest = &rest[end + skipped..];
    }
    out.extend_from_slice(rest);
    out
}
