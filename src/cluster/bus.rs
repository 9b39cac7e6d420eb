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

/// Looks at the bus, wherever the EventBus says that it is.
#[derive(Clone)]
pub struct BusView {
    cluster: Cluster,
}

impl Cluster {
    /// For looking at the bus; it is connected to with the first question.
    #[must_use]
    pub fn bus(&self) -> BusView {
        BusView {
            cluster: self.clone(),
        }
    }

    /// As [`Cluster::bus`], where there is one: tells "not now" from "not at all".
    ///
    /// # Errors
    /// [`NoBus`].
    pub fn try_bus(&self) -> Result<BusView, NoBus> {
        match self.host().linked_bus(self.namespace(), self.event_bus()) {
            Some(Err(error)) => Err(error),
            _ => Ok(self.bus()),
        }
    }
}

impl BusView {
    async fn bus(&self) -> Result<Arc<dyn Bus>, LookError> {
        let (namespace, event_bus) = (self.cluster.namespace(), self.cluster.event_bus());
        match self.cluster.host().linked_bus(namespace, event_bus) {
            Some(linked) => linked.map_err(|error| LookError::Bus(error.to_string())),
            None => self.cluster.bus_place.find(&self.cluster).await,
        }
    }

    /// Messages after a sequence, oldest first, at most 1,000.
    ///
    /// # Errors
    /// [`LookError::Bus`].
    pub async fn messages(&self, after: u64) -> Result<Vec<BusMessage>, LookError> {
        let stored = self
            .bus()
            .await?
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
            .bus()
            .await?
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
        match self.bus().await?.stream_info(STREAM).await {
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
        match self.bus().await?.consumers(STREAM).await {
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
