//! Volumes for claims on another control plane: a folder of this node each, announced as a PersistentVolume that its volume
//! controller binds.
//!
//! Only claims that leave the choice open are taken: no storage class, not even the empty one that means "a volume that an
//! administrator made", no selector, a file system. No path that the API names is ever removed, only a folder of this node.

use std::path::{Component, Path, PathBuf};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{DeleteParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::embedded::node::NODE_NAME;
use crate::kinds::{MANAGED_BY, MANAGED_BY_LABEL};

/// Leaves deleting to us: the volume controller deletes no folders of other machines.
const PROVISIONER: (&str, &str) = ("pv.kubernetes.io/provisioned-by", "eventlab.dev/node");

/// Makes and removes volumes until `cancel`; `folders` is where the node keeps its claims.
pub(super) async fn serve(client: Client, folders: PathBuf, cancel: CancellationToken) {
    let claims = watcher(
        Api::<PersistentVolumeClaim>::all(client.clone()),
        watcher::Config::default(),
    )
    .default_backoff()
    .applied_objects();
    let ours = format!("{MANAGED_BY_LABEL}={MANAGED_BY}");
    let volumes = watcher(
        Api::<PersistentVolume>::all(client.clone()),
        watcher::Config::default().labels(&ours),
    )
    .default_backoff()
    .applied_objects();
    let (mut claims, mut volumes) = (claims.boxed(), volumes.boxed());
    loop {
        let done = tokio::select! {
            () = cancel.cancelled() => return,
            claim = claims.next() => match claim {
                Some(Ok(claim)) if waits(&claim) => offer(&client, &folders, &claim).await,
                Some(Ok(_)) => Ok(()),
                Some(Err(error)) => {
                    tracing::warn!(%error, "watching claims");
                    Ok(())
                }
                None => return,
            },
            volume = volumes.next() => match volume {
                Some(Ok(volume)) => take_back(&client, &folders, &volume).await,
                Some(Err(error)) => {
                    tracing::warn!(%error, "watching volumes");
                    Ok(())
                }
                None => return,
            },
        };
        if let Err(error) = done {
            tracing::warn!(%error, "a volume for a claim");
        }
    }
}

/// Nobody has a volume for it yet, and nobody else is asked for one.
fn waits(claim: &PersistentVolumeClaim) -> bool {
    let Some(spec) = &claim.spec else {
        return false;
    };
    let named = spec
        .volume_name
        .as_ref()
        .is_some_and(|name| !name.is_empty());
    let particular = spec.storage_class_name.is_some()
        || spec.selector.is_some()
        || spec.volume_mode.as_deref() == Some("Block");
    !named && !particular && claim.metadata.deletion_timestamp.is_none()
}

/// Where a claim's files are, below the node's own folders; none where a part of it is no plain name.
fn folder(folders: &Path, namespace: &str, name: &str, uid: &str) -> Option<PathBuf> {
    let plain = |part: &str| {
        let mut parts = Path::new(part).components();
        matches!(
            (parts.next(), parts.next()),
            (Some(Component::Normal(only)), None) if only == part
        )
    };
    [namespace, name, uid]
        .into_iter()
        .all(plain)
        .then(|| folders.join(namespace).join(format!("{name}-{uid}")))
}

/// The folder of a volume that this node made for its claim: never another path, whatever the volume says.
fn own_folder(folders: &Path, volume: &PersistentVolume) -> Option<PathBuf> {
    let spec = volume.spec.as_ref()?;
    let claim = spec.claim_ref.as_ref()?;
    let ours = folder(
        folders,
        claim.namespace.as_deref()?,
        claim.name.as_deref()?,
        claim.uid.as_deref()?,
    )?;
    (Path::new(&spec.host_path.as_ref()?.path) == ours).then_some(ours)
}

async fn offer(
    client: &Client,
    folders: &Path,
    claim: &PersistentVolumeClaim,
) -> Result<(), kube::Error> {
    let Some(volume) = volume(folders, claim).map_err(kube::Error::SerdeError)? else {
        return Ok(());
    };
    let api: Api<PersistentVolume> = Api::all(client.clone());
    match api.create(&PostParams::default(), &volume).await {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        result => result.map(drop),
    }
}

fn volume(
    folders: &Path,
    claim: &PersistentVolumeClaim,
) -> Result<Option<PersistentVolume>, serde_json::Error> {
    let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
    let uid = claim.uid().unwrap_or_default();
    let Some(folder) = folder(folders, &namespace, &name, &uid) else {
        return Ok(None);
    };
    let spec = claim.spec.as_ref();
    let requests = spec
        .and_then(|spec| spec.resources.as_ref())
        .and_then(|resources| resources.requests.as_ref());
    let here = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE_NAME]});
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("eventlab-{uid}"),
            "labels": {MANAGED_BY_LABEL: MANAGED_BY},
            "annotations": {PROVISIONER.0: PROVISIONER.1},
        },
        "spec": {
            "capacity": {"storage": requests.and_then(|requests| requests.get("storage"))},
            "accessModes": spec.and_then(|spec| spec.access_modes.as_ref()),
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": uid},
            "hostPath": {"path": folder},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }))
    .map(Some)
}

