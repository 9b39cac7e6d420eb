//! Carries out the actions of a stage: pods and Workflows deleted, Workflows run, conditions waited for.
//!
//! An action that could not be done is a matter of the environment, never the learner's.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::looking;
use super::waiting;
use super::work::{Worker, environment};
use crate::cluster::Manifest;
use crate::kinds;
use crate::lab::Action;
use crate::session::message::StepError;

/// A Workflow, a claim or a Deployment that an action waits for is given up after so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks at the ledger, which has no watch.
const PAUSE: Duration = Duration::from_millis(50);

impl Worker {
    pub(super) async fn act(&self, action: &Action, attempt: u32) -> Result<(), StepError> {
        let number = self.cluster.attempt_name(attempt);
        let filled = |text: &str| text.replace("{{attempt}}", &number);
        match action {
            Action::DeleteSensorPod => self.delete_sensor_pods(&DeleteParams::default()).await,
            Action::KillSensorPod => {
                self.delete_sensor_pods(&DeleteParams::default().grace_period(0))
                    .await
            }
            Action::DeleteWorkflows => self.delete_workflows().await,
            Action::Run { file, with, ends } => {
                let with = with
                    .iter()
                    .map(|(name, value)| (name.clone(), filled(value)))
                    .collect();
                self.run_workflow(file, &with, ends).await
            }
            Action::Await {
                order,
                action,
                claim,
            } => self.await_claim(&filled(order), action, claim).await,
            Action::Available { deployment } => self.await_deployment(deployment).await,
        }
    }

    async fn delete_sensor_pods(&self, params: &DeleteParams) -> Result<(), StepError> {
        let api: Api<Pod> =
            Api::namespaced(self.cluster.client().clone(), self.cluster.namespace());
        let list = api
            .list(&ListParams::default().labels(&format!("sensor-name={}", looking::SENSOR)))
            .await;
        let pods =
            list.map_err(|error| environment(format!("cannot list the Sensor's pods: {error}")))?;
        for name in pods
            .items
            .iter()
            .filter_map(|pod| pod.metadata.name.as_deref())
        {
            match api.delete(name, params).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    return Err(environment(format!("cannot delete pod {name}: {error}")));
                }
            }
        }
        Ok(())
    }

    pub(super) fn workflows(&self) -> Api<DynamicObject> {
        Api::namespaced_with(
            self.cluster.client().clone(),
            self.cluster.namespace(),
            &kinds::workflow(),
        )
    }

    /// Makes the Workflow of a manifest and waits for the phase in which it must end.
    async fn run_workflow(
        &self,
        file: &str,
        with: &BTreeMap<String, String>,
        ends: &str,
    ) -> Result<(), StepError> {
        let text = self.catalog.manifest(file).map_err(environment)?;
        let mut manifests = Manifest::read(file, text).map_err(environment)?;
        let (Some(mut manifest), None) = (manifests.pop(), manifests.pop()) else {
            return Err(environment(format!("{file} must hold one Workflow")));
        };
        fill_arguments(&mut manifest.object, with);
        if let Some(metadata) = manifest.object.pointer_mut("/metadata") {
            as_ours_each_time(metadata);
        }
        self.cluster.fit(&mut manifest.object);
        let workflow: DynamicObject =
            serde_json::from_value(manifest.object).map_err(environment)?;
        let api = self.workflows();
        let made = api
            .create(&PostParams::default(), &workflow)
            .await
            .map_err(|error| environment(format!("cannot make the Workflow of {file}: {error}")))?;
        let name = made.metadata.name.unwrap_or_default();
        let phase = self.await_workflow(&api, &name, file).await?;
        if phase == ends {
            return Ok(());
        }
        Err(environment(format!(
            "Workflow {name} of {file} ended {phase}, and was to end {ends}; \
             `kubectl -n {} logs -l workflows.argoproj.io/workflow={name}` says why",
            self.cluster.namespace()
        )))
    }

    async fn await_workflow(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        file: &str,
    ) -> Result<String, StepError> {
        let ended = waiting::until(api, name, PATIENCE, |workflow| {
            has_ended(phase_of(workflow))
        });
        let workflow = ended.await.map_err(|missed| {
            environment(format!(
                "waiting for the end of Workflow {name} of {file}: {missed}"
            ))
        })?;
        Ok(phase_of(&workflow).to_owned())
    }

    async fn await_claim(&self, order: &str, action: &str, claim: &str) -> Result<(), StepError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let books = self.cluster.books().await.map_err(environment)?;
            let state = books.claim(order, action).unwrap_or("none");
            if state == claim {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(environment(format!(
                    "the claim on order {order} {action} is {state}, and was waited for to be {claim}"
                )));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn await_deployment(&self, name: &str) -> Result<(), StepError> {
        let api: Api<Deployment> =
            Api::namespaced(self.cluster.client().clone(), self.cluster.namespace());
        let available = waiting::until(&api, name, PATIENCE, serves_its_spec).await;
        available.map(|_| ()).map_err(|missed| {
            environment(format!(
                "waiting until Deployment {name} is available: {missed}"
            ))
        })
    }
}

