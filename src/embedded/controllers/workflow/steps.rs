//! Steps templates: groups one after another, the steps of a group side by side.

use serde_json::{Value, json};

use super::nodes::NewNode;
use super::operation::Operation;
use super::spec::Step;
use super::status::{NodeFlag, NodeType, Outputs, Phase};
use super::substitute::{Scope, SubstituteError, replace, replace_text};
use super::template::{ExecError, Options, Prepared};

/// Variables that must have a value before a step may start.
const STRICT: [&str; 2] = ["steps", "tasks"];

impl Operation<'_> {
    /// Executes a steps template. Trouble is left on its nodes.
    pub(super) fn execute_steps(
        &mut self,
        name: &str,
        groups: &[Vec<Step>],
        prepared: &Prepared,
        options: &Options,
    ) {
        if self.node(name).is_none() {
            self.init_executable(name, NodeType::Steps, Phase::Running, prepared, options);
        } else if self
            .node(name)
            .is_some_and(|node| node.phase == Some(Phase::Pending))
        {
            self.mark(name, Phase::Running, None);
        }
        let mut scope = Scope::new();
        for (number, group) in groups.iter().enumerate() {
            let group_name = format!("{name}[{number}]");
            self.connect_group(name, &group_name, number);
            self.execute_group(name, &group_name, group, &scope, options);
            let Some(node) = self.node(&group_name) else {
                return;
            };
            if !node.is_fulfilled() {
                let id = node.id.clone();
                return self.log.info(
                    "Workflow step group node not yet completed",
                    &[("nodeID", id.as_str())],
                );
            }
            if node.is_bad() {
                let message = node.message.clone();
                self.set_outbound(name, groups.len());
                return self.mark(name, Phase::Failed, Some(&message));
            }
            for step in group {
                self.add_step_variables(&group_name, &step.name, &mut scope);
            }
        }
        self.set_outbound(name, groups.len());
        match self.outputs_of(prepared, &scope) {
            Ok(outputs) => {
                if let (Some(node), Some(outputs)) = (self.node_mut(name), outputs) {
                    node.outputs = Some(outputs);
                }
                self.mark(name, Phase::Succeeded, None);
            }
            Err(error) => self.mark_error(name, &error),
        }
    }

    /// Makes a group's node, and hangs it below what came before.
    fn connect_group(&mut self, name: &str, group: &str, number: usize) {
        match self.node(group).map(|node| node.is_fulfilled()) {
            None => {
                let boundary = self.id_of(name);
                self.init_node(&NewNode {
                    name: group,
                    kind: NodeType::StepGroup,
                    template: "",
                    boundary: &boundary,
                    phase: Phase::Running,
                    flag: Some(NodeFlag::default()),
                    message: "",
                });
            }
            Some(false) => self.mark(group, Phase::Running, None),
            Some(true) => {}
        }
        if number == 0 {
            return self.add_child(name, group);
        }
        let before = format!("{name}[{}]", number - 1);
        let children = self
            .node(&before)
            .map(|node| node.children.clone())
            .unwrap_or_default();
        if children.is_empty() {
            return self.add_child(&before, group);
        }
        let parents: Vec<String> = children
            .iter()
            .flat_map(|child| self.outbound(child))
            .collect();
        let names: Vec<String> = parents
            .iter()
            .filter_map(|id| self.by_id(id))
            .map(|node| node.name.clone())
            .collect();
        names
            .iter()
            .for_each(|parent| self.add_child(parent, group));
    }

    /// The nodes that the last group which was started ends at.
    fn set_outbound(&mut self, name: &str, groups: usize) {
        let last = (0..groups)
            .rev()
            .map(|number| format!("{name}[{number}]"))
            .find(|group| self.node(group).is_some());
        let children = last
            .and_then(|group| self.node(&group))
            .map(|node| node.children.clone())
            .unwrap_or_default();
        let outbound = children
            .iter()
            .flat_map(|child| self.outbound(child))
            .collect();
        if let Some(node) = self.node_mut(name) {
            node.outbound_nodes = outbound;
        }
    }

    fn execute_group(
        &mut self,
        name: &str,
        group: &str,
        steps: &[Step],
        scope: &Scope,
        options: &Options,
    ) {
        let id = self.id_of(group);
        if self.by_id(&id).is_some_and(|node| node.is_fulfilled()) && self.children_fulfilled(&id) {
            return;
        }
        let steps = match self.resolve_steps(steps, scope) {
            Ok(steps) => steps,
            // What is not known yet comes with a later change.
            Err(SubstituteError::Missing(_)) => return,
            Err(error) => {
                return self.mark_error(group, &format!("failed to resolve references: {error}"));
            }
        };
        for step in &steps {
            if !self.execute_step(name, group, step, options) {
                return;
            }
        }
        self.conclude_group(group, &steps);
    }

    /// Puts the outputs of former steps into the steps of a group.
    fn resolve_steps(&self, steps: &[Step], scope: &Scope) -> Result<Vec<Step>, SubstituteError> {
        let mut all = self.globals.clone();
        all.extend(scope.clone());
        let resolve = |step: &Step| {
            let value = serde_json::to_value(step).unwrap_or_default();
            let resolved = replace(&value, &all, &STRICT)?;
            Ok(serde_json::from_value(resolved).unwrap_or_else(|_| step.clone()))
        };
        steps.iter().map(resolve).collect()
    }

    /// Starts or follows one step; `false` when the group has ended over it.
    fn execute_step(&mut self, name: &str, group: &str, step: &Step, options: &Options) -> bool {
        let child = format!("{group}.{}", step.name);
        let options = Options {
            boundary: self.id_of(name),
            is_exit_handler: options.is_exit_handler,
            step: Some(step.name.clone()),
            ..Options::default()
        };
        match self.execute_template(&child, &step.template, &step.arguments, &options) {
            Ok(()) | Err(ExecError::TooDeep) => {
                if self.node(&child).is_some() {
                    self.add_child(group, &child);
                }
                true
            }
            Err(ExecError::Timeout) => {
                self.add_child(group, &child);
                self.mark(group, Phase::Failed, Some("timeout"));
                false
            }
            Err(ExecError::Other(error)) => {
                self.add_child(group, &child);
                self.mark_error(
                    group,
                    &format!("step group deemed errored due to child {child} error: {error}"),
                );
                false
            }
        }
    }

    /// Ends a group whose steps have all ended.
    fn conclude_group(&mut self, group: &str, steps: &[Step]) {
        let Some(node) = self.node(group) else { return };
        let (id, children) = (node.id.clone(), node.children.clone());
        if !children
            .iter()
            .filter_map(|child| self.by_id(child))
            .all(|child| child.is_fulfilled())
        {
            if self.node(group).is_some_and(|node| node.is_fulfilled()) {
                self.mark(group, Phase::Running, None);
            }
            return;
        }
        let excused = |name: &str, phase: Option<Phase>| {
            let step = steps
                .iter()
                .find(|step| format!("{group}.{}", step.name) == name);
            step.is_some_and(|step| match phase {
                Some(Phase::Error) => step.continue_on.error,
                Some(Phase::Failed) => step.continue_on.failed,
                _ => false,
            })
        };
        let failed = children
            .iter()
            .filter_map(|child| self.by_id(child))
            .find(|child| child.is_bad() && !excused(&child.name, child.phase))
            .map(|child| child.id.clone());
        match failed {
            Some(child) => {
                let message = format!("child '{child}' failed");
                let fields = [("failMessage", message.as_str()), ("nodeID", id.as_str())];
                self.log.info("Step group node deemed failed", &fields);
                self.mark(group, Phase::Failed, Some(&message));
            }
            None => {
                self.log
                    .info("Step group node successful", &[("nodeID", id.as_str())]);
                self.mark(group, Phase::Succeeded, None);
            }
        }
    }

    /// What later steps may ask of a step: `steps.NAME.…`.
    fn add_step_variables(&self, group: &str, step: &str, scope: &mut Scope) {
        let Some(node) = self.node(&format!("{group}.{step}")) else {
            return;
        };
        // A retried step hands on what its last attempt has.
        let last = (node.kind == NodeType::Retry)
            .then(|| node.children.last())
            .flatten();
        let node = last.and_then(|id| self.by_id(id)).unwrap_or(node);
        let mut set = |field: &str, value: &str| {
            drop(scope.insert(format!("steps.{step}.{field}"), value.to_owned()))
        };
        set("id", &node.id);
        set("status", super::status::text(node.phase));
        for (field, time) in [
            ("startedAt", &node.started_at),
            ("finishedAt", &node.finished_at),
        ] {
            if let Some(time) = time {
                set(field, &time.0.to_string());
            }
        }
        if !node.host_node_name.is_empty() {
            set("hostNodeName", &node.host_node_name);
        }
        let Some(outputs) = &node.outputs else { return };
        if let Some(result) = &outputs.result {
            set("outputs.result", result);
        }
        if let Some(code) = &outputs.exit_code {
            set("exitCode", code);
        }
        for parameter in &outputs.parameters {
            if let (Some(name), Some(value)) =
                (parameter["name"].as_str(), parameter["value"].as_str())
            {
                set(&format!("outputs.parameters.{name}"), value);
            }
        }
    }

    /// The outputs of a steps template, taken from its steps.
    fn outputs_of(&self, prepared: &Prepared, scope: &Scope) -> Result<Option<Outputs>, String> {
        let wanted = &prepared.template.outputs.parameters;
        if wanted.is_empty() {
            return Ok(None);
        }
        let mut all = self.globals.clone();
        all.extend(scope.clone());
        let mut parameters: Vec<Value> = Vec::new();
        for output in wanted {
            let from = output
                .value_from
                .as_ref()
                .ok_or("output parameters must have a valueFrom specified")?;
            let value = match (replace_text(&from.parameter, &all, &STRICT), &from.default) {
                (Ok(value), _) => value,
                (Err(_), Some(default)) => default.0.clone(),
                (Err(_), None) => return Err(format!("Unable to resolve: \"{}\"", from.parameter)),
            };
            parameters.push(json!({"name": output.name, "value": value}));
        }
        Ok(Some(Outputs {
            parameters,
            ..Outputs::default()
        }))
    }
}
