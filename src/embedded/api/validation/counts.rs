//! Checks of what a workload says of its pods.

use serde_json::{Map, Value};

use crate::embedded::api::status::Cause;

/// What is counted: none below zero, and no part greater than the whole.
pub(super) fn check(plural: &str, object: &Value, causes: &mut Vec<Cause>) {
    let Some(status) = object.get("status").and_then(Value::as_object) else {
        return;
    };
    let counts: &[&str] = match plural {
        "deployments" => &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "collisionCount",
        ],
        "replicasets" => &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
        ],
        _ => return,
    };
    for key in counts {
        if count(status, key) < 0 {
            refuse(status, key, "must be greater than or equal to 0", causes);
        }
    }
    let parts: &[&str] = match plural {
        "deployments" => &["updatedReplicas", "readyReplicas", "availableReplicas"],
        _ => &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    };
    for key in parts {
        if count(status, key) > count(status, "replicas") {
            refuse(
                status,
                key,
                "cannot be greater than status.replicas",
                causes,
            );
        }
    }
    if count(status, "availableReplicas") > count(status, "readyReplicas") {
        let why = "cannot be greater than readyReplicas";
        refuse(status, "availableReplicas", why, causes);
    }
}

fn count(status: &Map<String, Value>, key: &str) -> i64 {
    status.get(key).and_then(Value::as_i64).unwrap_or(0)
}

fn refuse(status: &Map<String, Value>, key: &str, why: &str, causes: &mut Vec<Cause>) {
    let found = Value::from(count(status, key));
    causes.push(Cause::invalid(format!("status.{key}"), &found, why));
}
