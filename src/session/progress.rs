//! What is kept of a lab and of a stage: attempts, sends, predictions, hints, claims.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::message::SendOutcome;
use crate::evidence::journal::Claim;
use crate::evidence::{Fate, Layer, ProbeRun, Right};
use crate::lab::Failure;

/// One send of a probe and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeSend {
    pub probe: String,
    pub trace: String,
    /// `None` while the request is under way.
    pub outcome: Option<SendOutcome>,
}

impl ProbeSend {
    /// Whether it is not known if the request was sent at all.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        self.outcome == Some(SendOutcome::Unresolved)
    }

    /// Whether it is known that nothing was sent.
    #[must_use]
    pub fn was_not_sent(&self) -> bool {
        matches!(self.outcome, Some(SendOutcome::NotSent { .. }))
    }
}

/// One go at a stage's work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageRun {
    pub attempt: u32,
    /// In the order in which they were sent.
    pub sends: Vec<ProbeSend>,
    /// So many of the sends were waited for before the next one.
    #[serde(default)]
    pub settled: usize,
    /// The program ended while this go was under way, and its pods with it.
    #[serde(default)]
    pub cut_off: bool,
    /// Kind and name of objects that were not the lab's at some time while this go was under way.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub foreign: BTreeSet<String>,
}

impl StageRun {
    /// The sends as the evidence wants them.
    #[must_use]
    pub fn probe_runs(&self) -> Vec<ProbeRun> {
        self.sends
            .iter()
            .filter(|send| !send.was_not_sent())
            .map(|send| ProbeRun {
                name: send.probe.clone(),
                trace: send.trace.clone(),
                attempt: self.attempt,
            })
            .collect()
    }
}

/// Everything that is kept of one lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabProgress {
    /// Name of the stage where the lab stands.
    pub stage: String,
    /// Grows with each apply, each go at the same probes, each rewind and each reset; never goes back.
    pub attempt: u32,
    /// The last stage has passed once.
    pub completed: bool,
    pub passed: BTreeSet<String>,
    /// The last go at each stage, by its name.
    pub runs: BTreeMap<String, StageRun>,
    /// By predicted stage and probe; `None` predicts an effect.
    pub predictions: BTreeMap<String, BTreeMap<String, Option<Layer>>>,
    /// Hints shown, by stage.
    pub hints: BTreeMap<String, usize>,
    /// Failed tries, by stage.
    pub failures: BTreeMap<String, u32>,
    /// Stages whose solution was shown.
    pub revealed: BTreeSet<String>,
    pub working_copies: BTreeSet<String>,
    /// Working copies saved since they were applied.
    pub edited: BTreeSet<String>,
    /// The objects that were applied, one text each; its first three words name the object, its first five are compared
    /// with what is there.
    pub fingerprints: Vec<String>,
    /// Manifests that were applied, in order.
    pub in_force: Vec<String>,
    /// Stages at whose start the cluster was snapshot, with the fingerprints of then.
    pub snapshots: BTreeMap<String, Vec<String>>,
    /// Claims of the report stages, the last of each topic (every one for `not-proven`).
    pub claims: Vec<Claim>,
}

impl LabProgress {
    /// What is left of a lab that is started over at its `first` stage.
    #[must_use]
    pub fn started_over(&self, first: &str) -> LabProgress {
        LabProgress {
            attempt: self.attempt.saturating_add(1),
            completed: self.completed,
            snapshots: self
                .snapshots
                .get_key_value(first)
                .map(|(stage, then)| (stage.clone(), then.clone()))
                .into_iter()
                .collect(),
            ..LabProgress::default()
        }
    }
}

/// The words of a fingerprint that name its object: version, kind, name.
fn object_of(fingerprint: &str) -> Vec<&str> {
    fingerprint.split(' ').take(3).collect()
}

impl LabProgress {
    /// Takes what an apply answered; an object that was applied before has a new fingerprint.
    pub(super) fn take_fingerprints(&mut self, applied: Vec<String>) {
        for new in applied {
            self.fingerprints
                .retain(|old| object_of(old) != object_of(&new));
            self.fingerprints.push(new);
        }
    }
}

/// Why a stage did not pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageFailure {
    pub probe: Option<String>,
    /// A reason code of the gate or of apply, or `fate` for a probe.
    pub reason: String,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Fate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Fate>,
    /// The right that is missing or too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Right>,
    /// The order check that does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// The line of a fact that speaks against the expectation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

impl StageFailure {
    /// Reason code of a probe that did not have its fate.
    pub const FATE: &'static str = "fate";

    /// Whether a pod that ended with the program could look like this.
    #[must_use]
    pub fn may_be_of_a_lost_pod(&self) -> bool {
        let run = |fate: &Fate| match fate {
            Fate::Stopped { layer, .. } => *layer >= Layer::Run,
            Fate::AppliedButRunStopped { .. } => true,
            Fate::Applied => false,
        };
        self.order.is_some() || self.observed.as_ref().is_some_and(run)
    }

    /// Whether this is how a wrong fix was said to fail.
    #[must_use]
    pub fn is(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Probe(wanted) => {
                self.probe.as_deref() == Some(wanted.probe.as_str())
                    && self.observed.as_ref() == Some(&wanted.observed)
            }
            Failure::Access(wanted) => self.access.as_ref() == Some(&wanted.access),
            Failure::Order(wanted) => self.order.as_ref() == Some(&wanted.order),
            Failure::Gate(wanted) => self.probe.is_none() && self.reason == wanted.gate,
        }
    }
}

/// Why a stage is not proven.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenReason {
    pub probe: Option<String>,
    /// A reason code of the step that could not be done, `evidence`, or [`OpenReason::TOO_LATE`].
    pub reason: String,
    pub text: String,
    /// It could not be looked at: exit code 3 instead of 1.
    pub environment: bool,
}

impl OpenReason {
    /// A request that was to be early was not: another go may prove it.
    pub const TOO_LATE: &str = "too-late";
}
