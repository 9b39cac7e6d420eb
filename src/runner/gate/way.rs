//! Conditions of the way to the bus and of the ledger's view: EventBus, EventSource, intake, ledger.

use super::pods::{pod_name, ready, split_pods, waiting_reason};
use super::{Input, condition, condition_of};
use crate::session::message::GateCondition;

pub(super) fn event_bus(input: &Input) -> GateCondition {
    let command = format!(
        "kubectl -n {} get eventbus default -o yaml",
        input.namespace
    );
    let Some(bus) = &input.event_bus else {
        return condition(
            "event bus",
            false,
            "there is no EventBus `default`",
            command,
        );
    };
    for kind in ["Deployed", "Configured"] {
        match condition_of(bus, kind) {
            Some(("True", _)) => {}
            Some((_, message)) => {
                return condition(
                    "event bus",
                    false,
                    format!("not {kind}: {message}"),
                    command,
                );
            }
            None => return condition("event bus", false, format!("not {kind} yet"), command),
        }
    }
    condition("event bus", true, "Deployed and Configured", command)
}

pub(super) fn event_source(input: &Input) -> GateCondition {
    let command = format!(
        "kubectl -n {} get eventsource,pods -l eventsource-name",
        input.namespace
    );
    let Some(source) = &input.event_source else {
        return condition("event source", false, "there is no EventSource", command);
    };
    if let Some(("False", message)) = condition_of(source, "SourcesProvided") {
        return condition(
            "event source",
            false,
            format!("invalid: {message}"),
            command,
        );
    }
    let (current, older) = split_pods(&input.event_source_pods, source, "EVENTSOURCE_OBJECT");
    match (current.as_slice(), older.as_slice()) {
        ([], []) => condition("event source", false, "no pod yet", command),
        ([], [old, ..]) => condition(
            "event source",
            false,
            format!("pod {} runs an older spec", pod_name(old)),
            command,
        ),
        ([_, ..], [old, ..]) => condition(
            "event source",
            false,
            format!("old pod {} is still there", pod_name(old)),
            command,
        ),
        ([pod, ..], []) if !ready(pod) => condition(
            "event source",
            false,
            format!(
                "pod {} is not Ready: {}",
                pod_name(pod),
                waiting_reason(pod)
            ),
            command,
        ),
        ([pod, ..], []) => condition(
            "event source",
            true,
            format!("pod {} runs the present spec", pod_name(pod)),
            command,
        ),
    }
}

pub(super) fn intake(input: &Input) -> GateCondition {
    let command = format!(
        "kubectl -n {} get endpoints orders-eventsource-svc",
        input.namespace
    );
    match &input.intake {
        Ok(()) => condition(
            "intake",
            true,
            "the EventSource answers through its Service",
            command,
        ),
        Err(reason) => condition("intake", false, reason.clone(), command),
    }
}

pub(super) fn ledger(input: &Input) -> GateCondition {
    let command = format!(
        "kubectl -n {} get deployment,pods,endpoints -l app=order-ledger",
        input.namespace
    );
    match &input.ledger {
        Ok(()) => condition("ledger", true, "the ledger's view answers", command),
        Err(reason) => condition("ledger", false, reason.clone(), command),
    }
}
