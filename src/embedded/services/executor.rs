//! The workflow executor: containers `init` and `wait` of a workflow's pod.
//!
//! `wait` reports through the API as the pod's own account, after `main` has ended: a missing right shows when the
//! work is done already.

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::backoff::Backoff;
use crate::embedded::node::process::{Exit, ServiceContext};
use crate::kinds;

/// Exit code of the executor's own failures.
const FAILED: i32 = 64;
/// Label that says whether the outputs have been reported in full.
const COMPLETED_LABEL: &str = "workflows.argoproj.io/report-outputs-completed";
/// Label that names the Workflow.
const WORKFLOW_LABEL: &str = "workflows.argoproj.io/workflow";
/// What the executor says of a right that is missing.
const RBAC_HINT: &str = "failed to patch task result, see https://argo-workflows.readthedocs.io/en/latest/workflow-rbac/";
/// Tries while the API cannot be reached.
const RETRY: Backoff = Backoff {
    steps: 5,
    duration: std::time::Duration::from_secs(1),
    factor: 1.6,
    jitter: 0.5,
};

/// The log, with its first line.
fn started(context: &ServiceContext) -> Log<'_> {
    let log = Log(context);
    log.line(
        "INFO",
        "Starting Workflow Executor",
        &[("version", "v4.1.2")],
    );
    log
}

/// Runs container `init`: everything that `main` needs is there already, so it only refuses what cannot be done.
#[must_use]
pub fn init(context: ServiceContext) -> BoxFuture<'static, i32> {
    Box::pin(async move {
        let log = started(&context);
        if let Some(reason) = unsupported(&context) {
            return fail(&context, &reason);
        }
        log.line("INFO", "Start loading input artifacts...", &[]);
        0
    })
}

/// Runs container `wait`.
#[must_use]
pub fn wait(context: ServiceContext) -> BoxFuture<'static, i32> {
    Box::pin(async move {
        let log = started(&context);
        if let Err(error) = main_exit(&context).await {
            return fail(&context, &error);
        }
        log.line("INFO", "Main container completed", &[]);
        log.line(
            "INFO",
            "No Script output reference in workflow. Capturing script output ignored",
            &[],
        );
        if let Some(reason) = unsupported(&context) {
            return fail(&context, &reason);
        }
        log.line("INFO", "No output parameters", &[]);
        match report(&context).await {
            Ok(()) => 0,
            Err(error) => fail(&context, &error),
        }
    })
}

fn fail(context: &ServiceContext, error: &str) -> i32 {
    Log(context).line("ERROR", "executor error", &[("error", error)]);
    context.termination.set(error);
    FAILED
}

async fn main_exit(context: &ServiceContext) -> Result<Exit, String> {
    let main = context
        .siblings
        .get("main")
        .ok_or("eventlab: the pod has no container main to wait for")?;
    let mut main = main.clone();
    let exit = main.wait_for(Option::is_some).await.map(|exit| *exit);
    exit.ok()
        .flatten()
        .ok_or_else(|| "eventlab: the end of container main was never reported".to_owned())
}

/// Creates the task result, then marks it complete: two requests, two rights.
async fn report(context: &ServiceContext) -> Result<(), String> {
    let required = |name: &str| {
        let value = context.env.get(name).filter(|value| !value.is_empty());
        value
            .cloned()
            .ok_or_else(|| format!("eventlab: the environment of the pod lacks {name}"))
    };
    let (node, workflow) = (required("ARGO_NODE_ID")?, required("ARGO_WORKFLOW_NAME")?);
    let uid = context
        .env
        .get("ARGO_WORKFLOW_UID")
        .cloned()
        .unwrap_or_default();
    let kind = kinds::workflow_task_result();
    let api: Api<DynamicObject> =
        Api::namespaced_with(context.client.clone(), &context.pod.namespace, &kind);
    let (result, parameters) = (task_result(&node, &workflow, &uid)?, PostParams::default());
    let created = attempt(context, || api.create(&parameters, &result)).await;
    match created {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            mark(context, &api, &node, "false").await?
        }
        other => drop(other.map_err(|error| denied(context, &error))?),
    }
    mark(context, &api, &node, "true").await
}

