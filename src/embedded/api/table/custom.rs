//! Custom kinds: the columns of their definition, or name and age.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{duration, string};
use crate::embedded::api::registry::{self, Kind};

const AGE: &[registry::Column] = &[registry::Column {
    name: "Age",
    kind: "date",
    format: "",
    path: "metadata.creationTimestamp",
}];

fn defined(kind: &Kind) -> &'static [registry::Column] {
    if kind.columns.is_empty() {
        AGE
    } else {
        kind.columns
    }
}

pub(super) fn columns(kind: &Kind) -> Vec<Value> {
    let mut all = vec![
        json!({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}),
    ];
    all.extend(defined(kind).iter().map(|column| {
        json!({"name": column.name, "type": column.kind, "format": column.format, "description": "", "priority": 0})
    }));
    all
}

pub(super) fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![Value::from(string(object, "/metadata/name"))];
    cells.extend(defined(kind).iter().map(|column| cell(column, object, now)));
    cells
}

fn cell(column: &registry::Column, object: &Value, now: Timestamp) -> Value {
    let found = column
        .path
        .split('.')
        .try_fold(object, |value, key| value.get(key));
    match found {
        None | Some(Value::Null) => Value::Null,
        Some(Value::String(text)) if column.kind == "date" => {
            Value::from(duration::since(text, now))
        }
        Some(value @ (Value::Object(_) | Value::Array(_))) => Value::from(value.to_string()),
        Some(value) => value.clone(),
    }
}
