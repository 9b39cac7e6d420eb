//! The outbox: a delivery that is written down in the same transaction as the effect it follows from.
//!
//! No crash can part the two. A relay delivers later, through the same claim as everybody else.

use rusqlite::{Transaction, params};
use serde::Serialize;

use super::error::AtPath;
use super::{Ledger, LedgerError, Order};

/// A delivery that waits, or was completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutboxRow {
    pub seq: i64,
    pub order_id: String,
    pub action: String,
    pub amount_cents: i64,
    pub workflow_uid: String,
    pub arrival: String,
    /// State of its claim; `waiting` before it was first tried.
    pub state: String,
}

/// Writes a delivery down; an order and action is there once.
pub(super) fn put(
    transaction: &Transaction<'_>,
    order: &Order,
    action: &str,
    now: i64,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO outbox (order_id, action, amount_cents, workflow_uid, arrival, clock_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (order_id, action) DO NOTHING",
        )?
        .execute(params![
            order.order_id,
            action,
            order.amount_cents,
            order.workflow_uid,
            order.arrival,
            now
        ])
        .map(drop)
}

impl Ledger {
    /// At most `limit` deliveries after the sequence `after`, with the state of their claims, oldest first.
    pub fn outbox(&self, after: i64, limit: usize) -> Result<Vec<OutboxRow>, LedgerError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let read = || -> rusqlite::Result<Vec<OutboxRow>> {
            let mut statement = self.connection.prepare_cached(
                "SELECT o.seq, o.order_id, o.action, o.amount_cents, o.workflow_uid, o.arrival,
                    coalesce(c.state, 'waiting')
                 FROM outbox o LEFT JOIN claims c USING (order_id, action)
                 WHERE o.seq > ?1 ORDER BY o.seq LIMIT ?2",
            )?;
            statement
                .query_map(params![after, limit], |row| {
                    Ok(OutboxRow {
                        seq: row.get(0)?,
                        order_id: row.get(1)?,
                        action: row.get(2)?,
                        amount_cents: row.get(3)?,
                        workflow_uid: row.get(4)?,
                        arrival: row.get(5)?,
                        state: row.get(6)?,
                    })
                })?
                .collect()
        };
        read().at(&self.path)
    }
}
