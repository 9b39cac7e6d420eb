//! Claims on work with an effect outside the ledger.
//!
//! A claim is `processing` under a lease, then `completed` with the destination's reference, `failed` (nothing was done
//! there, it may be tried again) or `unresolved` (nobody knows; it never expires and is never tried again before
//! somebody has looked). Every write names the owner token, so a run whose claim was taken over changes nothing.

use std::time::Duration;

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use super::error::AtPath;
use super::order::{check_amount, key};
use super::rows::{Entry, KnownKey, add_attempt, add_effect};
use super::{Ledger, LedgerError, clock, format_clock};

mod rows;
mod settle;
mod table;

use table::{Change, Stored, find, store, win};

pub use rows::{ClaimRow, TransitionRow};
pub use settle::{Abandoned, Finding, Person, Settlement};

/// Why a claim whose run is gone is unresolved.
const WRITE_MAY_HAVE_BEGUN: &str = "the lease ended after the write may have begun";

/// Mode of the attempt rows of deliveries.
const MODE: &str = "deliver";

/// Longest lease.
const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);

/// What is claimed, and by which run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    pub order_id: String,
    pub action: String,
    pub amount_cents: i64,
    pub workflow_uid: String,
    pub arrival: String,
    /// How long the run may take, in ledger time.
    pub lease: Duration,
}

impl ClaimRequest {
    fn entry(&self) -> Entry<'_> {
        Entry {
            order_id: &self.order_id,
            action: &self.action,
            amount_cents: self.amount_cents,
            workflow_uid: &self.workflow_uid,
            workflow_name: "",
            arrival: &self.arrival,
            trace: "",
        }
    }

    /// Checks keys, amount and lease before anything is written.
    pub(super) fn check(&self) -> Result<(), LedgerError> {
        key("order id", &self.order_id)?;
        key("action", &self.action)?;
        key("workflow uid", &self.workflow_uid)?;
        key("arrival", &self.arrival)?;
        check_amount(self.amount_cents)?;
        if self.lease.is_zero() || self.lease > MAX_LEASE {
            let reason = format!("must be between 1 and {} seconds", MAX_LEASE.as_secs());
            return Err(LedgerError::Invalid {
                field: "lease",
                reason,
            });
        }
        Ok(())
    }
}

/// Proof of owning a claim; needed for every write to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    order_id: String,
    action: String,
    token: String,
}

/// Answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The work is the caller's.
    Won(Owner),
    /// Another run works on it, until its lease ends (RFC 3339, ledger time).
    Busy {
        workflow_uid: String,
        lease_until: String,
    },
    /// It was done, under this reference of the destination.
    Completed { reference: String },
    /// It may have been done; look at the destination before anything else.
    Unresolved { detail: String },
    /// It was claimed with another amount.
    Conflict { amount_cents: i64 },
}

impl Ledger {
    /// Claims work, if it is free: new, failed, or left by a run that surely had not begun to write.
    ///
    /// A claim whose lease ended after the write may have begun becomes `unresolved` here.
    pub fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome, LedgerError> {
        request.check()?;
        self.in_transaction(|transaction| {
            let now = clock::tick(transaction)?;
            let outcome = decide(transaction, request, now)?;
            note_claim(transaction, request, &outcome, now)?;
            Ok(outcome)
        })
    }

    /// Says that the write to the destination begins. From here on a crash leaves the claim unresolved.
    pub fn begin_write(&mut self, owner: &Owner) -> Result<(), LedgerError> {
        self.as_owner(owner, |transaction, stored, now| {
            if now >= stored.lease {
                return Ok(false);
            }
            let change = Change {
                state: "processing",
                sending: true,
                owner: &owner.token,
                reference: "",
                detail: "write begins",
                workflow_uid: &stored.workflow_uid,
            };
            store(transaction, &owner.order_id, &owner.action, &change, now)?;
            Ok(true)
        })
    }

    /// Records that the work was done, under the destination's reference.
    pub fn complete(&mut self, owner: &Owner, reference: &str) -> Result<(), LedgerError> {
        key("reference", reference)?;
        self.finish(owner, "completed", reference, "")
    }

    /// Records that the destination certainly did nothing.
    pub fn fail(&mut self, owner: &Owner, detail: &str) -> Result<(), LedgerError> {
        self.finish(owner, "failed", "", detail)
    }

    /// Records that nobody knows whether the work was done.
    pub fn mark_unresolved(&mut self, owner: &Owner, detail: &str) -> Result<(), LedgerError> {
        self.finish(owner, "unresolved", "", detail)
    }

    fn finish(
        &mut self,
        owner: &Owner,
        state: &str,
        reference: &str,
        detail: &str,
    ) -> Result<(), LedgerError> {
        self.as_owner(owner, |transaction, stored, now| {
            let change = Change {
                state,
                sending: state == "unresolved",
                owner: "",
                reference,
                detail: cut(detail),
                workflow_uid: &stored.workflow_uid,
            };
            store(transaction, &owner.order_id, &owner.action, &change, now)?;
            let entry = stored.entry(&owner.order_id, &owner.action);
            if state == "completed" {
                reflect(transaction, entry, MODE, now)?;
            } else {
                add_attempt(transaction, entry, MODE, state, None, now)?;
            }
            Ok(true)
        })
    }

