//! What Argo's command line does for an `argoWorkflow` trigger that submits: look at the template, create, look again.
//!
//! Its own output, which upstream's Sensor passes on in between its log lines, is not imitated.

use serde_json::Value;

use super::k8s;
use crate::sensor::trigger::{Operation, Submission};

/// Submits a Workflow.
pub(super) async fn submit(client: &kube::Client, submission: &Submission) -> Result<(), String> {
    let failed = |reason: String| {
        format!(
            "failed to execute submit command for workflow {}, exit status 1 (eventlab: the command line says: {reason})",
            submission.name()
        )
    };
    if let Some(template) = template(submission) {
        let name = template.name().to_owned();
        k8s::get(client, &template, &name).await.map_err(failed)?;
    }
    k8s::create(client, submission).await.map_err(failed)?;
    let labels = ["sensor", "trigger", "action-timestamp"].map(|label| {
        let key = format!("events.argoproj.io/{label}");
        let value = submission.object["metadata"]["labels"][&key].as_str();
        format!("{key}={}", value.unwrap_or_default())
    });
    let found = k8s::list(client, submission, &labels.join(",")).await?;
    match found["items"].as_array() {
        Some(items) if !items.is_empty() => Ok(()),
        _ => Err("failed to list created workflows for unknown reason".to_owned()),
    }
}

/// The WorkflowTemplate or ClusterWorkflowTemplate that the Workflow is made from.
fn template(submission: &Submission) -> Option<Submission> {
    let reference = submission.object.pointer("/spec/workflowTemplateRef")?;
    let name = reference
        .get("name")?
        .as_str()
        .filter(|name| !name.is_empty())?;
    let cluster = reference.get("clusterScope") == Some(&Value::Bool(true));
    let (kind, namespace) = if cluster {
        ("ClusterWorkflowTemplate", String::new())
    } else {
        ("WorkflowTemplate", submission.namespace.clone())
    };
    Some(Submission {
        operation: Operation::Create,
        namespace,
        object: serde_json::json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": name},
        }),
        patch_type: String::new(),
    })
}
