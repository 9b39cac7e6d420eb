//! The embedded cluster behind [`Host`].

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Cluster, Host, RewindError, doctor};
use crate::embedded::bus::Bus;
use crate::embedded::cluster::EmbeddedCluster;
use crate::embedded::snapshot::SnapshotError;
use crate::kinds::NAMESPACE;

impl Cluster {
    /// A running embedded cluster, seen as a client sees any cluster.
    #[must_use]
    pub fn of_embedded(cluster: &Arc<EmbeddedCluster>) -> Self {
        Self::embedded(
            cluster.client(),
            NAMESPACE,
            Arc::new(EmbeddedHost(Arc::clone(cluster))),
        )
    }
}

/// `--kubeconfig FILE`, for a shell.
pub(super) fn kubeconfig_option(path: &std::path::Path) -> String {
    format!(
        "--kubeconfig {}",
        doctor::quoted(&path.display().to_string())
    )
}

struct EmbeddedHost(Arc<EmbeddedCluster>);

impl Host for EmbeddedHost {
    fn kubectl_options(&self) -> Option<String> {
        Some(kubeconfig_option(&self.0.kubeconfig()))
    }

    fn service_address(&self, namespace: &str, service: &str, port: u16) -> Option<SocketAddr> {
        self.0.service_address(namespace, service, port)
    }

    fn bus(&self, _namespace: &str) -> Option<Arc<dyn Bus>> {
        Some(self.0.bus())
    }

    fn trouble(&self) -> Option<String> {
        self.0.full_disk()
    }

    fn lost(&self) -> Vec<String> {
        self.0.lost().to_vec()
    }

    fn loss_is_noted(&self) {
        if let Err(error) = self.0.loss_is_noted() {
            tracing::warn!(%error, "what was lost will be told again");
        }
    }

    fn bus_tag(&self) -> Option<String> {
        self.0.bus_tag().map(str::to_owned)
    }

    fn has_snapshot(&self, name: &str) -> bool {
        self.0.has_snapshot(name)
    }

    fn forget_snapshot(&self, name: &str) -> Result<(), RewindError> {
        let removed = self.0.forget_snapshot(name);
        removed.map_err(|error| failed("remove", name, &error))
    }

    fn snapshot<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RewindError>> {
        let (cluster, name) = (Arc::clone(&self.0), name.to_owned());
        Box::pin(async move {
            let copied = name.clone();
            let done = tokio::task::spawn_blocking(move || cluster.snapshot(&copied)).await;
            match done {
                Ok(result) => result.map_err(|error| failed("make", &name, &error)),
                Err(error) => Err(failed("make", &name, &error)),
            }
        })
    }

    /// Runs to its end even when nobody waits any more: half a rewind is no state to leave a cluster in.
    fn rewind<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RewindError>> {
        let (cluster, name) = (Arc::clone(&self.0), name.to_owned());
        Box::pin(async move {
            let target = name.clone();
            let done = tokio::spawn(async move { cluster.rewind(&target).await }).await;
            match done {
                Ok(Ok(())) => Ok(()),
                Ok(Err(SnapshotError::NotThere(name))) => Err(RewindError::NoSnapshot(name)),
                Ok(Err(error)) => Err(failed("put back", &name, &error)),
                Err(error) => Err(failed("put back", &name, &error)),
            }
        })
    }
}

fn failed(action: &'static str, name: &str, error: &dyn std::fmt::Display) -> RewindError {
    RewindError::Failed {
        action,
        name: name.to_owned(),
        reason: error.to_string(),
    }
}
