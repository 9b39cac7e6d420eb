//! Memory for what comes and goes slowly: large bodies and answers together take no more than so much, and who is slow
//! gives way to others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

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
    /// Ends the transfer.
    end: CancellationToken,
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

    /// Room for a transfer of so many bytes, though slow ones may have to give way; `None` if none is slow.
    #[must_use]
    pub fn take(&self, bytes: usize, end: &CancellationToken) -> Option<Room> {
        let bytes = bytes.min(self.bytes);
        let mut takers = self.takers();
        while bytes > self.bytes - takers.taken {
            let oldest = takers.all.first_entry()?;
            if oldest.get().since.elapsed() < self.patience {
                return None;
            }
            let oldest = oldest.remove();
            oldest.end.cancel();
            takers.taken -= oldest.bytes;
        }
        takers.taken += bytes;
        takers.next += 1;
        let number = takers.next;
        let taker = Taker {
            bytes,
            since: Instant::now(),
            end: end.clone(),
        };
        takers.all.insert(number, taker);
        Some(Room {
            budget: self.clone(),
            number,
        })
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
}
