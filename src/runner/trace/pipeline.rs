//! The pipeline as its objects show it: the webhook, the Sensor's dependencies on its event, the levels of the logs.

use serde_json::Value;

use crate::cluster::{Cluster, LookError, Request};
use crate::embedded::services::eventsource::encoded_path;
use crate::kinds::{self, TRACE_HEADER};
use crate::runner::expected::{Subscription, subscriptions};
use crate::runner::releases::{self, Release};
use crate::runner::{gate, looking};

/// Why a pipeline cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error(transparent)]
    Look(#[from] LookError),
    #[error(
        "there is no {kind} {name} in namespace {namespace}; `{kubectl} get eventsources,sensors` lists them"
    )]
    NotThere {
        kind: &'static str,
        name: String,
        namespace: String,
        /// How `kubectl` has to be called to look there.
        kubectl: String,
    },
    #[error("EventSource {name} has {known}; name one with --event")]
    WhichEvent { name: String, known: String },
    #[error("Sensor {sensor} has no dependency on {source_name}/{event}; it listens to {known}")]
    NotListening {
        sensor: String,
        source_name: String,
        event: String,
        known: String,
    },
    #[error("{0}")]
    NoWebhook(String),
}

/// Where the webhook takes its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub method: String,
    pub path: String,
    pub service: String,
    /// Port of the Service.
    pub port: u16,
    /// It speaks TLS, with the certificate under this key of this Secret.
    pub tls: Option<SecretKey>,
}

/// A place in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKey {
    pub name: String,
    pub key: String,
}

/// An EventSource's event and a Sensor that listens to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    pub namespace: String,
    pub event_source: Value,
    pub sensor: Value,
    pub event: String,
    /// `default.EVENTSOURCE.EVENT`.
    pub subject: String,
    /// Consumers that the Sensor must have for this event.
    pub subscriptions: Vec<Subscription>,
    /// `debug`, `info`, …: the level of the Sensor's pod; `None` while it has none.
    pub sensor_level: Option<&'static str>,
    pub source_level: Option<&'static str>,
    /// The release that the image of the Sensor's pod names, where it is one that is known.
    pub release: Option<&'static Release>,
    /// How `kubectl` has to be called to look at the same namespace of the same cluster.
    pub kubectl: String,
}

impl Pipeline {
    /// Reads the objects.
    ///
    /// # Errors
    /// [`TraceError`] for what is not there or does not fit together, and when the API could not be asked.
    pub async fn look(
        cluster: &Cluster,
        event_source: &str,
        event: Option<&str>,
        sensor: &str,
    ) -> Result<Self, TraceError> {
        let not_there = |kind, name: &str| TraceError::NotThere {
            kind,
            name: name.to_owned(),
            namespace: cluster.namespace().to_owned(),
            kubectl: cluster.kubectl(),
        };
        let source = looking::get(cluster, &kinds::event_source(), event_source)
            .await?
            .ok_or_else(|| not_there("EventSource", event_source))?;
        let object = looking::get(cluster, &kinds::sensor(), sensor)
            .await?
            .ok_or_else(|| not_there("Sensor", sensor))?;
        let event = choose(&source, event_source, event, &object)?;
        let subject = format!("default.{event_source}.{event}");
        listens(&object, sensor, event_source, &event)?;
        let subscriptions = subscriptions(&object)
            .into_iter()
            .filter(|one| one.subject == subject)
            .collect();
        let sensor_pods = looking::pods(cluster, &format!("sensor-name={sensor}")).await?;
        let source_pods =
            looking::pods(cluster, &format!("eventsource-name={event_source}")).await?;
        Ok(Self {
            namespace: cluster.namespace().to_owned(),
            event_source: source,
            sensor: object,
            event,
            subject,
            subscriptions,
            sensor_level: sensor_pods.first().map(gate::log_level),
            source_level: source_pods.first().map(gate::log_level),
            release: sensor_pods.first().and_then(release),
            kubectl: cluster.kubectl(),
        })
    }

