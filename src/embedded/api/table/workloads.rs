//! Printers of what makes pods: Deployments, ReplicaSets, StatefulSets, Jobs.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::{human, seconds_between};
use super::{
    AGE, Column, NAME, Printer, age, has_condition, integer, list, name, text, text_column,
    wide_column,
};

const CONTAINERS: Column = wide_column("Containers");
const IMAGES: Column = wide_column("Images");
const SELECTOR: Column = wide_column("Selector");

const fn integer_column(name: &'static str) -> Column {
    (name, "integer", "", 0)
}

pub(super) const DEPLOYMENTS: Printer = Printer {
    columns: &[
        NAME,
        text_column("Ready"),
        text_column("Up-to-date"),
        text_column("Available"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let status = |field: &str| integer(object, &format!("/status/{field}"));
        let mut cells = vec![
            json!(name(object)),
            json!(format!(
                "{}/{}",
                status("readyReplicas"),
                integer(object, "/spec/replicas")
            )),
            json!(status("updatedReplicas")),
            json!(status("availableReplicas")),
            json!(age(object, now)),
        ];
        cells.extend(template(object));
        cells.push(json!(selector(object)));
        cells
    },
};

pub(super) const REPLICA_SETS: Printer = Printer {
    columns: &[
        NAME,
        integer_column("Desired"),
        integer_column("Current"),
        integer_column("Ready"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let mut cells = vec![
            json!(name(object)),
            json!(integer(object, "/spec/replicas")),
            json!(integer(object, "/status/replicas")),
            json!(integer(object, "/status/readyReplicas")),
            json!(age(object, now)),
        ];
        cells.extend(template(object));
        cells.push(json!(selector(object)));
        cells
    },
};

pub(super) const STATEFUL_SETS: Printer = Printer {
    columns: &[NAME, text_column("Ready"), AGE, CONTAINERS, IMAGES],
    cells: |object, now| {
        let ready = integer(object, "/status/readyReplicas");
        let mut cells = vec![
            json!(name(object)),
            json!(format!("{ready}/{}", integer(object, "/spec/replicas"))),
            json!(age(object, now)),
        ];
        cells.extend(template(object));
        cells
    },
};

pub(super) const JOBS: Printer = Printer {
    columns: &[
        NAME,
        text_column("Status"),
        text_column("Completions"),
        text_column("Duration"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let mut cells = vec![
            json!(name(object)),
            json!(job_status(object)),
            json!(completions(object)),
            json!(job_duration(object, now)),
            json!(age(object, now)),
        ];
        cells.extend(template(object));
        cells.push(json!(selector(object)));
        cells
    },
};

fn job_status(job: &Value) -> &'static str {
    let found =
        |kinds: &[&'static str]| kinds.iter().find(|kind| has_condition(job, kind)).copied();
    let deleted = (!text(job, "/metadata/deletionTimestamp").is_empty()).then_some("Terminating");
    found(&["Complete", "Failed"])
        .or(deleted)
        .or_else(|| found(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]))
        .unwrap_or("Running")
}

fn completions(job: &Value) -> String {
    let succeeded = integer(job, "/status/succeeded");
    match (
        job.pointer("/spec/completions").and_then(Value::as_i64),
        integer(job, "/spec/parallelism"),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let time = |pointer: &str| text(job, pointer).parse::<Timestamp>().ok();
    let end = time("/status/completionTime").unwrap_or(now);
    time("/status/startTime")
        .map(|start| human(seconds_between(start, end)))
        .unwrap_or_default()
}

/// The cells `Containers` and `Images`.
fn template(object: &Value) -> [Value; 2] {
    let containers = list(object, "/spec/template/spec/containers");
    ["/name", "/image"].map(|field| {
        let values: Vec<&str> = containers
            .iter()
            .map(|container| text(container, field))
            .collect();
        json!(values.join(","))
    })
}

/// `spec.selector` as labels are selected on the command line, sorted by key.
fn selector(object: &Value) -> String {
    let selector = &object["spec"]["selector"];
    let mut parts: Vec<(&str, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push((key, format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for expression in list(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let mut values: Vec<&str> = list(expression, "/values")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        let part = match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key, part));
    }
    if parts.is_empty() {
        return "<none>".to_owned();
    }
    parts.sort();
    parts
        .into_iter()
        .map(|(_, part)| part)
        .collect::<Vec<_>>()
        .join(",")
}
