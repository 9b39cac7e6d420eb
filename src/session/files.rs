//! The session directory: one writer, any number of readers, every file 0600 in a directory 0700.
//!
//! [`SessionFiles`] is the writer: it holds the lock, appends to the journal (redacted), replaces the checkpoint and owns
//! the working copies. [`SessionView`] reads without any of that.

mod copies;
mod error;
mod journal;
mod lock;

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::checkpoint::{self, Checkpoint, Loaded};
use crate::evidence::Entry;
use crate::evidence::journal::Note;
use crate::evidence::redact::Redactor;

pub use copies::WorkingCopies;
pub use error::FilesError;
pub use journal::{JOURNAL, parse_entries, read_entries};
pub use lock::{Holder, LOCK, holder};

use journal::Journal;
use lock::SessionLock;

/// The writer of a session directory. Dropping it gives the session free.
#[derive(Debug)]
pub struct SessionFiles {
    dir: PathBuf,
    journal: Journal,
    redactor: Redactor,
    _lock: SessionLock,
}

/// What was in the directory, and its writer.
#[derive(Debug)]
pub struct Opened {
    pub files: SessionFiles,
    pub checkpoint: Option<Checkpoint>,
    pub entries: Vec<Entry>,
    /// What was found damaged and what was done about it, in sentences.
    pub notes: Vec<String>,
}

/// What a reader sees of a session, held by somebody or not.
#[derive(Debug)]
pub struct SessionView {
    pub checkpoint: Option<Checkpoint>,
    pub entries: Vec<Entry>,
    pub notes: Vec<String>,
    /// Who writes it now.
    pub holder: Option<Holder>,
}

impl SessionFiles {
    /// Opens a session for writing and makes its directory if need be.
    ///
    /// A torn last line is cut off and a damaged checkpoint kept aside; both are noted in the journal.
    ///
    /// # Errors
    /// Somebody else holds the session, the checkpoint is of a newer version, or the directory cannot be used.
    pub fn open(dir: &Path, now: Timestamp) -> Result<Opened, FilesError> {
        make_private(dir)?;
        refuse_pipes(dir)?;
        let lock = SessionLock::take(dir, now)?;
        let loaded = checkpoint::load(dir)?;
        let mut notes = Vec::new();
        let checkpoint = match loaded {
            Loaded::Missing => None,
            Loaded::Found(found) => Some(*found),
            Loaded::Damaged(why) => {
                let kept = checkpoint::keep_aside(dir, now)?;
                notes.push(format!(
                    "the checkpoint was damaged ({why}) and is kept as {}; the session starts anew, its evidence is all there",
                    kept.display()
                ));
                None
            }
        };
        sweep_temporary(dir);
        let (journal, entries, found) = Journal::open(dir)?;
        notes.extend(found);
        let mut files = SessionFiles {
            dir: dir.to_owned(),
            journal,
            redactor: Redactor::default(),
            _lock: lock,
        };
        let mut entries = entries;
        for text in &notes {
            let note = damage_note(checkpoint.as_ref(), now, text);
            entries.push(files.append(note)?);
        }
        Ok(Opened {
            files,
            checkpoint,
            entries,
            notes,
        })
    }

