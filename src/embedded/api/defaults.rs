//! Fields that kube-apiserver fills in when a client leaves them out.

use serde_json::{Map, Value, json};

use super::object::{child, default_field};
use super::registry::Kind;

mod pod;

use pod::{pod_spec, quality, requests};

/// Fills the defaults of a built-in kind; custom kinds have none.
pub fn apply(kind: &Kind, object: &mut Value) {
    match (kind.group, kind.plural) {
        ("", "namespaces") => namespace(object),
        ("", "secrets") => secret(object),
        ("", "services") => service(object),
        ("", "persistentvolumeclaims") => claim(object),
        ("", "pods") => {
            if let Some(spec) = child(object, "spec") {
                pod_spec(spec, "Always");
                requests(spec);
                default_field(spec, "enableServiceLinks", true);
            }
            status_phase(object, "Pending");
            let spec = object.get("spec").and_then(Value::as_object);
            let class = spec.map(quality).unwrap_or_default();
            if let Some(status) = child(object, "status") {
                default_field(status, "qosClass", class);
            }
        }
        ("apps", "deployments") => deployment(object),
        ("apps", "replicasets") => replica_set(object),
        ("apps", "statefulsets") => stateful_set(object),
        ("batch", "jobs") => job(object),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => binding(object),
        _ => {}
    }
}

fn status_phase(object: &mut Value, phase: &str) {
    if let Some(status) = child(object, "status") {
        default_field(status, "phase", phase);
    }
}

fn namespace(object: &mut Value) {
    let name = super::object::name(object).to_owned();
    if let Some(labels) =
        super::object::metadata_mut(object).and_then(|metadata| map_at(metadata, "labels"))
    {
        labels.insert("kubernetes.io/metadata.name".to_owned(), Value::from(name));
    }
    if let Some(spec) = child(object, "spec") {
        default_field(spec, "finalizers", json!(["kubernetes"]));
    }
    status_phase(object, "Active");
}

fn map_at<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    let entry = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if entry.is_null() {
        *entry = Value::Object(Map::new());
    }
    entry.as_object_mut()
}

/// Folds `stringData` into `data`, as the server does on every write.
fn secret(object: &mut Value) {
    use base64::Engine as _;
    let Some(map) = object.as_object_mut() else {
        return;
    };
    default_field(map, "type", "Opaque");
    let Some(Value::Object(plain)) = map.shift_remove("stringData") else {
        return;
    };
    if let Some(data) = map_at(map, "data") {
        for (key, value) in plain {
            let text = value.as_str().unwrap_or("");
            data.insert(
                key,
                Value::from(base64::engine::general_purpose::STANDARD.encode(text)),
            );
        }
    }
}

fn service(object: &mut Value) {
    let Some(spec) = child(object, "spec") else {
        return;
    };
    default_field(spec, "type", "ClusterIP");
    default_field(spec, "sessionAffinity", "None");
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let Some(port) = port.as_object_mut() else {
            continue;
        };
        default_field(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or(Value::Null);
        if matches!(port.get("targetPort"), Some(target) if *target == 0 || *target == "") {
            port.shift_remove("targetPort");
        }
        default_field(port, "targetPort", number);
    }
    if spec.get("type").and_then(Value::as_str) != Some("ExternalName") {
        default_field(spec, "internalTrafficPolicy", "Cluster");
        default_field(spec, "ipFamilies", json!(["IPv4"]));
        default_field(spec, "ipFamilyPolicy", "SingleStack");
    }
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or("");
    let balanced = kind == "LoadBalancer";
    if balanced || kind == "NodePort" {
        default_field(spec, "externalTrafficPolicy", "Cluster");
    }
    if balanced {
        default_field(spec, "allocateLoadBalancerNodePorts", true);
    }
    if let Some(status) = child(object, "status") {
        default_field(status, "loadBalancer", json!({}));
    }
}

fn claim(object: &mut Value) {
    if let Some(spec) = child(object, "spec") {
        default_field(spec, "volumeMode", "Filesystem");
    }
    status_phase(object, "Pending");
}

fn template(spec: &mut Map<String, Value>, restart_policy: &str) {
    if let Some(template) = spec.get_mut("template")
        && let Some(pod) = child(template, "spec")
    {
        pod_spec(pod, restart_policy);
    }
}

fn deployment(object: &mut Value) {
    let Some(spec) = child(object, "spec") else {
        return;
    };
    default_field(spec, "replicas", 1);
    default_field(spec, "progressDeadlineSeconds", 600);
    default_field(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = map_at(spec, "strategy") {
        default_field(strategy, "type", "RollingUpdate");
        if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate")
            && let Some(rolling) = map_at(strategy, "rollingUpdate")
        {
            default_field(rolling, "maxSurge", "25%");
            default_field(rolling, "maxUnavailable", "25%");
        }
    }
    template(spec, "Always");
    ensure_status(object);
}

fn replica_set(object: &mut Value) {
    let Some(spec) = child(object, "spec") else {
        return;
    };
    default_field(spec, "replicas", 1);
    template(spec, "Always");
    if let Some(status) = child(object, "status") {
        default_field(status, "replicas", 0);
    }
}

fn stateful_set(object: &mut Value) {
    let Some(spec) = child(object, "spec") else {
        return;
    };
    default_field(spec, "replicas", 1);
    default_field(spec, "podManagementPolicy", "OrderedReady");
    default_field(spec, "revisionHistoryLimit", 10);
    default_field(
        spec,
        "updateStrategy",
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
    );
    template(spec, "Always");
    if let Some(status) = child(object, "status") {
        default_field(status, "replicas", 0);
        default_field(status, "availableReplicas", 0);
    }
}

fn job(object: &mut Value) {
    let Some(spec) = child(object, "spec") else {
        return;
    };
    default_field(spec, "parallelism", 1);
    default_field(spec, "completions", 1);
    default_field(spec, "backoffLimit", 6);
    default_field(spec, "completionMode", "NonIndexed");
    default_field(spec, "suspend", false);
    template(spec, "Never");
    ensure_status(object);
}

fn binding(object: &mut Value) {
    let Some(map) = object.as_object_mut() else {
        return;
    };
    if let Some(role) = map.get_mut("roleRef").and_then(Value::as_object_mut)
        && role
            .get("apiGroup")
            .and_then(Value::as_str)
            .unwrap_or("")
            .is_empty()
    {
        role.insert(
            "apiGroup".to_owned(),
            Value::from("rbac.authorization.k8s.io"),
        );
    }
    for subject in map
        .get_mut("subjects")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let Some(subject) = subject.as_object_mut() else {
            continue;
        };
        if matches!(
            subject.get("kind").and_then(Value::as_str),
            Some("User" | "Group")
        ) {
            default_field(subject, "apiGroup", "rbac.authorization.k8s.io");
        }
    }
}

fn ensure_status(object: &mut Value) {
    let _ = child(object, "status");
}
