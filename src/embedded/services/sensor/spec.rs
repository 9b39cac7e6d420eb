//! The Sensor object as this service needs it, and what it cannot do with it.
//!
//! Whatever is not supported is named and its trigger is left alone: a wrong verdict would teach something wrong.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::super::backoff::Backoff;
use super::super::environment::StartError;
use crate::sensor::Filter;
use crate::sensor::cron::Schedule;
use crate::sensor::go_duration;
use crate::sensor::number::parse_float;
use crate::sensor::parameters::{ParameterError, Parameters};
use crate::sensor::rate::Rate;
use crate::sensor::time;
use crate::sensor::transform::Transform;
use crate::sensor::trigger;
use crate::sensor::validate::{self, Condition, Invalid};

/// Fields of a dependency that its hash covers.
const HASHED: [&str; 6] = [
    "name",
    "eventSourceName",
    "eventName",
    "filters",
    "transform",
    "filtersLogicalOperator",
];

/// A Sensor.
#[derive(Debug)]
pub(super) struct Sensor {
    pub name: String,
    pub namespace: String,
    pub dependencies: Vec<Arc<Dependency>>,
    pub triggers: Vec<Arc<Trigger>>,
}

/// One dependency.
#[derive(Debug)]
pub(super) struct Dependency {
    pub name: String,
    pub source: String,
    pub event: String,
    /// What makes its data anew, and its filter; or why an event cannot be judged here.
    pub judge: Result<Judge, String>,
    /// Changes when the definition does.
    pub hash: u64,
}

impl Dependency {
    /// The bus subject of its events.
    pub(super) fn subject(&self) -> String {
        format!("default.{}.{}", self.source, self.event)
    }
}

/// What a dependency does with an event.
#[derive(Debug)]
pub(super) struct Judge {
    pub transform: Option<Transform>,
    pub filter: Filter,
}

/// When half-met conditions are forgotten.
#[derive(Clone, Debug)]
pub(super) struct Reset {
    pub schedule: Schedule,
    pub zone: TimeZone,
}

/// `policy.k8s`: the labels that the created object must come to have.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub labels: Vec<(String, String)>,
    /// How often to look, or why that cannot be read.
    pub backoff: Result<Backoff, String>,
    /// Never having them is a failure.
    pub fails_on_timeout: bool,
}

/// One trigger.
#[derive(Debug)]
pub(super) struct Trigger {
    pub name: String,
    pub conditions: String,
    pub at_least_once: bool,
    /// `retryStrategy`, or why it cannot be read.
    pub retry: Option<Result<Backoff, String>>,
    /// Time of one request under `rateLimit`.
    pub rate: Option<Duration>,
    pub dlq: Option<Arc<Trigger>>,
    /// `conditionsReset`.
    pub resets: Vec<Reset>,
    pub policy: Option<Policy>,
    /// The entry of `spec.triggers`.
    pub value: Value,
    /// Why this trigger cannot be carried out here.
    pub refused: Option<String>,
}

impl Sensor {
    pub(super) fn parse(object: &Value) -> Result<Sensor, StartError> {
        if let Err(Invalid::Decode(error)) =
            validate::validate(object, &Value::Null, jiff::Timestamp::now())
        {
            return Err(StartError(format!(
                "failed to unmarshal sensor object: {error}"
            )));
        }
        let spec = object.get("spec");
        let name = text(object.get("metadata"), "name");
        if name.is_empty() {
            return Err(StartError(
                "failed to unmarshal sensor object: it has no name".to_owned(),
            ));
        }
        Ok(Sensor {
            name,
            namespace: text(object.get("metadata"), "namespace"),
            dependencies: list(spec, "dependencies")
                .map(|value| Arc::new(Dependency::parse(value)))
                .collect(),
            triggers: list(spec, "triggers")
                .map(|value| Arc::new(Trigger::parse(value)))
                .collect(),
        })
    }

    pub(super) fn dependency(&self, name: &str) -> Option<&Arc<Dependency>> {
        // Of several with one name the last counts, as in upstream's map.
        self.dependencies
            .iter()
            .rev()
            .find(|dependency| dependency.name == name)
    }
}

