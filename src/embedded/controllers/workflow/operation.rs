//! One pass over a Workflow: what is known goes in, the next state and what is to be done come out.
//!
//! A pass talks to nobody. [`Operation::begin`] brings the Workflow up to what its pods and results say,
//! [`Operation::execute`] answers the pods that must be made now, [`Operation::submitted`] takes what became
//! of each, and [`Operation::finish`] gives the new object. `execute` is called until it wants no more pods.

mod executed;
mod marks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ObjectMeta, TypeMeta};
use serde_json::{Value, json};

use super::locks::{Locks, Request};
use super::log::Log;
use super::nodes::on_exit_name;
use super::progress;
use super::spec::{RetryStrategy, Spec, Template};
use super::status::{NodeFlag, Phase, Status, text};
use super::substitute::Scope;
use super::template::Options;
use crate::embedded::controllers::runtime::events::EventType;
use crate::embedded::controllers::runtime::objects::seconds;

/// Label with the phase.
pub(super) const PHASE_LABEL: &str = "workflows.argoproj.io/phase";
/// Label that says whether a Workflow, or a pod of one, is done with.
pub(super) const COMPLETED_LABEL: &str = "workflows.argoproj.io/completed";
const POD_NAME_FORMAT: &str = "workflows.argoproj.io/pod-name-format";

/// A Workflow, its status typed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workflow {
    types: Option<TypeMeta>,
    pub meta: ObjectMeta,
    /// As it was submitted; never written.
    pub spec: Value,
    pub status: Status,
}

impl Workflow {
    /// Reads an object of the API.
    ///
    /// # Errors
    /// Its status is not one of a Workflow: the message says what does not fit.
    pub(super) fn from_object(object: &DynamicObject) -> Result<Self, String> {
        let status = match &object.data["status"] {
            Value::Null => Status::default(),
            status => serde_json::from_value(status.clone()).map_err(|error| error.to_string())?,
        };
        Ok(Self {
            types: object.types.clone(),
            meta: object.metadata.clone(),
            spec: object.data["spec"].clone(),
            status,
        })
    }

    /// The object for the API.
    pub(super) fn to_object(&self) -> DynamicObject {
        let status = serde_json::to_value(&self.status).unwrap_or_default();
        DynamicObject {
            types: self.types.clone(),
            metadata: self.meta.clone(),
            data: json!({"spec": self.spec, "status": status}),
        }
    }
}

/// Finds a WorkflowTemplate's spec in the Workflow's namespace, by name.
pub(super) type FindTemplate<'a> = dyn Fn(&str) -> Option<Value> + Send + Sync + 'a;
/// Reads a key of a ConfigMap: namespace, name, key.
pub(super) type ReadConfigMap<'a> =
    dyn Fn(&str, &str, &str) -> Result<String, String> + Send + Sync + 'a;

/// What a pass may look at.
pub(super) struct World<'a> {
    /// The Workflow's pods, by node id.
    pub pods: BTreeMap<String, Arc<Pod>>,
    /// The Workflow's task results, by node id.
    pub results: BTreeMap<String, Arc<DynamicObject>>,
    /// Pods that are being deleted and must not be judged yet, by uid, with the time that is left.
    pub on_hold: BTreeMap<String, Duration>,
    pub find_template: &'a FindTemplate<'a>,
    pub config_map: &'a ReadConfigMap<'a>,
    pub locks: &'a Locks,
    /// Delay of `podGC` where none is stated.
    pub pod_gc_delay: Duration,
    pub now: Timestamp,
}

/// A pod that must be made now.
#[derive(Debug)]
pub(super) struct PodPlan {
    pub node: String,
    pub pod: Box<Pod>,
}

/// What became of a [`PodPlan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Submission {
    Created,
    /// Refused for good: the node is in error.
    Refused(String),
    /// Not now: the node waits.
    Postponed(String),
}

/// A Kubernetes Event on the Workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub kind: EventType,
    pub reason: String,
    pub message: String,
    pub annotations: BTreeMap<String, String>,
}

