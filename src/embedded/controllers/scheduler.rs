//! Binds pods to a node through `pods/binding`, as user `system:kube-scheduler`.
//!
//! Looked at: `nodeSelector`, cordoned nodes, taints of effect `NoSchedule` and `NoExecute`. Not looked at:
//! resource requests, affinity, spread constraints, preemption (the embedded cluster has one node).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Binding, Node, ObjectReference, Pod, PodCondition, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::runtime::error::{is_conflict, is_not_found};
use super::runtime::events::{EventType, Recorder};
use super::runtime::informer::Source;
use super::runtime::objects::{is_active, now, reference_to};
use super::runtime::{
    Informer, Next, ObjectKey, Reconcile, ReconcileError, Result, Tasks, WorkQueue,
};

/// Pods that name no other scheduler are this one's.
const SCHEDULER: &str = "default-scheduler";

struct Scheduler {
    client: Client,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    events: Recorder,
}

/// Starts the scheduler.
pub(super) fn start(client: &Client, tasks: &mut Tasks, cancel: &CancellationToken) {
    let queue = Arc::new(WorkQueue::new());
    let pods = watch_pods(client, &queue, tasks, cancel);
    let nodes = watch_nodes(client, &queue, &pods, tasks, cancel);
    let events = Recorder::start(client.clone(), SCHEDULER, tasks, cancel);
    let synced = {
        let (pods, nodes) = (pods.clone(), nodes.clone());
        async move { futures::join!(pods.synced(), nodes.synced()) }
    };
    let scheduler = Arc::new(Scheduler {
        client: client.clone(),
        pods,
        nodes,
        events,
    });
    tasks.workers(&scheduler, &queue, 2, cancel, async {
        let _ = synced.await;
    });
}

fn watch_pods(
    client: &Client,
    queue: &Arc<WorkQueue<ObjectKey>>,
    tasks: &mut Tasks,
    cancel: &CancellationToken,
) -> Informer<Pod> {
    let queue = Arc::clone(queue);
    Source::new(Api::all(client.clone()))
        .on_change(move |change| {
            if change.new.as_ref().is_some_and(|pod| waits(pod)) {
                queue.add(change.key.clone());
            }
        })
        .start(tasks, cancel)
}

/// A node that changed may take pods that had no place before.
fn watch_nodes(
    client: &Client,
    queue: &Arc<WorkQueue<ObjectKey>>,
    pods: &Informer<Pod>,
    tasks: &mut Tasks,
    cancel: &CancellationToken,
) -> Informer<Node> {
    let (queue, pods) = (Arc::clone(queue), pods.clone());
    Source::new(Api::all(client.clone()))
        .on_change(move |_| {
            pods.cache
                .all()
                .iter()
                .filter(|pod| waits(pod))
                .for_each(|pod| queue.add(ObjectKey::of(&**pod)));
        })
        .start(tasks, cancel)
}

/// Whether a pod waits for this scheduler.
fn waits(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    spec.node_name.as_deref().unwrap_or_default().is_empty()
        && is_active(pod)
        && spec.scheduler_name.as_deref().unwrap_or(SCHEDULER) == SCHEDULER
        && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
}

impl Reconcile for Scheduler {
    type Key = ObjectKey;

    fn name(&self) -> &'static str {
        "scheduler"
    }

    async fn reconcile(&self, key: ObjectKey) -> Result<Next> {
        let Some(pod) = self.pods.cache.get(&key).filter(|pod| waits(pod)) else {
            return Ok(Next::Done);
        };
        match place(&pod, &self.nodes.cache.all()) {
            Ok(node) => self.bind(&pod, &node).await?,
            Err(why) => self.mark_unschedulable(&pod, &why).await?,
        }
        Ok(Next::Done)
    }
}

impl Scheduler {
    async fn bind(&self, pod: &Pod, node: &str) -> Result<()> {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                uid: pod.uid(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".into()),
                name: Some(node.into()),
                ..ObjectReference::default()
            },
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let answer: Result<serde_json::Value, _> = api
            .create_subresource("binding", &name, &PostParams::default(), &binding)
            .await;
        match answer {
            Ok(_) => {
                let text = format!("Successfully assigned {namespace}/{name} to {node}");
                self.events.event(
                    reference_to(pod, &()),
                    EventType::Normal,
                    "Scheduled",
                    &text,
                );
                Ok(())
            }
            // Gone, or bound already: what the watch says next decides.
            Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
            Err(error) => Err(ReconcileError::api(format!(
                "bind pod {namespace}/{name} to {node}"
            ))(error)),
        }
    }

