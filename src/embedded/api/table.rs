//! Objects as `meta.k8s.io` Tables: what `kubectl get` shows.

mod custom;
mod duration;
mod pods;
mod printers;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::convert;
use super::registry::{Kind, Storage};
use super::represent::partial;

/// What goes into `rows[].object`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Include {
    /// From the query parameter `includeObject`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "None" => Include::None,
            "Object" => Include::Object,
            _ => Include::Metadata,
        }
    }
}

/// A column of a built-in kind.
struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    /// 0, or 1 for `-o wide` alone.
    priority: u8,
}

const fn text(name: &'static str) -> Column {
    Column {
        name,
        kind: "string",
        format: "",
        priority: 0,
    }
}

const fn wide(name: &'static str) -> Column {
    Column {
        priority: 1,
        ..text(name)
    }
}

const NAME: Column = Column {
    format: "name",
    ..text("Name")
};

/// How objects of a built-in kind become rows.
struct Printer {
    columns: &'static [Column],
    row: fn(&Value, Timestamp) -> Vec<Value>,
}

/// A Table of objects in the kind's own shape.
#[must_use]
pub fn table(
    kind: &'static Kind,
    objects: &[Value],
    version: &str,
    include: Include,
    metadata: Value,
) -> Value {
    let now = Timestamp::now();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| json!({"cells": cells(kind, object, now), "object": shown(object, version, include)}))
        .collect();
    json!({
        "kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
        "columnDefinitions": columns(kind), "rows": rows,
    })
}

fn columns(kind: &'static Kind) -> Vec<Value> {
    if kind.custom {
        return custom::columns(kind);
    }
    let columns = printers::find(kind.stored_as()).columns.iter();
    columns
        .map(|column| {
            json!({
                "name": column.name, "type": column.kind, "format": column.format, "description": "",
                "priority": column.priority,
            })
        })
        .collect()
}

fn cells(kind: &'static Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    if kind.custom {
        return custom::cells(kind, object, now);
    }
    let printer = printers::find(kind.stored_as());
    match kind.storage {
        Storage::Shared(_) => (printer.row)(&convert::to_storage(object.clone()), now),
        Storage::Own | Storage::Virtual => (printer.row)(object, now),
    }
}

fn shown(object: &Value, version: &str, include: Include) -> Value {
    match include {
        Include::None => Value::Null,
        Include::Metadata => partial(object.clone(), version),
        Include::Object => object.clone(),
    }
}

/// A string at a pointer, empty if there is none.
fn string<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// The text, or `<none>` for an empty one.
fn or_none(text: &str) -> Value {
    Value::from(if text.is_empty() { "<none>" } else { text })
}

/// A number at a pointer, 0 if there is none.
fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// The list at a pointer.
fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Time since the object was made.
fn age(object: &Value, now: Timestamp) -> Value {
    Value::from(duration::since(
        string(object, "/metadata/creationTimestamp"),
        now,
    ))
}

/// `a=b,c=d` in key order, or `<none>`.
fn labels(map: Option<&Value>) -> String {
    let Some(map) = map.and_then(Value::as_object).filter(|map| !map.is_empty()) else {
        return "<none>".to_owned();
    };
    let mut pairs: Vec<String> = map
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    pairs.sort();
    pairs.join(",")
}
