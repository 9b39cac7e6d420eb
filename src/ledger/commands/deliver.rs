//! `ledger deliver` and `ledger reconcile`: work with an effect in the CRM.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::source::existing;
use super::{BUSY, CONFLICT, CommandError, DONE, FAILED, UNRESOLVED, json_line};
use crate::ledger::crm::Client;
use crate::ledger::{
    ClaimRequest, ClaimRow, Delivery, Fault, Finding, Ledger, LookUp, MAX_PAGE, Mishap, Person,
    Reader, Settlement, deliver, deliver_blindly, reconcile, relay,
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
    /// What goes wrong with this delivery (for labs and tests)
    #[arg(long, value_enum, default_value_t, visible_alias = "crash")]
    pub fault: Fault,
    /// Stand still at the fault's point for a minute instead of dying there (for tests: something can be killed meanwhile)
    #[arg(long)]
    pub hold: bool,
}

/// Where the CRM is.
#[derive(Debug, Args)]
pub struct CrmArgs {
    /// URL of the CRM, http://HOST:PORT (default: the Service `crm` of a pod's environment)
    #[arg(long = "crm", value_name = "URL")]
    pub url: Option<String>,
    /// How long each step of a request may take, in milliseconds
    #[arg(long = "crm-timeout-ms", value_name = "MS", default_value_t = 5000,
        value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub timeout_ms: u64,
}

/// Arguments of `ledger reconcile`.
#[derive(Debug, Args)]
pub struct ReconcileArgs {
    /// Ledger file (default: in a pod of the running session)
    #[arg(long, value_name = "PATH")]
    pub db: Option<PathBuf>,
    #[command(flatten)]
    pub crm: CrmArgs,
    /// Ask again with the same idempotency key instead of searching; only for a CRM that honours keys
    #[arg(long)]
    pub repeat_with_key: bool,
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
        let url = match &self.url {
            Some(url) => url.clone(),
            None => service_url().ok_or(CommandError::NoCrm)?,
        };
        Ok(Client::new(&url, Duration::from_millis(self.timeout_ms))?)
    }
}

/// The Service `crm` as its variables name it in every pod of the namespace that is started after it.
fn service_url() -> Option<String> {
    let host = std::env::var("CRM_SERVICE_HOST").ok()?;
    let port = std::env::var("CRM_SERVICE_PORT").ok()?;
    Some(format!("http://{host}:{port}"))
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
    let mut ledger = Ledger::open(&args.db)?;
    let mishap = Mishap {
        fault: args.fault,
        hold: args.hold,
    };
    let delivery = match args.manner {
        Manner::Claimed => deliver(&mut ledger, &crm, &request, mishap)?,
        Manner::Blind => deliver_blindly(&crm, &request, mishap),
    };
    json_line(out, &delivery)?;
    Ok(exit_code(&delivery))
}

fn exit_code(delivery: &Delivery) -> u8 {
    match delivery {
        Delivery::Completed { .. } | Delivery::AlreadyCompleted { .. } => DONE,
        Delivery::Failed { .. } | Delivery::Refused { .. } => FAILED,
        Delivery::Conflict { .. } => CONFLICT,
        Delivery::Unresolved { .. } => UNRESOLVED,
        Delivery::Busy { .. } => BUSY,
    }
}

/// Arguments of `ledger relay`.
#[derive(Debug, Args)]
pub struct RelayArgs {
    /// Ledger file (default: in a pod of the running session)
    #[arg(long, value_name = "PATH")]
    pub db: Option<PathBuf>,
    #[command(flatten)]
    pub crm: CrmArgs,
    /// Names this relay in claims and attempts
    #[arg(long, value_name = "UID", default_value = "relay")]
    pub workflow_uid: String,
    /// How long one delivery may take, in seconds of the ledger's clock
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub lease: u64,
    /// What goes wrong with each delivery (for labs and tests)
    #[arg(long, value_enum, default_value_t)]
    pub fault: Fault,
}

