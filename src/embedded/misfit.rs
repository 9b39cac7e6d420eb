//! Which field of an object does not fit its type: the decoder says what it found, not where.

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Bytes that are decoded at most in search of a field.
const EFFORT: usize = 32 << 20;

/// An object as its type, or the field that does not fit and why.
///
/// # Errors
/// It does not fit.
pub fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    let decode = |value: Value| serde_json::from_value::<T>(value);
    decode(value.clone())
        .map_err(|error| named(value, &error.to_string(), |value| decode(value).err()))
}

/// The decoder's error with the path of the field that it is about, where that can be found out.
fn named(
    object: &Value,
    told: &str,
    decode: impl Fn(Value) -> Option<serde_json::Error>,
) -> String {
    let mut search = Search {
        told,
        decode,
        tries: EFFORT / object.to_string().len().max(1),
    };
    match search.path(object) {
        Some(path) if !path.is_empty() => format!("{path}: {told}"),
        _ => told.to_owned(),
    }
}

/// Leaves parts of the object out and sees whether the error stays.
struct Search<'a, F> {
    told: &'a str,
    decode: F,
    tries: usize,
}

impl<F: Fn(Value) -> Option<serde_json::Error>> Search<'_, F> {
    /// `None` when it would take too long.
    fn stays(&mut self, object: Value) -> Option<bool> {
        self.tries = self.tries.checked_sub(1)?;
        Some((self.decode)(object).is_some_and(|error| error.to_string() == self.told))
    }

    fn path(&mut self, object: &Value) -> Option<String> {
        let (mut object, mut pointer, mut path) = (object.clone(), String::new(), String::new());
        loop {
            let count = match object.pointer(&pointer)? {
                Value::Object(fields) => fields.len(),
                Value::Array(items) => items.len(),
                _ => return Some(path),
            };
            // The place itself is wrong, whatever is in it.
            if self.stays(kept(&object, &pointer, 0..0)?)? {
                return Some(path);
            }
            let (mut from, mut to) = (0, count);
            while to - from > 1 {
                let middle = from + (to - from) / 2;
                if self.stays(kept(&object, &pointer, from..middle)?)? {
                    to = middle;
                } else {
                    from = middle;
                }
            }
            let reduced = kept(&object, &pointer, from..to)?;
            if !self.stays(reduced.clone())? {
                return Some(path);
            }
            match object.pointer(&pointer)? {
                Value::Object(fields) => {
                    let key = fields.keys().nth(from)?;
                    path.push_str(if path.is_empty() { "" } else { "." });
                    path.push_str(key);
                    let key = key.replace('~', "~0").replace('/', "~1");
                    pointer = format!("{pointer}/{key}");
                }
                _ => {
                    // Writing into a text does not fail.
                    let _ = write!(path, "[{from}]");
                    pointer.push_str("/0");
                }
            }
            object = reduced;
        }
    }
}

/// The object with only some of what is at a place.
fn kept(object: &Value, pointer: &str, range: std::ops::Range<usize>) -> Option<Value> {
    let mut reduced = object.clone();
    let place = reduced.pointer_mut(pointer)?;
    let length = range.len();
    *place = match std::mem::take(place) {
        Value::Object(fields) => {
            let some = fields.into_iter().skip(range.start).take(length);
            Value::Object(some.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().skip(range.start).take(length).collect(),
        other => other,
    };
    Some(reduced)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn told(object: &Value) -> String {
        typed::<Pod>(object).unwrap_err()
    }

    #[test]
    fn the_field_is_named_wherever_it_is() {
        let pod = |container: Value| json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "a"}, container, {"name": "c"}]}});
        for (object, path) in [
            (json!({"metadata": {"name": 1}}), "metadata.name: "),
            (
                json!({"metadata": {"labels": {"a/b~c": 1}}}),
                "metadata.labels.a/b~c: ",
            ),
            (json!({"spec": "x"}), "spec: "),
            (json!({"spec": {"containers": {}}}), "spec.containers: "),
            (
                pod(json!({"name": "b", "image": true})),
                "spec.containers[1].image: ",
            ),
            (
                pod(json!({"name": "b", "args": ["a", 1, "b"]})),
                "spec.containers[1].args[1]: ",
            ),
            (pod(json!("b")), "spec.containers[1]: "),
        ] {
            let said = told(&object);
            assert!(said.starts_with(path), "{object}: {said}");
        }
        // Two of a kind: one of them is named.
        let said = told(&pod(json!({"name": true, "image": true})));
        assert!(said.starts_with("spec.containers[1]."), "{said}");
    }

    #[test]
    fn a_search_that_takes_too_long_is_given_up() {
        let labels: Map<String, Value> = (0..100_000)
            .map(|number| (format!("label-{number}"), json!("some longer text")))
            .collect();
        let object = json!({"metadata": {"name": 1, "labels": labels}});
        assert!(told(&object).contains("invalid type"));
    }
}