    /// Whether the EventSource drops events of this name itself.
    #[must_use]
    pub fn source_filters(&self) -> bool {
        let spec = self.event_source.get("spec").and_then(Value::as_object);
        spec.into_iter()
            .flatten()
            .filter_map(|(_, events)| events.get(&self.event))
            .any(|event| event.get("filter").is_some_and(|filter| !filter.is_null()))
    }

    /// Whether the Sensor writes a line where an event just does not match.
    #[must_use]
    pub fn writes_mismatches(&self) -> bool {
        match self.release.map(|release| release.mismatch) {
            Some("warn") => self.sensor_level != Some("error"),
            _ => self.sensor_level == Some("debug"),
        }
    }

    /// Whether a trigger makes Workflows in this namespace, as far as it says so itself.
    #[must_use]
    pub fn makes_workflow(&self, trigger: &str) -> bool {
        let triggers = self
            .sensor
            .pointer("/spec/triggers")
            .and_then(Value::as_array);
        let template = triggers
            .into_iter()
            .flatten()
            .map(|one| &one["template"])
            .find(|template| text(template, "/name") == trigger);
        let Some(template) = template else {
            return false;
        };
        let makes = |of: &str, words: [&str; 2]| {
            let spec = &template[of];
            let resource = spec.pointer("/source/resource").unwrap_or(&Value::Null);
            let namespace = text(resource, "/metadata/namespace");
            words.contains(&text(spec, "/operation"))
                && text(resource, "/kind") == "Workflow"
                && ["", self.namespace.as_str()].contains(&namespace)
        };
        makes("k8s", ["", "create"]) || makes("argoWorkflow", ["", "submit"])
    }

    /// How many dependencies of the Sensor listen to the event.
    #[must_use]
    pub fn listeners(&self) -> usize {
        let wanted = (self.source_name().to_owned(), self.event.clone());
        heard(&self.sensor)
            .iter()
            .filter(|one| **one == wanted)
            .count()
    }

    /// The EventBus that the EventSource publishes on.
    #[must_use]
    pub fn event_bus(&self) -> &str {
        kinds::event_bus_of(&self.event_source)
    }

    /// Why no event of the EventSource reaches the Sensor, where both name another EventBus.
    #[must_use]
    pub fn split_bus(&self) -> Option<String> {
        let (source, sensor) = (self.event_bus(), kinds::event_bus_of(&self.sensor));
        (source != sensor).then(|| {
            format!(
                "the EventSource publishes on EventBus {source}, and the Sensor listens to EventBus {sensor}: unless both lead to one server, no event of the one reaches the other"
            )
        })
    }

    /// Name of the EventSource.
    #[must_use]
    pub fn source_name(&self) -> &str {
        text(&self.event_source, "/metadata/name")
    }

    /// Name of the Sensor.
    #[must_use]
    pub fn sensor_name(&self) -> &str {
        text(&self.sensor, "/metadata/name")
    }

    /// Where one request has to go; `reached` where an address was given that leads to the webhook without its Service.
    ///
    /// # Errors
    /// [`TraceError::NoWebhook`].
    pub fn webhook(&self, reached: bool) -> Result<Webhook, TraceError> {
        let none = |why: String| {
            TraceError::NoWebhook(format!(
                "EventSource {}, event {}: {why}; send the event as you always do and look for it with --no-send --arrival ID",
                self.source_name(),
                self.event
            ))
        };
        let spec = self
            .event_source
            .pointer("/spec/webhook")
            .and_then(|webhooks| webhooks.get(&self.event))
            .ok_or_else(|| none("it is no webhook".to_owned()))?;
        let port = number(&spec["port"]).ok_or_else(|| none("it names no port".to_owned()))?;
        let service_port = if reached {
            port
        } else {
            self.service_port(port).map_err(none)?
        };
        let path = text(spec, "/endpoint");
        let method = text(spec, "/method");
        Ok(Webhook {
            method: if method.is_empty() { "POST" } else { method }.to_owned(),
            path: encoded_path(if path.is_empty() { "/" } else { path }),
            service: format!("{}-eventsource-svc", self.source_name()),
            port: service_port,
            tls: certificate(spec),
        })
    }

