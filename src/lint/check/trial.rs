//! Trials: what a filter really says of made-up events, so that no finding rests on a guess.

use serde_json::{Value, json};

use crate::sensor::set::{self, Insert};
use crate::sensor::{Event, Explanation, Filter, path};

/// Most trials that are made of one list: each of them reads all of the list.
pub(super) const MOST_TRIALS: usize = 64;

/// Event data as an event.
pub(super) fn event(data: impl Into<Vec<u8>>) -> Event {
    Event {
        data: Some(data.into()),
        ..Event::default()
    }
}

/// What filters say of event data; `None` where they cannot be compiled.
pub(super) fn explain(filters: &Value, operator: &str, data: &str) -> Option<Explanation> {
    let filter = Filter::of_manifest(Some(filters), operator).ok()?;
    Some(filter.explain(&event(data)))
}

/// Whether one condition lets a value through.
pub(super) fn passes(kind: &str, comparator: &str, values: &[&str], value: &Value) -> bool {
    let condition = json!({"path": "v", "type": kind, "comparator": comparator, "value": values});
    let filters = json!({ "data": [condition] });
    let data = json!({ "v": value }).to_string();
    explain(&filters, "", &data).is_some_and(|why| why.passed)
}

/// Event data in which a plain path leads to a value; `None` for paths that are more than names and indexes.
pub(super) fn document(path: &str, value: &Value) -> Option<String> {
    let text = value.to_string();
    let document = set::set(b"{}", path.as_bytes(), Insert::Raw(text.as_bytes())).ok()?;
    let document = String::from_utf8(document).ok()?;
    leads_somewhere(&document, path).then_some(document)
}

/// Whether a path leads to something in event data.
pub(super) fn leads_somewhere(data: &str, path: &str) -> bool {
    path::get(data.as_bytes(), path.as_bytes()).is_ok_and(|value| value.exists())
}
