//! The stores of a cluster: which there are, and whether each is the one that this session left.
//!
//! Every start of a cluster is a life with a name of its own, which stands in each store and in the file `life`: a store that
//! was taken from somewhere else, or from an earlier life, names another one.

use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use super::api::{ApiServer, OpenError, private_file};
use super::bus::engine::{BusOpenError, EmbeddedBus};
use super::cluster::StartError;

/// The cluster's objects.
pub(super) const OBJECTS: &str = "cluster.db";
/// What lies on the bus.
pub(super) const MESSAGES: &str = "bus.db";
/// Made once both stores are open, so that it tells a first start from a later one.
pub(super) const PKI: &str = "pki";

/// The stores of a cluster, and what each holds.
const STORES: [(&str, &str); 2] = [
    (OBJECTS, "the cluster's objects"),
    (MESSAGES, "the messages and consumers of the bus"),
];

/// What was lost, a sentence a line, until the session has taken note of it: a store that was lost is made anew by the next
/// start, which may know no session (`cluster start`) or end before its checkpoint is written.
const LOST: &str = "lost";
/// Bytes of it that are read.
const LOST_LIMIT: u64 = 16 * 1024;

/// The name of the last life that took up both stores.
const LIFE: &str = "life";
/// Bytes of it that are read.
const LIFE_LIMIT: u64 = 64;
/// So long one who looks waits for one who writes; then it is not known.
const PATIENCE: Duration = Duration::from_millis(200);

/// Whose file a store is: the life that took it up last, and the one before, as `life` told it then. Both count, since a kill
/// may come before `life` tells the new one.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS life(id INTEGER PRIMARY KEY CHECK (id = 1), now TEXT NOT NULL, before TEXT NOT NULL) STRICT";

/// Stores that an earlier life of the cluster has made, and that are not there, are empty or are other files, now or at a
/// start that no session has taken note of; in sentences.
#[must_use]
pub fn lost_stores(state_dir: &Path) -> Vec<String> {
    let mut lost = gone_stores(state_dir);
    add(&mut lost, replaced_stores(state_dir));
    lost
}

/// Of them those that opening makes anew, and what was noted before.
pub(super) fn gone_stores(state_dir: &Path) -> Vec<String> {
    let mut lost = noted_losses(state_dir);
    add(&mut lost, missing_stores(state_dir));
    lost
}

/// Adds the sentences that are not there yet.
pub(super) fn add(lost: &mut Vec<String>, found: Vec<String>) {
    for text in found {
        if !lost.contains(&text) {
            lost.push(text);
        }
    }
}

fn noted_losses(state_dir: &Path) -> Vec<String> {
    // What cannot be read to its end is damaged, and what was read of it counts.
    let text = beginning(&state_dir.join(LOST), LOST_LIMIT);
    text.lines().map(str::to_owned).collect()
}

fn beginning(path: &Path, limit: u64) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        let _ = file.take(limit).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn missing_stores(state_dir: &Path) -> Vec<String> {
    if !state_dir.join(PKI).is_dir() {
        return Vec::new();
    }
    let found = STORES.iter().filter_map(|(file, holds)| {
        let how = match std::fs::metadata(state_dir.join(file)) {
            Ok(metadata) if metadata.len() > 0 => return None,
            Ok(_) => "is empty (0 bytes)",
            Err(error) if error.kind() == ErrorKind::NotFound => "is not there any more",
            // Opening it says more.
            Err(_) => return None,
        };
        Some(format!("{file} {how}: {holds} are lost"))
    });
    found.collect()
}

/// Before it cannot be seen any more.
pub(super) fn note_losses(state_dir: &Path, lost: &[String]) -> Result<(), StartError> {
    let path = state_dir.join(LOST);
    private_file::replace(&path, format!("{}\n", lost.join("\n")).as_bytes())
        .map_err(|source| StartError::Folder { path, source })
}

/// The session has taken note of what was lost.
pub(super) fn forget_losses(state_dir: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(state_dir.join(LOST)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Those whose file is not the one that this session left. A session that has no life yet, and one of an older version, misses
/// nothing.
pub(super) fn replaced_stores(state_dir: &Path) -> Vec<String> {
    let Some(life) = last_life(state_dir) else {
        return Vec::new();
    };
    let found = STORES.iter().filter_map(|(file, holds)| {
        let path = state_dir.join(file);
        let is_there = path.metadata().is_ok_and(|found| found.len() > 0);
        // One that cannot be read is refused when it is opened.
        let lives = is_there.then(|| lives_of(&path).ok()).flatten()?;
        let is_ours = lives.is_some_and(|lives| lives.contains(&life));
        (!is_ours).then(|| {
            format!("{file} is another file than the one that this session left: {holds} are lost")
        })
    });
    found.collect()
}

fn last_life(state_dir: &Path) -> Option<String> {
    let text = beginning(&state_dir.join(LIFE), LIFE_LIMIT);
    let life = text.trim();
    let is_name = life.len() == 32 && life.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| life.to_owned())
}

/// The lives that a store names; `None` when it names none. Nothing is written to it.
fn lives_of(store: &Path) -> rusqlite::Result<Option<[String; 2]>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(store, flags)?;
    connection.busy_timeout(PATIENCE)?;
    let table = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'life'";
    if connection.query_row(table, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(None);
    }
    let select = "SELECT now, before FROM life";
    let lives = connection.query_row(select, [], |row| Ok([row.get(0)?, row.get(1)?]));
    lives.optional()
}

/// Writes into an open store whose file it is.
pub(super) fn sign(store: &Connection, now: &str, before: &str) -> rusqlite::Result<()> {
    store.execute_batch(TABLE)?;
    let sql = "INSERT INTO life(id, now, before) VALUES (1, ?1, ?2) \
               ON CONFLICT (id) DO UPDATE SET now = excluded.now, before = excluded.before";
    store.execute(sql, params![now, before]).map(drop)
}

/// Begins a life: both stores are signed, then the file tells it.
pub(super) fn begin_life(
    state_dir: &Path,
    api: &ApiServer,
    bus: &EmbeddedBus,
) -> Result<(), StartError> {
    let before = last_life(state_dir).unwrap_or_default();
    let now = uuid::Uuid::new_v4().simple().to_string();
    api.sign(&now, &before).map_err(OpenError::Write)?;
    let unsigned = |error| BusOpenError::from_sqlite(&state_dir.join(MESSAGES), &error);
    bus.sign(&now, &before).map_err(unsigned)?;
    let path = state_dir.join(LIFE);
    private_file::replace(&path, now.as_bytes())
        .map_err(|source| StartError::Folder { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a full disk is told to be one.
    #[tokio::test]
    async fn a_bus_that_cannot_be_signed_is_told_with_its_cause() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(MESSAGES);
        drop(EmbeddedBus::open(&path).unwrap());
        let other = Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE life(x TEXT)").unwrap();
        drop(other);
        let api = ApiServer::open(&folder.path().join(OBJECTS), Default::default()).unwrap();
        let bus = EmbeddedBus::open(&path).unwrap();
        let error = begin_life(folder.path(), &api, &bus).unwrap_err();
        let StartError::Bus(BusOpenError::Failed { reason, .. }) = &error else {
            panic!("{error}");
        };
        assert!(reason.contains("life"), "{error}");
        assert!(!error.to_string().contains("disk full"), "{error}");
    }
}
