//! How far a rollout has come: counts and conditions, in the words that `kubectl rollout status` reads.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{Sets, rollout};
use crate::embedded::controllers::replicaset::replicas;
use crate::embedded::controllers::runtime::objects::{age, now};

/// Whether every pod is of the present template and available.
pub(super) fn is_complete(deployment: &Deployment, sets: &Sets) -> bool {
    let (status, desired) = (counts(deployment, sets), rollout::desired(deployment));
    let observed = deployment
        .status
        .as_ref()
        .and_then(|status| status.observed_generation)
        .unwrap_or(0);
    done(&status, desired) && observed >= deployment.metadata.generation.unwrap_or(0)
}

fn done(status: &DeploymentStatus, desired: i32) -> bool {
    let is = |count: Option<i32>| count.unwrap_or(0) == desired;
    is(status.updated_replicas) && is(status.replicas) && is(status.available_replicas)
}

/// The status, and after how long the progress deadline must be looked at.
pub(super) fn status_of(
    deployment: &Deployment,
    sets: &Sets,
) -> (DeploymentStatus, Option<Duration>) {
    let mut status = counts(deployment, sets);
    let before = deployment.status.clone().unwrap_or_default();
    let mut conditions = before.conditions.clone().unwrap_or_default();
    set(&mut conditions, available(deployment, &status));
    let mut again = None;
    if let Some((progressing, left)) = progressing(deployment, sets, &before, &status) {
        set(&mut conditions, progressing);
        again = left;
    }
    match replica_failure(sets) {
        Some(failure) => set(&mut conditions, failure),
        None => conditions.retain(|condition| condition.type_.as_deref() != Some("ReplicaFailure")),
    }
    status.conditions = Some(conditions);
    (status, again)
}

fn counts(deployment: &Deployment, sets: &Sets) -> DeploymentStatus {
    let all = || sets.old.iter().chain(&sets.new);
    let sum = |count: fn(&k8s_openapi::api::apps::v1::ReplicaSetStatus) -> i32| -> i32 {
        all().filter_map(|set| set.status.as_ref()).map(count).sum()
    };
    let some = |count: i32| (count > 0).then_some(count);
    let available = sum(|status| status.available_replicas.unwrap_or(0));
    let asked: i32 = all().map(|set| replicas(set)).sum();
    let updated = sets
        .new
        .as_ref()
        .and_then(|set| set.status.as_ref())
        .map_or(0, |status| status.replicas);
    DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(sum(|status| status.replicas)),
        updated_replicas: some(updated),
        ready_replicas: some(sum(|status| status.ready_replicas.unwrap_or(0))),
        available_replicas: some(available),
        unavailable_replicas: some(asked - available),
        collision_count: deployment
            .status
            .as_ref()
            .and_then(|status| status.collision_count),
        ..DeploymentStatus::default()
    }
}

fn condition(type_: &str, status: bool, reason: &str, message: String) -> DeploymentCondition {
    DeploymentCondition {
        type_: Some(type_.into()),
        status: Some(if status { "True" } else { "False" }.into()),
        reason: Some(reason.into()),
        message: Some(message),
        last_transition_time: Some(now()),
        last_update_time: Some(now()),
    }
}

fn available(deployment: &Deployment, status: &DeploymentStatus) -> DeploymentCondition {
    let minimum = rollout::desired(deployment) - rollout::max_unavailable(deployment);
    if status.available_replicas.unwrap_or(0) >= minimum {
        condition(
            "Available",
            true,
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.".into(),
        )
    } else {
        condition(
            "Available",
            false,
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.".into(),
        )
    }
}

