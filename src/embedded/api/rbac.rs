//! Role-based access control: who may do what, as kube-apiserver's RBAC authorizer decides it.
//!
//! Pure. From above: build a [`Policy`] from the stored RBAC objects, ask [`Policy::authorize`], word a refusal with
//! [`forbidden_message`] or [`forbidden`], and guard writes of roles and bindings with [`escalation`].

mod aggregation;
mod escalation;
mod message;
mod rule;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::attributes::{Attributes, ResourceAttributes, User};
use super::go_text;

pub use aggregation::aggregated_rules;
pub use escalation::escalation;
pub use message::{forbidden, forbidden_because, forbidden_message};
pub use rule::Rule;

/// API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
/// Members of this group may do everything, whatever the roles say.
pub const MASTERS: &str = "system:masters";

/// The answer of [`Policy::authorize`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Verdict {
    pub allowed: bool,
    /// Which binding allows it, or which role references could not be resolved; often empty on a denial.
    pub reason: String,
}

/// The rules in force: an index over Roles, ClusterRoles and their bindings.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    cluster_bindings: Vec<Binding>,
    bindings: HashMap<String, Vec<Binding>>,
    roles: HashMap<RoleKey, Arc<[Rule]>>,
}

/// A namespace (empty for a ClusterRole) and a name.
type RoleKey = (String, String);

#[derive(Clone, Debug)]
struct Binding {
    name: String,
    /// Empty for a ClusterRoleBinding.
    namespace: String,
    role_kind: String,
    role_name: String,
    subjects: Vec<Subject>,
    rules: Result<Arc<[Rule]>, String>,
}

#[derive(Clone, Debug)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

impl Policy {
    /// Reads the RBAC objects among `objects`; others and damaged ones are passed over.
    pub fn new<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Policy {
        let mut cluster_roles = Vec::new();
        let mut bindings = Vec::new();
        let mut policy = Policy::default();
        for object in objects {
            match text(object, "kind") {
                "ClusterRole" => cluster_roles.push(object),
                "Role" => policy.add_role(object, rule::parse_list(&object["rules"])),
                "RoleBinding" | "ClusterRoleBinding" => bindings.push(object),
                _ => {}
            }
        }
        for (object, rules) in aggregation::resolve(&cluster_roles) {
            policy.add_role(object, rules);
        }
        bindings.sort_by_key(|binding| text(&binding["metadata"], "name"));
        for object in bindings {
            policy.add_binding(object);
        }
        policy
    }

    fn add_role(&mut self, object: &Value, rules: Vec<Rule>) {
        let metadata = &object["metadata"];
        let namespace = if text(object, "kind") == "Role" {
            text(metadata, "namespace")
        } else {
            ""
        };
        let key = (namespace.to_owned(), text(metadata, "name").to_owned());
        self.roles.insert(key, rules.into());
    }

    fn add_binding(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let of_cluster = text(object, "kind") == "ClusterRoleBinding";
        let namespace = if of_cluster {
            ""
        } else {
            text(metadata, "namespace")
        };
        let (role_kind, role_name) = (
            text(&object["roleRef"], "kind"),
            text(&object["roleRef"], "name"),
        );
        let binding = Binding {
            name: text(metadata, "name").to_owned(),
            namespace: namespace.to_owned(),
            role_kind: role_kind.to_owned(),
            role_name: role_name.to_owned(),
            subjects: object["subjects"]
                .as_array()
                .into_iter()
                .flatten()
                .map(Subject::parse)
                .collect(),
            rules: self
                .role_rules(role_kind, role_name, namespace)
                .map_err(|error| error.to_string()),
        };
        if of_cluster {
            self.cluster_bindings.push(binding);
        } else {
            self.bindings
                .entry(namespace.to_owned())
                .or_default()
                .push(binding);
        }
    }

    /// Rules of the role that a binding in `namespace` refers to.
    fn role_rules(
        &self,
        kind: &str,
        name: &str,
        namespace: &str,
    ) -> Result<Arc<[Rule]>, RoleRefError> {
        let namespace = match kind {
            "ClusterRole" => "",
            "Role" => namespace,
            _ => return Err(RoleRefError::Kind(kind.to_owned())),
        };
        let missing = || RoleRefError::Missing {
            kind: kind.to_lowercase(),
            name: name.to_owned(),
        };
        if kind == "Role" && namespace.is_empty() {
            return Err(missing());
        }
        self.roles
            .get(&(namespace.to_owned(), name.to_owned()))
            .cloned()
            .ok_or_else(missing)
    }

