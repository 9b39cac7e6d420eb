//! Strategic merge: a merge patch that knows which lists are maps in disguise.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::embedded::api::go_json;
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
        // A pod's merge, those of a ServiceAccount do not.
        ("", "imagePullSecrets") => ListKind::Atomic,
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
/// 400 if the patch is no object, 500 for directives that make no sense.
pub fn merge(object: Value, patch: &Value) -> Result<Value, Failure> {
    let (object, patch) = match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => (object, patch),
        (object, Value::Null) => return Ok(object),
        (_, other) => return Err(no_map(other)),
    };
    Ok(Value::Object(merge_map(object, patch, &mut Vec::new())?))
}

fn no_map(patch: &Value) -> Failure {
    let word = go_json::word(patch);
    bad(format!(
        "json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
    ))
}

/// What upstream takes for trouble of its own.
fn senseless(text: String) -> Failure {
    Failure::status(500, "", text, None)
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
        Some(other) => {
            return Err(senseless(format!(
                "unknown patch type: {} in map: {}",
                other.unwrap_or(""),
                go_json::plain_map(patch)
            )));
        }
    }
    retain_keys(&mut object, patch)?;
    for (key, value) in patch {
        if key == "$patch" || key == "$retainKeys" {
            continue;
        }
        if let Some(field) = key.strip_prefix("$setElementOrder/") {
            if !patch.contains_key(field) {
                reorder(&mut object, field, value, path);
            }
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
        return Err(bad("invalid patch format of retainKeys"));
    };
    object.retain(|key, _| list.iter().any(|kept| kept.as_str() == Some(key)));
    Ok(())
}

/// Reorders a list that the patch does not change otherwise.
fn reorder<'p>(object: &mut Map<String, Value>, field: &'p str, order: &Value, path: &[&'p str]) {
    let (Some(Value::Array(list)), Some(order)) = (object.get_mut(field), order.as_array()) else {
        return;
    };
    let before = std::mem::take(list);
    *list = match list_key(path, field) {
        ListKind::Atomic => before,
        ListKind::Set => ordered(before.clone(), order, &before, |item| Some(item.clone())),
        ListKind::Keyed(key) => ordered(before.clone(), order, &before, |item| {
            item.get(key).cloned()
        }),
    };
}

fn delete_values(object: &mut Map<String, Value>, field: &str, values: &Value) {
    if let (Some(Value::Array(list)), Some(values)) = (object.get_mut(field), values.as_array()) {
        let gone: HashSet<String> = values.iter().map(Value::to_string).collect();
        list.retain(|item| !gone.contains(&item.to_string()));
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
        ListKind::Set => {
            let before = old.clone();
            let merged = merge_set(old, new);
            let order = order.map_or(new, Vec::as_slice);
            Ok(ordered(merged, order, &before, |item| Some(item.clone())))
        }
        ListKind::Keyed(key) => {
            if replaces(new, key) {
                let fresh = new.iter().filter(|item| directive(item).is_none());
                return Ok(fresh.cloned().collect());
            }
            let before = old.clone();
            let merged = within(path, field, |path| merge_keyed(old, new, key, path))?;
            let order = order.map_or(new, Vec::as_slice);
            Ok(ordered(merged, order, &before, |item| {
                item.get(key).cloned()
            }))
        }
    }
}

/// True if the patch replaces the list as a whole, by an element that is nothing but the directive.
fn replaces(new: &[Value], key: &str) -> bool {
    new.iter()
        .any(|item| directive(item) == Some("replace") && item.get(key).is_none())
}

fn merge_set(mut old: Vec<Value>, new: &[Value]) -> Vec<Value> {
    let mut known: HashSet<String> = old.iter().map(Value::to_string).collect();
    old.extend(
        new.iter()
            .filter(|item| known.insert(item.to_string()))
            .cloned(),
    );
    old
}

fn directive(item: &Value) -> Option<&str> {
    item.get("$patch").and_then(Value::as_str)
}

fn merge_keyed<'p>(
    old: Vec<Value>,
    new: &'p [Value],
    key: &'static str,
    path: &mut Vec<&'p str>,
) -> Result<Vec<Value>, Failure> {
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, item) in old.iter().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(value.to_string()).or_default().push(at);
        }
    }
    let mut slots: Vec<Option<Value>> = old.into_iter().map(Some).collect();
    for item in new {
        let map = element(item, key)?;
        let wanted = map.get(key).map(Value::to_string).unwrap_or_default();
        match directive(item) {
            Some("delete") => {
                for at in places.remove(&wanted).unwrap_or_default() {
                    slots[at] = None;
                }
                continue;
            }
            Some("merge") => {
                let text = "merging lists cannot yet be specified in the patch";
                return Err(senseless(text.to_owned()));
            }
            _ => {}
        }
        let at = places
            .get(&wanted)
            .and_then(|places| places.first().copied());
        let before = match at.and_then(|at| slots[at].take()) {
            Some(Value::Object(before)) => before,
            _ => Map::new(),
        };
        let merged = Some(Value::Object(merge_map(before, map, path)?));
        match at {
            Some(at) => slots[at] = merged,
            None => {
                places.insert(wanted, vec![slots.len()]);
                slots.push(merged);
            }
        }
    }
    Ok(slots.into_iter().flatten().collect())
}

/// An element of a list that is told apart by `key`.
fn element<'p>(item: &'p Value, key: &str) -> Result<&'p Map<String, Value>, Failure> {
    let Value::Object(map) = item else {
        return Err(senseless(format!(
            "cannot merge the list: an element is no object with the key {key}"
        )));
    };
    if !map.contains_key(key) {
        return Err(senseless(format!(
            "map: {} does not contain declared merge key: {key}",
            go_json::plain_map(map)
        )));
    }
    Ok(map)
}

/// Brings merged elements into order: those that `order` names in its order, the others between them where the
/// list had them before (`normalizeElementOrder` upstream).
fn ordered(
    merged: Vec<Value>,
    order: &[Value],
    before: &[Value],
    key: impl Fn(&Value) -> Option<Value>,
) -> Vec<Value> {
    let places = |list: &[Value]| {
        let mut places: HashMap<String, usize> = HashMap::new();
        for (at, item) in list.iter().enumerate() {
            if let Some(key) = key(item) {
                places.entry(key.to_string()).or_insert(at);
            }
        }
        places
    };
    let (order, before) = (places(order), places(before));
    let place = |places: &HashMap<String, usize>, item: &Value| {
        key(item).and_then(|key| places.get(&key.to_string()).copied())
    };
    let (mut named, mut others): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|item| place(&order, item).is_some());
    named.sort_by_cached_key(|item| place(&order, item));
    others.sort_by_cached_key(|item| place(&before, item).unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(left), Some(right)) = (others.peek(), named.peek()) {
        let first = match (place(&before, left), place(&before, right)) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        };
        out.extend(if first { others.next() } else { named.next() });
    }
    out.extend(named);
    out.extend(others);
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
