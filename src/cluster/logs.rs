//! Following the logs of pods by label, instance by instance.

use std::collections::BTreeSet;

use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Cluster;

/// Lines longer than this are cut; container runtimes split them earlier.
const LINE_LIMIT: usize = 64 << 10;

/// One life of a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerInstance {
    pub pod: String,
    pub uid: String,
    pub container: String,
    /// Restart count of the container.
    pub instance: u32,
}

/// One line of a container instance.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    pub pod: ContainerInstance,
    pub text: String,
}

/// Follows until it is dropped.
pub struct LogFollower {
    cancel: CancellationToken,
}

impl Drop for LogFollower {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Cluster {
    /// Follows container `main` of all pods with a label, present and future, from each instance's first line on.
    /// The receiver ends when the follower is dropped.
    #[must_use]
    pub fn follow_logs(&self, selector: &str) -> (LogFollower, mpsc::Receiver<LogLine>) {
        let (sender, receiver) = mpsc::channel(1024);
        let cancel = CancellationToken::new();
        let follow = Follow {
            client: self.client().clone(),
            namespace: self.namespace().to_owned(),
            sender,
            cancel: cancel.clone(),
        };
        tokio::spawn(follow.pods(selector.to_owned()));
        (LogFollower { cancel }, receiver)
    }
}

#[derive(Clone)]
struct Follow {
    client: Client,
    namespace: String,
    sender: mpsc::Sender<LogLine>,
    cancel: CancellationToken,
}

impl Follow {
    async fn pods(self, selector: String) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut seen = BTreeSet::new();
        let mut pods = std::pin::pin!(
            watcher(api, watcher::Config::default().labels(&selector))
                .default_backoff()
                .applied_objects()
        );
        loop {
            let pod = tokio::select! {
                () = self.cancel.cancelled() => return,
                pod = pods.next() => pod,
            };
            match pod {
                Some(Ok(pod)) => {
                    if let Some(instance) = running_instance(&pod)
                        && seen.insert((instance.uid.clone(), instance.instance))
                    {
                        tokio::spawn(self.clone().container(instance));
                    }
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, %selector, "watching pods for their logs")
                }
                None => return,
            }
        }
    }

    /// One container instance: reconnects until its log has ended, and passes over lines it has handed on before.
    async fn container(self, instance: ContainerInstance) {
        let mut handed_on = 0;
        while !self.cancel.is_cancelled() {
            match self.read(&instance, &mut handed_on).await {
                Ok(()) => return,
                Err(error) if gone(&error) => return,
                Err(error) => {
                    tracing::debug!(%error, pod = instance.pod, "reading a log");
                    tokio::select! {
                        () = self.cancel.cancelled() => return,
                        () = tokio::time::sleep(std::time::Duration::from_millis(200)) => {}
                    }
                }
            }
        }
    }

    async fn read(
        &self,
        instance: &ContainerInstance,
        handed_on: &mut u64,
    ) -> Result<(), kube::Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = LogParams {
            container: Some(instance.container.clone()),
            follow: true,
            ..LogParams::default()
        };
        let stream = tokio::select! {
            () = self.cancel.cancelled() => return Ok(()),
            stream = api.log_stream(&instance.pod, &params) => stream?,
        };
        let mut lines = stream.lines();
        let mut number = 0;
        loop {
            let line = tokio::select! {
                () = self.cancel.cancelled() => return Ok(()),
                line = lines.try_next() => line.map_err(kube::Error::ReadEvents)?,
            };
            let Some(mut text) = line else { return Ok(()) };
            number += 1;
            if number <= *handed_on {
                continue;
            }
            *handed_on = number;
            truncate(&mut text);
            if self
                .sender
                .send(LogLine {
                    pod: instance.clone(),
                    text,
                })
                .await
                .is_err()
            {
                return Ok(());
            }
        }
    }
}

fn truncate(text: &mut String) {
    if text.len() > LINE_LIMIT {
        let mut end = LINE_LIMIT;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
}

fn gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// The instance of container `main` whose log can be read: it runs, or it has ended.
fn running_instance(pod: &Pod) -> Option<ContainerInstance> {
    let status = pod
        .status
        .as_ref()?
        .container_statuses
        .as_ref()?
        .iter()
        .find(|status| status.name == "main")?;
    let state = status.state.as_ref()?;
    if state.running.is_none() && state.terminated.is_none() {
        return None;
    }
    Some(ContainerInstance {
        pod: pod.metadata.name.clone()?,
        uid: pod.metadata.uid.clone()?,
        container: "main".to_owned(),
        instance: u32::try_from(status.restart_count).ok()?,
    })
}
