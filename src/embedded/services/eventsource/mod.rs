//! `eventsource-service`: webhook requests in, CloudEvents on the bus, as Argo Events does it.
//!
//! Called from the node through [`run`]. The object comes in `EVENTSOURCE_OBJECT`, the bus in `EVENTBUS_CONFIG`.

mod config;
mod expression;
mod form;
mod http;
mod json;
mod path;
pub mod payload;
mod publish;
mod valid;
mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::Semaphore;

use self::config::{EventSource, Webhook};
use self::expression::{Expression, Failure};
use self::path::Routed;
use self::publish::Publisher;
pub use self::valid::validate;
use self::webhook::Route;
use super::backoff::Backoff;
use super::bus_link::Link;
use super::environment::{self, BusSettings, StartError};
use super::log::Logger;
use super::metrics::{Metric, Metrics};
use super::tasks::Tasks;
use crate::embedded::node::process::ServiceContext;
use crate::kinds::{self, DEFAULT_EVENT_BUS, EVENT_TYPES};

/// Large request bodies that are in memory at once.
const MAX_BODIES: usize = 32;

/// What a webhook event of an EventSource does with a request before it becomes event data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intake {
    /// The method it takes; empty where the EventSource names none.
    pub method: String,
    /// Largest body in bytes.
    pub max_payload: u64,
    /// What is added to every event.
    pub metadata: BTreeMap<String, String>,
    /// Name and key of the Secret with the bearer token that it asks for.
    pub auth: Option<(String, String)>,
    /// The EventBus that it publishes to.
    pub bus: String,
    filter: Option<Expression>,
}

impl Default for Intake {
    /// POST, and upstream's limit of the body.
    fn default() -> Self {
        Self {
            method: "POST".to_owned(),
            max_payload: config::DEFAULT_PAYLOAD,
            metadata: BTreeMap::new(),
            auth: None,
            bus: DEFAULT_EVENT_BUS.to_owned(),
            filter: None,
        }
    }
}

/// What an EventSource's filter does with an event, and the line that upstream logs of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It goes on to the bus.
    Admitted,
    /// It is answered with 200 and goes nowhere.
    Dropped {
        /// The filter's expression.
        expression: String,
        /// Level, text and error of the line.
        level: &'static str,
        message: &'static str,
        error: Option<String>,
    },
    /// The filter asks for more than this program does; what upstream would do is not known.
    Stopped(String),
}

impl Intake {
    fn of(webhook: Webhook, source: &serde_json::Value) -> Self {
        Self {
            method: webhook.method,
            max_payload: webhook.max_payload,
            metadata: webhook.metadata,
            auth: webhook.auth,
            bus: kinds::event_bus_of(source).to_owned(),
            filter: webhook.filter,
        }
    }

    /// Asks the event's filter, where it has one.
    #[must_use]
    pub fn admission(&self, data: &[u8]) -> Admission {
        let Some(filter) = &self.filter else {
            return Admission::Admitted;
        };
        let (level, message, error) = match filter.admits(data) {
            Ok(true) => return Admission::Admitted,
            Ok(false) => ("debug", webhook::FILTERED_LINE, None),
            Err(Failure::Stopped(error)) => return Admission::Stopped(error),
            Err(Failure::Failed(error)) => ("error", webhook::FILTER_FAILED_LINE, Some(error)),
        };
        Admission::Dropped {
            expression: filter.text().to_owned(),
            level,
            message,
            error,
        }
    }
}

/// The intake of an event of an EventSource object; `None` if the object has no such event.
///
/// # Errors
/// Why the event cannot be served.
pub fn intake(object: &serde_json::Value, event: &str) -> Result<Option<Intake>, String> {
    let source = EventSource::parse(object).map_err(|error| error.to_string())?;
    if let Some(refused) = source.refused.iter().find(|refused| refused.event == event) {
        return Err(refused.reason.clone());
    }
    let found = source
        .webhooks
        .into_iter()
        .find(|webhook| webhook.event == event);
    Ok(found.map(|webhook| Intake::of(webhook, object)))
}

