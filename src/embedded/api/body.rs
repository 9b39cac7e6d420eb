//! Request bodies: media types, bounded parsing, and the checks that come before anything else.

use std::fmt::Write as _;

use http::HeaderMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::convert;
use super::go_json;
use super::go_struct::{self, Misfit, Step};
use super::go_text::quote;
use super::object;
use super::protobuf;
use super::registry::{self, Kind, Storage};
use super::request::content_type;
use super::status::{Cause, Failure};

/// Largest body, as kube-apiserver's limit for one request.
pub const MAX_BODY: usize = 3 << 20;
/// Deepest nesting of an object.
pub const MAX_DEPTH: usize = 100;

const ACCEPTED: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// Parses a body by its media type; an empty one is `Null`.
///
/// # Errors
/// 415 for another media type, 400 for a body that does not parse.
pub fn parse(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, Failure> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    match content_type(headers).as_str() {
        ""
        | "application/json"
        | "application/json-patch+json"
        | "application/merge-patch+json"
        | "application/strategic-merge-patch+json" => json(bytes),
        "application/yaml" | "application/apply-patch+yaml" => yaml(bytes),
        "application/vnd.kubernetes.protobuf" => {
            protobuf::decode(bytes).map_err(|error| Failure::bad_request(error.to_string()))
        }
        _ => Err(Failure::unsupported_media_type(ACCEPTED)),
    }
}

/// What of a body is shown in a refusal (bytes).
const EXCERPT: usize = 30;

/// An object of some kind out of a body, as far as it says of which.
///
/// # Errors
/// As [`parse`], in the words for an object.
pub fn read(kind: &Kind, headers: &HeaderMap, bytes: &[u8]) -> Result<Value, Failure> {
    let unrecognized = |why: &str| {
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {why} ({})",
            kind.kind,
            excerpt(bytes)
        ))
    };
    if !matches!(content_type(headers).as_str(), "" | "application/json") {
        let value = parse(headers, bytes)?;
        if let Some(why) = untyped(&value) {
            return Err(unrecognized(&why));
        }
        check_named(
            kind,
            &value,
            || object::sorted(value.clone()).to_string(),
            bytes,
        )?;
        return Ok(value);
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        if error.is_eof() {
            unrecognized("unexpected end of JSON input")
        } else {
            unrecognized(&error.to_string())
        }
    })?;
    if let Some(why) = untyped(&value) {
        return Err(unrecognized(&why));
    }
    let text = || String::from_utf8_lossy(bytes).into_owned();
    check_named(kind, &value, text, bytes)?;
    Ok(value)
}

/// A custom object, which no struct stands for, says itself of what kind and version it is.
fn check_named(
    kind: &Kind,
    value: &Value,
    text: impl FnOnce() -> String,
    bytes: &[u8],
) -> Result<(), Failure> {
    if !kind.custom {
        return Ok(());
    }
    let named = |key: &str| {
        let name = value.get(key).and_then(Value::as_str);
        name.is_some_and(|name| !name.is_empty())
    };
    if !named("kind") {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {} ({})",
            kind.kind,
            without_kind(&text()),
            excerpt(bytes)
        )));
    }
    if !named("apiVersion") {
        return Err(other_version(kind, ""));
    }
    Ok(())
}

/// An object that does not say of what kind it is.
#[must_use]
pub fn without_kind(text: &str) -> String {
    format!("Object 'Kind' is missing in '{text}'")
}

fn other_version(kind: &Kind, found: &str) -> Failure {
    let expected = kind.api_version();
    Failure::bad_request(format!(
        "the API version in the data ({found}) does not match the expected API version ({expected})"
    ))
}

