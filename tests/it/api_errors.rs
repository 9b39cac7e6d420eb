//! Refusals, word for word as kube-apiserver 1.36.2 answered them.

use axum::body::Body;
use eventlab::embedded::api::ApiServer;
use http::Request;
use serde_json::{Value, json};

use crate::api_support::{Lab, answer, create, send};

pub const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/api-errors.jsonl");

const DUP: &str = "/apis/argoproj.io/v1alpha1/namespaces/lab/workflows/dup";

/// What was in the cluster when the answers were recorded.
pub async fn prepare(lab: &Lab) {
    create(
        lab,
        "/api/v1/namespaces/lab/serviceaccounts",
        json!({"metadata": {"name": "submit"}}),
    )
    .await;
    let workflow = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "dup"}, "spec": {}});
    create(
        lab,
        "/apis/argoproj.io/v1alpha1/namespaces/lab/workflows",
        workflow,
    )
    .await;
}

pub fn token(server: &ApiServer, caller: &Value) -> Option<String> {
    match caller.as_str() {
        None => None,
        Some("cluster admin") => Some(server.user_token("admin", &["system:masters"])),
        Some("bad token") => Some("not-a-token".to_owned()),
        Some(name) => {
            let mut parts = name.rsplitn(3, ':');
            let account = parts.next().unwrap();
            let namespace = parts.next().unwrap();
            Some(server.service_account_token(namespace, account))
        }
    }
}

async fn ask(lab: &Lab, line: &Value) -> (u16, Value) {
    let mut request = Request::builder()
        .method(line["method"].as_str().unwrap())
        .uri(line["path"].as_str().unwrap());
    if let Some(token) = token(&lab.server, &line["as"]) {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    let media_type = line["contentType"].as_str().unwrap_or("application/json");
    let body = match &line["body"] {
        Value::Null => Body::empty(),
        body => Body::from(body.to_string()),
    };
    let request = request
        .header("Content-Type", media_type)
        .body(body)
        .unwrap();
    answer(lab, request).await
}

/// What is checked of pods, Services and workloads; each of these creates is a dry run.
const CHECKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/api-checks.jsonl");

/// URLs that are not there or do not take the verb.
const URLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/api-urls.jsonl");
/// Deletes with options that cannot be understood.
const DELETES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/golden/api-deletes.jsonl"
);
/// Lists with options, tokens and selectors that cannot be understood.
const LISTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/api-lists.jsonl");

#[tokio::test]
async fn every_url_takes_its_own_verbs() {
    all_of(URLS).await;
}

#[tokio::test]
async fn options_that_are_not_understood_delete_nothing() {
    let lab = all_of(DELETES).await;
    let read = async |path: &str| send(&lab, "GET", path, "application/json", "").await.0;
    assert_eq!(read("/api/v1/namespaces/lab/configmaps/victim").await, 200);
    assert_eq!(read(DUP).await, 200);
}

/// Objects and patches that are no such thing, each a dry run.
const OBJECTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/golden/api-objects.jsonl"
);

#[tokio::test]
async fn objects_and_patches_are_what_they_say() {
    all_of(OBJECTS).await;
}

#[tokio::test]
async fn options_that_are_not_understood_list_nothing() {
    all_of(LISTS).await;
}

#[tokio::test]
async fn every_recorded_answer_is_given() {
    all_of(GOLDEN).await;
}

#[tokio::test]
async fn every_recorded_check_is_made() {
    all_of(CHECKS).await;
}

/// Values of another type than their fields', told by the decoder, the converter or the schema.
const TYPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/api-types.jsonl");

#[tokio::test]
async fn every_value_is_of_its_fields_type() {
    all_of(TYPES).await;
}

/// Ports on the node, scales, options of writes and patches that are none.
const VALUES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/api-values.jsonl");

#[tokio::test]
async fn what_is_given_to_services_and_scales_is_what_they_can_have() {
    let lab = all_of(VALUES).await;
    let given = send(&lab, "GET", "/api/v1/services", "application/json", "").await;
    let ports = given.1["items"].as_array().unwrap().iter();
    let ports: Vec<i64> = ports
        .flat_map(|service| service["spec"]["ports"].as_array().unwrap())
        .filter_map(|port| port["nodePort"].as_i64())
        .collect();
    let kept: std::collections::BTreeSet<&i64> = ports.iter().collect();
    assert_eq!(kept.len(), ports.len(), "{ports:?}");
}

/// Measured: a review without audiences asks for the API server's own.
#[tokio::test]
async fn a_token_is_good_for_the_audiences_that_it_is_meant_for() {
    const ACCOUNTS: &str = "/api/v1/namespaces/lab/serviceaccounts";
    const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
    const OWN: &str = "https://kubernetes.default.svc.cluster.local";
    let lab = Lab::new().await;
    create(&lab, ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    let url = format!("{ACCOUNTS}/robot/token");
    for (meant, asked, want) in [
        (json!([]), json!([]), json!([OWN])),
        (json!([]), json!([OWN]), json!([OWN])),
        (json!([]), json!(["x", "z"]), Value::Null),
        (json!(["x"]), json!([]), Value::Null),
        (json!(["x", "y"]), json!(["y", "z"]), json!(["y"])),
    ] {
        let request = json!({"spec": {"audiences": meant}}).to_string();
        let (_, token) = send(&lab, "POST", &url, "application/json", request).await;
        let review =
            json!({"spec": {"token": token["status"]["token"], "audiences": asked}}).to_string();
        let (_, review) = send(&lab, "POST", REVIEWS, "application/json", review).await;
        let status = &review["status"];
        assert_eq!(status["audiences"], want, "{meant} {asked}: {status}");
        assert_eq!(status["authenticated"] == true, !want.is_null(), "{status}");
        let why = status["error"].as_str().unwrap_or("");
        let told = why.contains("is invalid for the target audiences [");
        assert_eq!(told, want.is_null(), "{why}");
    }
    let none = json!({"spec": {"token": ""}}).to_string();
    let refused = send(&lab, "POST", REVIEWS, "application/json", none).await;
    assert_eq!(refused.0, 400, "{}", refused.1);
}

async fn all_of(file: &str) -> Lab {
    let lab = Lab::new().await;
    prepare(&lab).await;
    let victim = json!({"metadata": {"name": "victim"}});
    create(&lab, "/api/v1/namespaces/lab/configmaps", victim).await;
    let golden = std::fs::read_to_string(file).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in golden.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (code, body) = ask(&lab, &line).await;
        let want = &line["want"];
        let same_body = want["body"] == "(allowed)" || body == want["body"];
        if u64::from(code) != want["code"].as_u64().unwrap() || !same_body {
            wrong.push(format!(
                "{} {} as {}\n  want {} {}\n  have {code} {body}",
                line["method"], line["path"], line["as"], want["code"], want["body"]
            ));
        }
        count += 1;
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    lab
}
