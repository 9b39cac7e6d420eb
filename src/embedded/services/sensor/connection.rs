//! One trigger's connection to the bus: its subscriptions, and what becomes of each message.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::bus_link::Link;
use super::super::log::Logger;
use super::super::tasks::Tasks;
use super::Timing;
use super::action::Actions;
use super::bucket::{Bucket, STREAM, Waiting, durable_name};
use super::cloud_event;
use super::spec::{Dependency, Judge, Reset, Trigger};
use crate::embedded::bus::{BusError, ConsumerConfig, Delivery};
use crate::sensor::Event;
use crate::sensor::conditions::Conditions;
use crate::sensor::parameters::Events;

/// How long one pull waits.
const FETCH: Duration = Duration::from_secs(1);
/// An error of a pull is logged this often at most, unless it changes.
const ERROR_PAUSE: Duration = Duration::from_secs(10);
/// Wait after a pull that failed.
const RETRY: Duration = Duration::from_millis(100);
/// How often a message in work gets more time.
const PROGRESS: Duration = Duration::from_millis(500);
/// Longest sleep before a reset of conditions.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Ids of messages are remembered for so long.
const MEMORY: Duration = Duration::from_secs(60);

/// What one trigger listens to.
pub(super) struct Subscription {
    pub sensor: String,
    pub trigger: Arc<Trigger>,
    pub conditions: Conditions,
    /// The dependencies of its conditions, in their order.
    pub dependencies: Vec<Arc<Dependency>>,
    pub actions: Arc<Actions>,
    pub tasks: Tasks,
    pub timing: Timing,
    pub log: Logger,
}

/// A subscription over one connection.
pub(super) struct Connection {
    subscription: Arc<Subscription>,
    pub link: Link,
    bucket: Bucket,
    log: Logger,
    /// One message of the trigger at a time; holds the ids seen lately.
    turn: Arc<Mutex<Recent>>,
}

/// Ids seen within the last minute.
#[derive(Default)]
struct Recent {
    ids: HashSet<String>,
    by_time: VecDeque<(Instant, String)>,
}

impl Recent {
    fn knows(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    fn remember(&mut self, id: &str, now: Instant) {
        self.ids.insert(id.to_owned());
        self.by_time.push_back((now, id.to_owned()));
        while let Some((time, _)) = self.by_time.front()
            && now.duration_since(*time) > MEMORY
            && let Some((_, id)) = self.by_time.pop_front()
        {
            self.ids.remove(&id);
        }
    }
}

impl Connection {
    pub(super) fn new(subscription: Arc<Subscription>, link: Link) -> Connection {
        let log = subscription
            .log
            .with("triggerName", subscription.trigger.name.as_str());
        let sensor = &subscription.sensor;
        log.info(
            &format!("Successfully located K/V store for sensor {sensor}"),
            &[],
        );
        Connection {
            bucket: Bucket::new(Arc::clone(&link.bus), sensor),
            subscription,
            link,
            log,
            turn: Arc::default(),
        }
    }

    /// Name of its trigger.
    pub(super) fn trigger(&self) -> &str {
        &self.subscription.trigger.name
    }

    /// Subscribes to every distinct subject and pulls until `stop`.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        self.forget_before_the_last_reset().await;
        let mut pulls = Vec::new();
        for (subject, dependency) in self.subjects() {
            let (sensor, trigger) = (&self.subscription.sensor, &self.subscription.trigger.name);
            let durable = durable_name(sensor, trigger, &dependency);
            self.log.debug(
                &format!("durable name for sensor='{sensor}', trigger='{trigger}', dep='{dependency}': '{durable}'"),
                &[],
            );
            self.log.info(
                &format!("Subscribing to subject {subject} with durable name {durable}"),
                &[],
            );
            let config = ConsumerConfig {
                durable: durable.clone(),
                filter_subject: subject.clone(),
                ack_wait: self.subscription.timing.ack_wait,
            };
            self.link
                .bus
                .ensure_consumer(STREAM, config)
                .await
                .map_err(|error| {
                    format!(
                        "failed to subscribe to subject {subject} using group {durable}: {error}"
                    )
                })?;
            self.log.debug(
                &format!(
                    "successfully subscribed to subject {subject} with durable name {durable}"
                ),
                &[],
            );
            pulls.push(Arc::clone(self).pull(durable, stop.clone()));
        }
        let resets = self.subscription.trigger.resets.clone();
        let resets = resets
            .into_iter()
            .map(|reset| Arc::clone(self).reset(reset, stop.clone()));
        futures::future::join(
            futures::future::join_all(pulls),
            futures::future::join_all(resets),
        )
        .await;
        self.log.info("closing connection...", &[]);
        Ok(())
    }

