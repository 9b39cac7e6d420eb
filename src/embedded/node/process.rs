//! The one trait that pods run behind, and what a container is given at its start.
//!
//! Services (`embedded/services`) see the world only through [`ServiceContext`], so the same function runs in
//! process and as a child of this binary.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::embedded::bus::BusConnector;

/// How a container instance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// Ended by this signal; reported as exit code 128 + n.
    Signal(i32),
    /// Left over from a former life of the node: nobody saw how it ended (exit code 137, `ContainerStatusUnknown`).
    Unknown,
}

impl Exit {
    /// The exit code as the kubelet reports it.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
            Exit::Unknown => 137,
        }
    }
}

/// One running container instance.
pub trait PodProcess: Send + Sync {
    /// Asks it to end (SIGTERM; in process: the cancellation token).
    fn terminate(&self);
    /// Ends it at once (SIGKILL; in process: its runtime is dropped without shutdown code, so no ack leaves).
    fn kill(&self);
    /// `None` while it runs.
    fn exit(&self) -> watch::Receiver<Option<Exit>>;
}

/// Where a container's output goes, line by line. Implementations add the timestamp.
pub trait LogSink: Send + Sync {
    /// Appends one line (without its newline).
    fn line(&self, line: &str);
}

/// Which pod a service runs in.
#[derive(Clone, Debug, Default)]
pub struct PodIdentity {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub container: String,
    /// Restart count of this container instance, from 0.
    pub instance: u32,
}

/// Binds a container port and records it in the address book (in process) or takes the port it was given (child).
pub trait PortBinder: Send + Sync {
    /// Binds `port` of this pod on loopback.
    fn bind(&self, port: u16) -> BoxFuture<'_, std::io::Result<TcpListener>>;
}

/// Files of a container's volume mounts (mounted Secrets and ConfigMaps).
pub trait ContainerFiles: Send + Sync {
    /// Reads the file at `path` as the container sees it; `NotFound` when no mount holds it.
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, std::io::Result<Vec<u8>>>;
}

/// A container without mounts.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl ContainerFiles for NoFiles {
    fn read<'a>(&'a self, _path: &'a str) -> BoxFuture<'a, std::io::Result<Vec<u8>>> {
        Box::pin(async { Err(std::io::Error::from(std::io::ErrorKind::NotFound)) })
    }
}

/// What a container says about its end: the content of its `terminationMessagePath`.
#[derive(Clone, Debug, Default)]
pub struct TerminationMessage(Arc<Mutex<String>>);

impl TerminationMessage {
    /// Longest text that is kept, in bytes, as the kubelet keeps it.
    pub const MAX: usize = 4096;

    /// Replaces the text; what is over the limit is cut.
    pub fn set(&self, text: &str) {
        let end = (0..=Self::MAX.min(text.len()))
            .rev()
            .find(|end| text.is_char_boundary(*end));
        let text = text.get(..end.unwrap_or(0)).unwrap_or_default();
        text.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The text, empty when nothing was said.
    #[must_use]
    pub fn get(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Everything a service may use.
#[derive(Clone)]
pub struct ServiceContext {
    pub pod: PodIdentity,
    /// Arguments after the image's entrypoint, for example `["sensor-service"]`.
    pub args: Vec<String>,
    /// The container's environment as the pod states it (plus Service variables).
    pub env: BTreeMap<String, String>,
    /// The pod's annotations.
    pub annotations: BTreeMap<String, String>,
    /// Speaks to the API as the pod's service account.
    pub client: kube::Client,
    pub log: Arc<dyn LogSink>,
    /// Connects to the bus that the pod's configuration names.
    pub bus: BusConnector,
    pub ports: Arc<dyn PortBinder>,
    /// The container's mounted files.
    pub files: Arc<dyn ContainerFiles>,
    /// Reported with the exit code as the container's termination message.
    pub termination: TerminationMessage,
    /// Cancelled on SIGTERM.
    pub terminate: CancellationToken,
    /// Exits of the other containers of the pod, by name (the executor waits for `main`).
    pub siblings: BTreeMap<String, watch::Receiver<Option<Exit>>>,
}

/// A service: runs until it ends or is terminated, and answers its exit code.
pub type Service = fn(ServiceContext) -> BoxFuture<'static, i32>;
