//! Executes one template for one node: inputs, time limits, locks, retries, then its kind.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::arguments::{Arguments, parse, process, substitute};
use super::locks::Request;
use super::nodes::{NewNode, pod_name};
use super::operation::Operation;
use super::spec::{Parameters, Synchronization, Template, duration};
use super::status::{NodeFlag, NodeSynchronization, NodeType, Phase};
use super::substitute::Scope;
use super::{MAX_DEPTH, TOO_DEEP};

/// Why a template could not be executed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExecError {
    /// A `timeout` is over.
    Timeout,
    TooDeep,
    Other(String),
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("timeout"),
            Self::TooDeep => f.write_str(TOO_DEEP),
            Self::Other(message) => f.write_str(message),
        }
    }
}

/// Where a node stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    /// Id of the enclosing steps node; empty for none.
    pub boundary: String,
    pub is_exit_handler: bool,
    pub flag: Option<NodeFlag>,
    /// Name of the step, for `{{steps.name}}`.
    pub step: Option<String>,
    /// A time limit that comes from `backoff.maxDuration`.
    pub limit: Option<Timestamp>,
}

/// A template ready to run.
pub(super) struct Prepared {
    pub json: Value,
    pub template: Template,
}

impl Operation<'_> {
    /// Executes a template as the node of this name. The node exists afterwards.
    pub(super) fn execute_template(
        &mut self,
        name: &str,
        template: &str,
        arguments: &Parameters,
        options: &Options,
    ) -> Result<(), ExecError> {
        if self.depth >= MAX_DEPTH {
            self.init_or_mark_error(
                &new_node(name, NodeType::Skipped, template, options),
                TOO_DEEP,
            );
            return Err(ExecError::TooDeep);
        }
        self.depth += 1;
        let outcome = self.execute_inside(name, template, arguments, options);
        self.depth -= 1;
        if outcome.is_err()
            && let Some(synced) = self
                .node_mut(name)
                .and_then(|node| node.task_result_synced.as_mut())
        {
            // No pod, no result.
            *synced = true;
        }
        outcome
    }

    fn execute_inside(
        &mut self,
        name: &str,
        template: &str,
        arguments: &Parameters,
        options: &Options,
    ) -> Result<(), ExecError> {
        if self.node(name).is_none() {
            self.log
                .info("Node was nil, will be initialized as type Skipped", &[]);
        }
        let prepared = match self.prepare_template(name, template, arguments, options) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.init_or_mark_error(
                    &new_node(name, NodeType::Skipped, template, options),
                    &error,
                );
                return Err(ExecError::Other(error));
            }
        };
        let locks = prepared.template.synchronization.clone();
        if self.node(name).is_some_and(|node| node.is_fulfilled()) {
            self.release_node_locks(name, locks.as_ref());
            return Ok(());
        }
        self.check_timeout(name, &prepared.template)?;
        if let Some(wanted) = &locks
            && !self.acquire_node_locks(name, wanted, &prepared, options)?
        {
            return Ok(());
        }
        let outcome = match self.retry_strategy(&prepared.template) {
            Some(strategy) => {
                self.execute_with_retries(name, arguments, &prepared, &strategy, options)
            }
            None => self.dispatch(name, &prepared, options),
        };
        if self.node(name).is_some_and(|node| node.is_fulfilled()) {
            self.release_node_locks(name, locks.as_ref());
        }
        outcome
    }

    fn prepare_template(
        &mut self,
        name: &str,
        template: &str,
        arguments: &Parameters,
        options: &Options,
    ) -> Result<Prepared, String> {
        let raw = self.spec.template(template).cloned();
        let raw =
            raw.ok_or_else(|| format!("template {template} not found in workflow template scope"))?;
        let mut locals = Scope::from([("node.name".to_owned(), name.to_owned())]);
        locals.extend(
            options
                .step
                .clone()
                .map(|step| ("steps.name".to_owned(), step)),
        );
        let retried = !raw["retryStrategy"].is_null() || self.spec.retry_strategy.is_some();
        if raw["container"].is_object() && !retried {
            locals.insert("pod.name".to_owned(), pod_name(self.name(), name, template));
        }
        let read = self.config_map_reader();
        let json = process(
            &raw,
            Arguments::Given(arguments),
            &self.globals,
            &locals,
            &read,
        )?;
        Ok(Prepared {
            template: parse(json.clone())?,
            json,
        })
    }

    /// Puts late variables into a template that has its inputs already.
    pub(super) fn with_locals(
        &self,
        prepared: &Prepared,
        locals: &Scope,
    ) -> Result<Prepared, String> {
        let json = substitute(&prepared.json, &self.globals, locals)?;
        Ok(Prepared {
            template: parse(json.clone())?,
            json,
        })
    }

    /// Runs the template by its kind.
    pub(super) fn dispatch(
        &mut self,
        name: &str,
        prepared: &Prepared,
        options: &Options,
    ) -> Result<(), ExecError> {
        if prepared.template.is_pod() {
            self.execute_container(name, prepared, options)
        } else if let Some(groups) = prepared.template.steps.clone() {
            self.execute_steps(name, &groups, prepared, options);
            Ok(())
        } else {
            let error = format!(
                "Template '{}' missing specification",
                prepared.template.name
            );
            let new = new_node(name, NodeType::Skipped, &prepared.template.name, options);
            self.init_or_mark_error(&new, &error);
            Err(ExecError::Other(error))
        }
    }

    /// Makes the node of an executable template, with its inputs.
    pub(super) fn init_executable(
        &mut self,
        name: &str,
        kind: NodeType,
        phase: Phase,
        prepared: &Prepared,
        options: &Options,
    ) {
        let new = NewNode {
            phase,
            ..new_node(name, kind, &prepared.template.name, options)
        };
        self.init_node(&new);
        let inputs = prepared
            .json
            .get("inputs")
            .filter(|inputs| inputs["parameters"].is_array())
            .cloned();
        if let Some(node) = self.node_mut(name) {
            node.inputs = inputs;
        }
    }

    /// Fails a node that has used up its template's `timeout`, and its pod with it.
    fn check_timeout(&mut self, name: &str, template: &Template) -> Result<(), ExecError> {
        let Some(started) = self.node(name).and_then(|node| node.started_at.clone()) else {
            return Ok(());
        };
        if template.timeout.is_empty() {
            return Ok(());
        }
        let allowed = duration(&template.timeout)
            .map_err(|error| ExecError::Other(format!("invalid timeout format {error}")))?;
        let allowed = SignedDuration::try_from(allowed).unwrap_or(SignedDuration::MAX);
        let Ok(deadline) = started.0.checked_add(allowed) else {
            return Ok(());
        };
        if self.world.now < deadline {
            self.look_again(self.until(deadline));
            return Ok(());
        }
        self.log.warn(
            "Template exceeded its deadline",
            &[("template", template.name.as_str())],
        );
        self.terminate_pod_of(name);
        self.mark(name, Phase::Failed, Some("timeout"));
        Err(ExecError::Timeout)
    }

    /// Takes a template's locks for a node; `false` when it waits for one.
    fn acquire_node_locks(
        &mut self,
        name: &str,
        wanted: &Synchronization,
        prepared: &Prepared,
        options: &Options,
    ) -> Result<bool, ExecError> {
        let request = self.lock_request(name);
        let locks = self.world.locks;
        match locks.acquire(
            &request,
            wanted,
            self.world.config_map,
            &mut self.wf.status.synchronization,
        ) {
            Ok(None) => {
                if let Some(node) = self
                    .node_mut(name)
                    .filter(|node| node.synchronization_status.is_some())
                {
                    node.synchronization_status = None;
                    node.message.clear();
                }
                Ok(true)
            }
            Ok(Some(waiting)) => {
                if self.node(name).is_none() {
                    let kind = if prepared.template.is_pod() {
                        NodeType::Pod
                    } else {
                        NodeType::Steps
                    };
                    self.init_executable(name, kind, Phase::Pending, prepared, options);
                }
                self.log.info(
                    "Could not acquire lock",
                    &[("lockName", waiting.lock.as_str())],
                );
                if let Some(node) = self.node_mut(name) {
                    node.synchronization_status = Some(NodeSynchronization {
                        waiting: waiting.lock,
                    });
                    node.message = waiting.message;
                }
                Ok(false)
            }
            Err(error) => {
                self.init_or_mark_error(
                    &new_node(name, NodeType::Skipped, &prepared.template.name, options),
                    &error,
                );
                Err(ExecError::Other(error))
            }
        }
    }

    fn release_node_locks(&mut self, name: &str, wanted: Option<&Synchronization>) {
        if wanted.is_none() {
            return;
        }
        let holder = self.lock_request(name).holder;
        if super::locks::forget(&mut self.wf.status.synchronization, &holder) {
            self.actions.release.push(holder);
        }
    }

    fn lock_request(&self, name: &str) -> Request {
        Request {
            namespace: self.namespace().to_owned(),
            holder: format!("{}/{}/{}", self.namespace(), self.name(), self.id_of(name)),
            priority: self.spec.priority.unwrap_or(0),
            created: self.wf.meta.creation_timestamp.clone().map(|time| time.0),
        }
    }
}

/// A node that is about to be.
pub(super) fn new_node<'a>(
    name: &'a str,
    kind: NodeType,
    template: &'a str,
    options: &'a Options,
) -> NewNode<'a> {
    NewNode {
        name,
        kind,
        template,
        boundary: &options.boundary,
        phase: Phase::Error,
        flag: options.flag,
        message: "",
    }
}
