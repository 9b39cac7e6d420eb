//! The object of a trigger: its source with parameters, namespace and Argo's labels.

use serde_json::{Map, Value, json};

use super::super::decode::Node;
use super::super::go_json;
use super::super::parameters::{Events, ParameterError, Parameters};
use super::super::yaml::{self, Unreadable};
use super::{Operation, Origin, Submission, TriggerError};

/// Kinds that have no namespace, as far as upstream knows them.
const CLUSTER_KINDS: [&str; 5] = [
    "Namespace",
    "Node",
    "PersistentVolume",
    "ClusterRole",
    "ClusterRoleBinding",
];
/// Sources in the order in which upstream looks for them, and whether they are here.
const SOURCES: [(&str, bool); 7] = [
    ("s3", false),
    ("inline", true),
    ("file", false),
    ("url", false),
    ("git", false),
    ("configmap", false),
    ("resource", true),
];
/// Media type of a patch that names none.
const MERGE_PATCH: &str = "application/merge-patch+json";

/// The source that counts, of those that are set.
pub(super) fn source_kind(source: &Value) -> Option<(&'static str, bool)> {
    let set = |(name, _): &&(&str, bool)| source.get(*name).is_some_and(|value| !value.is_null());
    SOURCES.iter().find(set).copied()
}

/// What of a `k8s` or `argoWorkflow` trigger is not carried out here.
pub(super) fn outside(trigger: &Value) -> Option<String> {
    if let Some((other, false)) = trigger.get("source").and_then(source_kind) {
        return Some(format!(
            "source.{other} is not read here; write the object under source.resource"
        ));
    }
    match Parameters::decode(trigger.get("parameters").unwrap_or(&Value::Null)) {
        Err(ParameterError::Unsupported(what)) => {
            Some(ParameterError::Unsupported(what).to_string())
        }
        _ => None,
    }
}

/// The object that has to be read first, of a template with a `k8s`.
pub(super) fn live(template: &Node<'_>) -> Result<Option<Submission>, TriggerError> {
    let Some(k8s) = template.object("k8s")? else {
        return Ok(None);
    };
    let operation = k8s.text("operation")?;
    if operation != "update" || !k8s.flag("liveObject")? {
        return Ok(None);
    }
    let object = source_object(&k8s)?;
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (kind, namespace) = (text("/kind"), text("/metadata/namespace").to_owned());
    let missing = |what: &str| {
        TriggerError::Source(format!(
            "resource {what} must be specified for fetching live object"
        ))
    };
    if text("/metadata/name").is_empty() {
        return Err(missing("name"));
    }
    if namespace.is_empty() && !CLUSTER_KINDS.contains(&kind) {
        return Err(missing("namespace"));
    }
    Ok(Some(Submission {
        operation: Operation::Update,
        namespace,
        object,
        patch_type: String::new(),
    }))
}

/// What a `k8s` trigger sends.
pub(super) fn object(
    template: &Node<'_>,
    live: Option<Value>,
    events: &Events,
    origin: Origin<'_>,
) -> Result<Submission, TriggerError> {
    let Some(k8s) = template.object("k8s")? else {
        return Err(TriggerError::Source("it has no k8s".to_owned()));
    };
    let operation = Operation::read(&k8s.text("operation")?)?;
    let source = match live {
        Some(live) => live,
        None => source_object(&k8s)?,
    };
    let mut object = with_parameters(&k8s, source, events)?;
    let namespace = set_namespace(&mut object, origin.namespace);
    if operation == Operation::Create {
        label(&mut object, template, origin)?;
    }
    let patch_type = k8s.text("patchStrategy")?;
    Ok(Submission {
        operation,
        namespace,
        object: Value::Object(object),
        patch_type: if patch_type.is_empty() {
            MERGE_PATCH.to_owned()
        } else {
            patch_type
        },
    })
}

/// The Workflow that an `argoWorkflow` trigger submits.
pub(super) fn workflow(
    template: &Node<'_>,
    events: &Events,
    origin: Origin<'_>,
) -> Result<Submission, TriggerError> {
    let Some(trigger) = template.object("argoWorkflow")? else {
        return Err(TriggerError::Source("it has no argoWorkflow".to_owned()));
    };
    let source = source_object(&trigger)?;
    let mut object = with_parameters(&trigger, source, events)?;
    named(&object)?;
    let namespace = set_namespace(&mut object, origin.namespace);
    label(&mut object, template, origin)?;
    Ok(Submission {
        operation: Operation::Create,
        namespace,
        object: Value::Object(object),
        patch_type: String::new(),
    })
}

