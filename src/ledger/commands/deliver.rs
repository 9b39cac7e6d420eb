//! `ledger deliver` and `ledger reconcile`: work with an effect in the CRM.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::source::existing;
use super::{BUSY, CONFLICT, CommandError, DONE, FAILED, UNRESOLVED, json_line};
use crate::ledger::crm::Client;
use crate::ledger::{
    ClaimRequest, CrashPoint, Delivery, Ledger, deliver, deliver_blindly, reconcile,
};

/// Arguments of `ledger deliver`.
#[derive(Debug, Args)]
pub struct DeliverArgs {
    /// Ledger file; made when it is not there
    #[arg(long, value_name = "PATH")]
    pub db: PathBuf,
    #[command(flatten)]
    pub crm: CrmArgs,
    /// Whether the work is claimed first
    #[arg(long, value_enum, default_value_t = Manner::Claimed)]
    pub manner: Manner,
    /// Order id: with the action, the business key
    #[arg(long, value_name = "ID")]
    pub order_id: String,
    /// What is done for the order
    #[arg(long, value_name = "NAME", default_value = "notify")]
    pub action: String,
    /// Amount in cents
    #[arg(long, value_name = "CENTS", allow_negative_numbers = true)]
    pub amount: i64,
    /// Event id that the EventSource gave the request
    #[arg(long, value_name = "ID")]
    pub arrival: String,
    /// Uid of the Workflow
    #[arg(long, value_name = "UID")]
    pub workflow_uid: String,
    /// How long this run may take, in seconds of the ledger's clock
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub lease: u64,
    /// Die at this point, as by kill -9
    #[arg(long, value_enum)]
    pub crash: Option<CrashPoint>,
}

/// Where the CRM is.
#[derive(Debug, Args)]
pub struct CrmArgs {
    /// URL of the CRM, http://HOST:PORT
    #[arg(long = "crm", value_name = "URL")]
    pub url: String,
    /// How long each step of a request may take, in milliseconds
    #[arg(long = "crm-timeout-ms", value_name = "MS", default_value_t = 5000,
        value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub timeout_ms: u64,
}

/// Arguments of `ledger reconcile`.
#[derive(Debug, Args)]
pub struct ReconcileArgs {
    /// Ledger file
    #[arg(long, value_name = "PATH")]
    pub db: PathBuf,
    #[command(flatten)]
    pub crm: CrmArgs,
}

/// How a delivery treats what earlier runs may have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Manner {
    /// Claims the work first, and leaves what is unresolved alone.
    Claimed,
    /// Writes, whatever happened before.
    Blind,
}

impl CrmArgs {
    fn client(&self) -> Result<Client, CommandError> {
        Ok(Client::new(
            &self.url,
            Duration::from_millis(self.timeout_ms),
        )?)
    }
}

pub(super) fn run_delivery(args: &DeliverArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let crm = args.crm.client()?;
    let request = ClaimRequest {
        order_id: args.order_id.clone(),
        action: args.action.clone(),
        amount_cents: args.amount,
        workflow_uid: args.workflow_uid.clone(),
        arrival: args.arrival.clone(),
        lease: Duration::from_secs(args.lease),
    };
    // A bad request must not leave an empty ledger behind.
    request.check()?;
    let delivery = match args.manner {
        Manner::Claimed => deliver(&mut Ledger::open(&args.db)?, &crm, &request, args.crash)?,
        Manner::Blind => deliver_blindly(&crm, &request, args.crash),
    };
    json_line(out, &delivery)?;
    Ok(match delivery {
        Delivery::Completed { .. } | Delivery::AlreadyCompleted { .. } => DONE,
        Delivery::Failed { .. } => FAILED,
        Delivery::Conflict { .. } => CONFLICT,
        Delivery::Unresolved { .. } => UNRESOLVED,
        Delivery::Busy { .. } => BUSY,
    })
}

pub(super) fn run_reconciliation(
    args: &ReconcileArgs,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let crm = args.crm.client()?;
    let reader = existing(&args.db)?;
    let settled = reconcile(&mut Ledger::open(&args.db)?, &reader, &crm)?;
    for claim in &settled {
        json_line(out, claim)?;
    }
    let left = settled.iter().any(|claim| claim.state == "unresolved");
    Ok(if left { UNRESOLVED } else { DONE })
}
