//! The pod of a node: containers `init`, `wait` and `main`, volumes, identity, time limits.
//!
//! The command of `main` stays as the template states it: the node runs it under the executor's rules
//! without the wrapper `argoexec emissary` in front.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value, json};

use super::nodes::pod_name;
use super::operation::{COMPLETED_LABEL, Operation, PodPlan, Submission};
use super::spec::duration;
use super::status::{NodeType, Phase};
use super::template::{ExecError, Options, Prepared};
use crate::embedded::misfit;
use crate::kinds::ARGO_EXEC_IMAGE;

/// Label of pods and task results with the Workflow's name.
pub(super) const WORKFLOW_LABEL: &str = "workflows.argoproj.io/workflow";
/// Annotation of pods with their node's id.
pub(super) const NODE_ID: &str = "workflows.argoproj.io/node-id";
const NODE_NAME: &str = "workflows.argoproj.io/node-name";
/// Label of the exit handler's pods.
pub(super) const ON_EXIT_LABEL: &str = "workflows.argoproj.io/on-exit";
const POD_GC: &str = "workflows.argoproj.io/pod-gc-strategy";
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// What the executor and `main` share.
const SHARED: (&str, &str) = ("var-run-argo", "/var/run/argo");
/// Go's zero time: no deadline.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Fields that a pod takes from the template, else from the Workflow.
const POD_FIELDS: [(&str, &str); 9] = [
    ("nodeSelector", "nodeSelector"),
    ("tolerations", "tolerations"),
    ("affinity", "affinity"),
    ("securityContext", "securityContext"),
    ("schedulerName", "schedulerName"),
    ("hostAliases", "hostAliases"),
    ("imagePullSecrets", "imagePullSecrets"),
    ("dnsPolicy", "dnsPolicy"),
    ("hostNetwork", "hostNetwork"),
];

