//! The object that a Kubernetes trigger submits: the source with its parameters and Argo's labels.
//!
//! From above: [`build`]. Nothing is sent here.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::decode::{DecodeError, Node};
use super::parameters::{Events, ParameterError, Parameters};

/// What a trigger does with its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creates it; the object carries Argo's labels.
    Create,
    /// Updates it, or creates it where there is none.
    Update,
    /// Patches it, or creates it where there is none.
    Patch,
    /// Deletes it.
    Delete,
}

/// An object to be submitted, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// What to do.
    pub operation: Operation,
    /// Namespace of the request; empty for the cluster-scoped kinds that upstream knows.
    pub namespace: String,
    /// The object, complete.
    pub object: Value,
}

/// Why no object can be built; the trigger then fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// A field has a type that the controller could not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A parameter cannot be applied.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// There is no source, or it is not an object with a kind.
    #[error("{0}")]
    Source(String),
    /// The operation does not exist.
    #[error("unknown operation type {0}")]
    Operation(String),
    /// A trigger or source that upstream has and this program has not.
    #[error("eventlab: {0} is not supported; use a k8s trigger with source.resource")]
    Unsupported(String),
}

/// Kinds that have no namespace, as far as upstream knows them.
const CLUSTER_KINDS: [&str; 5] = [
    "Namespace",
    "Node",
    "PersistentVolume",
    "ClusterRole",
    "ClusterRoleBinding",
];

/// Builds what one execution of a trigger submits.
///
/// `trigger` is an entry of the Sensor's `spec.triggers`; the Sensor's namespace is the default; `now` becomes the
/// label `events.argoproj.io/action-timestamp`, in milliseconds since 1970.
///
/// # Errors
/// [`TriggerError`], with upstream's text where upstream has one.
pub fn build(
    trigger: &Value,
    sensor: &str,
    sensor_namespace: &str,
    events: &Events,
    now: Timestamp,
) -> Result<Submission, TriggerError> {
    let template = with_template_parameters(trigger, events)?;
    let template = Node::new(&template, "template");
    let name = template.text("name")?;
    let Some(k8s) = template.object("k8s")? else {
        return Err(TriggerError::Unsupported(format!(
            "trigger {name} without k8s"
        )));
    };
    let operation = Operation::read(&k8s.text("operation")?)?;
    let resource = source_resource(&k8s)?;
    let parameters = Parameters::of(&k8s, "parameters")?;
    let object = if parameters.is_empty() {
        resource
    } else {
        parameters.apply(events, &resource)?
    };
    let mut object = checked_object(object)?;
    let namespace = set_namespace(&mut object, sensor_namespace);
    if operation == Operation::Create {
        let stamp = now.as_millisecond().to_string();
        let labels = [
            ("sensor", sensor),
            ("trigger", name.as_str()),
            ("action-timestamp", stamp.as_str()),
        ];
        set_labels(&mut object, &labels);
    }
    Ok(Submission {
        operation,
        namespace,
        object: Value::Object(object),
    })
}

impl Operation {
    fn read(text: &str) -> Result<Self, TriggerError> {
        match text {
            "" | "create" => Ok(Self::Create),
            "update" => Ok(Self::Update),
            "patch" => Ok(Self::Patch),
            "delete" => Ok(Self::Delete),
            other => Err(TriggerError::Operation(other.to_owned())),
        }
    }
}

/// The trigger's template after the parameters that change the template itself.
fn with_template_parameters(trigger: &Value, events: &Events) -> Result<Value, TriggerError> {
    let node = Node::new(trigger, "trigger");
    let Some(template) = node.object("template")? else {
        return Err(TriggerError::Source(
            "trigger template can't be nil".to_owned(),
        ));
    };
    let parameters = Parameters::of(&node, "parameters")?;
    if parameters.is_empty() {
        return Ok(template.value().clone());
    }
    Ok(parameters.apply(events, template.value())?)
}

fn source_resource(k8s: &Node<'_>) -> Result<Value, TriggerError> {
    let Some(source) = k8s.object("source")? else {
        return Err(TriggerError::Source(
            "trigger source for k8s is empty".to_owned(),
        ));
    };
    for other in ["s3", "inline", "file", "url", "configmap", "git"] {
        if source.field(other)?.is_some() {
            return Err(TriggerError::Unsupported(format!("source.{other}")));
        }
    }
    match source.field("resource")? {
        Some(resource) => Ok(resource.value().clone()),
        None => Err(TriggerError::Source(format!(
            "unknown artifact location: {}",
            source.value()
        ))),
    }
}

