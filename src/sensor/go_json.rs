//! JSON text as Go's `encoding/json` writes it: sorted keys, `<`, `>` and `&` escaped, numbers in Go's notation.

use serde_json::{Number, Value};

use super::number::format_json;
use super::path::quote_json;

/// Writes a value as `json.Marshal` writes a decoded object.
#[must_use]
pub fn to_vec(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, value, true);
    out
}

/// Writes a value with its keys in their own order, as `json.Marshal` writes a Go struct.
pub(super) fn to_vec_in_order(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, value, false);
    out
}

fn append(out: &mut Vec<u8>, value: &Value, sorted: bool) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
        Value::Number(number) => append_number(out, number),
        Value::String(text) => quote_json(out, text.as_bytes()),
        Value::Array(items) => {
            out.push(b'[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                append(out, item, sorted);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            if sorted {
                members.sort_by_key(|(key, _)| key.as_str());
            }
            out.push(b'{');
            for (place, (key, member)) in members.into_iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                quote_json(out, key.as_bytes());
                out.push(b':');
                append(out, member, sorted);
            }
            out.push(b'}');
        }
    }
}

fn append_number(out: &mut Vec<u8>, number: &Number) {
    let text = match number.as_f64() {
        Some(value) if number.is_f64() => format_json(value),
        _ => number.to_string(),
    };
    out.extend_from_slice(text.as_bytes());
}

/// Gives numbers the values that Kubernetes' decoder gives them: whole numbers beyond 64 bits with sign are floats.
pub(super) fn as_kubernetes_decodes(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_u64() && !number.is_i64() => {
            if let Some(float) = number.as_f64().and_then(Number::from_f64) {
                *number = float;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(as_kubernetes_decodes),
        Value::Object(members) => members.values_mut().for_each(as_kubernetes_decodes),
        _ => {}
    }
}
