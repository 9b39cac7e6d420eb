//! The spec that a pass executes: merged with its template, refused or checked, its parameters filled in.

use serde_json::Value;

use super::super::merge::join_specs;
use super::super::spec::{Spec, without_nulls};
use super::super::status::{Phase, text};
use super::super::substitute::replace;
use super::super::validate::{Subject, validate};
use super::super::{globals, unsupported};
use super::{Operation, Step, Stop};
use crate::embedded::misfit;

const TEMPLATE_LABEL: &str = "workflows.argoproj.io/workflow-template";

impl Operation<'_> {
    /// Merges, refuses, checks and fills in the spec.
    pub(super) fn set_executed_spec(&mut self) -> Step {
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
        match misfit::typed(raw) {
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
