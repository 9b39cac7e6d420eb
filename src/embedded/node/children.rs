//! Child processes: started by one thread, logged line by line, killed exactly.
//!
//! From above: [`start`] a [`ChildSpec`] and keep the [`ChildProcess`]; dropping it kills the child.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use super::child::PARENT_VARIABLE;
use super::lines::copy_lines;
use super::pid::ProcessHandle;
use super::process::{Exit, LogSink, PodProcess};
use super::sweep::{RecordGuard, Records};

/// How long output may still come after the child has ended (a grandchild can hold the pipe).
const DRAIN: Duration = Duration::from_secs(2);

/// What to start. The environment holds nothing else than what is here.
#[derive(Clone, Debug)]
pub struct ChildSpec {
    /// The program; it is shown as `eventlab`.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub folder: PathBuf,
    /// Which container it is, for the record.
    pub container: String,
}

/// A running child; dropping it kills the child.
#[derive(Debug)]
pub struct ChildProcess {
    process: Arc<ProcessHandle>,
    exit: watch::Receiver<Option<Exit>>,
    pid: u32,
    /// Ends the supervising task, and with it the child.
    supervisor: tokio::task::JoinHandle<()>,
}

impl ChildProcess {
    /// The system's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

impl PodProcess for ChildProcess {
    fn terminate(&self) {
        if self.exit.borrow().is_none() {
            self.process.signal(Signal::TERM);
        }
    }

    fn kill(&self) {
        if self.exit.borrow().is_none() {
            self.process.kill_group();
        }
    }

    fn exit(&self) -> watch::Receiver<Option<Exit>> {
        self.exit.clone()
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
        self.supervisor.abort();
    }
}

/// Starts a child and writes it down in `records`; its output goes to `log`.
///
/// # Errors
/// The program cannot be started, or its record cannot be written (then it is killed).
pub async fn start(
    spec: ChildSpec,
    records: &Records,
    log: Arc<dyn LogSink>,
) -> io::Result<ChildProcess> {
    let output = move |stdout: Option<ChildStdout>, stderr: Option<ChildStderr>| async move {
        let out = async {
            if let Some(stream) = stdout {
                copy_lines(stream, &*log).await
            }
        };
        let err = async {
            if let Some(stream) = stderr {
                copy_lines(stream, &*log).await
            }
        };
        tokio::join!(out, err);
    };
    start_with(spec, records, DRAIN, output).await
}

/// As [`start`], with `output` reading what the child says, for at most `drain` after its end.
///
/// # Errors
/// As [`start`].
pub(super) async fn start_with<F, O>(
    spec: ChildSpec,
    records: &Records,
    drain: Duration,
    output: F,
) -> io::Result<ChildProcess>
where
    F: FnOnce(Option<ChildStdout>, Option<ChildStderr>) -> O,
    O: Future<Output = ()> + Send + 'static,
{
    let mut child = spawn(command(&spec)).await?;
    let gone = || io::Error::other("the child ended before it could be watched");
    let pid = child.id().ok_or_else(gone)?;
    let process = Arc::new(ProcessHandle::open(pid).ok_or_else(gone)?);
    let record = records.add(pid, &spec.container)?;
    let stdin = child.stdin.take();
    let output = output(child.stdout.take(), child.stderr.take());
    let (sender, exit) = watch::channel(None);
    let supervised = Supervised {
        child,
        stdin,
        record,
        drain,
    };
    let supervisor = tokio::spawn(supervise(supervised, output, sender));
    Ok(ChildProcess {
        process,
        exit,
        pid,
        supervisor,
    })
}

fn command(spec: &ChildSpec) -> Command {
    let mut command = Command::new(&spec.program);
    command
        .arg0("eventlab")
        .args(&spec.args)
        .env_clear()
        .envs(&spec.env)
        .env(PARENT_VARIABLE, std::process::id().to_string())
        .current_dir(&spec.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C in the terminal is not meant for pods.
        .process_group(0)
        .kill_on_drop(true);
    command
}

/// What is held until a child ends.
struct Supervised {
    child: Child,
    stdin: Option<ChildStdin>,
    record: Option<RecordGuard>,
    drain: Duration,
}

/// Waits for the end of a child. Its stdin is held open until then: the end of it tells the child that we are gone.
async fn supervise(
    supervised: Supervised,
    output: impl Future<Output = ()>,
    exit: watch::Sender<Option<Exit>>,
) {
    let Supervised {
        mut child,
        stdin,
        record,
        drain,
    } = supervised;
    let mut output = std::pin::pin!(output);
    let mut drained = false;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            () = &mut output, if !drained => drained = true,
        }
    };
    drop(record);
    if !drained {
        // Whoever sees the exit may rely on the log being whole.
        let _ = tokio::time::timeout(drain, output).await;
    }
    drop(stdin);
    exit.send_replace(Some(status.map_or(Exit::Unknown, exit_of)));
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

/// What the spawner thread is asked to do.
struct Request {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

static SPAWNER: Mutex<Option<mpsc::Sender<Request>>> = Mutex::new(None);

async fn spawn(command: Command) -> io::Result<Child> {
    let (reply, answer) = oneshot::channel();
    let request = Request {
        command,
        runtime: Handle::current(),
        reply,
    };
    let ended = || io::Error::other("the thread that starts child processes has ended");
    spawner()?.send(request).map_err(|_| ended())?;
    answer.await.map_err(|_| ended())?
}

/// The one thread that starts children. It never ends: the kernel sends a child its death signal when the *thread*
/// that started it is gone.
fn spawner() -> io::Result<mpsc::Sender<Request>> {
    let mut spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = &*spawner {
        return Ok(sender.clone());
    }
    let (sender, requests) = mpsc::channel();
    std::thread::Builder::new()
        .name("node-spawner".into())
        .spawn(move || run(&requests))?;
    *spawner = Some(sender.clone());
    Ok(sender)
}

fn run(requests: &mpsc::Receiver<Request>) {
    let mut handler_installed = false;
    while let Ok(Request {
        mut command,
        runtime,
        reply,
    }) = requests.recv()
    {
        let _context = runtime.enter();
        if !handler_installed {
            // A parent that ignored SIGCHLD leaves that to us, and then children cannot be waited for. Installing a
            // handler, even one that is dropped again, ends that.
            handler_installed = signal(SignalKind::child()).is_ok();
        }
        // Nobody waits for the answer any more: the child is dropped, and killed by that.
        let _ = reply.send(command.spawn());
    }
}
