//! Counters under Argo Events' names, in the text format of Prometheus on port 7777.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::http::header;
use axum::routing::get;

use super::log::Logger;
use super::tasks::Tasks;
use crate::embedded::node::process::ServiceContext;

/// Port of `/metrics` in EventSource and Sensor pods.
pub const PORT: u16 = 7777;

const EVENT_LABELS: [&str; 2] = ["event_name", "eventsource_name"];
const TRIGGER_LABELS: [&str; 2] = ["sensor_name", "trigger_name"];

/// What is counted; the names are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    EventsSent,
    EventsSentFailed,
    EventsProcessingFailed,
    ActionTriggered,
    ActionFailed,
    ActionRetriesFailed,
}

impl Metric {
    fn name(self) -> &'static str {
        match self {
            Metric::EventsSent => "argo_events_events_sent_total",
            Metric::EventsSentFailed => "argo_events_events_sent_failed_total",
            Metric::EventsProcessingFailed => "argo_events_events_processing_failed_total",
            Metric::ActionTriggered => "argo_events_action_triggered_total",
            Metric::ActionFailed => "argo_events_action_failed_total",
            Metric::ActionRetriesFailed => "argo_events_action_retries_failed_total",
        }
    }

    fn help(self) -> &'static str {
        match self {
            Metric::EventsSent => "Events that the bus acknowledged.",
            Metric::EventsSentFailed => "Events that could not be published.",
            Metric::EventsProcessingFailed => {
                "Events that failed on the way to the bus, unpublished ones included."
            }
            Metric::ActionTriggered => "Trigger actions that were done.",
            Metric::ActionFailed => "Trigger actions that failed, each try counted.",
            Metric::ActionRetriesFailed => "Trigger actions given up after the last try.",
        }
    }

    fn labels(self) -> [&'static str; 2] {
        match self {
            Metric::EventsSent | Metric::EventsSentFailed | Metric::EventsProcessingFailed => {
                EVENT_LABELS
            }
            Metric::ActionTriggered | Metric::ActionFailed | Metric::ActionRetriesFailed => {
                TRIGGER_LABELS
            }
        }
    }
}

/// Counts by label values.
type Counters = BTreeMap<[String; 2], u64>;

/// The counters of one pod.
#[derive(Clone)]
pub struct Metrics {
    namespace: Arc<str>,
    values: Arc<Mutex<BTreeMap<Metric, Counters>>>,
}

impl Metrics {
    #[must_use]
    pub fn new(namespace: &str) -> Metrics {
        Metrics {
            namespace: Arc::from(namespace),
            values: Arc::default(),
        }
    }

    /// Adds to the counter of one event (event, EventSource) or one trigger (Sensor, trigger); 0 makes it appear.
    pub fn add(&self, metric: Metric, labels: [&str; 2], count: u64) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        *values
            .entry(metric)
            .or_default()
            .entry(labels.map(str::to_owned))
            .or_default() += count;
    }

    /// All counters as text.
    #[must_use]
    pub fn render(&self) -> String {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for (metric, counters) in &*values {
            let (name, [first, second]) = (metric.name(), metric.labels());
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "# HELP {name} {}\n# TYPE {name} counter",
                metric.help()
            );
            for ([a, b], count) in counters {
                let (a, b, namespace) = (escape(a), escape(b), escape(&self.namespace));
                let _ = match metric.labels() {
                    EVENT_LABELS => {
                        writeln!(
                            text,
                            "{name}{{{first}=\"{a}\",{second}=\"{b}\",namespace=\"{namespace}\"}} {count}"
                        )
                    }
                    _ => writeln!(
                        text,
                        "{name}{{namespace=\"{namespace}\",{first}=\"{a}\",{second}=\"{b}\"}} {count}"
                    ),
                };
            }
        }
        text
    }

    /// Serves `/metrics` as long as the service lives.
    pub(super) async fn serve(&self, context: &ServiceContext, log: &Logger, tasks: &Tasks) {
        log.info("starting metrics server", &[]);
        let listener = match context.ports.bind(PORT).await {
            Ok(listener) => listener,
            Err(error) => {
                log.error(
                    "failed to start metrics server",
                    &[("error", error.to_string().into())],
                );
                return;
            }
        };
        let metrics = self.clone();
        let render = move || {
            let text = metrics.render();
            async move {
                (
                    [(
                        header::CONTENT_TYPE,
                        "text/plain; version=0.0.4; charset=utf-8",
                    )],
                    text,
                )
            }
        };
        let router = Router::new().route("/metrics", get(render));
        tasks.spawn(async move { axum::serve(listener, router).await });
    }
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_carry_upstreams_names_and_labels() {
        let metrics = Metrics::new("eventlab");
        metrics.add(Metric::EventsSent, ["orders", "webhook"], 0);
        metrics.add(Metric::ActionTriggered, ["orders", "start \"x\""], 2);
        let text = metrics.render();
        let sent = "argo_events_events_sent_total{event_name=\"orders\",eventsource_name=\"webhook\",namespace=\"eventlab\"} 0\n";
        assert!(text.contains(sent), "{text}");
        let done = "argo_events_action_triggered_total{namespace=\"eventlab\",sensor_name=\"orders\",trigger_name=\"start \\\"x\\\"\"} 2\n";
        assert!(text.contains(done), "{text}");
    }
}
