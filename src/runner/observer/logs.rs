//! Log lines of Sensors and EventSources: facts about arrivals, and what the gate wants to know of a container instance.

use super::{Task, WAITING_LIMIT, lock};
use crate::cluster::LogLine;
use crate::runner::expected::Subscription;
use crate::runner::facts;
use crate::runner::matchers::{self, LogEvent};

impl Task {
    pub(super) async fn log_line(&mut self, line: &LogLine) {
        let event = matchers::read(&line.text);
        self.count(line, event.is_some());
        let Some(event) = event else {
            return;
        };
        if let LogEvent::Received { arrival, trace } = &event {
            self.placed_by_trace(arrival, trace.as_deref()).await;
        }
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
        let mut waits = false;
        for id in ids {
            arrivals.extend(self.arrival(&id).await);
            waits |= self.may_be_placed(&id);
        }
        if waits && self.waiting_lines.len() < WAITING_LIMIT {
            self.waiting_lines.push(line.clone());
        }
        let namespace = self.cluster.namespace().to_owned();
        self.write(facts::logged(&event, line, &arrivals, &namespace));
    }

    /// How much of an instance's log can be read at all.
    pub(super) fn count(&self, line: &LogLine, known: bool) {
        let mut logs = lock(&self.logs);
        let log = logs
            .entry((line.pod.uid.clone(), line.pod.instance))
            .or_default();
        log.lines += 1;
        log.known_lines += u64::from(known);
    }

    pub(super) fn instance_event(&self, line: &LogLine, event: &LogEvent) {
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
