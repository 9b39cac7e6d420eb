//! The embedded bus: one lock around the index in memory and `bus.db`, so that order, storage and wake-ups agree.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use tokio::sync::futures::OwnedNotified;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::consumer::{Consumer, WaitGuard, later};
use super::signals::Signals;
pub use super::store::BusOpenError;
use super::store::Store;
use super::stream::{Head, Stream, header_size, stored_size};
use super::subject;
use super::token::Token;
use super::{
    Bus, BusError, ConsumerConfig, ConsumerInfo, Delivery, PublishAck, Retention, StoredMessage,
    StreamConfig, StreamInfo,
};

/// Largest payload with its headers in bytes (`maxPayload` of Argo's JetStream, 1 MB as NATS counts it).
pub const MAX_PAYLOAD: usize = 1 << 20;
/// Messages that one call of [`Bus::messages`] answers at most.
pub(super) const MAX_MESSAGES: usize = 10_000;
/// Payload bytes that one call of [`Bus::messages`] answers at most, save for a first message that is larger.
pub(super) const MAX_MESSAGE_BYTES: u64 = 32 << 20;

/// Streams, consumers and buckets in `bus.db`.
pub struct EmbeddedBus {
    state: Mutex<State>,
    signals: Signals,
}

pub(super) struct State {
    store: Store,
    pub(super) streams: BTreeMap<String, Stream>,
}

/// What a pull finds.
enum Next {
    Message(Delivery),
    /// Made under the lock, so that no wake-up falls between looking and waiting.
    Nothing {
        arrived: OwnedNotified,
        overdue: Option<Timestamp>,
        /// Row of the consumer.
        consumer: i64,
        guard: WaitGuard,
    },
}

impl EmbeddedBus {
    /// Opens or makes the database; one process at a time.
    pub fn open(path: &Path) -> Result<Arc<EmbeddedBus>, BusOpenError> {
        let (store, streams) = Store::open(path)?;
        let state = State {
            store,
            streams: by_name(streams),
        };
        Ok(Arc::new(EmbeddedBus {
            state: Mutex::new(state),
            signals: Signals::default(),
        }))
    }

    /// Writes into the file in which life of the cluster it is used, and which was the one before.
    pub fn sign(&self, now: &str, before: &str) -> rusqlite::Result<()> {
        self.lock().store.sign(now, before)
    }

    /// Writes a consistent copy of everything to `path`.
    pub fn snapshot(&self, path: &Path) -> Result<(), BusError> {
        self.lock().store.snapshot(path)
    }

    /// Goes back to a snapshot. Sequences go on from the highest ever given out, so none names two messages.
    pub fn restore(&self, snapshot: &Path) -> Result<(), BusError> {
        let mut state = self.lock();
        let streams = state.store.restore(snapshot)?;
        let before = std::mem::replace(&mut state.streams, by_name(streams));
        for consumer in before.values().flat_map(|stream| stream.consumers.values()) {
            consumer.arrived.notify_waiters();
        }
        Ok(())
    }

    /// Names of the buckets and how many keys each holds.
    pub(super) fn buckets(&self) -> Result<Vec<(String, u64)>, BusError> {
        self.lock().store.buckets()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for_message(
        &self,
        stream: &str,
        durable: &str,
        wait: Duration,
    ) -> Result<Option<Delivery>, BusError> {
        let start = Instant::now();
        let end = start
            .checked_add(wait)
            .unwrap_or(start + Duration::from_secs(3600));
        let mut waited_at = None;
        loop {
            let next = self.lock().next(stream, durable);
            let (arrived, overdue, consumer, _waiting) = match next {
                Err(BusError::NoResponders) if waited_at.is_some() => {
                    return Err(BusError::ConsumerDeleted);
                }
                Err(error) => return Err(error),
                Ok(Next::Message(delivery)) => return Ok(Some(delivery)),
                Ok(Next::Nothing {
                    arrived,
                    overdue,
                    consumer,
                    guard,
                }) => (arrived, overdue, consumer, guard),
            };
            // One of the same name made since is another one.
            if *waited_at.get_or_insert(consumer) != consumer {
                return Err(BusError::ConsumerDeleted);
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            tokio::select! {
                () = arrived => {}
                () = tokio::time::sleep_until(overdue.map_or(end, |time| end.min(until(time)))) => {}
            }
        }
    }
}

fn by_name(streams: Vec<Stream>) -> BTreeMap<String, Stream> {
    streams
        .into_iter()
        .map(|stream| (stream.config.name.clone(), stream))
        .collect()
}

/// The instant at which a wall clock time comes.
fn until(time: Timestamp) -> Instant {
    let left = Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO);
    Instant::now() + left.min(Duration::from_secs(3600)) + Duration::from_millis(1)
}

impl State {
    fn ensure_stream(&mut self, config: StreamConfig) -> Result<StreamInfo, BusError> {
        if let Some(stream) = self.streams.get(&config.name) {
            return Ok(stream.info());
        }
        if !subject::is_name(&config.name) {
            return Err(BusError::Refused("nats: invalid stream name".to_owned()));
        }
        check_stream(&config)?;
        let created = Timestamp::now();
        let (id, last) = self.store.add_stream(&config, created)?;
        let stream = Stream::new(id, config, created, last);
        let info = stream.info();
        self.streams.insert(stream.config.name.clone(), stream);
        Ok(info)
    }

