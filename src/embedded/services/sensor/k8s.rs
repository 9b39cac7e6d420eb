//! The `k8s` trigger's create, through the Sensor's own account.

use http::Request;
use kube::core::Status;
use serde_json::Value;

use crate::sensor::trigger::Submission;

/// Upstream's name of this trigger type in log lines.
pub(super) const TRIGGER_TYPE: &str = "Kubernetes";

/// Field manager of what the Sensor creates.
const MANAGER: &str = "argo-events";

/// Creates the object; the error is worded as client-go words it.
pub(super) async fn create(
    client: &kube::Client,
    submission: &Submission,
) -> Result<Value, String> {
    let body = serde_json::to_vec(&submission.object).map_err(|error| error.to_string())?;
    let request = Request::post(format!("{}?fieldManager={MANAGER}", path(submission)))
        .header("Content-Type", "application/json")
        .body(body)
        .map_err(|error| format!("the object names an impossible resource: {error}"))?;
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => message(&status),
        other => other.to_string(),
    })
}

/// Reads the object again under the name that it was given.
pub(super) async fn get(
    client: &kube::Client,
    submission: &Submission,
    name: &str,
) -> Result<Value, String> {
    let request = Request::get(format!("{}/{name}", path(submission)))
        .body(Vec::new())
        .map_err(|error| format!("the object names an impossible resource: {error}"))?;
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => message(&status),
        other => other.to_string(),
    })
}

/// An answer without a Status means that the server does not know the resource.
fn message(status: &Status) -> String {
    if status.code == 404 && status.reason == "Failed to parse error data" {
        return "the server could not find the requested resource".to_owned();
    }
    status.message.clone()
}

/// The URL path of the object's resource, its plural guessed from the kind as upstream does.
fn path(submission: &Submission) -> String {
    let text = |field: &str| {
        submission
            .object
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let version = text("apiVersion");
    let root = if version.contains('/') { "apis" } else { "api" };
    let plural = plural(text("kind"));
    let namespace = match submission.namespace.as_str() {
        "" => String::new(),
        namespace => format!("namespaces/{namespace}/"),
    };
    format!("/{root}/{version}/{namespace}{plural}")
}

fn plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    if singular == "endpoints" {
        return singular;
    }
    match singular.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if singular.ends_with('s') => format!("{singular}es"),
        None => format!("{singular}s"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sensor::trigger::Operation;

    #[test]
    fn the_path_is_guessed_from_the_kind() {
        let path = |object: Value, namespace: &str| {
            path(&Submission {
                operation: Operation::Create,
                namespace: namespace.to_owned(),
                object,
            })
        };
        let workflow = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"});
        assert_eq!(
            path(workflow, "lab"),
            "/apis/argoproj.io/v1alpha1/namespaces/lab/workflows"
        );
        assert_eq!(
            path(json!({"apiVersion": "v1", "kind": "ConfigMap"}), "a"),
            "/api/v1/namespaces/a/configmaps"
        );
        assert_eq!(
            path(json!({"apiVersion": "v1", "kind": "Namespace"}), ""),
            "/api/v1/namespaces"
        );
        assert_eq!(plural("NetworkPolicy"), "networkpolicies");
        assert_eq!(plural("Ingress"), "ingresses");
    }
}
