//! Memory for what comes and goes slowly: large bodies and answers together take no more than so much, and who is slow
//! gives way to others. The slow ones together have a share of it only, so that the rest goes round at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// Slow transfers together may take this part of the memory before they give way to others.
const SLOW_SHARE: usize = 2;
/// So small a part of the patience makes a transfer slow, beyond its time at [`RATE`].
const PACE: u32 = 16;
/// Who is as fast as this is not slow (bytes in a millisecond).
const RATE: u64 = 32_000;

/// The memory that some transfers may take together.
#[derive(Clone, Debug)]
pub struct Budget {
    bytes: usize,
    /// So long a transfer may be under way before it gives way to others.
    patience: Duration,
    takers: Arc<Mutex<Takers>>,
}

#[derive(Debug, Default)]
struct Takers {
    taken: usize,
    next: u64,
    /// In the order in which they came.
    all: BTreeMap<u64, Taker>,
}

#[derive(Debug)]
struct Taker {
    bytes: usize,
    since: Instant,
    /// Whoever asked for it may ask again.
    repeatable: bool,
    /// Ends the transfer.
    end: CancellationToken,
}

impl Takers {
    /// Ends the first of those; false if there is none.
    fn end(&mut self, gives_way: impl Fn(&Taker) -> bool) -> bool {
        let first = self.all.iter().find(|(_, taker)| gives_way(taker));
        let Some(number) = first.map(|(number, _)| *number) else {
            return false;
        };
        if let Some(taker) = self.all.remove(&number) {
            taker.end.cancel();
            self.taken -= taker.bytes;
        }
        true
    }
}

impl Budget {
    /// So many bytes in all; `patience` is how long a transfer may be under way before it has to give way.
    #[must_use]
    pub fn new(bytes: usize, patience: Duration) -> Self {
        Budget {
            bytes,
            patience,
            takers: Arc::default(),
        }
    }

    /// Room for a transfer of so many bytes that can be asked for again, though slow ones may have to give way; `None` if
    /// none is slow.
    #[must_use]
    pub fn take(&self, bytes: usize, end: &CancellationToken) -> Option<Room> {
        self.take_at(bytes, end, Instant::now())
    }

    fn take_at(&self, bytes: usize, end: &CancellationToken, now: Instant) -> Option<Room> {
        let bytes = bytes.min(self.bytes);
        let mut takers = self.takers();
        while bytes > self.bytes - takers.taken {
            if !self.slow_give_way(&takers, now) {
                return None;
            }
            if !takers.end(|taker| taker.repeatable) {
                takers.end(|_| true);
            }
        }
        Some(self.enter(&mut takers, bytes, end, true, now))
    }

    /// Room for a transfer that cannot be refused any more, such as the answer to a write that was made: who came first
    /// gives way, before all who can ask again.
    #[must_use]
    pub fn claim(&self, bytes: usize, end: &CancellationToken) -> Room {
        let bytes = bytes.min(self.bytes);
        let mut takers = self.takers();
        while bytes > self.bytes - takers.taken {
            if !takers.end(|taker| taker.repeatable) {
                takers.end(|_| true);
            }
        }
        self.enter(&mut takers, bytes, end, false, Instant::now())
    }

    /// Whether the oldest has to give way: for being the slowest, or for all who are slow.
    fn slow_give_way(&self, takers: &Takers, now: Instant) -> bool {
        let age = |taker: &Taker| now.saturating_duration_since(taker.since);
        let Some((_, oldest)) = takers.all.first_key_value() else {
            return false;
        };
        let pace = self.patience / PACE;
        let due = |taker: &Taker| {
            let bytes = u64::try_from(taker.bytes).unwrap_or(u64::MAX);
            Duration::from_millis(bytes / RATE).saturating_add(pace)
        };
        let slow = takers.all.values().filter(|taker| age(taker) >= due(taker));
        let slow: usize = slow.map(|taker| taker.bytes).sum();
        age(oldest) >= self.patience || slow > self.bytes / SLOW_SHARE
    }