    fn publish(
        &mut self,
        name: &str,
        message_id: &str,
        payload: &[u8],
    ) -> Result<PublishAck, BusError> {
        if !subject::is_literal(name) {
            return Err(BusError::Refused("nats: invalid subject".to_owned()));
        }
        if payload.len() + header_size(message_id) > MAX_PAYLOAD {
            return Err(BusError::Refused(
                "nats: maximum payload exceeded".to_owned(),
            ));
        }
        let Some(stream) = self.streams.values_mut().find(|stream| stream.takes(name)) else {
            return Err(BusError::Refused(
                "nats: no response from stream".to_owned(),
            ));
        };
        let now = Timestamp::now();
        if let Some(sequence) = stream
            .duplicate_of(message_id, now)
            .filter(|_| !message_id.is_empty())
        {
            return Ok(PublishAck {
                sequence,
                duplicate: true,
            });
        }
        let head = Head {
            sequence: stream.last_sequence + 1,
            subject: Arc::from(name),
            message_id: (!message_id.is_empty()).then(|| Arc::from(message_id)),
            time: now,
            size: stored_size(name, message_id, payload.len()),
        };
        stream.has_room(head.size)?;
        let outdated = stream.outdated(now, Some(&head));
        self.store.append(stream, &head, payload, outdated)?;
        let sequence = head.sequence;
        stream.push(head);
        if let Some(outdated) = outdated {
            stream.forget(outdated);
        }
        for consumer in stream
            .consumers
            .values()
            .filter(|consumer| consumer.config.filter_subject == name)
        {
            consumer.arrived.notify_one();
        }
        Ok(PublishAck {
            sequence,
            duplicate: false,
        })
    }

    /// The stream, with what its age limit no longer keeps removed.
    fn stream(&mut self, name: &str) -> Result<&mut Stream, BusError> {
        let stream = self
            .streams
            .get_mut(name)
            .ok_or_else(|| BusError::StreamNotFound(name.to_owned()))?;
        if let Some(outdated) = stream.outdated(Timestamp::now(), None) {
            self.store.prune(stream.id, outdated)?;
            stream.forget(outdated);
        }
        Ok(stream)
    }

    fn ensure_consumer(
        &mut self,
        stream: &str,
        config: ConsumerConfig,
    ) -> Result<ConsumerInfo, BusError> {
        if !subject::is_name(&config.durable) {
            return Err(BusError::Refused("nats: invalid consumer name".to_owned()));
        }
        let stream = self.stream(stream)?;
        if let Some(consumer) = stream.consumers.get(&config.durable) {
            if consumer.config.filter_subject != config.filter_subject {
                return Err(BusError::Refused(
                    "nats: subject does not match consumer".to_owned(),
                ));
            }
            return Ok(stream.consumer_info(consumer));
        }
        if !subject::is_literal(&config.filter_subject) || !stream.takes(&config.filter_subject) {
            return Err(BusError::Refused(
                "nats: no stream matches subject".to_owned(),
            ));
        }
        let (stream_id, last, created) = (stream.id, stream.last_sequence, Timestamp::now());
        let name = stream.config.name.clone();
        let id = self.store.add_consumer(stream_id, &config, created, last)?;
        let stream = self.stream(&name)?;
        let consumer = Consumer::new(id, config, created, last);
        let info = stream.consumer_info(&consumer);
        stream
            .consumers
            .insert(consumer.config.durable.clone(), consumer);
        Ok(info)
    }

    fn delete_consumer(&mut self, stream: &str, durable: &str) -> Result<(), BusError> {
        let Some(stream) = self.streams.get_mut(stream) else {
            return Ok(());
        };
        let Some(consumer) = stream.consumers.get(durable) else {
            return Ok(());
        };
        self.store.remove_consumer(consumer.id)?;
        consumer.arrived.notify_waiters();
        stream.consumers.remove(durable);
        Ok(())
    }

