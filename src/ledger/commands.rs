//! What runs behind `eventlab ledger …`: in pods, and for people in a shell.
//!
//! Data goes to stdout, talk to stderr. Exit codes: 0 done (also for a duplicate), 1 it could not be done, 3 conflict or,
//! of a command that prints, the running session could not be looked at, 4 unresolved, 5 another run works on it, 64 bad
//! arguments, 75 not now: the file is locked, full, read-only, damaged or gone; once that is mended the same command does it.

mod apply;
mod deliver;
mod serve;
mod show;
mod source;

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;

use super::LedgerError;
use super::crm::UrlError;

pub use apply::ApplyArgs;
pub use deliver::{CrmArgs, DecideArgs, DeliverArgs, Manner, ReconcileArgs, RelayArgs, ReplayArgs};
pub use serve::{ServeArgs, bind, until_signal};
pub use show::{ClockArgs, Format, ReadArgs};
pub use source::View;

/// The command did what it says; a duplicate counts as done.
pub const DONE: u8 = 0;
/// It could not be done.
pub const FAILED: u8 = 1;
/// The key was applied before with another amount.
pub const CONFLICT: u8 = 3;
/// The running session's ledger could not be looked at (the commands that print know no conflict).
pub const UNSEEN: u8 = 3;
/// Nobody knows whether the work was done; somebody must look.
pub const UNRESOLVED: u8 = 4;
/// Another run works on it.
pub const BUSY: u8 = 5;
/// The arguments are wrong (`EX_USAGE` of sysexits).
pub const USAGE: u8 = 64;
/// Nothing is wrong with the order or its run: the file could not be written now (`EX_TEMPFAIL` of sysexits).
pub const NOT_NOW: u8 = 75;

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
    /// Print the claims on work with an effect elsewhere
    Claims(ReadArgs),
    /// Recompute the balances from the effects
    Verify(ReadArgs),
    /// Claim an order, write it to the CRM and record what came of it
    Deliver(DeliverArgs),
    /// Look unresolved claims up at the CRM and settle them
    Reconcile(ReconcileArgs),
    /// Deliver an order again by hand, through the same claim as every run
    Replay(ReplayArgs),
    /// Settle an unresolved claim by what a person found out
    Decide(DecideArgs),
    /// Deliver what waits in the outbox
    Relay(RelayArgs),
    /// Print the ledger's clock, or move it forward
    Clock(ClockArgs),
}

/// Why a command ended without its data.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("write to stdout: {0}")]
    Output(#[from] std::io::Error),
    #[error("serve the ledger on port {port}: {source}")]
    Serve { port: u16, source: std::io::Error },
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error(
        "no ledger was named and no session runs; give a file with --db, or start `eventlab` first"
    )]
    NoLedger,
    #[error("this command reads a file; name it with --db")]
    NoFile,
    #[error("{0}")]
    View(String),
    #[error("name the CRM with --crm URL; outside a pod there is no variable CRM_SERVICE_HOST")]
    NoCrm,
    #[error(
        "there is no claim on order {order_id} {action}; `eventlab ledger claims` lists them, --amount makes a new one"
    )]
    NoClaim { order_id: String, action: String },
    #[error(
        "there is no claim on order {order_id} {action}, and nothing was changed; `eventlab ledger claims` lists them"
    )]
    NotThere { order_id: String, action: String },
    #[error(
        "the claim on order {order_id} {action} is {state}, not unresolved: there is nothing to decide, and nothing was changed{}",
        if state == "processing" { "; once its lease is over, `eventlab ledger reconcile` takes it out of the run's hands" } else { "" }
    )]
    NotOpen {
        order_id: String,
        action: String,
        state: String,
    },
    #[error(
        "there is no ledger in {0}: the file has no tables; the first `eventlab ledger apply` makes them"
    )]
    NoTables(PathBuf),
}

impl CommandError {
    fn exit_code(&self) -> u8 {
        match self {
            CommandError::Ledger(LedgerError::Invalid { .. })
            | CommandError::Url(_)
            | CommandError::NoFile
            | CommandError::NoCrm
            | CommandError::NotThere { .. }
            | CommandError::NoClaim { .. } => USAGE,
            CommandError::Ledger(error) if error.is_of_the_environment() => NOT_NOW,
            CommandError::View(_) => UNSEEN,
            // A reader that went away (`| head`) has what it wanted.
            CommandError::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => DONE,
            _ => FAILED,
        }
    }
}

