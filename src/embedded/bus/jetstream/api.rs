//! JetStream's API: one JSON question, one JSON answer, and what its errors mean.

use async_nats::{Message, Request, RequestError, RequestErrorKind};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{ANSWER, JetStream, MESSAGE_ID};
use crate::embedded::bus::token::Token;
use crate::embedded::bus::{BusError, Delivery, StoredMessage, StreamInfo};

/// Error codes of the API that mean something here.
pub(super) mod code {
    pub(in super::super) const CONSUMER_NOT_FOUND: u64 = 10014;
    pub(in super::super) const NO_MESSAGE_FOUND: u64 = 10037;
    pub(in super::super) const STREAM_NAME_IN_USE: u64 = 10058;
    pub(in super::super) const STREAM_NOT_FOUND: u64 = 10059;
    pub(in super::super) const FILTER_NOT_SUBSET: u64 = 10093;
}

/// Why a question has no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The API answered with an error.
    Api {
        code: u64,
        text: String,
    },
    Bus(BusError),
}

impl Failure {
    pub(super) fn is(&self, wanted: u64) -> bool {
        matches!(self, Failure::Api { code, .. } if *code == wanted)
    }
}

impl From<BusError> for Failure {
    fn from(error: BusError) -> Self {
        Failure::Bus(error)
    }
}

impl From<Failure> for BusError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Api { text, .. } => BusError::Refused(format!("nats: {text}")),
            Failure::Bus(error) => error,
        }
    }
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: Option<ErrorBody>,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// Answer to a publish.
#[derive(Debug, Deserialize)]
pub(super) struct PublishAnswer {
    pub seq: u64,
    #[serde(default)]
    pub duplicate: bool,
}

/// Answer about a stream.
#[derive(Debug, Deserialize)]
pub(super) struct StreamAnswer {
    config: NamedConfig,
    state: StreamState,
}

#[derive(Debug, Deserialize)]
struct NamedConfig {
    name: String,
}

#[derive(Debug, Deserialize)]
struct StreamState {
    messages: u64,
    bytes: u64,
    first_seq: u64,
    last_seq: u64,
}

impl From<StreamAnswer> for StreamInfo {
    fn from(answer: StreamAnswer) -> Self {
        let state = answer.state;
        StreamInfo {
            name: answer.config.name,
            messages: state.messages,
            first_sequence: state.first_seq,
            last_sequence: state.last_seq,
            bytes: state.bytes,
        }
    }
}

impl JetStream {
    /// Asks the API; `what` is the subject below its prefix.
    pub(super) async fn api<T: DeserializeOwned>(
        &self,
        what: &str,
        body: &Value,
    ) -> Result<T, Failure> {
        let payload = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = Request::new().payload(payload.into()).timeout(Some(ANSWER));
        self.ask(&format!("$JS.API.{what}"), request)
            .await
            .map_err(|failure| match failure {
                // Nobody answers at all: this server, or this account, has no JetStream.
                Failure::Bus(BusError::NoResponders) => {
                    BusError::Refused("nats: jetstream not enabled".to_owned()).into()
                }
                failure => failure,
            })
    }

    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        subject: &str,
        request: Request,
    ) -> Result<T, Failure> {
        let answer = self.client.send_request(subject.to_owned(), request).await;
        let answer = answer.map_err(request_failed)?;
        read(&answer.payload)
    }
}

fn read<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Failure> {
    let unreadable = |error: serde_json::Error| {
        BusError::Refused(format!(
            "the bus gave an answer that cannot be read: {error}"
        ))
    };
    let outcome: ErrorAnswer = serde_json::from_slice(payload).map_err(unreadable)?;
    if let Some(error) = outcome.error {
        return Err(Failure::Api {
            code: error.err_code,
            text: error.description,
        });
    }
    Ok(serde_json::from_slice(payload).map_err(unreadable)?)
}

/// Why a request came back empty, in a NATS client's words.
pub(super) fn request_failed(error: RequestError) -> BusError {
    match error.kind() {
        RequestErrorKind::TimedOut => timeout(),
        RequestErrorKind::NoResponders => BusError::NoResponders,
        RequestErrorKind::MaxPayloadExceeded => {
            BusError::Refused("nats: maximum payload exceeded".to_owned())
        }
        RequestErrorKind::InvalidSubject => BusError::Refused("nats: invalid subject".to_owned()),
        // The connection's own task has ended.
        RequestErrorKind::Other => BusError::Closed,
    }
}

pub(super) fn timeout() -> BusError {
    BusError::Refused("nats: timeout".to_owned())
}

/// What a pull brought: a message, or a status that says why there is none.
pub(super) fn delivery(answer: Message) -> Result<Option<Delivery>, BusError> {
    let description = answer.description.as_deref().unwrap_or_default();
    match answer.status.map(|status| status.as_u16()) {
        None => {}
        Some(404 | 408) => return Ok(None),
        Some(409) if description.eq_ignore_ascii_case("consumer deleted") => {
            return Err(BusError::ConsumerDeleted);
        }
        Some(503) => return Err(BusError::NoResponders),
        Some(_) => return Err(BusError::Refused(format!("nats: {description}"))),
    }
    let token = answer.reply.as_ref().map(ToString::to_string);
    let parsed = token.as_deref().and_then(Token::parse);
    let (Some(token), Some(parsed)) = (token, parsed) else {
        return Err(BusError::Refused(
            "nats: message was not received from JetStream".to_owned(),
        ));
    };
    let message_id = answer
        .headers
        .as_ref()
        .and_then(|headers| headers.get(MESSAGE_ID))
        .map(|value| value.as_str().to_owned());
    Ok(Some(Delivery {
        message: StoredMessage {
            sequence: parsed.stream_sequence,
            subject: answer.subject.to_string(),
            message_id,
            time: Timestamp::from_nanosecond(parsed.stored).unwrap_or_default(),
            payload: answer.payload.to_vec(),
        },
        delivered: parsed.delivered,
        token,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_from_an_answer() {
        let error = br#"{"type":"x","error":{"code":404,"err_code":10059,"description":"stream not found"}}"#;
        let failure = read::<StreamAnswer>(error).expect_err("an error");
        assert!(failure.is(code::STREAM_NOT_FOUND));
        assert_eq!(
            BusError::from(failure).to_string(),
            "nats: stream not found"
        );
        let ack = read::<PublishAnswer>(br#"{"stream":"default","seq":4,"duplicate":true}"#)
            .expect("an answer");
        assert_eq!((ack.seq, ack.duplicate), (4, true));
        for garbage in [&b""[..], b"{", b"[]", b"{}", br#"{"error":7}"#, b"\xff"] {
            assert!(read::<PublishAnswer>(garbage).is_err());
        }
    }
}
