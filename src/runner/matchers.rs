//! Reading Argo's log lines: which line says what. The texts that differ between releases are in [`super::releases`].

use serde_json::Value;

use super::releases::{RELEASES, is_landmark};
use crate::kinds::TRACE_HEADER;

/// What one log line says, as far as evidence and gate need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// The filter dropped this arrival; `error` is absent on a clean mismatch.
    Discarded {
        arrival: String,
        error: Option<String>,
    },
    Triggered {
        trigger: String,
        arrivals: Vec<String>,
    },
    TriggerFailed {
        trigger: String,
        error: String,
        arrivals: Vec<String>,
    },
    /// The subscription exists now.
    Subscribed {
        trigger: String,
        subject: String,
        durable: String,
    },
    SubscribeFailed {
        error: String,
    },
    ConnectionLost {
        text: String,
    },
    StandBy {
        text: String,
    },
    Leading,
    /// The program has started; its version, where it says one.
    Started {
        version: Option<String>,
    },
    /// The EventSource handled a request with this arrival id.
    Received {
        arrival: String,
        trace: Option<String>,
    },
}

const DISCARDED: &str = " discarded due to filtering";
const SUBSCRIBED: &str = "successfully subscribed to subject ";

/// Reads one line; `None` for lines that say nothing here, and for text that is not Argo's JSON.
#[must_use]
pub fn read(line: &str) -> Option<LogEvent> {
    let entry: Value = serde_json::from_str(line).ok()?;
    let message = entry.get("msg")?.as_str()?;
    discarded(message)
        .or_else(|| triggered(message, &entry))
        .or_else(|| trigger_failed(message, &entry))
        .or_else(|| subscription(message, &entry))
        .or_else(|| election(message))
        .or_else(|| started(message, &entry))
        .or_else(|| received(message, &entry))
}

