//! Refuses aloud what the embedded cluster does not execute, so that nobody takes silence for success.

use serde_json::{Map, Value};

use crate::embedded::node::VOLUME_KINDS;

/// Fields of `spec` that are executed, or harmless to leave alone.
const SPEC: &[&str] = &[
    "entrypoint",
    "arguments",
    "templates",
    "workflowTemplateRef",
    "serviceAccountName",
    "automountServiceAccountToken",
    "activeDeadlineSeconds",
    "suspend",
    "shutdown",
    "onExit",
    "priority",
    "retryStrategy",
    "synchronization",
    "ttlStrategy",
    "podGC",
    "workflowMetadata",
    "podMetadata",
    "volumes",
    "volumeClaimGC",
    "nodeSelector",
    "tolerations",
    "affinity",
    "imagePullSecrets",
    "securityContext",
    "schedulerName",
    "podPriorityClassName",
    "hostNetwork",
    "dnsPolicy",
    "dnsConfig",
    "hostAliases",
];

/// Fields of a template that are executed, or harmless to leave alone.
const TEMPLATE: &[&str] = &[
    "name",
    "inputs",
    "outputs",
    "container",
    "steps",
    "metadata",
    "serviceAccountName",
    "automountServiceAccountToken",
    "activeDeadlineSeconds",
    "timeout",
    "retryStrategy",
    "synchronization",
    "volumes",
    "nodeSelector",
    "tolerations",
    "affinity",
    "securityContext",
    "schedulerName",
    "priorityClassName",
    "hostAliases",
];

/// Fields that say what a template or a step is: the field alone asks for it, since `suspend: {}` suspends.
const KINDS: &[&str] = &[
    "containerSet",
    "dag",
    "data",
    "http",
    "inline",
    "plugin",
    "resource",
    "script",
    "suspend",
    "template",
    "templateRef",
];

/// Fields of a container that the node carries out, or that are harmless to leave alone.
const CONTAINER: &[&str] = &[
    "name",
    "image",
    "command",
    "args",
    "env",
    "envFrom",
    "workingDir",
    "ports",
    "resources",
    "volumeMounts",
    "readinessProbe",
    "imagePullPolicy",
    "securityContext",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "stdin",
    "stdinOnce",
    "tty",
];

/// Fields of a step that are executed.
const STEP: &[&str] = &["name", "template", "arguments", "continueOn"];

/// Fields of inputs, outputs and arguments that are executed.
const PARAMETERS: &[&str] = &["parameters"];

/// How every refusal of the embedded cluster begins.
pub(super) const REFUSED: &str = "eventlab:";

/// The message that refuses a spec, or `None` if all of it is executed.
pub(super) fn refusal(spec: &Value) -> Option<String> {
    let path = first_unsupported(spec)?;
    Some(format!(
        "{REFUSED} {path} is not supported on the embedded cluster; leave it out, or use a real cluster (--context)"
    ))
}

fn first_unsupported(spec: &Value) -> Option<String> {
    let spec = spec.as_object()?;
    outside(spec, SPEC, "spec")
        .or_else(|| cluster_scope(spec))
        .or_else(|| is_true(spec.get("hostNetwork"), "spec.hostNetwork"))
        .or_else(|| in_volumes(spec.get("volumes"), "spec.volumes"))
        .or_else(|| in_parameters(spec.get("arguments"), "spec.arguments"))
        .or_else(|| in_locks(spec.get("synchronization"), "spec.synchronization"))
        .or_else(|| {
            items(spec.get("templates"))
                .enumerate()
                .find_map(|(number, template)| in_template(template, number))
        })
}

fn in_template(template: &Value, number: usize) -> Option<String> {
    let path = format!("spec.templates[{number}]");
    let fields = template.as_object()?;
    outside(fields, TEMPLATE, &path)
        .or_else(|| in_parameters(fields.get("inputs"), &format!("{path}.inputs")))
        .or_else(|| in_parameters(fields.get("outputs"), &format!("{path}.outputs")))
        .or_else(|| {
            in_locks(
                fields.get("synchronization"),
                &format!("{path}.synchronization"),
            )
        })
        .or_else(|| in_volumes(fields.get("volumes"), &format!("{path}.volumes")))
        .or_else(|| in_container(fields.get("container"), &format!("{path}.container")))
        .or_else(|| in_steps(fields.get("steps"), &path))
}

/// What the node would not run, and for ever: the pod would never begin.
fn in_container(container: Option<&Value>, path: &str) -> Option<String> {
    let fields = container?.as_object()?;
    let privileged = fields
        .get("securityContext")
        .and_then(|security| security.get("privileged"));
    outside(fields, CONTAINER, path)
        .or_else(|| is_true(privileged, &format!("{path}.securityContext.privileged")))
        .or_else(|| {
            items(fields.get("volumeMounts"))
                .position(|mount| !is_empty(&mount["subPathExpr"]))
                .map(|number| format!("{path}.volumeMounts[{number}].subPathExpr"))
        })
}

fn in_volumes(volumes: Option<&Value>, path: &str) -> Option<String> {
    items(volumes).enumerate().find_map(|(number, volume)| {
        let kind = volume
            .as_object()?
            .keys()
            .find(|kind| *kind != "name" && !VOLUME_KINDS.contains(&kind.as_str()))?;
        Some(format!("{path}[{number}].{kind}"))
    })
}

fn is_true(value: Option<&Value>, path: &str) -> Option<String> {
    (value == Some(&Value::Bool(true))).then(|| path.to_owned())
}

