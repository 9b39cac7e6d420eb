//! The Node object that stands for this program.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use super::addresses::AddressBook;
use super::{HOST_IP, NODE_NAME};

/// Annotation of the Node with the real sockets of all Service ports, as JSON.
pub const ADDRESSES_ANNOTATION: &str = "eventlab.dev/addresses";
/// Changes of the address book are written at most this often.
const INTERVAL: Duration = Duration::from_millis(200);

/// Makes the Node and says that it is ready.
pub(super) async fn register(client: &Client) -> Result<(), kube::Error> {
    let api = Api::<Node>::all(client.clone());
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": NODE_NAME, "labels": {
            "kubernetes.io/hostname": NODE_NAME,
            "kubernetes.io/os": std::env::consts::OS,
            "kubernetes.io/arch": architecture(),
        }},
    }))
    .map_err(kube::Error::SerdeError)?;
    match api.create(&PostParams::default(), &node).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
        Err(error) => return Err(error),
    }
    api.patch_status(
        NODE_NAME,
        &PatchParams::default(),
        &Patch::Merge(json!({"status": status()})),
    )
    .await?;
    Ok(())
}

/// Keeps the annotation with the real sockets up to date.
pub(super) async fn publish_addresses(client: Client, book: AddressBook) {
    let api = Api::<Node>::all(client);
    let mut changes = book.changes();
    let mut written = None;
    loop {
        let addresses = serde_json::to_string(&book.list()).unwrap_or_default();
        if written.as_ref() != Some(&addresses) {
            let patch = json!({"metadata": {"annotations": {ADDRESSES_ANNOTATION: addresses}}});
            match api
                .patch(NODE_NAME, &PatchParams::default(), &Patch::Merge(patch))
                .await
            {
                Ok(_) => written = Some(addresses),
                Err(error) => tracing::debug!(%error, "addresses not written"),
            }
        }
        sleep(INTERVAL).await;
        // Without a difference there is nothing to do; after a failed write the next change tries again.
        if written.is_some() && changes.changed().await.is_err() {
            return;
        }
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn status() -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let capacity = json!({"cpu": "2", "memory": "4Gi", "pods": "500", "ephemeral-storage": "10Gi"});
    json!({
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [{"type": "InternalIP", "address": HOST_IP}, {"type": "Hostname", "address": NODE_NAME}],
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "message": "the embedded node runs pods as threads and child processes of this program",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }],
        "nodeInfo": {
            "kubeletVersion": "v1.36.2+eventlab", "kubeProxyVersion": "", "containerRuntimeVersion": concat!("eventlab://", env!("CARGO_PKG_VERSION")),
            "operatingSystem": std::env::consts::OS, "architecture": architecture(),
            "osImage": "eventlab", "kernelVersion": "", "machineID": "", "systemUUID": "", "bootID": "",
        },
    })
}
