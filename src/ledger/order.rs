//! What is applied to the ledger, and what comes of it.

use serde::Serialize;

use super::LedgerError;

/// Largest amount of one order, in cents; keeps every sum far from the end of 64 bits.
pub const MAX_AMOUNT_CENTS: i64 = 1_000_000_000_000;
const MAX_TEXT: usize = 256;

/// How an order is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Adds the amount, whatever was applied before.
    Naive,
    /// Looks for the key, then writes in a second transaction: two runs can both find nothing.
    CheckThenWrite,
    /// Writes with `INSERT OR IGNORE`, and takes every row that was left out for a duplicate.
    InsertOrIgnore,
    /// Key and amount in one transaction.
    Atomic,
}

impl Mode {
    /// The word on the command line and in attempt rows.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Naive => "naive",
            Mode::CheckThenWrite => "check-then-write",
            Mode::InsertOrIgnore => "insert-or-ignore",
            Mode::Atomic => "atomic",
        }
    }
}

/// One run's wish to apply an order. The business key is `order_id` with `action`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub order_id: String,
    /// What is done to the order, for example `charge`.
    pub action: String,
    /// Cents, from 1 to [`MAX_AMOUNT_CENTS`].
    pub amount_cents: i64,
    /// The event id that the EventSource gave the request.
    pub arrival: String,
    /// Uid of the Workflow that runs.
    pub workflow_uid: String,
    /// Name of the Workflow; may be empty.
    pub workflow_name: String,
    /// Value of the request's trace header; may be empty.
    pub trace: String,
}

impl Order {
    /// Checks keys and amount before anything is written; insert-or-ignore leaves the amount to the table.
    pub(super) fn check_for(&self, mode: Mode) -> Result<(), LedgerError> {
        match mode {
            Mode::InsertOrIgnore => self.check_texts(),
            _ => self.check(),
        }
    }

    /// Checks keys and amount before anything is written.
    pub(super) fn check(&self) -> Result<(), LedgerError> {
        self.check_texts()?;
        check_amount(self.amount_cents)
    }

    fn check_texts(&self) -> Result<(), LedgerError> {
        key("order id", &self.order_id)?;
        key("action", &self.action)?;
        key("arrival", &self.arrival)?;
        key("workflow uid", &self.workflow_uid)?;
        text("workflow name", &self.workflow_name)?;
        text("trace", &self.trace)
    }
}

/// Refuses an amount that is not positive or too large.
pub(super) fn check_amount(amount_cents: i64) -> Result<(), LedgerError> {
    if (1..=MAX_AMOUNT_CENTS).contains(&amount_cents) {
        return Ok(());
    }
    let reason = format!("must be between 1 and {MAX_AMOUNT_CENTS} cents, not {amount_cents}");
    Err(LedgerError::Invalid {
        field: "amount",
        reason,
    })
}

/// Refuses an empty or blank key, and text that [`text`] refuses.
pub(super) fn key(field: &'static str, value: &str) -> Result<(), LedgerError> {
    if value.trim().is_empty() {
        return Err(LedgerError::Invalid {
            field,
            reason: "must not be empty".into(),
        });
    }
    text(field, value)
}

/// Checks a text that may be empty: its length, and that it keeps to one line.
pub(super) fn text(field: &'static str, value: &str) -> Result<(), LedgerError> {
    if value.len() > MAX_TEXT {
        let reason = format!(
            "must not be longer than {MAX_TEXT} bytes, it has {}",
            value.len()
        );
        return Err(LedgerError::Invalid { field, reason });
    }
    if value.chars().any(char::is_control) {
        return Err(LedgerError::Invalid {
            field,
            reason: "must not hold control characters".into(),
        });
    }
    Ok(())
}

/// The effect that a later run met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstEffect {
    pub effect: i64,
    pub amount_cents: i64,
    pub workflow_uid: String,
    pub arrival: String,
    /// Ledger time of the effect, RFC 3339.
    pub clock: String,
}

/// What one run did to the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// The amount was added.
    Applied { effect: i64, balance_cents: i64 },
    /// The key was applied before with the same amount, by another Workflow or by an earlier run of this one.
    Duplicate {
        first: FirstEffect,
        same_workflow: bool,
    },
    /// The key was applied before with another amount; somebody must decide.
    Conflict { first: FirstEffect },
    /// Nothing was written, for whatever reason; taken for a duplicate.
    #[serde(rename = "duplicate")]
    Ignored,
}

impl Outcome {
    /// The word in attempt rows.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Outcome::Applied { .. } => "applied",
            Outcome::Duplicate { .. } | Outcome::Ignored => "duplicate",
            Outcome::Conflict { .. } => "conflict",
        }
    }
}

/// An outcome with the attempt row that records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Receipt {
    #[serde(flatten)]
    pub outcome: Outcome,
    pub attempt: i64,
    /// Ledger time of the run, RFC 3339.
    pub clock: String,
}
