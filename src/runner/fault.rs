//! Named points at which this process can be made to die, so that resuming from each of them can be tested.
//!
//! `EVENTLAB_KILL_AT=N` ends the process with SIGKILL at the N-th point that it passes, counted from 1.
//! `EVENTLAB_KILL_NEW=FILE` ends it at the first point whose place the file does not list yet, and adds the place first:
//! started again and again it dies once at every place that it comes to. `EVENTLAB_KILL_NOTE=FILE` only lists the places.
//! `EVENTLAB_PANIC_AT=NAME` makes the thread panic that passes the point of this name.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::evidence::Entry;
use crate::evidence::journal::IntentAction;
use crate::session::{Checkpoint, Effect, StagePhase};

static WANTED: OnceLock<Option<u64>> = OnceLock::new();
static PASSED: AtomicU64 = AtomicU64::new(0);

static PANIC: OnceLock<Option<String>> = OnceLock::new();

static PLACES: OnceLock<Option<Mutex<Places>>> = OnceLock::new();

/// The places that were passed, by this process and those before it.
struct Places {
    file: File,
    known: BTreeSet<String>,
    /// Whether a new place is the end.
    deadly: bool,
}

impl Places {
    fn from_environment() -> Option<Mutex<Self>> {
        let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let (path, deadly) = match path("EVENTLAB_KILL_NEW") {
            Some(path) => (path, true),
            None => (path("EVENTLAB_KILL_NOTE")?, false),
        };
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        let file = File::options().append(true).create(true).open(&path).ok()?;
        Some(Mutex::new(Self {
            file,
            known: known.lines().map(str::to_owned).collect(),
            deadly,
        }))
    }

    /// Answers whether this is the place to die at. Others wait for the lock until then.
    fn is_the_end(&mut self, place: String) -> bool {
        if self.known.contains(&place) {
            return false;
        }
        let written = writeln!(self.file, "{place}").is_ok();
        self.known.insert(place);
        self.deadly && written
    }
}

/// Passes a point at which only a panic is tried: it is not counted.
///
/// # Panics
/// When it is asked to.
pub fn panic_point(name: &str) {
    let wanted = PANIC.get_or_init(|| std::env::var("EVENTLAB_PANIC_AT").ok());
    assert!(
        wanted.as_deref() != Some(name),
        "asked to panic at {name} (EVENTLAB_PANIC_AT)"
    );
}

/// Passes a point; what it is about tells it from others of its name.
pub fn point(name: &str, about: impl FnOnce() -> String) {
    panic_point(name);
    if let Some(places) = PLACES.get_or_init(Places::from_environment) {
        let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = format!("{name}: {}", about());
        if places.is_the_end(place.clone()) {
            die(&place);
        }
    }
    let wanted = WANTED.get_or_init(|| std::env::var("EVENTLAB_KILL_AT").ok()?.parse().ok());
    let Some(wanted) = *wanted else { return };
    let number = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    if number == wanted {
        die(&format!("point {number}, {name}"));
    }
}

