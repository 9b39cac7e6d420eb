//! Runs services as the node does: on a runtime of their own, with loopback ports, log lines and a kill.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use eventlab::embedded::bus::engine::EmbeddedBus;
use eventlab::embedded::bus::host::{BusHost, LocalConnector, ServeGuard};
use eventlab::embedded::bus::jetstream::JetStreamConnector;
use eventlab::embedded::bus::{Access, Bus, BusConnector, ConnectBus};
use eventlab::embedded::node::process::{
    ContainerFiles, Exit, LogSink, PodIdentity, PortBinder, Service, ServiceContext,
    TerminationMessage,
};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::nats_support::NatsServer;

/// Long enough for a slow machine; reached only when a test fails.
pub const GUARD: Duration = Duration::from_secs(30);
pub const NAMESPACE: &str = "eventlab";

/// Waits until something becomes true.
pub async fn until<F: Future<Output = bool>>(what: &str, check: impl Fn() -> F) {
    let wait = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(GUARD, wait)
        .await
        .unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

/// Set to `nats`, it lets the services of all tests run over a real nats-server.
const WAY: &str = "EVENTLAB_TEST_BUS";

/// A bus with its data in a directory that goes with it.
pub struct TestBus {
    pub host: Arc<BusHost>,
    guard: Option<ServeGuard>,
    nats: Option<NatsServer>,
    /// One connection for looking at the real server.
    connection: tokio::sync::Mutex<Option<Arc<dyn Bus>>>,
    _directory: tempfile::TempDir,
}

impl TestBus {
    /// On a real nats-server; `None` where there is none.
    pub fn real() -> Option<TestBus> {
        let nats = NatsServer::start("")?;
        let mut bus = TestBus::embedded();
        bus.nats = Some(nats);
        Some(bus)
    }

    pub fn start() -> TestBus {
        if std::env::var(WAY).is_ok_and(|way| way == "nats") {
            return TestBus::real().expect("a nats-server, since it was asked for");
        }
        let mut bus = TestBus::embedded();
        bus.serve();
        bus
    }

    /// Address of the real server.
    pub fn nats_url(&self) -> String {
        self.nats.as_ref().unwrap().url()
    }

    fn embedded() -> TestBus {
        let directory = tempfile::tempdir().unwrap();
        let host = BusHost::new(EmbeddedBus::open(&directory.path().join("bus.db")).unwrap());
        TestBus {
            host,
            guard: None,
            nats: None,
            connection: tokio::sync::Mutex::default(),
            _directory: directory,
        }
    }

    /// What the controller would tell a pod of this bus.
    pub fn config(&self) -> Value {
        let mut config = bus_config();
        if let Some(nats) = &self.nats {
            config["jetstream"]["url"] = nats.url().into();
        }
        config
    }

    pub fn serve(&mut self) {
        if let Some(nats) = &mut self.nats {
            return nats.run();
        }
        self.guard = Some(
            self.host
                .serve(NAMESPACE, "eventbus-default-js-0", None)
                .unwrap(),
        );
    }

    /// Ends the bus pod; the data stay.
    pub fn stop(&mut self) {
        if let Some(nats) = &mut self.nats {
            nats.kill();
        }
        self.guard = None;
    }

    pub async fn bus(&self) -> Arc<dyn Bus> {
        let Some(nats) = &self.nats else {
            return self.host.bus();
        };
        let mut connection = self.connection.lock().await;
        if let Some(bus) = connection.as_ref()
            && !bus.closed().is_cancelled()
        {
            return Arc::clone(bus);
        }
        let (url, access) = (nats.url(), Access::default());
        let made = JetStreamConnector.connect(&url, &access).await.unwrap();
        Arc::clone(connection.insert(made))
    }

    /// Messages of the stream, empty while there is none.
    pub async fn messages(&self) -> Vec<eventlab::embedded::bus::StoredMessage> {
        if self.nats.as_ref().is_some_and(|nats| !nats.runs()) {
            return Vec::new();
        }
        self.bus()
            .await
            .messages("default", 0, 10_000)
            .await
            .unwrap_or_default()
    }
}

/// The data of a CloudEvent on the bus.
pub fn event_data(payload: &[u8]) -> Vec<u8> {
    let event: Value = serde_json::from_slice(payload).unwrap();
    STANDARD
        .decode(event["data_base64"].as_str().unwrap())
        .unwrap()
}

/// What a pod writes, line by line.
#[derive(Default)]
pub struct Lines(Mutex<Vec<String>>);

impl LogSink for Lines {
    fn line(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }
}

impl Lines {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Binds ports of the system's choice and remembers them.
#[derive(Default)]
struct Ports(Mutex<BTreeMap<u16, SocketAddr>>);

impl PortBinder for Ports {
    fn bind(&self, port: u16) -> BoxFuture<'_, std::io::Result<TcpListener>> {
        Box::pin(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            self.0.lock().unwrap().insert(port, listener.local_addr()?);
            Ok(listener)
        })
    }
}

struct Files(BTreeMap<String, Vec<u8>>);

impl ContainerFiles for Files {
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, std::io::Result<Vec<u8>>> {
        let file = self.0.get(path).cloned();
        Box::pin(
            async move { file.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound)) },
        )
    }
}

