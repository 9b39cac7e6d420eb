//! The embedded cluster as a whole: start, addresses, snapshots, stop.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::api::kubeconfig::{Kubeconfig, KubeconfigError, Persona};
use super::api::listener::{Limits, ListenError, Listener};
use super::api::tls::{ServingIdentity, TlsError, init_tls};
use super::api::{ApiServer, OpenError, Options};
use super::bus::engine::{BusOpenError, EmbeddedBus};
use super::bus::host::{BusHost, LocalConnector};
use super::bus::{Bus, BusConnector};
use super::controllers::{self, ControllerClients, ControllerHandle, Identity};
use super::node::addresses::AddressBook;
use super::node::images::Services;
use super::node::lost_databases;
use super::node::streams::Streams;
use super::node::{BackOff, NODE_NAME, Node, NodeConfig, NodeError, NodeHandle, PATIENCE};
use super::stores::{self, MESSAGES, OBJECTS, PKI};
use super::{services, snapshot};
use crate::kinds::{ARGO_EVENTS_IMAGE, ARGO_EXEC_IMAGE, NAMESPACE, NATS_IMAGE};

/// How long containers may take to end when the cluster stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// What a cluster needs to start.
#[derive(Clone, Debug)]
pub struct EmbeddedConfig {
    /// The session's folder; everything of the cluster lies below it.
    pub state_dir: PathBuf,
    /// The program that workload pods run.
    pub program: PathBuf,
    /// Port of the API; without one the port of the last start, or a free one.
    pub api_port: Option<u16>,
    /// What tells this session from others on a bus that they share; `None` where the bus is the cluster's own.
    pub bus_tag: Option<String>,
}

/// Why the cluster did not start. Each names the file or port, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot make {path}: {source}; choose another folder with --state-dir")]
    Folder {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    Bus(#[from] BusOpenError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Node(#[from] NodeError),
}

/// A running embedded cluster. Dropping it ends it as a kill would; [`EmbeddedCluster::stop`] ends it in order.
pub struct EmbeddedCluster {
    config: EmbeddedConfig,
    api: Arc<ApiServer>,
    bus: Arc<BusHost>,
    node_config: NodeConfig,
    /// `None` only while it is between two lives, or for good after a stop.
    node: Mutex<Option<NodeHandle>>,
    controllers: Mutex<Option<Controllers>>,
    listener: Mutex<Option<JoinHandle<()>>>,
    cancel: CancellationToken,
    url: String,
    lost: Vec<String>,
}

/// API, bus, and what of their stores was lost.
type Stores = (Arc<ApiServer>, Arc<EmbeddedBus>, Vec<String>);

/// Opens both stores, or makes them; and what of them was lost, which is noted before it cannot be seen any more.
fn open_stores(state_dir: &Path) -> Result<Stores, StartError> {
    let mut lost = stores::gone_stores(state_dir);
    if !lost.is_empty() {
        stores::note_losses(state_dir, &lost)?;
    }
    let replaced = stores::replaced_stores(state_dir);
    let api = ApiServer::open(&state_dir.join(OBJECTS), Options::default())?;
    let bus = EmbeddedBus::open(&state_dir.join(MESSAGES))?;
    if !replaced.is_empty() {
        // Not before: a file that cannot be opened at all is moved away, and the right one put back.
        stores::add(&mut lost, replaced);
        stores::note_losses(state_dir, &lost)?;
    }
    stores::begin_life(state_dir, &api, &bus)?;
    Ok((api, bus, lost))
}

/// Adds what workloads kept in volumes and lost.
async fn note_lost_databases(
    state_dir: &Path,
    api: &Arc<ApiServer>,
    lost: &mut Vec<String>,
) -> Result<(), StartError> {
    let client = api.client(&admin_token(api));
    let found = match lost_databases::lost(state_dir, client).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "cannot look for databases that were lost");
            return Ok(());
        }
    };
    let known = lost.len();
    stores::add(lost, found);
    if lost.len() > known {
        stores::note_losses(state_dir, lost)?;
    }
    record_databases(state_dir);
    Ok(())
}

fn record_databases(state_dir: &Path) {
    if let Err(error) = lost_databases::record(state_dir) {
        tracing::warn!(%error, "a loss of what workloads keep would not be noticed");
    }
}

/// The controllers, and what ends them alone.
struct Controllers {
    handle: ControllerHandle,
    end: CancellationToken,
}

impl Controllers {
    /// Starts them, until they are stopped or `cancel`.
    fn start(api: &Arc<ApiServer>, cancel: &CancellationToken) -> Self {
        let clients =
            ControllerClients::for_each(|identity| api.client(&controller_token(api, identity)));
        let end = cancel.child_token();
        Self {
            handle: controllers::start(clients, end.clone()),
            end,
        }
    }

    async fn stop(self) {
        self.end.cancel();
        self.handle.stopped().await;
    }
}

/// With less room than this, in bytes, databases cannot write their next page.
const ROOM: u64 = 16 * 1024;

