//! The gate: what must be true before an event can be judged. Pure; [`super::looking`] gathers the input.
//!
//! It never sleeps and never guesses: each condition names what it saw, or what it still waits for.

use std::collections::BTreeMap;

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::Value;

use super::expected::{Subscription, subscriptions};
use super::releases;
use super::sending::WEBHOOK_PORT;
use crate::embedded::bus::ConsumerInfo;
use crate::lab::GateMode;
use crate::lint;
use crate::session::message::{GateCondition, GateReport, StepError};

/// What the log of one container instance has said about its subscriptions so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceLog {
    /// Subscriptions shown since the last failure or connection loss.
    pub subscribed: Vec<Subscription>,
    pub failure: Option<String>,
    /// The election's last word, while it has not won.
    pub stand_by: Option<String>,
    /// Lines seen, and how many of them are Argo's as far as any known release writes them.
    pub lines: u64,
    pub known_lines: u64,
}

/// Everything the gate looks at. An `Err` is "could not look", with its reason.
#[derive(Clone, Debug)]
pub struct Input {
    pub mode: GateMode,
    pub namespace: String,
    pub event_bus: Option<Value>,
    pub event_source: Option<Value>,
    pub event_source_pods: Vec<Value>,
    /// Whether the EventSource answers through its Service.
    pub intake: Result<(), String>,
    /// Whether the ledger's view answers, without which no effect can be seen.
    pub ledger: Result<(), String>,
    pub sensor: Option<Value>,
    pub sensor_pods: Vec<Value>,
    /// By pod uid and restart count of container `main`.
    pub logs: BTreeMap<(String, u32), InstanceLog>,
    pub consumers: Result<Vec<ConsumerInfo>, String>,
    /// Why the bus cannot be read at all, so that logs decide.
    pub by_log_alone: Option<String>,
    /// The EventBus that the EventSource or the Sensor names and that is not there, in a sentence.
    pub missing_bus: Option<String>,
    /// What is wrong with the Sensor's spec, as its controller would say; `None` when nothing is.
    pub invalid: Option<Objection>,
}

/// What is wrong with a Sensor's spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    pub text: String,
    /// The controller cannot decode the object, and so says nothing in its status.
    pub silent: bool,
}

/// Judges all conditions that the mode asks for.
#[must_use]
pub fn evaluate(input: &Input) -> GateReport {
    let (reached, mut failed) = intake(input);
    let mut conditions = vec![
        event_bus(input),
        event_source(input),
        reached,
        ledger(input),
    ];
    failed = failed.or_else(|| no_event_bus(input));
    if matches!(
        input.mode,
        GateMode::Ready | GateMode::Open | GateMode::OpenByLine
    ) {
        let (valid, invalid) = sensor_valid(input);
        conditions.push(valid);
        failed = failed.or(invalid);
        conditions.push(sensor_spec(input));
        conditions.push(older_pod(input));
    }
    if matches!(input.mode, GateMode::Open | GateMode::OpenByLine) {
        let (subscribed, failure) = subscribed(input);
        conditions.push(subscribed);
        failed = failed.or(failure);
        conditions.push(consumers(input));
    }
    let open = input.mode == GateMode::None
        || (failed.is_none() && conditions.iter().all(|condition| condition.holds));
    GateReport {
        open,
        conditions,
        failed,
    }
}

/// A report of nothing but that the API could not be asked.
#[must_use]
pub fn could_not_look(reason: &str) -> GateReport {
    let looked = condition(
        "api",
        false,
        format!("could not look: {reason}"),
        "kubectl get --raw /readyz".to_owned(),
    );
    GateReport {
        open: false,
        conditions: vec![looked],
        failed: None,
    }
}

/// Keeps since when each condition is as it is.
pub fn carry_since(report: &mut GateReport, before: &GateReport, now: Timestamp) {
    for condition in &mut report.conditions {
        let old = before
            .conditions
            .iter()
            .find(|old| old.name == condition.name);
        condition.since = match old {
            Some(old) if old.holds == condition.holds && old.since.is_some() => old.since,
            _ => Some(now),
        };
    }
}

