//! Rolls a Deployment's template out over ReplicaSets, as `deployment-controller`.
//!
//! [`template`] says which ReplicaSet carries the present template, [`rollout`] counts how far each may be
//! scaled now, [`status`] says how far it has come. Not done: proportional scaling while two ReplicaSets are
//! active.

mod rollout;
mod status;
mod template;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::adoption::{Claim, enqueue_takers, index_by_owner};
use super::replicaset::{enqueue_owner, replicas};
use super::runtime::error::{is_already_exists, is_not_found};
use super::runtime::events::{EventType, Recorder};
use super::runtime::informer::Source;
use super::runtime::objects::reference_to;
use super::runtime::{
    Informer, Next, ObjectKey, Reconcile, ReconcileError, Result, Tasks, WorkQueue,
};
pub(super) use template::fnv32a;
use template::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};

struct Deployments {
    client: Client,
    deployments: Informer<Deployment>,
    sets: Informer<ReplicaSet>,
    events: Recorder,
}

/// The ReplicaSets of one Deployment: the one with the present template, and the others, oldest first.
struct Sets {
    new: Option<Arc<ReplicaSet>>,
    old: Vec<Arc<ReplicaSet>>,
}

/// Starts the controller.
pub(super) fn start(client: &Client, tasks: &mut Tasks, cancel: &CancellationToken) {
    let queue = Arc::new(WorkQueue::new());
    let deployments = {
        let queue = Arc::clone(&queue);
        Source::new(Api::all(client.clone()))
            .on_change(move |change| queue.add(change.key.clone()))
            .start(tasks, cancel)
    };
    let sets = {
        let (queue, owners): (_, Informer<Deployment>) = (Arc::clone(&queue), deployments.clone());
        Source::new(Api::all(client.clone()))
            .indexed(index_by_owner)
            .on_change(move |change| {
                enqueue_owner(change, "Deployment", &queue);
                enqueue_takers(change, &owners.cache, |owner| &owner.spec.selector, &queue);
            })
            .start(tasks, cancel)
    };
    let events = Recorder::start(client.clone(), "deployment-controller", tasks, cancel);
    let synced = {
        let (deployments, sets) = (deployments.clone(), sets.clone());
        async move { futures::join!(deployments.synced(), sets.synced()) }
    };
    let controller = Arc::new(Deployments {
        client: client.clone(),
        deployments,
        sets,
        events,
    });
    tasks.workers(&controller, &queue, 2, cancel, async {
        let _ = synced.await;
    });
}

impl Reconcile for Deployments {
    type Key = ObjectKey;

    fn name(&self) -> &'static str {
        "deployment"
    }

    async fn reconcile(&self, key: ObjectKey) -> Result<Next> {
        let Some(deployment) = self.deployments.cache.get(&key) else {
            return Ok(Next::Done);
        };
        if deployment.metadata.deletion_timestamp.is_none() {
            let claim = Claim {
                client: &self.client,
                owner: &*deployment,
                selector: &deployment.spec.selector,
                cache: &self.sets.cache,
            };
            claim.run().await?;
            self.roll(&deployment).await?;
        }
        let Some(deployment) = self.deployments.cache.get(&key) else {
            return Ok(Next::Done);
        };
        let sets = self.sets_of(&deployment);
        let again = self.write_status(&deployment, &sets).await?;
        if status::is_complete(&deployment, &sets) {
            self.drop_history(&deployment, &sets.old).await?;
        }
        Ok(again.map_or(Next::Done, Next::After))
    }
}

impl Deployments {
    fn sets_of(&self, deployment: &Deployment) -> Sets {
        let mut owned = self
            .sets
            .cache
            .by_index(&deployment.uid().unwrap_or_default());
        owned.sort_by_key(|set| (set.creation_timestamp().map(|time| time.0), set.name_any()));
        let new = template::find_new(deployment, &owned);
        let uid = new.as_ref().and_then(|set| set.uid());
        owned.retain(|set| set.uid() != uid);
        Sets { new, old: owned }
    }