pub(super) fn run_relay(args: &RelayArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let db = args.db.as_deref().ok_or(CommandError::NoFile)?;
    let crm = args.crm.client()?;
    existing(db)?;
    let lease = Duration::from_secs(args.lease);
    let relayed = relay(
        &mut Ledger::open(db)?,
        &crm,
        &args.workflow_uid,
        lease,
        Mishap::of(args.fault),
    )?;
    let mut worst = DONE;
    for one in &relayed {
        json_line(out, one)?;
        worst = worst.max(exit_code(&one.delivery));
    }
    Ok(worst)
}

/// Arguments of `ledger replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Ledger file (default: in a pod of the running session)
    #[arg(long, value_name = "PATH")]
    pub db: Option<PathBuf>,
    #[command(flatten)]
    pub crm: CrmArgs,
    /// Order id
    #[arg(long, value_name = "ID")]
    pub order_id: String,
    /// What is to be done for the order
    #[arg(long, value_name = "NAME", default_value = "notify")]
    pub action: String,
    /// Amount in cents (default: that of the claim)
    #[arg(long, value_name = "CENTS", allow_negative_numbers = true)]
    pub amount: Option<i64>,
    /// Who replays; kept in the claim and the attempt
    #[arg(long, value_name = "NAME", default_value = "by-hand")]
    pub by: String,
    /// How long it may take, in seconds of the ledger's clock
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub lease: u64,
}

/// The manual recovery: a delivery like any other, through the same claim.
pub(super) fn run_replay(args: &ReplayArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let db = args.db.as_deref().ok_or(CommandError::NoFile)?;
    let crm = args.crm.client()?;
    let reader = existing(db)?;
    let known = claim_of(&reader, &args.order_id, &args.action)?;
    let amount = args
        .amount
        .or(known.as_ref().map(|claim| claim.amount_cents));
    let Some(amount_cents) = amount else {
        return Err(CommandError::NoClaim {
            order_id: args.order_id.clone(),
            action: args.action.clone(),
        });
    };
    let request = ClaimRequest {
        order_id: args.order_id.clone(),
        action: args.action.clone(),
        amount_cents,
        workflow_uid: format!("replay-{}-{}", args.by, uuid::Uuid::new_v4()),
        arrival: known.map_or_else(|| "none".to_owned(), |claim| claim.arrival),
        lease: Duration::from_secs(args.lease),
    };
    request.check()?;
    let delivery = deliver(&mut Ledger::open(db)?, &crm, &request, Mishap::default())?;
    json_line(out, &delivery)?;
    Ok(exit_code(&delivery))
}

fn claim_of(
    reader: &Reader,
    order_id: &str,
    action: &str,
) -> Result<Option<ClaimRow>, CommandError> {
    let mut after = 0;
    loop {
        let page = reader.claims(after, MAX_PAGE)?;
        let found = page
            .items
            .into_iter()
            .find(|claim| claim.order_id == order_id && claim.action == action);
        if found.is_some() || !page.more {
            return Ok(found);
        }
        after = page.next;
    }
}

/// Arguments of `ledger decide`.
#[derive(Debug, Args)]
pub struct DecideArgs {
    /// Ledger file (default: in a pod of the running session)
    #[arg(long, value_name = "PATH")]
    pub db: Option<PathBuf>,
    /// Order id
    #[arg(long, value_name = "ID")]
    pub order_id: String,
    /// What was to be done for the order
    #[arg(long, value_name = "NAME", default_value = "notify")]
    pub action: String,
    /// It was done, under this reference of the destination
    #[arg(
        long,
        value_name = "REFERENCE",
        conflicts_with_all = ["absent", "unknown"],
        required_unless_present_any = ["absent", "unknown"]
    )]
    pub found: Option<String>,
    /// It was certainly not done, and no call of ours can still arrive
    #[arg(long, conflicts_with = "unknown")]
    pub absent: bool,
    /// Nobody can find out: it stays unresolved, and --note keeps the risk
    #[arg(long, requires = "note")]
    pub unknown: bool,
    /// Who decides; kept in the claim
    #[arg(long, value_name = "NAME")]
    pub by: String,
    /// What was seen, or what risk remains; kept in the claim
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

