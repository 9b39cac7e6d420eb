//! The Argo kinds that clients here use untyped, as `ApiResource` values, and names that several layers share.

mod service;

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

pub use service::{event_source_port, pod_port, service_port, target_port};

/// The image whose pods are children of this binary; any other unknown image is `ErrImagePull`.
pub const WORKLOAD_IMAGE: &str = "eventlab:dev";
/// Fields of an EventSource's `spec` that are event types; others are settings, or unknown and without meaning upstream.
pub const EVENT_TYPES: [&str; 32] = [
    "amqp",
    "azureEventsHub",
    "azureQueueStorage",
    "azureServiceBus",
    "bitbucket",
    "bitbucketserver",
    "calendar",
    "emitter",
    "file",
    "generic",
    "gerrit",
    "github",
    "gitlab",
    "hdfs",
    "kafka",
    "minio",
    "mns",
    "mqtt",
    "nats",
    "nsq",
    "pubSub",
    "pulsar",
    "redis",
    "redisStream",
    "resource",
    "sftp",
    "slack",
    "sns",
    "sqs",
    "storageGrid",
    "stripe",
    "webhook",
];
/// Argo Events image: `eventsource-service` and `sensor-service`.
pub const ARGO_EVENTS_IMAGE: &str = "quay.io/argoproj/argo-events:v1.9.11";
/// Workflow executor image: containers `init` and `wait`.
pub const ARGO_EXEC_IMAGE: &str = "quay.io/argoproj/argoexec:v4.1.2";
/// Image of the embedded bus pod.
pub const NATS_IMAGE: &str = "nats:2.10.29";

/// Label that everything the lab makes carries; nothing without it is changed or deleted.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY_LABEL`].
pub const MANAGED_BY: &str = "eventlab";
/// The one namespace of the lab.
pub const NAMESPACE: &str = "eventlab";
/// The EventBus that an EventSource or Sensor without `eventBusName` uses.
pub const DEFAULT_EVENT_BUS: &str = "default";
/// Request header that carries a probe's trace.
pub const TRACE_HEADER: &str = "X-Eventlab-Trace";

fn argo(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("argoproj.io", "v1alpha1", kind),
        plural,
    )
}

/// `eventbus.argoproj.io` (its plural is `eventbus`).
#[must_use]
pub fn event_bus() -> ApiResource {
    argo("EventBus", "eventbus")
}

/// `eventsources.argoproj.io`.
#[must_use]
pub fn event_source() -> ApiResource {
    argo("EventSource", "eventsources")
}

/// `sensors.argoproj.io`.
#[must_use]
pub fn sensor() -> ApiResource {
    argo("Sensor", "sensors")
}

/// `workflows.argoproj.io`.
#[must_use]
pub fn workflow() -> ApiResource {
    argo("Workflow", "workflows")
}

/// `workflowtemplates.argoproj.io`.
#[must_use]
pub fn workflow_template() -> ApiResource {
    argo("WorkflowTemplate", "workflowtemplates")
}

/// `workflowtaskresults.argoproj.io`.
#[must_use]
pub fn workflow_task_result() -> ApiResource {
    argo("WorkflowTaskResult", "workflowtaskresults")
}

/// The EventBus that an EventSource or a Sensor names.
#[must_use]
pub fn event_bus_of(object: &Value) -> &str {
    let name = object.pointer("/spec/eventBusName").and_then(Value::as_str);
    name.filter(|name| !name.is_empty())
        .unwrap_or(DEFAULT_EVENT_BUS)
}

/// Resource and group as `kubectl` takes them: `pods/log`, `deployments.apps`, `workflows.argoproj.io/status`.
#[must_use]
pub fn resource_in_group(group: &str, resource: &str) -> String {
    match (group, resource.split_once('/')) {
        ("", _) => resource.to_owned(),
        (group, None) => format!("{resource}.{group}"),
        (group, Some((resource, subresource))) => format!("{resource}.{group}/{subresource}"),
    }
}

/// Environment variable that gives a child process the real port on 127.0.0.1 for its container port.
#[must_use]
pub fn real_port_variable(port: u16) -> String {
    format!("EVENTLAB_PORT_{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subresource_stands_behind_the_group() {
        for (group, resource, wanted) in [
            ("", "pods", "pods"),
            ("", "pods/log", "pods/log"),
            ("apps", "deployments", "deployments.apps"),
            ("apps", "deployments/scale", "deployments.apps/scale"),
            ("*", "*", "*.*"),
        ] {
            assert_eq!(resource_in_group(group, resource), wanted);
        }
    }
}