    async fn roll(&self, deployment: &Deployment) -> Result<()> {
        let mut sets = self.sets_of(deployment);
        if deployment.spec.paused == Some(true) {
            return self.scale_paused(deployment, &sets).await;
        }
        if rollout::is_recreate(deployment) {
            for set in &sets.old {
                self.scale(deployment, set, 0).await?;
            }
            // The pods of the old template must be gone, not only on their way.
            if sets.old.iter().any(|set| {
                set.status
                    .as_ref()
                    .is_some_and(|status| status.replicas > 0)
                    || !rollout::is_settled(set)
            }) {
                return Ok(());
            }
        }
        let new = self.ensure_new(deployment, &sets).await?;
        sets.new = Some(Arc::clone(&new));
        let wanted = rollout::new_replicas(deployment, &new, &sets.old);
        if wanted != replicas(&new) {
            return self.scale(deployment, &new, wanted).await;
        }
        for (set, count) in rollout::old_replicas(deployment, &new, &sets.old) {
            self.scale(deployment, &set, count).await?;
        }
        Ok(())
    }

    /// A paused Deployment only follows its replica count, on the ReplicaSet that is active or newest.
    async fn scale_paused(&self, deployment: &Deployment, sets: &Sets) -> Result<()> {
        let mut all: Vec<_> = sets.old.iter().chain(&sets.new).collect();
        let active: Vec<_> = all
            .iter()
            .copied()
            .filter(|set| replicas(set) > 0)
            .collect();
        let one = match active.as_slice() {
            [] => all.pop(),
            [one] => Some(*one),
            _ => None,
        };
        match one {
            Some(set) => {
                self.scale(deployment, set, rollout::desired(deployment))
                    .await
            }
            None => Ok(()),
        }
    }

    /// The ReplicaSet of the present template, made if there is none, with its revision on it and on the Deployment.
    async fn ensure_new(&self, deployment: &Deployment, sets: &Sets) -> Result<Arc<ReplicaSet>> {
        let revision = sets
            .old
            .iter()
            .map(|set| template::revision(&**set))
            .max()
            .unwrap_or(0)
            + 1;
        let set = match &sets.new {
            Some(set) => self.keep_annotations(deployment, set, revision).await?,
            None => self.create_set(deployment, sets, revision).await?,
        };
        let revision = template::revision(&*set).max(revision).to_string();
        if deployment.annotations().get(REVISION) != Some(&revision) {
            let api: Api<Deployment> = Api::namespaced(
                self.client.clone(),
                &deployment.namespace().unwrap_or_default(),
            );
            let (name, mut next) = (deployment.name_any(), deployment.clone());
            next.annotations_mut().insert(REVISION.into(), revision);
            // With the status: else it would count as a change of the spec.
            let written = api
                .replace_status(&name, &PostParams::default(), &next)
                .await
                .map_err(ReconcileError::api(format!(
                    "set the revision of deployment {name}"
                )))?;
            self.deployments.cache.upsert(written);
        }
        Ok(set)
    }

    async fn create_set(
        &self,
        deployment: &Deployment,
        sets: &Sets,
        revision: i64,
    ) -> Result<Arc<ReplicaSet>> {
        let api: Api<ReplicaSet> = Api::namespaced(
            self.client.clone(),
            &deployment.namespace().unwrap_or_default(),
        );
        let mut set = template::new_set(deployment, revision);
        let count = rollout::new_replicas(deployment, &template::with_replicas(&set, 0), &sets.old);
        set = template::with_replicas(&set, count);
        let name = set.name_any();
        match api.create(&PostParams::default(), &set).await {
            Ok(created) => {
                self.sets.cache.upsert(created.clone());
                self.note_scale(deployment, &name, 0, count);
                Ok(Arc::new(created))
            }
            Err(error) if is_already_exists(&error) => {
                self.count_collision(deployment, &name).await?;
                Err(ReconcileError::NotYet(format!(
                    "replica set name {name} is taken by another template or owner"
                )))
            }
            Err(error) => Err(ReconcileError::api(format!("create replica set {name}"))(
                error,
            )),
        }
    }

