//! Whether the controller can decode a Sensor at all: the types of the fields that it knows.

use serde_json::json;

use super::super::decode::{DecodeError, Node};
use super::super::spec::FilterSpec;

/// Checks the types in a whole Sensor object.
pub(super) fn check(sensor: &Node<'_>) -> Result<(), DecodeError> {
    let Some(spec) = sensor.object("spec")? else {
        return Ok(());
    };
    spec.text("eventBusName")?;
    spec.integer("replicas")?;
    spec.integer("revisionHistoryLimit")?;
    spec.flag("errorOnFailedRound")?;
    spec.text_map("loggingFields")?;
    spec.object("template")?;
    objects(&spec, "dependencies", dependency)?;
    objects(&spec, "triggers", trigger)
}

/// Checks every entry of a list of objects; a null entry is an empty object.
fn objects(
    owner: &Node<'_>,
    name: &str,
    check: impl Fn(&Node<'_>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let empty = json!({});
    for item in owner.list(name)?.unwrap_or_default() {
        if item.value().is_null() {
            check(&Node::new(&empty, item.path()))?;
        } else if item.value().is_object() {
            check(&item)?;
        } else {
            return Err(item.wrong("an object"));
        }
    }
    Ok(())
}

fn texts(node: &Node<'_>, names: &[&str]) -> Result<(), DecodeError> {
    names.iter().try_for_each(|name| node.text(name).map(drop))
}

fn dependency(node: &Node<'_>) -> Result<(), DecodeError> {
    texts(
        node,
        &[
            "name",
            "eventSourceName",
            "eventName",
            "filtersLogicalOperator",
        ],
    )?;
    if let Some(filters) = node.object("filters")? {
        FilterSpec::decode(&filters)?;
    }
    node.object("transform")?
        .map_or(Ok(()), |transform| texts(&transform, &["jq", "script"]))
}

fn trigger(node: &Node<'_>) -> Result<(), DecodeError> {
    if let Some(template) = node.object("template")? {
        trigger_template(&template)?;
    }
    objects(node, "parameters", parameter)?;
    node.flag("atLeastOnce")?;
    if let Some(policy) = node.object("policy")? {
        trigger_policy(&policy)?;
    }
    if let Some(retry) = node.object("retryStrategy")? {
        backoff(&retry)?;
    }
    if let Some(limit) = node.object("rateLimit")? {
        limit.text("unit")?;
        limit.integer("requestsPerUnit")?;
    }
    node.object("dlqTrigger")?
        .map_or(Ok(()), |dead_letter| trigger(&dead_letter))
}

/// Kinds of triggers with their text fields; every kind may have `parameters` and `payload`.
const KINDS: [(&str, &[&str]); 14] = [
    ("k8s", &["operation", "patchStrategy"]),
    ("argoWorkflow", &["operation"]),
    ("http", &["url", "method", "host"]),
    (
        "awsLambda",
        &["functionName", "region", "roleARN", "invocationType"],
    ),
    ("custom", &["serverURL", "serverNameOverride"]),
    ("kafka", &["url", "topic", "partitioningKey", "version"]),
    ("nats", &["url", "subject"]),
    ("slack", &["channel", "message", "attachments", "blocks"]),
    ("openWhisk", &["host", "version", "namespace", "actionName"]),
    ("log", &[]),
    ("azureEventHubs", &["fqdn", "hubName"]),
    (
        "azureServiceBus",
        &["queueName", "topicName", "subscriptionName"],
    ),
    ("pulsar", &["url", "topic"]),
    ("email", &["username", "host", "from", "subject", "body"]),
];

fn trigger_template(node: &Node<'_>) -> Result<(), DecodeError> {
    texts(node, &["name", "conditions"])?;
    objects(node, "conditionsReset", |reset| {
        reset
            .object("byTime")?
            .map_or(Ok(()), |by_time| texts(&by_time, &["cron", "timezone"]))
    })?;
    for (kind, fields) in KINDS {
        let Some(trigger) = node.object(kind)? else {
            continue;
        };
        texts(&trigger, fields)?;
        objects(&trigger, "parameters", parameter)?;
        objects(&trigger, "payload", parameter)?;
        if let Some(source) = trigger.object("source")? {
            source.text("inline")?;
        }
        ["liveObject", "secure", "compress"]
            .iter()
            .try_for_each(|name| trigger.flag(name).map(drop))?;
        ["port", "timeout", "intervalSeconds"]
            .iter()
            .try_for_each(|name| trigger.integer(name).map(drop))?;
    }
    Ok(())
}

fn parameter(node: &Node<'_>) -> Result<(), DecodeError> {
    texts(node, &["dest", "operation"])?;
    let Some(source) = node.object("src")? else {
        return Ok(());
    };
    texts(
        &source,
        &[
            "dependencyName",
            "contextKey",
            "contextTemplate",
            "dataKey",
            "dataTemplate",
            "value",
        ],
    )?;
    source.flag("useRawData").map(drop)
}

fn trigger_policy(node: &Node<'_>) -> Result<(), DecodeError> {
    if let Some(k8s) = node.object("k8s")? {
        k8s.text_map("labels")?;
        k8s.flag("errorOnBackoffTimeout")?;
        if let Some(wait) = k8s.object("backoff")? {
            backoff(&wait)?;
        }
    }
    let Some(status) = node.object("status")? else {
        return Ok(());
    };
    let codes = status.list("allow")?.unwrap_or_default();
    codes
        .iter()
        .find(|code| !code.value().is_i64())
        .map_or(Ok(()), |code| Err(code.wrong("an integer")))
}

/// `duration` is a text or nanoseconds, `factor` and `jitter` are numbers or texts.
fn backoff(node: &Node<'_>) -> Result<(), DecodeError> {
    for name in ["duration", "factor", "jitter"] {
        let wrong = node
            .field(name)?
            .filter(|field| !field.value().is_string() && !field.value().is_number());
        if let Some(field) = wrong {
            return Err(field.wrong("a string or a number"));
        }
    }
    node.integer("steps").map(drop)
}
