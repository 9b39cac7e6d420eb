//! The API server: every request is authenticated, authorized and carried out here, whatever brought it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, Method};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::accept::{self, Asked};
use super::attributes::{Attributes, ResourceAttributes, User};
use super::authn::{self, Authenticator};
use super::body::{self, MAX_BODY};
use super::budget::Budget;
use super::definitions;
use super::discovery;
use super::handlers::{self, Call, create};
use super::history::Limits;
use super::logs::PodLogs;
use super::rbac::{self, Policy};
use super::registry::{self, Kind};
use super::request::RequestInfo;
use super::roles;
use super::selectors::Selector;
use super::status::Failure;
use super::store::{DatabaseError, Interest, OpenError, Place, Store, Stored};
use super::streams::{self, PodStreams, Stop};

/// So much of a body that nobody wants is read (bytes), and for so long.
const MAX_UNREAD: usize = 256 << 10;
const UNREAD_TIME: Duration = Duration::from_secs(1);
/// How long the body of a request may take to come, as kube-apiserver's `--request-timeout`.
const BODY_TIME: Duration = Duration::from_secs(60);
/// Larger bodies (bytes) are counted: so much memory they may take together, and so long one of them may come before it
/// gives way to others.
const SMALL_BODY: usize = 64 << 10;
const BODIES: usize = 192 << 20;
const BODY_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of the key that signs tokens.
const KEY_LENGTH: usize = 32;

/// What may be chosen about an API server.
#[derive(Clone, Default)]
pub struct Options {
    /// How much a watch may catch up.
    pub history: Limits,
    /// Where container logs are read; may also be given later by [`ApiServer::set_pod_logs`].
    pub pod_logs: Option<Arc<dyn PodLogs>>,
}

/// The API server over one `cluster.db`.
pub struct ApiServer {
    store: Arc<Store>,
    authenticator: Authenticator,
    /// The rules in force, with the resourceVersion of the last change that they contain.
    policy: Mutex<Option<(u64, Arc<Policy>)>>,
    pod_logs: Mutex<Option<Arc<dyn PodLogs>>>,
    pod_streams: Mutex<Option<Arc<dyn PodStreams>>>,
    /// Places for exec and port-forward sessions.
    sessions: Arc<Semaphore>,
    /// Memory for large bodies that are read.
    bodies: Budget,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiServer")
    }
}

impl ApiServer {
    /// Opens the cluster database, or makes it; a new one gets the namespaces, accounts and roles of a new cluster.
    ///
    /// # Errors
    /// See [`OpenError`]: a file that is damaged, foreign, locked or read-only is refused by its path and never changed.
    pub fn open(path: &Path, options: Options) -> Result<Arc<Self>, OpenError> {
        let store = Store::open(path, options.history)?;
        let key = store.secret("token-signing-key", || random(KEY_LENGTH))?;
        let server = ApiServer {
            store: Arc::new(store),
            authenticator: Authenticator::new(&key),
            policy: Mutex::new(None),
            pod_logs: Mutex::new(options.pod_logs),
            pod_streams: Mutex::default(),
            sessions: Arc::new(Semaphore::new(streams::MAX_SESSIONS)),
            bodies: Budget::new(BODIES, BODY_PATIENCE),
        };
        let server = Arc::new(server);
        if server.store.counter() == 0 {
            server.seed();
        }
        Ok(server)
    }

    fn seed(self: &Arc<Self>) {
        for value in roles::defaults().into_iter().chain(definitions::all()) {
            let text = |key: &str| {
                value
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or("")
                    .to_owned()
            };
            let group = text("apiVersion");
            let group = group
                .split_once('/')
                .map_or("", |(group, _)| group)
                .to_owned();
            let Some(kind) = registry::by_kind(&group, &text("kind")) else {
                continue;
            };
            if let Err(failure) = self.make(kind, value) {
                tracing::error!(
                    kind = kind.kind,
                    code = failure.code(),
                    "cannot seed the cluster"
                );
            }
        }
    }

    /// Creates an object on the server's own behalf.
    fn make(self: &Arc<Self>, kind: &'static Kind, value: Value) -> Result<(), Failure> {
        let typed = body::normalize(kind, value).map_err(Failure::internal)?;
        let prepared = create::prepare(kind, typed.value);
        if let create::Created::Stored(stored) =
            create::insert(&self.store, kind, prepared, false, |_| Ok(()))?
        {
            self.after_create(kind, &stored);
        }
        Ok(())
    }

    pub(super) fn after_create(self: &Arc<Self>, kind: &Kind, stored: &Stored) {
        if kind.namespaced && !self.is_open(&stored.namespace) {
            // It ended while this was written: nothing may be left in it.
            self.empty_namespace(&stored.namespace);
        }
        if kind.group.is_empty()
            && kind.plural == "namespaces"
            && let Err(failure) = self.make_default_account(&stored.name)
        {
            tracing::warn!(
                namespace = &*stored.name,
                code = failure.code(),
                "cannot make the default service account"
            );
        }
    }

