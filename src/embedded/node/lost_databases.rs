//! Databases that workloads kept in claims, and that are not there any more, or are other files.
//!
//! From above: [`record`] whenever the cluster stands still, [`lost`] before the node starts and they are made anew,
//! [`forget`] before the volumes are replaced. What came after the last record is not missed.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use rusqlite::{Connection, OpenFlags};

use super::files::{make_private_folder, write_private_file};
use super::volumes::claim_folder;

/// Bytes of the list that are read.
const LIMIT: u64 = 1 << 20;
/// So long one who looks waits for one who writes; then it is not known.
const PATIENCE: Duration = Duration::from_millis(200);

fn list(state_dir: &Path) -> PathBuf {
    state_dir.join("node").join("databases")
}

/// Keeps which databases there are, a line each: the path below the claims, and the number that tells the file from others
/// where it has one.
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
                Some(match number_of(&file) {
                    None | Some(0) => format!("{path}\n"),
                    Some(number) => format!("{path}\t{number}\n"),
                })
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
        for (path, number) in &recorded {
            let path = claims.join(path);
            let Ok(file) = path.strip_prefix(&folder) else {
                continue;
            };
            if let Some(how) = missing(&path).or_else(|| replaced(&path, *number)) {
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

/// A file that cannot be read is no other file: opening it says more.
fn replaced(path: &Path, recorded: Option<i32>) -> Option<&'static str> {
    let is_other = number_of(path)? != recorded?;
    is_other.then_some("is another file than the one that this session left")
}

/// What tells a database from others: a random number that whoever made it wrote into its header; 0 in those of older
/// versions.
fn number_of(path: &Path) -> Option<i32> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags).ok()?;
    database.busy_timeout(PATIENCE).ok()?;
    let pragma = "PRAGMA application_id";
    database.query_row(pragma, [], |row| row.get(0)).ok()
}

/// Paths below the claims and the files' numbers; a list that is damaged counts as far as it can be read.
fn recorded(state_dir: &Path) -> Vec<(PathBuf, Option<i32>)> {
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
    let parts = whole.map(|line| match line.split_once('\t') {
        Some((path, number)) => (PathBuf::from(path), number.parse().ok()),
        None => (PathBuf::from(line), None),
    });
    parts.filter(|(path, _)| plain(path)).collect()
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
