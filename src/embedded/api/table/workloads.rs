//! Rows of Deployments, ReplicaSets, StatefulSets and Jobs.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Column, NAME, age, duration, labels, list, number, string, text, wide};

const fn integer(name: &'static str) -> Column {
    Column {
        kind: "integer",
        ..text(name)
    }
}

const CONTAINERS: Column = wide("Containers");
const IMAGES: Column = wide("Images");
const SELECTOR: Column = wide("Selector");

pub(super) const DEPLOYMENT: &[Column] = &[
    NAME,
    text("Ready"),
    text("Up-to-date"),
    text("Available"),
    text("Age"),
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(super) const REPLICA_SET: &[Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    text("Age"),
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(super) const STATEFUL_SET: &[Column] = &[NAME, text("Ready"), text("Age"), CONTAINERS, IMAGES];
pub(super) const JOB: &[Column] = &[
    NAME,
    text("Status"),
    text("Completions"),
    text("Duration"),
    text("Age"),
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn containers(object: &Value, field: &str) -> Value {
    let parts: Vec<&str> = list(object, "/spec/template/spec/containers")
        .map(|one| string(one, field))
        .collect();
    json!(parts.join(","))
}

fn selector(object: &Value) -> Value {
    json!(labels(object.pointer("/spec/selector/matchLabels")))
}

fn name(object: &Value) -> Value {
    json!(string(object, "/metadata/name"))
}

fn ready(object: &Value) -> Value {
    json!(format!(
        "{}/{}",
        number(object, "/status/readyReplicas"),
        number(object, "/spec/replicas")
    ))
}

pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        ready(object),
        json!(number(object, "/status/updatedReplicas")),
        json!(number(object, "/status/availableReplicas")),
        age(object, now),
        containers(object, "/name"),
        containers(object, "/image"),
        selector(object),
    ]
}

pub(super) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(number(object, "/spec/replicas")),
        json!(number(object, "/status/replicas")),
        json!(number(object, "/status/readyReplicas")),
        age(object, now),
        containers(object, "/name"),
        containers(object, "/image"),
        selector(object),
    ]
}

pub(super) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        ready(object),
        age(object, now),
        containers(object, "/name"),
        containers(object, "/image"),
    ]
}

pub(super) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let completions = number(object, "/spec/completions");
    let (start, end) = (
        string(object, "/status/startTime"),
        string(object, "/status/completionTime"),
    );
    let taken = match (start.parse::<Timestamp>(), end.parse::<Timestamp>()) {
        (Ok(start), Ok(end)) => duration::human(end.as_second() - start.as_second()),
        (Ok(_), Err(_)) => duration::since(start, now),
        _ => String::new(),
    };
    vec![
        name(object),
        json!(job_status(object)),
        json!(format!(
            "{}/{completions}",
            number(object, "/status/succeeded")
        )),
        json!(taken),
        age(object, now),
        containers(object, "/name"),
        containers(object, "/image"),
        selector(object),
    ]
}

fn job_status(object: &Value) -> &'static str {
    let is = |kind: &str| {
        list(object, "/status/conditions")
            .any(|one| string(one, "/type") == kind && string(one, "/status") == "True")
    };
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if !string(object, "/metadata/deletionTimestamp").is_empty() => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}