fn condition(name: &str, holds: bool, detail: impl Into<String>, command: String) -> GateCondition {
    GateCondition {
        name: name.to_owned(),
        holds,
        detail: detail.into(),
        since: None,
        command,
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Status (`True`, `False`, …) and message of a condition of an object.
fn condition_of<'a>(object: &'a Value, kind: &str) -> Option<(&'a str, &'a str)> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let found = conditions
        .iter()
        .find(|condition| text(condition, "/type") == kind)?;
    Some((text(found, "/status"), text(found, "/message")))
}

fn event_bus(input: &Input) -> GateCondition {
    let command = format!(
        "kubectl -n {} get eventbus default -o yaml",
        input.namespace
    );
    if let Some(text) = &input.missing_bus {
        return condition("event bus", false, text.clone(), command);
    }
    let Some(bus) = &input.event_bus else {
        return condition(
            "event bus",
            false,
            "there is no EventBus `default`",
            command,
        );
    };
    for kind in ["Deployed", "Configured"] {
        match condition_of(bus, kind) {
            Some(("True", _)) => {}
            Some((_, message)) => {
                return condition(
                    "event bus",
                    false,
                    format!("not {kind}: {message}"),
                    command,
                );
            }
            None => return condition("event bus", false, format!("not {kind} yet"), command),
        }
    }
    condition("event bus", true, "Deployed and Configured", command)
}

/// The object that a pod carries in an environment variable, decoded.
fn carried(pod: &Value, variable: &str) -> Option<Value> {
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

fn ready(pod: &Value) -> bool {
    matches!(condition_of(pod, "Ready"), Some(("True", _)))
}

fn pod_name(pod: &Value) -> &str {
    text(pod, "/metadata/name")
}

/// Pods that carry the present spec and are not going away, and all others.
fn split_pods<'a>(
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
        without_zeros(&lint::decoded_spec(spec))
    } else {
        without_zeros(spec)
    })
}

fn without_zeros(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), without_zeros(value)))
            .filter(|(_, value)| !is_zero(value))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_zeros).collect(),
        other => other.clone(),
    }
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

fn event_source(input: &Input) -> GateCondition {
    let command = format!(
        "kubectl -n {} get eventsource,pods -l eventsource-name",
        input.namespace
    );
    let Some(source) = &input.event_source else {
        return condition("event source", false, "there is no EventSource", command);
    };
    if let Some(("False", message)) = condition_of(source, "SourcesProvided") {
        return condition(
            "event source",
            false,
            format!("invalid: {message}"),
            command,
        );
    }
    let (current, older) = split_pods(&input.event_source_pods, source, "EVENTSOURCE_OBJECT");
    match (current.as_slice(), older.as_slice()) {
        ([], []) => condition("event source", false, "no pod yet", command),
        ([], [old, ..]) => condition(
            "event source",
            false,
            format!("pod {} runs an older spec", pod_name(old)),
            command,
        ),
        ([_, ..], [old, ..]) => condition(
            "event source",
            false,
            format!("old pod {} is still there", pod_name(old)),
            command,
        ),
        ([pod, ..], []) if !ready(pod) => condition(
            "event source",
            false,
            format!(
                "pod {} is not Ready: {}",
                pod_name(pod),
                waiting_reason(pod)
            ),
            command,
        ),
        ([pod, ..], []) => condition(
            "event source",
            true,
            format!("pod {} runs the present spec", pod_name(pod)),
            command,
        ),
    }
}

/// Why a pod's container does not run.
fn waiting_reason(pod: &Value) -> String {
    let statuses = pod
        .pointer("/status/containerStatuses")
        .and_then(Value::as_array);
    let waiting = statuses.and_then(|statuses| {
        statuses
            .iter()
            .find_map(|status| status.pointer("/state/waiting"))
    });
    waiting.map_or_else(
        || not_scheduled(pod).unwrap_or_else(|| text(pod, "/status/phase").to_owned()),
        |waiting| {
            format!("{} {}", text(waiting, "/reason"), text(waiting, "/message"))
                .trim()
                .to_owned()
        },
    )
}

/// Why no node takes a pod, in the scheduler's words.
fn not_scheduled(pod: &Value) -> Option<String> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    let refused = conditions
        .iter()
        .find(|one| one["type"] == "PodScheduled" && one["status"] == "False")?;
    let words = format!("{} {}", text(refused, "/reason"), text(refused, "/message"));
    Some(words.trim().to_owned()).filter(|words| !words.is_empty())
}