/// Where a request to a port of an EventSource's Service leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// To the event of this name, which takes it in so.
    Event(String, Box<Intake>),
    /// To an event that asks for a token first.
    Guarded,
    /// To a server that answers by itself, with this status and text: it has no event at this path.
    Unrouted(u16, &'static str),
    /// Nothing listens there.
    Nobody,
}

/// What of an EventSource object hears a request for a path, as it stands in the request, to a port of its Service.
///
/// # Errors
/// Why an event of it cannot be served, so that this is not known.
pub fn hears(object: &serde_json::Value, port: u16, path: &str) -> Result<Heard, String> {
    let source = EventSource::parse(object).map_err(|error| error.to_string())?;
    let entry = kinds::service_port(object, port);
    let Some(target) = entry.and_then(|entry| kinds::event_source_port(object, &entry)) else {
        return Ok(Heard::Nobody);
    };
    let mut behind: Vec<Webhook> = source.webhooks;
    behind.retain(|one| one.port == target);
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let endpoints = behind.iter().map(|one| one.endpoint.as_str());
    let answer = match path::route(path, query, endpoints) {
        Routed::To(number) => {
            let webhook = behind.swap_remove(number);
            if webhook.auth.is_some() {
                return Ok(Heard::Guarded);
            }
            let event = webhook.event.clone();
            return Ok(Heard::Event(event, Box::new(Intake::of(webhook, object))));
        }
        Routed::Malformed => Heard::Unrouted(400, "400 Bad Request"),
        Routed::Moved(_) => Heard::Unrouted(301, ""),
        Routed::Health => Heard::Unrouted(200, "OK"),
        Routed::Nowhere => Heard::Unrouted(404, "404 page not found"),
    };
    match source.refused.into_iter().next() {
        Some(refused) => Err(refused.reason),
        None if behind.is_empty() => Ok(Heard::Nobody),
        None => Ok(answer),
    }
}

/// An endpoint as it stands in the request line of a request to it.
#[must_use]
pub fn encoded_path(endpoint: &str) -> String {
    path::encode(endpoint.as_bytes())
}

/// What upstream calls the type of an event of an EventSource object: the `type` of its CloudEvents.
#[must_use]
pub fn event_type(object: &serde_json::Value, event: &str) -> Option<String> {
    let spec = object.get("spec")?.as_object()?;
    let (kind, _) = spec
        .iter()
        .filter(|(kind, _)| EVENT_TYPES.contains(&kind.as_str()))
        .find(|(_, events)| events.get(event).is_some())?;
    // Two are not called as they are written.
    Some(match kind.as_str() {
        "pubSub" | "storageGrid" => kind.to_ascii_lowercase(),
        _ => kind.clone(),
    })
}

/// Why a filter expression cannot be evaluated here; `None` when it can be.
#[must_use]
pub fn expression_objection(text: &str) -> Option<String> {
    Expression::parse(text).err()
}

/// Runs the service.
#[must_use]
pub fn run(context: ServiceContext) -> BoxFuture<'static, i32> {
    Box::pin(async move {
        let log = environment::logger(&context, "argo-events.eventsource");
        match start(&context, &log).await {
            Ok(()) => 0,
            Err(error) => {
                log.fatal(
                    "failed to start eventsource server",
                    &[("error", error.to_string().into())],
                );
                context.termination.set(&error.to_string());
                1
            }
        }
    })
}