impl LedgerCommand {
    /// Whether it reads the ledger of the running session, since no file was named.
    #[must_use]
    pub fn reads_session(&self) -> bool {
        match self {
            LedgerCommand::Show(args)
            | LedgerCommand::Attempts(args)
            | LedgerCommand::Claims(args)
            | LedgerCommand::Verify(args) => args.db.is_none(),
            _ => false,
        }
    }

    /// For a command that writes and names no file: its arguments for a pod that has the ledger at `db`.
    #[must_use]
    pub fn errand(&self, db: &str) -> Option<Vec<String>> {
        let (none, mut words) = match self {
            LedgerCommand::Reconcile(args) => (args.db.is_none(), args.words()),
            LedgerCommand::Replay(args) => (args.db.is_none(), args.words()),
            LedgerCommand::Decide(args) => (args.db.is_none(), args.words()),
            LedgerCommand::Relay(args) => (args.db.is_none(), args.words()),
            LedgerCommand::Clock(args) => (args.db.is_none(), args.words()),
            _ => return None,
        };
        words.insert(0, "ledger".to_owned());
        words.extend(["--db".to_owned(), db.to_owned()]);
        none.then_some(words)
    }
}

/// Runs a command to its end and answers its exit code. `view` is what commands read that name no file.
pub fn run(
    command: &LedgerCommand,
    view: Option<&dyn View>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let done = match command {
        LedgerCommand::Apply(args) => apply::apply(args, out),
        LedgerCommand::Serve(args) => serve::serve(args, err),
        LedgerCommand::Show(args) => show::show(args, view, out),
        LedgerCommand::Attempts(args) => show::attempts(args, view, out),
        LedgerCommand::Claims(args) => show::claims(args, view, out),
        LedgerCommand::Verify(args) => show::verify(args, view, out),
        LedgerCommand::Deliver(args) => deliver::run_delivery(args, out),
        LedgerCommand::Reconcile(args) => deliver::run_reconciliation(args, out),
        LedgerCommand::Replay(args) => deliver::run_replay(args, out),
        LedgerCommand::Decide(args) => deliver::run_decision(args, out),
        LedgerCommand::Relay(args) => deliver::run_relay(args, out),
        LedgerCommand::Clock(args) => show::clock(args, out),
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

fn json_line(out: &mut dyn Write, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What lies with the file is told apart from what lies with the order.
    #[test]
    fn a_file_that_cannot_be_written_now_has_an_exit_code_of_its_own() {
        let path = || PathBuf::from("/data/ledger.db");
        let reason = || "x".to_owned();
        let sql = |code: i32| {
            let error = rusqlite::ffi::Error::new(code);
            LedgerError::from_sql(&path(), rusqlite::Error::SqliteFailure(error, None))
        };
        for (error, code) in [
            (LedgerError::Busy(path()), NOT_NOW),
            (LedgerError::Full(path()), NOT_NOW),
            (LedgerError::ReadOnly(path()), NOT_NOW),
            (LedgerError::Gone(path()), NOT_NOW),
            (sql(rusqlite::ffi::SQLITE_BUSY), NOT_NOW),
            (sql(rusqlite::ffi::SQLITE_LOCKED), NOT_NOW),
            (sql(rusqlite::ffi::SQLITE_FULL), NOT_NOW),
            (sql(rusqlite::ffi::SQLITE_READONLY), NOT_NOW),
            (sql(rusqlite::ffi::SQLITE_IOERR), NOT_NOW),
            (sql(rusqlite::ffi::SQLITE_CORRUPT), NOT_NOW),
            (sql(rusqlite::ffi::SQLITE_CONSTRAINT), FAILED),
            (LedgerError::Missing(path()), FAILED),
            (
                LedgerError::Invalid {
                    field: "amount",
                    reason: reason(),
                },
                USAGE,
            ),
        ] {
            let text = error.to_string();
            assert_eq!(CommandError::Ledger(error).exit_code(), code, "{text}");
        }
    }
}
