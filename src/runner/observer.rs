//! Looks at the cluster and writes facts: logs, bus, Workflows, the ledger.
//!
//! One task owns what is known of arrivals. It is told where the session stands ([`Focus`]) and which traces were sent,
//! and answers when the rows of some probes are settled. It looks often while somebody waits, and rarely otherwise.

mod bus;
mod lines;
mod outcomes;
mod settling;
mod task;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use self::settling::Collecting;
use self::task::Task;
use super::expected::Subscription;
use super::facts::Place;
use super::gate::InstanceLog;
use crate::cluster::Cluster;
use crate::evidence::{Expectation, Fact};

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
        let task = Task::new(cluster, Arc::clone(&record), Arc::clone(&logs));
        tokio::spawn(task.knowing(known, sent).run(receiver));
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

    /// Waits until what was expected of every probe can be judged, at most `wait`. False when some of it cannot, or
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
            expected,
            lab,
            attempt,
            Instant::now() + wait,
            done,
        )));
        settled.await.unwrap_or(false)
    }

    /// Texts that must not be written from now on.
    pub fn hide(&self, secrets: Vec<String>) {
        self.record.hide(secrets);
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
