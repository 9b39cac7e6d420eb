//! The evidence bundle: a session's facts, report and manifests in one file, for a colleague to read.
//!
//! [`pack`] writes it, redacted once more; [`Bundle::open`] reads one that may come from anybody: within limits, in memory,
//! and without a path that leads anywhere. [`Bundle::state`] is the session that it holds, to be shown and never gone on with.

mod archive;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Report, json, markdown};
use crate::evidence::journal::Judgement;
use crate::evidence::redact::Redactor;
use crate::evidence::{Entry, Outcome};
use crate::lab::Lab;
use crate::session::files::parse_entries;
use crate::session::{Checkpoint, LabProgress, StageFailure, StagePhase, State};

pub use archive::Limits;

/// Version of the bundle's layout.
pub const VERSION: u32 = 1;

const HEAD: &str = "bundle.json";
const CHECKPOINT: &str = "checkpoint.json";
const EVIDENCE: &str = "evidence.jsonl";
const LABS: &str = "labs.json";
const REPORT: &str = "report.md";
const REPORT_JSON: &str = "report.json";
/// Manifests lie below this folder: the learner's copies as they were.
const MANIFESTS: &str = "manifests/";

/// Why a bundle could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("cannot write the bundle: {0}")]
    Write(#[source] io::Error),
    #[error("cannot read it as a bundle: {0}; `eventlab report --bundle FILE` makes one")]
    Read(#[source] io::Error),
    #[error("it is no bundle that can be trusted: {0}")]
    Refused(String),
    #[error("it has version {0}, and this eventlab reads up to {VERSION}; use a newer eventlab")]
    Newer(u64),
    #[error("{file} in it cannot be read: {message}")]
    Part { file: &'static str, message: String },
}

/// What a bundle says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub version: u32,
    /// Version of the eventlab that made it.
    pub eventlab: String,
    pub made: Timestamp,
    /// Name of the session.
    pub session: String,
}

/// What goes into a bundle.
pub struct Contents<'a> {
    pub session: &'a str,
    pub made: Timestamp,
    pub entries: &'a [Entry],
    pub checkpoint: Option<&'a Checkpoint>,
    pub labs: &'a [Lab],
    /// Working copies, by name below `manifests/`.
    pub manifests: &'a BTreeMap<String, String>,
}

/// Writes a bundle. Everything in it is redacted, also what was when it was collected.
///
/// # Errors
/// The writer fails.
pub fn pack(contents: &Contents<'_>, writer: impl Write) -> Result<(), BundleError> {
    let redactor = Redactor::default();
    let failed = |error: serde_json::Error| BundleError::Write(io::Error::other(error));
    let mut entries = Vec::with_capacity(contents.entries.len());
    for entry in contents.entries {
        entries.push(redactor.entry(entry).map_err(failed)?);
    }
    let report = Report::new(&entries, contents.labs);
    let used: Vec<Lab> = contents
        .labs
        .iter()
        .filter(|lab| report.labs.iter().any(|one| one.name == lab.name))
        .map(as_played)
        .collect();
    let head = Head {
        version: VERSION,
        eventlab: env!("CARGO_PKG_VERSION").to_owned(),
        made: contents.made,
        session: contents.session.to_owned(),
    };
    let mut evidence = Vec::new();
    for entry in &entries {
        serde_json::to_writer(&mut evidence, entry).map_err(failed)?;
        evidence.push(b'\n');
    }
    let mut files: Vec<(String, Vec<u8>)> = vec![
        (
            HEAD.to_owned(),
            serde_json::to_vec_pretty(&head).map_err(failed)?,
        ),
        (REPORT.to_owned(), markdown::render(&report).into_bytes()),
        (
            REPORT_JSON.to_owned(),
            json::render(&report).map_err(failed)?.into_bytes(),
        ),
        (EVIDENCE.to_owned(), evidence),
        (LABS.to_owned(), serde_json::to_vec(&used).map_err(failed)?),
    ];
    if let Some(checkpoint) = contents.checkpoint {
        let text = serde_json::to_string_pretty(checkpoint).map_err(failed)?;
        files.push((CHECKPOINT.to_owned(), redactor.text(&text).into_bytes()));
    }
    for (name, text) in contents.manifests {
        let text = redactor.text(text).into_bytes();
        files.push((format!("{MANIFESTS}{name}"), text));
    }
    archive::write(&files, contents.made, writer).map_err(BundleError::Write)
}

/// A lab as it was played: what was drawn is in it, and nothing is left to draw.
fn as_played(lab: &Lab) -> Lab {
    Lab {
        faults: None,
        ..lab.clone()
    }
}

/// A bundle that was read.
#[derive(Debug)]
pub struct Bundle {
    pub head: Head,
    pub entries: Vec<Entry>,
    pub checkpoint: Option<Checkpoint>,
    pub labs: Arc<[Lab]>,
    /// The learner's copies of manifests, by name.
    pub manifests: BTreeMap<String, String>,
    /// What was damaged or left out, in sentences.
    pub notes: Vec<String>,
}

