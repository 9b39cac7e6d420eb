//! What children say to the bus over HTTP: one JSON call, one JSON answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    BusError, ConsumerConfig, ConsumerInfo, Delivery, PublishAck, StoredMessage, StreamConfig,
    StreamInfo,
};

/// Path of a call.
pub(super) const CALL_PATH: &str = "/call";
/// Path of the stream whose end says that the connection is lost.
pub(super) const ATTACH_PATH: &str = "/attach";
/// Path of a subscription to core signals; the body is the subject.
pub(super) const LISTEN_PATH: &str = "/listen";

/// One call of [`super::Bus`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Call {
    EnsureStream(StreamConfig),
    Publish {
        subject: String,
        message_id: String,
        #[serde(with = "base64_bytes")]
        payload: Vec<u8>,
    },
    EnsureConsumer {
        stream: String,
        config: ConsumerConfig,
    },
    DeleteConsumer {
        stream: String,
        durable: String,
    },
    Pull {
        stream: String,
        durable: String,
        wait: Duration,
    },
    Ack {
        stream: String,
        durable: String,
        token: String,
    },
    InProgress {
        stream: String,
        durable: String,
        token: String,
    },
    StreamInfo(String),
    Consumers(String),
    Messages {
        stream: String,
        after: u64,
        limit: usize,
    },
    BucketGet {
        bucket: String,
        key: String,
    },
    BucketPut {
        bucket: String,
        key: String,
        #[serde(with = "base64_bytes")]
        value: Vec<u8>,
    },
    BucketDelete {
        bucket: String,
        key: String,
    },
    Signal {
        subject: String,
        #[serde(with = "base64_bytes")]
        payload: Vec<u8>,
    },
}

/// The answer to a [`Call`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Done,
    Stream(StreamInfo),
    Published(PublishAck),
    Consumer(ConsumerInfo),
    Consumers(Vec<ConsumerInfo>),
    Delivery(Option<Delivery>),
    Messages(Vec<StoredMessage>),
    Value(Option<Bytes>),
    Error(BusError),
}

/// Bytes as base64 text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Bytes(#[serde(with = "base64_bytes")] pub Vec<u8>);

/// Serializes bytes as base64 text.
pub(super) mod base64_bytes {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::embedded::bus) fn serialize<S: Serializer>(
        bytes: &[u8],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(in crate::embedded::bus) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        STANDARD
            .decode(text.as_bytes())
            .map_err(serde::de::Error::custom)
    }
}
