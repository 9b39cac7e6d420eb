//! One `kube::Client` to either cluster; applying, reaching a Service, following logs, bus state, the ledger's view.
//!
//! The runner and everything above use [`Cluster`]; which cluster it is, is asked here alone.

mod access;
mod apply;
mod bus;
mod bus_link;
mod bus_place;
pub mod context;
pub mod doctor;
mod embedded_host;
mod fingerprint;
mod fitting;
mod forward;
mod hearing;
mod inventory;
mod kube_host;
mod ledger;
mod login;
mod logs;
mod manifest;
mod merge;
mod prepare;
mod proxy;
mod reach;
mod rights;
mod running;
mod secrets;
mod steady;
mod tls;
mod told;

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;

use crate::embedded::bus::Bus;
use crate::kinds::WORKLOAD_IMAGE;

pub use access::{AccessQuestion, AccessReview};
pub use apply::{Applied, ApplyError, Change};
pub use bus::{BusMessage, BusView};
pub use context::{Context, ContextError, ContextRequest};
pub use fingerprint::{Drift, Fingerprint};
pub use hearing::{Hearing, Silence};
pub use inventory::{Held, Inventory, NamespaceEnd};
pub use kube_host::{BusAccess, RealCluster};
pub use ledger::{
    AttemptRow, Books, ClaimRow, EffectRow, LedgerPosition, LedgerView, RecordRow, TransitionRow,
};
pub use logs::{ContainerInstance, LogFollower, LogLine};
pub use manifest::{Manifest, ManifestError};
pub use prepare::{Preview, Waiting};
pub use reach::{Connection, Request, Response, SendError, Stream, Unconnected};
pub use secrets::{texts_in, texts_of};
pub use tls::KnownCertificate;
pub use told::{told, unanswered};

/// What the rest of the program cannot know of a cluster except through this.
pub trait Host: Send + Sync {
    /// A connection to a Service's port.
    fn connect<'a>(
        &'a self,
        namespace: &'a str,
        service: &'a str,
        port: u16,
    ) -> BoxFuture<'a, Result<Connection, Unconnected>> {
        let address = self.service_address(namespace, service, port);
        Box::pin(async move {
            match address {
                Some(address) => reach::dial(address).await,
                None => Err(Unconnected("it has no ready endpoint".to_owned())),
            }
        })
    }
    /// An address on this machine that leads to a Service's port, for people and other programs.
    fn service_address(
        &self,
        namespace: &str,
        service: &str,
        port: u16,
    ) -> Option<std::net::SocketAddr>;
    /// A connection to the namespace's bus.
    fn bus(&self, namespace: &str) -> Option<Arc<dyn Bus>>;
    /// The connection to an EventBus of the namespace, of a host that keeps one itself, or why there is none; `None` for hosts whose
    /// bus is found through the EventBus.
    fn linked_bus(
        &self,
        _namespace: &str,
        _event_bus: &str,
    ) -> Option<Result<Arc<dyn Bus>, NoBus>> {
        None
    }
    /// How often state that cannot be watched may be looked at.
    fn look_interval(&self) -> std::time::Duration {
        std::time::Duration::from_millis(20)
    }
    /// Why nothing goes on until somebody helps, where the host itself can tell.
    fn trouble(&self) -> Option<String> {
        None
    }
    /// Tells while nothing is heard of the API server, where it can be lost.
    fn hearing(&self) -> Option<Hearing> {
        None
    }
    /// The options by which `kubectl` goes to this cluster from any terminal.
    fn kubectl_options(&self) -> Option<String> {
        None
    }
    /// What the cluster held and has no more since it was left, in sentences, where the host itself can tell.
    fn lost(&self) -> Vec<String> {
        Vec::new()
    }
    /// What [`Host::lost`] says is in the session's checkpoint now.
    fn loss_is_noted(&self) {}
    /// The image that runs the program in pods.
    fn image(&self) -> &str {
        WORKLOAD_IMAGE
    }
    /// Whether the cluster is somebody else's, where others use it, too.
    fn is_shared(&self) -> bool {
        false
    }
    /// What tells the names of this session from those of others that used the cluster before; nothing where nobody could.
    fn session_tag(&self) -> Option<&str> {
        None
    }
    /// A word that tells this session's dependencies from those of other sessions on the same bus; `None` where the bus
    /// is this session's own.
    fn bus_tag(&self) -> Option<String> {
        None
    }
    /// Whether there is a copy of this name.
    fn has_snapshot(&self, _name: &str) -> bool {
        false
    }
    /// Removes the copy of this name, if there is one.
    ///
    /// # Errors
    /// [`RewindError::Failed`].
    fn forget_snapshot(&self, _name: &str) -> Result<(), RewindError> {
        Ok(())
    }
    /// Keeps a copy of cluster, bus and volumes under a name.
    fn snapshot<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RewindError>>;
    /// Puts a copy back; pods are restarted.
    fn rewind<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RewindError>>;
}

