//! How an `update` takes its object into the one that is there.

use serde_json::Value;

/// Takes `new` into `old`: objects member by member, everything else, lists and null included, as a whole.
pub fn merge(old: &mut Value, new: &Value) {
    let (Value::Object(members), Value::Object(added)) = (&mut *old, new) else {
        old.clone_from(new);
        return;
    };
    for (name, value) in added {
        match members.get_mut(name) {
            Some(member) if member.is_object() && value.is_object() => merge(member, value),
            Some(member) => member.clone_from(value),
            None => drop(members.insert(name.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::merge;

    #[test]
    fn objects_are_merged_and_everything_else_replaces() {
        let mut old =
            json!({"a": {"kept": 1, "text": "x", "list": [1, 2]}, "b": {"c": 1}, "d": [1], "e": 1});
        let new = json!({"a": {"text": "", "list": [], "new": {"x": 1}}, "b": null, "d": {"y": 2}, "e": {"z": 3}, "f": {}});
        merge(&mut old, &new);
        assert_eq!(
            old,
            json!({"a": {"kept": 1, "text": "", "list": [], "new": {"x": 1}}, "b": null, "d": {"y": 2}, "e": {"z": 3}, "f": {}})
        );
    }
}
