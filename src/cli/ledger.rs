//! `eventlab ledger …`: with `--db` on a file, as in a pod; without it on the ledger of the session that runs, or of the
//! cluster that `--context` names.

use tokio::runtime::Runtime;

use super::exit::Failure;
use super::output::{self, Stdout, note};
use super::place::Place;
use super::start;
use crate::cluster::Cluster;
use crate::kinds::NAMESPACE;
use crate::ledger::commands::{self, LedgerCommand, View};
use crate::runner::errand::{self, Errand};

/// The Workflow that an errand is made after.
const ERRAND: &str = "base/reconcile.yaml";

/// Runs a ledger command and answers its exit code; 3 when it reads a session and none runs.
pub fn run(place: &Place, command: &LedgerCommand) -> u8 {
    let (out, err) = (&mut Stdout, &mut std::io::stderr());
    if let Some(arguments) = command.errand(errand::LEDGER_IN_POD) {
        return send_in(place, &arguments);
    }
    if !command.reads_session() {
        return commands::run(command, None, out, err);
    }
    match SessionLedger::open(place) {
        Ok(view) => commands::run(command, Some(&view), out, err),
        Err(failure) => {
            note!("eventlab: {}", failure.message);
            failure.exit.code()
        }
    }
}

/// Runs a command in a pod of the running session, where the ledger's file is, and answers its exit code.
fn send_in(place: &Place, arguments: &[String]) -> u8 {
    match in_pod(place, arguments) {
        Ok(done) => {
            for line in done.output.lines() {
                // A pod has one log: what it said on stderr is told apart by how it begins.
                if line.starts_with("error: ") {
                    note!("{line}");
                } else {
                    output::line(line);
                }
            }
            u8::try_from(done.exit_code).unwrap_or(commands::FAILED)
        }
        Err(failure) => {
            note!("eventlab: {}", failure.message);
            failure.exit.code()
        }
    }
}

fn in_pod(place: &Place, arguments: &[String]) -> Result<Errand, Failure> {
    let catalog = place.catalog()?;
    let manifest = catalog.manifest(ERRAND).map_err(Failure::internal)?;
    let session = SessionLedger::open(place)?;
    session
        .runtime
        .block_on(errand::run(&session.cluster, manifest, arguments))
        .map_err(Failure::environment)
}

/// The cluster of the context that was named, else that of the session that another process runs.
///
/// # Errors
/// No process runs it, or it cannot be reached.
pub async fn running_cluster(place: &Place) -> Result<Cluster, Failure> {
    place.real.check()?;
    if let Some(context) = start::confirmed(&place.real).await? {
        return Ok(Cluster::of_context(
            &context,
            NAMESPACE,
            place.real.options(None),
        ));
    }
    let folder = place.folder()?;
    if start::running(&folder).is_none() {
        return Err(Failure::environment(format!(
            "no session runs in {}; start `eventlab` or `eventlab cluster start` in another terminal, name a real cluster with --context, or a ledger file with --db",
            folder.display()
        )));
    }
    Cluster::of_running(&folder)
        .await
        .map_err(Failure::environment)
}

/// The running session's ledger, read through its Service.
struct SessionLedger {
    runtime: Runtime,
    cluster: Cluster,
}

impl SessionLedger {
    fn open(place: &Place) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::environment(format!("cannot start threads: {error}")))?;
        let cluster = runtime.block_on(running_cluster(place))?;
        Ok(Self { runtime, cluster })
    }
}

impl View for SessionLedger {
    fn get(&self, path: &str) -> Result<String, String> {
        self.runtime
            .block_on(self.cluster.ledger_view(path))
            .map_err(|error| {
                format!("{error}; a lab's stage `apply` starts the ledger, `eventlab status` says where the session stands")
            })
    }
}
