//! The garbage collector: deletes what has lost its owner, and does the work of deletions that wait.
//!
//! Kinds are those that discovery lists at the start with the verbs `delete`, `list` and `watch`. Emptying
//! a namespace that is being deleted is the API server's own work here.

mod graph;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions,
    PropagationPolicy,
};
use kube::core::PartialObjectMeta;
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::runtime::error::{is_conflict, is_not_found, message};
use super::runtime::informer::Source;
use super::runtime::{
    Change, Informer, Next, ObjectKey, Reconcile, ReconcileError, Result, Tasks, WorkQueue,
};
use graph::{FOREGROUND, Graph, Item, Node, ORPHAN, Owners};

/// A kind that the collector watches.
struct Kind {
    resource: ApiResource,
    namespaced: bool,
}

type Metadata = PartialObjectMeta<DynamicObject>;

struct Collector {
    client: Client,
    kinds: Vec<Kind>,
    graph: Arc<Mutex<Graph>>,
}

/// Starts the collector once discovery answers.
pub(super) fn start(client: &Client, tasks: &mut Tasks, cancel: &CancellationToken) {
    let (client, parent) = (client.clone(), cancel.clone());
    tasks.supervise("garbage", cancel, move || {
        let (client, cancel) = (client.clone(), parent.child_token());
        async move {
            let guard = cancel.clone().drop_guard();
            match kinds(&client).await {
                Ok(kinds) => run(client, kinds, &cancel).await,
                Err(error) => {
                    tracing::warn!(target: "controllers", "garbage: discovery failed: {}", message(&error));
                }
            }
            drop(guard);
        }
    });
}

async fn kinds(client: &Client) -> kube::Result<Vec<Kind>> {
    let discovery = Discovery::new(client.clone()).run().await?;
    let mut kinds = Vec::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let needed = [verbs::DELETE, verbs::LIST, verbs::WATCH];
            let can = needed
                .iter()
                .all(|verb| capabilities.supports_operation(verb));
            // Events are many, and nobody's dependents.
            if can && resource.kind != "Event" {
                let namespaced = capabilities.scope == Scope::Namespaced;
                kinds.push(Kind {
                    resource,
                    namespaced,
                });
            }
        }
    }
    Ok(kinds)
}

async fn run(client: Client, kinds: Vec<Kind>, cancel: &CancellationToken) {
    let (graph, queue) = (
        Arc::new(Mutex::new(Graph::default())),
        Arc::new(WorkQueue::new()),
    );
    let mut tasks = Tasks::default();
    let mut informers: Vec<Informer<Metadata>> = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        let (graph, queue) = (Arc::clone(&graph), Arc::clone(&queue));
        let source = Source::new(Api::all_with(client.clone(), &kind.resource))
            .on_change(move |change| observe(number, change, &graph, &queue));
        informers.push(source.start(&mut tasks, cancel));
    }
    let synced =
        async move { futures::future::join_all(informers.iter().map(Informer::synced)).await };
    let collector = Arc::new(Collector {
        client,
        kinds,
        graph,
    });
    tasks.workers(&collector, &queue, 4, cancel, async {
        let _ = synced.await;
    });
    tasks.join().await;
}

/// Takes a change into the graph and queues whom it concerns.
fn observe(kind: usize, change: &Change<Metadata>, graph: &Mutex<Graph>, queue: &WorkQueue<Item>) {
    let item = Item {
        kind,
        key: change.key.clone(),
    };
    let mut graph = lock(graph);
    let Some(object) = &change.new else {
        let owners = graph
            .get(&item)
            .map(|(_, node)| node.owners.clone())
            .unwrap_or_default();
        if let Some(uid) = graph.forget(&item) {
            graph
                .dependents(&uid)
                .into_iter()
                .for_each(|node| queue.add(node.item));
        }
        // An owner that waits in the foreground may have waited for this one.
        owners
            .iter()
            .filter_map(|owner| graph.by_uid(&owner.uid))
            .for_each(|node| queue.add(node.item.clone()));
        return;
    };
    let replaced = change
        .old
        .as_ref()
        .and_then(|old| old.uid())
        .filter(|uid| Some(uid) != object.uid().as_ref());
    graph.put(item.clone(), &object.metadata);
    if let Some(uid) = replaced {
        graph
            .dependents(&uid)
            .into_iter()
            .for_each(|node| queue.add(node.item));
    }
    let concerns =
        object.metadata.deletion_timestamp.is_some() || !object.owner_references().is_empty();
    if concerns {
        queue.add(item);
    }
}

