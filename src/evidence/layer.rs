//! The layers of the path, in order, and what may be said about a probe at one of them.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// A layer of the path; the order is the order of the path.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// The consumer existed when the message was stored.
    Ready,
    /// The EventSource answered the request.
    Intake,
    /// The bus stored the message.
    Bus,
    /// The Sensor's filter accepted the event.
    Filter,
    /// The Workflow was created.
    Submit,
    /// The Workflow ended well.
    Run,
    /// The ledger shows the effect.
    Effect,
}

impl Layer {
    /// All layers in order.
    pub const ALL: [Layer; 7] = [
        Layer::Ready,
        Layer::Intake,
        Layer::Bus,
        Layer::Filter,
        Layer::Submit,
        Layer::Run,
        Layer::Effect,
    ];

    /// The word shown and written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layer::Ready => "ready",
            Layer::Intake => "intake",
            Layer::Bus => "bus",
            Layer::Filter => "filter",
            Layer::Submit => "submit",
            Layer::Run => "run",
            Layer::Effect => "effect",
        }
    }

    /// Position in [`Layer::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The layer of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Layer> {
        let name = name.trim();
        Layer::ALL
            .into_iter()
            .find(|layer| layer.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a layer stopped an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// ready: the message was stored before the consumer existed.
    NotSubscribed,
    /// intake: the HTTP status was not 200.
    WrongMethod,
    NoSuchEndpoint,
    Unauthorized,
    BadBody,
    PublishFailed,
    /// bus: answered 200, and nothing was put on the bus (EventSource filter).
    SourceFilter,
    /// filter: a path does not exist in the event.
    MissingPath,
    /// filter: a clean mismatch.
    Mismatch,
    /// filter: a pattern does not compile.
    BadPattern,
    /// filter: any other evaluation error.
    FilterError,
    /// submit: the Sensor's account may not create the object.
    Forbidden,
    /// submit: an object of that name exists.
    AlreadyExists,
    /// submit: a parameter could not be resolved, or another refusal.
    TriggerFailed,
    /// run: the Workflow ended Failed.
    WorkflowFailed,
    /// run: the Workflow ended Error.
    WorkflowError,
    /// effect: the key was there already with the same amount; nothing was added.
    Duplicate,
    /// effect: the key was there already with another amount; nothing was added.
    Conflict,
    /// effect: the Workflow ended and the ledger has no row of this arrival.
    NoEffect,
    /// run: nobody knows whether the work was done at the destination; the run did not try again.
    Unresolved,
    /// run: another run holds the claim.
    Busy,
    /// run: the destination certainly did nothing.
    NotWritten,
    /// run: the claim was not this run's any more, so that it wrote nothing.
    StaleOwner,
    /// intake, submit or run: whoever was asked could not do it now, for a reason that lies in the environment: no answer,
    /// no room, a lock, credentials that are not known.
    Unavailable,
}

impl Reason {
    /// Whether a run that ends with it ends badly, too: somebody has to look.
    #[must_use]
    pub fn fails_the_run(self) -> bool {
        matches!(
            self,
            Reason::Conflict
                | Reason::Unresolved
                | Reason::Busy
                | Reason::NotWritten
                | Reason::StaleOwner
        )
    }

    /// Whether it says nothing of what was applied or sent: the environment was not able to take it.
    #[must_use]
    pub fn is_of_the_environment(self) -> bool {
        matches!(self, Reason::PublishFailed | Reason::Unavailable)
    }

    /// The layer whose evidence this reason is.
    #[must_use]
    pub fn layer(self) -> Layer {
        match self {
            Reason::NotSubscribed => Layer::Ready,
            Reason::WrongMethod
            | Reason::NoSuchEndpoint
            | Reason::Unauthorized
            | Reason::BadBody
            | Reason::PublishFailed => Layer::Intake,
            Reason::SourceFilter => Layer::Bus,
            Reason::MissingPath | Reason::Mismatch | Reason::BadPattern | Reason::FilterError => {
                Layer::Filter
            }
            Reason::Forbidden
            | Reason::AlreadyExists
            | Reason::TriggerFailed
            | Reason::Unavailable => Layer::Submit,
            Reason::WorkflowFailed
            | Reason::WorkflowError
            | Reason::Unresolved
            | Reason::Busy
            | Reason::NotWritten
            | Reason::StaleOwner => Layer::Run,
            Reason::Duplicate | Reason::Conflict | Reason::NoEffect => Layer::Effect,
        }
    }

    /// Whether a layer can stop an event for this reason. A run that ends badly because of what the ledger said stops
    /// at `run`.
    #[must_use]
    pub fn can_stop(self, layer: Layer) -> bool {
        self.layer() == layer
            || (layer == Layer::Run && self.fails_the_run())
            || (self == Reason::Unavailable && matches!(layer, Layer::Intake | Layer::Run))
    }