/// What of a Sensor this program cannot carry out; `None` when it can carry out all of it.
pub(super) fn unsupported(object: &Value) -> Option<(Condition, String)> {
    let sensor = Sensor::parse(object).ok()?;
    let said = |text: &str| {
        let text = text.strip_prefix("eventlab: ").unwrap_or(text);
        format!("eventlab: {text}")
    };
    let dependency = sensor.dependencies.iter().find_map(|dependency| {
        let reason = dependency.judge.as_ref().err()?;
        let text = format!("dependency {}: {reason}", dependency.name);
        Some((Condition::DependenciesProvided, said(&text)))
    });
    let trigger = || {
        sensor.triggers.iter().find_map(|trigger| {
            let reason = trigger.refused.as_ref()?;
            let text = format!("trigger {}: {reason}", trigger.name);
            Some((Condition::TriggersProvided, said(&text)))
        })
    };
    dependency.or_else(trigger)
}

impl Dependency {
    fn parse(value: &Value) -> Dependency {
        let operator = text(Some(value), "filtersLogicalOperator");
        let judge = Transform::compile(value.get("transform"))
            .map_err(|error| error.to_string())
            .and_then(|transform| {
                let filter = Filter::of_manifest(value.get("filters"), &operator);
                let filter = filter.map_err(|error| error.to_string())?;
                Ok(Judge { transform, filter })
            });
        Dependency {
            name: text(Some(value), "name"),
            source: text(Some(value), "eventSourceName"),
            event: text(Some(value), "eventName"),
            judge,
            hash: hash(value),
        }
    }
}

impl Trigger {
    fn parse(value: &Value) -> Trigger {
        let template = value.get("template");
        let (rate, rate_refused) = rate(value);
        let at_least_once = value.get("atLeastOnce").and_then(Value::as_bool);
        let dlq = set(value, "dlqTrigger").map(|dlq| Arc::new(Trigger::parse(dlq)));
        let dlq_refused = dlq.as_ref().and_then(|dlq| {
            let reason = dlq.refused.as_ref()?;
            Some(format!("dlqTrigger: {reason}"))
        });
        Trigger {
            name: text(template, "name"),
            conditions: text(template, "conditions"),
            at_least_once: at_least_once.unwrap_or(false),
            retry: set(value, "retryStrategy").map(backoff),
            rate,
            dlq,
            resets: list(template, "conditionsReset")
                .filter_map(reset)
                .collect(),
            policy: value.pointer("/policy/k8s").and_then(policy),
            refused: refuse(value, template).or(rate_refused).or(dlq_refused),
            value: value.clone(),
        }
    }
}

/// Why a trigger cannot be carried out.
fn refuse(trigger: &Value, template: Option<&Value>) -> Option<String> {
    let Some(template) = template.filter(|template| !template.is_null()) else {
        return Some("it has no template".to_owned());
    };
    trigger::outside(template).or_else(|| {
        match Parameters::decode(trigger.get("parameters").unwrap_or(&Value::Null)) {
            Err(error @ ParameterError::Unsupported(_)) => Some(error.to_string()),
            _ => None,
        }
    })
}

/// One entry of `conditionsReset`; upstream passes over what it cannot read.
fn reset(value: &Value) -> Option<Reset> {
    let by_time = set(value, "byTime")?;
    Some(Reset {
        schedule: Schedule::parse(&text(Some(by_time), "cron"))?,
        zone: time::zone(&text(Some(by_time), "timezone"))?,
    })
}

fn policy(value: &Value) -> Option<Policy> {
    // The controller hands on no empty labels.
    let labels = set(value, "labels")?.as_object();
    let labels = labels.filter(|labels| !labels.is_empty())?;
    Some(Policy {
        labels: labels
            .iter()
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect(),
        backoff: set(value, "backoff").map_or(Ok(Backoff::DEFAULT), backoff),
        fails_on_timeout: value.get("errorOnBackoffTimeout") == Some(&Value::Bool(true)),
    })
}

