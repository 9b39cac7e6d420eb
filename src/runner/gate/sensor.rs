//! Conditions of the Sensor's object and pods: it is valid, its spec is live, and no older pod is left.

use serde_json::Value;

use super::pods::{carried, pod_name, ready, split_pods, waiting_reason};
use super::{Input, condition, condition_of};
use crate::session::message::{GateCondition, StepError};

/// An invalid Sensor fails fast, once its controller has said so of the present spec.
pub(super) fn sensor_valid(input: &Input) -> (GateCondition, Option<StepError>) {
    let command = format!("kubectl -n {} get sensor orders -o yaml", input.namespace);
    let Some(sensor) = &input.sensor else {
        return (
            condition("sensor", false, "there is no Sensor", command),
            None,
        );
    };
    let refused = ["DependenciesProvided", "TriggersProvided"]
        .iter()
        .find_map(|kind| match condition_of(sensor, kind) {
            Some(("False", message)) => {
                // Only this program's own controller refuses what upstream accepts, and it says of which spec.
                let own = message.starts_with("eventlab:") && observed_present_spec(sensor);
                Some((format!("{kind} is False: {message}"), own))
            }
            _ => None,
        });
    let fails = |text: String| {
        let text = format!("{text}. The edit is not live; the old filter runs on");
        let error = StepError {
            reason: "invalid-sensor".to_owned(),
            text: text.clone(),
            environment: false,
        };
        (
            condition("sensor", false, text, command.clone()),
            Some(error),
        )
    };
    let waits = |text: String| (condition("sensor", false, text, command.clone()), None);
    match (refused, &input.invalid) {
        (_, Some(objection)) if objection.silent => fails(format!(
            "the controller cannot decode it: {}",
            objection.text
        )),
        (Some((text, true)), _) | (Some((text, false)), Some(_)) => fails(text),
        (Some(_), None) => {
            waits("its controller has not looked at the present spec yet".to_owned())
        }
        (None, Some(objection)) => waits(format!(
            "invalid, and its controller has not said so yet: {}",
            objection.text
        )),
        (None, None) => (condition("sensor", true, "valid", command.clone()), None),
    }
}

fn observed_present_spec(object: &Value) -> bool {
    let generation = object.pointer("/metadata/generation");
    generation.is_some() && object.pointer("/status/observedGeneration") == generation
}

pub(super) fn sensor_spec(input: &Input) -> GateCondition {
    let command = format!(
        "kubectl -n {} get pods -l sensor-name=orders -o jsonpath='{{..env[?(@.name==\"SENSOR_OBJECT\")].value}}' | base64 -d",
        input.namespace
    );
    let Some(sensor) = &input.sensor else {
        return condition("sensor spec", false, "there is no Sensor", command);
    };
    let (current, older) = split_pods(&input.sensor_pods, sensor, "SENSOR_OBJECT");
    match (current.as_slice(), older.as_slice()) {
        ([], []) => condition("sensor spec", false, "no pod yet", command),
        ([], [old, ..]) => condition(
            "sensor spec",
            false,
            format!(
                "your edit is not live: pod {} runs {}",
                pod_name(old),
                filter_of(old)
            ),
            command,
        ),
        ([pod, ..], _) if !ready(pod) => condition(
            "sensor spec",
            false,
            format!(
                "pod {} is not Ready: {}",
                pod_name(pod),
                waiting_reason(pod)
            ),
            command,
        ),
        ([pod], _) => condition(
            "sensor spec",
            true,
            format!("pod {} carries the present spec", pod_name(pod)),
            command,
        ),
        (more, _) => condition(
            "sensor spec",
            false,
            format!(
                "{} pods carry the present spec; one is expected",
                more.len()
            ),
            command,
        ),
    }
}

/// The filter that a pod really runs, in short.
fn filter_of(pod: &Value) -> String {
    let Some(object) = carried(pod, "SENSOR_OBJECT") else {
        return "another spec".to_owned();
    };
    match object.pointer("/spec/dependencies/0/filters") {
        Some(filters) => format!("the filter {}", shorten(&filters.to_string())),
        None => "no filter".to_owned(),
    }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= 160 {
        return text.to_owned();
    }
    text.chars().take(159).chain(['…']).collect()
}

pub(super) fn older_pod(input: &Input) -> GateCondition {
    let command = format!(
        "kubectl -n {} get pods -l sensor-name=orders",
        input.namespace
    );
    let Some(sensor) = &input.sensor else {
        return condition("older pod", false, "there is no Sensor", command);
    };
    let (_, older) = split_pods(&input.sensor_pods, sensor, "SENSOR_OBJECT");
    match older.first() {
        None => condition("older pod", true, "none is left", command),
        Some(old) => condition(
            "older pod",
            false,
            format!("stand by, old pod {} alive", pod_name(old)),
            command,
        ),
    }
}
