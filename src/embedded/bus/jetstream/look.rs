//! What evidence asks of a server: stored messages, consumers, and when in the stream a consumer was born.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Failure, code};
use super::{JetStream, MESSAGE_ID, consumer_json};
use crate::embedded::bus::engine::{MAX_MESSAGE_BYTES, MAX_MESSAGES};
use crate::embedded::bus::{BusError, ConsumerConfig, ConsumerInfo, StoredMessage, subject};

/// Consumers are listed in so many pages at most (256 a page).
const MAX_PAGES: usize = 64;

/// State of a consumer as the API and the monitor write it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ConsumerAnswer {
    name: String,
    created: Timestamp,
    /// The monitor leaves it out unless asked for it.
    #[serde(default)]
    config: ConsumerFilter,
    delivered: Pair,
    ack_floor: Pair,
    #[serde(default)]
    num_ack_pending: u64,
    #[serde(default)]
    num_redelivered: u64,
    #[serde(default)]
    num_waiting: u64,
    #[serde(default)]
    num_pending: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ConsumerFilter {
    #[serde(default)]
    filter_subject: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Pair {
    #[serde(default)]
    consumer_seq: u64,
    #[serde(default)]
    stream_seq: u64,
}

impl ConsumerAnswer {
    /// The delivered stream sequence of a consumer that has delivered nothing, else 0.
    pub(super) fn untouched_sequence(&self) -> u64 {
        if self.delivered.consumer_seq == 0 {
            self.delivered.stream_seq
        } else {
            0
        }
    }

    pub(super) fn info(self, created_at_sequence: u64) -> ConsumerInfo {
        ConsumerInfo {
            durable: self.name,
            filter_subject: self.config.filter_subject,
            created: self.created,
            created_at_sequence,
            delivered_stream: self.delivered.stream_seq,
            // NATS 2.9 says 0 until the first ack, later ones say where the consumer was made.
            ack_floor_stream: self.ack_floor.stream_seq.max(created_at_sequence),
            num_ack_pending: self.num_ack_pending,
            num_redelivered: self.num_redelivered,
            num_waiting: self.num_waiting,
            num_pending: self.num_pending,
        }
    }

    /// Where it was born, when its own numbers still say so.
    fn untouched(&self, last_sequence: u64) -> Option<u64> {
        let fresh = self.delivered.consumer_seq == 0 && self.ack_floor.consumer_seq == 0;
        (fresh && self.delivered.stream_seq == last_sequence).then_some(last_sequence)
    }
}

#[derive(Deserialize)]
struct ConsumerPage {
    #[serde(default)]
    total: usize,
    #[serde(default)]
    consumers: Option<Vec<ConsumerAnswer>>,
}

#[derive(Deserialize)]
struct Raw {
    message: RawMessage,
}

#[derive(Deserialize)]
struct RawMessage {
    subject: String,
    seq: u64,
    time: Timestamp,
    data: Option<String>,
    hdrs: Option<String>,
}

impl RawMessage {
    fn stored(self) -> Result<StoredMessage, BusError> {
        let sequence = self.seq;
        let payload = STANDARD.decode(self.data.unwrap_or_default());
        let payload = payload.map_err(|error| {
            BusError::Refused(format!(
                "message {sequence} of the bus cannot be read: {error}"
            ))
        })?;
        Ok(StoredMessage {
            sequence,
            subject: self.subject,
            message_id: self.hdrs.as_deref().and_then(message_id),
            time: self.time,
            payload,
        })
    }
}

fn message_id(headers: &str) -> Option<String> {
    let bytes = STANDARD.decode(headers).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case(MESSAGE_ID))
        .map(|(_, value)| value.trim().to_owned())
}

/// The last stream sequence before a consumer's creation, by consumer and creation time.
#[derive(Default)]
pub(super) struct Births(Mutex<HashMap<(String, Timestamp), u64>>);

impl Births {
    fn get(&self, consumer: &ConsumerAnswer) -> Option<u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&(consumer.name.clone(), consumer.created))
            .copied()
    }

    fn remember(&self, consumer: &ConsumerAnswer, sequence: u64) -> u64 {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert((consumer.name.clone(), consumer.created), sequence);
        sequence
    }
}

