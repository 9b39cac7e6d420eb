//! How a Workflow changes its phase, and the Events that tell of it and of its nodes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::status::{Phase, text};
use super::{COMPLETED_LABEL, Note, Operation, PHASE_LABEL, Step, Stop, Workflow};
use crate::embedded::controllers::runtime::events::EventType;

impl Operation<'_> {
    /// Ends the Workflow and the pass.
    pub(super) fn end(&mut self, phase: Phase, message: &str) -> Step {
        Err(self.ended(phase, message))
    }

    pub(super) fn ended(&mut self, phase: Phase, message: &str) -> Stop {
        self.mark_workflow(phase, message);
        Stop
    }

    /// Sets the phase of the Workflow, with everything that hangs on it.
    pub(in super::super) fn mark_workflow(&mut self, phase: Phase, message: &str) {
        let waits = self
            .wf
            .status
            .nodes
            .values()
            .any(|node| node.task_result_synced == Some(false));
        if phase.is_completed() && waits {
            return;
        }
        if self.wf.status.phase != Some(phase) {
            self.change_phase(phase, message);
        }
        if self.wf.status.started_at.is_none() && phase != Phase::Pending {
            self.wf.status.started_at = Some(Time(self.now()));
        }
        if self.wf.status.message != message {
            let fields = [
                ("fromMessage", self.wf.status.message.as_str()),
                ("toMessage", message),
            ];
            self.log.info("updated message", &fields);
            message.clone_into(&mut self.wf.status.message);
        }
        if phase == Phase::Error {
            let name = self.name().to_owned();
            if let Some(entry) = self
                .node_mut(&name)
                .filter(|node| node.phase == Some(Phase::Running))
            {
                entry.phase = Some(Phase::Error);
                "Workflow operation error".clone_into(&mut entry.message);
            }
        }
        if phase.is_completed() {
            self.complete();
        }
    }

    fn change_phase(&mut self, phase: Phase, message: &str) {
        let fields = [
            ("fromPhase", text(self.wf.status.phase)),
            ("toPhase", phase.as_str()),
        ];
        self.log.info("updated phase", &fields);
        self.wf.status.phase = Some(phase);
        let labels = self.wf.meta.labels.get_or_insert_default();
        labels.insert(PHASE_LABEL.to_owned(), phase.as_str().to_owned());
        labels
            .entry(COMPLETED_LABEL.to_owned())
            .or_insert_with(|| "false".to_owned());
        let (kind, reason, message) = match phase {
            Phase::Running => (EventType::Normal, "WorkflowRunning", "Workflow Running"),
            Phase::Succeeded => (EventType::Normal, "WorkflowSucceeded", "Workflow completed"),
            Phase::Failed | Phase::Error => (EventType::Warning, "WorkflowFailed", message),
            _ => return,
        };
        self.note(kind, reason, message, BTreeMap::new());
    }

    fn complete(&mut self) {
        self.log.info("Marking workflow completed", &[]);
        self.wf.status.finished_at = Some(Time(self.now()));
        let labels = self.wf.meta.labels.get_or_insert_default();
        labels.insert(COMPLETED_LABEL.to_owned(), "true".to_owned());
        self.wf.status.set_condition("Completed", true);
        if self.wf.status.synchronization.take().is_some() {
            self.actions
                .release
                .push(format!("{}/{}", self.namespace(), self.name()));
        }
        self.is_stopped = true;
    }

    fn note(
        &mut self,
        kind: EventType,
        reason: &str,
        message: &str,
        annotations: BTreeMap<String, String>,
    ) {
        let note = Note {
            kind,
            reason: reason.to_owned(),
            message: message.to_owned(),
            annotations,
        };
        self.actions.notes.push(note);
    }

    /// An Event for each node that began to run or ended, as upstream records them.
    pub(super) fn note_node_changes(&mut self, before: &Workflow) {
        let mut changes = Vec::new();
        for (id, node) in &self.wf.status.nodes {
            let old = before.status.nodes.get(id).map(|node| node.phase);
            let (ran, ended) = (node.phase == Some(Phase::Running), node.is_completed());
            if old == Some(node.phase) {
                continue;
            }
            if ended && old.is_none_or(|phase| phase == Some(Phase::Pending)) {
                changes.push((node.clone(), Phase::Running));
            }
            if let Some(phase) = node.phase.filter(|_| ran || ended || old.is_some()) {
                changes.push((node.clone(), phase));
            }
        }
        for (node, phase) in changes {
            let message = if node.message.is_empty() {
                String::new()
            } else {
                format!(": {}", node.message)
            };
            let good = matches!(phase, Phase::Running | Phase::Succeeded);
            let kind = if good {
                EventType::Normal
            } else {
                EventType::Warning
            };
            let type_text = serde_json::to_value(node.kind)
                .ok()
                .and_then(|kind| kind.as_str().map(str::to_owned));
            let annotations = BTreeMap::from([
                (
                    "workflows.argoproj.io/node-type".to_owned(),
                    type_text.unwrap_or_default(),
                ),
                (
                    "workflows.argoproj.io/node-name".to_owned(),
                    node.name.clone(),
                ),
                ("workflows.argoproj.io/node-id".to_owned(), node.id.clone()),
            ]);
            let reason = format!("WorkflowNode{}", phase.as_str());
            self.note(
                kind,
                &reason,
                &format!("{} node {}{message}", phase.as_str(), node.name),
                annotations,
            );
        }
    }
}
