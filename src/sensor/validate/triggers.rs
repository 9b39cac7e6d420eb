//! The checks on a Sensor's triggers.

use std::collections::HashSet;

use super::super::cron::Schedule;
use super::super::decode::Node;
use super::super::time::find_zone;
use super::{Fault, fault, require};

/// Checks the list of triggers.
pub(super) fn check(spec: &Node<'_>) -> Result<(), Fault> {
    let triggers = spec.list("triggers")?.unwrap_or_default();
    require(!triggers.is_empty(), "no triggers found")?;
    let mut names = HashSet::new();
    for trigger in &triggers {
        check_trigger(trigger)?;
        let name = trigger
            .object("template")?
            .map_or(Ok(String::new()), |template| template.text("name"))?;
        let again = format!("duplicate trigger name: {name}");
        require(names.insert(name), &again)?;
    }
    Ok(())
}

fn check_trigger(trigger: &Node<'_>) -> Result<(), Fault> {
    let template = present(trigger, "template")?;
    let Some(template) = template else {
        return Err(fault("trigger template can't be nil"));
    };
    check_template(&template)?;
    check_policy(trigger, &template)?;
    check_parameters(trigger, "parameters", "template parameter")?;
    let Some(dead_letter) = present(trigger, "dlqTrigger")? else {
        return Ok(());
    };
    require(
        trigger.flag("atLeastOnce")?,
        "to use dlqTrigger, trigger.atLeastOnce must be set to true",
    )?;
    require(
        dead_letter.flag("atLeastOnce")?,
        "atLeastOnce must be set to true within the dlqTrigger",
    )?;
    check_trigger(&dead_letter)
}

/// A field of an object, which a null entry of a list does not have.
fn present<'v>(node: &Node<'v>, name: &str) -> Result<Option<Node<'v>>, Fault> {
    if node.value().is_null() {
        Ok(None)
    } else {
        Ok(node.object(name)?)
    }
}

