//! What a trigger does once its condition is met: build the object, send it, and tell the log how it went.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use super::super::backoff::Backoff;
use super::super::log::Logger;
use super::super::metrics::{Metric, Metrics};
use super::super::tasks::Tasks;
use super::spec::{Policy, Sensor, Trigger};
use super::{argo, k8s};
use crate::sensor::parameters::Events;
use crate::sensor::trigger::{self, Action, Origin, Submission};

/// Actions that run in the background at once; the next one waits, and its message with it.
const MAX_BACKGROUND: usize = 1000;
/// Requests that may be saved up while nothing happens.
const SLACK: u32 = 10;

/// Carries out the triggers of one Sensor.
pub(super) struct Actions {
    sensor: Arc<Sensor>,
    client: kube::Client,
    log: Logger,
    metrics: Metrics,
    tasks: Tasks,
    limits: HashMap<String, Mutex<Limit>>,
    /// One permit for each action in the background.
    background: Arc<Semaphore>,
}

impl Actions {
    pub(super) fn new(
        sensor: Arc<Sensor>,
        client: kube::Client,
        log: Logger,
        metrics: Metrics,
        tasks: Tasks,
    ) -> Actions {
        let limits = sensor
            .triggers
            .iter()
            .filter_map(|trigger| {
                let limit = Limit::new(trigger.rate?);
                Some((trigger.name.clone(), Mutex::new(limit)))
            })
            .collect();
        Actions {
            sensor,
            client,
            log,
            metrics,
            tasks,
            limits,
            background: Arc::new(Semaphore::new(MAX_BACKGROUND)),
        }
    }

    /// Acts on events; when it answers, their message may be acknowledged, whatever came of it.
    pub(super) async fn act(self: &Arc<Self>, trigger: &Arc<Trigger>, events: Events) {
        if !trigger.at_least_once {
            self.start(trigger, events).await;
            return;
        }
        let log = self.log.with("triggerName", trigger.name.as_str());
        let once = Backoff {
            steps: 1,
            ..Backoff::DEFAULT
        };
        let retry = trigger.retry.clone().unwrap_or(Ok(once));
        let Err(error) = self.with_retries(retry, trigger, &events).await else {
            return;
        };
        log.warn(&format!("failed to trigger actions, {error}"), &[]);
        self.count(Metric::ActionRetriesFailed, &trigger.name);
        let Some(dlq) = &trigger.dlq else { return };
        log.debug("invoking dlqTrigger", &[]);
        if !dlq.at_least_once {
            self.start(dlq, events).await;
            return;
        }
        let retry = dlq.retry.clone().unwrap_or(Ok(once));
        if let Err(error) = self.with_retries(retry, dlq, &events).await {
            log.error(&format!("failed to trigger dlqTrigger, {error}"), &[]);
            self.count(Metric::ActionRetriesFailed, &dlq.name);
        }
    }

    async fn with_retries(
        &self,
        retry: Result<Backoff, String>,
        trigger: &Trigger,
        events: &Events,
    ) -> Result<(), String> {
        retry?.retry(|| self.once(trigger, events)).await
    }

    /// Acts in the background: at most once, and a failure loses the event.
    async fn start(self: &Arc<Self>, trigger: &Arc<Trigger>, events: Events) {
        let permit = Arc::clone(&self.background).acquire_owned().await;
        let (actions, trigger) = (Arc::clone(self), Arc::clone(trigger));
        self.tasks.spawn(async move {
            let _permit = permit;
            if let Err(error) = actions.once(&trigger, &events).await {
                actions.count(Metric::ActionRetriesFailed, &trigger.name);
                let fields = [
                    ("error", error.into()),
                    ("triggerName", trigger.name.as_str().into()),
                ];
                actions.log.error("Failed to execute a trigger", &fields);
            }
        });
    }

    async fn once(&self, trigger: &Trigger, events: &Events) -> Result<(), String> {
        if let Some(limit) = self.limits.get(&trigger.name) {
            limit.lock().await.take().await;
        }
        let names: Value = events.keys().map(String::as_str).collect();
        let ids: Value = events.values().map(|event| event.id.as_str()).collect();
        let by = [("triggeredBy", names), ("triggeredByEvents", ids)];
        let name = trigger.name.as_str();
        match self.execute(trigger, events).await {
            Ok(kind) => {
                let [names, ids] = by;
                let log = self.log.with("triggerName", name).with("triggerType", kind);
                log.info(
                    &format!("Successfully processed trigger '{name}'"),
                    &[names, ids],
                );
                self.count(Metric::ActionTriggered, name);
                Ok(())
            }
            Err(error) => {
                let [names, ids] = by;
                let fields = [
                    ("error", error.as_str().into()),
                    ("triggerName", name.into()),
                    names,
                    ids,
                ];
                self.log.error("Failed to execute a trigger", &fields);
                self.count(Metric::ActionFailed, name);
                Err(error)
            }
        }
    }

