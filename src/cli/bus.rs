//! `--bus nats://…`: a real NATS JetStream as the bus of the embedded cluster, through an EventBus with `jetstreamExotic`.
//!
//! The labs stay as they are; only the manifest of the EventBus is another one. A session keeps the bus it began with.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::exit::Failure;
use super::output::note;
use crate::embedded::bus::jetstream::JetStream;
use crate::embedded::bus::{Access, Bus as _, BusAddress, BusTls, Login};
use crate::lab::Catalog;
use crate::words::counted;

/// The manifest that another one stands for.
pub const MANIFEST: &str = "base/eventbus.yaml";
/// Name of a session over a real bus when none is given.
pub const SESSION: &str = "nats";
/// What a session remembers of its bus; never a password.
const FILE: &str = "bus.json";
/// Secret of the lab's namespace with login and certificates.
const SECRET: &str = "bus-access";
/// The stream of Argo Events.
const STREAM: &str = "default";
/// A certificate file may be this long.
const FILE_LIMIT: u64 = 1 << 20;
/// Limits of Argo's own JetStream buses, of which one server cannot keep three copies.
const STREAM_CONFIG: &str =
    "maxMsgs: 50000\nmaxAge: 168h\nmaxBytes: -1\nreplicas: 1\nduplicates: 300s\n";

/// Options that name a real bus.
#[derive(Clone, Debug, Default, Args)]
pub struct BusArgs {
    /// A NATS server with JetStream as the bus: nats://[USER:PASSWORD@]HOST[:PORT] or tls://…
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "EVENTLAB_BUS",
        hide_env_values = true
    )]
    pub bus: Option<String>,
    /// Authorities (PEM) to check the bus's certificate with; without it any certificate is taken, as Argo Events does
    #[arg(long, global = true, value_name = "FILE", requires = "bus")]
    pub bus_ca: Option<PathBuf>,
    /// Certificate (PEM) to show to the bus
    #[arg(long, global = true, value_name = "FILE", requires = "bus_key")]
    pub bus_cert: Option<PathBuf>,
    /// Key (PEM) of that certificate
    #[arg(long, global = true, value_name = "FILE", requires = "bus_cert")]
    pub bus_key: Option<PathBuf>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Remembered {
    url: String,
    /// Tells this session's dependencies from those of other sessions on that bus.
    tag: String,
}

impl BusArgs {
    /// The URL that was given; an empty variable is as good as none.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.bus.as_deref().filter(|url| !url.is_empty())
    }

    /// The address and how to enter it; `None` where the bus is the cluster's own.
    fn outside(&self) -> Result<Option<(BusAddress, Access)>, Failure> {
        let Some(text) = self.url() else {
            return Ok(None);
        };
        let address =
            BusAddress::parse(text).map_err(|error| Failure::usage(format!("--bus: {error}")))?;
        if let Login::Token(_) = address.login {
            return Err(Failure::usage(
                "--bus: Argo Events logs in to JetStream with user and password only; write nats://USER:PASSWORD@HOST:4222",
            ));
        }
        let client = match (&self.bus_cert, &self.bus_key) {
            (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
            _ => None,
        };
        let authorities = self.bus_ca.as_deref().map(read).transpose()?;
        let tls = (authorities.is_some() || client.is_some()).then(|| BusTls {
            unverified: authorities.is_none(),
            authorities,
            client,
        });
        let login = address.login.clone();
        Ok(Some((address, Access { login, tls })))
    }

    /// The manifest of the EventBus over this bus, and of its Secret; `None` where the bus is the cluster's own.
    ///
    /// # Errors
    /// A URL or a file that cannot be used.
    pub fn manifest(&self) -> Result<Option<String>, Failure> {
        let Some((address, access)) = self.outside()? else {
            return Ok(None);
        };
        let (secret, exotic) = objects(&address.url, &access);
        let mut text = String::from(
            "# The bus is a NATS server outside the cluster (--bus); nothing is deployed for it.\n",
        );
        if let Some(secret) = secret {
            text.push_str(&yaml(&secret)?);
            text.push_str("---\n");
        }
        text.push_str(&yaml(&json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "EventBus",
            "metadata": {"name": "default"},
            "spec": {"jetstreamExotic": exotic},
        }))?);
        Ok(Some(text))
    }

    /// Checks that the labs about to be played would use the bus that was asked for: nothing that is read of another one
    /// proves anything about it.
    ///
    /// # Errors
    /// They would not (a defect of this program), or as [`BusArgs::manifest`].
    pub fn is_in(&self, catalog: &Catalog) -> Result<(), Failure> {
        let (Some(wanted), Some((address, _))) = (self.manifest()?, self.outside()?) else {
            return Ok(());
        };
        match catalog.manifest(MANIFEST) {
            Ok(text) if text == wanted => Ok(()),
            _ => Err(Failure::internal(format!(
                "the labs would not use the bus {}, so nothing was started",
                address.url
            ))),
        }
    }

    /// Looks at the bus before anything starts, says on stderr what is worth knowing, and binds the session to it.
    ///
    /// # Errors
    /// The bus does not answer; the session belongs to another one.
    pub async fn prepare(&self, folder: &Path) -> Result<(), Failure> {
        let outside = self.outside()?;
        let url = outside.as_ref().map(|(address, _)| address.url.as_str());
        let known = remembered(folder);
        if folder.join("checkpoint.json").exists() || known.is_some() {
            same_bus(folder, known.as_ref(), url)?;
        }
        let Some((address, access)) = outside else {
            return Ok(());
        };
        look(&address, &access).await?;
        if known.is_none() {
            remember(folder, &address.url)?;
        }
        Ok(())
    }
}