/// Settles an unresolved claim by what a person found out.
pub(super) fn run_decision(args: &DecideArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let db = args.db.as_deref().ok_or(CommandError::NoFile)?;
    existing(db)?;
    let note = args.note.as_deref().unwrap_or_default();
    let finding = match &args.found {
        Some(reference) => Finding::Found(reference.clone()),
        None if args.unknown => Finding::Unknown(note.to_owned()),
        None => Finding::Absent,
    };
    let by = Person {
        name: &args.by,
        note,
    };
    let (order_id, action) = (args.order_id.clone(), args.action.clone());
    match Ledger::open(db)?.decide(&order_id, &action, &finding, by)? {
        Settlement::Missing => Err(CommandError::NotThere { order_id, action }),
        Settlement::Untouched(state) => Err(CommandError::NotOpen {
            order_id,
            action,
            state,
        }),
        Settlement::Now(state) => {
            let line = serde_json::json!({"order_id": order_id, "action": action, "state": state, "by": args.by, "note": note});
            json_line(out, &line)?;
            Ok(if state == "unresolved" {
                UNRESOLVED
            } else {
                DONE
            })
        }
    }
}

pub(super) fn run_reconciliation(
    args: &ReconcileArgs,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let db = args.db.as_deref().ok_or(CommandError::NoFile)?;
    let crm = args.crm.client()?;
    let reader = existing(db)?;
    let by = if args.repeat_with_key {
        LookUp::SameKey
    } else {
        LookUp::Search
    };
    let settled = reconcile(&mut Ledger::open(db)?, &reader, &crm, by)?;
    for claim in &settled {
        json_line(out, claim)?;
    }
    let left = settled.iter().any(|claim| claim.state == "unresolved");
    Ok(if left { UNRESOLVED } else { DONE })
}

/// `--NAME=VALUE`, where there is a value; it may begin with a dash.
fn option(name: &str, value: Option<impl ToString>) -> Vec<String> {
    value
        .map(|value| format!("--{name}={}", value.to_string()))
        .into_iter()
        .collect()
}

fn value_name(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

impl CrmArgs {
    fn words(&self) -> Vec<String> {
        let mut words = option("crm", self.url.as_ref());
        words.extend(option("crm-timeout-ms", Some(self.timeout_ms)));
        words
    }
}

impl ReconcileArgs {
    /// The command line without its file.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec!["reconcile".to_owned()];
        words.extend(self.crm.words());
        if self.repeat_with_key {
            words.push("--repeat-with-key".to_owned());
        }
        words
    }
}

impl ReplayArgs {
    /// The command line without its file.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec!["replay".to_owned()];
        words.extend(self.crm.words());
        words.extend(option("order-id", Some(&self.order_id)));
        words.extend(option("action", Some(&self.action)));
        words.extend(option("amount", self.amount));
        words.extend(option("by", Some(&self.by)));
        words.extend(option("lease", Some(self.lease)));
        words
    }
}

impl DecideArgs {
    /// The command line without its file.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec!["decide".to_owned()];
        words.extend(option("order-id", Some(&self.order_id)));
        words.extend(option("action", Some(&self.action)));
        words.extend(option("found", self.found.as_ref()));
        for (given, word) in [(self.absent, "--absent"), (self.unknown, "--unknown")] {
            if given {
                words.push(word.to_owned());
            }
        }
        words.extend(option("by", Some(&self.by)));
        words.extend(option("note", self.note.as_ref()));
        words
    }
}

impl RelayArgs {
    /// The command line without its file.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec!["relay".to_owned()];
        words.extend(self.crm.words());
        words.extend(option("workflow-uid", Some(&self.workflow_uid)));
        words.extend(option("lease", Some(self.lease)));
        words.extend(option("fault", Some(value_name(self.fault))));
        words
    }
}
