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

/// What a layer's own evidence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Something that is there shows that it came through.
    Passed,
    /// Something that is there shows that it was stopped.
    Stopped,
    /// Nothing came of it where all was looked at.
    Silent,
    Nothing,
}

impl Finding {
    /// The one place where a standing is given. What is there proves a stop; a look that failed proves no pass, and makes of
    /// silence what it is.
    fn standing_of(proof: Proof, failed: Option<&str>) -> Standing {
        match (proof, failed) {
            (Proof::Passed, None) => Standing::Through,
            (Proof::Stopped, _) | (Proof::Silent, None) => Standing::Stopped,
            (Proof::Passed | Proof::Silent, Some(_)) | (Proof::Nothing, _) => Standing::Unproven,
        }
    }

    pub(super) fn new(
        layer: &'static str,
        proof: Proof,
        line: impl Into<String>,
        command: impl Into<String>,
    ) -> Self {
        Self::looked(layer, proof, None, line, command)
    }

    /// With why a look failed on which it rests.
    fn looked(
        layer: &'static str,
        proof: Proof,
        failed: Option<&str>,
        line: impl Into<String>,
        command: impl Into<String>,
    ) -> Self {
        let standing = Self::standing_of(proof, failed);
        let mut line: String = line.into();
        if let Some(failed) = failed.filter(|_| standing == Standing::Unproven) {
            line = match line.as_str() {
                "" => format!("could not look: {failed}"),
                line => format!("{line}; could not look: {failed}"),
            };
        }
        let again = standing == Standing::Unproven && failed.is_some();
        Self {
            layer,
            standing,
            line,
            command: command.into(),
            would_prove: again.then(|| "a look that does not fail".to_owned()),
        }
    }

