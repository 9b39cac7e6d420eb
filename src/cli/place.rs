//! Where a session lies.

use std::path::PathBuf;

use clap::Args;
use etcetera::BaseStrategy as _;

use super::exit::Failure;
use crate::lab::Catalog;

/// Options that every command of a session takes.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// Folder of all sessions (default: $XDG_STATE_HOME/eventlab)
    #[arg(long, global = true, value_name = "DIR", env = "EVENTLAB_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// Name of the session
    #[arg(long, global = true, value_name = "NAME", default_value = "embedded", value_parser = session_name)]
    pub session: String,
    /// Labs of a folder of one's own, over the bundled manifests
    #[arg(long, global = true, value_name = "DIR")]
    pub labs: Option<PathBuf>,
    /// A context of the kubeconfig instead of the embedded cluster (not there yet)
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
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
        let folder = self.base()?.join(&self.session);
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

    /// The labs that were asked for.
    ///
    /// # Errors
    /// A lab file that does not hold.
    pub fn catalog(&self) -> Result<Catalog, Failure> {
        match &self.labs {
            Some(dir) => Catalog::folder(dir).map_err(Failure::usage),
            None => Catalog::bundled().map_err(Failure::internal),
        }
    }
}
