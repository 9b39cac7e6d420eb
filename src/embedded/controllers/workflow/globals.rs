//! The variables `workflow.…` that every template may use.

use kube::api::ObjectMeta;
use serde_json::json;

use super::arguments::ConfigMapValue;
use super::spec::Spec;
use super::substitute::Scope;

/// Formats that `workflow.creationTimestamp.X` knows (strftime letters).
const TIME_FORMATS: &str = "aAbBdeHIjmMpSyY";

/// The global variables of a Workflow.
///
/// # Errors
/// A parameter that has no value: the message names it.
pub(super) fn globals(
    meta: &ObjectMeta,
    spec: &Spec,
    config_map: ConfigMapValue<'_>,
) -> Result<Scope, String> {
    let mut scope = Scope::new();
    let mut set = |name: &str, value: &str| drop(scope.insert(name.to_owned(), value.to_owned()));
    set("workflow.name", meta.name.as_deref().unwrap_or_default());
    set(
        "workflow.namespace",
        meta.namespace.as_deref().unwrap_or_default(),
    );
    set("workflow.uid", meta.uid.as_deref().unwrap_or_default());
    set("workflow.mainEntrypoint", &spec.entrypoint);
    set("workflow.serviceAccountName", &spec.service_account_name);
    if let Some(priority) = spec.priority {
        set("workflow.priority", &priority.to_string());
    }
    let parameters = match spec.arguments.parameters.as_slice() {
        [] => "null".to_owned(),
        all => json!(all).to_string(),
    };
    set("workflow.parameters", &parameters);
    set("workflow.parameters.json", &parameters);
    time_variables(meta, &mut scope);
    parameter_variables(spec, config_map, &mut scope)?;
    metadata_variables(meta, spec, &mut scope);
    Ok(scope)
}

fn time_variables(meta: &ObjectMeta, scope: &mut Scope) {
    let Some(created) = &meta.creation_timestamp else {
        return;
    };
    let text = created.0.to_string();
    for name in [
        "workflow.creationTimestamp",
        "workflow.creationTimestamp.RFC3339",
    ] {
        scope.insert(name.to_owned(), text.clone());
    }
    scope.insert(
        "workflow.creationTimestamp.s".to_owned(),
        created.0.as_second().to_string(),
    );
    for letter in TIME_FORMATS.chars() {
        let text = created.0.strftime(&format!("%{letter}")).to_string();
        scope.insert(format!("workflow.creationTimestamp.{letter}"), text);
    }
}

fn parameter_variables(
    spec: &Spec,
    config_map: ConfigMapValue<'_>,
    scope: &mut Scope,
) -> Result<(), String> {
    for parameter in &spec.arguments.parameters {
        let name = &parameter.name;
        let reference = parameter
            .value_from
            .as_ref()
            .and_then(|from| from.config_map_key_ref.as_ref());
        let value = match (&parameter.value, reference) {
            (Some(value), _) => value.0.clone(),
            (None, Some(key)) => {
                let default = parameter
                    .value_from
                    .as_ref()
                    .and_then(|from| from.default.clone());
                match (config_map(&key.name, &key.key), default) {
                    (Ok(value), _) => value,
                    (Err(_), Some(default)) => default.0,
                    (Err(why), None) => {
                        return Err(format!(
                            "failed to set global parameter {name} from configmap with name {} and key {}: {why}",
                            key.name, key.key
                        ));
                    }
                }
            }
            (None, None) => {
                return Err(format!(
                    "either value or valueFrom must be specified in order to set global parameter {name}"
                ));
            }
        };
        scope.insert(format!("workflow.parameters.{name}"), value);
    }
    Ok(())
}

fn metadata_variables(meta: &ObjectMeta, spec: &Spec, scope: &mut Scope) {
    let kinds = [
        ("labels", &meta.labels, &spec.workflow_metadata.labels),
        (
            "annotations",
            &meta.annotations,
            &spec.workflow_metadata.annotations,
        ),
    ];
    for (kind, present, added) in kinds {
        let present = present.clone().unwrap_or_default();
        let all = json!(present).to_string();
        scope.insert(format!("workflow.{kind}"), all.clone());
        scope.insert(format!("workflow.{kind}.json"), all);
        for (key, value) in present.iter().chain(added) {
            scope.insert(format!("workflow.{kind}.{key}"), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> ObjectMeta {
        serde_json::from_value(json!({
            "name": "order-1", "namespace": "lab", "uid": "u-1", "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"arrival": "abc"},
        }))
        .expect("meta")
    }

    fn run(spec: &serde_json::Value) -> Result<Scope, String> {
        let spec: Spec = serde_json::from_value(spec.clone()).expect("spec");
        globals(&meta(), &spec, &|_, _| Err("not found".into()))
    }

    #[test]
    fn the_workload_finds_its_arrival() {
        let spec = json!({"entrypoint": "main", "arguments": {"parameters": [{"name": "order-id", "value": 7}]}});
        let scope = run(&spec).expect("scope");
        assert_eq!(scope["workflow.labels.arrival"], "abc");
        assert_eq!(scope["workflow.uid"], "u-1");
        assert_eq!(scope["workflow.parameters.order-id"], "7");
        assert_eq!(
            scope["workflow.parameters"],
            r#"[{"name":"order-id","value":"7"}]"#
        );
        assert_eq!(scope["workflow.creationTimestamp"], "2026-01-02T03:04:05Z");
        assert_eq!(scope["workflow.creationTimestamp.Y"], "2026");
    }

    #[test]
    fn a_parameter_without_value_is_an_error() {
        let error =
            run(&json!({"arguments": {"parameters": [{"name": "a"}]}})).expect_err("no value");
        assert_eq!(
            error,
            "either value or valueFrom must be specified in order to set global parameter a"
        );
    }
}