fn backoff(value: &Value) -> Result<Backoff, String> {
    let invalid = |what: &str| format!("invalid backoff configuration, {what}");
    let steps = value.get("steps").and_then(Value::as_u64).unwrap_or(0);
    let duration = match value.get("duration").filter(|value| present(value)) {
        None => Backoff::DEFAULT.duration,
        // Upstream does not wait for a time below zero.
        Some(Value::String(text)) => {
            let nanoseconds = go_duration::nanoseconds(text).map_err(|why| invalid(&why))?;
            Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
        }
        Some(number) => Duration::from_nanos(number.as_u64().unwrap_or(0)),
    };
    let amount = |name: &str, default: f64| match value.get(name).filter(|value| present(value)) {
        None => Ok(default),
        Some(Value::String(text)) => {
            parse_float(text.as_bytes()).map_err(|why| invalid(&format!("invalid {name}, {why}")))
        }
        Some(number) => Ok(number.as_f64().unwrap_or(default)),
    };
    Ok(Backoff {
        steps: match u32::try_from(steps) {
            Ok(0) => Backoff::DEFAULT.steps,
            Ok(steps) => steps,
            Err(_) => u32::MAX,
        },
        duration,
        factor: amount("factor", Backoff::DEFAULT.factor)?,
        jitter: amount("jitter", Backoff::DEFAULT.jitter)?,
    })
}

fn rate(trigger: &Value) -> (Option<Duration>, Option<String>) {
    match Rate::of(trigger) {
        Rate::Free => (None, None),
        Rate::Every(time) => (Some(time), None),
        Rate::Zero | Rate::Negative(_) | Rate::Undecodable => (
            None,
            Some("rateLimit needs requestsPerUnit of at least 1".to_owned()),
        ),
    }
}

fn text(owner: Option<&Value>, field: &str) -> String {
    owner
        .and_then(|owner| owner.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn list<'v>(owner: Option<&'v Value>, field: &str) -> impl Iterator<Item = &'v Value> {
    owner
        .and_then(|owner| owner.get(field))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|value| present(value))
}

fn set<'v>(owner: &'v Value, field: &str) -> Option<&'v Value> {
    owner.get(field).filter(|value| present(value))
}

fn present(value: &Value) -> bool {
    !value.is_null()
}