async fn start(context: &ServiceContext, log: &Logger) -> Result<(), StartError> {
    let source = EventSource::parse(&environment::object(context, "EVENTSOURCE_OBJECT")?)?;
    let settings = BusSettings::read(context).await?;
    environment::required(context, "EVENTBUS_SUBJECT")?;
    environment::required(context, "POD_NAME")?;
    let log = log.with("eventSourceName", source.name.as_str());
    let metrics = Metrics::new(&source.namespace);
    let (tasks, _guard) = Tasks::new();
    metrics.serve(context, &log, &tasks).await;
    log.info(
        "starting eventsource server",
        &[("version", "v1.9.11".into())],
    );
    log.info("Starting event source server...", &[]);
    let link = Backoff::DEFAULT.retry(|| Link::initialize(&context.bus, &settings, &log));
    let link = tokio::select! {
        link = link => link,
        () = context.terminate.cancelled() => return Ok(()),
    };
    let link = link.map_err(|error| {
        log.error(
            "failed to connect to eventbus",
            &[("error", error.as_str().into())],
        );
        StartError(error)
    })?;
    let publisher = Arc::new(Publisher::new(&source.name, log.clone(), metrics, link));
    serve(context, source, &settings, &publisher, &tasks).await
}

async fn serve(
    context: &ServiceContext,
    source: EventSource,
    settings: &BusSettings,
    publisher: &Arc<Publisher>,
    tasks: &Tasks,
) -> Result<(), StartError> {
    let log = &publisher.log;
    for refused in &source.refused {
        let names = [
            ("eventName", refused.event.as_str().into()),
            ("eventSourceType", refused.kind.as_str().into()),
        ];
        let [name, kind] = names;
        log.error(
            "Validation failed",
            &[("error", refused.reason.as_str().into()), name, kind],
        );
    }
    let started = start_routes(context, source.webhooks, publisher, tasks).await;
    log.info("Eventing server started.", &[]);
    if started == 0 {
        log.error("Erroring out, no active event server running", &[]);
        let reasons = source
            .refused
            .into_iter()
            .map(|refused| format!("{}: {}", refused.event, refused.reason));
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        return Err(StartError(format!(
            "no active event server running ({reasons})"
        )));
    }
    publisher
        .keep_connected(&context.bus, settings, &context.terminate)
        .await;
    log.info("Shutting down...", &[]);
    Ok(())
}

/// Opens every port with its routes; answers how many events are served.
async fn start_routes(
    context: &ServiceContext,
    webhooks: Vec<Webhook>,
    publisher: &Arc<Publisher>,
    tasks: &Tasks,
) -> usize {
    let served = webhooks.len();
    let bodies = Arc::new(Semaphore::new(MAX_BODIES));
    let mut ports: BTreeMap<u16, Vec<Route>> = BTreeMap::new();
    for webhook in webhooks {
        let log = publisher
            .log
            .with("eventSourceType", "webhook")
            .with("eventName", webhook.event.as_str());
        let labels = [webhook.event.as_str(), publisher.source.as_str()];
        for metric in [
            Metric::EventsSent,
            Metric::EventsSentFailed,
            Metric::EventsProcessingFailed,
        ] {
            publisher.metrics.add(metric, labels, 0);
        }
        log.info("started processing the webhook event source...", &[]);
        log.info("validating the route...", &[]);
        log.info("listening to payloads for the route...", &[]);
        log.info("activating the route...", &[]);
        let routes = ports.entry(webhook.port).or_default();
        // Of several events with one endpoint on one port, the first gets the requests.
        if !routes
            .iter()
            .any(|route| route.webhook.endpoint == webhook.endpoint)
        {
            routes.push(Route::new(
                webhook,
                Arc::clone(&context.files),
                Arc::clone(publisher),
                Arc::clone(&bodies),
                log,
            ));
        }
    }
    for (port, routes) in ports {
        open_port(context, port, routes, &publisher.log, tasks).await;
    }
    served
}

