//! What the server offers: API groups and resources, version, health.

use axum::response::Response;
use http::{HeaderMap, Method};
use serde_json::{Map, Value, json};

use super::accept::{Format, formats};
use super::openapi;
use super::registry::{self, Kind, Subresource};
use super::status::{Failure, json_response, typed_response};

/// The version that the server reports.
pub const GIT_VERSION: &str = "v1.36.2+eventlab";

/// Answers a request that is for no resource.
///
/// # Errors
/// 404 for an unknown path, 405 for another method than GET.
pub fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Result<Response, Failure> {
    let trimmed = path.trim_end_matches('/');
    let segments: Vec<&str> = trimmed.split('/').skip(1).collect();
    let response = match segments.as_slice() {
        ["api"] => aggregated(headers, true).unwrap_or_else(|| ok(&legacy_versions())),
        ["apis"] => aggregated(headers, false).unwrap_or_else(|| ok(&group_list())),
        ["api", version] => ok(&resource_list("", version)?),
        ["apis", group] => ok(&group_entry(group).ok_or(Failure::PageNotFound)?),
        ["apis", group, version] => ok(&resource_list(group, version)?),
        ["version"] => ok(&version()),
        ["healthz" | "livez" | "readyz", ..] => {
            typed_response(200, "text/plain; charset=utf-8", "ok")
        }
        ["openapi", rest @ ..] => openapi::answer(rest)?,
        _ => return Err(unknown(path)),
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(Failure::method_not_allowed());
    }
    Ok(response)
}

/// The 404 of a path: a Status where built-in groups are served, a page elsewhere.
#[must_use]
pub fn unknown(path: &str) -> Failure {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let built_in = |group: &str| {
        let mut kinds = registry::kinds().iter();
        kinds.any(|kind| kind.group == group && !kind.custom)
    };
    match segments.as_slice() {
        ["api" | "version", _, ..] => Failure::unknown_resource(),
        ["apis", group, _, ..] if built_in(group) => Failure::unknown_resource(),
        _ => Failure::PageNotFound,
    }
}

fn ok(value: &Value) -> Response {
    json_response(200, value.to_string())
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// Group versions in the order of the table.
#[must_use]
pub fn group_versions() -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for kind in registry::kinds() {
        if !found.contains(&(kind.group, kind.version)) {
            found.push((kind.group, kind.version));
        }
    }
    found
}

fn kinds_of(group: &str, version: &str) -> Vec<&'static Kind> {
    registry::kinds()
        .iter()
        .filter(|kind| kind.group == group && kind.version == version)
        .collect()
}

fn legacy_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

fn group_entry(name: &str) -> Option<Value> {
    let (group, version) = group_versions()
        .into_iter()
        .find(|(group, _)| !group.is_empty() && *group == name)?;
    let entry = json!({"groupVersion": format!("{group}/{version}"), "version": version});
    Some(
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": [entry], "preferredVersion": entry}),
    )
}

fn group_list() -> Value {
    let groups: Vec<Value> = group_versions()
        .iter()
        .filter_map(|(group, _)| group_entry(group))
        .map(without_kind)
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn without_kind(mut entry: Value) -> Value {
    if let Some(map) = entry.as_object_mut() {
        map.shift_remove("kind");
        map.shift_remove("apiVersion");
    }
    entry
}

fn resource_list(group: &str, version: &str) -> Result<Value, Failure> {
    let kinds = kinds_of(group, version);
    if kinds.is_empty() {
        let path = match group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        return Err(unknown(&path));
    }
    let mut resources = Vec::new();
    for kind in &kinds {
        resources.push(resource(kind));
        resources.extend(kind.subresources.iter().map(|sub| subresource(kind, sub)));
    }
    let group_version = kinds[0].api_version();
    Ok(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
    )
}

fn resource(kind: &Kind) -> Value {
    let mut map = Map::new();
    map.insert("name".to_owned(), Value::from(kind.plural));
    map.insert("singularName".to_owned(), Value::from(kind.singular));
    map.insert("namespaced".to_owned(), Value::from(kind.namespaced));
    map.insert("kind".to_owned(), Value::from(kind.kind));
    map.insert("verbs".to_owned(), Value::from(kind.verbs.to_vec()));
    if !kind.short_names.is_empty() {
        map.insert(
            "shortNames".to_owned(),
            Value::from(kind.short_names.to_vec()),
        );
    }
    if !kind.categories.is_empty() {
        map.insert(
            "categories".to_owned(),
            Value::from(kind.categories.to_vec()),
        );
    }
    Value::Object(map)
}

fn subresource(kind: &Kind, sub: &Subresource) -> Value {
    let mut map = Map::new();
    map.insert(
        "name".to_owned(),
        Value::from(format!("{}/{}", kind.plural, sub.name)),
    );
    map.insert("singularName".to_owned(), Value::from(""));
    map.insert("namespaced".to_owned(), Value::from(kind.namespaced));
    if let Some((group, version)) = sub.group_version {
        map.insert("group".to_owned(), Value::from(group));
        map.insert("version".to_owned(), Value::from(version));
    }
    map.insert("kind".to_owned(), Value::from(sub.kind));
    map.insert("verbs".to_owned(), Value::from(sub.verbs.to_vec()));
    Value::Object(map)
}

/// The aggregated form, if the client asks for it before the plain one.
fn aggregated(headers: &HeaderMap, core: bool) -> Option<Response> {
    let wanted = formats(headers)
        .into_iter()
        .find(|format| matches!(format, Format::Discovery(_) | Format::Json))?;
    let Format::Discovery(version) = wanted else {
        return None;
    };
    let groups = group_versions()
        .into_iter()
        .filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> = groups
        .map(|(group, version)| aggregated_group(group, version))
        .collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items,
    });
    let media_type =
        format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    Some(typed_response(200, &media_type, body.to_string()))
}

fn aggregated_group(group: &str, version: &str) -> Value {
    let metadata = if group.is_empty() {
        json!({})
    } else {
        json!({"name": group})
    };
    let resources: Vec<Value> = kinds_of(group, version)
        .into_iter()
        .map(aggregated_resource)
        .collect();
    json!({"metadata": metadata, "versions": [{"version": version, "resources": resources, "freshness": "Current"}]})
}

fn aggregated_resource(kind: &Kind) -> Value {
    let subresources: Vec<Value> = kind
        .subresources
        .iter()
        .map(|sub| {
            let (group, version) = sub.group_version.unwrap_or((kind.group, kind.version));
            json!({
                "subresource": sub.name, "verbs": sub.verbs,
                "responseKind": {"group": group, "version": version, "kind": sub.kind},
            })
        })
        .collect();
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular, "verbs": kind.verbs,
    });
    for (key, list) in [
        ("shortNames", kind.short_names),
        ("categories", kind.categories),
    ] {
        if !list.is_empty() {
            entry[key] = json!(list);
        }
    }
    if !subresources.is_empty() {
        entry["subresources"] = Value::from(subresources);
    }
    entry
}