/// Why a value cannot say of which version and kind it is.
#[must_use]
pub fn untyped(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Object(map) => ["apiVersion", "kind"].iter().find_map(|key| {
            let field = map.get(*key).unwrap_or(&Value::Null);
            go_json::text(field, key, "", "string").err()
        }),
        other => {
            let word = go_json::word(other);
            Some(format!(
                "json: cannot unmarshal {word} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            ))
        }
    }
}

/// The beginning of a body; in hexadecimal if it does not look like an object.
fn excerpt(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "<empty>".to_owned();
    }
    let (beginning, rest) = bytes.split_at(bytes.len().min(EXCERPT));
    let shown = if beginning.starts_with(b"{") {
        String::from_utf8_lossy(beginning).into_owned()
    } else {
        beginning.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    if rest.is_empty() {
        shown
    } else {
        format!("{shown} ...")
    }
}

fn json(bytes: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::bad_request(format!("the body of the request is not JSON: {error}"))
    })
}

fn yaml(bytes: &[u8]) -> Result<Value, Failure> {
    if let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Failure::bad_request(format!("the body of the request is not UTF-8: {error}"))
    })?;
    // Who sends a key twice is told so where the fields are checked.
    crate::sensor::yaml::only(text).map_err(|error| {
        Failure::bad_request(format!("the body of the request is not YAML: {error}"))
    })
}

/// An object of `kind` out of a body, checked for its version and kind, in the kind's own shape.
///
/// # Errors
/// 400 or 422 for a body that is no such object.
pub fn object(kind: &Kind, value: Value) -> Result<Value, Failure> {
    let Value::Object(mut map) = value else {
        let text = if value.is_null() {
            "the request has no body"
        } else {
            "the body of the request is no JSON object"
        };
        return Err(Failure::bad_request(text));
    };
    let expected = kind.api_version();
    let version = map
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_owned();
    if !version.is_empty() && version != expected && !kind.custom {
        return Err(unregistered(kind, &version, kind.kind));
    }
    if !version.is_empty() && version != expected {
        return Err(other_version(kind, &version));
    }
    let found = map
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_owned();
    if !found.is_empty() && found != kind.kind {
        return Err(wrong_kind(kind, &found, &Value::Object(map)));
    }
    if let Some(other) = map
        .get("metadata")
        .filter(|it| !it.is_object() && !it.is_null())
    {
        return Err(no_metadata(kind, other));
    }
    if let Some(other) = map.get("metadata").and_then(|it| it.get("namespace")) {
        // The request says it as well, so nobody reads it later.
        let path = if kind.custom {
            "namespace"
        } else {
            "metadata.namespace"
        };
        go_json::text(other, path, "ObjectMeta", "string").map_err(|why| unhandled(kind, &why))?;
    }
    let mut ordered = serde_json::Map::new();
    ordered.insert("apiVersion".to_owned(), Value::from(expected));
    ordered.insert("kind".to_owned(), Value::from(kind.kind));
    map.shift_remove("apiVersion");
    map.shift_remove("kind");
    ordered.extend(map);
    Ok(Value::Object(ordered))
}

/// Something else stands where `metadata` should.
fn no_metadata(kind: &Kind, found: &Value) -> Failure {
    const WANTED: &str = "v1.ObjectMeta";
    let why = if kind.custom {
        let found = go_json::word(found);
        format!("json: cannot unmarshal {found} into Go value of type {WANTED}")
    } else {
        go_json::mismatch(found, "metadata", kind.kind, WANTED)
    };
    unhandled(kind, &why)
}

/// 400: the object is none of its kind.
pub fn unhandled(kind: &Kind, why: &str) -> Failure {
    unhandled_as(kind.kind, kind.version, kind.kind, why)
}

/// 400: what was found in a version is none of the kind that is wanted.
pub fn unhandled_as(found: &str, version: &str, wanted: &str, why: &str) -> Failure {
    Failure::bad_request(format!(
        "{found} in version {} cannot be handled as a {wanted}: {why}",
        quote(version)
    ))
}

