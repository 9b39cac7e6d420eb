//! One pass over a Workflow: what is known goes in, the next state and what is to be done come out.
//!
//! A pass talks to nobody. [`Operation::begin`] brings the Workflow up to what its pods and results say,
//! [`Operation::execute`] answers the pods that must be made now, [`Operation::submitted`] takes what became
//! of each, and [`Operation::finish`] gives the new object. `execute` is called until it wants no more pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DynamicObject, ObjectMeta, TypeMeta};
use serde_json::{Value, json};

use super::locks::{Locks, Request};
use super::log::Log;
use super::merge::join_specs;
use super::nodes::on_exit_name;
use super::spec::{RetryStrategy, Spec, Template, without_nulls};
use super::status::{NodeFlag, Phase, Status, text};
use super::substitute::{Scope, replace};
use super::template::Options;
use super::validate::{Subject, validate};
use super::{globals, progress, unsupported};
use crate::embedded::controllers::runtime::events::EventType;
use crate::embedded::controllers::runtime::objects::seconds;

/// Label with the phase.
pub(super) const PHASE_LABEL: &str = "workflows.argoproj.io/phase";
/// Label that says whether a Workflow, or a pod of one, is done with.
pub(super) const COMPLETED_LABEL: &str = "workflows.argoproj.io/completed";
const TEMPLATE_LABEL: &str = "workflows.argoproj.io/workflow-template";
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

    /// Merges, refuses, checks and fills in the spec.
    fn set_executed_spec(&mut self) -> Step {
        let raw = self.merged_spec()?;
        if let Some(refusal) = unsupported::refusal(&raw) {
            return self.end(Phase::Error, &refusal);
        }
        let spec = self.parse(&raw)?;
        if self.wf.status.phase.is_none() {
            self.check(&spec)?;
        }
        let read = self.config_map_reader();
        let globals = globals::globals(&self.wf.meta, &spec, &read);
        drop(read);
        match globals {
            Ok(globals) => self.globals = globals,
            Err(error) => {
                return self.end(
                    Phase::Failed,
                    &format!("failed to set global parameters: {error}"),
                );
            }
        }
        self.raw_spec = self.with_globals(raw)?;
        self.spec = self.parse(&self.raw_spec.clone())?;
        if self.wf.status.phase.is_none() {
            self.add_metadata()?;
        }
        self.globals.insert(
            "workflow.status".to_owned(),
            text(self.wf.status.phase).to_owned(),
        );
        self.globals
            .insert("workflow.duration".to_owned(), self.duration_text());
        Ok(())
    }

    fn merged_spec(&mut self) -> Result<Value, Stop> {
        let own = without_nulls(&self.wf.spec);
        let Some(name) = own["workflowTemplateRef"]["name"]
            .as_str()
            .map(str::to_owned)
        else {
            return Ok(own);
        };
        if own["workflowTemplateRef"]["clusterScope"] == true {
            return Ok(own);
        }
        self.wf
            .meta
            .labels
            .get_or_insert_default()
            .insert(TEMPLATE_LABEL.to_owned(), name.clone());
        let changed = |stored: &Value| {
            let differs = |field: &str| own.get(field) != stored.get(field);
            differs("suspend") || differs("shutdown")
        };
        match self.wf.status.stored_workflow_template_spec.clone() {
            Some(stored) if !changed(&stored) => return Ok(stored),
            Some(stored) => {
                self.wf.status.stored_workflow_template_spec = Some(join_specs(&own, &stored))
            }
            None => match (self.world.find_template)(&name) {
                Some(template) => {
                    let merged = join_specs(&own, &without_nulls(&template));
                    self.wf.status.stored_workflow_template_spec = Some(merged);
                }
                None => {
                    let error = format!("workflowtemplates.argoproj.io \"{name}\" not found");
                    self.log
                        .error("Unable to set ExecWorkflow", &[("error", error.as_str())]);
                    self.end(Phase::Error, &error)?;
                }
            },
        }
        Ok(self
            .wf
            .status
            .stored_workflow_template_spec
            .clone()
            .unwrap_or_default())
    }

    fn parse(&mut self, raw: &Value) -> Result<Spec, Stop> {
        match serde_json::from_value(raw.clone()) {
            Ok(spec) => Ok(spec),
            Err(error) => {
                Err(self.ended(Phase::Failed, &format!("cannot unmarshall spec: {error}")))
            }
        }
    }

    fn check(&mut self, spec: &Spec) -> Step {
        let reference = self.wf.spec["workflowTemplateRef"]["name"].as_str();
        let own_templates = self.wf.spec["templates"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
        let checked = if reference.is_some() && own_templates {
            Err("Templates is invalid field in spec if workflow referred WorkflowTemplate reference".to_owned())
        } else {
            validate(&Subject {
                meta: &self.wf.meta,
                spec,
                template_ref: reference,
            })
        };
        match checked {
            Ok(()) => Ok(()),
            Err(error) => self.end(Phase::Failed, &format!("invalid spec: {error}")),
        }
    }

    /// Globals go into everything but the templates, which get theirs when they are executed.
    fn with_globals(&mut self, mut raw: Value) -> Result<Value, Stop> {
        let templates = raw
            .as_object_mut()
            .and_then(|fields| fields.shift_remove("templates"));
        let mut raw = match replace(&raw, &self.globals, &[]) {
            Ok(raw) => raw,
            Err(error) => return Err(self.ended(Phase::Error, &error.to_string())),
        };
        if let Some(templates) = templates {
            raw["templates"] = templates;
        }
        Ok(raw)
    }

    fn add_metadata(&mut self) -> Step {
        let metadata = self.spec.workflow_metadata.clone();
        if let Some((key, value)) = metadata
            .labels
            .iter()
            .find(|(_, value)| !is_label_value(value))
        {
            return self.end(
                Phase::Error,
                &format!("invalid label value \"{value}\" for label \"{key}\""),
            );
        }
        if !metadata.labels.is_empty() {
            self.wf
                .meta
                .labels
                .get_or_insert_default()
                .extend(metadata.labels);
        }
        if !metadata.annotations.is_empty() {
            self.wf
                .meta
                .annotations
                .get_or_insert_default()
                .extend(metadata.annotations);
        }
        Ok(())
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

    /// Ends the Workflow and the pass.
    fn end(&mut self, phase: Phase, message: &str) -> Step {
        Err(self.ended(phase, message))
    }

    fn ended(&mut self, phase: Phase, message: &str) -> Stop {
        self.mark_workflow(phase, message);
        Stop
    }

    /// Sets the phase of the Workflow, with everything that hangs on it.
    pub(super) fn mark_workflow(&mut self, phase: Phase, message: &str) {
        let waits = self
            .wf
            .status
            .nodes
            .values()
            .any(|node| node.task_result_synced == Some(false));
        if phase.is_completed() && waits {
            return;
        }
        if self.wf.status.phase != Some(phase) {
            self.change_phase(phase, message);
        }
        if self.wf.status.started_at.is_none() && phase != Phase::Pending {
            self.wf.status.started_at = Some(Time(self.now()));
        }
        if self.wf.status.message != message {
            let fields = [
                ("fromMessage", self.wf.status.message.as_str()),
                ("toMessage", message),
            ];
            self.log.info("updated message", &fields);
            message.clone_into(&mut self.wf.status.message);
        }
        if phase == Phase::Error {
            let name = self.name().to_owned();
            if let Some(entry) = self
                .node_mut(&name)
                .filter(|node| node.phase == Some(Phase::Running))
            {
                entry.phase = Some(Phase::Error);
                "Workflow operation error".clone_into(&mut entry.message);
            }
        }
        if phase.is_completed() {
            self.complete();
        }
    }

    fn change_phase(&mut self, phase: Phase, message: &str) {
        let fields = [
            ("fromPhase", text(self.wf.status.phase)),
            ("toPhase", phase.as_str()),
        ];
        self.log.info("updated phase", &fields);
        self.wf.status.phase = Some(phase);
        let labels = self.wf.meta.labels.get_or_insert_default();
        labels.insert(PHASE_LABEL.to_owned(), phase.as_str().to_owned());
        labels
            .entry(COMPLETED_LABEL.to_owned())
            .or_insert_with(|| "false".to_owned());
        let (kind, reason, message) = match phase {
            Phase::Running => (EventType::Normal, "WorkflowRunning", "Workflow Running"),
            Phase::Succeeded => (EventType::Normal, "WorkflowSucceeded", "Workflow completed"),
            Phase::Failed | Phase::Error => (EventType::Warning, "WorkflowFailed", message),
            _ => return,
        };
        self.note(kind, reason, message, BTreeMap::new());
    }

    fn complete(&mut self) {
        self.log.info("Marking workflow completed", &[]);
        self.wf.status.finished_at = Some(Time(self.now()));
        let labels = self.wf.meta.labels.get_or_insert_default();
        labels.insert(COMPLETED_LABEL.to_owned(), "true".to_owned());
        self.wf.status.set_condition("Completed", true);
        if self.wf.status.synchronization.take().is_some() {
            self.actions
                .release
                .push(format!("{}/{}", self.namespace(), self.name()));
        }
        self.is_stopped = true;
    }

    fn note(
        &mut self,
        kind: EventType,
        reason: &str,
        message: &str,
        annotations: BTreeMap<String, String>,
    ) {
        let note = Note {
            kind,
            reason: reason.to_owned(),
            message: message.to_owned(),
            annotations,
        };
        self.actions.notes.push(note);
    }

    /// The new object, and what is to be done beside writing it.
    pub(super) fn finish(mut self, before: &Workflow) -> (Workflow, Spec, Actions) {
        progress::update(&mut self.wf.status);
        self.note_node_changes(before);
        (self.wf, self.spec, self.actions)
    }

    /// An Event for each node that began to run or ended, as upstream records them.
    fn note_node_changes(&mut self, before: &Workflow) {
        let mut changes = Vec::new();
        for (id, node) in &self.wf.status.nodes {
            let old = before.status.nodes.get(id).map(|node| node.phase);
            let (ran, ended) = (node.phase == Some(Phase::Running), node.is_completed());
            if old == Some(node.phase) {
                continue;
            }
            if ended && old.is_none_or(|phase| phase == Some(Phase::Pending)) {
                changes.push((node.clone(), Phase::Running));
            }
            if let Some(phase) = node.phase.filter(|_| ran || ended || old.is_some()) {
                changes.push((node.clone(), phase));
            }
        }
        for (node, phase) in changes {
            let message = if node.message.is_empty() {
                String::new()
            } else {
                format!(": {}", node.message)
            };
            let good = matches!(phase, Phase::Running | Phase::Succeeded);
            let kind = if good {
                EventType::Normal
            } else {
                EventType::Warning
            };
            let type_text = serde_json::to_value(node.kind)
                .ok()
                .and_then(|kind| kind.as_str().map(str::to_owned));
            let annotations = BTreeMap::from([
                (
                    "workflows.argoproj.io/node-type".to_owned(),
                    type_text.unwrap_or_default(),
                ),
                (
                    "workflows.argoproj.io/node-name".to_owned(),
                    node.name.clone(),
                ),
                ("workflows.argoproj.io/node-id".to_owned(), node.id.clone()),
            ]);
            let reason = format!("WorkflowNode{}", phase.as_str());
            self.note(
                kind,
                &reason,
                &format!("{} node {}{message}", phase.as_str(), node.name),
                annotations,
            );
        }
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

/// A label value of Kubernetes: at most 63 characters, letters and digits at both ends.
fn is_label_value(value: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= 63
        && value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && edge(value.chars().next())
        && edge(value.chars().last())
}
