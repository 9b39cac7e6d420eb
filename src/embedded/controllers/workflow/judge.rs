//! Judges pods: what a pod's status means for its node, and pods that are missing or must end.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::operation::Operation;
use super::pods::ON_EXIT_LABEL;
use super::progress::pod_resources;
use super::status::{Node, NodeType, Outputs, Phase};
use super::unsupported::REFUSED;
use crate::embedded::controllers::runtime::objects::{phase, seconds};

impl Operation<'_> {
    /// Takes the state of every pod into its node.
    pub(super) fn judge_pods(&mut self) {
        let pods: Vec<(String, Arc<Pod>)> = self
            .world
            .pods
            .iter()
            .map(|(id, pod)| (id.clone(), Arc::clone(pod)))
            .collect();
        let mut is_running = false;
        for (id, pod) in &pods {
            if let Some(left) = self.world.on_hold.get(&pod.uid().unwrap_or_default()) {
                self.look_again(*left);
                continue;
            }
            let Some(node) = self.by_id(id).filter(|node| !node.is_fulfilled()).cloned() else {
                continue;
            };
            let judged = self.judge(pod, &node);
            is_running |= judged.phase == Some(Phase::Running);
            self.wf.status.nodes.insert(id.clone(), judged);
            self.control(id, pod);
        }
        self.wf.status.set_condition("PodRunning", is_running);
        self.judge_missing_pods();
    }

    fn judge(&mut self, pod: &Pod, old: &Node) -> Node {
        let mut node = old.clone();
        match phase(pod) {
            "Pending" => {
                if let Some(message) = refused(pod) {
                    self.give_up(pod, &mut node, message);
                } else {
                    node.phase = Some(Phase::Pending);
                    node.message = pending_reason(pod);
                }
            }
            "Running" => node.phase = Some(Phase::Running),
            "Succeeded" => node.phase = Some(Phase::Succeeded),
            "Failed" => {
                let (phase, message) = failure(pod);
                let name = pod.name_any();
                let fields = [
                    ("displayName", old.display_name.as_str()),
                    ("message", message.as_str()),
                    ("pod", name.as_str()),
                    ("templateName", old.template_name.as_str()),
                ];
                self.log.info("Pod failed", &fields);
                (node.phase, node.message) = (Some(phase), message);
            }
            other => {
                node.message = format!("Unexpected pod phase for {}: {other}", pod.name_any());
                node.phase = Some(Phase::Error);
            }
        }
        node.host_node_name = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default();
        if node.progress.is_empty() {
            "0/1".clone_into(&mut node.progress);
        }
        if let Some(code) = exit_code(pod) {
            node.outputs.get_or_insert_with(Outputs::default).exit_code = Some(code.to_string());
        }
        self.look_at_executor(pod, old, &mut node);
        self.look_at_outputs(old, &mut node);
        let left_pending = old.phase == Some(Phase::Pending) && node.phase != Some(Phase::Pending);
        if left_pending && !node.is_bad() && old.message == node.message {
            node.message.clear();
        }
        self.log_change(old, &node);
        if node.is_fulfilled() && node.finished_at.is_none() {
            node.finished_at = latest_finish(pod, self.world.now);
            node.resources_duration = pod_resources(pod, self.world.now);
        }
        node
    }

    /// Ends the node of a pod that will never begin, since the embedded node has not what it asks for.
    fn give_up(&mut self, pod: &Pod, node: &mut Node, message: String) {
        self.actions.terminate.push(Arc::new(pod.clone()));
        (node.phase, node.message) = (Some(Phase::Error), message);
        // No container, no result.
        node.task_result_synced = node.task_result_synced.map(|_| true);
    }

    fn log_change(&self, old: &Node, node: &Node) {
        if old.phase != node.phase {
            let fields = [
                ("fromPhase", super::status::text(old.phase)),
                ("node", node.id.as_str()),
                ("toPhase", super::status::text(node.phase)),
            ];
            self.log.info("node phase changed", &fields);
        }
        if old.message != node.message && !node.message.is_empty() {
            self.log.info(
                "node message changed",
                &[
                    ("message", node.message.as_str()),
                    ("node", node.id.as_str()),
                ],
            );
        }
    }

    /// The executor may still be handing results over; when it failed, none will come.
    fn look_at_executor(&self, pod: &Pod, old: &Node, node: &mut Node) {
        let Some(wait) = container(pod, "wait").and_then(|status| status.state.as_ref()) else {
            return;
        };
        let completed = node.is_completed();
        if wait.running.is_some() && completed && phase(pod) != "Failed" {
            let fields = [("updated.phase", super::status::text(node.phase))];
            self.log.info(
                "leaving phase un-changed: aux container is not yet terminated ",
                &fields,
            );
            node.phase = old.phase;
        }
        if let Some(ended) = wait
            .terminated
            .as_ref()
            .filter(|ended| ended.exit_code != 0)
        {
            let (code, reason) = (
                ended.exit_code.to_string(),
                ended.reason.clone().unwrap_or_default(),
            );
            let fields = [
                ("container", "wait"),
                ("exitCode", code.as_str()),
                ("nodeID", node.id.as_str()),
                ("reason", reason.as_str()),
            ];
            self.log.warn(
                "marking its taskResult as completed since aux container did not exit normally",
                &fields,
            );
            node.task_result_synced = node.task_result_synced.map(|_| true);
        }
    }

    /// A success counts only once the outputs that its template promises are there.
    fn look_at_outputs(&self, old: &Node, node: &mut Node) {
        let wanted = self
            .spec
            .template(&node.template_name)
            .map(|template| &template["outputs"]["parameters"]);
        let wants = wanted
            .and_then(serde_json::Value::as_array)
            .is_some_and(|list| !list.is_empty());
        let has = node
            .outputs
            .as_ref()
            .is_some_and(|outputs| !outputs.parameters.is_empty());
        if node.phase == Some(Phase::Succeeded) && wants && !has {
            self.log.info(
                "leaving phase un-changed: required outputs are not yet set",
                &[("updated.phase", "Succeeded")],
            );
            node.phase = old.phase;
        }
    }

    /// Ends pods that a shutdown or the deadline does not leave alone.
    fn control(&mut self, id: &str, pod: &Arc<Pod>) {
        let Some(node) = self.by_id(id).filter(|node| !node.is_fulfilled()) else {
            return;
        };
        if !matches!(phase(pod), "Pending" | "Running") {
            return;
        }
        let name = node.name.clone();
        let is_exit_handler = pod.labels().contains_key(ON_EXIT_LABEL);
        let pod_name = pod.name_any();
        let message = match self.shutdown() {
            Some(strategy) if !self.may_execute(is_exit_handler) => {
                let fields = [
                    ("podName", pod_name.as_str()),
                    ("shutdownStrategy", strategy),
                ];
                self.log
                    .info("Terminating pod as part of workflow shutdown", &fields);
                format!("workflow shutdown with strategy:  {strategy}")
            }
            _ if self.is_past_deadline() && !is_exit_handler => {
                let fields = [("podName", pod_name.as_str())];
                self.log.info(
                    "Terminating pod which has exceeded workflow deadline",
                    &fields,
                );
                "Step exceeded its deadline".to_owned()
            }
            _ => return,
        };
        self.actions.terminate.push(Arc::clone(pod));
        self.mark(&name, Phase::Failed, Some(&message));
        // Its result may be half handed over; nobody waits for the rest.
        let now = self.now();
        if let Some(node) = self.node_mut(&name) {
            node.task_result_synced = node.task_result_synced.map(|_| true);
            node.finished_at.get_or_insert(Time(now));
        }
    }

    /// A node whose pod is gone is in error, unless the pod had not begun: then it is made again.
    fn judge_missing_pods(&mut self) {
        let missing: Vec<Node> = self
            .wf
            .status
            .nodes
            .values()
            .filter(|node| node.is_pod() && !node.is_fulfilled() && node.started_at.is_some())
            .filter(|node| !self.world.pods.contains_key(&node.id))
            .cloned()
            .collect();
        for node in missing {
            let fields = [
                ("nodeName", node.name.as_str()),
                ("nodePhase", super::status::text(node.phase)),
            ];
            self.log.info("Workflow pod is missing", &fields);
            if node.phase == Some(Phase::Pending) {
                continue;
            }
            // A node that had ended only waited for its result, which cannot come any more.
            if !node.is_completed() {
                self.mark_error(&node.name, "pod deleted");
            }
            let now = self.now();
            if let Some(node) = self.node_mut(&node.name) {
                node.task_result_synced = Some(true);
                node.finished_at.get_or_insert(Time(now));
            }
        }
    }

    /// Fails nodes that no pod stands for: waiting for a lock at a shutdown, pending at the deadline.
    pub(super) fn fail_nodes_without_pods(&mut self) {
        let open: Vec<Node> = self
            .wf
            .status
            .nodes
            .values()
            .filter(|node| !node.is_fulfilled())
            .cloned()
            .collect();
        for node in open {
            let is_exit_handler = self.is_part_of_exit_handler(&node);
            if let (Some(strategy), false) = (self.shutdown(), self.may_execute(is_exit_handler)) {
                let waits = node
                    .synchronization_status
                    .as_ref()
                    .is_some_and(|status| !status.waiting.is_empty());
                let idle = node.kind == NodeType::Retry
                    && self.children_fulfilled(&node.id)
                    && !node.children.is_empty();
                if (node.phase == Some(Phase::Pending) && waits) || idle {
                    let message = format!("Stopped with strategy '{strategy}'");
                    self.mark(&node.name, Phase::Failed, Some(&message));
                    continue;
                }
            }
            if self.is_past_deadline() && !is_exit_handler && node.phase == Some(Phase::Pending) {
                self.mark(
                    &node.name,
                    Phase::Failed,
                    Some("Step exceeded its deadline"),
                );
            }
        }
    }
}

