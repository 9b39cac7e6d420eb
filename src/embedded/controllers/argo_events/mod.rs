//! Argo Events' controllers: EventBus, EventSource and Sensor, as `argo-events-sa`.
//!
//! The names, labels, conditions and finalizers are those of release 1.9.11. What differs: the bus pod
//! `eventbus-NAME-js-0` is made by the eventbus controller itself, as a bare pod that it owns and replaces
//! when it is gone (StatefulSet is not a kind that the embedded cluster serves), and it has one container.

mod conditions;
mod eventbus;
mod eventsource;
mod jetstream;
mod sensor;
mod workload;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::replicaset::enqueue_owner;
use super::runtime::error::is_not_found;
use super::runtime::informer::Source;
use super::runtime::objects::index_by_controller;
use super::runtime::{Change, Informer, ObjectKey, ReconcileError, Result, Tasks, WorkQueue};
use crate::kinds::{self, event_bus_of};

/// Label that the eventbus controller's objects carry, and its bus pods are watched by.
const BUS_LABEL: &str = "controller=eventbus-controller";

type Queue = Arc<WorkQueue<ObjectKey>>;

/// What the three controllers share: a client and what they watch.
struct Shared {
    client: Client,
    buses: Informer<DynamicObject>,
    sources: Informer<DynamicObject>,
    sensors: Informer<DynamicObject>,
    deployments: Informer<Deployment>,
    services: Informer<Service>,
    pods: Informer<Pod>,
}

/// Starts the three controllers.
pub(super) fn start(client: &Client, tasks: &mut Tasks, cancel: &CancellationToken) {
    let queues = Queues {
        bus: Queue::default(),
        source: Queue::default(),
        sensor: Queue::default(),
    };
    let shared = Arc::new(queues.watch(client, tasks, cancel));
    let synced = || {
        let shared = Arc::clone(&shared);
        async move { shared.synced().await }
    };
    let bus = Arc::new(eventbus::EventBusController(Arc::clone(&shared)));
    tasks.workers(&bus, &queues.bus, 1, cancel, synced());
    let source = Arc::new(eventsource::EventSourceController(Arc::clone(&shared)));
    tasks.workers(&source, &queues.source, 2, cancel, synced());
    let sensor = Arc::new(sensor::SensorController(Arc::clone(&shared)));
    tasks.workers(&sensor, &queues.sensor, 2, cancel, synced());
}

struct Queues {
    bus: Queue,
    source: Queue,
    sensor: Queue,
}

impl Queues {
    fn watch(&self, client: &Client, tasks: &mut Tasks, cancel: &CancellationToken) -> Shared {
        let by_namespace =
            |object: &DynamicObject| object.namespace().into_iter().collect::<Vec<_>>();
        let objects = |kind: ApiResource| {
            Source::new(Api::all_with(client.clone(), &kind)).indexed(by_namespace)
        };
        let (bus, sensor) = (Arc::clone(&self.bus), Arc::clone(&self.sensor));
        let sensors = objects(kinds::sensor())
            .on_change(move |change| {
                sensor.add(change.key.clone());
                wake_bus(change, &bus);
            })
            .start(tasks, cancel);
        let (bus, source) = (Arc::clone(&self.bus), Arc::clone(&self.source));
        let sources = objects(kinds::event_source())
            .on_change(move |change| {
                source.add(change.key.clone());
                wake_bus(change, &bus);
            })
            .start(tasks, cancel);
        let (queues, users) = (self.clone_queues(), [sources.clone(), sensors.clone()]);
        let buses = objects(kinds::event_bus())
            .on_change(move |change| {
                queues.bus.add(change.key.clone());
                let [sources, sensors] = &users;
                let namespace = &change.key.namespace;
                sources
                    .cache
                    .by_index(namespace)
                    .iter()
                    .for_each(|one| queues.source.add(ObjectKey::of(&**one)));
                sensors
                    .cache
                    .by_index(namespace)
                    .iter()
                    .for_each(|one| queues.sensor.add(ObjectKey::of(&**one)));
            })
            .start(tasks, cancel);
        let (deployments, services, pods) = self.watch_owned(client, tasks, cancel);
        Shared {
            client: client.clone(),
            buses,
            sources,
            sensors,
            deployments,
            services,
            pods,
        }
    }

