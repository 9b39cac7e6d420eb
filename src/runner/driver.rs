//! Owns a session's state and its files; the screen and the shell drive it.
//!
//! Messages come in through [`Driver::tell`] (the learner's) and [`Driver::next`] with [`Driver::take`] (the work's). Journal
//! and checkpoint are written here, in the order in which the state machine asks for them, before any work starts.

mod copies;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::drift::{self, Compared, Watch};
use super::facts::Place;
use super::fault;
use super::observer::{Observer, Record};
use super::work::{Job, Patience, Worker, snapshot_name};
use crate::cluster::{Cluster, Hearing, Silence};
use crate::evidence::journal::IntentAction;
use crate::evidence::{Entry, Fact};
use crate::lab::Catalog;
use crate::session::files::Opened;
use crate::session::files::WorkingCopies;
use crate::session::{Context, Difference, Effect, FilesError, Message, SessionFiles, State, Wait};

/// Why a session cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(
        "line {line} of the working copy is not UTF-8 (byte 0x{byte:02x}); nothing is applied or overwritten until it is saved as UTF-8: {}",
        path.display()
    )]
    NotText {
        path: PathBuf,
        line: usize,
        byte: u8,
    },
}

/// Something that the work has to say.
#[derive(Debug)]
pub struct Incoming {
    /// `None` for what is true whatever was cancelled.
    generation: Option<u64>,
    /// Or why evidence could not be written.
    message: Result<Message, FilesError>,
}

/// Owns the state of a session.
pub struct Driver {
    state: State,
    cluster: Cluster,
    files: Arc<Mutex<SessionFiles>>,
    copies: WorkingCopies,
    catalog: Arc<Catalog>,
    jobs: mpsc::UnboundedSender<Job>,
    messages: mpsc::UnboundedReceiver<(u64, Message)>,
    facts: mpsc::UnboundedReceiver<Result<Vec<Fact>, FilesError>>,
    generation: u64,
    cancel: CancellationToken,
    worker: JoinHandle<()>,
    /// Looks whether somebody else changes what this lab has applied.
    watch: Watch,
    /// What may end the go at a stage, until the objects were looked at once more.
    last_word: Option<LastWord>,
    /// For that look.
    patience: Duration,
    /// `None` where the cluster cannot be lost.
    hearing: Option<Hearing>,
    failure: Option<String>,
}

/// A message of the work that waits for a look at the objects.
struct LastWord {
    generation: u64,
    message: Message,
    /// Since when it does not wait any more.
    until: Instant,
    /// Why the objects could not be looked at; `None` once they were.
    unseen: Option<String>,
}

impl LastWord {
    fn new(generation: u64, message: Message, patience: Duration) -> Self {
        let unseen = format!(
            "the cluster did not answer within {} seconds",
            patience.as_secs()
        );
        Self {
            generation,
            message,
            until: Instant::now() + patience,
            unseen: Some(unseen),
        }
    }

    /// One look that began after the message. Where it did not see everything, it is made again while there is time.
    fn looked(&mut self, unseen: Vec<String>) {
        self.unseen = unseen.into_iter().next();
        if self.unseen.is_none() {
            self.until = Instant::now();
        }
    }
}

/// Appends facts to the journal and hands them on.
struct Recorder {
    cluster: Cluster,
    files: Arc<Mutex<SessionFiles>>,
    facts: mpsc::UnboundedSender<Result<Vec<Fact>, FilesError>>,
}

impl Record for Recorder {
    fn record(&self, facts: Vec<Fact>) -> std::io::Result<Vec<Fact>> {
        let mut files = lock(&self.files);
        let mut written = Vec::with_capacity(facts.len());
        for mut fact in facts {
            fact.command = self.cluster.shown(&fact.command);
            match files.append(Entry::Fact(fact)) {
                Ok(Entry::Fact(fact)) => written.push(fact),
                Ok(other) => tracing::error!(?other, "a fact came back as something else"),
                Err(error) => {
                    let why = std::io::Error::other(error.to_string());
                    // What was written before is told first; then the session cannot go on.
                    let _ = self.facts.send(Ok(written));
                    let _ = self.facts.send(Err(error));
                    return Err(why);
                }
            }
        }
        // The driver is gone at the end of the session; the facts are on disk.
        let _ = self.facts.send(Ok(written.clone()));
        Ok(written)
    }

    fn hide(&self, secrets: Vec<String>) {
        lock(&self.files).hide(secrets);
    }
}

