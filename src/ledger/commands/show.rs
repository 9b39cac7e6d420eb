//! The commands that print: `show`, `attempts`, `claims`, `verify` and `clock`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{CommandError, DONE, FAILED, json_line};
use crate::ledger::read::Table;
use crate::ledger::{
    AttemptRow, BalanceRow, ClaimRow, Ledger, LedgerError, MAX_PAGE, Reader, Verification,
    format_clock,
};

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

/// A reader of a file that must be there: whoever mistypes a path wants to hear it.
pub(super) fn existing(path: &Path) -> Result<Reader, CommandError> {
    if path.exists() {
        Ok(Reader::new(path))
    } else {
        Err(LedgerError::Missing(path.to_path_buf()).into())
    }
}

pub(super) fn show(args: &ReadArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
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

pub(super) fn attempts(args: &ReadArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
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

pub(super) fn claims(args: &ReadArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let reader = existing(&args.db)?;
    if args.format == Format::Text {
        writeln!(
            out,
            "{:<28} {:<12} {:>14} {:<11} {:<12} {:<25} DETAIL",
            "ORDER", "ACTION", "CENTS", "STATE", "REFERENCE", "LEDGER TIME"
        )?;
    }
    each(&reader, |row: &ClaimRow| match args.format {
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

pub(super) fn verify(args: &ReadArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
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

pub(super) fn clock(args: &ClockArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    existing(&args.db)?;
    let step = Duration::from_secs(args.advance.unwrap_or(0));
    let now = Ledger::open(&args.db)?.advance_clock(step)?;
    writeln!(out, "{}", format_clock(now))?;
    Ok(DONE)
}
