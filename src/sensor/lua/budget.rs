//! What one event may cost: steps, time and memory.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Steps for one event: instructions of the script and of pattern matching.
const STEPS: i64 = 10_000_000;
/// Time for one event, for what steps do not see, such as copying long texts.
const TIME: Duration = Duration::from_secs(2);
/// Longest text that a library function may build, in bytes.
pub(in crate::sensor) const MAX_TEXT: usize = 4 << 20;
/// Callbacks of `gsub` inside one another.
const MAX_CALLBACKS: usize = 16;

/// The message with which a script is stopped; it cannot be caught.
pub(in crate::sensor) const STOPPED: &str =
    "script stopped: one event took too many steps; do less work per event";

/// Counts down what is left for the event at hand.
#[derive(Debug)]
pub(in crate::sensor) struct Budget {
    origin: Instant,
    /// Nanoseconds after `origin`.
    deadline: AtomicU64,
    steps: AtomicI64,
    exhausted: AtomicBool,
    callbacks: AtomicUsize,
}

impl Budget {
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
            deadline: AtomicU64::new(0),
            steps: AtomicI64::new(0),
            exhausted: AtomicBool::new(true),
            callbacks: AtomicUsize::new(0),
        }
    }

    /// Starts anew for the next event.
    pub fn start(&self) {
        let deadline = self.origin.elapsed() + TIME;
        let nanos = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        self.deadline.store(nanos, Ordering::Relaxed);
        self.steps.store(STEPS, Ordering::Relaxed);
        self.callbacks.store(0, Ordering::Relaxed);
        self.exhausted.store(false, Ordering::Relaxed);
    }

    /// Says whether the event at hand has used up its budget.
    pub fn exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }

    /// Takes steps away and looks at the clock.
    pub fn charge(&self, steps: usize) -> mlua::Result<()> {
        let steps = i64::try_from(steps).unwrap_or(i64::MAX);
        let left = self
            .steps
            .fetch_sub(steps, Ordering::Relaxed)
            .saturating_sub(steps);
        let now = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if left < 0 || now > self.deadline.load(Ordering::Relaxed) {
            self.exhausted.store(true, Ordering::Relaxed);
        }
        if self.exhausted() {
            return Err(mlua::Error::runtime(STOPPED));
        }
        Ok(())
    }

    /// Takes the steps for handling a text of that many bytes.
    pub fn charge_text(&self, bytes: usize) -> mlua::Result<()> {
        self.charge(1 + bytes / 16)
    }

    /// Runs a callback unless too many are running inside one another: each takes machine stack.
    pub fn callback<T>(&self, run: impl FnOnce() -> mlua::Result<T>) -> mlua::Result<T> {
        if self.callbacks.fetch_add(1, Ordering::Relaxed) >= MAX_CALLBACKS {
            self.callbacks.fetch_sub(1, Ordering::Relaxed);
            return Err(mlua::Error::runtime("stack overflow"));
        }
        let result = run();
        self.callbacks.fetch_sub(1, Ordering::Relaxed);
        result
    }
}
