//! Looks at the cluster and writes facts: logs, bus, Workflows, the ledger.
//!
//! One task owns what is known of arrivals. It is told where the session stands ([`Focus`]) and which traces were sent,
//! and answers when the rows of some probes are settled. It looks often while somebody waits, and rarely otherwise.

mod bus;
mod ledger;
mod logs;
mod placing;
mod position;
mod settling;
mod workflows;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use self::position::Position;
use self::settling::Collecting;
use super::expected::Subscription;
use super::facts::{Arrival, Place};
use super::gate::InstanceLog;
use super::looking;
use crate::cluster::{self, Cluster, LedgerPosition, LogFollower, LogLine};
use crate::embedded::bus::ConsumerInfo;
use crate::evidence::{Expectation, Fact};
use crate::kinds;

/// How often an idle session looks at the bus, for requests that the learner sends by hand.
const IDLE_LOOK: Duration = Duration::from_millis(500);
/// Facts of the present attempt that are kept at hand; older ones are on disk.
const KEPT_FACTS: usize = 50_000;
/// Lines and Workflows that wait until it is known where their arrivals belong.
const WAITING_LIMIT: usize = 10_000;
/// Lines of a Sensor that are remembered as seen.
const SEEN_LIMIT: usize = 1_000_000;

/// Writes facts, numbers them, and tells whoever draws them.
pub trait Record: Send + Sync {
    /// Appends and answers the facts with their `seq`.
    ///
    /// # Errors
    /// The file could not be written.
    fn record(&self, facts: Vec<Fact>) -> std::io::Result<Vec<Fact>>;

    /// Texts that must not be written from now on: the values of Secrets.
    fn hide(&self, secrets: Vec<String>);
}

/// Where the session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Focus {
    pub place: Place,
    /// What the applied Sensor must have.
    pub subscriptions: Vec<Subscription>,
}

/// What the log of each container instance has said, shared with the gate.
pub type InstanceLogs = Arc<Mutex<BTreeMap<(String, u32), InstanceLog>>>;

/// Handle to the observing task; it ends when the handle is dropped.
pub struct Observer {
    commands: mpsc::UnboundedSender<Command>,
    logs: InstanceLogs,
    record: Arc<dyn Record>,
}

enum Command {
    Focus(Focus),
    Rewound,
    Sent {
        trace: String,
        place: Place,
    },
    Answered(Box<Fact>),
    Note {
        facts: Vec<Fact>,
        done: oneshot::Sender<()>,
    },
    Collect(Collecting),
}

impl Observer {
    /// Starts observing. `known` are facts that are on disk already; `sent` are the traces of this session.
    #[must_use]
    pub fn start(
        cluster: Cluster,
        record: Arc<dyn Record>,
        known: &[Fact],
        sent: Vec<(String, Place)>,
    ) -> Self {
        let (commands, receiver) = mpsc::unbounded_channel();
        let logs = InstanceLogs::default();
        let mut task = Task::new(cluster, Arc::clone(&record), Arc::clone(&logs));
        task.left
            .extend(sent.iter().map(|(trace, _)| trace.clone()));
        task.cut_off.clone_from(&task.left);
        task.sent.extend(sent);
        task.remember(known);
        tokio::spawn(task.run(receiver));
        Self {
            commands,
            logs,
            record,
        }
    }

    /// Facts from now on belong here, unless their trace says otherwise.
    pub fn focus(&self, focus: Focus) {
        self.tell(Command::Focus(focus));
    }

    /// Ledger and destination go back to an earlier state: their rows are read again from the first.
    pub fn rewound(&self) {
        self.tell(Command::Rewound);
    }

    /// A probe is about to be sent with this trace.
    pub fn sent(&self, trace: &str, place: Place) {
        self.tell(Command::Sent {
            trace: trace.to_owned(),
            place,
        });
    }

    /// What the client saw of its own request.
    pub fn answered(&self, fact: Fact) {
        self.tell(Command::Answered(Box::new(fact)));
    }

    /// Writes facts that somebody else has seen, each one anew, and waits until they are on disk.
    pub async fn note(&self, facts: Vec<Fact>) {
        let (done, written) = oneshot::channel();
        self.tell(Command::Note { facts, done });
        // Nobody observes any more at the end of the session.
        let _ = written.await;
    }

    /// Texts that must not be written from now on.
    pub fn hide(&self, secrets: Vec<String>) {
        self.record.hide(secrets);
    }

