//! What runs behind `eventlab ledger …`: in pods, and for people in a shell.
//!
//! Data goes to stdout, talk to stderr. Exit codes: 0 done (also for a duplicate), 1 it could not be done, 3 conflict,
//! 64 bad arguments.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::read::Table;
use super::{
    AttemptRow, BalanceRow, Ledger, LedgerError, MAX_PAGE, Mode, Options, Order, Outcome, Reader,
    Verification, format_clock,
};
use crate::kinds;

/// The command did what it says; a duplicate counts as done.
pub const DONE: u8 = 0;
/// It could not be done.
pub const FAILED: u8 = 1;
/// The key was applied before with another amount.
pub const CONFLICT: u8 = 3;
/// The arguments are wrong (`EX_USAGE` of sysexits).
pub const USAGE: u8 = 64;

/// The order ledger.
#[derive(Debug, Subcommand)]
pub enum LedgerCommand {
    /// Apply an order and print its outcome as one JSON line
    Apply(ApplyArgs),
    /// Serve the ledger over HTTP, read-only
    Serve(ServeArgs),
    /// Print the balances
    Show(ReadArgs),
    /// Print every run of the workload
    Attempts(ReadArgs),
    /// Recompute the balances from the effects
    Verify(ReadArgs),
    /// Print the ledger's clock, or move it forward
    Clock(ClockArgs),
}

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
    /// Forget a key after so many seconds of the ledger's clock (default: never)
    #[arg(long, value_name = "SECONDS")]
    pub retention: Option<u64>,
}

/// Arguments of `ledger serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Ledger file; while it is not there the ledger is empty
    #[arg(long, value_name = "PATH")]
    pub db: PathBuf,
    /// Port to listen on
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// Address to listen on
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub address: IpAddr,
}

/// Arguments of the commands that print.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// Ledger file
    #[arg(long, value_name = "PATH")]
    pub db: PathBuf,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Arguments of `ledger clock`.
#[derive(Debug, Args)]
pub struct ClockArgs {
    /// Ledger file
    #[arg(long, value_name = "PATH")]
    pub db: PathBuf,
    /// Move the clock forward by so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub advance: Option<u64>,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    /// One JSON object a line.
    Json,
}

/// Why a command ended without its data.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("write to stdout: {0}")]
    Output(#[from] std::io::Error),
    #[error("serve the ledger on {address}: {source}")]
    Serve {
        address: SocketAddr,
        source: std::io::Error,
    },
}

impl CommandError {
    fn exit_code(&self) -> u8 {
        match self {
            CommandError::Ledger(LedgerError::Invalid { .. }) => USAGE,
            // A reader that went away (`| head`) has what it wanted.
            CommandError::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => DONE,
            _ => FAILED,
        }
    }
}

/// Runs a command to its end and answers its exit code.
pub fn run(command: &LedgerCommand, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let done = match command {
        LedgerCommand::Apply(args) => apply(args, out),
        LedgerCommand::Serve(args) => serve(args, err),
        LedgerCommand::Show(args) => show(args, out),
        LedgerCommand::Attempts(args) => attempts(args, out),
        LedgerCommand::Verify(args) => verify(args, out),
        LedgerCommand::Clock(args) => clock(args, out),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            let code = error.exit_code();
            if code != DONE {
                // Nobody is left to tell when stderr is closed, too.
                let _ = writeln!(err, "error: {error}");
            }
            code
        }
    }
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
    receipt: &'a super::Receipt,
}

fn apply(args: &ApplyArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
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
    order.check()?;
    let options = Options {
        pause: Duration::from_millis(args.pause_ms),
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
        Outcome::Applied { .. } | Outcome::Duplicate { .. } => DONE,
        Outcome::Conflict { .. } => CONFLICT,
    })
}

