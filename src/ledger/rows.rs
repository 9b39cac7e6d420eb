//! Writing effects and attempts, inside a transaction of whoever has decided.

use rusqlite::{Transaction, params};

use super::Order;

/// What a row says about the run behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub order_id: &'a str,
    pub action: &'a str,
    pub amount_cents: i64,
    pub workflow_uid: &'a str,
    pub workflow_name: &'a str,
    pub arrival: &'a str,
    pub trace: &'a str,
}

impl<'a> From<&'a Order> for Entry<'a> {
    fn from(order: &'a Order) -> Self {
        Entry {
            order_id: &order.order_id,
            action: &order.action,
            amount_cents: order.amount_cents,
            workflow_uid: &order.workflow_uid,
            workflow_name: &order.workflow_name,
            arrival: &order.arrival,
            trace: &order.trace,
        }
    }
}

/// What becomes of a business key that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownKey {
    /// It keeps its first effect.
    Keep,
    /// Its lifetime was over: it takes the new effect.
    Renew,
}

/// Adds an effect, its key and its balance; answers the effect's sequence and the balance in cents.
pub(super) fn add_effect(
    transaction: &Transaction<'_>,
    entry: Entry<'_>,
    known: KnownKey,
    now: i64,
) -> rusqlite::Result<(i64, i64)> {
    let effect: i64 = transaction
        .prepare_cached(
            "INSERT INTO effects (order_id, action, amount_cents, workflow_uid, arrival, clock_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING seq",
        )?
        .query_row(
            params![
                entry.order_id,
                entry.action,
                entry.amount_cents,
                entry.workflow_uid,
                entry.arrival,
                now
            ],
            |row| row.get(0),
        )?;
    remember(transaction, entry, effect, known, now)?;
    Ok((effect, add_balance(transaction, entry, effect, now)?))
}

fn remember(
    transaction: &Transaction<'_>,
    entry: Entry<'_>,
    effect: i64,
    known: KnownKey,
    now: i64,
) -> rusqlite::Result<()> {
    let on_conflict = match known {
        KnownKey::Renew => {
            "DO UPDATE SET amount_cents = excluded.amount_cents, effect_seq = excluded.effect_seq,
                clock_ms = excluded.clock_ms"
        }
        KnownKey::Keep => "DO NOTHING",
    };
    let sql = format!(
        "INSERT INTO orders (order_id, action, amount_cents, effect_seq, clock_ms) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (order_id, action) {on_conflict}"
    );
    transaction
        .prepare_cached(&sql)?
        .execute(params![
            entry.order_id,
            entry.action,
            entry.amount_cents,
            effect,
            now
        ])
        .map(drop)
}

/// Adds the amount to the balance of the key and answers it.
pub(super) fn add_balance(
    transaction: &Transaction<'_>,
    entry: Entry<'_>,
    effect: i64,
    now: i64,
) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached(
            "INSERT INTO balances (order_id, action, balance_cents, effects, effect_seq, clock_ms)
             VALUES (?1, ?2, ?3, 1, ?4, ?5)
             ON CONFLICT (order_id, action) DO UPDATE SET balance_cents = balance_cents + excluded.balance_cents,
                effects = effects + 1, effect_seq = excluded.effect_seq, clock_ms = excluded.clock_ms
             RETURNING balance_cents",
        )?
        .query_row(
            params![entry.order_id, entry.action, entry.amount_cents, effect, now],
            |row| row.get(0),
        )
}

/// Adds the row of a run: its mode, its outcome and the effect that it made or met.
pub(super) fn add_attempt(
    transaction: &Transaction<'_>,
    entry: Entry<'_>,
    mode: &str,
    outcome: &str,
    effect: Option<i64>,
    now: i64,
) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached(
            "INSERT INTO attempts (order_id, action, amount_cents, mode, workflow_uid, workflow_name, arrival, trace,
                outcome, effect_seq, clock_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) RETURNING seq",
        )?
        .query_row(
            params![
                entry.order_id,
                entry.action,
                entry.amount_cents,
                mode,
                entry.workflow_uid,
                entry.workflow_name,
                entry.arrival,
                entry.trace,
                outcome,
                effect,
                now
            ],
            |row| row.get(0),
        )
}
