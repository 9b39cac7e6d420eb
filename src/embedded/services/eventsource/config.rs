//! The EventSource object as far as this service knows it: webhook events, and what it has to refuse.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::environment::StartError;
use super::expression::Expression;
use crate::kinds::EVENT_TYPES;

/// Upstream's limit of a request body in bytes.
pub(super) const DEFAULT_PAYLOAD: u64 = 1 << 20;
/// Larger limits are held down to this, since the bus takes less anyway.
const MAX_PAYLOAD: u64 = 64 << 20;

/// An EventSource.
#[derive(Debug)]
pub(super) struct EventSource {
    pub name: String,
    pub namespace: String,
    /// Webhook events by name.
    pub webhooks: Vec<Webhook>,
    /// Events that cannot be served, with the reason.
    pub refused: Vec<Refused>,
}

/// An event that is not started.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub event: String,
    pub kind: String,
    pub reason: String,
}

/// One webhook event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Webhook {
    pub event: String,
    pub endpoint: String,
    pub method: String,
    pub port: u16,
    /// Largest body in bytes.
    pub max_payload: u64,
    pub metadata: BTreeMap<String, String>,
    /// Secret name and key of the bearer token.
    pub auth: Option<(String, String)>,
    /// What must be true of an event before it is published.
    pub filter: Option<Expression>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WebhookSpec {
    endpoint: String,
    method: String,
    port: String,
    metadata: Option<BTreeMap<String, String>>,
    auth_secret: Option<SecretKey>,
    max_payload_size: Option<i64>,
    server_cert_secret: Option<Value>,
    filter: Option<Filter>,
}

#[derive(Debug, Deserialize)]
struct SecretKey {
    #[serde(default)]
    name: String,
    key: String,
}

#[derive(Debug, Deserialize)]
struct Filter {
    #[serde(default)]
    expression: String,
}

impl EventSource {
    pub(super) fn parse(object: &Value) -> Result<EventSource, StartError> {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let name = text("/metadata/name");
        if name.is_empty() {
            return Err(StartError(
                "failed to unmarshal eventsource object: it has no name".to_owned(),
            ));
        }
        let mut source = EventSource {
            name,
            namespace: text("/metadata/namespace"),
            webhooks: Vec::new(),
            refused: Vec::new(),
        };
        let empty = serde_json::Map::new();
        let spec = object
            .get("spec")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        for (kind, events) in spec
            .iter()
            .filter(|(kind, _)| EVENT_TYPES.contains(&kind.as_str()))
        {
            let Some(events) = events.as_object() else {
                continue;
            };
            let mut events: Vec<_> = events.iter().collect();
            events.sort_by_key(|(event, _)| event.as_str());
            for (event, spec) in events {
                source.add(kind, event, spec)?;
            }
        }
        Ok(source)
    }

    fn add(&mut self, kind: &str, event: &str, spec: &Value) -> Result<(), StartError> {
        let refused = |reason| Refused {
            event: event.to_owned(),
            kind: kind.to_owned(),
            reason,
        };
        if kind != "webhook" {
            let reason = format!("eventlab: events of type {kind} are not supported, use webhook");
            self.refused.push(refused(reason));
            return Ok(());
        }
        let spec = WebhookSpec::deserialize(spec).map_err(|error| {
            StartError(format!(
                "failed to unmarshal eventsource object: webhook {event}: {error}"
            ))
        })?;
        match webhook(event, spec) {
            Ok(webhook) => self.webhooks.push(webhook),
            Err(reason) => self.refused.push(refused(reason)),
        }
        Ok(())
    }
}

fn webhook(event: &str, spec: WebhookSpec) -> Result<Webhook, String> {
    if spec.endpoint.is_empty() {
        return Err("endpoint can't be empty".to_owned());
    }
    if spec.port.is_empty() {
        return Err("port can't be empty".to_owned());
    }
    let port = spec
        .port
        .parse()
        .map_err(|error| format!("failed to parse server port {}. err: {error}", spec.port))?;
    // Upstream keeps a filter that is there and has no expression, and every event fails at it.
    let filter = match spec.filter {
        Some(filter) => Some(Expression::parse(&filter.expression)?),
        None => None,
    };
    if spec
        .server_cert_secret
        .is_some_and(|secret| !secret.is_null())
    {
        return Err(
            "eventlab: serverCertSecret is not supported, webhooks speak plain HTTP".to_owned(),
        );
    }
    if spec.endpoint.contains(['{', '}']) {
        return Err(format!(
            "eventlab: the endpoint {:?} has a pattern, only a fixed path is supported",
            spec.endpoint
        ));
    }
    let max_payload = spec
        .max_payload_size
        .map_or(DEFAULT_PAYLOAD, |size| u64::try_from(size).unwrap_or(0));
    Ok(Webhook {
        event: event.to_owned(),
        endpoint: spec.endpoint,
        method: spec.method,
        port,
        max_payload: max_payload.min(MAX_PAYLOAD),
        metadata: spec.metadata.unwrap_or_default(),
        auth: spec.auth_secret.map(|secret| (secret.name, secret.key)),
        filter,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(spec: Value) -> EventSource {
        EventSource::parse(
            &json!({"metadata": {"name": "webhook", "namespace": "eventlab"}, "spec": spec}),
        )
        .unwrap()
    }

    #[test]
    fn webhooks_are_read_by_name() {
        let source = parse(json!({"service": {"ports": []}, "webhook": {
            "refunds": {"endpoint": "/refunds", "method": "POST", "port": "12000", "maxPayloadSize": -1},
            "orders": {"endpoint": "/orders", "method": "POST", "port": "12000", "authSecret": {"name": "s", "key": "k"}},
        }}));
        assert_eq!(source.refused, []);
        let seen: Vec<_> = source
            .webhooks
            .iter()
            .map(|hook| (hook.event.as_str(), hook.max_payload))
            .collect();
        assert_eq!(seen, [("orders", 1 << 20), ("refunds", 0)]);
        assert_eq!(
            source.webhooks[0].auth,
            Some(("s".to_owned(), "k".to_owned()))
        );
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        let source = parse(json!({
            "calendar": {"daily": {"schedule": "0 0 * * *"}},
            "mns": {"queue": {"queue": "q"}},
            "webhook": {
                "a": {"endpoint": "/a", "port": "x"},
                "b": {"endpoint": "/b", "port": "1", "filter": {"expression": "sum(1..9) > body.a"}},
                "c": {"port": "1"},
                "d": {"endpoint": "/d/{id}", "port": "1"},
            },
        }));
        let events: Vec<_> = source
            .refused
            .iter()
            .map(|refused| refused.event.as_str())
            .collect();
        assert_eq!(events, ["daily", "queue", "a", "b", "c", "d"]);
        assert!(
            source.refused[3].reason.contains("`sum`"),
            "{:?}",
            source.refused
        );
    }
}
