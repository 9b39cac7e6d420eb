//! The embedded cluster of a session that another process runs, as far as it can be read from outside.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Cluster, Context, ContextRequest, Host, LookError, RewindError};
use crate::embedded::bus::Bus;
use crate::embedded::cluster::{known_addresses, kubeconfig_path};
use crate::kinds::NAMESPACE;

/// The persona that reads.
const PERSONA: &str = "learner";

impl Cluster {
    /// The cluster that runs for the session in `folder`, seen from another process: its API over TLS, its Services at
    /// their real ports. Its bus and its snapshots belong to the process that runs it.
    ///
    /// # Errors
    /// [`LookError::Unreachable`] when the session's kubeconfig is not there or cannot be used.
    pub async fn of_running(folder: &Path) -> Result<Self, LookError> {
        let unusable = |reason: String| LookError::Unreachable {
            service: "kubernetes".to_owned(),
            port: 443,
            reason,
        };
        let request = ContextRequest {
            name: PERSONA.to_owned(),
            kubeconfig: Some(kubeconfig_path(folder)),
            confirmed: None,
        };
        let context = Context::load(&request)
            .await
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Self::embedded(
            context.client,
            NAMESPACE,
            Arc::new(RunningHost(folder.to_owned())),
        ))
    }
}

/// A session's folder.
struct RunningHost(PathBuf);

impl Host for RunningHost {
    fn kubectl_options(&self) -> Option<String> {
        let path = crate::embedded::cluster::kubeconfig_path(&self.0);
        Some(super::embedded_host::kubeconfig_option(&path))
    }

    /// The port that the node wrote down; whether anybody listens there is seen by dialing it.
    fn service_address(&self, namespace: &str, service: &str, port: u16) -> Option<SocketAddr> {
        let known = known_addresses(&self.0);
        let real = known
            .get(format!("{namespace}/{service}:{port}"))?
            .as_u64()?;
        Some(SocketAddr::from((
            Ipv4Addr::LOCALHOST,
            u16::try_from(real).ok()?,
        )))
    }

    fn bus(&self, _namespace: &str) -> Option<Arc<dyn Bus>> {
        None
    }

    fn snapshot<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RewindError>> {
        Box::pin(async move { Err(not_ours("make", name)) })
    }

    fn rewind<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RewindError>> {
        Box::pin(async move { Err(not_ours("put back", name)) })
    }
}

fn not_ours(action: &'static str, name: &str) -> RewindError {
    RewindError::Failed {
        action,
        name: name.to_owned(),
        reason: "another process runs this cluster".to_owned(),
    }
}
