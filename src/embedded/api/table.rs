//! Objects as `meta.k8s.io` Tables: what `kubectl get` prints and k9s shows.
//!
//! From above: [`table`]. A built-in kind has a printer in one of the files below; a custom kind is printed by the
//! columns of its row in the registry; anything else shows name and age.

mod age;
mod custom;
mod objects;
mod pods;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::go_text::quote;
use super::registry::Kind;
use super::represent::partial;
use super::status::Failure;

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

    /// Refuses a value of `includeObject` that means nothing.
    ///
    /// # Errors
    /// 400.
    pub fn check(text: &str) -> Result<(), Failure> {
        if matches!(text, "" | "None" | "Metadata" | "Object") {
            return Ok(());
        }
        Err(Failure::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
            quote(text)
        )))
    }
}

/// A column: name, type, format, priority (1: shown with `-o wide` only).
type Column = (&'static str, &'static str, &'static str, u8);

/// How a built-in kind is printed.
#[derive(Clone, Copy)]
struct Printer {
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

const NAME: Column = ("Name", "string", "name", 0);
const AGE: Column = text_column("Age");

const fn text_column(name: &'static str) -> Column {
    (name, "string", "", 0)
}

const fn wide_column(name: &'static str) -> Column {
    (name, "string", "", 1)
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
    let (columns, cells): (Vec<Value>, Vec<Vec<Value>>) = if kind.custom {
        (
            custom::columns(kind),
            objects
                .iter()
                .map(|object| custom::cells(kind, object, now))
                .collect(),
        )
    } else {
        let printer = printer(kind.group, kind.plural);
        let columns = printer
            .columns
            .iter()
            .map(|column| definition(*column))
            .collect();
        (
            columns,
            objects
                .iter()
                .map(|object| (printer.cells)(object, now))
                .collect(),
        )
    };
    let rows: Vec<Value> = objects
        .iter()
        .zip(cells)
        .map(|(object, cells)| json!({"cells": cells, "object": shown(object, version, include)}))
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

fn printer(group: &str, plural: &str) -> Printer {
    match (group, plural) {
        ("", "pods") => pods::PODS,
        ("", "namespaces") => objects::NAMESPACES,
        ("", "nodes") => objects::NODES,
        ("", "services") => objects::SERVICES,
        ("", "configmaps") => objects::CONFIG_MAPS,
        ("", "secrets") => objects::SECRETS,
        ("", "persistentvolumeclaims") => objects::CLAIMS,
        ("", "endpoints") => objects::ENDPOINTS,
        ("discovery.k8s.io", "endpointslices") => objects::ENDPOINT_SLICES,
        ("" | "events.k8s.io", "events") => objects::EVENTS,
        ("apps", "deployments") => workloads::DEPLOYMENTS,
        ("apps", "replicasets") => workloads::REPLICA_SETS,
        ("apps", "statefulsets") => workloads::STATEFUL_SETS,
        ("batch", "jobs") => workloads::JOBS,
        ("coordination.k8s.io", "leases") => objects::LEASES,
        (_, "rolebindings" | "clusterrolebindings") => objects::ROLE_BINDINGS,
        (_, "roles" | "clusterroles" | "customresourcedefinitions") => objects::CREATED_AT,
        ("", "limitranges") => objects::CREATED_AT,
        ("", "resourcequotas") => objects::QUOTAS,
        _ => objects::NAME_AND_AGE,
    }
}

fn definition((name, kind, format, priority): (&str, &str, &str, u8)) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
}

fn shown(object: &Value, version: &str, include: Include) -> Value {
    match include {
        Include::None => Value::Null,
        Include::Metadata => partial(object.clone(), version),
        Include::Object => object.clone(),
    }
}

/// The string at a JSON pointer, or an empty one.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn or<'a>(text: &'a str, instead: &'a str) -> &'a str {
    if text.is_empty() { instead } else { text }
}

/// The integer at a JSON pointer, or 0.
fn integer(object: &Value, pointer: &str) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// The list at a JSON pointer, or an empty one.
fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// How many entries the object at a JSON pointer has.
fn size(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The cell `Age`.
fn age(object: &Value, now: Timestamp) -> String {
    age::since(object.pointer("/metadata/creationTimestamp"), now)
}

/// Whether `status.conditions` holds one of this type with status True.
fn has_condition(object: &Value, kind: &str) -> bool {
    list(object, "/status/conditions")
        .iter()
        .any(|one| one["type"] == kind && one["status"] == "True")
}

#[cfg(test)]
mod tests;
