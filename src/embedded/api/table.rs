//! Objects as `meta.k8s.io` Tables.

use serde_json::{Value, json};

use super::registry::Kind;
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

/// A Table of objects in the kind's own shape.
#[must_use]
pub fn table(
    kind: &'static Kind,
    objects: &[Value],
    version: &str,
    include: Include,
    metadata: Value,
) -> Value {
    let _ = kind;
    let columns = json!([
        {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
        {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0},
    ]);
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let cells = json!([
                object.pointer("/metadata/name"),
                object.pointer("/metadata/creationTimestamp")
            ]);
            json!({"cells": cells, "object": shown(object, version, include)})
        })
        .collect();
    json!({"kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata, "columnDefinitions": columns, "rows": rows})
}

fn shown(object: &Value, version: &str, include: Include) -> Value {
    match include {
        Include::None => Value::Null,
        Include::Metadata => partial(object.clone(), version),
        Include::Object => object.clone(),
    }
}