fn field(entry: &Value, name: &str) -> String {
    entry
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// The id stands first in the line, so data that imitates the line's end cannot move it.
fn discarded(message: &str) -> Option<LogEvent> {
    let rest = message.strip_prefix("Event [ID '")?;
    let arrival = rest.split('\'').next()?.to_owned();
    let passed = rest.rfind("] passed but with filtering error: ");
    if let Some(place) = rest.rfind("] discarded due to filtering error: ")
        && passed.is_none_or(|passed| passed < place)
    {
        let error = rest
            .get(place + "] discarded due to filtering error: ".len()..)?
            .to_owned();
        return Some(LogEvent::Discarded {
            arrival,
            error: Some(error),
        });
    }
    rest.ends_with(DISCARDED).then_some(LogEvent::Discarded {
        arrival,
        error: None,
    })
}

fn arrivals(entry: &Value) -> Vec<String> {
    let ids = entry.get("triggeredByEvents").and_then(Value::as_array);
    ids.map(|ids| {
        ids.iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    })
    .unwrap_or_default()
}

fn triggered(message: &str, entry: &Value) -> Option<LogEvent> {
    let rest = RELEASES
        .iter()
        .find_map(|release| message.strip_prefix(release.done))
        .or_else(|| message.strip_prefix("successfully processed trigger"))?;
    let named = rest.trim().trim_matches('\'').to_owned();
    let trigger = if named.is_empty() {
        field(entry, "triggerName")
    } else {
        named
    };
    Some(LogEvent::Triggered {
        trigger,
        arrivals: arrivals(entry),
    })
}

/// The second line of a failure has no ids and therefore proves nothing of any arrival.
fn trigger_failed(message: &str, entry: &Value) -> Option<LogEvent> {
    if !RELEASES.iter().any(|release| message == release.failed) {
        return None;
    }
    let arrivals = arrivals(entry);
    (!arrivals.is_empty()).then(|| LogEvent::TriggerFailed {
        trigger: field(entry, "triggerName"),
        error: field(entry, "error"),
        arrivals,
    })
}

fn subscription(message: &str, entry: &Value) -> Option<LogEvent> {
    if let Some(rest) = message.strip_prefix(SUBSCRIBED) {
        let (subject, durable) = rest.split_once(" with durable name ")?;
        return Some(LogEvent::Subscribed {
            trigger: field(entry, "triggerName"),
            subject: subject.to_owned(),
            durable: durable.trim().to_owned(),
        });
    }
    if message.starts_with("failed to subscribe to eventbus") {
        return Some(LogEvent::SubscribeFailed {
            error: field(entry, "error"),
        });
    }
    let lower = message.to_ascii_lowercase();
    let known = RELEASES
        .iter()
        .any(|release| message.contains(release.lost));
    let lost = [
        "nats connection lost",
        "nats streaming connection lost",
        "nats server connection is lost",
        "nats connection was closed",
        "disconnected from",
        "connection closed",
    ];
    (known || lost.iter().any(|text| lower.contains(text))).then(|| LogEvent::ConnectionLost {
        text: message.to_owned(),
    })
}

/// Anything that only Argo Events writes on its way up.
fn started(message: &str, entry: &Value) -> Option<LogEvent> {
    is_landmark(message).then(|| LogEvent::Started {
        version: entry
            .get("version")
            .and_then(Value::as_str)
            .map(str::to_owned),
    })
}

fn election(message: &str) -> Option<LogEvent> {
    if message.contains("stand by") {
        return Some(LogEvent::StandBy {
            text: message.to_owned(),
        });
    }
    message
        .starts_with("I'm the LEADER")
        .then_some(LogEvent::Leading)
}

/// The EventSource's debug line: the event data itself is the message, with the id beside it.
fn received(message: &str, entry: &Value) -> Option<LogEvent> {
    let arrival = entry.get("eventID")?.as_str()?.to_owned();
    let data: Value = serde_json::from_str(message).ok()?;
    let trace = data
        .pointer(&format!("/header/{TRACE_HEADER}/0"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    Some(LogEvent::Received { arrival, trace })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &str, more: &str) -> String {
        let message = serde_json::to_string(message).unwrap();
        format!(
            r#"{{"level":"info","ts":"2026-01-02T03:04:05Z","logger":"argo-events.sensor","msg":{message}{more}}}"#
        )
    }

    #[test]
    fn each_line_is_read() {
        let ids = r#","triggerName":"t","triggeredBy":["d"],"triggeredByEvents":["a1"]"#;
        for (line, event) in [
            (
                line(
                    "Event [ID 'a1', Source 'orders', Time 'x', Data '{}'] discarded due to filtering error: data filter error (path 'body.k' does not exist)",
                    "",
                ),
                LogEvent::Discarded {
                    arrival: "a1".into(),
                    error: Some("data filter error (path 'body.k' does not exist)".into()),
                },
            ),
            (
                line(
                    "Event [ID 'a1', Source 'o', Time 'x', Data '{}'] discarded due to filtering",
                    "",
                ),
                LogEvent::Discarded {
                    arrival: "a1".into(),
                    error: None,
                },
            ),
            (
                line("Successfully processed trigger 't'", ids),
                LogEvent::Triggered {
                    trigger: "t".into(),
                    arrivals: vec!["a1".into()],
                },
            ),
            (
                line("successfully processed trigger 't'", ids),
                LogEvent::Triggered {
                    trigger: "t".into(),
                    arrivals: vec!["a1".into()],
                },
            ),
            (
                line(
                    "Failed to execute a trigger",
                    &format!(r#"{ids},"error":"no""#),
                ),
                LogEvent::TriggerFailed {
                    trigger: "t".into(),
                    error: "no".into(),
                    arrivals: vec!["a1".into()],
                },
            ),
            (
                line(
                    "successfully subscribed to subject default.o.e with durable name group-1",
                    r#","triggerName":"t""#,
                ),
                LogEvent::Subscribed {
                    trigger: "t".into(),
                    subject: "default.o.e".into(),
                    durable: "group-1".into(),
                },
            ),
            (
                line("failed to subscribe to eventbus", r#","error":"x""#),
                LogEvent::SubscribeFailed { error: "x".into() },
            ),
            (
                line("Not the LEADER, stand by ...", ""),
                LogEvent::StandBy {
                    text: "Not the LEADER, stand by ...".into(),
                },
            ),
            (line("I'm the LEADER, starting ...", ""), LogEvent::Leading),
            (
                line(
                    r#"{"header":{"X-Eventlab-Trace":["t-1"]},"body":{}}"#,
                    r#","eventID":"a1""#,
                ),
                LogEvent::Received {
                    arrival: "a1".into(),
                    trace: Some("t-1".into()),
                },
            ),
        ] {
            assert_eq!(read(&line), Some(event), "{line}");
        }
    }

    #[test]
    fn an_attempt_to_subscribe_is_not_a_subscription() {
        for message in [
            "Subscribing to subject default.o.e with durable name group-1",
            "started subscribing to events for trigger t with client connection x",
            "Sensor started.",
        ] {
            let read = read(&line(message, ""));
            assert!(
                matches!(read, None | Some(LogEvent::Started { .. })),
                "{read:?}"
            );
        }
    }

    #[test]
    fn a_failure_without_ids_proves_nothing() {
        assert_eq!(
            read(&line("Failed to execute a trigger", r#","error":"no""#)),
            None
        );
    }

    /// The same five moments as each known release writes them.
    #[test]
    fn every_release_is_read() {
        let ids = r#","triggerName":"t","triggeredBy":["d"],"triggeredByEvents":["a1"]"#;
        for (done, failed, lost) in [
            (
                "Successfully processed trigger 't'",
                "Failed to execute a trigger",
                "EventBus connection lost, reconnecting...",
            ),
            (
                "Successfully processed trigger 't'",
                "Failed to execute a trigger",
                "NATS connection lost, reconnecting...",
            ),
            (
                "successfully processed the trigger",
                "failed to execute a trigger",
                "NATS streaming connection lost",
            ),
        ] {
            assert_eq!(
                read(&line(done, ids)),
                Some(LogEvent::Triggered {
                    trigger: "t".into(),
                    arrivals: vec!["a1".into()]
                })
            );
            assert!(matches!(
                read(&line(failed, &format!(r#"{ids},"error":"no""#))),
                Some(LogEvent::TriggerFailed { .. })
            ));
            assert!(
                matches!(read(&line(lost, "")), Some(LogEvent::ConnectionLost { .. })),
                "{lost}"
            );
        }
        assert_eq!(
            read(&line("starting sensor server", r#","version":"v1.9.11""#)),
            Some(LogEvent::Started {
                version: Some("v1.9.11".into())
            })
        );
        for other in [
            "Reconciling",
            "event discarded by filter a1",
            "trigger t succeeded",
        ] {
            assert_eq!(read(&line(other, ids)), None, "{other}");
        }
    }

    #[test]
    fn an_event_that_passed_with_an_error_was_not_discarded() {
        let text = "Event [ID 'a1', Source 's', Time 't', Data '{\"x\":\"] discarded due to filtering error: no\"}'] passed but with filtering error: e";
        assert_eq!(read(&line(text, "")), None);
    }

    #[test]
    fn payloads_that_imitate_lines_do_not_move_the_id() {
        let data = "Event [ID 'fake', Source 's'] discarded due to filtering";
        let text = line(
            &format!(
                "Event [ID 'real', Source 's', Time 't', Data '{data}'] discarded due to filtering"
            ),
            "",
        );
        assert_eq!(
            read(&text),
            Some(LogEvent::Discarded {
                arrival: "real".into(),
                error: None
            })
        );
        for noise in [
            "",
            "{",
            "null",
            "[]",
            r#"{"msg":5}"#,
            "Event [ID 'x'] discarded due to filtering",
        ] {
            assert_eq!(read(noise), None);
        }
    }
}
