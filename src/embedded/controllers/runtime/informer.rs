//! Lists a resource, watches it from there, and keeps a [`Cache`] and its listeners up to date.
//!
//! A closed watch is opened again where it ended; `410 Gone` lists anew; a refused request is tried again
//! with a growing wait, and until the first list succeeded nothing counts as known ([`Informer::synced`]).

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cache::{Cache, Change};
use super::error::message;
use super::worker::Tasks;

/// Objects that are fetched in one page.
const PAGE: u32 = 500;
const WAIT_START: Duration = Duration::from_millis(5);
const WAIT_CAP: Duration = Duration::from_secs(2);

/// A kind that can be watched.
pub trait Watched: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static {}
impl<K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static> Watched for K {}

/// A running list and watch.
pub struct Informer<K> {
    pub cache: Arc<Cache<K>>,
    synced: watch::Receiver<bool>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self {
            cache: Arc::clone(&self.cache),
            synced: self.synced.clone(),
        }
    }
}

type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// What to watch and whom to tell.
pub struct Source<K> {
    api: Api<K>,
    labels: Option<String>,
    cache: Arc<Cache<K>>,
    listener: Listener<K>,
}

impl<K: Watched> Source<K> {
    /// Watches everything behind `api`, without an index and without a listener.
    #[must_use]
    pub fn new(api: Api<K>) -> Self {
        Self {
            api,
            labels: None,
            cache: Arc::new(Cache::new(|_| Vec::new())),
            listener: Box::new(|_| {}),
        }
    }

    /// Watches only what matches a label selector.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.labels = Some(selector.to_owned());
        self
    }

    /// Finds objects under the values that `index` answers.
    #[must_use]
    pub fn indexed(mut self, index: impl Fn(&K) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.cache = Arc::new(Cache::new(index));
        self
    }

    /// Calls `listener` after every change of the cache.
    #[must_use]
    pub fn on_change(mut self, listener: impl Fn(&Change<K>) + Send + Sync + 'static) -> Self {
        self.listener = Box::new(listener);
        self
    }

    /// Starts to list and watch until `cancel`.
    pub fn start(self, tasks: &mut Tasks, cancel: &CancellationToken) -> Informer<K> {
        let (ready, synced) = watch::channel(false);
        let informer = Informer {
            cache: Arc::clone(&self.cache),
            synced,
        };
        let source = Arc::new(self);
        tasks.supervise("informer", cancel, move || {
            run(Arc::clone(&source), ready.clone())
        });
        informer
    }
}

impl<K> Informer<K> {
    /// Waits until the first list is in the cache.
    pub async fn synced(&self) {
        // The sender lives as long as the task; an error means that everything is ending.
        let _ = self.synced.clone().wait_for(|ready| *ready).await;
    }
}

/// Why watching from a version ended.
enum Ended {
    /// Watch again from the version reached.
    Closed,
    /// The version is too old: list again.
    Expired,
    Failed(String),
}

async fn run<K: Watched>(source: Arc<Source<K>>, ready: watch::Sender<bool>) {
    let mut wait = WAIT_START;
    loop {
        match list(&source).await {
            Err(error) => report(&source, "list", &error),
            Ok(mut version) => {
                ready.send_replace(true);
                wait = WAIT_START;
                follow(&source, &mut version).await;
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(WAIT_CAP);
    }
}

/// Watches until the version reached is too old to go on from.
async fn follow<K: Watched>(source: &Source<K>, version: &mut String) {
    let mut wait = WAIT_START;
    loop {
        let before = version.clone();
        match watch_once(source, version).await {
            Ended::Expired => return,
            Ended::Closed => {}
            Ended::Failed(error) => report(source, "watch", &error),
        }
        if *version == before {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(WAIT_CAP);
        } else {
            wait = WAIT_START;
        }
    }
}

/// Fills the cache and answers the version of the list.
async fn list<K: Watched>(source: &Source<K>) -> Result<String, String> {
    let mut params = ListParams {
        label_selector: source.labels.clone(),
        ..ListParams::default()
    }
    .limit(PAGE);
    let mut objects = Vec::new();
    let version = loop {
        let page = source
            .api
            .list(&params)
            .await
            .map_err(|error| message(&error))?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break page.metadata.resource_version.unwrap_or_default(),
        }
    };
    for change in source.cache.replace(objects, version.parse().ok()) {
        (source.listener)(&change);
    }
    Ok(version)
}

async fn watch_once<K: Watched>(source: &Source<K>, version: &mut String) -> Ended {
    let params = WatchParams {
        label_selector: source.labels.clone(),
        bookmarks: true,
        ..WatchParams::default()
    };
    let stream = match source.api.watch(&params, version).await {
        Ok(stream) => stream,
        Err(kube::Error::Api(status)) if status.code == 410 => return Ended::Expired,
        Err(error) => return Ended::Failed(message(&error)),
    };
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        let change = match event {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                *version = object.resource_version().unwrap_or_default();
                source.cache.upsert(object)
            }
            Ok(WatchEvent::Deleted(object)) => {
                *version = object.resource_version().unwrap_or_default();
                source.cache.remove(&object)
            }
            Ok(WatchEvent::Bookmark(mark)) => {
                version.clone_from(&mark.metadata.resource_version);
                None
            }
            Ok(WatchEvent::Error(status)) if status.code == 410 => return Ended::Expired,
            Ok(WatchEvent::Error(status)) => return Ended::Failed(status.message.clone()),
            Err(error) => return Ended::Failed(message(&error)),
        };
        if let Some(change) = change {
            (source.listener)(&change);
        }
    }
    Ended::Closed
}

fn report<K: Watched>(source: &Source<K>, verb: &str, error: &str) {
    tracing::warn!(target: "controllers", "failed to {verb} {}: {error}", source.api.resource_url());
}
