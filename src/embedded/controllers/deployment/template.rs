//! Which ReplicaSet carries a Deployment's present template: hash, comparison, revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

use super::rollout;
use crate::embedded::controllers::runtime::objects::controller_ref;

/// Label that separates the pods of two templates.
pub(super) const HASH_LABEL: &str = "pod-template-hash";
/// Annotation with the revision number, on the ReplicaSet and on the Deployment.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations that stay on the Deployment alone.
const OWN_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    "deployment.kubernetes.io/revision-history",
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// Letters of a hash in a name: no vowels, so that no words come out.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// FNV-1a, 32 bits.
pub(in crate::embedded::controllers) fn fnv32a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// The hash of a Deployment's template, as it stands in names and labels.
pub(super) fn hash(deployment: &Deployment) -> String {
    let collisions = deployment
        .status
        .as_ref()
        .and_then(|status| status.collision_count);
    let mut bytes = serde_json::to_vec(&template(deployment)).unwrap_or_default();
    bytes.extend(collisions.iter().flat_map(|count| count.to_le_bytes()));
    let number = fnv32a(&bytes).to_string();
    number
        .bytes()
        .map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]))
        .collect()
}

fn template(deployment: &Deployment) -> PodTemplateSpec {
    deployment.spec.template.clone()
}

/// Whether a ReplicaSet has the Deployment's template, the hash label aside.
pub(super) fn same_template(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let Some(mut theirs) = set.spec.template.clone() else {
        return false;
    };
    let mut ours = template(deployment);
    for template in [&mut theirs, &mut ours] {
        let meta = template.metadata.get_or_insert_default();
        let labels = meta.labels.get_or_insert_default();
        labels.remove(HASH_LABEL);
        meta.annotations.get_or_insert_default();
    }
    theirs == ours
}

/// The oldest ReplicaSet with the present template. `owned` is sorted, oldest first.
pub(super) fn find_new(
    deployment: &Deployment,
    owned: &[Arc<ReplicaSet>],
) -> Option<Arc<ReplicaSet>> {
    let hash = hash(deployment);
    let hashed = |set: &&Arc<ReplicaSet>| set.labels().get(HASH_LABEL) == Some(&hash);
    owned
        .iter()
        .find(|set| same_template(deployment, set))
        .or_else(|| owned.iter().find(hashed))
        .cloned()
}

/// The revision number of an object; 0 if it has none.
pub(super) fn revision<K: Resource>(object: &K) -> i64 {
    object
        .annotations()
        .get(REVISION)
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// The annotations that a ReplicaSet should carry and does not, or `None`.
pub(super) fn missing_annotations(
    deployment: &Deployment,
    set: &ReplicaSet,
    wanted: i64,
) -> Option<BTreeMap<String, String>> {
    let mut all = set_annotations(deployment, revision(set).max(wanted));
    all.retain(|key, value| set.annotations().get(key) != Some(value));
    (!all.is_empty()).then_some(all)
}

fn set_annotations(deployment: &Deployment, revision: i64) -> BTreeMap<String, String> {
    let desired = rollout::desired(deployment);
    let mut annotations = deployment.annotations().clone();
    annotations.retain(|key, _| !OWN_ANNOTATIONS.contains(&key.as_str()));
    annotations.insert(REVISION.into(), revision.to_string());
    annotations.insert(DESIRED_REPLICAS.into(), desired.to_string());
    annotations.insert(
        MAX_REPLICAS.into(),
        desired
            .saturating_add(rollout::max_surge(deployment))
            .to_string(),
    );
    annotations
}

/// The ReplicaSet for a template that has none yet, with no replicas.
pub(super) fn new_set(deployment: &Deployment, revision: i64) -> ReplicaSet {
    let hash = hash(deployment);
    let spec = deployment.spec.clone();
    let mut template = spec.template;
    let labels = template
        .metadata
        .get_or_insert_default()
        .labels
        .get_or_insert_default();
    labels.insert(HASH_LABEL.into(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector;
    selector
        .match_labels
        .get_or_insert_default()
        .insert(HASH_LABEL.into(), hash.clone());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name_any())),
            namespace: deployment.namespace(),
            labels: Some(labels),
            annotations: Some(set_annotations(deployment, revision)),
            owner_references: Some(vec![controller_ref(deployment, &())]),
            ..ObjectMeta::default()
        },
        spec: ReplicaSetSpec {
            replicas: Some(0),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        },
        status: None,
    }
}

/// The same ReplicaSet with another count.
pub(super) fn with_replicas(set: &ReplicaSet, count: i32) -> ReplicaSet {
    let mut set = set.clone();
    set.spec.replicas = Some(count);
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(image: &str) -> Deployment {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web", "namespace": "ns", "annotations": {"team": "a", REVISION: "1"}},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}},
            },
        }))
        .expect("deployment")
    }

    #[test]
    fn a_new_set_is_found_again_by_its_template() {
        let (one, two) = (deployment("one"), deployment("two"));
        let set = Arc::new(new_set(&one, 1));
        assert!(find_new(&one, &[Arc::clone(&set)]).is_some());
        assert!(find_new(&two, &[Arc::clone(&set)]).is_none());
        assert_ne!(hash(&one), hash(&two));
        assert_eq!(set.name_any(), format!("web-{}", hash(&one)));
        let selector = set.spec.selector.match_labels.clone().unwrap_or_default();
        assert_eq!(selector.get(HASH_LABEL), Some(&hash(&one)));
    }

    #[test]
    fn own_annotations_stay_on_the_deployment() {
        let one = deployment("one");
        let set = new_set(&one, 3);
        assert_eq!(revision(&set), 3);
        assert_eq!(set.annotations().get("team").map(String::as_str), Some("a"));
        assert_eq!(missing_annotations(&one, &set, 3), None);
        assert_eq!(
            missing_annotations(&one, &set, 4).map(|all| all.len()),
            Some(1)
        );
    }

    #[test]
    fn fnv_matches_known_values() {
        assert_eq!(fnv32a(b""), 0x811c_9dc5);
        assert_eq!(fnv32a(b"foobar"), 0xbf9c_f968);
    }
}
