//! Pods of a Sensor or an EventSource: the object that each carries, and whether it is the present one.

use base64::Engine as _;
use serde_json::Value;

use super::{condition_of, text};
use crate::lint;

/// The object that a pod carries in an environment variable, decoded.
pub(super) fn carried(pod: &Value, variable: &str) -> Option<Value> {
    let containers = pod.pointer("/spec/containers")?.as_array()?;
    let environment = containers
        .iter()
        .find(|container| text(container, "/name") == "main")?
        .get("env")?
        .as_array()?;
    let encoded = environment
        .iter()
        .find(|entry| text(entry, "/name") == variable)?;
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text(encoded, "/value"))
        .ok()?;
    serde_json::from_slice(&bytes).ok()
}

pub(super) fn terminating(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some()
}

fn finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

pub(super) fn ready(pod: &Value) -> bool {
    matches!(condition_of(pod, "Ready"), Some(("True", _)))
}

pub(super) fn pod_name(pod: &Value) -> &str {
    text(pod, "/metadata/name")
}

/// Pods that carry the present spec and are not going away, and all others.
pub(super) fn split_pods<'a>(
    pods: &'a [Value],
    object: &Value,
    variable: &str,
) -> (Vec<&'a Value>, Vec<&'a Value>) {
    let spec = decoded(object, variable);
    pods.iter().filter(|pod| !finished(pod)).partition(|pod| {
        !terminating(pod)
            && carried(pod, variable).is_some_and(|carried| decoded(&carried, variable) == spec)
    })
}

/// The spec as the controller decodes it and writes it again: without what it does not know, and without what Go leaves
/// out or fills in as zero. Two specs that differ in nothing else are one.
fn decoded(object: &Value, variable: &str) -> Option<Value> {
    let spec = object.get("spec")?;
    Some(if variable == "SENSOR_OBJECT" {
        without_zeros("spec", &lint::decoded_spec(spec))
    } else {
        without_zeros("spec", spec)
    })
}

fn without_zeros(name: &str, value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(field, value)| match (name, field.as_str()) {
                ("source", "resource") => (field.clone(), value.clone()),
                _ => (field.clone(), without_zeros(field, value)),
            })
            .filter(|(field, value)| !is_zero(value) || keeps_zero(name, field, value))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(|item| without_zeros(name, item)).collect(),
        other => other.clone(),
    }
}

/// Whether Go writes a zero that stands in this field, and tells it from one that does not stand there: behind a pointer, in
/// a map, in an object that is kept as it was written.
fn keeps_zero(object: &str, field: &str, value: &Value) -> bool {
    const MAPS: [&str; 5] = [
        "headers",
        "labels",
        "annotations",
        "nodeSelector",
        "loggingFields",
    ];
    let behind_pointer = match object {
        "src" => field == "value",
        "securityContext" => true,
        "spec" => matches!(field, "replicas" | "revisionHistoryLimit"),
        _ => matches!(field, "duration" | "factor" | "jitter"),
    };
    let is_scalar = !matches!(value, Value::Null | Value::Array(_) | Value::Object(_));
    (behind_pointer || MAPS.contains(&object)) && is_scalar
        || (object, field) == ("source", "resource") && !value.is_null()
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) => false,
    }
}

/// The level a pod's Sensor logs at: exactly `debug`, `info`, `warn`, `error`; anything else means info.
pub(in crate::runner) fn log_level(pod: &Value) -> &'static str {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let environment = containers
        .and_then(|containers| {
            containers
                .iter()
                .find(|container| text(container, "/name") == "main")
        })
        .and_then(|container| container.get("env")?.as_array());
    let value = environment
        .and_then(|entries| {
            entries
                .iter()
                .rev()
                .find(|entry| text(entry, "/name") == "LOG_LEVEL")
        })
        .map(|entry| text(entry, "/value"));
    match value {
        Some("debug") => "debug",
        Some("warn") => "warn",
        Some("error") => "error",
        _ => "info",
    }
}
