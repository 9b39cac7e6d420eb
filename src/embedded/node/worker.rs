//! The life of one pod on this node: a loop over what happens to it, and a status after every step.

mod starting;
mod stopping;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Shared;
use super::events::{Kind, Subject};
use super::exec;
use super::pod_status::{self, Failure, Parts, RestartPolicy};
use super::process::{Exit, PodIdentity};
use super::refuse;
use super::slot::{Slot, State};
use super::starter::{self, PodContext};
use super::status_writer::StatusWriter;
use super::streams::Started;
use super::tokens::Tokens;

/// First and longest pause before volumes or a container's configuration are tried again.
const SETUP_PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// What happens to a pod.
#[derive(Debug)]
pub(super) enum Input {
    /// Its object changed.
    Pod(Arc<Pod>),
    /// Its object is gone.
    Gone,
    /// A container instance ended.
    Exited {
        slot: usize,
        instance: u32,
        exit: Exit,
    },
    /// A readiness probe changed its mind about an instance; a failure comes with its text.
    Ready {
        slot: usize,
        instance: u32,
        ready: bool,
        failure: Option<String>,
    },
    /// Kill a container as `kill -9` would; answers whether it ran.
    Kill {
        container: String,
        done: oneshot::Sender<bool>,
    },
    /// Run a command in a container that runs.
    Exec {
        container: String,
        command: Vec<String>,
        done: oneshot::Sender<Started>,
    },
    /// The node ends: stop everything within this time and write no status.
    Stop(Duration),
}

/// Why everything is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Deleted,
    Gone,
    Deadline,
    NodeEnds,
}

struct Stopping {
    why: Why,
    /// When the patience ends; nothing after the kill.
    kill_at: Option<Instant>,
}

/// How the work on a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The pod is over, and its object is there.
    Over,
    /// The object was removed, and everything with it.
    Removed,
    /// The node ends.
    Stopped,
}

/// Runs one pod.
pub(super) struct Worker {
    shared: Arc<Shared>,
    pod: Arc<Pod>,
    subject: Arc<Subject>,
    uid: String,
    context: PodContext,
    slots: Vec<Slot>,
    policy: RestartPolicy,
    conditions: Vec<PodCondition>,
    start: Timestamp,
    started: Instant,
    writer: StatusWriter,
    inputs: mpsc::UnboundedReceiver<Input>,
    /// For the tasks that wait for exits.
    own: mpsc::UnboundedSender<Input>,
    set_up: bool,
    setup_due: Instant,
    setup_pause: Duration,
    /// It runs once, and has to wait for the pods that served before this life of the node.
    held: bool,
    /// The pod is refused for ever.
    refused: bool,
    stopping: Option<Stopping>,
    failure: Option<Failure>,
}

impl Worker {
    /// A worker for `pod`; `own` sends to `inputs`.
    pub(super) fn new(
        shared: Arc<Shared>,
        pod: Arc<Pod>,
        own: mpsc::UnboundedSender<Input>,
        inputs: mpsc::UnboundedReceiver<Input>,
    ) -> Worker {
        let metadata = &pod.metadata;
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let (namespace, name, uid) = (
            text(&metadata.namespace),
            text(&metadata.name),
            text(&metadata.uid),
        );
        let status = pod.status.as_ref();
        let pod_ip = shared
            .addresses
            .pod_ip(status.and_then(|status| status.pod_ip.as_deref()));
        let start = status
            .and_then(|status| status.start_time.as_ref())
            .map_or_else(Timestamp::now, |time| time.0);
        let now = Instant::now();
        let already = Timestamp::now().duration_since(start).unsigned_abs();
        shared.addresses.set_pod(&uid, &pod, &pod_ip);
        let context = PodContext {
            shared: Arc::clone(&shared),
            pod: Arc::clone(&pod),
            placement: starter::placement(&pod_ip),
            folder: pod_folder(&shared.pods, &uid),
            folders: BTreeMap::new(),
            tokens: Arc::new(Tokens::of(&pod)),
        };
        let mut worker = Worker {
            writer: StatusWriter::new(shared.client.clone(), &namespace, &name, &uid),
            subject: Arc::new(Subject::of(&pod)),
            slots: slots(&pod),
            policy: RestartPolicy::of(&pod),
            conditions: status
                .and_then(|status| status.conditions.clone())
                .unwrap_or_default(),
            started: now.checked_sub(already).unwrap_or(now),
            shared,
            pod,
            uid,
            context,
            start,
            inputs,
            own,
            set_up: false,
            setup_due: now,
            setup_pause: SETUP_PAUSE.0,
            held: false,
            refused: false,
            stopping: None,
            failure: None,
        };
        worker.recover();
        worker.held = !matches!(worker.policy, RestartPolicy::Always);
        worker
    }

