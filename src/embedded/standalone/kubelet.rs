//! The node's own port, where another API server asks for logs, commands and port-forwards as it asks a kubelet.
//!
//! Only a client whose certificate the API server's authority signed is let in, and only for what an access review
//! grants it (`nodes/proxy`, as for a kubelet). Source of paths and parameters: kube-apiserver's `pkg/registry/core/pod`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use http::{HeaderMap, Method, StatusCode};
use hyper::upgrade::OnUpgrade;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::PostParams;
use kube::{Api, Client};
use rustls::pki_types::CertificateDer;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::embedded::api::listener::{Limits, ListenError, Listener, Peer};
use crate::embedded::api::logs::{self, LogOptions, LogRequest};
use crate::embedded::api::streams::{
    self, ExecRequest, MAX_SESSIONS, PodTarget, Stop, Upgrading, Wanted,
};
use crate::embedded::api::tls::ServingIdentity;
use crate::embedded::node::NODE_NAME;
use crate::embedded::node::logs::Logs;
use crate::embedded::node::streams::Streams;

/// Where an API server publishes the authority of its own clients.
const AUTHORITY: (&str, &str, &str) = (
    "kube-system",
    "extension-apiserver-authentication",
    "client-ca-file",
);

/// The authority that signed the API server's client certificate, as the API server publishes it (PEM).
///
/// # Errors
/// Why it is not known: without it nobody can be let in.
pub async fn authority(client: &Client) -> Result<String, String> {
    let (namespace, name, key) = AUTHORITY;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let place = format!("ConfigMap {name} in {namespace}");
    let map = api
        .get_opt(name)
        .await
        .map_err(|error| format!("cannot read {place}: {error}"))?
        .ok_or_else(|| format!("there is no {place}"))?;
    map.data
        .and_then(|mut data| data.remove(key))
        .filter(|text| text.contains("BEGIN CERTIFICATE"))
        .ok_or_else(|| format!("{place} has no {key} (kube-apiserver --client-ca-file)"))
}

/// What is served.
pub struct KubeletConfig {
    /// Where to listen; port 0 for any.
    pub address: SocketAddr,
    /// Certificates of the authority whose clients are let in (PEM).
    pub authority: String,
    /// As the node, for access reviews and for looking pods up.
    pub client: Client,
    pub logs: Logs,
    pub streams: Streams,
}

/// A served port; dropping it ends it.
pub struct Kubelet {
    port: u16,
    cancel: DropGuard,
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Listens with a certificate of the node's own.
    ///
    /// # Errors
    /// The address is taken, or the authority cannot be read.
    pub async fn start(
        config: KubeletConfig,
        identity: &ServingIdentity,
    ) -> Result<Self, ListenError> {
        let tls = identity.server_config_for(&config.authority)?;
        let listener = Listener::at(config.address, tls, Limits::default()).await?;
        let port = listener.port();
        let cancel = CancellationToken::new();
        let task = tokio::spawn(listener.serve(router(config), cancel.clone()));
        Ok(Self {
            port,
            cancel: cancel.drop_guard(),
            task,
        })
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends open streams and waits for it.
    pub async fn stop(self) {
        drop(self.cancel);
        // A listener that panicked has ended too.
        let _ = self.task.await;
    }
}

struct Shared {
    client: Client,
    logs: Logs,
    streams: Streams,
    sessions: Arc<Semaphore>,
}

fn router(config: KubeletConfig) -> Router {
    let shared = Arc::new(Shared {
        client: config.client,
        logs: config.logs,
        streams: config.streams,
        sessions: Arc::new(Semaphore::new(MAX_SESSIONS)),
    });
    Router::new()
        .route("/containerLogs/{namespace}/{pod}/{container}", get(log))
        .route("/exec/{namespace}/{pod}/{container}", any(exec))
        .route("/portForward/{namespace}/{pod}", any(forward))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), let_in))
        .with_state(shared)
}

type Words = Vec<(String, String)>;

/// A refusal in the words of a kubelet: plain text, which the API server puts into its own answer.
fn refusal(status: StatusCode, text: impl Into<String>) -> Response {
    (status, text.into()).into_response()
}

/// Lets in whom the authority knows and an access review grants the use of the node.
async fn let_in(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>();
    let user = peer.and_then(|peer| peer.0.as_ref()).and_then(user_of);
    let Some((user, groups)) = user else {
        return refusal(StatusCode::UNAUTHORIZED, "Unauthorized");
    };
    match may(&shared.client, &user, groups, request.method()).await {
        Ok(true) => next.run(request).await,
        Ok(false) => refusal(
            StatusCode::FORBIDDEN,
            format!("Forbidden (user={user}, resource=nodes, subresource=proxy)"),
        ),
        Err(error) => refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the access of {user} could not be reviewed: {error}"),
        ),
    }
}

/// Common name and organizations of a certificate: Kubernetes' user and groups.
fn user_of(certificate: &CertificateDer<'_>) -> Option<(String, Vec<String>)> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject
        .iter_organization()
        .filter_map(|one| one.as_str().ok().map(str::to_owned))
        .chain(["system:authenticated".to_owned()])
        .collect();
    (!user.is_empty()).then_some((user, groups))
}

