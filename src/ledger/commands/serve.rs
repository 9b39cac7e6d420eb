//! `ledger serve`, and how a workload listens and ends.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{CommandError, DONE};
use crate::kinds;

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

/// Listens where a workload should: on the port that the embedded node reserved for the container port, else on what was
/// asked for.
pub async fn bind(address: IpAddr, port: u16) -> std::io::Result<TcpListener> {
    let given = std::env::var(kinds::real_port_variable(port))
        .ok()
        .and_then(|port| port.parse().ok());
    let address = match given {
        Some(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        None => SocketAddr::from((address, port)),
    };
    TcpListener::bind(address).await
}

/// Cancels `cancel` on SIGTERM and SIGINT. To be called before anybody can know that the workload is up, so that an early
/// signal ends it in order, too.
pub fn until_signal(cancel: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        cancel.cancel();
    });
    Ok(())
}

pub(super) fn serve(args: &ServeArgs, err: &mut dyn Write) -> Result<u8, CommandError> {
    let at_port = |source| CommandError::Serve {
        port: args.port,
        source,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(at_port)?;
    let served = runtime.block_on(async {
        let cancel = CancellationToken::new();
        until_signal(cancel.clone())?;
        let listener = bind(args.address, args.port).await?;
        let _ = writeln!(
            err,
            "serving ledger {} on http://{}",
            args.db.display(),
            listener.local_addr()?
        );
        crate::ledger::serve(args.db.clone(), listener, cancel).await
    });
    served.map_err(at_port)?;
    Ok(DONE)
}
