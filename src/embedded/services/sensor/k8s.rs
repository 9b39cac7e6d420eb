//! The requests of a trigger to the Kubernetes API, through the Sensor's own account, worded as client-go words them.

use http::{Method, Request};
use kube::core::Status;
use serde_json::Value;

use super::super::log::Logger;
use crate::sensor::trigger::{Operation, Submission, merge, plural};

/// Field manager of what the Sensor writes.
const MANAGER: &str = "fieldManager=argo-events";
/// Media type of what is sent as a whole.
const JSON: &str = "application/json";
/// Media type of a patch whose field manager the caller must name; upstream names none.
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Why a request failed.
struct Refused {
    message: String,
    not_found: bool,
}

/// Carries out a submission; the object as the API answers it, none after a delete.
pub(super) async fn carry_out(
    client: &kube::Client,
    submission: &Submission,
    log: &Logger,
) -> Result<Option<Value>, String> {
    let doing = match submission.operation {
        Operation::Create => "creating",
        Operation::Update => "updating",
        Operation::Patch => "patching",
        Operation::Delete => "deleting",
    };
    log.info(&format!("{doing} the object..."), &[]);
    if submission.operation == Operation::Create {
        return create(client, submission).await.map(Some);
    }
    let old = match read(client, submission).await {
        Ok(old) => old,
        Err(refused) if refused.not_found && submission.operation == Operation::Delete => {
            log.info("object not found, nothing to delete...", &[]);
            return Ok(None);
        }
        Err(refused) if refused.not_found => {
            log.info("object not found, creating the object...", &[]);
            return create(client, submission).await.map(Some);
        }
        Err(refused) => {
            let text = format!(
                "failed to retrieve existing object. err: {}",
                refused.message
            );
            return Err(text);
        }
    };
    match submission.operation {
        Operation::Delete => delete(client, submission).await.map(|()| None),
        Operation::Patch => patch(client, submission).await.map(Some),
        Operation::Update | Operation::Create => {
            let mut object = old;
            merge(&mut object, &submission.object);
            update(client, submission, &object).await.map(Some)
        }
    }
}

/// Creates the object.
pub(super) async fn create(
    client: &kube::Client,
    submission: &Submission,
) -> Result<Value, String> {
    let url = format!("{}?{MANAGER}", path(submission));
    send(client, Method::POST, &url, JSON, &submission.object)
        .await
        .map_err(|refused| refused.message)
}

/// Reads an object again under the name that it was given.
pub(super) async fn get(
    client: &kube::Client,
    submission: &Submission,
    name: &str,
) -> Result<Value, String> {
    let url = format!("{}/{name}", path(submission));
    send(client, Method::GET, &url, JSON, &Value::Null)
        .await
        .map_err(|refused| refused.message)
}

/// The objects of the submission's resource that have these labels.
pub(super) async fn list(
    client: &kube::Client,
    submission: &Submission,
    labels: &str,
) -> Result<Value, String> {
    let labels = labels.replace('=', "%3D").replace(',', "%2C");
    let url = format!("{}?labelSelector={labels}", path(submission));
    send(client, Method::GET, &url, JSON, &Value::Null)
        .await
        .map_err(|refused| refused.message)
}

async fn read(client: &kube::Client, submission: &Submission) -> Result<Value, Refused> {
    let url = named(submission).map_err(|message| Refused {
        message,
        not_found: false,
    })?;
    send(client, Method::GET, &url, JSON, &Value::Null).await
}

async fn update(
    client: &kube::Client,
    submission: &Submission,
    object: &Value,
) -> Result<Value, String> {
    let url = format!("{}?{MANAGER}", named(submission)?);
    send(client, Method::PUT, &url, JSON, object)
        .await
        .map_err(|refused| refused.message)
}

async fn patch(client: &kube::Client, submission: &Submission) -> Result<Value, String> {
    let url = match (named(submission)?, submission.patch_type.as_str()) {
        (url, APPLY_PATCH) => url,
        (url, _) => format!("{url}?{MANAGER}"),
    };
    let kind = submission.patch_type.as_str();
    send(client, Method::PATCH, &url, kind, &submission.object)
        .await
        .map_err(|refused| refused.message)
}

async fn delete(client: &kube::Client, submission: &Submission) -> Result<(), String> {
    let url = named(submission)?;
    send(client, Method::DELETE, &url, JSON, &Value::Null)
        .await
        .map(drop)
        .map_err(|refused| format!("failed to delete object. err: {}", refused.message))
}

/// The URL path of the object itself.
fn named(submission: &Submission) -> Result<String, String> {
    match submission.name() {
        "" => Err("name is required".to_owned()),
        name => Ok(format!("{}/{name}", path(submission))),
    }
}

async fn send(
    client: &kube::Client,
    method: Method,
    url: &str,
    kind: &str,
    body: &Value,
) -> Result<Value, Refused> {
    let refused = |message: String| Refused {
        message,
        not_found: false,
    };
    let body = match body {
        Value::Null => Vec::new(),
        body => serde_json::to_vec(body).map_err(|error| refused(error.to_string()))?,
    };
    let request = Request::builder()
        .method(method)
        .uri(url)
        .header("Content-Type", kind)
        .body(body)
        .map_err(|error| refused(format!("the object names an impossible resource: {error}")))?;
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => Refused {
            message: message(&status),
            not_found: status.code == 404,
        },
        other => refused(other.to_string()),
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
                patch_type: String::new(),
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
    }
}
