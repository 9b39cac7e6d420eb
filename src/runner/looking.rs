//! Gathers the gate's input from the cluster, with one client for both.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use serde::Serialize;
use serde_json::Value;

use super::gate::{Input, Objection};
use super::observer::Observer;
use super::sending::{EVENT_SOURCE, WEBHOOK_PORT, WEBHOOK_SERVICE};
use crate::cluster::{Cluster, LedgerPosition, LookError, Request};
use crate::embedded::services::eventsource;
use crate::kinds::{self, DEFAULT_EVENT_BUS};
use crate::lab::GateMode;
use crate::sensor;
use crate::sensor::validate::Invalid;

/// The lab's Sensor.
pub const SENSOR: &str = "orders";
/// Label of the ledger's pods.
const LEDGER_PODS: &str = "app=order-ledger";

/// Looks at everything that the gate judges.
///
/// # Errors
/// [`LookError`] while the API cannot be asked; what can be judged as "not there" or "could not look" is part of the input.
pub async fn look(
    cluster: &Cluster,
    observer: &Observer,
    mode: GateMode,
) -> Result<Input, LookError> {
    // Asked at once, so that a distant cluster is seen as it stands and not as it was ten answers ago. Consumers and the
    // services come last: what is seen of them is of the pods that were seen.
    let (event_source_label, sensor_label) = (
        format!("eventsource-name={EVENT_SOURCE}"),
        format!("sensor-name={SENSOR}"),
    );
    let (sensor_kind, bus_kind, source_kind) =
        (kinds::sensor(), kinds::event_bus(), kinds::event_source());
    let (sensor, event_bus, event_source, event_source_pods, sensor_pods, deployments) = futures::try_join!(
        get(cluster, &sensor_kind, SENSOR),
        get(cluster, &bus_kind, DEFAULT_EVENT_BUS),
        get(cluster, &source_kind, EVENT_SOURCE),
        pods(cluster, &event_source_label),
        pods(cluster, &sensor_label),
        deployments(cluster),
    )?;
    let mut missing_bus = None;
    for object in event_source.iter().chain(&sensor) {
        if missing_bus.is_none() {
            missing_bus = lacking_bus(cluster, object).await?;
        }
    }
    let bus = cluster.bus();
    let (intake, ledger, consumers) =
        futures::join!(intake(cluster), ledger(cluster), bus.consumers());
    let ledger_pods = if ledger.is_err() {
        pods(cluster, LEDGER_PODS).await?
    } else {
        Vec::new()
    };
    Ok(Input {
        mode,
        trouble: cluster.trouble(),
        missing_bus,
        namespace: cluster.namespace().to_owned(),
        invalid_source: event_source.as_ref().and_then(invalid_source),
        event_source,
        event_source_pods,
        intake,
        ledger,
        ledger_pods,
        deployments,
        invalid: sensor
            .as_ref()
            .and_then(|sensor| invalid(sensor, event_bus.as_ref())),
        event_bus,
        sensor,
        sensor_pods,
        logs: observer.logs(),
        by_log_alone: cluster.by_log_alone(),
        consumers: consumers.map_err(|error| error.to_string()),
    })
}

/// Says that the bus is not there which an object names, if it names another than the labs' own.
async fn lacking_bus(cluster: &Cluster, object: &Value) -> Result<Option<String>, LookError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let name = kinds::event_bus_of(object);
    if name == DEFAULT_EVENT_BUS {
        return Ok(None);
    }
    if get(cluster, &kinds::event_bus(), name).await?.is_some() {
        return Ok(None);
    }
    Ok(Some(format!(
        "the {} names the EventBus `{name}`, which is not there",
        text("/kind").unwrap_or("object")
    )))
}

/// Whether the ledger's view answers; none of its rows is asked for.
async fn ledger(cluster: &Cluster) -> Result<(), String> {
    let past_all = LedgerPosition {
        attempts: u64::MAX >> 1,
        effects: u64::MAX >> 1,
        transitions: u64::MAX >> 1,
    };
    let view = cluster.ledger(past_all).await;
    view.map(|_| ()).map_err(|error| error.to_string())
}

/// What the EventSource's controller would say against the spec.
fn invalid_source(object: &Value) -> Option<String> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    let spec = object.get("spec").unwrap_or(&Value::Null);
    eventsource::validate(name.unwrap_or_default(), spec).err()
}

/// What the Sensor's controller would say against the spec.
fn invalid(object: &Value, bus: Option<&Value>) -> Option<Objection> {
    let bus = bus.unwrap_or(&Value::Null);
    match sensor::validate::validate(object, bus, jiff::Timestamp::now()) {
        Ok(()) => None,
        Err(error) => Some(Objection {
            text: error.to_string(),
            silent: matches!(error, Invalid::Decode(_)),
        }),
    }
}

/// An object of the lab's namespace; `None` when there is none.
///
/// # Errors
/// [`LookError::Api`].
pub async fn get(
    cluster: &Cluster,
    resource: &ApiResource,
    name: &str,
) -> Result<Option<Value>, LookError> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(cluster.client().clone(), cluster.namespace(), resource);
    let object = api
        .get_opt(name)
        .await
        .map_err(LookError::api("read", format!("{} {name}", resource.kind)))?;
    Ok(object.and_then(|object| serde_json::to_value(object).ok()))
}

/// The pods with a label.
///
/// # Errors
/// [`LookError::Api`].
pub async fn pods(cluster: &Cluster, selector: &str) -> Result<Vec<Value>, LookError> {
    let api: Api<Pod> = Api::namespaced(cluster.client().clone(), cluster.namespace());
    let list = api
        .list(&ListParams::default().labels(selector))
        .await
        .map_err(LookError::api("list pods", selector))?;
    Ok(as_values(list.items))
}

/// The Deployments of the lab's namespace.
async fn deployments(cluster: &Cluster) -> Result<Vec<Value>, LookError> {
    let api: Api<Deployment> = Api::namespaced(cluster.client().clone(), cluster.namespace());
    let list = api
        .list(&ListParams::default())
        .await
        .map_err(LookError::api("list Deployments", cluster.namespace()))?;
    Ok(as_values(list.items))
}

fn as_values<T: Serialize>(items: Vec<T>) -> Vec<Value> {
    items
        .into_iter()
        .filter_map(|item| serde_json::to_value(item).ok())
        .collect()
}

/// The EventSource answers `/health` whatever the bus does; that is all that is asked here.
async fn intake(cluster: &Cluster) -> Result<(), String> {
    let request = Request {
        method: "GET".to_owned(),
        path: "/health".to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
        lose_answer: false,
    };
    match cluster.send(WEBHOOK_SERVICE, WEBHOOK_PORT, &request).await {
        Ok(response) if response.status == 200 => Ok(()),
        Ok(response) => Err(format!(
            "the EventSource answers /health with {}",
            response.status
        )),
        Err(error) => Err(error.to_string()),
    }
}