impl EmbeddedCluster {
    /// Starts everything. To be called inside a tokio runtime, from a spawned task.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running then.
    pub async fn start(config: EmbeddedConfig) -> Result<Self, StartError> {
        init_tls();
        snapshot::private_folder(&config.state_dir).map_err(|source| StartError::Folder {
            path: config.state_dir.clone(),
            source,
        })?;
        let (api, bus, mut lost) = open_stores(&config.state_dir)?;
        note_lost_databases(&config.state_dir, &api, &mut lost).await?;
        let bus = BusHost::new(bus);
        let cancel = CancellationToken::new();
        let pki = config.state_dir.join(PKI);
        let identity = ServingIdentity::load_or_create(&pki)?;
        let listener = Listener::bind(
            config.api_port,
            &config.state_dir,
            &identity,
            Limits::default(),
        )
        .await?;
        let (url, port) = (listener.url(), listener.port());
        write_kubeconfig(
            &api,
            &url,
            identity.ca_pem(),
            &kubeconfig_path(&config.state_dir),
        )?;
        let listener = tokio::spawn(listener.serve(api.router(), cancel.clone()));
        let controllers = Controllers::start(&api, &cancel);
        let node_config = node_config(&config, &api, &bus, port, identity.ca_pem());
        api.set_pod_logs(Arc::new(node_config.logs.clone()));
        api.set_pod_streams(Arc::new(node_config.streams.clone()));
        let node = Node::start(node_config.clone()).await?;
        Ok(Self {
            config,
            api,
            bus,
            node_config,
            node: Mutex::new(Some(node)),
            controllers: Mutex::new(Some(controllers)),
            listener: Mutex::new(Some(listener)),
            cancel,
            url,
            lost,
        })
    }

    /// A client as `admin`, with the lab's namespace as default.
    #[must_use]
    pub fn client(&self) -> Client {
        self.api.client_in(&admin_token(&self.api), NAMESPACE)
    }

    /// The API server.
    #[must_use]
    pub fn api(&self) -> &Arc<ApiServer> {
        &self.api
    }

    /// The API's URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where the kubeconfig lies.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig_path(&self.config.state_dir)
    }

    /// The real addresses behind Services and pods.
    #[must_use]
    pub fn addresses(&self) -> &AddressBook {
        &self.node_config.addresses
    }

    /// The real address of a Service's port, while it can be reached.
    #[must_use]
    pub fn service_address(&self, namespace: &str, service: &str, port: u16) -> Option<SocketAddr> {
        self.addresses().service_address(namespace, service, port)
    }

    /// The bus, for looking at it.
    #[must_use]
    pub fn bus(&self) -> Arc<dyn Bus> {
        self.bus.bus()
    }

    /// What tells this session from others on a bus that they share.
    #[must_use]
    pub fn bus_tag(&self) -> Option<&str> {
        self.config.bus_tag.as_deref()
    }

    /// What an earlier life had stored and this one did not find, in sentences.
    #[must_use]
    pub fn lost(&self) -> &[String] {
        &self.lost
    }

    /// The session has taken note of what was lost: the next start does not tell it again.
    ///
    /// # Errors
    /// The note cannot be removed; then it is told again, which costs proofs and never makes one.
    pub fn loss_is_noted(&self) -> std::io::Result<()> {
        stores::forget_losses(&self.config.state_dir)
    }

    /// Why nothing of this cluster can be written any more: the disk under its folder is full.
    #[must_use]
    pub fn full_disk(&self) -> Option<String> {
        let folder = &self.config.state_dir;
        let left = rustix::fs::statvfs(folder).ok()?;
        let bytes = left.f_bavail.saturating_mul(left.f_frsize);
        (bytes < ROOM).then(|| {
            format!(
                "no space is left under {} ({bytes} bytes): free some, or take another directory with --state-dir DIR",
                folder.display()
            )
        })
    }

    /// Kills a container as `kill -9` would; answers whether it ran.
    pub async fn kill(&self, pod: &str, container: &str) -> bool {
        match self.node.lock().await.as_ref() {
            Some(node) => node.kill(NAMESPACE, pod, container).await,
            None => false,
        }
    }

    /// Whether there is a copy of this name.
    #[must_use]
    pub fn has_snapshot(&self, name: &str) -> bool {
        snapshot::find(&self.config.state_dir, name).is_ok()
    }

    /// Keeps a copy of cluster, bus and volumes under a name, in place of an older one of that name.
    ///
    /// # Errors
    /// What could not be copied; an older copy is gone then.
    pub fn snapshot(&self, name: &str) -> Result<(), snapshot::SnapshotError> {
        record_databases(&self.config.state_dir);
        snapshot::make(&self.config.state_dir, name, &self.api, &self.bus.bus())
    }

    /// Removes the copy of a name, if there is one.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    pub fn forget_snapshot(&self, name: &str) -> Result<(), snapshot::SnapshotError> {
        snapshot::forget(&self.config.state_dir, name)
    }

    /// Puts a copy back: controllers and containers are ended, objects, bus and volumes restored, and both started again.
    ///
    /// # Errors
    /// There is no such copy, or it cannot be read; pods run again in any case.
    pub async fn rewind(&self, name: &str) -> Result<(), snapshot::SnapshotError> {
        let folder = snapshot::find(&self.config.state_dir, name)?;
        let mut node = self.node.lock().await;
        let mut controllers = self.controllers.lock().await;
        let had_controllers = controllers.is_some();
        // What they know is of a cluster that is no more: acting on it, one makes again what was put back.
        if let Some(running) = controllers.take() {
            running.stop().await;
        }
        if let Some(running) = node.take() {
            running.stop(STOP_GRACE).await;
        }
        let state_dir = &self.config.state_dir;
        if let Err(error) = lost_databases::forget(state_dir) {
            tracing::warn!(%error, "what the rewind takes away would count as lost");
        }
        let restored = snapshot::restore(state_dir, &folder, &self.api, &self.bus);
        record_databases(state_dir);
        *controllers = had_controllers.then(|| Controllers::start(&self.api, &self.cancel));
        let started = Node::start(self.node_config.clone()).await;
        *node = Some(started.map_err(|error| snapshot::SnapshotError::Node(error.to_string()))?);
        restored
    }

    /// Ends containers in order, then everything else. A second call finds nothing to do.
    pub async fn stop(&self) {
        if let Some(node) = self.node.lock().await.take() {
            node.stop(STOP_GRACE).await;
            record_databases(&self.config.state_dir);
        }
        self.cancel.cancel();
        if let Some(controllers) = self.controllers.lock().await.take() {
            controllers.stop().await;
        }
        if let Some(listener) = self.listener.lock().await.take() {
            // A listener that panicked has ended too.
            let _ = listener.await;
        }
    }
}

