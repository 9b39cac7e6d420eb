//! The workflow controller: Argo Workflows 4.1 for container and steps templates, as `system:serviceaccount:argo:argo`.
//!
//! [`Controller`] is the shell: it looks into its caches, has an [`operation::Operation`] decide, makes the pods
//! that it wants, and writes the Workflow. Nothing below decides by asking the API, so a pass can be tested
//! alone. What is not executed is refused aloud ([`unsupported`]).
//!
//! Where the real controller waits 10 s before it looks at a changed pod, this one looks at once.

mod arguments;
mod cleanup;
mod globals;
mod judge;
mod locks;
pub mod log;
mod merge;
mod nodes;
mod operation;
mod persist;
mod pods;
mod progress;
mod results;
mod retry;
mod spec;
mod status;
mod steps;
mod substitute;
mod template;
#[cfg(test)]
mod tests;
mod unsupported;
mod validate;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Pod};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::cleanup::{Cleaner, CleanupKey};
use self::locks::Locks;
use self::operation::{Actions, Operation, PodPlan, Submission, Workflow, World};
use self::pods::{NODE_ID, WORKFLOW_LABEL};
use self::spec::Spec;
use super::runtime::error::{is_already_exists, is_conflict, is_not_found, is_transient, message};
use super::runtime::events::Recorder;
use super::runtime::informer::Source;
use super::runtime::objects::phase;
use super::runtime::{
    Change, Informer, Next, ObjectKey, Reconcile, ReconcileError, Result, Tasks, WorkQueue,
};
use super::settings::Settings;
use crate::kinds;

/// Deepest nesting of templates.
const MAX_DEPTH: usize = 100;
const TOO_DEEP: &str = "Maximum recursion depth exceeded. See https://argo-workflows.readthedocs.io/en/latest/scaling/#maximum-recursion-depth";
/// How often one pass may ask for pods again after some were made or refused.
const MAX_ROUNDS: usize = 20;
/// Wait before a pod is tried again that could not be made for now.
const POSTPONED: Duration = Duration::from_millis(500);

type Queue = Arc<WorkQueue<ObjectKey>>;
/// Since when pods are seen to be deleted, by uid.
type Deleting = Arc<Mutex<HashMap<String, Instant>>>;

struct Controller {
    client: Client,
    workflows: Informer<DynamicObject>,
    templates: Informer<DynamicObject>,
    results: Informer<DynamicObject>,
    pods: Informer<Pod>,
    config_maps: Informer<ConfigMap>,
    locks: Arc<Locks>,
    cleanup: Arc<WorkQueue<CleanupKey>>,
    deleting: Deleting,
    events: Recorder,
    settings: Settings,
}

/// Starts the controller.
pub(super) fn start(
    client: &Client,
    settings: &Settings,
    tasks: &mut Tasks,
    cancel: &CancellationToken,
) {
    let queue = Queue::default();
    let locks = Arc::new(Locks::new({
        let queue = Arc::clone(&queue);
        move |key| queue.add(key)
    }));
    let deleting = Deleting::default();
    let controller = Arc::new(Controller {
        client: client.clone(),
        workflows: watch_workflows(client, &queue, &locks, tasks, cancel),
        templates: Source::new(Api::all_with(client.clone(), &kinds::workflow_template()))
            .start(tasks, cancel),
        results: watch_results(client, &queue, tasks, cancel),
        pods: watch_pods(client, &queue, &deleting, tasks, cancel),
        config_maps: Source::new(Api::all(client.clone())).start(tasks, cancel),
        locks,
        cleanup: Arc::new(WorkQueue::new()),
        deleting,
        events: Recorder::start(client.clone(), "workflow-controller", tasks, cancel),
        settings: settings.clone(),
    });
    let cleaner = Arc::new(Cleaner {
        client: client.clone(),
        pods: controller.pods.clone(),
        termination_grace: settings.termination_grace,
    });
    let pods = controller.pods.clone();
    tasks.workers(&cleaner, &controller.cleanup, 2, cancel, async move {
        pods.synced().await
    });
    let ready = Arc::clone(&controller);
    tasks.workers(
        &controller,
        &queue,
        settings.workflow_workers,
        cancel,
        async move { ready.ready().await },
    );
}

