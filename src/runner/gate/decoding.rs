//! Objects as Argo's controllers decode them and write them again, so that two that say the same are seen to be the same.

use serde_json::{Map, Value};

use crate::kinds::EVENT_TYPES;
use crate::lint;

/// What an EventSource's spec knows beside its kinds of events.
const SOURCE_SPEC: [&str; 4] = ["eventBusName", "replicas", "service", "template"];
const SERVICE: [&str; 3] = ["clusterIP", "metadata", "ports"];
const WEBHOOK: [&str; 10] = [
    "authSecret",
    "endpoint",
    "filter",
    "maxPayloadSize",
    "metadata",
    "method",
    "port",
    "serverCertSecret",
    "serverKeySecret",
    "url",
];

/// The spec as the controller decodes it and writes it again: without what it does not know, and without what Go leaves
/// out or fills in as zero. Two specs that differ in nothing else are one.
pub(super) fn decoded(object: &Value, variable: &str) -> Option<Value> {
    let spec = object.get("spec")?;
    let known = match variable {
        "SENSOR_OBJECT" => lint::decoded_spec(spec),
        _ => event_source_spec(spec),
    };
    Some(without_zeros("spec", &known))
}

/// The spec of an EventSource without the fields that Argo Events ignores; of events, those of webhooks are looked into.
fn event_source_spec(spec: &Value) -> Value {
    only(
        spec,
        &[&SOURCE_SPEC[..], &EVENT_TYPES].concat(),
        |name, value| match name {
            // A Sensor has the same.
            "template" => {
                let sensor: Map<_, _> = [(name.to_owned(), value.clone())].into_iter().collect();
                lint::decoded_spec(&sensor.into())[name].take()
            }
            "service" => only(value, &SERVICE, |_, value| value.clone()),
            "webhook" => each(value, |event| {
                only(event, &WEBHOOK, |name, value| match name {
                    "filter" => only(value, &["expression"], |_, value| value.clone()),
                    _ => value.clone(),
                })
            }),
            _ => value.clone(),
        },
    )
}

/// The fields of an object that are known, as `inner` knows what is in them.
fn only(object: &Value, known: &[&str], inner: impl Fn(&str, &Value) -> Value) -> Value {
    let Value::Object(fields) = object else {
        return object.clone();
    };
    let kept = fields
        .iter()
        .filter(|(name, _)| known.contains(&name.as_str()));
    let kept = kept.map(|(name, value)| (name.clone(), inner(name, value)));
    Value::Object(kept.collect())
}

/// An object of objects, each as `inner` knows it.
fn each(object: &Value, inner: impl Fn(&Value) -> Value) -> Value {
    let Value::Object(fields) = object else {
        return object.clone();
    };
    let known = fields
        .iter()
        .map(|(name, value)| (name.clone(), inner(value)));
    Value::Object(known.collect())
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
