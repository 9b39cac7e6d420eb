//! The parts of a Workflow's `spec` that are executed, typed. The whole stays JSON: text is put into it first.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::sensor::go_duration;

/// Text that a manifest may also state as a number or a boolean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct AnyString(pub String);

impl<'de> Deserialize<'de> for AnyString {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            Value::Number(number) => number_text(&number),
            other => other.to_string(),
        }))
    }
}

/// Go's shortest form without an exponent.
fn number_text(number: &Number) -> String {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(integer), _, _) => integer.to_string(),
        (None, Some(integer), _) => integer.to_string(),
        (None, None, Some(float)) => float.to_string(),
        _ => number.to_string(),
    }
}

/// A named value.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Parameter {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<AnyString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<AnyString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueFrom>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub global_name: String,
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<AnyString>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<AnyString>,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ValueFrom {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<ConfigMapKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<AnyString>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Of a steps template: `{{steps.a.outputs.parameters.b}}`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parameter: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supplied: Option<Value>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expression: String,
}

/// A key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ConfigMapKey {
    pub name: String,
    pub key: String,
}

/// Arguments, inputs, or outputs of a template.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Parameters {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
}

impl Parameters {
    /// The parameter of this name.
    pub(super) fn get(&self, name: &str) -> Option<&Parameter> {
        self.parameters
            .iter()
            .find(|parameter| parameter.name == name)
    }
}

/// Labels and annotations.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// `ttlStrategy`, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TtlStrategy {
    pub seconds_after_completion: Option<i64>,
    pub seconds_after_success: Option<i64>,
    pub seconds_after_failure: Option<i64>,
}

/// `podGC`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodGc {
    pub strategy: String,
    pub label_selector: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector>,
    pub delete_delay_duration: Option<AnyString>,
}

/// `retryStrategy`.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RetryStrategy {
    pub limit: Option<AnyString>,
    pub retry_policy: String,
    pub backoff: Option<Backoff>,
    pub expression: String,
}

/// `retryStrategy.backoff`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Backoff {
    pub duration: Option<AnyString>,
    pub factor: Option<AnyString>,
    pub max_duration: Option<AnyString>,
    pub cap: Option<AnyString>,
}

/// `synchronization`.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Synchronization {
    pub mutexes: Vec<Mutex>,
    pub semaphores: Vec<Semaphore>,
}

/// A lock that one holds.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Mutex {
    pub name: String,
    pub namespace: String,
    pub database: bool,
}

/// A lock that several hold; how many stands in a ConfigMap.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Semaphore {
    pub config_map_key_ref: Option<ConfigMapKey>,
    pub namespace: String,
    pub database: Option<Value>,
}

/// One step, before or after its text is put in.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Step {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template: String,
    pub arguments: Parameters,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_items: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub with_param: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub when: String,
    pub continue_on: ContinueOn,
}

/// Bad ends of a step that do not end its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ContinueOn {
    pub error: bool,
    pub failed: bool,
}

/// A template.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Template {
    pub name: String,
    pub inputs: Parameters,
    pub outputs: Parameters,
    pub container: Option<Value>,
    pub steps: Option<Vec<Vec<Step>>>,
    pub metadata: Metadata,
    pub service_account_name: String,
    pub automount_service_account_token: Option<bool>,
    pub active_deadline_seconds: Option<AnyString>,
    pub timeout: String,
    pub retry_strategy: Option<RetryStrategy>,
    pub synchronization: Option<Synchronization>,
    pub volumes: Vec<Value>,
    pub fail_fast: Option<bool>,
}

impl Template {
    /// Whether a pod runs it.
    pub(super) fn is_pod(&self) -> bool {
        self.container.is_some()
    }
}

/// The executed spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub entrypoint: String,
    pub arguments: Parameters,
    pub templates: Vec<Value>,
    pub service_account_name: String,
    pub automount_service_account_token: Option<bool>,
    pub active_deadline_seconds: Option<i64>,
    pub suspend: bool,
    pub shutdown: String,
    pub on_exit: String,
    pub priority: Option<i64>,
    pub retry_strategy: Option<RetryStrategy>,
    pub synchronization: Option<Synchronization>,
    pub ttl_strategy: Option<TtlStrategy>,
    #[serde(rename = "podGC")]
    pub pod_gc: Option<PodGc>,
    pub workflow_metadata: Metadata,
    pub pod_metadata: Metadata,
    pub volumes: Vec<Value>,
}

impl Spec {
    /// The template of this name, as it stands in the spec.
    pub(super) fn template(&self, name: &str) -> Option<&Value> {
        self.templates
            .iter()
            .find(|template| template["name"] == name)
    }
}

/// A value without its nulls, which stand for absent fields.
pub(super) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// A duration as Argo reads it: whole seconds (`5`), or Go's form (`1m30s`, `500ms`).
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    match go_duration::nanoseconds(text) {
        Ok(_) => go_duration::parse(text)
            .ok_or_else(|| format!("unable to parse {text} as a duration: it is below zero")),
        Err(why) => Err(format!("unable to parse {text} as a duration: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_may_be_numbers_and_booleans() {
        let texts = |values: Value| -> Vec<String> {
            let all: Vec<AnyString> = serde_json::from_value(values).expect("values");
            all.into_iter().map(|value| value.0).collect()
        };
        assert_eq!(
            texts(json!(["a", 7, -1, 1.5, 1.0, true, 1e21])),
            ["a", "7", "-1", "1.5", "1", "true", "1000000000000000000000"]
        );
    }

    #[test]
    fn durations_are_seconds_or_go() {
        assert_eq!(duration("5"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5h"), Ok(Duration::from_secs(5400)));
        for bad in ["", "m", "5x", "-3s", "1..2s", "1e400s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nulls_are_absent_fields() {
        let value = json!({"entrypoint": "main", "templates": null, "arguments": {"parameters": [{"name": "a", "value": null}]}});
        let spec: Spec = serde_json::from_value(without_nulls(&value)).expect("spec");
        assert_eq!(
            spec.arguments.get("a").map(|one| one.value.clone()),
            Some(None)
        );
    }
}
