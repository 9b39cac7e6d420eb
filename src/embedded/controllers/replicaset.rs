//! Keeps as many pods of a ReplicaSet as it asks for, as `replicaset-controller`.
//!
//! Pods belong to a ReplicaSet by owner reference; it takes pods without a controller that its selector picks, and lets go
//! of those that it no longer picks.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::adoption::{Claim, enqueue_takers, index_by_owner};
use super::runtime::error::{is_not_found, message};
use super::runtime::events::{EventType, Recorder};
use super::runtime::informer::Source;
use super::runtime::objects::{
    age, controller_of, controller_ref, is_active, is_ready, now, phase, ready_since, reference_to,
};
use super::runtime::{
    Change, Informer, Next, ObjectKey, Reconcile, ReconcileError, Result, Tasks, WorkQueue,
};

struct ReplicaSets {
    client: Client,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
    events: Recorder,
}

/// Starts the controller.
pub(super) fn start(client: &Client, tasks: &mut Tasks, cancel: &CancellationToken) {
    let queue = Arc::new(WorkQueue::new());
    let sets = {
        let queue = Arc::clone(&queue);
        Source::new(Api::all(client.clone()))
            .on_change(move |change| queue.add(change.key.clone()))
            .start(tasks, cancel)
    };
    let pods = {
        let (queue, sets): (_, Informer<ReplicaSet>) = (Arc::clone(&queue), sets.clone());
        Source::new(Api::all(client.clone()))
            .indexed(index_by_owner)
            .on_change(move |change| {
                enqueue_owner(change, "ReplicaSet", &queue);
                enqueue_takers(change, &sets.cache, |set| &set.spec.selector, &queue);
            })
            .start(tasks, cancel)
    };
    let events = Recorder::start(client.clone(), "replicaset-controller", tasks, cancel);
    let synced = {
        let (sets, pods) = (sets.clone(), pods.clone());
        async move { futures::join!(sets.synced(), pods.synced()) }
    };
    let controller = Arc::new(ReplicaSets {
        client: client.clone(),
        sets,
        pods,
        events,
    });
    tasks.workers(&controller, &queue, 2, cancel, async {
        let _ = synced.await;
    });
}

/// Adds the key of the controller of a changed object, if it is of `kind`.
pub(super) fn enqueue_owner<K: kube::Resource>(
    change: &Change<K>,
    kind: &str,
    queue: &WorkQueue<ObjectKey>,
) {
    for object in change.sides() {
        if let Some(owner) = controller_of(&**object).filter(|owner| owner.kind == kind) {
            queue.add(ObjectKey::new(
                change.key.namespace.clone(),
                owner.name.clone(),
            ));
        }
    }
}

impl Reconcile for ReplicaSets {
    type Key = ObjectKey;

    fn name(&self) -> &'static str {
        "replicaset"
    }

    async fn reconcile(&self, key: ObjectKey) -> Result<Next> {
        let Some(set) = self.sets.cache.get(&key) else {
            return Ok(Next::Done);
        };
        let uid = set.uid().unwrap_or_default();
        let failure = if set.metadata.deletion_timestamp.is_none() {
            let claim = Claim {
                client: &self.client,
                owner: &*set,
                selector: &set.spec.selector,
                cache: &self.pods.cache,
            };
            claim.run().await?;
            self.scale(&set, &uid).await.err()
        } else {
            None
        };
        let pods = self.active(&uid);
        let (status, again) = status_of(&set, &pods, failure.as_ref());
        self.write_status(&set, status).await?;
        match failure {
            Some(error) => Err(error),
            None => Ok(again.map_or(Next::Done, Next::After)),
        }
    }
}

impl ReplicaSets {
    fn active(&self, uid: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.cache.by_index(uid);
        pods.retain(|pod| is_active(pod));
        pods
    }

    async fn scale(&self, set: &ReplicaSet, uid: &str) -> Result<()> {
        let wanted = usize::try_from(replicas(set)).unwrap_or(0);
        let mut pods = self.active(uid);
        for _ in pods.len()..wanted {
            self.create_pod(set).await?;
        }
        if pods.len() > wanted {
            pods.sort_by_key(|pod| first_to_go(pod));
            let surplus = pods.len() - wanted;
            for pod in pods.iter().take(surplus) {
                self.delete_pod(set, pod).await?;
            }
        }
        Ok(())
    }

