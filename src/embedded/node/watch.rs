//! Follows the pods of this node and gives each a worker.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::streams::Started;
use super::worker::{Input, Outcome, Worker};
use super::{NODE_NAME, Shared};
use crate::embedded::api::streams::ExecRequest;

/// What the node's owner asks for.
#[derive(Debug)]
pub(super) enum Command {
    Kill {
        namespace: String,
        pod: String,
        container: String,
        done: oneshot::Sender<bool>,
    },
    Exec {
        request: ExecRequest,
        done: oneshot::Sender<Started>,
    },
    Stop {
        grace: Duration,
        done: oneshot::Sender<()>,
    },
}

/// Runs pods until told to stop; `services` is closed or sent when the Services are known, which containers find in
/// their environment.
pub(super) async fn run(
    shared: Arc<Shared>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    services: oneshot::Receiver<()>,
) {
    // Without Services, pods would start with an environment that never changes any more.
    let _ = services.await;
    let config = watcher::Config::default().fields(&format!("spec.nodeName={NODE_NAME}"));
    let mut events = watcher(Api::<Pod>::all(shared.client.clone()), config)
        .default_backoff()
        .boxed();
    let mut pods = Pods {
        shared,
        workers: HashMap::new(),
        over: HashMap::new(),
        tasks: JoinSet::new(),
    };
    let mut listing: Option<Vec<Arc<Pod>>> = None;
    loop {
        tokio::select! {
            event = events.next() => match event {
                None => return,
                Some(Ok(watcher::Event::Apply(pod))) => pods.apply(Arc::new(pod)),
                Some(Ok(watcher::Event::Delete(pod))) => pods.gone(&pod),
                Some(Ok(watcher::Event::Init)) => listing = Some(Vec::new()),
                Some(Ok(watcher::Event::InitApply(pod))) => listing.get_or_insert_default().push(Arc::new(pod)),
                Some(Ok(watcher::Event::InitDone)) => pods.listed(listing.take().unwrap_or_default()),
                Some(Err(error)) => tracing::debug!(%error, "watching pods"),
            },
            Some(ended) = pods.tasks.join_next() => pods.ended(ended),
            command = commands.recv() => match command {
                None => return,
                Some(Command::Kill { namespace, pod, container, done }) => pods.kill(&namespace, &pod, container, done),
                Some(Command::Exec { request, done }) => pods.exec(request, done),
                Some(Command::Stop { grace, done }) => {
                    pods.stop(grace).await;
                    // Whoever asked may have gone.
                    let _ = done.send(());
                    return;
                }
            },
        }
    }
}

struct Pods {
    shared: Arc<Shared>,
    /// By uid.
    workers: HashMap<String, Entry>,
    /// Pods whose worker has ended and whose object is still there: what a late event says of them is old. True when the
    /// object was removed as far as this node is concerned.
    over: HashMap<String, bool>,
    tasks: JoinSet<(String, Outcome)>,
}

struct Entry {
    pod: Arc<Pod>,
    inputs: mpsc::UnboundedSender<Input>,
    gone: bool,
}

impl Pods {
    fn apply(&mut self, pod: Arc<Pod>) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        if let Some(entry) = self.workers.get_mut(&uid) {
            entry.pod = Arc::clone(&pod);
            // A worker that has just ended is noticed by its task.
            let _ = entry.inputs.send(Input::Pod(pod));
            return;
        }
        let deleting = pod.metadata.deletion_timestamp.is_some();
        match self.over.get(&uid) {
            Some(true) => {}
            Some(false) if !deleting => {}
            None if is_over(&pod) && !deleting => drop(self.over.insert(uid, false)),
            _ => self.start(uid, pod),
        }
    }

    fn start(&mut self, uid: String, pod: Arc<Pod>) {
        let (own, inputs) = mpsc::unbounded_channel();
        self.workers.insert(
            uid.clone(),
            Entry {
                pod: Arc::clone(&pod),
                inputs: own.clone(),
                gone: false,
            },
        );
        let worker = Worker::new(Arc::clone(&self.shared), pod, own, inputs);
        self.tasks.spawn(async move {
            let outcome = worker.run().await;
            (uid, outcome)
        });
    }

    fn gone(&mut self, pod: &Pod) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        self.over.remove(&uid);
        match self.workers.get_mut(&uid) {
            Some(entry) => {
                entry.gone = true;
                // A worker that has just ended is noticed by its task.
                let _ = entry.inputs.send(Input::Gone);
            }
            None => self.shared.remove_files(pod),
        }
    }

    /// A whole list: what it does not name is gone.
    fn listed(&mut self, pods: Vec<Arc<Pod>>) {
        let present: HashSet<String> = pods
            .iter()
            .filter_map(|pod| pod.metadata.uid.clone())
            .collect();
        // A pod that is not over any more was set back to a snapshot, and its containers are gone.
        let over: HashSet<&str> = pods
            .iter()
            .filter(|pod| is_over(pod))
            .filter_map(|pod| pod.metadata.uid.as_deref())
            .collect();
        self.over.retain(|uid, _| over.contains(uid.as_str()));
        for (_, entry) in self
            .workers
            .iter_mut()
            .filter(|(uid, _)| !present.contains(*uid))
        {
            entry.gone = true;
            // As above.
            let _ = entry.inputs.send(Input::Gone);
        }
        self.shared.remove_strays(&present);
        self.shared.returning.expect(pods.iter().map(Arc::as_ref));
        for pod in pods {
            self.apply(pod);
        }
    }

    fn ended(&mut self, ended: Result<(String, Outcome), tokio::task::JoinError>) {
        let Ok((uid, outcome)) = ended else {
            // A defect of the node; the pod stays as it is until the next start.
            tracing::error!("the worker of a pod panicked");
            return;
        };
        self.shared.returning.settle(&uid);
        let Some(entry) = self.workers.remove(&uid) else {
            return;
        };
        if entry.gone {
            self.shared.remove_files(&entry.pod);
            return;
        }
        self.over.insert(uid.clone(), outcome == Outcome::Removed);
        // Deleted while its last status was on the way.
        if outcome == Outcome::Over && entry.pod.metadata.deletion_timestamp.is_some() {
            self.start(uid, entry.pod);
        }
    }

    fn kill(&self, namespace: &str, pod: &str, container: String, done: oneshot::Sender<bool>) {
        let named = |entry: &&Entry| {
            let metadata = &entry.pod.metadata;
            metadata.namespace.as_deref() == Some(namespace)
                && metadata.name.as_deref() == Some(pod)
        };
        if let Some(entry) = self.workers.values().find(named) {
            // Without an answer it did not run.
            let _ = entry.inputs.send(Input::Kill { container, done });
        }
    }

    fn exec(&self, request: ExecRequest, done: oneshot::Sender<Started>) {
        if let Some(entry) = self.workers.get(&request.pod.uid) {
            // Without an answer the container does not run.
            let _ = entry.inputs.send(Input::Exec {
                container: request.container,
                command: request.command,
                done,
            });
        }
    }

    async fn stop(&mut self, grace: Duration) {
        for entry in self.workers.values() {
            let _ = entry.inputs.send(Input::Stop(grace));
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