    /// The port of the EventSource's Service that leads to a port of its pod.
    fn service_port(&self, port: u16) -> Result<u16, String> {
        let ports = self
            .event_source
            .pointer("/spec/service/ports")
            .and_then(Value::as_array)
            .ok_or(
                "the EventSource has no `service` (--webhook ADDRESS:PORT names another way in)",
            )?;
        let leads = |number: &u16| {
            let entry = kinds::service_port(&self.event_source, *number);
            entry.and_then(|entry| kinds::event_source_port(&self.event_source, &entry))
                == Some(port)
        };
        ports
            .iter()
            .filter_map(|entry| number(&entry["port"]))
            .find(leads)
            .ok_or_else(|| format!("its Service has no port for {port}"))
    }
}

impl Webhook {
    /// The request with a trace in its header.
    #[must_use]
    pub fn request(&self, headers: &[(String, String)], body: Vec<u8>, trace: &str) -> Request {
        let mut headers = headers.to_vec();
        if !headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
        }
        headers.push((TRACE_HEADER.to_owned(), trace.to_owned()));
        Request {
            method: self.method.clone(),
            path: self.path.clone(),
            headers,
            body,
            lose_answer: false,
        }
    }
}

/// Where the certificate of a webhook stands that speaks TLS: it does with a certificate and a key alone.
fn certificate(webhook: &Value) -> Option<SecretKey> {
    let secret = |field: &str| webhook.get(field).filter(|secret| secret.is_object());
    secret("serverKeySecret")?;
    let certificate = secret("serverCertSecret")?;
    Some(SecretKey {
        name: text(certificate, "/name").to_owned(),
        key: text(certificate, "/key").to_owned(),
    })
}

/// The release that the image of a pod's container `main` names.
fn release(pod: &Value) -> Option<&'static Release> {
    let containers = pod.pointer("/spec/containers")?.as_array()?;
    let main = containers.iter().find(|one| text(one, "/name") == "main")?;
    let image = text(main, "/image").split('@').next()?;
    let (_, tag) = image.rsplit('/').next()?.split_once(':')?;
    releases::of_version(tag)
}

