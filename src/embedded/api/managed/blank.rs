//! What an object of a kind has before anybody has written anything: the places that Go's structs always have.
//!
//! Whoever creates an object owns what it puts into these places, not the places themselves.

use serde_json::{Value, json};

use crate::embedded::api::registry::Kind;

/// The empty object of a kind, without what nobody owns.
pub(super) fn of(kind: &Kind) -> Value {
    if kind.custom {
        return json!({"metadata": {}});
    }
    let template = || json!({"metadata": {}, "spec": {"containers": null}});
    match (kind.group, kind.plural) {
        ("", "pods") => json!({"metadata": {}, "spec": {"containers": null}, "status": {}}),
        ("", "services") => json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        ("", "persistentvolumeclaims") => {
            json!({"metadata": {}, "spec": {"resources": {}}, "status": {}})
        }
        ("", "events") => json!({"metadata": {}, "involvedObject": {}, "source": {}}),
        ("apps", _) => json!({
            "metadata": {}, "status": {},
            "spec": {"selector": null, "template": template(), "strategy": {}, "updateStrategy": {}},
        }),
        ("batch", "jobs") => {
            json!({"metadata": {}, "spec": {"template": template()}, "status": {}})
        }
        _ => json!({"metadata": {}, "spec": {}, "status": {}}),
    }
}
