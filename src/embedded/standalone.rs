//! The embedded controllers and node against another API server, so that API and controllers can be tried apart.
//!
//! Logs, exec and port-forward of the pods are not there then: an API server asks a kubelet for them, and this node has
//! no port for that. The logs lie in files below the state directory.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio_util::sync::CancellationToken;

use super::bus::BusConnector;
use super::bus::engine::EmbeddedBus;
use super::bus::host::{BusHost, LocalConnector};
use super::cluster::{StartError, known_services};
use super::controllers::{self, ControllerClients, ControllerHandle};
use super::node::streams::Streams;
use super::node::{BackOff, Connect, Node, NodeConfig, NodeHandle};
use super::snapshot;

/// How long containers may take to end.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// What it needs.
pub struct StandaloneConfig {
    /// Everything lies below it.
    pub state_dir: PathBuf,
    /// The program that workload pods run.
    pub program: PathBuf,
    pub controllers: ControllerClients,
    /// A client as `system:node:eventlab`.
    pub node: Client,
    /// Makes clients for the tokens of pods.
    pub connect: Connect,
    /// The API server's address, for child processes, where it is on this machine.
    pub api_address: Option<SocketAddr>,
    /// The API server's CA certificate, PEM.
    pub ca: String,
}

/// Running controllers and node.
pub struct Standalone {
    node: NodeHandle,
    controllers: ControllerHandle,
    cancel: CancellationToken,
}

impl Standalone {
    /// Starts everything. To be called inside a tokio runtime, from a spawned task.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running then.
    pub async fn start(config: StandaloneConfig) -> Result<Self, StartError> {
        let state_dir = config.state_dir;
        snapshot::private_folder(&state_dir).map_err(|source| StartError::Folder {
            path: state_dir.clone(),
            source,
        })?;
        let bus = BusHost::new(EmbeddedBus::open(&state_dir.join("bus.db"))?);
        let addresses = NodeConfig::addresses_in(&state_dir);
        let node = NodeConfig {
            program: config.program,
            client: config.node,
            connect: config.connect,
            services: known_services(),
            bus: BusConnector(Arc::new(LocalConnector(bus))),
            logs: NodeConfig::logs_in(&state_dir),
            streams: Streams::new(addresses.clone()),
            addresses,
            api_address: config.api_address,
            ca: config.ca,
            back_off: BackOff::default(),
            state_dir,
        };
        let node = Node::start(node).await?;
        let cancel = CancellationToken::new();
        let controllers = controllers::start(config.controllers, cancel.clone());
        Ok(Self {
            node,
            controllers,
            cancel,
        })
    }

    /// Ends containers in order, then the controllers.
    pub async fn stop(self) {
        self.node.stop(STOP_GRACE).await;
        self.cancel.cancel();
        self.controllers.stopped().await;
    }
}
