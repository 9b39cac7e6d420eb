//! Strategic merge: a merge patch that knows which lists are maps in disguise.

use serde_json::{Map, Value};

use crate::embedded::api::status::Failure;

/// How a list field merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Replaced as a whole.
    Atomic,
    /// Elements are told apart by this field.
    Keyed(&'static str),
    /// A set of plain values.
    Set,
}

/// How the list at field `name` of an object at `path` merges (`patchStrategy` and `patchMergeKey` of the Go types).
#[must_use]
pub fn list_key(path: &[&str], name: &str) -> ListKind {
    let parent = path.last().copied().unwrap_or("");
    let in_container = matches!(
        parent,
        "containers" | "initContainers" | "ephemeralContainers"
    );
    match (parent, name) {
        ("metadata", "ownerReferences") => ListKind::Keyed("uid"),
        ("metadata", "finalizers") => ListKind::Set,
        (
            _,
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "volumes"
            | "env"
            | "imagePullSecrets",
        ) => ListKind::Keyed("name"),
        (_, "volumeMounts") => ListKind::Keyed("mountPath"),
        (_, "volumeDevices") => ListKind::Keyed("devicePath"),
        (_, "ports") if in_container => ListKind::Keyed("containerPort"),
        ("spec", "ports") => ListKind::Keyed("port"),
        ("", "secrets") => ListKind::Keyed("name"),
        (_, "hostAliases") => ListKind::Keyed("ip"),
        ("status", "conditions" | "addresses") => ListKind::Keyed("type"),
        ("status", "podIPs" | "hostIPs") => ListKind::Keyed("ip"),
        ("spec", "topologySpreadConstraints") => ListKind::Keyed("topologyKey"),
        ("spec", "taints") if path.len() == 1 => ListKind::Keyed("key"),
        ("spec", "resourceClaims" | "schedulingGates") => ListKind::Keyed("name"),
        _ => ListKind::Atomic,
    }
}

/// Applies a strategic merge patch.
///
/// # Errors
/// 400 if the patch is no object, 500-like texts of upstream as 400 for directives that make no sense.
pub fn merge(object: Value, patch: &Value) -> Result<Value, Failure> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(Failure::bad_request(
            "error decoding patch: a strategic merge patch is a JSON object",
        ));
    };
    Ok(Value::Object(merge_map(object, patch, &mut Vec::new())?))
}

fn bad(text: impl Into<String>) -> Failure {
    Failure::bad_request(text)
}

fn merge_map<'p>(
    mut object: Map<String, Value>,
    patch: &'p Map<String, Value>,
    path: &mut Vec<&'p str>,
) -> Result<Map<String, Value>, Failure> {
    match patch.get("$patch").map(Value::as_str) {
        Some(Some("replace")) => {
            let mut fresh = patch.clone();
            fresh.shift_remove("$patch");
            return Ok(fresh);
        }
        Some(Some("delete")) => return Ok(Map::new()),
        Some(Some("merge")) | None => {}
        Some(other) => return Err(bad(format!("unknown patch type: {}", other.unwrap_or("")))),
    }
    retain_keys(&mut object, patch)?;
    for (key, value) in patch {
        if key == "$patch" || key == "$retainKeys" || key.starts_with("$setElementOrder/") {
            continue;
        }
        if let Some(field) = key.strip_prefix("$deleteFromPrimitiveList/") {
            delete_values(&mut object, field, value);
            continue;
        }
        merge_field(&mut object, key, value, patch, path)?;
    }
    Ok(object)
}

fn merge_field<'p>(
    object: &mut Map<String, Value>,
    key: &'p str,
    value: &'p Value,
    patch: &'p Map<String, Value>,
    path: &mut Vec<&'p str>,
) -> Result<(), Failure> {
    let merged = match (object.get_mut(key).map(Value::take), value) {
        (_, Value::Null) => {
            object.shift_remove(key);
            return Ok(());
        }
        (Some(Value::Object(old)), Value::Object(new)) => within(path, key, |path| {
            merge_map(old, new, path).map(Value::Object)
        })?,
        (_, Value::Object(new)) => within(path, key, |path| {
            merge_map(Map::new(), new, path).map(Value::Object)
        })?,
        (Some(Value::Array(old)), Value::Array(new)) => {
            let order = patch
                .get(&format!("$setElementOrder/{key}"))
                .and_then(Value::as_array);
            Value::Array(merge_list(old, new, key, order, path)?)
        }
        (_, Value::Array(new)) => {
            let order = patch
                .get(&format!("$setElementOrder/{key}"))
                .and_then(Value::as_array);
            Value::Array(merge_list(Vec::new(), new, key, order, path)?)
        }
        (_, other) => other.clone(),
    };
    object.insert(key.to_owned(), merged);
    Ok(())
}

fn within<'p, T>(
    path: &mut Vec<&'p str>,
    key: &'p str,
    run: impl FnOnce(&mut Vec<&'p str>) -> T,
) -> T {
    path.push(key);
    let result = run(path);
    path.pop();
    result
}

