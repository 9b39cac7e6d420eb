//! Manifests of the labs and the learner's working copies of them.

use std::path::PathBuf;

use super::{Driver, DriverError};
use crate::session::Message;

/// A longer working copy is not read.
const COPY_LIMIT: u64 = 1 << 20;

impl Driver {
    /// The manifest of the present stage that the learner edits, if it was edited since it was applied, here or by another
    /// program. The session is told of an edit that it does not know of.
    ///
    /// # Errors
    /// The session cannot be saved.
    pub fn edited(&mut self) -> Result<Option<String>, DriverError> {
        let stage = self.state.stage();
        let fix = stage.and_then(|stage| stage.fix.as_ref());
        let Some(file) = fix.map(|fix| fix.manifest.clone()) else {
            return Ok(None);
        };
        let lab = self.state.progress_here();
        if lab.is_some_and(|lab| lab.edited.contains(&file)) {
            return Ok(Some(file));
        }
        let live = self.applied_text(&file);
        let differs = match self.copy_text(&file) {
            Ok(None) => false,
            Ok(Some(text)) => text != live.unwrap_or_else(|| self.original(&file)),
            Err(_) => true,
        };
        if !differs {
            return Ok(None);
        }
        self.tell(Message::Edited {
            manifest: file.clone(),
        })?;
        Ok(Some(file))
    }

    /// The lab's own text of a manifest; empty when there is none.
    #[must_use]
    pub fn original(&self, file: &str) -> String {
        self.catalog.manifest(file).unwrap_or_default().to_owned()
    }

    /// The text of a working copy; `None` when there is none.
    ///
    /// # Errors
    /// It is there and cannot be read, or is not UTF-8.
    pub fn copy_text(&self, file: &str) -> Result<Option<String>, DriverError> {
        self.copies.read(file).map_err(|error| {
            let path = self.copies.path(file).ok();
            path.and_then(not_text).unwrap_or(error.into())
        })
    }

    /// What was typed for a working copy and not saved when the screen ended; `None` when there is nothing of the kind.
    ///
    /// # Errors
    /// As [`Driver::copy_text`].
    pub fn unsaved_text(&self, file: &str) -> Result<Option<String>, DriverError> {
        self.copy_text(&unsaved(file))
    }

    /// Keeps what was typed and not saved, beside the working copy.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_unsaved(&self, file: &str, text: &str) -> Result<(), DriverError> {
        self.write_copy(&unsaved(file), text)
    }

    /// Drops what was typed and not saved; fine if there is nothing.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    pub fn drop_unsaved(&self, file: &str) -> Result<(), DriverError> {
        Ok(self.copies.discard(&unsaved(file))?)
    }

    /// Where something lies that was typed in the present stage and not saved.
    #[must_use]
    pub fn unsaved(&self) -> Option<PathBuf> {
        let fix = self.state.stage()?.fix.as_ref()?;
        let path = self.copies.path(&unsaved(&fix.manifest)).ok()?;
        path.exists().then_some(path)
    }

    /// The text of a manifest as it was applied last; `None` where that is not known.
    #[must_use]
    pub fn applied_text(&self, file: &str) -> Option<String> {
        self.copies.applied(file)
    }

    /// Where a working copy lies; it is made from the original when it is not there.
    ///
    /// # Errors
    /// The copy cannot be written.
    pub fn working_copy(&self, file: &str) -> Result<PathBuf, DriverError> {
        Ok(self.copies.open(file, &self.original(file))?)
    }

    /// Replaces a working copy.
    ///
    /// # Errors
    /// The copy cannot be written; the old one is still there then.
    pub fn write_copy(&self, file: &str, text: &str) -> Result<(), DriverError> {
        Ok(self.copies.write(file, text)?)
    }
}

/// The name of what was typed for a manifest and not saved.
fn unsaved(file: &str) -> String {
    format!("{file}.unsaved")
}

/// Where a file is no UTF-8; `None` where that is not what is wrong with it.
fn not_text(path: PathBuf) -> Option<DriverError> {
    let found = std::fs::metadata(&path).ok()?;
    // Whoever opens a pipe waits for somebody who writes into it.
    let short = found.is_file() && found.len() <= COPY_LIMIT;
    let bytes = short.then(|| std::fs::read(&path).ok()).flatten()?;
    let valid = std::str::from_utf8(&bytes).err()?.valid_up_to();
    let (before, rest) = bytes.split_at_checked(valid)?;
    Some(DriverError::NotText {
        line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
        byte: *rest.first()?,
        path,
    })
}
