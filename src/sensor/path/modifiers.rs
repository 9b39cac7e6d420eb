//! Modifiers: `@name` or `@name:argument` in a path, each a function from one JSON text to another.

use std::borrow::Cow;
use std::collections::HashMap;

use super::literal;
use super::parts::trim;
use super::pretty;
use super::scan;
use super::search;
use super::text::quote_json;
use super::{Budget, LimitExceeded, Value, deeper};
use crate::sensor::json as json_text;

/// The modifiers that paths know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Modifier {
    Pretty,
    Ugly,
    Reverse,
    This,
    Flatten,
    Join,
    Valid,
    Keys,
    Values,
    ToStr,
    FromStr,
    Group,
    Dig,
}

/// Length of the longest modifier's name.
pub(super) const LONGEST_NAME: usize = 7;

impl Modifier {
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"pretty" => Self::Pretty,
            b"ugly" => Self::Ugly,
            b"reverse" => Self::Reverse,
            b"this" => Self::This,
            b"flatten" => Self::Flatten,
            b"join" => Self::Join,
            b"valid" => Self::Valid,
            b"keys" => Self::Keys,
            b"values" => Self::Values,
            b"tostr" => Self::ToStr,
            b"fromstr" => Self::FromStr,
            b"group" => Self::Group,
            b"dig" => Self::Dig,
            _ => return None,
        })
    }
}

/// Text made by a modifier and the rest of the path.
type Applied<'a, 'p> = (Cow<'a, [u8]>, &'p [u8]);

/// Runs the modifier at the start of a path; `None` if there is no such modifier.
pub(super) fn run<'a, 'p>(
    json: &'a [u8],
    path: &'p [u8],
    budget: &Budget,
    depth: u32,
) -> Result<Option<Applied<'a, 'p>>, LimitExceeded> {
    let end = path
        .iter()
        .position(|byte| matches!(byte, b':' | b'|' | b'.'))
        .unwrap_or(path.len());
    let Some(modifier) = Modifier::named(&path[1..end]) else {
        return Ok(None);
    };
    let (argument, rest) = match &path[end..] {
        [b':', tail @ ..] => tail.split_at(argument_end(tail)),
        tail => ([].as_slice(), tail),
    };
    let result = apply(modifier, json, argument, budget, depth)?;
    budget.charge(result.len())?;
    Ok(Some((result, rest)))
}

/// A JSON argument ends with its bracket or quote, any other at the next pipe.
fn argument_end(tail: &[u8]) -> usize {
    if let Some(b'{' | b'[' | b'"') = tail.first() {
        return scan::group_end(tail);
    }
    let mut at = 0;
    while let Some(byte) = tail.get(at) {
        match byte {
            b'|' => return at,
            b'{' | b'[' | b'"' | b'(' => at += scan::group_end(&tail[at..]),
            _ => at += 1,
        }
    }
    tail.len()
}

fn apply<'a>(
    modifier: Modifier,
    json: &'a [u8],
    argument: &[u8],
    budget: &Budget,
    depth: u32,
) -> Result<Cow<'a, [u8]>, LimitExceeded> {
    Ok(match modifier {
        Modifier::This => Cow::Borrowed(json),
        Modifier::Valid => Cow::Borrowed(if json_text::is_valid(json) { json } else { &[] }),
        Modifier::Pretty => Cow::Owned(pretty::pretty(
            json,
            &pretty::Options::read(argument),
            budget,
        )?),
        Modifier::Ugly => Cow::Owned(pretty::ugly(json)),
        Modifier::Reverse => reverse(json),
        Modifier::Flatten => flatten(json, flag(argument, b"deep"), budget, depth)?,
        Modifier::Join => join(json, flag(argument, b"preserve")),
        Modifier::Keys => Cow::Owned(keys(json)),
        Modifier::Values => values(json),
        Modifier::ToStr => {
            let mut out = Vec::with_capacity(json.len() + 2);
            quote_json(&mut out, json);
            Cow::Owned(out)
        }
        Modifier::FromStr if json_text::is_valid(json) => {
            Cow::Owned(literal::parse(json).text().into_owned())
        }
        Modifier::FromStr => Cow::Borrowed(&[]),
        Modifier::Group => Cow::Owned(group(json, budget)?),
        Modifier::Dig => Cow::Owned(dig(json, argument, budget, depth)?),
    })
}

/// A boolean of the modifier's argument object; the last of equal keys counts.
fn flag(argument: &[u8], name: &[u8]) -> bool {
    let options = literal::parse(argument);
    options
        .entries()
        .filter(|(key, _)| *Value::from_raw(key).text() == *name)
        .last()
        .is_some_and(|(_, value)| value.boolean())
}

/// Joins raw texts with commas between two brackets.
fn bracketed<'v>(open: u8, parts: impl Iterator<Item = Cow<'v, [u8]>>, close: u8) -> Vec<u8> {
    let mut out = vec![open];
    for part in parts {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(&part);
    }
    out.push(close);
    out
}

fn member_text(key: &[u8], value: &Value<'_>) -> Cow<'static, [u8]> {
    let mut text = key.to_vec();
    if !key.is_empty() {
        text.push(b':');
    }
    text.extend_from_slice(value.raw());
    Cow::Owned(text)
}

fn reverse(json: &[u8]) -> Cow<'_, [u8]> {
    let value = literal::parse(json);
    let (open, close) = match (value.is_array(), value.is_object()) {
        (true, _) => (b'[', b']'),
        (_, true) => (b'{', b'}'),
        _ => return Cow::Borrowed(json),
    };
    let members: Vec<_> = value
        .entries()
        .map(|(key, value)| member_text(key, &value))
        .collect();
    Cow::Owned(bracketed(open, members.into_iter().rev(), close))
}