    /// Hands out the next message, overdue ones first.
    fn next(&mut self, stream: &str, durable: &str) -> Result<Next, BusError> {
        self.stream(stream).map_err(|error| match error {
            BusError::StreamNotFound(_) => BusError::NoResponders,
            error => error,
        })?;
        let State { store, streams } = self;
        let stream = streams.get_mut(stream).ok_or(BusError::NoResponders)?;
        let now = Timestamp::now();
        let consumer = consumer_of(stream, durable)?;
        let fresh = || stream.next_of(&consumer.config.filter_subject, consumer.delivered_stream);
        let sequence = consumer
            .overdue(now)
            .or_else(|| consumer.may_deliver().then(fresh).flatten());
        let Some(head) = sequence.and_then(|sequence| stream.head(sequence)) else {
            return Ok(Next::Nothing {
                arrived: Arc::clone(&consumer.arrived).notified_owned(),
                overdue: consumer.next_overdue(),
                consumer: consumer.id,
                guard: consumer.wait(),
            });
        };
        let head = head.clone();
        let pending = consumer.handing_out(head.sequence, now);
        let payload = store.payload(stream.id, head.sequence)?;
        store.deliver(consumer, head.sequence, pending)?;
        let left = stream.count_of(
            &consumer.config.filter_subject,
            consumer.delivered_stream.max(head.sequence),
        );
        let stream_name = stream.config.name.clone();
        let consumer = consumer_of_mut(stream, durable)?;
        consumer.delivered_stream = consumer.delivered_stream.max(head.sequence);
        consumer.deliveries += 1;
        consumer.pending.insert(head.sequence, pending);
        if left > 0 {
            // One wake-up may stand for several messages: pass it on to the next waiting pull.
            consumer.arrived.notify_one();
        }
        let token = consumer.token(
            &stream_name,
            head.sequence,
            pending.delivered,
            head.time,
            left,
        );
        Ok(Next::Message(Delivery {
            message: stored(&head, payload),
            delivered: pending.delivered,
            token,
        }))
    }

    /// Acknowledges; an ack of something no longer pending is fine, as in JetStream.
    fn ack(&mut self, stream: &str, durable: &str, token: &str) -> Result<(), BusError> {
        let State { store, streams } = self;
        let (consumer, sequence) = delivery_of(streams, stream, durable, token)?;
        if consumer.pending.contains_key(&sequence) {
            store.acknowledge(consumer.id, sequence)?;
            consumer.pending.remove(&sequence);
            // A pull that waited at the limit of unacknowledged deliveries may go on.
            consumer.arrived.notify_one();
        }
        Ok(())
    }

    fn in_progress(&mut self, stream: &str, durable: &str, token: &str) -> Result<(), BusError> {
        let State { store, streams } = self;
        let (consumer, sequence) = match delivery_of(streams, stream, durable, token) {
            // Nobody waits for an answer to this one.
            Err(BusError::NoResponders) => return Ok(()),
            found => found?,
        };
        let redeliver_at = later(Timestamp::now(), consumer.config.ack_wait);
        if let Some(pending) = consumer.pending.get_mut(&sequence) {
            pending.redeliver_at = redeliver_at;
            store.extend(consumer.id, sequence, *pending)?;
        }
        Ok(())
    }

    fn messages(
        &mut self,
        stream: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredMessage>, BusError> {
        let name = stream;
        let stream = self.stream(name)?;
        let id = stream.id;
        let mut bytes = 0;
        let heads: Vec<Head> = stream
            .heads_after(after)
            .take(limit.min(MAX_MESSAGES))
            .take_while(|head| {
                let first = bytes == 0;
                bytes += head.size.max(1);
                first || bytes <= MAX_MESSAGE_BYTES
            })
            .cloned()
            .collect();
        heads
            .into_iter()
            .map(|head| Ok(stored(&head, self.store.payload(id, head.sequence)?)))
            .collect()
    }
}

/// What JetStream refuses of a stream's configuration, and what this bus does not do.
fn check_stream(config: &StreamConfig) -> Result<(), BusError> {
    let refuse = |text: &str| Err(BusError::Refused(text.to_owned()));
    if config.replicas > 1 {
        return refuse("nats: replicas > 1 not supported in non-clustered mode");
    }
    if !config.max_age.is_zero() && config.duplicate_window > config.max_age {
        return refuse("nats: duplicates window can not be larger then max age");
    }
    if config.retention != Retention::Limits {
        return refuse(
            "eventlab: the embedded bus keeps messages by limits only (retention: 0); use a real server with --bus",
        );
    }
    Ok(())
}

fn stored(head: &Head, payload: Vec<u8>) -> StoredMessage {
    StoredMessage {
        sequence: head.sequence,
        subject: head.subject.to_string(),
        message_id: head.message_id.as_deref().map(str::to_owned),
        time: head.time,
        payload,
    }
}

fn consumer_of<'a>(stream: &'a Stream, durable: &str) -> Result<&'a Consumer, BusError> {
    stream.consumers.get(durable).ok_or(BusError::NoResponders)
}

