//! Multipaths: `[a,b]` makes an array and `{"x":a,b}` an object of several look-ups.

use super::search;
use super::text::quote_json;
use super::{Budget, Kind, LimitExceeded, Value, deeper};
use crate::sensor::json;

struct Selector<'p> {
    name: &'p [u8],
    path: &'p [u8],
}

/// What became of a path that starts with a bracket.
pub(super) enum Outcome<'a, 'p> {
    /// The value of the multipath and of what follows it.
    Value(Value<'a>),
    /// It was no multipath; this path is to be looked up instead, as upstream does.
    Plain(&'p [u8]),
}

/// Runs a path that starts with `[` or `{`.
pub(super) fn run<'a, 'p>(
    json: &'a [u8],
    path: &'p [u8],
    budget: &Budget,
    depth: u32,
) -> Result<Outcome<'a, 'p>, LimitExceeded> {
    let depth = deeper(depth)?;
    let Some((selectors, rest)) = split(path) else {
        return Ok(Outcome::Plain(&[]));
    };
    let next = match rest {
        [] => None,
        [b'|' | b'.', next @ ..] => Some(next),
        _ => return Ok(Outcome::Plain(rest)),
    };
    let mut value = Value::new(
        Kind::Json,
        build(json, path.first() == Some(&b'{'), &selectors, budget, depth)?,
    );
    if let Some(next) = next {
        value = search::get_in(value, next, budget, depth)?;
    }
    value.index = 0;
    Ok(Outcome::Value(value))
}

fn build(
    json: &[u8],
    object: bool,
    selectors: &[Selector<'_>],
    budget: &Budget,
    depth: u32,
) -> Result<Vec<u8>, LimitExceeded> {
    let (open, close) = if object { (b'{', b'}') } else { (b'[', b']') };
    let mut out = vec![open];
    for selector in selectors {
        let value = search::get(json, selector.path, budget, depth)?;
        if !value.exists() {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        if object {
            append_name(&mut out, selector);
            out.push(b':');
        }
        let raw = value.raw_or_text();
        budget.charge(raw.len() + selector.name.len())?;
        out.extend_from_slice(if raw.is_empty() { b"null" } else { &raw });
    }
    out.push(close);
    Ok(out)
}

fn append_name(out: &mut Vec<u8>, selector: &Selector<'_>) {
    if selector.name.first() == Some(&b'"') && json::is_valid(selector.name) {
        out.extend_from_slice(selector.name);
    } else if !selector.name.is_empty() {
        quote_json(out, selector.name);
    } else {
        let last = last_component(selector.path);
        let simple = !last
            .iter()
            .any(|byte| *byte < b' ' || b"[]{}()#|!".contains(byte));
        quote_json(out, if simple { last } else { b"_" });
    }
}

fn last_component(path: &[u8]) -> &[u8] {
    let separator = (0..path.len())
        .rev()
        .find(|&at| matches!(path[at], b'|' | b'.') && (at == 0 || path[at - 1] != b'\\'));
    separator.map_or(path, |at| &path[at + 1..])
}

/// Splits `[…]rest` or `{…}rest` into its selectors and the rest; `None` if the bracket is not closed.
fn split(path: &[u8]) -> Option<(Vec<Selector<'_>>, &[u8])> {
    let mut selectors = Vec::new();
    let (mut at, mut depth, mut start) = (1, 1usize, 1);
    let (mut colon, mut modifier) = (None, false);
    loop {
        let byte = *path.get(at)?;
        match byte {
            b'\\' => at += 1,
            b'@' => modifier |= matches!(path[at - 1], b'.' | b'|'),
            b':' if !modifier && depth == 1 => colon = colon.or(Some(at)),
            b'"' => at = quote_end(path, at + 1),
            b'[' | b'(' | b'{' => depth += 1,
            b']' | b')' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && byte == b',') {
            selectors.push(selector(path, start, colon.take(), at));
            modifier = false;
            start = at + 1;
        }
        if depth == 0 {
            return Some((selectors, &path[at + 1..]));
        }
        at += 1;
    }
}

fn selector(path: &[u8], start: usize, colon: Option<usize>, end: usize) -> Selector<'_> {
    match colon {
        Some(colon) => Selector {
            name: &path[start..colon],
            path: &path[colon + 1..end],
        },
        None => Selector {
            name: &[],
            path: &path[start..end],
        },
    }
}

fn quote_end(path: &[u8], mut at: usize) -> usize {
    while let Some(byte) = path.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => break,
            _ => at += 1,
        }
    }
    at
}
