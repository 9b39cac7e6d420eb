//! One stream in memory: the heads of its messages, by sequence and by subject, and its consumers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::consumer::{Consumer, later};
use super::{BusError, ConsumerInfo, StreamConfig, StreamInfo, subject};

/// The duplicate window of a stream that names none.
const DUPLICATES: Duration = Duration::from_secs(120);

/// A stored message without its payload.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub sequence: u64,
    pub subject: Arc<str>,
    pub message_id: Option<Arc<str>>,
    pub time: Timestamp,
    /// Bytes as JetStream's file store counts them.
    pub size: u64,
}

/// Bytes of the header that carries a message id.
pub(super) fn header_size(message_id: &str) -> usize {
    if message_id.is_empty() {
        return 0;
    }
    "NATS/1.0\r\nNats-Msg-Id: \r\n\r\n".len() + message_id.len()
}

/// Bytes of a record in JetStream's file store: 22 in front, the subject, headers with their length, payload, checksum.
pub(super) fn stored_size(subject: &str, message_id: &str, payload: usize) -> u64 {
    let header = match header_size(message_id) {
        0 => 0,
        size => size + 4,
    };
    (22 + subject.len() + header + payload + 8) as u64
}

/// A stream and its consumers.
pub(super) struct Stream {
    /// Row in `bus.db`.
    pub id: i64,
    pub config: StreamConfig,
    pub created: Timestamp,
    pub last_sequence: u64,
    pub consumers: BTreeMap<String, Consumer>,
    heads: VecDeque<Head>,
    by_subject: HashMap<Arc<str>, VecDeque<u64>>,
    bytes: u64,
    recent: HashMap<Arc<str>, u64>,
    recent_by_time: VecDeque<(Timestamp, Arc<str>)>,
}

impl Stream {
    pub(super) fn new(
        id: i64,
        config: StreamConfig,
        created: Timestamp,
        last_sequence: u64,
    ) -> Self {
        Stream {
            id,
            config,
            created,
            last_sequence,
            consumers: BTreeMap::new(),
            heads: VecDeque::new(),
            by_subject: HashMap::new(),
            bytes: 0,
            recent: HashMap::new(),
            recent_by_time: VecDeque::new(),
        }
    }

    /// Whether messages of this subject are stored here.
    pub(super) fn takes(&self, name: &str) -> bool {
        self.config
            .subjects
            .iter()
            .any(|pattern| subject::matches(pattern, name))
    }

    /// The sequence under which this message id was stored within the duplicate window.
    pub(super) fn duplicate_of(&mut self, message_id: &str, now: Timestamp) -> Option<u64> {
        let window = match self.config.duplicate_window {
            window if window.is_zero() => DUPLICATES,
            window => window,
        };
        while let Some((time, id)) = self.recent_by_time.front() {
            if later(*time, window) > now {
                break;
            }
            self.recent.remove(id);
            self.recent_by_time.pop_front();
        }
        self.recent.get(message_id).copied()
    }

    /// Adds the head of a message that is stored; sequences must rise.
    pub(super) fn push(&mut self, head: Head) {
        self.last_sequence = self.last_sequence.max(head.sequence);
        self.bytes += head.size;
        self.by_subject
            .entry(Arc::clone(&head.subject))
            .or_default()
            .push_back(head.sequence);
        if let Some(id) = &head.message_id {
            self.recent.insert(Arc::clone(id), head.sequence);
            self.recent_by_time.push_back((head.time, Arc::clone(id)));
        }
        self.heads.push_back(head);
    }

    /// Whether a record of this size may come, where the stream refuses what is new once it is full.
    pub(super) fn has_room(&self, size: u64) -> Result<(), BusError> {
        let (messages, bytes) = (self.config.max_messages, self.config.max_bytes);
        let full = if !self.config.discard_new {
            return Ok(());
        } else if messages > 0 && self.heads.len() as u64 >= messages {
            "nats: maximum messages exceeded"
        } else if bytes > 0 && self.bytes + size > bytes {
            "nats: maximum bytes exceeded"
        } else {
            return Ok(());
        };
        Err(BusError::Refused(full.to_owned()))
    }

