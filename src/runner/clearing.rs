//! Takes away what earlier work has left, and waits until it is gone with its pods: ended Workflows, and the lab's Sensor.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use super::acting::{has_ended, phase_of};
use super::work::{Worker, environment};
use super::{looking, waiting};
use crate::kinds::{self, MANAGED_BY, MANAGED_BY_LABEL};
use crate::session::message::StepError;

/// A Workflow, a pod or a Sensor that has to go is given up after so long.
const PATIENCE: Duration = Duration::from_secs(90);
/// Label of a pod with the name of its Workflow.
const OF_WORKFLOW: &str = "workflows.argoproj.io/workflow";

impl Worker {
    /// Deletes the lab's Workflows that have ended, and waits until they and their pods are gone.
    ///
    /// The controller queues the clean-up of a pod by its name and does it some seconds after the end. A Workflow that is
    /// deleted before and made anew under its name would have its pod deleted in its place, and run it a second time: so
    /// the clean-up comes first.
    pub(super) async fn delete_workflows(&self) -> Result<(), StepError> {
        let api = self.workflows();
        let ours = ListParams::default().labels(&format!("{MANAGED_BY_LABEL}={MANAGED_BY}"));
        let list = api
            .list(&ours)
            .await
            .map_err(|error| cannot("list Workflows", &error))?;
        let ended: Vec<DynamicObject> = list
            .items
            .into_iter()
            .filter(|workflow| has_ended(phase_of(workflow)))
            .collect();
        let named = |which: fn(&DynamicObject) -> bool| -> BTreeSet<String> {
            let some = ended.iter().filter(|workflow| which(workflow));
            some.map(|workflow| workflow.name_any()).collect()
        };
        self.pods_gone(&named(cleans_its_pods), "clean up").await?;
        let all = named(|_| true);
        for name in &all {
            deleted(&api, "Workflow", name).await?;
        }
        for name in &all {
            gone(&api, "Workflow", name).await?;
        }
        self.pods_gone(&all, "collect").await
    }

    /// Waits until the pods of these Workflows are gone, which somebody is about to delete.
    async fn pods_gone(&self, workflows: &BTreeSet<String>, about: &str) -> Result<(), StepError> {
        let pods = self.pods();
        let list = pods
            .list(&ListParams::default().labels(OF_WORKFLOW))
            .await
            .map_err(|error| cannot("list the Workflows' pods", &error))?;
        for pod in list {
            let (name, workflow) = (pod.name_any(), pod.labels().get(OF_WORKFLOW));
            if workflow.is_none_or(|workflow| !workflows.contains(workflow)) {
                continue;
            }
            let missed = waiting::gone(&pods, &name, PATIENCE).await;
            missed.map_err(|missed| {
                environment(format!(
                    "pod {name} of an ended Workflow is there still, and its controller was to {about} it: {missed}"
                ))
            })?;
        }
        Ok(())
    }

    /// Deletes the lab's Sensor and waits until its pods are gone: nothing of it hears what is sent from now on.
    pub(super) async fn delete_sensor(&self) -> Result<(), StepError> {
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.cluster.client().clone(),
            self.cluster.namespace(),
            &kinds::sensor(),
        );
        let there = api
            .get_opt(looking::SENSOR)
            .await
            .map_err(|error| cannot("read the Sensor", &error))?;
        if let Some(sensor) = there {
            if sensor.labels().get(MANAGED_BY_LABEL).map(String::as_str) != Some(MANAGED_BY) {
                return Err(environment(format!(
                    "Sensor {} does not carry {MANAGED_BY_LABEL}={MANAGED_BY}: it is not the lab's, and is left alone. Delete or rename it",
                    looking::SENSOR
                )));
            }
            deleted(&api, "Sensor", looking::SENSOR).await?;
            gone(&api, "Sensor", looking::SENSOR).await?;
        }
        let theirs = ListParams::default().labels(&format!("sensor-name={}", looking::SENSOR));
        let deployments: Api<Deployment> =
            Api::namespaced(self.cluster.client().clone(), self.cluster.namespace());
        let list = deployments
            .list(&theirs)
            .await
            .map_err(|error| cannot("list the Sensor's Deployments", &error))?;
        for one in list {
            gone(&deployments, "Deployment", &one.name_any()).await?;
        }
        let pods = self.pods();
        let list = pods
            .list(&theirs)
            .await
            .map_err(|error| cannot("list the Sensor's pods", &error))?;
        for pod in list {
            gone(&pods, "pod", &pod.name_any()).await?;
        }
        Ok(())
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client().clone(), self.cluster.namespace())
    }
}

fn cannot(action: &str, error: &kube::Error) -> StepError {
    environment(format!("cannot {action}: {}", crate::cluster::told(error)))
}

async fn deleted(api: &Api<DynamicObject>, kind: &str, name: &str) -> Result<(), StepError> {
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(cannot(&format!("delete {kind} {name}"), &error)),
    }
}

async fn gone<K>(api: &Api<K>, kind: &str, name: &str) -> Result<(), StepError>
where
    K: Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + kube::Resource + 'static,
{
    let missed = waiting::gone(api, name, PATIENCE).await;
    missed.map_err(|missed| {
        environment(format!(
            "{kind} {name} was deleted and is not gone: {missed}"
        ))
    })
}

/// Whether the controller deletes the pods of a Workflow that ended like this by itself.
fn cleans_its_pods(workflow: &DynamicObject) -> bool {
    let strategy = [
        "/status/storedWorkflowTemplateSpec/podGC/strategy",
        "/spec/podGC/strategy",
    ]
    .into_iter()
    .find_map(|place| workflow.data.pointer(place).and_then(Value::as_str));
    match strategy {
        Some("OnPodCompletion" | "OnWorkflowCompletion") => true,
        Some("OnPodSuccess" | "OnWorkflowSuccess") => phase_of(workflow) == "Succeeded",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_are_waited_for_where_their_controller_deletes_them() {
        let workflow = |phase: &str, place: &str, strategy: &str| -> DynamicObject {
            let gc = json!({"podGC": {"strategy": strategy}});
            let (spec, stored) = match place {
                "spec" => (gc, Value::Null),
                _ => (json!({}), gc),
            };
            serde_json::from_value(json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "w"},
                "spec": spec, "status": {"phase": phase, "storedWorkflowTemplateSpec": stored}}))
            .unwrap()
        };
        for (phase, strategy, cleans) in [
            ("Succeeded", "OnWorkflowSuccess", true),
            ("Succeeded", "OnPodSuccess", true),
            ("Failed", "OnWorkflowSuccess", false),
            ("Error", "OnPodSuccess", false),
            ("Failed", "OnWorkflowCompletion", true),
            ("Error", "OnPodCompletion", true),
            ("Succeeded", "", false),
        ] {
            for place in ["spec", "stored"] {
                let seen = cleans_its_pods(&workflow(phase, place, strategy));
                assert_eq!(seen, cleans, "{phase} {strategy} {place}");
            }
        }
    }
}
