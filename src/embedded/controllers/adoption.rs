//! Who owns what by its labels: what has no controller and matches is taken, what no longer matches is let go.
//!
//! As the ControllerRefManager of upstream's controllers does it, by strategic merge patches that name the uid.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{Selector, SelectorExt as _};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::runtime::cache::Cache;
use super::runtime::error::is_not_found;
use super::runtime::objects::{controller_of, controller_ref};
use super::runtime::{Change, ObjectKey, ReconcileError, Result, WorkQueue};

/// Index by the uid of the controller; what has none is found by [`orphans_of`].
pub(super) fn index_by_owner<K: Resource>(object: &K) -> Vec<String> {
    vec![match controller_of(object) {
        Some(owner) => owner.uid.clone(),
        None => orphans_of(&object.namespace().unwrap_or_default()),
    }]
}

/// Index of the objects in a namespace that nobody controls (no uid looks like it).
pub(super) fn orphans_of(namespace: &str) -> String {
    format!("orphans of {namespace}")
}

/// Adds the keys of those owners that would take a changed object which nobody controls.
pub(super) fn enqueue_takers<K: Resource, O: Resource>(
    change: &Change<K>,
    owners: &Cache<O>,
    selector: fn(&O) -> &LabelSelector,
    queue: &WorkQueue<ObjectKey>,
) {
    let free = |object: &&Arc<K>| controller_of(&***object).is_none();
    for object in change.new.iter().filter(free) {
        for owner in owners.all() {
            if owner.namespace() == object.namespace() && matches(selector(&owner), &**object) {
                queue.add(ObjectKey::of(&*owner));
            }
        }
    }
}

/// Whether a selector picks an object; one that picks everything or cannot be read picks nothing here.
fn matches<K: Resource>(selector: &LabelSelector, object: &K) -> bool {
    match Selector::try_from(selector.clone()) {
        Ok(selector) => !selector.selects_all() && selector.matches(object.labels()),
        Err(_) => false,
    }
}

/// One owner and the objects that it may own.
pub(super) struct Claim<'a, O, K> {
    pub client: &'a Client,
    pub owner: &'a O,
    pub selector: &'a LabelSelector,
    pub cache: &'a Cache<K>,
}

impl<O, K> Claim<'_, O, K>
where
    O: Resource<DynamicType = ()>,
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    /// Takes and lets go; the cache knows the outcome.
    pub(super) async fn run(&self) -> Result<()> {
        let uid = self.owner.uid().unwrap_or_default();
        let namespace = self.owner.namespace().unwrap_or_default();
        let lives = |object: &Arc<K>| object.meta().deletion_timestamp.is_none();
        let mut lost = self.cache.by_index(&uid);
        lost.retain(|object| lives(object) && !matches(self.selector, &**object));
        for object in lost {
            let gone = json!([{"$patch": "delete", "uid": uid}]);
            self.patch(&namespace, &object, "release", gone).await?;
        }
        let mut free = self.cache.by_index(&orphans_of(&namespace));
        free.retain(|object| lives(object) && matches(self.selector, &**object));
        for object in free {
            let reference = controller_ref(self.owner, &());
            self.patch(&namespace, &object, "adopt", json!([reference]))
                .await?;
        }
        Ok(())
    }

    async fn patch(&self, namespace: &str, object: &K, verb: &str, owners: Value) -> Result<()> {
        let (kind, name) = (K::kind(&()), object.name_any());
        let body = json!({"metadata": {"uid": object.uid(), "ownerReferences": owners}});
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let written = api
            .patch(&name, &PatchParams::default(), &Patch::Strategic(body))
            .await;
        match written {
            Ok(written) => drop(self.cache.upsert(written)),
            // Gone, or another one of the same name: the watch says so, and the next look decides.
            Err(error) if is_not_found(&error) => drop(self.cache.remove(object)),
            Err(error) => {
                let action = format!("{verb} {kind} {namespace}/{name}");
                return Err(ReconcileError::api(action)(error));
            }
        }
        Ok(())
    }
}
