//! Containers that are functions of this program: each on a thread and a runtime of its own.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::process::{Exit, LogSink, PodProcess, Service, ServiceContext};

/// Exit code of a service that panicked, as of a Go program.
const PANICKED: i32 = 2;

/// A running service; dropping it kills it.
#[derive(Debug)]
pub(super) struct ServiceProcess {
    terminate: CancellationToken,
    kill: CancellationToken,
    exit: watch::Receiver<Option<Exit>>,
}

impl PodProcess for ServiceProcess {
    fn terminate(&self) {
        self.terminate.cancel();
    }

    fn kill(&self) {
        self.kill.cancel();
    }

    fn exit(&self) -> watch::Receiver<Option<Exit>> {
        self.exit.clone()
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        self.kill.cancel();
    }
}

/// Starts `service` on a thread named after its pod. `context` is made inside its runtime, so that the tasks of its
/// clients end with it; the token it gets is cancelled on SIGTERM.
pub(super) fn start(
    service: Service,
    thread: String,
    log: Arc<dyn LogSink>,
    context: impl FnOnce(CancellationToken) -> ServiceContext + Send + 'static,
) -> std::io::Result<ServiceProcess> {
    let (terminate, kill) = (CancellationToken::new(), CancellationToken::new());
    let (sender, exit) = watch::channel(None);
    let process = ServiceProcess {
        terminate: terminate.clone(),
        kill: kill.clone(),
        exit,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new().name(thread).spawn(move || {
        let running = async move {
            let task = tokio::spawn(async move { service(context(terminate)).await });
            tokio::select! {
                biased;
                () = kill.cancelled() => Exit::Signal(9),
                ended = task => match ended {
                    Ok(code) => Exit::Code(code),
                    Err(error) => {
                        log.line(&panic_text(error));
                        Exit::Code(PANICKED)
                    }
                },
            }
        };
        let ended = runtime.block_on(running);
        // Every task is dropped where it waits: no shutdown code runs, so no ack leaves.
        runtime.shutdown_background();
        sender.send_replace(Some(ended));
    })?;
    Ok(process)
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else {
        return "the service was cancelled".to_owned();
    };
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("(no message)"))
}
