//! The embedded controllers and node against another API server, so that API and controllers can be tried apart.
//!
//! Work that somebody else's controllers do there is left to them ([`Others`]). Logs, commands and port-forwards go the way
//! they go in the field: the API server asks the node for them, at a port of the node's own ([`kubelet`]).

mod claims;
mod heartbeat;
pub mod kubelet;
mod others;
mod rights;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::kubelet::{Kubelet, KubeletConfig};
use super::api::tls::ServingIdentity;
use super::bus::BusConnector;
use super::bus::engine::EmbeddedBus;
use super::bus::host::{BusHost, LocalConnector};
use super::cluster::{StartError, known_services};
use super::controllers::{self, ControllerClients, ControllerHandle, Parts};
use super::node::streams::Streams;
use super::node::{BackOff, Connect, Node, NodeConfig, NodeHandle};
use super::snapshot;

pub use self::others::Others;
pub use self::rights::lacking;

/// How long containers may take to end.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// Writing the last statuses may take so long.
const STOP_PATIENCE: Duration = Duration::from_secs(15);

/// User of the controller that makes volumes.
pub const VOLUME_USER: &str = "system:serviceaccount:kube-system:persistent-volume-binder";

/// What it needs.
pub struct StandaloneConfig {
    /// Everything lies below it.
    pub state_dir: PathBuf,
    /// The program that workload pods run.
    pub program: PathBuf,
    pub controllers: ControllerClients,
    /// Which of them work here.
    pub parts: Parts,
    /// A client as `system:node:eventlab`.
    pub node: Client,
    /// A client as [`VOLUME_USER`].
    pub volumes: Client,
    /// Makes clients for the tokens of pods.
    pub connect: Connect,
    /// The API server's address, for child processes, where it is on this machine.
    pub api_address: Option<SocketAddr>,
    /// The API server's CA certificate, PEM.
    pub ca: String,
    /// Where the node listens for the API server, and whose clients it lets in (PEM); without it there are no logs,
    /// commands and port-forwards.
    pub kubelet: Option<(SocketAddr, String)>,
}

/// Running controllers and node.
pub struct Standalone {
    node: NodeHandle,
    controllers: ControllerHandle,
    kubelet: Option<Kubelet>,
    client: Client,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
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
        let identity = ServingIdentity::load_or_create(&state_dir.join("pki"))?;
        let (logs, streams) = (
            NodeConfig::logs_in(&state_dir),
            Streams::new(addresses.clone()),
        );
        let kubelet = match config.kubelet {
            None => None,
            Some((address, authority)) => {
                let served = KubeletConfig {
                    address,
                    authority,
                    client: config.node.clone(),
                    logs: logs.clone(),
                    streams: streams.clone(),
                };
                let kubelet = Kubelet::start(served, &identity).await?;
                Some((SocketAddr::new(address.ip(), kubelet.port()), kubelet))
            }
        };
        let folders = state_dir.join("volumes");
        let node = NodeConfig {
            program: config.program,
            client: config.node.clone(),
            connect: config.connect,
            services: known_services(),
            bus: BusConnector(Arc::new(LocalConnector(bus))),
            logs,
            streams,
            addresses,
            api_address: config.api_address,
            ca: config.ca,
            back_off: BackOff::default(),
            patience: crate::embedded::node::PATIENCE,
            state_dir,
        };
        let node = Node::start(node).await?;
        let cancel = CancellationToken::new();
        let mut tasks = JoinSet::new();
        if let Some((address, _)) = &kubelet
            && let Err(error) = heartbeat::announce(&config.node, *address).await
        {
            tracing::warn!(%error, "telling the API server where the node listens");
        }
        tasks.spawn(heartbeat::keep(config.node.clone(), cancel.clone()));
        tasks.spawn(claims::serve(config.volumes, folders, cancel.clone()));
        let controllers =
            controllers::start_parts(config.controllers, config.parts, cancel.clone());
        Ok(Self {
            node,
            controllers,
            kubelet: kubelet.map(|(_, kubelet)| kubelet),
            client: config.node,
            cancel,
            tasks,
        })
    }

    /// Ends containers in order, then the controllers; by force when the API server is not there to hear of it.
    pub async fn stop(self) {
        if tokio::time::timeout(STOP_PATIENCE, self.stop_in_order())
            .await
            .is_err()
        {
            tracing::warn!("not everything ended in order: did the API server go?");
        }
    }

    async fn stop_in_order(mut self) {
        heartbeat::leave(&self.client).await;
        self.node.stop(STOP_GRACE).await;
        self.cancel.cancel();
        self.controllers.stopped().await;
        while self.tasks.join_next().await.is_some() {}
        if let Some(kubelet) = self.kubelet {
            kubelet.stop().await;
        }
    }
}
