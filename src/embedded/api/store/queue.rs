//! What waits for one watcher, bounded in number and bytes. Who falls too far behind loses all of it at once and is
//! ended, so that a client that reads nothing costs nothing more; it lists or watches anew from what it saw last.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::watchers::Notice;

/// Notices that may wait for one watcher.
const MOST: usize = 1024;
/// What waiting notices may weigh (bytes).
const MOST_BYTES: usize = 16 << 20;
/// Notices that are taken at once, and what they may weigh (bytes) if they are more than one.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 1 << 20;

#[derive(Default)]
struct Waiting {
    notices: VecDeque<Notice>,
    bytes: usize,
    /// No more will come.
    is_over: bool,
    /// Nobody reads any more.
    is_unread: bool,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store's end.
pub(super) struct Feed(Arc<Shared>);

/// The watcher's end.
pub struct Notices(Arc<Shared>);

pub(super) fn queue() -> (Feed, Notices) {
    let shared = Arc::new(Shared::default());
    (Feed(Arc::clone(&shared)), Notices(shared))
}

impl Feed {
    /// Puts a notice in; false when nobody reads, or too much waits: then nothing of it waits any more.
    pub(super) fn put(&self, notice: Notice) -> bool {
        let mut waiting = self.0.lock();
        if waiting.is_unread || waiting.is_over {
            return false;
        }
        let bytes = notice.weight();
        if waiting.notices.len() >= MOST || waiting.bytes + bytes > MOST_BYTES.max(bytes) {
            waiting.notices = VecDeque::new();
            waiting.is_over = true;
        } else {
            waiting.bytes += bytes;
            waiting.notices.push_back(notice);
        }
        let goes_on = !waiting.is_over;
        drop(waiting);
        self.0.wake.notify_one();
        goes_on
    }

    pub(super) fn is_unread(&self) -> bool {
        self.0.lock().is_unread
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.wake.notify_one();
    }
}

/// What there is for a watcher at one moment.
#[derive(Debug)]
pub enum Taken {
    /// Some notices, or none for now.
    Some(Vec<Notice>),
    /// No more will come, and what came may not be all there was.
    Over,
}

impl Notices {
    /// Takes what waits, without waiting for more.
    pub fn take(&mut self) -> Taken {
        let mut waiting = self.0.lock();
        let (mut batch, mut weight) = (Vec::new(), 0);
        while batch.len() < BATCH
            && let Some(next) = waiting.notices.front()
        {
            weight += next.weight();
            if weight > BATCH_BYTES && !batch.is_empty() {
                break;
            }
            if let Some(notice) = waiting.notices.pop_front() {
                waiting.bytes = waiting.bytes.saturating_sub(notice.weight());
                batch.push(notice);
            }
        }
        match batch.is_empty() && waiting.is_over {
            true => Taken::Over,
            false => Taken::Some(batch),
        }
    }

    /// Waits for notices; `None` when no more will come. Nothing is lost when this is given up.
    pub async fn next(&mut self) -> Option<Vec<Notice>> {
        loop {
            match self.take() {
                Taken::Over => return None,
                Taken::Some(batch) if !batch.is_empty() => return Some(batch),
                Taken::Some(_) => self.0.wake.notified().await,
            }
        }
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.is_unread = true;
        waiting.notices = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::api::history::{Change, Event};
    use crate::embedded::api::store::Stored;

    fn event(rv: u64, bytes: usize) -> Notice {
        let stored = Arc::new(Stored::for_tests("ns", "a", rv, bytes));
        Notice::Event(Arc::new(Event::new(
            "configmaps",
            Change::Modified,
            stored,
            None,
        )))
    }

    #[tokio::test]
    async fn a_reader_gets_everything_in_order_until_the_end() {
        let (feed, mut notices) = queue();
        for rv in 1..=200 {
            assert!(feed.put(event(rv, 10)));
        }
        drop(feed);
        let mut seen = Vec::new();
        while let Some(batch) = notices.next().await {
            assert!(batch.len() <= BATCH);
            for notice in batch {
                let Notice::Event(event) = notice else {
                    panic!("an event")
                };
                seen.push(event.object.rv);
            }
        }
        assert_eq!(seen, (1..=200).collect::<Vec<u64>>());
    }

    #[tokio::test]
    async fn who_falls_behind_in_number_or_bytes_keeps_nothing() {
        for (bytes, most) in [(10, MOST), (1 << 20, 16)] {
            let (feed, mut notices) = queue();
            let taken = (1..).take_while(|rv| feed.put(event(*rv, bytes))).count();
            assert!(
                taken <= most && taken >= most - 1,
                "{taken} of {bytes} bytes"
            );
            assert_eq!(feed.0.lock().notices.len(), 0);
            assert!(matches!(notices.take(), Taken::Over));
            assert!(notices.next().await.is_none());
            assert!(!feed.put(event(1, 1)));
        }
    }

    #[tokio::test]
    async fn one_notice_larger_than_all_room_is_told() {
        let (feed, mut notices) = queue();
        assert!(feed.put(event(1, MOST_BYTES + 1)));
        assert_eq!(notices.next().await.map(|batch| batch.len()), Some(1));
        for rv in 2..=4 {
            assert!(feed.put(event(rv, BATCH_BYTES)));
        }
        // Large ones come one by one.
        assert_eq!(notices.next().await.map(|batch| batch.len()), Some(1));
        drop(notices);
        assert!(feed.is_unread() && !feed.put(event(5, 1)));
    }
}
