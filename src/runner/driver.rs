//! Owns a session's state and its files; the screen and the shell drive it.
//!
//! Messages come in through [`Driver::tell`] (the learner's) and [`Driver::next`] with [`Driver::take`] (the work's). Journal
//! and checkpoint are written here, in the order in which the state machine asks for them, before any work starts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::facts::Place;
use super::observer::{Observer, Record};
use super::work::{Job, Patience, Worker, write_private};
use crate::cluster::{Cluster, Drift, Fingerprint};
use crate::evidence::journal::IntentAction;
use crate::evidence::{Entry, Fact};
use crate::lab::Catalog;
use crate::session::files::{FilesError, SessionFiles};
use crate::session::{Context, Effect, Message, State};

/// Why a session cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error(transparent)]
    Files(#[from] FilesError),
}

/// Owns the state of a session.
pub struct Driver {
    state: State,
    files: Arc<SessionFiles>,
    catalog: Arc<Catalog>,
    jobs: mpsc::UnboundedSender<Job>,
    messages: mpsc::UnboundedReceiver<(u64, Message)>,
    facts: mpsc::UnboundedReceiver<Vec<Fact>>,
    generation: u64,
    cancel: CancellationToken,
}

/// Appends facts to the journal and hands them on.
struct Recorder {
    files: Arc<SessionFiles>,
    facts: mpsc::UnboundedSender<Vec<Fact>>,
}

impl Record for Recorder {
    fn record(&self, facts: Vec<Fact>) -> std::io::Result<Vec<Fact>> {
        let written = self.files.append_facts(facts).map_err(std::io::Error::other)?;
        // The driver is gone at the end of the session; the facts are on disk.
        let _ = self.facts.send(written.clone());
        Ok(written)
    }
}
