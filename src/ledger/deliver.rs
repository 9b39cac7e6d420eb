//! Work with an effect outside the ledger: claim it, write it to the CRM, record what came of it.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::crm::{Client, NewEntry, PostError};
use super::mishap::{CrashPoint, Fault, Mishap};
use super::{
    ClaimOutcome, ClaimRequest, ClaimRow, Finding, Ledger, LedgerError, MAX_PAGE, Owner, Reader,
    Settlement,
};

/// A stalled run gives up after so long of its own time.
const LONGEST_STALL: Duration = Duration::from_secs(60);

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Delivery {
    /// Written by this run.
    Completed { reference: String },
    /// An earlier run had written it.
    AlreadyCompleted { reference: String },
    /// Another run works on it.
    Busy {
        workflow_uid: String,
        lease_until: String,
    },
    /// Nobody knows whether it was written; `ledger reconcile` looks.
    Unresolved { detail: String },
    /// It was certainly not written; it may be tried again.
    Failed { detail: String },
    /// It was claimed with another amount.
    Conflict { amount_cents: i64 },
    /// The claim was not this run's any more: it wrote nothing, neither here nor at the CRM.
    Refused { detail: String },
}

/// The stable name of a piece of work at the destination.
#[must_use]
pub fn source_id(order_id: &str, action: &str) -> String {
    format!("{order_id}:{action}")
}

/// Delivers once, whatever happened to earlier runs; `mishap` lets this one go wrong on the way.
pub fn deliver(
    ledger: &mut Ledger,
    crm: &Client,
    request: &ClaimRequest,
    mishap: Mishap,
) -> Result<Delivery, LedgerError> {
    let owner = match ledger.claim(request)? {
        ClaimOutcome::Won(owner) => owner,
        ClaimOutcome::Busy {
            workflow_uid,
            lease_until,
        } => {
            return Ok(Delivery::Busy {
                workflow_uid,
                lease_until,
            });
        }
        ClaimOutcome::Completed { reference } => {
            return Ok(Delivery::AlreadyCompleted { reference });
        }
        ClaimOutcome::Unresolved { detail } => return Ok(Delivery::Unresolved { detail }),
        ClaimOutcome::Conflict { amount_cents } => return Ok(Delivery::Conflict { amount_cents }),
    };
    mishap.reach(CrashPoint::AfterClaim);
    if mishap.fault == Fault::Stall {
        stall(ledger, &owner)?;
    }
    match ledger.begin_write(&owner) {
        Ok(()) => {}
        Err(error @ LedgerError::NotOwner { .. }) => {
            ledger.note_refused(request)?;
            return Ok(Delivery::Refused {
                detail: error.to_string(),
            });
        }
        Err(error) => return Err(error),
    }
    mishap.reach(CrashPoint::BeforeWrite);
    let written = write(crm, request, mishap.fault);
    mishap.reach(CrashPoint::AfterWrite);
    match record(ledger, &owner, &written) {
        Err(error @ LedgerError::NotOwner { .. }) => {
            ledger.note_refused(request)?;
            let detail = match written {
                Ok(reference) => format!("{error}; the CRM has it as {reference}"),
                Err(_) => error.to_string(),
            };
            Ok(Delivery::Refused { detail })
        }
        recorded => recorded,
    }
}

/// Writes without looking at any claim: what happens without all this.
#[must_use]
pub fn deliver_blindly(crm: &Client, request: &ClaimRequest, mishap: Mishap) -> Delivery {
    mishap.reach(CrashPoint::BeforeWrite);
    let written = write(crm, request, mishap.fault);
    mishap.reach(CrashPoint::AfterWrite);
    match written {
        Ok(reference) => Delivery::Completed { reference },
        Err(PostError::NotWritten(detail)) => Delivery::Failed { detail },
        Err(PostError::Unknown(detail)) => Delivery::Unresolved { detail },
    }
}

fn write(crm: &Client, request: &ClaimRequest, fault: Fault) -> Result<String, PostError> {
    if let Some(point) = fault.at_crm() {
        // Only a run that calls the CRM asks for its fault: else the next run would meet it.
        crm.set_fault(point).map_err(|error| {
            PostError::NotWritten(format!("the CRM cannot be told to fail: {error}"))
        })?;
    }
    let source_id = source_id(&request.order_id, &request.action);
    let entry = NewEntry {
        source_id: source_id.clone(),
        order_id: request.order_id.clone(),
        amount_cents: request.amount_cents,
        workflow_uid: request.workflow_uid.clone(),
        arrival: request.arrival.clone(),
    };
    crm.post(&entry, Some(&source_id))
        .map(|written| written.reference)
}

