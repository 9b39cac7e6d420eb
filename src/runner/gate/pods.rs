//! Pods of a Sensor or an EventSource: the object that each carries, and whether it is the present one.

use base64::Engine as _;
use serde_json::Value;

use super::decoding::decoded;
use super::{condition_of, text};

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
