//! A place in a Sensor while it is checked: the node, and its path from the object's root.

use serde_json::Value;

use super::tree::{Kind, Mark, Node};

/// A node with its path.
#[derive(Clone, Debug)]
pub(super) struct Site<'t> {
    pub node: &'t Node,
    pub path: String,
    /// The place of its key, where it is a member of a mapping.
    pub key_mark: Option<&'t Mark>,
}

impl<'t> Site<'t> {
    pub(super) fn root(node: &'t Node) -> Self {
        Self {
            node,
            path: String::new(),
            key_mark: None,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Site<'t>> {
        let entry = self.node.get(key)?;
        let path = if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        };
        Some(Site {
            node: &entry.value,
            path,
            key_mark: Some(&entry.key_mark),
        })
    }

    /// A member of a member.
    pub(super) fn at(&self, keys: &[&str]) -> Option<Site<'t>> {
        keys.iter()
            .try_fold(self.clone(), |site, key| site.get(key))
    }

    /// The items of a list; none of anything else.
    pub(super) fn items(&self) -> Vec<Site<'t>> {
        let Kind::List(items) = &self.node.kind else {
            return Vec::new();
        };
        let item = |(index, node)| Site {
            node,
            path: format!("{}[{index}]", self.path),
            key_mark: None,
        };
        items.iter().enumerate().map(item).collect()
    }

    /// The items of a member that is a list.
    pub(super) fn list(&self, key: &str) -> Vec<Site<'t>> {
        self.get(key).map_or_else(Vec::new, |list| list.items())
    }

    /// The text of a member; empty where there is none.
    pub(super) fn text(&self, key: &str) -> &'t str {
        self.node
            .get(key)
            .and_then(|entry| entry.value.text())
            .unwrap_or_default()
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        let value = self.node.get(key).map(|entry| &entry.value.kind);
        matches!(value, Some(Kind::Scalar(Value::Bool(true))))
    }

    pub(super) fn json(&self) -> Value {
        self.node.json()
    }

    /// The place that a path such as `spec.triggers[0].template` leads to, as far as it goes.
    pub(super) fn follow(&self, path: &str) -> Site<'t> {
        let mut site = self.clone();
        for part in path.split('.').filter(|part| !part.is_empty()) {
            let (name, rest) = part.split_once('[').unwrap_or((part, ""));
            let Some(mut next) = site.get(name) else {
                return site;
            };
            for index in rest.split('[').filter(|index| !index.is_empty()) {
                let index: Option<usize> = index.trim_end_matches(']').parse().ok();
                let items = next.items();
                let Some(item) = index.and_then(|index| items.get(index).cloned()) else {
                    return next;
                };
                next = item;
            }
            site = next;
        }
        site
    }
}
