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
use crate::evidence::journal::{Intent, IntentAction};
use crate::evidence::redact::Redactor;
use crate::evidence::{Entry, Outcome};
use crate::lab::{Lab, Stage};
use crate::session::files::parse_entries;
use crate::session::message::SendOutcome;
use crate::session::{Checkpoint, LabProgress, ProbeSend, StagePhase, StageRun, State};

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
    /// What of the session could not be read when it was packed, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
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
    /// What of the session could not be read, in sentences.
    pub notes: &'a [String],
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
    let notes: Vec<String> = contents
        .notes
        .iter()
        .map(|note| redactor.text(note))
        .collect();
    let report = Report::new(&entries, contents.labs).with_notes(&notes);
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
        notes,
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
    /// What was damaged or left out, of the session and of the bundle, in sentences.
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
        let head = files
            .remove(HEAD)
            .ok_or_else(|| BundleError::Refused(format!("there is no {HEAD} in it")))?;
        let head = head_of(&head)?;
        let mut notes = head.notes.clone();
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
        Report::new(&self.entries, &self.labs).with_notes(&self.notes)
    }

    /// The session as it stood; without a checkpoint, at what was done last. It is for showing: what it would do next is left
    /// out.
    #[must_use]
    pub fn state(&self) -> State {
        if let Some(kept) = &self.checkpoint {
            return self.shown(kept.clone());
        }
        match self
            .entries
            .iter()
            .rev()
            .find_map(|entry| self.place_of(entry))
        {
            Some((lab, stage)) => self.state_at(lab, stage),
            None => self.shown(self.anew()),
        }
    }

    /// The session at one of its stages, as that was judged; as it stood where there is no such stage.
    #[must_use]
    pub fn state_at(&self, lab: &str, stage: usize) -> State {
        let found = self.labs.iter().find(|one| one.name == lab);
        let Some(stage) = found.and_then(|lab| lab.stages.get(stage)) else {
            return self.shown(self.checkpoint.clone().unwrap_or_else(|| self.anew()));
        };
        let mut checkpoint = self.checkpoint.clone().unwrap_or_else(|| self.anew());
        if checkpoint.lab != lab || checkpoint.stage != stage.name {
            let kept = checkpoint.labs.entry(lab.to_owned()).or_default();
            self.take_last_go(kept, lab, stage);
            checkpoint.phase = if kept.passed.contains(&stage.name) {
                StagePhase::Passed
            } else {
                StagePhase::Fresh
            };
            checkpoint.lab = lab.to_owned();
            checkpoint.stage.clone_from(&stage.name);
            checkpoint.held = None;
            checkpoint.finished = false;
        }
        self.shown(checkpoint)
    }

    fn anew(&self) -> Checkpoint {
        State::new(Arc::clone(&self.labs), self.head.made).checkpoint()
    }

    fn shown(&self, checkpoint: Checkpoint) -> State {
        let labs = Arc::clone(&self.labs);
        let (state, _) = State::resume(Some(checkpoint), &self.entries, labs, self.head.made);
        state.as_judged()
    }

    /// The last go at a stage is the last one that the evidence has: a checkpoint may be missing, or be of a session that
    /// went back to an earlier stage, and the report tells of that go all the same.
    fn take_last_go(&self, kept: &mut LabProgress, lab: &str, stage: &Stage) {
        let sends: Vec<&Intent> = self
            .entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Intent(intent) if intent.lab == lab && intent.stage == stage.name => {
                    Some(intent)
                }
                _ => None,
            })
            .filter(|intent| matches!(intent.action, IntentAction::Send { .. }))
            .collect();
        let Some(attempt) = sends.iter().map(|intent| intent.attempt).max() else {
            return;
        };
        kept.attempt = kept.attempt.max(attempt);
        let known = kept.runs.get(&stage.name).map(|run| run.attempt);
        if known.is_some_and(|known| known >= attempt) {
            return;
        }
        let sends: Vec<ProbeSend> = sends
            .into_iter()
            .filter(|intent| intent.attempt == attempt)
            .filter_map(|intent| match &intent.action {
                IntentAction::Send { probe } => Some(ProbeSend {
                    probe: probe.clone(),
                    trace: intent.id.clone(),
                    // It is looked up in the evidence.
                    outcome: Some(SendOutcome::Unresolved),
                }),
                _ => None,
            })
            .collect();
        let run = StageRun {
            attempt,
            settled: sends.len(),
            sends,
            ..StageRun::default()
        };
        kept.runs.insert(stage.name.clone(), run);
        if self.is_proven(lab, stage, attempt) {
            kept.passed.insert(stage.name.clone());
        } else {
            kept.passed.remove(&stage.name);
        }
    }

    /// Whether the last verdict on each thing that was judged in a go is that it is proven.
    fn is_proven(&self, lab: &str, stage: &Stage, attempt: u32) -> bool {
        let mut last = BTreeMap::new();
        for entry in &self.entries {
            if let Entry::Judgement(one) = entry
                && one.lab == lab
                && one.stage == stage.name
                && one.attempt == attempt
            {
                last.insert((&one.probe, &one.verdict.claim), one.verdict.outcome);
            }
        }
        !last.is_empty() && last.values().all(|outcome| *outcome == Outcome::Proven)
    }

    /// Lab and stage of what was sent or judged.
    fn place_of<'a>(&self, entry: &'a Entry) -> Option<(&'a str, usize)> {
        let (lab, stage) = match entry {
            Entry::Intent(intent) => (&intent.lab, &intent.stage),
            Entry::Judgement(one) => (&one.lab, &one.stage),
            _ => return None,
        };
        let found = self.labs.iter().find(|one| one.name == *lab)?;
        let at = found.stages.iter().position(|one| one.name == *stage)?;
        Some((lab, at))
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