/// A volume of this node whose claim is gone goes, with its folder.
async fn take_back(
    client: &Client,
    folders: &Path,
    volume: &PersistentVolume,
) -> Result<(), kube::Error> {
    let phase = volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let by_us = volume.annotations().get(PROVISIONER.0).map(String::as_str) == Some(PROVISIONER.1);
    if !by_us || !matches!(phase, Some("Released" | "Failed")) {
        return Ok(());
    }
    let Some(folder) = own_folder(folders, volume) else {
        return Ok(());
    };
    let api: Api<PersistentVolume> = Api::all(client.clone());
    match api
        .delete(&volume.name_any(), &DeleteParams::default())
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    // What cannot be removed is only garbage.
    let _ = tokio::fs::remove_dir_all(folder).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(spec: serde_json::Value) -> PersistentVolumeClaim {
        serde_json::from_value(
            json!({"metadata": {"name": "ledger", "namespace": "lab", "uid": "u-1"}, "spec": spec}),
        )
        .unwrap()
    }

    #[test]
    fn a_claim_of_nobody_gets_a_volume_of_this_node() {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}});
        let claim_ = claim(spec);
        assert!(waits(&claim_));
        let made = volume(Path::new("/state/volumes"), &claim_)
            .unwrap()
            .unwrap();
        let spec = made.spec.unwrap();
        assert_eq!(spec.claim_ref.unwrap().uid.as_deref(), Some("u-1"));
        assert_eq!(spec.capacity.unwrap()["storage"].0, "64Mi");
        assert_eq!(
            spec.host_path.unwrap().path,
            "/state/volumes/lab/ledger-u-1"
        );
        for other in [
            json!({"volumeName": "v"}),
            json!({"storageClassName": "fast"}),
            json!({"storageClassName": ""}),
            json!({"selector": {"matchLabels": {"disk": "ssd"}}}),
            json!({"volumeMode": "Block"}),
        ] {
            assert!(!waits(&claim(other.clone())), "{other}");
        }
        assert!(waits(&claim(json!({"volumeMode": "Filesystem"}))));
    }

    /// Whoever may write volumes on that server must not choose what is removed here.
    #[test]
    fn no_path_but_the_one_this_node_gave_is_removed() {
        let folders = Path::new("/state/volumes");
        let of = |path: &str, namespace: &str, name: &str, uid: &str| -> PersistentVolume {
            let claim = json!({"namespace": namespace, "name": name, "uid": uid});
            serde_json::from_value(json!({"metadata": {"name": "v"}, "spec": {"hostPath": {"path": path}, "claimRef": claim}}))
                .unwrap()
        };
        let ours = of("/state/volumes/lab/ledger-u-1", "lab", "ledger", "u-1");
        assert_eq!(
            own_folder(folders, &ours).as_deref(),
            Some(Path::new("/state/volumes/lab/ledger-u-1"))
        );
        for (path, namespace, name, uid) in [
            ("/etc", "lab", "ledger", "u-1"),
            ("/state/volumes", "lab", "ledger", "u-1"),
            ("/other/volumes/lab/ledger-u-1", "lab", "ledger", "u-1"),
            ("/state/volumes/../x-u", "..", "x", "u"),
            ("/state/volumes/lab/../../x-u", "lab", "../../x", "u"),
            ("/state/volumes/a/b/x-u", "a/b", "x", "u"),
            ("/x-u", "/", "x", "u"),
            ("/state/volumes/x-u", "", "x", "u"),
            ("/state/volumes/lab/x-", "lab", "x", ""),
        ] {
            let volume = of(path, namespace, name, uid);
            assert_eq!(own_folder(folders, &volume), None, "{path}");
        }
        let mut unclaimed = ours;
        unclaimed.spec.as_mut().unwrap().claim_ref = None;
        assert_eq!(own_folder(folders, &unclaimed), None);
    }
}
