//! Claims that nobody owns: taken out of the hands of runs that are gone, and settled by whoever has looked.

use rusqlite::{Transaction, params};

use super::table::{Change, find, store};
use super::{WRITE_MAY_HAVE_BEGUN, cut, reflect};
use crate::ledger::order::{key, text};
use crate::ledger::{Ledger, LedgerError, clock};

/// What a risk begins with that a person has written down.
const RISK: &str = "nobody can find out";

/// What a look at the destination found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The work is there, under this reference.
    Found(String),
    /// It is certainly not there.
    Absent,
    /// The destination cannot be asked.
    Unknown(String),
}

/// What came of settling a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The claim was open, and its state is this now.
    Now(String),
    /// It was not unresolved, or had changed since it was looked up; this is its state, and nothing was changed.
    Untouched(String),
    /// There is no such claim.
    Missing,
}

/// A person who decides, and what she has to say about it.
#[derive(Clone, Copy, Debug)]
pub struct Person<'a> {
    pub name: &'a str,
    pub note: &'a str,
}

/// A claim whose run is gone: its lease was over, and nobody had settled it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandoned {
    pub order_id: String,
    pub action: String,
    /// `unresolved` when the write may have begun, else `failed`.
    pub state: String,
}

impl Ledger {
    /// Settles an unresolved claim by what was found at the destination, if it is still the one that was looked up:
    /// `seq` is the sequence of its last transition then.
    pub fn reconcile(
        &mut self,
        order_id: &str,
        action: &str,
        seq: i64,
        finding: &Finding,
    ) -> Result<Settlement, LedgerError> {
        if let Finding::Found(reference) = finding {
            key("reference", reference)?;
        }
        self.in_transaction(|transaction| {
            let now = clock::tick(transaction)?;
            let Some(stored) = find(transaction, order_id, action)? else {
                return Ok(Settlement::Missing);
            };
            let looked_in_vain = matches!(finding, Finding::Unknown(_));
            if stored.seq != seq || looked_in_vain && stored.detail.starts_with(RISK) {
                return Ok(Settlement::Untouched(stored.state));
            }
            let detail = match finding {
                Finding::Found(_) => "found at the destination".to_owned(),
                Finding::Absent => "not found at the destination".to_owned(),
                Finding::Unknown(why) => format!("the destination cannot be asked: {why}"),
            };
            settle(
                transaction,
                (order_id, action),
                finding,
                "reconcile",
                &detail,
                now,
            )
        })
    }

    /// Settles an unresolved claim by what a person found out, who is named in the claim's detail with her note.
    ///
    /// [`Finding::Unknown`] leaves it unresolved and writes the risk down that remains.
    pub fn decide(
        &mut self,
        order_id: &str,
        action: &str,
        finding: &Finding,
        by: Person<'_>,
    ) -> Result<Settlement, LedgerError> {
        key("name of the person", by.name)?;
        match finding {
            // A risk without a word is none that anybody could weigh later.
            Finding::Unknown(_) => key("note", by.note)?,
            Finding::Found(_) | Finding::Absent => text("note", by.note)?,
        }
        if let Finding::Found(reference) = finding {
            key("reference", reference)?;
        }
        let found = match finding {
            Finding::Found(_) => "found at the destination",
            Finding::Absent => "not found at the destination",
            Finding::Unknown(_) => RISK,
        };
        let mut detail = format!("{found}, decided by {}", by.name);
        if !by.note.is_empty() {
            detail.push_str(": ");
            detail.push_str(by.note);
        }
        self.in_transaction(|transaction| {
            let now = clock::tick(transaction)?;
            settle(
                transaction,
                (order_id, action),
                finding,
                "decide",
                &detail,
                now,
            )
        })
    }

    /// Takes the claims whose lease is over out of the hands of runs that are gone.
    ///
    /// Where the write may have begun the claim becomes `unresolved`, else `failed`, so that it may be tried again.
    pub fn abandon_expired(&mut self) -> Result<Vec<Abandoned>, LedgerError> {
        self.in_transaction(|transaction| {
            let now = clock::tick(transaction)?;
            let expired: Vec<(String, String)> = transaction
                .prepare_cached(
                    "SELECT order_id, action FROM claims WHERE state = 'processing' AND lease_ms <= ?1",
                )?
                .query_map(params![now], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            let mut abandoned = Vec::new();
            for (order_id, action) in expired {
                let Some(stored) = find(transaction, &order_id, &action)? else {
                    continue;
                };
                let (state, detail) = if stored.sending {
                    ("unresolved", WRITE_MAY_HAVE_BEGUN)
                } else {
                    ("failed", "the lease ended before the write began")
                };
                let change = Change {
                    state,
                    sending: stored.sending,
                    owner: "",
                    reference: "",
                    detail,
                    workflow_uid: &stored.workflow_uid,
                };
                store(transaction, &order_id, &action, &change, now)?;
                abandoned.push(Abandoned {
                    order_id,
                    action,
                    state: state.to_owned(),
                });
            }
            Ok(abandoned)
        })
    }
}

/// Writes what is known of an unresolved claim; where its work was done, its effect comes with it.
fn settle(
    transaction: &Transaction<'_>,
    (order_id, action): (&str, &str),
    finding: &Finding,
    mode: &str,
    detail: &str,
    now: i64,
) -> rusqlite::Result<Settlement> {
    let Some(stored) = find(transaction, order_id, action)? else {
        return Ok(Settlement::Missing);
    };
    if stored.state != "unresolved" {
        return Ok(Settlement::Untouched(stored.state));
    }
    let (state, reference) = match finding {
        Finding::Found(reference) => ("completed", reference.as_str()),
        Finding::Absent => ("failed", ""),
        Finding::Unknown(_) => ("unresolved", ""),
    };
    let change = Change {
        state,
        sending: state == "unresolved",
        owner: "",
        reference,
        detail: cut(detail),
        workflow_uid: &stored.workflow_uid,
    };
    store(transaction, order_id, action, &change, now)?;
    if state == "completed" {
        reflect(transaction, stored.entry(order_id, action), mode, now)?;
    }
    Ok(Settlement::Now(state.to_owned()))
}
