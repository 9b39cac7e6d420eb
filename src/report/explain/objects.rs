//! Submissions that come to nothing whatever the cluster holds: names, labels and kinds that the API refuses, and policies that
//! cannot be met.

use serde_json::{Value, json};

use crate::embedded::api::{change_refusal, create_refusal};
use crate::sensor::trigger::{Action, Operation, Submission};

/// Why a submission fails, and what to change.
pub(super) struct Refused {
    /// As the Sensor logs it.
    pub error: String,
    pub change: Vec<String>,
}

/// Why an action of a trigger, an entry of `spec.triggers`, fails on every cluster; `None` where that depends on the cluster.
pub(super) fn refused(action: &Action, trigger: &Value) -> Option<Refused> {
    match action {
        Action::Log => None,
        Action::Object(submission) => object(submission)
            .or_else(|| policy(trigger, submission.operation == Operation::Delete)),
        Action::Workflow(submission) => workflow(submission).or_else(|| policy(trigger, true)),
    }
}

fn object(submission: &Submission) -> Option<Refused> {
    let by_name = submission.operation != Operation::Create;
    if by_name && submission.name().is_empty() {
        let operation = submission.operation.as_str();
        return Some(Refused {
            error: "failed to execute trigger, failed to retrieve existing object. err: name is required".to_owned(),
            change: vec![format!(
                "give the object a `metadata.name`: {operation} looks it up under that"
            )],
        });
    }
    let refusal = match submission.operation {
        Operation::Create => create_refusal(&submission.object),
        Operation::Update | Operation::Patch => change_refusal(&submission.object),
        // What cannot be there is not deleted, and that is no failure.
        Operation::Delete => None,
    }?;
    Some(Refused {
        change: advice(&refusal),
        error: format!("failed to execute trigger, {refusal}"),
    })
}

/// Argo's command line fills in kind and spec, and tells the reason on its own output only.
fn workflow(submission: &Submission) -> Option<Refused> {
    let metadata = submission.object.get("metadata");
    let refusal = create_refusal(&json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata, "spec": {},
    }))?;
    let mut change = vec![format!(
        "Argo's command line says why, in a line of its own before: {refusal}"
    )];
    change.extend(advice(&refusal));
    Some(Refused {
        error: format!(
            "failed to execute trigger, failed to execute submit command for workflow {}, exit status 1",
            submission.name()
        ),
        change,
    })
}

/// `policy.k8s` looks at the object that the trigger hands on; a submit hands on none that it can look at, and a delete none at all.
fn policy(trigger: &Value, hands_on_none: bool) -> Option<Refused> {
    // Empty labels are left out on the way into the pod, so there is no policy.
    let asks = |labels: &Value| labels.as_object().is_some_and(|labels| !labels.is_empty());
    if !hands_on_none || !trigger.pointer("/policy/k8s/labels").is_some_and(asks) {
        return None;
    }
    Some(Refused {
        error: "failed to interpret the trigger resource".to_owned(),
        change: vec![
            "take `policy.k8s` out of this trigger, or create the Workflow with a k8s trigger: here the policy always fails, after the work was done, and with retries it is done again".to_owned(),
        ],
    })
}

fn advice(refusal: &str) -> Vec<String> {
    let mut advice = Vec::new();
    let mut give = |text: &str| advice.push(text.to_owned());
    if refusal.contains("metadata.name: ") {
        give(
            "make the name of lower case letters, digits, - and . (at most 253), for instance with a dataTemplate such as {{ .Input.body.id | lower | replace \"_\" \"-\" }}; or keep `generateName` and carry the value in a label or an argument",
        );
    }
    if refusal.contains("metadata.labels: ") {
        give(
            "a label's value has at most 63 letters, digits, -, _ and ., and begins and ends with a letter or digit; the trigger's name is one of the labels, any other text belongs in an annotation or an argument",
        );
    }
    if refusal.contains("could not find the requested resource") {
        give("correct `apiVersion` and `kind` of the object");
    }
    if refusal.contains("cannot be handled as a") {
        give(
            "give the field a value of its type: a text in quotes in the source, and by a parameter without `useRawData`, which is for numbers, booleans, lists and objects",
        );
    }
    if refusal.contains("spec: Required value") {
        give("give the object a `spec`");
    }
    advice
}
