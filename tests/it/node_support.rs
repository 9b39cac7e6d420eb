//! An API server with a node for one test.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use eventlab::embedded::bus::{Access, Bus, BusConnector, BusError, ConnectBus};
use eventlab::embedded::node::images::Services;
use eventlab::embedded::node::logs::Logs;
use eventlab::embedded::node::process::{Service, ServiceContext};
use eventlab::embedded::node::streams::Streams;
use eventlab::embedded::node::{BackOff, Node, NodeConfig, NodeHandle};
use eventlab::kinds::ARGO_EVENTS_IMAGE;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::Api;
use kube::api::{ListParams, LogParams, PostParams};
use serde_json::{Value, json};

use super::api_support::{Lab, Transport, object};

/// Only a guard against hanging.
const HANG: Duration = Duration::from_secs(60);

/// A cluster of API server and node; the namespace is `lab`.
pub struct Cluster {
    pub lab: Lab,
    pub node: Option<NodeHandle>,
    pub state: tempfile::TempDir,
    pub logs: Logs,
    pub streams: Streams,
    /// Of its nodes, with what runs once after a start.
    pub patience: Duration,
}

struct NoBus;

impl ConnectBus for NoBus {
    fn connect<'a>(
        &'a self,
        _url: &'a str,
        _credentials: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn Bus>, BusError>> {
        Box::pin(async { Err(BusError::Closed) })
    }
}

impl Cluster {
    pub async fn new() -> Cluster {
        Cluster::over(Transport::InProcess).await
    }

    /// With clients of this kind.
    pub async fn over(transport: Transport) -> Cluster {
        let state = tempfile::tempdir().unwrap();
        let mut cluster = Cluster {
            lab: Lab::over(transport).await,
            node: None,
            logs: NodeConfig::logs_in(state.path()),
            streams: Streams::new(NodeConfig::addresses_in(state.path())),
            state,
            patience: HANG,
        };
        cluster.start_node().await;
        cluster
    }

    /// Starts a node on the state that is there.
    pub async fn start_node(&mut self) {
        let server = Arc::clone(&self.lab.server);
        let logs = NodeConfig::logs_in(self.state.path());
        server.set_pod_logs(Arc::new(logs.clone()));
        self.logs = logs.clone();
        let addresses = NodeConfig::addresses_in(self.state.path());
        let streams = Streams::new(addresses.clone());
        server.set_pod_streams(Arc::new(streams.clone()));
        self.streams = streams.clone();
        let token = server.user_token("system:node:eventlab", &["system:nodes"]);
        let config = NodeConfig {
            state_dir: self.state.path().to_path_buf(),
            program: PathBuf::from(env!("CARGO_BIN_EXE_eventlab")),
            client: server.client(&token),
            connect: Arc::new(move |token: &str| server.client(token)),
            services: services(),
            bus: BusConnector(Arc::new(NoBus)),
            logs,
            addresses,
            streams,
            api_address: None,
            ca: "-----BEGIN CERTIFICATE-----".into(),
            back_off: BackOff {
                first: Duration::from_millis(20),
                longest: Duration::from_millis(80),
                forget: Duration::from_secs(600),
            },
            patience: self.patience,
        };
        self.node = Some(Node::start(config).await.unwrap());
    }

    pub fn pods(&self) -> Api<Pod> {
        self.lab.api("lab")
    }

    /// Creates a pod on this node.
    pub async fn create(&self, name: &str, spec: Value) -> Pod {
        self.create_with(json!({"name": name}), spec).await
    }

    pub async fn create_with(&self, metadata: Value, mut spec: Value) -> Pod {
        spec["nodeName"] = "eventlab".into();
        let pod = object(json!({"metadata": metadata, "spec": spec}));
        self.pods()
            .create(&PostParams::default(), &pod)
            .await
            .unwrap()
    }

