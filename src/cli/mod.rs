//! The command line: one file per subcommand, and the exit codes.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::ledger::commands::{self, LedgerCommand};

/// Exit code for wrong arguments of a command that people use.
const USAGE: u8 = 2;

/// A terminal lab for event-driven workflows with Argo Events and Argo Workflows.
#[derive(Debug, Parser)]
#[command(name = "eventlab", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The order ledger
    #[command(subcommand)]
    Ledger(LedgerCommand),
}

/// Runs the program with its arguments (the first is its name) and answers its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let in_pod = arguments.get(1).is_some_and(|name| name == "ledger");
    match Cli::try_parse_from(arguments) {
        Ok(Cli {
            command: Command::Ledger(command),
        }) => commands::run(
            &command,
            &mut std::io::stdout().lock(),
            &mut std::io::stderr(),
        ),
        Err(error) => {
            // Help and version come as errors, too; a closed stdout changes nothing.
            let _ = error.print();
            match (error.use_stderr(), in_pod) {
                (false, _) => 0,
                (true, true) => commands::USAGE,
                (true, false) => USAGE,
            }
        }
    }
}
