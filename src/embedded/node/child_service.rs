//! A service of Argo's images as a child process (`eventlab argo sensor-service`), where a real `kill -9` is wanted.
//!
//! The context is built from what the node put into the environment; the service itself is the same function that runs
//! in process otherwise.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use futures::future::BoxFuture;
use kube::Client;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::child::{CREDENTIALS_VARIABLE, HOSTS_VARIABLE, MOUNTS_VARIABLE, POD_VARIABLE};
use super::process::{
    ContainerFiles, LogSink, PodIdentity, PortBinder, Service, ServiceContext, TerminationMessage,
};
use crate::embedded::bus::jetstream::JetStreamConnector;
use crate::embedded::bus::remote::RemoteConnector;
use crate::embedded::bus::{Access, Bus, BusConnector, BusError, ConnectBus, is_in_cluster};
use crate::kinds::real_port_variable;

/// A mounted file longer than this is not read.
const FILE_LIMIT: u64 = 4 << 20;

/// Why a service cannot run as a child.
#[derive(Debug, thiserror::Error)]
pub enum ChildServiceError {
    #[error("{0} is not set: this command is run by a node, in a pod")]
    Missing(&'static str),
    #[error("{name} cannot be read: {reason}")]
    Malformed { name: &'static str, reason: String },
    #[error("read {path}: {source}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("make a client for the API: {0}")]
    Client(String),
}

#[derive(Deserialize)]
struct Pod {
    namespace: String,
    name: String,
    uid: String,
    container: String,
    instance: u32,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

/// Runs a service with the words of the command line until it ends, and answers its exit code.
///
/// # Errors
/// [`ChildServiceError`] when this process was not started by a node, or what it was given cannot be used.
pub async fn run(service: Service, args: Vec<String>) -> Result<i32, ChildServiceError> {
    let pod: Pod = json(POD_VARIABLE)?;
    let hosts: BTreeMap<String, SocketAddr> = json(HOSTS_VARIABLE)?;
    let mounts: BTreeMap<String, PathBuf> = json(MOUNTS_VARIABLE)?;
    let terminate = CancellationToken::new();
    end_on_signal(terminate.clone());
    let context = ServiceContext {
        client: client().await?,
        pod: PodIdentity {
            namespace: pod.namespace,
            name: pod.name,
            uid: pod.uid,
            container: pod.container,
            instance: pod.instance,
        },
        args,
        env: std::env::vars().collect(),
        annotations: pod.annotations.unwrap_or_default(),
        log: Arc::new(Stdout),
        bus: BusConnector(Arc::new(Hosts(hosts))),
        ports: Arc::new(GivenPorts),
        files: Arc::new(Mounted(mounts)),
        termination: TerminationMessage::default(),
        terminate,
        siblings: BTreeMap::new(),
    };
    Ok(service(context).await)
}

fn variable(name: &'static str) -> Result<String, ChildServiceError> {
    std::env::var(name).map_err(|_| ChildServiceError::Missing(name))
}

fn json<T: serde::de::DeserializeOwned>(name: &'static str) -> Result<T, ChildServiceError> {
    serde_json::from_str(&variable(name)?).map_err(|error| ChildServiceError::Malformed {
        name,
        reason: error.to_string(),
    })
}

/// Speaks to the API as the pod's service account, over TLS like any pod.
async fn client() -> Result<Client, ChildServiceError> {
    crate::embedded::api::tls::init_tls();
    let folder = PathBuf::from(variable(CREDENTIALS_VARIABLE)?);
    let read = async |name: &str| {
        let path = folder.join(name);
        let text = tokio::fs::read_to_string(&path).await;
        text.map_err(|source| ChildServiceError::File { path, source })
    };
    let (host, port) = (
        variable("KUBERNETES_SERVICE_HOST")?,
        variable("KUBERNETES_SERVICE_PORT")?,
    );
    let url = format!("https://{host}:{port}")
        .parse()
        .map_err(|error: http::uri::InvalidUri| ChildServiceError::Client(error.to_string()))?;
    let mut config = kube::Config::new(url);
    config.root_cert = Some(certificates(&read("ca.crt").await?));
    config.auth_info.token = Some(read("token").await?.trim().to_owned().into());
    Client::try_from(config).map_err(|error| ChildServiceError::Client(error.to_string()))
}

/// The DER bytes of each certificate of a PEM text.
fn certificates(pem: &str) -> Vec<Vec<u8>> {
    let blocks = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
    let texts = blocks.filter_map(|block| block.split("-----END CERTIFICATE-----").next());
    texts
        .filter_map(|text| {
            let text: String = text.split_whitespace().collect();
            base64::engine::general_purpose::STANDARD.decode(text).ok()
        })
        .collect()
}

fn end_on_signal(terminate: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    tokio::spawn(async move {
        if let Ok(mut signal) = signal(SignalKind::terminate()) {
            signal.recv().await;
            terminate.cancel();
        }
    });
}

/// The node reads the child's stdout and adds the time.
struct Stdout;

impl LogSink for Stdout {
    fn line(&self, line: &str) {
        use std::io::Write as _;
        // A node that went away takes this process with it.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

/// The bus behind a Service, on its real socket; a NATS server of the outside at its own address.
struct Hosts(BTreeMap<String, SocketAddr>);

impl ConnectBus for Hosts {
    fn connect<'a>(
        &'a self,
        url: &'a str,
        access: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn Bus>, BusError>> {
        Box::pin(async move {
            if !is_in_cluster(url) {
                return JetStreamConnector.connect(url, access).await;
            }
            let name = url.split_once("://").map_or(url, |(_, rest)| rest);
            let Some(address) = self.0.get(name.trim_end_matches('/')) else {
                let text = format!("dial {name}: no such host");
                return Err(BusError::Refused(text));
            };
            let connector = RemoteConnector {
                base: format!("http://{address}"),
            };
            connector.connect(url, access).await
        })
    }
}

/// Binds the real port that the node chose for a container port.
struct GivenPorts;

impl PortBinder for GivenPorts {
    fn bind(&self, port: u16) -> BoxFuture<'_, std::io::Result<TcpListener>> {
        Box::pin(async move {
            let given = std::env::var(real_port_variable(port)).ok();
            let real = given.and_then(|text| text.parse().ok()).unwrap_or(0);
            TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, real)).await
        })
    }
}

/// Files of the container's mounts, by the host folders that the node named.
struct Mounted(BTreeMap<String, PathBuf>);

impl ContainerFiles for Mounted {
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, std::io::Result<Vec<u8>>> {
        Box::pin(async move {
            let absent = || std::io::Error::from(std::io::ErrorKind::NotFound);
            let below = |mount: &str| {
                let rest = path.strip_prefix(mount)?;
                let outside = rest.split('/').any(|part| part == "..");
                (rest.starts_with('/') && !outside).then(|| rest.trim_start_matches('/').to_owned())
            };
            let host = self
                .0
                .iter()
                .rev()
                .find_map(|(mount, folder)| Some(folder.join(below(mount)?)));
            let file = tokio::fs::File::open(host.ok_or_else(absent)?).await?;
            let mut bytes = Vec::new();
            file.take(FILE_LIMIT).read_to_end(&mut bytes).await?;
            Ok(bytes)
        })
    }
}
