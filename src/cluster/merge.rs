//! Live and desired objects side by side: does the live one hold what is wanted, and what of it must a replacement keep.

use serde_json::{Map, Value};

use super::manifest::text;

/// Somebody else may have changed the live object although our hash still stands on it.
pub(super) fn drifted(live: &Value, desired: &Value) -> bool {
    let Some(desired) = desired.as_object() else {
        return false;
    };
    desired
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status"))
        .any(|(key, wanted)| !contains(live.get(key), wanted))
}

/// The live value holds everything that is wanted; defaults that a server adds do not count, list lengths do.
pub(super) fn contains(live: Option<&Value>, wanted: &Value) -> bool {
    match (live, wanted) {
        (Some(Value::Object(live)), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| contains(live.get(key), value)),
        (Some(Value::Array(live)), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| contains(Some(live), wanted))
        }
        (Some(live), wanted) => live == wanted,
        (None, wanted) => wanted.is_null(),
    }
}

/// The desired object with what the server owns taken from the live one.
pub(super) fn replacement(live: &Value, desired: &Value) -> Value {
    let mut object = desired.as_object().cloned().unwrap_or_default();
    let live_metadata = live.get("metadata").cloned().unwrap_or_default();
    edit(&mut object, "metadata", |metadata| {
        keep_metadata(metadata, &live_metadata)
    });
    if let Some(status) = live.get("status") {
        object.entry("status").or_insert_with(|| status.clone());
    }
    let kept: &[&str] = match text(desired, "/kind") {
        "Service" => &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"],
        "PersistentVolumeClaim" => &[
            "volumeName",
            "storageClassName",
            "volumeMode",
            "accessModes",
            "resources",
        ],
        _ => &[],
    };
    if !kept.is_empty() {
        edit(&mut object, "spec", |spec| {
            keep(spec, live.get("spec"), kept)
        });
    }
    if let Some(secrets) = live.get("secrets") {
        object.entry("secrets").or_insert_with(|| secrets.clone());
    }
    Value::Object(object)
}

fn keep_metadata(metadata: &mut Map<String, Value>, live: &Value) {
    keep(
        metadata,
        Some(live),
        &["resourceVersion", "uid", "ownerReferences", "finalizers"],
    );
    for field in ["labels", "annotations"] {
        let kept = live
            .get(field)
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        edit(metadata, field, |target| {
            for (key, value) in kept {
                target.entry(key).or_insert(value);
            }
        });
    }
}

/// Fields that the server filled in or that cannot change.
fn keep(target: &mut Map<String, Value>, live: Option<&Value>, fields: &[&str]) {
    for field in fields {
        if let Some(value) = live.and_then(|live| live.get(*field)) {
            target.insert((*field).to_owned(), value.clone());
        }
    }
}

/// Edits a field that must be an object; anything else in its place is replaced by one.
pub(super) fn edit(
    map: &mut Map<String, Value>,
    field: &str,
    change: impl FnOnce(&mut Map<String, Value>),
) {
    let mut inner = match map.get_mut(field).map(Value::take) {
        Some(Value::Object(inner)) => inner,
        _ => Map::new(),
    };
    change(&mut inner);
    map.insert(field.to_owned(), Value::Object(inner));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_replacement_drops_what_is_no_longer_said_and_keeps_what_the_server_owns() {
        let live = json!({"kind": "Service", "metadata": {"resourceVersion": "7", "uid": "u", "labels": {"a": "b"}}, "spec": {"clusterIP": "10.0.0.1", "ports": [1, 2]}, "status": {"x": 1}});
        let desired = json!({"kind": "Service", "metadata": {"name": "s", "labels": {"c": "d"}}, "spec": {"ports": [1]}});
        let object = replacement(&live, &desired);
        assert_eq!(
            object["spec"],
            json!({"ports": [1], "clusterIP": "10.0.0.1"})
        );
        assert_eq!(object["metadata"]["labels"], json!({"c": "d", "a": "b"}));
        assert_eq!(object["metadata"]["resourceVersion"], "7");
        assert_eq!(object["status"], json!({"x": 1}));
    }

    #[test]
    fn drift_is_seen_below_defaults() {
        let desired = json!({"metadata": {}, "spec": {"filters": {"data": [{"path": "a"}]}}});
        assert!(!drifted(
            &json!({"spec": {"filters": {"data": [{"path": "a", "default": 1}]}, "more": true}}),
            &desired
        ));
        assert!(drifted(
            &json!({"spec": {"filters": {"data": [{"path": "b"}]}}}),
            &desired
        ));
        assert!(drifted(
            &json!({"spec": {"filters": {"data": [{"path": "a"}, {"path": "c"}]}}}),
            &desired
        ));
        assert!(drifted(&json!({"spec": {}}), &desired));
    }
}
