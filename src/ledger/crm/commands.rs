//! What runs behind `eventlab crm …`.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tokio_util::sync::CancellationToken;

use super::{Capability, FaultPoint, Store};
use crate::ledger::commands::{DONE, FAILED, bind, until_signal};

/// The CRM that stands for an external system.
#[derive(Debug, Subcommand)]
pub enum CrmCommand {
    /// Serve the CRM over HTTP
    Serve(ServeArgs),
}

/// Arguments of `crm serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Database file; made when it is not there
    #[arg(long, value_name = "PATH")]
    pub db: PathBuf,
    /// Port to listen on
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// Address to listen on
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub address: IpAddr,
    /// What it can do against a second write
    #[arg(long, value_enum, default_value_t = Capability::Neither)]
    pub capability: Capability,
    /// Fail the first request at this point
    #[arg(long, value_enum)]
    pub fault: Option<FaultPoint>,
}

/// Runs a command to its end and answers its exit code.
pub fn run(command: &CrmCommand, err: &mut dyn Write) -> u8 {
    let CrmCommand::Serve(args) = command;
    match serve(args, err) {
        Ok(()) => DONE,
        Err(error) => {
            // Nobody is left to tell when stderr is closed, too.
            let _ = writeln!(err, "error: {error}");
            FAILED
        }
    }
}

fn serve(args: &ServeArgs, err: &mut dyn Write) -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(&args.db)?;
    if let Some(point) = args.fault {
        store.set_fault(point, 1)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let cancel = CancellationToken::new();
        until_signal(cancel.clone())?;
        let listener = bind(args.address, args.port).await?;
        let _ = writeln!(err, "serving the CRM on http://{}", listener.local_addr()?);
        super::serve(store, args.capability, listener, cancel).await;
        Ok(())
    })
}
