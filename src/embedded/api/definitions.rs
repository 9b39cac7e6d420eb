//! The CustomResourceDefinitions of the custom kinds, as objects that can be read.

use serde_json::{Map, Value, json};

use super::registry::{self, Kind};

/// One definition for each custom kind.
#[must_use]
pub fn all() -> Vec<Value> {
    registry::kinds()
        .iter()
        .filter(|kind| kind.custom)
        .map(definition)
        .collect()
}

fn definition(kind: &Kind) -> Value {
    let mut names = Map::new();
    names.insert("plural".to_owned(), json!(kind.plural));
    names.insert("singular".to_owned(), json!(kind.singular));
    if !kind.short_names.is_empty() {
        names.insert("shortNames".to_owned(), json!(kind.short_names));
    }
    names.insert("kind".to_owned(), json!(kind.kind));
    names.insert("listKind".to_owned(), json!(kind.list_kind()));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.qualified()},
        "spec": {
            "group": kind.group, "names": names,
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "versions": [version(kind)], "conversion": {"strategy": "None"},
        },
    })
}

fn version(kind: &Kind) -> Value {
    let mut version = json!({
        "name": kind.version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema(kind)},
    });
    if kind.status {
        version["subresources"] = json!({"status": {}});
    }
    let columns: Vec<Value> = kind.columns.iter().map(column).collect();
    if !columns.is_empty() {
        version["additionalPrinterColumns"] = Value::from(columns);
    }
    version
}

fn column(column: &registry::Column) -> Value {
    let mut value =
        json!({"name": column.name, "type": column.kind, "jsonPath": format!(".{}", column.path)});
    if !column.format.is_empty() {
        value["format"] = json!(column.format);
    }
    value
}

/// What the definition says about an object: its fields are free, as in the minimal definitions of Argo.
#[must_use]
pub fn schema(kind: &Kind) -> Value {
    let mut properties = Map::new();
    for field in ["apiVersion", "kind"] {
        properties.insert(field.to_owned(), json!({"type": "string"}));
    }
    properties.insert("metadata".to_owned(), json!({"type": "object"}));
    for field in kind.body {
        let free = match *field {
            "message" | "phase" | "progress" => json!({"type": "string"}),
            _ => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        };
        properties.insert((*field).to_owned(), free);
    }
    json!({"type": "object", "properties": properties})
}
