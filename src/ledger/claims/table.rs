//! The claims' tables: reading one claim, and writing a change of it with its transition.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::{ClaimOutcome, ClaimRequest, Owner};
use crate::ledger::rows::Entry;

/// A stored claim, as far as decisions need it.
pub(super) struct Stored {
    /// Sequence of its last transition.
    pub(super) seq: i64,
    pub(super) amount_cents: i64,
    pub(super) state: String,
    pub(super) sending: bool,
    pub(super) owner: String,
    pub(super) reference: String,
    pub(super) detail: String,
    pub(super) workflow_uid: String,
    pub(super) arrival: String,
    pub(super) lease: i64,
}

impl Stored {
    /// The rows that this claim leads to.
    pub(super) fn entry<'a>(&'a self, order_id: &'a str, action: &'a str) -> Entry<'a> {
        Entry {
            order_id,
            action,
            amount_cents: self.amount_cents,
            workflow_uid: &self.workflow_uid,
            workflow_name: "",
            arrival: &self.arrival,
            trace: "",
        }
    }
}

/// What a transition writes.
pub(super) struct Change<'a> {
    pub(super) state: &'a str,
    pub(super) sending: bool,
    pub(super) owner: &'a str,
    pub(super) reference: &'a str,
    pub(super) detail: &'a str,
    pub(super) workflow_uid: &'a str,
}

/// A claim by its key.
pub(super) fn find(
    connection: &Connection,
    order_id: &str,
    action: &str,
) -> rusqlite::Result<Option<Stored>> {
    connection
        .prepare_cached(
            "SELECT seq, amount_cents, state, sending, owner, reference, detail, workflow_uid, arrival, lease_ms
             FROM claims WHERE order_id = ?1 AND action = ?2",
        )?
        .query_row(params![order_id, action], |row| {
            Ok(Stored {
                seq: row.get(0)?,
                amount_cents: row.get(1)?,
                state: row.get(2)?,
                sending: row.get(3)?,
                owner: row.get(4)?,
                reference: row.get(5)?,
                detail: row.get(6)?,
                workflow_uid: row.get(7)?,
                arrival: row.get(8)?,
                lease: row.get(9)?,
            })
        })
        .optional()
}

/// Takes a claim that is free, under a new token.
pub(super) fn win(
    transaction: &Transaction<'_>,
    request: &ClaimRequest,
    now: i64,
) -> rusqlite::Result<ClaimOutcome> {
    let token = uuid::Uuid::new_v4().to_string();
    let lease = now.saturating_add(i64::try_from(request.lease.as_millis()).unwrap_or(i64::MAX));
    let change = Change {
        state: "processing",
        sending: false,
        owner: &token,
        reference: "",
        detail: "claimed",
        workflow_uid: &request.workflow_uid,
    };
    let seq = transition(
        transaction,
        &request.order_id,
        &request.action,
        &change,
        now,
    )?;
    transaction
        .prepare_cached(
            "INSERT INTO claims (seq, order_id, action, amount_cents, state, sending, owner, reference, detail,
                workflow_uid, arrival, lease_ms, clock_ms)
             VALUES (?1, ?2, ?3, ?4, 'processing', 0, ?5, '', 'claimed', ?6, ?7, ?8, ?9)
             ON CONFLICT (order_id, action) DO UPDATE SET seq = excluded.seq, state = excluded.state, sending = 0,
                owner = excluded.owner, reference = '', detail = excluded.detail, workflow_uid = excluded.workflow_uid,
                arrival = excluded.arrival, lease_ms = excluded.lease_ms, clock_ms = excluded.clock_ms",
        )?
        .execute(params![
            seq,
            request.order_id,
            request.action,
            request.amount_cents,
            token,
            request.workflow_uid,
            request.arrival,
            lease,
            now
        ])?;
    Ok(ClaimOutcome::Won(Owner {
        order_id: request.order_id.clone(),
        action: request.action.clone(),
        token,
    }))
}

fn transition(
    transaction: &Transaction<'_>,
    order_id: &str,
    action: &str,
    change: &Change<'_>,
    now: i64,
) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached(
            "INSERT INTO transitions (order_id, action, state, workflow_uid, reference, detail, clock_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING seq",
        )?
        .query_row(
            params![order_id, action, change.state, change.workflow_uid, change.reference, change.detail, now],
            |row| row.get(0),
        )
}

/// Writes a change of a claim, and its transition.
pub(super) fn store(
    transaction: &Transaction<'_>,
    order_id: &str,
    action: &str,
    change: &Change<'_>,
    now: i64,
) -> rusqlite::Result<()> {
    let seq = transition(transaction, order_id, action, change, now)?;
    transaction
        .prepare_cached(
            "UPDATE claims SET seq = ?1, state = ?2, sending = ?3, owner = ?4, reference = ?5, detail = ?6, clock_ms = ?7
             WHERE order_id = ?8 AND action = ?9",
        )?
        .execute(params![
            seq,
            change.state,
            change.sending,
            change.owner,
            change.reference,
            change.detail,
            now,
            order_id,
            action
        ])
        .map(drop)
}