    /// Waits until what was expected of every probe can be judged, at most `wait` without anything new. False when some of it cannot, or
    /// nobody observes any more.
    pub async fn settled(
        &self,
        expected: Vec<Expectation>,
        lab: &str,
        attempt: u32,
        wait: Duration,
    ) -> bool {
        let (done, settled) = oneshot::channel();
        self.tell(Command::Collect(Collecting::new(
            expected, lab, attempt, wait, done,
        )));
        settled.await.unwrap_or(false)
    }

    /// What the logs have said so far.
    #[must_use]
    pub fn logs(&self) -> BTreeMap<(String, u32), InstanceLog> {
        lock(&self.logs).clone()
    }

    fn tell(&self, command: Command) {
        if self.commands.send(command).is_err() {
            tracing::error!("the observer has ended");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Task {
    cluster: Cluster,
    record: Arc<dyn Record>,
    logs: InstanceLogs,
    focus: Option<Focus>,
    sent: BTreeMap<String, Place>,
    /// Traces that an earlier process sent, or was about to send.
    cut_off: BTreeSet<String>,
    /// All of them, looked up or not.
    left: BTreeSet<String>,
    arrivals: BTreeMap<String, Option<Arrival>>,
    /// Requests that were answered 200, and when; no complete read of the bus has followed.
    accepted: BTreeMap<String, (Place, Instant)>,
    /// How far the bus had been read when a trace was sent: its message lies behind that.
    sent_behind: BTreeMap<String, u64>,
    /// Messages with a trace that was not one of this session when they were read: their sequences.
    unplaced: BTreeMap<String, u64>,
    /// Seen while the bus could not be read: read again once it can, or once a log names the arrival.
    waiting_lines: Vec<LogLine>,
    waiting_workflows: BTreeMap<String, DynamicObject>,
    /// Whether the last look at the bus succeeded.
    bus_read: bool,
    position: Position,
    consumers: BTreeMap<String, ConsumerInfo>,
    /// Phase and message of each Workflow, as they were last written down.
    phases: BTreeMap<String, (String, String)>,
    /// Workflows that ended and whose rows have not been read since: uid to arrival.
    ended: BTreeMap<String, String>,
    ledger_read: LedgerPosition,
    records_read: u64,
    /// Whether there is a destination beside the ledger; `None` while that could not be seen.
    destination: Option<bool>,
    /// Whether the claims' changes from before this process are behind us.
    claims_read: bool,
    /// Where the Workflows belong that carry an arrival of this session, by uid.
    executions: BTreeMap<String, Place>,
    executions_with_rows: BTreeSet<String>,
    facts: Vec<Fact>,
    seen: HashSet<u64>,
    collecting: Vec<Collecting>,
}

impl Task {
    fn new(cluster: Cluster, record: Arc<dyn Record>, logs: InstanceLogs) -> Self {
        Self {
            cluster,
            record,
            logs,
            focus: None,
            sent: BTreeMap::new(),
            cut_off: BTreeSet::new(),
            left: BTreeSet::new(),
            arrivals: BTreeMap::new(),
            accepted: BTreeMap::new(),
            sent_behind: BTreeMap::new(),
            unplaced: BTreeMap::new(),
            waiting_lines: Vec::new(),
            waiting_workflows: BTreeMap::new(),
            bus_read: false,
            position: Position::default(),
            consumers: BTreeMap::new(),
            phases: BTreeMap::new(),
            ended: BTreeMap::new(),
            ledger_read: LedgerPosition::default(),
            records_read: 0,
            destination: None,
            claims_read: false,
            executions: BTreeMap::new(),
            executions_with_rows: BTreeSet::new(),
            facts: Vec::new(),
            seen: HashSet::new(),
            collecting: Vec::new(),
        }
    }

    fn remember(&mut self, known: &[Fact]) {
        for fact in known {
            self.seen.insert(fingerprint(fact));
        }
        self.facts
            .extend(known.iter().rev().take(KEPT_FACTS).rev().cloned());
    }

    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let (_sensor, mut sensor_lines) = self
            .cluster
            .follow_logs(&format!("sensor-name={}", looking::SENSOR));
        let (_source, mut source_lines): (LogFollower, _) =
            self.cluster.follow_logs("eventsource-name");
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.cluster.client().clone(),
            self.cluster.namespace(),
            &kinds::workflow(),
        );
        let mut workflows = std::pin::pin!(
            // With those that are deleted, as they were last: a controller may keep but a few that have ended.
            watcher(api, watcher::Config::default())
                .default_backoff()
                .touched_objects()
        );
        let secrets: Api<Secret> =
            Api::namespaced(self.cluster.client().clone(), self.cluster.namespace());
        let mut secrets = std::pin::pin!(
            watcher(secrets, watcher::Config::default())
                .default_backoff()
                .applied_objects()
        );
        let mut next_look = Instant::now();
        loop {
            tokio::select! {
                // What was told before a request was sent is known before anything that the request has caused is read.
                biased;
                command = commands.recv() => match command {
                    None => return,
                    Some(command) => {
                        self.obey(command).await;
                        next_look = Instant::now();
                    }
                },
                () = tokio::time::sleep_until(next_look) => {
                    self.look().await;
                    let pause = if self.collecting.is_empty() { IDLE_LOOK } else { self.cluster.look_interval() };
                    next_look = Instant::now() + pause;
                }
                Some(workflow) = workflows.next() => match workflow {
                    Ok(workflow) => self.workflow(&workflow).await,
                    Err(error) => tracing::warn!(%error, "watching Workflows"),
                },
                // Where Secrets may not be read, their values are not known here either.
                Some(secret) = secrets.next() => match secret {
                    Ok(secret) => self.record.hide(cluster::texts_of(&secret)),
                    Err(error) => tracing::debug!(%error, "watching Secrets"),
                },
                // Last, since a busy log never ends.
                Some(line) = sensor_lines.recv() => self.log_line(&line).await,
                Some(line) = source_lines.recv() => self.log_line(&line).await,
            }
            self.look_up_cut_off().await;
            self.answer_settled();
        }
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::Focus(focus) => {
                self.consumers.clear();
                self.focus = Some(focus);
                // A stage may have made it.
                self.destination = None;
                self.look_at_consumers().await;
            }
            Command::Rewound => {
                // The rows and messages of then have the numbers of those that are gone.
                self.ledger_read = LedgerPosition::default();
                self.records_read = 0;
                self.position = Position::default();
                self.accepted.clear();
                self.sent_behind.clear();
                self.unplaced.clear();
            }
            Command::Sent { trace, place } => self.sends(trace, place),
            Command::Answered(fact) => self.answered(*fact).await,
            Command::Note { facts, done } => {
                self.keep(facts);
                // Whoever asked may have been cancelled meanwhile.
                let _ = done.send(());
            }
            Command::Collect(collecting) => self.collecting.push(collecting),
        }
    }

