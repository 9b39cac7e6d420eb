//! Workflows: made, and how each goes.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DynamicObject, ListParams, LogParams};

use super::{Task, WAITING_LIMIT};
use crate::runner::facts::{self, Execution};

impl Task {
    pub(super) async fn workflow(&mut self, workflow: &DynamicObject) {
        let (Some(name), Some(uid)) = (
            workflow.metadata.name.clone(),
            workflow.metadata.uid.clone(),
        ) else {
            return;
        };
        let labelled = |key: &str| {
            let labels = workflow.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(key)).cloned()
        };
        let label = labelled("arrival").unwrap_or_default();
        self.placed_by_trace(&label, labelled("trace").as_deref())
            .await;
        let Some(arrival) = self.arrival(&label).await else {
            if self.may_be_placed(&label) && self.waiting_workflows.len() < WAITING_LIMIT {
                self.waiting_workflows.insert(uid, workflow.clone());
            }
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
            uid: uid.clone(),
            phase: text("/status/phase"),
            message: match facts::put_off(&workflow.data) {
                Some(message) => self.with_last_line(&name, message).await,
                None => match text("/status/message") {
                    none if none.is_empty() => facts::stuck(&workflow.data).unwrap_or_default(),
                    message => message,
                },
            },
            name,
        };
        let namespace = self.cluster.namespace().to_owned();
        self.executions.insert(uid.clone(), arrival.place.clone());
        let mut new = Vec::new();
        let standing = (execution.phase.clone(), execution.message.clone());
        let before = self.phases.insert(uid.clone(), standing.clone());
        if before.is_none() {
            new.push(facts::workflow_created(&arrival, &execution, &namespace));
        }
        if !execution.phase.is_empty() && before.as_ref() != Some(&standing) {
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
    /// A message with what the pod said last on its own, where that can still be read.
    async fn with_last_line(&self, workflow: &str, message: String) -> String {
        let pods: Api<Pod> =
            Api::namespaced(self.cluster.client().clone(), self.cluster.namespace());
        let of_workflow =
            ListParams::default().labels(&format!("workflows.argoproj.io/workflow={workflow}"));
        let last = LogParams {
            container: Some("main".to_owned()),
            tail_lines: Some(1),
            ..LogParams::default()
        };
        let listed = pods.list(&of_workflow).await;
        let failed = |pod: &Pod| {
            let phase = pod
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref());
            phase == Some("Failed")
        };
        for pod in listed.into_iter().flat_map(|list| list.items) {
            let Some(name) = pod.metadata.name.as_deref().filter(|_| failed(&pod)) else {
                continue;
            };
            let line = pods.logs(name, &last).await.unwrap_or_default();
            let line = line.trim();
            if !line.is_empty() && !message.contains(line) {
                return format!("{message}: {line}");
            }
        }
        message
    }
}
