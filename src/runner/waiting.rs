//! Waiting until one object of the API is as it must be: by a watch, so that nobody asks over and over.

use std::fmt::Debug;
use std::time::Duration;

use kube::runtime::wait::await_condition;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// Why an object did not come to the state that was waited for.
#[derive(Debug, thiserror::Error)]
pub(super) enum Missed {
    #[error("it did not come to that in {} s", .0.as_secs())]
    Late(Duration),
    #[error("it is not there (any more)")]
    Gone,
    #[error("{0}")]
    Api(#[from] kube::runtime::wait::Error),
}

/// The object, once `holds` is true of it.
///
/// # Errors
/// It is not there, the time is over, or the API server cannot be asked.
pub(super) async fn until<K>(
    api: &Api<K>,
    name: &str,
    patience: Duration,
    holds: impl Fn(&K) -> bool,
) -> Result<K, Missed>
where
    K: Clone + Debug + Send + DeserializeOwned + Resource + 'static,
{
    let ended = |object: Option<&K>| object.is_none_or(&holds);
    let waited = tokio::time::timeout(patience, await_condition(api.clone(), name, ended)).await;
    let object = waited.map_err(|_| Missed::Late(patience))??;
    object.ok_or(Missed::Gone)
}

/// Waits until an object is gone.
///
/// # Errors
/// As [`until`].
pub(super) async fn gone<K>(api: &Api<K>, name: &str, patience: Duration) -> Result<(), Missed>
where
    K: Clone + Debug + Send + DeserializeOwned + Resource + 'static,
{
    match until(api, name, patience, |_| false).await {
        Err(Missed::Gone) | Ok(_) => Ok(()),
        Err(missed) => Err(missed),
    }
}
