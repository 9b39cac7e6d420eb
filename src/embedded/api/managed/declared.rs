//! Whether a configuration is what the schema of its kind says, before anything is merged: in the words of the library that
//! kube-apiserver asks.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::schema::{Schema, Shape};
use super::set::{key_element, shown};
use crate::embedded::api::go_json::{self, plain};
use crate::embedded::api::go_struct::{Misfit, Place, Step, Takes};
use crate::embedded::api::go_text;
use crate::embedded::api::registry::Kind;

/// Most faults that are told.
const MAX_TOLD: usize = 50;

/// What is wrong with a configuration, given what its type made of it.
pub fn faults(kind: &Kind, configuration: &Value, typed: &Result<Value, Misfit>) -> Vec<String> {
    let schema = Schema::of(kind);
    let mut found = Vec::new();
    let kept = typed.as_ref().ok();
    walk(configuration, kept, schema, &mut String::new(), &mut found);
    if let Err(misfit) = typed
        && let Some(place) = &misfit.place
    {
        found.extend(told(configuration, place, schema));
    }
    found
}

/// `kept` is what the type has of it; without it no field is known to be missing. `path` is one text for all places: a long
/// key is not copied for each of what stands under it.
fn walk(
    given: &Value,
    kept: Option<&Value>,
    schema: Schema,
    path: &mut String,
    found: &mut Vec<String>,
) {
    match given {
        Value::Object(map) => fields(map, kept, schema, path, found),
        Value::Array(items) => elements(items, kept, schema, path, found),
        _ => {}
    }
}

fn fields(
    map: &Map<String, Value>,
    kept: Option<&Value>,
    schema: Schema,
    path: &mut String,
    found: &mut Vec<String>,
) {
    let above = path.len();
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        if found.len() >= MAX_TOLD {
            return;
        }
        path.push('.');
        path.push_str(key);
        let inner = kept.and_then(|kept| kept.get(key));
        if kept.is_some() && inner.is_none() {
            found.push(format!("{path}: field not declared in schema"));
        } else {
            walk(value, inner, schema.field(key), path, found);
        }
        path.truncate(above);
    }
}

fn elements(
    items: &[Value],
    kept: Option<&Value>,
    schema: Schema,
    path: &mut String,
    found: &mut Vec<String>,
) {
    let above = path.len();
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        if found.len() >= MAX_TOLD {
            return;
        }
        let element = match element(schema.shape(), index, item) {
            Ok(element) => element,
            Err(why) => {
                found.push(format!("{path}: element {index}: {why}"));
                return;
            }
        };
        if seen.contains(&element) {
            found.push(format!("{path}: duplicate entries for key {element}"));
        }
        path.push_str(&element);
        seen.insert(element);
        let inner = kept.and_then(|kept| kept.get(index));
        walk(item, inner, schema.item(), path, found);
        path.truncate(above);
    }
}

/// How an element of a list is called.
fn element(shape: Shape, index: usize, item: &Value) -> Result<String, String> {
    match shape {
        Shape::Keyed(keys) => keyed(keys, item),
        Shape::Set => match item {
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".into())
            }
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".into())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            one => Ok(shown(&format!("v:{one}"))),
        },
        Shape::Map | Shape::Atomic => Ok(format!("[{index}]")),
    }
}

fn keyed(keys: &[&str], item: &Value) -> Result<String, String> {
    let key = key_element(keys, item).map(|key| shown(&key));
    key.ok_or_else(|| {
        let what = if item.is_null() {
            "a null element"
        } else {
            "non-map elements"
        };
        format!("associative list with keys may not have {what}")
    })
}

/// The value that is of another type than its field's.
fn told(configuration: &Value, place: &Place, schema: Schema) -> Option<String> {
    let (mut value, mut schema, mut path) = (configuration, schema, String::new());
    for step in &place.path {
        match step {
            Step::Field(name) => {
                path = format!("{path}.{name}");
                value = value.get(name)?;
                schema = schema.field(name);
            }
            Step::Item(index) => {
                value = value.get(*index)?;
                path.push_str(&element(schema.shape(), *index, value).ok()?);
                schema = schema.item();
            }
        }
    }
    let why = match place.takes {
        // Which numbers fit, and what other scalars mean, is asked later.
        Takes::Any => return None,
        Takes::Number if value.is_number() => return None,
        Takes::Scalar if !value.is_object() && !value.is_array() => return None,
        Takes::Scalar => format!("expected any scalar, got &{{{}}}", plain(value)),
        Takes::Number => format!("expected numeric (int or float), got {}", type_of(value)),
        Takes::Truth => format!("expected boolean, got &{{{}}}", plain(value)),
        Takes::Text => format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            source(value)
        ),
        Takes::List => format!("expected list, got &{{{}}}", plain(value)),
        Takes::Map => format!("expected map, got &{{{}}}", plain(value)),
    };
    Some(format!("{path}: {why}"))
}

/// Go's `%T`.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        other => go_json::word(other),
    }
}

/// Go's `%#v`.
fn source(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => go_text::quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(source).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let pairs: Vec<String> = go_json::sorted(map)
                .map(|(key, value)| format!("{}:{}", go_text::quote(key), source(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", pairs.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_go_shows_as_source_is_quoted_and_sorted_as_go_does() {
        let value = json!({"a-b": ["\u{7}\u{7f}é\u{200b}\""], "a": {"\n": null}, "a!": 1});
        assert_eq!(
            source(&value),
            r#"map[string]interface {}{"a":map[string]interface {}{"\n":interface {}(nil)}, "a!":1, "a-b":[]interface {}{"\a\x7fé\u200b\""}}"#
        );
    }
}