fn statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status
        .as_ref()
        .and_then(|status| status.container_statuses.as_deref())
        .unwrap_or_default()
}

fn init_statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status
        .as_ref()
        .and_then(|status| status.init_container_statuses.as_deref())
        .unwrap_or_default()
}

fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    statuses(pod).iter().find(|status| status.name == name)
}

fn exit_code(pod: &Pod) -> Option<i32> {
    Some(
        container(pod, "main")?
            .state
            .as_ref()?
            .terminated
            .as_ref()?
            .exit_code,
    )
}

/// What the embedded node says of a pod that it will never run.
fn refused(pod: &Pod) -> Option<String> {
    statuses(pod).iter().find_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let message = waiting.message.as_ref()?;
        let never = waiting.reason.as_deref() == Some("CreateContainerConfigError")
            && message.starts_with(REFUSED);
        never.then(|| message.clone())
    })
}

/// Why a pod has not begun: what a container waits for, or that there is no place for it.
fn pending_reason(pod: &Pod) -> String {
    let joined = |reason: &str, message: Option<&str>| match message {
        Some(message) if !message.is_empty() => format!("{reason}: {message}"),
        _ => reason.to_owned(),
    };
    let waiting = statuses(pod)
        .iter()
        .find_map(|status| status.state.as_ref()?.waiting.as_ref());
    if let Some(waiting) = waiting {
        return joined(
            waiting.reason.as_deref().unwrap_or_default(),
            waiting.message.as_deref(),
        );
    }
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let unschedulable = conditions
        .iter()
        .find(|condition| condition.reason.as_deref() == Some("Unschedulable"));
    unschedulable
        .map(|condition| joined("Unschedulable", condition.message.as_deref()))
        .unwrap_or_default()
}

