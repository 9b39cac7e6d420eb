//! Why the session directory could not be used, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use super::lock::Holder;
use crate::cluster::ManifestError;

/// Every message names the action, the file and the next step.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("cannot {action} {}: {source}; {next}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
        /// What to do about it.
        next: &'static str,
    },
    #[error(
        "the session in {} is held by {holder}; close that one, or only read it (`eventlab status`), or take another with --session NAME",
        dir.display()
    )]
    Held { dir: PathBuf, holder: Holder },
    #[error(
        "the checkpoint {} has version {version}, and this eventlab knows version {known}; use the newer eventlab, or another session with --session NAME",
        path.display()
    )]
    Newer {
        path: PathBuf,
        version: u64,
        known: u32,
    },
    #[error("`{name}` is no manifest of a lab: it must be a relative path below manifests/")]
    Name { name: String },
    /// What the learner edits is theirs to mend.
    #[error("the working copy {} {why}; correct it, or move it away to have the lab's own text", path.display())]
    Unusable { path: PathBuf, why: String },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("cannot write an entry as JSON: {0}; this is a defect of eventlab")]
    Encode(#[from] serde_json::Error),
}

impl FilesError {
    pub(in crate::session) fn io(
        action: &'static str,
        path: &Path,
        source: io::Error,
    ) -> FilesError {
        FilesError::Io {
            action,
            path: path.to_owned(),
            next: next_step(action, &source),
            source,
        }
    }

    /// Whether a file that somebody edits is wrong, not its place.
    #[must_use]
    pub fn is_of_the_copy(&self) -> bool {
        matches!(
            self,
            FilesError::Unusable { .. } | FilesError::Manifest(_) | FilesError::Name { .. }
        )
    }

    /// The kind of an input or output error.
    #[must_use]
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            FilesError::Io { source, .. } => Some(source.kind()),
            _ => None,
        }
    }
}

/// The action that looks for a session; all others make or change one.
pub(super) const OPEN: &str = "open the session";

fn next_step(action: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "free some space and try again; what was written before is whole"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only; take another directory with --state-dir DIR"
        }
        io::ErrorKind::PermissionDenied => {
            "check its owner and mode, or take another directory with --state-dir DIR"
        }
        io::ErrorKind::NotADirectory
        | io::ErrorKind::AlreadyExists
        | io::ErrorKind::IsADirectory => {
            "something else has this name; move it, or take another directory with --state-dir DIR"
        }
        io::ErrorKind::NotFound if action == OPEN => {
            "there is no such session; `eventlab` starts one"
        }
        io::ErrorKind::NotFound => {
            "nothing can be made there; take another directory with --state-dir DIR"
        }
        _ => "check the disk, or take another directory with --state-dir DIR",
    }
}