/// The port that the embedded node reserved for this container, else what was asked for.
fn listen_address(args: &ServeArgs) -> SocketAddr {
    let given = std::env::var(kinds::real_port_variable(args.port))
        .ok()
        .and_then(|port| port.parse().ok());
    match given {
        Some(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        None => SocketAddr::from((args.address, args.port)),
    }
}

fn serve(args: &ServeArgs, err: &mut dyn Write) -> Result<u8, CommandError> {
    let address = listen_address(args);
    let at_address = |source| CommandError::Serve { address, source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(at_address)?;
    let served = runtime.block_on(async {
        // Installed before anybody can know that it serves, so that an early SIGTERM ends it in order, too.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let listener = TcpListener::bind(address).await?;
        let _ = writeln!(
            err,
            "serving ledger {} on http://{}",
            args.db.display(),
            listener.local_addr()?
        );
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        tokio::spawn(async move {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            stop.cancel();
        });
        super::serve(args.db.clone(), listener, cancel).await
    });
    served.map_err(at_address)?;
    Ok(DONE)
}

/// A reader of a file that must be there: whoever mistypes a path wants to hear it.
fn existing(path: &Path) -> Result<Reader, CommandError> {
    if path.exists() {
        Ok(Reader::new(path))
    } else {
        Err(LedgerError::Missing(path.to_path_buf()).into())
    }
}

fn show(args: &ReadArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let reader = existing(&args.db)?;
    if args.format == Format::Text {
        writeln!(
            out,
            "{:<28} {:<12} {:>14} {:>7}  LEDGER TIME",
            "ORDER", "ACTION", "CENTS", "EFFECTS"
        )?;
    }
    each(&reader, |row: &BalanceRow| match args.format {
        Format::Json => json_line(out, row),
        Format::Text => writeln!(
            out,
            "{:<28} {:<12} {:>14} {:>7}  {}",
            row.order_id, row.action, row.balance_cents, row.effects, row.clock
        ),
    })?;
    Ok(DONE)
}

fn attempts(args: &ReadArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let reader = existing(&args.db)?;
    if args.format == Format::Text {
        writeln!(
            out,
            "{:>5} {:<10} {:<28} {:<12} {:>14} {:<16} {:<36} LEDGER TIME",
            "SEQ", "OUTCOME", "ORDER", "ACTION", "CENTS", "MODE", "WORKFLOW UID"
        )?;
    }
    each(&reader, |row: &AttemptRow| match args.format {
        Format::Json => json_line(out, row),
        Format::Text => writeln!(
            out,
            "{:>5} {:<10} {:<28} {:<12} {:>14} {:<16} {:<36} {}",
            row.seq,
            row.outcome,
            row.order_id,
            row.action,
            row.amount_cents,
            row.mode,
            row.workflow_uid,
            row.clock
        ),
    })?;
    Ok(DONE)
}

/// Calls `print` for every row, a page at a time.
fn each<T: Table>(
    reader: &Reader,
    mut print: impl FnMut(&T) -> std::io::Result<()>,
) -> Result<(), CommandError> {
    let mut after = 0;
    loop {
        let page = reader.page::<T>(after, MAX_PAGE)?;
        for row in &page.items {
            print(row)?;
        }
        if !page.more {
            return Ok(());
        }
        after = page.next;
    }
}

fn verify(args: &ReadArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let found = existing(&args.db)?.verify()?;
    match args.format {
        Format::Json => json_line(out, &found)?,
        Format::Text => print_verification(&found, out)?,
    }
    Ok(if found.consistent() { DONE } else { FAILED })
}

fn print_verification(found: &Verification, out: &mut dyn Write) -> std::io::Result<()> {
    let verdict = if found.consistent() {
        "consistent"
    } else {
        "NOT consistent"
    };
    writeln!(
        out,
        "{verdict}: {} attempts, {} effects, {} balances",
        found.attempts, found.effects, found.balances
    )?;
    for row in &found.differences {
        let key = format!("{} {}", row.order_id, row.action);
        writeln!(
            out,
            "balance of {key} is {}, its effects add up to {}",
            row.stored_cents, row.recomputed_cents
        )?;
    }
    if found.unexplained_effects > 0 {
        writeln!(
            out,
            "effects without an attempt: {}",
            found.unexplained_effects
        )?;
    }
    for line in &found.damage {
        writeln!(out, "file: {line}")?;
    }
    for row in &found.repeated {
        writeln!(
            out,
            "{} {} was applied {} times ({} cents in all)",
            row.order_id, row.action, row.effects, row.balance_cents
        )?;
    }
    Ok(())
}

fn clock(args: &ClockArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    existing(&args.db)?;
    let step = Duration::from_secs(args.advance.unwrap_or(0));
    let now = Ledger::open(&args.db)?.advance_clock(step)?;
    writeln!(out, "{}", format_clock(now))?;
    Ok(DONE)
}

fn json_line(out: &mut dyn Write, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}