impl Bundle {
    /// Reads a bundle.
    ///
    /// # Errors
    /// What is not a bundle, is too large, holds a path or an entry that no bundle has, or is of a newer version.
    pub fn open(reader: impl io::Read, limits: Limits) -> Result<Bundle, BundleError> {
        let mut files = archive::read(reader, limits)?;
        refuse_large_parts(&files)?;
        let mut notes = Vec::new();
        let head = files
            .remove(HEAD)
            .ok_or_else(|| BundleError::Refused(format!("there is no {HEAD} in it")))?;
        let head = head_of(&head)?;
        let evidence = files.remove(EVIDENCE).unwrap_or_default();
        let (entries, damaged) = parse_entries(evidence.as_slice()).map_err(BundleError::Read)?;
        notes.extend(damaged);
        let part = |file: &'static str| {
            move |error: serde_json::Error| BundleError::Part {
                file,
                message: error.to_string(),
            }
        };
        let labs: Vec<Lab> = match files.remove(LABS) {
            Some(bytes) => serde_json::from_slice(&bytes).map_err(part(LABS))?,
            None => Vec::new(),
        };
        let checkpoint = match files.remove(CHECKPOINT) {
            Some(bytes) => Some(
                Checkpoint::parse(&bytes).map_err(|error| BundleError::Part {
                    file: CHECKPOINT,
                    message: error.to_string(),
                })?,
            ),
            None => None,
        };
        // Both are made anew from the evidence: a bundle's own report proves nothing.
        files.remove(REPORT);
        files.remove(REPORT_JSON);
        let mut manifests = BTreeMap::new();
        for (name, bytes) in files {
            match (name.strip_prefix(MANIFESTS), String::from_utf8(bytes)) {
                (Some(manifest), Ok(text)) if !manifest.is_empty() => {
                    manifests.insert(manifest.to_owned(), text);
                }
                _ => notes.push(format!("{name} in it is not known, and left out")),
            }
        }
        Ok(Bundle {
            head,
            entries,
            checkpoint,
            labs: labs.into(),
            manifests,
            notes,
        })
    }

    /// The report, from the evidence.
    #[must_use]
    pub fn report(&self) -> Report {
        Report::new(&self.entries, &self.labs)
    }

    /// The session as it stood. It is for showing: what it would do next is left out.
    #[must_use]
    pub fn state(&self) -> State {
        self.resumed(self.checkpoint.clone())
    }

    /// The session at one of its stages, as that was left; as it stood where there is no such stage.
    #[must_use]
    pub fn state_at(&self, lab: &str, stage: usize) -> State {
        let mut checkpoint = match &self.checkpoint {
            Some(kept) => kept.clone(),
            None => State::new(Arc::clone(&self.labs), self.head.made).checkpoint(),
        };
        let found = self.labs.iter().find(|one| one.name == lab);
        let Some(name) = found
            .and_then(|lab| lab.stages.get(stage))
            .map(|stage| &stage.name)
        else {
            return self.state();
        };
        if checkpoint.lab != lab || checkpoint.stage != *name {
            checkpoint.phase = self.phase_of(checkpoint.labs.get(lab), lab, name);
            checkpoint.lab = lab.to_owned();
            checkpoint.stage.clone_from(name);
            checkpoint.held = None;
            checkpoint.finished = false;
        }
        self.resumed(Some(checkpoint))
    }

    fn resumed(&self, checkpoint: Option<Checkpoint>) -> State {
        let labs = Arc::clone(&self.labs);
        State::resume(checkpoint, &self.entries, labs, self.head.made).0
    }

    /// How a stage stood after its last go: as it was judged then.
    fn phase_of(&self, kept: Option<&LabProgress>, lab: &str, stage: &str) -> StagePhase {
        let Some(kept) = kept else {
            return StagePhase::Fresh;
        };
        let attempt = kept.runs.get(stage).map(|run| run.attempt);
        let refuted: Vec<StageFailure> = self
            .entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Judgement(one) => Some(one),
                _ => None,
            })
            .filter(|one| one.lab == lab && one.stage == stage && Some(one.attempt) == attempt)
            .filter(|one| one.verdict.outcome == Outcome::Refuted)
            .map(failure)
            .collect();
        if !refuted.is_empty() {
            StagePhase::Failed { failures: refuted }
        } else if kept.passed.contains(stage) {
            StagePhase::Passed
        } else {
            StagePhase::Fresh
        }
    }
}

/// What is read whole into types takes several times its size in memory; no session writes parts so large.
fn refuse_large_parts(files: &BTreeMap<String, Vec<u8>>) -> Result<(), BundleError> {
    for (name, bytes) in files {
        let most = match name.as_str() {
            HEAD => 64 << 10,
            CHECKPOINT | LABS => 8 << 20,
            name if name.starts_with(MANIFESTS) => 1 << 20,
            _ => continue,
        };
        if bytes.len() > most {
            return Err(BundleError::Refused(format!(
                "{name} in it is larger than {} KiB",
                most >> 10
            )));
        }
    }
    Ok(())
}

fn failure(judged: &Judgement) -> StageFailure {
    let verdict = &judged.verdict;
    let because = verdict.because.as_deref().unwrap_or("it was not so");
    StageFailure {
        probe: judged.probe.clone(),
        reason: StageFailure::FATE.to_owned(),
        text: format!("{}: {because}", verdict.claim),
        expected: judged.expected.clone(),
        observed: judged.observed.clone(),
        access: judged.access.clone(),
        order: judged.order.clone(),
        line: None,
    }
}

fn head_of(bytes: &[u8]) -> Result<Head, BundleError> {
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    let part = |error: serde_json::Error| BundleError::Part {
        file: HEAD,
        message: error.to_string(),
    };
    let version: Version = serde_json::from_slice(bytes).map_err(part)?;
    if version.version > u64::from(VERSION) {
        return Err(BundleError::Newer(version.version));
    }
    serde_json::from_slice(bytes).map_err(part)
}

#[cfg(test)]
mod tests;