fn lock(files: &Mutex<SessionFiles>) -> MutexGuard<'_, SessionFiles> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// Takes up a session on a cluster. What was under way is looked up; nothing is sent again.
    ///
    /// # Errors
    /// The session's files cannot be written.
    pub async fn start(
        opened: Opened,
        cluster: Cluster,
        catalog: Arc<Catalog>,
        patience: Patience,
    ) -> Result<Self, DriverError> {
        let now = Timestamp::now();
        let copies = opened.files.copies();
        let mut files = opened.files;
        let mut found = opened.notes;
        if let Some(kept) = &opened.checkpoint
            && let Some(why) = kept.misfit(&catalog.labs())
        {
            found.push(files.keep_misfit(kept, &why, now)?);
        }
        let (mut state, mut effects) =
            State::resume(opened.checkpoint, &opened.entries, catalog.labs(), now);
        state.set_tag(cluster.session_tag());
        state.note_found(found);
        let lost = cluster.lost();
        if !lost.is_empty() {
            // What was under way cannot be looked up in a cluster that does not know of it.
            effects.retain(|effect| !matches!(effect, Effect::Collect { .. }));
        }
        effects.extend(state.lose(&lost));
        match cluster.secret_values().await {
            Ok(values) => files.hide(values),
            Err(error) => {
                tracing::warn!(%error, "values of Secrets are not known and cannot be kept out of the journal")
            }
        }
        let files = Arc::new(Mutex::new(files));
        let (facts_sender, facts) = mpsc::unbounded_channel();
        let record = Arc::new(Recorder {
            cluster: cluster.clone(),
            files: Arc::clone(&files),
            facts: facts_sender,
        });
        let known: Vec<Fact> = opened
            .entries
            .iter()
            .filter_map(|entry| {
                if let Entry::Fact(fact) = entry {
                    Some(fact.clone())
                } else {
                    None
                }
            })
            .collect();
        let observer = Arc::new(Observer::start(
            cluster.clone(),
            record,
            &known,
            sends(&opened.entries),
        ));
        let (jobs, receiver) = mpsc::unbounded_channel();
        let (answers, messages) = mpsc::unbounded_channel();
        let worker = Worker {
            cluster: cluster.clone(),
            catalog: Arc::clone(&catalog),
            copies: copies.clone(),
            observer,
            messages: answers,
            patience,
        };
        let worker = tokio::spawn(worker.run(receiver));
        let mut driver = Self {
            state,
            cluster: cluster.clone(),
            files,
            copies,
            catalog,
            jobs,
            messages,
            facts,
            generation: 0,
            cancel: CancellationToken::new(),
            worker,
            watch: Watch::start(cluster.clone()),
            last_word: None,
            patience: patience.look,
            hearing: cluster.hearing(),
            failure: None,
        };
        driver.carry_out(effects)?;
        cluster.loss_is_noted();
        let drift = driver.drift(&cluster).await;
        if !drift.is_empty() {
            driver.tell(Message::Drift(drift))?;
        }
        driver.expect();
        Ok(driver)
    }

    /// Ends the work: what runs now is cancelled, or carried to its end where it cannot be.
    pub async fn close(self) {
        self.cancel.cancel();
        drop(self.jobs);
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.worker.await {
            tracing::error!(%error, "the worker ended badly");
        }
    }

    /// The session as it stands.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The labs and their manifests.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Gives the state machine a message and carries out what it asks for.
    ///
    /// # Errors
    /// Journal or checkpoint could not be written; nothing that depends on them was started.
    pub fn tell(&mut self, message: Message) -> Result<(), DriverError> {
        let context = Context {
            now: Timestamp::now(),
            id: random(),
        };
        let effects = self.state.update(message, &context);
        // Before anything of it is changed.
        self.expect();
        self.carry_out(effects)
    }

    /// Has the objects compared with what the state knows of them now.
    fn expect(&self) {
        let kept = drift::settled(&self.state);
        self.watch.expect(kept, self.state.differences());
    }

    /// The next thing the work has to say, or what somebody else has changed; for ever pending when there is nothing.
    ///
    /// What a stage may be judged on comes after a look at its objects: what was changed between two looks is told before.
    /// Where they could not be looked at, that is told in its place.
    /// Nothing is lost when it is dropped.
    pub async fn next(&mut self) -> Incoming {
        loop {
            tokio::select! {
                // Facts first: an answer may rest on them.
                biased;
                Some(facts) = self.facts.recv() => return Incoming { generation: None, message: facts.map(Message::Facts) },
                said = said(&mut self.last_word) => return said,
                Some((generation, message)) = self.messages.recv(), if self.last_word.is_none() => {
                    if self.state.may_judge_on(&message) && self.watch.look_now() {
                        self.last_word = Some(LastWord::new(generation, message, self.patience));
                    } else {
                        return Incoming { generation: Some(generation), message: Ok(message) };
                    }
                }
                ended = &mut self.worker, if self.failure.is_none() => {
                    let why = ended.err().map_or_else(|| "it ended".to_owned(), |error| error.to_string());
                    tracing::error!(why, "the worker has ended");
                    self.failure = Some(format!("what carries out the work has failed ({why}): leave, and start again; what was done is saved"));
                    return Incoming { generation: None, message: Ok(Message::Cancel) };
                }
                Compared { drift, unseen } = self.watch.next() => {
                    if let Some(last) = &mut self.last_word {
                        last.looked(unseen);
                    }
                    if !self.state.knows(&drift) {
                        return Incoming { generation: None, message: Ok(Message::Drift(drift)) };
                    }
                }
                silence = heard(&mut self.hearing) => {
                    let wait = silence.map(|Silence { what, since }| Wait { what, since });
                    return Incoming { generation: None, message: Ok(Message::Unheard(wait)) };
                }
            }
        }
    }

    /// Takes what the work said, unless it was cancelled meanwhile.
    ///
    /// # Errors
    /// As [`Driver::tell`], and evidence that could not be written: what is not on disk proves nothing.
    pub fn take(&mut self, incoming: Incoming) -> Result<(), DriverError> {
        if incoming
            .generation
            .is_some_and(|generation| generation != self.generation)
        {
            return Ok(());
        }
        self.tell(incoming.message?)
    }

    fn carry_out(&mut self, effects: Vec<Effect>) -> Result<(), DriverError> {
        for effect in effects {
            match effect {
                Effect::Journal(entry) => {
                    let about = fault::about_entry(&entry);
                    fault::point("before journal", || about.clone());
                    lock(&self.files).append(*entry)?;
                    fault::point("after journal", || about);
                }
                Effect::Checkpoint => {
                    let checkpoint = self.state.checkpoint();
                    fault::point("before checkpoint", || fault::about_checkpoint(&checkpoint));
                    lock(&self.files).checkpoint(&checkpoint)?;
                    fault::point("after checkpoint", || fault::about_checkpoint(&checkpoint));
                }
                Effect::CancelWork => {
                    self.generation += 1;
                    self.last_word = None;
                    std::mem::take(&mut self.cancel).cancel();
                }
                effect => {
                    if let Effect::Snapshot {
                        lab,
                        stage,
                        unless_there: false,
                    } = &effect
                    {
                        self.forget_snapshot(&snapshot_name(lab, *stage));
                    }
                    let job = Job {
                        generation: self.generation,
                        cancel: self.cancel.clone(),
                        effect,
                    };
                    if self.jobs.send(job).is_err() {
                        tracing::error!("nobody carries effects out any more");
                    }
                }
            }
        }
        Ok(())
    }

    /// A copy of an earlier go is gone before the checkpoint names the new one: whoever dies between the two, or before that
    /// one is made, does not go back to the old.
    fn forget_snapshot(&self, name: &str) {
        if let Err(error) = self.copies.forget_kept(name) {
            tracing::warn!(%error, name, "noting what was applied");
        }
        if let Err(error) = self.cluster.forget_snapshot(name) {
            tracing::warn!(%error, name, "an old snapshot is not removed");
        }
    }

    /// A command that asks this session's cluster in whatever terminal it is pasted.
    #[must_use]
    pub fn pasteable(&self, command: &str) -> String {
        self.cluster.pasteable(command)
    }

    /// How the cluster differs from what this lab had applied.
    ///
    /// A difference that this session was about to make is none: what was cut off is done again.
    async fn drift(&mut self, cluster: &Cluster) -> Vec<Difference> {
        let kept = drift::settled(&self.state);
        if kept.is_empty() {
            return Vec::new();
        }
        let mut found: Vec<_> = cluster.lost().into_iter().map(Difference::of_all).collect();
        let Compared { drift, unseen } = drift::compare(cluster, &kept, &[]).await;
        found.extend(drift);
        if let Some(first) = unseen.first() {
            let count = unseen.len();
            self.state.note_found([format!(
                "{count} of the objects of this lab could not be compared with what was applied, so that a change of them is not seen ({first}); start again once they can be read"
            )]);
        }
        found
    }

    /// What does not work any more, if the part that carries effects out has come to an end by itself.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// What there is to say of a cluster of which nothing is heard, or is again.