/// What is to be done beside writing the Workflow.
#[derive(Debug, Default)]
pub(super) struct Actions {
    /// Pods whose containers must end.
    pub terminate: Vec<Arc<Pod>>,
    pub notes: Vec<Note>,
    /// Holder keys that give up their locks once the Workflow is written.
    pub release: Vec<String>,
    /// When the Workflow must be looked at again without any change.
    pub again: Option<Duration>,
}

/// One pass.
pub(super) struct Operation<'a> {
    pub wf: Workflow,
    pub(super) world: &'a World<'a>,
    pub(super) log: Log,
    /// The executed spec.
    pub(super) spec: Spec,
    pub(super) raw_spec: Value,
    pub(super) globals: Scope,
    pub(super) submissions: BTreeMap<String, Submission>,
    pub(super) plans: Vec<PodPlan>,
    pub(super) actions: Actions,
    pub(super) depth: usize,
    is_stopped: bool,
}

/// Whether a pass goes on.
type Step = Result<(), Stop>;
/// The pass is over.
pub(super) struct Stop;

impl<'a> Operation<'a> {
    /// Prepares a pass.
    pub(super) fn new(wf: Workflow, world: &'a World<'a>) -> Self {
        let log = Log::new(
            wf.meta.namespace.as_deref().unwrap_or_default(),
            wf.meta.name.as_deref().unwrap_or_default(),
        );
        Self {
            wf,
            world,
            log,
            spec: Spec::default(),
            raw_spec: Value::Null,
            globals: Scope::new(),
            submissions: BTreeMap::new(),
            plans: Vec::new(),
            actions: Actions::default(),
            depth: 0,
            is_stopped: false,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.wf.meta.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.wf.meta.namespace.as_deref().unwrap_or_default()
    }

    /// The time of this pass, to the second.
    pub(super) fn now(&self) -> Timestamp {
        seconds(self.world.now)
    }

    /// Asks for another look after so long.
    pub(super) fn look_again(&mut self, after: Duration) {
        self.actions.again = Some(self.actions.again.map_or(after, |other| other.min(after)));
    }

    /// How long until a time; zero if it has passed.
    pub(super) fn until(&self, time: Timestamp) -> Duration {
        Duration::try_from(time.duration_since(self.world.now)).unwrap_or_default()
    }

    /// Brings the Workflow up to what is known.
    pub(super) fn begin(&mut self) {
        self.is_stopped = self.prepare().is_err();
    }

    fn prepare(&mut self) -> Step {
        let version = self.wf.meta.resource_version.clone().unwrap_or_default();
        let fields = [
            ("phase", text(self.wf.status.phase)),
            ("resourceVersion", version.as_str()),
        ];
        self.log.info("Processing workflow", &fields);
        self.set_executed_spec()?;
        self.resolve_repository();
        self.fold_results();
        if self.is_labelled_completed() {
            return Err(Stop);
        }
        self.acquire_workflow_lock()?;
        if self.wf.status.phase.is_none() || self.is_waiting_for_lock() {
            self.mark_workflow(Phase::Running, "");
            let annotations = self.wf.meta.annotations.get_or_insert_default();
            annotations.insert(POD_NAME_FORMAT.to_owned(), "v2".to_owned());
        } else {
            self.judge_pods();
            self.fail_nodes_without_pods();
        }
        if let Some(deadline) = self.deadline() {
            let left = self.until(deadline);
            if !left.is_zero() {
                self.look_again(left);
            }
        }
        if self.spec.suspend {
            self.log.info("workflow suspended", &[]);
            return Err(Stop);
        }
        Ok(())
    }

    fn is_waiting_for_lock(&self) -> bool {
        self.wf.status.phase == Some(Phase::Pending)
    }

    pub(super) fn is_labelled_completed(&self) -> bool {
        let labels = self.wf.meta.labels.as_ref();
        labels
            .and_then(|labels| labels.get(COMPLETED_LABEL))
            .is_some_and(|value| value == "true")
    }

    pub(super) fn config_map_reader(
        &self,
    ) -> impl Fn(&str, &str) -> Result<String, String> + use<'a> {
        let (world, namespace) = (self.world, self.namespace().to_owned());
        move |name: &str, key: &str| (world.config_map)(&namespace, name, key)
    }

