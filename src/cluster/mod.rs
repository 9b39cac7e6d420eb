//! One `kube::Client` to either cluster; applying, reaching a Service, following logs, bus state, the ledger's view.
//!
//! The runner and everything above use [`Cluster`]; which cluster it is, is asked here alone.

mod access;
mod apply;
mod bus;
mod bus_place;
mod embedded_host;
mod ledger;
mod logs;
mod manifest;
mod reach;
mod reading;
mod running;
mod secrets;

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;

use crate::embedded::bus::Bus;

pub use access::{AccessQuestion, AccessReview};
pub use apply::{Applied, ApplyError, Change, Drift, Fingerprint};
pub use bus::{BusMessage, BusView};
pub use ledger::{
    AttemptRow, Books, ClaimRow, EffectRow, LedgerPosition, LedgerView, RecordRow, TransitionRow,
};
pub use logs::{ContainerInstance, LogFollower, LogLine};
pub use manifest::{Manifest, ManifestError};
pub use reach::{Request, Response, SendError};
pub use reading::{Reading, ReadingError};
pub use secrets::{texts_in, texts_of};

/// What the rest of the program cannot know of the embedded cluster except through this.
pub trait Host: Send + Sync {
    /// The real address of a Service's port, while it can be reached.
    fn service_address(
        &self,
        namespace: &str,
        service: &str,
        port: u16,
    ) -> Option<std::net::SocketAddr>;
    /// A connection to the namespace's bus.
    fn bus(&self, namespace: &str) -> Option<Arc<dyn Bus>>;
    /// A word that tells this session's dependencies from those of other sessions on the same bus; `None` where the bus
    /// is this session's own.
    fn bus_tag(&self) -> Option<String> {
        None
    }
    /// Keeps a copy of cluster, bus and volumes under a name.
    fn snapshot<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RewindError>>;
    /// Puts a copy back; pods are restarted.
    fn rewind<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RewindError>>;
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
    #[error("cannot {action} {object}: {source}; is the cluster there? (`eventlab status`)")]
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
    #[error("the bus cannot be read: {0}")]
    Bus(String),
    #[error("the answer of {service} cannot be read: {reason}")]
    Answer { service: String, reason: String },
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

/// Name of the embedded cluster.
const EMBEDDED: &str = "embedded";

/// Either cluster.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
    name: String,
    host: Arc<dyn Host>,
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
            bus_place: Arc::default(),
        }
    }

    /// The client, as the identity that eventlab acts with.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The one namespace of the lab.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// `embedded`, or the name of the context.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_embedded(&self) -> bool {
        self.name == EMBEDDED
    }

    /// How often state that cannot be watched may be looked at.
    #[must_use]
    pub fn look_interval(&self) -> std::time::Duration {
        std::time::Duration::from_millis(20)
    }

    /// What an attempt adds to the names of its dependencies: `a3`, and more on a bus that other sessions use as well.
    #[must_use]
    pub fn attempt_suffix(&self, attempt: u32) -> String {
        match self.host.bus_tag() {
            Some(tag) => format!("a{attempt}-{tag}"),
            None => format!("a{attempt}"),
        }
    }

    /// Keeps a copy of the whole cluster under a name, for [`Cluster::rewind`].
    ///
    /// # Errors
    /// [`RewindError`].
    pub async fn snapshot(&self, name: &str) -> Result<(), RewindError> {
        self.host.snapshot(name).await
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