fn wrong_kind(kind: &Kind, found: &str, value: &Value) -> Failure {
    if kind.custom {
        let cause = Cause::invalid(
            "kind",
            &Value::from(found),
            &format!("must be {}", kind.kind),
        );
        return Failure::invalid_as(kind.group, found, object::name(value), vec![cause]);
    }
    if registry::by_kind(kind.group, found).is_some() {
        let (name, version) = (kind.kind, kind.version);
        let inside = kind
            .group
            .split('.')
            .next()
            .filter(|group| !group.is_empty());
        let inside = inside.unwrap_or("core");
        let why =
            format!("converting ({version}.{found}) to ({inside}.{name}): unknown conversion");
        return unhandled_as(found, version, name, &why);
    }
    unregistered(kind, &kind.api_version(), found)
}

/// Nothing has this kind in this version.
fn unregistered(kind: &Kind, api_version: &str, found: &str) -> Failure {
    let version = api_version.rsplit('/').next().unwrap_or("");
    let why = format!(
        "no kind {} is registered for version {} in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
        quote(found),
        quote(api_version)
    );
    unhandled_as(found, version, kind.kind, &why)
}

/// An object that has passed through its type, in storage shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Typed {
    pub value: Value,
    /// Paths of the fields that the type does not have; they fell out.
    pub unknown: Vec<String>,
}

/// Passes an object through its type: unknown fields fall out, wrong types are an error.
///
/// # Errors
/// What is wrong, in Go's words.
pub fn normalize(kind: &'static Kind, given: Value) -> Result<Typed, Misfit> {
    if object::deeper_than(&given, MAX_DEPTH) {
        return Err(Misfit::told(format!(
            "the object is nested deeper than {MAX_DEPTH} levels"
        )));
    }
    let value = typed(kind, &given)?;
    let unknown = unknown_fields(&given, &value);
    let value = without_made_selector(kind, value, &given);
    let value = match kind.storage {
        Storage::Shared(_) => convert::to_storage(value),
        Storage::Own | Storage::Virtual => value,
    };
    let mut value = without_empty_metadata(value);
    if !kind.custom && kind.group != "discovery.k8s.io" {
        drop_empty(&mut value);
    }
    Ok(Typed { value, unknown })
}

/// What the type has of a value.
///
/// # Errors
/// Something in it does not fit.
pub fn typed(kind: &Kind, given: &Value) -> Result<Value, Misfit> {
    match kind.decode {
        Some(decode) => decode(given),
        None => custom(kind, given.clone()),
    }
}

/// The typed struct of a workload makes an empty selector where there was none; the two are refused in different words.
fn without_made_selector(kind: &Kind, mut value: Value, given: &Value) -> Value {
    let named = given
        .pointer("/spec/selector")
        .is_some_and(Value::is_object);
    if kind.group == "apps"
        && !named
        && let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.shift_remove("selector");
    }
    value
}

/// Most unknown fields that are named.
const MAX_UNKNOWN: usize = 50;

/// Paths of what `given` has and `kept` has not.
fn unknown_fields(given: &Value, kept: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find_unknown(given, kept, &mut String::new(), &mut found);
    found.sort();
    found
}

/// `path` is one text for all places: a long key is not copied for each of what stands under it.
fn find_unknown(given: &Value, kept: &Value, path: &mut String, found: &mut Vec<String>) {
    let above = path.len();
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            let unknown = |(key, value): &(&String, &Value)| {
                !value.is_null() && !kept.contains_key(key.as_str())
            };
            for (key, _) in given.iter().filter(unknown) {
                if found.len() >= MAX_UNKNOWN {
                    return;
                }
                push_field(path, key);
                found.push(path.clone());
                path.truncate(above);
            }
            for (key, value) in given.iter().rev() {
                if let Some(kept) = kept.get(key) {
                    push_field(path, key);
                    find_unknown(value, kept, path, found);
                    path.truncate(above);
                }
            }
        }
        (Value::Array(given), Value::Array(kept)) => {
            for (index, (given, kept)) in given.iter().zip(kept).enumerate().rev() {
                let _ = write!(path, "[{index}]");
                find_unknown(given, kept, path, found);
                path.truncate(above);
            }
        }
        _ => {}
    }
}

