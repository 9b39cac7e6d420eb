//! One trigger from its condition to its subscription, kept alive across losses of the bus.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::backoff::Backoff;
use super::super::bus_link::Link;
use super::super::environment::{BusSettings, StartError};
use super::super::log::Logger;
use super::super::tasks::Tasks;
use super::Timing;
use super::action::Actions;
use super::connection::{Connection, Subscription};
use super::spec::{Sensor, Trigger};
use crate::embedded::bus::{BusConnector, BusError};
use crate::sensor::conditions::Conditions;

/// What the triggers of one Sensor share.
#[derive(Clone)]
pub(super) struct Listener {
    pub sensor: Arc<Sensor>,
    pub connector: BusConnector,
    pub settings: Arc<BusSettings>,
    pub actions: Arc<Actions>,
    pub tasks: Tasks,
    pub timing: Timing,
    pub log: Logger,
}

impl Listener {
    /// Listens for one trigger; ends early when it cannot be subscribed at all.
    pub(super) async fn listen(self, trigger: Arc<Trigger>) -> Result<(), StartError> {
        let log = self.log.with("triggerName", trigger.name.as_str());
        let Some(subscription) = self.prepare(&trigger, &log) else {
            return Ok(());
        };
        let connected = Backoff::DEFAULT.retry(|| self.connect(&subscription)).await;
        let connection = connected.map_err(|error| {
            log.fatal(
                "failed to connect to event bus",
                &[("error", error.as_str().into())],
            );
            StartError(format!("failed to connect to event bus: {error}"))
        })?;
        log.debug(&format!("just created connection {connection}"), &[]);
        self.keep(subscription, connection, &log).await;
        Ok(())
    }

    /// The subscription of a trigger; `None`, with a line that says why, when there can be none.
    fn prepare(&self, trigger: &Arc<Trigger>, log: &Logger) -> Option<Arc<Subscription>> {
        let names: Vec<_> = self
            .sensor
            .dependencies
            .iter()
            .map(|dependency| dependency.name.clone())
            .collect();
        let conditions = match Conditions::parse(&trigger.conditions, &names) {
            Ok(conditions) => conditions,
            Err(error) => {
                log.error(
                    "failed to get dependency expression",
                    &[("error", error.to_string().into())],
                );
                return None;
            }
        };
        self.log.info(
            &format!(
                "Dependency expression for trigger {}: {conditions}",
                trigger.name
            ),
            &[],
        );
        let mut dependencies = Vec::new();
        let mut refused = trigger.refused.clone();
        for name in conditions.dependencies() {
            let Some(dependency) = self.sensor.dependency(name) else {
                log.error(
                    &format!("Dependency expression and dependency list do not match, {name} is not found"),
                    &[],
                );
                return None;
            };
            if let Err(reason) = &dependency.judge {
                refused = refused.or_else(|| Some(format!("dependency {name}: {reason}")));
            }
            dependencies.push(Arc::clone(dependency));
        }
        if let Some(reason) = refused {
            log.error(
                &format!(
                    "eventlab: trigger {} is not subscribed: {reason}",
                    trigger.name
                ),
                &[],
            );
            return None;
        }
        Some(Arc::new(Subscription {
            sensor: self.sensor.name.clone(),
            trigger: Arc::clone(trigger),
            conditions,
            dependencies,
            actions: Arc::clone(&self.actions),
            tasks: self.tasks.clone(),
            timing: self.timing,
            log: self.log.clone(),
        }))
    }

    async fn connect(&self, subscription: &Arc<Subscription>) -> Result<Arc<Connection>, BusError> {
        let link = Link::connect(&self.connector, &self.settings, &self.log).await?;
        Ok(Arc::new(Connection::new(Arc::clone(subscription), link)))
    }

    /// Looks every few seconds: a lost connection is replaced, a subscription that ended is tried again.
    async fn keep(
        self,
        subscription: Arc<Subscription>,
        mut connection: Arc<Connection>,
        log: &Logger,
    ) {
        let mut running = Running::start(&self.tasks, &connection, log);
        log.info(
            &format!("starting eventbus connection daemon for client {connection}..."),
            &[],
        );
        let mut ticker = tokio::time::interval_at(
            tokio::time::Instant::now() + self.timing.look,
            self.timing.look,
        );
        loop {
            ticker.tick().await;
            if connection.link.is_closed() {
                log.info("EventBus connection lost, reconnecting...", &[]);
                connection = match self.connect(&subscription).await {
                    Ok(connection) => connection,
                    Err(error) => {
                        log.error(
                            "failed to reconnect to eventbus",
                            &[("error", error.to_string().into())],
                        );
                        continue;
                    }
                };
                log.info(
                    "reconnected to EventBus.",
                    &[("connection", connection.to_string().into())],
                );
                if running.ended() {
                    log.debug("sublock not acquired", &[]);
                } else {
                    log.debug(
                        "acquired sublock, instructing trigger to shutdown subscription",
                        &[],
                    );
                    running.stop.cancel();
                    tokio::time::sleep(self.timing.closing).await;
                }
            }
            if running.ended() {
                running = Running::start(&self.tasks, &connection, log);
            }
        }
    }
}

/// A subscription at work.
struct Running {
    stop: CancellationToken,
    task: JoinHandle<Option<()>>,
}

impl Running {
    fn start(tasks: &Tasks, connection: &Arc<Connection>, log: &Logger) -> Running {
        let stop = CancellationToken::new();
        let (connection, log, stopped) = (Arc::clone(connection), log.clone(), stop.clone());
        let task = tasks.spawn(async move {
            // Only an intent: nothing is subscribed yet.
            log.info(
                &format!(
                    "started subscribing to events for trigger {} with client connection {connection}",
                    connection.trigger()
                ),
                &[],
            );
            let client = ("connection", connection.to_string().into());
            match connection.subscribe(&stopped).await {
                Ok(()) => log.debug(&format!("exiting subscribe goroutine, conn={connection}"), &[]),
                Err(error) => log.error("failed to subscribe to eventbus", &[client, ("error", error.into())]),
            }
        });
        Running { stop, task }
    }

    fn ended(&self) -> bool {
        self.task.is_finished()
    }
}
