//! Checks of `metadata` at create and update.

use serde_json::{Map, Value};

use super::{dns_label, label_value, path_segment, qualified_name, subdomain};
use crate::embedded::api::object;
use crate::embedded::api::registry::Kind;
use crate::embedded::api::status::Cause;

/// Most bytes that all annotations of an object may take together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

fn name_rule(kind: &Kind) -> fn(&str) -> Option<String> {
    match (kind.group, kind.plural) {
        ("", "namespaces" | "services") => dns_label,
        ("rbac.authorization.k8s.io", _) | ("", "events") => path_segment,
        _ => subdomain,
    }
}

/// Everything in `metadata` that a new or changed object must get right.
#[must_use]
pub fn check_metadata(kind: &Kind, value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = object::name(value);
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if let Some(why) = name_rule(kind)(name) {
        causes.push(Cause::invalid("metadata.name", &Value::from(name), &why));
    }
    let Some(metadata) = value.get("metadata").and_then(Value::as_object) else {
        return causes;
    };
    check_labels(metadata, &mut causes);
    check_annotations(metadata, &mut causes);
    check_owners(metadata, &mut causes);
    check_finalizers(kind, metadata, &mut causes);
    causes
}

fn check_labels(metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    for (key, value) in metadata
        .get("labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Some(why) = qualified_name(key) {
            causes.push(Cause::invalid(
                "metadata.labels",
                &Value::from(key.as_str()),
                &why,
            ));
        }
        if let Some(why) = label_value(value.as_str().unwrap_or("")) {
            causes.push(Cause::invalid("metadata.labels", value, &why));
        }
    }
}

fn check_annotations(metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    let mut total = 0;
    for (key, value) in metadata
        .get("annotations")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Some(why) = qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &Value::from(key.as_str()),
                &why,
            ));
        }
        total += key.len() + value.as_str().map_or(0, str::len);
    }
    if total > ANNOTATIONS_LIMIT {
        let message = format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes");
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: "metadata.annotations".to_owned(),
            message,
        });
    }
}

fn check_owners(metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    let mut controllers = 0;
    for owner in owners.into_iter().flatten() {
        for key in ["apiVersion", "kind", "name", "uid"] {
            if owner
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or("")
                .is_empty()
            {
                let field = format!("metadata.ownerReferences.{key}");
                let why = match key {
                    "apiVersion" => "version must not be empty",
                    _ => "must not be empty",
                };
                causes.push(Cause::invalid(field, &Value::from(""), why));
            }
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        let why = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid(
            "metadata.ownerReferences",
            &Value::from(controllers),
            why,
        ));
    }
}

/// Built-in kinds want a standard or a fully qualified name (`pkg/apis/core/validation`); custom resources, and those
/// that are not checked by the core's rules, only a qualified one (`k8s.io/apimachinery/pkg/api/validation`).
fn check_finalizers(kind: &Kind, metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    let lenient = match (kind.group, kind.plural) {
        ("", "events") | ("coordination.k8s.io", _) => true,
        _ => kind.custom,
    };
    let list = metadata.get("finalizers").and_then(Value::as_array);
    for (index, finalizer) in list.into_iter().flatten().enumerate() {
        let text = finalizer.as_str().unwrap_or("");
        if let Some(why) = qualified_name(text) {
            causes.push(Cause::invalid("metadata.finalizers", finalizer, &why));
        }
        let plain = matches!(text, "orphan" | "foregroundDeletion" | "kubernetes");
        if !lenient && !plain && !text.contains('/') {
            let field = format!("metadata.finalizers[{index}]");
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(field, finalizer, why));
        }
    }
    let has = |name: &str| list.is_some_and(|list| list.iter().any(|one| one == name));
    if let Some(list) = list.filter(|_| has("orphan") && has("foregroundDeletion")) {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        let given = Value::from(list.clone());
        causes.push(Cause::invalid("metadata.finalizers", &given, why));
    }
}

fn immutable(key: &str, value: &Value) -> Cause {
    Cause::invalid(format!("metadata.{key}"), value, "field is immutable")
}

/// What an update may not change in `metadata`.
#[must_use]
pub fn check_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for key in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let pointer = format!("/metadata/{key}");
        let is = new.pointer(&pointer).filter(|is| !is.is_null());
        if let Some(is) = is.filter(|is| old.pointer(&pointer) != Some(is)) {
            // Upstream has two checks for them.
            causes.extend([immutable(key, is), immutable(key, is)]);
        }
    }
    if object::is_deleting(old) {
        let added: Vec<&Value> = object::strings(new, "finalizers")
            .filter(|one| !object::strings(old, "finalizers").any(|was| was == *one))
            .collect();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(ToString::to_string).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    causes
}