    /// Writes the attempt row of a run whose claim was not its own any more.
    pub fn note_refused(&mut self, request: &ClaimRequest) -> Result<(), LedgerError> {
        self.in_transaction(|transaction| {
            let now = clock::tick(transaction)?;
            add_attempt(transaction, request.entry(), MODE, "refused", None, now).map(drop)
        })
    }

    /// Whether the claim is still this owner's, and its lease not over.
    pub fn owns(&self, owner: &Owner) -> Result<bool, LedgerError> {
        let read = || -> rusqlite::Result<bool> {
            let now = clock::now(&self.connection)?;
            let stored = find(&self.connection, &owner.order_id, &owner.action)?;
            Ok(stored.is_some_and(|stored| {
                stored.state == "processing" && stored.owner == owner.token && now < stored.lease
            }))
        };
        read().at(&self.path)
    }

    /// Runs a write as the owner of a claim that is being processed; `false` means that the lease is over.
    fn as_owner(
        &mut self,
        owner: &Owner,
        write: impl FnOnce(&Transaction<'_>, &Stored, i64) -> rusqlite::Result<bool>,
    ) -> Result<(), LedgerError> {
        let done = self.in_transaction(|transaction| {
            let now = clock::tick(transaction)?;
            match find(transaction, &owner.order_id, &owner.action)? {
                Some(stored) if stored.state == "processing" && stored.owner == owner.token => {
                    write(transaction, &stored, now)
                }
                _ => Ok(false),
            }
        })?;
        if done {
            return Ok(());
        }
        Err(LedgerError::NotOwner {
            order_id: owner.order_id.clone(),
            action: owner.action.clone(),
        })
    }

    fn in_transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, LedgerError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .at(&self.path)?;
        let answer = work(&transaction).at(&self.path)?;
        transaction.commit().at(&self.path)?;
        Ok(answer)
    }
}

/// Decides about a claim; nothing but the state of the claim changes.
fn decide(
    transaction: &Transaction<'_>,
    request: &ClaimRequest,
    now: i64,
) -> rusqlite::Result<ClaimOutcome> {
    let Some(stored) = find(transaction, &request.order_id, &request.action)? else {
        return win(transaction, request, now);
    };
    if stored.amount_cents != request.amount_cents {
        return Ok(ClaimOutcome::Conflict {
            amount_cents: stored.amount_cents,
        });
    }
    match stored.state.as_str() {
        "completed" => Ok(ClaimOutcome::Completed {
            reference: stored.reference,
        }),
        "unresolved" => Ok(ClaimOutcome::Unresolved {
            detail: stored.detail,
        }),
        "processing" if now < stored.lease => Ok(ClaimOutcome::Busy {
            workflow_uid: stored.workflow_uid,
            lease_until: format_clock(stored.lease),
        }),
        "processing" if stored.sending => {
            let detail = WRITE_MAY_HAVE_BEGUN.to_owned();
            let change = Change {
                state: "unresolved",
                sending: true,
                owner: "",
                reference: "",
                detail: &detail,
                workflow_uid: &stored.workflow_uid,
            };
            store(
                transaction,
                &request.order_id,
                &request.action,
                &change,
                now,
            )?;
            Ok(ClaimOutcome::Unresolved { detail })
        }
        _ => win(transaction, request, now),
    }
}

/// A run that did not win has its attempt row at once; the winner has one when it is done.
fn note_claim(
    transaction: &Transaction<'_>,
    request: &ClaimRequest,
    outcome: &ClaimOutcome,
    now: i64,
) -> rusqlite::Result<()> {
    let word = match outcome {
        ClaimOutcome::Won(_) => return Ok(()),
        ClaimOutcome::Busy { .. } => "busy",
        ClaimOutcome::Completed { .. } => "duplicate",
        ClaimOutcome::Unresolved { .. } => "unresolved",
        ClaimOutcome::Conflict { .. } => "conflict",
    };
    let effect = effect_of(transaction, &request.order_id, &request.action)?;
    add_attempt(transaction, request.entry(), MODE, word, effect, now).map(drop)
}

fn effect_of(
    transaction: &Transaction<'_>,
    order_id: &str,
    action: &str,
) -> rusqlite::Result<Option<i64>> {
    transaction
        .prepare_cached("SELECT effect_seq FROM orders WHERE order_id = ?1 AND action = ?2")?
        .query_row(params![order_id, action], |row| row.get(0))
        .optional()
}

/// Details come from other systems' errors: what is too long is cut.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(512))
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// A completed claim is an effect of the business: its row, its balance and its attempt come with it.
fn reflect(
    transaction: &Transaction<'_>,
    entry: Entry<'_>,
    mode: &str,
    now: i64,
) -> rusqlite::Result<()> {
    if effect_of(transaction, entry.order_id, entry.action)?.is_some() {
        return Ok(());
    }
    let (effect, _) = add_effect(transaction, entry, KnownKey::Keep, now)?;
    add_attempt(transaction, entry, mode, "applied", Some(effect), now).map(drop)
}

#[cfg(test)]
mod tests;
