//! The controllers on an embedded API, and a node that is played through the API as `system:node:eventlab`.

use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventlab::embedded::api::{ApiServer, Options};
use eventlab::embedded::controllers::{
    ControllerClients, ControllerHandle, Identity, Settings, start_with,
};
use eventlab::kinds;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
    WatchEvent, WatchParams,
};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Hang guard: far longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);
/// The namespace of the tests.
pub const NS: &str = "lab";

/// What a played node does with a pod that is bound to it.
pub type Play = Arc<dyn Fn(&Pod) -> Vec<Value> + Send + Sync>;

/// An API with running controllers.
pub struct Cluster {
    pub server: Arc<ApiServer>,
    pub cancel: CancellationToken,
    controllers: Mutex<Option<ControllerHandle>>,
    _directory: tempfile::TempDir,
}

impl Cluster {
    /// A cluster whose node plays every pod as `play` says.
    pub async fn new(play: Play) -> Arc<Cluster> {
        let cluster = Self::bare().await;
        cluster.start_controllers();
        cluster.start_node(play);
        cluster
    }

    /// An API with a namespace and a node object, without controllers.
    pub async fn bare() -> Arc<Cluster> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster.db");
        let server = ApiServer::open(&path, Options::default()).unwrap();
        let cluster = Arc::new(Cluster {
            server,
            cancel: CancellationToken::new(),
            controllers: Mutex::new(None),
            _directory: directory,
        });
        let spaces: Api<Namespace> = Api::all(cluster.admin());
        let space = typed(json!({"metadata": {"name": NS}}));
        spaces.create(&PostParams::default(), &space).await.unwrap();
        let nodes: Api<Node> = Api::all(cluster.admin());
        let node = typed(json!({"metadata": {"name": "eventlab"}}));
        let _ = nodes.create(&PostParams::default(), &node).await;
        cluster
    }

    pub fn admin(&self) -> Client {
        let token = self.server.user_token("admin", &["system:masters"]);
        self.server.client_in(&token, NS)
    }

    fn client_of(&self, identity: Identity) -> Client {
        let user = identity.user();
        let token = match user.strip_prefix("system:serviceaccount:") {
            Some(account) => {
                let (namespace, name) = account.split_once(':').unwrap();
                self.server.service_account_token(namespace, name)
            }
            None => self.server.user_token(user, &[]),
        };
        self.server.client(&token)
    }

    pub fn start_controllers(&self) {
        let clients = ControllerClients::for_each(|identity| self.client_of(identity));
        let settings = Settings {
            pod_gc_delay: Duration::from_millis(20),
            // Long, so that a pod on its way out is gone before it is judged, however busy the machine is.
            deleted_pod_grace: LONG,
            ..Settings::default()
        };
        let handle = start_with(clients, &settings, self.cancel.child_token());
        *self.controllers.lock().unwrap() = Some(handle);
    }

    /// Plays the node until the cluster is dropped.
    pub fn start_node(&self, play: Play) {
        let token = self
            .server
            .user_token("system:node:eventlab", &["system:nodes"]);
        let (client, cancel) = (self.server.client(&token), self.cancel.clone());
        tokio::spawn(async move {
            let played = tokio::select! {
                () = cancel.cancelled() => return,
                played = play_node(client, play) => played,
            };
            panic!("the node ended: {played:?}");
        });
    }

    pub async fn stop(&self) {
        self.cancel.cancel();
        let handle = self.controllers.lock().unwrap().take();
        if let Some(handle) = handle {
            soon(handle.stopped()).await;
        }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.admin(), NS)
    }

    pub fn argo(&self, kind: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.admin(), NS, kind)
    }

    /// Creates an object of a kind of Argo.
    pub async fn create(&self, kind: &ApiResource, body: Value) -> DynamicObject {
        let mut body = body;
        body["apiVersion"] = json!(kind.api_version);
        body["kind"] = json!(kind.kind);
        let object: DynamicObject = typed(body);
        self.argo(kind)
            .create(&PostParams::default(), &object)
            .await
            .unwrap()
    }

    pub async fn create_workflow(&self, name: &str, spec: Value) -> DynamicObject {
        self.create(
            &kinds::workflow(),
            json!({"metadata": {"name": name}, "spec": spec}),
        )
        .await
    }

    /// The Workflow once `holds` of it.
    pub async fn workflow(
        &self,
        name: &str,
        holds: impl Fn(&DynamicObject) -> bool + Send,
    ) -> DynamicObject {
        until(&self.argo(&kinds::workflow()), name, holds).await
    }

    /// The Workflow once it has ended.
    pub async fn finished(&self, name: &str) -> DynamicObject {
        let ended = |wf: &DynamicObject| wf.data["status"]["finishedAt"].is_string();
        self.workflow(name, ended).await
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// A typed object out of JSON.
pub fn typed<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Waits for something that should come at once.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("in time")
}

