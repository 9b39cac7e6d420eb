//! Streams, durable consumers and buckets with JetStream's rules.
//!
//! Called from the services through [`BusConnector`] and [`Bus`]; the monitor answers (`/jsz`) come from here too.
//! [`engine::EmbeddedBus`] keeps everything in `bus.db`; [`host::BusHost`] is the bus pod's side and hands out
//! connections in process; [`server`] and [`remote`] are the same over a socket, for children of this binary.
//! [`jetstream`] is a real NATS server behind the same trait: where the two differ, the embedded one is wrong.

pub mod engine;
pub mod host;
pub mod jetstream;
pub mod remote;
pub mod server;

mod access;
mod consumer;
mod monitor;
mod protocol;
mod signals;
mod store;
mod stream;
mod subject;
mod token;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use access::{Access, BusAddress, BusTls, Login};
pub use host::is_in_cluster;

/// What a NATS client says when nobody listens.
pub const NO_SERVERS: &str = "nats: no servers available for connection";

/// Why the bus did not do what was asked; worded as NATS clients word it, since services log it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum BusError {
    #[error("nats: connection closed")]
    Closed,
    #[error("nats: stream {0} not found")]
    StreamNotFound(String),
    /// A pull or an ack reached nobody: its consumer or its stream is not there.
    #[error("nats: no responders available for request")]
    NoResponders,
    /// A pull waited at a consumer that was deleted meanwhile.
    #[error("nats: consumer deleted")]
    ConsumerDeleted,
    #[error("{0}")]
    Refused(String),
    #[error("bus storage failed: {0}")]
    Storage(String),
}

/// Answer to a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishAck {
    /// Stream sequence, from 1.
    pub sequence: u64,
    /// The message id was seen within the duplicate window, and nothing new was stored.
    pub duplicate: bool,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredMessage {
    pub sequence: u64,
    pub subject: String,
    /// `Nats-Msg-Id`.
    pub message_id: Option<String>,
    pub time: jiff::Timestamp,
    #[serde(with = "protocol::base64_bytes")]
    pub payload: Vec<u8>,
}

/// A message handed to a consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub message: StoredMessage,
    /// 1 on the first delivery.
    pub delivered: u64,
    /// Names this delivery in [`Bus::ack`]; written as JetStream's reply subject.
    pub token: String,
}

impl Delivery {
    /// How many deliveries the consumer has made, this one included; 0 when the token does not say.
    #[must_use]
    pub fn consumer_sequence(&self) -> u64 {
        token::Token::parse(&self.token).map_or(0, |token| token.consumer_sequence)
    }
}

/// A durable pull consumer with explicit ack and deliver-new.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerConfig {
    pub durable: String,
    pub filter_subject: String,
    /// Redelivered when not acknowledged for so long.
    pub ack_wait: Duration,
}

/// State of a consumer, as `/jsz` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerInfo {
    pub durable: String,
    pub filter_subject: String,
    pub created: jiff::Timestamp,
    /// Last stream sequence when it was created: it delivers later ones only.
    pub created_at_sequence: u64,
    /// Highest stream sequence delivered.
    pub delivered_stream: u64,
    /// Every message of its subject up to this stream sequence is acknowledged.
    pub ack_floor_stream: u64,
    pub num_ack_pending: u64,
    pub num_redelivered: u64,
    /// Pulls that wait now: at least 1 means somebody is subscribed.
    pub num_waiting: u64,
    /// Messages of its subject not delivered yet.
    pub num_pending: u64,
}

/// State of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamInfo {
    pub name: String,
    pub messages: u64,
    pub first_sequence: u64,
    pub last_sequence: u64,
    pub bytes: u64,
}

/// What ends the life of a message (`retention` of Argo's `streamConfig`: 0, 1, 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retention {
    #[default]
    Limits,
    /// Gone once every consumer has acknowledged it.
    Interest,
    /// Gone once one consumer has acknowledged it.
    WorkQueue,
}

/// Limits of a stream (`streamConfig` of the EventBus; Argo's defaults).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamConfig {
    pub name: String,
    pub subjects: Vec<String>,
    /// 0 is no limit.
    pub max_messages: u64,
    /// Bytes as JetStream's file store counts them, headers included; 0 is no limit.
    #[serde(default)]
    pub max_bytes: u64,
    /// Zero is no limit.
    pub max_age: Duration,
    /// Zero means two minutes.
    pub duplicate_window: Duration,
    /// A full stream refuses what is new instead of dropping what is oldest (`discard: 1`).
    #[serde(default)]
    pub discard_new: bool,
    #[serde(default)]
    pub retention: Retention,
    /// Copies; 0 means one. More than one needs a cluster of servers.
    #[serde(default)]
    pub replicas: u64,
}

/// A connection to a bus. Dropping it drops its waiting pulls without an ack.
pub trait Bus: Send + Sync {
    fn ensure_stream(&self, config: StreamConfig) -> BoxFuture<'_, Result<StreamInfo, BusError>>;
    fn publish<'a>(
        &'a self,
        subject: &'a str,
        message_id: &'a str,
        payload: Vec<u8>,
    ) -> BoxFuture<'a, Result<PublishAck, BusError>>;
    /// Makes the consumer, or answers the one that is there.
    fn ensure_consumer<'a>(
        &'a self,
        stream: &'a str,
        config: ConsumerConfig,
    ) -> BoxFuture<'a, Result<ConsumerInfo, BusError>>;
    /// Fine if it is not there.
    fn delete_consumer<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>>;
    /// Waits up to `wait` for the next message; `None` when none came.
    fn pull<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Option<Delivery>, BusError>>;
    fn ack<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        token: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>>;
    /// Restarts the ack wait of a delivery.
    fn in_progress<'a>(
        &'a self,
        stream: &'a str,
        durable: &'a str,
        token: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>>;
    fn stream_info<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Result<StreamInfo, BusError>>;
    fn consumers<'a>(
        &'a self,
        stream: &'a str,
    ) -> BoxFuture<'a, Result<Vec<ConsumerInfo>, BusError>>;
    /// Stored messages with a sequence above `after`, oldest first, at most `limit`, and fewer when they are large:
    /// ask again after the last one until none comes.
    fn messages<'a>(
        &'a self,
        stream: &'a str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredMessage>, BusError>>;
    fn bucket_get<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, BusError>>;
    /// Makes the bucket if it is not there.
    fn bucket_put<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        value: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), BusError>>;
    fn bucket_delete<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), BusError>>;
    /// Core publish without storage (election heartbeats).
    fn signal<'a>(
        &'a self,
        subject: &'a str,
        payload: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), BusError>>;
    /// Core subscribe: what is signalled from now on.
    fn listen<'a>(
        &'a self,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Vec<u8>>, BusError>>;
    /// Cancelled once the connection is lost; a lost connection never comes back.
    fn closed(&self) -> CancellationToken;
}

/// Connects to the bus behind a URL such as `nats://eventbus-default-js-svc.eventlab.svc:4222`.
#[derive(Clone)]
pub struct BusConnector(pub Arc<dyn ConnectBus>);

/// Resolves a bus URL through the address book and connects.
pub trait ConnectBus: Send + Sync {
    fn connect<'a>(
        &'a self,
        url: &'a str,
        access: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn Bus>, BusError>>;

    /// The bus of this process, for the pod that serves it; `None` where the bus runs elsewhere.
    fn host(&self) -> Option<Arc<host::BusHost>> {
        None
    }
}
