//! The gate: what must be true before an event can be judged. Pure; [`super::looking`] gathers the input.
//!
//! It never sleeps and never guesses: each condition names what it saw, or what it still waits for.

mod decoding;
mod intake;
mod pods;
mod sensor;
mod starting;
mod subscribed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

pub(super) use self::pods::log_level;
pub(super) use self::starting::NO_START_REASONS;
use super::expected::Subscription;
use crate::embedded::bus::ConsumerInfo;
use crate::lab::GateMode;
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
    /// Why nothing goes on until somebody helps, where the cluster's host can tell.
    pub trouble: Option<String>,
    pub namespace: String,
    pub event_bus: Option<Value>,
    pub event_source: Option<Value>,
    pub event_source_pods: Vec<Value>,
    /// What is wrong with the EventSource's spec, as its controller would say; `None` when nothing is.
    pub invalid_source: Option<String>,
    /// Whether the EventSource answers through its Service.
    pub intake: Result<(), String>,
    /// Whether the ledger's view answers, without which no effect can be seen.
    pub ledger: Result<(), String>,
    pub sensor: Option<Value>,
    pub sensor_pods: Vec<Value>,
    /// The ledger's pods, looked at while its view does not answer.
    pub ledger_pods: Vec<Value>,
    /// The Deployments of the namespace.
    pub deployments: Vec<Value>,
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
    let mut judged: Vec<Judged> = trouble(input).into_iter().collect();
    judged.extend([
        intake::event_bus(input),
        intake::event_source(input),
        intake::reached(input),
        intake::ledger(input),
    ]);
    if input.mode == GateMode::Deployed {
        judged.push(sensor::valid(input));
        judged.push(sensor::deployed(input));
    }
    if matches!(
        input.mode,
        GateMode::Ready | GateMode::Open | GateMode::OpenByLine
    ) {
        judged.push(sensor::valid(input));
        judged.push(sensor::spec(input));
        judged.push(sensor::older_pod(input));
    }
    if matches!(input.mode, GateMode::Open | GateMode::OpenByLine) {
        judged.push(subscribed::by_lines(input));
        judged.push(subscribed::consumers(input));
    }
    let (conditions, failures): (Vec<_>, Vec<_>) = judged.into_iter().unzip();
    let failed = failures
        .into_iter()
        .flatten()
        .next()
        .or_else(|| starting::crash_loop(input));
    let open = input.mode == GateMode::None
        || (failed.is_none() && conditions.iter().all(|condition| condition.holds));
    GateReport {
        open,
        conditions,
        failed: failed.filter(|_| input.mode != GateMode::None),
    }
}

/// What the host of the cluster is in need of; `None` where it is not known to be.
fn trouble(input: &Input) -> Option<Judged> {
    let text = input.trouble.clone()?;
    let command = "df -h".to_owned();
    let failed = StepError {
        reason: "environment".to_owned(),
        text: text.clone(),
        environment: true,
    };
    Some((condition("disk", false, text, command), Some(failed)))
}

/// What will not change by itself, as far as can be seen: it ends the wait once it has stayed for a while.
#[must_use]
pub fn stuck(input: &Input) -> Option<StepError> {
    let doubtful = || intake::doubtful_source(input).or_else(|| sensor::doubtful(input));
    starting::no_start(input)
        .or_else(|| intake::lost_ledger(input))
        .or_else(doubtful)
        .filter(|_| input.mode != GateMode::None)
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

/// Whether a request would be taken in now, and its effect seen, whatever becomes of it at the Sensor.
#[must_use]
pub fn takes_requests(report: &GateReport) -> bool {
    let before = ["event bus", "event source", "intake", "ledger"];
    before.iter().all(|name| {
        let mut conditions = report.conditions.iter();
        conditions.any(|one| one.name == *name && one.holds)
    })
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

/// A condition, and the failure that no waiting mends.
type Judged = (GateCondition, Option<StepError>);

/// A failure of what was applied.
fn refuted(reason: &str, text: impl Into<String>) -> StepError {
    StepError {
        reason: reason.to_owned(),
        text: text.into(),
        environment: false,
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
