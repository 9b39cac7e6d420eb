//! What the other objects of the files say: which kind of source an event comes from, and what an account may do.

use std::collections::BTreeMap;

use super::site::Site;
use super::tree::Node;

/// What is known beside one Sensor.
#[derive(Debug, Default)]
pub(super) struct World {
    /// Kind of source (`webhook`, `kafka`, …) by namespace, EventSource and event.
    sources: BTreeMap<(String, String, String), String>,
    roles: Vec<Role>,
    bindings: Vec<Binding>,
}

/// The rules of a Role or ClusterRole.
#[derive(Clone, Debug)]
pub(super) struct Role {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub verbs: Vec<String>,
    pub names: Vec<String>,
}

#[derive(Clone, Debug)]
struct Binding {
    namespace: String,
    role_kind: String,
    role: String,
    /// Namespace and name of service accounts.
    accounts: Vec<(String, String)>,
}

/// Whether a document is of this kind.
pub(super) fn is_kind(document: &Node, group: &str, kind: &str) -> bool {
    let root = Site::root(document);
    root.text("apiVersion").starts_with(group) && root.text("kind") == kind
}

fn metadata(root: &Site<'_>, key: &str) -> String {
    root.get("metadata")
        .map_or_else(String::new, |metadata| metadata.text(key).to_owned())
}

impl World {
    /// Takes what a document says.
    pub(super) fn add(&mut self, document: &Node) {
        let root = Site::root(document);
        if is_kind(document, "argoproj.io/", "EventSource") {
            self.add_source(&root);
        } else if root
            .text("apiVersion")
            .starts_with("rbac.authorization.k8s.io/")
        {
            match root.text("kind") {
                "Role" | "ClusterRole" => self.roles.push(role(&root)),
                "RoleBinding" | "ClusterRoleBinding" => self.bindings.push(binding(&root)),
                _ => {}
            }
        }
    }

    fn add_source(&mut self, root: &Site<'_>) {
        let (namespace, name) = (metadata(root, "namespace"), metadata(root, "name"));
        let Some(super::tree::Kind::Map(kinds)) = root.get("spec").map(|spec| &spec.node.kind)
        else {
            return;
        };
        for kind in kinds {
            let super::tree::Kind::Map(events) = &kind.value.kind else {
                continue;
            };
            for event in events {
                let key = (namespace.clone(), name.clone(), event.key.clone());
                self.sources.insert(key, kind.key.clone());
            }
        }
    }

    /// The kind of source of an event, where its EventSource is in the files.
    pub(super) fn source_kind(&self, namespace: &str, source: &str, event: &str) -> Option<&str> {
        let key = |namespace: &str| (namespace.to_owned(), source.to_owned(), event.to_owned());
        let found = self.sources.get(&key(namespace));
        found
            .or_else(|| self.sources.get(&key("")))
            .map(String::as_str)
    }

    /// The roles bound to an account in a namespace, as far as the files tell.
    pub(super) fn roles_of(&self, namespace: &str, account: &str) -> Vec<&Role> {
        let bound = self.bindings.iter().filter(|binding| {
            binding.accounts.iter().any(|(at, name)| {
                let at = if at.is_empty() {
                    &binding.namespace
                } else {
                    at
                };
                name == account && (at == namespace || at.is_empty() || namespace.is_empty())
            })
        });
        bound
            .filter_map(|binding| {
                self.roles.iter().find(|role| {
                    let here = role.kind == "ClusterRole" || role.namespace == binding.namespace;
                    role.kind == binding.role_kind && role.name == binding.role && here
                })
            })
            .collect()
    }
}

fn texts(site: &Site<'_>, key: &str) -> Vec<String> {
    let items = site.list(key);
    let texts = items.iter().filter_map(|item| item.node.text());
    texts.map(str::to_owned).collect()
}

fn role(root: &Site<'_>) -> Role {
    let listed = root.list("rules");
    let rules = listed.iter().map(|rule| Rule {
        groups: texts(rule, "apiGroups"),
        resources: texts(rule, "resources"),
        verbs: texts(rule, "verbs"),
        names: texts(rule, "resourceNames"),
    });
    Role {
        kind: root.text("kind").to_owned(),
        namespace: metadata(root, "namespace"),
        name: metadata(root, "name"),
        rules: rules.collect(),
    }
}

fn binding(root: &Site<'_>) -> Binding {
    let of_role = |key| {
        root.get("roleRef")
            .map_or_else(String::new, |role| role.text(key).to_owned())
    };
    let subjects = root.list("subjects");
    let accounts = subjects
        .iter()
        .filter(|subject| subject.text("kind") == "ServiceAccount")
        .map(|subject| {
            (
                subject.text("namespace").to_owned(),
                subject.text("name").to_owned(),
            )
        });
    Binding {
        namespace: metadata(root, "namespace"),
        role_kind: of_role("kind"),
        role: of_role("name"),
        accounts: accounts.collect(),
    }
}
