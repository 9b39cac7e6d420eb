//! The observing task: what it knows, what it is told, and how a fact gets written.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::settling::Collecting;
use super::{Command, Focus, InstanceLogs, Record};
use crate::cluster::{self, Cluster, LogFollower};
use crate::embedded::bus::ConsumerInfo;
use crate::evidence::Fact;
use crate::kinds;
use crate::runner::facts::{Arrival, Place};

/// How often an idle session looks at the bus, for requests that the learner sends by hand.
const IDLE_LOOK: Duration = Duration::from_millis(500);
/// Facts of the present attempt that are kept at hand; older ones are on disk.
const KEPT_FACTS: usize = 50_000;
/// Lines of a Sensor that are remembered as seen.
const SEEN_LIMIT: usize = 1_000_000;

pub(super) struct Task {
    pub(super) cluster: Cluster,
    pub(super) record: Arc<dyn Record>,
    pub(super) logs: InstanceLogs,
    pub(super) focus: Option<Focus>,
    pub(super) sent: BTreeMap<String, Place>,
    /// Traces that an earlier process sent, or was about to send.
    pub(super) cut_off: BTreeSet<String>,
    pub(super) arrivals: BTreeMap<String, Option<Arrival>>,
    /// Last sequence read from the bus, and the last one that was there when the session began.
    pub(super) read_sequence: u64,
    pub(super) old_sequence: Option<u64>,
    pub(super) consumers: BTreeMap<String, ConsumerInfo>,
    pub(super) phases: BTreeMap<String, String>,
    /// Workflows that ended and whose rows have not been read since: uid to arrival.
    pub(super) ended: BTreeMap<String, String>,
    pub(super) attempts_read: u64,
    pub(super) effects_read: u64,
    pub(super) executions_with_rows: BTreeSet<String>,
    pub(super) facts: Vec<Fact>,
    pub(super) seen: HashSet<u64>,
    pub(super) collecting: Vec<Collecting>,
}

impl Task {
    pub(super) fn new(cluster: Cluster, record: Arc<dyn Record>, logs: InstanceLogs) -> Self {
        Self {
            cluster,
            record,
            logs,
            focus: None,
            sent: BTreeMap::new(),
            cut_off: BTreeSet::new(),
            arrivals: BTreeMap::new(),
            read_sequence: 0,
            old_sequence: None,
            consumers: BTreeMap::new(),
            phases: BTreeMap::new(),
            ended: BTreeMap::new(),
            attempts_read: 0,
            effects_read: 0,
            executions_with_rows: BTreeSet::new(),
            facts: Vec::new(),
            seen: HashSet::new(),
            collecting: Vec::new(),
        }
    }

    /// What an earlier process wrote, and the traces that it sent or was about to send.
    pub(super) fn knowing(mut self, known: &[Fact], sent: Vec<(String, Place)>) -> Self {
        self.cut_off
            .extend(sent.iter().map(|(trace, _)| trace.clone()));
        self.sent.extend(sent);
        for fact in known {
            self.seen.insert(fingerprint(fact));
        }
        self.facts
            .extend(known.iter().rev().take(KEPT_FACTS).rev().cloned());
        self
    }

    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
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
                self.look_at_consumers().await;
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

    async fn look(&mut self) {
        if self.look_at_bus().await {
            self.look_at_consumers().await;
        }
        if !self.collecting.is_empty() || !self.ended.is_empty() {
            self.look_at_ledger().await;
        }
    }

    /// Writes what was not written before.
    pub(super) fn write(&mut self, new: Vec<Fact>) {
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
                self.facts.extend(written);
                let surplus = self.facts.len().saturating_sub(KEPT_FACTS);
                self.facts.drain(..surplus);
            }
            Err(error) => tracing::error!(%error, "writing evidence"),
        }
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
