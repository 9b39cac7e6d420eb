//! The way of one event through a Sensor, from the HTTP request to the object that would be created, and why it stops.
//!
//! From above: [`Sensor::read`], [`Request`], [`walk::walk`] and [`text::render`]. Nothing is sent and nothing is read.

mod act;
mod hints;
pub mod intake;
mod live;
mod near;
mod objects;
mod pattern;
mod sensor;
pub mod text;
pub mod walk;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::sensor::Explanation;

pub use intake::{Known, Request, Token};
pub use live::Live;
pub use sensor::{Dependency, Sensor};

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
    /// Whether nothing rejects it: a trigger acts, or keeps it until others arrive. Never so where `judged` is not.
    pub passed: bool,
    /// Whether all of its way was judged, or enough of it to know that it is rejected.
    pub judged: bool,
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
    /// HTTP status; none where nothing listens.
    pub status: Option<u16>,
    /// Body of the answer, or why there is none.
    pub response: String,
    /// Whether the EventSource is not known, so that a webhook with defaults answers.
    pub assumed: bool,
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
    /// Why the decision is not known here, whatever `filter` says; none where it is.
    pub unjudged: Option<String>,
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
    /// It may act, and eventlab cannot show with what or tell whether.
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
    /// The objects that are submitted: one each time that it acts.
    pub objects: Vec<Made>,
}

/// An object that a trigger submits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Made {
    /// The dependencies whose event it is made from.
    pub by: Vec<String>,
    /// The object.
    pub object: Value,
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

fn text_at(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
