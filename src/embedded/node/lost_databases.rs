//! Databases that served when the cluster was left, and that are not there any more.
//!
//! From above: [`lost_databases`], before the node starts and makes them anew.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaim, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::returning::served;
use super::volumes::claim_folder;
use crate::kinds::WORKLOAD_IMAGE;

/// A database in a claim.
struct Database {
    namespace: String,
    pod: String,
    claim: String,
    /// Below the claim's folder.
    file: PathBuf,
}

/// What was lost, in sentences: a workload that was ready had opened its database, and the file is gone or empty.
///
/// # Errors
/// The API cannot be asked.
pub async fn lost_databases(state_dir: &Path, client: Client) -> Result<Vec<String>, kube::Error> {
    let claims = state_dir.join("volumes");
    let pods = Api::<Pod>::all(client.clone())
        .list(&ListParams::default())
        .await?;
    let ready = pods.items.iter().filter(|pod| served(pod));
    let mut lost = Vec::new();
    for database in ready.flat_map(databases) {
        let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &database.namespace);
        let Some(claim) = api.get_opt(&database.claim).await? else {
            continue;
        };
        let folder = claim_folder(&claims, &database.namespace, &claim);
        let how = match std::fs::metadata(folder.join(&database.file)) {
            Ok(metadata) if metadata.len() > 0 => continue,
            Ok(_) => "is empty (0 bytes)",
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "is not there any more",
            // Opening it says more.
            Err(_) => continue,
        };
        lost.push(format!(
            "{} of pod {} (volume {}) {how}: the rows in it are lost",
            database.file.display(),
            database.pod,
            database.claim
        ));
    }
    Ok(lost)
}

/// The databases that a pod's containers serve from claims.
fn databases(pod: &Pod) -> Vec<Database> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let workloads =
        containers.filter(|container| container.image.as_deref() == Some(WORKLOAD_IMAGE));
    workloads
        .flat_map(|container| paths(container).map(move |path| (container, path)))
        .filter_map(|(container, path)| {
            let (claim, file) = place(pod, container, path)?;
            Some(Database {
                namespace: pod.namespace().unwrap_or_default(),
                pod: pod.name_any(),
                claim,
                file,
            })
        })
        .collect()
}

/// What stands behind each `--db`.
fn paths(container: &Container) -> impl Iterator<Item = &str> {
    let args = container.args.as_deref().unwrap_or_default();
    args.windows(2).filter_map(|pair| match pair {
        [option, path] if option == "--db" => Some(path.as_str()),
        _ => None,
    })
}

/// The claim that a path of a container lies in, and the rest of the path.
fn place(pod: &Pod, container: &Container, path: &str) -> Option<(String, PathBuf)> {
    let mounts = container.volume_mounts.iter().flatten();
    let (mount, rest) = mounts
        .filter_map(|mount| Some((mount, Path::new(path).strip_prefix(&mount.mount_path).ok()?)))
        .min_by_key(|(_, rest)| rest.components().count())?;
    let plain = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
    if mount.sub_path.is_some() || mount.sub_path_expr.is_some() || !rest.components().all(plain) {
        return None;
    }
    let volumes = pod.spec.as_ref()?.volumes.as_ref()?;
    let volume = volumes.iter().find(|volume| volume.name == mount.name)?;
    let claim = volume.persistent_volume_claim.as_ref()?;
    Some((claim.claim_name.clone(), rest.to_path_buf()))
}
