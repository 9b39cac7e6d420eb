//! What the pod of a Sensor runs, against what the Sensor says.

use serde::Serialize;
use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};

/// Longest difference, in lines.
const MAX_LINES: usize = 200;

/// The pod of a Sensor that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Live {
    /// Name of the pod.
    pub pod: String,
    /// Whether it runs what the Sensor says.
    pub same: bool,
    /// The lines that differ: `-` what the pod runs, `+` what the Sensor says.
    pub difference: Vec<String>,
    /// The Sensor's status conditions that are false.
    pub conditions: Vec<String>,
}

impl Live {
    /// Compares the specs of a Sensor and of the object that its pod carries.
    #[must_use]
    pub fn new(pod: String, sensor: &Value, carried: &Value, conditions: Vec<String>) -> Self {
        let spec = |object: &Value| without_nothing(object.get("spec").unwrap_or(&Value::Null));
        let (runs, says) = (spec(carried), spec(sensor));
        let difference = if runs == says {
            Vec::new()
        } else {
            difference(&runs, &says)
        };
        Self {
            pod,
            same: runs == says,
            difference,
            conditions,
        }
    }
}

/// Nulls, empty lists, objects and texts are left out: the controller writes fields that nobody set.
fn without_nothing(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut kept: Vec<(&String, Value)> = members
                .iter()
                .map(|(key, value)| (key, without_nothing(value)))
                .filter(|(_, value)| !is_nothing(value))
                .collect();
            kept.sort_by_key(|(key, _)| key.as_str());
            let kept = kept.into_iter().map(|(key, value)| (key.clone(), value));
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(without_nothing).collect(),
        other => other.clone(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(_) => false,
    }
}

fn difference(runs: &Value, says: &Value) -> Vec<String> {
    let text = |value: &Value| serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string());
    let (runs, says) = (text(runs), text(says));
    let diff = TextDiff::from_lines(runs.as_str(), says.as_str());
    diff.iter_all_changes()
        .filter_map(|change| {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => return None,
            };
            Some(format!("{sign} {}", change.value().trim_end()))
        })
        .take(MAX_LINES)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nobody_set_is_no_difference() {
        let sensor = json!({"spec": {"triggers": [{"template": {"name": "a"}}]}});
        let carried = json!({"spec": {"loggingFields": null, "eventBusName": "", "triggers": [{"template": {"conditions": "", "name": "a"}, "atLeastOnce": false}]}, "status": {}});
        let live = Live::new("p".into(), &sensor, &carried, Vec::new());
        assert!(live.same && live.difference.is_empty());
    }

    #[test]
    fn a_changed_filter_is_shown_line_by_line() {
        let of = |value: &str| json!({"spec": {"dependencies": [{"name": "a", "filters": {"data": [{"value": [value]}]}}]}});
        let live = Live::new("p".into(), &of("^new$"), &of("^old$"), Vec::new());
        assert!(!live.same);
        assert_eq!(live.difference.len(), 2, "{:?}", live.difference);
        assert!(live.difference[0].starts_with("- ") && live.difference[0].contains("^old$"));
        assert!(live.difference[1].starts_with("+ ") && live.difference[1].contains("^new$"));
    }
}