async fn heard(hearing: &mut Option<Hearing>) -> Option<Silence> {
    match hearing {
        Some(hearing) => hearing.next().await,
        None => std::future::pending().await,
    }
}

/// The message that has waited for a look, once that was made; what is to be said in its place once its time is over.
async fn said(last_word: &mut Option<LastWord>) -> Incoming {
    match last_word {
        Some(last) => tokio::time::sleep_until(last.until).await,
        None => std::future::pending().await,
    }
    match last_word.take() {
        Some(last) => Incoming {
            generation: Some(last.generation),
            message: Ok(match last.unseen {
                Some(why) => Message::NotCompared { why },
                None => last.message,
            }),
        },
        None => std::future::pending().await,
    }
}

/// The traces of a journal and where they belong.
fn sends(entries: &[Entry]) -> Vec<(String, Place)> {
    let send = |entry: &Entry| match entry {
        Entry::Intent(intent) => match &intent.action {
            IntentAction::Send { probe } => {
                let place = Place {
                    lab: intent.lab.clone(),
                    stage: intent.stage.clone(),
                    attempt: intent.attempt,
                    probe: Some(probe.clone()),
                };
                Some((intent.id.clone(), place))
            }
            _ => None,
        },
        _ => None,
    };
    entries.iter().filter_map(send).collect()
}

fn random() -> u32 {
    let bytes = uuid::Uuid::new_v4();
    let [first, second, third, fourth, ..] = *bytes.as_bytes();
    u32::from_le_bytes([first, second, third, fourth])
}