    /// True for a namespace that is there and not about to go.
    fn is_open(&self, namespace: &str) -> bool {
        let place = Place {
            bucket: "namespaces",
            namespace: "",
            name: namespace,
        };
        let found = self.store.get(place);
        found.is_some_and(|found| !found.head.deleting)
    }

    pub(super) fn make_default_account(self: &Arc<Self>, namespace: &str) -> Result<(), Failure> {
        let Some(kind) = registry::by_kind("", "ServiceAccount") else {
            return Ok(());
        };
        let account = serde_json::json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace},
        });
        self.make(kind, account)
    }

    pub(super) fn empty_namespace(self: &Arc<Self>, namespace: &str) {
        handlers::empty_namespace(self, namespace);
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn shared_store(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }

    /// Tells the API where container logs are read.
    pub fn set_pod_logs(&self, logs: Arc<dyn PodLogs>) {
        *self.pod_logs.lock().unwrap_or_else(PoisonError::into_inner) = Some(logs);
    }

    pub(super) fn pod_logs(&self) -> Option<Arc<dyn PodLogs>> {
        self.pod_logs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Tells the API who runs commands in pods and reaches their ports.
    pub fn set_pod_streams(&self, streams: Arc<dyn PodStreams>) {
        *self
            .pod_streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(streams);
    }

    pub(super) fn pod_streams(&self) -> Option<Arc<dyn PodStreams>> {
        self.pod_streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn sessions(&self) -> &Arc<Semaphore> {
        &self.sessions
    }

    /// Issues and checks the tokens of this cluster.
    #[must_use]
    pub fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// The rules in force.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        let version = self.store.rbac_version();
        let mut cached = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, policy)) = &*cached
            && *known == version
        {
            return Arc::clone(policy);
        }
        let policy = Arc::new(self.read_policy());
        *cached = Some((version, Arc::clone(&policy)));
        policy
    }

    fn read_policy(&self) -> Policy {
        let kinds = registry::kinds()
            .iter()
            .filter(|kind| kind.group == rbac::GROUP);
        let listings = kinds.map(|kind| {
            self.store.list(
                &Interest::new(kind.bucket(), None, Selector::default()),
                None,
                0,
            )
        });
        let objects: Vec<Value> = listings
            .flat_map(|listing| listing.items)
            .filter_map(|stored| stored.value().ok())
            .collect();
        Policy::new(&objects)
    }

    /// The present uid of an object.
    #[must_use]
    pub fn uid(&self, bucket: &str, namespace: &str, name: &str) -> Option<String> {
        let place = Place {
            bucket,
            namespace,
            name,
        };
        self.store
            .get(place)
            .map(|stored| stored.head.uid.to_string())
    }

    /// Whether a user may do something.
    ///
    /// # Errors
    /// 403 with the text of kube-apiserver.
    pub fn authorize(&self, user: &User, attributes: &Attributes) -> Result<(), Failure> {
        let verdict = self.policy().authorize(user, attributes);
        if verdict.allowed {
            return Ok(());
        }
        Err(Box::new(rbac::forbidden(user, attributes, &verdict)).into())
    }

    /// As [`ApiServer::authorize`]; whoever may `create` exec or port-forward may also ask for it by GET, as WebSockets
    /// do, and a refusal speaks of `create`.
    fn authorize_request(&self, user: &User, attributes: &Attributes) -> Result<(), Failure> {
        if let Attributes::Resource(asked) = attributes
            && (
                asked.group.as_str(),
                asked.resource.as_str(),
                asked.verb.as_str(),
            ) == ("", "pods", "get")
            && matches!(
                asked.subresource.as_str(),
                "exec" | "attach" | "portforward"
            )
        {
            let mut create = asked.clone();
            "create".clone_into(&mut create.verb);
            return self
                .authorize(user, attributes)
                .or_else(|_| self.authorize(user, &Attributes::Resource(create)));
        }
        self.authorize(user, attributes)
    }

    /// Refuses roles and bindings that would give more than their author has.
    pub(super) fn check_write(
        &self,
        user: &User,
        attributes: &ResourceAttributes,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Failure> {
        if attributes.group != rbac::GROUP {
            return Ok(());
        }
        rbac::escalation(&self.policy(), user, attributes, object, old).map_err(Failure::from)
    }

    /// Writes a consistent copy of `cluster.db` to `path`, which must not exist.
    ///
    /// # Errors
    /// The copy could not be written.
    pub fn snapshot(&self, path: &Path) -> Result<(), DatabaseError> {
        self.store.snapshot(path)
    }

    /// Writes into `cluster.db` in which life of the cluster it is used, and which was the one before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn sign(&self, now: &str, before: &str) -> Result<(), DatabaseError> {
        self.store.sign(now, before)
    }

    /// Puts back the objects of a snapshot. resourceVersions go on from where they are, and every open watch is told
    /// to list anew (410).
    ///
    /// # Errors
    /// The snapshot cannot be read or the database not be written; nothing is changed then.
    pub fn restore(&self, path: &Path) -> Result<(), OpenError> {
        self.store.restore(path)
    }

    /// Stops: ends all watches and lets go of `cluster.db`, so that it can be opened again in this process. Clients
    /// that are still about can read, but no longer write.
    pub fn close(&self) {
        self.store.close();
    }

    /// The whole API as one service.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new().fallback(serve).with_state(Arc::clone(self))
    }

    /// Reads the body of a request. Large ones have only so much memory together, however slowly they come.
    async fn read(&self, body: Body) -> Result<Bytes, Failure> {
        let size = body.size_hint().upper().map(usize::try_from);
        let size = size.and_then(Result::ok).unwrap_or(MAX_BODY).min(MAX_BODY);
        let end = CancellationToken::new();
        let _room = if size > SMALL_BODY {
            let room = self.bodies.take(size, &end);
            Some(room.ok_or_else(|| {
                Failure::busy("too many large requests are being read; try again")
            })?)
        } else {
            None
        };
        let reading = tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, MAX_BODY));
        let bytes = tokio::select! {
            () = end.cancelled() => return Err(Failure::timeout()),
            bytes = reading => bytes,
        };
        bytes.map_err(|_| Failure::timeout())?.map_err(|_| {
            Failure::too_large(format!("Request entity too large: limit is {MAX_BODY}"))
        })
    }

    fn caller(&self, headers: &HeaderMap) -> Result<User, Failure> {
        let uid = |bucket: &str, namespace: &str, name: &str| self.uid(bucket, namespace, name);
        let user = self
            .authenticator
            .authenticate(headers, &uid)
            .map_err(|_| Failure::unauthorized())?;
        Ok(authn::impersonate(user, headers, &self.policy())?)
    }
}