fn source_object(trigger: &Node<'_>) -> Result<Value, TriggerError> {
    let Some(source) = trigger.object("source")? else {
        return Err(TriggerError::Source(
            "trigger source for k8s is empty".to_owned(),
        ));
    };
    let mut object = match source_kind(source.value()) {
        Some(("resource", _)) => source
            .field("resource")?
            .map_or(Value::Null, |resource| resource.value().clone()),
        Some(("inline", _)) => inline(&source.text("inline")?)?,
        Some((other, _)) => {
            return Err(TriggerError::Unsupported(format!(
                "source.{other} is not read here; write the object under source.resource"
            )));
        }
        None => {
            return Err(TriggerError::Source(format!(
                "unknown artifact location: {}",
                source.value()
            )));
        }
    };
    // Upstream reads every source into a map without types.
    go_json::as_floats(&mut object);
    Ok(object)
}

/// An object written as text, YAML or JSON.
fn inline(text: &str) -> Result<Value, TriggerError> {
    yaml::first(text).map_err(|error| {
        let error = Unreadable::from(&error);
        if error.is_own {
            let text = format!("source.inline is not read to its end: {error}");
            return TriggerError::Unsupported(text);
        }
        TriggerError::Source(format!(
            "error converting YAML to JSON: yaml: (upstream words the rest in its own way, eventlab says) {error}"
        ))
    })
}

/// A Workflow that is submitted has a name, or lets the server make one.
pub(super) fn check_name(object: &Value) -> Result<(), TriggerError> {
    let members = object.as_object();
    members.map_or(Ok(()), named)
}

fn named(object: &Map<String, Value>) -> Result<(), TriggerError> {
    let has = |key: &str| {
        let value = object
            .get("metadata")
            .and_then(|metadata| metadata.get(key));
        value
            .and_then(Value::as_str)
            .is_some_and(|name| !name.is_empty())
    };
    if has("name") || has("generateName") {
        return Ok(());
    }
    let text = "failed to trigger the workflow, neither name nor generateName is given";
    Err(TriggerError::Name(text.to_owned()))
}

/// The object of a trigger whose source is read here, with its parameters.
pub(super) fn parametrized(trigger: &Node<'_>, events: &Events) -> Result<Value, TriggerError> {
    let source = source_object(trigger)?;
    with_parameters(trigger, source, events).map(Value::Object)
}

/// The source with the trigger's parameters; it must have a kind, or the decoder refuses it.
fn with_parameters(
    trigger: &Node<'_>,
    source: Value,
    events: &Events,
) -> Result<Map<String, Value>, TriggerError> {
    let parameters = Parameters::of(trigger, "parameters")?;
    let object = if parameters.is_empty() {
        source
    } else {
        parameters.apply(events, &source)?
    };
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

/// Puts Argo's labels on an object.
fn label(
    object: &mut Map<String, Value>,
    template: &Node<'_>,
    origin: Origin<'_>,
) -> Result<(), TriggerError> {
    let stamp = origin.now.as_millisecond().to_string();
    let name = template.text("name")?;
    let labels = [
        ("sensor", origin.sensor),
        ("trigger", name.as_str()),
        ("action-timestamp", stamp.as_str()),
    ];
    set_labels(object, &labels);
    Ok(())
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

/// The resource name that upstream guesses from a kind.
#[must_use]
pub fn plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    let mut last = singular.chars().rev();
    let (end, before) = (last.next(), last.next());
    let without = |letters: usize| {
        let length = singular.len().saturating_sub(letters);
        singular.get(..length).unwrap_or_default()
    };
    match (before, end) {
        _ if kind == "EventBus" => singular,
        (None, _) => singular,
        (_, Some('s' | 'x' | 'z')) | (Some('c' | 's'), Some('h')) => format!("{singular}es"),
        (Some('a' | 'e' | 'i' | 'o' | 'u'), Some('y')) => format!("{singular}s"),
        (_, Some('y')) => format!("{}ies", without(1)),
        (Some('f'), Some('e')) => format!("{}ves", without(2)),
        (_, Some('f')) => format!("{}ves", without(1)),
        _ => format!("{singular}s"),
    }
}
