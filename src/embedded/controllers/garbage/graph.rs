//! Who owns whom: the owner references of every object that the collector watches.

use std::collections::{BTreeSet, HashMap, HashSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::embedded::controllers::runtime::ObjectKey;

/// Finalizer of a deletion that waits for its dependents.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of a deletion that leaves its dependents alone.
pub(super) const ORPHAN: &str = "orphan";

/// A kind by its place in the collector's list, and an object of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Item {
    pub kind: usize,
    pub key: ObjectKey,
}

impl std::fmt::Display for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.key.fmt(f)
    }
}

/// What the collector knows of an object.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub item: Item,
    pub owners: Vec<OwnerReference>,
    pub deleting: bool,
    pub finalizers: Vec<String>,
    pub version: Option<String>,
}

impl Node {
    /// What the metadata of an object says.
    pub(super) fn new(item: Item, meta: &ObjectMeta) -> Self {
        Self {
            item,
            owners: meta.owner_references.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            version: meta.resource_version.clone(),
        }
    }

    /// Whether its deletion waits for this finalizer's work.
    pub(super) fn waits_for(&self, finalizer: &str) -> bool {
        self.deleting && self.finalizers.iter().any(|one| one == finalizer)
    }
}

/// The graph, by uid.
#[derive(Default)]
pub(super) struct Graph {
    nodes: HashMap<String, Node>,
    uids: HashMap<Item, String>,
    dependents: HashMap<String, HashSet<String>>,
}

impl Graph {
    /// Takes in the present state of an object.
    pub(super) fn put(&mut self, item: Item, meta: &ObjectMeta) {
        let Some(uid) = meta.uid.clone() else { return };
        // A name that was made anew has another uid: the former object is gone.
        self.forget(&item);
        let node = Node::new(item.clone(), meta);
        for owner in &node.owners {
            let dependents = self.dependents.entry(owner.uid.clone()).or_default();
            dependents.insert(uid.clone());
        }
        self.uids.insert(item, uid.clone());
        self.nodes.insert(uid, node);
    }

    /// Drops an object, and answers its uid.
    pub(super) fn forget(&mut self, item: &Item) -> Option<String> {
        let uid = self.uids.remove(item)?;
        let node = self.nodes.remove(&uid)?;
        for owner in node.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(&uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        Some(uid)
    }

    /// The object behind an item.
    pub(super) fn get(&self, item: &Item) -> Option<(&String, &Node)> {
        let uid = self.uids.get(item)?;
        Some((uid, self.nodes.get(uid)?))
    }

    /// The object with a uid.
    pub(super) fn by_uid(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The objects that name this uid as an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Node> {
        let uids: BTreeSet<_> = self.dependents.get(uid).into_iter().flatten().collect();
        uids.into_iter()
            .filter_map(|uid| self.nodes.get(uid).cloned())
            .collect()
    }

    /// The owners of an object that exist and are not only waiting for it.
    pub(super) fn sort_owners(&self, node: &Node) -> Owners {
        let mut owners = Owners::default();
        for owner in &node.owners {
            match self.nodes.get(&owner.uid) {
                None => owners.absent.push(owner.clone()),
                Some(present) if present.waits_for(FOREGROUND) => {
                    owners.waiting.push(owner.clone())
                }
                Some(_) => owners.solid.push(owner.clone()),
            }
        }
        owners
    }
}

/// The owners of an object by what they mean for it.
#[derive(Default)]
pub(super) struct Owners {
    /// They keep the object.
    pub solid: Vec<OwnerReference>,
    /// Not in the graph: gone, or not seen yet.
    pub absent: Vec<OwnerReference>,
    /// Being deleted in the foreground: they wait for the object to go.
    pub waiting: Vec<OwnerReference>,
}

impl Owners {
    /// Whether every owner keeps the object.
    pub(super) fn is_settled(&self) -> bool {
        self.absent.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(uid: &str, owner: Option<&str>) -> ObjectMeta {
        let owners = owner.map(|owner| {
            vec![OwnerReference {
                uid: owner.into(),
                ..OwnerReference::default()
            }]
        });
        ObjectMeta {
            uid: Some(uid.into()),
            owner_references: owners,
            ..ObjectMeta::default()
        }
    }

    fn item(name: &str) -> Item {
        Item {
            kind: 0,
            key: ObjectKey::new("ns", name),
        }
    }

    #[test]
    fn dependents_follow_owner_references() {
        let mut graph = Graph::default();
        graph.put(item("owner"), &meta("1", None));
        graph.put(item("child"), &meta("2", Some("1")));
        assert_eq!(graph.dependents("1").len(), 1);
        graph.put(item("child"), &meta("2", None));
        assert!(graph.dependents("1").is_empty());
    }

    #[test]
    fn a_name_made_anew_is_another_owner() {
        let mut graph = Graph::default();
        graph.put(item("owner"), &meta("1", None));
        graph.put(item("child"), &meta("2", Some("1")));
        graph.put(item("owner"), &meta("3", None));
        let child = graph.by_uid("2").cloned().expect("child");
        assert_eq!(graph.sort_owners(&child).absent.len(), 1);
        assert_eq!(graph.forget(&item("owner")), Some("3".into()));
    }
}