fn flatten<'a>(
    json: &'a [u8],
    deep: bool,
    budget: &Budget,
    depth: u32,
) -> Result<Cow<'a, [u8]>, LimitExceeded> {
    let depth = deeper(depth)?;
    budget.charge(json.len())?;
    let array = literal::parse(json);
    if !array.is_array() {
        return Ok(Cow::Borrowed(json));
    }
    let mut out = vec![b'['];
    for (_, value) in array.entries() {
        let nested = if value.is_array() && deep {
            Some(flatten(value.raw(), deep, budget, depth)?)
        } else {
            None
        };
        let part = match &nested {
            Some(flat) => unwrap(flat),
            None if value.is_array() => unwrap(value.raw()),
            None => value.raw(),
        };
        let part = trim(part);
        if part.is_empty() {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(part);
    }
    out.push(b']');
    Ok(Cow::Owned(out))
}

/// The inside of an array or object.
fn unwrap(json: &[u8]) -> &[u8] {
    match trim(json) {
        [b'[' | b'{', inside @ .., _] => inside,
        other => other,
    }
}

fn join(json: &[u8], preserve: bool) -> Cow<'_, [u8]> {
    let array = literal::parse(json);
    if !array.is_array() {
        return Cow::Borrowed(json);
    }
    let objects: Vec<Value<'_>> = array
        .entries()
        .map(|(_, value)| value)
        .filter(Value::is_object)
        .collect();
    if preserve {
        return Cow::Owned(bracketed(
            b'{',
            objects
                .iter()
                .map(|object| Cow::Borrowed(unwrap(object.raw()))),
            b'}',
        ));
    }
    let mut order: Vec<(&[u8], Value<'_>)> = Vec::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    for (key, value) in objects.iter().flat_map(Value::entries) {
        let place = *places
            .entry(Value::from_raw(key).text().into_owned())
            .or_insert(order.len());
        match order.get_mut(place) {
            Some(member) => member.1 = value,
            None => order.push((key, value)),
        }
    }
    Cow::Owned(bracketed(
        b'{',
        order.iter().map(|(key, value)| member_text(key, value)),
        b'}',
    ))
}

fn keys(json: &[u8]) -> Vec<u8> {
    let value = literal::parse(json);
    let object = value.is_object();
    bracketed(
        b'[',
        value
            .entries()
            .map(|(key, _)| Cow::Borrowed(if object { key } else { b"null" })),
        b']',
    )
}

fn values(json: &[u8]) -> Cow<'_, [u8]> {
    let value = literal::parse(json);
    if value.is_array() {
        return Cow::Borrowed(json);
    }
    Cow::Owned(bracketed(
        b'[',
        value
            .entries()
            .map(|(_, value)| Cow::Owned(value.raw().to_vec())),
        b']',
    ))
}

/// Turns an object of arrays into an array of objects.
fn group(json: &[u8], budget: &Budget) -> Result<Vec<u8>, LimitExceeded> {
    let object = literal::parse(json);
    if !object.is_object() {
        return Ok(Vec::new());
    }
    let mut rows: Vec<Vec<u8>> = Vec::new();
    for (key, array) in object.entries().filter(|(_, value)| value.is_array()) {
        for (place, (_, value)) in array.entries().enumerate() {
            if place == rows.len() {
                rows.push(Vec::new());
            }
            budget.charge(key.len() + value.raw().len())?;
            let row = &mut rows[place];
            row.push(if row.is_empty() { b'{' } else { b',' });
            row.extend_from_slice(&member_text(key, &value));
        }
    }
    let closed = rows.into_iter().map(|mut row| {
        row.push(b'}');
        Cow::Owned(row)
    });
    Ok(bracketed(b'[', closed, b']'))
}

/// Looks a path up in the document and in everything inside it.
fn dig(json: &[u8], path: &[u8], budget: &Budget, depth: u32) -> Result<Vec<u8>, LimitExceeded> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    let root = literal::parse(json);
    let mut open: Vec<&[u8]> = vec![root.raw()];
    while let Some(raw) = open.pop() {
        let value = search::get(raw, path, budget, depth)?;
        if value.exists() {
            budget.charge(value.raw().len())?;
            found.push(value.raw().to_vec());
        }
        if let Some(b'{' | b'[') = raw.first() {
            let first = open.len();
            push_children(raw, &mut open);
            open[first..].reverse();
        }
    }
    Ok(bracketed(b'[', found.into_iter().map(Cow::Owned), b']'))
}

fn push_children<'v>(raw: &'v [u8], open: &mut Vec<&'v [u8]>) {
    let object = raw.first() == Some(&b'{');
    let mut at = 1;
    loop {
        if object {
            let Some(quote) = raw
                .get(at..)
                .and_then(|rest| rest.iter().position(|byte| *byte == b'"'))
            else {
                return;
            };
            let Some(end) = scan::string_end(raw, at + quote + 1) else {
                return;
            };
            at = end;
        }
        let Some((end, value)) = literal::next_value(raw, at) else {
            return;
        };
        let length = value.raw().len();
        open.extend(raw.get(end - length..end));
        at = end;
    }
}
