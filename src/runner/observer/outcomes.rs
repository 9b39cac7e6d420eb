//! What became of events: Workflows with their phases, and the rows of the ledger.

use kube::api::DynamicObject;

use super::task::Task;
use crate::runner::facts::{self, Execution};

impl Task {
    pub(super) async fn look_at_ledger(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        let Ok(view) = self
            .cluster
            .ledger(self.attempts_read, self.effects_read)
            .await
        else {
            self.ended.extend(ended);
            return;
        };
        let mut new = Vec::new();
        for row in view.attempts {
            self.attempts_read = self.attempts_read.max(row.seq);
            self.executions_with_rows.insert(row.workflow_uid.clone());
            if let Some(arrival) = self.arrival(&row.arrival).await {
                new.push(facts::ledger_attempt(&arrival, &row));
            }
        }
        for row in view.effects {
            self.effects_read = self.effects_read.max(row.seq);
            self.executions_with_rows.insert(row.workflow_uid.clone());
            if let Some(arrival) = self.arrival(&row.arrival).await {
                new.push(facts::ledger_effect(&arrival, &row));
            }
        }
        for (uid, id) in ended {
            if self.executions_with_rows.contains(&uid) {
                continue;
            }
            if let Some(arrival) = self.arrival(&id).await {
                new.push(facts::no_effect(&arrival, &uid, self.attempts_read));
            }
        }
        self.write(new);
    }

    pub(super) async fn workflow(&mut self, workflow: &DynamicObject) {
        let (Some(name), Some(uid)) = (
            workflow.metadata.name.clone(),
            workflow.metadata.uid.clone(),
        ) else {
            return;
        };
        let label = workflow
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get("arrival"))
            .cloned()
            .unwrap_or_default();
        let Some(arrival) = self.arrival(&label).await else {
            return;
        };
        let text = |pointer: &str| {
            workflow
                .data
                .pointer(pointer)
                .and_then(|value| value.as_str())
                .unwrap_or_default()
                .to_owned()
        };
        let execution = Execution {
            name,
            uid: uid.clone(),
            phase: text("/status/phase"),
            message: text("/status/message"),
        };
        let namespace = self.cluster.namespace().to_owned();
        let mut new = Vec::new();
        let before = self.phases.insert(uid.clone(), execution.phase.clone());
        if before.is_none() {
            new.push(facts::workflow_created(&arrival, &execution, &namespace));
        }
        if !execution.phase.is_empty() && before.as_ref() != Some(&execution.phase) {
            new.push(facts::workflow_phase(&arrival, &execution, &namespace));
            if matches!(execution.phase.as_str(), "Succeeded" | "Failed" | "Error") {
                self.ended.insert(uid, arrival.id.clone());
            }
        }
        self.write(new);
        if !self.ended.is_empty() {
            self.look_at_ledger().await;
        }
    }
}
