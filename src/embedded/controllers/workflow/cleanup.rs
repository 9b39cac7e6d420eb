//! After the work: pods labelled, deleted by `podGC`, or told to end; and how long a Workflow stays.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::operation::COMPLETED_LABEL;
use super::spec::{PodGc, TtlStrategy, duration};
use super::status::Phase;
use crate::embedded::controllers::runtime::error::{is_conflict, is_not_found};
use crate::embedded::controllers::runtime::objects::{is_active, phase, selects};
use crate::embedded::controllers::runtime::{
    Informer, Next, ObjectKey, Reconcile, ReconcileError, Result,
};

/// What is to be done with one pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum CleanupKey {
    LabelCompleted(ObjectKey),
    /// With the uid of the pod that is meant.
    Delete(ObjectKey, String),
    Terminate(ObjectKey, String),
}

impl fmt::Display for CleanupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LabelCompleted(key) => write!(f, "{key}/labelPodCompleted"),
            Self::Delete(key, _) => write!(f, "{key}/deletePod"),
            Self::Terminate(key, _) => write!(f, "{key}/terminateContainers"),
        }
    }
}

/// What `podGC` wants of a pod whose node is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Label,
    Delete,
}

/// Decides by strategy, the pod's end and the Workflow's phase.
pub(super) fn action(gc: Option<&PodGc>, pod: &Pod, workflow: Option<Phase>) -> Action {
    let completed = workflow.is_some_and(Phase::is_completed);
    let unlabelled = pod
        .labels()
        .get(COMPLETED_LABEL)
        .is_none_or(|value| value != "true");
    let label = if unlabelled {
        Action::Label
    } else {
        Action::None
    };
    let Some(gc) = gc else { return label };
    if gc
        .label_selector
        .as_ref()
        .is_some_and(|selector| !selects(selector, pod.labels()))
    {
        return label;
    }
    match (gc.strategy.as_str(), phase(pod)) {
        ("", _) => label,
        ("OnWorkflowCompletion", _) if completed => Action::Delete,
        ("OnWorkflowSuccess", _) if workflow == Some(Phase::Succeeded) => Action::Delete,
        ("OnPodCompletion", _) | ("OnPodSuccess", "Succeeded") => Action::Delete,
        ("OnPodSuccess", "Failed") => label,
        _ if completed => label,
        _ => Action::None,
    }
}

/// The delay that a manifest states.
pub(super) fn gc_delay(gc: &PodGc) -> Option<Duration> {
    duration(&gc.delete_delay_duration.as_ref()?.0).ok()
}

/// How long a Workflow stays after it ended so.
pub(super) fn time_to_live(strategy: TtlStrategy, phase: Phase) -> Option<SignedDuration> {
    let own = match phase {
        Phase::Failed => strategy.seconds_after_failure,
        Phase::Succeeded => strategy.seconds_after_success,
        _ => None,
    };
    own.or(strategy.seconds_after_completion)
        .map(SignedDuration::from_secs)
}

/// Carries [`CleanupKey`]s out.
pub(super) struct Cleaner {
    pub client: Client,
    pub pods: Informer<Pod>,
    pub termination_grace: Duration,
}

impl Reconcile for Cleaner {
    type Key = CleanupKey;

    fn name(&self) -> &'static str {
        "workflow-pod-cleanup"
    }

    async fn reconcile(&self, key: CleanupKey) -> Result<Next> {
        tracing::debug!(target: super::log::TARGET, "cleaning up pod {key}");
        match key {
            CleanupKey::LabelCompleted(pod) => {
                self.patch(
                    &pod,
                    json!({"metadata": {"labels": {COMPLETED_LABEL: "true"}}}),
                )
                .await?;
                Ok(Next::Done)
            }
            CleanupKey::Delete(pod, uid) => {
                self.delete(&pod, &uid, DeleteParams::default()).await?;
                Ok(Next::Done)
            }
            CleanupKey::Terminate(pod, uid) => self.terminate(&pod, &uid).await,
        }
    }
}

impl Cleaner {
    /// Ends a pod's containers and leaves the pod, with its logs: its time limit is set to what it has had.
    ///
    /// A pod that has not begun is deleted, and so is one that does not end.
    async fn terminate(&self, key: &ObjectKey, uid: &str) -> Result<Next> {
        let found = self
            .pods
            .cache
            .get(key)
            .filter(|pod| pod.uid().as_deref() == Some(uid));
        let Some(pod) = found.filter(|pod| is_active(pod)) else {
            return Ok(Next::Done);
        };
        let was_told = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.active_deadline_seconds)
            == Some(1);
        if phase(&pod) == "Pending" || was_told {
            self.delete(key, uid, DeleteParams::default().grace_period(0))
                .await?;
            return Ok(Next::Done);
        }
        self.patch(
            key,
            json!({"metadata": {"uid": uid}, "spec": {"activeDeadlineSeconds": 1}}),
        )
        .await?;
        Ok(Next::After(self.termination_grace))
    }

    async fn patch(&self, key: &ObjectKey, patch: serde_json::Value) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        match api
            .patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Ok(pod) => drop(self.pods.cache.upsert(pod)),
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(ReconcileError::api(format!("patch pod {key}"))(error)),
        }
        Ok(())
    }

    async fn delete(&self, key: &ObjectKey, uid: &str, params: DeleteParams) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let only_this = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        };
        match api
            .delete(&key.name, &params.preconditions(only_this))
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
            Err(error) => Err(ReconcileError::api(format!("delete pod {key}"))(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(phase: &str) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"labels": {"a": "b"}}, "status": {"phase": phase}}),
        )
        .expect("pod")
    }

    fn gc(strategy: &str) -> PodGc {
        PodGc {
            strategy: strategy.into(),
            ..PodGc::default()
        }
    }

    #[test]
    fn strategies_differ_by_whose_end_they_wait_for() {
        let (good, bad, running) = (
            Some(Phase::Succeeded),
            Some(Phase::Failed),
            Some(Phase::Running),
        );
        let on = |strategy: &str, pod_phase: &str, workflow| {
            action(Some(&gc(strategy)), &pod(pod_phase), workflow)
        };
        assert_eq!(on("OnWorkflowSuccess", "Succeeded", good), Action::Delete);
        assert_eq!(on("OnWorkflowSuccess", "Succeeded", bad), Action::Label);
        assert_eq!(on("OnWorkflowSuccess", "Succeeded", running), Action::None);
        assert_eq!(on("OnWorkflowCompletion", "Failed", bad), Action::Delete);
        assert_eq!(on("OnPodSuccess", "Succeeded", running), Action::Delete);
        assert_eq!(on("OnPodSuccess", "Failed", running), Action::Label);
        assert_eq!(on("OnPodCompletion", "Failed", running), Action::Delete);
        assert_eq!(action(None, &pod("Succeeded"), running), Action::Label);
    }

    #[test]
    fn an_error_counts_as_a_completion_only() {
        let ttl = TtlStrategy {
            seconds_after_completion: Some(3),
            seconds_after_success: Some(1),
            seconds_after_failure: Some(2),
        };
        let seconds = |phase| time_to_live(ttl, phase).map(|time| time.as_secs());
        assert_eq!(
            [
                seconds(Phase::Succeeded),
                seconds(Phase::Failed),
                seconds(Phase::Error)
            ],
            [Some(1), Some(2), Some(3)]
        );
        assert_eq!(time_to_live(TtlStrategy::default(), Phase::Error), None);
    }
}