fn lock(graph: &Mutex<Graph>) -> MutexGuard<'_, Graph> {
    graph.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reconcile for Collector {
    type Key = Item;

    fn name(&self) -> &'static str {
        "garbage"
    }

    async fn reconcile(&self, item: Item) -> Result<Next> {
        let found = lock(&self.graph)
            .get(&item)
            .map(|(uid, node)| (uid.clone(), node.clone()));
        let Some((uid, node)) = found else {
            return Ok(Next::Done);
        };
        if node.waits_for(ORPHAN) {
            self.orphan_dependents(&node, &uid).await?;
            self.drop_finalizer(&node, &uid, ORPHAN).await?;
        } else if node.waits_for(FOREGROUND) {
            self.delete_dependents(&node, &uid).await?;
        }
        if !node.deleting && !node.owners.is_empty() {
            self.check_owners(&node, &uid).await?;
        }
        Ok(Next::Done)
    }
}

impl Collector {
    fn api(&self, item: &Item) -> Option<Api<DynamicObject>> {
        let kind = self.kinds.get(item.kind)?;
        Some(if kind.namespaced {
            Api::namespaced_with(self.client.clone(), &item.key.namespace, &kind.resource)
        } else {
            Api::all_with(self.client.clone(), &kind.resource)
        })
    }

    /// Deletes an object whose owners are all gone; drops references to those that are, if one is left.
    async fn check_owners(&self, node: &Node, uid: &str) -> Result<()> {
        if self.owners_of(node).await?.is_settled() {
            return Ok(());
        }
        // What was seen may be old by now: the object itself decides.
        let Some(node) = self.live(node, uid).await? else {
            return Ok(());
        };
        let owners = self.owners_of(&node).await?;
        if owners.is_settled() {
            return Ok(());
        }
        if !owners.solid.is_empty() {
            return self.keep_owners(&node, uid, &owners.solid).await;
        }
        let has_dependents = !lock(&self.graph).dependents(uid).is_empty();
        let foreground = !owners.waiting.is_empty() && has_dependents;
        self.delete(&node, uid, foreground).await
    }

    /// The owners of an object; those that the graph does not know are asked for.
    async fn owners_of(&self, node: &Node) -> Result<Owners> {
        let mut owners = lock(&self.graph).sort_owners(node);
        for owner in std::mem::take(&mut owners.absent) {
            if self.is_gone(node, &owner).await? {
                owners.absent.push(owner);
            } else {
                owners.solid.push(owner);
            }
        }
        Ok(owners)
    }

    /// The object as it is now; `None` if it is gone.
    async fn live(&self, node: &Node, uid: &str) -> Result<Option<Node>> {
        let Some(api) = self.api(&node.item) else {
            return Ok(None);
        };
        let found = api.get_metadata_opt(&node.item.key.name).await;
        let found = found.map_err(ReconcileError::api(format!("read {}", node.item)))?;
        let same = found.filter(|object| object.uid().as_deref() == Some(uid));
        Ok(same.map(|object| Node::new(node.item.clone(), &object.metadata)))
    }

    /// Asks the API about an owner that the graph does not know, because the graph may lag behind.
    async fn is_gone(&self, node: &Node, owner: &OwnerReference) -> Result<bool> {
        let (group, version) = owner
            .api_version
            .rsplit_once('/')
            .unwrap_or(("", &owner.api_version));
        let number = self.kinds.iter().position(|kind| {
            kind.resource.kind == owner.kind
                && kind.resource.group == group
                && kind.resource.version == version
        });
        // An owner of a kind that nobody serves is not known to be gone.
        let Some(kind) = number else { return Ok(false) };
        let key = ObjectKey::new(node.item.key.namespace.clone(), owner.name.clone());
        let Some(api) = self.api(&Item { kind, key }) else {
            return Ok(false);
        };
        let present = api
            .get_metadata_opt(&owner.name)
            .await
            .map_err(ReconcileError::api(format!(
                "look for owner {} {} of {}",
                owner.kind, owner.name, node.item
            )))?;
        Ok(present.is_none_or(|object| object.uid().as_deref() != Some(&owner.uid)))
    }

    async fn keep_owners(&self, node: &Node, uid: &str, solid: &[OwnerReference]) -> Result<()> {
        let Some(api) = self.api(&node.item) else {
            return Ok(());
        };
        let patch = Patch::Merge(json!({"metadata": {
            "uid": uid, "resourceVersion": node.version, "ownerReferences": solid,
        }}));
        let name = &node.item.key.name;
        match api
            .patch_metadata(name, &PatchParams::default(), &patch)
            .await
        {
            Err(error) if !is_not_found(&error) => Err(ReconcileError::api(format!(
                "drop absent owners of {}",
                node.item
            ))(error)),
            _ => Ok(()),
        }
    }

