//! Where a session lies.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use clap::Args;
use etcetera::BaseStrategy as _;
use sha2::{Digest as _, Sha256};

use super::bus::{self, BusArgs};
use super::exit::Failure;
use crate::cluster::{BusAccess, ContextRequest, RealCluster};
use crate::lab::Catalog;
use crate::runner::sending::WEBHOOK_SERVICE;
use crate::session::Checkpoint;

/// Name of a session that runs on the embedded cluster alone.
const EMBEDDED: &str = "embedded";
/// So much of a context's name is in its session's.
const LONGEST: usize = 50;

/// Options that every command of a session takes.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// Folder of all sessions (default: $XDG_STATE_HOME/eventlab)
    #[arg(long, global = true, value_name = "DIR", env = "EVENTLAB_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// Name of the session (default: that of the context; over a real bus nats; else embedded)
    #[arg(long, global = true, value_name = "NAME", value_parser = session_name)]
    pub session: Option<String>,
    /// Labs of a folder of one's own, over the bundled manifests
    #[arg(long, global = true, value_name = "DIR")]
    pub labs: Option<PathBuf>,
    #[command(flatten)]
    pub real: Real,
    #[command(flatten)]
    pub bus: BusArgs,
}

/// A real cluster instead of the embedded one.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "A real cluster")]
pub struct Real {
    /// A context of the kubeconfig instead of the embedded cluster; the current context is never taken
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// The kubeconfig (default: $KUBECONFIG, else ~/.kube/config)
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The image that runs eventlab in the cluster's pods (default: eventlab:dev)
    #[arg(long, global = true, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Where the webhook can be reached, instead of a port-forward
    #[arg(long, global = true, value_name = "ADDRESS:PORT", value_parser = socket)]
    pub webhook: Option<SocketAddr>,
    /// Do not read the bus: logs and objects decide, and say so
    #[arg(long, global = true)]
    pub log_only: bool,
    /// The context's name once more, where it looks like production
    #[arg(long, global = true, value_name = "NAME")]
    pub yes_really_this_context: Option<String>,
}

impl Real {
    /// The context that was asked for.
    #[must_use]
    pub fn request(&self) -> Option<ContextRequest> {
        self.context.as_ref().map(|name| ContextRequest {
            name: name.clone(),
            kubeconfig: self.kubeconfig.clone(),
            confirmed: self.yes_really_this_context.clone(),
        })
    }

    /// What speaks of a real cluster's kubeconfig or image needs a context: it is never guessed.
    ///
    /// # Errors
    /// Names the option.
    pub fn check(&self) -> Result<(), Failure> {
        let lonely = [
            ("--kubeconfig", self.kubeconfig.is_some()),
            ("--image", self.image.is_some()),
            (
                "--yes-really-this-context",
                self.yes_really_this_context.is_some(),
            ),
        ];
        match lonely.iter().find(|(_, given)| *given) {
            Some((option, _)) if self.context.is_none() => Err(Failure::usage(format!(
                "{option} is for a real cluster: name its context with --context NAME"
            ))),
            _ => Ok(()),
        }
    }

    /// How the cluster is used, by a session with this tag.
    #[must_use]
    pub fn options(&self, tag: Option<String>) -> RealCluster {
        RealCluster {
            image: self.image.clone(),
            bus: if self.log_only {
                BusAccess::LogOnly
            } else {
                BusAccess::Read
            },
            tag,
            addresses: self
                .webhook
                .map(|address| (WEBHOOK_SERVICE.to_owned(), address))
                .into_iter()
                .collect(),
        }
    }
}

/// The session of a context: its name, or as much of it as a file name holds and a mark of the whole, since sessions of two
/// clusters must not be one.
fn name_of(context: &str) -> String {
    let kept = |character: char| {
        let fits = character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
        if fits { character } else { '_' }
    };
    let name: String = context.chars().map(kept).take(LONGEST).collect();
    let name = name.trim_start_matches('.');
    if name == context && ![EMBEDDED, bus::SESSION, ""].contains(&name) {
        return name.to_owned();
    }
    let digest = Sha256::digest(context.as_bytes());
    let mark: String = digest
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{name}-{mark}")
}