impl Operation<'_> {
    /// Executes a container template: makes its node, and its pod unless there is one.
    pub(super) fn execute_container(
        &mut self,
        name: &str,
        prepared: &Prepared,
        options: &Options,
    ) -> Result<(), ExecError> {
        if self.node(name).is_none() {
            self.init_executable(name, NodeType::Pod, Phase::Pending, prepared, options);
        }
        if self.node(name).is_some_and(|node| node.is_fulfilled())
            || self.world.pods.contains_key(&self.id_of(name))
        {
            return Ok(());
        }
        match self.submissions.get(name).cloned() {
            Some(Submission::Created) => return Ok(()),
            Some(Submission::Postponed(why)) => {
                self.log.info(
                    "marking node as pending",
                    &[("error", why.as_str()), ("nodeName", name)],
                );
                self.mark(name, Phase::Pending, Some(&why));
                return Ok(());
            }
            Some(Submission::Refused(why)) => return Err(self.refused(name, why)),
            None => {}
        }
        if !self.may_execute(options.is_exit_handler) {
            let message = format!(
                "workflow shutdown with strategy: {}",
                self.shutdown().unwrap_or_default()
            );
            self.mark(name, Phase::Failed, Some(&message));
            return Ok(());
        }
        if self.is_past_deadline() && !options.is_exit_handler {
            self.mark(name, Phase::Failed, Some("Step exceeded its deadline"));
            return Ok(());
        }
        match self.build_pod(name, prepared, options) {
            Ok(pod) => {
                self.plans.push(PodPlan {
                    node: name.to_owned(),
                    pod: Box::new(pod),
                });
                Ok(())
            }
            Err(error) => Err(self.refused(name, error)),
        }
    }

    fn refused(&mut self, name: &str, error: String) -> ExecError {
        self.mark_error(name, &error);
        ExecError::Other(error)
    }

    fn build_pod(&self, name: &str, prepared: &Prepared, options: &Options) -> Result<Pod, String> {
        let template = &prepared.template;
        let mut spec = json!({
            "restartPolicy": "Never",
            "volumes": self.volumes(prepared)?,
            "initContainers": [self.executor("init", name, prepared, options)],
            "containers": [self.executor("wait", name, prepared, options), self.main(name, prepared, options)?],
        });
        let account = [
            &template.service_account_name,
            &self.spec.service_account_name,
        ];
        if let Some(account) = account.into_iter().find(|account| !account.is_empty()) {
            spec["serviceAccountName"] = json!(account);
        }
        let automount = template
            .automount_service_account_token
            .or(self.spec.automount_service_account_token);
        if automount == Some(false) {
            return Err("executor.serviceAccountName must not be empty if automountServiceAccountToken is false".into());
        }
        if let Some(seconds) = self.active_deadline(name, prepared, options)? {
            spec["activeDeadlineSeconds"] = json!(seconds);
        }
        self.copy_fields(prepared, &mut spec);
        let pod = json!({"metadata": self.pod_metadata(name, prepared, options), "spec": spec});
        misfit::typed(&pod).map_err(|error| format!("templates.{}: {error}", template.name))
    }

    fn copy_fields(&self, prepared: &Prepared, spec: &mut Value) {
        for (field, target) in POD_FIELDS {
            let value = [&prepared.json, &self.raw_spec]
                .into_iter()
                .find_map(|from| from.get(field));
            if let Some(value) = value.filter(|value| !value.is_null()) {
                spec[target] = value.clone();
            }
        }
        let priority = prepared
            .json
            .get("priorityClassName")
            .or(self.raw_spec.get("podPriorityClassName"));
        if let Some(priority) = priority {
            spec["priorityClassName"] = priority.clone();
        }
    }

    fn pod_metadata(&self, name: &str, prepared: &Prepared, options: &Options) -> Value {
        let template = &prepared.template;
        let mut labels = BTreeMap::from([
            (WORKFLOW_LABEL.to_owned(), self.name().to_owned()),
            (COMPLETED_LABEL.to_owned(), "false".to_owned()),
        ]);
        if options.is_exit_handler {
            labels.insert(ON_EXIT_LABEL.to_owned(), "true".to_owned());
        }
        let mut annotations = BTreeMap::from([
            (NODE_NAME.to_owned(), name.to_owned()),
            (NODE_ID.to_owned(), self.id_of(name)),
            (DEFAULT_CONTAINER.to_owned(), "main".to_owned()),
        ]);
        if let Some(gc) = &self.spec.pod_gc {
            let delay = super::cleanup::gc_delay(gc).unwrap_or(self.world.pod_gc_delay);
            annotations.insert(POD_GC.to_owned(), format!("{}/{delay:?}", gc.strategy));
        }
        for metadata in [&self.spec.pod_metadata, &template.metadata] {
            labels.extend(metadata.labels.clone());
            annotations.extend(metadata.annotations.clone());
        }
        json!({
            "name": pod_name(self.name(), name, &template.name),
            "namespace": self.namespace(),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [self.owner()],
        })
    }

    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: "argoproj.io/v1alpha1".to_owned(),
            kind: "Workflow".to_owned(),
            name: self.name().to_owned(),
            uid: self.wf.meta.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// The volumes of the executor, of the template, and those of the Workflow that a mount names.
    fn volumes(&self, prepared: &Prepared) -> Result<Vec<Value>, String> {
        let mut volumes = vec![
            json!({"name": SHARED.0, "emptyDir": {}}),
            json!({"name": "tmp-dir-argo", "emptyDir": {}}),
        ];
        volumes.extend(prepared.template.volumes.clone());
        for mount in prepared.json["container"]["volumeMounts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let name = &mount["name"];
            if volumes.iter().any(|volume| &volume["name"] == name) {
                continue;
            }
            let found = self
                .spec
                .volumes
                .iter()
                .find(|volume| &volume["name"] == name);
            let missing = || {
                format!(
                    "volume '{}' not found in workflow spec",
                    name.as_str().unwrap_or_default()
                )
            };
            volumes.push(found.cloned().ok_or_else(missing)?);
        }
        Ok(volumes)
    }

    /// Seconds that the pod may run: the least of what the Workflow has left and the template allows.
    fn active_deadline(
        &self,
        name: &str,
        prepared: &Prepared,
        options: &Options,
    ) -> Result<Option<i64>, String> {
        let left = |time: Timestamp| {
            i64::try_from(self.until(time).as_secs())
                .unwrap_or(i64::MAX)
                .max(1)
        };
        let own = match &prepared.template.active_deadline_seconds {
            Some(text) => {
                let parsed: i64 = text
                    .0
                    .parse()
                    .map_err(|_| format!("activeDeadlineSeconds: {:?} is not a number", text.0))?;
                Some(parsed)
            }
            None => None,
        };
        let workflow = if options.is_exit_handler {
            None
        } else {
            self.deadline().map(left)
        };
        let timeout = match prepared.template.timeout.as_str() {
            "" => None,
            text => {
                let started = self
                    .node(name)
                    .and_then(|node| node.started_at.clone())
                    .map_or(self.world.now, |time| time.0);
                let allowed = duration(text)?;
                Some(left(started.checked_add(allowed).unwrap_or(Timestamp::MAX)))
            }
        };
        Ok([own, workflow, timeout, options.limit.map(left)]
            .into_iter()
            .flatten()
            .min())
    }

    fn main(&self, name: &str, prepared: &Prepared, options: &Options) -> Result<Value, String> {
        let mut container = prepared.json["container"].clone();
        let fields = container
            .as_object_mut()
            .ok_or("container is not an object")?;
        fields.insert("name".to_owned(), json!("main"));
        if fields
            .get("command")
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty)
        {
            let image = fields
                .get("image")
                .and_then(Value::as_str)
                .unwrap_or_default();
            return Err(format!(
                "failed to look-up entrypoint/cmd for image \"{image}\", you must either explicitly specify the command, or list the image's command in the index: https://argo-workflows.readthedocs.io/en/latest/workflow-executors/#emissary-emissary: the embedded cluster asks no registry"
            ));
        }
        push(fields, "env", self.environment("main", name, options));
        push(
            fields,
            "volumeMounts",
            vec![json!({"name": SHARED.0, "mountPath": SHARED.1})],
        );
        Ok(container)
    }

    /// A container of the executor image.
    fn executor(&self, role: &str, name: &str, prepared: &Prepared, options: &Options) -> Value {
        let field = |path: &str| json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}});
        let mut env = vec![
            json!({"name": "ARGO_POD_NAME", "valueFrom": field("metadata.name")}),
            json!({"name": "ARGO_POD_UID", "valueFrom": field("metadata.uid")}),
            json!({"name": "GODEBUG", "value": "x509ignoreCN=0"}),
            json!({"name": "ARGO_WORKFLOW_UID", "value": self.wf.meta.uid}),
        ];
        env.extend(self.environment(role, name, options));
        if role == "init" {
            env.push(json!({"name": "ARGO_TEMPLATE", "value": executor_template(&prepared.json).to_string()}));
        }
        json!({
            "name": role,
            "image": ARGO_EXEC_IMAGE,
            "command": ["argoexec", role, "--loglevel", "info", "--log-format", "text", "--gloglevel", "0"],
            "env": env,
            "volumeMounts": [
                {"name": SHARED.0, "mountPath": SHARED.1},
                {"name": "tmp-dir-argo", "mountPath": "/tmp", "subPath": if role == "init" { "init" } else { "0" }},
            ],
        })
    }

    fn environment(&self, container: &str, name: &str, options: &Options) -> Vec<Value> {
        let deadline = self.deadline().filter(|_| !options.is_exit_handler);
        let deadline = [deadline, options.limit].into_iter().flatten().min();
        let text = [
            ("ARGO_CONTAINER_NAME", container.to_owned()),
            ("ARGO_NODE_ID", self.id_of(name)),
            (
                "ARGO_INCLUDE_SCRIPT_OUTPUT",
                self.is_result_wanted(name, options).to_string(),
            ),
            (
                "ARGO_DEADLINE",
                deadline.map_or_else(|| NEVER.to_owned(), |time| time.to_string()),
            ),
            ("ARGO_WORKFLOW_NAME", self.name().to_owned()),
            ("ARGO_PROGRESS_FILE", format!("{}/progress", SHARED.1)),
        ];
        text.into_iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect()
    }

    /// Whether something asks for the step's `outputs.result`.
    fn is_result_wanted(&self, name: &str, options: &Options) -> bool {
        let Some(boundary) = self.by_id(&options.boundary) else {
            return false;
        };
        let step = name.rsplit('.').next().unwrap_or(name);
        let step = step.split('(').next().unwrap_or(step);
        let wanted = format!("steps.{step}.outputs.result");
        let template = self.spec.template(&boundary.template_name);
        template.is_some_and(|template| {
            super::substitute::tags(template)
                .iter()
                .any(|tag| tag.contains(&wanted))
        })
    }

    /// Has the containers of a node's pod ended.
    pub(super) fn terminate_pod_of(&mut self, name: &str) {
        if let Some(pod) = self.world.pods.get(&self.id_of(name)) {
            self.actions.terminate.push(Arc::clone(pod));
        }
    }
}

fn push(fields: &mut Map<String, Value>, list: &str, items: Vec<Value>) {
    let present = fields.entry(list.to_owned()).or_insert_with(|| json!([]));
    match present.as_array_mut() {
        Some(present) => present.extend(items),
        None => *present = Value::Array(items),
    }
}

/// The template as the executor gets it: without input parameters, which are put in already.
fn executor_template(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(fields) = template.as_object_mut() {
        fields.insert("inputs".to_owned(), json!({}));
        fields
            .entry("outputs".to_owned())
            .or_insert_with(|| json!({}));
        fields
            .entry("metadata".to_owned())
            .or_insert_with(|| json!({}));
    }
    template
}
