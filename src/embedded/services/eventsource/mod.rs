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
            bus: DEFAULT_BUS.to_owned(),
            filter: None,
        }
    }
}

/// The EventBus of what names none.
const DEFAULT_BUS: &str = "default";

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
            bus: bus_of(source),
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
    /// To a server that has nothing at this path.
    NoSuchPath,
    /// Nothing listens there.
    Nobody,
}

/// What of an EventSource object hears a request for a path to a port of its Service.
///
/// # Errors
/// Why an event of it cannot be served, so that this is not known.
pub fn hears(object: &serde_json::Value, port: u16, path: &str) -> Result<Heard, String> {
    let source = EventSource::parse(object).map_err(|error| error.to_string())?;
    let Some(target) = target_port(object, port) else {
        return Ok(Heard::Nobody);
    };
    let mut behind = source.webhooks.into_iter().filter(|one| one.port == target);
    let mut listens = false;
    let found = behind.find(|one| {
        listens = true;
        one.endpoint == path
    });
    match (found, source.refused.into_iter().next()) {
        (Some(webhook), _) if webhook.auth.is_some() => Ok(Heard::Guarded),
        (Some(webhook), _) => Ok(Heard::Event(
            webhook.event.clone(),
            Box::new(Intake::of(webhook, object)),
        )),
        (None, Some(refused)) => Err(refused.reason),
        (None, None) if listens => Ok(Heard::NoSuchPath),
        (None, None) => Ok(Heard::Nobody),
    }
}

/// The port of the pod that a port of the Service leads to.
fn target_port(object: &serde_json::Value, port: u16) -> Option<u16> {
    use serde_json::Value;
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64().and_then(|number| u16::try_from(number).ok()),
    };
    let ports = object.pointer("/spec/service/ports")?.as_array()?;
    let entry = ports
        .iter()
        .find(|entry| number(&entry["port"]) == Some(port))?;
    match &entry["targetPort"] {
        Value::Null => Some(port),
        target => number(target),
    }
}

/// The EventBus that an EventSource or a Sensor names.
#[must_use]
pub fn bus_of(object: &serde_json::Value) -> String {
    let name = object
        .pointer("/spec/eventBusName")
        .and_then(|name| name.as_str());
    name.filter(|name| !name.is_empty())
        .unwrap_or(DEFAULT_BUS)
        .to_owned()
}

/// What upstream calls the type of an event of an EventSource object: the `type` of its CloudEvents.
#[must_use]
pub fn event_type(object: &serde_json::Value, event: &str) -> Option<String> {
    let spec = object.get("spec")?.as_object()?;
    let (kind, _) = spec
        .iter()
        .filter(|(kind, _)| crate::kinds::EVENT_TYPES.contains(&kind.as_str()))
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
