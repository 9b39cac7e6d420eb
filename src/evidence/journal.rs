//! The lines of `evidence.jsonl`: facts, intents and outcomes, predictions, claims, verdicts, notes.
//!
//! Everything that is shown or reported is a view of these entries. Reading and writing the file is `session::files`.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::access::Right;
use super::fact::{Fact, Observation};
use super::layer::{Fate, Layer};
use super::verdict::{Outcome, Verdict};

/// An effect that is about to run. It is on disk before it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    pub time: Timestamp,
    pub lab: String,
    pub stage: String,
    pub attempt: u32,
    /// Names this intent; its outcome repeats it. For a send it is the trace.
    pub id: String,
    pub action: IntentAction,
}

/// What is about to happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum IntentAction {
    Send {
        probe: String,
    },
    Apply {
        manifests: Vec<String>,
    },
    DeletePod {
        pod: String,
    },
    /// A lab's action: `delete-sensor-pod`, `stop-sensor`, …
    Act {
        what: String,
    },
    Reset,
    Rewind {
        stage: String,
    },
}

/// How an intent ended, as far as this process knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntentOutcome {
    pub time: Timestamp,
    pub id: String,
    /// `done`, or what went wrong.
    pub result: String,
    pub ok: bool,
}

/// The learner's answer before a send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    pub time: Timestamp,
    pub lab: String,
    pub stage: String,
    pub attempt: u32,
    pub probe: String,
    /// The layer that will stop it; `None` predicts that it has its effect.
    pub stops_at: Option<Layer>,
}

/// A claim of the learner's report, and how the evidence answers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    pub time: Timestamp,
    pub lab: String,
    pub stage: String,
    /// `layer`, `fact`, `cause` or `not-proven`.
    pub topic: String,
    pub statement: String,
    pub answer: ClaimAnswer,
}

/// How a claim is answered from facts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum ClaimAnswer {
    SupportedBy { facts: Vec<u64> },
    ContradictedBy { facts: Vec<u64>, because: String },
    NothingShowsThis,
}

impl fmt::Display for ClaimAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SupportedBy { .. } => f.write_str("supported"),
            Self::ContradictedBy { because, .. } => write!(f, "contradicted: {because}"),
            Self::NothingShowsThis => f.write_str("nothing you collected shows it"),
        }
    }
}

/// A remark that belongs to the record: a torn line, a hint shown, a reset, an applied manifest's diff.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    pub time: Timestamp,
    pub lab: String,
    pub stage: String,
    pub attempt: u32,
    /// `hint`, `applied`, `torn-line`, `reset`, `resumed`, …
    pub topic: String,
    pub text: String,
}

/// Verdict of a check, with the fates it compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    pub time: Timestamp,
    pub lab: String,
    pub stage: String,
    pub attempt: u32,
    pub probe: Option<String>,
    pub expected: Option<Fate>,
    pub observed: Option<Fate>,
    /// The right that was judged, for a check of access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Right>,
    /// The order check that was judged, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    pub verdict: Verdict,
}

impl Judgement {
    /// The judgement as it stands while the journal holds the facts of these numbers: one that rests on facts that are not
    /// there any more is unproven, whatever it was.
    #[must_use]
    pub fn standing(&self, there: &BTreeSet<u64>) -> Judgement {
        let missing: Vec<String> = self
            .verdict
            .facts
            .iter()
            .filter(|fact| !there.contains(fact))
            .map(|fact| format!("#{fact}"))
            .collect();
        if missing.is_empty() || self.verdict.outcome == Outcome::Unproven {
            return self.clone();
        }
        let mut judgement = self.clone();
        judgement.verdict.outcome = Outcome::Unproven;
        judgement.verdict.because = Some(format!(
            "the journal does not hold {} any more, on which this rested",
            missing.join(", ")
        ));
        judgement
    }
}

impl Claim {
    /// The claim as it is answered while the journal holds the facts of these numbers.
    #[must_use]
    pub fn standing(&self, there: &BTreeSet<u64>) -> Claim {
        let answer = match &self.answer {
            ClaimAnswer::SupportedBy { facts }
                if !facts.iter().all(|fact| there.contains(fact)) =>
            {
                ClaimAnswer::NothingShowsThis
            }
            answer => answer.clone(),
        };
        Claim {
            answer,
            ..self.clone()
        }
    }
}

/// The numbers of the facts in a journal.
#[must_use]
pub fn fact_numbers(entries: &[Entry]) -> BTreeSet<u64> {
    let number = |entry: &Entry| match entry {
        Entry::Fact(fact) => Some(fact.seq),
        _ => None,
    };
    entries.iter().filter_map(number).collect()
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    Fact(Fact),
    Intent(Intent),
    Outcome(IntentOutcome),
    Prediction(Prediction),
    Claim(Claim),
    Judgement(Judgement),
    Note(Note),
}

/// Intents without an outcome, in the order of the journal, each once.
///
/// A request that was seen to arrive is not among them, even if its outcome was not written any more.
#[must_use]
pub fn unresolved(entries: &[Entry]) -> Vec<&Intent> {
    let mut ended: BTreeSet<&str> = BTreeSet::new();
    for entry in entries {
        match entry {
            Entry::Outcome(outcome) => {
                ended.insert(&outcome.id);
            }
            Entry::Fact(fact) if shows_the_request(fact) => ended.extend(fact.known_trace()),
            _ => {}
        }
    }
    let mut seen = BTreeSet::new();
    entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Intent(intent) => Some(intent),
            _ => None,
        })
        .filter(|intent| !ended.contains(intent.id.as_str()) && seen.insert(intent.id.as_str()))
        .collect()
}

fn shows_the_request(fact: &Fact) -> bool {
    matches!(
        fact.observation,
        Observation::HttpAnswer { .. }
            | Observation::AnswerLost { .. }
            | Observation::Received
            | Observation::Stored { .. }
    )
}
