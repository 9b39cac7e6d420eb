//! A Sensor that runs: what its pod carries, against what the Sensor says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::Value;

use super::super::exit::Failure;
use super::super::place::Real;
use super::super::waits;
use super::{ExplainArgs, failure};
use crate::cluster::{Context, ContextRequest, told};
use crate::report::explain::{Dependency, Live, Sensor};

/// What runs.
pub(super) struct Running {
    /// The EventSources of its dependencies, as far as they can be read.
    pub objects: Vec<(String, Value)>,
    pub sensors: Vec<Sensor>,
    pub live: Live,
}

/// Reads the Sensor, its EventSources and what its pod carries.
///
/// # Errors
/// A cluster that cannot be asked, a Sensor or pod that is not there.
pub(super) async fn read(real: &Real, explain: &ExplainArgs) -> Result<Running, Failure> {
    let args = &explain.live;
    let (Some(name), Some(context)) = (&args.sensor, &real.context) else {
        return Err(Failure::usage(
            "--live needs --context NAME and --sensor NAME; of the embedded cluster `eventlab cluster kubeconfig` gives the kubeconfig for --kubeconfig",
        ));
    };
    let request = ContextRequest {
        name: context.clone(),
        kubeconfig: real.kubeconfig.clone(),
        confirmed: None,
    };
    // It only looks: a context that looks like production is looked at, too.
    let reading = Context::load(&request).await.map_err(Failure::usage)?;
    waits::tell(reading.hearing());
    let namespace = explain
        .namespace
        .clone()
        .unwrap_or_else(|| reading.namespace.clone());
    let title = format!("Sensor/{name} in {namespace}");
    let api = |group: &str, kind: &str| -> Api<DynamicObject> {
        let version = if group.is_empty() { "v1" } else { "v1alpha1" };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(reading.client.clone(), &namespace, &resource)
    };
    let cannot = |what: &str, error: &kube::Error| {
        let why = told(error);
        Failure::environment(format!(
            "cannot read {what} through context {context}: {why}"
        ))
    };
    let sensor = api("argoproj.io", "Sensor")
        .get(name)
        .await
        .map_err(|error| cannot(&title, &error))?;
    let pods = api("", "Pod")
        .list(&ListParams::default().labels(&format!("sensor-name={name}")))
        .await
        .map_err(|error| cannot(&format!("the pods of {title}"), &error))?;
    let sensor = json(&sensor)?;
    let pods = pods.items.iter().map(json).collect::<Result<Vec<_>, _>>()?;
    let Some((pod, carried)) = newest(&pods) else {
        return Err(Failure::environment(format!(
            "{title} has no running pod that carries a SENSOR_OBJECT, so nothing judges its events{}",
            standing(&sensor, &pods)
        )));
    };
    let file = format!("pod/{pod}");
    let running = Sensor::read(&file, &carried, Timestamp::now()).map_err(failure)?;
    let mut objects = Vec::new();
    for dependency in asked(&running.dependencies, explain) {
        let name = &dependency.source;
        match api("argoproj.io", "EventSource").get(name).await {
            Ok(source) => objects.push((format!("EventSource/{name}"), json(&source)?)),
            // The walk says what this means.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                let Failure { exit, message } = cannot(&format!("EventSource/{name}"), &error);
                let message = format!(
                    "{message}; to begin after it, give the event itself with --event FILE"
                );
                return Err(Failure { exit, message });
            }
        }
    }
    Ok(Running {
        objects,
        live: Live::new(pod, &sensor, &carried, conditions(&sensor)),
        sensors: vec![running],
    })
}

/// The dependencies whose EventSource takes the request in; none where there is no request.
fn asked<'d>(
    dependencies: &'d [Dependency],
    args: &ExplainArgs,
) -> impl Iterator<Item = &'d Dependency> {
    let request = args.input.event.is_none();
    let name = args.dependency.clone();
    dependencies.iter().filter(move |dependency| {
        request && name.as_ref().is_none_or(|name| *name == dependency.name)
    })
}

/// Why nothing runs, as far as Sensor and pods tell.
fn standing(sensor: &Value, pods: &[Value]) -> String {
    let pods = pods.iter().map(|pod| {
        let (name, phase) = (text(pod, "/metadata/name"), text(pod, "/status/phase"));
        let ending = pod.pointer("/metadata/deletionTimestamp").is_some();
        let phase = if ending { "ending" } else { phase };
        format!(
            "pod {name} is {}",
            if phase.is_empty() { "Pending" } else { phase }
        )
    });
    let told: Vec<String> = pods.chain(conditions(sensor)).collect();
    if told.is_empty() {
        String::new()
    } else {
        format!(": {}", told.join("; "))
    }
}

fn json(object: &DynamicObject) -> Result<Value, Failure> {
    serde_json::to_value(object).map_err(Failure::internal)
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The newest pod that runs and is not ending, with the Sensor that it carries.
fn newest(pods: &[Value]) -> Option<(String, Value)> {
    let lives = |pod: &&Value| {
        pod.pointer("/metadata/deletionTimestamp").is_none()
            && text(pod, "/status/phase") == "Running"
    };
    let pod = pods
        .iter()
        .filter(lives)
        .filter(|pod| carried(pod).is_some())
        .max_by_key(|pod| text(pod, "/metadata/creationTimestamp").to_owned())?;
    Some((text(pod, "/metadata/name").to_owned(), carried(pod)?))
}

/// The object in the variable `SENSOR_OBJECT`, decoded.
fn carried(pod: &Value) -> Option<Value> {
    let variables = pod
        .pointer("/spec/containers")?
        .as_array()?
        .iter()
        .filter_map(|container| container.get("env")?.as_array());
    let mut variables = variables.flatten();
    let variable = variables.find(|variable| text(variable, "/name") == "SENSOR_OBJECT")?;
    serde_json::from_slice(&STANDARD.decode(text(variable, "/value")).ok()?).ok()
}

/// The status conditions that are not true, in words.
fn conditions(sensor: &Value) -> Vec<String> {
    let list = sensor
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter(|condition| text(condition, "/status") == "False")
        .map(|condition| {
            format!(
                "{} is False, {}: {}",
                text(condition, "/type"),
                text(condition, "/reason"),
                text(condition, "/message")
            )
        })
        .collect()
}