    async fn create_pod(&self, set: &ReplicaSet) -> Result<()> {
        let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
        let template = set.spec.template.clone().unwrap_or_default();
        let meta = template.metadata.unwrap_or_default();
        let pod = Pod {
            metadata: ObjectMeta {
                generate_name: Some(format!("{name}-")),
                namespace: Some(namespace.clone()),
                labels: meta.labels,
                annotations: meta.annotations,
                finalizers: meta.finalizers,
                owner_references: Some(vec![controller_ref(set, &())]),
                ..ObjectMeta::default()
            },
            spec: template.spec,
            status: None,
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        match api.create(&PostParams::default(), &pod).await {
            Ok(created) => {
                let text = format!("Created pod: {}", created.name_any());
                self.events.event(
                    reference_to(set, &()),
                    EventType::Normal,
                    "SuccessfulCreate",
                    &text,
                );
                self.pods.cache.upsert(created);
                Ok(())
            }
            Err(error) => {
                let text = format!("Error creating: {}", message(&error));
                self.events.event(
                    reference_to(set, &()),
                    EventType::Warning,
                    "FailedCreate",
                    &text,
                );
                Err(ReconcileError::api(format!(
                    "create a pod of replica set {namespace}/{name}"
                ))(error))
            }
        }
    }

    async fn delete_pod(&self, set: &ReplicaSet, pod: &Pod) -> Result<()> {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let only_this = Preconditions {
            uid: pod.uid(),
            resource_version: None,
        };
        match api
            .delete(&name, &DeleteParams::default().preconditions(only_this))
            .await
            .map(|answer| answer.left())
        {
            Ok(Some(terminating)) => drop(self.pods.cache.upsert(terminating)),
            Ok(None) => drop(self.pods.cache.remove(pod)),
            Err(error) if is_not_found(&error) => drop(self.pods.cache.remove(pod)),
            Err(error) => {
                return Err(ReconcileError::api(format!(
                    "delete pod {namespace}/{name}"
                ))(error));
            }
        }
        let text = format!("Deleted pod: {name}");
        self.events.event(
            reference_to(set, &()),
            EventType::Normal,
            "SuccessfulDelete",
            &text,
        );
        Ok(())
    }

    async fn write_status(&self, set: &ReplicaSet, status: ReplicaSetStatus) -> Result<()> {
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &namespace);
        let next = ReplicaSet {
            status: Some(status),
            ..set.clone()
        };
        match api
            .replace_status(&name, &PostParams::default(), &next)
            .await
        {
            Ok(written) => drop(self.sets.cache.upsert(written)),
            Err(error) if is_not_found(&error) => {}
            Err(error) => {
                return Err(ReconcileError::api(format!(
                    "update status of replica set {namespace}/{name}"
                ))(error));
            }
        }
        Ok(())
    }
}

/// How many pods a ReplicaSet asks for.
pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

/// Unassigned pods go first, then pending, unready, and young ones.
fn first_to_go(pod: &Pod) -> (bool, u8, bool, Reverse<Option<Timestamp>>) {
    let assigned = pod
        .spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.is_some());
    let order = match phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    (
        assigned,
        order,
        is_ready(pod),
        Reverse(pod.creation_timestamp().map(|time| time.0)),
    )
}

/// The status, and when a pod becomes available by the mere passing of time.
fn status_of(
    set: &ReplicaSet,
    pods: &[Arc<Pod>],
    failure: Option<&ReconcileError>,
) -> (ReplicaSetStatus, Option<Duration>) {
    let spec = &set.spec;
    let min_ready = Duration::from_secs(
        spec.min_ready_seconds
            .unwrap_or(0)
            .max(0)
            .unsigned_abs()
            .into(),
    );
    let template = spec.template.as_ref();
    let labels = template.and_then(|template| template.metadata.as_ref()?.labels.as_ref());
    let (mut full, mut ready, mut available, mut again) = (0, 0, 0, None::<Duration>);
    for pod in pods {
        full += i32::from(labels.is_none_or(|labels| {
            labels
                .iter()
                .all(|(key, value)| pod.labels().get(key) == Some(value))
        }));
        let Some(since) = ready_since(pod) else {
            continue;
        };
        ready += 1;
        let left = min_ready.saturating_sub(age(&since, Timestamp::now()));
        if left.is_zero() {
            available += 1;
        } else {
            again = Some(again.map_or(left, |other| other.min(left)));
        }
    }
    let some = |count: i32| (count != 0).then_some(count);
    let status = ReplicaSetStatus {
        replicas: i32::try_from(pods.len()).unwrap_or(i32::MAX),
        fully_labeled_replicas: some(full),
        ready_replicas: some(ready),
        available_replicas: some(available),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, failure),
        ..ReplicaSetStatus::default()
    };
    (status, again)
}

fn conditions(
    set: &ReplicaSet,
    failure: Option<&ReconcileError>,
) -> Option<Vec<ReplicaSetCondition>> {
    let ReconcileError::Api { source, .. } = failure? else {
        return None;
    };
    let text = message(source);
    let present = set
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref())
        .into_iter()
        .flatten();
    let since = present.into_iter().find(|one| {
        one.type_.as_deref() == Some("ReplicaFailure") && one.status.as_deref() == Some("True")
    });
    Some(vec![ReplicaSetCondition {
        type_: Some("ReplicaFailure".into()),
        status: Some("True".into()),
        reason: Some("FailedCreate".into()),
        message: Some(text),
        last_transition_time: Some(
            since
                .and_then(|one| one.last_transition_time.clone())
                .unwrap_or_else(now),
        ),
    }])
}