/// Why there is no connection to the bus.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBus {
    /// It is tried again.
    #[error("{0}")]
    NotNow(String),
    /// It cannot be read at all: what happened is known by logs and objects alone.
    #[error("by log alone: {0}")]
    ByLogAlone(String),
}

/// Why a snapshot was not made or put back.
#[derive(Debug, thiserror::Error)]
pub enum RewindError {
    #[error("there is no snapshot `{0}`; reset the lab instead")]
    NoSnapshot(String),
    #[error("cannot {action} the snapshot `{name}`: {reason}")]
    Failed {
        action: &'static str,
        name: String,
        reason: String,
    },
}

/// A failure to look: never the learner's.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    #[error("cannot {action} {object}: {}", told(source))]
    Api {
        action: &'static str,
        object: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("service {service}:{port} cannot be reached: {reason}")]
    Unreachable {
        service: String,
        port: u16,
        reason: String,
    },
    #[error(
        "{object} is still there {seconds} s after it was deleted; `kubectl get` shows its finalizers"
    )]
    Stays { object: String, seconds: u64 },
    #[error("the bus cannot be read: {0}")]
    Bus(String),
    #[error("the answer of {service} cannot be read: {reason}")]
    Answer { service: String, reason: String },
    #[error(
        "the ledger does not hold attempt {0} any more, which was read before: its file was replaced, and what is missing from it says nothing"
    )]
    LedgerReplaced(u64),
}

impl LookError {
    pub(crate) fn api(
        action: &'static str,
        object: impl Into<String>,
    ) -> impl FnOnce(kube::Error) -> LookError {
        let object = object.into();
        move |source| LookError::Api {
            action,
            object,
            source: Box::new(source),
        }
    }
}

/// An attempt as names and order ids carry it, in a session with this tag.
#[must_use]
pub fn attempt_name(attempt: u32, tag: Option<&str>) -> String {
    match tag {
        Some(tag) => format!("{attempt}-{tag}"),
        None => attempt.to_string(),
    }
}

/// The EventBus that EventSources and Sensors use when they name none.
pub const EVENT_BUS: &str = "default";
/// Name of the embedded cluster.
const EMBEDDED: &str = "embedded";

/// Either cluster.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
    name: String,
    host: Arc<dyn Host>,
    event_bus: Arc<str>,
    bus_place: Arc<bus_place::BusPlace>,
}

