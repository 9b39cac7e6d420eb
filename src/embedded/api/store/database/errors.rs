//! What can be wrong with `cluster.db`, and what to do about it.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why `cluster.db` was refused. It was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "cannot open the cluster database {path}: {detail}; check that the directory exists and may be written"
    )]
    Unreachable { path: PathBuf, detail: String },
    #[error(
        "cannot write the cluster database {path}: {detail}; is its disk full (`df`)? Free some space, or choose another --state-dir"
    )]
    NoSpace { path: PathBuf, detail: String },
    #[error(
        "cannot write the cluster database {path}: it is read-only; make it writable or choose another --state-dir"
    )]
    ReadOnly { path: PathBuf },
    #[error(
        "the cluster database {path} is in use by another eventlab; stop that one or choose another --session"
    )]
    Locked { path: PathBuf },
    #[error(
        "the cluster database {path} is damaged ({detail}); it was left as it is: move it away, and {path}-wal if it is there, to start with an empty cluster"
    )]
    Damaged { path: PathBuf, detail: String },
    #[error(
        "the file {path} is not a cluster database of eventlab; it was left as it is: move it away to start with an empty cluster, or choose another --state-dir"
    )]
    Foreign { path: PathBuf },
    #[error(
        "the cluster database {path} was written by a newer eventlab (format {found}, this one knows {known}); use that version"
    )]
    Newer {
        path: PathBuf,
        found: i32,
        known: i32,
    },
    #[error("cannot prepare the cluster database: {0}")]
    Write(#[from] DatabaseError),
}

impl OpenError {
    pub(super) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Locked { path },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => OpenError::ReadOnly { path },
            Some(ErrorCode::NotADatabase) => OpenError::Foreign { path },
            Some(ErrorCode::CannotOpen) => OpenError::Unreachable {
                path,
                detail: error.to_string(),
            },
            // A file system without room for the journal's index answers with an I/O error, not with "full".
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => OpenError::NoSpace {
                path,
                detail: error.to_string(),
            },
            _ => OpenError::Damaged {
                path,
                detail: error.to_string(),
            },
        }
    }
}

/// Why the open database could not be read or written. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} in {path}: {detail}; {next}")]
pub struct DatabaseError {
    pub action: &'static str,
    pub path: PathBuf,
    pub detail: String,
    pub next: &'static str,
}

impl DatabaseError {
    pub(super) fn from_sqlite(action: &'static str, path: &Path, error: &rusqlite::Error) -> Self {
        let next = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => "free disk space and try again",
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                "make the file and its directory writable and try again"
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "end whatever else has the file open and try again"
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                "end eventlab and move the file away: the next start begins with an empty cluster"
            }
            _ => "check the disk and try again",
        };
        DatabaseError {
            action,
            path: path.to_owned(),
            detail: error.to_string(),
            next,
        }
    }

    pub(super) fn closed(action: &'static str, path: &Path) -> Self {
        DatabaseError {
            action,
            path: path.to_owned(),
            detail: "the API server was stopped".to_owned(),
            next: "start the cluster again",
        }
    }

    pub(super) fn exists(action: &'static str, path: &Path) -> Self {
        DatabaseError {
            action,
            path: path.to_owned(),
            detail: "the file exists already".to_owned(),
            next: "choose another name",
        }
    }
}