/// The object of this name once `holds` of it.
pub async fn until<K>(api: &Api<K>, name: &str, holds: impl Fn(&K) -> bool + Send) -> K
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let fields = format!("metadata.name={name}");
    let mut last = None;
    let wait = async {
        loop {
            let watch = WatchParams::default().fields(&fields);
            let stream = api.watch(&watch, "0").await.unwrap();
            futures::pin_mut!(stream);
            while let Some(Ok(event)) = stream.next().await {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
                    if holds(&object) {
                        return object;
                    }
                    last = Some(object);
                }
            }
        }
    };
    let found = tokio::time::timeout(LONG, wait).await;
    found.unwrap_or_else(|_| panic!("{name} never became so; last seen: {last:#?}"))
}

/// The objects behind a label selector once `holds` of them.
pub async fn until_list<K>(api: &Api<K>, labels: &str, holds: impl Fn(&[K]) -> bool) -> Vec<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut last = Vec::new();
    let wait = async {
        loop {
            let selector = ListParams::default().labels(labels);
            let list = api.list(&selector).await.unwrap();
            last = list.items;
            if holds(&last) {
                return;
            }
            let version = list.metadata.resource_version.unwrap_or_default();
            let watch = WatchParams::default().labels(labels);
            let stream = api.watch(&watch, &version).await.unwrap();
            futures::pin_mut!(stream);
            let _ = stream.next().await;
        }
    };
    let found = tokio::time::timeout(LONG, wait).await;
    assert!(
        found.is_ok(),
        "{labels} never became so; last seen: {last:#?}"
    );
    last
}

/// Waits until an object is gone.
pub async fn until_gone<K>(api: &Api<K>, name: &str)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let wait = async {
        loop {
            let list = api
                .list(&ListParams::default().fields(&format!("metadata.name={name}")))
                .await
                .unwrap();
            if list.items.is_empty() {
                return;
            }
            let version = list.metadata.resource_version.unwrap_or_default();
            let watch = WatchParams::default().fields(&format!("metadata.name={name}"));
            let stream = api.watch(&watch, &version).await.unwrap();
            futures::pin_mut!(stream);
            let _ = stream.next().await;
        }
    };
    soon(wait).await;
}

/// Follows pods: each bound one gets its states, each deleted one is let go.
pub async fn play_node(client: Client, play: Play) -> kube::Result<()> {
    let pods: Api<Pod> = Api::all(client.clone());
    let started = Arc::new(Mutex::new(std::collections::HashSet::new()));
    loop {
        let stream = pods.watch(&WatchParams::default(), "0").await?;
        futures::pin_mut!(stream);
        while let Some(event) = stream.try_next().await.unwrap_or(None) {
            let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else {
                continue;
            };
            let bound = pod
                .spec
                .as_ref()
                .is_some_and(|spec| spec.node_name.is_some());
            let own: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap());
            if pod.metadata.deletion_timestamp.is_some() {
                let now = DeleteParams::default().grace_period(0);
                let _ = own.delete(&pod.name_any(), &now).await;
            } else if bound && started.lock().unwrap().insert(pod.uid().unwrap()) {
                let states = play(&pod);
                tokio::spawn(async move {
                    for status in states {
                        let patch = Patch::Merge(json!({ "status": status }));
                        let _ = own
                            .patch_status(&pod.name_any(), &PatchParams::default(), &patch)
                            .await;
                    }
                });
            }
        }
    }
}

/// A node on which every pod runs, is ready, and stays.
pub fn all_ready() -> Play {
    Arc::new(|_| vec![ready()])
}

/// The status of a pod that is ready.
pub fn ready() -> Value {
    json!({
        "phase": "Running", "podIP": "10.42.0.7",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
    })
}

/// The states of a Workflow's pod whose containers end with these codes.
pub fn runs(main: i32, wait: i32) -> Vec<Value> {
    let ended = |name: &str, code: i32| {
        let reason = if code == 0 { "Completed" } else { "Error" };
        json!({
            "name": name, "ready": false, "restartCount": 0, "image": "x", "imageID": "",
            "state": {"terminated": {"exitCode": code, "reason": reason,
                "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:06Z"}},
        })
    };
    let phase = if main == 0 && wait == 0 {
        "Succeeded"
    } else {
        "Failed"
    };
    vec![
        json!({"phase": "Running"}),
        json!({"phase": phase, "containerStatuses": [ended("wait", wait), ended("main", main)]}),
    ]
}

/// A container template of the workload image.
pub fn container(name: &str) -> Value {
    json!({
        "name": name,
        "container": {"image": kinds::WORKLOAD_IMAGE, "command": ["/eventlab"], "args": ["ledger"]},
    })
}
