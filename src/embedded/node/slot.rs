//! One container of a pod over its instances: what runs, what ran before, and when it may run again.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::watch;
use tokio::time::Instant;

use super::logs::ContainerLog;
use super::process::{Exit, PodProcess, TerminationMessage};

/// How long a crashed container waits: the kubelet's 10 s doubling to 300 s, forgotten after 600 s of running, all
/// divided by twenty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// Before the second restart; the first one comes at once.
    pub first: Duration,
    pub longest: Duration,
    /// A container that ran for so long starts from the beginning.
    pub forget: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        BackOff {
            first: Duration::from_millis(500),
            longest: Duration::from_secs(15),
            forget: Duration::from_secs(30),
        }
    }
}

/// A container instance that runs.
pub(super) struct Running {
    pub process: Box<dyn PodProcess>,
    pub log: Arc<ContainerLog>,
    pub termination: TerminationMessage,
}

/// What a container does now.
pub(super) enum State {
    /// `due` says when it may be started; never by itself without one.
    Waiting {
        reason: String,
        message: Option<String>,
        due: Option<Instant>,
    },
    Running {
        since: Timestamp,
        running: Running,
    },
    Terminated(ContainerStateTerminated),
}

/// A container of a pod.
pub(super) struct Slot {
    pub spec: Container,
    pub init: bool,
    /// Restart count of the current instance, or of the next one while it waits after a crash.
    pub restarts: u32,
    pub state: State,
    pub last: Option<ContainerStateTerminated>,
    pub ready: bool,
    /// Exit of the current instance, for the other containers of the pod.
    pub exit: watch::Sender<Option<Exit>>,
    /// Names the current instance in the status.
    pub id: Option<String>,
    next_pause: Option<Duration>,
    /// Whether the next start is a restart.
    crashed: bool,
}

impl Slot {
    pub(super) fn new(spec: Container, init: bool, waiting: &str) -> Slot {
        Slot {
            spec,
            init,
            restarts: 0,
            state: waiting_for(waiting),
            last: None,
            ready: false,
            exit: watch::Sender::new(None),
            id: None,
            next_pause: None,
            crashed: false,
        }
    }

    /// Takes over what the API says of a container that an earlier life of the node ran. `newest` is the newest instance
    /// that was started, whatever its status got to say; after the cluster was set back it is later than the status, and
    /// no number is given out twice. Nobody saw how a container of that life ended.
    pub(super) fn recover(&mut self, status: &ContainerStatus, newest: Option<u32>) {
        self.restarts = u32::try_from(status.restart_count).unwrap_or(0);
        self.last = status
            .last_state
            .as_ref()
            .and_then(|state| state.terminated.clone());
        self.crashed = self.last.is_some();
        self.id = status.container_id.clone();
        let state = status.state.as_ref();
        if let Some(terminated) = state.and_then(|state| state.terminated.clone()) {
            self.exit
                .send_replace(Some(Exit::Code(terminated.exit_code)));
            self.state = State::Terminated(terminated);
            return;
        }
        let running = state.and_then(|state| state.running.as_ref());
        // A log is made before its instance starts, so it knows of those whose status was never written.
        let logged = newest.filter(|newest| *newest >= self.restarts);
        match (running, logged) {
            (None, None) => return,
            (None, Some(instance)) if self.crashed && instance == self.restarts => return,
            (_, Some(instance)) => self.restarts = instance,
            (Some(_), None) => {}
        }
        self.exit.send_replace(Some(Exit::Unknown));
        self.state = State::Terminated(ContainerStateTerminated {
            exit_code: Exit::Unknown.code(),
            reason: Some("ContainerStatusUnknown".to_owned()),
            message: Some(
                "The container could not be located when the pod was terminated".to_owned(),
            ),
            container_id: status.container_id.clone(),
            started_at: running.and_then(|running| running.started_at.clone()),
            ..ContainerStateTerminated::default()
        });
    }

    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    pub(super) fn terminated(&self) -> Option<&ContainerStateTerminated> {
        match &self.state {
            State::Terminated(terminated) => Some(terminated),
            _ => None,
        }
    }

    pub(super) fn has_succeeded(&self) -> bool {
        self.terminated()
            .is_some_and(|terminated| terminated.exit_code == 0)
    }

    /// When it may be started, if it waits for that.
    pub(super) fn due(&self) -> Option<Instant> {
        match &self.state {
            State::Waiting { due, .. } => *due,
            _ => None,
        }
    }

