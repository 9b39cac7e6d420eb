//! What a workload does first when it runs as a child of a node: it makes sure that it ends with its parent.

use std::io::Read;

/// Environment variable with the process id of the node; absent when a person runs the command.
pub const PARENT_VARIABLE: &str = "EVENTLAB_PARENT";
/// Which pod and container this is, as JSON.
pub const POD_VARIABLE: &str = "EVENTLAB_POD";
/// Host paths of the container's mounts, as a JSON object.
pub const MOUNTS_VARIABLE: &str = "EVENTLAB_MOUNTS";
/// Real sockets of `SERVICE.NAMESPACE.svc:PORT`, as a JSON object.
pub const HOSTS_VARIABLE: &str = "EVENTLAB_HOSTS";
/// Host folder with the service account's `token`, `ca.crt` and `namespace`.
pub const CREDENTIALS_VARIABLE: &str = "EVENTLAB_SERVICE_ACCOUNT";

/// Ties this process to the node that started it; does nothing when no node did.
///
/// Three guards, since each has a hole: the kernel's death signal (Linux only; a no-op if the parent is gone already),
/// a look at the parent's id, and a thread that waits for the end of stdin (a stopped process does not read).
/// Answers the exit code with which to leave at once, when the parent is gone.
#[must_use]
pub fn guard() -> Option<u8> {
    let parent = std::env::var(PARENT_VARIABLE).ok()?;
    end_with_parent();
    if parent_id().to_string() != parent {
        return Some(137);
    }
    // The name that `ps` shows; the program was started as /proc/self/exe.
    #[cfg(target_os = "linux")]
    let _ = std::fs::write("/proc/self/comm", "eventlab");
    let watching = std::thread::Builder::new()
        .name("parent".into())
        .stack_size(64 * 1024)
        .spawn(wait_for_parent);
    // Without the thread the process could outlive its parent on a system without death signals.
    if watching.is_err() { Some(1) } else { None }
}

/// Whether a node started this process, as a container of a pod.
#[must_use]
pub fn has_node() -> bool {
    std::env::var_os(PARENT_VARIABLE).is_some()
}

fn parent_id() -> u32 {
    std::os::unix::process::parent_id()
}

#[cfg(target_os = "linux")]
fn end_with_parent() {
    use rustix::process::{Signal, set_parent_process_death_signal};
    // Where the call is refused, the other guards still hold.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent() {}

/// Stdin is a pipe that nobody writes to: it ends when the node does.
fn wait_for_parent() {
    let mut stdin = std::io::stdin().lock();
    let mut buffer = [0u8; 64];
    loop {
        match stdin.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    // As a kill from outside would end it: nothing is finished, nothing is flushed.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::exit(137);
}
