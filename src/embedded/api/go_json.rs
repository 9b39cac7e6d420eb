//! JSON values as Go's decoder reads them into the fields of a struct, with its words for what does not fit.

use serde_json::{Map, Value};

use super::go_text::quote;

/// Go's word for a JSON value.
#[must_use]
pub fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// What is said of a value of another type than its field's.
#[must_use]
pub fn mismatch(value: &Value, path: &str, owner: &str, wanted: &str) -> String {
    said(word(value), path, owner, wanted)
}

/// What is told of something that is not what its field takes.
#[must_use]
pub fn said(found: &str, path: &str, owner: &str, wanted: &str) -> String {
    format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")
}

/// A text; `null` is none.
///
/// # Errors
/// Go's text for another type.
pub fn text(
    value: &Value,
    path: &str,
    owner: &str,
    wanted: &str,
) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        other => Err(mismatch(other, path, owner, wanted)),
    }
}

/// A whole number; `null` is none.
///
/// # Errors
/// Go's text for another type, or for a fraction.
pub fn whole(value: &Value, path: &str, owner: &str) -> Result<Option<i64>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Ok(Some(whole)),
            None => Err(said(&format!("number {number}"), path, owner, "int64")),
        },
        other => Err(mismatch(other, path, owner, "int64")),
    }
}

/// A truth value; `null` is none.
///
/// # Errors
/// Go's text for another type.
pub fn truth(value: &Value, path: &str, owner: &str) -> Result<Option<bool>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(truth) => Ok(Some(*truth)),
        other => Err(mismatch(other, path, owner, "bool")),
    }
}

/// A list of texts; `null` is an empty one.
///
/// # Errors
/// Go's text for another type, of the list or of an element.
pub fn texts(value: &Value, path: &str, owner: &str) -> Result<Vec<String>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => list
            .iter()
            .map(|one| Ok(text(one, path, owner, "string")?.unwrap_or_default()))
            .collect(),
        other => Err(mismatch(other, path, owner, "[]string")),
    }
}

/// A whole number out of a query.
///
/// # Errors
/// The text of `strconv.ParseInt`.
pub fn integer(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let read = text.parse().ok();
    read.ok_or_else(|| unread("ParseInt", text, digits))
}

/// A resourceVersion.
///
/// # Errors
/// The text of `strconv.ParseUint`.
pub fn unsigned(text: &str) -> Result<u64, String> {
    let read = text.parse().ok().filter(|_| !text.starts_with('+'));
    read.ok_or_else(|| unread("ParseUint", text, text))
}

fn unread(function: &str, text: &str, digits: &str) -> String {
    let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let why = if number {
        "value out of range"
    } else {
        "invalid syntax"
    };
    format!("strconv.{function}: parsing {}: {why}", quote(text))
}

/// A value as Go's `%v` prints it.
#[must_use]
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => plain_map(map),
        other => other.to_string(),
    }
}

/// A map as Go's `%v` prints it.
#[must_use]
pub fn plain_map(map: &Map<String, Value>) -> String {
    let pairs: Vec<String> = sorted(map)
        .map(|(key, value)| format!("{key}:{}", plain(value)))
        .collect();
    format!("map[{}]", pairs.join(" "))
}

/// The fields of a map in the order in which Go prints them.
pub fn sorted(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
    pairs.sort_by_key(|(key, _)| *key);
    pairs.into_iter()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What stands behind a key has no say in its place.
    #[test]
    fn maps_are_printed_by_their_keys() {
        let value = json!({"a1": 1, "a.b": [true, null], "a-b": {"y": "", "x y": "z"}, "a": null});
        let want = "map[a:<nil> a-b:map[x y:z y:] a.b:[true <nil>] a1:1]";
        assert_eq!(plain(&value), want);
    }

    #[test]
    fn integers_fail_in_two_ways() {
        assert_eq!(integer("-7"), Ok(-7));
        for (text, why) in [
            ("", "invalid syntax"),
            ("x", "invalid syntax"),
            ("1.5", "invalid syntax"),
            ("-", "invalid syntax"),
            ("99999999999999999999", "value out of range"),
        ] {
            let want = format!("strconv.ParseInt: parsing {text:?}: {why}");
            assert_eq!(integer(text), Err(want));
        }
    }
}
