//! Checks of roles and bindings, as `pkg/apis/rbac/validation` has them.

use serde_json::Value;

use super::{path_segment, subdomain};
use crate::embedded::api::registry::Kind;
use crate::embedded::api::status::Cause;

const RBAC: &str = "rbac.authorization.k8s.io";

/// What a role or a binding must have.
pub(super) fn check(kind: &Kind, object: &Value, causes: &mut Vec<Cause>) {
    match kind.plural {
        "roles" | "clusterroles" => {
            let rules = object.get("rules").and_then(Value::as_array);
            for (index, one) in rules.into_iter().flatten().enumerate() {
                rule(&format!("rules[{index}]"), one, kind.namespaced, causes);
            }
        }
        "rolebindings" | "clusterrolebindings" => binding(kind, object, causes),
        _ => {}
    }
}

fn rule(field: &str, rule: &Value, namespaced: bool, causes: &mut Vec<Cause>) {
    let has = |key: &str| {
        let list = rule.get(key).and_then(Value::as_array);
        list.is_some_and(|list| !list.is_empty())
    };
    let mut wants = |key: &str, why: &str| {
        if !has(key) {
            causes.push(Cause::required(format!("{field}.{key}"), why));
        }
    };
    wants("verbs", "verbs must contain at least one value");
    if !has("nonResourceURLs") {
        wants(
            "apiGroups",
            "resource rules must supply at least one api group",
        );
        wants(
            "resources",
            "resource rules must supply at least one resource",
        );
        return;
    }
    let mut refuse = |why: &str| {
        let urls = rule.get("nonResourceURLs").unwrap_or(&Value::Null);
        causes.push(Cause::invalid(
            format!("{field}.nonResourceURLs"),
            urls,
            why,
        ));
    };
    if namespaced {
        refuse("namespaced rules cannot apply to non-resource URLs");
    }
    if has("apiGroups") || has("resources") || has("resourceNames") {
        refuse("rules cannot apply to both regular resources and non-resource URLs");
    }
}

fn binding(kind: &Kind, object: &Value, causes: &mut Vec<Cause>) {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or("")
    };
    let target = text("/roleRef/kind");
    if !matches!(target, "Role" | "ClusterRole") {
        let known = ["Role", "ClusterRole"];
        causes.push(Cause::unsupported("roleRef.kind", target, &known));
    }
    let group = text("/roleRef/apiGroup");
    if group != RBAC {
        causes.push(Cause::unsupported("roleRef.apiGroup", group, &[RBAC]));
    }
    let name = text("/roleRef/name");
    if name.is_empty() {
        causes.push(Cause::required("roleRef.name", ""));
    } else if let Some(why) = path_segment(name) {
        causes.push(Cause::invalid("roleRef.name", &Value::from(name), &why));
    }
    let subjects = object.get("subjects").and_then(Value::as_array);
    for (index, one) in subjects.into_iter().flatten().enumerate() {
        subject(&format!("subjects[{index}]"), one, kind.namespaced, causes);
    }
}

/// In a RoleBinding, a service account without a namespace is one of the binding's own.
fn subject(field: &str, subject: &Value, namespaced: bool, causes: &mut Vec<Cause>) {
    let text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or("");
    if text("name").is_empty() {
        causes.push(Cause::required(format!("{field}.name"), ""));
    }
    if text("kind") == "ServiceAccount"
        && let Some(why) = subdomain(text("name")).filter(|_| !text("name").is_empty())
    {
        let name = Value::from(text("name"));
        causes.push(Cause::invalid(format!("{field}.name"), &name, &why));
    }
    match text("kind") {
        "ServiceAccount" if !namespaced && text("namespace").is_empty() => {
            causes.push(Cause::required(format!("{field}.namespace"), ""));
        }
        "ServiceAccount" | "User" | "Group" => {}
        other => causes.push(Cause::unsupported(
            format!("{field}.kind"),
            other,
            &["ServiceAccount", "User", "Group"],
        )),
    }
}
