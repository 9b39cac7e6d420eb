//! A queue of keys: one entry a key, delays, and back-off for keys that failed.
//!
//! A key that is added while a worker has it comes back once the worker is done, so no change is missed
//! and no two workers ever have the same key.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// First wait after a failure; doubles with each further one.
const BACK_OFF_START: Duration = Duration::from_millis(2);
/// Longest wait after a failure.
const BACK_OFF_CAP: Duration = Duration::from_secs(10);

/// A work queue that coalesces equal keys.
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    wake: Notify,
}

struct State<K> {
    ready: VecDeque<K>,
    /// Keys that must run (again): in `ready`, or waiting for their worker to be done.
    dirty: HashSet<K>,
    running: HashSet<K>,
    delayed: BTreeMap<(Instant, u64), K>,
    due: HashMap<K, (Instant, u64)>,
    failures: HashMap<K, u32>,
    sequence: u64,
}

impl<K: Clone + Eq + Hash> Default for WorkQueue<K> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                ready: VecDeque::new(),
                dirty: HashSet::new(),
                running: HashSet::new(),
                delayed: BTreeMap::new(),
                due: HashMap::new(),
                failures: HashMap::new(),
                sequence: 0,
            }),
            wake: Notify::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// Makes an empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key now.
    pub fn add(&self, key: K) {
        self.lock().add(key);
        self.wake.notify_one();
    }

    /// Adds a key after `delay`; of several delays for one key the earliest counts.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        self.lock().delay(key, Instant::now() + delay);
        self.wake.notify_one();
    }

    /// Adds a key after a wait that doubles with each failure in a row.
    pub fn retry(&self, key: K) {
        let mut state = self.lock();
        let failures = state.failures.entry(key.clone()).or_insert(0);
        let wait = BACK_OFF_START
            .saturating_mul(1 << (*failures).min(20))
            .min(BACK_OFF_CAP);
        *failures = failures.saturating_add(1);
        state.delay(key, Instant::now() + wait);
        drop(state);
        self.wake.notify_one();
    }

    /// Forgets the failures of a key.
    pub fn forget(&self, key: &K) {
        self.lock().failures.remove(key);
    }

    /// Waits for the next key. The caller must say [`WorkQueue::done`] for it.
    pub async fn next(&self) -> K {
        loop {
            let notified = self.wake.notified();
            tokio::pin!(notified);
            // Registers before the look, so that an `add` in between wakes this waiter.
            notified.as_mut().enable();
            let due = match self.take() {
                Ok(key) => return key,
                Err(due) => due,
            };
            match due {
                None => notified.await,
                Some(at) => tokio::select! {
                    () = notified => {}
                    () = tokio::time::sleep_until(at) => {}
                },
            }
        }
    }

    /// Gives a key back after work.
    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        state.running.remove(key);
        if state.dirty.contains(key) {
            state.ready.push_back(key.clone());
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Takes a ready key, or answers when the next delayed one is due.
    fn take(&self) -> Result<K, Option<Instant>> {
        let mut state = self.lock();
        state.promote(Instant::now());
        match state.ready.pop_front() {
            Some(key) => {
                state.dirty.remove(&key);
                state.running.insert(key.clone());
                Ok(key)
            }
            None => Err(state.delayed.keys().next().map(|(at, _)| *at)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn add(&mut self, key: K) {
        if self.dirty.insert(key.clone()) && !self.running.contains(&key) {
            self.ready.push_back(key);
        }
    }

    fn delay(&mut self, key: K, at: Instant) {
        if let Some(present) = self.due.get(&key) {
            if present.0 <= at {
                return;
            }
            let slot = *present;
            self.delayed.remove(&slot);
        }
        self.sequence = self.sequence.wrapping_add(1);
        let slot = (at, self.sequence);
        self.delayed.insert(slot, key.clone());
        self.due.insert(key, slot);
    }

    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            self.due.remove(&key);
            self.add(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn equal_keys_run_once() {
        let queue = WorkQueue::new();
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().await, "b");
        assert!(queue.take().is_err());
    }

    #[tokio::test]
    async fn a_key_added_during_its_run_comes_back_after_it() {
        let queue = WorkQueue::new();
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        assert!(queue.take().is_err(), "never two workers on one key");
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
    }

    #[test]
    fn the_earliest_delay_counts() {
        let queue = WorkQueue::new();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut state = queue.lock();
        state.delay("a", at(60));
        state.delay("a", at(5));
        state.delay("a", at(30));
        state.promote(at(4));
        assert!(state.ready.is_empty());
        state.promote(at(5));
        assert_eq!(state.ready, ["a"]);
        assert!(state.delayed.is_empty() && state.due.is_empty());
    }

    #[test]
    fn failures_wait_longer_each_time_until_forgotten() {
        let queue = WorkQueue::new();
        let mut waits = Vec::new();
        for _ in 0..40 {
            let start = Instant::now();
            queue.retry("a");
            let mut state = queue.lock();
            let (slot, _) = state.delayed.pop_first().expect("a delay");
            state.due.clear();
            waits.push(slot.0.duration_since(start));
        }
        assert!(waits[0] < waits[1] && waits[1] < waits[2], "{waits:?}");
        assert!(waits[39] <= BACK_OFF_CAP + Duration::from_secs(5));
        queue.forget(&"a");
        assert!(queue.lock().failures.is_empty());
    }
}
