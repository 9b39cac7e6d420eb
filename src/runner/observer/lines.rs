//! What log lines say: of arrivals as facts, of a container instance for the gate.

use super::lock;
use super::task::Task;
use crate::cluster::LogLine;
use crate::runner::expected::Subscription;
use crate::runner::facts;
use crate::runner::matchers::{self, LogEvent};

impl Task {
    pub(super) async fn log_line(&mut self, line: &LogLine) {
        let Some(event) = matchers::read(&line.text) else {
            return;
        };
        let ids = match &event {
            LogEvent::Discarded { arrival, .. } | LogEvent::Received { arrival, .. } => {
                vec![arrival.clone()]
            }
            LogEvent::Triggered { arrivals, .. } | LogEvent::TriggerFailed { arrivals, .. } => {
                arrivals.clone()
            }
            other => return self.instance_event(line, other),
        };
        let mut arrivals = Vec::new();
        for id in ids {
            arrivals.extend(self.arrival(&id).await);
        }
        let namespace = self.cluster.namespace().to_owned();
        self.write(facts::logged(&event, line, &arrivals, &namespace));
    }

    fn instance_event(&self, line: &LogLine, event: &LogEvent) {
        let mut logs = lock(&self.logs);
        let log = logs
            .entry((line.pod.uid.clone(), line.pod.instance))
            .or_default();
        match event {
            LogEvent::Subscribed {
                trigger,
                subject,
                durable,
            } => {
                log.failure = None;
                log.stand_by = None;
                log.subscribed.push(Subscription {
                    trigger: trigger.clone(),
                    subject: subject.clone(),
                    durable: durable.clone(),
                });
            }
            LogEvent::SubscribeFailed { error } => {
                log.subscribed.clear();
                log.failure = Some(error.clone());
            }
            LogEvent::ConnectionLost { text } => {
                log.subscribed.clear();
                log.stand_by = Some(text.clone());
            }
            LogEvent::StandBy { text } => log.stand_by = Some(text.clone()),
            LogEvent::Leading => log.stand_by = None,
            _ => {}
        }
    }
}
