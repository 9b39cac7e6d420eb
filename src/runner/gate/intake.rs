//! The way in: the bus, the EventSource behind its Service, and the ledger's view that answers for the effects.

use serde_json::Value;

use super::pods::{pod_name, ready, split_pods, terminating};
use super::starting::{hindrance, no_pod, not_made, not_ready};
use super::{Input, Judged, condition, condition_of, refuted, text};
use crate::kinds;
use crate::runner::sending::WEBHOOK_PORT;
use crate::session::message::StepError;

/// The Deployment of the ledger's view.
const LEDGER: &str = "order-ledger";

/// A bus that is not there does not come by waiting: what runs, if anything does, is an older spec.
pub(super) fn event_bus(input: &Input) -> Judged {
    let command = format!(
        "kubectl -n {} get eventbus default -o yaml",
        input.namespace
    );
    let not = |detail: String| condition("event bus", false, detail, command.clone());
    if let Some(text) = &input.missing_bus {
        return (not(text.clone()), Some(refuted("no-event-bus", text)));
    }
    let Some(bus) = &input.event_bus else {
        return (not("there is no EventBus `default`".to_owned()), None);
    };
    for kind in ["Deployed", "Configured"] {
        match condition_of(bus, kind) {
            Some(("True", _)) => {}
            Some((_, message)) => return (not(format!("not {kind}: {message}")), None),
            None => return (not(format!("not {kind} yet")), None),
        }
    }
    let holds = condition("event bus", true, "Deployed and Configured", command);
    (holds, None)
}

/// An invalid EventSource fails fast, once its controller has said so of the present spec.
pub(super) fn event_source(input: &Input) -> Judged {
    let command = format!(
        "kubectl -n {} get eventsource,pods -l eventsource-name",
        input.namespace
    );
    let not = |detail: String| condition("event source", false, detail, command.clone());
    let Some(source) = &input.event_source else {
        return (not("there is no EventSource".to_owned()), None);
    };
    let command_of_source = format!(
        "kubectl -n {} get eventsource {} -o yaml",
        input.namespace,
        text(source, "/metadata/name")
    );
    if let Some(("False", message)) = condition_of(source, "SourcesProvided") {
        let failed = input.invalid_source.is_some().then(|| {
            let text = format!(
                "SourcesProvided is False: {message}. The edit is not live; what runs, if anything does, is the EventSource before it"
            );
            refuted("invalid-event-source", text)
        });
        let detail = match &failed {
            Some(failed) => failed.text.clone(),
            None => doubt(message),
        };
        let said = condition("event source", false, detail, command_of_source);
        return (said, failed);
    }
    let (current, older) = split_pods(&input.event_source_pods, source, "EVENTSOURCE_OBJECT");
    let judged = match (current.as_slice(), older.as_slice()) {
        ([], older) => {
            let said = older.first().map_or_else(
                || "no pod yet".to_owned(),
                |old| format!("pod {} runs an older spec", pod_name(old)),
            );
            not(no_pod(input, source, "eventsource-name", said))
        }
        ([pod, ..], older) if !ready(pod) && (older.is_empty() || hindrance(pod).is_some()) => {
            let (detail, command) = not_ready(pod, &input.namespace);
            condition("event source", false, detail, command)
        }
        ([_, ..], [old, ..]) => not(format!("old pod {} is still there", pod_name(old))),
        ([pod, ..], []) => condition(
            "event source",
            true,
            format!("pod {} runs the present spec", pod_name(pod)),
            command,
        ),
    };
    (judged, None)
}

fn doubt(message: &str) -> String {
    format!(
        "its controller has not looked at the present spec yet, or knows better: SourcesProvided is False: {message}"
    )
}

/// The controller refuses an EventSource that nothing is seen to be wrong with.
pub(super) fn doubtful_source(input: &Input) -> Option<StepError> {
    let (status, message) = condition_of(input.event_source.as_ref()?, "SourcesProvided")?;
    let doubtful = status == "False" && input.invalid_source.is_none();
    doubtful.then(|| StepError {
        reason: "invalid-event-source".to_owned(),
        text: doubt(message),
        environment: true,
    })
}

/// Why the Service leads nowhere as the EventSource is written: it asks for none on the port that is sent to, or for one
/// that leads to a port on which no event of it listens.
fn leads_nowhere(source: &Value) -> Option<StepError> {
    let port_text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let Some(leads) = kinds::service_port(source, WEBHOOK_PORT) else {
        let text = format!("the EventSource asks for no Service on port {WEBHOOK_PORT}");
        return Some(refuted("no-service", text));
    };
    // Where a name leads that the EventSource does not explain is not known.
    let target = kinds::event_source_port(source, &leads)?.to_string();
    let events = source.pointer("/spec/webhook")?.as_object()?;
    let listens = events
        .values()
        .filter_map(|event| event.get("port"))
        .any(|port| port_text(port) == target);
    (!listens && !events.is_empty()).then(|| {
        let text = format!(
            "the Service leads to port {target} of the pod, and the EventSource listens on none of that number"
        );
        refuted("nobody-listens", text)
    })
}

/// The EventSource answers through its Service.
pub(super) fn reached(input: &Input) -> Judged {
    let command = format!(
        "kubectl -n {} get endpoints orders-eventsource-svc",
        input.namespace
    );
    let Err(reason) = &input.intake else {
        let detail = "the EventSource answers through its Service";
        return (condition("intake", true, detail, command), None);
    };
    let failed = match &input.event_source {
        Some(source) if event_source(input).0.holds => leads_nowhere(source),
        _ => None,
    };
    let detail = match &failed {
        Some(error) => format!("{}: {reason}", error.text),
        None => reason.clone(),
    };
    (condition("intake", false, detail, command), failed)
}

/// A ledger whose file went away under its reader does not come back by waiting.
pub(super) fn lost_ledger(input: &Input) -> Option<StepError> {
    let reason = input.ledger.as_ref().err()?;
    reason
        .contains("was removed or replaced")
        .then(|| StepError {
            reason: "ledger-gone".to_owned(),
            text: reason.clone(),
            environment: true,
        })
}

/// The ledger's view answers, without which no effect can be seen.
pub(super) fn ledger(input: &Input) -> Judged {
    let command = format!(
        "kubectl -n {} get deployment,pods,endpoints -l app={LEDGER}",
        input.namespace
    );
    let Err(reason) = &input.ledger else {
        let detail = "the ledger's view answers";
        return (condition("ledger", true, detail, command), None);
    };
    let mut pods = input.ledger_pods.iter().filter(|pod| !terminating(pod));
    let (detail, command) = match pods.find(|pod| hindrance(pod).is_some()) {
        Some(pod) => {
            let (why, command) = not_ready(pod, &input.namespace);
            (format!("{reason}; {why}"), command)
        }
        None => match not_made(input, |one| text(one, "/metadata/name") == LEDGER) {
            Some(why) => (format!("{reason}; no pod yet: {why}"), command),
            None => (reason.clone(), command),
        },
    };
    (condition("ledger", false, detail, command), None)
}