fn retain_keys(object: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Failure> {
    let Some(list) = patch.get("$retainKeys") else {
        return Ok(());
    };
    let Some(list) = list.as_array() else {
        return Err(bad("the $retainKeys directive must be a list"));
    };
    object.retain(|key, _| list.iter().any(|kept| kept.as_str() == Some(key)));
    Ok(())
}

fn delete_values(object: &mut Map<String, Value>, field: &str, values: &Value) {
    if let (Some(Value::Array(list)), Some(values)) = (object.get_mut(field), values.as_array()) {
        list.retain(|item| !values.contains(item));
    }
}

fn merge_list<'p>(
    old: Vec<Value>,
    new: &'p [Value],
    field: &'p str,
    order: Option<&'p Vec<Value>>,
    path: &mut Vec<&'p str>,
) -> Result<Vec<Value>, Failure> {
    match list_key(path, field) {
        ListKind::Atomic => Ok(new.to_vec()),
        ListKind::Set => Ok(ordered(merge_set(old, new), order, |item| {
            Some(item.clone())
        })),
        ListKind::Keyed(key) => {
            let merged = within(path, field, |path| merge_keyed(old, new, key, path))?;
            Ok(ordered(merged, order, |item| item.get(key).cloned()))
        }
    }
}

fn merge_set(mut old: Vec<Value>, new: &[Value]) -> Vec<Value> {
    for item in new {
        if !old.contains(item) {
            old.push(item.clone());
        }
    }
    old
}

fn directive(item: &Value) -> Option<&str> {
    item.get("$patch").and_then(Value::as_str)
}

fn merge_keyed<'p>(
    mut old: Vec<Value>,
    new: &'p [Value],
    key: &'static str,
    path: &mut Vec<&'p str>,
) -> Result<Vec<Value>, Failure> {
    if new
        .iter()
        .any(|item| directive(item) == Some("replace") && item.get(key).is_none())
    {
        let fresh = new.iter().filter(|item| directive(item).is_none());
        return Ok(fresh.cloned().collect());
    }
    for item in new {
        let Value::Object(map) = item else {
            return Err(bad(format!(
                "cannot merge the list: an element is no object with the key {key}"
            )));
        };
        let Some(wanted) = map.get(key) else {
            return Err(bad(format!(
                "map: {} does not contain declared merge key: {key}",
                go_map(map)
            )));
        };
        let at = old.iter().position(|have| have.get(key) == Some(wanted));
        if directive(item) == Some("delete") {
            old.retain(|have| have.get(key) != Some(wanted));
            continue;
        }
        match at.and_then(|at| old.get_mut(at)) {
            Some(slot) => {
                let before = match slot.take() {
                    Value::Object(before) => before,
                    _ => Map::new(),
                };
                *slot = Value::Object(merge_map(before, map, path)?);
            }
            None => old.push(Value::Object(merge_map(Map::new(), map, path)?)),
        }
    }
    Ok(old)
}

/// `%v` of a Go map with plain values.
fn go_map(map: &Map<String, Value>) -> String {
    let mut parts: Vec<String> = map
        .iter()
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key}:{text}"),
            other => format!("{key}:{other}"),
        })
        .collect();
    parts.sort();
    format!("map[{}]", parts.join(" "))
}

/// Brings elements into the order that the patch names; the others keep their place relative to what was there.
fn ordered(
    items: Vec<Value>,
    order: Option<&Vec<Value>>,
    key: impl Fn(&Value) -> Option<Value>,
) -> Vec<Value> {
    let Some(order) = order else { return items };
    let wanted: Vec<Option<Value>> = order
        .iter()
        .map(|item| {
            if item.is_object() {
                key(item)
            } else {
                Some(item.clone())
            }
        })
        .collect();
    let rank = |item: &Value| {
        let have = key(item);
        wanted.iter().position(|one| one.is_some() && *one == have)
    };
    let mut named: Vec<(usize, Value)> = Vec::new();
    let mut others: Vec<(usize, Value)> = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        match rank(&item) {
            Some(rank) => named.push((rank, item)),
            None => others.push((index, item)),
        }
    }
    named.sort_by_key(|(rank, _)| *rank);
    let mut out: Vec<Value> = named.into_iter().map(|(_, item)| item).collect();
    for (index, item) in others {
        out.insert(index.min(out.len()), item);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keyed_lists_merge_by_key() {
        let object = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}});
        let patch = json!({"spec": {"containers": [{"name": "a", "image": "2"}, {"name": "c"}, {"name": "b", "$patch": "delete"}]}});
        let merged = merge(object, &patch).expect("patch");
        assert_eq!(
            merged,
            json!({"spec": {"containers": [{"name": "a", "image": "2"}, {"name": "c"}]}})
        );
    }

    #[test]
    fn the_order_named_by_the_patch_wins() {
        let object = json!({"metadata": {"finalizers": ["x/a", "x/b"]}});
        let patch = json!({"metadata": {"$setElementOrder/finalizers": ["x/c", "x/a"], "finalizers": ["x/c"], "$deleteFromPrimitiveList/finalizers": ["x/b"]}});
        let merged = merge(object, &patch).expect("patch");
        assert_eq!(merged["metadata"]["finalizers"], json!(["x/c", "x/a"]));
    }
}