    /// Carries out one execution; answers the trigger's type.
    async fn execute(&self, trigger: &Trigger, events: &Events) -> Result<&'static str, String> {
        let log = self.log.with("triggerName", trigger.name.as_str());
        let prepared = trigger::prepare(&trigger.value, events).map_err(|error| error.logged())?;
        log.debug("resolving the trigger implementation", &[]);
        let kind = prepared.type_name();
        let live = match prepared.live().map_err(|error| error.logged())? {
            Some(address) => Some(k8s::get(&self.client, &address, address.name()).await?),
            None => None,
        };
        let origin = Origin {
            sensor: &self.sensor.name,
            namespace: &self.sensor.namespace,
            now: Timestamp::now(),
        };
        let action = prepared
            .action(live, events, origin)
            .map_err(|error| error.logged())?;
        let log = log.with("triggerType", kind);
        log.debug("executing the trigger resource", &[]);
        let failed = |error: String| format!("failed to execute trigger, {error}");
        let made = match &action {
            Action::Object(submission) => k8s::carry_out(&self.client, submission, &log)
                .await
                .map_err(failed)?
                .map(|object| (submission, object)),
            Action::Workflow(submission) => {
                argo::submit(&self.client, submission)
                    .await
                    .map_err(failed)?;
                None
            }
            Action::Log => {
                print(&log, events);
                None
            }
        };
        log.debug("trigger resource successfully executed", &[]);
        log.debug("applying trigger policy", &[]);
        match (&trigger.policy, made, &action) {
            (None, ..) | (_, _, Action::Log) => {}
            (Some(policy), Some((submission, object)), _) => {
                self.apply(policy, submission, &object).await?;
            }
            // Nothing is left of a deleted object, and what the command line lists is not taken for one.
            (Some(_), None, _) => {
                return Err("failed to interpret the trigger resource".to_owned());
            }
        }
        Ok(kind)
    }

    /// Looks at the created object until it has the policy's labels.
    async fn apply(
        &self,
        policy: &Policy,
        submission: &Submission,
        created: &Value,
    ) -> Result<(), String> {
        let name = created
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut waits = policy.backoff.clone()?.waits();
        loop {
            let object = k8s::get(&self.client, submission, name).await?;
            if let Some(labels) = object.pointer("/metadata/labels") {
                let met = policy
                    .labels
                    .iter()
                    .all(|(key, value)| labels.get(key).and_then(Value::as_str) == Some(value));
                if met {
                    return Ok(());
                }
            }
            let Some(wait) = waits.next() else {
                break;
            };
            tokio::time::sleep(wait).await;
        }
        if policy.fails_on_timeout {
            let text = "failed to determine status of the triggered resource. setting trigger state as failed";
            return Err(text.to_owned());
        }
        Ok(())
    }

    fn count(&self, metric: Metric, trigger: &str) {
        self.metrics.add(metric, [&self.sensor.name, trigger], 1);
    }

    /// Makes the counters of a trigger appear.
    pub(super) fn show_counters(&self, trigger: &str) {
        for metric in [
            Metric::ActionTriggered,
            Metric::ActionFailed,
            Metric::ActionRetriesFailed,
        ] {
            self.metrics.add(metric, [&self.sensor.name, trigger], 0);
        }
    }
}

/// The data of every event, at each execution: `intervalSeconds` has no effect upstream, where each has a log trigger
/// of its own.
fn print(log: &Logger, events: &Events) {
    for (name, event) in events {
        let fields = [
            ("dependencyName", name.as_str().into()),
            ("eventContext", event.context_json()),
        ];
        log.info(&event.data_text(), &fields);
    }
}

/// `rateLimit`: a leaky bucket that lets a burst through after a pause.
struct Limit {
    per_request: Duration,
    last: Option<Instant>,
    /// Seconds to wait; below zero what was saved up.
    owed: f64,
}

impl Limit {
    fn new(per_request: Duration) -> Limit {
        Limit {
            per_request,
            last: None,
            owed: 0.0,
        }
    }

    async fn take(&mut self) {
        let wait = self.wait(Instant::now());
        tokio::time::sleep(wait).await;
    }

    fn wait(&mut self, now: Instant) -> Duration {
        let Some(last) = self.last.replace(now) else {
            return Duration::ZERO;
        };
        let per_request = self.per_request.as_secs_f64();
        self.owed += per_request - now.saturating_duration_since(last).as_secs_f64();
        self.owed = self.owed.max(-per_request * f64::from(SLACK));
        let wait = Duration::try_from_secs_f64(self.owed.max(0.0)).unwrap_or(Duration::ZERO);
        if !wait.is_zero() {
            self.last = now.checked_add(wait);
            self.owed = 0.0;
        }
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_limit_spaces_requests_and_saves_up_ten() {
        let mut limit = Limit::new(Duration::from_secs(1));
        let start = Instant::now();
        assert_eq!(limit.wait(start), Duration::ZERO);
        assert_eq!(limit.wait(start), Duration::from_secs(1));
        assert_eq!(
            limit.wait(start + Duration::from_secs(1)),
            Duration::from_secs(1)
        );
        let later = start + Duration::from_secs(3600);
        let waits = (0..14).filter(|_| limit.wait(later).is_zero()).count();
        assert_eq!(waits, 11, "the one of now and ten saved up");
    }
}
