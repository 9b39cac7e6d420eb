//! The condition list of Argo Events' objects: sorted by type, a time that changes with the content only.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::embedded::controllers::runtime::objects::now;

/// One condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    last_transition_time: Option<Time>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
}

/// The conditions of one object while it is looked at.
pub(super) struct Conditions {
    before: Vec<Condition>,
    now: Vec<Condition>,
}

impl Conditions {
    /// Starts with every type `Unknown`; `status` is what the object says so far.
    pub(super) fn start(status: Option<&Value>, kinds: &[&str]) -> Self {
        let before = status.and_then(|status| status.get("conditions"));
        let before = before
            .and_then(|list| Vec::deserialize(list).ok())
            .unwrap_or_default();
        let unknown = |kind: &&str| Condition {
            kind: (*kind).to_owned(),
            status: "Unknown".to_owned(),
            last_transition_time: None,
            reason: String::new(),
            message: String::new(),
        };
        Self {
            before,
            now: kinds.iter().map(unknown).collect(),
        }
    }

    /// Sets one to true.
    pub(super) fn mark_true(&mut self, kind: &str) {
        self.mark(kind, "True", "", "");
    }

    /// Sets one to true, saying why.
    pub(super) fn mark_true_because(&mut self, kind: &str, reason: &str, message: &str) {
        self.mark(kind, "True", reason, message);
    }

    /// Sets one to false.
    pub(super) fn mark_false(&mut self, kind: &str, reason: &str, message: &str) {
        self.mark(kind, "False", reason, message);
    }

    fn mark(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        if let Some(condition) = self.now.iter_mut().find(|condition| condition.kind == kind) {
            status.clone_into(&mut condition.status);
            reason.clone_into(&mut condition.reason);
            message.clone_into(&mut condition.message);
        }
    }

    /// The list for `status.conditions`; an unchanged condition keeps its time.
    pub(super) fn finish(mut self) -> Value {
        for condition in &mut self.now {
            let same = self.before.iter().find(|before| {
                before.kind == condition.kind
                    && before.status == condition.status
                    && before.reason == condition.reason
                    && before.message == condition.message
            });
            condition.last_transition_time = Some(
                same.and_then(|before| before.last_transition_time.clone())
                    .unwrap_or_else(now),
            );
        }
        self.now.sort_by(|one, other| one.kind.cmp(&other.kind));
        serde_json::to_value(self.now).unwrap_or_default()
    }
}

/// Whether every condition in a status is true, and there is one.
pub(super) fn is_ready(status: Option<&Value>) -> bool {
    let conditions = status
        .and_then(|status| status["conditions"].as_array())
        .map(Vec::as_slice)
        .unwrap_or_default();
    !conditions.is_empty()
        && conditions
            .iter()
            .all(|condition| condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unchanged_condition_keeps_its_time() {
        let time = "2026-01-02T03:04:05Z";
        let status = json!({"conditions": [{"type": "Deployed", "status": "True", "lastTransitionTime": time}]});
        let mut conditions = Conditions::start(Some(&status), &["Deployed", "Configured"]);
        conditions.mark_true("Deployed");
        conditions.mark_false("Configured", "InvalidSpec", "why");
        let list = conditions.finish();
        assert_eq!(list[0]["type"], "Configured");
        assert_eq!(list[0]["reason"], "InvalidSpec");
        assert_eq!(list[1]["lastTransitionTime"], time);
        assert!(!is_ready(Some(&json!({ "conditions": list }))));
        assert!(is_ready(Some(&status)) && !is_ready(None));
    }
}
