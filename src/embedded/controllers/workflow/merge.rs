//! Merges a Workflow's spec over the one of its WorkflowTemplate, and makes merge patches.

use serde_json::{Map, Value};

/// Lists whose items are merged by a key; all others are replaced as a whole.
fn merge_key(path: &[&str]) -> Option<&'static str> {
    match path {
        ["templates"]
        | ["volumes"]
        | ["imagePullSecrets"]
        | ["arguments", "parameters" | "artifacts"] => Some("name"),
        ["hostAliases"] => Some("ip"),
        _ => None,
    }
}

/// The executed spec of a Workflow that refers to a template: the Workflow wins.
///
/// A parameter with a value is taken as a whole from where the value stands, and `suspend` is always the
/// Workflow's own.
pub(super) fn join_specs(workflow: &Value, template: &Value) -> Value {
    let mut merged = strategic(template, workflow, &mut Vec::new());
    let parameters = merged
        .pointer_mut("/arguments/parameters")
        .and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        if parameter.get("value").is_none_or(Value::is_null) {
            continue;
        }
        let source = [workflow, template]
            .into_iter()
            .find_map(|spec| parameter_with_value(spec, &parameter["name"]));
        if let Some(source) = source {
            *parameter = source.clone();
        }
    }
    if let Some(fields) = merged.as_object_mut() {
        match workflow.get("suspend") {
            Some(suspend) => drop(fields.insert("suspend".to_owned(), suspend.clone())),
            None => drop(fields.shift_remove("suspend")),
        }
    }
    merged
}

fn parameter_with_value<'a>(spec: &'a Value, name: &Value) -> Option<&'a Value> {
    let parameters = spec.pointer("/arguments/parameters")?.as_array()?;
    parameters
        .iter()
        .find(|one| &one["name"] == name && one.get("value").is_some_and(|value| !value.is_null()))
}

fn strategic<'a>(base: &Value, patch: &'a Value, path: &mut Vec<&'a str>) -> Value {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            let mut merged = base.clone();
            for (key, value) in patch {
                path.push(key);
                match merged.get(key) {
                    _ if value.is_null() => drop(merged.shift_remove(key)),
                    Some(present) => {
                        let value = strategic(present, value, path);
                        merged.insert(key.clone(), value);
                    }
                    None => drop(merged.insert(key.clone(), value.clone())),
                }
                path.pop();
            }
            Value::Object(merged)
        }
        (Value::Array(base), Value::Array(patch)) => match merge_key(path) {
            Some(key) => Value::Array(merge_lists(base, patch, key)),
            None => Value::Array(patch.clone()),
        },
        (_, patch) => patch.clone(),
    }
}

fn merge_lists(base: &[Value], patch: &[Value], key: &str) -> Vec<Value> {
    let mut merged = base.to_vec();
    for item in patch {
        match merged
            .iter_mut()
            .find(|present| present.get(key).is_some() && present.get(key) == item.get(key))
        {
            // The path of an item is no path of a list with a key of its own.
            Some(present) => *present = strategic(present, item, &mut vec!["[]"]),
            None => merged.push(item.clone()),
        }
    }
    merged
}

/// The merge patch (RFC 7386) that turns `old` into `new`; `None` if they are equal.
pub(super) fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut patch = Map::new();
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            for (key, value) in new {
                match old.get(key) {
                    Some(before) => {
                        patch.extend(merge_patch(before, value).map(|change| (key.clone(), change)))
                    }
                    None => drop(patch.insert(key.clone(), value.clone())),
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => (old != new).then(|| new.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_workflow_wins_over_its_template() {
        let template = json!({
            "entrypoint": "main", "serviceAccountName": "order-runner", "suspend": true,
            "arguments": {"parameters": [{"name": "orderId", "value": "none", "description": "d"}, {"name": "mode", "value": "naive"}]},
            "templates": [{"name": "main", "container": {"image": "a"}}],
        });
        let workflow = json!({
            "workflowTemplateRef": {"name": "process-order"},
            "arguments": {"parameters": [{"name": "orderId", "value": "1001"}, {"name": "extra", "value": "x"}]},
        });
        let merged = join_specs(&workflow, &template);
        assert_eq!(merged["entrypoint"], "main");
        assert_eq!(merged["workflowTemplateRef"]["name"], "process-order");
        assert_eq!(
            merged["arguments"]["parameters"],
            json!([{"name": "orderId", "value": "1001"}, {"name": "mode", "value": "naive"}, {"name": "extra", "value": "x"}])
        );
        assert_eq!(merged.get("suspend"), None);
    }

    #[test]
    fn lists_without_a_key_are_replaced() {
        let merged = join_specs(
            &json!({"tolerations": [{"key": "b"}]}),
            &json!({"tolerations": [{"key": "a"}]}),
        );
        assert_eq!(merged["tolerations"], json!([{"key": "b"}]));
    }

    #[test]
    fn a_merge_patch_applied_gives_the_new_value() {
        let old = json!({"a": 1, "b": {"c": [1], "d": 2}, "e": null});
        let new = json!({"b": {"c": [1, 2], "d": 2}, "f": {"g": 1}, "e": null});
        let patch = merge_patch(&old, &new).expect("patch");
        let mut applied = old.clone();
        json_patch::merge(&mut applied, &patch);
        assert_eq!(applied, new);
        assert_eq!(merge_patch(&new, &new), None);
    }
}