fn consumer_of_mut<'a>(
    stream: &'a mut Stream,
    durable: &str,
) -> Result<&'a mut Consumer, BusError> {
    stream
        .consumers
        .get_mut(durable)
        .ok_or(BusError::NoResponders)
}

fn delivery_of<'a>(
    streams: &'a mut BTreeMap<String, Stream>,
    stream: &str,
    durable: &str,
    token: &str,
) -> Result<(&'a mut Consumer, u64), BusError> {
    let sequence = Token::parse(token).ok_or_else(|| {
        BusError::Refused("nats: message was not received from JetStream".to_owned())
    })?;
    let stream = streams.get_mut(stream).ok_or(BusError::NoResponders)?;
    let consumer = consumer_of_mut(stream, durable)?;
    Ok((consumer, sequence.stream_sequence))
}

impl Bus for EmbeddedBus {
    fn ensure_stream(&self, config: StreamConfig) -> BoxFuture<'_, Result<StreamInfo, BusError>> {
        Box::pin(async move { self.lock().ensure_stream(config) })
    }

    fn publish<'a>(
        &'a self,
        subject: &'a str,
        message_id: &'a str,
        payload: Vec<u8>,
    ) -> BoxFuture<'a, Result<PublishAck, BusError>> {
        Box::pin(async move { self.lock().publish(subject, message_id, &payload) })
    }

    fn ensure_consumer<'a>(
        &'a self,
        stream: &'a str,
        config: ConsumerConfig,
    ) -> BoxFuture<'a, Result<ConsumerInfo, BusError>> {
        Box::pin(async move { self.lock().ensure_consumer(stream, config) })
    }

    fn delete_consumer<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(async move { self.lock().delete_consumer(stream, durable) })
    }

    fn pull<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Option<Delivery>, BusError>> {
        Box::pin(self.wait_for_message(stream, durable, wait))
    }

    fn ack<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        token: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(async move { self.lock().ack(stream, durable, token) })
    }

    fn in_progress<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        token: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(async move { self.lock().in_progress(stream, durable, token) })
    }

    fn stream_info<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<StreamInfo, BusError>> {
        Box::pin(async move { Ok(self.lock().stream(stream)?.info()) })
    }

    fn consumers<'a>(
        &'a self,
        stream: &'a str,
    ) -> BoxFuture<'a, Result<Vec<ConsumerInfo>, BusError>> {
        Box::pin(async move {
            let mut state = self.lock();
            let stream = state.stream(stream)?;
            Ok(stream
                .consumers
                .values()
                .map(|consumer| stream.consumer_info(consumer))
                .collect())
        })
    }

    fn messages<'a>(
        &'a self,
        stream: &'a str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredMessage>, BusError>> {
        Box::pin(async move { self.lock().messages(stream, after, limit) })
    }

    fn bucket_get<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, BusError>> {
        Box::pin(async move {
            subject::check_key(bucket, key)?;
            self.lock().store.bucket_get(bucket, key)
        })
    }

    fn bucket_put<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        value: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(async move {
            subject::check_key(bucket, key)?;
            self.lock().store.bucket_put(bucket, key, &value)
        })
    }

    fn bucket_delete<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(async move {
            subject::check_key(bucket, key)?;
            self.lock().store.bucket_delete(bucket, key)
        })
    }

    fn signal<'a>(
        &'a self,
        subject: &'a str,
        payload: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), BusError>> {
        Box::pin(async move {
            self.signals.send(subject, &payload);
            Ok(())
        })
    }

    fn listen<'a>(
        &'a self,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Vec<u8>>, BusError>> {
        Box::pin(async move { Ok(self.signals.listen(subject)) })
    }

    /// Never: this is the bus itself. Connections that can be lost come from [`super::host::BusHost`].
    fn closed(&self) -> CancellationToken {
        CancellationToken::new()
    }
}