async fn open_port(
    context: &ServiceContext,
    port: u16,
    routes: Vec<Route>,
    log: &Logger,
    tasks: &Tasks,
) {
    let port_field = || ("port", port.to_string().into());
    let listener = match context.ports.bind(port).await {
        Ok(listener) => listener,
        Err(error) => {
            log.error(
                "failed to listen and serve",
                &[port_field(), ("error", error.to_string().into())],
            );
            return;
        }
    };
    for route in &routes {
        let endpoint = ("endpoint", route.webhook.endpoint.as_str().into());
        log.info(
            "route is activated",
            &[
                ("eventName", route.webhook.event.as_str().into()),
                port_field(),
                endpoint,
            ],
        );
        log.info("running operations post route activation...", &[]);
    }
    tasks.spawn(http::serve(listener, Arc::new(routes), tasks.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_is_heard_by_its_decoded_path_behind_its_port() {
        let source = |port: serde_json::Value| {
            json!({"metadata": {"name": "s"}, "spec": {
                "service": {"ports": [port]},
                "template": {"container": {"ports": [{"name": "web", "containerPort": 12000}]}},
                "webhook": {
                    "plain": {"endpoint": "/orders", "port": "12000", "method": "POST"},
                    "odd": {"endpoint": "/a b", "port": "12000", "method": "POST"},
                    "other": {"endpoint": "/orders", "port": "12001", "method": "POST"},
                },
            }})
        };
        let event = |object: &serde_json::Value, path: &str| match hears(object, 12000, path) {
            Ok(Heard::Event(event, _)) => event,
            Ok(Heard::Unrouted(status, _)) => status.to_string(),
            other => format!("{other:?}"),
        };
        let plain = source(json!({"port": 12000}));
        for (path, heard) in [
            ("/orders", "plain"),
            ("/%6Frders?a=%zz", "plain"),
            ("/a%20b", "odd"),
            ("/a+b", "404"),
            ("/orders%3F", "404"),
            ("//orders", "301"),
            ("/x/%2e%2e/orders", "301"),
            ("/orders%", "400"),
            ("/health", "200"),
        ] {
            assert_eq!(event(&plain, path), heard, "{path}");
            assert_eq!(hears(&plain, 80, path), Ok(Heard::Nobody));
        }
        for endpoint in ["/orders", "/a b"] {
            let heard = event(&plain, &encoded_path(endpoint));
            assert!(["plain", "odd"].contains(&heard.as_str()), "{heard}");
        }
        for (target, heard) in [
            (json!(null), "plain"),
            (json!(0), "plain"),
            (json!(""), "plain"),
            (json!(12000), "plain"),
            (json!(12001), "other"),
            (json!("web"), "plain"),
            (json!("12001"), "Ok(Nobody)"),
            (json!(12002), "Ok(Nobody)"),
        ] {
            let object = source(json!({"port": 12000, "targetPort": target}));
            assert_eq!(event(&object, "/orders"), heard, "{target}");
        }
    }

    /// Every type is one of upstream's `EventSourceSpec`, and each of those is known.
    #[test]
    fn every_type_of_upstream_is_known() {
        const UPSTREAM: &str = "minio calendar file resource webhook amqp kafka mqtt nats sns sqs pubSub github gitlab hdfs \
            slack storageGrid azureEventsHub stripe emitter redis nsq pulsar generic bitbucketserver bitbucket redisStream \
            azureServiceBus azureQueueStorage sftp gerrit mns";
        let upstream: std::collections::BTreeSet<&str> = UPSTREAM.split_whitespace().collect();
        let known: std::collections::BTreeSet<&str> = EVENT_TYPES.into_iter().collect();
        assert_eq!(upstream, known);
        for kind in upstream {
            let object = json!({"metadata": {"name": "s"}, "spec": {kind: {"e": {}}}});
            assert!(event_type(&object, "e").is_some_and(|named| named.eq_ignore_ascii_case(kind)));
            if kind != "webhook" {
                assert!(intake(&object, "e").is_err_and(|why| why.contains(kind)));
                assert!(validate("s", &object["spec"]).is_err());
            }
        }
    }
}
