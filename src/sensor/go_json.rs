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

/// Gives numbers the values that Go's decoder gives them where no type says more: all are floats, and a whole one that 64 bits
/// hold is written without an exponent.
pub(super) fn as_floats(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let Some(float) = number.as_f64() else {
                return;
            };
            let whole = format_json(float).parse::<i64>().ok().map(Number::from);
            if let Some(read) = whole.or_else(|| Number::from_f64(float)) {
                *number = read;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(as_floats),
        Value::Object(members) => members.values_mut().for_each(as_floats),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_without_a_type_lose_what_64_bits_of_a_float_do_not_hold() {
        for (given, wanted) in [
            ("1", "1"),
            ("-7", "-7"),
            ("1.5", "1.5"),
            ("2.0", "2"),
            ("1e3", "1000"),
            ("9007199254740993", "9007199254740992"),
            ("1234567890123456789", "1234567890123456800"),
            ("-1234567890123456789", "-1234567890123456800"),
            ("18446744073709551615", "18446744073709552000"),
            ("1e30", "1e+30"),
            ("1e-7", "1e-7"),
        ] {
            let mut value: Value = serde_json::from_str(&format!("{{\"a\":[{given}]}}")).unwrap();
            as_floats(&mut value);
            let text = String::from_utf8(to_vec(&value)).unwrap();
            assert_eq!(text, format!("{{\"a\":[{wanted}]}}"), "{given}");
        }
        let mut kept = json!({"a": ["x", true, null, {}]});
        as_floats(&mut kept);
        assert_eq!(kept, json!({"a": ["x", true, null, {}]}));
    }
}