impl Cluster {
    /// The embedded cluster, seen as a client sees any cluster.
    #[must_use]
    pub fn embedded(client: Client, namespace: &str, host: Arc<dyn Host>) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            name: EMBEDDED.to_owned(),
            host,
            event_bus: EVENT_BUS.into(),
            bus_place: Arc::default(),
        }
    }

    /// Any cluster, behind a host of its kind.
    pub(crate) fn of_host(
        client: Client,
        namespace: &str,
        name: &str,
        host: Arc<dyn Host>,
    ) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            host,
            event_bus: EVENT_BUS.into(),
            bus_place: Arc::default(),
        }
    }

    /// The client, as the identity that eventlab acts with.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// How `kubectl` has to be called to look at the same namespace of the same cluster.
    #[must_use]
    pub fn kubectl(&self) -> String {
        self.shown(&format!("kubectl -n {}", self.namespace))
    }

    /// A command as it is shown: on somebody else's cluster with the options that lead there; on the embedded one as it
    /// is in the field, where `KUBECONFIG` says the rest.
    #[must_use]
    pub fn shown(&self, command: &str) -> String {
        if self.is_embedded() {
            return command.to_owned();
        }
        self.pasteable(command)
    }

    /// A command that asks this cluster in whatever terminal it is pasted.
    #[must_use]
    pub fn pasteable(&self, command: &str) -> String {
        let leads_somewhere = command.contains("--context") || command.contains("--kubeconfig");
        // Without a context eventlab asks the embedded cluster.
        let takes_them = |program: &str| match program {
            "kubectl" => true,
            "eventlab" => self.is_shared(),
            _ => false,
        };
        match (command.split_once(' '), self.host.kubectl_options()) {
            (Some((program, rest)), Some(options)) if !leads_somewhere && takes_them(program) => {
                format!("{program} {options} {rest}")
            }
            _ => command.to_owned(),
        }
    }

    /// The one namespace of the lab.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The EventBus whose stream is read.
    #[must_use]
    pub fn event_bus(&self) -> &str {
        &self.event_bus
    }

    /// The same cluster, looked at with another EventBus.
    #[must_use]
    pub fn with_event_bus(&self, name: &str) -> Self {
        if name == &*self.event_bus {
            return self.clone();
        }
        Self {
            event_bus: name.into(),
            bus_place: Arc::default(),
            ..self.clone()
        }
    }

    /// `embedded`, or the name of the context.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_embedded(&self) -> bool {
        self.name == EMBEDDED
    }

    /// Whether the cluster is somebody else's, where images are pulled and others have their work, too.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.host.is_shared()
    }

    /// How often state that cannot be watched may be looked at.
    #[must_use]
    pub fn look_interval(&self) -> std::time::Duration {
        self.host.look_interval()
    }

    /// Why nothing goes on until somebody helps, where the host itself can tell: a full disk.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.host.trouble()
    }

    /// Tells while nothing is heard of the API server, where it can be lost.
    #[must_use]
    pub fn hearing(&self) -> Option<Hearing> {
        self.host.hearing()
    }

    /// What the cluster held and has no more since it was left, in sentences, where the host itself can tell.
    #[must_use]
    pub fn lost(&self) -> Vec<String> {
        self.host.lost()
    }

    /// The checkpoint holds what [`Cluster::lost`] says: the next start need not tell it again.
    pub fn loss_is_noted(&self) {
        self.host.loss_is_noted();
    }

    /// An attempt as names and order ids carry it: its number, and on a cluster that others use, the session's tag.
    ///
    /// Consumers, buckets and the ledger outlive a session there; the first attempt of the next must not meet them.
    #[must_use]
    pub fn attempt_name(&self, attempt: u32) -> String {
        attempt_name(attempt, self.session_tag())
    }

    /// What tells the names of this session from those of others that used the cluster before.
    #[must_use]
    pub fn session_tag(&self) -> Option<&str> {
        self.host.session_tag()
    }

    /// The image that runs the program in pods.
    #[must_use]
    pub fn image(&self) -> &str {
        self.host.image()
    }

    /// Why the bus cannot be read at all; `None` while it can, or may be soon.
    #[must_use]
    pub fn by_log_alone(&self) -> Option<String> {
        match self.host.linked_bus(&self.namespace, &self.event_bus) {
            Some(Err(NoBus::ByLogAlone(reason))) => Some(reason),
            _ => None,
        }
    }

    /// What an attempt adds to the names of its dependencies: `filter-path-a3`, and more on a bus that other sessions use
    /// as well. The lab is part of it: a trigger that was gone for a while finds its old consumer under an old name, and
    /// that one has another lab's subject.
    #[must_use]
    pub fn attempt_suffix(&self, lab: &str, attempt: u32) -> String {
        match self.host.bus_tag() {
            Some(tag) => format!("{lab}-a{attempt}-{tag}"),
            None => format!("{lab}-a{attempt}"),
        }
    }

    /// Keeps a copy of the whole cluster under a name, for [`Cluster::rewind`].
    ///
    /// # Errors
    /// [`RewindError`].
    pub async fn snapshot(&self, name: &str) -> Result<(), RewindError> {
        self.host.snapshot(name).await
    }

    /// Whether there is a copy of this name.
    #[must_use]
    pub fn has_snapshot(&self, name: &str) -> bool {
        self.host.has_snapshot(name)
    }

    /// Removes a copy, if there is one.
    ///
    /// # Errors
    /// [`RewindError::Failed`].
    pub fn forget_snapshot(&self, name: &str) -> Result<(), RewindError> {
        self.host.forget_snapshot(name)
    }

    /// Goes back to a copy.
    ///
    /// # Errors
    /// [`RewindError`]; the cluster is as it was then.
    pub async fn rewind(&self, name: &str) -> Result<(), RewindError> {
        self.host.rewind(name).await
    }

    /// Goes back to a copy, or stays where it is when there is none.
    ///
    /// # Errors
    /// [`RewindError::Failed`].
    pub async fn rewind_if_there(&self, name: &str) -> Result<(), RewindError> {
        match self.host.rewind(name).await {
            Err(RewindError::NoSnapshot(_)) => Ok(()),
            result => result,
        }
    }

    pub(crate) fn host(&self) -> &dyn Host {
        self.host.as_ref()
    }
}
