//! Runs pods; owns host paths, sockets and child processes.
//!
//! From above: [`Node::start`] with a [`NodeConfig`], then the [`NodeHandle`]. The node is a client of the API like any
//! other, as `system:node:eventlab`.
//!
//! Not as on a real node: nothing is pulled, mounts are not read-only, containers of a pod share no network, liveness and
//! startup probes are not carried out, and back-off times are a twentieth.

pub mod addresses;
pub mod child;
pub mod child_service;
pub mod children;
mod environment;
mod events;
mod exec;
mod expand;
mod fields;
mod files;
pub mod images;
mod lines;
pub mod logs;
pub mod lost_databases;
mod mounts;
mod pid;
mod pod_status;
mod probe;
pub mod process;
mod proxy;
mod refuse;
pub mod register;
mod returning;
mod service;
mod slot;
mod sources;
mod starter;
mod status_writer;
pub mod streams;
pub mod sweep;
mod tokens;
mod volumes;
mod watch;
mod worker;

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::addresses::AddressBook;
use self::events::Recorder;
use self::images::Services;
use self::logs::Logs;
use self::returning::Returning;
use self::streams::Streams;
use self::sweep::{ChildRecord, Records};
use super::bus::BusConnector;

pub use self::refuse::VOLUME_KINDS;
pub use self::returning::PATIENCE;
pub use self::slot::BackOff;
pub use self::volumes::SERVICE_ACCOUNT_PATH;

/// The one node.
pub const NODE_NAME: &str = "eventlab";
/// Address of the node, for show.
pub const HOST_IP: &str = "10.0.0.1";

/// Makes an in-process client for a bearer token.
pub type Connect = Arc<dyn Fn(&str) -> Client + Send + Sync>;

/// What a node needs.
#[derive(Clone)]
pub struct NodeConfig {
    /// Below it the node keeps `pods/`, `volumes/` and `node/`.
    pub state_dir: PathBuf,
    /// The program that workload pods run: this one, `/proc/self/exe` where that exists. Under tests it must be the built
    /// binary, never the current executable.
    pub program: PathBuf,
    /// A client as `system:node:eventlab`.
    pub client: Client,
    /// Makes clients for the tokens of pods.
    pub connect: Connect,
    /// What runs in process.
    pub services: Services,
    pub bus: BusConnector,
    /// Where the API server reads logs, too.
    pub logs: Logs,
    pub addresses: AddressBook,
    /// How the API server reaches into pods.
    pub streams: Streams,
    /// The API server's TLS listener, for child processes; without one they cannot reach the API.
    pub api_address: Option<SocketAddr>,
    /// The CA certificate of that listener, PEM.
    pub ca: String,
    pub back_off: BackOff,
    /// How long pods that run once wait for those that served before the node started, see [`PATIENCE`].
    pub patience: Duration,
}

impl NodeConfig {
    /// Logs of a node that keeps its state in `state_dir`.
    #[must_use]
    pub fn logs_in(state_dir: &std::path::Path) -> Logs {
        Logs::new(state_dir.join("logs").join("pods"))
    }

    /// An address book that remembers real ports in `state_dir`.
    #[must_use]
    pub fn addresses_in(state_dir: &std::path::Path) -> AddressBook {
        AddressBook::new(Some(state_dir.join("node").join("addresses.json")))
    }
}

/// The program that workload pods run: this one, also after its file was replaced.
///
/// # Errors
/// The system does not tell this program's file.
pub fn own_program() -> std::io::Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() {
        return Ok(own);
    }
    std::env::current_exe()
}

/// Why the node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(
        "cannot make the node's folder {}: {source}; move what is in its way, free some space, or choose another --state-dir",
        path.display()
    )]
    Folder {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "cannot end the child processes of an earlier run: {0}; `eventlab cluster stop` ends what still runs"
    )]
    Sweep(std::io::Error),
    #[error("cannot register node {NODE_NAME}: {0}")]
    Register(Box<kube::Error>),
}

/// What all pods of a node share.
pub(crate) struct Shared {
    client: Client,
    connect: Connect,
    services: Services,
    bus: BusConnector,
    logs: Logs,
    addresses: AddressBook,
    recorder: Recorder,
    returning: Returning,
    records: Records,
    program: PathBuf,
    pods: PathBuf,
    claims: PathBuf,
    api_address: Option<SocketAddr>,
    ca: String,
    back_off: BackOff,
    /// Names this life of the node in container ids.
    life: String,
}

impl Shared {
    /// Variables by which children reach the API.
    fn api_variables(&self) -> BTreeMap<String, String> {
        let Some(address) = self.api_address else {
            return BTreeMap::new();
        };
        let variable = |name: &str, value: String| (format!("KUBERNETES_SERVICE_{name}"), value);
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        BTreeMap::from([
            variable("HOST", host),
            variable("PORT", port.clone()),
            variable("PORT_HTTPS", port),
        ])
    }

