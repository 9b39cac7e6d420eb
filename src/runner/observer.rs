//! Looks at the cluster and writes facts: logs, bus, Workflows, the ledger.
//!
//! One task owns what is known of arrivals. It is told where the session stands ([`Focus`]) and which traces were sent,
//! and answers when the rows of some probes are settled. It looks often while somebody waits, and rarely otherwise.

mod position;
mod settling;

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
use super::facts::{self, Arrival, Execution, Place};
use super::gate::InstanceLog;
use super::matchers::{self, LogEvent};
use crate::cluster::{self, BusView, Cluster, LedgerPosition, LogFollower, LogLine};
use crate::embedded::bus::ConsumerInfo;
use crate::evidence::{Expectation, Fact, Observation};
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
        task.cut_off
            .extend(sent.iter().map(|(trace, _)| trace.clone()));
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
    arrivals: BTreeMap<String, Option<Arrival>>,
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
    /// Whether there is a destination beside the ledger.
    destination: bool,
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
            arrivals: BTreeMap::new(),
            waiting_lines: Vec::new(),
            waiting_workflows: BTreeMap::new(),
            bus_read: false,
            position: Position::default(),
            consumers: BTreeMap::new(),
            phases: BTreeMap::new(),
            ended: BTreeMap::new(),
            ledger_read: LedgerPosition::default(),
            records_read: 0,
            destination: false,
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
        let (_sensor, mut sensor_lines) = self.cluster.follow_logs("sensor-name");
        let (_source, mut source_lines): (LogFollower, _) =
            self.cluster.follow_logs("eventsource-name");
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.cluster.client().clone(),
            self.cluster.namespace(),
            &kinds::workflow(),
        );
        let mut workflows = std::pin::pin!(
            watcher(api, watcher::Config::default())
                .default_backoff()
                .applied_objects()
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
                command = commands.recv() => match command {
                    None => return,
                    Some(command) => {
                        self.obey(command).await;
                        next_look = Instant::now();
                    }
                },
                Some(line) = sensor_lines.recv() => self.log_line(&line).await,
                Some(line) = source_lines.recv() => self.log_line(&line).await,
                Some(workflow) = workflows.next() => match workflow {
                    Ok(workflow) => self.workflow(&workflow).await,
                    Err(error) => tracing::warn!(%error, "watching Workflows"),
                },
                // Where Secrets may not be read, their values are not known here either.
                Some(secret) = secrets.next() => match secret {
                    Ok(secret) => self.record.hide(cluster::texts_of(&secret)),
                    Err(error) => tracing::debug!(%error, "watching Secrets"),
                },
                () = tokio::time::sleep_until(next_look) => {
                    self.look().await;
                    let pause = if self.collecting.is_empty() { IDLE_LOOK } else { self.cluster.look_interval() };
                    next_look = Instant::now() + pause;
                }
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
                if let Ok(there) = self.cluster.has_destination().await {
                    self.destination = there;
                }
                self.look_at_consumers().await;
            }
            Command::Rewound => {
                // The rows and messages of then have the numbers of those that are gone.
                self.ledger_read = LedgerPosition::default();
                self.records_read = 0;
                self.position = Position::default();
            }
            Command::Sent { trace, place } => {
                self.sent.insert(trace, place);
            }
            Command::Answered(fact) => self.answered(*fact).await,
            Command::Note { facts, done } => {
                self.keep(facts);
                // Whoever asked may have been cancelled meanwhile.
                let _ = done.send(());
            }
            Command::Collect(collecting) => self.collecting.push(collecting),
        }
    }

    /// A 200 means that the message is stored already: a read of the whole stream after it finds it, or proves that it
    /// is not there.
    async fn answered(&mut self, fact: Fact) {
        let (trace, place) = (fact.trace.clone().unwrap_or_default(), place_of(&fact));
        let accepted = matches!(
            fact.observation,
            Observation::HttpAnswer { status: 200, .. }
        );
        self.write(vec![fact]);
        let complete = self.look_at_bus().await;
        let found = self
            .arrivals
            .values()
            .flatten()
            .any(|arrival| arrival.trace.as_deref() == Some(trace.as_str()));
        if accepted && complete && !found && self.position.proves_absence() {
            self.write(vec![facts::not_stored(&place, &trace, self.position.read)]);
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

    fn bus(&self) -> BusView {
        self.cluster.bus()
    }

    /// Reads new messages; true when the stream was read to its end.
    async fn look_at_bus(&mut self) -> bool {
        self.bus_read = self.read_bus().await;
        self.bus_read
    }

    /// What was seen while the bus could not be read.
    async fn take_up_waiting(&mut self) {
        if self.waiting_lines.is_empty() && self.waiting_workflows.is_empty() {
            return;
        }
        for line in std::mem::take(&mut self.waiting_lines) {
            self.log_line(&line).await;
        }
        for (_, workflow) in std::mem::take(&mut self.waiting_workflows) {
            self.workflow(&workflow).await;
        }
    }

    /// Where the bus cannot be read at all, a trace of this session beside an arrival says where the arrival belongs.
    async fn placed_by_trace(&mut self, arrival: &str, trace: Option<&str>) {
        let unknown = !arrival.is_empty()
            && arrival != "none"
            && self.cluster.by_log_alone().is_some()
            && !self.arrivals.contains_key(arrival);
        let place = trace.and_then(|trace| self.sent.get(trace)).cloned();
        let (true, Some(place)) = (unknown, place) else {
            return;
        };
        let known = Arrival {
            id: arrival.to_owned(),
            trace: trace.map(str::to_owned),
            sequence: None,
            place,
        };
        self.arrivals.insert(arrival.to_owned(), Some(known));
        Box::pin(self.take_up_waiting()).await;
    }

    /// Whether an arrival may still turn out to be one of this session.
    fn may_be_placed(&self, arrival: &str) -> bool {
        !self.bus_read
            && !arrival.is_empty()
            && arrival != "none"
            && !self.arrivals.contains_key(arrival)
    }

    async fn read_bus(&mut self) -> bool {
        let bus = self.bus();
        let Ok(last) = bus.last_sequence().await else {
            return false;
        };
        let old = self.position.begin(last);
        while self.position.read < last {
            let Ok(messages) = bus.messages(self.position.read).await else {
                return false;
            };
            let Some(end) = messages.last().map(|message| message.sequence) else {
                self.position.vanished_before(last);
                return false;
            };
            self.position.read = end;
            let mut new = Vec::new();
            for message in messages
                .iter()
                .filter(|message| !message.arrival.is_empty())
            {
                let Some(place) =
                    self.place_of_message(message.trace.as_deref(), message.sequence > old)
                else {
                    self.arrivals.insert(message.arrival.clone(), None);
                    continue;
                };
                let arrival = Arrival {
                    id: message.arrival.clone(),
                    trace: message.trace.clone(),
                    sequence: Some(message.sequence),
                    place,
                };
                new.push(facts::stored(&arrival, message));
                self.arrivals.insert(message.arrival.clone(), Some(arrival));
            }
            self.write(new);
        }
        true
    }

    fn place_of_message(&self, trace: Option<&str>, new: bool) -> Option<Place> {
        let sent = trace.and_then(|trace| self.sent.get(trace));
        let own = || {
            self.focus.as_ref().filter(|_| new).map(|focus| Place {
                probe: None,
                ..focus.place.clone()
            })
        };
        sent.cloned().or_else(own)
    }

    async fn look_at_consumers(&mut self) {
        let Some(focus) = self.focus.clone() else {
            return;
        };
        let bus = self.bus();
        let Ok(consumers) = bus.consumers().await else {
            return;
        };
        let mut new = self.unheard(&focus, &consumers);
        for info in consumers
            .into_iter()
            .filter(|info| facts::is_expected(info, &focus.subscriptions))
        {
            let known = self.consumers.get(&info.durable);
            if known != Some(&info) {
                new.push(facts::consumer(&focus.place, &info));
                self.consumers.insert(info.durable.clone(), info);
            }
        }
        self.write(new);
    }

    /// Stored messages that are waited for and that no consumer has the subject of.
    ///
    /// Consumers are read after the bus, so that each was there, or not, after the message was stored. A consumer of an
    /// earlier Sensor that nobody pulls from hears nothing.
    fn unheard(&self, focus: &Focus, consumers: &[ConsumerInfo]) -> Vec<Fact> {
        let hears = |info: &ConsumerInfo, subject: &str| {
            let subject_fits = info.filter_subject == subject
                || info.filter_subject.is_empty()
                || info.filter_subject.contains(['*', '>']);
            subject_fits && (info.num_waiting > 0 || facts::is_expected(info, &focus.subscriptions))
        };
        let waited = |fact: &&Fact| {
            let trace = fact.known_trace();
            let mut probes = self.collecting.iter().flat_map(|one| &one.probes);
            probes.any(|probe| Some(probe.trace.as_str()) == trace)
        };
        let mut theirs: Vec<&str> = consumers
            .iter()
            .filter(|info| info.num_waiting > 0)
            .map(|info| info.filter_subject.as_str())
            .collect();
        theirs.sort_unstable();
        theirs.dedup();
        // Somebody between two pulls would be taken for nobody: the Sensor's own consumers must be there and wait.
        let settled = !focus.subscriptions.is_empty()
            && focus.subscriptions.iter().all(|wanted| {
                consumers
                    .iter()
                    .any(|info| info.durable == wanted.durable && info.num_waiting > 0)
            });
        if !settled {
            return Vec::new();
        }
        let of_message = |fact: &Fact| match &fact.observation {
            Observation::Stored { subject }
                if !focus
                    .subscriptions
                    .iter()
                    .any(|wanted| wanted.subject == *subject)
                    && !consumers.iter().any(|info| hears(info, subject)) =>
            {
                Some(facts::no_consumer(fact, subject, &theirs))
            }
            _ => None,
        };
        self.facts
            .iter()
            .filter(waited)
            .filter_map(of_message)
            .collect()
    }

    async fn look_at_ledger(&mut self) {
        if !self.bus_read && self.cluster.by_log_alone().is_none() {
            // Rows of arrivals that nobody can place yet would be passed over.
            return;
        }
        let ended = std::mem::take(&mut self.ended);
        let records = if self.destination {
            self.cluster.records(self.records_read).await
        } else {
            Ok(Vec::new())
        };
        let (Ok(view), Ok(records)) = (self.cluster.ledger(self.ledger_read).await, records) else {
            self.ended.extend(ended);
            return;
        };
        for row in &view.attempts {
            self.placed_by_trace(&row.arrival, Some(&row.trace)).await;
        }
        let mut new = Vec::new();
        for row in records {
            self.records_read = self.records_read.max(row.seq);
            self.executions_with_rows.insert(row.workflow_uid.clone());
            if let Some(arrival) = self.arrival(&row.arrival).await {
                new.push(facts::destination_record(
                    &arrival,
                    &row,
                    self.cluster.namespace(),
                ));
            }
        }
        for row in view.transitions {
            self.ledger_read.transitions = self.ledger_read.transitions.max(row.seq);
            if let Some(place) = self.place_of_claim(&row.workflow_uid) {
                new.push(facts::claim_changed(&place, &row));
            }
        }
        self.claims_read = true;
        for row in view.attempts {
            self.ledger_read.attempts = self.ledger_read.attempts.max(row.seq);
            self.executions_with_rows.insert(row.workflow_uid.clone());
            if let Some(arrival) = self.arrival(&row.arrival).await {
                new.push(facts::ledger_attempt(&arrival, &row));
            }
        }
        for row in view.effects {
            self.ledger_read.effects = self.ledger_read.effects.max(row.seq);
            self.executions_with_rows.insert(row.workflow_uid.clone());
            if let Some(arrival) = self.arrival(&row.arrival).await {
                new.push(facts::ledger_effect(&arrival, &row));
            }
        }
        for (uid, id) in ended {
            if self.executions_with_rows.contains(&uid) {
                continue;
            }
            if let Some(arrival) = self.arrival(&id).await {
                new.push(facts::no_effect(&arrival, &uid, self.ledger_read.attempts));
            }
        }
        self.write(new);
    }

    /// A change of a claim belongs where its run belongs; one by hand or by a relay, to where the session stands.
    fn place_of_claim(&self, uid: &str) -> Option<Place> {
        let own = self.executions.get(uid).cloned();
        own.or_else(|| {
            let focus = self.focus.as_ref().filter(|_| self.claims_read)?;
            Some(focus.place.clone())
        })
    }

    /// What is known of an arrival; reads the bus once when it is new. `None` for arrivals from before this session.
    async fn arrival(&mut self, id: &str) -> Option<Arrival> {
        if id.is_empty() || id == "none" {
            return None;
        }
        if !self.arrivals.contains_key(id) {
            self.look_at_bus().await;
        }
        self.arrivals.get(id).cloned().flatten()
    }

    async fn log_line(&mut self, line: &LogLine) {
        let event = matchers::read(&line.text);
        self.count(line, event.is_some());
        let Some(event) = event else {
            return;
        };
        if let LogEvent::Received { arrival, trace } = &event {
            self.placed_by_trace(arrival, trace.as_deref()).await;
        }
        let ids = match &event {
            LogEvent::Discarded { arrival, .. } | LogEvent::Received { arrival, .. } => {
                vec![arrival.clone()]
            }
            LogEvent::Triggered { arrivals, .. } | LogEvent::TriggerFailed { arrivals, .. } => {
                arrivals.clone()
            }
            other => return self.instance_event(line, other),
        };
        let mut arrivals = Vec::new();
        let mut waits = false;
        for id in ids {
            arrivals.extend(self.arrival(&id).await);
            waits |= self.may_be_placed(&id);
        }
        if waits && self.waiting_lines.len() < WAITING_LIMIT {
            self.waiting_lines.push(line.clone());
        }
        let namespace = self.cluster.namespace().to_owned();
        self.write(facts::logged(&event, line, &arrivals, &namespace));
    }

    /// How much of an instance's log can be read at all.
    fn count(&self, line: &LogLine, known: bool) {
        let mut logs = lock(&self.logs);
        let log = logs
            .entry((line.pod.uid.clone(), line.pod.instance))
            .or_default();
        log.lines += 1;
        log.known_lines += u64::from(known);
    }

    fn instance_event(&self, line: &LogLine, event: &LogEvent) {
        let mut logs = lock(&self.logs);
        let log = logs
            .entry((line.pod.uid.clone(), line.pod.instance))
            .or_default();
        match event {
            LogEvent::Subscribed {
                trigger,
                subject,
                durable,
            } => {
                log.failure = None;
                log.stand_by = None;
                log.subscribed.push(Subscription {
                    trigger: trigger.clone(),
                    subject: subject.clone(),
                    durable: durable.clone(),
                });
            }
            LogEvent::SubscribeFailed { error } => {
                log.subscribed.clear();
                log.failure = Some(error.clone());
            }
            LogEvent::ConnectionLost { text } => {
                log.subscribed.clear();
                log.stand_by = Some(text.clone());
            }
            LogEvent::StandBy { text } => log.stand_by = Some(text.clone()),
            LogEvent::Leading => log.stand_by = None,
            _ => {}
        }
    }

    async fn workflow(&mut self, workflow: &DynamicObject) {
        let (Some(name), Some(uid)) = (
            workflow.metadata.name.clone(),
            workflow.metadata.uid.clone(),
        ) else {
            return;
        };
        let labelled = |key: &str| {
            let labels = workflow.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(key)).cloned()
        };
        let label = labelled("arrival").unwrap_or_default();
        self.placed_by_trace(&label, labelled("trace").as_deref())
            .await;
        let Some(arrival) = self.arrival(&label).await else {
            if self.may_be_placed(&label) && self.waiting_workflows.len() < WAITING_LIMIT {
                self.waiting_workflows.insert(uid, workflow.clone());
            }
            return;
        };
        let text = |pointer: &str| {
            workflow
                .data
                .pointer(pointer)
                .and_then(|value| value.as_str())
                .unwrap_or_default()
                .to_owned()
        };
        let execution = Execution {
            name,
            uid: uid.clone(),
            phase: text("/status/phase"),
            message: match text("/status/message") {
                none if none.is_empty() => facts::stuck(&workflow.data).unwrap_or_default(),
                message => message,
            },
        };
        let namespace = self.cluster.namespace().to_owned();
        self.executions.insert(uid.clone(), arrival.place.clone());
        let mut new = Vec::new();
        let standing = (execution.phase.clone(), execution.message.clone());
        let before = self.phases.insert(uid.clone(), standing.clone());
        if before.is_none() {
            new.push(facts::workflow_created(&arrival, &execution, &namespace));
        }
        if !execution.phase.is_empty() && before.as_ref() != Some(&standing) {
            new.push(facts::workflow_phase(&arrival, &execution, &namespace));
            if matches!(execution.phase.as_str(), "Succeeded" | "Failed" | "Error") {
                self.ended.insert(uid, arrival.id.clone());
            }
        }
        self.write(new);
        if !self.ended.is_empty() {
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

    /// A request of an earlier process that is not on the bus now will not come any more: nobody is left to send it.
    async fn look_up_cut_off(&mut self) {
        let waited: Vec<String> = self
            .collecting
            .iter()
            .flat_map(|collecting| &collecting.probes)
            .map(|probe| probe.trace.clone())
            .filter(|trace| self.cut_off.contains(trace))
            .collect();
        if waited.is_empty() || !self.look_at_bus().await || !self.position.proves_absence() {
            return;
        }
        for trace in waited {
            self.cut_off.remove(&trace);
            let stored = self
                .arrivals
                .values()
                .flatten()
                .any(|arrival| arrival.trace.as_ref() == Some(&trace));
            if !stored && let Some(place) = self.sent.get(&trace).cloned() {
                self.write(vec![facts::not_stored(&place, &trace, self.position.read)]);
            }
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
