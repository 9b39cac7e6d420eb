//! One writer a session: a locked file that says who holds it. The system gives the lock free when the process ends.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::FilesError;

/// Name of the file in the session directory.
pub const LOCK: &str = "lock";
/// The holder's line is never longer.
const HOLDER_LIMIT: u64 = 4096;

/// Who writes a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: Option<u32>,
    pub since: Option<Timestamp>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => f.write_str("another process")?,
        }
        match self.since {
            Some(since) => write!(f, " since {since:.0}"),
            None => Ok(()),
        }
    }
}

/// The lock itself; dropping it gives the session free.
#[derive(Debug)]
pub(super) struct SessionLock {
    _file: File,
}

impl SessionLock {
    pub fn take(dir: &Path, now: Timestamp) -> Result<SessionLock, FilesError> {
        let path = dir.join(LOCK);
        let failed = |error| FilesError::io("lock the session with", &path, error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match lock_soon(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(FilesError::Held {
                    dir: dir.to_owned(),
                    holder: read_holder(&mut file),
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let holder = Holder {
            pid: Some(std::process::id()),
            since: Some(now),
        };
        let line = serde_json::to_vec(&holder)?;
        file.set_len(0).map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        file.write_all(&line).map_err(failed)?;
        Ok(SessionLock { _file: file })
    }
}

/// Locks, and rides out a reader that only asks who holds it (see [`holder`]).
fn lock_soon(file: &File) -> Result<(), TryLockError> {
    for _ in 0..5 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            decided => return decided,
        }
    }
    file.try_lock()
}

/// Who holds the session in this directory; `None` when nobody does.
#[must_use]
pub fn holder(dir: &Path) -> Option<Holder> {
    let path = dir.join(LOCK);
    // Whoever opens a pipe waits for somebody at its other end.
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    let mut file = is_file.then(|| File::open(path).ok()).flatten()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(read_holder(&mut file)),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

fn read_holder(file: &mut File) -> Holder {
    let mut text = String::new();
    let read = file.take(HOLDER_LIMIT).read_to_string(&mut text);
    let unknown = Holder {
        pid: None,
        since: None,
    };
    match read {
        Ok(_) => serde_json::from_str(&text).unwrap_or(unknown),
        Err(_) => unknown,
    }
}