/// The tag of a session over a real bus.
#[must_use]
pub fn tag(folder: &Path) -> Option<String> {
    remembered(folder).map(|known| known.tag)
}

fn same_bus(folder: &Path, known: Option<&Remembered>, url: Option<&str>) -> Result<(), Failure> {
    let known = known.map(|known| known.url.as_str());
    if known == url {
        return Ok(());
    }
    let name = |bus: Option<&str>| {
        bus.map_or("the embedded bus".to_owned(), |url| {
            format!("the bus {url}")
        })
    };
    let again = known.map_or("leave --bus out".to_owned(), |url| {
        format!("give --bus {url}")
    });
    Err(Failure::usage(format!(
        "the session in {} was begun with {}, not with {}: {again}, or name another session with --session",
        folder.display(),
        name(known),
        name(url),
    )))
}

/// Connects once and asks for JetStream.
async fn look(address: &BusAddress, access: &Access) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::environment(format!(
            "the bus {} cannot be used: {error}; is it a nats-server with JetStream, does it offer TLS where the address says tls://, and is the login right?",
            address.url
        ))
    };
    let bus = JetStream::connect(&address.url, access)
        .await
        .map_err(|error| failed(&error))?;
    bus.probe().await.map_err(|error| failed(&error))?;
    let server = bus.server();
    note!(
        "eventlab: the bus is nats-server {} at {}",
        server.version,
        address.url
    );
    if !server.tls {
        note!(
            "eventlab: it offers no TLS; eventlab does without, Argo Events up to v1.9.11 does not (`nats: secure connection not available`)"
        );
    } else if access.tls.as_ref().is_none_or(|tls| tls.unverified) {
        note!(
            "eventlab: its certificate is not checked, as by Argo Events without `tls`; --bus-ca FILE checks it"
        );
    }
    if let Ok(stream) = bus.stream_info(STREAM).await
        && stream.last_sequence > 0
    {
        note!(
            "eventlab: its stream `{STREAM}` has {} of former sessions or other programs; Sensors of the same name that run elsewhere on it would take this session's events",
            counted(stream.messages, "message")
        );
    }
    Ok(())
}

/// Secret (where there is something secret) and `spec.jetstreamExotic`.
fn objects(url: &str, access: &Access) -> (Option<Value>, Value) {
    let mut data = serde_json::Map::new();
    let mut exotic = json!({"url": url});
    if let Login::Password { user, password } = &access.login {
        let lines = yaml(&json!({"username": user, "password": password})).unwrap_or_default();
        data.insert("client-auth".to_owned(), lines.into());
        exotic["accessSecret"] = json!({"name": SECRET, "key": "client-auth"});
    }
    if let Some(tls) = &access.tls {
        let mut named = serde_json::Map::new();
        let mut add = |field: &str, key: &str, pem: &[u8]| {
            data.insert(key.to_owned(), String::from_utf8_lossy(pem).into());
            named.insert(field.to_owned(), json!({"name": SECRET, "key": key}));
        };
        if let Some(pem) = &tls.authorities {
            add("caCertSecret", "ca.crt", pem);
        }
        if let Some((certificate, key)) = &tls.client {
            add("clientCertSecret", "tls.crt", certificate);
            add("clientKeySecret", "tls.key", key);
        }
        if tls.unverified {
            named.insert("insecureSkipVerify".to_owned(), true.into());
        }
        exotic["tls"] = named.into();
    }
    exotic["streamConfig"] = STREAM_CONFIG.into();
    let secret = (!data.is_empty()).then(|| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": data})
    });
    (secret, exotic)
}

