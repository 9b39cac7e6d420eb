//! What a Workflow shows of itself.

use serde_json::Value;

use super::Arrival;
use crate::evidence::{Fact, Layer, Observation, reason};
use crate::runner::gate::NO_START_REASONS;

/// A Workflow as its object shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    pub name: String,
    pub uid: String,
    pub phase: String,
    pub message: String,
}

/// The Workflow that carries an arrival.
#[must_use]
pub fn workflow_created(arrival: &Arrival, execution: &Execution, namespace: &str) -> Fact {
    let line = format!(
        "Workflow {} uid {} carries arrival {}",
        execution.name, execution.uid, arrival.id
    );
    let command = format!(
        "kubectl -n {namespace} get workflows -l arrival={}",
        arrival.id
    );
    let observation = Observation::WorkflowCreated {
        name: execution.name.clone(),
    };
    Fact {
        execution: Some(execution.uid.clone()),
        ..arrival.fact(Layer::Submit, observation, "workflow", line, command)
    }
}

/// What a pod of a Workflow cannot get over by itself: nobody sees it in the Workflow's own message.
#[must_use]
pub fn stuck(workflow: &Value) -> Option<String> {
    let nodes = workflow.pointer("/status/nodes")?.as_object()?;
    nodes
        .values()
        .filter(|node| node["phase"] == "Pending")
        .filter_map(|node| node["message"].as_str())
        .find(|message| {
            let mut signs = NO_START_REASONS.into_iter().chain(["Unschedulable"]);
            signs.any(|sign| message.contains(sign))
        })
        .map(str::to_owned)
}

/// What a pod of a Workflow could not do now and may do another time, as its node says it: the Workflow's own message often
/// names only the node.
#[must_use]
pub fn put_off(workflow: &Value) -> Option<String> {
    let nodes = workflow.pointer("/status/nodes")?.as_object()?;
    nodes
        .values()
        .filter(|node| matches!(node["phase"].as_str(), Some("Failed" | "Error")))
        .filter_map(|node| node["message"].as_str())
        .find(|message| reason::is_temporary(message))
        .map(str::to_owned)
}

/// The phase of a Workflow.
#[must_use]
pub fn workflow_phase(arrival: &Arrival, execution: &Execution, namespace: &str) -> Fact {
    let Execution {
        name,
        uid,
        phase,
        message,
    } = execution;
    let line = format!(
        "Workflow {name} uid {uid}: phase {phase}{}{message}",
        if message.is_empty() { "" } else { ", " }
    );
    let command = format!(
        "kubectl -n {namespace} get workflow {name} -o jsonpath='{{.status.phase}}{{\" \"}}{{.status.message}}'"
    );
    let observation = Observation::WorkflowPhase {
        name: name.clone(),
        phase: phase.clone(),
        message: message.clone(),
    };
    Fact {
        execution: Some(uid.clone()),
        ..arrival.fact(Layer::Run, observation, "workflow", line, command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_that_waits_for_its_image_is_told_and_one_that_starts_is_not() {
        let workflow = |phase: &str, message: &str| json!({"status": {"nodes": {"a": {"phase": phase, "message": message}}}});
        let pull = "ImagePullBackOff: Back-off pulling image \"x\"";
        assert_eq!(stuck(&workflow("Pending", pull)).as_deref(), Some(pull));
        for (phase, message) in [
            ("Pending", "PodInitializing"),
            ("Succeeded", pull),
            ("Pending", ""),
        ] {
            assert_eq!(stuck(&workflow(phase, message)), None, "{phase} {message}");
        }
        assert_eq!(stuck(&json!({})), None);
    }
}
