//! One observation: what was seen, where, and the command that shows it in the field.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::layer::Layer;

/// The container instance that an observation belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodInstance {
    pub pod: String,
    pub uid: String,
    pub container: String,
    /// Restart count of the container.
    pub instance: u32,
}

/// What was observed. Serialized with a `kind` field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Observation {
    /// The EventSource answered a probe.
    HttpAnswer { status: u16, body: String },
    /// The client closed before it read the answer, or the connection broke: nothing is known of the intake.
    AnswerLost { error: String },
    /// A message of this trace or arrival is on the bus.
    Stored { subject: String },
    /// Every message up to this stream sequence was read since the send, and none carries this trace.
    NotStored { last_sequence: u64 },
    /// The EventSource's debug line tied an arrival to a trace.
    Received,
    /// State of a consumer.
    Consumer {
        durable: String,
        subject: String,
        created_at_sequence: u64,
        ack_floor: u64,
        waiting: u64,
        pending: u64,
        ack_pending: u64,
    },
    /// The consumers were read after the message was stored, and none has its subject.
    NoConsumer { subject: String },
    /// A discard line of the Sensor; `error` is absent on a clean mismatch.
    Discarded { error: Option<String> },
    /// The Sensor's success line names this arrival.
    Triggered { trigger: String },
    /// The Sensor's failure line names this arrival.
    TriggerFailed { trigger: String, error: String },
    /// A Workflow carries this arrival.
    WorkflowCreated { name: String },
    /// Phase of a Workflow (empty before the controller saw it).
    WorkflowPhase {
        name: String,
        phase: String,
        message: String,
    },
    /// An attempt row of the ledger: `applied`, `duplicate`, `conflict`, `unresolved`, `busy`, `failed`, `refused`.
    LedgerAttempt { outcome: String, amount_cents: i64 },
    /// An effect row of the ledger.
    LedgerEffect {
        amount_cents: i64,
        /// Number of the row; 0 in journals from before it was kept.
        #[serde(default)]
        row: u64,
    },
    /// An entry at the destination, an effect outside the ledger.
    DestinationRecord {
        reference: String,
        amount_cents: i64,
    },
    /// A change of a claim.
    ClaimChanged {
        action: String,
        state: String,
        reference: String,
    },
    /// What stands about an order and action, read whole after everything that was sent had come to its end.
    OrderState {
        order: String,
        action: String,
        /// Runs that left a row, whatever their outcome.
        attempts: u64,
        effects: u64,
        /// Entries at the destination; absent where there is no destination.
        records: Option<u64>,
        /// State of the claim; absent without one.
        claim: Option<String>,
    },
    /// The ledger's rows were read whole after the Workflow ended, and none names this arrival or execution.
    NoEffect,
    /// One condition of the gate.
    Gate { condition: String, holds: bool },
    /// The API server answered an access review of a service account.
    Access {
        account: String,
        verb: String,
        group: String,
        resource: String,
        allowed: bool,
        reason: String,
    },
    /// Nothing was seen during this window, waited in full.
    Window { seconds: u64 },
}

impl Observation {
    /// Whether it is read from a container's log, so that it counts only with its pod instance.
    #[must_use]
    pub fn is_from_log(&self) -> bool {
        matches!(
            self,
            Observation::Received
                | Observation::Discarded { .. }
                | Observation::Triggered { .. }
                | Observation::TriggerFailed { .. }
        )
    }
}

/// One observation with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Position in the journal; order is by `seq`, not by clock. 0 until it is written.
    #[serde(default)]
    pub seq: u64,
    pub time: Timestamp,
    pub lab: String,
    /// Name of the stage.
    pub stage: String,
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<String>,
    pub layer: Layer,
    #[serde(flatten)]
    pub observation: Observation,
    /// Where it was seen, in words: `sensor log`, `bus`, `workflow`, `ledger`, `http`.
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodInstance>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival: Option<String>,
    /// Stream sequence of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Uid of the Workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// The raw line, or a reference to the object.
    pub line: String,
    /// The command that shows it in the field.
    pub command: String,
}

impl Fact {
    /// Whether it may prove anything in this lab and attempt.
    ///
    /// A fact that is not on disk, of another attempt or of none, or from a log without its pod instance proves nothing.
    #[must_use]
    pub fn counts_in(&self, lab: &str, attempt: u32) -> bool {
        let placed = !self.observation.is_from_log()
            || self.pod.as_ref().is_some_and(|pod| !pod.uid.is_empty());
        self.seq > 0 && attempt > 0 && self.attempt == attempt && self.lab == lab && placed
    }

    /// The trace, unless it is empty or the default `none` of a request without the header.
    #[must_use]
    pub fn known_trace(&self) -> Option<&str> {
        self.trace
            .as_deref()
            .filter(|trace| !trace.is_empty() && *trace != "none")
    }

    /// The arrival id, unless it is empty.
    #[must_use]
    pub fn known_arrival(&self) -> Option<&str> {
        self.arrival.as_deref().filter(|id| !id.is_empty())
    }

    /// The uid of the Workflow, unless it is empty.
    #[must_use]
    pub fn known_execution(&self) -> Option<&str> {
        self.execution.as_deref().filter(|uid| !uid.is_empty())
    }
}
