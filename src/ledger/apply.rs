//! Applying orders: the three modes, each leaving an attempt row.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::error::AtPath;
use super::{FirstEffect, LedgerError, Mode, Order, Outcome, Receipt, clock, format_clock, schema};

/// Longest step of the ledger's clock, in milliseconds: a hundred years.
const MAX_ADVANCE_MS: i64 = 3_153_600_000_000;

/// Settings of a run beside its mode.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Work between the look and the write of [`Mode::CheckThenWrite`].
    pub pause: Duration,
    /// How long a key is remembered, in ledger time; `None` for ever.
    pub retention: Option<Duration>,
}

/// A ledger file opened for writing.
#[derive(Debug)]
pub struct Ledger {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
}

impl Ledger {
    /// Opens the ledger at `path`, and makes it when it is not there (its directory must exist).
    pub fn open(path: impl AsRef<Path>) -> Result<Ledger, LedgerError> {
        let path = path.as_ref();
        Ok(Ledger {
            connection: schema::open_for_writing(path)?,
            path: path.to_path_buf(),
        })
    }

    /// Applies an order in the given mode and records the attempt.
    pub fn apply(&mut self, order: &Order, mode: Mode) -> Result<Receipt, LedgerError> {
        self.apply_with(order, mode, Options::default())
    }

    /// [`Ledger::apply`] with a pause between look and write, or a retention for keys.
    pub fn apply_with(
        &mut self,
        order: &Order,
        mode: Mode,
        options: Options,
    ) -> Result<Receipt, LedgerError> {
        order.check()?;
        let seen = match mode {
            Mode::CheckThenWrite => self.look(order, options)?,
            Mode::Naive | Mode::Atomic => None,
        };
        let run = Run {
            order,
            mode,
            options,
            seen,
        };
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .at(&self.path)?;
        let receipt = run.write(&transaction).at(&self.path)?;
        transaction.commit().at(&self.path)?;
        Ok(receipt)
    }

    /// Moves the ledger's clock forward and answers its new time in milliseconds.
    pub fn advance_clock(&mut self, by: Duration) -> Result<i64, LedgerError> {
        let milliseconds = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        if milliseconds > MAX_ADVANCE_MS {
            return Err(LedgerError::Invalid {
                field: "step",
                reason: "must not be longer than a hundred years".into(),
            });
        }
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .at(&self.path)?;
        let now = clock::advance(&transaction, milliseconds).at(&self.path)?;
        transaction.commit().at(&self.path)?;
        Ok(now)
    }

    /// The first step of check-then-write: a read of its own, so that another run may write before this one does.
    fn look(
        &mut self,
        order: &Order,
        options: Options,
    ) -> Result<Option<FirstEffect>, LedgerError> {
        let now = clock::now(&self.connection).at(&self.path)?;
        let seen = find(&self.connection, order, now, options.retention).at(&self.path)?;
        if seen.is_none() && !options.pause.is_zero() {
            std::thread::sleep(options.pause);
        }
        Ok(seen)
    }
}

/// One run inside its write transaction.
struct Run<'a> {
    order: &'a Order,
    mode: Mode,
    options: Options,
    /// What check-then-write saw before.
    seen: Option<FirstEffect>,
}

