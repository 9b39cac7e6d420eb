//! Applying orders: the three modes, each leaving an attempt row.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::error::AtPath;
use super::order::key;
use super::rows::{KnownKey, add_attempt, add_balance, add_effect};
use super::{
    FirstEffect, LedgerError, Mode, Order, Outcome, Receipt, clock, format_clock, outbox, schema,
};

/// Longest step of the ledger's clock, in milliseconds: a hundred years.
const MAX_ADVANCE_MS: i64 = 3_153_600_000_000;

/// Pause between two looks at who else has looked.
const MEETING_LOOK: Duration = Duration::from_millis(10);

/// Settings of a run beside its mode.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Work between the look and the write of [`Mode::CheckThenWrite`].
    pub pause: Duration,
    /// The run goes on as soon as so many, itself included, have looked at the key or written it, at most after the
    /// pause. So a race that is rare is certain.
    pub meet: u32,
    /// How long a key is remembered, in ledger time; `None` for ever.
    pub retention: Option<Duration>,
    /// An action whose delivery is written down in the same transaction as the effect, see [`Ledger::outbox`].
    pub outbox: Option<String>,
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
        order.check_for(mode)?;
        if let Some(action) = &options.outbox {
            key("outbox action", action)?;
        }
        let seen = match mode {
            Mode::CheckThenWrite => self.look(order, &options)?,
            Mode::Naive | Mode::InsertOrIgnore | Mode::Atomic => {
                if options.meet > 1 {
                    self.meet(order, &options, options.meet - 1)?;
                }
                None
            }
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
        options: &Options,
    ) -> Result<Option<FirstEffect>, LedgerError> {
        let now = clock::now(&self.connection).at(&self.path)?;
        let seen = find(&self.connection, order, now, options.retention).at(&self.path)?;
        if seen.is_none() && options.meet > 1 {
            self.connection
                .execute(
                    "INSERT INTO looks VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                    params![order.order_id, order.action, order.workflow_uid],
                )
                .at(&self.path)?;
            self.meet(order, options, options.meet)?;
        } else if seen.is_none() && !options.pause.is_zero() {
            std::thread::sleep(options.pause);
        }
        Ok(seen)
    }

    /// Waits until so many runs have looked at the key or written it, at most for the pause.
    fn meet(&self, order: &Order, options: &Options, runs: u32) -> Result<(), LedgerError> {
        let end = Instant::now() + options.pause;
        loop {
            let there: u32 = self
                .connection
                .prepare_cached(
                    "SELECT count(*) FROM (
                        SELECT workflow_uid FROM looks WHERE order_id = ?1 AND action = ?2
                        UNION SELECT workflow_uid FROM attempts WHERE order_id = ?1 AND action = ?2)",
                )
                .and_then(|mut statement| {
                    statement.query_row(params![order.order_id, order.action], |row| row.get(0))
                })
                .at(&self.path)?;
            if there >= runs || Instant::now() >= end {
                return Ok(());
            }
            std::thread::sleep(MEETING_LOOK);
        }
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
        let effect = match &outcome {
            Outcome::Applied { effect, .. } => Some(*effect),
            Outcome::Duplicate { first, .. } | Outcome::Conflict { first } => Some(first.effect),
            Outcome::Ignored => None,
        };
        let attempt = add_attempt(
            transaction,
            self.order.into(),
            self.mode.as_str(),
            outcome.as_str(),
            effect,
            now,
        )?;
        Ok(Receipt {
            outcome,
            attempt,
            clock: format_clock(now),
        })
    }

    /// Where `known` is nothing, the amount is added.
    fn effect(&self, transaction: &Transaction<'_>, now: i64) -> rusqlite::Result<Outcome> {
        if self.mode == Mode::InsertOrIgnore {
            return insert_or_ignore(transaction, self.order, now);
        }
        let known = match self.options.retention {
            Some(_) if self.mode != Mode::Naive => KnownKey::Renew,
            _ => KnownKey::Keep,
        };
        let (effect, balance_cents) = add_effect(transaction, self.order.into(), known, now)?;
        if let Some(action) = &self.options.outbox {
            outbox::put(transaction, self.order, action, now)?;
        }
        Ok(Outcome::Applied {
            effect,
            balance_cents,
        })
    }
}

/// What `INSERT OR IGNORE` does: a row that breaks any rule is left out like one that is there, and both look alike.
fn insert_or_ignore(
    transaction: &Transaction<'_>,
    order: &Order,
    now: i64,
) -> rusqlite::Result<Outcome> {
    transaction.execute_batch("SAVEPOINT ignored")?;
    let effect: Option<i64> = transaction
        .prepare_cached(
            "INSERT OR IGNORE INTO effects (order_id, action, amount_cents, workflow_uid, arrival, clock_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING seq",
        )?
        .query_row(
            params![
                order.order_id,
                order.action,
                order.amount_cents,
                order.workflow_uid,
                order.arrival,
                now
            ],
            |row| row.get(0),
        )
        .optional()?;
    let key = match effect {
        None => 0,
        Some(effect) => transaction
            .prepare_cached(
                "INSERT OR IGNORE INTO orders (order_id, action, amount_cents, effect_seq, clock_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![order.order_id, order.action, order.amount_cents, effect, now])?,
    };
    match effect {
        Some(effect) if key > 0 => {
            transaction.execute_batch("RELEASE ignored")?;
            let balance_cents = add_balance(transaction, order.into(), effect, now)?;
            Ok(Outcome::Applied {
                effect,
                balance_cents,
            })
        }
        _ => {
            transaction.execute_batch("ROLLBACK TO ignored; RELEASE ignored")?;
            Ok(Outcome::Ignored)
        }
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