    /// The reason as a lab file writes it.
    #[must_use]
    pub fn code(self) -> String {
        serde_json::to_value(self)
            .ok()
            .and_then(|value| value.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// The reason in a few words, as a cell shows it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Reason::NotSubscribed => "not subscribed",
            Reason::WrongMethod => "wrong method",
            Reason::NoSuchEndpoint => "no such endpoint",
            Reason::Unauthorized => "unauthorized",
            Reason::BadBody => "bad body",
            Reason::PublishFailed => "publish failed",
            Reason::SourceFilter => "source filter",
            Reason::MissingPath => "no such path",
            Reason::Mismatch => "mismatch",
            Reason::BadPattern => "bad pattern",
            Reason::FilterError => "filter error",
            Reason::Forbidden => "forbidden",
            Reason::AlreadyExists => "already exists",
            Reason::TriggerFailed => "refused",
            Reason::WorkflowFailed => "Failed",
            Reason::WorkflowError => "Error",
            Reason::Duplicate => "duplicate",
            Reason::Conflict => "conflict",
            Reason::NoEffect => "no effect",
            Reason::Unresolved => "unresolved",
            Reason::Busy => "busy",
            Reason::NotWritten => "not written",
            Reason::StaleOwner => "stale owner",
            Reason::Unavailable => "unavailable",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

/// What a probe is expected to do, or was seen to do.
///
/// In a lab file: `applied`, `{stops: filter, reason: missing-path}`, or `{run-stops: workflow-error}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "FateText", into = "FateText")]
pub enum Fate {
    /// It passes every layer and has its effect.
    Applied,
    /// It passes up to a layer, which stops it for this reason.
    Stopped { layer: Layer, reason: Reason },
    /// `run` and `effect` differ: the effect is there although the Workflow did not end well.
    AppliedButRunStopped { reason: Reason },
}

impl Fate {
    /// The layer that stops it; `None` when it has its effect.
    #[must_use]
    pub fn stops_at(&self) -> Option<Layer> {
        match self {
            Fate::Stopped { layer, .. } => Some(*layer),
            Fate::Applied | Fate::AppliedButRunStopped { .. } => None,
        }
    }

    /// Whether the event passes this layer.
    #[must_use]
    pub fn passes(&self, layer: Layer) -> bool {
        match self {
            Fate::Applied => true,
            Fate::Stopped { layer: at, .. } => layer < *at,
            Fate::AppliedButRunStopped { .. } => layer != Layer::Run,
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Applied => f.write_str("applied"),
            Fate::Stopped { layer, reason } => write!(f, "stopped at {layer}: {reason}"),
            Fate::AppliedButRunStopped { reason } => {
                write!(f, "applied, although the Workflow ended {reason}")
            }
        }
    }
}

impl JsonSchema for Fate {
    fn schema_name() -> Cow<'static, str> {
        "Fate".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        FateText::json_schema(generator)
    }
}

/// The written form of a [`Fate`]: `applied`, `{stops: LAYER, reason: REASON}` or `{run-stops: REASON}`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a fate is `applied`, {stops: LAYER, reason: REASON} or {run-stops: REASON}, with the names of `eventlab lab schema`"
)]
enum FateText {
    Word(String),
    Stops(StopsText),
    RunStops(RunStopsText),
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StopsText {
    stops: Layer,
    reason: Reason,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunStopsText {
    #[serde(rename = "run-stops")]
    run_stops: Reason,
}

impl TryFrom<FateText> for Fate {
    type Error = String;

    fn try_from(text: FateText) -> Result<Self, String> {
        match text {
            FateText::Word(word) if word == "applied" => Ok(Fate::Applied),
            FateText::Word(word) => Err(format!(
                "unknown fate `{word}`: write `applied`, {{stops: LAYER, reason: REASON}} or {{run-stops: REASON}}"
            )),
            FateText::Stops(StopsText { stops, reason }) => Ok(Fate::Stopped {
                layer: stops,
                reason,
            }),
            FateText::RunStops(RunStopsText { run_stops }) => {
                Ok(Fate::AppliedButRunStopped { reason: run_stops })
            }
        }
    }
}

impl From<Fate> for FateText {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Applied => FateText::Word("applied".to_owned()),
            Fate::Stopped { layer, reason } => FateText::Stops(StopsText {
                stops: layer,
                reason,
            }),
            Fate::AppliedButRunStopped { reason } => {
                FateText::RunStops(RunStopsText { run_stops: reason })
            }
        }
    }
}
