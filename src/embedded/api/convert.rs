//! Events: one storage in the shape of `v1`, a second shape in `events.k8s.io/v1`.

use serde_json::{Map, Value};

/// Field names: (`events.k8s.io/v1`, `v1`).
const RENAMED: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn rename(value: Value, pairs: impl Fn(&str) -> Option<&'static str>, api_version: &str) -> Value {
    let Value::Object(map) = value else {
        return value;
    };
    let mut out = Map::new();
    for (key, value) in map {
        let key = pairs(&key).map_or(key, str::to_owned);
        out.insert(key, value);
    }
    out.insert("apiVersion".to_owned(), Value::from(api_version));
    Value::Object(out)
}

/// From `v1` to `events.k8s.io/v1`.
#[must_use]
pub fn from_storage(value: Value) -> Value {
    let find = |key: &str| {
        RENAMED
            .iter()
            .find(|(_, stored)| *stored == key)
            .map(|(shown, _)| *shown)
    };
    rename(value, find, "events.k8s.io/v1")
}

/// From `events.k8s.io/v1` to `v1`; fields that `v1` requires are filled.
#[must_use]
pub fn to_storage(value: Value) -> Value {
    let find = |key: &str| {
        RENAMED
            .iter()
            .find(|(shown, _)| *shown == key)
            .map(|(_, stored)| *stored)
    };
    let mut out = rename(value, find, "v1");
    if let Value::Object(map) = &mut out {
        map.entry("involvedObject")
            .or_insert_with(|| Value::Object(Map::new()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn there_and_back() {
        let shown = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "regarding": {"kind": "Pod", "name": "p"}, "note": "n", "reason": "R", "type": "Normal",
            "reportingController": "c", "deprecatedCount": 2,
        });
        let stored = to_storage(shown.clone());
        assert_eq!(stored["apiVersion"], "v1");
        assert_eq!(stored["involvedObject"]["name"], "p");
        assert_eq!(stored["message"], "n");
        assert_eq!(stored["count"], 2);
        assert_eq!(from_storage(stored), shown);
    }
}
