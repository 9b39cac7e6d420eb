//! What one event may cost: steps, time and memory.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Steps for one event: instructions of the script and of pattern matching.
const STEPS: i64 = 10_000_000;
/// Time for one event, for what steps do not see, such as copying long texts. After so long by the clock on the wall the
/// script gets as much of its thread's own time once more: on a machine with other work to do it may not have run at all.
const TIME: Duration = Duration::from_secs(1);
/// Longest text that a library function may build, in bytes.
pub(in crate::sensor) const MAX_TEXT: usize = 4 << 20;
/// Callbacks of `gsub` inside one another.
const MAX_CALLBACKS: usize = 16;

/// The message with which a script is stopped at a bound of this program. It cannot be caught: upstream knows none of
/// the bounds, so what the script would do about one says nothing.
pub(in crate::sensor) const STOPPED: &str = "script stopped";

/// A bound of this program at which a script ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::sensor) enum Bound {
    Steps = 1,
    Memory,
    /// One text is too long.
    Text,
    /// One function gives too many values.
    Values,
    /// Callbacks or coroutines are nested too deeply.
    Depth,
    /// Functions call one another too deeply.
    Frames,
}

impl Bound {
    const ALL: [Self; 6] = [
        Self::Steps,
        Self::Memory,
        Self::Text,
        Self::Values,
        Self::Depth,
        Self::Frames,
    ];
}

const NOT_YET: u64 = u64::MAX;

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NOT_YET - 1)
}

/// Time that this thread has worked so far, in nanoseconds.
pub(in crate::sensor) fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, rest) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds
        .unwrap_or_default()
        .saturating_mul(1_000_000_000)
        .saturating_add(rest.unwrap_or_default())
}

/// Counts down what is left for the event at hand.
#[derive(Debug)]
pub(in crate::sensor) struct Budget {
    origin: Instant,
    /// Nanoseconds after `origin`.
    deadline: AtomicU64,
    /// Nanoseconds of the thread's own time; `NOT_YET` before the deadline has passed.
    own_deadline: AtomicU64,
    steps: AtomicI64,
    /// The bound at which the script was stopped, 0 before.
    stopped: AtomicU8,
    callbacks: AtomicUsize,
}

impl Budget {
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
            deadline: AtomicU64::new(0),
            own_deadline: AtomicU64::new(NOT_YET),
            steps: AtomicI64::new(0),
            stopped: AtomicU8::new(Bound::Steps as u8),
            callbacks: AtomicUsize::new(0),
        }
    }

    /// Starts anew for the next event.
    pub fn start(&self) {
        let deadline = nanoseconds(self.origin.elapsed() + TIME);
        self.deadline.store(deadline, Ordering::Relaxed);
        self.own_deadline.store(NOT_YET, Ordering::Relaxed);
        self.steps.store(STEPS, Ordering::Relaxed);
        self.callbacks.store(0, Ordering::Relaxed);
        self.stopped.store(0, Ordering::Relaxed);
    }

    /// The bound at which the event at hand was stopped.
    pub fn stopped(&self) -> Option<Bound> {
        let stopped = self.stopped.load(Ordering::Relaxed);
        Bound::ALL.into_iter().find(|bound| *bound as u8 == stopped)
    }

    /// Stops the event at hand; gives the error to end with.
    pub fn stop(&self, bound: Bound) -> mlua::Error {
        // Of several bounds the first counts.
        if self.stopped().is_none() {
            self.stopped.store(bound as u8, Ordering::Relaxed);
        }
        mlua::Error::runtime(STOPPED)
    }

    /// Takes steps away and looks at the clock.
    pub fn charge(&self, steps: usize) -> mlua::Result<()> {
        let steps = i64::try_from(steps).unwrap_or(i64::MAX);
        let left = self
            .steps
            .fetch_sub(steps, Ordering::Relaxed)
            .saturating_sub(steps);
        let now = nanoseconds(self.origin.elapsed());
        let late = now > self.deadline.load(Ordering::Relaxed) && self.has_worked_too_long();
        if left < 0 || late {
            return Err(self.stop(Bound::Steps));
        }
        match self.stopped() {
            Some(bound) => Err(self.stop(bound)),
            None => Ok(()),
        }
    }

    /// Whether the thread has worked for [`TIME`] since the deadline was first seen to have passed.
    fn has_worked_too_long(&self) -> bool {
        let now = thread_time();
        match self.own_deadline.load(Ordering::Relaxed) {
            NOT_YET => {
                let deadline = now.saturating_add(nanoseconds(TIME));
                self.own_deadline.store(deadline, Ordering::Relaxed);
                false
            }
            deadline => now > deadline,
        }
    }

    /// Takes the steps for handling a text of that many bytes.
    pub fn charge_text(&self, bytes: usize) -> mlua::Result<()> {
        self.charge(1 + bytes / 16)
    }

    /// Runs a callback unless too many are running inside one another: each takes machine stack.
    pub fn callback<T>(&self, run: impl FnOnce() -> mlua::Result<T>) -> mlua::Result<T> {
        if self.callbacks.fetch_add(1, Ordering::Relaxed) >= MAX_CALLBACKS {
            self.callbacks.fetch_sub(1, Ordering::Relaxed);
            return Err(self.stop(Bound::Depth));
        }
        let result = run();
        self.callbacks.fetch_sub(1, Ordering::Relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that had to wait for others has used up nothing.
    #[test]
    fn only_time_that_the_thread_worked_counts() {
        let budget = Budget::new();
        budget.start();
        budget.deadline.store(0, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(20));
        assert!(budget.charge(1).is_ok());
        assert!(budget.charge(1).is_ok());
        budget.own_deadline.store(0, Ordering::Relaxed);
        assert!(budget.charge(1).is_err());
        assert_eq!(budget.stopped(), Some(Bound::Steps));
        budget.start();
        assert!(budget.charge(1).is_ok(), "the next event starts anew");
    }

    #[test]
    fn steps_are_counted_whatever_the_clock_says() {
        let budget = Budget::new();
        budget.start();
        assert!(budget.charge(usize::try_from(STEPS).unwrap()).is_ok());
        assert!(budget.charge(1).is_err());
    }
}
