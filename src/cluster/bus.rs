//! What the bus holds: messages with their trace and arrival, and the state of consumers.

use base64::Engine as _;
use serde::Deserialize;

use super::{Cluster, LookError, NoBus};
use crate::embedded::bus::{Bus, ConsumerInfo};
use crate::kinds::TRACE_HEADER;
use std::sync::Arc;

const STREAM: &str = "default";

/// A message of the stream, read as Argo writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct BusMessage {
    pub sequence: u64,
    pub subject: String,
    pub time: jiff::Timestamp,
    /// CloudEvent id: the arrival id. Empty when the message is not a CloudEvent.
    pub arrival: String,
    /// The trace header of the request, where it had one.
    pub trace: Option<String>,
}

/// A connection to the bus that only looks.
#[derive(Clone)]
pub struct BusView {
    bus: Arc<dyn Bus>,
}

impl Cluster {
    /// Connects to look at the bus.
    ///
    /// # Errors
    /// [`LookError::Bus`] while there is none.
    pub fn bus(&self) -> Result<BusView, LookError> {
        self.try_bus()
            .map_err(|error| LookError::Bus(error.to_string()))
    }

    /// As [`Cluster::bus`], telling "not now" from "not at all".
    ///
    /// # Errors
    /// [`NoBus`].
    pub fn try_bus(&self) -> Result<BusView, NoBus> {
        let bus = self.host().bus(self.namespace())?;
        Ok(BusView { bus })
    }
}

impl BusView {
    /// Messages after a sequence, oldest first, at most 1,000.
    ///
    /// # Errors
    /// [`LookError::Bus`].
    pub async fn messages(&self, after: u64) -> Result<Vec<BusMessage>, LookError> {
        let stored = self
            .bus
            .messages(STREAM, after, 1000)
            .await
            .map_err(|error| LookError::Bus(error.to_string()))?;
        Ok(stored
            .into_iter()
            .map(|message| {
                let event = CloudEvent::read(&message.payload);
                BusMessage {
                    sequence: message.sequence,
                    subject: message.subject,
                    time: message.time,
                    arrival: event.id,
                    trace: event.trace,
                }
            })
            .collect())
    }

    /// The message with a sequence, byte for byte.
    ///
    /// # Errors
    /// [`LookError::Bus`].
    pub async fn payload(&self, sequence: u64) -> Result<Option<Vec<u8>>, LookError> {
        let stored = self
            .bus
            .messages(STREAM, sequence.saturating_sub(1), 1)
            .await
            .map_err(|error| LookError::Bus(error.to_string()))?;
        Ok(stored
            .into_iter()
            .find(|message| message.sequence == sequence)
            .map(|message| message.payload))
    }

    /// The last sequence of the stream; 0 while it is empty or not there.
    ///
    /// # Errors
    /// [`LookError::Bus`].
    pub async fn last_sequence(&self) -> Result<u64, LookError> {
        match self.bus.stream_info(STREAM).await {
            Ok(info) => Ok(info.last_sequence),
            Err(crate::embedded::bus::BusError::StreamNotFound(_)) => Ok(0),
            Err(error) => Err(LookError::Bus(error.to_string())),
        }
    }

    /// All consumers of the stream.
    ///
    /// # Errors
    /// [`LookError::Bus`].
    pub async fn consumers(&self) -> Result<Vec<ConsumerInfo>, LookError> {
        match self.bus.consumers(STREAM).await {
            Ok(consumers) => Ok(consumers),
            Err(crate::embedded::bus::BusError::StreamNotFound(_)) => Ok(Vec::new()),
            Err(error) => Err(LookError::Bus(error.to_string())),
        }
    }
}

#[derive(Debug, Default, PartialEq)]
struct CloudEvent {
    id: String,
    trace: Option<String>,
}

impl CloudEvent {
    /// Anybody may publish on the bus: what cannot be read leaves the fields empty.
    fn read(payload: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Envelope {
            #[serde(default)]
            id: String,
            data_base64: Option<String>,
        }
        let Ok(envelope) = serde_json::from_slice::<Envelope>(payload) else {
            return Self::default();
        };
        let data = envelope
            .data_base64
            .and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok())
            .unwrap_or_default();
        Self {
            id: envelope.id,
            trace: trace_of(&data),
        }
    }
}

fn trace_of(data: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Data {
        header: std::collections::BTreeMap<String, Vec<String>>,
    }
    serde_json::from_slice::<Data>(data)
        .ok()?
        .header
        .get(TRACE_HEADER)?
        .first()
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_and_arrival_are_read_from_the_envelope() {
        let data = base64::engine::general_purpose::STANDARD
            .encode(r#"{"header":{"X-Eventlab-Trace":["t-1"]},"body":{}}"#);
        let event =
            CloudEvent::read(format!(r#"{{"id":"abc","data_base64":"{data}"}}"#).as_bytes());
        assert_eq!(
            event,
            CloudEvent {
                id: "abc".into(),
                trace: Some("t-1".into())
            }
        );
        for garbage in [
            &b"{"[..],
            b"{}",
            b"null",
            br#"{"id":5}"#,
            br#"{"id":"x","data_base64":"%%"}"#,
        ] {
            assert_eq!(CloudEvent::read(garbage).trace, None);
        }
    }
}
