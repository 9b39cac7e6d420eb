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
    /// Other ClusterRoles may add rules to it.
    pub aggregated: bool,
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
    subjects: Vec<Subject>,
}

/// Whom a binding gives a role.
#[derive(Clone, Debug)]
enum Subject {
    /// A service account: namespace, empty where it is left out, and name.
    Account(String, String),
    /// The service accounts of a namespace; of all where there is none.
    Accounts(Option<String>),
}

impl Subject {
    /// A subject that may be a service account.
    fn read(site: &Site<'_>) -> Option<Self> {
        let name = site.text("name");
        let account = |namespace: &str, name: &str| {
            Some(Self::Account(namespace.to_owned(), name.to_owned()))
        };
        match site.text("kind") {
            "ServiceAccount" => account(site.text("namespace"), name),
            "User" => {
                let (namespace, name) = name
                    .strip_prefix("system:serviceaccount:")?
                    .split_once(':')?;
                account(namespace, name)
            }
            "Group" => match name {
                "system:serviceaccounts" | "system:authenticated" => Some(Self::Accounts(None)),
                name => {
                    let namespace = name.strip_prefix("system:serviceaccounts:")?;
                    Some(Self::Accounts(Some(namespace.to_owned())))
                }
            },
            _ => None,
        }
    }
}

/// The roles bound to an account.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound {
    pub roles: Vec<Role>,
    /// One of them is not in the files, or others may add to it.
    pub may_be_more: bool,
}

/// Whether a document is a Sensor of Argo Events, or one that does not say whose.
pub(super) fn is_sensor(document: &Node) -> bool {
    let root = Site::root(document);
    let version = root.text("apiVersion");
    let ours = version.is_empty() || version.split('/').next() == Some("argoproj.io");
    ours && root.text("kind") == "Sensor"
}

/// Whether a document is of this kind.
fn is_kind(document: &Node, group: &str, kind: &str) -> bool {
    let root = Site::root(document);
    root.text("apiVersion").starts_with(group) && root.text("kind") == kind
}

fn metadata(root: &Site<'_>, key: &str) -> String {
    root.get("metadata")
        .map_or_else(String::new, |metadata| metadata.text(key).to_owned())
}

/// The namespace of an object that names none.
fn settled(namespace: &str) -> &str {
    if namespace.is_empty() {
        "default"
    } else {
        namespace
    }
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
        let name = metadata(root, "name");
        let namespace = settled(&metadata(root, "namespace")).to_owned();
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
        let namespace = settled(namespace).to_owned();
        let key = (namespace, source.to_owned(), event.to_owned());
        self.sources.get(&key).map(String::as_str)
    }

    /// The roles bound to an account in a namespace, as far as the files tell.
    pub(super) fn roles_of(&self, namespace: &str, account: &str) -> Bound {
        let mut bound = Bound::default();
        for binding in &self.bindings {
            let mut subjects = binding.subjects.iter();
            if !subjects.any(|subject| binding.means(subject, namespace, account)) {
                continue;
            }
            let written = self.roles.iter().find(|role| {
                let here = role.kind == "ClusterRole" || role.namespace == binding.namespace;
                role.kind == binding.role_kind && role.name == binding.role && here
            });
            match written.cloned().or_else(|| usual(binding)) {
                None => bound.may_be_more = true,
                Some(role) => {
                    bound.may_be_more |= role.aggregated;
                    let known = |known: &Role| known.kind == role.kind && known.name == role.name;
                    if !bound.roles.iter().any(known) {
                        bound.roles.push(role);
                    }
                }
            }
        }
        bound
    }
}

impl Binding {
    fn means(&self, subject: &Subject, namespace: &str, account: &str) -> bool {
        match subject {
            Subject::Account(at, name) => {
                let at = if at.is_empty() { &self.namespace } else { at };
                name == account && (at == namespace || at.is_empty() || namespace.is_empty())
            }
            // What every account of a cluster may do from the start says nothing of this one.
            Subject::Accounts(None) => !EVERYBODYS.contains(&self.role.as_str()),
            Subject::Accounts(Some(at)) => at == namespace,
        }
    }
}

/// ClusterRoles that Kubernetes binds to all accounts.
const EVERYBODYS: [&str; 4] = [
    "system:basic-user",
    "system:discovery",
    "system:public-info-viewer",
    "system:service-account-issuer-discovery",
];

/// A ClusterRole that every cluster has, whether a file shows it or not.
fn usual(binding: &Binding) -> Option<Role> {
    let (groups, verbs): (&[&str], &[&str]) = match binding.role.as_str() {
        "cluster-admin" => (&["*"], &["*"]),
        "admin" | "edit" => (
            &["", "apps", "batch"],
            &["create", "update", "patch", "delete"],
        ),
        "view" => (&["", "apps", "batch"], &["get", "list", "watch"]),
        _ => return None,
    };
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    (binding.role_kind == "ClusterRole").then(|| Role {
        kind: binding.role_kind.clone(),
        namespace: String::new(),
        name: binding.role.clone(),
        rules: vec![Rule {
            groups: owned(groups),
            resources: owned(&["*"]),
            verbs: owned(verbs),
            names: Vec::new(),
        }],
        aggregated: binding.role != "cluster-admin",
    })
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
        aggregated: root.get("aggregationRule").is_some(),
    }
}

fn binding(root: &Site<'_>) -> Binding {
    let of_role = |key| {
        root.get("roleRef")
            .map_or_else(String::new, |role| role.text(key).to_owned())
    };
    let subjects = root.list("subjects");
    Binding {
        namespace: metadata(root, "namespace"),
        role_kind: of_role("kind"),
        role: of_role("name"),
        subjects: subjects.iter().filter_map(Subject::read).collect(),
    }
}