    fn enter(
        &self,
        takers: &mut Takers,
        bytes: usize,
        end: &CancellationToken,
        repeatable: bool,
        now: Instant,
    ) -> Room {
        takers.taken += bytes;
        takers.next += 1;
        let number = takers.next;
        let taker = Taker {
            bytes,
            since: now,
            repeatable,
            end: end.clone(),
        };
        takers.all.insert(number, taker);
        Room {
            budget: self.clone(),
            number,
        }
    }

    fn takers(&self) -> MutexGuard<'_, Takers> {
        self.takers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room of one transfer, as long as it is under way.
#[derive(Debug)]
pub struct Room {
    budget: Budget,
    number: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut takers = self.budget.takers();
        if let Some(taker) = takers.all.remove(&self.number) {
            takers.taken -= taker.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_gives_way_when_room_is_short() {
        let budget = Budget::new(100, Duration::ZERO);
        let ends: Vec<CancellationToken> = (0..4).map(|_| CancellationToken::new()).collect();
        let first = budget.take(60, &ends[0]).expect("room");
        let second = budget.take(40, &ends[1]).expect("room");
        let third = budget.take(50, &ends[2]).expect("room of the first");
        assert!(ends[0].is_cancelled() && !ends[1].is_cancelled());
        drop((first, second));
        assert_eq!(budget.takers().taken, 50);
        // One that is larger than all may be alone.
        let fourth = budget.take(1000, &ends[3]).expect("all the room");
        assert!(ends[2].is_cancelled());
        drop((third, fourth));
        assert_eq!(budget.takers().taken, 0);
    }

    #[test]
    fn who_came_just_now_need_not_give_way() {
        let budget = Budget::new(100, Duration::MAX);
        let end = CancellationToken::new();
        let room = budget.take(60, &end).expect("room");
        assert!(budget.take(60, &CancellationToken::new()).is_none());
        assert!(!end.is_cancelled());
        drop(room);
        assert!(budget.take(60, &end).is_some());
    }

    /// Slow ones that came just now, as seen by whoever has no patience with them, still leave the others half.
    #[test]
    fn slow_ones_together_have_a_share() {
        let patience = Duration::from_secs(16);
        let budget = Budget::new(100, patience);
        let start = Instant::now();
        let ends: Vec<CancellationToken> = (0..8).map(|_| CancellationToken::new()).collect();
        let take = |n: usize, bytes, after| {
            budget.take_at(bytes, &ends[n], start + Duration::from_secs(after))
        };
        let held = [take(0, 40, 0), take(1, 40, 0), take(2, 20, 0)];
        assert!(held.iter().all(Option::is_some));
        assert!(take(3, 10, 0).is_none(), "nobody is slow yet");
        let next = take(4, 40, 2).expect("room of the first");
        assert!(ends[0].is_cancelled() && !ends[1].is_cancelled());
        // What is left of the slow ones is more than half, and gives way once more; then it is not.
        let more = take(5, 40, 2).expect("room of the second");
        assert!(ends[1].is_cancelled() && !ends[2].is_cancelled());
        assert!(take(6, 10, 2).is_none());
        assert!(take(7, 10, 16).is_some(), "patience has its end");
        assert!(ends[2].is_cancelled());
        drop((held, next, more));
        assert_eq!(budget.takers().taken, 0);
    }

    #[test]
    fn what_cannot_be_refused_has_room_before_what_can() {
        let budget = Budget::new(100, Duration::MAX);
        let ends: Vec<CancellationToken> = (0..5).map(|_| CancellationToken::new()).collect();
        let first = budget.claim(60, &ends[0]);
        let read = budget.take(40, &ends[1]).expect("room");
        let second = budget.claim(30, &ends[2]);
        assert!(ends[1].is_cancelled() && !ends[0].is_cancelled());
        let third = budget.claim(1000, &ends[3]);
        assert!(ends[0].is_cancelled() && ends[2].is_cancelled());
        assert_eq!(budget.takers().taken, 100);
        drop((first, read, second, third));
        assert_eq!(budget.takers().taken, 0);
    }
}
