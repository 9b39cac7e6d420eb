//! Where the lab's bus is: what the EventBus says, read anew now and then, and one connection to it that is renewed.

use std::time::Duration;

use kube::Api;
use kube::api::DynamicObject;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::manifest::text;
use super::{Cluster, LookError};
use crate::embedded::bus::jetstream::JetStream;
use crate::embedded::bus::{Access, Bus, BusTls, Login, is_in_cluster};
use crate::kinds;

/// On a cluster that is asked over a network, what the EventBus says is taken as it was for so long. The embedded one is
/// asked each time: its pods come back on another bus within milliseconds.
const FRESH: Duration = Duration::from_secs(2);
/// A server that could not be reached is tried again after so long.
const PAUSE: Duration = Duration::from_millis(250);

/// The connection that looks at the bus, shared by all who look.
#[derive(Default)]
pub(super) struct BusPlace(Mutex<State>);

#[derive(Default)]
struct State {
    known: Option<Known>,
    /// Why the last try failed, and when.
    failed: Option<(String, Instant)>,
}

struct Known {
    url: String,
    access: Access,
    bus: Arc<dyn Bus>,
    read_at: Instant,
}

impl BusPlace {
    /// The bus of the namespace.
    pub(super) async fn find(&self, cluster: &Cluster) -> Result<Arc<dyn Bus>, LookError> {
        let mut state = self.0.lock().await;
        let fresh = if cluster.is_embedded() {
            Duration::ZERO
        } else {
            FRESH
        };
        if let Some(known) = &state.known
            && known.read_at.elapsed() < fresh
            && !known.bus.closed().is_cancelled()
        {
            return Ok(Arc::clone(&known.bus));
        }
        if let Some((why, since)) = &state.failed
            && since.elapsed() < PAUSE
        {
            return Err(LookError::Bus(why.clone()));
        }
        match look(cluster, state.known.take()).await {
            Ok(known) => {
                let bus = Arc::clone(&known.bus);
                *state = State {
                    known: Some(known),
                    failed: None,
                };
                Ok(bus)
            }
            Err(error) => {
                let why = match &error {
                    LookError::Bus(why) => why.clone(),
                    other => other.to_string(),
                };
                state.failed = Some((why, Instant::now()));
                Err(error)
            }
        }
    }
}

/// Reads the EventBus; goes on with the connection that is there when it still is the right one.
async fn look(cluster: &Cluster, before: Option<Known>) -> Result<Known, LookError> {
    let api: Api<DynamicObject> = Api::namespaced_with(
        cluster.client().clone(),
        cluster.namespace(),
        &kinds::event_bus(),
    );
    let name = cluster.event_bus();
    let object = api
        .get_opt(name)
        .await
        .map_err(LookError::api("read", format!("EventBus {name}")))?;
    // Without an address nothing is known: an answer of some other bus would be a false one.
    let object = object.ok_or_else(|| LookError::Bus(format!("there is no EventBus `{name}`")))?;
    let config = object
        .data
        .pointer("/status/config/jetstream")
        .cloned()
        .unwrap_or_default();
    let url = text(&config, "/url").to_owned();
    let read_at = Instant::now();
    if url.is_empty() {
        let why = format!("the EventBus `{name}` has no address yet");
        return Err(LookError::Bus(why));
    }
    if is_in_cluster(&url) {
        let bus = cluster.host().bus(cluster.namespace()).ok_or_else(|| {
            LookError::Bus("the EventBus of the namespace is not running".to_owned())
        })?;
        let access = Access::default();
        return Ok(Known {
            url,
            access,
            bus,
            read_at,
        });
    }
    let access = access(cluster, &config).await?;
    if let Some(before) = before
        && (&before.url, &before.access) == (&url, &access)
        && !before.bus.closed().is_cancelled()
    {
        return Ok(Known { read_at, ..before });
    }
    let connected = JetStream::connect(&url, &access).await;
    let bus = connected.map_err(|error| LookError::Bus(format!("{url}: {error}")))?;
    Ok(Known {
        url,
        access,
        bus: Arc::new(bus),
        read_at,
    })
}

/// Login and TLS as the EventBus's configuration names them, from their Secrets.
async fn access(cluster: &Cluster, config: &Value) -> Result<Access, LookError> {
    let login = match secret(cluster, &config["accessSecret"]).await? {
        None => Login::Nobody,
        Some(bytes) => login_of(&bytes).ok_or_else(|| {
            LookError::Bus(
                "the accessSecret of the EventBus has no lines `username:` and `password:`"
                    .to_owned(),
            )
        })?,
    };
    let tls = &config["tls"];
    if !tls.is_object() {
        return Ok(Access { login, tls: None });
    }
    let authorities = secret(cluster, &tls["caCertSecret"]).await?;
    let certificate = secret(cluster, &tls["clientCertSecret"]).await?;
    let key = secret(cluster, &tls["clientKeySecret"]).await?;
    let tls = BusTls {
        authorities,
        client: certificate.zip(key),
        unverified: tls["insecureSkipVerify"].as_bool().unwrap_or(false),
    };
    Ok(Access {
        login,
        tls: Some(tls),
    })
}

fn login_of(bytes: &[u8]) -> Option<Login> {
    let lines: std::collections::BTreeMap<String, String> =
        serde_yaml::from_str(std::str::from_utf8(bytes).ok()?).ok()?;
    Some(Login::Password {
        user: lines.get("username").cloned().unwrap_or_default(),
        password: lines.get("password")?.clone(),
    })
}

/// The value that `{name, key}` names; `None` where nothing is named.
async fn secret(cluster: &Cluster, named: &Value) -> Result<Option<Vec<u8>>, LookError> {
    let (name, key) = (text(named, "/name"), text(named, "/key"));
    if name.is_empty() || key.is_empty() {
        return Ok(None);
    }
    let api: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(cluster.client().clone(), cluster.namespace());
    let secret = api
        .get(name)
        .await
        .map_err(LookError::api("read", format!("Secret {name}")))?;
    match secret.data.unwrap_or_default().remove(key) {
        Some(value) => Ok(Some(value.0)),
        None => Err(LookError::Bus(format!(
            "Secret {name}, which the EventBus names, has no key {key}"
        ))),
    }
}