/// Nothing after this runs, if the kill is allowed at all.
fn die(at: &str) {
    eprintln!("eventlab: killed at {at}");
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

/// What a line of the journal is about, the same in every run.
#[must_use]
pub fn about_entry(entry: &Entry) -> String {
    match entry {
        Entry::Fact(fact) => format!("{} {} fact", fact.lab, fact.stage),
        Entry::Intent(intent) => {
            let action = match &intent.action {
                IntentAction::Send { probe } => format!("send {probe}"),
                IntentAction::Apply { manifests } => format!("apply {}", manifests.join(" ")),
                IntentAction::DeletePod { .. } => "delete a pod".to_owned(),
                IntentAction::Act { what } => what.clone(),
                IntentAction::Reset => "reset".to_owned(),
                IntentAction::Rewind { stage } => format!("rewind {stage}"),
            };
            format!("{} {} intent {action}", intent.lab, intent.stage)
        }
        // Named by its intent, whose number differs from run to run.
        Entry::Outcome(outcome) => {
            let id = outcome.id.rsplit_once('-').map_or("", |(name, _)| name);
            let stable = id.split('-').filter(|part| !is_attempt(part));
            format!(
                "outcome {} {}",
                stable.collect::<Vec<_>>().join("-"),
                if outcome.ok { "good" } else { "bad" }
            )
        }
        Entry::Prediction(one) => format!("{} {} prediction {}", one.lab, one.stage, one.probe),
        Entry::Claim(one) => format!("{} {} claim {}", one.lab, one.stage, one.topic),
        Entry::Judgement(one) => format!(
            "{} {} judgement {} {:?}",
            one.lab,
            one.stage,
            one.probe.as_deref().or(one.order.as_deref()).unwrap_or("-"),
            one.verdict.outcome
        ),
        Entry::Note(one) => format!("{} {} note {}", one.lab, one.stage, one.topic),
    }
}

fn is_attempt(part: &str) -> bool {
    part.strip_prefix('a').is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Where a checkpoint stands, the same in every run.
#[must_use]
pub fn about_checkpoint(checkpoint: &Checkpoint) -> String {
    let phase = match &checkpoint.phase {
        StagePhase::Fresh => "fresh".to_owned(),
        StagePhase::Working { step, .. } => format!("working {step:?}"),
        StagePhase::Interrupted { step } => format!("interrupted {step:?}"),
        StagePhase::Passed => "passed".to_owned(),
        StagePhase::Failed { .. } => "failed".to_owned(),
        StagePhase::Unproven { .. } => "unproven".to_owned(),
    };
    format!("{} {} {phase}", checkpoint.lab, checkpoint.stage)
}

/// What an effect is about, the same in every run.
#[must_use]
pub fn about_effect(effect: &Effect) -> String {
    match effect {
        Effect::Checkpoint => "checkpoint".to_owned(),
        Effect::Apply { lab, stage, .. } => format!("{lab} {stage} apply"),
        Effect::Act {
            lab, stage, action, ..
        } => format!("{lab} {stage} act {action:?}"),
        Effect::OpenGate {
            lab, stage, mode, ..
        } => format!("{lab} {stage} gate {mode:?}"),
        Effect::Send {
            lab, stage, probe, ..
        } => format!("{lab} {stage} send {}", probe.name),
        Effect::Collect { lab, stage, .. } => format!("{lab} {stage} collect"),
        Effect::Review { lab, stage, .. } => format!("{lab} {stage} review"),
        Effect::Journal(entry) => about_entry(entry),
        Effect::Snapshot { lab, stage, .. } => format!("{lab} {stage} snapshot"),
        Effect::Rewind { lab, stage } => format!("{lab} {stage} rewind"),
        Effect::Reset { lab } => format!("{lab} reset"),
        Effect::OpenWorkingCopy { manifest } => format!("open {manifest}"),
        Effect::CancelWork => "cancel".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::journal::IntentOutcome;

    #[test]
    fn a_place_is_the_same_in_every_run() {
        let outcome = |id: &str| {
            about_entry(&Entry::Outcome(IntentOutcome {
                time: jiff::Timestamp::UNIX_EPOCH,
                id: id.to_owned(),
                result: "done".to_owned(),
                ok: true,
            }))
        };
        assert_eq!(
            outcome("rbac-a1-order-0000002a"),
            outcome("rbac-a17-order-9c0ffee0")
        );
        assert_ne!(
            outcome("rbac-a1-order-0000002a"),
            outcome("rbac-a1-other-0000002a")
        );
    }

    #[test]
    fn a_new_place_is_the_end_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("places")).unwrap();
        let mut places = Places {
            file,
            known: BTreeSet::from(["old".to_owned()]),
            deadly: true,
        };
        assert!(!places.is_the_end("old".to_owned()));
        assert!(places.is_the_end("new".to_owned()));
        assert!(!places.is_the_end("new".to_owned()));
        let listed = std::fs::read_to_string(dir.path().join("places")).unwrap();
        assert_eq!(listed, "new\n");
    }
}