    /// The session directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Values of Secrets that must not be written from now on.
    pub fn hide(&mut self, secrets: impl IntoIterator<Item = String>) {
        let left_out = self.redactor.learn(secrets);
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "lines of Secrets are too many to be kept out of the journal one by one; whole values are"
            );
        }
    }

    /// Appends one entry: redacted, numbered if it is a fact, one line in one write. Answers it as it was written.
    ///
    /// An intent is on disk (fsync) when this returns; anything else survives a kill, and a power cut after
    /// [`SessionFiles::sync`].
    ///
    /// # Errors
    /// The line could not be written; the journal is then as it was before.
    pub fn append(&mut self, entry: Entry) -> Result<Entry, FilesError> {
        let entry = self.redactor.entry(&entry)?;
        self.journal.append(entry)
    }

    /// Makes the journal durable (fdatasync).
    ///
    /// # Errors
    /// The disk did not take it.
    pub fn sync(&mut self) -> Result<(), FilesError> {
        self.journal.sync()
    }

    /// Replaces the checkpoint, after the journal it refers to is durable.
    ///
    /// # Errors
    /// It could not be written; the former one is still there.
    pub fn checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<(), FilesError> {
        self.journal.sync()?;
        checkpoint::store(&self.dir, checkpoint)
    }

    /// Keeps a copy of the checkpoint as it is, since these labs have no place for it; notes that in the journal, and
    /// answers the note.
    ///
    /// # Errors
    /// The copy or the note could not be written.
    pub fn keep_misfit(
        &mut self,
        checkpoint: &Checkpoint,
        why: &str,
        now: Timestamp,
    ) -> Result<String, FilesError> {
        let kept = checkpoint::copy_aside(&self.dir, now)?;
        let text = format!(
            "{why}: these labs are not those of the checkpoint, which is kept as {}; what was done in labs that are there stays",
            kept.display()
        );
        self.append(damage_note(Some(checkpoint), now, &text))?;
        Ok(text)
    }

    /// The learner's copies of manifests.
    #[must_use]
    pub fn copies(&self) -> WorkingCopies {
        WorkingCopies::new(&self.dir)
    }
}

impl SessionView {
    /// Reads a session without locking it or changing anything.
    ///
    /// # Errors
    /// There is no such session, its checkpoint is of a newer version, or it cannot be read.
    pub fn open(dir: &Path) -> Result<SessionView, FilesError> {
        if let Err(error) = fs::metadata(dir) {
            return Err(FilesError::io(error::OPEN, dir, error));
        }
        refuse_pipes(dir)?;
        let mut notes = Vec::new();
        let checkpoint = match checkpoint::load(dir)? {
            Loaded::Missing => None,
            Loaded::Found(found) => Some(*found),
            Loaded::Damaged(why) => {
                notes.push(format!("the checkpoint is damaged: {why}"));
                None
            }
        };
        let (entries, found) = read_entries(dir)?;
        notes.extend(found);
        Ok(SessionView {
            checkpoint,
            entries,
            notes,
            holder: holder(dir),
        })
    }

    /// The learner's copies of manifests.
    #[must_use]
    pub fn copies(dir: &Path) -> WorkingCopies {
        WorkingCopies::new(dir)
    }
}

/// Makes a directory that only its owner may enter, and closes one that is open to others.
fn make_private(dir: &Path) -> Result<(), FilesError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| FilesError::io("make the session directory", dir, error))?;
    let failed = |error| FilesError::io("close the session directory to others", dir, error);
    let mode = fs::metadata(dir).map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

/// Folders of a session whose files are opened by name.
const READ_BY_NAME: [&str; 3] = ["", "node", "pki"];

/// Whoever opens a pipe waits for somebody at its other end, and a device may have no end.
fn refuse_pipes(dir: &Path) -> Result<(), FilesError> {
    for folder in READ_BY_NAME {
        // What cannot be listed is told by whoever needs it.
        let entries = fs::read_dir(dir.join(folder)).into_iter().flatten();
        for path in entries.flatten().map(|entry| entry.path()) {
            let is_other = |found: fs::Metadata| !found.is_file() && !found.is_dir();
            if fs::metadata(&path).is_ok_and(is_other) {
                let error = io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "it is neither a file nor a folder",
                );
                return Err(FilesError::io("use", &path, error));
            }
        }
    }
    Ok(())
}

/// Removes what a kill left of unfinished checkpoints. Only litter: nothing depends on it.
fn sweep_temporary(dir: &Path) {
    let Ok(listing) = fs::read_dir(dir) else {
        return;
    };
    for file in listing.flatten() {
        if file
            .file_name()
            .to_string_lossy()
            .starts_with(checkpoint::TEMPORARY)
            && let Err(error) = fs::remove_file(file.path())
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %file.path().display(), %error, "cannot remove a temporary file");
        }
    }
}

fn damage_note(checkpoint: Option<&Checkpoint>, now: Timestamp, text: &str) -> Entry {
    Entry::Note(Note {
        time: now,
        lab: checkpoint
            .map(|known| known.lab.clone())
            .unwrap_or_default(),
        stage: checkpoint
            .map(|known| known.stage.clone())
            .unwrap_or_default(),
        attempt: 0,
        topic: "damage".to_owned(),
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests;
