//! Children of a former life: every child is written down, and what is still alive at the next start is killed.
//!
//! The guards of [`child`](super::child) leave one hole, a child that was stopped when its parent died.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::pid::{ProcessHandle, boot_id, start_time};

/// How long a killed process may take to disappear.
const DISAPPEAR: Duration = Duration::from_secs(2);

/// One child as it is written down. Its id alone names nothing: ids are given again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRecord {
    pub pid: u32,
    /// Start time as the system tells it.
    pub started: String,
    /// The boot that start time counts from.
    pub boot: String,
    /// Which container it is, for people.
    pub container: String,
}

/// The folder of records.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

impl Records {
    /// Keeps records in `folder`, and makes it.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Records> {
        let folder = folder.into();
        super::files::make_private_folder(&folder)?;
        Ok(Records { folder })
    }

    /// Writes down a child that runs now; `None` when it has ended already.
    pub(super) fn add(&self, pid: u32, container: &str) -> io::Result<Option<RecordGuard>> {
        let Some(started) = start_time(pid) else {
            return Ok(None);
        };
        let record = ChildRecord {
            pid,
            started,
            boot: boot_id(),
            container: container.to_owned(),
        };
        let path = self.folder.join(format!("{pid}.json"));
        // Renamed into place: a kill between two writes must not leave half a record.
        let unfinished = self.folder.join(format!("{pid}.new"));
        std::fs::write(&unfinished, serde_json::to_vec(&record)?)?;
        std::fs::rename(&unfinished, &path)?;
        Ok(Some(RecordGuard { path }))
    }

    /// Kills what a former life left running and forgets its records; answers who was killed.
    pub fn sweep(&self) -> io::Result<Vec<ChildRecord>> {
        let mut killed = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if let Some(record) = read(&path).filter(kill) {
                killed.push(record);
            }
            std::fs::remove_file(&path)?;
        }
        let end = Instant::now() + DISAPPEAR;
        for record in &killed {
            while is_alive(record) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(killed)
    }
}

/// Forgets its record when the child was waited for.
#[derive(Debug)]
pub(super) struct RecordGuard {
    path: PathBuf,
}

impl Drop for RecordGuard {
    fn drop(&mut self) {
        // A record that stays is harmless: its start time matches no living process.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn read(path: &Path) -> Option<ChildRecord> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn is_alive(record: &ChildRecord) -> bool {
    record.boot == boot_id()
        && start_time(record.pid).is_some_and(|started| started == record.started)
}

fn kill(record: &ChildRecord) -> bool {
    // The handle first: what it names cannot change between the comparison and the signal.
    let Some(handle) = ProcessHandle::open(record.pid) else {
        return false;
    };
    if !is_alive(record) {
        return false;
    }
    handle.kill_group();
    true
}
