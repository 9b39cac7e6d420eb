//! From event data to the bus: the CloudEvent, the tries, and the connection that is renewed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::backoff::Backoff;
use super::super::bus_link::Link;
use super::super::environment::BusSettings;
use super::super::log::Logger;
use super::super::metrics::{Metric, Metrics};
use crate::embedded::bus::BusConnector;

/// How often the daemon looks at the connection.
const LOOK: Duration = Duration::from_secs(5);
/// Type of the events that this service makes.
const EVENT_TYPE: &str = "webhook";

/// Publishes the events of one EventSource.
pub(super) struct Publisher {
    pub source: String,
    pub log: Logger,
    pub metrics: Metrics,
    link: Mutex<Link>,
}

impl Publisher {
    pub(super) fn new(source: &str, log: Logger, metrics: Metrics, link: Link) -> Publisher {
        Publisher {
            source: source.to_owned(),
            log,
            metrics,
            link: Mutex::new(link),
        }
    }

    /// Puts one event on the bus and answers once it is stored.
    pub(super) async fn publish(&self, event: &str, data: &[u8]) -> Result<(), String> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let body = self.cloud_event(&id, event, data);
        if self.link().is_closed() {
            return Err("failed to publish event, eventbus connection closed".to_owned());
        }
        let id_field = ("eventID", id.as_str().into());
        if self.log.debugs() {
            self.log.debug(
                &String::from_utf8_lossy(data),
                std::slice::from_ref(&id_field),
            );
        }
        let subject = format!("default.{}.{event}", self.source);
        let sent = Backoff::DEFAULT
            .retry(|| {
                let bus = self.link().bus;
                let (subject, id, body) = (&subject, &id, body.clone());
                async move {
                    let result = bus.publish(subject, id, body).await;
                    self.log
                        .debug(&format!("published message to subject {subject}"), &[]);
                    result
                }
            })
            .await;
        let names = [
            ("eventName", event.into()),
            ("eventSourceType", EVENT_TYPE.into()),
        ];
        let [name, kind] = names;
        match sent {
            Ok(_) => {
                self.log
                    .info("Succeeded to publish an event", &[name, kind, id_field]);
                self.metrics
                    .add(Metric::EventsSent, [event, &self.source], 1);
                Ok(())
            }
            Err(error) => {
                let why = ("error", error.as_str().into());
                self.log
                    .error("Failed to publish an event", &[why, name, kind, id_field]);
                self.metrics
                    .add(Metric::EventsSentFailed, [event, &self.source], 1);
                Err(error)
            }
        }
    }

    fn cloud_event(&self, id: &str, event: &str, data: &[u8]) -> Vec<u8> {
        json!({
            "specversion": "1.0",
            "id": id,
            "source": self.source,
            "type": EVENT_TYPE,
            "subject": event,
            "datacontenttype": "application/json",
            "time": Timestamp::now().to_string(),
            "data_base64": STANDARD.encode(data),
        })
        .to_string()
        .into_bytes()
    }

    /// Reconnects every 5 s after a loss, until `terminate`.
    pub(super) async fn keep_connected(
        &self,
        connector: &BusConnector,
        settings: &BusSettings,
        terminate: &CancellationToken,
    ) {
        self.log.info("starting eventbus connection daemon...", &[]);
        let mut ticker = tokio::time::interval_at(tokio::time::Instant::now() + LOOK, LOOK);
        loop {
            tokio::select! {
                () = terminate.cancelled() => break,
                _ = ticker.tick() => {}
            }
            if !self.link().is_closed() {
                continue;
            }
            self.log.info("NATS connection lost, reconnecting...", &[]);
            match Link::connect(connector, settings, &self.log).await {
                Ok(link) => {
                    *self.link.lock().unwrap_or_else(PoisonError::into_inner) = link;
                    self.log.info("reconnected to eventbus successfully", &[]);
                }
                Err(error) => self.log.error(
                    "failed to reconnect to eventbus",
                    &[("error", error.to_string().into())],
                ),
            }
        }
        self.log.info("exiting eventbus connection daemon...", &[]);
    }

    fn link(&self) -> Link {
        self.link
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
