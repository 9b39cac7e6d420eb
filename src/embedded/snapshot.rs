//! Copies of cluster, bus and volumes, for going back to the start of a stage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};

use super::api::ApiServer;
use super::bus::engine::EmbeddedBus;
use super::bus::host::BusHost;

/// Why a copy was not made or put back.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("there is no snapshot `{0}`")]
    NotThere(String),
    #[error("{action} {path}: {reason}")]
    Files {
        action: &'static str,
        path: PathBuf,
        reason: String,
    },
    #[error("copy the cluster's objects: {0}")]
    Cluster(String),
    #[error("copy the bus: {0}")]
    Bus(String),
    #[error("start the node again: {0}")]
    Node(String),
}

fn files(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> SnapshotError {
    let path = path.to_owned();
    move |error| SnapshotError::Files {
        action,
        path: path.clone(),
        reason: error.to_string(),
    }
}

fn folder(state_dir: &Path, name: &str) -> PathBuf {
    let clean: String = name
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() || character == '-' {
                character
            } else {
                '_'
            }
        })
        .collect();
    state_dir.join("snapshots").join(clean)
}

/// The folder of a whole copy.
pub(super) fn find(state_dir: &Path, name: &str) -> Result<PathBuf, SnapshotError> {
    let folder = folder(state_dir, name);
    if folder.join("cluster.db").is_file() {
        Ok(folder)
    } else {
        Err(SnapshotError::NotThere(name.to_owned()))
    }
}

/// Makes a copy beside the old one of that name, then puts it in its place.
pub(super) fn make(
    state_dir: &Path,
    name: &str,
    api: &ApiServer,
    bus: &EmbeddedBus,
) -> Result<(), SnapshotError> {
    let target = folder(state_dir, name);
    let building = target.with_extension("new");
    remove(&building)?;
    private_folder(&building).map_err(files("make", &building))?;
    copy_tree(&state_dir.join("volumes"), &building.join("volumes"))?;
    bus.snapshot(&building.join("bus.db"))
        .map_err(|error| SnapshotError::Bus(error.to_string()))?;
    api.snapshot(&building.join("cluster.db"))
        .map_err(|error| SnapshotError::Cluster(error.to_string()))?;
    let old = put_aside(&target)?;
    std::fs::rename(&building, &target).map_err(files("rename", &building))?;
    remove(&old)
}

/// Removes the copy of that name, if there is one.
pub(super) fn forget(state_dir: &Path, name: &str) -> Result<(), SnapshotError> {
    remove(&put_aside(&folder(state_dir, name))?)
}

/// A copy that is half removed must not bear the name of a whole one. Answers the name that it has then.
fn put_aside(copy: &Path) -> Result<PathBuf, SnapshotError> {
    let old = copy.with_extension("old");
    remove(&old)?;
    match std::fs::rename(copy, &old) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(files("rename", copy)(error))
        }
        _ => Ok(old),
    }
}

/// Puts a copy back. The volumes come first: they are the part that can fail half-way, and then nothing else is changed.
pub(super) fn restore(
    state_dir: &Path,
    copy: &Path,
    api: &ApiServer,
    bus: &Arc<BusHost>,
) -> Result<(), SnapshotError> {
    let volumes = state_dir.join("volumes");
    let incoming = volumes.with_extension("new");
    remove(&incoming)?;
    copy_tree(&copy.join("volumes"), &incoming)?;
    remove(&volumes)?;
    std::fs::rename(&incoming, &volumes).map_err(files("rename", &incoming))?;
    bus.restore(&copy.join("bus.db"))
        .map_err(|error| SnapshotError::Bus(error.to_string()))?;
    api.restore(&copy.join("cluster.db"))
        .map_err(|error| SnapshotError::Cluster(error.to_string()))
}

/// Makes a folder (0700) and those above it.
pub(super) fn private_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn remove(path: &Path) -> Result<(), SnapshotError> {
    match std::fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(files("remove", path)(error)),
    }
}

/// Copies folders and files; SQLite databases through SQLite, so that what stands in their write-ahead log comes along.
fn copy_tree(from: &Path, to: &Path) -> Result<(), SnapshotError> {
    let mut pending = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = pending.pop() {
        private_folder(&to).map_err(files("make", &to))?;
        let entries = match std::fs::read_dir(&from) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(files("read", &from)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(files("read", &from))?;
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type().map_err(files("read", &source))?;
            if kind.is_dir() {
                pending.push((source, target));
            } else if kind.is_file() {
                copy_file(&source, &target)?;
            }
        }
    }
    Ok(())
}

fn copy_file(source: &Path, target: &Path) -> Result<(), SnapshotError> {
    let name = source
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if name.ends_with("-wal") || name.ends_with("-shm") {
        return Ok(());
    }
    if !is_database(source) {
        return match std::fs::copy(source, target) {
            Ok(_) => Ok(()),
            // A file that went away meanwhile was not there.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(files("copy", source)(error)),
        };
    }
    let failed = |error: rusqlite::Error| SnapshotError::Files {
        action: "copy",
        path: source.to_owned(),
        reason: error.to_string(),
    };
    let database = Connection::open_with_flags(
        source,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(failed)?;
    database
        .busy_timeout(std::time::Duration::from_secs(5))
        .map_err(failed)?;
    database
        .execute("VACUUM INTO ?1", [target.to_string_lossy()])
        .map_err(failed)?;
    Ok(())
}

fn is_database(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = [0; 16];
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut head))
        .is_ok()
        && head == *b"SQLite format 3\0"
}
