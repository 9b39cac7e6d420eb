//! Where a session lies.

use std::path::PathBuf;

use clap::Args;
use etcetera::BaseStrategy as _;

use super::bus::{self, BusArgs};
use super::exit::Failure;
use crate::lab::Catalog;
use crate::session::Checkpoint;

/// Name of a session that runs on the embedded cluster alone.
const EMBEDDED: &str = "embedded";

/// Options that every command of a session takes.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// Folder of all sessions (default: $XDG_STATE_HOME/eventlab)
    #[arg(long, global = true, value_name = "DIR", env = "EVENTLAB_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// Name of the session (over a real bus: nats)
    #[arg(long, global = true, value_name = "NAME", default_value = EMBEDDED, value_parser = session_name)]
    pub session: String,
    /// Labs of a folder of one's own, over the bundled manifests
    #[arg(long, global = true, value_name = "DIR")]
    pub labs: Option<PathBuf>,
    /// A context of the kubeconfig instead of the embedded cluster (not there yet)
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    #[command(flatten)]
    pub bus: BusArgs,
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
    /// There is no home directory to derive it from; a real cluster was asked for.
    pub fn folder(&self) -> Result<PathBuf, Failure> {
        if let Some(context) = &self.context {
            return Err(Failure::usage(format!(
                "--context {context}: real clusters are not there yet; leave it out to use the embedded cluster"
            )));
        }
        let name = match self.session.as_str() {
            EMBEDDED if self.bus.bus.is_some() => bus::SESSION,
            name => name,
        };
        let folder = self.base()?.join(name);
        // Pods have folders of their own to work in, so what they are told is absolute.
        std::path::absolute(&folder).map_err(|error| {
            Failure::environment(format!(
                "the folder {} cannot be found from here: {error}",
                folder.display()
            ))
        })
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
