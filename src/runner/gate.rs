//! The gate: what must be true before an event can be judged. Pure; [`super::looking`] gathers the input.
//!
//! It never sleeps and never guesses: each condition names what it saw, or what it still waits for.

mod pods;
mod sensor;
mod subscribed;
mod way;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use self::sensor::{older_pod, sensor_spec, sensor_valid};
use self::subscribed::{consumers, subscribed};
use self::way::{event_bus, event_source, intake, ledger};
use super::expected::Subscription;
use crate::embedded::bus::ConsumerInfo;
use crate::lab::GateMode;
use crate::session::message::{GateCondition, GateReport};

/// What the log of one container instance has said about its subscriptions so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceLog {
    /// Subscriptions shown since the last failure or connection loss.
    pub subscribed: Vec<Subscription>,
    pub failure: Option<String>,
    /// The election's last word, while it has not won.
    pub stand_by: Option<String>,
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
    let mut conditions = vec![
        event_bus(input),
        event_source(input),
        intake(input),
        ledger(input),
    ];
    let mut failed = None;
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

#[cfg(test)]
mod tests;
