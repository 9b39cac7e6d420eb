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
    GarbageCollector,
}

impl Identity {
    /// Every identity that [`start`] asks for.
    pub const ALL: [Self; 7] = [
        Self::ArgoEvents,
        Self::ArgoWorkflows,
        Self::Scheduler,
        Self::Deployment,
        Self::ReplicaSet,
        Self::Endpoint,
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
            garbage_collector: client(Identity::GarbageCollector),
        }
    }
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
    let mut tasks = Tasks::default();
    scheduler::start(&clients.scheduler, &mut tasks, &cancel);
    replicaset::start(&clients.replica_set, &mut tasks, &cancel);
    deployment::start(&clients.deployment, &mut tasks, &cancel);
    endpoints::start(&clients.endpoint, &mut tasks, &cancel);
    argo_events::start(&clients.argo_events, &mut tasks, &cancel);
    workflow::start(&clients.argo_workflows, settings, &mut tasks, &cancel);
    garbage::start(&clients.garbage_collector, &mut tasks, &cancel);
    ControllerHandle { tasks }
}