    /// Waits until a pod is as it should be.
    pub async fn wait(&self, name: &str, what: impl Fn(&Pod) -> bool) -> Pod {
        let mut last = None;
        let waiting = async {
            loop {
                let pod = self.pods().get_opt(name).await.unwrap();
                if let Some(pod) = pod.as_ref().filter(|pod| what(pod)) {
                    return pod.clone();
                }
                last = pod;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        match tokio::time::timeout(HANG, waiting).await {
            Ok(pod) => pod,
            Err(_) => panic!(
                "pod {name} stays {}",
                serde_json::to_string_pretty(&last).unwrap()
            ),
        }
    }

    pub async fn wait_phase(&self, name: &str, phase: &str) -> Pod {
        self.wait(name, |pod| phase_of(pod) == phase).await
    }

    pub async fn wait_gone(&self, name: &str) {
        until(async || self.pods().get_opt(name).await.unwrap().is_none()).await;
    }

    pub async fn log(&self, name: &str, container: &str) -> String {
        let parameters = LogParams {
            container: Some(container.into()),
            ..LogParams::default()
        };
        self.pods().logs(name, &parameters).await.unwrap()
    }

    /// Reasons and messages of a pod's events, once there is one with `reason`.
    pub async fn events(&self, name: &str, reason: &str) -> Vec<(String, String)> {
        let api: Api<Event> = self.lab.api("lab");
        let mut found = Vec::new();
        until(async || {
            let list = api.list(&ListParams::default()).await.unwrap().items;
            found = list
                .into_iter()
                .filter(|event| event.involved_object.name.as_deref() == Some(name))
                .map(|event| (event.reason.unwrap(), event.message.unwrap()))
                .collect();
            found.iter().any(|(known, _)| known == reason)
        })
        .await;
        found
    }
}

/// Waits until a condition holds.
pub async fn until(mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANG, waiting)
        .await
        .expect("it never came");
}

pub fn phase_of(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// The status of a container, as JSON.
pub fn container(pod: &Pod, name: &str) -> Value {
    let status = pod.status.as_ref().unwrap();
    let all = status
        .init_container_statuses
        .iter()
        .flatten()
        .chain(status.container_statuses.iter().flatten());
    let found: Option<&ContainerStatus> = all.into_iter().find(|status| status.name == name);
    serde_json::to_value(found).unwrap()
}

/// A pod spec with one container that runs a test service in process.
pub fn service_spec(service: &str) -> Value {
    json!({"restartPolicy": "Never", "containers": [
        {"name": "main", "image": ARGO_EVENTS_IMAGE, "args": [service]},
    ]})
}

/// Functions that pods of the Argo image may run here.
fn services() -> Services {
    let all: [(&str, Service); 7] = [
        ("wait-for-end", |context| Box::pin(wait_for_end(context))),
        ("say-life", |context| Box::pin(say_life(context))),
        ("ignore-end", |_context| Box::pin(std::future::pending())),
        ("panic", |context| Box::pin(panic(context))),
        ("report", |context| Box::pin(report(context))),
        ("serve", |context| Box::pin(serve(context))),
        ("await-main", |context| Box::pin(await_main(context))),
    ];
    all.into_iter()
        .map(|(name, service)| ((ARGO_EVENTS_IMAGE.to_owned(), name.to_owned()), service))
        .collect()
}

async fn wait_for_end(context: ServiceContext) -> i32 {
    context.log.line("up");
    context.terminate.cancelled().await;
    context.log.line("asked to end");
    0
}

/// Logs which life of its container this is.
async fn say_life(context: ServiceContext) -> i32 {
    context.log.line(&format!("life {}", context.pod.instance));
    context.terminate.cancelled().await;
    0
}

async fn panic(context: ServiceContext) -> i32 {
    context.log.line("before");
    panic!("as {} asked", context.pod.name)
}

/// Logs what it was given, exits with the code in `CODE`.
async fn report(context: ServiceContext) -> i32 {
    for (name, value) in &context.env {
        context.log.line(&format!("{name}={value}"));
    }
    let token = context
        .files
        .read("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
        .await;
    context.log.line(&format!(
        "namespace {}",
        String::from_utf8(token.unwrap()).unwrap()
    ));
    for path in ["/etc/passwd", "/config/../../etc/passwd", "/config/mode"] {
        let read = context.files.read(path).await;
        context.log.line(&format!(
            "{path}: {:?}",
            read.map(|bytes| String::from_utf8(bytes).unwrap()).ok()
        ));
    }
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let api: Api<k8s_openapi::api::authentication::v1::SelfSubjectReview> =
        Api::all(context.client.clone());
    let review = api
        .create(
            &PostParams::default(),
            &serde_json::from_value(review).unwrap(),
        )
        .await
        .unwrap();
    let user = review.status.unwrap().user_info.unwrap().username.unwrap();
    context.log.line(&format!("user {user}"));
    context.termination.set("said by itself");
    context
        .env
        .get("CODE")
        .map_or(0, |code| code.parse().unwrap())
}

/// Answers every connection with the pod's name.
async fn serve(context: ServiceContext) -> i32 {
    use tokio::io::AsyncWriteExt;
    let listener = context.ports.bind(12000).await.unwrap();
    assert_eq!(
        context.ports.bind(12000).await.unwrap_err().kind(),
        std::io::ErrorKind::AddrInUse
    );
    loop {
        tokio::select! {
            () = context.terminate.cancelled() => return 0,
            accepted = listener.accept() => {
                let (mut stream, _) = accepted.unwrap();
                stream.write_all(context.pod.name.as_bytes()).await.unwrap();
            }
        }
    }
}

/// Waits for the container `main` and answers its exit code.
async fn await_main(context: ServiceContext) -> i32 {
    let mut main = context.siblings["main"].clone();
    let exit = main.wait_for(Option::is_some).await.unwrap().unwrap();
    context
        .log
        .line(&format!("main ended with {}", exit.code()));
    0
}
