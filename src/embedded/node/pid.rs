//! Signals to exactly one process, also when its id was given to another one since.

use rustix::process::{Pid, Signal, kill_process_group};

/// A handle to one process; a signal after its end goes nowhere.
#[derive(Debug)]
pub(super) struct ProcessHandle {
    pid: Pid,
    #[cfg(target_os = "linux")]
    handle: Option<std::os::fd::OwnedFd>,
}

impl ProcessHandle {
    /// Opens the process `pid`, which must not have been waited for yet.
    pub(super) fn open(pid: u32) -> Option<ProcessHandle> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        Some(ProcessHandle {
            pid,
            #[cfg(target_os = "linux")]
            handle: rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok(),
        })
    }

    /// Sends `signal` to the process.
    pub(super) fn signal(&self, signal: Signal) {
        // An error means that it is gone, which is what a signal is for.
        #[cfg(target_os = "linux")]
        if let Some(handle) = &self.handle {
            let _ = rustix::process::pidfd_send_signal(handle, signal);
            return;
        }
        let _ = rustix::process::kill_process(self.pid, signal);
    }

    /// Kills the process and its group, which it leads.
    ///
    /// Call it only while the process is known not to have been waited for.
    pub(super) fn kill_group(&self) {
        self.signal(Signal::KILL);
        let _ = kill_process_group(self.pid, Signal::KILL);
    }
}

/// When the process `pid` started, in the system's own notation; `None` when there is none or it has ended.
#[cfg(target_os = "linux")]
pub(super) fn start_time(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything; the fields after it are the third and later ones.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // starttime is field 22.
    fields.nth(18).map(str::to_owned)
}

/// When the process `pid` started, in the system's own notation; `None` when there is none.
#[cfg(not(target_os = "linux"))]
pub(super) fn start_time(pid: u32) -> Option<String> {
    let output = std::process::Command::new("/bin/ps")
        .args(["-o", "lstart=", "-p", &pid.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Names this boot of the machine, where start times count from it.
pub(super) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}