    /// The highest sequence that the limits no longer keep, once `arriving` is stored; that may be itself.
    pub(super) fn outdated(&self, now: Timestamp, arriving: Option<&Head>) -> Option<u64> {
        let all = || self.heads.iter().chain(arriving);
        let (mut messages, mut bytes) = (
            self.heads.len() as u64 + u64::from(arriving.is_some()),
            self.bytes + arriving.map_or(0, |head| head.size),
        );
        let over = |messages: u64, bytes: u64| {
            let (most, most_bytes) = (self.config.max_messages, self.config.max_bytes);
            (most > 0 && messages > most) || (most_bytes > 0 && bytes > most_bytes)
        };
        let by_size = all()
            .take_while(|head| {
                let too_much = over(messages, bytes);
                messages = messages.saturating_sub(1);
                bytes = bytes.saturating_sub(head.size);
                too_much
            })
            .last();
        let mut last = by_size.map(|head| head.sequence);
        if !self.config.max_age.is_zero() {
            let aged = self
                .heads
                .partition_point(|head| later(head.time, self.config.max_age) <= now);
            let oldest = aged.checked_sub(1).and_then(|index| self.heads.get(index));
            last = last.max(oldest.map(|head| head.sequence));
        }
        last
    }

    /// Forgets everything up to `sequence`, in the consumers too.
    pub(super) fn forget(&mut self, sequence: u64) {
        while self
            .heads
            .front()
            .is_some_and(|head| head.sequence <= sequence)
        {
            let Some(head) = self.heads.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(head.size);
            if let Some(sequences) = self.by_subject.get_mut(&head.subject) {
                sequences.pop_front();
                if sequences.is_empty() {
                    self.by_subject.remove(&head.subject);
                }
            }
        }
        for consumer in self.consumers.values_mut() {
            consumer.pending = consumer.pending.split_off(&(sequence + 1));
        }
    }

    /// The first message of a subject above `sequence`.
    pub(super) fn next_of(&self, name: &str, sequence: u64) -> Option<u64> {
        let sequences = self.by_subject.get(name)?;
        sequences
            .get(sequences.partition_point(|stored| *stored <= sequence))
            .copied()
    }

    /// How many messages of a subject lie above `sequence`.
    pub(super) fn count_of(&self, name: &str, sequence: u64) -> u64 {
        self.by_subject.get(name).map_or(0, |sequences| {
            (sequences.len() - sequences.partition_point(|stored| *stored <= sequence)) as u64
        })
    }

    /// The heads above `sequence`, oldest first.
    pub(super) fn heads_after(&self, sequence: u64) -> impl Iterator<Item = &Head> {
        let from = self.heads.partition_point(|head| head.sequence <= sequence);
        self.heads.range(from..)
    }

    pub(super) fn head(&self, sequence: u64) -> Option<&Head> {
        let index = self
            .heads
            .binary_search_by_key(&sequence, |head| head.sequence)
            .ok()?;
        self.heads.get(index)
    }

    /// Times of the first and the last stored message.
    pub(super) fn span(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.heads.front()?.time, self.heads.back()?.time))
    }

    pub(super) fn info(&self) -> StreamInfo {
        StreamInfo {
            name: self.config.name.clone(),
            messages: self.heads.len() as u64,
            first_sequence: self
                .heads
                .front()
                .map_or(self.last_sequence + 1, |head| head.sequence),
            last_sequence: self.last_sequence,
            bytes: self.bytes,
        }
    }

    pub(super) fn consumer_info(&self, consumer: &Consumer) -> ConsumerInfo {
        let (name, born) = (
            &consumer.config.filter_subject,
            consumer.created_at_sequence,
        );
        // What the limits dropped since may have been the first one.
        let dropped = self
            .heads
            .front()
            .is_none_or(|head| head.sequence > born + 1);
        let first = self.next_of(name, born).filter(|_| !dropped);
        consumer.info(self.count_of(name, consumer.delivered_stream), first)
    }
}