fn watch_workflows(
    client: &Client,
    queue: &Queue,
    locks: &Arc<Locks>,
    tasks: &mut Tasks,
    cancel: &CancellationToken,
) -> Informer<DynamicObject> {
    let (queue, locks) = (Arc::clone(queue), Arc::clone(locks));
    Source::new(Api::all_with(client.clone(), &kinds::workflow()))
        .on_change(move |change| {
            let uid = |object: &Option<Arc<DynamicObject>>| {
                object.as_ref().and_then(|object| object.uid())
            };
            if change.old.is_some() && uid(&change.old) != uid(&change.new) {
                locks.release(&change.key.to_string(), true);
            }
            queue.add(change.key.clone());
        })
        .start(tasks, cancel)
}

fn watch_results(
    client: &Client,
    queue: &Queue,
    tasks: &mut Tasks,
    cancel: &CancellationToken,
) -> Informer<DynamicObject> {
    let queue = Arc::clone(queue);
    Source::new(Api::all_with(
        client.clone(),
        &kinds::workflow_task_result(),
    ))
    .indexed(|result: &DynamicObject| {
        workflow_of(result)
            .map(|key| key.to_string())
            .into_iter()
            .collect()
    })
    .on_change(move |change| enqueue_workflow(change, &queue))
    .start(tasks, cancel)
}

fn watch_pods(
    client: &Client,
    queue: &Queue,
    deleting: &Deleting,
    tasks: &mut Tasks,
    cancel: &CancellationToken,
) -> Informer<Pod> {
    let (queue, deleting) = (Arc::clone(queue), Arc::clone(deleting));
    Source::new(Api::all(client.clone()))
        .labels(WORKFLOW_LABEL)
        .indexed(|pod: &Pod| {
            workflow_of(pod)
                .map(|key| key.to_string())
                .into_iter()
                .collect()
        })
        .on_change(move |change| {
            if let (Some(old), None) = (&change.old, &change.new) {
                let mut deleting = deleting.lock().unwrap_or_else(PoisonError::into_inner);
                deleting.remove(&old.uid().unwrap_or_default());
            }
            enqueue_workflow(change, &queue);
        })
        .start(tasks, cancel)
}

/// The Workflow that a pod or a task result belongs to, by its label.
fn workflow_of<K: kube::Resource>(object: &K) -> Option<ObjectKey> {
    let name = object.labels().get(WORKFLOW_LABEL)?;
    Some(ObjectKey::new(
        object.namespace().unwrap_or_default(),
        name.clone(),
    ))
}

fn enqueue_workflow<K: kube::Resource>(change: &Change<K>, queue: &Queue) {
    change
        .sides()
        .filter_map(|object| workflow_of(&**object))
        .for_each(|key| queue.add(key));
}

impl Reconcile for Controller {
    type Key = ObjectKey;

    fn name(&self) -> &'static str {
        "workflow"
    }

    async fn reconcile(&self, key: ObjectKey) -> Result<Next> {
        let Some(object) = self.workflows.cache.get(&key) else {
            return Ok(Next::Done);
        };
        let before = match Workflow::from_object(&object) {
            Ok(workflow) => workflow,
            Err(error) => {
                tracing::error!(target: log::TARGET, "workflow {key} is left alone: its status cannot be read: {error}");
                return Ok(Next::Done);
            }
        };
        if before.meta.deletion_timestamp.is_some() {
            return Ok(Next::Done);
        }
        if before
            .meta
            .labels
            .as_ref()
            .and_then(|labels| labels.get(operation::COMPLETED_LABEL))
            .is_some_and(|value| value == "true")
        {
            return self.look_after_completed(&key, &before).await;
        }
        let (after, spec, actions) = self.operate(&key, before.clone()).await;
        let written = if after == before {
            after
        } else {
            self.write(&key, &before, after).await?
        };
        self.follow_up(&key, &written, &spec, actions).await
    }
}

impl Controller {
    /// Waits for the caches, then takes the locks that Workflows hold.
    async fn ready(&self) {
        futures::join!(
            self.workflows.synced(),
            self.templates.synced(),
            self.results.synced(),
            self.pods.synced(),
            self.config_maps.synced()
        );
        for object in self.workflows.cache.all() {
            if let Ok(workflow) = Workflow::from_object(&object) {
                self.locks.restore(&workflow);
            }
        }
    }

