//! What happened lately, for watches that start in the past: bounded in entries and in bytes.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;

use super::store::Stored;

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    /// The `type` of a watch event.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        }
    }
}

/// One committed write.
#[derive(Debug)]
pub struct Event {
    pub bucket: Box<str>,
    pub change: Change,
    /// The object after the write; for a deletion its last state with the deletion's resourceVersion.
    pub object: Arc<Stored>,
    /// The object before it.
    pub previous: Option<Arc<Stored>>,
    /// The event as a line, made once for all watchers that want it as it is.
    line: OnceLock<Bytes>,
}

impl Event {
    /// A write that was just committed.
    #[must_use]
    pub fn new(
        bucket: &str,
        change: Change,
        object: Arc<Stored>,
        previous: Option<Arc<Stored>>,
    ) -> Self {
        Event {
            bucket: bucket.into(),
            change,
            object,
            previous,
            line: OnceLock::new(),
        }
    }

    /// The event's JSON line.
    #[must_use]
    pub fn line(&self) -> Bytes {
        self.line
            .get_or_init(|| event_line(self.change.as_str(), &self.object.json))
            .clone()
    }

    /// What it holds in memory (bytes).
    pub(super) fn weight(&self) -> usize {
        self.object.json.len()
            + self
                .previous
                .as_ref()
                .map_or(0, |previous| previous.json.len())
            + 256
    }
}

/// `{"type":…,"object":…}` and a newline.
#[must_use]
pub fn event_line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    Bytes::from(line)
}

/// The newest events, oldest first.
#[derive(Debug)]
pub struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    limits: Limits,
    /// Everything after this resourceVersion is still here.
    floor: u64,
}

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub entries: usize,
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            entries: 8192,
            bytes: 24 << 20,
        }
    }
}

impl History {
    /// An empty history that begins after `floor`.
    #[must_use]
    pub fn new(floor: u64, limits: Limits) -> Self {
        History {
            events: VecDeque::new(),
            bytes: 0,
            limits,
            floor,
        }
    }

    /// The oldest resourceVersion that a watch may start from.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Appends, and drops what is over the limits.
    pub fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.weight();
        self.events.push_back(event);
        while self.events.len() > self.limits.entries || self.bytes > self.limits.bytes {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.bytes -= oldest.weight();
            self.floor = oldest.object.rv;
        }
    }

    /// Forgets everything up to `floor`.
    pub fn reset(&mut self, floor: u64) {
        self.events.clear();
        self.bytes = 0;
        self.floor = floor;
    }

    /// Events after `rv`, oldest first; `None` if some of them are gone.
    pub fn after(&self, rv: u64) -> Option<impl Iterator<Item = &Arc<Event>>> {
        if rv < self.floor {
            return None;
        }
        let start = self.events.partition_point(|event| event.object.rv <= rv);
        Some(self.events.range(start..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(rv: u64, size: usize) -> Arc<Event> {
        let object = Stored::for_tests("ns", "x", rv, size);
        Arc::new(Event::new("pods", Change::Added, Arc::new(object), None))
    }

    #[test]
    fn entries_are_bounded_and_the_floor_follows() {
        let mut history = History::new(
            10,
            Limits {
                entries: 3,
                bytes: 1 << 20,
            },
        );
        for rv in 11..=16 {
            history.push(event(rv, 10));
        }
        assert_eq!(history.floor(), 13);
        assert!(history.after(12).is_none());
        let seen: Vec<u64> = history
            .after(14)
            .expect("kept")
            .map(|event| event.object.rv)
            .collect();
        assert_eq!(seen, [15, 16]);
        assert_eq!(history.after(99).expect("kept").count(), 0);
    }

    #[test]
    fn bytes_are_bounded() {
        let mut history = History::new(
            0,
            Limits {
                entries: 1000,
                bytes: 10_000,
            },
        );
        for rv in 1..=100 {
            history.push(event(rv, 1000));
        }
        assert!(history.bytes <= 10_000);
        assert!(history.floor() > 90);
    }
}