    /// Removes what earlier lives left of pods that are gone; `present` holds the uids of those that are there.
    fn remove_strays(&self, present: &HashSet<String>) {
        self.logs.remove_strays(present);
        for entry in std::fs::read_dir(&self.pods)
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry
                .file_name()
                .to_str()
                .is_none_or(|uid| !present.contains(uid))
            {
                // What cannot be removed now is only garbage.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Removes everything of a pod that is gone.
    fn remove_files(&self, pod: &Pod) {
        let metadata = &pod.metadata;
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let uid = text(&metadata.uid);
        self.logs
            .remove(&text(&metadata.namespace), &text(&metadata.name), &uid);
        // What cannot be removed now is removed at the next start.
        let _ = std::fs::remove_dir_all(worker::pod_folder(&self.pods, &uid));
    }
}

/// Descriptors that a busy node needs: each container holds half a dozen.
const DESCRIPTORS: u64 = 16 * 1024;

/// Raises the soft limit of open files, as far as the hard one lets us; the shell's default is enough for few pods.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limits = getrlimit(Resource::Nofile);
    let wanted = limits
        .maximum
        .map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    if limits.current.is_some_and(|current| current < wanted) {
        // A refusal leaves things as they were.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(wanted),
                maximum: limits.maximum,
            },
        );
    }
}

/// The node.
#[derive(Debug)]
pub struct Node;

impl Node {
    /// Ends what an earlier life left running, registers the node and begins to run its pods.
    ///
    /// # Errors
    /// A folder cannot be made, or the API refuses the node.
    pub async fn start(config: NodeConfig) -> Result<NodeHandle, NodeError> {
        raise_descriptor_limit();
        let folder = |name: &str| config.state_dir.join(name);
        for path in [folder("pods"), folder("volumes"), folder("node")] {
            files::make_private_folder(&path)
                .map_err(|source| NodeError::Folder { path, source })?;
        }
        let records = Records::open(folder("node").join("children")).map_err(NodeError::Sweep)?;
        let swept = records.sweep().map_err(NodeError::Sweep)?;
        register::register(&config.client)
            .await
            .map_err(|error| NodeError::Register(Box::new(error)))?;
        let (recorder, writing) = Recorder::new(config.client.clone());
        let shared = Arc::new(Shared {
            pods: folder("pods"),
            claims: folder("volumes"),
            client: config.client.clone(),
            connect: config.connect,
            services: config.services,
            bus: config.bus,
            logs: config.logs,
            addresses: config.addresses.clone(),
            recorder,
            returning: Returning::new(config.patience),
            records,
            program: config.program,
            api_address: config.api_address,
            ca: config.ca,
            back_off: config.back_off,
            life: uuid::Uuid::new_v4().simple().to_string(),
        });
        let (listed, services_known) = oneshot::channel();
        let (commands, received) = mpsc::unbounded_channel();
        config.streams.set_node(commands.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(writing);
        let (mut proxies, cancel) = (JoinSet::new(), CancellationToken::new());
        proxies.spawn(proxy::run(
            config.client.clone(),
            config.addresses.clone(),
            listed,
            cancel.clone(),
        ));
        tasks.spawn(register::publish_addresses(
            config.client,
            config.addresses.clone(),
        ));
        tasks.spawn(watch::run(shared, received, services_known));
        Ok(NodeHandle {
            commands,
            addresses: config.addresses,
            swept,
            cancel,
            proxies,
            tasks,
        })
    }
}

/// A running node; dropping it ends it as a kill would: children are killed, services dropped, statuses left as they are.
#[derive(Debug)]
pub struct NodeHandle {
    commands: mpsc::UnboundedSender<watch::Command>,
    addresses: AddressBook,
    swept: Vec<ChildRecord>,
    /// Ends the listeners of Services in order.
    cancel: CancellationToken,
    proxies: JoinSet<()>,
    tasks: JoinSet<()>,
}

impl NodeHandle {
    /// The real sockets behind pods and Services.
    #[must_use]
    pub fn addresses(&self) -> &AddressBook {
        &self.addresses
    }

    /// Children of an earlier life that still ran, and were killed at the start.
    #[must_use]
    pub fn swept(&self) -> &[ChildRecord] {
        &self.swept
    }

    /// Kills a container as `kill -9` would; answers whether it ran.
    pub async fn kill(&self, namespace: &str, pod: &str, container: &str) -> bool {
        let (done, answer) = oneshot::channel();
        let command = watch::Command::Kill {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: container.to_owned(),
            done,
        };
        self.commands.send(command).is_ok() && answer.await.unwrap_or(false)
    }

    /// Stops all containers in order, within `grace`. Their statuses stay: at the next start they are containers whose
    /// end nobody saw, as after a reboot of a real node.
    pub async fn stop(mut self, grace: Duration) {
        let (done, answer) = oneshot::channel();
        if self
            .commands
            .send(watch::Command::Stop { grace, done })
            .is_ok()
        {
            // Closed means that there is nothing left to stop.
            let _ = answer.await;
        }
        self.cancel.cancel();
        while self.proxies.join_next().await.is_some() {}
        self.tasks.shutdown().await;
    }
}