/// True for a Namespace by its name, which is in itself: whoever has rights in it has them to it, but to no other.
fn is_own_namespace(attributes: &ResourceAttributes) -> bool {
    attributes.resource == "namespaces"
        && attributes.name == attributes.namespace
        && !matches!(attributes.verb.as_str(), "list" | "watch")
}

fn random(length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        bytes.extend_from_slice(uuid::Uuid::new_v4().as_bytes());
    }
    bytes
}

async fn serve(State(api): State<Arc<ApiServer>>, request: Request) -> Response {
    let (head, read) = (
        *request.method() == Method::HEAD,
        request.method().is_safe(),
    );
    let yaml = accept::wants_yaml(request.headers());
    let (parts, body) = request.into_parts();
    let mut body = Some(body);
    let answer = answer(api, parts, &mut body).await;
    if let Some(unread) = body {
        drain(unread).await;
    }
    let response = match answer {
        Ok(response) if head => response.map(|_| Body::empty()),
        Ok(response) => response,
        Err(failure) => failure.into_response(),
    };
    if yaml {
        return accept::into_yaml(response, read).await;
    }
    response
}

/// Reads what a client still sends to a request that is answered already: a connection that is closed under its hands
/// would show it a broken pipe instead of the refusal. Bounded, as in Go's server.
async fn drain(unread: Body) {
    let reading = axum::body::to_bytes(unread, MAX_UNREAD);
    // More, or slower, than that loses the connection.
    let _ = tokio::time::timeout(UNREAD_TIME, reading).await;
}

/// Takes `body` if it comes to reading it.
async fn answer(
    api: Arc<ApiServer>,
    mut parts: Parts,
    body: &mut Option<Body>,
) -> handlers::Answer {
    let info = RequestInfo::new(&parts.method, &parts.uri);
    info.check_time_limit()?;
    let user = api.caller(&parts.headers)?;
    api.authorize_request(&user, &info.attributes)?;
    let attributes = match info.attributes {
        Attributes::Resource(attributes) => attributes,
        Attributes::NonResource { .. } => {
            if matches!(
                info.path.split('/').nth(1),
                Some("api" | "apis" | "version")
            ) {
                accept::check(&parts.headers, Asked::Discovery)?;
            }
            return discovery::answer(&parts.method, &info.path, &parts.headers);
        }
    };
    let kind = registry::find(&attributes.group, &attributes.version, &attributes.resource)
        .ok_or_else(|| discovery::unknown(&info.path))?;
    if !kind.namespaced && !attributes.namespace.is_empty() && !is_own_namespace(&attributes) {
        return Err(Failure::unknown_url(kind.custom));
    }
    // A log is text, and a stream of another protocol is nothing that this header speaks of.
    if !matches!(
        attributes.subresource.as_str(),
        "log" | "exec" | "attach" | "portforward"
    ) {
        let watch = attributes.verb == "watch";
        let asked = if watch { Asked::Watch } else { Asked::Objects };
        accept::check(&parts.headers, asked)?;
    }
    let body = api.read(body.take().unwrap_or_default()).await?;
    let call = Call {
        api,
        user,
        kind,
        attributes,
        query: info.query,
        headers: parts.headers,
        body,
        warnings: Mutex::default(),
        upgrade: Mutex::new(parts.extensions.remove()),
        stop: parts
            .extensions
            .remove()
            .map_or_else(CancellationToken::new, |Stop(stop)| stop),
    };
    handlers::handle(call).await
}
