//! Writes a Workflow: a whole-object update, and on a conflict the same changes on the newest object.

use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::Value;

use super::log::Log;
use super::merge::merge_patch;
use super::operation::Workflow;
use super::status::text;
use crate::embedded::controllers::runtime::error::{is_conflict, is_not_found, message, reason};
use crate::embedded::controllers::runtime::{ObjectKey, ReconcileError, Result};

/// How often the changes are put on a newer object.
const ATTEMPTS: usize = 5;

/// Writes `after`; `None` if there is nothing any more that may be written.
pub(super) async fn persist(
    api: &Api<DynamicObject>,
    key: &ObjectKey,
    before: &Workflow,
    after: &Workflow,
) -> Result<Option<DynamicObject>> {
    let log = Log::new(&key.namespace, &key.name);
    match api
        .replace(&key.name, &PostParams::default(), &after.to_object())
        .await
    {
        Ok(written) => {
            let version = written
                .metadata
                .resource_version
                .clone()
                .unwrap_or_default();
            let fields = [
                ("phase", text(after.status.phase)),
                ("resourceVersion", version.as_str()),
            ];
            log.info("Workflow update successful", &fields);
            Ok(Some(written))
        }
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => {
            log.warn(
                "Error updating workflow",
                &[
                    ("error", message(&error).as_str()),
                    ("reason", reason(&error)),
                ],
            );
            if !is_conflict(&error) {
                return Err(ReconcileError::api(format!("update workflow {key}"))(error));
            }
            log.info(
                "Re-applying updates on latest version and retrying update",
                &[],
            );
            reapply(api, key, before, after, &log).await
        }
    }
}

async fn reapply(
    api: &Api<DynamicObject>,
    key: &ObjectKey,
    before: &Workflow,
    after: &Workflow,
    log: &Log,
) -> Result<Option<DynamicObject>> {
    let patch = merge_patch(&content(before)?, &content(after)?).unwrap_or_default();
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let failed = |action: &str| ReconcileError::api(format!("{action} workflow {key}"));
        let Some(current) = api.get_opt(&key.name).await.map_err(failed("read"))? else {
            return Ok(None);
        };
        if let Some(why) = obstacle(after, &current) {
            log.info("Failed to re-apply update", &[("error", why.as_str())]);
            return Ok(None);
        }
        let next = patched(&current, &patch)?;
        match api.replace(&key.name, &PostParams::default(), &next).await {
            Ok(written) => {
                log.info("Update retry attempt successful", &[]);
                return Ok(Some(written));
            }
            Err(error) if is_conflict(&error) => last = Some(error),
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(failed("update")(error)),
        }
    }
    match last {
        Some(error) => Err(ReconcileError::api(format!(
            "update workflow {key}, {ATTEMPTS} times in vain"
        ))(error)),
        None => Ok(None),
    }
}

/// The object without its version, which a patch must not carry.
fn content(workflow: &Workflow) -> Result<Value> {
    let mut object = workflow.to_object();
    object.metadata.resource_version = None;
    serde_json::to_value(object).map_err(|error| ReconcileError::Malformed(error.to_string()))
}

fn patched(current: &DynamicObject, patch: &Value) -> Result<DynamicObject> {
    let malformed = |error: serde_json::Error| ReconcileError::Malformed(error.to_string());
    let mut next = serde_json::to_value(current).map_err(malformed)?;
    json_patch::merge(&mut next, patch);
    serde_json::from_value(next).map_err(malformed)
}

/// Why the newest object may not be changed.
fn obstacle(after: &Workflow, current: &DynamicObject) -> Option<String> {
    let (ours, theirs) = (
        after.meta.uid.clone().unwrap_or_default(),
        current.metadata.uid.clone().unwrap_or_default(),
    );
    if ours != theirs {
        return Some(format!(
            "workflow has been recreated, not updating({ours} -> {theirs})"
        ));
    }
    let current = Workflow::from_object(current).ok()?;
    if current.status.is_fulfilled() {
        return Some("must never update completed workflows".to_owned());
    }
    let differs = |id: &String, phase| {
        after
            .status
            .nodes
            .get(id)
            .is_some_and(|node| node.phase != phase)
    };
    let done = current
        .status
        .nodes
        .iter()
        .find(|(id, node)| node.is_fulfilled() && differs(id, node.phase));
    done.map(|(id, _)| format!("must never update completed node {id}"))
}