/// A check of one kind of trigger.
type Check = fn(&Node<'_>) -> Result<(), Fault>;

/// Kinds in the order in which they are checked.
const KINDS: [(&str, Check); 10] = [
    ("k8s", k8s),
    ("argoWorkflow", argo_workflow),
    ("http", http),
    ("awsLambda", aws_lambda),
    ("kafka", kafka),
    ("nats", nats),
    ("slack", slack),
    ("openWhisk", open_whisk),
    ("custom", custom),
    ("email", email),
];

fn check_template(template: &Node<'_>) -> Result<(), Fault> {
    let name = template.text("name")?;
    require(!name.is_empty(), "trigger must define a name")?;
    for reset in template.list("conditionsReset")?.unwrap_or_default() {
        check_reset(&reset)?;
    }
    for (kind, check) in KINDS {
        if let Some(trigger) = template.object(kind)? {
            let subject = if kind == "k8s" {
                "trigger for template"
            } else {
                "template"
            };
            check(&trigger)
                .map_err(|fault| fault.prefixed(&format!("{subject} {name} is invalid, ")))?;
        }
    }
    Ok(())
}

fn check_reset(reset: &Node<'_>) -> Result<(), Fault> {
    let Some(by_time) = present(reset, "byTime")? else {
        return Err(fault("invalid conditionsReset"));
    };
    let (schedule, timezone) = (by_time.text("cron")?, by_time.text("timezone")?);
    require(
        Schedule::parse(&schedule).is_some(),
        &format!("invalid cron expression {schedule:?}"),
    )?;
    require(
        find_zone(&timezone).is_ok(),
        &format!("invalid timezone {timezone:?}"),
    )
}

fn check_policy(trigger: &Node<'_>, template: &Node<'_>) -> Result<(), Fault> {
    let Some(policy) = trigger.object("policy")? else {
        return Ok(());
    };
    let has = |kind: &str| template.field(kind).map(|field| field.is_some());
    if has("k8s")? || has("argoWorkflow")? {
        let Some(k8s) = policy.object("k8s")? else {
            return Ok(());
        };
        return require(
            k8s.field("labels")?.is_some(),
            "resource labels are not specified",
        );
    }
    if has("http")? || has("awsLambda")? {
        let Some(status) = policy.object("status")? else {
            return Ok(());
        };
        return require(
            status.field("allow")?.is_some(),
            "list of allowed response status is not specified",
        );
    }
    Ok(())
}

/// Checks a list of parameters; `subject` names one in the message.
fn check_parameters(owner: &Node<'_>, list: &str, subject: &str) -> Result<(), Fault> {
    let parameters = owner.list(list)?.unwrap_or_default();
    let may_lack_dest = list == "payload" && owner.path().ends_with(".http");
    for (place, parameter) in parameters.iter().enumerate() {
        check_parameter(parameter, may_lack_dest)
            .map_err(|fault| fault.prefixed(&format!("{subject} index: {place}. err: ")))?;
    }
    Ok(())
}

fn check_parameter(parameter: &Node<'_>, may_lack_dest: bool) -> Result<(), Fault> {
    let Some(source) = present(parameter, "src")? else {
        return Err(fault("parameter source can't be empty"));
    };
    require(
        !source.text("dependencyName")?.is_empty(),
        "parameter dependency name can't be empty",
    )?;
    require(
        may_lack_dest || !parameter.text("dest")?.is_empty(),
        "parameter destination can't be empty",
    )?;
    let operation = parameter.text("operation")?;
    let known = matches!(operation.as_str(), "" | "append" | "overwrite" | "prepend");
    require(
        known,
        &format!("parameter operation {operation} is invalid"),
    )
}

fn filled(node: &Node<'_>, name: &str, message: &str) -> Result<(), Fault> {
    require(!node.text(name)?.is_empty(), message)
}

fn given(node: &Node<'_>, name: &str, message: &str) -> Result<(), Fault> {
    require(node.field(name)?.is_some(), message)
}

fn k8s(trigger: &Node<'_>) -> Result<(), Fault> {
    given(
        trigger,
        "source",
        "k8s trigger does not contain an absolute action",
    )?;
    let operation = trigger.text("operation")?;
    let known = matches!(
        operation.as_str(),
        "" | "create" | "patch" | "update" | "delete"
    );
    require(known, &format!("unknown operation type {operation}"))?;
    check_parameters(trigger, "parameters", "resource parameter")
}

fn argo_workflow(trigger: &Node<'_>) -> Result<(), Fault> {
    given(
        trigger,
        "source",
        "argoWorkflow trigger does not contain an absolute action",
    )?;
    let operation = trigger.text("operation")?;
    let known = [
        "submit",
        "submit-from",
        "suspend",
        "retry",
        "resume",
        "resubmit",
        "terminate",
        "stop",
    ];
    require(
        known.contains(&operation.as_str()),
        &format!("unknown operation type {operation}"),
    )?;
    check_parameters(trigger, "parameters", "resource parameter")
}

fn http(trigger: &Node<'_>) -> Result<(), Fault> {
    filled(trigger, "url", "server URL is not specified")?;
    let method = trigger.text("method")?;
    let known = matches!(
        method.as_str(),
        "" | "GET" | "DELETE" | "PATCH" | "POST" | "PUT"
    );
    require(
        known,
        "only GET, DELETE, PATCH, POST and PUT methods are supported",
    )?;
    check_parameters(trigger, "parameters", "resource parameter")?;
    check_parameters(trigger, "payload", "payload")
}

fn aws_lambda(trigger: &Node<'_>) -> Result<(), Fault> {
    filled(trigger, "functionName", "function name is not specified")?;
    filled(trigger, "region", "region in not specified")?;
    given(trigger, "payload", "payload parameters are not specified")?;
    check_parameters(trigger, "parameters", "resource parameter")?;
    check_parameters(trigger, "payload", "payload")
}

fn kafka(trigger: &Node<'_>) -> Result<(), Fault> {
    filled(trigger, "url", "broker url must not be empty")?;
    given(trigger, "payload", "payload must not be empty")?;
    filled(trigger, "topic", "topic must not be empty")?;
    check_parameters(trigger, "payload", "payload")
}

fn nats(trigger: &Node<'_>) -> Result<(), Fault> {
    filled(trigger, "url", "nats server url can't be empty")?;
    filled(trigger, "subject", "nats subject can't be empty")?;
    given(trigger, "payload", "payload can't be nil")?;
    check_parameters(trigger, "payload", "payload")
}

fn slack(trigger: &Node<'_>) -> Result<(), Fault> {
    given(trigger, "slackToken", "slack token can't be empty")?;
    check_parameters(trigger, "parameters", "resource parameter")
}

fn open_whisk(trigger: &Node<'_>) -> Result<(), Fault> {
    filled(trigger, "actionName", "action name is not specified")?;
    filled(trigger, "host", "host URL is not specified")?;
    if let Some(token) = trigger.object("authToken")? {
        let whole = !token.text("name")?.is_empty() && !token.text("key")?.is_empty();
        require(whole, "auth token key and name must be specified")?;
    }
    check_parameters(trigger, "parameters", "resource parameter")?;
    given(trigger, "payload", "payload parameters are not specified")?;
    check_parameters(trigger, "payload", "resource parameter")
}

fn custom(trigger: &Node<'_>) -> Result<(), Fault> {
    filled(
        trigger,
        "serverURL",
        "custom trigger gRPC server url is not defined",
    )?;
    given(trigger, "spec", "trigger body can't be empty")?;
    if trigger.flag("secure")? {
        given(
            trigger,
            "certSecret",
            "certSecret can't be nil when the trigger server connection is secure",
        )?;
    }
    check_parameters(trigger, "parameters", "resource parameter")
}

fn email(trigger: &Node<'_>) -> Result<(), Fault> {
    filled(trigger, "host", "host can't be empty")?;
    let port = trigger.integer("port")?.unwrap_or(0);
    require(
        (0..=65_535).contains(&port),
        &format!("port: {port}, port should be between 0-65535"),
    )?;
    check_parameters(trigger, "parameters", "resource parameter")
}
