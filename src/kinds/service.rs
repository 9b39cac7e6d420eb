//! To which port of a pod a port of a Service leads: one reading for whoever asks.

use k8s_openapi::api::core::v1::{Container, Pod, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

/// Where a port of a Service leads, with the API's default: no target, 0 or an empty name mean the same port of the pod.
#[must_use]
pub fn target_port(port: &ServicePort) -> IntOrString {
    let meant = port.target_port.as_ref().filter(|target| match target {
        IntOrString::Int(number) => *number != 0,
        IntOrString::String(name) => !name.is_empty(),
    });
    meant.cloned().unwrap_or(IntOrString::Int(port.port))
}

/// The number that a port of a Service stands for on one pod; `None` if the pod has no port of that name and protocol.
#[must_use]
pub fn pod_port(port: &ServicePort, pod: &Pod) -> Option<u16> {
    let name = match target_port(port) {
        IntOrString::Int(number) => return u16::try_from(number).ok(),
        IntOrString::String(name) => name,
    };
    let spec = pod.spec.as_ref()?;
    let goes_on = |one: &&Container| one.restart_policy.as_deref() == Some("Always");
    let beside = spec.init_containers.iter().flatten().filter(goes_on);
    let ports = spec.containers.iter().chain(beside);
    let named = ports
        .flat_map(|container| container.ports.iter().flatten())
        .find(|one| {
            one.name.as_ref() == Some(&name)
                && protocol(one.protocol.as_ref()) == protocol(port.protocol.as_ref())
        })?;
    u16::try_from(named.container_port).ok()
}

fn protocol(given: Option<&String>) -> &str {
    given.map_or("TCP", String::as_str)
}

/// The entry of an EventSource's `spec.service.ports` for a port of its Service.
#[must_use]
pub fn service_port(event_source: &Value, port: u16) -> Option<ServicePort> {
    let entries = event_source.pointer("/spec/service/ports")?.as_array()?;
    entries
        .iter()
        .find(|entry| entry["port"] == port)
        .and_then(|entry| serde_json::from_value(entry.clone()).ok())
}

/// The port of an EventSource's pod that an entry of its `spec.service.ports` leads to; a name is one that its template
/// gives to a port of the container.
#[must_use]
pub fn event_source_port(event_source: &Value, port: &ServicePort) -> Option<u16> {
    let container = event_source.pointer("/spec/template/container");
    let ports = container.and_then(|container| container.get("ports"));
    let pod = serde_json::json!({"spec": {"containers": [{"name": "main", "ports": ports}]}});
    let pod = serde_json::from_value(pod).unwrap_or_default();
    pod_port(port, &pod)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NAMED: &str = "web";

    /// What leads to a number, and to which on a pod that calls 9000 `web` over TCP, and 9001 over UDP.
    const TARGETS: [(&str, Option<u16>); 9] = [
        ("{}", Some(80)),
        (r#"{"targetPort": null}"#, Some(80)),
        (r#"{"targetPort": 0}"#, Some(80)),
        (r#"{"targetPort": ""}"#, Some(80)),
        (r#"{"targetPort": 8080}"#, Some(8080)),
        (r#"{"targetPort": "web"}"#, Some(9000)),
        (r#"{"targetPort": "web", "protocol": "UDP"}"#, Some(9001)),
        (r#"{"targetPort": "other"}"#, None),
        // A name, whatever it looks like.
        (r#"{"targetPort": "8080"}"#, None),
    ];

    fn entry(text: &str) -> Value {
        let mut entry: Value = serde_json::from_str(text).unwrap();
        entry["port"] = json!(80);
        entry
    }

    fn ports() -> Value {
        json!([{"name": NAMED, "containerPort": 9001, "protocol": "UDP"}, {"name": NAMED, "containerPort": 9000}])
    }

    #[test]
    fn a_service_port_leads_to_one_port_of_a_pod() {
        let containers = json!([{"name": "other"}, {"name": "main", "ports": ports()}]);
        let pod = |spec: Value| serde_json::from_value::<Pod>(json!({"spec": spec})).unwrap();
        let beside = json!([{"name": "beside", "ports": ports(), "restartPolicy": "Always"}]);
        let before = json!([{"name": "before", "ports": ports()}]);
        let pods = [
            pod(json!({"containers": containers})),
            pod(json!({"containers": [{"name": "main"}], "initContainers": beside})),
        ];
        let without = pod(json!({"containers": [{"name": "main"}], "initContainers": before}));
        for (text, found) in TARGETS {
            let port: ServicePort = serde_json::from_value(entry(text)).unwrap();
            for pod in &pods {
                assert_eq!(pod_port(&port, pod), found, "{text}");
            }
            let number = found.filter(|_| !text.contains(NAMED));
            assert_eq!(pod_port(&port, &without), number, "{text}");
        }
    }

    #[test]
    fn an_event_sources_service_leads_to_what_its_template_names() {
        for (text, found) in TARGETS {
            let source = json!({"spec": {
                "service": {"ports": [{"port": 81}, entry(text)]}, "template": {"container": {"ports": ports()}}}});
            let port = service_port(&source, 80).unwrap();
            assert_eq!(event_source_port(&source, &port), found, "{text}");
        }
        let plain = json!({"spec": {"service": {"ports": [entry("{}"), {"port": "x"}]}}});
        let port = service_port(&plain, 80).unwrap();
        assert_eq!(event_source_port(&plain, &port), Some(80));
        assert_eq!(service_port(&plain, 82), None);
        assert_eq!(service_port(&json!({}), 80), None);
    }
}