    fn resolve_repository(&mut self) {
        if self.wf.status.artifact_repository_ref.is_none() {
            self.log.info(
                "resolved artifact repository",
                &[("artifactRepositoryRef", "default-artifact-repository")],
            );
            self.wf.status.artifact_repository_ref =
                Some(json!({"artifactRepository": {}, "default": true}));
        }
    }

    /// Takes the Workflow's own locks, or waits.
    fn acquire_workflow_lock(&mut self) -> Step {
        let Some(wanted) = self.spec.synchronization.clone() else {
            return Ok(());
        };
        let request = Request {
            namespace: self.namespace().to_owned(),
            holder: format!("{}/{}", self.namespace(), self.name()),
            priority: self.spec.priority.unwrap_or(0),
            created: self.wf.meta.creation_timestamp.clone().map(|time| time.0),
        };
        match self.world.locks.acquire(
            &request,
            &wanted,
            self.world.config_map,
            &mut self.wf.status.synchronization,
        ) {
            Ok(None) => Ok(()),
            Ok(Some(waiting)) => {
                if self.spec.shutdown == "Terminate" && self.wf.status.phase == Some(Phase::Pending)
                {
                    self.actions.release.push(request.holder);
                    return self.end(Phase::Failed, "Stopped with strategy 'Terminate'");
                }
                self.log.warn(
                    "Workflow processing has been postponed due to concurrency limit",
                    &[],
                );
                let phase = self.wf.status.phase.unwrap_or(Phase::Pending);
                self.mark_workflow(phase, &waiting.message);
                Err(Stop)
            }
            Err(error) => {
                self.log
                    .warn("Failed to acquire the lock", &[("error", error.as_str())]);
                self.end(
                    Phase::Failed,
                    &format!("Failed to acquire the synchronization lock. {error}"),
                )
            }
        }
    }

