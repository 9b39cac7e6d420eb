//! How far each ReplicaSet may be scaled now, so that pods neither exceed nor fall below the strategy's limits.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, RollingUpdateDeployment};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::embedded::controllers::replicaset::replicas;

/// How many pods a Deployment asks for.
pub(super) fn desired(deployment: &Deployment) -> i32 {
    deployment.spec.replicas.unwrap_or(1)
}

/// Whether old pods go before new ones come.
pub(super) fn is_recreate(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
}

fn rolling(deployment: &Deployment) -> Option<&RollingUpdateDeployment> {
    deployment.spec.strategy.as_ref()?.rolling_update.as_ref()
}

/// Pods above the desired number during a rollout; percentages round up, default 25 %.
pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    if is_recreate(deployment) {
        return 0;
    }
    let value = rolling(deployment).and_then(|rolling| rolling.max_surge.as_ref());
    scaled(value, desired(deployment), true)
}

/// Pods below the desired number during a rollout; percentages round down, default 25 %, 1 if both are 0.
pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    let desired = desired(deployment);
    if is_recreate(deployment) || desired == 0 {
        return 0;
    }
    let value = rolling(deployment).and_then(|rolling| rolling.max_unavailable.as_ref());
    let count = scaled(value, desired, false);
    if count == 0 && max_surge(deployment) == 0 {
        1
    } else {
        count.min(desired)
    }
}

fn scaled(value: Option<&IntOrString>, total: i32, up: bool) -> i32 {
    let percent = match value {
        Some(IntOrString::Int(count)) => return *count,
        Some(IntOrString::String(text)) => text
            .strip_suffix('%')
            .and_then(|number| number.parse().ok())
            .unwrap_or(25),
        None => 25,
    };
    let hundredths = i64::from(total).saturating_mul(percent);
    let count = if up {
        hundredths.saturating_add(99) / 100
    } else {
        hundredths / 100
    };
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn available(set: &ReplicaSet) -> i32 {
    set.status
        .as_ref()
        .and_then(|status| status.available_replicas)
        .unwrap_or(0)
}

/// Whether a ReplicaSet's status speaks of its present spec.
pub(super) fn is_settled(set: &ReplicaSet) -> bool {
    let observed = set
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    observed.unwrap_or(0) >= set.metadata.generation.unwrap_or(0)
}

/// Whether a ReplicaSet asks for no pods and has none.
pub(super) fn is_idle(set: &ReplicaSet) -> bool {
    replicas(set) == 0
        && set
            .status
            .as_ref()
            .is_none_or(|status| status.replicas == 0)
        && is_settled(set)
        && set.metadata.deletion_timestamp.is_none()
}

/// The count for the new ReplicaSet.
pub(super) fn new_replicas(
    deployment: &Deployment,
    new: &ReplicaSet,
    old: &[Arc<ReplicaSet>],
) -> i32 {
    let (desired, present) = (desired(deployment), replicas(new));
    if is_recreate(deployment) || present >= desired {
        return desired;
    }
    let total: i32 = old.iter().map(|set| replicas(set)).sum::<i32>() + present;
    let room = desired + max_surge(deployment) - total;
    present + room.clamp(0, desired - present)
}

/// The old ReplicaSets that may shrink, with their counts.
pub(super) fn old_replicas(
    deployment: &Deployment,
    new: &ReplicaSet,
    old: &[Arc<ReplicaSet>],
) -> Vec<(Arc<ReplicaSet>, i32)> {
    let minimum = desired(deployment) - max_unavailable(deployment);
    let total: i32 = old.iter().map(|set| replicas(set)).sum::<i32>() + replicas(new);
    let unready_new = replicas(new) - available(new);
    let mut may_go = total - minimum - unready_new;
    let mut counts: Vec<i32> = old.iter().map(|set| replicas(set)).collect();
    // Pods that are not available go first: they serve nobody.
    for (set, count) in old.iter().zip(&mut counts) {
        let broken = (*count - available(set)).clamp(0, may_go.max(0));
        *count -= broken;
        may_go -= broken;
    }
    let serving: i32 = old.iter().map(|set| available(set)).sum::<i32>() + available(new);
    let mut spare = (serving - minimum).max(0);
    for count in &mut counts {
        let go = (*count).min(spare).min(may_go.max(0));
        *count -= go;
        spare -= go;
        may_go -= go;
    }
    let shrunk = old
        .iter()
        .zip(counts)
        .filter(|(set, count)| replicas(set) != *count);
    shrunk
        .map(|(set, count)| (Arc::clone(set), count))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(replicas: i32, strategy: &str) -> Deployment {
        let strategy: serde_json::Value = serde_json::from_str(strategy).expect("strategy");
        serde_json::from_value(serde_json::json!({
            "spec": {"replicas": replicas, "selector": {}, "template": {}, "strategy": strategy},
        }))
        .expect("deployment")
    }

    fn set(name: &str, replicas: i32, available: i32) -> Arc<ReplicaSet> {
        let set = serde_json::json!({
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {}},
            "status": {"replicas": replicas, "availableReplicas": available},
        });
        Arc::new(serde_json::from_value(set).expect("set"))
    }

    fn counts(pairs: Vec<(Arc<ReplicaSet>, i32)>) -> Vec<i32> {
        pairs.into_iter().map(|(_, count)| count).collect()
    }

    #[test]
    fn one_replica_surges_by_one_and_is_never_missing() {
        let one = deployment(1, "{}");
        assert_eq!((max_surge(&one), max_unavailable(&one)), (1, 0));
        let old = [set("old", 1, 1)];
        assert_eq!(new_replicas(&one, &set("new", 0, 0), &old), 1);
        assert_eq!(
            counts(old_replicas(&one, &set("new", 1, 0), &old)),
            [] as [i32; 0],
            "the new pod is not ready"
        );
        assert_eq!(counts(old_replicas(&one, &set("new", 1, 1), &old)), [0]);
    }

    #[test]
    fn an_old_pod_that_never_came_up_goes_at_once() {
        let one = deployment(1, "{}");
        assert_eq!(
            counts(old_replicas(&one, &set("new", 1, 0), &[set("old", 1, 0)])),
            [] as [i32; 0]
        );
        assert_eq!(
            counts(old_replicas(&one, &set("new", 1, 1), &[set("old", 1, 0)])),
            [0]
        );
        let three = deployment(3, r#"{"rollingUpdate":{"maxSurge":1,"maxUnavailable":1}}"#);
        assert_eq!(
            counts(old_replicas(&three, &set("new", 1, 1), &[set("old", 3, 1)])),
            [1]
        );
    }

    #[test]
    fn percentages_round_as_kubernetes_rounds_them() {
        let ten = deployment(
            10,
            r#"{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"}}"#,
        );
        assert_eq!((max_surge(&ten), max_unavailable(&ten)), (3, 2));
        let none = deployment(3, r#"{"rollingUpdate":{"maxSurge":0,"maxUnavailable":0}}"#);
        assert_eq!((max_surge(&none), max_unavailable(&none)), (0, 1));
    }

    #[test]
    fn a_scale_down_is_followed_at_once() {
        let one = deployment(1, "{}");
        assert_eq!(new_replicas(&one, &set("new", 4, 4), &[]), 1);
    }
}
