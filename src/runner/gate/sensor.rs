//! The Sensor: valid, carried by its pod as it stands now, and by no older one.

use serde_json::Value;

use super::pods::{carried, pod_name, ready, split_pods};
use super::starting::{no_pod, not_ready};
use super::{Input, Judged, condition, condition_of, refuted, text};
use crate::session::message::StepError;

/// An invalid Sensor fails fast, once its controller has said so of the present spec.
pub(super) fn valid(input: &Input) -> Judged {
    let command = format!("kubectl -n {} get sensor orders -o yaml", input.namespace);
    let Some(sensor) = &input.sensor else {
        let open = condition("sensor", false, "there is no Sensor", command);
        return (open, None);
    };
    let refused = refusal(sensor);
    let fails = |text: String| {
        let text = format!("{text}. The edit is not live; the old filter runs on");
        let said = condition("sensor", false, text.clone(), command.clone());
        (said, Some(refuted("invalid-sensor", text)))
    };
    let waits = |text: String| (condition("sensor", false, text, command.clone()), None);
    match (refused, &input.invalid) {
        (_, Some(objection)) if objection.silent => fails(format!(
            "the controller cannot decode it: {}",
            objection.text
        )),
        (Some((text, true)), _) | (Some((text, false)), Some(_)) => fails(text),
        (Some((text, false)), None) => waits(doubt(&text)),
        (None, Some(objection)) => waits(format!(
            "invalid, and its controller has not said so yet: {}",
            objection.text
        )),
        (None, None) => (condition("sensor", true, "valid", command.clone()), None),
    }
}

/// What the controller says against the Sensor, and whether that is surely said of the present spec.
fn refusal(sensor: &Value) -> Option<(String, bool)> {
    let mut kinds = ["DependenciesProvided", "TriggersProvided"].into_iter();
    kinds.find_map(|kind| match condition_of(sensor, kind) {
        Some(("False", message)) => {
            // Only this program's own controller refuses what upstream accepts, and it says of which spec.
            let own = message.starts_with("eventlab:") && observed_present_spec(sensor);
            Some((format!("{kind} is False: {message}"), own))
        }
        _ => None,
    })
}

fn doubt(text: &str) -> String {
    format!("its controller has not looked at the present spec yet, or knows better: {text}")
}

/// The controller refuses a Sensor that nothing is seen to be wrong with.
pub(super) fn doubtful(input: &Input) -> Option<StepError> {
    let (text, own) = refusal(input.sensor.as_ref()?)?;
    (!own && input.invalid.is_none()).then(|| StepError {
        reason: "invalid-sensor".to_owned(),
        text: doubt(&text),
        environment: true,
    })
}

fn observed_present_spec(object: &Value) -> bool {
    let generation = object.pointer("/metadata/generation");
    generation.is_some() && object.pointer("/status/observedGeneration") == generation
}

/// The Sensor's status says `Deployed`: its Deployment is made. Of a pod, or of a subscription, this says nothing.
pub(super) fn deployed(input: &Input) -> Judged {
    let command = format!("kubectl -n {} get sensor orders -o yaml", input.namespace);
    let (holds, detail) = match &input.sensor {
        None => (false, "there is no Sensor".to_owned()),
        Some(sensor) => match condition_of(sensor, "Deployed") {
            Some(("True", _)) => (true, "Deployed is True; no more is waited for".to_owned()),
            Some((_, message)) => (false, format!("not Deployed: {message}")),
            None => (
                false,
                "not Deployed yet; is its controller running?".to_owned(),
            ),
        },
    };
    (condition("sensor deployed", holds, detail, command), None)
}

/// One Ready pod carries the present spec.
pub(super) fn spec(input: &Input) -> Judged {
    let command = format!(
        "kubectl -n {} get pods -l sensor-name=orders -o jsonpath='{{..env[?(@.name==\"SENSOR_OBJECT\")].value}}' | base64 -d",
        input.namespace
    );
    let not = |detail: String| condition("sensor spec", false, detail, command.clone());
    let Some(sensor) = &input.sensor else {
        return (not("there is no Sensor".to_owned()), None);
    };
    let (current, older) = split_pods(&input.sensor_pods, sensor, "SENSOR_OBJECT");
    let judged = match (current.as_slice(), older.as_slice()) {
        ([], older) => {
            let said = older.first().map_or_else(
                || "no pod yet".to_owned(),
                |old| {
                    let (name, filter) = (pod_name(old), filter_of(old));
                    format!("your edit is not live: pod {name} runs {filter}")
                },
            );
            not(no_pod(input, sensor, "sensor-name", said))
        }
        ([pod, ..], _) if !ready(pod) => {
            let (detail, command) = not_ready(pod, &input.namespace);
            condition("sensor spec", false, detail, command)
        }
        ([pod], _) => condition(
            "sensor spec",
            true,
            format!("pod {} carries the present spec", pod_name(pod)),
            command,
        ),
        (more, _) => not(format!(
            "{} pods carry the present spec; one is expected",
            more.len()
        )),
    };
    (judged, None)
}

/// The filter that a pod really runs, in short.
fn filter_of(pod: &Value) -> String {
    let Some(object) = carried(pod, "SENSOR_OBJECT") else {
        return "another spec".to_owned();
    };
    match object.pointer("/spec/dependencies/0/filters") {
        Some(filters) => format!("the filter {}", shorten(&filters.to_string())),
        None => "no filter".to_owned(),
    }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= 160 {
        return text.to_owned();
    }
    text.chars().take(159).chain(['…']).collect()
}

/// No pod of an older spec is left, which would hold the lead.
pub(super) fn older_pod(input: &Input) -> Judged {
    let command = format!(
        "kubectl -n {} get pods -l sensor-name=orders",
        input.namespace
    );
    let (holds, detail) = match &input.sensor {
        None => (false, "there is no Sensor".to_owned()),
        Some(sensor) => match split_pods(&input.sensor_pods, sensor, "SENSOR_OBJECT")
            .1
            .first()
        {
            None => (true, "none is left".to_owned()),
            Some(old) => (false, format!("stand by, old pod {} alive", pod_name(old))),
        },
    };
    (condition("older pod", holds, detail, command), None)
}

/// The one current pod and the instance of its container `main` that runs now.
pub(super) fn current_instance(input: &Input) -> Option<(&Value, (String, u32))> {
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