    async fn look(&mut self) {
        if self.look_at_bus().await {
            self.look_at_consumers().await;
            self.take_up_waiting().await;
        }
        if !self.collecting.is_empty() || !self.ended.is_empty() {
            self.look_at_ledger().await;
        }
    }

    /// Writes what was not written before.
    fn write(&mut self, new: Vec<Fact>) {
        let new: Vec<_> = new
            .into_iter()
            .filter(|fact| self.seen.insert(fingerprint(fact)))
            .collect();
        if new.is_empty() {
            return;
        }
        if self.seen.len() > SEEN_LIMIT {
            self.seen.clear();
        }
        self.keep(new);
    }

    fn keep(&mut self, new: Vec<Fact>) {
        match self.record.record(new) {
            Ok(written) => {
                for collecting in &mut self.collecting {
                    collecting.hears(&written);
                }
                self.facts.extend(written);
                let surplus = self.facts.len().saturating_sub(KEPT_FACTS);
                self.facts.drain(..surplus);
            }
            Err(error) => tracing::error!(%error, "writing evidence"),
        }
    }
}

fn place_of(fact: &Fact) -> Place {
    Place {
        lab: fact.lab.clone(),
        stage: fact.stage.clone(),
        attempt: fact.attempt,
        probe: fact.probe.clone(),
    }
}

/// The same observation of the same thing, whenever and in whichever place of the session it is made.
fn fingerprint(fact: &Fact) -> u64 {
    let mut hasher = DefaultHasher::new();
    fact.attempt.hash(&mut hasher);
    fact.lab.hash(&mut hasher);
    fact.layer.hash(&mut hasher);
    fact.line.hash(&mut hasher);
    fact.trace.hash(&mut hasher);
    fact.arrival.hash(&mut hasher);
    fact.execution.hash(&mut hasher);
    if let Some(pod) = &fact.pod {
        pod.hash(&mut hasher);
    }
    hasher.finish()
}
