//! A pod's volumes as folders of the host.
//!
//! Claims live under `volumes/`, everything else under the pod's own folder and goes with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    Container, DownwardAPIVolumeFile, KeyToPath, PersistentVolumeClaim, Pod, Volume,
    VolumeProjection,
};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::fields::{Placement, field};
use super::files::{make_private_folder, write_private_file};
use super::mounts::{Mount, Mounts, normalize};
use super::refuse::is_relative;
use super::sources::{Data, SetupError, Sources};
use super::tokens::Tokens;

/// Where containers find the credentials of their service account.
pub const SERVICE_ACCOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The ConfigMap with the cluster's CA that every namespace has.
const ROOT_CA: &str = "kube-root-ca.crt";

/// What setting up a pod's volumes needs.
pub(super) struct Setup<'a> {
    pub client: &'a Client,
    pub pod: &'a Pod,
    pub placement: &'a Placement,
    /// The pod's own folder.
    pub folder: &'a Path,
    /// Folder of all claims.
    pub claims: &'a Path,
    pub tokens: &'a Tokens,
    /// The cluster's CA certificate, PEM.
    pub ca: &'a str,
}

/// The folder of a claim, below the folder of all claims.
pub(super) fn claim_folder(
    claims: &Path,
    namespace: &str,
    claim: &PersistentVolumeClaim,
) -> PathBuf {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (name, uid) = (text(&claim.metadata.name), text(&claim.metadata.uid));
    claims.join(namespace).join(format!("{name}-{uid}"))
}

/// Host folders of a pod's volumes, by name; under an empty name the service account's credentials.
pub(super) type Folders = BTreeMap<String, PathBuf>;

impl Setup<'_> {
    /// Makes and fills all volumes; an error names the volume and may go away by itself.
    pub(super) async fn run(&self) -> Result<Folders, SetupError> {
        let mut folders = Folders::new();
        let spec = self.pod.spec.as_ref();
        for volume in spec
            .and_then(|spec| spec.volumes.as_ref())
            .into_iter()
            .flatten()
        {
            let folder = self.volume(volume).await.map_err(|error| {
                SetupError(format!(
                    "MountVolume.SetUp failed for volume {:?} : {error}",
                    volume.name
                ))
            })?;
            folders.insert(volume.name.clone(), folder);
        }
        if spec.and_then(|spec| spec.automount_service_account_token) != Some(false) {
            folders.insert(String::new(), self.credentials().await?);
        }
        Ok(folders)
    }

    async fn volume(&self, volume: &Volume) -> Result<PathBuf, SetupError> {
        if let Some(claim) = &volume.persistent_volume_claim {
            return self.claim(&claim.claim_name).await;
        }
        let folder = self.folder.join("volumes").join(&volume.name);
        make_private_folder(&folder).map_err(|error| disk(&folder, &error))?;
        let mut sources = Sources::default();
        if let Some(source) = &volume.config_map {
            let optional = source.optional.unwrap_or(false);
            sources
                .add_config_map(self.client, self.namespace(), &source.name)
                .await?;
            let data = sources.config_map(&source.name, optional)?;
            write_items(&folder, data, source.items.as_deref(), optional)?;
        }
        if let Some(source) = &volume.secret {
            let (name, optional) = (
                source.secret_name.as_deref().unwrap_or_default(),
                source.optional.unwrap_or(false),
            );
            sources
                .add_secret(self.client, self.namespace(), name)
                .await?;
            write_items(
                &folder,
                sources.secret(name, optional)?,
                source.items.as_deref(),
                optional,
            )?;
        }
        if let Some(source) = &volume.downward_api {
            self.write_fields(&folder, source.items.as_deref().unwrap_or_default())?;
        }
        if let Some(source) = &volume.projected {
            for projection in source.sources.iter().flatten() {
                self.project(&folder, projection).await?;
            }
        }
        Ok(folder)
    }

    /// The folder of a claim; there is one as soon as the claim exists, and the claim is bound by that.
    async fn claim(&self, name: &str) -> Result<PathBuf, SetupError> {
        let api = Api::<PersistentVolumeClaim>::namespaced(self.client.clone(), self.namespace());
        let found = api.get_opt(name).await;
        let found = found
            .map_err(|error| SetupError(format!("get persistentvolumeclaim {name:?}: {error}")))?;
        let claim =
            found.ok_or_else(|| SetupError(format!("persistentvolumeclaim {name:?} not found")))?;
        let folder = claim_folder(self.claims, self.namespace(), &claim);
        make_private_folder(&folder).map_err(|error| disk(&folder, &error))?;
        let status = claim.status.as_ref();
        if status.and_then(|status| status.phase.as_deref()) != Some("Bound") {
            let spec = claim.spec.as_ref();
            let capacity = spec
                .and_then(|spec| spec.resources.as_ref())
                .and_then(|resources| resources.requests.as_ref());
            let modes = spec.and_then(|spec| spec.access_modes.as_ref());
            let bound =
                json!({"status": {"phase": "Bound", "accessModes": modes, "capacity": capacity}});
            // Only for show: the claim is usable whether or not this is written.
            let _ = api
                .patch_status(name, &PatchParams::default(), &Patch::Merge(bound))
                .await;
        }
        Ok(folder)
    }

    async fn project(
        &self,
        folder: &Path,
        projection: &VolumeProjection,
    ) -> Result<(), SetupError> {
        let mut sources = Sources::default();
        if let Some(source) = &projection.config_map {
            let optional = source.optional.unwrap_or(false);
            sources
                .add_config_map(self.client, self.namespace(), &source.name)
                .await?;
            let ca = Data::from([("ca.crt".to_owned(), self.ca.as_bytes().to_vec())]);
            let data = match sources.config_map(&source.name, optional) {
                Err(_) if source.name == ROOT_CA => Some(&ca),
                found => found?,
            };
            write_items(folder, data, source.items.as_deref(), optional)?;
        }
        if let Some(source) = &projection.secret {
            let optional = source.optional.unwrap_or(false);
            sources
                .add_secret(self.client, self.namespace(), &source.name)
                .await?;
            write_items(
                folder,
                sources.secret(&source.name, optional)?,
                source.items.as_deref(),
                optional,
            )?;
        }
        if let Some(source) = &projection.downward_api {
            self.write_fields(folder, source.items.as_deref().unwrap_or_default())?;
        }
        if let Some(source) = &projection.service_account_token {
            let token = self
                .tokens
                .for_audience(self.client, source.audience.as_deref())
                .await?;
            write(folder, &source.path, token.as_bytes())?;
        }
        Ok(())
    }

    /// The folder that every container finds at [`SERVICE_ACCOUNT_PATH`].
    async fn credentials(&self) -> Result<PathBuf, SetupError> {
        let folder = self.folder.join("serviceaccount");
        make_private_folder(&folder).map_err(|error| disk(&folder, &error))?;
        let token = self.tokens.for_audience(self.client, None).await?;
        write(&folder, "token", token.as_bytes())?;
        write(&folder, "namespace", self.namespace().as_bytes())?;
        write(&folder, "ca.crt", self.ca.as_bytes())?;
        Ok(folder)
    }

    fn write_fields(
        &self,
        folder: &Path,
        items: &[DownwardAPIVolumeFile],
    ) -> Result<(), SetupError> {
        for item in items {
            let Some(reference) = &item.field_ref else {
                return Err(SetupError(
                    "resourceFieldRef is not supported on the embedded cluster".to_owned(),
                ));
            };
            let value =
                field(&reference.field_path, self.pod, self.placement).map_err(SetupError)?;
            write(folder, &item.path, value.as_bytes())?;
        }
        Ok(())
    }

    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }
}

