//! The way of one event through a Sensor, from the HTTP request to the object that would be created, and why it stops.
//!
//! From above: [`Sensor::read`], [`Request`], [`walk::walk`] and [`text::render`]. Nothing is sent and nothing is read.

mod hints;
pub mod intake;
mod live;
mod near;
pub mod text;
pub mod walk;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::sensor::Explanation;

pub use intake::Request;
pub use live::Live;

/// Where an event stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The EventSource refuses the request.
    Intake,
    /// The EventSource's own filter keeps it off the bus; the client is told 200.
    Bus,
    /// Every dependency's transform fails, so that no filter sees it.
    Transform,
    /// No dependency's filter lets it pass.
    Filter,
    /// It is kept until the trigger's other dependencies have seen theirs, or no trigger asks for it.
    Conditions,
    /// The object cannot be built.
    Submit,
}

/// The way of one event through one Sensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Walk {
    /// `Sensor/NAME`.
    pub sensor: String,
    /// File of the manifest.
    pub file: String,
    /// `EVENTSOURCE/EVENT`.
    pub event: String,
    /// Whether nothing rejects it: a trigger acts, or keeps it until others arrive.
    pub passed: bool,
    /// Where it stops.
    pub stopped_at: Option<Stop>,
    /// The request's answer; none if event data were given.
    pub intake: Option<IntakeStep>,
    /// The event data that the filters see.
    pub data: Option<String>,
    /// The dependencies that listen to the event, in listed order.
    pub dependencies: Vec<DependencyStep>,
    /// The triggers that name one of them.
    pub triggers: Vec<TriggerStep>,
    /// What Argo would log, in order.
    pub logs: Vec<LogLine>,
    /// What to change so that the event passes.
    pub change: Vec<String>,
    /// What passed for another reason than it seems.
    pub notes: Vec<String>,
    /// Of a Sensor that runs: its pod, and how what it carries differs from the Sensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Live>,
}

/// What the EventSource answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IntakeStep {
    /// HTTP status.
    pub status: u16,
    /// Body of the answer.
    pub response: String,
}

/// One dependency's filter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DependencyStep {
    /// Name of the dependency.
    pub name: String,
    /// What its transform makes of the data; none if it has no transform.
    pub transform: Option<TransformStep>,
    /// The decision with everything it rests on; none if the transform fails.
    pub filter: Option<Explanation>,
}

/// What a transform makes of an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransformStep {
    /// The event data that the filters see.
    Data(String),
    /// Why there is none.
    Error(String),
}

/// What a trigger does with the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// It submits the object.
    Submits,
    /// It keeps the event until other dependencies have seen theirs.
    Waits,
    /// No event came so far.
    NotReached,
    /// It fails.
    Fails,
    /// It acts, and eventlab cannot show with what.
    NotShown,
}

/// One trigger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TriggerStep {
    /// Name of the trigger.
    pub name: String,
    /// Its condition as Argo reads it.
    pub conditions: String,
    /// What it does.
    pub act: Act,
    /// The dependencies whose event made it act.
    pub triggered_by: Vec<String>,
    /// The dependencies that it waits for.
    pub waits_for: Vec<String>,
    /// Why it fails, or why the object is not shown.
    pub error: Option<String>,
    /// `create`, `update`, `patch`, `delete`, `submit` or `log`.
    pub operation: Option<String>,
    /// The object that is submitted.
    pub object: Option<Value>,
}

/// A line of Argo's log: its parts that do not depend on the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogLine {
    /// `debug`, `info`, `warn` or `error`.
    pub level: &'static str,
    /// Name of the logger.
    pub logger: &'static str,
    /// The message.
    pub msg: String,
    /// Its fields.
    pub fields: Map<String, Value>,
}

impl LogLine {
    fn new(
        level: &'static str,
        logger: &'static str,
        msg: impl Into<String>,
        fields: &[(&str, Value)],
    ) -> Self {
        let fields = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()));
        Self {
            level,
            logger,
            msg: msg.into(),
            fields: fields.collect(),
        }
    }
}

/// Why an event cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// The Sensor, the event or the names do not hold.
    #[error("{0}")]
    Input(String),
    /// Argo Events can judge it, this program cannot.
    #[error("{0}")]
    Unsupported(String),
}

/// A Sensor that the controller takes.
#[derive(Clone, Debug)]
pub struct Sensor {
    /// File of the manifest.
    pub file: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`, `default` where there is none.
    pub namespace: String,
    /// The dependencies in listed order.
    pub dependencies: Vec<Dependency>,
    triggers: Vec<Value>,
}

/// A dependency of a Sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// Name of the EventSource.
    pub source: String,
    /// Name of the event in it.
    pub event: String,
    value: Value,
}

impl Sensor {
    /// Reads a Sensor as the controller does.
    ///
    /// # Errors
    /// [`WalkError::Input`] with the condition and message that the controller leaves in the status.
    pub fn read(file: &str, object: &Value, now: jiff::Timestamp) -> Result<Self, WalkError> {
        use crate::sensor::validate::{Invalid, validate};
        let name = text_at(object, "/metadata/name");
        validate(object, &Value::Null, now).map_err(|invalid| {
            let why = match invalid {
                Invalid::Decode(error) => format!("the controller cannot decode it: {error}"),
                Invalid::Refused {
                    condition,
                    reason,
                    message,
                } => format!(
                    "the controller refuses it, condition {} is False, reason {reason}: {message}",
                    condition.as_str()
                ),
            };
            WalkError::Input(format!(
                "{file}: Sensor/{name}: {why}; until it is corrected, its old Deployment goes on with the old filters"
            ))
        })?;
        let items = |pointer| {
            object
                .pointer(pointer)
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default()
        };
        let namespace = text_at(object, "/metadata/namespace");
        Ok(Self {
            file: file.to_owned(),
            name,
            namespace: if namespace.is_empty() {
                "default".to_owned()
            } else {
                namespace
            },
            dependencies: items("/spec/dependencies")
                .into_iter()
                .map(Dependency::read)
                .collect(),
            triggers: items("/spec/triggers"),
        })
    }

    /// The dependencies by the event that they listen to, each event once.
    #[must_use]
    pub fn by_event(&self) -> Vec<Vec<&Dependency>> {
        let mut events: Vec<Vec<&Dependency>> = Vec::new();
        for dependency in &self.dependencies {
            let same = |known: &&mut Vec<&Dependency>| {
                known.first().is_some_and(|first| {
                    (&first.source, &first.event) == (&dependency.source, &dependency.event)
                })
            };
            match events.iter_mut().find(same) {
                Some(known) => known.push(dependency),
                None => events.push(vec![dependency]),
            }
        }
        events
    }
}

impl Dependency {
    fn read(value: Value) -> Self {
        Self {
            name: text_at(&value, "/name"),
            source: text_at(&value, "/eventSourceName"),
            event: text_at(&value, "/eventName"),
            value,
        }
    }
}

fn text_at(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
