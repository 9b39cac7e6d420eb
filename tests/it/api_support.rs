//! An embedded API server for one test, and clients of it: in process or over TLS.

use std::fmt::Debug;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use eventlab::embedded::api::kubeconfig::{Kubeconfig, Persona};
use eventlab::embedded::api::listener::{Limits, Listener};
use eventlab::embedded::api::tls::{ServingIdentity, init_tls};
use eventlab::embedded::api::{ApiServer, Options};
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

/// Hang guard: far longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// How clients reach the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    InProcess,
    Tls,
}

/// A fresh API server with the namespace `lab`.
pub struct Lab {
    pub server: Arc<ApiServer>,
    transport: Transport,
    /// Address and certificate of the listener, where there is one.
    tls: Option<(String, String)>,
    _listener: Option<DropGuard>,
    /// Holds `cluster.db`; removed at the end of the test.
    directory: tempfile::TempDir,
}

impl Lab {
    /// With in-process clients.
    pub async fn new() -> Lab {
        Lab::over(Transport::InProcess).await
    }

    /// With clients of this kind.
    pub async fn over(transport: Transport) -> Lab {
        Lab::with(transport, Options::default()).await
    }

    /// With clients of this kind and these options.
    pub async fn with(transport: Transport, options: Options) -> Lab {
        let directory = tempfile::tempdir().unwrap();
        let server = ApiServer::open(&directory.path().join("cluster.db"), options).unwrap();
        let mut lab = Lab {
            server,
            transport,
            tls: None,
            _listener: None,
            directory,
        };
        if transport == Transport::Tls {
            lab.listen().await;
        }
        let spaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(lab.admin());
        let space = object(serde_json::json!({"metadata": {"name": "lab"}}));
        spaces.create(&Default::default(), &space).await.unwrap();
        lab
    }

    async fn listen(&mut self) {
        init_tls();
        let directory = self.directory.path();
        let identity = ServingIdentity::load_or_create(directory).unwrap();
        let listener = Listener::bind(None, directory, &identity, Limits::default())
            .await
            .unwrap();
        self.tls = Some((listener.url(), identity.ca_pem().to_owned()));
        let stop = CancellationToken::new();
        tokio::spawn(listener.serve(self.server.router(), stop.clone()));
        self._listener = Some(stop.drop_guard());
    }

    /// A directory that ends with the test.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The token of somebody who may do everything.
    pub fn admin_token(&self) -> String {
        self.server.user_token("admin", &["system:masters"])
    }

    /// A client that may do everything.
    pub fn admin(&self) -> Client {
        self.client(&self.admin_token())
    }

    /// A client with this token.
    pub fn client(&self, token: &str) -> Client {
        match self.transport {
            Transport::InProcess => self.server.client(token),
            Transport::Tls => {
                let (url, ca_pem) = self.tls.as_ref().expect("a listener");
                let mut config = Config::new(url.parse().unwrap());
                config.root_cert = Some(vec![der(ca_pem)]);
                config.auth_info.token = Some(token.to_owned().into());
                Client::try_from(config).unwrap()
            }
        }
    }

    /// A kubeconfig for the owner of this token.
    pub fn kubeconfig(&self, token: &str) -> String {
        let (server, ca_pem) = self.tls.as_ref().expect("a listener");
        let personas = [Persona {
            name: "admin".to_owned(),
            token: token.to_owned(),
        }];
        let config = Kubeconfig {
            server,
            ca_pem,
            namespace: "lab",
            personas: &personas,
            current: "admin",
        };
        config.render().unwrap()
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

/// The bytes of a certificate in PEM.
fn der(pem: &str) -> Vec<u8> {
    let lines = pem.lines().filter(|line| !line.starts_with("-----"));
    STANDARD.decode(lines.collect::<String>()).unwrap()
}

/// Runs each check through an in-process client and through the TLS listener.
macro_rules! over_both_transports {
    ($($check:ident),* $(,)?) => {
        mod in_process {
            $(#[tokio::test]
            async fn $check() {
                use crate::api_support::{Lab, Transport};
                super::$check(Lab::over(Transport::InProcess).await).await;
            })*
        }
        mod over_tls {
            $(#[tokio::test]
            async fn $check() {
                use crate::api_support::{Lab, Transport};
                super::$check(Lab::over(Transport::Tls).await).await;
            })*
        }
    };
}
pub(crate) use over_both_transports;

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
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Authorization", format!("Bearer {}", lab.admin_token()))
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
