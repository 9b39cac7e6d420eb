//! An embedded API server for one test, and clients of it.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use eventlab::embedded::api::{ApiServer, Options};
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt;

/// Hang guard: far longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// A fresh API server with the namespace `lab`.
pub struct Lab {
    pub server: Arc<ApiServer>,
    /// Holds `cluster.db`; removed at the end of the test.
    pub _directory: tempfile::TempDir,
}

impl Lab {
    pub async fn new() -> Lab {
        let directory = tempfile::tempdir().unwrap();
        let server =
            ApiServer::open(&directory.path().join("cluster.db"), Options::default()).unwrap();
        let lab = Lab {
            server,
            _directory: directory,
        };
        let spaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(lab.admin());
        let space = object(serde_json::json!({"metadata": {"name": "lab"}}));
        spaces.create(&Default::default(), &space).await.unwrap();
        lab
    }

    /// A client that may do everything.
    pub fn admin(&self) -> Client {
        self.server
            .client(&self.server.user_token("admin", &["system:masters"]))
    }

    /// Everything of a kind in one namespace, as admin.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.admin(), namespace)
    }

    /// Waits for something that should come at once.
    pub async fn soon<T>(&self, future: impl Future<Output = T>) -> T {
        tokio::time::timeout(LONG, future).await.expect("in time")
    }
}

/// A typed object out of JSON.
pub fn object<K: DeserializeOwned + Debug>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Creates an object by its URL, as admin.
pub async fn create(lab: &Lab, path: &str, body: Value) -> Value {
    let (code, answer) = send(lab, "POST", path, "application/json", body.to_string()).await;
    assert_eq!(code, 201, "{path}: {answer}");
    answer
}

/// Sends one request as admin and answers code and body (a JSON string where it is no JSON).
pub async fn send(
    lab: &Lab,
    method: &str,
    path: &str,
    media_type: &str,
    body: impl Into<Body>,
) -> (u16, Value) {
    let token = lab.server.user_token("admin", &["system:masters"]);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Authorization", format!("Bearer {token}"))
        .header("Content-Type", media_type)
        .body(body.into())
        .unwrap();
    answer(lab, request).await
}

/// Sends any request straight into the router.
pub async fn answer(lab: &Lab, request: Request<Body>) -> (u16, Value) {
    let response = lab.server.router().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (
        code,
        serde_json::from_str(&text).unwrap_or(Value::from(text)),
    )
}