impl Drop for EmbeddedCluster {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Where the kubeconfig of a session lies.
#[must_use]
pub fn kubeconfig_path(state_dir: &Path) -> PathBuf {
    state_dir.join("kubeconfig")
}

/// The real ports of Services that a session remembers, by `NAMESPACE/SERVICE:PORT`; null when there are none.
#[must_use]
pub fn known_addresses(state_dir: &Path) -> serde_json::Value {
    let text = std::fs::read(state_dir.join("node").join("addresses.json"));
    text.ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

fn admin_token(api: &ApiServer) -> String {
    api.user_token("admin", &["system:masters"])
}

/// A token for a controller's user name.
fn controller_token(api: &ApiServer, identity: Identity) -> String {
    let user = identity.user();
    match user
        .strip_prefix("system:serviceaccount:")
        .and_then(|rest| rest.split_once(':'))
    {
        Some((namespace, name)) => api.service_account_token(namespace, name),
        None => api.user_token(user, &[]),
    }
}

fn write_kubeconfig(
    api: &ApiServer,
    url: &str,
    ca_pem: &str,
    path: &Path,
) -> Result<(), KubeconfigError> {
    let persona = |name: &str, token: String| Persona {
        name: name.to_owned(),
        token,
    };
    let personas = [
        persona("learner", api.user_token("learner", &[])),
        persona(
            "order-sensor",
            api.service_account_token(NAMESPACE, "order-sensor"),
        ),
        persona(
            "order-runner",
            api.service_account_token(NAMESPACE, "order-runner"),
        ),
        persona("admin", admin_token(api)),
    ];
    Kubeconfig {
        server: url,
        ca_pem,
        namespace: NAMESPACE,
        personas: &personas,
        current: "learner",
    }
    .write(path)
}

/// What Argo's and NATS' images run here, by image and first argument.
pub(super) fn known_services() -> Services {
    let words = [
        (ARGO_EVENTS_IMAGE, "eventsource-service"),
        (ARGO_EVENTS_IMAGE, "sensor-service"),
        (ARGO_EXEC_IMAGE, "init"),
        (ARGO_EXEC_IMAGE, "wait"),
        (NATS_IMAGE, ""),
    ];
    let found = words.into_iter().filter_map(|(image, word)| {
        let service = services::find(image, word, &[word.to_owned()])?;
        Some(((image.to_owned(), word.to_owned()), service))
    });
    found.collect()
}

fn node_config(
    config: &EmbeddedConfig,
    api: &Arc<ApiServer>,
    bus: &Arc<BusHost>,
    port: u16,
    ca: &str,
) -> NodeConfig {
    let connecting = Arc::clone(api);
    let addresses = NodeConfig::addresses_in(&config.state_dir);
    let token = api.user_token(&format!("system:node:{NODE_NAME}"), &["system:nodes"]);
    NodeConfig {
        state_dir: config.state_dir.clone(),
        program: config.program.clone(),
        client: api.client(&token),
        connect: Arc::new(move |token| connecting.client(token)),
        services: known_services(),
        bus: BusConnector(Arc::new(LocalConnector(Arc::clone(bus)))),
        logs: NodeConfig::logs_in(&config.state_dir),
        streams: Streams::new(addresses.clone()),
        addresses,
        api_address: Some(SocketAddr::from(([127, 0, 0, 1], port))),
        ca: ca.to_owned(),
        back_off: BackOff::default(),
        patience: PATIENCE,
    }
}
