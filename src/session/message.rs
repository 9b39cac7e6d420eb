//! What can happen to a session, and what it asks to be done.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::footer::Wait;
use crate::evidence::{Fact, Fate, Layer, OrderExpectation, Right};
use crate::lab::{Action, GateMode, Probe};

/// Input of the state machine. The first group is the learner's, the second the runner's.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Enter: start this stage's work, continue an interrupted one, or go to the next stage once it has passed.
    Next,
    /// Go to a stage of a lab (resets that stage's work on the embedded cluster through its snapshot).
    GoTo { lab: String, stage: usize },
    /// Answer a prediction; `None` predicts that the probe has its effect.
    Predict {
        probe: String,
        stops_at: Option<Layer>,
    },
    /// Show the next hint.
    Hint,
    /// Show the reference solution (allowed after a failed try or on confirmation).
    Reveal { confirmed: bool },
    /// The working copy was saved.
    Edited { manifest: String },
    /// Do the stage's work again with new traces.
    Retry,
    /// Start the lab over.
    Reset,
    /// One answer of the report: topic `layer`, `fact`, `cause`, `not-proven`.
    Report { topic: String, answer: String },
    /// Stop waiting for what runs now.
    Cancel,

    /// What is being applied differs from the lab's own files, as a diff; [`Message::Applied`] follows.
    Changed { diff: String },
    /// An apply that failed had changed these objects before; [`Message::Applied`] follows.
    AppliedInPart { fingerprints: Vec<String> },
    /// Apply ended.
    Applied {
        attempt: u32,
        result: Result<Vec<String>, StepError>,
    },
    /// An action before the probes ended.
    Acted {
        action: Action,
        result: Result<(), StepError>,
    },
    /// The gate's conditions as of now.
    Gate(GateReport),
    /// A probe's send ended (its intent is on disk).
    Sent {
        probe: String,
        trace: String,
        outcome: SendOutcome,
    },
    /// New facts, numbered and on disk.
    Facts(Vec<Fact>),
    /// The collector has nothing to wait for any more, or its time is over.
    Collected { complete: bool },
    /// The access reviews ended; their facts came before.
    Reviewed { result: Result<(), StepError> },
    /// A rewind or reset ended.
    Rewound { result: Result<(), StepError> },
    /// How the objects of the lab differ from what it had applied. Empty when they agree again.
    Drift(Vec<Difference>),
    /// Whether somebody else has changed the lab's objects could not be seen before the go at the stage was to be judged; in
    /// place of the message that would have ended it.
    NotCompared { why: String },
    /// What all work waits for while nothing is heard of the cluster; `None` once something is again.
    Unheard(Option<Wait>),
    /// The learner's choice after [`Message::Drift`].
    Reconcile(Reconcile),
    /// Time passes (only for the seconds that are shown).
    Tick(Timestamp),
}

/// Reason code of a [`StepError`] that answers [`Effect::Rewind`] where there is nothing to go back to, as on a real
/// cluster: what the stages before had applied is then applied again.
pub const NO_SNAPSHOT: &str = "no-snapshot";

/// How one object differs from what was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// In words: `Sensor/orders was changed`.
    pub text: String,
    /// The fingerprint that is kept of it.
    pub kept: String,
    /// The fingerprint of what is there now: what it is compared with once it was taken as it is.
    pub live: String,
}

impl Difference {
    /// A difference of no one object, in words.
    #[must_use]
    pub fn of_all(text: String) -> Self {
        Self {
            text,
            kept: String::new(),
            live: String::new(),
        }
    }

    /// Whether it is of no one object.
    #[must_use]
    pub fn is_of_all(&self) -> bool {
        self.kept.is_empty()
    }
}

/// What to do when cluster and checkpoint differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconcile {
    /// Go on with the cluster as it is.
    Adopt,
    /// Apply again what this lab had applied, as a new attempt.
    Reapply,
    /// Start the lab over.
    Reset,
}

/// What a transition may use besides state and message, so that it stays a pure function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    pub now: Timestamp,
    /// Drawn at random for each message; names the trace or the intent that follows from it.
    pub id: u32,
}

/// Why a step could not be done. `environment` means "could not look", which is never the learner's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    /// `apply-refused`, `invalid-sensor`, `not-subscribed`, `no-answer`, …
    pub reason: String,
    pub text: String,
    pub environment: bool,
}

/// How a send ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendOutcome {
    Answered {
        status: u16,
    },
    /// The client closed before reading (on purpose or not).
    Lost {
        error: String,
    },
    /// The request was never written: nothing was sent.
    NotSent {
        error: String,
    },
    /// After a restart: the intent is on disk and its outcome is not.
    Unresolved,
}

/// The gate's conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateReport {
    pub open: bool,
    pub conditions: Vec<GateCondition>,
    /// Set when waiting longer cannot help.
    pub failed: Option<StepError>,
}

/// One condition of the gate.
#[derive(Clone, Debug, PartialEq)]
pub struct GateCondition {
    /// `event bus`, `event source`, `sensor spec`, `older pod`, `subscribed`, `consumers`.
    pub name: String,
    pub holds: bool,
    /// What is there or what is missing: `stand by, old pod orders-sensor-… alive`.
    pub detail: String,
    pub since: Option<Timestamp>,
    pub command: String,
}

/// What the state machine asks for, to be carried out in this order.
///
/// Each one that changes the world follows its [`crate::evidence::journal::Intent`] in a [`Effect::Journal`], which must be on disk (fsync)
/// before it runs; the state journals the outcome too, when the answer arrives. After [`Effect::CancelWork`] no message of
/// the cancelled work may be delivered any more.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Replace the checkpoint atomically.
    Checkpoint,
    /// Apply manifests (working copies first), dependency names renamed for the attempt.
    Apply {
        lab: String,
        stage: String,
        attempt: u32,
        manifests: Vec<String>,
    },
    Act {
        lab: String,
        stage: String,
        attempt: u32,
        action: Action,
    },
    /// Watch the gate and report until it opens, fails or is cancelled.
    OpenGate {
        lab: String,
        stage: String,
        attempt: u32,
        mode: GateMode,
        /// The reason for which it must fail; requests follow that failure, which counts once they would be taken in.
        must_fail: Option<String>,
    },
    Send {
        lab: String,
        stage: String,
        attempt: u32,
        trace: String,
        probe: Box<Probe>,
    },
    /// Collect facts for these traces until every one is settled or nothing more can come.
    Collect {
        lab: String,
        stage: String,
        attempt: u32,
        probes: Vec<(String, String, Fate)>,
    },
    /// Ask the API server what service accounts may do, and the ledger what stands about orders; each answer is a fact.
    Review {
        lab: String,
        stage: String,
        attempt: u32,
        rights: Vec<Right>,
        orders: Vec<OrderExpectation>,
    },
    /// Append to the journal (predictions, claims, judgements, notes).
    Journal(Box<crate::evidence::Entry>),
    Snapshot {
        lab: String,
        stage: usize,
        /// An earlier process may have made it, or may have ended before.
        unless_there: bool,
    },
    Rewind {
        lab: String,
        stage: usize,
    },
    Reset {
        lab: String,
    },
    /// Copy the manifest to the working copies if it is not there.
    OpenWorkingCopy {
        manifest: String,
    },
    CancelWork,
}
