//! A rule for one name gives that name and no other, however the name is put into a request.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::api_support::{Lab, answer, create, send};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/lab";
const MAPS: &str = "/api/v1/namespaces/lab/configmaps";

/// A lab with an account that may create one ConfigMap by its name, and do anything to the Namespace as an object of it.
async fn with_low() -> (Lab, String) {
    let lab = Lab::new().await;
    let accounts = "/api/v1/namespaces/lab/serviceaccounts";
    create(&lab, accounts, json!({"metadata": {"name": "low"}})).await;
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"], "resourceNames": ["dd"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["*"]},
    ]);
    let role = json!({"metadata": {"name": "low"}, "rules": rules});
    create(&lab, &format!("{RBAC}/roles"), role).await;
    let binding = json!({"metadata": {"name": "low"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "low"},
        "subjects": [{"kind": "ServiceAccount", "name": "low", "namespace": "lab"}]});
    create(&lab, &format!("{RBAC}/rolebindings"), binding).await;
    let token = lab.server.service_account_token("lab", "low");
    (lab, token)
}

async fn post(lab: &Lab, token: &str, path: &str, body: Value) -> u16 {
    let request = Request::builder()
        .method("POST")
        .uri(path)
        .header("Authorization", format!("Bearer {token}"))
        .header("Content-Type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap();
    answer(lab, request).await.0
}

#[tokio::test]
async fn a_name_in_the_url_creates_no_other() {
    let (lab, token) = with_low().await;
    let other = json!({"metadata": {"name": "zzz"}});
    assert_eq!(post(&lab, &token, MAPS, other.clone()).await, 403);
    assert_eq!(post(&lab, &token, &format!("{MAPS}/dd"), other).await, 405);
    let space = json!({"metadata": {"name": "wide"}});
    let url = "/api/v1/namespaces/lab";
    assert_eq!(post(&lab, &token, url, space.clone()).await, 405);
    let inner = "/api/v1/namespaces/lab/namespaces";
    assert_eq!(post(&lab, &token, inner, space).await, 404);
    for path in [format!("{MAPS}/zzz"), "/api/v1/namespaces/wide".to_owned()] {
        let code = send(&lab, "GET", &path, "application/json", "").await.0;
        assert_eq!(code, 404, "{path}");
    }
}
