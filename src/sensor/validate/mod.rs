//! What the Sensor controller refuses, with the condition, reason and message it leaves in the status.
//!
//! From above: [`validate`]. A refused Sensor keeps the Deployment it had, so its old filters go on running.

mod shape;
mod triggers;

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;

use super::decode::{DecodeError, Node};
use super::spec::{ContextSpec, DataSpec, ExprSpec, FilterSpec, TimeSpec};
use super::time;

/// Status condition that a refusal makes false.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// `DependenciesProvided`; `TriggersProvided` then stays unknown.
    DependenciesProvided,
    /// `TriggersProvided`; `DependenciesProvided` is then true.
    TriggersProvided,
}

impl Condition {
    /// The condition's type in the status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DependenciesProvided => "DependenciesProvided",
            Self::TriggersProvided => "TriggersProvided",
        }
    }
}

/// Why a Sensor does not go live.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The controller cannot even decode the object; it writes no status.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The controller refuses it and says so in the status.
    #[error("{message}")]
    Refused {
        /// Condition that is set to false.
        condition: Condition,
        /// Its reason, `InvalidDependencies` or `InvalidTriggers`.
        reason: &'static str,
        /// Its message.
        message: String,
    },
}

/// Checks a Sensor as the controller does before it makes or updates the Deployment.
///
/// `event_bus` is the EventBus object; `now` gives the day on which time windows are tried.
///
/// # Errors
/// [`Invalid`] with the first thing that is wrong.
pub fn validate(sensor: &Value, event_bus: &Value, now: Timestamp) -> Result<(), Invalid> {
    let root = Node::new(sensor, "");
    shape::check(&root)?;
    let empty = serde_json::json!({});
    let spec = root
        .object("spec")?
        .unwrap_or_else(|| Node::new(&empty, "spec"));
    let checker = Dependencies {
        on_stan: event_bus
            .pointer("/spec/nats")
            .is_some_and(|nats| !nats.is_null()),
        now,
    };
    refuse(
        checker.check(&spec),
        Condition::DependenciesProvided,
        "InvalidDependencies",
    )?;
    refuse(
        triggers::check(&spec),
        Condition::TriggersProvided,
        "InvalidTriggers",
    )
}

/// Something that a check found: a wrong type, or the controller's message.
#[derive(Debug)]
enum Fault {
    Decode(DecodeError),
    Message(String),
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl Fault {
    fn prefixed(self, prefix: &str) -> Self {
        match self {
            Self::Message(message) => Self::Message(format!("{prefix}{message}")),
            decode @ Self::Decode(_) => decode,
        }
    }
}

fn fault(message: impl Into<String>) -> Fault {
    Fault::Message(message.into())
}

/// Fails with the message unless the condition holds.
fn require(holds: bool, message: &str) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(fault(message)) }
}

fn refuse(
    checked: Result<(), Fault>,
    condition: Condition,
    reason: &'static str,
) -> Result<(), Invalid> {
    checked.map_err(|fault| match fault {
        Fault::Decode(error) => Invalid::Decode(error),
        Fault::Message(message) => Invalid::Refused {
            condition,
            reason,
            message,
        },
    })
}

struct Dependencies {
    /// On NATS Streaming an event cannot be named by two dependencies.
    on_stan: bool,
    now: Timestamp,
}

impl Dependencies {
    fn check(&self, spec: &Node<'_>) -> Result<(), Fault> {
        let dependencies = spec.list("dependencies")?.unwrap_or_default();
        require(!dependencies.is_empty(), "no event dependencies found")?;
        let mut events = HashSet::new();
        for dependency in &dependencies {
            let source = dependency.text("eventSourceName")?;
            let event = dependency.text("eventName")?;
            require(
                !dependency.text("name")?.is_empty(),
                "event dependency must define a name",
            )?;
            require(
                !source.is_empty(),
                "event dependency must define the EventSourceName",
            )?;
            require(
                !event.is_empty(),
                "event dependency must define the EventName",
            )?;
            let again = format!(
                "event '{event}' from EventSource '{source}' is referenced for more than one dependency in this Sensor object"
            );
            require(!self.on_stan || events.insert((source, event)), &again)?;
            if let Some(filters) = dependency.object("filters")? {
                self.check_filters(&FilterSpec::decode(&filters)?)?;
            }
            check_operator(&dependency.text("filtersLogicalOperator")?)?;
        }
        Ok(())
    }

    fn check_filters(&self, filters: &FilterSpec) -> Result<(), Fault> {
        check_operator(&filters.expr_operator)?;
        check_operator(&filters.data_operator)?;
        filters.exprs.iter().flatten().try_for_each(check_expr)?;
        filters.data.iter().flatten().try_for_each(check_data)?;
        filters.context.iter().try_for_each(check_context)?;
        filters
            .time
            .iter()
            .try_for_each(|window| self.check_time(window))
    }

    fn check_time(&self, window: &TimeSpec) -> Result<(), Fault> {
        let (start, stop) = time::window_on(window, self.now).map_err(fault)?;
        // The closing quote is missing upstream too.
        let same = format!(
            "invalid event time filter: stop '{}' is equal to start '{}",
            window.stop, window.start
        );
        require(start != stop, &same)
    }
}

fn check_operator(operator: &str) -> Result<(), Fault> {
    require(
        matches!(operator, "" | "and" | "or"),
        &format!("logical operator {operator} not supported"),
    )
}

fn check_expr(filter: &ExprSpec) -> Result<(), Fault> {
    let given = !filter.expr.is_empty() && !filter.fields.is_empty();
    require(
        given,
        "one of expr filters is not valid (expr and fields must be not empty)",
    )?;
    let named = filter
        .fields
        .iter()
        .all(|(name, path)| !name.is_empty() && !path.is_empty());
    require(
        named,
        "one of expr filters is not valid (path and name in a field must be not empty)",
    )
}

fn check_data(filter: &DataSpec) -> Result<(), Fault> {
    let known = matches!(
        filter.comparator.as_str(),
        "" | ">=" | ">" | "=" | "!=" | "<" | "<="
    );
    require(
        known,
        &format!("comparator {} not supported", filter.comparator),
    )?;
    let given = !filter.path.is_empty() && !filter.kind.is_empty() && !filter.values.is_empty();
    require(
        given,
        "one of data filters is not valid (type, path and value must be not empty)",
    )?;
    let filled = filter.values.iter().all(|value| !value.is_empty());
    require(
        filled,
        "one of data filters is not valid (value must be not empty)",
    )
}

fn check_context(filter: &ContextSpec) -> Result<(), Fault> {
    let fields = [
        &filter.kind,
        &filter.subject,
        &filter.source,
        &filter.datacontenttype,
    ];
    let any = fields.iter().any(|field| !field.is_empty());
    require(
        any,
        "no fields specified in ctx filter (aka all events will be discarded)",
    )
}

#[cfg(test)]
mod tests;
