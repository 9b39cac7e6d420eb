//! Conditions of the subscriptions: the lines of the current container instance, and the consumers on the bus.

use serde_json::Value;

use super::pods::{log_level, pod_name, split_pods};
use super::{Input, condition, text};
use crate::lab::GateMode;
use crate::runner::expected::subscriptions;
use crate::session::message::{GateCondition, StepError};

/// The one current pod and the instance of its container `main` that runs now.
fn current_instance(input: &Input) -> Option<(&Value, (String, u32))> {
    let sensor = input.sensor.as_ref()?;
    let (current, _) = split_pods(&input.sensor_pods, sensor, "SENSOR_OBJECT");
    let pod = current.first()?;
    let statuses = pod.pointer("/status/containerStatuses")?.as_array()?;
    let main = statuses
        .iter()
        .find(|status| text(status, "/name") == "main")?;
    main.pointer("/state/running")?;
    let instance = u32::try_from(main.get("restartCount")?.as_u64()?).ok()?;
    Some((pod, (text(pod, "/metadata/uid").to_owned(), instance)))
}

pub(super) fn subscribed(input: &Input) -> (GateCondition, Option<StepError>) {
    let wanted = input.sensor.as_ref().map(subscriptions).unwrap_or_default();
    let Some((pod, instance)) = current_instance(input) else {
        let command = format!("kubectl -n {} logs -l sensor-name=orders", input.namespace);
        return (
            condition(
                "subscribed",
                false,
                "no running container of the present spec",
                command,
            ),
            None,
        );
    };
    let command = format!(
        "kubectl -n {} logs {} | grep 'successfully subscribed'",
        input.namespace,
        pod_name(pod)
    );
    let log = input.logs.get(&instance).cloned().unwrap_or_default();
    if let Some(failure) = log.failure {
        let text = format!("failed to subscribe: {failure}");
        let error = StepError {
            reason: "not-subscribed".to_owned(),
            text: text.clone(),
            environment: false,
        };
        return (condition("subscribed", false, text, command), Some(error));
    }
    let missing: Vec<_> = wanted
        .iter()
        .filter(|one| !log.subscribed.contains(one))
        .collect();
    if missing.is_empty() && !wanted.is_empty() {
        return (
            condition(
                "subscribed",
                true,
                format!(
                    "{} of {} lines in the current container",
                    wanted.len(),
                    wanted.len()
                ),
                command,
            ),
            None,
        );
    }
    let level = log_level(pod);
    if level != "debug" {
        return without_lines(input, level, command);
    }
    let detail = log.stand_by.unwrap_or_else(|| {
        format!(
            "{} of {} lines in the current container",
            wanted.len() - missing.len(),
            wanted.len()
        )
    });
    (condition("subscribed", false, detail, command), None)
}

/// At any level but debug the success line does not exist: consumer state decides, or the mode wants the line itself.
fn without_lines(
    input: &Input,
    level: &str,
    command: String,
) -> (GateCondition, Option<StepError>) {
    let by_state = consumers(input).holds;
    if input.mode == GateMode::OpenByLine {
        let text = format!(
            "the Sensor logs at {level}: the line that proves the subscription is not written"
        );
        let error = by_state.then(|| StepError {
            reason: "no-subscribed-line".to_owned(),
            text: text.clone(),
            environment: false,
        });
        return (condition("subscribed", false, text, command), error);
    }
    let detail = if by_state {
        format!("decided by consumer state: at level {level} the line is not written")
    } else {
        format!("waiting for the consumers: at level {level} the line is not written")
    };
    (condition("subscribed", by_state, detail, command), None)
}

pub(super) fn consumers(input: &Input) -> GateCondition {
    let command = "nats consumer report default".to_owned();
    let wanted = input.sensor.as_ref().map(subscriptions).unwrap_or_default();
    let present = match &input.consumers {
        Ok(present) => present,
        Err(reason) => {
            return condition(
                "consumers",
                false,
                format!("could not look: {reason}"),
                command,
            );
        }
    };
    for one in &wanted {
        match present.iter().find(|consumer| {
            consumer.durable == one.durable && consumer.filter_subject == one.subject
        }) {
            None => {
                return condition(
                    "consumers",
                    false,
                    format!("{} on {} is not there yet", one.durable, one.subject),
                    command,
                );
            }
            Some(consumer) if consumer.num_waiting == 0 => {
                return condition(
                    "consumers",
                    false,
                    format!("nobody pulls from {}", one.durable),
                    command,
                );
            }
            Some(_) => {}
        }
    }
    condition(
        "consumers",
        !wanted.is_empty(),
        format!("{} of {} pulled from", wanted.len(), wanted.len()),
        command,
    )
}