/// An address, or a name that leads to one.
fn socket(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let found = text.to_socket_addrs().map(|mut found| found.next());
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err("the name has no address".to_owned()),
        Err(error) => Err(format!(
            "{error}; write it as 127.0.0.1:30080 or localhost:30080"
        )),
    }
}

fn session_name(name: &str) -> Result<String, String> {
    let fits = (1..=60).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && !name.starts_with('.');
    if fits {
        Ok(name.to_owned())
    } else {
        Err("letters, digits, `-`, `_` and `.`, at most 60, not beginning with a dot".to_owned())
    }
}

impl Place {
    /// The session's folder.
    ///
    /// # Errors
    /// There is no home directory to derive it from.
    pub fn folder(&self) -> Result<PathBuf, Failure> {
        let folder = self.base()?.join(self.session_name());
        // Pods have folders of their own to work in, so what they are told is absolute.
        std::path::absolute(&folder).map_err(|error| {
            Failure::environment(format!(
                "the folder {} cannot be found from here: {error}",
                folder.display()
            ))
        })
    }

    /// The session's name: the one asked for, else the context's with what a file name cannot hold replaced.
    #[must_use]
    pub fn session_name(&self) -> String {
        if let Some(name) = &self.session {
            return name.clone();
        }
        let Some(context) = &self.real.context else {
            let name = match self.bus.url() {
                Some(_) => bus::SESSION,
                None => EMBEDDED,
            };
            return name.to_owned();
        };
        name_of(context)
    }

    fn base(&self) -> Result<PathBuf, Failure> {
        if let Some(dir) = &self.state_dir {
            return Ok(dir.clone());
        }
        let base = etcetera::choose_base_strategy().map_err(|error| {
            Failure::environment(format!(
                "no home directory for the session ({error}); name one with --state-dir"
            ))
        })?;
        let state = base.state_dir().unwrap_or_else(|| base.data_dir());
        Ok(state.join("eventlab"))
    }

    /// The labs of a session, with the faults that its seeds drew.
    ///
    /// # Errors
    /// As [`Place::catalog`].
    pub fn catalog_of(&self, checkpoint: Option<&Checkpoint>) -> Result<Catalog, Failure> {
        let Some(checkpoint) = checkpoint else {
            return self.catalog();
        };
        self.catalog()?
            .seeded(&|lab| checkpoint.seeds.get(lab).copied().unwrap_or(1))
            .map_err(Failure::usage)
    }

    /// The labs that were asked for.
    ///
    /// # Errors
    /// A lab file that does not hold.
    pub fn catalog(&self) -> Result<Catalog, Failure> {
        let catalog = match &self.labs {
            Some(dir) => Catalog::folder(dir).map_err(Failure::usage)?,
            None => Catalog::bundled().map_err(Failure::internal)?,
        };
        Ok(match self.bus.manifest()? {
            Some(text) => catalog.with_manifest(bus::MANIFEST, text),
            None => catalog,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn two_contexts_never_share_a_session() {
        assert_eq!(name_of("kind-lab"), "kind-lab");
        let eks = "arn:aws:eks:eu-central-1:123456789012:cluster/";
        let contexts = [
            format!("{eks}team-a"),
            format!("{eks}team-b"),
            "a/b".to_owned(),
            "a:b".to_owned(),
            "a_b".to_owned(),
            "embedded".to_owned(),
            "nats".to_owned(),
            ".hidden".to_owned(),
            "hidden".to_owned(),
            "...".to_owned(),
            "x".repeat(LONGEST),
            "x".repeat(LONGEST + 1),
        ];
        let names: BTreeSet<String> = contexts.iter().map(|one| name_of(one)).collect();
        assert_eq!(names.len(), contexts.len(), "{names:?}");
        for name in names {
            assert!(session_name(&name).is_ok(), "{name}");
            assert!(![EMBEDDED, bus::SESSION].contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn an_address_may_be_a_name() {
        assert_eq!(socket("127.0.0.1:80").unwrap().port(), 80);
        assert!(socket("localhost:30080").unwrap().ip().is_loopback());
        for bad in ["localhost", "", "http://localhost", "127.0.0.1"] {
            assert!(socket(bad).is_err(), "{bad}");
        }
    }
}