    /// Has a pass decide, and makes the pods that it wants.
    async fn operate(&self, key: &ObjectKey, before: Workflow) -> (Workflow, Spec, Actions) {
        let namespace = key.namespace.clone();
        let find_template = |name: &str| {
            let found = self
                .templates
                .cache
                .get(&ObjectKey::new(namespace.clone(), name))?;
            Some(found.data["spec"].clone())
        };
        let config_map =
            |namespace: &str, name: &str, key: &str| self.config_map(namespace, name, key);
        let pods = self.pods.cache.by_index(&key.to_string());
        let world = World {
            on_hold: self.on_hold(&pods),
            pods: pods
                .into_iter()
                .filter_map(|pod| Some((pod.annotations().get(NODE_ID)?.clone(), pod)))
                .collect(),
            results: self
                .results
                .cache
                .by_index(&key.to_string())
                .into_iter()
                .map(|one| (one.name_any(), one))
                .collect(),
            find_template: &find_template,
            config_map: &config_map,
            locks: &self.locks,
            pod_gc_delay: self.settings.pod_gc_delay,
            now: Timestamp::now(),
        };
        let mut operation = Operation::new(before.clone(), &world);
        operation.begin();
        for _ in 0..MAX_ROUNDS {
            let plans = operation.execute();
            if plans.is_empty() {
                break;
            }
            for plan in plans {
                let submission = self.create_pod(&operation, &plan).await;
                if matches!(submission, Submission::Postponed(_)) {
                    operation.look_again(POSTPONED);
                }
                operation.submitted(&plan.node, submission);
            }
        }
        operation.finish(&before)
    }

    fn config_map(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> std::result::Result<String, String> {
        let found = self.config_maps.cache.get(&ObjectKey::new(namespace, name));
        let found = found.ok_or_else(|| format!("configmap '{name}' not found"))?;
        let value = found.data.as_ref().and_then(|data| data.get(key));
        value
            .cloned()
            .ok_or_else(|| format!("configmap '{name}' does not have the key '{key}'"))
    }

    /// Failed pods on their way out: who looks a moment later finds them gone.
    fn on_hold(&self, pods: &[Arc<Pod>]) -> BTreeMap<String, Duration> {
        let mut deleting = self.deleting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = BTreeMap::new();
        for pod in pods
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_some() && phase(pod) == "Failed")
        {
            let uid = pod.uid().unwrap_or_default();
            let since = deleting.entry(uid.clone()).or_insert_with(Instant::now);
            let left = self
                .settings
                .deleted_pod_grace
                .saturating_sub(since.elapsed());
            if !left.is_zero() {
                held.insert(uid, left);
            }
        }
        held
    }

    async fn create_pod(&self, operation: &Operation<'_>, plan: &PodPlan) -> Submission {
        let (namespace, name) = (
            plan.pod.namespace().unwrap_or_default(),
            plan.pod.name_any(),
        );
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let made = match api.create(&PostParams::default(), &plan.pod).await {
            // Names are made from the node's: a pod that is there is this node's, seen late.
            Err(error) if is_already_exists(&error) => {
                operation.log.info(
                    "Failed pod creation: already exists",
                    &[("podName", name.as_str())],
                );
                api.get(&name).await
            }
            made => {
                if made.is_ok() {
                    operation
                        .log
                        .info("Created pod", &[("podName", name.as_str())]);
                }
                made
            }
        };
        match made {
            Ok(pod) => {
                self.pods.cache.upsert(pod);
                Submission::Created
            }
            Err(error) if is_transient(&error) => Submission::Postponed(message(&error)),
            Err(error) => {
                let text = message(&error);
                operation.log.info(
                    "Failed to create pod",
                    &[("error", text.as_str()), ("podName", name.as_str())],
                );
                Submission::Refused(text)
            }
        }
    }

    async fn write(&self, key: &ObjectKey, before: &Workflow, after: Workflow) -> Result<Workflow> {
        let api = Api::namespaced_with(self.client.clone(), &key.namespace, &kinds::workflow());
        match persist::persist(&api, key, before, &after).await? {
            Some(object) => {
                let written = Workflow::from_object(&object).map_err(ReconcileError::Malformed)?;
                self.workflows.cache.upsert(object);
                Ok(written)
            }
            None => Ok(after),
        }
    }

