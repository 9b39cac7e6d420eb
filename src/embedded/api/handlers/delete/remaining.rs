//! Why a namespace that is ending is still there, as its controller tells it in the conditions
//! (`pkg/controller/namespace/deletion/status_condition_utils.go`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::embedded::api::object;
use crate::embedded::api::server::ApiServer;
use crate::embedded::api::store::{Place, Stored};

/// Each condition with its reason and message while nothing is in the way.
const FINE: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        "NamespaceContentRemaining",
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];
/// After the removal of one object of many, the counts are left as they are.
const FEW: usize = 20;

/// Tells anew what remains, if it was told before and little is left.
pub(super) fn tell_again(api: &ApiServer, namespace: &str) {
    let told = |stored: &Arc<Stored>| {
        let value = stored.value().unwrap_or_default();
        value.pointer("/status/conditions").is_some()
    };
    let ending = ending(api, namespace);
    if ending.is_some_and(|stored| told(&stored))
        && api.store().in_namespace(namespace).len() <= FEW
    {
        tell(api, namespace);
    }
}

/// Writes what remains into the conditions of a namespace that is ending.
pub(super) fn tell(api: &ApiServer, namespace: &str) {
    let Some(stored) = ending(api, namespace) else {
        return;
    };
    let left = api.store().in_namespace(namespace);
    let Ok(old) = stored.value() else {
        return;
    };
    if left.is_empty() {
        return;
    }
    let mut new = old.clone();
    let was = old.pointer("/status/conditions").and_then(Value::as_array);
    let conditions = conditions(was.map_or(&[][..], Vec::as_slice), &left);
    if let Some(status) = object::child(&mut new, "status") {
        status.insert("conditions".to_owned(), Value::from(conditions));
    }
    if new == old {
        return;
    }
    let place = place(namespace);
    // Somebody else wrote meanwhile: the next change tells it.
    if let Err(error) = api.store().put(place, Some(stored.rv), new) {
        tracing::debug!(namespace, %error, "cannot tell what remains");
    }
}

fn place(namespace: &str) -> Place<'_> {
    Place {
        bucket: "namespaces",
        namespace: "",
        name: namespace,
    }
}

fn ending(api: &ApiServer, namespace: &str) -> Option<Arc<Stored>> {
    let stored = api.store().get(place(namespace))?;
    stored.head.deleting.then_some(stored)
}

fn conditions(was: &[Value], left: &[(String, Arc<Stored>)]) -> Vec<Value> {
    let (mut kinds, mut finalizers) = (BTreeMap::new(), BTreeMap::new());
    for (bucket, stored) in left {
        let (plural, group) = bucket.split_once('.').unwrap_or((bucket, ""));
        *kinds
            .entry(format!("{plural}.{group} has"))
            .or_insert(0_usize) += 1;
        let value = stored.value().unwrap_or_default();
        for finalizer in object::strings(&value, "finalizers").filter_map(Value::as_str) {
            *finalizers
                .entry(format!("{finalizer} in"))
                .or_insert(0_usize) += 1;
        }
    }
    let list = |counts: &BTreeMap<String, usize>| {
        let texts = counts.iter();
        let texts = texts.map(|(what, count)| format!("{what} {count} resource instances"));
        texts.collect::<Vec<_>>().join(", ")
    };
    let remaining = |kind: &str| match kind {
        "NamespaceContentRemaining" if !kinds.is_empty() => Some((
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", list(&kinds)),
        )),
        "NamespaceFinalizersRemaining" if !finalizers.is_empty() => Some((
            "SomeFinalizersRemain",
            format!(
                "Some content in the namespace has finalizers remaining: {}",
                list(&finalizers)
            ),
        )),
        _ => None,
    };
    FINE.into_iter()
        .map(|(kind, reason, message)| match remaining(kind) {
            Some((reason, message)) => condition(was, kind, "True", reason, &message),
            None => condition(was, kind, "False", reason, message),
        })
        .collect()
}

/// A condition, with the time at which it last became what it is.
fn condition(was: &[Value], kind: &str, status: &str, reason: &str, message: &str) -> Value {
    let same = |one: &&Value| one["type"] == kind && one["status"] == status;
    let since = was
        .iter()
        .find(same)
        .map(|one| one["lastTransitionTime"].clone());
    json!({
        "type": kind,
        "status": status,
        "lastTransitionTime": since.unwrap_or_else(|| Value::from(object::now())),
        "reason": reason,
        "message": message,
    })
}
