//! Working copies: the manifests that the learner edits, under their own names below `manifests/`.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use super::error::FilesError;

/// A longer working copy is not read.
const COPY_LIMIT: u64 = 1024 * 1024;

/// The working copies of one session.
#[derive(Clone, Debug)]
pub struct WorkingCopies {
    dir: PathBuf,
}

impl WorkingCopies {
    pub(super) fn new(session: &Path) -> WorkingCopies {
        WorkingCopies {
            dir: session.join("manifests"),
        }
    }

    /// Where the working copy of a manifest lies, whether it is there or not.
    ///
    /// # Errors
    /// The name leads out of the directory.
    pub fn path(&self, manifest: &str) -> Result<PathBuf, FilesError> {
        let inside = !manifest.is_empty()
            && !manifest.contains('\0')
            && Path::new(manifest)
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
        if inside {
            Ok(self.dir.join(manifest))
        } else {
            Err(FilesError::Name {
                name: manifest.to_owned(),
            })
        }
    }

    /// Copies the original if there is no working copy yet, and answers where it is.
    ///
    /// # Errors
    /// A name that leads out, or a directory that cannot be written.
    pub fn open(&self, manifest: &str, original: &str) -> Result<PathBuf, FilesError> {
        let path = self.path(manifest)?;
        if path.exists() {
            return Ok(path);
        }
        self.write(manifest, original)?;
        Ok(path)
    }

    /// Replaces the working copy.
    ///
    /// # Errors
    /// A name that leads out, or a directory that cannot be written; the former copy is then still there.
    pub fn write(&self, manifest: &str, text: &str) -> Result<(), FilesError> {
        let path = self.path(manifest)?;
        let failed = |error| FilesError::io("write the working copy", &path, error);
        let parent = path.parent().unwrap_or(&self.dir);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(failed)?;
        let mut temporary = path.clone().into_os_string();
        temporary.push(".new");
        let temporary = PathBuf::from(temporary);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)
            .map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&temporary, &path).map_err(failed)
    }

    /// The text of a working copy; `None` when there is none.
    ///
    /// # Errors
    /// It is there and cannot be read, is not UTF-8, or is longer than 1 MiB.
    pub fn read(&self, manifest: &str) -> Result<Option<String>, FilesError> {
        let path = self.path(manifest)?;
        let failed = |error| FilesError::io("read the working copy", &path, error);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.len() > COPY_LIMIT => {
                let why = format!(
                    "it has {} bytes, at most {COPY_LIMIT} are read",
                    metadata.len()
                );
                Err(failed(io::Error::new(io::ErrorKind::InvalidData, why)))
            }
            Ok(_) => fs::read_to_string(&path).map(Some).map_err(failed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Removes a working copy; fine if there is none.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    pub fn discard(&self, manifest: &str) -> Result<(), FilesError> {
        let path = self.path(manifest)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FilesError::io("remove the working copy", &path, error))
            }
            _ => Ok(()),
        }
    }
}
