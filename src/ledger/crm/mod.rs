//! The CRM: a small HTTP service that stands for somebody else's system.
//!
//! It keeps entries in a database of its own and can be told to honour idempotency keys, to be searchable by source id,
//! or neither, and to fail at a named point. [`serve`] runs it, [`Client`] talks to it.

mod client;
pub mod commands;
mod server;
mod store;

use serde::{Deserialize, Serialize};

pub use client::{Client, PostError, UrlError};
pub use server::serve;
pub use store::{CrmError, Store};

/// What the CRM can do against a second write of the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Capability {
    /// A request with a known `Idempotency-Key` gets the first answer again.
    Idempotency,
    /// `GET /entries?source_id=ID` finds what is there.
    Search,
    /// Neither: every request makes an entry, and nothing can be looked up.
    Neither,
}

/// Where a request goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FaultPoint {
    /// Answers 503, and nothing was written.
    BeforeCommit,
    /// The entry is written, then the connection is closed without an answer.
    AfterCommit,
    /// The entry is written and the answer says 500.
    WrongAnswer,
    /// The entry is written, and the answer does not come before the client gives up.
    Hang,
}

/// What a client asks to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewEntry {
    /// The client's own stable name for the work.
    pub source_id: String,
    pub order_id: String,
    pub amount_cents: i64,
    /// Uid of the Workflow that asks; kept beside the entry, as a note.
    #[serde(default)]
    pub workflow_uid: String,
    /// Event id of the request behind it; kept beside the entry, as a note.
    #[serde(default)]
    pub arrival: String,
}

/// A written entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub seq: i64,
    /// The CRM's own name for it.
    pub reference: String,
    pub source_id: String,
    pub order_id: String,
    pub amount_cents: i64,
    /// The key it came with; empty without one.
    pub idempotency_key: String,
    #[serde(default)]
    pub workflow_uid: String,
    #[serde(default)]
    pub arrival: String,
    /// Wall clock, RFC 3339.
    pub time: String,
}

/// Answer to a new entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    pub reference: String,
    /// False when the idempotency key was known and nothing new was written.
    pub created: bool,
}