    pub(super) fn wait(&mut self, reason: &str, message: Option<String>, due: Option<Instant>) {
        self.ready = false;
        self.state = State::Waiting {
            reason: reason.to_owned(),
            message,
            due,
        };
    }

    /// The instance that a start now would be.
    pub(super) fn next_instance(&self) -> u32 {
        if self.crashed {
            self.restarts + 1
        } else {
            self.restarts
        }
    }

    /// The instance with this number begins.
    pub(super) fn begin(&mut self, instance: u32, id: String) {
        self.restarts = instance;
        self.crashed = false;
        self.id = Some(id);
        self.exit.send_replace(None);
    }

    /// It runs; without a probe it is ready by that.
    pub(super) fn run(&mut self, running: Running, probed: bool) {
        self.ready = !probed;
        self.state = State::Running {
            since: Timestamp::now(),
            running,
        };
    }

    /// The current instance has ended.
    pub(super) fn end(&mut self, exit: Exit, reason: Option<&str>, message: Option<String>) {
        let since = match &self.state {
            State::Running { since, .. } => *since,
            _ => Timestamp::now(),
        };
        let usual = if exit.code() == 0 {
            "Completed"
        } else {
            "Error"
        };
        self.ready = false;
        self.state = State::Terminated(ContainerStateTerminated {
            exit_code: exit.code(),
            reason: Some(reason.unwrap_or(usual).to_owned()),
            message: message.filter(|message| !message.is_empty()),
            started_at: Some(Time(since)),
            finished_at: Some(Time(Timestamp::now())),
            container_id: self.id.clone(),
            ..ContainerStateTerminated::default()
        });
        self.exit.send_replace(Some(exit));
    }

    /// Lets an ended container wait for its restart; answers how long, zero for at once.
    pub(super) fn back_off(&mut self, limits: BackOff, pod: &str) -> Duration {
        let State::Terminated(terminated) = &self.state else {
            return Duration::ZERO;
        };
        let ran = match (&terminated.started_at, &terminated.finished_at) {
            (Some(start), Some(end)) => end.0.duration_since(start.0).unsigned_abs(),
            _ => Duration::ZERO,
        };
        if ran >= limits.forget {
            self.next_pause = None;
        }
        let pause = self.next_pause.unwrap_or(Duration::ZERO);
        self.next_pause = Some(if pause.is_zero() {
            limits.first
        } else {
            (pause * 2).min(limits.longest)
        });
        self.last = Some(terminated.clone());
        self.crashed = true;
        let message = format!(
            "back-off {pause:?} restarting failed container={} pod={pod}",
            self.spec.name
        );
        self.wait(
            "CrashLoopBackOff",
            Some(message),
            Some(Instant::now() + pause),
        );
        pause
    }

    /// The container as the API shows it.
    pub(super) fn status(&self) -> ContainerStatus {
        let state = match &self.state {
            State::Waiting {
                reason, message, ..
            } => ContainerState {
                waiting: Some(ContainerStateWaiting {
                    reason: Some(reason.clone()),
                    message: message.clone(),
                }),
                ..ContainerState::default()
            },
            State::Running { since, .. } => ContainerState {
                running: Some(ContainerStateRunning {
                    started_at: Some(Time(*since)),
                }),
                ..ContainerState::default()
            },
            State::Terminated(terminated) => ContainerState {
                terminated: Some(terminated.clone()),
                ..ContainerState::default()
            },
        };
        let last = self.last.clone();
        ContainerStatus {
            name: self.spec.name.clone(),
            image: self.spec.image.clone().unwrap_or_default(),
            image_id: self
                .id
                .as_ref()
                .map(|_| image_id(&self.spec))
                .unwrap_or_default(),
            container_id: self.id.clone(),
            restart_count: i32::try_from(self.restarts).unwrap_or(i32::MAX),
            ready: if self.init {
                self.has_succeeded()
            } else {
                self.ready
            },
            started: Some(self.is_running()),
            state: Some(state),
            last_state: last.map(|terminated| ContainerState {
                terminated: Some(terminated),
                ..ContainerState::default()
            }),
            ..ContainerStatus::default()
        }
    }
}

fn waiting_for(reason: &str) -> State {
    State::Waiting {
        reason: reason.to_owned(),
        message: None,
        due: Some(Instant::now()),
    }
}

fn image_id(spec: &Container) -> String {
    format!("eventlab://{}", spec.image.as_deref().unwrap_or_default())
}