/// A hash of the definition: absent and empty fields count alike, the order of keys does not.
fn hash(dependency: &Value) -> u64 {
    let fields = HASHED
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), dependency.get(name)?.clone())));
    let canonical = canonical(&Value::Object(fields.collect())).to_string();
    // FNV-1a, 64 bits.
    canonical
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields
                .iter()
                .filter(|(_, value)| !is_empty(value))
                .map(|(key, value)| (key.clone(), canonical(value)))
                .collect();
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(fields.into_iter().collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn trigger(extra: &Value) -> Trigger {
        let mut trigger = json!({"template": {"name": "t", "k8s": {"source": {"resource": {"kind": "Workflow"}}}}});
        for (key, value) in extra.as_object().unwrap() {
            trigger[key] = value.clone();
        }
        Trigger::parse(&trigger)
    }

    #[test]
    fn a_backoff_is_read_as_go_reads_it() {
        let read = |value: Value| backoff(&value);
        let duration = |value: Value| read(json!({"duration": value})).map(|one| one.duration);
        for (value, milliseconds) in [
            (json!("1.5s"), 1500),
            (json!("1h1m"), 3_660_000),
            (json!("-1s"), 0),
            (json!(5_000_000), 5),
            (json!(-5), 0),
            (json!(null), 1000),
        ] {
            assert_eq!(
                duration(value.clone()),
                Ok(Duration::from_millis(milliseconds)),
                "{value}"
            );
        }
        for (value, why) in [
            (
                json!({"duration": "5"}),
                "time: missing unit in duration \"5\"",
            ),
            (
                json!({"duration": "1d"}),
                "time: unknown unit \"d\" in duration \"1d\"",
            ),
            (
                json!({"duration": "\u{e9}"}),
                "time: invalid duration \"\\xc3\\xa9\"",
            ),
            (
                json!({"factor": "x"}),
                "invalid factor, strconv.ParseFloat: parsing \"x\": invalid syntax",
            ),
            (
                json!({"jitter": ""}),
                "invalid jitter, strconv.ParseFloat: parsing \"\": invalid syntax",
            ),
        ] {
            assert_eq!(
                read(value),
                Err(format!("invalid backoff configuration, {why}"))
            );
        }
    }

    #[test]
    fn a_hash_follows_the_definition_and_nothing_else() {
        let hash = |value: Value| Dependency::parse(&value).hash;
        let base = hash(
            json!({"name": "a", "eventSourceName": "s", "eventName": "e", "filters": {"data": [{"path": "x"}]}}),
        );
        let same = json!({"eventName": "e", "name": "a", "filters": {"exprs": [], "data": [{"type": "", "path": "x"}]},
            "eventSourceName": "s", "transform": null, "comment": "ignored"});
        assert_eq!(base, hash(same));
        assert_ne!(
            base,
            hash(
                json!({"name": "a", "eventSourceName": "s", "eventName": "e", "filters": {"data": [{"path": "y"}]}})
            )
        );
        assert_ne!(
            base,
            hash(json!({"name": "a", "eventSourceName": "s", "eventName": "e"}))
        );
    }

    #[test]
    fn a_retry_strategy_has_upstreams_defaults() {
        assert_eq!(trigger(&json!({})).retry, None);
        assert_eq!(
            trigger(&json!({"retryStrategy": {}})).retry,
            Some(Ok(Backoff::DEFAULT))
        );
        let given =
            json!({"retryStrategy": {"steps": 3, "duration": "2s", "factor": "1.5", "jitter": 0}});
        let wanted = Backoff {
            steps: 3,
            duration: Duration::from_secs(2),
            factor: 1.5,
            jitter: 0.0,
        };
        assert_eq!(trigger(&given).retry, Some(Ok(wanted)));
        let bad = trigger(&json!({"retryStrategy": {"duration": "soon"}})).retry;
        assert!(bad.unwrap().is_err());
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let template = |template: Value| trigger(&json!({"template": template})).refused.unwrap();
        assert!(template(json!({"name": "t", "kafka": {"url": "a"}})).contains("kafka"));
        assert!(
            template(json!({"name": "t", "k8s": {"source": {"git": {}}}})).contains("source.git")
        );
        assert!(trigger(&json!({"template": null})).refused.is_some());
        assert_eq!(trigger(&json!({})).refused, None);
    }

    #[test]
    fn resets_and_policies_are_read() {
        let entries = json!([{"byTime": {"cron": "0 6 * * *", "timezone": "Europe/Berlin"}}, {"byTime": {"cron": "@daily"}}, {}]);
        let template = json!({"template": {"name": "t", "k8s": {"source": {"resource": {"kind": "Workflow"}}}, "conditionsReset": entries}});
        let read = trigger(&template);
        assert_eq!((read.resets.len(), read.refused), (1, None));
        let policy = json!({"policy": {"k8s": {"labels": {"a": "b"}, "backoff": {"steps": 3}, "errorOnBackoffTimeout": true}}});
        let policy = trigger(&policy).policy.unwrap();
        assert_eq!(policy.labels, [("a".to_owned(), "b".to_owned())]);
        assert_eq!(
            (policy.backoff.unwrap().steps, policy.fails_on_timeout),
            (3, true)
        );
        for none in [json!({}), json!({"labels": {}}), json!({"labels": null})] {
            let none = trigger(&json!({"policy": {"k8s": none}}));
            assert!(none.policy.is_none());
        }
    }

    #[test]
    fn a_rate_is_the_time_of_one_request() {
        let rate = |value: Value| trigger(&json!({"rateLimit": value})).rate;
        assert_eq!(
            rate(json!({"requestsPerUnit": 4})),
            Some(Duration::from_millis(250))
        );
        assert_eq!(
            rate(json!({"unit": "Minute", "requestsPerUnit": 6})),
            Some(Duration::from_secs(10))
        );
    }
}