/// Every replica is of the present spec, is available, and no older one is left.
fn serves_its_spec(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation == deployment.metadata.generation
            && status.updated_replicas.unwrap_or(0) == wanted
            && status.available_replicas.unwrap_or(0) == wanted
            && status.replicas.unwrap_or(0) == wanted
    })
}

pub(super) fn phase_of(workflow: &DynamicObject) -> &str {
    workflow
        .data
        .pointer("/status/phase")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(super) fn has_ended(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed" | "Error")
}

/// Replaces the values of the Workflow's arguments, and adds those that are not there.
fn fill_arguments(workflow: &mut Value, with: &BTreeMap<String, String>) {
    if with.is_empty() {
        return;
    }
    let Some(spec) = workflow.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let arguments = spec.entry("arguments").or_insert_with(|| json!({}));
    let Some(arguments) = arguments.as_object_mut() else {
        return;
    };
    let parameters = arguments.entry("parameters").or_insert_with(|| json!([]));
    let Some(parameters) = parameters.as_array_mut() else {
        return;
    };
    for (name, value) in with {
        let known = parameters
            .iter_mut()
            .find(|parameter| parameter.get("name").and_then(Value::as_str) == Some(name));
        match known.and_then(Value::as_object_mut) {
            Some(parameter) => drop(parameter.insert("value".to_owned(), json!(value))),
            None => parameters.push(json!({"name": name, "value": value})),
        }
    }
}

/// Labels it as the lab's, and turns its name into the beginning of one.
pub(super) fn as_ours_each_time(metadata: &mut Value) {
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    if let Some(Value::String(name)) = metadata.remove("name") {
        metadata.insert("generateName".to_owned(), json!(format!("{name}-")));
    }
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("app.kubernetes.io/managed-by".to_owned(), json!("eventlab"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_replaced_or_added_in_any_shape() {
        let with = BTreeMap::from([
            ("seconds".to_owned(), "60".to_owned()),
            ("who".to_owned(), "me".to_owned()),
        ]);
        let mut workflow =
            json!({"spec": {"arguments": {"parameters": [{"name": "seconds", "value": "1"}]}}});
        fill_arguments(&mut workflow, &with);
        assert_eq!(
            workflow["spec"]["arguments"]["parameters"],
            json!([{"name": "seconds", "value": "60"}, {"name": "who", "value": "me"}])
        );
        for mut odd in [
            json!({}),
            json!({"spec": 5}),
            json!({"spec": {"arguments": []}}),
            json!({"spec": {"arguments": {"parameters": "x"}}}),
        ] {
            fill_arguments(&mut odd, &with);
        }
        let mut empty = json!({"spec": {}});
        fill_arguments(&mut empty, &with);
        assert_eq!(empty["spec"]["arguments"]["parameters"][1]["value"], "me");
    }
}
