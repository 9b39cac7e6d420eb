//! Defaults of a pod's spec.

use serde_json::{Map, Value, json};

use crate::embedded::api::object::default_field;
use crate::embedded::api::validation::quantity;

/// Fills `spec` of a pod or a pod template.
pub(super) fn pod_spec(spec: &mut Map<String, Value>, restart_policy: &str) {
    default_field(spec, "restartPolicy", restart_policy);
    default_field(spec, "terminationGracePeriodSeconds", 30);
    default_field(spec, "dnsPolicy", "ClusterFirst");
    default_field(spec, "securityContext", json!({}));
    default_field(spec, "schedulerName", "default-scheduler");
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        default_field(spec, "serviceAccount", account);
    } else if let Some(account) = spec.get("serviceAccount").cloned() {
        default_field(spec, "serviceAccountName", account);
    }
    for list in ["containers", "initContainers"] {
        for item in spec
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(item) = item.as_object_mut() {
                container(item);
            }
        }
    }
    for item in spec
        .get_mut("volumes")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(item) = item.as_object_mut() {
            volume(item);
        }
    }
}

fn container(item: &mut Map<String, Value>) {
    let image = item.get("image").and_then(Value::as_str).unwrap_or("");
    let tag = image
        .rsplit('/')
        .next()
        .unwrap_or("")
        .split('@')
        .next()
        .unwrap_or("")
        .split_once(':');
    let latest = !image.contains('@') && tag.is_none_or(|(_, tag)| tag == "latest");
    default_field(item, "resources", json!({}));
    default_field(item, "terminationMessagePath", "/dev/termination-log");
    default_field(item, "terminationMessagePolicy", "File");
    default_field(
        item,
        "imagePullPolicy",
        if latest { "Always" } else { "IfNotPresent" },
    );
    for port in item
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(port) = port.as_object_mut() {
            default_field(port, "protocol", "TCP");
        }
    }
    for env in item
        .get_mut("env")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(field) = env
            .pointer_mut("/valueFrom/fieldRef")
            .and_then(Value::as_object_mut)
        {
            default_field(field, "apiVersion", "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = item.get_mut(probe).and_then(Value::as_object_mut) {
            default_probe(probe);
        }
    }
}

/// A pod asks for what it is limited to where it does not say what it asks for; a template stays as it is written.
pub(super) fn requests(spec: &mut Map<String, Value>) {
    for list in ["containers", "initContainers"] {
        let items = spec.get_mut(list).and_then(Value::as_array_mut);
        for item in items.into_iter().flatten() {
            let Some(resources) = item.get_mut("resources").and_then(Value::as_object_mut) else {
                continue;
            };
            let Some(Value::Object(limits)) = resources.get("limits").cloned() else {
                continue;
            };
            default_field(resources, "requests", json!({}));
            if let Some(requests) = resources.get_mut("requests").and_then(Value::as_object_mut) {
                for (name, amount) in limits {
                    default_field(requests, &name, amount);
                }
            }
        }
    }
}

/// The quality of service of a pod (`GetPodQOS`): by what its containers ask for and are limited to.
pub(super) fn quality(spec: &Map<String, Value>) -> &'static str {
    let lists = ["containers", "initContainers"].into_iter();
    let containers = lists
        .filter_map(|list| spec.get(list).and_then(Value::as_array))
        .flatten();
    let (mut any, mut all) = (false, true);
    for container in containers {
        for name in ["cpu", "memory"] {
            let amount = |kind: &str| {
                let given = container.pointer(&format!("/resources/{kind}/{name}"));
                given.and_then(amount_of).filter(|amount| *amount != 0.0)
            };
            let (limit, request) = (amount("limits"), amount("requests"));
            any |= limit.is_some() || request.is_some();
            all &= limit.is_some() && request == limit;
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn amount_of(given: &Value) -> Option<f64> {
    match given {
        Value::String(text) => quantity(text),
        other => other.as_f64(),
    }
}

fn default_probe(probe: &mut Map<String, Value>) {
    for (key, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        default_field(probe, key, value);
    }
    if let Some(get) = probe.get_mut("httpGet").and_then(Value::as_object_mut) {
        default_field(get, "path", "/");
        default_field(get, "scheme", "HTTP");
    }
}

fn volume(item: &mut Map<String, Value>) {
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        if let Some(source) = item.get_mut(source).and_then(Value::as_object_mut) {
            default_field(source, "defaultMode", 420);
        }
    }
    for source in item
        .get_mut("projected")
        .and_then(|p| p.get_mut("sources"))
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(token) = source
            .get_mut("serviceAccountToken")
            .and_then(Value::as_object_mut)
        {
            default_field(token, "expirationSeconds", 3600);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quality_of_service_goes_by_amounts() {
        let class = |limits: Value, requests: Value| {
            let resources = json!({"limits": limits, "requests": requests});
            let spec = json!({"containers": [{"name": "a", "resources": resources}]});
            quality(spec.as_object().expect("an object"))
        };
        let (both, same) = (
            json!({"cpu": "1", "memory": "1Gi"}),
            json!({"cpu": "1000m", "memory": "1024Mi"}),
        );
        for (limits, requests, want) in [
            (json!({}), json!({}), "BestEffort"),
            (json!({"cpu": "0"}), json!({"memory": 0}), "BestEffort"),
            (json!({"ephemeral-storage": "1Gi"}), json!({}), "BestEffort"),
            (both.clone(), same, "Guaranteed"),
            (
                both.clone(),
                json!({"cpu": "0.5", "memory": "1Gi"}),
                "Burstable",
            ),
            (both, json!({}), "Burstable"),
            (json!({"cpu": 1}), json!({"cpu": "1"}), "Burstable"),
            (json!({}), json!({"memory": "1"}), "Burstable"),
        ] {
            assert_eq!(
                class(limits.clone(), requests.clone()),
                want,
                "{limits} {requests}"
            );
        }
    }
}
