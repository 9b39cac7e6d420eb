//! Triggers that are not carried out here: which these are, and what of them can be made all the same.

use serde_json::Value;

use super::super::decode::Node;
use super::super::parameters::{Events, ParameterError, Parameters};
use super::{TriggerError, kind, object, prepare};

/// What of a trigger this program does not carry out, and what to use instead; `None` when it carries out all of it, and
/// when there is nothing that upstream would carry out either.
#[must_use]
pub fn outside(template: &Value) -> Option<String> {
    let kind = kind(template)?;
    let trigger = template.get(kind);
    match kind {
        "log" => None,
        "k8s" => trigger.and_then(object::outside),
        "argoWorkflow" => trigger.and_then(outside_of_workflow),
        "http" => Some(
            "trigger type http is not carried out here: it would leave the lab; have a k8s trigger create a Workflow that makes the call"
                .to_owned(),
        ),
        other => Some(format!(
            "trigger type {other} is not carried out here: its service is outside of the lab; use k8s, argoWorkflow or log"
        )),
    }
}

fn outside_of_workflow(trigger: &Value) -> Option<String> {
    let operation = trigger.get("operation").and_then(Value::as_str);
    let args = trigger.get("args").and_then(Value::as_array);
    match operation.unwrap_or_default() {
        "" | "submit" if args.is_some_and(|args| !args.is_empty()) => Some(
            "argoWorkflow.args go to Argo's command line, which is not here; set the same in the Workflow's spec".to_owned(),
        ),
        "" | "submit" => object::outside(trigger),
        other => Some(format!(
            "argoWorkflow operation {other} needs Argo's command line, which is not here; use submit, or a k8s trigger"
        )),
    }
}

/// Makes the parameters and the payload of a trigger that [`outside`] names, as upstream does before it calls anything.
///
/// # Errors
/// [`TriggerError`], with upstream's text where upstream has one.
pub fn resolve(trigger: &Value, events: &Events) -> Result<(), TriggerError> {
    let prepared = prepare(trigger, events)?;
    let template = Node::new(&prepared.template, "template");
    let Some(kind) = kind(&prepared.template) else {
        return Ok(());
    };
    let Some(given) = template.object(kind)? else {
        return Ok(());
    };
    match kind {
        "log" => Ok(()),
        "k8s" | "argoWorkflow" => submitted(kind, &given, events),
        _ => called(kind, &given, events),
    }
}

/// An object that is submitted in a way that is not here, or whose source is not read here.
fn submitted(kind: &str, given: &Node<'_>, events: &Events) -> Result<(), TriggerError> {
    let source = given.value().get("source").unwrap_or(&Value::Null);
    if matches!(object::source_kind(source), Some((_, false))) {
        return Ok(Parameters::of(given, "parameters")?.resolve(events)?);
    }
    let object = object::parametrized(given, events)?;
    if kind != "argoWorkflow" {
        return Ok(());
    }
    let operation = given.text("operation")?;
    let text = |pointer: &str| {
        let value = object.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default()
    };
    if matches!(operation.as_str(), "" | "submit") {
        return object::check_name(&object);
    }
    if text("/metadata/name").is_empty() {
        return Err(TriggerError::Name(format!(
            "failed to execute the workflow {operation} operation, no name is given"
        )));
    }
    let from = text("/kind").to_lowercase();
    if operation == "submit-from" && !matches!(from.as_str(), "cronworkflow" | "workflowtemplate") {
        return Err(TriggerError::Name(format!(
            "invalid kind {}",
            text("/kind")
        )));
    }
    Ok(())
}

/// A call to another service.
fn called(kind: &str, given: &Node<'_>, events: &Events) -> Result<(), TriggerError> {
    let parameters = Parameters::of(given, "parameters")?;
    // Of a custom trigger they are written into what its own server answers.
    let changed = if parameters.is_empty() || kind == "custom" {
        parameters.resolve(events)?;
        given.value().clone()
    } else {
        parameters.apply(events, given.value())?
    };
    let changed = Node::new(&changed, given.path());
    let call = |what: &str, error| match error {
        ParameterError::NoValue(dependency) => TriggerError::Crash(dependency),
        error => TriggerError::Call {
            what: what.to_owned(),
            error,
        },
    };
    if !matches!(kind, "slack" | "email") {
        let payload = Parameters::of(&changed, "payload")?;
        payload.payload(events).map_err(|error| call("", error))?;
    }
    if kind != "http" {
        return Ok(());
    }
    for header in changed.list("dynamicHeaders")?.unwrap_or_default() {
        let wrapped = serde_json::json!([header.value()]);
        let name = header.text("dest")?;
        let what = format!("failed to resolve the value for dynamicHeader {name}, ");
        let parameter = Parameters::decode(&wrapped)?;
        parameter
            .values(events)
            .map_err(|error| call(&what, error))?;
    }
    Ok(())
}
