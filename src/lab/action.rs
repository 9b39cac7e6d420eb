//! What a stage does to the cluster besides applying and sending.
//!
//! In a lab file an action is a word (`delete-sensor-pod`) or a map with one leading key (`run: FILE`).

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something done to the cluster before the probes of a stage, or before one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "ActionText", into = "ActionText")]
pub enum Action {
    /// Deletes the Sensor's pod and does not wait for its successor.
    DeleteSensorPod,
    /// Kills the Sensor's pod without a grace period.
    KillSensorPod,
    /// Deletes every Workflow that has ended, as `ttlStrategy` does in time.
    DeleteWorkflows,
    /// Makes the Workflow of a manifest and waits until it has ended.
    Run {
        /// File below `manifests/` with one Workflow.
        file: String,
        /// Arguments that replace those of the manifest; `{{attempt}}` is replaced in them.
        with: BTreeMap<String, String>,
        /// The phase in which it must end.
        ends: String,
    },
    /// Waits until the claim on an order is in a state.
    Await {
        /// `{{attempt}}` is replaced.
        order: String,
        action: String,
        claim: String,
    },
    /// Waits until a Deployment serves its present spec.
    Available { deployment: String },
}

impl Action {
    /// What it does, for people who wait for it.
    #[must_use]
    pub fn phrase(&self) -> String {
        match self {
            Action::DeleteSensorPod | Action::KillSensorPod | Action::DeleteWorkflows => {
                self.to_string().replace('-', " ")
            }
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::DeleteSensorPod => f.write_str("delete-sensor-pod"),
            Action::KillSensorPod => f.write_str("kill-sensor-pod"),
            Action::DeleteWorkflows => f.write_str("delete-workflows"),
            Action::Run { file, with, .. } => {
                write!(f, "run {file}")?;
                with.iter()
                    .try_for_each(|(name, value)| write!(f, " {name}={value}"))
            }
            Action::Await { order, claim, .. } => write!(f, "await claim {claim} on {order}"),
            Action::Available { deployment } => write!(f, "await deployment {deployment}"),
        }
    }
}

/// The written form of an [`Action`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum ActionText {
    Word(String),
    Run(RunText),
    Await(AwaitText),
    Available(AvailableText),
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunText {
    run: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    with: BTreeMap<String, String>,
    #[serde(default = "succeeded")]
    ends: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AwaitText {
    #[serde(rename = "await")]
    order: String,
    #[serde(default = "notify")]
    action: String,
    claim: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AvailableText {
    available: String,
}

fn succeeded() -> String {
    "Succeeded".to_owned()
}

fn notify() -> String {
    "notify".to_owned()
}

impl TryFrom<ActionText> for Action {
    type Error = String;

    fn try_from(text: ActionText) -> Result<Self, String> {
        Ok(match text {
            ActionText::Word(word) => match word.as_str() {
                "delete-sensor-pod" => Action::DeleteSensorPod,
                "kill-sensor-pod" => Action::KillSensorPod,
                "delete-workflows" => Action::DeleteWorkflows,
                _ => {
                    return Err(format!(
                        "unknown action `{word}`: write `delete-sensor-pod`, `kill-sensor-pod`, `delete-workflows`, \
                         {{run: FILE}}, {{await: ORDER, claim: STATE}} or {{available: DEPLOYMENT}}"
                    ));
                }
            },
            ActionText::Run(RunText { run, with, ends }) => Action::Run {
                file: run,
                with,
                ends,
            },
            ActionText::Await(AwaitText {
                order,
                action,
                claim,
            }) => Action::Await {
                order,
                action,
                claim,
            },
            ActionText::Available(AvailableText { available }) => Action::Available {
                deployment: available,
            },
        })
    }
}

impl From<Action> for ActionText {
    fn from(action: Action) -> Self {
        match action {
            Action::Run { file, with, ends } => ActionText::Run(RunText {
                run: file,
                with,
                ends,
            }),
            Action::Await {
                order,
                action,
                claim,
            } => ActionText::Await(AwaitText {
                order,
                action,
                claim,
            }),
            Action::Available { deployment } => ActionText::Available(AvailableText {
                available: deployment,
            }),
            word => ActionText::Word(word.to_string()),
        }
    }
}
