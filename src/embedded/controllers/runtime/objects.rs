//! Small questions about objects that several controllers ask.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp, Unit};
use kube::{Resource, ResourceExt};

/// Type and status of a pod condition.
pub type Labels = BTreeMap<String, String>;

/// An owner reference that makes `owner` the controller of an object.
#[must_use]
pub fn controller_ref<K: Resource>(owner: &K, dynamic: &K::DynamicType) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(dynamic).into_owned(),
        kind: K::kind(dynamic).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The reference to the controller of an object.
#[must_use]
pub fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true))
}

/// Whether the object with this uid controls `object`.
#[must_use]
pub fn is_controlled_by<K: Resource>(object: &K, uid: &str) -> bool {
    controller_of(object).is_some_and(|owner| owner.uid == uid)
}

/// Index by the uid of the controller.
#[must_use]
pub fn index_by_controller<K: Resource>(object: &K) -> Vec<String> {
    controller_of(object)
        .map(|owner| owner.uid.clone())
        .into_iter()
        .collect()
}

/// A reference for an Event.
#[must_use]
pub fn reference_to<K: Resource>(object: &K, dynamic: &K::DynamicType) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(dynamic).into_owned()),
        kind: Some(K::kind(dynamic).into_owned()),
        name: Some(object.name_any()),
        namespace: object.namespace(),
        uid: object.uid(),
        resource_version: object.resource_version(),
        field_path: None,
    }
}

/// Whether a label selector matches. An empty one matches everything.
#[must_use]
pub fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let equal = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|rule| {
            let found = labels.get(&rule.key);
            let listed =
                found.is_some_and(|value| rule.values.iter().flatten().any(|one| one == value));
            match rule.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// The present time, to the second, as objects carry it.
#[must_use]
pub fn now() -> Time {
    Time(seconds(Timestamp::now()))
}

/// A time without its fraction of a second.
#[must_use]
pub fn seconds(time: Timestamp) -> Timestamp {
    time.round(jiff_seconds()).unwrap_or(time)
}

fn jiff_seconds() -> k8s_openapi::jiff::TimestampRound {
    k8s_openapi::jiff::TimestampRound::new()
        .smallest(Unit::Second)
        .mode(k8s_openapi::jiff::RoundMode::Floor)
}

/// How long ago a time was; zero if it is to come.
#[must_use]
pub fn age(time: &Time, now: Timestamp) -> std::time::Duration {
    std::time::Duration::try_from(now.duration_since(time.0).max(SignedDuration::ZERO))
        .unwrap_or_default()
}

/// Whether a pod has ended.
#[must_use]
pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// The phase of a pod; `Pending` until the node says otherwise.
#[must_use]
pub fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending")
}

/// Whether a pod can still do its work: neither ended nor being deleted.
#[must_use]
pub fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Whether a pod's condition `Ready` is true.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// Since when a pod has been ready.
#[must_use]
pub fn ready_since(pod: &Pod) -> Option<Time> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    Some(
        ready
            .last_transition_time
            .clone()
            .unwrap_or(Time(Timestamp::MIN)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_match_as_kubernetes_does() {
        let labels = Labels::from([("app".to_owned(), "orders".to_owned())]);
        let selector =
            |value: &str| -> LabelSelector { serde_json::from_str(value).expect("selector") };
        assert!(selects(&selector("{}"), &labels));
        assert!(selects(
            &selector(r#"{"matchLabels":{"app":"orders"}}"#),
            &labels
        ));
        assert!(!selects(
            &selector(r#"{"matchLabels":{"app":"x"}}"#),
            &labels
        ));
        let rule = |operator: &str| {
            selector(&format!(
                r#"{{"matchExpressions":[{{"key":"app","operator":"{operator}","values":["orders"]}}]}}"#
            ))
        };
        assert!(selects(&rule("In"), &labels) && !selects(&rule("NotIn"), &labels));
        assert!(selects(&rule("Exists"), &labels) && !selects(&rule("DoesNotExist"), &labels));
        assert!(selects(&rule("NotIn"), &Labels::new()));
    }

    #[test]
    fn times_lose_their_fraction_downwards() {
        let time: Timestamp = "2026-01-02T03:04:05.999Z".parse().expect("time");
        assert_eq!(seconds(time).to_string(), "2026-01-02T03:04:05Z");
    }
}
