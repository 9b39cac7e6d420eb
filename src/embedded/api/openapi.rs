//! The least of OpenAPI that `kubectl apply`, `create`, `edit` and `explain` ask for.
//!
//! Each group version has a document in which every kind has a `patch` operation with `fieldValidation`. Only custom
//! kinds have schemas: for built-in ones clients use what is compiled into them.

use axum::response::Response;
use serde_json::{Map, Value, json};

use super::definitions;
use super::discovery::group_versions;
use super::registry::{self, Kind};
use super::status::{Failure, json_response, typed_response};

/// Answers below `/openapi`.
///
/// # Errors
/// 404 for an unknown document.
pub fn answer(segments: &[&str]) -> Result<Response, Failure> {
    match segments {
        // An empty document of the right type satisfies clients that fall back to version 2.
        ["v2"] => {
            let media_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
            Ok(typed_response(200, media_type, ""))
        }
        ["v3"] => Ok(json_response(200, index().to_string())),
        ["v3", "api", version] => document("", version),
        ["v3", "apis", group, version] => document(group, version),
        _ => Err(Failure::PageNotFound),
    }
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn index() -> Value {
    let mut paths = Map::new();
    for (group, version) in group_versions() {
        let path = path_of(group, version);
        let url = format!("/openapi/v3/{path}?hash={}", env!("CARGO_PKG_VERSION"));
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

fn document(group: &str, version: &str) -> Result<Response, Failure> {
    let kinds: Vec<&Kind> = registry::kinds()
        .iter()
        .filter(|kind| kind.group == group && kind.version == version)
        .collect();
    if kinds.is_empty() {
        return Err(Failure::PageNotFound);
    }
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for kind in kinds {
        paths.insert(object_path(kind), operations(kind));
        if kind.custom {
            schemas.insert(
                format!("io.argoproj.{}.{}", kind.version, kind.kind),
                schema(kind),
            );
        }
    }
    let body = json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": super::discovery::GIT_VERSION},
        "paths": paths, "components": {"schemas": schemas},
    });
    Ok(json_response(200, body.to_string()))
}

fn object_path(kind: &Kind) -> String {
    let prefix = path_of(kind.group, kind.version);
    let space = if kind.namespaced {
        "namespaces/{namespace}/"
    } else {
        ""
    };
    format!("/{prefix}/{space}{}/{{name}}", kind.plural)
}

fn type_of(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn operations(kind: &Kind) -> Value {
    let text = json!({"type": "string"});
    json!({"patch": {
        "x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": type_of(kind),
        "parameters": [
            {"name": "dryRun", "in": "query", "schema": text},
            {"name": "fieldManager", "in": "query", "schema": text},
            {"name": "fieldValidation", "in": "query", "schema": text},
            {"name": "force", "in": "query", "schema": {"type": "boolean"}},
        ],
        "responses": {"200": {"description": "OK"}},
    }})
}

fn schema(kind: &Kind) -> Value {
    let mut schema = definitions::schema(kind);
    schema["x-kubernetes-group-version-kind"] = json!([type_of(kind)]);
    schema["description"] = json!(format!(
        "{} of {}, as its definition in this cluster has it",
        kind.kind, kind.group
    ));
    schema
}