    /// The next hash must differ, unless the set in the way is this Deployment's own and only not seen yet.
    async fn count_collision(&self, deployment: &Deployment, name: &str) -> Result<()> {
        let namespace = deployment.namespace().unwrap_or_default();
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &namespace);
        let present = api
            .get(name)
            .await
            .map_err(ReconcileError::api(format!("read replica set {name}")))?;
        let own = super::runtime::objects::is_controlled_by(
            &present,
            &deployment.uid().unwrap_or_default(),
        );
        if own && template::same_template(deployment, &present) {
            self.sets.cache.upsert(present);
            return Ok(());
        }
        let count = deployment
            .status
            .as_ref()
            .and_then(|status| status.collision_count)
            .unwrap_or(0)
            + 1;
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &namespace);
        let mut next = deployment.clone();
        next.status.get_or_insert_default().collision_count = Some(count);
        let written = api
            .replace_status(&deployment.name_any(), &PostParams::default(), &next)
            .await
            .map_err(ReconcileError::api(format!(
                "count a hash collision of deployment {}",
                deployment.name_any()
            )))?;
        self.deployments.cache.upsert(written);
        Ok(())
    }

    async fn keep_annotations(
        &self,
        deployment: &Deployment,
        set: &Arc<ReplicaSet>,
        revision: i64,
    ) -> Result<Arc<ReplicaSet>> {
        let Some(annotations) = template::missing_annotations(deployment, set, revision) else {
            return Ok(Arc::clone(set));
        };
        self.patch_set(set, json!({"metadata": {"annotations": annotations}}))
            .await
    }

    async fn scale(&self, deployment: &Deployment, set: &ReplicaSet, count: i32) -> Result<()> {
        let before = replicas(set);
        if before == count {
            return Ok(());
        }
        let desired = rollout::desired(deployment);
        let patch = json!({
            "metadata": {"annotations": {
                DESIRED_REPLICAS: desired.to_string(),
                MAX_REPLICAS: desired.saturating_add(rollout::max_surge(deployment)).to_string(),
            }},
            "spec": {"replicas": count},
        });
        self.patch_set(set, patch).await?;
        self.note_scale(deployment, &set.name_any(), before, count);
        Ok(())
    }

    fn note_scale(&self, deployment: &Deployment, set: &str, from: i32, to: i32) {
        if from == to {
            return;
        }
        let way = if to > from { "up" } else { "down" };
        let text = format!("Scaled {way} replica set {set} from {from} to {to}");
        self.events.event(
            reference_to(deployment, &()),
            EventType::Normal,
            "ScalingReplicaSet",
            &text,
        );
    }

    async fn patch_set(
        &self,
        set: &ReplicaSet,
        mut patch: serde_json::Value,
    ) -> Result<Arc<ReplicaSet>> {
        // A precondition: the count was made from what was seen.
        patch["metadata"]["resourceVersion"] = json!(set.resource_version());
        let name = set.name_any();
        let api: Api<ReplicaSet> =
            Api::namespaced(self.client.clone(), &set.namespace().unwrap_or_default());
        let written = api
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(ReconcileError::api(format!("update replica set {name}")))?;
        self.sets.cache.upsert(written.clone());
        Ok(Arc::new(written))
    }

    async fn write_status(
        &self,
        deployment: &Deployment,
        sets: &Sets,
    ) -> Result<Option<std::time::Duration>> {
        let (status, again) = status::status_of(deployment, sets);
        if deployment.status.as_ref() == Some(&status) {
            return Ok(again);
        }
        let name = deployment.name_any();
        let api: Api<Deployment> = Api::namespaced(
            self.client.clone(),
            &deployment.namespace().unwrap_or_default(),
        );
        let next = Deployment {
            status: Some(status),
            ..deployment.clone()
        };
        match api
            .replace_status(&name, &PostParams::default(), &next)
            .await
        {
            Ok(written) => drop(self.deployments.cache.upsert(written)),
            Err(error) if is_not_found(&error) => {}
            Err(error) => {
                return Err(ReconcileError::api(format!(
                    "update status of deployment {name}"
                ))(error));
            }
        }
        Ok(again)
    }

    /// Deletes old ReplicaSets beyond `revisionHistoryLimit` that have no pods.
    async fn drop_history(&self, deployment: &Deployment, old: &[Arc<ReplicaSet>]) -> Result<()> {
        let limit = deployment.spec.revision_history_limit.unwrap_or(10);
        let mut idle: Vec<_> = old.iter().filter(|set| rollout::is_idle(set)).collect();
        idle.sort_by_key(|set| template::revision(&***set));
        let surplus = idle
            .len()
            .saturating_sub(usize::try_from(limit).unwrap_or(0));
        let api: Api<ReplicaSet> = Api::namespaced(
            self.client.clone(),
            &deployment.namespace().unwrap_or_default(),
        );
        for set in idle.into_iter().take(surplus) {
            let name = set.name_any();
            match api.delete(&name, &DeleteParams::background()).await {
                Ok(_) => drop(self.sets.cache.remove(set)),
                Err(error) if is_not_found(&error) => {}
                Err(error) => {
                    return Err(ReconcileError::api(format!(
                        "delete old replica set {name}"
                    ))(error));
                }
            }
        }
        Ok(())
    }
}