/// What a failed pod means: `main` counts before `wait`, `init` before both.
fn failure(pod: &Pod) -> (Phase, String) {
    let message = pod
        .status
        .as_ref()
        .and_then(|status| status.message.as_deref())
        .unwrap_or_default();
    if !message.is_empty() {
        return (Phase::Failed, message.to_owned());
    }
    let mut containers: Vec<&ContainerStatus> = statuses(pod).iter().collect();
    containers.sort_by_key(|status| match status.name.as_str() {
        "main" => 1,
        "wait" => 2,
        _ => 3,
    });
    let mut all: Vec<&ContainerStatus> = init_statuses(pod).iter().collect();
    all.extend(containers);
    if all.is_empty() {
        let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
        return (
            Phase::Failed,
            format!("can't find failed message for pod {name} namespace {namespace}"),
        );
    }
    all.iter()
        .find_map(|status| blame(status))
        .unwrap_or_else(|| nobody_to_blame(&all))
}

/// What one container says about its pod's failure.
fn blame(status: &ContainerStatus) -> Option<(Phase, String)> {
    let state = status.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let (reason, message) = (
            waiting.reason.as_deref().unwrap_or_default(),
            waiting.message.as_deref().unwrap_or_default(),
        );
        let name = &status.name;
        return Some((
            Phase::Error,
            format!("Pod failed before {name} container starts due to {reason}: {message}"),
        ));
    }
    let ended = state
        .terminated
        .as_ref()
        .filter(|ended| ended.exit_code != 0)?;
    let mut text = format!(
        "{}: {} (exit code {})",
        status.name,
        ended.reason.as_deref().unwrap_or_default(),
        ended.exit_code
    );
    if let Some(message) = ended
        .message
        .as_deref()
        .filter(|message| !message.is_empty())
    {
        text = format!("{text}: {message}");
    }
    match status.name.as_str() {
        "init" | "wait" => Some((Phase::Error, text)),
        "main" => Some((Phase::Failed, text)),
        // A sidecar that was told to end is nobody's failure.
        _ => (!matches!(ended.exit_code, 137 | 143)).then_some((Phase::Failed, text)),
    }
}

