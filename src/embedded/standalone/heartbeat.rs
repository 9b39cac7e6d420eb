//! The signs of life by which another control plane knows that a node is there: a Lease, and the node's own status.
//!
//! Without them kube-controller-manager takes the node for lost after 40 seconds and drives its pods away.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::embedded::node::NODE_NAME;

const NAMESPACE: &str = "kube-node-lease";
/// As a kubelet's (seconds).
const LEASE_SECONDS: i32 = 40;
const RENEW: Duration = Duration::from_secs(10);

/// Tells where the node can be asked for logs and streams.
///
/// # Errors
/// The API server refuses it.
pub(super) async fn announce(client: &Client, kubelet: SocketAddr) -> Result<(), kube::Error> {
    let status = json!({
        "addresses": [{"type": "InternalIP", "address": kubelet.ip().to_string()}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port()}},
    });
    patch(client, status).await
}

/// Renews the Lease until `cancel`. An API server without Leases needs none.
pub(super) async fn keep(client: Client, cancel: CancellationToken) {
    let api: Api<Lease> = Api::namespaced(client, NAMESPACE);
    loop {
        match renew(&api).await {
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "renewing the node's lease"),
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(RENEW) => {}
        }
    }
}

async fn renew(api: &Api<Lease>) -> Result<(), kube::Error> {
    let spec = json!({
        "holderIdentity": NODE_NAME,
        "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
    });
    let renewed = Patch::Merge(json!({"spec": spec.clone()}));
    match api
        .patch(NODE_NAME, &PatchParams::default(), &renewed)
        .await
    {
        Ok(_) => return Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error),
    }
    let lease = json!({"metadata": {"name": NODE_NAME}, "spec": spec});
    let lease: Lease = serde_json::from_value(lease).map_err(kube::Error::SerdeError)?;
    match api.create(&PostParams::default(), &lease).await {
        // Without the namespace nobody looks at leases there.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => result.map(drop),
    }
}

/// Says that the node takes no more pods.
pub(super) async fn leave(client: &Client) {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({"conditions": [{
        "type": "Ready", "status": "False", "reason": "NodeStopped", "message": "`eventlab node` has ended",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }]});
    if let Err(error) = patch(client, status).await {
        tracing::warn!(%error, "saying that the node ends");
    }
}

async fn patch(client: &Client, status: Value) -> Result<(), kube::Error> {
    let api: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(NODE_NAME, &PatchParams::default(), &patch)
        .await
        .map(drop)
}
