//! What a trigger does once its condition is met: the object that it submits, or the lines that it logs.
//!
//! From above: [`prepare`] and [`Prepared::action`], [`kind`], [`KINDS`], [`merge`], [`plural`], and of what is not carried
//! out here [`outside`] and [`resolve`]. Nothing is sent here.

mod merge;
mod object;
mod outside;

use jiff::Timestamp;
use serde_json::Value;

use super::decode::{DecodeError, Node};
use super::parameters::{Events, ParameterError, Parameters};

pub use merge::merge;
pub use object::plural;
pub use outside::{outside, resolve};

/// Trigger types in the order in which Argo Events looks for them: of several in one template the first counts.
pub const KINDS: [&str; 14] = [
    "k8s",
    "argoWorkflow",
    "http",
    "awsLambda",
    "azureEventHubs",
    "azureServiceBus",
    "kafka",
    "pulsar",
    "nats",
    "slack",
    "openWhisk",
    "custom",
    "log",
    "email",
];

/// What a trigger does with its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creates it; the object carries Argo's labels.
    Create,
    /// Merges it into the one that is there, or creates it where there is none.
    Update,
    /// Sends it as a patch, or creates it where there is none.
    Patch,
    /// Deletes it, where it is there.
    Delete,
}

impl Operation {
    /// Its name in a manifest.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    fn read(text: &str) -> Result<Self, TriggerError> {
        match text {
            "" | "create" => Ok(Self::Create),
            "update" => Ok(Self::Update),
            "patch" => Ok(Self::Patch),
            "delete" => Ok(Self::Delete),
            other => Err(TriggerError::Operation(other.to_owned())),
        }
    }
}

/// An object to be submitted, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// What to do.
    pub operation: Operation,
    /// Namespace of the request; empty for the cluster-scoped kinds that upstream knows.
    pub namespace: String,
    /// The object, complete.
    pub object: Value,
    /// Media type of the patch, if it is one.
    pub patch_type: String,
}

impl Submission {
    /// `metadata.name`, empty where there is none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// What one execution of a trigger does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Sends a request to the Kubernetes API.
    Object(Submission),
    /// Has Argo's command line submit a Workflow: a create, and a look at what was made.
    Workflow(Submission),
    /// Logs the data of every event.
    Log,
}

/// Why a trigger cannot act; it then fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// A field has a type that the controller could not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A parameter cannot be applied.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// None of [`KINDS`] stands in the template of the trigger of this name.
    #[error("invalid trigger {0}, could not find an implementation")]
    NoType(String),
    /// There is no source, or it is not an object with a kind.
    #[error("{0}")]
    Source(String),
    /// The operation does not exist.
    #[error("unknown operation type {0}")]
    Operation(String),
    /// The Workflow has no name to be submitted or looked up under.
    #[error("{0}")]
    Name(String),
    /// A value of a call to another service cannot be made.
    #[error("{what}{error}")]
    Call {
        /// Upstream's words before the error.
        what: String,
        /// Why.
        error: ParameterError,
    },
    /// A value that is not there is used, and the process ends; the dependency of this name has no event.
    #[error(
        "the Sensor's pod ends: panic: runtime error: invalid memory address or nil pointer dereference"
    )]
    Crash(String),
    /// A trigger or source that upstream has and this program has not.
    #[error("eventlab: {0}")]
    Unsupported(String),
}

impl TriggerError {
    /// The text in the Sensor's log: what fails while it is carried out has a prefix of its own.
    #[must_use]
    pub fn logged(&self) -> String {
        match self {
            Self::Operation(_) | Self::Name(_) | Self::Call { .. } => {
                format!("failed to execute trigger, {self}")
            }
            other => other.to_string(),
        }
    }

    /// Whether upstream might have gone on where this program stopped.
    #[must_use]
    pub fn is_own(&self) -> bool {
        match self {
            Self::Unsupported(_) => true,
            Self::Parameter(error) | Self::Call { error, .. } => error.is_own(),
            _ => false,
        }
    }
}

/// The trigger type of a template; `None` where it has none.
#[must_use]
pub fn kind(template: &Value) -> Option<&'static str> {
    let set = |kind: &&&str| template.get(**kind).is_some_and(|value| !value.is_null());
    KINDS.iter().find(set).copied()
}

/// A trigger with its own parameters applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    template: Value,
}

/// Applies the parameters that change the template of a trigger, an entry of the Sensor's `spec.triggers`.
///
/// # Errors
/// [`TriggerError`], with upstream's text where upstream has one.
pub fn prepare(trigger: &Value, events: &Events) -> Result<Prepared, TriggerError> {
    let node = Node::new(trigger, "trigger");
    let Some(template) = node.object("template")? else {
        return Err(TriggerError::Source(
            "trigger template can't be nil".to_owned(),
        ));
    };
    let parameters = Parameters::of(&node, "parameters")?;
    let template = if parameters.is_empty() {
        template.value().clone()
    } else {
        parameters.apply(events, template.value())?
    };
    if kind(&template).is_none() {
        let name = template.get("name").and_then(Value::as_str);
        return Err(TriggerError::NoType(name.unwrap_or_default().to_owned()));
    }
    Ok(Prepared { template })
}

/// Where a trigger acts from: what its object is labelled with, and where it goes by default.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// Name of the Sensor.
    pub sensor: &'a str,
    /// Namespace of the Sensor.
    pub namespace: &'a str,
    /// Becomes the label `events.argoproj.io/action-timestamp`, in milliseconds since 1970.
    pub now: Timestamp,
}

impl Prepared {
    /// Name of the trigger type in the Sensor's log.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match kind(&self.template) {
            Some("argoWorkflow") => "ArgoWorkflow",
            Some("log") => "Log",
            _ => "Kubernetes",
        }
    }

    /// With `liveObject`, the object that has to be read before [`Prepared::action`].
    ///
    /// # Errors
    /// [`TriggerError::Source`] where it cannot be addressed.
    pub fn live(&self) -> Result<Option<Submission>, TriggerError> {
        if kind(&self.template) != Some("k8s") {
            return Ok(None);
        }
        object::live(&Node::new(&self.template, "template"))
    }

    /// What this execution does; `live` is the object that [`Prepared::live`] asked for.
    ///
    /// # Errors
    /// [`TriggerError`], with upstream's text where upstream has one.
    pub fn action(
        &self,
        live: Option<Value>,
        events: &Events,
        origin: Origin<'_>,
    ) -> Result<Action, TriggerError> {
        let template = Node::new(&self.template, "template");
        if let Some(outside) = outside(&self.template) {
            return Err(TriggerError::Unsupported(outside));
        }
        match kind(&self.template) {
            Some("argoWorkflow") => {
                object::workflow(&template, events, origin).map(Action::Workflow)
            }
            Some("log") => Ok(Action::Log),
            _ => object::object(&template, live, events, origin).map(Action::Object),
        }
    }
}

/// What one execution of a trigger does, where nothing can be read first.
///
/// # Errors
/// As [`prepare`] and [`Prepared::action`].
pub fn build(trigger: &Value, events: &Events, origin: Origin<'_>) -> Result<Action, TriggerError> {
    let prepared = prepare(trigger, events)?;
    prepared.live()?;
    prepared.action(None, events, origin)
}

#[cfg(test)]
mod tests;
