//! Work with an effect outside the ledger: claim it, write it to the CRM, record what came of it.

use std::time::Duration;

use serde::Serialize;

use super::crm::{Client, NewEntry, PostError};
use super::{ClaimOutcome, ClaimRequest, Finding, Ledger, LedgerError, MAX_PAGE, Owner, Reader};

/// Where a run dies, as by `kill -9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CrashPoint {
    /// The claim is taken, nothing was sent.
    AfterClaim,
    /// The write is announced, nothing was sent.
    BeforeWrite,
    /// The CRM has answered, the claim does not know.
    AfterWrite,
}

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
}

/// The stable name of a piece of work at the destination.
#[must_use]
pub fn source_id(order_id: &str, action: &str) -> String {
    format!("{order_id}:{action}")
}

/// Delivers once, whatever happened to earlier runs; `crash` lets this one die on the way.
pub fn deliver(
    ledger: &mut Ledger,
    crm: &Client,
    request: &ClaimRequest,
    crash: Option<CrashPoint>,
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
    die_at(crash, CrashPoint::AfterClaim);
    ledger.begin_write(&owner)?;
    die_at(crash, CrashPoint::BeforeWrite);
    let written = write(crm, request);
    die_at(crash, CrashPoint::AfterWrite);
    record(ledger, &owner, written)
}

/// Writes without looking at any claim: what happens without all this.
#[must_use]
pub fn deliver_blindly(
    crm: &Client,
    request: &ClaimRequest,
    crash: Option<CrashPoint>,
) -> Delivery {
    die_at(crash, CrashPoint::BeforeWrite);
    let written = write(crm, request);
    die_at(crash, CrashPoint::AfterWrite);
    match written {
        Ok(reference) => Delivery::Completed { reference },
        Err(PostError::NotWritten(detail)) => Delivery::Failed { detail },
        Err(PostError::Unknown(detail)) => Delivery::Unresolved { detail },
    }
}

fn write(crm: &Client, request: &ClaimRequest) -> Result<String, PostError> {
    let source_id = source_id(&request.order_id, &request.action);
    let entry = NewEntry {
        source_id: source_id.clone(),
        order_id: request.order_id.clone(),
        amount_cents: request.amount_cents,
    };
    crm.post(&entry, Some(&source_id))
        .map(|written| written.reference)
}

fn record(
    ledger: &mut Ledger,
    owner: &Owner,
    written: Result<String, PostError>,
) -> Result<Delivery, LedgerError> {
    Ok(match written {
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

fn die_at(crash: Option<CrashPoint>, point: CrashPoint) {
    if crash == Some(point) {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        // The signal is on its way.
        std::thread::sleep(Duration::from_secs(60));
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
pub fn reconcile(
    ledger: &mut Ledger,
    reader: &Reader,
    crm: &Client,
) -> Result<Vec<Reconciled>, LedgerError> {
    let mut settled = Vec::new();
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
        let finding = crm.find(&source_id(&claim.order_id, &claim.action));
        let detail = match &finding {
            Finding::Found(reference) => format!("found as {reference}"),
            Finding::Absent => "not there".to_owned(),
            Finding::Unknown(why) => why.clone(),
        };
        let state = ledger.reconcile(&claim.order_id, &claim.action, &finding)?;
        settled.push(Reconciled {
            order_id: claim.order_id,
            action: claim.action,
            state,
            detail,
        });
    }
    Ok(settled)
}
