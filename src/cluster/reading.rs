//! A client that only reads, through a context that was named: for commands that look at somebody's running objects.

use std::path::Path;

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use crate::embedded::api::tls::init_tls;

/// A context with its client.
#[derive(Clone)]
pub struct Reading {
    /// The client.
    pub client: Client,
    /// The namespace that the context names, else `default`.
    pub namespace: String,
}

/// Why a context cannot be read through.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot use context {context:?}: {reason}; `kubectl config get-contexts` lists those that there are"
)]
pub struct ReadingError {
    context: String,
    reason: String,
}

impl Reading {
    /// Reads the kubeconfig (by default `$KUBECONFIG`, else `~/.kube/config`); nothing is asked of the cluster.
    ///
    /// # Errors
    /// A kubeconfig that cannot be read, a context that is not in it.
    pub async fn open(context: &str, kubeconfig: Option<&Path>) -> Result<Self, ReadingError> {
        init_tls();
        let wrong = |reason: String| ReadingError {
            context: context.to_owned(),
            reason,
        };
        let file = match kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        }
        .map_err(|error| wrong(error.to_string()))?;
        let options = KubeConfigOptions {
            context: Some(context.to_owned()),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(file, &options)
            .await
            .map_err(|error| wrong(error.to_string()))?;
        let namespace = config.default_namespace.clone();
        let client = Client::try_from(config).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { client, namespace })
    }
}
