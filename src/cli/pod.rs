//! What the program offers in a pod of the embedded node, which runs on the host: nothing of the machine below it, no session, no kubeconfig, can be named there.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use super::argo::{self, ArgoCommand};
use super::exit::Exit;
use crate::ledger::commands::{self, LedgerCommand};
use crate::ledger::crm::commands::{self as crm, CrmCommand};

/// The program as a workload.
#[derive(Debug, Parser)]
#[command(name = "eventlab", version, disable_help_subcommand = true)]
struct PodCli {
    #[command(subcommand)]
    command: PodCommand,
}

#[derive(Debug, Subcommand)]
enum PodCommand {
    /// The order ledger
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// The CRM that stands for an external system
    #[command(subcommand)]
    Crm(CrmCommand),
    /// What runs in the pods of Argo's images
    #[command(subcommand, hide = true)]
    Argo(ArgoCommand),
}

/// Runs a command of a container and answers its exit code; wrong arguments are 64 (`EX_USAGE` of sysexits).
pub fn run(arguments: Vec<OsString>) -> u8 {
    match PodCli::try_parse_from(arguments) {
        Ok(PodCli { command }) => match command {
            PodCommand::Ledger(command) => {
                let (out, err) = (&mut std::io::stdout().lock(), &mut std::io::stderr());
                commands::run(&command, None, out, err)
            }
            PodCommand::Crm(command) => crm::run(&command, &mut std::io::stderr()),
            PodCommand::Argo(command) => {
                super::finish(super::block_on(async move { argo::run(&command).await }))
            }
        },
        Err(error) => {
            // Help and version come as errors, too; a closed stdout changes nothing.
            let _ = error.print();
            if error.use_stderr() {
                commands::USAGE
            } else {
                Exit::Proven.code()
            }
        }
    }
}