    /// Everything that must not happen before the Workflow is written.
    async fn follow_up(
        &self,
        key: &ObjectKey,
        written: &Workflow,
        spec: &Spec,
        actions: Actions,
    ) -> Result<Next> {
        for note in actions.notes {
            let regarding = reference(written);
            self.events.annotated(
                regarding,
                note.kind,
                &note.reason,
                &note.message,
                note.annotations,
            );
        }
        for holder in actions.release {
            let whole_workflow = holder.matches('/').count() == 1;
            self.locks.release(&holder, whole_workflow);
        }
        for pod in actions.terminate {
            self.cleanup.add(CleanupKey::Terminate(
                ObjectKey::of(&*pod),
                pod.uid().unwrap_or_default(),
            ));
        }
        self.clean_pods(key, written, spec);
        if written.status.is_fulfilled() {
            self.delete_results(key).await;
            return Ok(self
                .expires_in(written, spec)
                .map_or(Next::Done, Next::After));
        }
        Ok(actions.again.map_or(Next::Done, Next::After))
    }

    /// Queues what `podGC` asks for the pods of nodes that are done with.
    fn clean_pods(&self, key: &ObjectKey, workflow: &Workflow, spec: &Spec) {
        let delay = spec
            .pod_gc
            .as_ref()
            .and_then(cleanup::gc_delay)
            .unwrap_or(self.settings.pod_gc_delay);
        for pod in self.pods.cache.by_index(&key.to_string()) {
            let node = pod
                .annotations()
                .get(NODE_ID)
                .and_then(|id| workflow.status.nodes.get(id));
            if !node.is_some_and(status::Node::is_fulfilled) {
                continue;
            }
            let key = ObjectKey::of(&*pod);
            match cleanup::action(spec.pod_gc.as_ref(), &pod, workflow.status.phase) {
                cleanup::Action::None => {}
                cleanup::Action::Label => self.cleanup.add(CleanupKey::LabelCompleted(key)),
                cleanup::Action::Delete => {
                    self.cleanup.add_after(
                        CleanupKey::Delete(key, pod.uid().unwrap_or_default()),
                        delay,
                    );
                }
            }
        }
    }

    async fn delete_results(&self, key: &ObjectKey) {
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &key.namespace,
            &kinds::workflow_task_result(),
        );
        let of_workflow = ListParams::default().labels(&format!("{WORKFLOW_LABEL}={}", key.name));
        if let Err(error) = api
            .delete_collection(&DeleteParams::background(), &of_workflow)
            .await
        {
            let log = log::Log::new(&key.namespace, &key.name);
            log.warn(
                "failed to delete task-results",
                &[("error", message(&error).as_str())],
            );
        }
    }

    /// How long a completed Workflow still stays, by its `ttlStrategy`.
    fn expires_in(&self, workflow: &Workflow, spec: &Spec) -> Option<Duration> {
        let finished = workflow.status.finished_at.as_ref()?.0;
        let ttl = cleanup::time_to_live(spec.ttl_strategy?, workflow.status.phase?)?;
        let expires = finished.checked_add(ttl).ok()?;
        let left = Duration::try_from(expires.duration_since(Timestamp::now())).unwrap_or_default();
        // Times are kept to the second: a second more is surely enough.
        Some(left + Duration::from_secs(1))
    }

    /// A completed Workflow is only ever cleaned up after, and deleted when its time is over.
    async fn look_after_completed(&self, key: &ObjectKey, workflow: &Workflow) -> Result<Next> {
        let executed = workflow
            .status
            .stored_workflow_template_spec
            .as_ref()
            .unwrap_or(&workflow.spec);
        let spec: Spec = serde_json::from_value(spec::without_nulls(executed)).unwrap_or_default();
        self.clean_pods(key, workflow, &spec);
        let Some(left) = self.expires_in(workflow, &spec) else {
            return Ok(Next::Done);
        };
        if left > Duration::from_secs(1) {
            return Ok(Next::After(left));
        }
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &key.namespace, &kinds::workflow());
        let only_this = Preconditions {
            uid: workflow.meta.uid.clone(),
            resource_version: None,
        };
        let params = DeleteParams::background().preconditions(only_this);
        match api.delete(&key.name, &params).await {
            Ok(_) => Ok(Next::Done),
            Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(Next::Done),
            Err(error) => Err(ReconcileError::api(format!(
                "delete workflow {key}, whose time is over"
            ))(error)),
        }
    }
}

fn reference(workflow: &Workflow) -> ObjectReference {
    ObjectReference {
        api_version: Some("argoproj.io/v1alpha1".to_owned()),
        kind: Some("Workflow".to_owned()),
        name: workflow.meta.name.clone(),
        namespace: workflow.meta.namespace.clone(),
        uid: workflow.meta.uid.clone(),
        resource_version: workflow.meta.resource_version.clone(),
        field_path: None,
    }
}