async fn mark(
    context: &ServiceContext,
    api: &Api<DynamicObject>,
    node: &str,
    completed: &str,
) -> Result<(), String> {
    let patch = Patch::Merge(json!({"metadata": {"labels": {COMPLETED_LABEL: completed}}}));
    let parameters = PatchParams::default();
    let marked = attempt(context, || api.patch(node, &parameters, &patch)).await;
    marked.map(drop).map_err(|error| denied(context, &error))
}

/// Tries again while the API is out of reach; an answer, good or bad, ends it.
async fn attempt<T, Try>(
    context: &ServiceContext,
    mut request: impl FnMut() -> Try,
) -> Result<T, kube::Error>
where
    Try: Future<Output = Result<T, kube::Error>>,
{
    let mut waits = RETRY.waits();
    loop {
        let error = match request().await {
            Err(error) if is_transient(&error) => error,
            answer => return answer,
        };
        let Some(wait) = waits.next() else {
            return Err(error);
        };
        Log(context).line("INFO", &format!("Transient error: {error}"), &[]);
        tokio::time::sleep(wait).await;
    }
}

fn is_transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        kube::Error::Service(_) | kube::Error::HyperError(_) => true,
        _ => false,
    }
}

/// Logs an error of a task result as the executor does, and gives its text.
fn denied(context: &ServiceContext, error: &kube::Error) -> String {
    let log = Log(context);
    let text = match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    if matches!(error, kube::Error::Api(status) if status.is_forbidden()) {
        log.line("WARN", RBAC_HINT, &[("attempt", "0"), ("error", &text)]);
    }
    log.line("INFO", &format!("Non-transient error: {text}"), &[]);
    text
}

fn task_result(node: &str, workflow: &str, uid: &str) -> Result<DynamicObject, String> {
    let mut metadata = json!({
        "name": node,
        "labels": {WORKFLOW_LABEL: workflow, COMPLETED_LABEL: "false"},
    });
    if !uid.is_empty() {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": workflow, "uid": uid,
        }]);
    }
    let result = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTaskResult", "metadata": metadata});
    serde_json::from_value(result)
        .map_err(|error| format!("eventlab: cannot build the task result: {error}"))
}

/// What the template wants and this executor cannot do.
fn unsupported(context: &ServiceContext) -> Option<String> {
    if context
        .env
        .get("ARGO_INCLUDE_SCRIPT_OUTPUT")
        .is_some_and(|value| value == "true")
    {
        return Some("eventlab: outputs.result is not supported".to_owned());
    }
    let template: Value = serde_json::from_str(context.env.get("ARGO_TEMPLATE")?).ok()?;
    let names = |pointer: &str| {
        let list = template.pointer(pointer).and_then(Value::as_array);
        let names = list
            .into_iter()
            .flatten()
            .filter_map(|item| item.get("name").and_then(Value::as_str));
        names.map(str::to_owned).collect::<Vec<_>>().join(", ")
    };
    for (pointer, what) in [
        ("/outputs/parameters", "outputs.parameters"),
        ("/outputs/artifacts", "outputs.artifacts"),
        ("/inputs/artifacts", "inputs.artifacts"),
    ] {
        let names = names(pointer);
        if !names.is_empty() {
            return Some(format!("eventlab: {what} ({names}) are not supported"));
        }
    }
    None
}

/// Log lines in Go's slog text format, as the executor of Argo Workflows 4 writes them.
struct Log<'a>(&'a ServiceContext);

impl Log<'_> {
    fn line(&self, level: &str, message: &str, fields: &[(&str, &str)]) {
        let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
        let mut line = format!("time={time} level={level} msg={}", quoted(message));
        for (key, value) in fields {
            line.push_str(&format!(" {key}={}", quoted(value)));
        }
        self.0.log.line(&line);
    }
}

/// Quotes a value where it would not be one word.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '=' | '\\');
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    Value::from(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_as_slog_quotes_them() {
        assert_eq!(quoted("v4.1.2"), "v4.1.2");
        assert_eq!(quoted("two words"), "\"two words\"");
        assert_eq!(quoted(""), "\"\"");
        assert_eq!(quoted("User \"a\""), "\"User \\\"a\\\"\"");
    }
}
