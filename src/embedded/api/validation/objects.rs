//! Checks of single kinds, at create and at update.

use serde_json::Value;

use super::parts::{items, text};
use super::{counts, data, pods, rbac, services};
use crate::embedded::api::registry::Kind;
use crate::embedded::api::status::Cause;

/// What an object of this kind must have.
#[must_use]
pub fn check_object(kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (kind.group, kind.plural) {
        ("", "pods") => pods::check(
            object.get("spec").unwrap_or(&Value::Null),
            "spec",
            &mut causes,
        ),
        ("", "configmaps" | "secrets") => data::check(kind, object, &mut causes),
        ("", "persistentvolumeclaims") => data::check_claim(object, &mut causes),
        ("", "services") => services::check(object, &mut causes),
        ("apps", plural) => {
            workload(plural, object, &mut causes);
            counts::check(plural, object, &mut causes);
        }
        ("rbac.authorization.k8s.io", _) => rbac::check(kind, object, &mut causes),
        ("argoproj.io", plural) => custom(plural, object, &mut causes),
        _ => {}
    }
    causes
}

/// What an update may not change.
#[must_use]
pub fn check_change(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (kind.group, kind.plural) {
        ("", "pods") => pods::check_change(new, old, &mut causes),
        ("", "services") => services::check_change(new, old, &mut causes),
        ("", "persistentvolumeclaims") => data::check_claim_change(new, old, &mut causes),
        ("apps", _) => immutable(
            new,
            old,
            "/spec/selector",
            "spec.selector",
            "field is immutable",
            &mut causes,
        ),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            immutable(
                new,
                old,
                "/roleRef",
                "roleRef",
                "cannot change roleRef",
                &mut causes,
            );
        }
        ("", "configmaps" | "secrets") => {
            data::check_frozen(new, old, &mut causes);
            if kind.plural == "secrets" {
                immutable(new, old, "/type", "type", "field is immutable", &mut causes);
            }
        }
        _ => {}
    }
    causes
}

fn immutable(
    new: &Value,
    old: &Value,
    pointer: &str,
    field: &str,
    why: &str,
    causes: &mut Vec<Cause>,
) {
    if new.pointer(pointer) != old.pointer(pointer) {
        causes.push(Cause::invalid(
            field,
            new.pointer(pointer).unwrap_or(&Value::Null),
            why,
        ));
    }
}

fn workload(plural: &str, object: &Value, causes: &mut Vec<Cause>) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    at_least_zero(spec, "replicas", causes);
    selector(spec, causes);
    let template = spec
        .get("template")
        .and_then(|template| template.get("spec"));
    let template = template.unwrap_or(&Value::Null);
    pods::check(template, "spec.template.spec", causes);
    let policy = text(template, "restartPolicy");
    if !policy.is_empty() && policy != "Always" {
        let field = "spec.template.spec.restartPolicy";
        causes.push(Cause::unsupported(field, policy, &["Always"]));
    }
    if template
        .get("activeDeadlineSeconds")
        .is_some_and(Value::is_number)
    {
        let field = "spec.template.spec.activeDeadlineSeconds";
        let why = "activeDeadlineSeconds in ReplicaSet is not Supported";
        causes.push(Cause::forbidden(field, why));
    }
    if plural == "deployments" {
        rollout(spec, causes);
    }
    at_least_zero(spec, "minReadySeconds", causes);
    at_least_zero(spec, "revisionHistoryLimit", causes);
}

fn at_least_zero(spec: &Value, key: &str, causes: &mut Vec<Cause>) {
    if let Some(number) = spec
        .get(key)
        .filter(|number| number.as_i64() < Some(0))
        .filter(|number| number.is_number())
    {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid(format!("spec.{key}"), number, why));
    }
}

/// The selector of a workload selects its own pods.
fn selector(spec: &Value, causes: &mut Vec<Cause>) {
    let labels = spec
        .pointer("/template/metadata/labels")
        .cloned()
        .unwrap_or(Value::Null);
    let field = "spec.template.metadata.labels";
    let why = "`selector` does not match template `labels`";
    let Some(selector) = spec.get("selector").filter(|selector| !selector.is_null()) else {
        causes.push(Cause::required("spec.selector", ""));
        causes.push(Cause::invalid(field, &labels, why));
        return;
    };
    if wrong_terms(selector, causes) {
        causes.push(Cause::invalid(
            "spec.selector",
            selector,
            "invalid label selector",
        ));
        return;
    }
    let have = labels.as_object().into_iter().flatten();
    let have = have
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    let wanted = crate::embedded::api::selectors::LabelSelector::from_object(selector);
    if wanted.is_empty() {
        let why = "empty selector is invalid for deployment";
        causes.push(Cause::invalid("spec.selector", selector, why));
    } else if !wanted.matches(&have) {
        causes.push(Cause::invalid(field, &labels, why));
    }
}

