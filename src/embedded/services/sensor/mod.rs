//! `sensor-service`: events from the bus, judged and turned into objects, in Argo Events' order and words.
//!
//! Called from the node through [`run`]. The object comes in `SENSOR_OBJECT`, the bus in `EVENTBUS_CONFIG`.

mod action;
mod argo;
mod bucket;
pub mod cloud_event;
mod connection;
mod election;
mod heartbeat;
mod k8s;
mod listener;
mod spec;

pub use election::GAP_ANNOTATION;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::Value;

use self::action::Actions;
use self::bucket::Bucket;
use self::election::{Elector, Gap};
use self::listener::Listener;
use self::spec::Sensor;
use super::backoff::Backoff;
use super::bus_link::Link;
use super::environment::{self, BusSettings, StartError};
use super::log::Logger;
use super::metrics::Metrics;
use super::tasks::Tasks;
use crate::embedded::node::process::ServiceContext;
use crate::sensor::validate::Condition;

/// Waits of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// An unacknowledged message comes again after this time.
    pub ack_wait: Duration,
    /// How often a trigger looks whether its connection is lost.
    pub look: Duration,
    /// What an old subscription gets to end in.
    pub closing: Duration,
}

impl Timing {
    /// The waits of Argo Events and JetStream.
    pub const UPSTREAM: Timing = Timing {
        ack_wait: Duration::from_secs(30),
        look: Duration::from_secs(5),
        closing: Duration::from_secs(2),
    };
}

/// What of a Sensor this program cannot carry out, for its controller to say so before anything runs.
#[must_use]
pub fn unsupported(object: &Value) -> Option<(Condition, String)> {
    spec::unsupported(object)
}

/// Runs the service.
#[must_use]
pub fn run(context: ServiceContext) -> BoxFuture<'static, i32> {
    run_with(context, Timing::UPSTREAM)
}

/// Runs the service with waits of one's own.
#[must_use]
pub fn run_with(context: ServiceContext, timing: Timing) -> BoxFuture<'static, i32> {
    Box::pin(async move {
        let log = environment::logger(&context, "argo-events.sensor");
        match start(&context, timing, &log).await {
            Ok(()) => 0,
            Err(error) => {
                log.fatal(
                    "failed to listen to events",
                    &[("error", error.to_string().into())],
                );
                context.termination.set(&error.to_string());
                1
            }
        }
    })
}

async fn start(context: &ServiceContext, timing: Timing, log: &Logger) -> Result<(), StartError> {
    let sensor = Arc::new(Sensor::parse(&environment::object(
        context,
        "SENSOR_OBJECT",
    )?)?);
    let settings = Arc::new(BusSettings::read(context).await?);
    environment::required(context, "EVENTBUS_SUBJECT")?;
    let hostname = environment::required(context, "POD_NAME")?.to_owned();
    if context
        .env
        .get("LEADER_ELECTION")
        .is_some_and(|way| way.eq_ignore_ascii_case("k8s"))
    {
        return Err(StartError(
            "eventlab: LEADER_ELECTION=k8s is not supported, leave it out".to_owned(),
        ));
    }
    let log = log.with("sensorName", sensor.name.as_str());
    let (tasks, _guard) = Tasks::new();
    let metrics = Metrics::new(&sensor.namespace);
    metrics.serve(context, &log, &tasks).await;
    log.info("starting sensor server", &[("version", "v1.9.11".into())]);
    let elector = Elector {
        connector: &context.bus,
        settings: &settings,
        log: &log,
        group: format!("graft.{}-sensor-{}", sensor.namespace, sensor.name),
        node: format!("{hostname}-{}", uuid::Uuid::new_v4().simple()),
        gap: Gap::read(context.annotations.get(GAP_ANNOTATION).map(String::as_str)),
    };
    let term = tokio::select! {
        term = elector.stand() => term?,
        () = context.terminate.cancelled() => return Ok(()),
    };
    let service = Active {
        context,
        sensor: Arc::clone(&sensor),
        settings: Arc::clone(&settings),
        metrics,
        tasks,
        timing,
        log: log.clone(),
    };
    tokio::select! {
        // Messages in work are left as they are: the next pod gets them again.
        () = context.terminate.cancelled() => {
            log.info("exiting...", &[]);
            elector.resign(term).await;
            Ok(())
        }
        () = elector.lead(term) => Err(StartError(format!("leader lost: {hostname}"))),
        result = service.listen() => result,
    }
}

/// The Sensor once it is the active one.
struct Active<'a> {
    context: &'a ServiceContext,
    sensor: Arc<Sensor>,
    settings: Arc<BusSettings>,
    metrics: Metrics,
    tasks: Tasks,
    timing: Timing,
    log: Logger,
}

impl Active<'_> {
    /// Stream, bucket and purge, then all triggers at once; ends only with an error.
    async fn listen(self) -> Result<(), StartError> {
        let initialized = Backoff::DEFAULT.retry(|| self.initialize()).await;
        // The management connection stays open, and its loss is logged.
        let _link = initialized.map_err(StartError)?;
        let actions = Arc::new(Actions::new(
            Arc::clone(&self.sensor),
            self.context.client.clone(),
            self.log.clone(),
            self.metrics.clone(),
            self.tasks.clone(),
        ));
        let listener = Listener {
            sensor: Arc::clone(&self.sensor),
            connector: self.context.bus.clone(),
            settings: Arc::clone(&self.settings),
            actions: Arc::clone(&actions),
            tasks: self.tasks.clone(),
            timing: self.timing,
            log: self.log.clone(),
        };
        let mut triggers = FuturesUnordered::new();
        for trigger in &self.sensor.triggers {
            actions.show_counters(&trigger.name);
            triggers.push(
                self.tasks
                    .spawn(listener.clone().listen(Arc::clone(trigger))),
            );
        }
        // It says nothing about subscriptions.
        self.log.info("Sensor started.", &[]);
        while let Some(ended) = triggers.next().await {
            if let Ok(Some(Err(error))) = ended {
                return Err(error);
            }
        }
        futures::future::pending().await
    }

    async fn initialize(&self) -> Result<Link, crate::embedded::bus::BusError> {
        let link = Link::initialize(&self.context.bus, &self.settings, &self.log).await?;
        Bucket::new(Arc::clone(&link.bus), &self.sensor.name)
            .update(&self.sensor, &self.log)
            .await?;
        Ok(link)
    }
}
