//! Claims and their changes, as they are read.

use rusqlite::Row;
use serde::{Deserialize, Serialize};

use crate::ledger::format_clock;
use crate::ledger::read::Table;

/// A claim as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRow {
    /// Sequence of its last transition, so that a changed claim comes again after it.
    pub seq: i64,
    pub order_id: String,
    pub action: String,
    pub amount_cents: i64,
    /// `processing`, `completed`, `unresolved` or `failed`.
    pub state: String,
    /// Whether the write to the destination may have begun.
    pub sending: bool,
    /// The destination's reference; empty until it is known.
    pub reference: String,
    pub detail: String,
    pub workflow_uid: String,
    pub arrival: String,
    /// End of the lease while processing, else empty.
    pub lease_until: String,
    pub clock: String,
}

/// One change of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransitionRow {
    pub seq: i64,
    pub order_id: String,
    pub action: String,
    pub state: String,
    pub workflow_uid: String,
    pub reference: String,
    pub detail: String,
    pub clock: String,
}

impl Table for ClaimRow {
    const VIEW: &'static str = "/claims";
    const SINCE: i64 = 2;
    const SQL: &'static str = "SELECT seq, order_id, action, amount_cents, state, sending, reference, detail, workflow_uid,
        arrival, lease_ms, clock_ms FROM claims WHERE seq > ?1 ORDER BY seq LIMIT ?2";

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let state: String = row.get(4)?;
        let lease = if state == "processing" {
            format_clock(row.get(10)?)
        } else {
            String::new()
        };
        Ok(ClaimRow {
            seq: row.get(0)?,
            order_id: row.get(1)?,
            action: row.get(2)?,
            amount_cents: row.get(3)?,
            state,
            sending: row.get(5)?,
            reference: row.get(6)?,
            detail: row.get(7)?,
            workflow_uid: row.get(8)?,
            arrival: row.get(9)?,
            lease_until: lease,
            clock: format_clock(row.get(11)?),
        })
    }

    fn seq(&self) -> i64 {
        self.seq
    }
}

impl Table for TransitionRow {
    const VIEW: &'static str = "/transitions";
    const SINCE: i64 = 2;
    const SQL: &'static str =
        "SELECT seq, order_id, action, state, workflow_uid, reference, detail, clock_ms
        FROM transitions WHERE seq > ?1 ORDER BY seq LIMIT ?2";

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(TransitionRow {
            seq: row.get(0)?,
            order_id: row.get(1)?,
            action: row.get(2)?,
            state: row.get(3)?,
            workflow_uid: row.get(4)?,
            reference: row.get(5)?,
            detail: row.get(6)?,
            clock: format_clock(row.get(7)?),
        })
    }

    fn seq(&self) -> i64 {
        self.seq
    }
}