fn nobody_to_blame(all: &[&ContainerStatus]) -> (Phase, String) {
    let succeeded = |name: &str| {
        all.iter().any(|status| {
            let code = status
                .state
                .as_ref()
                .and_then(|state| state.terminated.as_ref())
                .map(|ended| ended.exit_code);
            status.name == name && code == Some(0)
        })
    };
    let text = match (succeeded("main"), succeeded("wait")) {
        (true, true) => return (Phase::Succeeded, String::new()),
        (true, false) => "pod failed: wait container did not complete successfully",
        (false, true) => "pod failed: main container did not complete successfully",
        (false, false) => "pod failed: neither main nor wait container completed successfully",
    };
    (Phase::Failed, text.to_owned())
}

/// When the last container ended; now, if one still runs.
fn latest_finish(pod: &Pod, now: Timestamp) -> Option<Time> {
    let states = init_statuses(pod)
        .iter()
        .chain(statuses(pod))
        .filter_map(|status| status.state.as_ref());
    let finish = |state: &ContainerState| match (&state.running, &state.terminated) {
        (Some(_), _) => Some(now),
        (None, Some(ended)) => ended.finished_at.as_ref().map(|time| time.0),
        (None, None) => None,
    };
    let latest = states.filter_map(finish).max().unwrap_or(now);
    Some(Time(seconds(latest)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: Value) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"name": "p", "namespace": "ns"}, "status": status}),
        )
        .expect("pod")
    }

    fn ended(name: &str, code: i32, message: &str) -> Value {
        let reason = if code == 0 { "Completed" } else { "Error" };
        json!({"name": name, "ready": false, "restartCount": 0, "image": "", "imageID": "",
               "state": {"terminated": {"exitCode": code, "reason": reason, "message": message}}})
    }

    fn judged(containers: &[Value]) -> (Phase, String) {
        failure(&pod(
            json!({"phase": "Failed", "containerStatuses": containers}),
        ))
    }

    #[test]
    fn main_counts_before_wait() {
        assert_eq!(
            judged(&[
                ended(
                    "wait",
                    64,
                    "workflowtaskresults.argoproj.io is forbidden: x"
                ),
                ended("main", 3, "")
            ]),
            (Phase::Failed, "main: Error (exit code 3)".into())
        );
        assert_eq!(
            judged(&[
                ended(
                    "wait",
                    64,
                    "workflowtaskresults.argoproj.io is forbidden: x"
                ),
                ended("main", 0, "")
            ]),
            (
                Phase::Error,
                "wait: Error (exit code 64): workflowtaskresults.argoproj.io is forbidden: x"
                    .into()
            )
        );
    }

    #[test]
    fn the_pods_own_message_counts_first() {
        let status = json!({"phase": "Failed", "message": "Pod was active on the node longer than the specified deadline", "containerStatuses": [ended("main", 1, "")]});
        assert_eq!(
            failure(&pod(status)).1,
            "Pod was active on the node longer than the specified deadline"
        );
    }

    #[test]
    fn a_container_that_never_began_is_an_error() {
        let waiting = json!({"name": "main", "ready": false, "restartCount": 0, "image": "", "imageID": "",
                             "state": {"waiting": {"reason": "PodInitializing", "message": "m"}}});
        let (phase, message) = judged(&[waiting]);
        assert_eq!(
            (phase, message.as_str()),
            (
                Phase::Error,
                "Pod failed before main container starts due to PodInitializing: m"
            )
        );
        let init = json!({"phase": "Failed", "initContainerStatuses": [ended("init", 1, "no")], "containerStatuses": []});
        assert_eq!(
            failure(&pod(init)),
            (Phase::Error, "init: Error (exit code 1): no".into())
        );
    }

    #[test]
    fn sidecars_that_were_told_to_end_do_not_count() {
        let all = [
            ended("main", 0, ""),
            ended("wait", 0, ""),
            ended("side", 143, ""),
        ];
        assert_eq!(judged(&all), (Phase::Succeeded, String::new()));
        assert_eq!(
            judged(&[ended("main", 0, "")]).1,
            "pod failed: wait container did not complete successfully"
        );
        assert_eq!(
            judged(&[]).1,
            "can't find failed message for pod p namespace ns"
        );
    }

    #[test]
    fn a_pending_pod_says_why() {
        let status = json!({"phase": "Pending", "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "", "imageID": "",
            "state": {"waiting": {"reason": "ErrImagePull", "message": "unknown image"}}}]});
        assert_eq!(pending_reason(&pod(status)), "ErrImagePull: unknown image");
        let status = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]});
        assert_eq!(
            pending_reason(&pod(status)),
            "Unschedulable: 0/1 nodes are available"
        );
        assert_eq!(pending_reason(&pod(json!({}))), "");
    }
}