    /// When `activeDeadlineSeconds` are over.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let (allowed, started) = (
            self.spec.active_deadline_seconds?,
            self.wf.status.started_at.as_ref()?,
        );
        started
            .0
            .checked_add(SignedDuration::from_secs(allowed))
            .ok()
    }

    pub(super) fn is_past_deadline(&self) -> bool {
        self.deadline()
            .is_some_and(|deadline| self.world.now >= deadline)
    }

    /// The asked-for shutdown, if there is one.
    pub(super) fn shutdown(&self) -> Option<&str> {
        Some(self.spec.shutdown.as_str()).filter(|strategy| !strategy.is_empty())
    }

    /// Whether a node may still be executed: `Stop` leaves the exit handler alone, `Terminate` nothing.
    pub(super) fn may_execute(&self, is_exit_handler: bool) -> bool {
        match self.shutdown() {
            None => true,
            Some("Stop") => is_exit_handler,
            Some(_) => false,
        }
    }

    /// Executes what can be, and answers the pods that must be made for it.
    pub(super) fn execute(&mut self) -> Vec<PodPlan> {
        if !self.is_stopped && !self.wf.status.is_fulfilled() {
            self.run_entrypoint();
        }
        std::mem::take(&mut self.plans)
    }

    /// Takes what became of a pod.
    pub(super) fn submitted(&mut self, node: &str, submission: Submission) {
        self.submissions.insert(node.to_owned(), submission);
    }

    fn run_entrypoint(&mut self) {
        let (name, entrypoint) = (self.name().to_owned(), self.spec.entrypoint.clone());
        let arguments = self.spec.arguments.clone();
        match self.execute_template(&name, &entrypoint, &arguments, &Options::default()) {
            Ok(()) => {}
            Err(error) => {
                let message = format!("error in entry template execution: {error}");
                self.log.error(
                    "error in entry template execution",
                    &[("error", error.to_string().as_str())],
                );
                return self.mark_workflow(Phase::Error, &message);
            }
        }
        let Some(node) = self.node(&name).filter(|node| node.is_fulfilled()) else {
            return;
        };
        let (phase, mut message) = (node.phase.unwrap_or(Phase::Error), node.message.clone());
        if let (true, Some(strategy)) = (phase.is_bad(), self.shutdown()) {
            message = format!("Stopped with strategy '{strategy}'");
        }
        let phase = if phase.is_bad() {
            phase
        } else {
            Phase::Succeeded
        };
        let exit = match self.run_exit_handler(phase) {
            ExitHandler::Running => return,
            ExitHandler::None => None,
            ExitHandler::Done(phase, message) => Some((phase, message)),
        };
        match (phase, exit) {
            // A failing exit handler spoils a success; it never rescues a failure.
            (Phase::Succeeded, Some((exit, message))) if exit.is_bad() => {
                self.mark_workflow(exit, &message)
            }
            (Phase::Succeeded, _) => self.mark_workflow(Phase::Succeeded, ""),
            (phase, _) => self.mark_workflow(phase, &message),
        }
    }

    fn run_exit_handler(&mut self, phase: Phase) -> ExitHandler {
        let template = self.spec.on_exit.clone();
        let name = on_exit_name(self.name());
        if template.is_empty() || (self.node(&name).is_none() && !self.may_execute(true)) {
            return ExitHandler::None;
        }
        self.globals
            .insert("workflow.status".to_owned(), phase.as_str().to_owned());
        self.globals
            .insert("workflow.failures".to_owned(), self.failures());
        self.log
            .info("Running OnExit handler", &[("onExit", template.as_str())]);
        let options = Options {
            is_exit_handler: true,
            flag: Some(NodeFlag {
                hooked: true,
                retried: false,
            }),
            ..Options::default()
        };
        let arguments = self.spec.arguments.clone();
        match self.execute_template(&name, &template, &arguments, &options) {
            Ok(()) => {}
            Err(error) => {
                self.mark_workflow(
                    Phase::Error,
                    &format!("error in exit template execution : {error}"),
                );
                return ExitHandler::Running;
            }
        }
        match self.node(&name).filter(|node| node.is_fulfilled()) {
            Some(node) => {
                ExitHandler::Done(node.phase.unwrap_or(Phase::Error), node.message.clone())
            }
            None => ExitHandler::Running,
        }
    }

    /// The nodes that ended badly, as JSON inside a JSON text.
    fn failures(&self) -> String {
        let failed = self.wf.status.nodes.values().filter(|node| node.is_bad());
        let list: Vec<Value> = failed
            .map(|node| {
                json!({
                    "displayName": node.display_name,
                    "message": node.message,
                    "templateName": node.template_name,
                    "phase": text(node.phase),
                    "podName": super::nodes::pod_name(self.name(), &node.name, &node.template_name),
                    "finishedAt": node.finished_at,
                })
            })
            .collect();
        let list = if list.is_empty() {
            "null".to_owned()
        } else {
            json!(list).to_string()
        };
        json!(list).to_string()
    }

    fn duration_text(&self) -> String {
        let started = self
            .wf
            .status
            .started_at
            .as_ref()
            .map(|time| self.world.now.duration_since(time.0));
        format!("{:.6}", started.unwrap_or_default().as_secs_f64())
    }

    /// The new object, and what is to be done beside writing it.
    pub(super) fn finish(mut self, before: &Workflow) -> (Workflow, Spec, Actions) {
        progress::update(&mut self.wf.status);
        self.note_node_changes(before);
        (self.wf, self.spec, self.actions)
    }

    /// The strategy of a template: its own, or the Workflow's.
    pub(super) fn retry_strategy(&self, template: &Template) -> Option<RetryStrategy> {
        template
            .retry_strategy
            .clone()
            .or_else(|| self.spec.retry_strategy.clone())
    }
}

/// How far the exit handler is.
enum ExitHandler {
    None,
    Running,
    Done(Phase, String),
}
