//! `ledger apply`: what a workflow's pod runs.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::{CONFLICT, CommandError, DONE, json_line};
use crate::ledger::{Ledger, Mode, Options, Order, Outcome, Receipt};

/// How long a run waits for others to look at its key.
const LONGEST_MEETING: Duration = Duration::from_secs(60);

/// Arguments of `ledger apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// Ledger file; made when it is not there
    #[arg(long, value_name = "PATH")]
    pub db: PathBuf,
    /// How the order is applied
    #[arg(long, value_enum)]
    pub mode: Mode,
    /// Order id: with the action, the business key
    #[arg(long, value_name = "ID")]
    pub order_id: String,
    /// What is done to the order
    #[arg(long, value_name = "NAME", default_value = "charge")]
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
    /// Name of the Workflow
    #[arg(long, value_name = "NAME", default_value = "")]
    pub workflow_name: String,
    /// Trace of the request
    #[arg(long, value_name = "TRACE", default_value = "")]
    pub trace: String,
    /// Work between look and write in check-then-write, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=60_000))]
    pub pause_ms: u64,
    /// Go on as soon as so many runs, this one included, have looked at the key or written it (for labs: a rare race
    /// becomes certain; waits at most 60 s without --pause-ms)
    #[arg(long, value_name = "RUNS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1000))]
    pub meet: u32,
    /// Write a delivery of this action down in the same transaction, for `ledger relay`
    #[arg(long, value_name = "ACTION")]
    pub outbox: Option<String>,
    /// Forget a key after so many seconds of the ledger's clock (default: never)
    #[arg(long, value_name = "SECONDS")]
    pub retention: Option<u64>,
}

#[derive(Serialize)]
struct Applied<'a> {
    order_id: &'a str,
    action: &'a str,
    amount_cents: i64,
    mode: &'a str,
    workflow_uid: &'a str,
    arrival: &'a str,
    trace: &'a str,
    #[serde(flatten)]
    receipt: &'a Receipt,
}

pub(super) fn apply(args: &ApplyArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let order = Order {
        order_id: args.order_id.clone(),
        action: args.action.clone(),
        amount_cents: args.amount,
        arrival: args.arrival.clone(),
        workflow_uid: args.workflow_uid.clone(),
        workflow_name: args.workflow_name.clone(),
        trace: args.trace.clone(),
    };
    // A bad order must not leave an empty ledger behind.
    order.check_for(args.mode)?;
    let pause = match (args.pause_ms, args.meet) {
        (0, 2..) => LONGEST_MEETING,
        (pause, _) => Duration::from_millis(pause),
    };
    let options = Options {
        pause,
        meet: args.meet,
        outbox: args.outbox.clone(),
        retention: args.retention.map(Duration::from_secs),
    };
    let receipt = Ledger::open(&args.db)?.apply_with(&order, args.mode, options)?;
    let line = Applied {
        order_id: &order.order_id,
        action: &order.action,
        amount_cents: order.amount_cents,
        mode: args.mode.as_str(),
        workflow_uid: &order.workflow_uid,
        arrival: &order.arrival,
        trace: &order.trace,
        receipt: &receipt,
    };
    json_line(out, &line)?;
    Ok(match receipt.outcome {
        Outcome::Applied { .. } | Outcome::Duplicate { .. } | Outcome::Ignored => DONE,
        Outcome::Conflict { .. } => CONFLICT,
    })
}