    /// What was half met before the last time of `conditionsReset` is not half met any more.
    async fn forget_before_the_last_reset(&self) {
        let now = jiff::Timestamp::now();
        let mut last: Option<jiff::Timestamp> = None;
        for reset in &self.subscription.trigger.resets {
            let Some(previous) = reset.schedule.previous(now, &reset.zone) else {
                self.log
                    .error("couldn't get previous cron trigger time", &[]);
                continue;
            };
            let shown = previous.to_zoned(reset.zone.clone());
            let shown = shown.strftime("%Y-%m-%d %H:%M:%S %z %Z");
            self.log
                .info(&format!("previous trigger time: {shown}"), &[]);
            last = last.max(Some(previous));
        }
        let Some(last) = last else {
            return;
        };
        let trigger = &self.subscription.trigger.name;
        for dependency in &self.subscription.dependencies {
            let name = &dependency.name;
            let cleared = match self.bucket.waiting(trigger, name).await {
                Ok(Some(waiting)) if waiting.timestamp < last => {
                    self.bucket.clear(trigger, name).await
                }
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = cleared {
                self.log.error(
                    &format!("failed to clear all dependencies as a result of condition reset time; err={error}"),
                    &[],
                );
                return;
            }
        }
    }

    /// Forgets what is half met at every time of a schedule, between two messages.
    async fn reset(self: Arc<Self>, reset: Reset, stop: CancellationToken) {
        let mut after = jiff::Timestamp::now();
        loop {
            let Some(next) = reset.schedule.next(after, &reset.zone) else {
                stop.cancelled().await;
                return;
            };
            let due = async {
                // The clock may be set meanwhile, so the wait is looked at again now and then.
                loop {
                    let left = next.duration_since(jiff::Timestamp::now());
                    let Ok(left) = Duration::try_from(left) else {
                        break;
                    };
                    if left.is_zero() {
                        break;
                    }
                    tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
                }
                Arc::clone(&self.turn).lock_owned().await
            };
            let Some(turn) = stop.run_until_cancelled(due).await else {
                return;
            };
            self.log.info("reset conditions", &[]);
            self.clear(&self.subscription.trigger.name).await;
            drop(turn);
            after = next.max(jiff::Timestamp::now());
        }
    }

    /// Subjects with the dependency that names their consumer: the last one of the condition.
    fn subjects(&self) -> Vec<(String, String)> {
        let mut subjects: Vec<(String, String)> = Vec::new();
        for dependency in &self.subscription.dependencies {
            let subject = dependency.subject();
            match subjects.iter_mut().find(|(known, _)| *known == subject) {
                Some((_, name)) => name.clone_from(&dependency.name),
                None => subjects.push((subject, dependency.name.clone())),
            }
        }
        subjects
    }

    /// Pulls one message after the other; each is handed on once the one before it is judged.
    async fn pull(self: Arc<Self>, durable: String, stop: CancellationToken) {
        let mut last: Option<(BusError, Instant)> = None;
        loop {
            let pulled = stop.run_until_cancelled(self.link.bus.pull(STREAM, &durable, FETCH));
            match pulled.await {
                None => break,
                Some(Ok(None)) => {}
                Some(Ok(Some(delivery))) => {
                    let turn = Arc::clone(&self.turn).lock_owned();
                    let Some(turn) = stop.run_until_cancelled(turn).await else {
                        break;
                    };
                    let work = Arc::clone(&self).work(durable.clone(), delivery, turn);
                    self.subscription.tasks.spawn(work);
                }
                Some(Err(error)) => {
                    let known = last.as_ref().is_some_and(|(before, time)| {
                        *before == error && time.elapsed() <= ERROR_PAUSE
                    });
                    if !known {
                        self.log.error(
                            &format!(
                                "failed to fetch messages for subscription {durable}, {error}"
                            ),
                            &[],
                        );
                        last = Some((error, Instant::now()));
                    }
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
        self.log.info(
            &format!("exiting pullSubscribe() for subscription {durable}"),
            &[],
        );
    }

    /// Judges and acts on one message, then acknowledges it. A kill in between leaves it unacknowledged.
    async fn work(
        self: Arc<Self>,
        durable: String,
        delivery: Delivery,
        mut turn: OwnedMutexGuard<Recent>,
    ) {
        let token = delivery.token.as_str();
        {
            let judged = self.judge(&delivery, &durable, &mut turn);
            tokio::pin!(judged);
            let mut ticker = tokio::time::interval_at(Instant::now() + PROGRESS, PROGRESS);
            loop {
                tokio::select! {
                    biased;
                    () = &mut judged => break,
                    _ = ticker.tick() => {
                        let more = self.link.bus.in_progress(STREAM, &durable, token).await;
                        if let Err(error) = more {
                            self.log.error(&format!("Error performing InProgess() on message: {error}"), &[]);
                        }
                    }
                }
            }
        }
        drop(turn);
        if let Err(error) = self.link.bus.ack(STREAM, &durable, token).await {
            self.log.error(
                &format!("Error performing AckSync() on message: {error}"),
                &[],
            );
        }
        self.log.debug(
            &format!("acked message of {}", place(&delivery, &durable)),
            &[],
        );
    }

    async fn judge(&self, delivery: &Delivery, durable: &str, recent: &mut Recent) {
        let event = match cloud_event::decode(&delivery.message.payload) {
            Ok(event) => event,
            Err(error) => {
                self.log.error(
                    &format!("Failed to convert to a cloudevent, discarding it... err: {error}"),
                    &[],
                );
                return;
            }
        };
        if recent.knows(&event.id) {
            // The wrong format verb is upstream's.
            self.log.debug(
                &format!(
                    "already received message of ID %!d(string={}), ignore this",
                    event.id
                ),
                &[],
            );
            return;
        }
        let dependencies: Vec<_> = self
            .subscription
            .dependencies
            .iter()
            .filter(|dependency| {
                dependency.source == event.source && dependency.event == event.subject
            })
            .collect();
        if dependencies.is_empty() {
            let (source, name) = (&event.source, &event.subject);
            self.log.error(
                &format!(
                    "Failed to get the dependency names, discarding it... err: incoming event source and event not \
                     associated with any dependencies, event source={source}, event={name}"
                ),
                &[],
            );
            return;
        }
        let names: Vec<_> = dependencies
            .iter()
            .map(|dependency| dependency.name.as_str())
            .collect();
        self.log.debug(
            &format!(
                "New incoming Event Source Message, dependency names=[{}], {}",
                names.join(" "),
                place(delivery, durable)
            ),
            &[],
        );
        for dependency in dependencies {
            self.judge_dependency(dependency, &event, delivery).await;
        }
        recent.remember(&event.id, Instant::now());
    }

    async fn judge_dependency(&self, dependency: &Dependency, event: &Event, delivery: &Delivery) {
        let name = &dependency.name;
        // A trigger whose dependency cannot be judged is not subscribed.
        let Ok(judge) = &dependency.judge else {
            return;
        };
        let made = match judge
            .transform
            .as_ref()
            .map(|transform| transform.apply(event))
        {
            None => None,
            Some(Ok(made)) => Some(made),
            Some(Err(error)) => {
                // The event is gone; the line has no id, as upstream.
                self.log.error(
                    "failed to apply event transformation, ",
                    &[("error", error.to_string().into())],
                );
                return;
            }
        };
        let event = made.as_ref().unwrap_or(event);
        if !self.passes(judge, event) {
            self.log.info(
                &format!("not interested in dependency {name} (didn't pass filter)"),
                &[],
            );
            return;
        }
        if self.subscription.conditions.needs_several() {
            self.collect(name, event, delivery).await;
            return;
        }
        self.log.info(
            &format!("Triggering actions after receiving dependency {name}"),
            &[],
        );
        let events = Events::from([(name.clone(), event.clone())]);
        self.subscription
            .actions
            .act(&self.subscription.trigger, events)
            .await;
    }

    fn passes(&self, judge: &Judge, event: &Event) -> bool {
        let decision = judge.filter.evaluate(event);
        match &decision.error {
            Some(error) => {
                let event = cloud_event::describe(event);
                self.log.warn(
                    &format!("Event [{event}] discarded due to filtering error: {error}"),
                    &[],
                );
            }
            None if !decision.passed && self.log.debugs() => {
                let event = cloud_event::describe(event);
                self.log
                    .debug(&format!("Event [{event}] discarded due to filtering"), &[]);
            }
            None => {}
        }
        decision.passed
    }

    /// Keeps the event until the condition holds; what came before stands in the bucket.
    async fn collect(&self, dependency: &str, event: &Event, delivery: &Delivery) {
        let trigger = &self.subscription.trigger.name;
        let Ok(mut events) = self.waiting(trigger).await else {
            // As upstream: the message is acknowledged and gone.
            return;
        };
        events.insert(dependency.to_owned(), event.clone());
        let state: BTreeMap<_, _> = self
            .subscription
            .dependencies
            .iter()
            .map(|known| (known.name.as_str(), events.contains_key(&known.name)))
            .collect();
        let state: Vec<_> = state
            .iter()
            .map(|(name, seen)| format!("{name}:{seen}"))
            .collect();
        self.log.info(
            &format!("Current state of dependencies: map[{}]", state.join(" ")),
            &[],
        );
        let conditions = &self.subscription.conditions;
        if conditions.holds(|name| events.contains_key(name)) {
            self.log.debug(
                &format!("dependency expression successfully evaluated to true: '{conditions}'"),
                &[],
            );
            self.log.info(
                &format!("Triggering actions after receiving dependency {dependency}"),
                &[],
            );
            self.subscription
                .actions
                .act(&self.subscription.trigger, events)
                .await;
            self.clear(trigger).await;
            return;
        }
        self.log
            .debug(&format!("dependency expression false: {conditions}"), &[]);
        if let Some(waiting) = Waiting::of(delivery, event)
            && let Err(error) = self.bucket.keep(trigger, dependency, &waiting).await
        {
            self.log.error(
                &format!("failed to store dependency under key {trigger}/{dependency}: {error}"),
                &[],
            );
        }
    }

    async fn waiting(&self, trigger: &str) -> Result<Events, BusError> {
        let mut events = Events::new();
        for dependency in &self.subscription.dependencies {
            let Some(waiting) = self.bucket.waiting(trigger, &dependency.name).await? else {
                continue;
            };
            if let Ok(event) = cloud_event::decode(waiting.event.get().as_bytes()) {
                events.insert(dependency.name.clone(), event);
            }
        }
        Ok(events)
    }

    async fn clear(&self, trigger: &str) {
        for dependency in &self.subscription.dependencies {
            let name = &dependency.name;
            self.log.debug(
                &format!("clearing key {trigger}/{name} from the K/V store"),
                &[],
            );
            if let Err(error) = self.bucket.clear(trigger, name).await {
                self.log.error(&error.to_string(), &[]);
                return;
            }
        }
    }
}

fn place(delivery: &Delivery, durable: &str) -> String {
    let (stream, consumer) = (delivery.message.sequence, delivery.consumer_sequence());
    format!("Stream seq: {STREAM}:{stream}, Consumer seq: {durable}:{consumer}")
}

impl std::fmt::Display for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sensor, trigger) = (&self.subscription.sensor, &self.subscription.trigger.name);
        write!(
            f,
            "JetstreamTriggerConn{{Sensor:{sensor},Trigger:{trigger}}}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_remembered_for_a_minute() {
        let mut recent = Recent::default();
        let start = Instant::now();
        recent.remember("a", start);
        assert!(recent.knows("a") && !recent.knows("b"));
        recent.remember("b", start + MEMORY);
        assert!(recent.knows("a"));
        recent.remember("c", start + MEMORY + Duration::from_secs(1));
        assert!(!recent.knows("a") && recent.knows("b"));
    }
}