async fn may(
    client: &Client,
    user: &str,
    groups: Vec<String>,
    method: &Method,
) -> Result<bool, kube::Error> {
    let verb = match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        _ => return Ok(false),
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            groups: Some(groups),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                resource: Some("nodes".to_owned()),
                subresource: Some("proxy".to_owned()),
                name: Some(NODE_NAME.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await?;
    Ok(answer
        .status
        .is_some_and(|status| status.allowed && status.denied != Some(true)))
}

/// The uid of a pod that runs here.
async fn uid(shared: &Shared, namespace: &str, pod: &str) -> Result<String, Response> {
    let api: Api<Pod> = Api::namespaced(shared.client.clone(), namespace);
    let found = api.get_opt(pod).await.map_err(|error| {
        let text = format!("cannot look pod {namespace}/{pod} up: {error}");
        refusal(StatusCode::INTERNAL_SERVER_ERROR, text)
    })?;
    found
        .filter(|found| {
            let spec = found.spec.as_ref();
            spec.and_then(|spec| spec.node_name.as_deref()) == Some(NODE_NAME)
        })
        .and_then(|found| found.metadata.uid)
        .ok_or_else(|| {
            let text = format!("pod {pod:?} does not exist in namespace {namespace:?}");
            refusal(StatusCode::NOT_FOUND, text)
        })
}

async fn log(
    State(shared): State<Arc<Shared>>,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    Query(words): Query<Words>,
) -> Response {
    let options = LogOptions::parse(&pod, &|key: &str| first(&words, key).map(str::to_owned));
    let read = async {
        let request = LogRequest {
            uid: uid(&shared, &namespace, &pod).await?,
            options: options.map_err(told)?,
            namespace,
            pod,
            container,
            current: None,
        };
        logs::read(request, &shared.logs).await.map_err(told)
    };
    read.await.unwrap_or_else(|refused| refused)
}

fn told(status: Box<kube::core::Status>) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    refusal(code, status.message.clone())
}

async fn exec(
    State(shared): State<Arc<Shared>>,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    Query(words): Query<Words>,
    request: Request,
) -> Response {
    let wanted = |key: &str| matches!(first(&words, key), Some("1" | "true"));
    let wanted = Wanted {
        stdin: wanted("input"),
        stdout: wanted("output"),
        stderr: wanted("error"),
        tty: wanted("tty"),
    };
    let command: Vec<String> = all(&words, "command").map(str::to_owned).collect();
    let uid = match uid(&shared, &namespace, &pod).await {
        Ok(uid) => uid,
        Err(refused) => return refused,
    };
    let asked = ExecRequest {
        pod: PodTarget {
            namespace,
            pod,
            uid,
        },
        container,
        command,
    };
    let taken = Taken::of(request);
    let streams = Arc::new(shared.streams.clone());
    streams::serve_exec(taken.upgrading(&shared), streams, asked, wanted)
        .unwrap_or_else(|failure| failure.into_response())
}

async fn forward(
    State(shared): State<Arc<Shared>>,
    Path((namespace, pod)): Path<(String, String)>,
    Query(words): Query<Words>,
    request: Request,
) -> Response {
    let ports = match streams::ports(all(&words, "port")) {
        Ok(ports) => ports,
        Err(failure) => return failure.into_response(),
    };
    let uid = match uid(&shared, &namespace, &pod).await {
        Ok(uid) => uid,
        Err(refused) => return refused,
    };
    let target = PodTarget {
        namespace,
        pod,
        uid,
    };
    let taken = Taken::of(request);
    let streams = Arc::new(shared.streams.clone());
    streams::serve_forward(taken.upgrading(&shared), streams, target, ports)
        .unwrap_or_else(|failure| failure.into_response())
}

/// What of a request a stream needs.
struct Taken {
    headers: HeaderMap,
    upgrade: Option<OnUpgrade>,
    stop: CancellationToken,
}

impl Taken {
    fn of(request: Request) -> Self {
        let (mut parts, _) = request.into_parts();
        Self {
            upgrade: parts.extensions.remove::<OnUpgrade>(),
            stop: parts
                .extensions
                .remove::<Stop>()
                .map_or_else(CancellationToken::new, |Stop(stop)| stop),
            headers: parts.headers,
        }
    }

    fn upgrading<'a>(&'a self, shared: &'a Shared) -> Upgrading<'a> {
        Upgrading {
            headers: &self.headers,
            upgrade: self.upgrade.clone(),
            stop: self.stop.clone(),
            sessions: &shared.sessions,
        }
    }
}

fn all<'a>(words: &'a Words, key: &'a str) -> impl Iterator<Item = &'a str> {
    words
        .iter()
        .filter(move |(name, _)| name == key)
        .map(|(_, value)| value.as_str())
}

fn first<'a>(words: &'a Words, key: &'a str) -> Option<&'a str> {
    all(words, key).next()
}