/// A port, which webhooks write as a text.
fn number(value: &Value) -> Option<u16> {
    match value {
        Value::Number(number) => u16::try_from(number.as_u64()?).ok(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// The event that was named, else the only one that both sides know.
fn choose(
    source: &Value,
    source_name: &str,
    named: Option<&str>,
    sensor: &Value,
) -> Result<String, TraceError> {
    if let Some(event) = named {
        return Ok(event.to_owned());
    }
    let heard = heard(sensor);
    let mut events: Vec<String> = events(source);
    let both: Vec<String> = events
        .iter()
        .filter(|event| heard.contains(&(source_name.to_owned(), (*event).clone())))
        .cloned()
        .collect();
    if !both.is_empty() {
        events = both;
    }
    match events.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(TraceError::WhichEvent {
            name: source_name.to_owned(),
            known: "no event that eventlab can see".to_owned(),
        }),
        several => Err(TraceError::WhichEvent {
            name: source_name.to_owned(),
            known: several.join(", "),
        }),
    }
}

/// The events of an EventSource, of whatever kind.
fn events(source: &Value) -> Vec<String> {
    const OTHER: [&str; 6] = [
        "eventBusName",
        "template",
        "service",
        "replicas",
        "revisionHistoryLimit",
        "loggingFields",
    ];
    let spec = source.get("spec").and_then(Value::as_object);
    spec.into_iter()
        .flatten()
        .filter(|(kind, _)| !OTHER.contains(&kind.as_str()))
        .filter_map(|(_, events)| events.as_object())
        .flat_map(|events| events.keys().cloned())
        .collect()
}

/// EventSource and event of each dependency.
fn heard(sensor: &Value) -> Vec<(String, String)> {
    let dependencies = sensor
        .pointer("/spec/dependencies")
        .and_then(Value::as_array);
    dependencies
        .into_iter()
        .flatten()
        .map(|one| {
            (
                text(one, "/eventSourceName").to_owned(),
                text(one, "/eventName").to_owned(),
            )
        })
        .collect()
}

fn listens(object: &Value, sensor: &str, source: &str, event: &str) -> Result<(), TraceError> {
    let heard = heard(object);
    if heard.contains(&(source.to_owned(), event.to_owned())) {
        return Ok(());
    }
    let known: Vec<String> = heard
        .iter()
        .map(|(source, event)| format!("{source}/{event}"))
        .collect();
    Err(TraceError::NotListening {
        sensor: sensor.to_owned(),
        source_name: source.to_owned(),
        event: event.to_owned(),
        known: known.join(", "),
    })
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    pub(in crate::runner::trace) fn pipeline() -> Pipeline {
        let sensor = json!({"metadata": {"name": "shop", "namespace": "ns"}, "spec": {
            "dependencies": [{"name": "d", "eventSourceName": "web", "eventName": "order"}],
            "triggers": [{"template": {"name": "t", "k8s": {"operation": "create", "source": {"resource": {"kind": "Workflow"}}}}}]}});
        Pipeline {
            namespace: "ns".into(),
            event_source: json!({"metadata": {"name": "web"}, "spec": {
                "service": {"ports": [{"port": 80, "targetPort": 12000}]},
                "webhook": {"order": {"port": "12000", "endpoint": "/order", "method": "PUT"}, "plain": {"port": "1"}}}}),
            subscriptions: subscriptions(&sensor),
            sensor,
            event: "order".into(),
            subject: "default.web.order".into(),
            sensor_level: Some("info"),
            source_level: Some("info"),
            release: releases::of_version("v1.9.11"),
            kubectl: "kubectl -n ns".into(),
        }
    }

    /// Before 1.9 a mismatch was a warning.
    #[test]
    fn what_a_sensor_writes_is_a_matter_of_its_release() {
        let pod = |image: &str| json!({"spec": {"containers": [{"name": "main", "image": image}]}});
        for (image, level, writes) in [
            ("quay.io/argoproj/argo-events:v1.9.11", "info", false),
            ("quay.io/argoproj/argo-events:v1.9.11", "debug", true),
            (
                "mirror.corp:5000/argo-events:v1.8.1@sha256:abc",
                "info",
                true,
            ),
            ("quay.io/argoproj/argo-events:v1.7.6", "error", false),
            ("mirror.corp:5000/argo-events", "info", false),
            ("argo-events@sha256:abc", "debug", true),
            ("", "info", false),
        ] {
            let one = Pipeline {
                release: release(&pod(image)),
                sensor_level: Some(level),
                ..pipeline()
            };
            assert_eq!(one.writes_mismatches(), writes, "{image} {level}");
        }
    }

    #[test]
    fn a_trigger_makes_workflows_where_it_says_so() {
        let workflow = json!({"source": {"resource": {"kind": "Workflow"}}});
        let with = |key: &str, value: Value| {
            let mut trigger = workflow.clone();
            trigger[key] = value;
            trigger
        };
        let elsewhere = |namespace: &str| json!({"source": {"resource": {"kind": "Workflow", "metadata": {"namespace": namespace}}}});
        for (template, makes) in [
            (json!({"name": "t", "k8s": workflow}), true),
            (
                json!({"name": "t", "k8s": with("operation", json!("create"))}),
                true,
            ),
            (
                json!({"name": "t", "k8s": with("operation", json!("delete"))}),
                false,
            ),
            (
                json!({"name": "t", "argoWorkflow": with("operation", json!("submit"))}),
                true,
            ),
            (
                json!({"name": "t", "argoWorkflow": with("operation", json!("retry"))}),
                false,
            ),
            (json!({"name": "t", "k8s": elsewhere("ns")}), true),
            (json!({"name": "t", "k8s": elsewhere("other")}), false),
            (
                json!({"name": "t", "k8s": {"source": {"resource": {"kind": "Job"}}}}),
                false,
            ),
            (json!({"name": "t", "k8s": {"source": {"git": {}}}}), false),
            (json!({"name": "t", "http": {"url": "u"}}), false),
            (json!({"name": "other", "k8s": workflow}), false),
            (Value::Null, false),
        ] {
            let mut one = pipeline();
            one.sensor["spec"]["triggers"] = json!([{"template": template}]);
            assert_eq!(one.makes_workflow("t"), makes, "{template}");
        }
    }

    #[test]
    fn filters_and_buses_of_its_own_are_seen() {
        let mut one = pipeline();
        assert!(!one.source_filters() && one.split_bus().is_none());
        one.event_source["spec"]["webhook"]["plain"]["filter"] = json!({"expression": "a == 1"});
        assert!(!one.source_filters());
        one.event_source["spec"]["webhook"]["order"]["filter"] = json!({"expression": "a == 1"});
        assert!(one.source_filters());
        one.sensor["spec"]["eventBusName"] = json!("default");
        assert_eq!((one.split_bus(), one.event_bus()), (None, "default"));
        one.sensor["spec"]["eventBusName"] = json!("shop");
        let split = one.split_bus().unwrap();
        assert!(
            split.contains("listens to EventBus shop") && split.contains("on EventBus default"),
            "{split}"
        );
        one.event_source["spec"]["eventBusName"] = json!("shop");
        assert_eq!((one.split_bus(), one.event_bus()), (None, "shop"));
    }

    #[test]
    fn the_webhook_is_found_behind_its_service() {
        let webhook = pipeline().webhook(false).unwrap();
        assert_eq!(
            (webhook.method.as_str(), webhook.path.as_str(), webhook.port),
            ("PUT", "/order", 80)
        );
        assert_eq!(webhook.service, "web-eventsource-svc");
        let mut other = pipeline();
        other.event = "plain".into();
        assert!(
            other
                .webhook(false)
                .unwrap_err()
                .to_string()
                .contains("no port for 1")
        );
        other.event_source["spec"]["service"] = Value::Null;
        assert!(
            other
                .webhook(false)
                .unwrap_err()
                .to_string()
                .contains("no `service`")
        );
        // An address of one's own needs no Service.
        assert_eq!(other.webhook(true).unwrap().port, 1);
        // A certificate without a key is not used.
        let half = json!({"name": "s", "key": "tls.crt"});
        other.event_source["spec"]["webhook"]["plain"]["serverCertSecret"] = half;
        assert_eq!(other.webhook(true).unwrap().tls, None);
        other.event_source["spec"]["webhook"]["plain"]["serverKeySecret"] = json!({"name": "s"});
        let tls = other.webhook(true).unwrap().tls.unwrap();
        assert_eq!((tls.name.as_str(), tls.key.as_str()), ("s", "tls.crt"));
        other.event = "kafka".into();
        assert!(
            other
                .webhook(false)
                .unwrap_err()
                .to_string()
                .contains("--no-send")
        );
    }

    #[test]
    fn the_only_event_that_both_sides_know_needs_no_name() {
        let one = pipeline();
        let chosen = choose(&one.event_source, "web", None, &one.sensor).unwrap();
        assert_eq!(chosen, "order");
        let deaf = json!({"spec": {"dependencies": []}});
        let error = choose(&one.event_source, "web", None, &deaf).unwrap_err();
        assert!(error.to_string().contains("order, plain"), "{error}");
        assert!(listens(&one.sensor, "shop", "web", "plain").is_err());
    }
}