fn in_steps(steps: Option<&Value>, path: &str) -> Option<String> {
    items(steps).enumerate().find_map(|(group, steps)| {
        items(Some(steps)).enumerate().find_map(|(number, step)| {
            let path = format!("{path}.steps[{group}][{number}]");
            let fields = step.as_object()?;
            outside(fields, STEP, &path)
                .or_else(|| in_parameters(fields.get("arguments"), &format!("{path}.arguments")))
        })
    })
}

fn in_parameters(value: Option<&Value>, path: &str) -> Option<String> {
    outside(value?.as_object()?, PARAMETERS, path)
}

fn in_locks(value: Option<&Value>, path: &str) -> Option<String> {
    let fields = value?.as_object()?;
    // A singular `mutex` or `semaphore` is not known to 4.x: it is dropped, with no lock (and no refusal).
    for list in ["mutexes", "semaphores"] {
        for (number, lock) in items(fields.get(list)).enumerate() {
            if lock
                .get("database")
                .is_some_and(|database| !is_empty(database))
            {
                return Some(format!("{path}.{list}[{number}].database"));
            }
        }
    }
    None
}

fn cluster_scope(spec: &Map<String, Value>) -> Option<String> {
    let scope = &spec.get("workflowTemplateRef")?["clusterScope"];
    (scope == true).then(|| "spec.workflowTemplateRef.clusterScope".to_owned())
}

fn outside(fields: &Map<String, Value>, known: &[&str], path: &str) -> Option<String> {
    let field = fields
        .iter()
        .find(|(key, value)| {
            let asks = KINDS.contains(&key.as_str()) || !is_empty(value);
            !known.contains(&key.as_str()) && asks
        })?
        .0;
    Some(format!("{path}.{field}"))
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// What asks for nothing needs no refusal.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_field_is_named() {
        let refused = |spec: Value| refusal(&spec).unwrap_or_default();
        let script = json!({"templates": [{"name": "a", "container": {}}, {"name": "b", "script": {"image": "x"}}]});
        assert!(refused(script).starts_with("eventlab: spec.templates[1].script is not supported"));
        let artifacts =
            json!({"templates": [{"name": "a", "inputs": {"artifacts": [{"name": "x"}]}}]});
        assert!(refused(artifacts).contains("spec.templates[0].inputs.artifacts"));
        let step =
            json!({"templates": [{"steps": [[{"name": "a", "template": "b", "onExit": "c"}]]}]});
        assert!(refused(step).contains("spec.templates[0].steps[0][0].onExit"));
        assert!(
            refused(json!({"workflowTemplateRef": {"name": "x", "clusterScope": true}}))
                .contains("clusterScope")
        );
        assert!(refused(json!({"hooks": {"exit": {"template": "x"}}})).contains("spec.hooks"));
    }

    /// An empty object is an order, too, where its name says what is to be done.
    #[test]
    fn a_kind_is_refused_by_its_name_alone() {
        for kind in KINDS {
            for asked in [json!({}), json!([]), json!("")] {
                let spec = json!({"templates": [{"name": "a", *kind: asked}]});
                let wanted = format!("eventlab: spec.templates[0].{kind} is not supported");
                let refused = refusal(&spec).unwrap_or_default();
                assert!(refused.starts_with(&wanted), "{spec}: {refused}");
            }
        }
        for kind in ["inline", "templateRef"] {
            let spec = json!({"templates": [{"name": "a", "steps": [[{"name": "s", kind: {}}]]}]});
            let refused = refusal(&spec).unwrap_or_default();
            assert!(
                refused.contains(&format!("steps[0][0].{kind}")),
                "{refused}"
            );
        }
    }

    #[test]
    fn what_no_pod_may_ask_of_this_machine_is_refused_before_there_is_a_pod() {
        let container =
            |container: Value| json!({"templates": [{"name": "a", "container": container}]});
        let volume = |kind: &str| json!([{"name": "v", "emptyDir": {}}, {"name": "w", kind: {}}]);
        for (spec, path) in [
            (
                container(json!({"securityContext": {"privileged": true}})),
                "spec.templates[0].container.securityContext.privileged",
            ),
            (
                container(json!({"lifecycle": {"preStop": {"exec": {"command": ["x"]}}}})),
                "spec.templates[0].container.lifecycle",
            ),
            (
                container(json!({"livenessProbe": {"tcpSocket": {"port": 1}}})),
                "spec.templates[0].container.livenessProbe",
            ),
            (
                container(
                    json!({"volumeMounts": [{"name": "a"}, {"name": "b", "subPathExpr": "$(X)"}]}),
                ),
                "spec.templates[0].container.volumeMounts[1].subPathExpr",
            ),
            (json!({"hostNetwork": true}), "spec.hostNetwork"),
            (
                json!({"volumes": volume("hostPath")}),
                "spec.volumes[1].hostPath",
            ),
            (
                json!({"volumes": volume("whatever")}),
                "spec.volumes[1].whatever",
            ),
            (
                json!({"templates": [{"name": "a", "volumes": volume("nfs")}]}),
                "spec.templates[0].volumes[1].nfs",
            ),
        ] {
            let refused = refusal(&spec).unwrap_or_default();
            assert!(
                refused.starts_with(&format!("eventlab: {path} is not supported")),
                "{spec}: {refused}"
            );
        }
        for kind in VOLUME_KINDS {
            assert_eq!(refusal(&json!({"volumes": volume(kind)})), None, "{kind}");
        }
        let harmless = json!({"securityContext": {"privileged": false, "runAsNonRoot": true}, "lifecycle": {}, "tty": true});
        assert_eq!(refusal(&container(harmless)), None);
    }

    #[test]
    fn what_asks_for_nothing_is_let_through() {
        assert_eq!(
            refusal(
                &json!({"archiveLogs": false, "hooks": {}, "templates": [{"name": "a", "daemon": false}]})
            ),
            None
        );
    }
}
