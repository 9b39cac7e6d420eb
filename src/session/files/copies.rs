//! Working copies: the manifests that the learner edits, under their own names below `manifests/`.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use tempfile::NamedTempFile;

use super::error::FilesError;
use crate::cluster::Manifest;

/// A longer working copy is not read.
const COPY_LIMIT: u64 = 1024 * 1024;

/// The working copies of one session.
#[derive(Clone, Debug)]
pub struct WorkingCopies {
    dir: PathBuf,
    /// What was applied last, under the same names.
    applied: PathBuf,
    /// What that was at each snapshot of the cluster.
    kept: PathBuf,
}

impl WorkingCopies {
    pub(super) fn new(session: &Path) -> WorkingCopies {
        WorkingCopies {
            dir: session.join("manifests"),
            applied: session.join("applied"),
            kept: session.join("applied-at"),
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
        let failed = |error| FilesError::io("write the working copy", &path, error);
        if path.exists() {
            return Ok(path);
        }
        // A copy that was written meanwhile is the learner's, and stays.
        match self
            .written_beside(&path, original)
            .map_err(failed)?
            .persist_noclobber(&path)
        {
            Ok(_) => Ok(path),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(path),
            Err(error) => Err(failed(error.error)),
        }
    }

    /// Replaces the working copy.
    ///
    /// # Errors
    /// A name that leads out, or a directory that cannot be written; the former copy is then still there.
    pub fn write(&self, manifest: &str, text: &str) -> Result<(), FilesError> {
        let path = self.path(manifest)?;
        // A link to a file of the learner's own stays one.
        let path = fs::canonicalize(&path).unwrap_or(path);
        let failed = |error| FilesError::io("write the working copy", &path, error);
        let file = self.written_beside(&path, text).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// A temporary file (0600) with the text, in the folder of the copy (0700); two writers never share one.
    fn written_beside(&self, path: &Path, text: &str) -> io::Result<NamedTempFile> {
        let parent = path.parent().unwrap_or(&self.dir);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
        let mut file = NamedTempFile::new_in(parent)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file)
    }

    /// The text of a working copy; `None` when there is none.
    ///
    /// # Errors
    /// It is there and cannot be read, is no file, is not UTF-8, or is longer than 1 MiB.
    pub fn read(&self, manifest: &str) -> Result<Option<String>, FilesError> {
        let path = self.path(manifest)?;
        let failed = |error| FilesError::io("read the working copy", &path, error);
        let unusable = |why: String| {
            Err(FilesError::Unusable {
                path: path.clone(),
                why,
            })
        };
        let long =
            |length: u64| unusable(format!("has {length} bytes; at most {COPY_LIMIT} are read"));
        match fs::metadata(&path) {
            // Whoever opens a pipe waits for somebody who writes into it.
            Ok(metadata) if !metadata.is_file() => {
                return unusable("is no file but something else".to_owned());
            }
            Ok(metadata) if metadata.len() > COPY_LIMIT => return long(metadata.len()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        let mut bytes = Vec::new();
        File::open(&path)
            .and_then(|file| file.take(COPY_LIMIT + 1).read_to_end(&mut bytes))
            .map_err(failed)?;
        if bytes.len() as u64 > COPY_LIMIT {
            return long(bytes.len() as u64);
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => unusable(format!(
                "is not UTF-8 text (byte {})",
                error.utf8_error().valid_up_to() + 1
            )),
        }
    }

    /// The objects of a working copy; `None` when there is none.
    ///
    /// # Errors
    /// As [`WorkingCopies::read`], and a text that is no manifest.
    pub fn objects(&self, manifest: &str) -> Result<Option<Vec<Manifest>>, FilesError> {
        let Some(text) = self.read(manifest)? else {
            return Ok(None);
        };
        let file = self.path(manifest)?.display().to_string();
        Ok(Some(Manifest::read(&file, &text)?))
    }

    /// Notes the text of a manifest that was applied, for comparing a working copy with it.
    ///
    /// # Errors
    /// A name that leads out, or a directory that cannot be written.
    pub fn note_applied(&self, manifest: &str, text: &str) -> Result<(), FilesError> {
        self.path(manifest)?;
        let path = self.applied.join(manifest);
        let failed = |error| FilesError::io("note what was applied in", &path, error);
        let file = self.written_beside(&path, text).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// The text of a manifest as it was applied last; `None` where that is not known.
    #[must_use]
    pub fn applied(&self, manifest: &str) -> Option<String> {
        self.path(manifest).ok()?;
        let path = self.applied.join(manifest);
        let short = fs::metadata(&path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() <= COPY_LIMIT);
        short.then(|| fs::read_to_string(&path).ok()).flatten()
    }

    /// Keeps what is noted as applied of these manifests, under the name of a snapshot of the cluster.
    ///
    /// # Errors
    /// A name that leads out, or a directory that cannot be written.
    pub fn keep_applied(&self, snapshot: &str, manifests: &[&str]) -> Result<(), FilesError> {
        self.path(snapshot)?;
        let path = self.kept.join(snapshot);
        let failed = |error| FilesError::io("note what was applied in", &path, error);
        let noted = |one: &&str| Some(((*one).to_owned(), self.applied(one)?));
        let texts: BTreeMap<String, String> = manifests.iter().filter_map(noted).collect();
        if texts.is_empty() {
            return self.forget_kept(snapshot);
        }
        let text = serde_json::to_string(&texts).map_err(|error| failed(error.into()))?;
        let file = self.written_beside(&path, &text).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Drops what is kept under the name of a snapshot; fine if there is nothing.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    pub fn forget_kept(&self, snapshot: &str) -> Result<(), FilesError> {
        self.path(snapshot)?;
        let path = self.kept.join(snapshot);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FilesError::io("note what was applied in", &path, error))
            }
            _ => Ok(()),
        }
    }

    /// Notes again what was noted as applied of these manifests when the cluster was as it is put back now. Of what was not
    /// kept nothing is noted.
    ///
    /// # Errors
    /// As [`WorkingCopies::keep_applied`].
    pub fn put_back_applied(&self, snapshot: &str, manifests: &[&str]) -> Result<(), FilesError> {
        self.path(snapshot)?;
        let kept = fs::read(self.kept.join(snapshot)).unwrap_or_default();
        let texts: BTreeMap<String, String> = serde_json::from_slice(&kept).unwrap_or_default();
        for manifest in manifests {
            match texts.get(*manifest) {
                Some(text) => self.note_applied(manifest, text)?,
                None => self.forget_applied(manifest),
            }
        }
        Ok(())
    }

    /// Only for comparing: what stays is replaced by the next apply.
    fn forget_applied(&self, manifest: &str) {
        let _ = fs::remove_file(self.applied.join(manifest));
    }

    /// Removes a working copy, and what is known of its having been applied; fine if there is none.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    pub fn discard(&self, manifest: &str) -> Result<(), FilesError> {
        let path = self.path(manifest)?;
        self.forget_applied(manifest);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FilesError::io("remove the working copy", &path, error))
            }
            _ => Ok(()),
        }
    }
}
