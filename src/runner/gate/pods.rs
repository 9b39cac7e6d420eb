//! What a pod says of itself: the object it carries, whether it is going, why it does not run, its log level.

use base64::Engine as _;
use serde_json::Value;

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

fn terminating(pod: &Value) -> bool {
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
    let spec = object.get("spec");
    pods.iter().filter(|pod| !finished(pod)).partition(|pod| {
        !terminating(pod)
            && carried(pod, variable).is_some_and(|carried| carried.get("spec") == spec)
    })
}

/// Why a pod's container does not run.
pub(super) fn waiting_reason(pod: &Value) -> String {
    let statuses = pod
        .pointer("/status/containerStatuses")
        .and_then(Value::as_array);
    let waiting = statuses.and_then(|statuses| {
        statuses
            .iter()
            .find_map(|status| status.pointer("/state/waiting"))
    });
    waiting.map_or_else(
        || text(pod, "/status/phase").to_owned(),
        |waiting| {
            format!("{} {}", text(waiting, "/reason"), text(waiting, "/message"))
                .trim()
                .to_owned()
        },
    )
}

/// The level a pod's Sensor logs at: exactly `debug`, `info`, `warn`, `error`; anything else means info.
pub(super) fn log_level(pod: &Value) -> &'static str {
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