fn record(
    ledger: &mut Ledger,
    owner: &Owner,
    written: &Result<String, PostError>,
) -> Result<Delivery, LedgerError> {
    Ok(match written.clone() {
        Ok(reference) => {
            ledger.complete(owner, &reference)?;
            Delivery::Completed { reference }
        }
        Err(PostError::NotWritten(detail)) => {
            ledger.fail(owner, &detail)?;
            Delivery::Failed { detail }
        }
        Err(PostError::Unknown(detail)) => {
            ledger.mark_unresolved(owner, &detail)?;
            Delivery::Unresolved { detail }
        }
    })
}

/// Waits until the claim is another's, or its lease is over.
fn stall(ledger: &Ledger, owner: &Owner) -> Result<(), LedgerError> {
    let end = Instant::now() + LONGEST_STALL;
    while Instant::now() < end && ledger.owns(owner)? {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// How an unresolved claim is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUp {
    /// By its source id, where the destination can be searched.
    Search,
    /// By asking again with the same idempotency key: harmless only where the destination honours keys.
    SameKey,
}

/// Asks again with the same key; the answer names the entry of the first time, or makes the one that was missing.
fn repeat(crm: &Client, claim: &ClaimRow) -> Finding {
    let source_id = source_id(&claim.order_id, &claim.action);
    let entry = NewEntry {
        source_id: source_id.clone(),
        order_id: claim.order_id.clone(),
        amount_cents: claim.amount_cents,
        workflow_uid: claim.workflow_uid.clone(),
        arrival: claim.arrival.clone(),
    };
    match crm.post(&entry, Some(&source_id)) {
        Ok(written) => Finding::Found(written.reference),
        Err(error) => Finding::Unknown(error.to_string()),
    }
}

/// A claim that was looked up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reconciled {
    pub order_id: String,
    pub action: String,
    /// State after the look.
    pub state: String,
    pub detail: String,
}

/// Looks every unresolved claim up at the CRM, by its source id, and settles what can be settled.
///
/// Claims of runs that are gone become unresolved, or failed, first.
pub fn reconcile(
    ledger: &mut Ledger,
    reader: &Reader,
    crm: &Client,
    by: LookUp,
) -> Result<Vec<Reconciled>, LedgerError> {
    let mut settled: Vec<Reconciled> = ledger
        .abandon_expired()?
        .into_iter()
        .filter(|claim| claim.state == "failed")
        .map(|claim| Reconciled {
            order_id: claim.order_id,
            action: claim.action,
            state: claim.state,
            detail: "its run was gone before the write began".to_owned(),
        })
        .collect();
    let mut after = 0;
    // A claim that is touched gets a new sequence: what was unresolved before is read first, then settled.
    let mut unresolved = Vec::new();
    loop {
        let page = reader.claims(after, MAX_PAGE)?;
        unresolved.extend(
            page.items
                .into_iter()
                .filter(|claim| claim.state == "unresolved"),
        );
        if !page.more {
            break;
        }
        after = page.next;
    }
    for claim in unresolved {
        let finding = match by {
            LookUp::Search => crm.find(&source_id(&claim.order_id, &claim.action)),
            LookUp::SameKey => repeat(crm, &claim),
        };
        let detail = match &finding {
            Finding::Found(reference) => format!("found as {reference}"),
            Finding::Absent => "not there".to_owned(),
            Finding::Unknown(why) => why.clone(),
        };
        let settlement = ledger.reconcile(&claim.order_id, &claim.action, claim.seq, &finding)?;
        let (state, detail) = match settlement {
            Settlement::Now(state) => (state, detail),
            Settlement::Untouched(state) => (state, format!("left as it was; {detail}")),
            Settlement::Missing => continue,
        };
        settled.push(Reconciled {
            order_id: claim.order_id,
            action: claim.action,
            state,
            detail,
        });
    }
    Ok(settled)
}

/// Delivers what waits in the outbox, and what failed, through the claim; answers the outcome of each.
///
/// `run` names this relay in claims and attempts.
pub fn relay(
    ledger: &mut Ledger,
    crm: &Client,
    run: &str,
    lease: Duration,
    mishap: Mishap,
) -> Result<Vec<Relayed>, LedgerError> {
    let mut relayed = Vec::new();
    let mut after = 0;
    loop {
        let rows = ledger.outbox(after, MAX_PAGE)?;
        let Some(last) = rows.last() else {
            return Ok(relayed);
        };
        after = last.seq;
        for row in rows.into_iter().filter(|row| row.state != "completed") {
            let request = ClaimRequest {
                order_id: row.order_id,
                action: row.action,
                amount_cents: row.amount_cents,
                workflow_uid: run.to_owned(),
                // The outbox row keeps the arrival; this delivery is the relay's own.
                arrival: "none".to_owned(),
                lease,
            };
            let delivery = deliver(ledger, crm, &request, mishap)?;
            relayed.push(Relayed {
                order_id: request.order_id,
                action: request.action,
                delivery,
            });
        }
    }
}

/// A delivery from the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Relayed {
    pub order_id: String,
    pub action: String,
    #[serde(flatten)]
    pub delivery: Delivery,
}