/// A bus that is not there does not come by waiting: what runs, if anything does, is an older spec.
fn no_event_bus(input: &Input) -> Option<StepError> {
    let text = input.missing_bus.clone()?;
    Some(StepError {
        reason: "no-event-bus".to_owned(),
        text,
        environment: false,
    })
}

/// The port that the Service of an EventSource leads to, where no event of the EventSource listens on it.
fn unheard_port(source: &Value) -> Option<String> {
    let port_text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let ports = source.pointer("/spec/service/ports")?.as_array()?;
    let leads = ports
        .iter()
        .find(|port| port.get("port").and_then(Value::as_u64) == Some(u64::from(WEBHOOK_PORT)))?;
    let target = port_text(leads.get("targetPort").or_else(|| leads.get("port"))?);
    let events = source.pointer("/spec/webhook")?.as_object()?;
    let listens = events
        .values()
        .filter_map(|event| event.get("port"))
        .any(|port| port_text(port) == target);
    let named = !target.bytes().all(|byte| byte.is_ascii_digit());
    (!listens && !named && !events.is_empty()).then_some(target)
}

fn intake(input: &Input) -> (GateCondition, Option<StepError>) {
    let failed = match (&input.intake, &input.event_source) {
        (Err(_), Some(source)) if event_source(input).holds => unheard_port(source),
        _ => None,
    };
    let mut condition = intake_condition(input);
    let error = failed.map(|port| StepError {
        reason: "nobody-listens".to_owned(),
        text: format!(
            "the Service leads to port {port} of the pod, and the EventSource listens on none of that number"
        ),
        environment: false,
    });
    if let Some(error) = &error {
        condition.detail = format!("{}: {}", error.text, condition.detail);
    }
    (condition, error)
}

fn intake_condition(input: &Input) -> GateCondition {
    let command = format!(
        "kubectl -n {} get endpoints orders-eventsource-svc",
        input.namespace
    );
    match &input.intake {
        Ok(()) => condition(
            "intake",
            true,
            "the EventSource answers through its Service",
            command,
        ),
        Err(reason) => condition("intake", false, reason.clone(), command),
    }
}

fn ledger(input: &Input) -> GateCondition {
    let command = format!(
        "kubectl -n {} get deployment,pods,endpoints -l app=order-ledger",
        input.namespace
    );
    match &input.ledger {
        Ok(()) => condition("ledger", true, "the ledger's view answers", command),
        Err(reason) => condition("ledger", false, reason.clone(), command),
    }
}