/// The mounts of one container.
pub(super) fn mounts(
    container: &Container,
    folders: &Folders,
    root: PathBuf,
) -> Result<Mounts, SetupError> {
    let mut mounts = Vec::new();
    if let Some(credentials) = folders.get("") {
        mounts.push(Mount {
            path: SERVICE_ACCOUNT_PATH.to_owned(),
            host: credentials.clone(),
        });
    }
    for asked in container.volume_mounts.iter().flatten() {
        let Some(folder) = folders.get(&asked.name) else {
            return Err(SetupError(format!("volume {:?} is not set up", asked.name)));
        };
        let host = match asked.sub_path.as_deref().filter(|path| !path.is_empty()) {
            Some(path) => sub_path(folder, path)?,
            None => folder.clone(),
        };
        let path = normalize(&asked.mount_path);
        // A volume of the pod's own at the credentials' place takes it.
        mounts.retain(|mount: &Mount| mount.path != path);
        mounts.push(Mount { path, host });
    }
    Ok(Mounts::new(mounts, root))
}

/// A folder or file inside a volume, made as a folder when it is not there; no link leads out of the volume.
fn sub_path(volume: &Path, path: &str) -> Result<PathBuf, SetupError> {
    let mut folder = volume.to_path_buf();
    for part in path.split('/') {
        folder.push(part);
        if std::fs::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(SetupError(format!(
                "subPath {path:?} leads through a symbolic link"
            )));
        }
    }
    if !folder.exists() {
        make_private_folder(&folder).map_err(|error| disk(&folder, &error))?;
    }
    Ok(folder)
}

/// Writes all keys, or the listed ones under their paths.
fn write_items(
    folder: &Path,
    data: Option<&Data>,
    items: Option<&[KeyToPath]>,
    optional: bool,
) -> Result<(), SetupError> {
    let Some(data) = data else { return Ok(()) };
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return data
            .iter()
            .try_for_each(|(key, value)| write(folder, key, value));
    };
    for item in items {
        match data.get(&item.key) {
            Some(value) => write(folder, &item.path, value)?,
            None if optional => {}
            None => {
                return Err(SetupError(format!(
                    "references non-existent config key: {}",
                    item.key
                )));
            }
        }
    }
    Ok(())
}

fn write(folder: &Path, path: &str, content: &[u8]) -> Result<(), SetupError> {
    if !is_relative(path) {
        return Err(SetupError(format!(
            "path {path:?} must stay inside the volume"
        )));
    }
    let file = folder.join(path);
    if let Some(parent) = file.parent() {
        make_private_folder(parent).map_err(|error| disk(parent, &error))?;
    }
    write_private_file(&file, content).map_err(|error| disk(&file, &error))
}

fn disk(path: &Path, error: &std::io::Error) -> SetupError {
    SetupError(format!("write {}: {error}", path.display()))
}