    /// Whether `user` may do what `attributes` ask for.
    #[must_use]
    pub fn authorize(&self, user: &User, attributes: &Attributes) -> Verdict {
        if is_master(user) {
            return Verdict {
                allowed: true,
                reason: String::new(),
            };
        }
        let mut errors = Vec::new();
        let combined = match attributes {
            Attributes::Resource(wanted) => rule::combined_resource(wanted),
            Attributes::NonResource { .. } => String::new(),
        };
        for (binding, subject) in self.applicable(user, namespace_of(attributes)) {
            match &binding.rules {
                Err(error) => push_new(&mut errors, error),
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes, &combined)) => {
                    return Verdict {
                        allowed: true,
                        reason: binding.reason(subject),
                    };
                }
                Ok(_) => {}
            }
        }
        Verdict {
            allowed: false,
            reason: denial_reason(&errors),
        }
    }

    /// [`Policy::authorize`] for a resource request.
    #[must_use]
    pub fn authorize_resource(&self, user: &User, attributes: &ResourceAttributes) -> Verdict {
        self.authorize(user, &Attributes::Resource(attributes.clone()))
    }

    /// All rules that apply to `user` in `namespace` (cluster-wide ones included), and the references that could not
    /// be resolved.
    #[must_use]
    pub fn rules_for(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for (binding, _) in self.applicable(user, namespace) {
            match &binding.rules {
                Ok(found) => rules.extend(found.iter().cloned()),
                Err(error) => push_new(&mut errors, error),
            }
        }
        (rules, errors)
    }

    /// The bindings that name `user`, cluster-wide ones first, each with the subject that matched.
    fn applicable<'a>(
        &'a self,
        user: &'a User,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Binding, &'a Subject)> {
        let local = if namespace.is_empty() {
            None
        } else {
            self.bindings.get(namespace)
        };
        self.cluster_bindings
            .iter()
            .chain(local.into_iter().flatten())
            .filter_map(|binding| Some((binding, binding.subject(user)?)))
    }
}

/// Why a roleRef gives no rules.
#[derive(Debug, thiserror::Error)]
enum RoleRefError {
    #[error("{kind}.{GROUP} {} not found", go_text::quote(name))]
    Missing { kind: String, name: String },
    #[error("unsupported role reference kind: {}", go_text::quote(.0))]
    Kind(String),
}

impl Binding {
    fn subject(&self, user: &User) -> Option<&Subject> {
        self.subjects
            .iter()
            .find(|subject| subject.matches(user, &self.namespace))
    }

    fn reason(&self, subject: &Subject) -> String {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.clone())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        format!(
            "RBAC: allowed by {kind} {} of {} {} to {}",
            go_text::quote(&name),
            self.role_kind,
            go_text::quote(&self.role_name),
            subject.describe(&self.namespace)
        )
    }
}

impl Subject {
    fn parse(value: &Value) -> Subject {
        Subject {
            kind: text(value, "kind").to_owned(),
            name: text(value, "name").to_owned(),
            namespace: text(value, "namespace").to_owned(),
        }
    }

    /// A ServiceAccount without a namespace is one of the binding's namespace; in a ClusterRoleBinding it is nobody.
    fn matches(&self, user: &User, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => self.name == user.name,
            "Group" => user.groups.contains(&self.name),
            "ServiceAccount" => {
                let namespace = self.namespace_in(binding_namespace);
                !namespace.is_empty()
                    && user
                        .name
                        .strip_prefix("system:serviceaccount:")
                        .and_then(|rest| rest.split_once(':'))
                        .is_some_and(|(ns, name)| ns == namespace && name == self.name)
            }
            _ => false,
        }
    }

    fn namespace_in<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() {
            binding_namespace
        } else {
            &self.namespace
        }
    }

    fn describe(&self, binding_namespace: &str) -> String {
        let name = match self.kind.as_str() {
            "ServiceAccount" => format!("{}/{}", self.name, self.namespace_in(binding_namespace)),
            _ => self.name.clone(),
        };
        format!("{} {}", self.kind, go_text::quote(&name))
    }
}

fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}

fn namespace_of(attributes: &Attributes) -> &str {
    match attributes {
        Attributes::Resource(wanted) => &wanted.namespace,
        Attributes::NonResource { .. } => "",
    }
}

fn push_new(errors: &mut Vec<String>, error: &str) {
    if !errors.iter().any(|known| known == error) {
        errors.push(error.to_owned());
    }
}

fn denial_reason(errors: &[String]) -> String {
    match errors {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        several => format!("RBAC: [{}]", several.join(", ")),
    }
}

/// The string at `field`, or an empty one.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
