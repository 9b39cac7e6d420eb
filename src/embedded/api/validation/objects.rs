//! Checks of single kinds, at create and at update.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{data, rbac};
use crate::embedded::api::registry::Kind;
use crate::embedded::api::status::Cause;

/// What an object of this kind must have.
#[must_use]
pub fn check_object(kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (kind.group, kind.plural) {
        ("", "pods") => containers(object, "/spec", "spec", &mut causes),
        ("", "configmaps" | "secrets") => data::check(kind, object, &mut causes),
        ("", "persistentvolumeclaims") => data::check_claim(object, &mut causes),
        ("", "services") => ports(object, &mut causes),
        ("apps", _) => workload(object, &mut causes),
        ("rbac.authorization.k8s.io", _) => rbac::check(kind, object, &mut causes),
        ("argoproj.io", plural) => custom(plural, object, &mut causes),
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
        ("", "configmaps" | "secrets") => {
            data::check_frozen(new, old, &mut causes);
            if kind.plural == "secrets" {
                immutable(new, old, "/type", "type", "field is immutable", &mut causes);
            }
        }
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
    let text = |container: &Value, key: &str| {
        let text = container.get(key).and_then(Value::as_str);
        text.unwrap_or("").to_owned()
    };
    let mut names = BTreeSet::new();
    for (index, container) in list.iter().enumerate() {
        let name = text(container, "name");
        if !name.is_empty() && !names.insert(name.clone()) {
            let field = format!("{field}.containers[{index}].name");
            causes.push(Cause::duplicate(field, &Value::from(name)));
        }
        for key in ["name", "image"] {
            if text(container, key).is_empty() {
                causes.push(Cause::required(
                    format!("{field}.containers[{index}].{key}"),
                    "",
                ));
            }
        }
    }
    mounts(object, pointer, field, causes);
}

/// Every volume that a container mounts must be one of the pod.
fn mounts(object: &Value, pointer: &str, field: &str, causes: &mut Vec<Cause>) {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned();
    let volumes = list(object.pointer(&format!("{pointer}/volumes"))).unwrap_or_default();
    for group in ["initContainers", "containers"] {
        let containers = list(object.pointer(&format!("{pointer}/{group}"))).unwrap_or_default();
        for (index, container) in containers.iter().enumerate() {
            let mounts = container.get("volumeMounts").and_then(Value::as_array);
            for (at, mount) in mounts.into_iter().flatten().enumerate() {
                let Some(name) = mount.get("name").filter(|name| name.is_string()) else {
                    continue;
                };
                if !volumes
                    .iter()
                    .any(|volume| volume.get("name") == Some(name))
                {
                    let field = format!("{field}.{group}[{index}].volumeMounts[{at}].name");
                    causes.push(Cause::not_found(field, name));
                }
            }
        }
    }
}

/// A Service has ports, unless it is headless or a name of something outside; several have names.
fn ports(object: &Value, causes: &mut Vec<Cause>) {
    let text = |key: &str| object.pointer(key).and_then(Value::as_str).unwrap_or("");
    let ports = object.pointer("/spec/ports").and_then(Value::as_array);
    let ports = ports.map_or(&[][..], Vec::as_slice);
    if ports.is_empty() && text("/spec/clusterIP") != "None" && text("/spec/type") != "ExternalName"
    {
        causes.push(Cause::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate().filter(|_| ports.len() > 1) {
        if port
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or("")
            .is_empty()
        {
            causes.push(Cause::required(format!("spec.ports[{index}].name"), ""));
        }
    }
}

fn workload(object: &Value, causes: &mut Vec<Cause>) {
    if let Some(replicas) = object
        .pointer("/spec/replicas")
        .filter(|count| count.as_i64() < Some(0))
    {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("spec.replicas", replicas, why));
    }
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

/// The little that the Argo definitions say about their objects: `spec` must be there, it and `status` are objects.
fn custom(plural: &str, object: &Value, causes: &mut Vec<Cause>) {
    let absent = object.get("spec").is_none();
    if absent && plural != "workflowtaskresults" {
        causes.push(Cause::required("spec", ""));
    }
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
