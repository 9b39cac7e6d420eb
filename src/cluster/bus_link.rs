//! The connection to the bus of a real cluster: found through the EventBus, opened through a local address that
//! forwards, kept and made anew when it breaks.
//!
//! What speaks on the client port is told by its first words: a NATS server greets, eventlab's own bus waits.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use kube::{Api, Client};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

use super::forward::{Forwarder, Target};
use super::manifest::text;
use super::{NoBus, told};
use crate::embedded::bus::jetstream::JetStream;
use crate::embedded::bus::remote::RemoteBus;
use crate::embedded::bus::{Access, Bus, Login};
use crate::kinds;

const CLIENT_PORT: u16 = 4222;
/// Between two tries.
const PAUSE: Duration = Duration::from_secs(2);
/// A NATS server greets at once; through a port-forward it may take a while.
const GREETING: Duration = Duration::from_secs(3);

/// What is known of the connection.
type State = Arc<Mutex<Result<Arc<dyn Bus>, NoBus>>>;

/// Keeps connecting until it is dropped.
pub(super) struct BusLink {
    state: State,
    cancel: CancellationToken,
}

impl Drop for BusLink {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl BusLink {
    /// The connection, or why there is none.
    pub(super) fn state(&self) -> Result<Arc<dyn Bus>, NoBus> {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Starts connecting to an EventBus of a namespace.
pub(super) fn start(
    client: Client,
    forwarder: Forwarder,
    namespace: &str,
    event_bus: &str,
) -> BusLink {
    let state: State = Arc::new(Mutex::new(Err(NoBus::NotNow(
        "connecting to the bus".to_owned(),
    ))));
    let cancel = CancellationToken::new();
    let link = Link {
        client,
        forwarder,
        namespace: namespace.to_owned(),
        event_bus: event_bus.to_owned(),
    };
    let (shared, ended) = (Arc::clone(&state), cancel.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = ended.cancelled() => {}
            () = link.keep(&shared) => {}
        }
    });
    BusLink { state, cancel }
}

struct Link {
    client: Client,
    forwarder: Forwarder,
    namespace: String,
    event_bus: String,
}

impl Link {
    async fn keep(&self, state: &State) {
        let set = |value| *state.lock().unwrap_or_else(PoisonError::into_inner) = value;
        loop {
            match self.connect().await {
                Ok(bus) => {
                    let closed = bus.closed();
                    set(Ok(bus));
                    closed.cancelled().await;
                    set(Err(NoBus::NotNow("the connection was lost".to_owned())));
                }
                Err(error) => {
                    tracing::info!(%error, namespace = self.namespace, "no connection to the bus");
                    set(Err(error));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn connect(&self) -> Result<Arc<dyn Bus>, NoBus> {
        let bus = self.event_bus().await?;
        let place = Place::of(&bus)?;
        let credentials = match &place.secret {
            Some((name, key)) => Some(self.credentials(name, key).await?),
            None => None,
        };
        let (service, namespace, port) = match place.end {
            End::Service {
                service,
                namespace,
                port,
            } => (service, namespace, port),
            End::Outside(url) => return nats(&url, credentials.unwrap_or_default()).await,
        };
        let target = Target {
            namespace: namespace.unwrap_or_else(|| self.namespace.clone()),
            service,
            port,
        };
        // A connection that fails at once is told with its reason; a local address would only close.
        let probe = self
            .forwarder
            .connect(&target)
            .await
            .map_err(|error| no_forward(&error.0))?;
        let greets = greets(probe.stream).await;
        let address = self
            .forwarder
            .local_address(&target)
            .ok_or_else(|| NoBus::NotNow("no local port is free".to_owned()))?;
        open(address, greets, credentials.unwrap_or_default()).await
    }

    async fn event_bus(&self) -> Result<Value, NoBus> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &kinds::event_bus());
        let bus = api
            .get_opt(&self.event_bus)
            .await
            .map_err(|error| denied("read the EventBus", &error))?
            .ok_or_else(|| NoBus::NotNow(format!("there is no EventBus `{}`", self.event_bus)))?;
        serde_json::to_value(&bus).map_err(|error| NoBus::NotNow(error.to_string()))
    }

    async fn credentials(&self, name: &str, key: &str) -> Result<Credentials, NoBus> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = api
            .get_opt(name)
            .await
            .map_err(|error| denied(&format!("read Secret {name}"), &error))?
            .ok_or_else(|| NoBus::NotNow(format!("Secret {name} is not there yet")))?;
        secret
            .data
            .as_ref()
            .and_then(|data| Credentials::read(&data.get(key)?.0))
            .ok_or_else(|| NoBus::NotNow(format!("Secret {name} has no credentials under {key}")))
    }
}

/// A user of the bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Credentials {
    pub user: String,
    pub password: String,
}

impl Credentials {
    /// Argo's `client-auth`: YAML lines `username: …` and `password: …`.
    fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let fields: std::collections::BTreeMap<String, String> = serde_yaml::from_str(text).ok()?;
        Some(Self {
            user: fields.get("username").cloned().unwrap_or_default(),
            password: fields.get("password")?.clone(),
        })
    }
}

/// Where an EventBus's `status.config` says that the bus is.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    end: End,
    /// Name and key of the Secret with the clients' user.
    secret: Option<(String, String)>,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Service {
        service: String,
        namespace: Option<String>,
        port: u16,
    },
    /// Not of the cluster, as far as its name says; tried from here.
    Outside(String),
}