/// The condition `Progressing`, and how long the deadline still runs. `None` leaves it as it was.
fn progressing(
    deployment: &Deployment,
    sets: &Sets,
    before: &DeploymentStatus,
    status: &DeploymentStatus,
) -> Option<(DeploymentCondition, Option<Duration>)> {
    let spec = &deployment.spec;
    let name = sets.new.as_ref()?.name_any();
    if spec.paused == Some(true) {
        return Some((
            condition(
                "Progressing",
                false,
                "DeploymentPaused",
                "Deployment is paused".into(),
            ),
            None,
        ));
    }
    let present = before
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_.as_deref() == Some("Progressing"));
    if done(status, rollout::desired(deployment)) {
        let text = format!("ReplicaSet \"{name}\" has successfully progressed.");
        return Some((
            condition("Progressing", true, "NewReplicaSetAvailable", text),
            None,
        ));
    }
    // A rollout that was done is not begun again by a lost pod or a new count.
    let was_done = |one: &&DeploymentCondition| {
        one.reason.as_deref() == Some("NewReplicaSetAvailable") && names(one, &name)
    };
    if status.replicas == status.updated_replicas && present.is_some_and(|one| was_done(&one)) {
        return None;
    }
    let deadline = Duration::from_secs(
        spec.progress_deadline_seconds
            .unwrap_or(600)
            .max(1)
            .unsigned_abs()
            .into(),
    );
    let is_running = |one: &&DeploymentCondition| {
        one.reason.as_deref() == Some("ReplicaSetUpdated") && names(one, &name)
    };
    if !moved(before, status) {
        let timed_out = |one: &&DeploymentCondition| {
            one.reason.as_deref() == Some("ProgressDeadlineExceeded") && names(one, &name)
        };
        if present.is_some_and(|one| timed_out(&one)) {
            return None;
        }
        if let Some(since) = present
            .filter(is_running)
            .and_then(|one| one.last_update_time.as_ref())
        {
            let left = deadline.saturating_sub(age(since, Timestamp::now()));
            if left.is_zero() {
                let text = format!("ReplicaSet \"{name}\" has timed out progressing.");
                return Some((
                    condition("Progressing", false, "ProgressDeadlineExceeded", text),
                    None,
                ));
            }
            return Some((present?.clone(), Some(left)));
        }
    }
    let text = format!("ReplicaSet \"{name}\" is progressing.");
    Some((
        condition("Progressing", true, "ReplicaSetUpdated", text),
        Some(deadline),
    ))
}

fn names(condition: &DeploymentCondition, set: &str) -> bool {
    condition
        .message
        .as_deref()
        .is_some_and(|text| text.contains(&format!("\"{set}\"")))
}

/// Whether a count went the way that a rollout goes.
fn moved(before: &DeploymentStatus, status: &DeploymentStatus) -> bool {
    let count = |value: Option<i32>| value.unwrap_or(0);
    let old = |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(status.updated_replicas) > count(before.updated_replicas)
        || old(status) < old(before)
        || count(status.ready_replicas) > count(before.ready_replicas)
        || count(status.available_replicas) > count(before.available_replicas)
}

fn replica_failure(sets: &Sets) -> Option<DeploymentCondition> {
    let mut all = sets.new.iter().chain(&sets.old);
    all.find_map(|set| {
        let conditions = set.status.as_ref()?.conditions.as_ref()?;
        let failure = conditions
            .iter()
            .find(|condition| condition.type_.as_deref() == Some("ReplicaFailure"))?;
        let mut condition = condition(
            "ReplicaFailure",
            true,
            "FailedCreate",
            failure.message.clone()?,
        );
        condition
            .last_transition_time
            .clone_from(&failure.last_transition_time);
        condition
            .last_update_time
            .clone_from(&failure.last_transition_time);
        Some(condition)
    })
}

/// Puts a condition in; an unchanged one keeps its times, an unchanged status its transition time.
fn set(conditions: &mut Vec<DeploymentCondition>, mut new: DeploymentCondition) {
    let Some(present) = conditions
        .iter_mut()
        .find(|condition| condition.type_ == new.type_)
    else {
        conditions.push(new);
        return;
    };
    if present.status == new.status {
        new.last_transition_time
            .clone_from(&present.last_transition_time);
        if present.reason == new.reason && present.message == new.message {
            new.last_update_time.clone_from(&present.last_update_time);
        }
    }
    *present = new;
}