fn yaml(value: &Value) -> Result<String, Failure> {
    serde_yaml::to_string(value).map_err(|error| {
        Failure::internal(format!("cannot write the EventBus's manifest: {error}"))
    })
}

fn read(path: impl AsRef<Path>) -> Result<Vec<u8>, Failure> {
    let path = path.as_ref();
    let failed = |why: String| Failure::usage(format!("cannot read {}: {why}", path.display()));
    let length = std::fs::metadata(path)
        .map_err(|error| failed(error.to_string()))?
        .len();
    if length > FILE_LIMIT {
        return Err(failed(format!("it is longer than {FILE_LIMIT} bytes")));
    }
    std::fs::read(path).map_err(|error| failed(error.to_string()))
}

fn remembered(folder: &Path) -> Option<Remembered> {
    let text = std::fs::read(folder.join(FILE)).ok()?;
    serde_json::from_slice(&text).ok()
}

fn remember(folder: &Path, url: &str) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::environment(format!(
            "cannot write {}: {error}",
            folder.join(FILE).display()
        ))
    };
    let mut tag = uuid::Uuid::new_v4().simple().to_string();
    tag.truncate(4);
    let record = Remembered {
        url: url.to_owned(),
        tag,
    };
    let text = serde_json::to_string(&record).map_err(|error| failed(&error))?;
    super::start::private_folder(folder).map_err(|error| failed(&error))?;
    super::start::write_private(&folder.join(FILE), &text).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Manifest;

    fn args(bus: &str) -> BusArgs {
        BusArgs {
            bus: Some(bus.to_owned()),
            ..BusArgs::default()
        }
    }

    #[test]
    fn the_manifest_names_the_server_and_keeps_the_password_in_a_secret() {
        let text = args("nats://js:p%3A%22w@127.0.0.1:4333")
            .manifest()
            .unwrap()
            .unwrap();
        let objects = Manifest::read(MANIFEST, &text).unwrap();
        assert_eq!(objects.len(), 2, "{text}");
        let lines = objects[0].object["stringData"]["client-auth"]
            .as_str()
            .unwrap();
        let login: std::collections::BTreeMap<String, String> =
            serde_yaml::from_str(lines).unwrap();
        assert_eq!(
            (login["username"].as_str(), login["password"].as_str()),
            ("js", "p:\"w")
        );
        let exotic = &objects[1].object["spec"]["jetstreamExotic"];
        assert_eq!(exotic["url"], "nats://127.0.0.1:4333");
        assert_eq!(
            exotic["accessSecret"]["name"],
            objects[0].object["metadata"]["name"]
        );
        let plain = args("nats://127.0.0.1").manifest().unwrap().unwrap();
        assert_eq!(
            Manifest::read(MANIFEST, &plain).unwrap().len(),
            1,
            "{plain}"
        );
        assert_eq!(BusArgs::default().manifest().unwrap(), None);
    }

    #[test]
    fn what_argo_cannot_do_is_refused() {
        for bad in ["nats://token@bus", "bus", "http://bus:4222"] {
            assert!(args(bad).manifest().is_err(), "{bad}");
        }
        let missing = BusArgs {
            bus_ca: Some("/nonexistent/ca.pem".into()),
            ..args("tls://bus")
        };
        assert!(missing.manifest().is_err());
    }

    #[tokio::test]
    async fn a_session_stays_with_its_bus() {
        let folder = tempfile::tempdir().unwrap();
        remember(folder.path(), "nats://127.0.0.1:1").unwrap();
        assert_eq!(tag(folder.path()).unwrap().len(), 4);
        let text = BusArgs::default()
            .prepare(folder.path())
            .await
            .unwrap_err()
            .message;
        assert!(text.contains("give --bus nats://127.0.0.1:1"), "{text}");
        let text = args("nats://127.0.0.1:2")
            .prepare(folder.path())
            .await
            .unwrap_err()
            .message;
        assert!(
            text.contains("begun with the bus nats://127.0.0.1:1"),
            "{text}"
        );
    }
}
