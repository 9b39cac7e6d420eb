//! From what was seen to one finding a layer: what it proves, its line, its command, and what would prove more.

use serde::Serialize;

use super::pipeline::Pipeline;
use super::search::{Candidate, Search, Seen};
use crate::cluster::SendError;
use crate::runner::matchers::LogEvent;
use crate::runner::releases;

/// What is known of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// It came through here.
    Through,
    /// It was stopped here.
    Stopped,
    Unproven,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub layer: &'static str,
    pub standing: Standing,
    /// The line, or why there is none.
    pub line: String,
    /// The command that shows it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// What would turn it into proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would_prove: Option<String>,
}

impl Finding {
    fn new(
        layer: &'static str,
        standing: Standing,
        line: impl Into<String>,
        command: String,
    ) -> Self {
        Self {
            layer,
            standing,
            line: line.into(),
            command,
            would_prove: None,
        }
    }

    fn unproven(layer: &'static str, line: impl Into<String>, would: impl Into<String>) -> Self {
        Self {
            would_prove: Some(would.into()),
            ..Self::new(layer, Standing::Unproven, line, String::new())
        }
    }
}

impl Search {
    /// One finding a layer, from the request to the run. Nothing is said of what lies behind a layer that stopped it.
    #[must_use]
    pub fn findings(&self, pipeline: &Pipeline) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(self.intake());
        if matches!(self.answer, Some(Err(SendError::NotSent(_)))) {
            return findings;
        }
        findings.push(self.bus(pipeline));
        findings.push(self.consumer(pipeline));
        findings.push(self.filter(pipeline));
        findings.push(self.submit(pipeline));
        findings.extend(self.runs(pipeline));
        findings.extend(self.unseen_run(pipeline));
        if let Some(end) = findings
            .iter()
            .position(|one| one.standing == Standing::Stopped)
        {
            findings.truncate(end + 1);
        }
        findings
    }

    fn intake(&self) -> Option<Finding> {
        let command = "the request above".to_owned();
        Some(match self.answer.as_ref()? {
            Ok(response) => {
                let standing = if response.status == 200 {
                    Standing::Through
                } else {
                    Standing::Stopped
                };
                let body: String = response.body.chars().take(200).collect();
                Finding::new(
                    "intake",
                    standing,
                    format!("HTTP {} {body}", response.status),
                    command,
                )
            }
            // Nobody has seen it: nothing can have dropped it.
            Err(error @ SendError::NotSent(_)) => Finding::unproven(
                "intake",
                error.to_string(),
                "sending it once the webhook can be reached: nothing has left this machine",
            ),
            Err(error @ SendError::AnswerLost(_)) => Finding::unproven(
                "intake",
                error.to_string(),
                "the message on the bus: whether it was taken in cannot be told from a lost answer, and it is not sent again",
            ),
        })
    }

    fn bus(&self, pipeline: &Pipeline) -> Finding {
        if let Some(message) = &self.message {
            return Finding::new(
                "bus",
                Standing::Through,
                format!(
                    "sequence {} on {}, id {}, stored {}",
                    message.sequence, message.subject, message.arrival, message.time
                ),
                format!("nats stream get default {}", message.sequence),
            );
        }
        let answered = matches!(&self.answer, Some(Ok(response)) if response.status == 200);
        match (self.read_to, answered) {
            (Some(sequence), true) if pipeline.source_filters() => Finding::new(
                "bus",
                Standing::Stopped,
                format!(
                    "answered 200, and nothing of it is in the stream up to sequence {sequence}: the EventSource's own filter dropped it"
                ),
                "nats stream view default".to_owned(),
            ),
            (Some(sequence), true) => Finding::unproven(
                "bus",
                format!(
                    "answered 200, and nothing of it is in the stream up to sequence {sequence}, although the EventSource has no filter for {}",
                    pipeline.event
                ),
                "the EventSource's log of that time; whether its pod publishes on this bus",
            ),
            (Some(sequence), false) => Finding::unproven(
                "bus",
                format!("not in the stream up to sequence {sequence}"),
                "the arrival id as the EventSource logged it; messages also go with the stream's age and size",
            ),
            (None, _) => {
                let received = self
                    .own_lines()
                    .find(|seen| matches!(seen.event, LogEvent::Received { .. }));
                let why = self
                    .no_bus
                    .clone()
                    .unwrap_or_else(|| "it was not read".to_owned());
                match received {
                    Some(seen) => Finding {
                        would_prove: Some("reading the bus".to_owned()),
                        ..Finding::new(
                            "bus",
                            Standing::Unproven,
                            format!(
                                "the EventSource has it as {}; the bus itself: {why}",
                                self.arrival().unwrap_or_default()
                            ),
                            command(pipeline, seen),
                        )
                    },
                    None => Finding::unproven(
                        "bus",
                        why,
                        match pipeline.source_level {
                            Some("debug") => {
                                "reading the bus, or the EventSource's debug line with the trace"
                                    .to_owned()
                            }
                            level => format!(
                                "reading the bus; or LOG_LEVEL=debug for EventSource {} (it logs at {}): its debug line ties the arrival id to the trace",
                                pipeline.source_name(),
                                level.unwrap_or("?")
                            ),
                        },
                    ),
                }
            }
        }
    }

    fn consumer(&self, pipeline: &Pipeline) -> Finding {
        let Some(message) = &self.message else {
            return Finding::unproven(
                "judged",
                "not known without the message",
                "the message's sequence, and the consumers' ack floors",
            );
        };
        if let Some(split) = pipeline.split_bus() {
            return Finding::unproven("judged", split, "one EventBus for both");
        }
        let mut lines = Vec::new();
        let mut standing = Standing::Through;
        for wanted in &pipeline.subscriptions {
            match self
                .consumers
                .iter()
                .find(|one| one.durable == wanted.durable)
            {
                None => {
                    lines.push(format!(
                        "{} of trigger {} is not there",
                        wanted.durable, wanted.trigger
                    ));
                    standing = Standing::Unproven;
                }
                Some(one) if one.ack_floor_stream >= message.sequence => {
                    lines.push(format!(
                        "{} of trigger {}: ack floor {} is past it",
                        one.durable, wanted.trigger, one.ack_floor_stream
                    ));
                }
                Some(one) => {
                    lines.push(format!(
                        "{} of trigger {}: ack floor {}, {} waiting, {} unacknowledged",
                        one.durable,
                        wanted.trigger,
                        one.ack_floor_stream,
                        one.num_waiting,
                        one.num_ack_pending
                    ));
                    standing = Standing::Unproven;
                }
            }
        }
        let none = lines.is_empty();
        let finding = Finding::new(
            "judged",
            standing,
            lines.join("; "),
            "nats consumer report default".to_owned(),
        );
        match standing {
            Standing::Unproven => Finding {
                would_prove: Some(
                    "an ack floor past the message: is a pod of the Sensor there, and subscribed?"
                        .to_owned(),
                ),
                ..finding
            },
            _ if none => Finding::unproven(
                "judged",
                "no trigger subscribes to this event",
                "a trigger whose conditions name the dependency",
            ),
            _ => finding,
        }
    }

    /// Accepted wins over discarded: another dependency, or another trigger, may have let the same event go.
    fn filter(&self, pipeline: &Pipeline) -> Finding {
        let accepted = self.own_lines().find(|seen| {
            matches!(
                seen.event,
                LogEvent::Triggered { .. } | LogEvent::TriggerFailed { .. }
            )
        });
        if let Some(seen) = accepted {
            return Finding::new(
                "filter",
                Standing::Through,
                "a trigger acted on it",
                command(pipeline, seen),
            );
        }
        if let Some(named) = self.workflows.iter().find(|one| one.names_the_event) {
            return Finding::new(
                "filter",
                Standing::Through,
                format!("Workflow {} names it", named.name),
                workflow_command(pipeline, named),
            );
        }
        let discarded = self.own_lines().find_map(|seen| match &seen.event {
            LogEvent::Discarded { error, .. } => Some((seen, error.clone())),
            _ => None,
        });
        if let Some((seen, error)) = discarded {
            let line = error.map_or_else(
                || "discarded: it does not match".to_owned(),
                |error| format!("discarded: {error}"),
            );
            return Finding::new("filter", Standing::Stopped, line, command(pipeline, seen));
        }
        let level = pipeline.sensor_level.unwrap_or("?");
        let name = pipeline.sensor_name();
        let would = if pipeline.writes_mismatches() {
            "a line of the current container with this arrival's id; lines are sampled above 100 a second".to_owned()
        } else {
            format!(
                "LOG_LEVEL=debug in spec.template.container.env of Sensor {name} (it logs at {level}, where a clean mismatch is not written; setting it restarts the Sensor), and then a new event"
            )
        };
        // A quiet log is no unknown one.
        let unknown = !self.lines_known && self.lines_seen >= releases::ENOUGH_LINES;
        let line = if !unknown || self.message.is_none() {
            "no line names it"
        } else {
            return Finding::unproven(
                "filter",
                format!(
                    "no line of the logs is one that Argo Events {} write",
                    releases::known()
                ),
                "an Argo Events release whose lines eventlab knows",
            );
        };
        Finding::unproven("filter", line, would)
    }

    fn submit(&self, pipeline: &Pipeline) -> Finding {
        let failed = self.own_lines().find_map(|seen| match &seen.event {
            LogEvent::TriggerFailed { trigger, error, .. } => {
                Some((seen, format!("trigger {trigger} failed: {error}")))
            }
            _ => None,
        });
        let done: Vec<&Seen> = self
            .own_lines()
            .filter(|seen| matches!(seen.event, LogEvent::Triggered { .. }))
            .collect();
        match (failed, done.first()) {
            (Some((seen, line)), None) => {
                Finding::new("submit", Standing::Stopped, line, command(pipeline, seen))
            }
            (failed, Some(seen)) => {
                let names: Vec<&str> = done
                    .iter()
                    .filter_map(|seen| match &seen.event {
                        LogEvent::Triggered { trigger, .. } => Some(trigger.as_str()),
                        _ => None,
                    })
                    .collect();
                let also = failed
                    .map(|(_, line)| format!("; {line}"))
                    .unwrap_or_default();
                Finding::new(
                    "submit",
                    Standing::Through,
                    format!("done: {}{also}", names.join(", ")),
                    command(pipeline, seen),
                )
            }
            (None, None) => match self.workflows.iter().find(|one| one.names_the_event) {
                Some(named) => Finding::new(
                    "submit",
                    Standing::Through,
                    format!("Workflow {} names it", named.name),
                    workflow_command(pipeline, named),
                ),
                None => Finding::unproven(
                    "submit",
                    "no line and no object names it",
                    "a trigger parameter that puts the event's id on what it makes (contextKey: id → metadata.labels.arrival)",
                ),
            },
        }
    }

    /// What a trigger made that acted on the event and of which no Workflow tells: that it ran is not known.
    fn unseen_run(&self, pipeline: &Pipeline) -> Option<Finding> {
        let makes = self.own_lines().any(|seen| match &seen.event {
            LogEvent::Triggered { trigger, .. } => pipeline.makes_workflow(trigger),
            _ => false,
        });
        if !makes || !self.workflows.is_empty() {
            return None;
        }
        let line = match &self.no_workflows {
            Some(why) => format!("Workflows cannot be listed: {why}"),
            None => format!(
                "no Workflow of Sensor {} in namespace {} names it: it is not there any more, or carries nothing of the event",
                pipeline.sensor_name(),
                pipeline.namespace
            ),
        };
        Some(Finding::unproven(
            "run",
            line,
            "a Workflow that is kept for a while (ttlStrategy), with the event's id on it (contextKey: id → metadata.labels.arrival)",
        ))
    }

    fn runs(&self, pipeline: &Pipeline) -> Vec<Finding> {
        self.workflows
            .iter()
            .map(|one| {
                let phase = if one.phase.is_empty() { "no phase: no controller has looked at it" } else { &one.phase };
                let message = if one.message.is_empty() { String::new() } else { format!(", {}", one.message) };
                let gone = if one.gone { "; it is not there any more" } else { "" };
                let line = format!("Workflow {} made {}: {phase}{message}{gone}", one.name, one.created);
                let shows = workflow_command(pipeline, one);
                if !one.names_the_event {
                    return Finding {
                        would_prove: Some("a label with the event's id on the Workflow; this one is of the same Sensor and time, no more".to_owned()),
                        ..Finding::new("run", Standing::Unproven, line, shows)
                    };
                }
                match one.phase.as_str() {
                    "Succeeded" => Finding::new("run", Standing::Through, line, shows),
                    "Failed" | "Error" => Finding::new("run", Standing::Stopped, line, shows),
                    _ => Finding {
                        would_prove: Some(if one.gone {
                            "its end, which nobody saw before it was deleted: a longer ttlStrategy".to_owned()
                        } else {
                            "its end".to_owned()
                        }),
                        ..Finding::new("run", Standing::Unproven, line, shows)
                    },
                }
            })
            .collect()
    }
}

fn command(pipeline: &Pipeline, seen: &Seen) -> String {
    let id = match &seen.event {
        LogEvent::Discarded { arrival, .. } | LogEvent::Received { arrival, .. } => {
            arrival.as_str()
        }
        LogEvent::Triggered { arrivals, .. } | LogEvent::TriggerFailed { arrivals, .. } => {
            arrivals.first().map_or("", String::as_str)
        }
        _ => "",
    };
    format!(
        "{} logs {} -c {} | grep {id}",
        pipeline.kubectl, seen.line.pod.pod, seen.line.pod.container
    )
}

fn workflow_command(pipeline: &Pipeline, one: &Candidate) -> String {
    format!("{} get workflow {} -o yaml", pipeline.kubectl, one.name)
}
