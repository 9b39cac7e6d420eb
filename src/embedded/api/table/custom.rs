//! Custom kinds: the additional printer columns of their row in the registry.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NAME, age, definition, name};
use crate::embedded::api::registry::{Column, Kind};

/// What a CustomResourceDefinition without columns of its own shows.
const DEFAULT: &[Column] = &[Column {
    name: "Age",
    kind: "date",
    format: "",
    path: "metadata.creationTimestamp",
}];

fn own_columns(kind: &Kind) -> &'static [Column] {
    if kind.columns.is_empty() {
        DEFAULT
    } else {
        kind.columns
    }
}

pub(super) fn columns(kind: &Kind) -> Vec<Value> {
    let own = own_columns(kind)
        .iter()
        .map(|column| definition((column.name, column.kind, column.format, 0)));
    [definition(NAME)].into_iter().chain(own).collect()
}

pub(super) fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    let own = own_columns(kind)
        .iter()
        .map(|column| cell(column, object, now));
    [json!(name(object))].into_iter().chain(own).collect()
}

/// A path that leads nowhere is null, which clients print as an empty cell.
fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let found = column
        .path
        .split('.')
        .try_fold(object, |value, field| value.get(field));
    match (found, column.kind) {
        (None | Some(Value::Null), _) => Value::Null,
        (found, "date") => json!(age::since(found, now)),
        (Some(Value::String(text)), _) => json!(text),
        (Some(value), "string") => json!(value.to_string()),
        (Some(value), _) => value.clone(),
    }
}
