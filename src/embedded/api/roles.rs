//! What a new cluster contains before anybody uses it: namespaces, service accounts, roles and bindings.
//!
//! From above: [`defaults`] gives the objects to seed. Controllers get the Roles that the real ones have, so that a
//! missing right shows here as it would in the field.

mod argo;
mod lab;
mod system;
mod user_facing;

use serde_json::{Map, Value, json};

use super::rbac::{self, Rule};

const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// All objects to seed, namespaces first; aggregated ClusterRoles carry their rules already.
#[must_use]
pub fn defaults() -> Vec<Value> {
    let mut objects = lab::namespaces();
    objects.extend(system::objects());
    objects.extend(user_facing::objects());
    objects.extend(argo::objects());
    objects.extend(lab::objects());
    fill_aggregated(objects)
}

fn fill_aggregated(mut objects: Vec<Value>) -> Vec<Value> {
    let all = objects.clone();
    let cluster_roles: Vec<&Value> = all
        .iter()
        .filter(|object| object["kind"] == "ClusterRole")
        .collect();
    for object in &mut objects {
        if let Some(rules) = rbac::aggregated_rules(object, &cluster_roles) {
            object["rules"] = rules.iter().map(Rule::to_json).collect();
        }
    }
    objects
}

/// Space-separated words as a list; `core` stands for the core API group.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace()
        .map(|word| if word == "core" { "" } else { word })
        .collect()
}

/// One rule for resources, each argument a space-separated list.
fn rule(api_groups: &str, resources: &str, verbs: &str) -> Value {
    json!({"apiGroups": words(api_groups), "resources": words(resources), "verbs": words(verbs)})
}

/// One rule for paths that are not resources.
fn url_rule(urls: &str, verbs: &str) -> Value {
    json!({"nonResourceURLs": words(urls), "verbs": words(verbs)})
}

fn events_rule() -> Value {
    rule("core events.k8s.io", "events", "create patch update")
}

fn cluster_role(name: &str, rules: Vec<Value>) -> Value {
    json!({
        "apiVersion": RBAC_VERSION,
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    })
}

fn role(namespace: &str, name: &str, rules: Vec<Value>) -> Value {
    json!({
        "apiVersion": RBAC_VERSION,
        "kind": "Role",
        "metadata": {"name": name, "namespace": namespace},
        "rules": rules,
    })
}

/// Marks an object as one of Kubernetes' own defaults.
fn bootstrap(mut object: Value) -> Value {
    object["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] =
        json!("true");
    label(object, "kubernetes.io/bootstrapping", "rbac-defaults")
}

fn label(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["labels"][key] = json!(value);
    object
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "apiGroup": rbac::GROUP, "name": name})
}

fn group(name: &str) -> Value {
    json!({"kind": "Group", "apiGroup": rbac::GROUP, "name": name})
}

fn account(namespace: &str, name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
}

fn cluster_binding(name: &str, cluster_role: &str, subjects: Vec<Value>) -> Value {
    binding(
        "ClusterRoleBinding",
        json!({"name": name}),
        "ClusterRole",
        cluster_role,
        subjects,
    )
}

fn role_binding(
    namespace: &str,
    name: &str,
    (kind, role): (&str, &str),
    subjects: Vec<Value>,
) -> Value {
    binding(
        "RoleBinding",
        json!({"name": name, "namespace": namespace}),
        kind,
        role,
        subjects,
    )
}

fn binding(
    kind: &str,
    metadata: Value,
    role_kind: &str,
    role: &str,
    subjects: Vec<Value>,
) -> Value {
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(RBAC_VERSION));
    object.insert("kind".to_owned(), json!(kind));
    object.insert("metadata".to_owned(), metadata);
    object.insert(
        "roleRef".to_owned(),
        json!({"apiGroup": rbac::GROUP, "kind": role_kind, "name": role}),
    );
    object.insert("subjects".to_owned(), Value::Array(subjects));
    Value::Object(object)
}

fn namespace(name: &str) -> Value {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    });
    label(object, "kubernetes.io/metadata.name", name)
}

fn service_account(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    })
}

#[cfg(test)]
mod tests;
