//! The controllers: eventbus, eventsource, sensor, deployment, workflow, scheduler, garbage.
//!
//! Each is a client of the API like any other, under its own identity; none touches the store. [`start`] is
//! called once the API answers, with one client per identity of [`Identity`]. Everything is driven by
//! watches: an event starts its reconcile at once, and a closed watch, a lost connection, a conflict or a
//! panic is survived.

mod adoption;
mod argo_events;
mod deployment;
mod endpoints;
mod garbage;
mod replicaset;
pub mod runtime;
mod scheduler;
mod settings;
pub mod workflow;

use kube::Client;
use tokio_util::sync::CancellationToken;

use runtime::Tasks;
pub use settings::Settings;

/// Who a controller is: each has an identity of its own, with the rights that the real one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    ArgoEvents,
    ArgoWorkflows,
    Scheduler,
    Deployment,
    ReplicaSet,
    Endpoint,
    EndpointSlice,
    GarbageCollector,
}

impl Identity {
    /// Every identity that [`start`] asks for.
    pub const ALL: [Self; 8] = [
        Self::ArgoEvents,
        Self::ArgoWorkflows,
        Self::Scheduler,
        Self::Deployment,
        Self::ReplicaSet,
        Self::Endpoint,
        Self::EndpointSlice,
        Self::GarbageCollector,
    ];

    /// The user name in RBAC.
    #[must_use]
    pub fn user(self) -> &'static str {
        match self {
            Self::ArgoEvents => "system:serviceaccount:argo-events:argo-events-sa",
            Self::ArgoWorkflows => "system:serviceaccount:argo:argo",
            Self::Scheduler => "system:kube-scheduler",
            Self::Deployment => "system:serviceaccount:kube-system:deployment-controller",
            Self::ReplicaSet => "system:serviceaccount:kube-system:replicaset-controller",
            Self::Endpoint => "system:serviceaccount:kube-system:endpoint-controller",
            Self::EndpointSlice => "system:serviceaccount:kube-system:endpointslice-controller",
            Self::GarbageCollector => "system:serviceaccount:kube-system:generic-garbage-collector",
        }
    }
}

/// One client per [`Identity`].
#[derive(Clone)]
pub struct ControllerClients {
    pub argo_events: Client,
    pub argo_workflows: Client,
    pub scheduler: Client,
    pub deployment: Client,
    pub replica_set: Client,
    pub endpoint: Client,
    pub endpoint_slice: Client,
    pub garbage_collector: Client,
}

impl ControllerClients {
    /// Asks `client` for each identity's client.
    pub fn for_each(mut client: impl FnMut(Identity) -> Client) -> Self {
        Self {
            argo_events: client(Identity::ArgoEvents),
            argo_workflows: client(Identity::ArgoWorkflows),
            scheduler: client(Identity::Scheduler),
            deployment: client(Identity::Deployment),
            replica_set: client(Identity::ReplicaSet),
            endpoint: client(Identity::Endpoint),
            endpoint_slice: client(Identity::EndpointSlice),
            garbage_collector: client(Identity::GarbageCollector),
        }
    }
}

/// Which controllers work: elsewhere somebody else's may be at it already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// What kube-controller-manager does: Deployments, ReplicaSets, endpoints, garbage.
    pub core: bool,
    pub scheduler: bool,
    /// EventBus, EventSource and Sensor.
    pub argo_events: bool,
    pub argo_workflows: bool,
}

impl Parts {
    /// Every controller.
    pub const ALL: Self = Self {
        core: true,
        scheduler: true,
        argo_events: true,
        argo_workflows: true,
    };
}

/// The running controllers. Dropping it ends them without waiting.
pub struct ControllerHandle {
    tasks: Tasks,
}

impl ControllerHandle {
    /// Waits until every controller has ended, after the token given to [`start`] was cancelled.
    pub async fn stopped(self) {
        self.tasks.join().await;
    }
}

/// Starts every controller with the default [`Settings`], until `cancel`. Must be called within a tokio runtime.
#[must_use]
pub fn start(clients: ControllerClients, cancel: CancellationToken) -> ControllerHandle {
    start_with(clients, &Settings::default(), cancel)
}

/// Starts every controller, until `cancel`. Must be called within a tokio runtime.
#[must_use]
pub fn start_with(
    clients: ControllerClients,
    settings: &Settings,
    cancel: CancellationToken,
) -> ControllerHandle {
    run(clients, settings, Parts::ALL, cancel)
}

/// Starts some of the controllers with the default [`Settings`], until `cancel`. Must be called within a tokio runtime.
#[must_use]
pub fn start_parts(
    clients: ControllerClients,
    parts: Parts,
    cancel: CancellationToken,
) -> ControllerHandle {
    run(clients, &Settings::default(), parts, cancel)
}

fn run(
    clients: ControllerClients,
    settings: &Settings,
    parts: Parts,
    cancel: CancellationToken,
) -> ControllerHandle {
    let mut tasks = Tasks::default();
    if parts.scheduler {
        scheduler::start(&clients.scheduler, &mut tasks, &cancel);
    }
    if parts.core {
        replicaset::start(&clients.replica_set, &mut tasks, &cancel);
        deployment::start(&clients.deployment, &mut tasks, &cancel);
        endpoints::start(
            &clients.endpoint,
            &clients.endpoint_slice,
            &mut tasks,
            &cancel,
        );
        garbage::start(&clients.garbage_collector, &mut tasks, &cancel);
    }
    if parts.argo_events {
        argo_events::start(&clients.argo_events, &mut tasks, &cancel);
    }
    if parts.argo_workflows {
        workflow::start(&clients.argo_workflows, settings, &mut tasks, &cancel);
    }
    ControllerHandle { tasks }
}
