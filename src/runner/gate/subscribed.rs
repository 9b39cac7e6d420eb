//! Subscribed: a line for every trigger and subject in the present container, and consumers that somebody pulls from.

use super::pods::{log_level, pod_name};
use super::sensor::current_instance;
use super::{Input, InstanceLog, Judged, condition, refuted};
use crate::lab::GateMode;
use crate::runner::expected::{Subscription, subscriptions};
use crate::runner::releases;
use crate::session::message::StepError;
use crate::words::counted;

const LINES: &str = "subscribed";
const CONSUMERS: &str = "consumers";

fn wanted(input: &Input) -> Vec<Subscription> {
    input.sensor.as_ref().map(subscriptions).unwrap_or_default()
}

/// One line for every trigger and distinct subject, in the container instance that runs now.
pub(super) fn by_lines(input: &Input) -> Judged {
    let Some((pod, instance)) = current_instance(input) else {
        let command = format!("kubectl -n {} logs -l sensor-name=orders", input.namespace);
        let detail = "no running container of the present spec";
        return (condition(LINES, false, detail, command), None);
    };
    let command = format!(
        "kubectl -n {} logs {} | grep 'successfully subscribed'",
        input.namespace,
        pod_name(pod)
    );
    let fails = |error: StepError| {
        let said = condition(LINES, false, error.text.clone(), command.clone());
        (said, Some(error))
    };
    let (wanted, log) = (
        wanted(input),
        input.logs.get(&instance).cloned().unwrap_or_default(),
    );
    if let Some(failure) = &log.failure {
        return fails(StepError {
            environment: is_trouble_of_the_bus(failure),
            ..refuted("not-subscribed", format!("failed to subscribe: {failure}"))
        });
    }
    if wanted.is_empty() {
        let text = "the Sensor subscribes to nothing: the conditions of its triggers name none of its dependencies";
        return fails(refuted("subscribes-to-nothing", text));
    }
    let shown = shown(&wanted, &log);
    let lines = format!(
        "{shown} of {} in the current container",
        counted(wanted.len(), "line")
    );
    if shown == wanted.len() {
        return (condition(LINES, true, lines, command), None);
    }
    if log.known_lines == 0 && log.lines >= releases::ENOUGH_LINES {
        // A log of another release proves nothing, and its silence is nobody's fault.
        return fails(StepError {
            reason: "unknown-release".to_owned(),
            text: releases::unknown(log.lines),
            environment: true,
        });
    }
    let level = log_level(pod);
    if level != "debug" {
        return without_lines(input, level, command);
    }
    let detail = log.stand_by.unwrap_or(lines);
    (condition(LINES, false, detail, command), None)
}

/// What the client of the bus says when the bus does not answer, is full, or goes away: nothing of it is of the Sensor.
const TROUBLE: &[&str] = &[
    "connection closed",
    "timeout",
    "no servers available",
    "no responders",
    "storage failed",
    "insufficient",
    "deadline exceeded",
    "jetstream not enabled",
    "system temporarily unavailable",
];

fn is_trouble_of_the_bus(failure: &str) -> bool {
    TROUBLE.iter().any(|text| failure.contains(text))
}

fn shown(wanted: &[Subscription], log: &InstanceLog) -> usize {
    let shown = wanted.iter().filter(|one| log.subscribed.contains(one));
    shown.count()
}

/// At any level but debug the success line does not exist: consumer state decides, or the mode wants the line itself.
fn without_lines(input: &Input, level: &str, command: String) -> Judged {
    let by_state = consumers(input).0.holds;
    if input.mode == GateMode::OpenByLine {
        let text = format!(
            "the Sensor logs at {level}: the line that proves the subscription is not written"
        );
        let error = by_state.then(|| refuted("no-subscribed-line", text.clone()));
        return (condition(LINES, false, text, command), error);
    }
    let detail = if by_state {
        format!("decided by consumer state: at level {level} the line is not written")
    } else {
        format!("waiting for the consumers: at level {level} the line is not written")
    };
    (condition(LINES, by_state, detail, command), None)
}

/// The consumers are there, and somebody pulls from each.
pub(super) fn consumers(input: &Input) -> Judged {
    let (holds, detail) = match (&input.by_log_alone, &input.consumers) {
        (Some(reason), _) => by_log(input, reason),
        (None, Err(reason)) => (false, format!("could not look: {reason}")),
        (None, Ok(present)) => {
            let wanted = wanted(input);
            let missing = wanted.iter().find_map(|one| {
                let found = present.iter().find(|consumer| {
                    consumer.durable == one.durable && consumer.filter_subject == one.subject
                });
                match found {
                    None => Some(format!(
                        "{} on {} is not there yet",
                        one.durable, one.subject
                    )),
                    Some(consumer) if consumer.num_waiting == 0 => {
                        Some(format!("nobody pulls from {}", one.durable))
                    }
                    Some(_) => None,
                }
            });
            let of = wanted.len();
            match missing {
                Some(missing) => (false, missing),
                None => (of > 0, format!("{of} of {of} pulled from")),
            }
        }
    };
    let command = "nats consumer report default".to_owned();
    (condition(CONSUMERS, holds, detail, command), None)
}

/// Without the bus the lines of the current container decide, and nothing else can.
fn by_log(input: &Input, reason: &str) -> (bool, String) {
    let wanted = wanted(input);
    let log = current_instance(input)
        .and_then(|(_, instance)| input.logs.get(&instance).cloned())
        .unwrap_or_default();
    let (shown, of) = (shown(&wanted, &log), wanted.len());
    let lines = counted(of, "line");
    let detail = format!("by log alone, {shown} of {lines}: {reason}");
    (shown == of && of > 0, detail)
}