    /// Works until the pod is over or gone.
    pub(super) async fn run(mut self) -> Outcome {
        self.refuse();
        self.note_deletion();
        let shared = Arc::clone(&self.shared);
        loop {
            self.advance().await;
            self.publish();
            if let Some(outcome) = self.ended().await {
                return outcome;
            }
            let wake = self.next_wake();
            let sleep = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                input = self.inputs.recv() => match input {
                    Some(input) => self.handle(input),
                    None => return Outcome::Stopped,
                },
                () = sleep => self.on_time(),
                () = shared.returning.over(), if self.held => self.held = false,
            }
        }
    }

    /// Takes over from an earlier life of the node.
    fn recover(&mut self) {
        let status = self.pod.status.clone().unwrap_or_default();
        let all = status
            .init_container_statuses
            .iter()
            .flatten()
            .chain(status.container_statuses.iter().flatten());
        for known in all {
            let Some(index) = self.slots.iter().position(|slot| slot.name() == known.name) else {
                continue;
            };
            let identity = self.identity(index, 0);
            let newest = self.shared.logs.newest(&identity);
            if let Some(slot) = self.slots.get_mut(index) {
                slot.recover(known, newest);
            }
        }
        if status.phase.as_deref() == Some("Failed") {
            let message = status.message.unwrap_or_default();
            self.failure = status.reason.map(|reason| Failure { reason, message });
        }
        if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            return;
        }
        for index in 0..self.slots.len() {
            self.restart_if_due(index);
        }
        for slot in &self.slots {
            if let State::Waiting { reason, .. } = &slot.state {
                self.shared.logs.set_waiting(&self.uid, slot.name(), reason);
            }
        }
    }

    fn refuse(&mut self) {
        let Err(refused) = refuse::check(&self.pod) else {
            return;
        };
        self.refused = true;
        self.event("", Kind::Warning, refused.event, refused.message.clone());
        for slot in &mut self.slots {
            self.shared
                .logs
                .set_waiting(&self.uid, &slot.spec.name, "CreateContainerConfigError");
            slot.wait(
                "CreateContainerConfigError",
                Some(refused.message.clone()),
                None,
            );
        }
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Pod(pod) => {
                self.pod = Arc::clone(&pod);
                self.context.pod = pod;
                self.shared
                    .addresses
                    .set_pod(&self.uid, &self.pod, &self.context.placement.pod_ip);
                self.writer.compare(&self.pod);
                self.note_deletion();
            }
            Input::Gone => self.stop(Why::Gone, Duration::ZERO),
            Input::Stop(grace) => self.stop(Why::NodeEnds, grace),
            Input::Exited {
                slot,
                instance,
                exit,
            } => self.on_exit(slot, instance, exit),
            Input::Ready {
                slot,
                instance,
                ready,
                failure,
            } => self.on_probe(slot, instance, ready, failure),
            Input::Exec {
                container,
                command,
                done,
            } => self.exec(&container, command, done),
            Input::Kill { container, done } => {
                let found = self.slots.iter().find(|slot| slot.name() == container);
                let ran = match found.map(|slot| &slot.state) {
                    Some(State::Running { running, .. }) => {
                        running.process.kill();
                        true
                    }
                    _ => false,
                };
                // Whoever asked may have gone.
                let _ = done.send(ran);
            }
        }
    }

    fn exec(&self, container: &str, command: Vec<String>, done: oneshot::Sender<Started>) {
        let found = self.slots.iter().position(|slot| slot.name() == container);
        let running = found.and_then(|index| Some((index, self.slots.get(index)?)));
        let Some((index, slot)) = running.filter(|(_, slot)| slot.is_running()) else {
            // Whoever asked may have gone.
            let _ = done.send(Err(format!("container not found ({container:?})")));
            return;
        };
        let identity = self.identity(index, slot.restarts);
        let (context, spec, exit) = (
            self.context.clone(),
            slot.spec.clone(),
            slot.exit.subscribe(),
        );
        tokio::spawn(async move {
            // As above.
            let _ = done.send(exec::start(context, spec, identity, exit, command).await);
        });
    }

    fn note_deletion(&mut self) {
        if self.pod.metadata.deletion_timestamp.is_some() {
            let seconds = self
                .pod
                .metadata
                .deletion_grace_period_seconds
                .unwrap_or(30);
            self.stop(
                Why::Deleted,
                Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            );
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        if let Some(stopping) = &self.stopping {
            return stopping.kill_at;
        }
        if self.held {
            return self.deadline();
        }
        let setup = (!self.set_up && !self.refused).then_some(self.setup_due);
        let starts = if self.set_up {
            self.startable()
                .filter_map(|index| self.slots[index].due())
                .min()
        } else {
            None
        };
        [setup, starts, self.deadline()].into_iter().flatten().min()
    }

    fn on_probe(&mut self, index: usize, instance: u32, ready: bool, failure: Option<String>) {
        let current = |slot: &&mut Slot| slot.restarts == instance && slot.is_running();
        let Some(slot) = self.slots.get_mut(index).filter(current) else {
            return;
        };
        slot.ready = ready;
        if let Some(failure) = failure {
            self.container_event(
                index,
                Kind::Warning,
                "Unhealthy",
                format!("Readiness probe failed: {failure}"),
            );
        }
    }

    fn on_exit(&mut self, index: usize, instance: u32, exit: Exit) {
        let identity = self.identity(index, instance);
        let fallback = {
            let Some(slot) = self
                .slots
                .get(index)
                .filter(|slot| slot.restarts == instance)
            else {
                return;
            };
            let State::Running { running, .. } = &slot.state else {
                return;
            };
            starter::clean_up(&self.shared, &identity, &running.log);
            let said = running.termination.get();
            let policy = slot.spec.termination_message_policy.as_deref();
            match (said.is_empty(), policy, exit.code()) {
                (true, Some("FallbackToLogsOnError"), 1..) => running.log.tail(),
                _ => said,
            }
        };
        self.slots[index].end(exit, None, Some(fallback));
        self.restart_if_due(index);
    }

    /// Lets an ended container wait for its restart, if its pod's policy wants one.
    fn restart_if_due(&mut self, index: usize) {
        let Some(code) = self.slots[index]
            .terminated()
            .map(|terminated| terminated.exit_code)
        else {
            return;
        };
        let slot = &self.slots[index];
        if self.stopping.is_some() || self.refused || !self.policy.restarts(slot.init, code) {
            return;
        }
        let (name, pod) = (self.name(index), self.title());
        let pause = self.slots[index].back_off(self.shared.back_off, &pod);
        if !pause.is_zero() {
            let message = format!("Back-off restarting failed container {name} in pod {pod}");
            self.container_event(index, Kind::Warning, "BackOff", message);
        }
    }

    fn publish(&mut self) {
        if matches!(
            &self.stopping,
            Some(Stopping {
                why: Why::Gone | Why::NodeEnds,
                ..
            })
        ) {
            return;
        }
        // The condition is dated before anybody hears of it: what waited for it begins later by its own status, too.
        let mut conditions = std::mem::take(&mut self.conditions);
        let status = pod_status::status(&self.parts(), &mut conditions);
        self.conditions = conditions;
        let ready = self.stopping.is_none() && pod_status::is_ready(&self.slots);
        self.shared.addresses.set_ready(&self.uid, ready);
        if ready || self.refused {
            self.shared.returning.settle(&self.uid);
        }
        self.writer.set(status);
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            pod: &self.pod,
            slots: &self.slots,
            policy: self.policy,
            ending: self.stopping.is_some() && self.running().is_empty(),
            failure: self.failure.as_ref(),
            start: self.start,
            pod_ip: &self.context.placement.pod_ip,
            host_ip: &self.context.placement.host_ip,
            set_up: self.set_up,
        }
    }

    fn is_over(&self) -> bool {
        matches!(pod_status::phase(&self.parts()), "Succeeded" | "Failed")
    }

    /// Ends the worker when there is nothing left to do for its pod.
    async fn ended(&mut self) -> Option<Outcome> {
        if !self.running().is_empty() {
            return None;
        }
        let outcome = match self.stopping.as_ref().map(|stopping| stopping.why) {
            None | Some(Why::Deadline) if !self.is_over() => return None,
            None | Some(Why::Deadline) => {
                self.writer.flush().await;
                Outcome::Over
            }
            Some(Why::NodeEnds) => Outcome::Stopped,
            Some(Why::Deleted) => {
                self.writer.flush().await;
                self.remove_object().await;
                Outcome::Removed
            }
            Some(Why::Gone) => Outcome::Removed,
        };
        if outcome == Outcome::Removed {
            self.shared.remove_files(&self.pod);
        }
        self.shared.addresses.remove_pod(&self.uid);
        self.shared.logs.forget_waiting(&self.uid);
        Some(outcome)
    }

    fn running(&self) -> Vec<usize> {
        (0..self.slots.len())
            .filter(|index| self.slots[*index].is_running())
            .collect()
    }

    fn signal(&self, index: usize, kill: bool) {
        if let Some(Slot {
            state: State::Running { running, .. },
            ..
        }) = self.slots.get(index)
        {
            starter::stop(&*running.process, kill);
        }
    }

    fn name(&self, index: usize) -> String {
        self.slots[index].name().to_owned()
    }

    /// `name_namespace(uid)`, as the kubelet writes it.
    fn title(&self) -> String {
        let metadata = &self.pod.metadata;
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        format!(
            "{}_{}({})",
            text(&metadata.name),
            text(&metadata.namespace),
            self.uid
        )
    }

    fn identity(&self, index: usize, instance: u32) -> PodIdentity {
        let metadata = &self.pod.metadata;
        PodIdentity {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: self.uid.clone(),
            container: self.name(index),
            instance,
        }
    }

    fn container_id(&self, index: usize, instance: u32) -> String {
        format!(
            "eventlab://{}/{}/{}/{instance}",
            self.shared.life,
            self.uid,
            self.name(index)
        )
    }

    fn event(
        &self,
        field_path: &str,
        kind: Kind,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.shared
            .recorder
            .record(&self.subject, field_path, kind, reason, message);
    }

    fn container_event(
        &self,
        index: usize,
        kind: Kind,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let list = if self.slots[index].init {
            "initContainers"
        } else {
            "containers"
        };
        self.event(
            &format!("spec.{list}{{{}}}", self.name(index)),
            kind,
            reason,
            message,
        );
    }
}

fn slots(pod: &Pod) -> Vec<Slot> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let init = spec.init_containers.iter().flatten();
    let waiting = if spec.init_containers.as_ref().is_none_or(Vec::is_empty) {
        "ContainerCreating"
    } else {
        "PodInitializing"
    };
    let init = init.map(|container| Slot::new(container.clone(), true, "PodInitializing"));
    init.chain(
        spec.containers
            .iter()
            .map(|container| Slot::new(container.clone(), false, waiting)),
    )
    .collect()
}

/// The folder of a pod below the folder of all pods.
pub(super) fn pod_folder(pods: &std::path::Path, uid: &str) -> PathBuf {
    pods.join(uid.replace(['/', '\0'], "_"))
}
