//! An embedded API server for one test, and clients of it.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use eventlab::embedded::api::{ApiServer, Options};
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

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