impl Run<'_> {
    fn write(mut self, transaction: &Transaction<'_>) -> rusqlite::Result<Receipt> {
        let now = clock::tick(transaction)?;
        if self.mode == Mode::Atomic {
            self.seen = find(transaction, self.order, now, self.options.retention)?;
        }
        let outcome = match self.seen.take() {
            Some(first) if first.amount_cents != self.order.amount_cents => {
                Outcome::Conflict { first }
            }
            Some(first) => {
                let same_workflow = first.workflow_uid == self.order.workflow_uid;
                Outcome::Duplicate {
                    first,
                    same_workflow,
                }
            }
            None => self.effect(transaction, now)?,
        };
        let attempt = self.attempt(transaction, now, &outcome)?;
        Ok(Receipt {
            outcome,
            attempt,
            clock: format_clock(now),
        })
    }

    fn effect(&self, transaction: &Transaction<'_>, now: i64) -> rusqlite::Result<Outcome> {
        let order = self.order;
        let effect: i64 = transaction
            .prepare_cached(
                "INSERT INTO effects (order_id, action, amount_cents, workflow_uid, arrival, clock_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING seq",
            )?
            .query_row(
                params![order.order_id, order.action, order.amount_cents, order.workflow_uid, order.arrival, now],
                |row| row.get(0),
            )?;
        self.remember(transaction, effect, now)?;
        let balance_cents: i64 = transaction
            .prepare_cached(
                "INSERT INTO balances (order_id, action, balance_cents, effects, effect_seq, clock_ms)
                 VALUES (?1, ?2, ?3, 1, ?4, ?5)
                 ON CONFLICT (order_id, action) DO UPDATE SET balance_cents = balance_cents + excluded.balance_cents,
                    effects = effects + 1, effect_seq = excluded.effect_seq, clock_ms = excluded.clock_ms
                 RETURNING balance_cents",
            )?
            .query_row(params![order.order_id, order.action, order.amount_cents, effect, now], |row| row.get(0))?;
        Ok(Outcome::Applied {
            effect,
            balance_cents,
        })
    }

    /// Registers the business key; a key whose retention is over gets its new effect, any other keeps its first.
    fn remember(
        &self,
        transaction: &Transaction<'_>,
        effect: i64,
        now: i64,
    ) -> rusqlite::Result<()> {
        let order = self.order;
        let on_conflict = match self.options.retention {
            Some(_) if self.mode != Mode::Naive => {
                "DO UPDATE SET amount_cents = excluded.amount_cents, effect_seq = excluded.effect_seq,
                    clock_ms = excluded.clock_ms"
            }
            _ => "DO NOTHING",
        };
        let sql = format!(
            "INSERT INTO orders (order_id, action, amount_cents, effect_seq, clock_ms) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (order_id, action) {on_conflict}"
        );
        transaction
            .prepare_cached(&sql)?
            .execute(params![
                order.order_id,
                order.action,
                order.amount_cents,
                effect,
                now
            ])
            .map(drop)
    }

    fn attempt(
        &self,
        transaction: &Transaction<'_>,
        now: i64,
        outcome: &Outcome,
    ) -> rusqlite::Result<i64> {
        let order = self.order;
        let effect = match outcome {
            Outcome::Applied { effect, .. } => *effect,
            Outcome::Duplicate { first, .. } | Outcome::Conflict { first } => first.effect,
        };
        transaction
            .prepare_cached(
                "INSERT INTO attempts (order_id, action, amount_cents, mode, workflow_uid, workflow_name, arrival, trace,
                    outcome, effect_seq, clock_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) RETURNING seq",
            )?
            .query_row(
                params![
                    order.order_id,
                    order.action,
                    order.amount_cents,
                    self.mode.as_str(),
                    order.workflow_uid,
                    order.workflow_name,
                    order.arrival,
                    order.trace,
                    outcome.as_str(),
                    effect,
                    now
                ],
                |row| row.get(0),
            )
    }
}

/// The effect that registered the key, unless its retention is over at `now`.
fn find(
    connection: &Connection,
    order: &Order,
    now: i64,
    retention: Option<Duration>,
) -> rusqlite::Result<Option<FirstEffect>> {
    let lifetime = retention.map_or(i64::MAX, |time| {
        i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
    });
    connection
        .prepare_cached(
            "SELECT e.seq, o.amount_cents, e.workflow_uid, e.arrival, o.clock_ms
             FROM orders o JOIN effects e ON e.seq = o.effect_seq
             WHERE o.order_id = ?1 AND o.action = ?2 AND ?3 - o.clock_ms < ?4",
        )?
        .query_row(
            params![order.order_id, order.action, now, lifetime],
            |row| {
                Ok(FirstEffect {
                    effect: row.get(0)?,
                    amount_cents: row.get(1)?,
                    workflow_uid: row.get(2)?,
                    arrival: row.get(3)?,
                    clock: format_clock(row.get(4)?),
                })
            },
        )
        .optional()
}
