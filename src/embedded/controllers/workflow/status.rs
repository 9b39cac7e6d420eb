//! `status` of a Workflow: phases, nodes, conditions, as the API keeps them.
//!
//! Fields that this controller does not know stay as they are (`extra`).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Phase of a node or, without the last two, of a Workflow. A Workflow that no controller looked at has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Error,
    Skipped,
    Omitted,
}

impl Phase {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Error => "Error",
            Self::Skipped => "Skipped",
            Self::Omitted => "Omitted",
        }
    }

    /// Ended by its work or by trouble.
    pub(super) fn is_completed(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Error)
    }

    /// Ended badly.
    pub(super) fn is_bad(self) -> bool {
        matches!(self, Self::Failed | Self::Error)
    }
}

/// The text of an optional phase: empty for none.
pub(super) fn text(phase: Option<Phase>) -> &'static str {
    phase.map_or("", Phase::as_str)
}

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) enum NodeType {
    #[default]
    Pod,
    Container,
    Steps,
    StepGroup,
    #[serde(rename = "DAG")]
    Dag,
    TaskGroup,
    Retry,
    Skipped,
    Suspend,
    #[serde(rename = "HTTP")]
    Http,
    Plugin,
}

/// What a node is beside its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct NodeFlag {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hooked: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retried: bool,
}

/// What a node handed on.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Outputs {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<String>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Outputs {
    /// Whether anything but the exit code is there.
    pub(super) fn has_any(&self) -> bool {
        !self.parameters.is_empty() || !self.artifacts.is_empty() || self.result.is_some()
    }
}

/// What a node waits for.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct NodeSynchronization {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waiting: String,
}

/// `status.nodes[id]`.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Node {
    pub id: String,
    pub name: String,
    pub display_name: String,
    #[serde(rename = "type")]
    pub kind: NodeType,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template_scope: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    #[serde(rename = "boundaryID", skip_serializing_if = "String::is_empty")]
    pub boundary_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub progress: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources_duration: BTreeMap<String, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Outputs>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outbound_nodes: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host_node_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_flag: Option<NodeFlag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synchronization_status: Option<NodeSynchronization>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_result_synced: Option<bool>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Node {
    /// Whether nothing more is to come: it ended and its result is in, or it was left out.
    pub(super) fn is_fulfilled(&self) -> bool {
        let synced = self.task_result_synced.unwrap_or(true);
        let left_out = matches!(self.phase, Some(Phase::Skipped | Phase::Omitted));
        synced && (left_out || self.is_completed())
    }

    pub(super) fn is_completed(&self) -> bool {
        self.phase.is_some_and(Phase::is_completed)
    }

    pub(super) fn is_bad(&self) -> bool {
        self.phase.is_some_and(Phase::is_bad)
    }

    pub(super) fn is_hooked(&self) -> bool {
        self.node_flag.is_some_and(|flag| flag.hooked)
    }

    /// Whether a pod runs it.
    pub(super) fn is_pod(&self) -> bool {
        self.kind == NodeType::Pod
    }
}

/// One of `status.conditions`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// `status`.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "phase_or_none"
    )]
    pub phase: Option<Phase>,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub progress: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, Node>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Outputs>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources_duration: BTreeMap<String, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_workflow_template_spec: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synchronization: Option<Synchronization>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_repository_ref: Option<Value>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// An empty text is no phase.
fn phase_or_none<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Phase>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty());
    text.map(|text| Phase::deserialize(serde::de::value::StringDeserializer::new(text)))
        .transpose()
}

impl Status {
    pub(super) fn is_fulfilled(&self) -> bool {
        self.phase.is_some_and(Phase::is_completed)
    }

    /// Sets a condition by its type, and answers whether that changed anything.
    pub(super) fn set_condition(&mut self, kind: &str, is_true: bool) -> bool {
        let status = if is_true { "True" } else { "False" };
        match self
            .conditions
            .iter_mut()
            .find(|condition| condition.kind == kind)
        {
            Some(condition) if condition.status == status => false,
            Some(condition) => {
                status.clone_into(&mut condition.status);
                true
            }
            None => {
                let condition = Condition {
                    kind: kind.to_owned(),
                    status: status.to_owned(),
                    message: String::new(),
                };
                self.conditions.push(condition);
                true
            }
        }
    }
}

/// `status.synchronization`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Synchronization {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semaphore: Option<SemaphoreStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutex: Option<MutexStatus>,
}

/// Semaphores held and waited for.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SemaphoreStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holding: Vec<SemaphoreHolding>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<SemaphoreHolding>,
}

/// A semaphore with the keys that hold it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SemaphoreHolding {
    pub semaphore: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<String>,
}

/// Mutexes held and waited for.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct MutexStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holding: Vec<MutexHolding>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<MutexHolding>,
}

/// A mutex with the key that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct MutexHolding {
    pub mutex: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub holder: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_known_here_is_kept() {
        let value = json!({
            "phase": "Running", "startedAt": "2026-01-02T03:04:05Z", "finishedAt": null, "estimatedDuration": 7,
            "nodes": {"a": {"id": "a", "name": "a", "displayName": "a", "type": "DAG", "startedAt": null,
                            "finishedAt": null, "daemoned": true}},
        });
        let status: Status = serde_json::from_value(value.clone()).expect("status");
        assert_eq!(status.phase, Some(Phase::Running));
        let again = serde_json::to_value(&status).expect("json");
        assert_eq!(again["estimatedDuration"], 7);
        assert_eq!(again["nodes"]["a"]["daemoned"], true);
        assert_eq!(again["finishedAt"], Value::Null);
    }

    #[test]
    fn an_empty_phase_is_none() {
        let status: Status = serde_json::from_value(json!({"phase": ""})).expect("status");
        assert_eq!(status.phase, None);
        assert!(serde_json::from_value::<Status>(json!({"phase": "Broken"})).is_err());
    }

    #[test]
    fn a_node_waits_for_its_result() {
        let mut node = Node {
            phase: Some(Phase::Succeeded),
            task_result_synced: Some(false),
            ..Node::default()
        };
        assert!(node.is_completed() && !node.is_fulfilled());
        node.task_result_synced = Some(true);
        assert!(node.is_fulfilled());
    }
}
