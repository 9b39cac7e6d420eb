//! `eventlab cluster start|kubeconfig|stop|status`: the embedded cluster for other programs.

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use super::exit::{Exit, Failure};
use super::output::{line as print, note};
use super::place::Place;
use super::prepare::{self, PrepareArgs, RemoveArgs};
use super::start;

/// How long `start --detach` waits for the cluster to answer.
const START_WAIT: Duration = Duration::from_secs(60);
/// How long `stop` waits for the other process to end.
const STOP_WAIT: Duration = Duration::from_secs(15);

/// The embedded cluster, and the lab's ground on a real one.
#[derive(Clone, Debug, Subcommand)]
pub enum ClusterCommand {
    /// Run the cluster in the foreground until Ctrl-C, or in the background with --detach
    Start(StartArgs),
    /// Print the path of the kubeconfig, or a line for the shell
    Kubeconfig(KubeconfigArgs),
    /// Stop a cluster that runs in another terminal
    Stop,
    /// Say whether it runs, and where
    Status,
    /// Make the labs' ground on a real cluster (--context), after showing it
    Prepare(PrepareArgs),
    /// Delete what eventlab made on a real cluster (--context), after naming it
    Remove(RemoveArgs),
}

/// Arguments of `cluster start`.
#[derive(Clone, Debug, Args)]
pub struct StartArgs {
    /// Port of the API on 127.0.0.1 (default: that of the last start, else a free one)
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Leave it running in the background, until `eventlab cluster stop`
    #[arg(long, conflicts_with = "detached")]
    pub detach: bool,
    /// What `--detach` starts
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// Arguments of `cluster kubeconfig`.
#[derive(Clone, Debug, Args)]
pub struct KubeconfigArgs {
    /// Print `export KUBECONFIG=…`
    #[arg(long)]
    pub export: bool,
    /// Print the path alone (the default)
    #[arg(long)]
    pub path: bool,
}

/// Runs a cluster command.
///
/// # Errors
/// The session is held, the port is taken, nothing runs.
pub async fn run(place: &Place, command: &ClusterCommand) -> Result<Exit, Failure> {
    match command {
        ClusterCommand::Start(args) => start(place, args).await,
        ClusterCommand::Kubeconfig(args) => kubeconfig(place, args),
        ClusterCommand::Stop => stop(place).await,
        ClusterCommand::Status => status(place),
        ClusterCommand::Prepare(args) => prepare::prepare(place, args).await,
        ClusterCommand::Remove(args) => prepare::remove(place, args).await,
    }
}

async fn start(place: &Place, args: &StartArgs) -> Result<Exit, Failure> {
    if args.detach {
        return detach(place, args).await;
    }
    if args.detached {
        // Away from the terminal, whose end is not this cluster's. A process that leads a group already stays in it.
        let _ = rustix::process::setsid();
    }
    let folder = place.folder()?;
    place.bus.prepare(&folder).await?;
    let files = start::open(&folder)?;
    start::pinned(&folder, None)?;
    let logs = start::log_to(&folder);
    let cluster = start::cluster(&folder, args.port).await?;
    print(&format!("API         {}", cluster.url()));
    print(&format!("kubeconfig  {}", cluster.kubeconfig().display()));
    if !args.detached {
        note!(
            "The cluster runs until Ctrl-C. In another terminal: export KUBECONFIG={}",
            cluster.kubeconfig().display()
        );
    }
    let interrupted = ended().await?;
    note!("Stopping.");
    start::shutdown(cluster).await;
    drop((files, logs));
    Ok(if interrupted {
        Exit::Interrupted
    } else {
        Exit::Proven
    })
}

/// Waits until somebody ends this process; answers whether that was Ctrl-C.
async fn ended() -> Result<bool, Failure> {
    let waiting = |kind: SignalKind, name: &str| {
        signal(kind)
            .map_err(|error| Failure::environment(format!("cannot wait for {name}: {error}")))
    };
    let mut terminate = waiting(SignalKind::terminate(), "SIGTERM")?;
    let mut hangup = waiting(SignalKind::hangup(), "SIGHUP")?;
    Ok(tokio::select! {
        result = tokio::signal::ctrl_c() => result.is_ok(),
        _ = terminate.recv() => false,
        _ = hangup.recv() => false,
    })
}

/// Starts this program again in the background, and waits until its cluster answers.
async fn detach(place: &Place, args: &StartArgs) -> Result<Exit, Failure> {
    let folder = place.folder()?;
    if let Some(running) = start::running(&folder) {
        return Err(Failure::environment(format!(
            "a cluster of this session runs already, in process {}; `eventlab cluster stop` ends it",
            running.pid
        )));
    }
    let log = folder.join("logs").join("cluster.log");
    let mut child = background(place, args, &log)?;
    let deadline = tokio::time::Instant::now() + START_WAIT;
    loop {
        let ended = child.try_wait().map_err(Failure::environment)?;
        if ended.is_some() {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let said = said.trim().trim_start_matches("eventlab: ");
            return Err(Failure::environment(if said.is_empty() {
                format!(
                    "the cluster did not start, and could not write why to {}: is the disk full (`df`)? `eventlab cluster start` says it here",
                    log.display()
                )
            } else {
                format!("the cluster did not start: {said}")
            }));
        }
        match start::running(&folder) {
            Some(running) if Some(running.pid) == child.id() => {
                print(&format!("running     process {}", running.pid));
                print(&format!("API         {}", running.api));
                print(&format!("kubeconfig  {}", running.kubeconfig.display()));
                return Ok(Exit::Proven);
            }
            _ if tokio::time::Instant::now() > deadline => {
                // It is given up either way.
                let _ = child.start_kill();
                return Err(Failure::environment(format!(
                    "the cluster did not start within {} s; {} says why",
                    START_WAIT.as_secs(),
                    log.display()
                )));
            }
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

fn background(
    place: &Place,
    args: &StartArgs,
    log: &Path,
) -> Result<tokio::process::Child, Failure> {
    let failed = |error: std::io::Error| {
        Failure::environment(format!(
            "cannot start the cluster in the background, with {} as its log: {error}",
            log.display()
        ))
    };
    if let Some(folder) = log.parent() {
        let mut private = std::fs::DirBuilder::new();
        private
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
    }
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600);
    let file = file.open(log).map_err(failed)?;
    let mut command = tokio::process::Command::new(start::program()?);
    command
        .arg0("eventlab")
        .arg("--session")
        .arg(place.session_name())
        .args(["cluster", "start", "--detached"]);
    if let Some(dir) = &place.state_dir {
        command.arg("--state-dir").arg(dir);
    }
    if let Some(bus) = place.bus.url() {
        // Not an argument, which everybody may read: it can hold a password.
        command.env("EVENTLAB_BUS", bus);
    }
    for (option, file) in [
        ("--bus-ca", &place.bus.bus_ca),
        ("--bus-cert", &place.bus.bus_cert),
        ("--bus-key", &place.bus.bus_key),
    ] {
        if let Some(file) = file {
            command.arg(option).arg(file);
        }
    }
    if let Some(port) = args.port {
        command.arg("--port").arg(port.to_string());
    }
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(failed)?)
        .stderr(file)
        .spawn()
        .map_err(failed)
}

fn kubeconfig(place: &Place, args: &KubeconfigArgs) -> Result<Exit, Failure> {
    let folder = place.folder()?;
    let path = crate::embedded::cluster::kubeconfig_path(&folder);
    if !path.is_file() {
        return Err(Failure::environment(format!(
            "there is no kubeconfig in {} yet; start the cluster with `eventlab` or `eventlab cluster start`",
            folder.display()
        )));
    }
    if start::running(&folder).is_none() {
        note!(
            "No cluster of this session runs now, so nothing answers there; `eventlab` or `eventlab cluster start` starts it."
        );
    }
    if args.export && !args.path {
        print(&format!(
            "export KUBECONFIG='{}'",
            path.display().to_string().replace('\'', r"'\''")
        ));
    } else {
        print(&path.display().to_string());
    }
    Ok(Exit::Proven)
}

fn status(place: &Place) -> Result<Exit, Failure> {
    let folder = place.folder()?;
    match start::running(&folder) {
        Some(running) => {
            print(&format!("running     process {}", running.pid));
            print(&format!("API         {}", running.api));
            print(&format!("kubeconfig  {}", running.kubeconfig.display()));
            Ok(Exit::Proven)
        }
        None => Err(Failure::environment(format!(
            "no cluster runs for the session in {}; start it with `eventlab cluster start`",
            folder.display()
        ))),
    }
}

async fn stop(place: &Place) -> Result<Exit, Failure> {
    let folder = place.folder()?;
    let Some(running) = start::running(&folder) else {
        return Err(Failure::environment(format!(
            "no cluster runs for the session in {}",
            folder.display()
        )));
    };
    let pid = i32::try_from(running.pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .ok_or_else(|| Failure::internal("the record of the running cluster names no process"))?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).map_err(|error| {
        Failure::environment(format!("cannot stop process {}: {error}", running.pid))
    })?;
    let deadline = tokio::time::Instant::now() + STOP_WAIT;
    while start::running(&folder).is_some() {
        if tokio::time::Instant::now() > deadline {
            return Err(Failure::environment(format!(
                "process {} did not end within {} s",
                running.pid,
                STOP_WAIT.as_secs()
            )));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    print("stopped");
    Ok(Exit::Proven)
}
