//! One durable pull consumer: where it stands, what it handed out and what came back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use tokio::sync::Notify;

use super::{ConsumerConfig, ConsumerInfo};

/// Deliveries that may be unacknowledged at once (JetStream's default `max_ack_pending`).
pub(super) const MAX_ACK_PENDING: usize = 1000;

/// A message that was handed out and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    /// How often it was handed out.
    pub delivered: u64,
    /// Handed out again from here on.
    pub redeliver_at: Timestamp,
}

/// State of one consumer.
pub(super) struct Consumer {
    /// Row in `bus.db`.
    pub id: i64,
    pub config: ConsumerConfig,
    pub created: Timestamp,
    pub created_at_sequence: u64,
    /// Highest stream sequence handed out; new messages come from above it.
    pub delivered_stream: u64,
    /// How often something was handed out.
    pub deliveries: u64,
    pub pending: BTreeMap<u64, Pending>,
    /// Wakes one waiting pull per message.
    pub arrived: Arc<Notify>,
    waiting: Arc<AtomicU64>,
}

impl Consumer {
    /// A consumer that starts behind `created_at_sequence` (deliver-new).
    pub(super) fn new(
        id: i64,
        config: ConsumerConfig,
        created: Timestamp,
        created_at_sequence: u64,
    ) -> Self {
        Consumer {
            id,
            config,
            created,
            created_at_sequence,
            delivered_stream: created_at_sequence,
            deliveries: 0,
            pending: BTreeMap::new(),
            arrived: Arc::new(Notify::new()),
            waiting: Arc::new(AtomicU64::new(0)),
        }
    }

    /// The lowest pending sequence whose ack wait is over.
    pub(super) fn overdue(&self, now: Timestamp) -> Option<u64> {
        self.pending
            .iter()
            .find(|(_, pending)| pending.redeliver_at <= now)
            .map(|(sequence, _)| *sequence)
    }

    /// When the next ack wait ends.
    pub(super) fn next_overdue(&self) -> Option<Timestamp> {
        self.pending
            .values()
            .map(|pending| pending.redeliver_at)
            .min()
    }

    /// Whether it may hand out something new.
    pub(super) fn may_deliver(&self) -> bool {
        self.pending.len() < MAX_ACK_PENDING
    }

    /// What becomes of `sequence` when it is handed out at `now`.
    pub(super) fn handing_out(&self, sequence: u64, now: Timestamp) -> Pending {
        let before = self
            .pending
            .get(&sequence)
            .map_or(0, |pending| pending.delivered);
        Pending {
            delivered: before + 1,
            redeliver_at: later(now, self.config.ack_wait),
        }
    }

    /// Counts a pull as waiting until the guard is dropped.
    pub(super) fn wait(&self) -> WaitGuard {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitGuard(Arc::clone(&self.waiting))
    }

    /// The state as `/jsz` shows it; the stream knows `num_pending` and the first message that was its to deliver.
    pub(super) fn info(&self, num_pending: u64, first: Option<u64>) -> ConsumerInfo {
        ConsumerInfo {
            durable: self.config.durable.clone(),
            filter_subject: self.config.filter_subject.clone(),
            created: self.created,
            created_at_sequence: self.created_at_sequence,
            delivered_stream: self.delivered_stream,
            ack_floor_stream: self.ack_floor(first),
            num_ack_pending: self.pending.len() as u64,
            num_redelivered: self
                .pending
                .values()
                .filter(|pending| pending.delivered > 1)
                .count() as u64,
            num_waiting: self.waiting.load(Ordering::Relaxed),
            num_pending,
        }
    }

    /// Where the consumer started until the first message is acknowledged, whatever of other subjects lies between.
    fn ack_floor(&self, first: Option<u64>) -> u64 {
        match self.pending.keys().next() {
            Some(lowest) if first.is_none_or(|first| first < *lowest) => lowest.saturating_sub(1),
            Some(_) => self.created_at_sequence,
            None => self.delivered_stream,
        }
    }

    /// The reply subject of a delivery.
    pub(super) fn token(
        &self,
        stream: &str,
        sequence: u64,
        delivered: u64,
        time: Timestamp,
        left: u64,
    ) -> String {
        format!(
            "$JS.ACK.{stream}.{}.{delivered}.{sequence}.{}.{}.{left}",
            self.config.durable,
            self.deliveries,
            time.as_nanosecond()
        )
    }
}

/// `time + wait`, or the end of time.
pub(super) fn later(time: Timestamp, wait: std::time::Duration) -> Timestamp {
    jiff::SignedDuration::try_from(wait)
        .ok()
        .and_then(|wait| time.checked_add(wait).ok())
        .unwrap_or(Timestamp::MAX)
}

/// A pull that waits.
pub(super) struct WaitGuard(Arc<AtomicU64>);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