impl Place {
    fn of(bus: &Value) -> Result<Self, NoBus> {
        let config = bus.pointer("/status/config").unwrap_or(&Value::Null);
        let Some(jetstream) = config.get("jetstream").filter(|value| value.is_object()) else {
            return Err(match config.as_object().and_then(|map| map.keys().next()) {
                Some(kind) => NoBus::ByLogAlone(format!("the EventBus is of type {kind}")),
                None => NoBus::NotNow("the EventBus is not configured yet".to_owned()),
            });
        };
        let url = text(jetstream, "/url");
        let host = url.split_once("://").map_or(url, |(_, rest)| rest);
        let host = host.split([',', '/']).next().unwrap_or_default();
        let (host, port) = host.rsplit_once(':').unwrap_or((host, "4222"));
        let mut labels = host.split('.');
        let (service, namespace, kind) = (labels.next(), labels.next(), labels.next());
        let secret = jetstream.get("accessSecret").filter(|one| !one.is_null());
        let end = match (service, namespace, kind) {
            (None | Some(""), ..) => {
                return Err(NoBus::ByLogAlone(
                    "the EventBus names no address".to_owned(),
                ));
            }
            (Some(service), namespace, None | Some("svc")) => End::Service {
                service: service.to_owned(),
                namespace: namespace.map(str::to_owned),
                port: port.parse().unwrap_or(CLIENT_PORT),
            },
            _ => End::Outside(url.to_owned()),
        };
        Ok(Self {
            end,
            secret: secret.map(|one| (text(one, "/name").to_owned(), text(one, "/key").to_owned())),
        })
    }
}

async fn greets(mut stream: Box<dyn super::Stream>) -> bool {
    let mut first = [0; 4];
    let read = stream.read_exact(&mut first);
    matches!(tokio::time::timeout(GREETING, read).await, Ok(Ok(_)) if &first == b"INFO")
}

async fn open(
    address: SocketAddr,
    greets: bool,
    credentials: Credentials,
) -> Result<Arc<dyn Bus>, NoBus> {
    if greets {
        return nats(&format!("nats://{address}"), credentials).await;
    }
    let bus = RemoteBus::connect(&format!("http://{address}"), &credentials.password)
        .await
        .map_err(|error| NoBus::NotNow(error.to_string()))?;
    Ok(bus)
}

/// TLS as the server wants it, with any certificate: Argo's servers sign their own, and its clients take it.
async fn nats(url: &str, credentials: Credentials) -> Result<Arc<dyn Bus>, NoBus> {
    let login = match (credentials.user.is_empty(), credentials.password.is_empty()) {
        (_, true) => Login::Nobody,
        (true, false) => Login::Token(credentials.password),
        (false, false) => Login::Password {
            user: credentials.user,
            password: credentials.password,
        },
    };
    let access = Access { login, tls: None };
    let connection = JetStream::connect(url, &access)
        .await
        .map_err(|error| NoBus::NotNow(error.to_string()))?;
    connection.probe().await.map_err(|error| {
        NoBus::NotNow(format!(
            "the NATS server has no JetStream for eventlab: {error}"
        ))
    })?;
    Ok(Arc::new(connection))
}

fn denied(action: &str, error: &kube::Error) -> NoBus {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            NoBus::ByLogAlone(format!("you may not {action} ({})", status.message))
        }
        error => NoBus::NotNow(format!("cannot {action}: {}", told(error))),
    }
}

fn no_forward(reason: &str) -> NoBus {
    if reason.contains("forbidden") || reason.contains("403") {
        NoBus::ByLogAlone(format!("the bus cannot be reached: {reason}"))
    } else {
        NoBus::NotNow(format!("the bus cannot be reached: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_place_of_the_bus_is_read_as_argo_writes_it() {
        let bus = json!({"status": {"config": {"jetstream": {"url": "nats://eventbus-default-js-svc.shop.svc:4222",
            "accessSecret": {"name": "eventbus-default-js-client-auth", "key": "client-auth"}}}}});
        let place = Place::of(&bus).unwrap();
        assert_eq!(
            place,
            Place {
                end: End::Service {
                    service: "eventbus-default-js-svc".into(),
                    namespace: Some("shop".into()),
                    port: 4222,
                },
                secret: Some((
                    "eventbus-default-js-client-auth".into(),
                    "client-auth".into()
                )),
            }
        );
        for (config, by_log) in [
            (json!({}), false),
            (Value::Null, false),
            (json!({"nats": {"url": "x"}}), true),
            (json!({"jetstream": {"url": ""}}), true),
        ] {
            let error = Place::of(&json!({"status": {"config": config}})).unwrap_err();
            assert_eq!(
                matches!(error, NoBus::ByLogAlone(_)),
                by_log,
                "{config} {error}"
            );
        }
    }

    #[test]
    fn a_server_of_somebody_else_is_tried_from_here() {
        let bus =
            json!({"status": {"config": {"jetstream": {"url": "tls://nats.example.com:4222"}}}});
        let place = Place::of(&bus).unwrap();
        assert_eq!(
            place.end,
            End::Outside("tls://nats.example.com:4222".into())
        );
    }

    #[test]
    fn credentials_are_read_as_argo_writes_them() {
        assert_eq!(
            Credentials::read(b"username: u\npassword: p w"),
            Some(Credentials {
                user: "u".into(),
                password: "p w".into()
            })
        );
        for bad in [&b"username: u"[..], b"\xff", b"- 1", b""] {
            assert_eq!(Credentials::read(bad), None);
        }
    }
}
