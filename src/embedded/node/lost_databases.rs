//! Databases that workloads kept in claims, and that are not there any more.
//!
//! From above: [`record`] whenever the cluster stands still, [`lost`] before the node starts and they are made anew,
//! [`forget`] before the volumes are replaced. What came after the last record is not missed.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::files::{make_private_folder, write_private_file};
use super::volumes::claim_folder;

/// Bytes of the list that are read.
const LIMIT: u64 = 1 << 20;

fn list(state_dir: &Path) -> PathBuf {
    state_dir.join("node").join("databases")
}

/// Keeps which databases there are, a path below the claims a line.
///
/// # Errors
/// The list cannot be written.
pub fn record(state_dir: &Path) -> std::io::Result<()> {
    let claims = state_dir.join("volumes");
    let mut paths = BTreeSet::new();
    for namespace in folders(&claims) {
        for claim in folders(&namespace) {
            paths.extend(files(&claim).filter_map(|file| {
                let path = file.strip_prefix(&claims).ok()?.to_str()?;
                Some(format!("{path}\n"))
            }));
        }
    }
    let lines: String = paths.into_iter().collect();
    make_private_folder(&state_dir.join("node"))?;
    write_private_file(&list(state_dir), lines.as_bytes())
}

/// Misses nothing until the next record.
///
/// # Errors
/// The list cannot be removed.
pub fn forget(state_dir: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(list(state_dir)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What was lost of the claims that the cluster still has, in sentences.
///
/// # Errors
/// The API cannot be asked.
pub async fn lost(state_dir: &Path, client: Client) -> Result<Vec<String>, kube::Error> {
    let recorded = recorded(state_dir);
    if recorded.is_empty() {
        return Ok(Vec::new());
    }
    let claims = state_dir.join("volumes");
    let api = Api::<PersistentVolumeClaim>::all(client);
    let mut lost = Vec::new();
    for claim in api.list(&ListParams::default()).await?.items {
        let folder = claim_folder(&claims, &claim.namespace().unwrap_or_default(), &claim);
        for path in recorded.iter().map(|path| claims.join(path)) {
            let Ok(file) = path.strip_prefix(&folder) else {
                continue;
            };
            if let Some(how) = missing(&path) {
                lost.push(format!(
                    "{} of volume {} {how}: the rows in it are lost",
                    file.display(),
                    claim.name_any()
                ));
            }
        }
    }
    Ok(lost)
}

fn missing(path: &Path) -> Option<&'static str> {
    match std::fs::metadata(path) {
        Ok(metadata) => (metadata.len() == 0).then_some("is empty (0 bytes)"),
        Err(error) if error.kind() == ErrorKind::NotFound => Some("is not there any more"),
        // Opening it says more.
        Err(_) => None,
    }
}

/// Paths below the claims; a list that is damaged counts as far as it can be read.
fn recorded(state_dir: &Path) -> Vec<PathBuf> {
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(list(state_dir)) {
        // As above.
        let _ = file.take(LIMIT).read_to_end(&mut bytes);
    }
    let plain = |path: &PathBuf| {
        let mut parts = path.components();
        parts.all(|part| matches!(part, Component::Normal(_)))
    };
    let text = String::from_utf8_lossy(&bytes);
    // A line without its end may be a part of a path.
    let whole = text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'));
    whole.map(PathBuf::from).filter(plain).collect()
}

fn folders(path: &Path) -> impl Iterator<Item = PathBuf> {
    entries(path).filter(|path| path.is_dir())
}

/// Databases in a folder that hold something.
fn files(path: &Path) -> impl Iterator<Item = PathBuf> {
    entries(path).filter(|path| {
        let is_database = path.extension().is_some_and(|extension| extension == "db");
        is_database && path.is_file() && missing(path).is_none()
    })
}

fn entries(path: &Path) -> impl Iterator<Item = PathBuf> {
    let read = std::fs::read_dir(path).into_iter().flatten().flatten();
    read.map(|entry| entry.path())
}