    async fn delete(&self, node: &Node, uid: &str, foreground: bool) -> Result<()> {
        let Some(api) = self.api(&node.item) else {
            return Ok(());
        };
        // What was asked for on the object itself comes first.
        let has = |finalizer: &str| node.finalizers.iter().any(|one| one == finalizer);
        let policy = if has(ORPHAN) {
            PropagationPolicy::Orphan
        } else if has(FOREGROUND) || foreground {
            PropagationPolicy::Foreground
        } else {
            PropagationPolicy::Background
        };
        let only_this = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        };
        let params = DeleteParams {
            propagation_policy: Some(policy),
            ..DeleteParams::default()
        }
        .preconditions(only_this);
        match api.delete(&node.item.key.name, &params).await {
            Err(error) if !is_not_found(&error) && !is_conflict(&error) => Err(
                ReconcileError::api(format!("delete {}, whose owner is gone", node.item))(error),
            ),
            _ => Ok(()),
        }
    }

    /// The dependents of an object, asked for: the graph may not have seen the newest.
    async fn live_dependents(&self, node: &Node, uid: &str) -> Result<Vec<(Node, String)>> {
        let mut found = Vec::new();
        for (number, kind) in self.kinds.iter().enumerate() {
            let item = Item {
                kind: number,
                key: ObjectKey::new(node.item.key.namespace.clone(), ""),
            };
            let of_namespace = kind.namespaced && !node.item.key.namespace.is_empty();
            let api = match self.api(&item) {
                Some(api) if of_namespace => api,
                _ => Api::all_with(self.client.clone(), &kind.resource),
            };
            let plural = &kind.resource.plural;
            let list =
                api.list_metadata(&ListParams::default())
                    .await
                    .map_err(ReconcileError::api(format!(
                        "look for dependents of {} among {plural}",
                        node.item
                    )))?;
            let owned = list.items.into_iter().filter(|object| {
                object
                    .owner_references()
                    .iter()
                    .any(|owner| owner.uid == uid)
            });
            found.extend(owned.filter_map(|object| {
                let key = ObjectKey::of(&object);
                let own = object.uid()?;
                Some((Node::new(Item { kind: number, key }, &object.metadata), own))
            }));
        }
        Ok(found)
    }

    /// Deletes the dependents of a foreground deletion, and ends it when none that blocks is left.
    async fn delete_dependents(&self, node: &Node, uid: &str) -> Result<()> {
        let dependents = self.live_dependents(node, uid).await?;
        let blocks = |dependent: &Node| {
            dependent
                .owners
                .iter()
                .any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
        };
        if !dependents.iter().any(|(dependent, _)| blocks(dependent)) {
            return self.drop_finalizer(node, uid, FOREGROUND).await;
        }
        for (dependent, own) in dependents
            .iter()
            .filter(|(dependent, _)| !dependent.deleting)
        {
            self.check_owners(dependent, own).await?;
        }
        Ok(())
    }

    async fn orphan_dependents(&self, node: &Node, uid: &str) -> Result<()> {
        for (dependent, own) in self.live_dependents(node, uid).await? {
            let rest = dependent.owners.iter().filter(|owner| owner.uid != uid);
            let rest: Vec<_> = rest.cloned().collect();
            self.keep_owners(&dependent, &own, &rest).await?;
        }
        Ok(())
    }

    async fn drop_finalizer(&self, node: &Node, uid: &str, finalizer: &str) -> Result<()> {
        let Some(api) = self.api(&node.item) else {
            return Ok(());
        };
        let name = &node.item.key.name;
        let action = || format!("remove finalizer {finalizer} from {}", node.item);
        let present = api
            .get_metadata_opt(name)
            .await
            .map_err(ReconcileError::api(action()))?;
        let Some(object) = present.filter(|object| object.uid().as_deref() == Some(uid)) else {
            return Ok(());
        };
        let rest: Vec<_> = object
            .finalizers()
            .iter()
            .filter(|one| *one != finalizer)
            .cloned()
            .collect();
        if rest.len() == object.finalizers().len() {
            return Ok(());
        }
        let patch =
            json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": rest}});
        match api
            .patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Err(error) if !is_not_found(&error) => Err(ReconcileError::api(action())(error)),
            _ => Ok(()),
        }
    }
}
