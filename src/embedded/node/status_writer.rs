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
    /// Version that was written last; closed when the pod is gone.
    written: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl StatusWriter {
    /// For the pod with this name and uid; another pod of the same name is never touched.
    pub(super) fn new(client: Client, namespace: &str, name: &str, uid: &str) -> StatusWriter {
        let (wanted, source) = watch::channel((0, PodStatus::default()));
        let (done, written) = watch::channel(0);
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

    /// Waits until the last status was written, or the pod is gone.
    pub(super) async fn flush(&mut self) {
        let version = self.wanted.borrow().0;
        // Closed means that there is no pod to write to any more.
        let _ = self.written.wait_for(|written| *written >= version).await;
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
    written: watch::Sender<u64>,
) {
    let mut pause = PAUSE.0;
    while wanted.changed().await.is_ok() {
        loop {
            let (version, status) = wanted.borrow_and_update().clone();
            match api
                .patch_status(&name, &PatchParams::default(), &patch(&uid, &status))
                .await
            {
                Ok(_) => {
                    written.send_replace(version);
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
