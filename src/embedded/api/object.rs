//! Reading and changing `metadata` of objects that are JSON values.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// A string field of `metadata`, empty if absent.
#[must_use]
pub fn meta<'a>(object: &'a Value, key: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(key))
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// `metadata.name`.
#[must_use]
pub fn name(object: &Value) -> &str {
    meta(object, "name")
}

/// `metadata.namespace`.
#[must_use]
pub fn namespace(object: &Value) -> &str {
    meta(object, "namespace")
}

/// `metadata.uid`.
#[must_use]
pub fn uid(object: &Value) -> &str {
    meta(object, "uid")
}

/// A list field of `metadata`.
pub fn strings<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(key))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// True while finalizers hold the object.
#[must_use]
pub fn has_finalizers(object: &Value) -> bool {
    strings(object, "finalizers").next().is_some()
}

/// True once its deletion was asked for.
#[must_use]
pub fn is_deleting(object: &Value) -> bool {
    !meta(object, "deletionTimestamp").is_empty()
}

/// `metadata` as a map, made if it is not there; `None` if the object is no map.
pub fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let map = object.as_object_mut()?;
    let entry = map
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    entry.as_object_mut()
}

/// Sets a field of `metadata`.
pub fn set_meta(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(metadata) = metadata_mut(object) {
        metadata.insert(key.to_owned(), value.into());
    }
}

/// Removes a field of `metadata`.
pub fn remove_meta(object: &mut Value, key: &str) {
    if let Some(metadata) = metadata_mut(object) {
        metadata.shift_remove(key);
    }
}

/// Sets or, for `None`, removes a top-level field.
pub fn set_field(object: &mut Value, key: &str, value: Option<Value>) {
    if let Some(map) = object.as_object_mut() {
        match value {
            Some(value) => {
                map.insert(key.to_owned(), value);
            }
            None => {
                map.shift_remove(key);
            }
        }
    }
}

/// The map at `key` of `parent`, made if it is not there; `None` if something else stands there.
pub fn child<'a>(parent: &'a mut Value, key: &str) -> Option<&'a mut Map<String, Value>> {
    let entry = parent
        .as_object_mut()?
        .entry(key)
        .or_insert_with(|| Value::Object(Map::new()));
    if entry.is_null() {
        *entry = Value::Object(Map::new());
    }
    entry.as_object_mut()
}

/// Inserts a default where the field is absent, null or an empty text, which is the same in Go.
pub fn default_field(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let unset = |value: &Value| value.is_null() || value == "";
    if map.get(key).is_none_or(unset) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Now, as `metadata.creationTimestamp` has it.
#[must_use]
pub fn now() -> String {
    format_time(Timestamp::now())
}

/// RFC 3339 in UTC without fractions.
#[must_use]
pub fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The same value with the keys of all its maps in order, as Go writes maps. The value must not be nested deeper than
/// what the API takes in.
#[must_use]
pub fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<(String, Value)> = map.into_iter().collect();
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
            let pairs = pairs.into_iter().map(|(key, value)| (key, sorted(value)));
            Value::Object(pairs.collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// Nesting depth, counted without recursion and no further than `limit + 1`.
#[must_use]
pub fn deeper_than(value: &Value, limit: usize) -> bool {
    let mut pending: Vec<(&Value, usize)> = vec![(value, 1)];
    while let Some((value, depth)) = pending.pop() {
        if depth > limit {
            return true;
        }
        match value {
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => pending.extend(map.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    false
}

/// Whether a value is a map or a list with something in it.
#[must_use]
pub fn is_filled(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    }
}

/// The beginning of a text, of at most so many bytes, cut between two characters.
#[must_use]
pub fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn depth_is_bounded() {
        let mut value = json!(1);
        for _ in 0..50 {
            value = json!([value]);
        }
        assert!(deeper_than(&value, 50));
        assert!(!deeper_than(&value, 51));
    }

    #[test]
    fn metadata_is_made_where_it_is_missing() {
        let mut object = json!({});
        set_meta(&mut object, "name", "x");
        assert_eq!(name(&object), "x");
        let mut odd = json!({"metadata": 5});
        set_meta(&mut odd, "name", "y");
        assert_eq!(name(&odd), "y");
    }
}
