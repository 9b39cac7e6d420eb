//! Writes a pod's status to the API: always the newest, again until it is there.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// First and longest pause between tries.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// Status of one pod on its way to the API.
#[derive(Debug)]
pub(super) struct StatusWriter {
    wanted: watch::Sender<(u64, PodStatus)>,
    /// What was written last; closed when the pod is gone.
    written: watch::Receiver<Written>,
    task: JoinHandle<()>,
}

/// A write that was carried out.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    version: u64,
    /// resourceVersion of the pod after it.
    resource_version: u64,
}

impl StatusWriter {
    /// For the pod with this name and uid; another pod of the same name is never touched.
    pub(super) fn new(client: Client, namespace: &str, name: &str, uid: &str) -> StatusWriter {
        let (wanted, source) = watch::channel((0, PodStatus::default()));
        let (done, written) = watch::channel(Written::default());
        let api = Api::<Pod>::namespaced(client, namespace);
        let task = tokio::spawn(write(api, name.to_owned(), uid.to_owned(), source, done));
        StatusWriter {
            wanted,
            written,
            task,
        }
    }

    /// Replaces what is to be written, unless it is that already.
    pub(super) fn set(&self, status: PodStatus) {
        self.wanted.send_if_modified(|(version, wanted)| {
            let changed = *version == 0 || *wanted != status;
            if changed {
                *version += 1;
                *wanted = status;
            }
            changed
        });
    }

    /// Writes the status again if the API shows another one, as after it was set back to a snapshot.
    pub(super) fn compare(&self, pod: &Pod) {
        let written = *self.written.borrow();
        let current = written.version == self.wanted.borrow().0;
        // What was seen before the last write says nothing about it.
        if written.version == 0 || !current || resource_version(pod) <= written.resource_version {
            return;
        }
        let shown = pod.status.as_ref().map(essence);
        self.wanted.send_if_modified(|(version, wanted)| {
            let differs = shown.as_ref() != Some(&essence(wanted));
            *version += u64::from(differs);
            differs
        });
    }

    /// Waits until the last status was written, or the pod is gone.
    pub(super) async fn flush(&mut self) {
        let version = self.wanted.borrow().0;
        // Closed means that there is no pod to write to any more.
        let _ = self
            .written
            .wait_for(|written| written.version >= version)
            .await;
    }
}

impl Drop for StatusWriter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn write(
    api: Api<Pod>,
    name: String,
    uid: String,
    mut wanted: watch::Receiver<(u64, PodStatus)>,
    written: watch::Sender<Written>,
) {
    let mut pause = PAUSE.0;
    while wanted.changed().await.is_ok() {
        loop {
            let (version, status) = wanted.borrow_and_update().clone();
            match api
                .patch_status(&name, &PatchParams::default(), &patch(&uid, &status))
                .await
            {
                Ok(pod) => {
                    let resource_version = resource_version(&pod);
                    written.send_replace(Written {
                        version,
                        resource_version,
                    });
                    pause = PAUSE.0;
                    break;
                }
                Err(error) => {
                    if refused(&error) && is_gone(&api, &name, &uid).await {
                        return;
                    }
                    tracing::debug!(pod = name, %error, "status not written");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
            }
        }
    }
}

fn resource_version(pod: &Pod) -> u64 {
    pod.metadata
        .resource_version
        .as_deref()
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

/// What of a status belongs to the node alone, as the API writes it.
fn essence(status: &PodStatus) -> serde_json::Value {
    json!([
        status.phase,
        status.pod_ip,
        status.init_container_statuses,
        status.container_statuses
    ])
}

/// An answer that trying again may not change.
fn refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code))
}

/// Whether the pod is gone, or another one has its name by now.
async fn is_gone(api: &Api<Pod>, name: &str, uid: &str) -> bool {
    match api.get_metadata_opt(name).await {
        Ok(Some(found)) => found.metadata.uid.as_deref() != Some(uid),
        Ok(None) => true,
        Err(_) => false,
    }
}

/// The uid makes the server refuse the patch for any other pod. What a status no longer says must be taken out by name.
fn patch(uid: &str, status: &PodStatus) -> Patch<serde_json::Value> {
    let mut status = json!(status);
    if let Some(fields) = status.as_object_mut() {
        for field in ["reason", "message", "initContainerStatuses"] {
            fields.entry(field).or_insert(serde_json::Value::Null);
        }
    }
    Patch::Merge(json!({"metadata": {"uid": uid}, "status": status}))
}
