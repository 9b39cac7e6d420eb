//! Dependencies whose filters let no event pass both.

use super::super::site::Site;
use super::data::Condition;
use super::trial::passes;
use crate::sensor::number::{parse_bool, parse_float};

/// Most pairs of conditions, and of their values, that are held against each other; longer lists may exclude each other.
const MOST_PAIRS: usize = 2_500;

fn are_too_many(one: usize, other: usize) -> bool {
    one.saturating_mul(other) > MOST_PAIRS
}

/// Whether no event passes the filters of both dependencies, as far as their lists are not too long to tell.
pub(super) fn exclude_each_other(one: &Site<'_>, other: &Site<'_>) -> bool {
    let (one, other) = (required(one), required(other));
    if are_too_many(one.len(), other.len()) {
        return true;
    }
    one.iter().any(|first| {
        other.iter().any(|second| {
            first.path == second.path
                && first.kind == second.kind
                && (disjoint(first, second) || disjoint(second, first))
        })
    })
}

/// The conditions that every event meets which passes the dependency's filters.
fn required<'t>(dependency: &Site<'t>) -> Vec<Condition<'t>> {
    let Some(filters) = dependency.get("filters") else {
        return Vec::new();
    };
    // A transform may put another value there.
    if dependency.get("transform").is_some()
        || dependency.text("filtersLogicalOperator") == "or"
        || filters.text("dataLogicalOperator") == "or"
    {
        return Vec::new();
    }
    let conditions = filters.list("data").into_iter().map(Condition::read);
    conditions
        .filter(|condition| !condition.templated && !condition.path.is_empty())
        .collect()
}

/// Whether nothing that the first one accepts is accepted by the second one.
fn disjoint(first: &Condition<'_>, second: &Condition<'_>) -> bool {
    let equals = |condition: &Condition<'_>| matches!(condition.comparator, "" | "=");
    let texts = second.texts();
    let none_of = |same: &dyn Fn(&str, &str) -> bool| {
        first
            .values
            .iter()
            .all(|(value, _)| !texts.iter().any(|text| same(value, text)))
    };
    if !equals(first) || first.values.is_empty() {
        return false;
    }
    if are_too_many(first.values.len(), texts.len()) {
        return true;
    }
    match first.kind {
        "string" => first.values.iter().all(|(pattern, _)| {
            only_match(pattern)
                .is_some_and(|text| !passes("string", second.comparator, &texts, &text.into()))
        }),
        // A comparator does nothing to a boolean.
        "bool" => none_of(&|one, other| match (
            parse_bool(one.as_bytes()),
            parse_bool(other.as_bytes()),
        ) {
            (Ok(one), Ok(other)) => one == other,
            _ => true,
        }),
        "number" if equals(second) => none_of(&|one, other| match (
            parse_float(one.as_bytes()),
            parse_float(other.as_bytes()),
        ) {
            (Ok(one), Ok(other)) => one == other,
            _ => true,
        }),
        _ => false,
    }
}

/// The one text that a pattern matches, if it is written out between `^` and `$`.
fn only_match(pattern: &str) -> Option<String> {
    let inner = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let mut text = String::new();
    let mut characters = inner.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => text.push(characters.next().filter(char::is_ascii_punctuation)?),
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => {
                return None;
            }
            c => text.push(c),
        }
    }
    Some(text)
}
