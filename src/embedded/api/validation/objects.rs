//! Checks of single kinds, at create and at update.

use serde_json::Value;

use crate::embedded::api::registry::Kind;
use crate::embedded::api::status::Cause;

/// What an object of this kind must have.
#[must_use]
pub fn check_object(kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (kind.group, kind.plural) {
        ("", "pods") => containers(object, "/spec", "spec", &mut causes),
        ("apps", _) => workload(object, &mut causes),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            binding(object, &mut causes)
        }
        ("argoproj.io", _) => custom(object, &mut causes),
        _ => {}
    }
    causes
}

/// What an update may not change.
#[must_use]
pub fn check_change(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (kind.group, kind.plural) {
        ("apps", _) => immutable(
            new,
            old,
            "/spec/selector",
            "spec.selector",
            "field is immutable",
            &mut causes,
        ),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            immutable(
                new,
                old,
                "/roleRef",
                "roleRef",
                "cannot change roleRef",
                &mut causes,
            );
        }
        ("", "secrets") => immutable(new, old, "/type", "type", "field is immutable", &mut causes),
        _ => {}
    }
    causes
}

fn immutable(
    new: &Value,
    old: &Value,
    pointer: &str,
    field: &str,
    why: &str,
    causes: &mut Vec<Cause>,
) {
    if new.pointer(pointer) != old.pointer(pointer) {
        causes.push(Cause::invalid(
            field,
            new.pointer(pointer).unwrap_or(&Value::Null),
            why,
        ));
    }
}

fn containers(object: &Value, pointer: &str, field: &str, causes: &mut Vec<Cause>) {
    let list = object
        .pointer(&format!("{pointer}/containers"))
        .and_then(Value::as_array);
    let Some(list) = list.filter(|list| !list.is_empty()) else {
        causes.push(Cause::required(format!("{field}.containers"), ""));
        return;
    };
    for (index, container) in list.iter().enumerate() {
        for key in ["name", "image"] {
            if container
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or("")
                .is_empty()
            {
                causes.push(Cause::required(
                    format!("{field}.containers[{index}].{key}"),
                    "",
                ));
            }
        }
    }
}

fn workload(object: &Value, causes: &mut Vec<Cause>) {
    let labels = object
        .pointer("/spec/template/metadata/labels")
        .cloned()
        .unwrap_or(Value::Null);
    match object.pointer("/spec/selector") {
        None | Some(Value::Null) => causes.push(Cause::required("spec.selector", "")),
        Some(selector) => {
            let have = labels.as_object().into_iter().flatten();
            let have = have
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect();
            let wanted = crate::embedded::api::selectors::LabelSelector::from_object(selector);
            if wanted.is_empty() {
                causes.push(Cause::invalid(
                    "spec.selector",
                    selector,
                    "empty selector is invalid for deployment",
                ));
            } else if !wanted.matches(&have) {
                causes.push(Cause::invalid(
                    "spec.template.metadata.labels",
                    &labels,
                    "`selector` does not match template `labels`",
                ));
            }
        }
    }
    containers(object, "/spec/template/spec", "spec.template.spec", causes);
}

fn binding(object: &Value, causes: &mut Vec<Cause>) {
    let kind = object
        .pointer("/roleRef/kind")
        .and_then(Value::as_str)
        .unwrap_or("");
    if !matches!(kind, "Role" | "ClusterRole") {
        causes.push(Cause::unsupported(
            "roleRef.kind",
            kind,
            &["Role", "ClusterRole"],
        ));
    }
    if object
        .pointer("/roleRef/name")
        .and_then(Value::as_str)
        .unwrap_or("")
        .is_empty()
    {
        causes.push(Cause::required("roleRef.name", ""));
    }
    for (index, subject) in object
        .get("subjects")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        let text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or("");
        if text("name").is_empty() {
            causes.push(Cause::required(format!("subjects[{index}].name"), ""));
        }
        match text("kind") {
            "ServiceAccount" if text("namespace").is_empty() => {
                causes.push(Cause::required(format!("subjects[{index}].namespace"), ""));
            }
            "ServiceAccount" | "User" | "Group" => {}
            other => causes.push(Cause::unsupported(
                format!("subjects[{index}].kind"),
                other,
                &["ServiceAccount", "User", "Group"],
            )),
        }
    }
}

/// The little that the Argo definitions say about their objects: `spec` and `status` are objects.
fn custom(object: &Value, causes: &mut Vec<Cause>) {
    for field in ["spec", "status"] {
        let kind = match object.get(field) {
            None | Some(Value::Object(_)) => continue,
            Some(Value::Null) => "null",
            Some(Value::Bool(_)) => "boolean",
            Some(Value::Number(number)) if number.is_f64() => "number",
            Some(Value::Number(_)) => "integer",
            Some(Value::String(_)) => "string",
            Some(Value::Array(_)) => "array",
        };
        let message =
            format!("Invalid value: {kind:?}: {field} in body must be of type object: {kind:?}");
        causes.push(Cause {
            reason: "FieldValueTypeInvalid",
            field: field.to_owned(),
            message,
        });
    }
}