/// An invalid Sensor fails fast, once its controller has said so of the present spec.
fn sensor_valid(input: &Input) -> (GateCondition, Option<StepError>) {
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

fn sensor_spec(input: &Input) -> GateCondition {
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

fn older_pod(input: &Input) -> GateCondition {
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

/// The one current pod and the instance of its container `main` that runs now.
fn current_instance(input: &Input) -> Option<(&Value, (String, u32))> {
    let sensor = input.sensor.as_ref()?;
    let (current, _) = split_pods(&input.sensor_pods, sensor, "SENSOR_OBJECT");
    let pod = current.first()?;
    let statuses = pod.pointer("/status/containerStatuses")?.as_array()?;
    let main = statuses
        .iter()
        .find(|status| text(status, "/name") == "main")?;
    main.pointer("/state/running")?;
    let instance = u32::try_from(main.get("restartCount")?.as_u64()?).ok()?;
    Some((pod, (text(pod, "/metadata/uid").to_owned(), instance)))
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

fn subscribed(input: &Input) -> (GateCondition, Option<StepError>) {
    let wanted = input.sensor.as_ref().map(subscriptions).unwrap_or_default();
    let Some((pod, instance)) = current_instance(input) else {
        let command = format!("kubectl -n {} logs -l sensor-name=orders", input.namespace);
        return (
            condition(
                "subscribed",
                false,
                "no running container of the present spec",
                command,
            ),
            None,
        );
    };
    let command = format!(
        "kubectl -n {} logs {} | grep 'successfully subscribed'",
        input.namespace,
        pod_name(pod)
    );
    let log = input.logs.get(&instance).cloned().unwrap_or_default();
    if let Some(failure) = log.failure {
        let text = format!("failed to subscribe: {failure}");
        let error = StepError {
            reason: "not-subscribed".to_owned(),
            text: text.clone(),
            environment: false,
        };
        return (condition("subscribed", false, text, command), Some(error));
    }
    if wanted.is_empty() {
        let text = "the Sensor subscribes to nothing: the conditions of its triggers name none of its dependencies";
        let error = StepError {
            reason: "subscribes-to-nothing".to_owned(),
            text: text.to_owned(),
            environment: false,
        };
        return (condition("subscribed", false, text, command), Some(error));
    }
    let missing: Vec<_> = wanted
        .iter()
        .filter(|one| !log.subscribed.contains(one))
        .collect();
    if missing.is_empty() && !wanted.is_empty() {
        return (
            condition(
                "subscribed",
                true,
                format!(
                    "{} of {} lines in the current container",
                    wanted.len(),
                    wanted.len()
                ),
                command,
            ),
            None,
        );
    }
    if log.known_lines == 0 && log.lines >= releases::ENOUGH_LINES {
        return unreadable(log.lines, command);
    }
    let level = log_level(pod);
    if level != "debug" {
        return without_lines(input, level, command);
    }
    let detail = log.stand_by.unwrap_or_else(|| {
        format!(
            "{} of {} lines in the current container",
            wanted.len() - missing.len(),
            wanted.len()
        )
    });
    (condition("subscribed", false, detail, command), None)
}

/// A log of another release proves nothing, and its silence is nobody's fault.
fn unreadable(lines: u64, command: String) -> (GateCondition, Option<StepError>) {
    let text = releases::unknown(lines);
    let error = StepError {
        reason: "unknown-release".to_owned(),
        text: text.clone(),
        environment: true,
    };
    (condition("subscribed", false, text, command), Some(error))
}

/// At any level but debug the success line does not exist: consumer state decides, or the mode wants the line itself.
fn without_lines(
    input: &Input,
    level: &str,
    command: String,
) -> (GateCondition, Option<StepError>) {
    let by_state = consumers(input).holds;
    if input.mode == GateMode::OpenByLine {
        let text = format!(
            "the Sensor logs at {level}: the line that proves the subscription is not written"
        );
        let error = by_state.then(|| StepError {
            reason: "no-subscribed-line".to_owned(),
            text: text.clone(),
            environment: false,
        });
        return (condition("subscribed", false, text, command), error);
    }
    let detail = if by_state {
        format!("decided by consumer state: at level {level} the line is not written")
    } else {
        format!("waiting for the consumers: at level {level} the line is not written")
    };
    (condition("subscribed", by_state, detail, command), None)
}

fn consumers(input: &Input) -> GateCondition {
    let command = "nats consumer report default".to_owned();
    let wanted = input.sensor.as_ref().map(subscriptions).unwrap_or_default();
    if let Some(reason) = &input.by_log_alone {
        return consumers_by_log(input, reason, command);
    }
    let present = match &input.consumers {
        Ok(present) => present,
        Err(reason) => {
            return condition(
                "consumers",
                false,
                format!("could not look: {reason}"),
                command,
            );
        }
    };
    for one in &wanted {
        match present.iter().find(|consumer| {
            consumer.durable == one.durable && consumer.filter_subject == one.subject
        }) {
            None => {
                return condition(
                    "consumers",
                    false,
                    format!("{} on {} is not there yet", one.durable, one.subject),
                    command,
                );
            }
            Some(consumer) if consumer.num_waiting == 0 => {
                return condition(
                    "consumers",
                    false,
                    format!("nobody pulls from {}", one.durable),
                    command,
                );
            }
            Some(_) => {}
        }
    }
    condition(
        "consumers",
        !wanted.is_empty(),
        format!("{} of {} pulled from", wanted.len(), wanted.len()),
        command,
    )
}

/// Without the bus the lines of the current container decide, and nothing else can.
fn consumers_by_log(input: &Input, reason: &str, command: String) -> GateCondition {
    let wanted = input.sensor.as_ref().map(subscriptions).unwrap_or_default();
    let log = current_instance(input)
        .and_then(|(_, instance)| input.logs.get(&instance).cloned())
        .unwrap_or_default();
    let shown = wanted.iter().filter(|one| log.subscribed.contains(one));
    let (shown, of) = (shown.count(), wanted.len());
    condition(
        "consumers",
        shown == of && of > 0,
        format!("by log alone, {shown} of {of} lines: {reason}"),
        command,
    )
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