    fn watch_owned(
        &self,
        client: &Client,
        tasks: &mut Tasks,
        cancel: &CancellationToken,
    ) -> (Informer<Deployment>, Informer<Service>, Informer<Pod>) {
        let queues = self.clone_queues();
        let deployments = Source::new(Api::all(client.clone()))
            .indexed(index_by_controller)
            .on_change(move |change| {
                enqueue_owner(change, "EventSource", &queues.source);
                enqueue_owner(change, "Sensor", &queues.sensor);
            })
            .start(tasks, cancel);
        let queues = self.clone_queues();
        let services = Source::new(Api::all(client.clone()))
            .indexed(index_by_controller)
            .on_change(move |change| {
                enqueue_owner(change, "EventSource", &queues.source);
                enqueue_owner(change, "EventBus", &queues.bus);
            })
            .start(tasks, cancel);
        let queues = self.clone_queues();
        let pods = Source::new(Api::all(client.clone()))
            .labels(BUS_LABEL)
            .on_change(move |change| enqueue_owner(change, "EventBus", &queues.bus))
            .start(tasks, cancel);
        (deployments, services, pods)
    }

    fn clone_queues(&self) -> Self {
        Self {
            bus: Arc::clone(&self.bus),
            source: Arc::clone(&self.source),
            sensor: Arc::clone(&self.sensor),
        }
    }
}

/// A bus whose deletion waits for its users may go when one of them has gone, or to another bus.
fn wake_bus(change: &Change<DynamicObject>, buses: &WorkQueue<ObjectKey>) {
    let Some(user) = &change.old else { return };
    let left = event_bus_of(&user.data);
    let now = change.new.as_ref().map(|user| event_bus_of(&user.data));
    if now != Some(left) {
        buses.add(ObjectKey::new(change.key.namespace.clone(), left));
    }
}

impl Shared {
    async fn synced(&self) {
        futures::join!(
            self.buses.synced(),
            self.sources.synced(),
            self.sensors.synced(),
            self.deployments.synced(),
            self.services.synced(),
            self.pods.synced()
        );
    }

    fn api(&self, kind: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, kind)
    }

    /// Writes `status` if it differs from what is there.
    async fn write_status(
        &self,
        kind: &ApiResource,
        informer: &Informer<DynamicObject>,
        object: &DynamicObject,
        status: Value,
    ) -> Result<()> {
        if object.data.get("status") == Some(&status) {
            return Ok(());
        }
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let mut next = object.clone();
        next.data["status"] = status;
        match self
            .api(kind, &namespace)
            .replace_status(&name, &PostParams::default(), &next)
            .await
        {
            Ok(written) => drop(informer.cache.upsert(written)),
            Err(error) if is_not_found(&error) => {}
            Err(error) => {
                let action = format!("update status of {} {namespace}/{name}", kind.kind);
                return Err(ReconcileError::api(action)(error));
            }
        }
        Ok(())
    }

    /// Adds or removes a controller's finalizer, and answers the object as it then is.
    async fn set_finalizer(
        &self,
        kind: &ApiResource,
        informer: &Informer<DynamicObject>,
        object: &DynamicObject,
        finalizer: &str,
        wanted: bool,
    ) -> Result<DynamicObject> {
        let present = object.finalizers().iter().any(|one| one == finalizer);
        if present == wanted {
            return Ok(object.clone());
        }
        let mut finalizers = object.finalizers().to_vec();
        if wanted {
            finalizers.push(finalizer.to_owned())
        } else {
            finalizers.retain(|one| one != finalizer)
        }
        let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": finalizers}});
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        match self
            .api(kind, &namespace)
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Ok(written) => {
                informer.cache.upsert(written.clone());
                Ok(written)
            }
            Err(error) if is_not_found(&error) && !wanted => Ok(object.clone()),
            Err(error) => Err(ReconcileError::api(format!(
                "set finalizers of {} {namespace}/{name}",
                kind.kind
            ))(error)),
        }
    }

    /// The EventBus that an EventSource or Sensor names.
    fn bus_of(&self, object: &DynamicObject) -> Option<Arc<DynamicObject>> {
        self.buses.cache.get(&ObjectKey::new(
            object.namespace().unwrap_or_default(),
            event_bus_of(&object.data),
        ))
    }
}
