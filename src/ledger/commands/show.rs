//! The commands that print: `show`, `attempts`, `claims`, `verify` and `clock`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::source::{Source, View, existing};
use super::{CommandError, DONE, FAILED, json_line};
use crate::ledger::{AttemptRow, BalanceRow, ClaimRow, Ledger, Verification, format_clock};
use crate::words::counted;

/// Arguments of the commands that print.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// Ledger file (default: the ledger of the running session, through its Service)
    #[arg(long, value_name = "PATH")]
    pub db: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Arguments of `ledger clock`.
#[derive(Debug, Args)]
pub struct ClockArgs {
    /// Ledger file (default: in a pod of the running session)
    #[arg(long, value_name = "PATH")]
    pub db: Option<PathBuf>,
    /// Move the clock forward by so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub advance: Option<u64>,
}

impl ClockArgs {
    /// The command line without its file.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec!["clock".to_owned()];
        if let Some(seconds) = self.advance {
            words.extend(["--advance".to_owned(), seconds.to_string()]);
        }
        words
    }
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    /// One JSON object a line.
    Json,
}

pub(super) fn show(
    args: &ReadArgs,
    view: Option<&dyn View>,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let source = Source::new(args.db.as_deref(), view)?;
    let head = |out: &mut dyn Write| match args.format {
        Format::Text => writeln!(
            out,
            "{:<28} {:<12} {:>14} {:>7}  LEDGER TIME",
            "ORDER", "ACTION", "CENTS", "EFFECTS"
        ),
        Format::Json => Ok(()),
    };
    source.each(out, head, |out, row: &BalanceRow| match args.format {
        Format::Json => json_line(out, row),
        Format::Text => writeln!(
            out,
            "{:<28} {:<12} {:>14} {:>7}  {}",
            row.order_id, row.action, row.balance_cents, row.effects, row.clock
        ),
    })?;
    Ok(DONE)
}

pub(super) fn attempts(
    args: &ReadArgs,
    view: Option<&dyn View>,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let source = Source::new(args.db.as_deref(), view)?;
    let head = |out: &mut dyn Write| match args.format {
        Format::Text => writeln!(
            out,
            "{:>5} {:<10} {:<28} {:<12} {:>14} {:<16} {:<36} LEDGER TIME",
            "SEQ", "OUTCOME", "ORDER", "ACTION", "CENTS", "MODE", "WORKFLOW UID"
        ),
        Format::Json => Ok(()),
    };
    source.each(out, head, |out, row: &AttemptRow| match args.format {
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

pub(super) fn claims(
    args: &ReadArgs,
    view: Option<&dyn View>,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let source = Source::new(args.db.as_deref(), view)?;
    let head = |out: &mut dyn Write| match args.format {
        Format::Text => writeln!(
            out,
            "{:<28} {:<12} {:>14} {:<11} {:<12} {:<25} DETAIL",
            "ORDER", "ACTION", "CENTS", "STATE", "REFERENCE", "LEDGER TIME"
        ),
        Format::Json => Ok(()),
    };
    source.each(out, head, |out, row: &ClaimRow| match args.format {
        Format::Json => json_line(out, row),
        Format::Text => writeln!(
            out,
            "{:<28} {:<12} {:>14} {:<11} {:<12} {:<25} {}",
            row.order_id,
            row.action,
            row.amount_cents,
            row.state,
            row.reference,
            row.clock,
            row.detail
        ),
    })?;
    Ok(DONE)
}

pub(super) fn verify(
    args: &ReadArgs,
    view: Option<&dyn View>,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let found = Source::new(args.db.as_deref(), view)?.verify()?;
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
        "{verdict}: {}, {}, {}",
        counted(found.attempts, "attempt"),
        counted(found.effects, "effect"),
        counted(found.balances, "balance")
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

pub(super) fn clock(args: &ClockArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let db = args.db.as_deref().ok_or(CommandError::NoFile)?;
    existing(db)?;
    let step = Duration::from_secs(args.advance.unwrap_or(0));
    let now = Ledger::open(db)?.advance_clock(step)?;
    writeln!(out, "{}", format_clock(now))?;
    Ok(DONE)
}