fn wrong_terms(selector: &Value, causes: &mut Vec<Cause>) -> bool {
    let before = causes.len();
    for (index, term) in items(selector, "matchExpressions").iter().enumerate() {
        let path = format!("spec.selector.matchExpressions[{index}]");
        let operator = text(term, "operator");
        match operator {
            "In" | "NotIn" if items(term, "values").is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(Cause::required(format!("{path}.values"), why));
            }
            "Exists" | "DoesNotExist" if !items(term, "values").is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(Cause::forbidden(format!("{path}.values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let why = "not a valid selector operator";
                causes.push(Cause::invalid(
                    format!("{path}.operator"),
                    &Value::from(other),
                    why,
                ));
            }
        }
    }
    let keys = selector.get("matchLabels").and_then(Value::as_object);
    for key in keys.into_iter().flat_map(serde_json::Map::keys) {
        if let Some(why) = super::qualified_name(key) {
            let key = Value::from(key.as_str());
            causes.push(Cause::invalid("spec.selector.matchLabels", &key, &why));
        }
    }
    causes.len() > before
}

/// How a Deployment goes from one version to the next.
fn rollout(spec: &Value, causes: &mut Vec<Cause>) {
    let strategy = spec.get("strategy").unwrap_or(&Value::Null);
    let rolling = strategy
        .get("rollingUpdate")
        .filter(|rolling| rolling.is_object());
    match text(strategy, "type") {
        "" | "RollingUpdate" => {
            if let Some(rolling) = rolling {
                steps(rolling, causes);
            }
        }
        "Recreate" if rolling.is_none() => {}
        "Recreate" => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            causes.push(Cause::forbidden("spec.strategy.rollingUpdate", why));
        }
        other => causes.push(Cause {
            reason: "FieldValueNotSupported",
            field: "spec.strategy".to_owned(),
            message: format!(
                "Unsupported value: {{\"Type\":{},\"RollingUpdate\":null}}: supported values: \"Recreate\", \"RollingUpdate\"",
                Value::from(other)
            ),
        }),
    }
    let number = |key: &str| spec.get(key).and_then(Value::as_i64);
    if let Some(deadline) = number("progressDeadlineSeconds")
        && deadline <= number("minReadySeconds").unwrap_or(0)
    {
        let why = "must be greater than minReadySeconds";
        causes.push(Cause::invalid(
            "spec.progressDeadlineSeconds",
            &Value::from(deadline),
            why,
        ));
    }
}

fn steps(rolling: &Value, causes: &mut Vec<Cause>) {
    const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    for key in ["maxUnavailable", "maxSurge"] {
        if let Some(Value::String(share)) = rolling.get(key) {
            let digits = share.strip_suffix('%').unwrap_or("");
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                let field = format!("spec.strategy.rollingUpdate.{key}");
                causes.push(Cause::invalid(field, &Value::from(share.as_str()), PERCENT));
            }
        }
    }
    let nothing = |key: &str| matches!(rolling.get(key), Some(step) if *step == 0 || *step == "0%");
    if nothing("maxSurge") && nothing("maxUnavailable") {
        let field = "spec.strategy.rollingUpdate.maxUnavailable";
        let why = "may not be 0 when `maxSurge` is 0";
        causes.push(Cause::invalid(field, &rolling["maxUnavailable"], why));
    }
}

/// The little that the Argo definitions say about their objects: `spec` must be there, it and `status` are objects.
fn custom(plural: &str, object: &Value, causes: &mut Vec<Cause>) {
    let absent = object.get("spec").is_none_or(Value::is_null);
    if absent && plural != "workflowtaskresults" {
        causes.push(Cause::required("spec", ""));
    }
    for field in ["spec", "status"] {
        let kind = match object.get(field) {
            None | Some(Value::Null | Value::Object(_)) => continue,
            Some(Value::Bool(_)) => "boolean",
            Some(Value::Number(number)) if number.is_f64() => "number",
            Some(Value::Number(_)) => "integer",
            Some(Value::String(_)) => "string",
            Some(Value::Array(_)) => "array",
        };
        let message =
            format!("Invalid value: {kind:?}: {field} in body must be of type object: {kind:?}");
        causes.push(Cause {
            reason: "FieldValueTypeInvalid",
            field: field.to_owned(),
            message,
        });
    }
}