fn push_field(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

/// Custom kinds: `metadata` is typed, the fields of the definition are kept as they are, others fall out.
fn custom(kind: &Kind, value: Value) -> Result<Value, Misfit> {
    let Value::Object(mut map) = value else {
        return Err(Misfit::told("not an object"));
    };
    let metadata = map.get_mut("metadata").map(Value::take).unwrap_or_default();
    let metadata: ObjectMeta = go_struct::decode(&metadata).map_err(|mut misfit| {
        if let Some(place) = &mut misfit.place {
            place.path.insert(0, Step::Field("metadata".to_owned()));
        }
        misfit
    })?;
    let metadata =
        serde_json::to_value(metadata).map_err(|error| Misfit::told(error.to_string()))?;
    map.insert("metadata".to_owned(), metadata);
    map.retain(|key, _| {
        matches!(key.as_str(), "apiVersion" | "kind" | "metadata")
            || kind.body.contains(&key.as_str())
    });
    Ok(Value::Object(map))
}

/// Lists, and maps of texts, that Go's structs leave out when they are empty; some lists always stand there. A status is
/// left as its writer wrote it.
fn drop_empty(value: &mut Value) {
    const KEPT: [&str; 4] = ["rules", "containers", "endpoints", "items"];
    const MAPS: [&str; 7] = [
        "data",
        "binaryData",
        "stringData",
        "limits",
        "requests",
        "nodeSelector",
        "matchLabels",
    ];
    let keeps = |key: &String, value: &mut Value| match value {
        Value::Array(list) => !list.is_empty() || KEPT.contains(&key.as_str()),
        Value::Object(map) => !map.is_empty() || !MAPS.contains(&key.as_str()),
        _ => true,
    };
    let Some(map) = value.as_object_mut() else {
        return;
    };
    map.retain(keeps);
    let parts = map.iter_mut().filter(|(key, _)| *key != "status");
    let mut pending: Vec<&mut Value> = parts.map(|(_, part)| part).collect();
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items.iter_mut()),
            Value::Object(map) => {
                map.retain(keeps);
                // What is inside of fieldsV1 is a set of fields, not fields.
                let inner = map.iter_mut().filter(|(key, _)| *key != "fieldsV1");
                pending.extend(inner.map(|(_, value)| value));
            }
            _ => {}
        }
    }
}

/// Empty maps and lists of `metadata` are left out, as Go leaves them out.
fn without_empty_metadata(mut value: Value) -> Value {
    for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = match value.pointer(&format!("/metadata/{key}")) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            _ => false,
        };
        if empty {
            object::remove_meta(&mut value, key);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes after is one too many to name, wherever it stands.
    #[test]
    fn only_so_many_unknown_fields_are_named() {
        let many: Value = (0..100_000)
            .map(|number| (format!("field{number}"), Value::from(1)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let flat = unknown_fields(&many, &serde_json::json!({}));
        assert_eq!(flat.len(), MAX_UNKNOWN);
        let deep = serde_json::json!({"a": many, "b": many});
        let kept = serde_json::json!({"a": {}, "b": {}});
        assert_eq!(unknown_fields(&deep, &kept).len(), MAX_UNKNOWN);
        let few = serde_json::json!({"a": 1, "b": {"c": 2}, "d": null});
        let kept = serde_json::json!({"b": {}, "d": null});
        assert_eq!(unknown_fields(&few, &kept), ["a", "b.c"]);
        let listed = serde_json::json!({"l": [{"x": {"y": 1}}, 1, {"z": [[{"w": 1}]]}]});
        let kept = serde_json::json!({"l": [{"x": {}}, 1, {"z": [[{}]]}]});
        assert_eq!(
            unknown_fields(&listed, &kept),
            ["l[0].x.y", "l[2].z[0][0].w"]
        );
    }
}