impl JetStream {
    /// Makes the consumer, or answers the one that is there.
    pub(super) async fn consumer(
        &self,
        stream: &str,
        config: ConsumerConfig,
    ) -> Result<ConsumerInfo, BusError> {
        if !subject::is_name(&config.durable) {
            return Err(BusError::Refused("nats: invalid consumer name".to_owned()));
        }
        let name = format!("{stream}.{}", config.durable);
        let found: Result<ConsumerAnswer, Failure> = self
            .api(&format!("CONSUMER.INFO.{name}"), &Value::Null)
            .await;
        let answer = match found {
            Ok(answer) => answer,
            Err(failure) if failure.is(code::STREAM_NOT_FOUND) => {
                return Err(BusError::StreamNotFound(stream.to_owned()));
            }
            Err(failure) if failure.is(code::CONSUMER_NOT_FOUND) => {
                let subject = format!("CONSUMER.DURABLE.CREATE.{name}");
                let made = self.api(&subject, &consumer_json(stream, &config)).await;
                made.map_err(|failure| {
                    if failure.is(code::FILTER_NOT_SUBSET) {
                        BusError::Refused("nats: no stream matches subject".to_owned())
                    } else {
                        failure.into()
                    }
                })?
            }
            Err(failure) => return Err(failure.into()),
        };
        if answer.config.filter_subject != config.filter_subject {
            return Err(BusError::Refused(
                "nats: subject does not match consumer".to_owned(),
            ));
        }
        let born = self.birth(stream, &answer).await?;
        Ok(answer.info(born))
    }

    pub(super) async fn all_consumers(&self, stream: &str) -> Result<Vec<ConsumerInfo>, BusError> {
        let mut infos = Vec::new();
        for _ in 0..MAX_PAGES {
            let body = json!({"offset": infos.len()});
            let page: Result<ConsumerPage, Failure> =
                self.api(&format!("CONSUMER.LIST.{stream}"), &body).await;
            let page = page.map_err(|failure| {
                if failure.is(code::STREAM_NOT_FOUND) {
                    BusError::StreamNotFound(stream.to_owned())
                } else {
                    failure.into()
                }
            })?;
            let consumers = page.consumers.unwrap_or_default();
            if consumers.is_empty() {
                break;
            }
            for consumer in consumers {
                let born = self.birth(stream, &consumer).await?;
                infos.push(consumer.info(born));
            }
            if infos.len() >= page.total {
                break;
            }
        }
        infos.sort_by(|a, b| a.durable.cmp(&b.durable));
        Ok(infos)
    }

    /// The last sequence that was stored before the consumer was made: by its numbers while they say it, else by the
    /// time of its creation among the times of the messages, which rise with their sequences.
    async fn birth(&self, stream: &str, consumer: &ConsumerAnswer) -> Result<u64, BusError> {
        if let Some(known) = self.births.get(consumer) {
            return Ok(known);
        }
        let state = self.stream(stream).await?;
        if let Some(born) = consumer.untouched(state.last_sequence) {
            return Ok(self.births.remember(consumer, born));
        }
        let (mut low, mut high) = (state.first_sequence.saturating_sub(1), state.last_sequence);
        // Everything up to `low` is older than the consumer, everything above `high` is not.
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match self.message_from(stream, middle).await? {
                Some(message) if message.time < consumer.created => {
                    low = message.sequence.min(high)
                }
                Some(_) | None => high = middle - 1,
            }
        }
        Ok(self.births.remember(consumer, low))
    }

    /// The first stored message at this sequence or above it.
    async fn message_from(
        &self,
        stream: &str,
        sequence: u64,
    ) -> Result<Option<StoredMessage>, BusError> {
        let body = json!({"seq": sequence, "next_by_subj": ">"});
        let found: Result<Raw, Failure> =
            self.api(&format!("STREAM.MSG.GET.{stream}"), &body).await;
        match found {
            Ok(raw) => raw.message.stored().map(Some),
            Err(failure) if failure.is(code::NO_MESSAGE_FOUND) => Ok(None),
            Err(failure) if failure.is(code::STREAM_NOT_FOUND) => {
                Err(BusError::StreamNotFound(stream.to_owned()))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    pub(super) async fn stored_after(
        &self,
        stream: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredMessage>, BusError> {
        let mut messages = Vec::new();
        let (mut last, mut bytes) = (after, 0);
        while messages.len() < limit.min(MAX_MESSAGES) && bytes < MAX_MESSAGE_BYTES {
            let Some(message) = self.message_from(stream, last.saturating_add(1)).await? else {
                break;
            };
            last = message.sequence;
            bytes += message.payload.len() as u64;
            messages.push(message);
        }
        Ok(messages)
    }
}
