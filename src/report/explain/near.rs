//! Paths that exist in an event and are near to one that does not.

use serde_json::Value;

use crate::embedded::services::eventsource::payload::canonical;
use crate::sensor::path;

/// Most places of a document that are looked at.
const MAX_PLACES: usize = 5_000;
/// Deepest place that is looked at.
const MAX_DEPTH: usize = 12;
/// Longest name whose misspellings are looked for, in characters.
const MAX_NAME: usize = 48;
/// How many paths are proposed.
const PROPOSED: usize = 3;

/// The nearest paths that lead somewhere, best first.
pub(super) fn paths(wanted: &str, data: &[u8]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let ranked = rewritten(wanted)
        .into_iter()
        .chain(similar(wanted, data))
        .filter(|path| path != wanted);
    for path in ranked {
        if found.len() == PROPOSED {
            break;
        }
        if !found.contains(&path) && exists(data, &path) {
            found.push(path);
        }
    }
    found
}

/// Whether a path leads somewhere.
pub(super) fn exists(data: &[u8], path: &str) -> bool {
    path::get(data, path.as_bytes()).is_ok_and(|value| value.exists())
}

/// What the path may have been meant as: other languages' habits, `body.` left out, headers in another spelling.
fn rewritten(wanted: &str) -> Vec<String> {
    let plain = without_habits(wanted);
    let mut list = vec![plain.clone()];
    let (first, rest) = plain.split_once('.').unwrap_or((plain.as_str(), ""));
    if first.eq_ignore_ascii_case("header") || first.eq_ignore_ascii_case("headers") {
        let name = rest.split('.').next().unwrap_or_default();
        let name = String::from_utf8_lossy(&canonical(name)).into_owned();
        list.push(format!("header.{name}.0"));
    }
    if !rest.is_empty() {
        list.push(format!("{}.{rest}", first.to_lowercase()));
    }
    list.push(format!("body.{plain}"));
    if let Some(less) = plain.strip_suffix(".0") {
        list.push(less.to_owned());
    }
    list
}

/// JSONPath and jq written as a gjson path: `$.a[0]["b"]` as `a.0.b`, and no blanks around names.
fn without_habits(wanted: &str) -> String {
    let text = wanted.trim();
    let text = text.strip_prefix('$').unwrap_or(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '[' => out.push('.'),
            ']' | '"' | '\'' => {}
            c => out.push(c),
        }
    }
    out.split('.')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect::<Vec<_>>()
        .join(".")
}

/// Places of the document by how much their name is like the wanted one.
fn similar(wanted: &str, data: &[u8]) -> Vec<String> {
    let Ok(document) = serde_json::from_slice::<Value>(data) else {
        return Vec::new();
    };
    let mut places = Vec::new();
    collect(&document, "", 0, &mut places);
    let name = last_name(wanted);
    let bare = wanted.replace('\\', "");
    let mut ranked: Vec<(usize, String)> = places
        .into_iter()
        .filter_map(|place| {
            let last = last_name(&place);
            let rank = if place.replace('\\', "") == bare || last == name {
                0
            } else if last.eq_ignore_ascii_case(&name) {
                1
            } else {
                let far = distance(&last.to_lowercase(), &name.to_lowercase())?;
                let close = name.chars().count() > 3 && far <= 2;
                return close.then_some((far + 1, place));
            };
            Some((rank, place))
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, place)| place).collect()
}

fn collect(value: &Value, prefix: &str, depth: usize, places: &mut Vec<String>) {
    if depth == MAX_DEPTH {
        return;
    }
    let mut add = |name: &str, value: &Value| {
        if places.len() < MAX_PLACES {
            let place = if prefix.is_empty() {
                name.to_owned()
            } else {
                format!("{prefix}.{name}")
            };
            places.push(place.clone());
            collect(value, &place, depth + 1, places);
        }
    };
    match value {
        Value::Object(members) => members
            .iter()
            .for_each(|(key, value)| add(&escaped(key), value)),
        Value::Array(items) => items
            .iter()
            .take(3)
            .enumerate()
            .for_each(|(index, value)| add(&index.to_string(), value)),
        _ => {}
    }
}

/// A key as one name of a path.
fn escaped(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for c in key.chars() {
        if ".*?|#@[]{}!\\".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The last name of a path that is no index, without escapes.
fn last_name(path: &str) -> String {
    let mut names: Vec<String> = vec![String::new()];
    let mut characters = path.chars();
    while let Some(c) = characters.next() {
        match (c, names.last_mut()) {
            ('.' | '|', _) => names.push(String::new()),
            ('\\', Some(name)) => name.extend(characters.next()),
            (c, Some(name)) => name.push(c),
            (_, None) => {}
        }
    }
    let index = |name: &String| name.chars().all(|c| c.is_ascii_digit());
    let named = names.iter().rev().find(|name| !index(name));
    named.cloned().unwrap_or_default()
}

/// How many characters have to be put in, taken out or changed; `None` for names that are long or too unlike.
fn distance(one: &str, other: &str) -> Option<usize> {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().max(other.len()) > MAX_NAME || one.len().abs_diff(other.len()) > 2 {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut before = row.first().copied().unwrap_or(0);
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, b) in other.iter().enumerate() {
            let change = before + usize::from(a != b);
            before = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(before + 1);
        }
    }
    row.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &[u8] = br#"{"header":{"X-Order-Id":["o-1"]},"body":{"kind":"k","items":[{"id":1}],"a.b":2,"customerId":"c"}}"#;

    #[test]
    fn the_path_that_was_meant_comes_first() {
        for (wanted, near) in [
            ("body.event.kind", "body.kind"),
            ("kind", "body.kind"),
            ("Body.kind", "body.kind"),
            ("$.body.kind", "body.kind"),
            (".body.kind", "body.kind"),
            ("body.items[0].id", "body.items.0.id"),
            ("headers.x-order-id", "header.X-Order-Id.0"),
            ("header.x-order-id.0", "header.X-Order-Id.0"),
            ("body.kind.0", "body.kind"),
            ("body.a.b", "body.a\\.b"),
            ("body.custmerId", "body.customerId"),
            ("body. kind", "body.kind"),
        ] {
            let found = paths(wanted, DATA);
            assert_eq!(
                found.first().map(String::as_str),
                Some(near),
                "{wanted}: {found:?}"
            );
        }
    }

    #[test]
    fn what_is_like_nothing_has_no_proposal() {
        assert_eq!(paths("body.zzzzzz", DATA), Vec::<String>::new());
        assert_eq!(paths("body.kind", b"no json"), Vec::<String>::new());
        assert_eq!(paths("", b"{}"), Vec::<String>::new());
    }
}
