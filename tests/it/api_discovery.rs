//! What the server says it offers, compared with kube-apiserver 1.36.2.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::api_support::{Lab, answer, over_both_transports, send};

over_both_transports!(a_client_discovers_either_way);

/// Group by group, as older clients do, and in one answer.
async fn a_client_discovers_either_way(lab: Lab) {
    for aggregated in [false, true] {
        let discovery = kube::Discovery::new(lab.admin());
        let found = match aggregated {
            false => lab.soon(discovery.run()).await,
            true => lab.soon(discovery.run_aggregated()).await,
        };
        let found = found.unwrap();
        let group = found.get("argoproj.io").unwrap();
        let (resource, can) = group.recommended_kind("Sensor").unwrap();
        assert_eq!(resource.plural, "sensors");
        assert!(can.supports_operation(kube::discovery::verbs::WATCH));
        let core = found.get("").unwrap();
        let (_, pods) = core.recommended_kind("Pod").unwrap();
        assert!(pods.supports_operation(kube::discovery::verbs::DELETE_COLLECTION));
    }
}

fn golden(name: &str) -> Value {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A resource without what is a hash of storage, its verbs in order.
fn bare(resource: &Value) -> Value {
    let mut resource = resource.clone();
    let map = resource.as_object_mut().unwrap();
    map.remove("storageVersionHash");
    if let Some(verbs) = map.get_mut("verbs").and_then(Value::as_array_mut) {
        verbs.sort_by_key(ToString::to_string);
    }
    resource
}

async fn get(lab: &Lab, path: &str) -> Value {
    let (code, body) = send(lab, "GET", path, "application/json", "").await;
    assert_eq!(code, 200, "{path}: {body}");
    body
}

#[tokio::test]
async fn recorded_resources_are_listed() {
    let lab = Lab::new().await;
    for (file, path) in [
        ("discovery-core.json", "/api/v1"),
        ("discovery-argoproj.json", "/apis/argoproj.io/v1alpha1"),
    ] {
        let (have, want) = (get(&lab, path).await, golden(file));
        assert_eq!(have["groupVersion"], want["groupVersion"]);
        let all: Vec<Value> = have["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(bare)
            .collect();
        for resource in want["resources"].as_array().unwrap() {
            assert!(
                all.contains(&bare(resource)),
                "{path}: {resource} is missing"
            );
        }
    }
}

#[tokio::test]
async fn every_listed_group_has_its_resources() {
    let lab = Lab::new().await;
    assert_eq!(get(&lab, "/api").await["versions"], json!(["v1"]));
    for group in get(&lab, "/apis").await["groups"].as_array().unwrap() {
        let version = group["preferredVersion"]["groupVersion"].as_str().unwrap();
        let list = get(&lab, &format!("/apis/{version}")).await;
        assert_eq!(list["kind"], "APIResourceList");
        assert!(
            !list["resources"].as_array().unwrap().is_empty(),
            "{version}"
        );
        assert_eq!(
            get(&lab, &format!("/apis/{}", group["name"].as_str().unwrap())).await["kind"],
            "APIGroup"
        );
    }
}

#[tokio::test]
async fn aggregated_discovery_comes_in_the_version_asked_for() {
    let lab = Lab::new().await;
    for version in ["v2", "v2beta1"] {
        let media_type =
            format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
        let token = lab.admin_token();
        let request = Request::builder()
            .uri("/apis?timeout=32s")
            .header("Authorization", format!("Bearer {token}"))
            .header("Accept", format!("{media_type},application/json"))
            .body(Body::empty())
            .unwrap();
        let response = lab.server.router().oneshot(request).await.unwrap();
        assert_eq!(response.headers()["content-type"], media_type.as_str());
    }
}

#[tokio::test]
async fn version_and_health() {
    let lab = Lab::new().await;
    assert_eq!(
        get(&lab, "/version").await["gitVersion"],
        "v1.36.2+eventlab"
    );
    for path in ["/healthz", "/livez", "/readyz"] {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        assert_eq!(answer(&lab, request).await, (200, json!("ok")), "{path}");
    }
}