    fn unproven(layer: &'static str, line: impl Into<String>, would: impl Into<String>) -> Self {
        Self {
            would_prove: Some(would.into()),
            ..Self::new(layer, Proof::Nothing, line, String::new())
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
        findings.extend(self.submits(pipeline));
        findings.extend(self.runs(pipeline));
        findings.extend(self.unseen_run(pipeline));
        until_stopped(findings)
    }

    fn intake(&self) -> Option<Finding> {
        let command = "the request above".to_owned();
        Some(match self.answer.as_ref()? {
            Ok(response) => {
                let proof = if response.status == 200 {
                    Proof::Passed
                } else {
                    Proof::Stopped
                };
                let body: String = response.body.chars().take(200).collect();
                Finding::new(
                    "intake",
                    proof,
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
                Proof::Passed,
                format!(
                    "sequence {} on {}, id {}, stored {}",
                    message.sequence, message.subject, message.arrival, message.time
                ),
                format!("nats stream get default {}", message.sequence),
            );
        }
        let answered = matches!(&self.answer, Some(Ok(response)) if response.status == 200);
        match (self.read_to, answered) {
            (Some(sequence), true) if pipeline.source_filters() => {
                let failed = self.no_bus.as_deref().or(self.unheard.as_deref());
                let dropped = match failed {
                    None => ": the EventSource's own filter dropped it",
                    Some(_) => "",
                };
                Finding::looked(
                    "bus",
                    Proof::Silent,
                    failed,
                    format!(
                        "answered 200, and nothing of it is in the stream up to sequence {sequence}{dropped}"
                    ),
                    "nats stream view default",
                )
            }
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
                            Proof::Nothing,
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
        if message.subject != pipeline.subject {
            return Finding::unproven(
                "judged",
                format!(
                    "it lies on {}, and the consumers that were looked at are on {}",
                    message.subject, pipeline.subject
                ),
                "the EventSource and the event that it came from (--eventsource, --event)",
            );
        }
        if pipeline.subscriptions.is_empty() {
            return Finding::unproven(
                "judged",
                "no trigger subscribes to this event",
                "a trigger whose conditions name the dependency",
            );
        }
        let shows = "nats consumer report default";
        let failed = self.no_consumers.as_deref();
        if let (Some(_), true) = (failed, self.consumers.is_empty()) {
            return Finding::looked("judged", Proof::Nothing, failed, "", shows);
        }
        let mut lines = Vec::new();
        let mut proof = Proof::Passed;
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
                    proof = Proof::Nothing;
                }
                // It is handed only what is stored after it was made.
                Some(one) if one.created_at_sequence >= message.sequence => {
                    lines.push(format!(
                        "{} of trigger {} was made after sequence {}, when the event was stored already",
                        one.durable, wanted.trigger, one.created_at_sequence
                    ));
                    proof = Proof::Nothing;
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
                    proof = Proof::Nothing;
                }
            }
        }
        let finding = Finding::looked("judged", proof, failed, lines.join("; "), shows);
        if proof == Proof::Passed {
            return finding;
        }
        Finding {
            would_prove: Some(
                "an ack floor past the message: is a pod of the Sensor there, and subscribed?"
                    .to_owned(),
            ),
            ..finding
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
                Proof::Passed,
                "a trigger acted on it",
                command(pipeline, seen),
            );
        }
        if let Some(named) = self.workflows.iter().find(|one| one.names_the_event) {
            return Finding::new(
                "filter",
                Proof::Passed,
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
            // A rejection does not say whose it is, and an acknowledgement says nothing of a filter: where several dependencies
            // listen, each of them must have rejected it.
            let (proof, failed) = match pipeline.listeners() {
                0 | 1 => (Proof::Stopped, None),
                _ if self.rejections() < self.may_reject(pipeline, &[]) => {
                    return Finding::unproven(
                        "filter",
                        format!("{line}; another dependency may have let it pass, or may still"),
                        "a rejection of each dependency that listens (a filter that does not match is written at debug level alone), or the line of a trigger",
                    );
                }
                _ => (
                    Proof::Silent,
                    self.unheard.as_deref().or(self.no_workflows.as_deref()),
                ),
            };
            return Finding::looked("filter", proof, failed, line, command(pipeline, seen));
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

    /// One finding a trigger.
    fn submits(&self, pipeline: &Pipeline) -> Vec<Finding> {
        let mut acted: Vec<(&str, &Seen, Option<&str>)> = Vec::new();
        for seen in self.own_lines() {
            let (trigger, error) = match &seen.event {
                LogEvent::Triggered { trigger, .. } => (trigger.as_str(), None),
                LogEvent::TriggerFailed { trigger, error, .. } => {
                    (trigger.as_str(), Some(error.as_str()))
                }
                _ => continue,
            };
            match acted.iter_mut().find(|(known, ..)| *known == trigger) {
                // It failed, and was done at a later try.
                Some(known) if error.is_none() => *known = (trigger, seen, None),
                Some(_) => {}
                None => acted.push((trigger, seen, error)),
            }
        }
        if acted.is_empty() {
            return vec![self.submit_by_object(pipeline)];
        }
        let silent = self.silent_triggers(pipeline, &acted);
        let told = acted.into_iter().map(|(trigger, seen, error)| {
            let shows = command(pipeline, seen);
            match error {
                None => Finding::new("submit", Proof::Passed, format!("done: {trigger}"), shows),
                Some(error) => {
                    let line = format!("trigger {trigger} failed: {error}");
                    Finding::new("submit", Proof::Stopped, line, shows)
                }
            }
        });
        told.chain(silent).collect()
    }

    /// Triggers that listen to the event and of which no line tells, while others acted on it.
    fn silent_triggers(
        &self,
        pipeline: &Pipeline,
        acted: &[(&str, &Seen, Option<&str>)],
    ) -> Vec<Finding> {
        let acted: Vec<&str> = acted.iter().map(|(trigger, ..)| *trigger).collect();
        // A line of a rejection does not say whose it is: it tells of these triggers only where all that could reject have.
        if self.rejections() >= self.may_reject(pipeline, &acted) {
            return Vec::new();
        }
        let mut names: Vec<&str> = Vec::new();
        for one in &pipeline.subscriptions {
            let trigger = one.trigger.as_str();
            if !acted.contains(&trigger) && !names.contains(&trigger) {
                names.push(trigger);
            }
        }
        names
            .into_iter()
            .map(|trigger| {
                Finding::unproven(
                    "submit",
                    format!("no line of trigger {trigger} names it"),
                    "its line; a filter that does not match is written at debug level alone, and a trigger that waits for another dependency writes nothing",
                )
            })
            .collect()
    }

    fn submit_by_object(&self, pipeline: &Pipeline) -> Finding {
        match self.workflows.iter().find(|one| one.names_the_event) {
            Some(named) => Finding::new(
                "submit",
                Proof::Passed,
                format!("Workflow {} names it", named.name),
                workflow_command(pipeline, named),
            ),
            None => Finding::unproven(
                "submit",
                "no line and no object names it",
                "a trigger parameter that puts the event's id on what it makes (contextKey: id → metadata.labels.arrival)",
            ),
        }
    }

    /// Triggers that made a Workflow of the event, and have none among those that were seen: that it ran is not known.
    fn unseen_run(&self, pipeline: &Pipeline) -> Option<Finding> {
        let mut made: Vec<&str> = Vec::new();
        for seen in self.own_lines() {
            if let LogEvent::Triggered { trigger, .. } = &seen.event
                && pipeline.makes_workflow(trigger)
                && !made.contains(&trigger.as_str())
            {
                made.push(trigger);
            }
        }
        // A Workflow says which trigger made it; one that does not stands for any.
        let of = |trigger: &str| self.workflows.iter().any(|one| one.trigger == trigger);
        let nameless = self.workflows.iter().filter(|one| one.trigger.is_empty());
        let mut unseen: Vec<&str> = made.into_iter().filter(|trigger| !of(trigger)).collect();
        unseen.drain(..nameless.count().min(unseen.len()));
        if unseen.is_empty() {
            return None;
        }
        let triggers = unseen.join(", ");
        let line = match &self.no_workflows {
            Some(why) => {
                format!("the Workflow of trigger {triggers}: Workflows cannot be listed: {why}")
            }
            None => format!(
                "no Workflow of trigger {triggers} of Sensor {} in namespace {} names it: it is not there any more, or carries nothing of the event",
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
                        ..Finding::new("run", Proof::Nothing, line, shows)
                    };
                }
                match one.phase.as_str() {
                    "Succeeded" => Finding::new("run", Proof::Passed, line, shows),
                    "Failed" | "Error" => Finding::new("run", Proof::Stopped, line, shows),
                    _ => Finding {
                        would_prove: Some(if one.gone {
                            "its end, which nobody saw before it was deleted: a longer ttlStrategy".to_owned()
                        } else {
                            "its end".to_owned()
                        }),
                        ..Finding::new("run", Proof::Nothing, line, shows)
                    },
                }
            })
            .collect()
    }
}

/// Without what lies behind a layer that nothing came through.
fn until_stopped(mut findings: Vec<Finding>) -> Vec<Finding> {
    let stops = |one: &Finding| one.standing == Standing::Stopped;
    let Some(layer) = findings.iter().find(|one| stops(one)).map(|one| one.layer) else {
        return findings;
    };
    let goes_on = findings.iter().any(|one| one.layer == layer && !stops(one));
    let end = findings.iter().rposition(|one| one.layer == layer);
    if let Some(end) = end.filter(|_| !goes_on) {
        findings.truncate(end + 1);
    }
    findings
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_failed_proves_no_pass_and_makes_no_silence() {
        for (proof, heard, failed) in [
            (Proof::Passed, Standing::Through, Standing::Unproven),
            (Proof::Stopped, Standing::Stopped, Standing::Stopped),
            (Proof::Silent, Standing::Stopped, Standing::Unproven),
            (Proof::Nothing, Standing::Unproven, Standing::Unproven),
        ] {
            assert_eq!(Finding::standing_of(proof, None), heard, "{proof:?}");
            assert_eq!(Finding::standing_of(proof, Some("x")), failed, "{proof:?}");
            let finding = Finding::looked("bus", proof, Some("no answer"), "a", "");
            let told = finding.line.contains("no answer");
            assert_eq!(told, finding.standing == Standing::Unproven, "{finding:?}");
        }
    }
}
