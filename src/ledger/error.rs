//! Why the ledger did not do what was asked, in words that say what to do next.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// What went wrong with a ledger file or a request.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The order breaks a rule of the ledger; nothing was written.
    #[error("{field} {reason}")]
    Invalid { field: &'static str, reason: String },
    #[error("cannot open ledger {}: {reason}; check that its directory exists, and that the file system may be written", path.display())]
    Open { path: PathBuf, reason: String },
    #[error("there is no ledger at {}; the first `eventlab ledger apply` makes it", .0.display())]
    Missing(PathBuf),
    #[error("ledger {} is damaged or not a ledger ({reason}); move it away or restore a copy", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("ledger {} was not written: the disk or its size limit is full; make room and run again", .0.display())]
    Full(PathBuf),
    #[error("ledger {} stayed locked by another process; run again", .0.display())]
    Busy(PathBuf),
    #[error("ledger {} may not be written; check the mode of the file and its directory", .0.display())]
    ReadOnly(PathBuf),
    #[error(
        "ledger {} was removed or replaced while it was in use: what stood in it cannot be read any more, and what is missing from the file there now says nothing; put it back, or start its reader anew", .0.display()
    )]
    Gone(PathBuf),
    #[error(
        "ledger {} has schema version {found}, this eventlab knows up to {known}; use the newer eventlab", path.display()
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    /// The claim was taken over, settled, or its lease is over.
    #[error("order {order_id} {action} is not claimed by this run any more; nothing was written")]
    NotOwner { order_id: String, action: String },
    #[error("ledger {}: {source}", path.display())]
    Sql {
        path: PathBuf,
        source: rusqlite::Error,
    },
}

impl LedgerError {
    /// Whether it lies with the file and its disk alone, so that it says nothing of an order.
    #[must_use]
    pub fn is_of_the_environment(&self) -> bool {
        match self {
            LedgerError::Full(_)
            | LedgerError::Busy(_)
            | LedgerError::ReadOnly(_)
            | LedgerError::Damaged { .. }
            | LedgerError::Gone(_) => true,
            LedgerError::Sql { source, .. } => {
                source.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
            }
            _ => false,
        }
    }

    /// Sorts an SQLite failure on the file at `path` by what its user can do about it.
    pub(super) fn from_sql(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => LedgerError::Full(path),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => LedgerError::Busy(path),
            Some(ErrorCode::ReadOnly) => LedgerError::ReadOnly(path),
            Some(ErrorCode::CannotOpen) => LedgerError::Open {
                path,
                reason: source.to_string(),
            },
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => LedgerError::Damaged {
                path,
                reason: source.to_string(),
            },
            _ => LedgerError::Sql { path, source },
        }
    }
}

/// Adds the path of the file to an SQLite result.
pub(super) trait AtPath<T> {
    /// Sorts the error as [`LedgerError::from_sql`] does.
    fn at(self, path: &Path) -> Result<T, LedgerError>;
}

impl<T> AtPath<T> for rusqlite::Result<T> {
    fn at(self, path: &Path) -> Result<T, LedgerError> {
        self.map_err(|source| LedgerError::from_sql(path, source))
    }
}