/// What a pod is made of.
pub struct PodSpec {
    pub service: Service,
    pub namespace: String,
    pub name: String,
    pub env: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub files: BTreeMap<String, Vec<u8>>,
    /// Makes the client inside the pod's runtime.
    pub client: Box<dyn FnOnce() -> kube::Client + Send>,
    pub connector: BusConnector,
    pub siblings: BTreeMap<String, watch::Receiver<Option<Exit>>>,
}

impl PodSpec {
    pub fn new(service: Service, name: &str, bus: &TestBus) -> PodSpec {
        PodSpec {
            service,
            namespace: NAMESPACE.to_owned(),
            name: name.to_owned(),
            env: BTreeMap::from([
                ("POD_NAME".to_owned(), name.to_owned()),
                (
                    "EVENTBUS_SUBJECT".to_owned(),
                    format!("eventbus-{NAMESPACE}"),
                ),
                ("EVENTBUS_CONFIG".to_owned(), encode(&bus.config())),
                ("LOG_LEVEL".to_owned(), "debug".to_owned()),
            ]),
            annotations: BTreeMap::new(),
            files: BTreeMap::new(),
            client: Box::new(no_api),
            connector: BusConnector(Arc::new(LocalConnector(Arc::clone(&bus.host)))),
            siblings: BTreeMap::new(),
        }
    }

    pub fn env(mut self, name: &str, value: &str) -> PodSpec {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub fn client(mut self, client: impl FnOnce() -> kube::Client + Send + 'static) -> PodSpec {
        self.client = Box::new(client);
        self
    }

    pub fn object(self, variable: &str, object: &Value) -> PodSpec {
        self.env(variable, &encode(object))
    }

    pub fn start(self) -> Pod {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (log, ports) = (Arc::new(Lines::default()), Arc::new(Ports::default()));
        let (terminate, termination) = (CancellationToken::new(), TerminationMessage::default());
        let (exited, exit) = watch::channel(None);
        let parts = (
            Arc::clone(&log),
            Arc::clone(&ports),
            terminate.clone(),
            termination.clone(),
            self.name.clone(),
        );
        runtime.spawn(async move {
            let (log, ports, terminate, termination, name) = parts;
            let context = ServiceContext {
                pod: PodIdentity {
                    namespace: self.namespace,
                    name,
                    ..PodIdentity::default()
                },
                args: Vec::new(),
                env: self.env,
                annotations: self.annotations,
                client: (self.client)(),
                log,
                bus: self.connector,
                ports,
                files: Arc::new(Files(self.files)),
                termination,
                terminate,
                siblings: self.siblings,
            };
            let code = (self.service)(context).await;
            let _ = exited.send(Some(code));
        });
        Pod {
            log,
            ports,
            terminate,
            termination,
            exit,
            runtime: Some(runtime),
        }
    }
}

/// A running pod; dropping it kills it.
pub struct Pod {
    pub log: Arc<Lines>,
    ports: Arc<Ports>,
    terminate: CancellationToken,
    pub termination: TerminationMessage,
    exit: watch::Receiver<Option<i32>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Pod {
    /// Ends it at once: its tasks are dropped where they stand.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// SIGTERM, then waits for the exit code.
    pub async fn end(&mut self) -> i32 {
        self.terminate.cancel();
        let code = self.exit().await;
        self.kill();
        code
    }

    pub async fn exit(&self) -> i32 {
        let mut exit = self.exit.clone();
        let ended = exit.wait_for(Option::is_some);
        let code = *tokio::time::timeout(GUARD, ended)
            .await
            .expect("it ends")
            .unwrap();
        code.unwrap()
    }

    /// The real socket of a port, once it is bound.
    pub async fn address(&self, port: u16) -> SocketAddr {
        let look = || self.ports.0.lock().unwrap().get(&port).copied();
        until(&format!("port {port}"), || async { look().is_some() }).await;
        look().unwrap()
    }

    /// Log lines as JSON.
    pub fn lines(&self) -> Vec<Value> {
        self.log
            .all()
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Lines whose message is exactly this.
    pub fn said(&self, message: &str) -> Vec<Value> {
        self.lines()
            .into_iter()
            .filter(|line| line["msg"] == message)
            .collect()
    }

    /// Waits for the first line whose message starts so.
    pub async fn waits_for(&self, prefix: &str) -> Value {
        let starts = |line: &Value| {
            line["msg"]
                .as_str()
                .is_some_and(|text| text.starts_with(prefix))
        };
        let look = || self.lines().into_iter().find(starts);
        let wait = async {
            while look().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(GUARD, wait).await.is_err() {
            panic!(
                "no line starts with {prefix:?} in\n{}",
                self.log.all().join("\n")
            );
        }
        look().unwrap()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("log of the pod:\n{}", self.log.all().join("\n"));
        }
        self.kill();
    }
}

pub fn encode(object: &Value) -> String {
    STANDARD.encode(object.to_string())
}

fn bus_config() -> Value {
    let url = format!("nats://eventbus-default-js-svc.{NAMESPACE}.svc:4222");
    let stream = "maxMsgs: 50000\nmaxAge: 168h\nreplicas: 1\nduplicates: 300s\n";
    json!({"jetstream": {"url": url, "streamConfig": stream}})
}

/// For services that never speak to the API.
fn no_api() -> kube::Client {
    let refuse = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other(
            "there is no API in this test",
        ))
    });
    kube::Client::new(refuse, NAMESPACE)
}