    async fn mark_unschedulable(&self, pod: &Pod, why: &str) -> Result<()> {
        let mut conditions = pod
            .status
            .as_ref()
            .and_then(|status| status.conditions.clone())
            .unwrap_or_default();
        let is_scheduled = |condition: &PodCondition| condition.type_ == "PodScheduled";
        if conditions
            .iter()
            .any(|condition| is_scheduled(condition) && condition.message.as_deref() == Some(why))
        {
            return Ok(());
        }
        conditions.retain(|condition| !is_scheduled(condition));
        conditions.push(PodCondition {
            type_: "PodScheduled".into(),
            status: "False".into(),
            reason: Some("Unschedulable".into()),
            message: Some(why.into()),
            last_transition_time: Some(now()),
            ..PodCondition::default()
        });
        let api: Api<Pod> =
            Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let patch = json!({
            "metadata": {"resourceVersion": pod.resource_version()},
            "status": {"conditions": conditions},
        });
        let name = pod.name_any();
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(ReconcileError::api(format!(
                "mark pod {name} unschedulable"
            )))?;
        self.events.event(
            reference_to(pod, &()),
            EventType::Warning,
            "FailedScheduling",
            why,
        );
        Ok(())
    }
}

/// The node for a pod, or the scheduler's sentence why there is none.
fn place(pod: &Pod, nodes: &[Arc<Node>]) -> std::result::Result<String, String> {
    if nodes.is_empty() {
        return Err("no nodes available to schedule pods".into());
    }
    let mut reasons: Vec<String> = Vec::new();
    for node in nodes {
        match obstacle(pod, node) {
            None => return Ok(node.name_any()),
            Some(reason) => reasons.push(reason),
        }
    }
    let (all, each) = (nodes.len(), counted(&reasons));
    Err(format!(
        "0/{all} nodes are available: {each}. preemption: 0/{all} nodes are available: {all} Preemption is not helpful for scheduling."
    ))
}

/// Equal reasons with their number, in order of the text.
fn counted(reasons: &[String]) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_insert(0_usize) += 1;
    }
    let each: Vec<String> = counts
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    each.join(", ")
}

fn obstacle(pod: &Pod, node: &Node) -> Option<String> {
    let (pod, spec) = (pod.spec.as_ref()?, node.spec.as_ref());
    if spec.and_then(|spec| spec.unschedulable) == Some(true) {
        return Some("node(s) were unschedulable".into());
    }
    let wanted = pod.node_selector.iter().flatten();
    if !wanted
        .into_iter()
        .all(|(key, value)| node.labels().get(key) == Some(value))
    {
        return Some("node(s) didn't match Pod's node affinity/selector".into());
    }
    let taints = spec
        .and_then(|spec| spec.taints.as_ref())
        .into_iter()
        .flatten();
    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    let repels = |taint: &&Taint| {
        taint.effect != "PreferNoSchedule" && !tolerations.iter().any(|one| tolerates(one, taint))
    };
    let taint = taints.into_iter().find(repels)?;
    Some(format!(
        "node(s) had untolerated taint {{{}: {}}}",
        taint.key,
        taint.value.as_deref().unwrap_or_default()
    ))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    let value = toleration.value.as_deref().unwrap_or_default()
        == taint.value.as_deref().unwrap_or_default();
    (effect.is_empty() || effect == taint.effect)
        && ((key.is_empty() && exists) || key == taint.key)
        && (exists || value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(json: &str) -> Vec<Arc<Node>> {
        vec![Arc::new(serde_json::from_str(json).expect("node"))]
    }

    fn pod(json: &str) -> Pod {
        serde_json::from_str(json).expect("pod")
    }

    #[test]
    fn a_free_node_takes_the_pod() {
        let nodes = node(r#"{"metadata":{"name":"n","labels":{"zone":"a"}}}"#);
        assert_eq!(
            place(
                &pod(r#"{"spec":{"containers":[],"nodeSelector":{"zone":"a"}}}"#),
                &nodes
            ),
            Ok("n".into())
        );
    }

    #[test]
    fn the_reason_names_what_is_in_the_way() {
        let plain = pod(r#"{"spec":{"containers":[]}}"#);
        let why = |nodes: &str| place(&plain, &node(nodes)).expect_err("no place");
        assert_eq!(
            place(&plain, &[]),
            Err("no nodes available to schedule pods".into())
        );
        let cordoned = why(r#"{"spec":{"unschedulable":true}}"#);
        assert!(
            cordoned
                .starts_with("0/1 nodes are available: 1 node(s) were unschedulable. preemption:"),
            "{cordoned}"
        );
        let tainted = r#"{"spec":{"taints":[{"key":"lab","effect":"NoSchedule"}]}}"#;
        assert!(why(tainted).contains("1 node(s) had untolerated taint {lab: }"));
        let tolerant = pod(r#"{"spec":{"containers":[],"tolerations":[{"operator":"Exists"}]}}"#);
        assert!(place(&tolerant, &node(tainted)).is_ok());
    }
}
