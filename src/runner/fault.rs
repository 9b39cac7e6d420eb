//! Named points at which this process can be made to die, so that resuming from each of them can be tested.
//!
//! `EVENTLAB_KILL_AT=N` ends the process with SIGKILL at the N-th point that it passes, counted from 1;
//! `EVENTLAB_PANIC_AT=NAME` makes the thread panic that passes the point of this name.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static WANTED: OnceLock<Option<u64>> = OnceLock::new();
static PASSED: AtomicU64 = AtomicU64::new(0);

static PANIC: OnceLock<Option<String>> = OnceLock::new();

/// Passes a point at which only a panic is tried: it is not counted.
///
/// # Panics
/// When it is asked to.
pub fn panic_point(name: &str) {
    let wanted = PANIC.get_or_init(|| std::env::var("EVENTLAB_PANIC_AT").ok());
    assert!(
        wanted.as_deref() != Some(name),
        "asked to panic at {name} (EVENTLAB_PANIC_AT)"
    );
}

/// Passes a point.
pub fn point(name: &str) {
    panic_point(name);
    let wanted = WANTED.get_or_init(|| std::env::var("EVENTLAB_KILL_AT").ok()?.parse().ok());
    let Some(wanted) = *wanted else { return };
    let number = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    if number == wanted {
        eprintln!("eventlab: killed at point {number}, {name}");
        // Nothing after this line runs, if the kill is allowed at all.
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