/// The object must have a kind, or the decoder refuses it.
fn checked_object(object: Value) -> Result<Map<String, Value>, TriggerError> {
    let kind = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match object {
        Value::Object(members) if !kind.is_empty() => Ok(members),
        other => Err(TriggerError::Source(format!(
            "Object 'Kind' is missing in '{other}'"
        ))),
    }
}

fn member<'m>(
    object: &'m mut Map<String, Value>,
    name: &str,
) -> Option<&'m mut Map<String, Value>> {
    let value = object.entry(name).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut()
}

fn set_namespace(object: &mut Map<String, Value>, default: &str) -> String {
    let kind = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let clustered = CLUSTER_KINDS.contains(&kind);
    let Some(metadata) = member(object, "metadata") else {
        return String::new();
    };
    if clustered {
        metadata.remove("namespace");
        return String::new();
    }
    let own = metadata
        .get("namespace")
        .and_then(Value::as_str)
        .filter(|own| !own.is_empty());
    let namespace = own.unwrap_or(default).to_owned();
    metadata.insert("namespace".to_owned(), Value::String(namespace.clone()));
    namespace
}

fn set_labels(object: &mut Map<String, Value>, added: &[(&str, &str)]) {
    let Some(metadata) = member(object, "metadata") else {
        return;
    };
    // Labels that are not all texts count as none.
    let broken = metadata
        .get("labels")
        .is_some_and(|labels| !is_text_map(labels));
    if broken {
        metadata.remove("labels");
    }
    let Some(labels) = member(metadata, "labels") else {
        return;
    };
    for (name, value) in added {
        labels.insert(
            format!("events.argoproj.io/{name}"),
            Value::String((*value).to_owned()),
        );
    }
}

fn is_text_map(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|members| members.values().all(Value::is_string))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensor::Event;

    fn events() -> Events {
        let data = br#"{"header":{"X-Eventlab-Trace":["t-1"]},"body":{"orderId":"o-1"}}"#.to_vec();
        let event = Event {
            id: "abc".into(),
            datacontenttype: "application/json".into(),
            data: Some(data),
            ..Event::default()
        };
        Events::from([("order".to_owned(), event)])
    }

    fn trigger(resource: &Value) -> Value {
        let parameter = |source: Value, dest: &str| json!({"src": source, "dest": dest});
        json!({"template": {"name": "run", "k8s": {"operation": "create", "source": {"resource": resource}, "parameters": [
            parameter(json!({"dependencyName": "order", "contextKey": "id"}), "metadata.labels.arrival"),
            parameter(json!({"dependencyName": "order", "dataKey": "header.X-Eventlab-Trace.0", "value": "none"}), "metadata.labels.trace"),
        ]}}})
    }

    fn built(trigger: &Value) -> Result<Submission, TriggerError> {
        build(
            trigger,
            "order-sensor",
            "eventlab",
            &events(),
            "2026-01-02T03:04:05.678Z".parse().unwrap(),
        )
    }

    #[test]
    fn the_object_has_parameters_labels_and_namespace() {
        let resource = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "order-"}});
        let submission = built(&trigger(&resource)).unwrap();
        assert_eq!(
            (submission.operation, submission.namespace.as_str()),
            (Operation::Create, "eventlab")
        );
        let labels = json!({
            "arrival": "abc", "trace": "t-1", "events.argoproj.io/sensor": "order-sensor",
            "events.argoproj.io/trigger": "run", "events.argoproj.io/action-timestamp": "1767323045678",
        });
        assert_eq!(
            submission.object["metadata"],
            json!({"generateName": "order-", "namespace": "eventlab", "labels": labels})
        );
    }

    #[test]
    fn an_own_namespace_stays_and_cluster_kinds_have_none() {
        let own = json!({"kind": "Workflow", "metadata": {"namespace": "other"}});
        assert_eq!(built(&trigger(&own)).unwrap().namespace, "other");
        assert_eq!(
            built(&trigger(&json!({"kind": "ClusterRole"})))
                .unwrap()
                .namespace,
            ""
        );
    }

    #[test]
    fn what_cannot_be_built_says_why() {
        let text = |trigger: &Value| built(trigger).unwrap_err().to_string();
        assert!(
            text(&trigger(&json!({"metadata": {}}))).starts_with("Object 'Kind' is missing in")
        );
        assert!(
            text(&json!({"template": {"name": "a", "http": {}}}))
                .starts_with("eventlab: trigger a without k8s is not supported")
        );
        assert_eq!(text(&json!({})), "trigger template can't be nil");
    }
}
