//! The checkpoint: where a session stands, as one versioned JSON file that is replaced atomically.
//!
//! [`State::checkpoint`] makes it, [`Checkpoint::parse`] reads it, [`store`] and [`load`] are called by [`super::files`].

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::files::FilesError;
use super::progress::LabProgress;
use super::state::{StagePhase, State};
use crate::lab::Lab;

/// Version that this program writes; it reads this one and older ones.
pub const VERSION: u32 = 1;
/// Name of the file in the session directory.
pub const FILE: &str = "checkpoint.json";
/// Temporary files start so; what a kill leaves of them is removed at the next start.
pub(super) const TEMPORARY: &str = ".checkpoint-";
/// A longer file is damaged.
const SIZE_LIMIT: u64 = 64 * 1024 * 1024;

/// Where a session stands. Facts are not in it: they are in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub version: u32,
    pub written: Timestamp,
    /// Name of the current lab; empty without labs.
    pub lab: String,
    /// Name of the current stage.
    pub stage: String,
    pub phase: StagePhase,
    #[serde(default)]
    pub held: Option<StagePhase>,
    #[serde(default)]
    pub finished: bool,
    #[serde(default)]
    pub labs: BTreeMap<String, LabProgress>,
    /// The seeds that drew a fault, by lab.
    #[serde(default)]
    pub seeds: BTreeMap<String, u32>,
}

/// Why a checkpoint could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("it has version {0}, and this eventlab knows version {VERSION}")]
    Newer(u64),
    #[error("{0}")]
    Damaged(String),
}

/// Only the version, so that a newer file is refused for the right reason.
#[derive(Deserialize)]
struct Head {
    version: u64,
}

impl Checkpoint {
    /// Reads the bytes of a checkpoint.
    ///
    /// # Errors
    /// A newer version, and anything that is not a checkpoint.
    pub fn parse(bytes: &[u8]) -> Result<Checkpoint, ParseError> {
        let damaged = |error: serde_json::Error| ParseError::Damaged(error.to_string());
        let head: Head = serde_json::from_slice(bytes).map_err(damaged)?;
        if head.version > u64::from(VERSION) {
            return Err(ParseError::Newer(head.version));
        }
        serde_json::from_slice(bytes).map_err(damaged)
    }

    /// Why these labs have no place for it, in a sentence: it was written with others.
    #[must_use]
    pub fn misfit(&self, labs: &[Lab]) -> Option<String> {
        if self.lab.is_empty() || labs.is_empty() {
            return None;
        }
        let Some(lab) = labs.iter().find(|lab| lab.name == self.lab) else {
            return Some(format!("there is no lab `{}` any more", self.lab));
        };
        let known = lab.stages.iter().any(|stage| stage.name == self.stage);
        (!known).then(|| format!("lab `{}` has no stage `{}` any more", self.lab, self.stage))
    }
}

impl State {
    /// Where this session stands, to be written after [`super::Effect::Checkpoint`].
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            version: VERSION,
            written: self.now,
            lab: self.lab_name(),
            stage: self.stage_name(),
            phase: self.phase.clone(),
            held: self.held.as_deref().cloned(),
            finished: self.finished,
            labs: self.progress.clone(),
            seeds: self.drawn_seeds(),
        }
    }
}

impl State {
    /// The seeds of the labs that are there, and those kept of others.
    fn drawn_seeds(&self) -> BTreeMap<String, u32> {
        let mut seeds = self.seeds.clone();
        let drawn = self
            .labs
            .iter()
            .filter_map(|lab| Some((lab.name.clone(), lab.drawn.as_ref()?.seed)));
        seeds.extend(drawn);
        seeds
    }
}

/// What was found in place of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub enum Loaded {
    Missing,
    Found(Box<Checkpoint>),
    Damaged(String),
}

/// Reads the checkpoint of a session directory.
///
/// # Errors
/// A newer version, and a file that cannot be read at all.
pub fn load(dir: &Path) -> Result<Loaded, FilesError> {
    let path = dir.join(FILE);
    let failed = |error| FilesError::io("read the checkpoint", &path, error);
    let length = match fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::Missing),
        Err(error) => return Err(failed(error)),
    };
    if length > SIZE_LIMIT {
        return Ok(Loaded::Damaged(format!("it has {length} bytes")));
    }
    match Checkpoint::parse(&fs::read(&path).map_err(failed)?) {
        Ok(checkpoint) => Ok(Loaded::Found(Box::new(checkpoint))),
        Err(ParseError::Newer(version)) => Err(FilesError::Newer {
            path,
            version,
            known: VERSION,
        }),
        Err(ParseError::Damaged(why)) => Ok(Loaded::Damaged(why)),
    }
}

/// Replaces the checkpoint: temporary file in the same directory, fsync, rename, fsync of the directory.
///
/// # Errors
/// Anything that keeps it from being on disk; the former checkpoint is then still there.
pub fn store(dir: &Path, checkpoint: &Checkpoint) -> Result<(), FilesError> {
    let path = dir.join(FILE);
    let failed = |error| FilesError::io("write the checkpoint", &path, error);
    let mut bytes = serde_json::to_vec_pretty(checkpoint)?;
    bytes.push(b'\n');
    let mut file = tempfile::Builder::new()
        .prefix(TEMPORARY)
        .tempfile_in(dir)
        .map_err(failed)?;
    file.write_all(&bytes).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(&path).map_err(|error| failed(error.error))?;
    sync_directory(dir)
}

/// Makes renames and new files in a directory durable.
pub(super) fn sync_directory(dir: &Path) -> Result<(), FilesError> {
    File::open(dir)
        .and_then(|handle| handle.sync_all())
        .map_err(|error| FilesError::io("sync the directory", dir, error))
}

/// Puts a damaged checkpoint aside as `checkpoint.json.damaged-TIME` and answers where it is.
///
/// # Errors
/// The file cannot be renamed.
pub fn keep_aside(dir: &Path, now: Timestamp) -> Result<PathBuf, FilesError> {
    let kept = free_name(dir, "damaged", now);
    let path = dir.join(FILE);
    fs::rename(&path, &kept)
        .map_err(|error| FilesError::io("put aside the damaged checkpoint", &path, error))?;
    sync_directory(dir)?;
    Ok(kept)
}

/// Copies a checkpoint that the present labs have no place for, before it is replaced.
///
/// # Errors
/// The copy cannot be written.
pub fn copy_aside(dir: &Path, now: Timestamp) -> Result<PathBuf, FilesError> {
    let kept = free_name(dir, "other-labs", now);
    fs::copy(dir.join(FILE), &kept)
        .map_err(|error| FilesError::io("keep a copy of the checkpoint", &kept, error))?;
    sync_directory(dir)?;
    Ok(kept)
}

fn free_name(dir: &Path, why: &str, now: Timestamp) -> PathBuf {
    let stamp = now.strftime("%Y%m%dT%H%M%SZ");
    let mut kept = dir.join(format!("{FILE}.{why}-{stamp}"));
    let mut count = 1;
    while kept.exists() {
        count += 1;
        kept = dir.join(format!("{FILE}.{why}-{stamp}-{count}"));
    }
    kept
}
