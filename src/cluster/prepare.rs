//! Making the lab's ground on a real cluster: what would change, and what is still waited for.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Map, Value};
use similar::TextDiff;

use super::apply::{APPLIED_ANNOTATION, ApplyError, is_ours};
use super::merge::contains;
use super::{Cluster, LookError, Manifest, told};
use crate::kinds;

/// What applying a manifest would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preview {
    /// The object, as YAML.
    Create(String),
    /// A unified diff.
    Change(String),
    Same,
}

/// One thing that is still waited for, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub what: String,
    pub reason: String,
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.what, self.reason)
    }
}

impl Cluster {
    /// What [`Cluster::apply`] would do with a manifest. Nothing is changed.
    ///
    /// # Errors
    /// As [`Cluster::apply`].
    pub async fn preview(&self, manifest: &Manifest) -> Result<Preview, ApplyError> {
        let title = manifest.title();
        let (api, namespaced) = self.api_for(&manifest.object, &title)?;
        let desired = self.desired(&manifest.object, namespaced, &title)?;
        let name = super::manifest::text(&desired, "/metadata/name");
        let live = api
            .get_opt(name)
            .await
            .map_err(|error| ApplyError::Unavailable {
                object: title.clone(),
                message: told(&error),
            })?;
        let Some(live) = live else {
            return Ok(Preview::Create(yaml(&shown(&desired))));
        };
        if !is_ours(&live) {
            return Err(ApplyError::NotOurs { object: title });
        }
        let live = serde_json::to_value(&live).unwrap_or_default();
        let (wanted, there) = (shown(&desired), restricted(&live, &shown(&desired)));
        if contains(Some(&there), &wanted) {
            return Ok(Preview::Same);
        }
        let (old, new) = (yaml(&there), yaml(&wanted));
        let diff = TextDiff::from_lines(&old, &new);
        let text = diff
            .unified_diff()
            .context_radius(3)
            .header("live", "eventlab")
            .to_string();
        Ok(Preview::Change(text))
    }

    /// What of the lab's ground is not ready yet, and why; empty when all of it is.
    ///
    /// # Errors
    /// [`LookError::Api`] while it cannot be asked.
    pub async fn waiting(&self) -> Result<Vec<Waiting>, LookError> {
        let mut waiting = Vec::new();
        for (resource, name, kinds) in [
            (
                kinds::event_bus(),
                "default",
                &["Deployed", "Configured"][..],
            ),
            (
                kinds::event_source(),
                "orders",
                &["SourcesProvided", "Deployed"],
            ),
        ] {
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client().clone(), self.namespace(), &resource);
            let what = format!("{} {name}", resource.kind);
            let object = api
                .get_opt(name)
                .await
                .map_err(LookError::api("read", what.clone()))?;
            waiting
                .extend(conditions(object.as_ref(), kinds).map(|reason| Waiting { what, reason }));
        }
        for selector in [
            "eventbus-name=default",
            "eventsource-name=orders",
            "app=order-ledger",
        ] {
            waiting.extend(self.pods_waiting(selector).await?);
        }
        Ok(waiting)
    }

    async fn pods_waiting(&self, selector: &str) -> Result<Option<Waiting>, LookError> {
        let api: Api<Pod> = Api::namespaced(self.client().clone(), self.namespace());
        let list = api
            .list(&ListParams::default().labels(selector))
            .await
            .map_err(LookError::api("list pods", selector))?;
        let staying = list
            .items
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let mut reasons: Vec<Waiting> = Vec::new();
        let mut any = false;
        for pod in staying {
            any = true;
            if let Some(reason) = pod_waits(pod) {
                let reason = self.with_claims(pod, reason).await;
                reasons.push(Waiting {
                    what: format!("pod {}", pod.name_any()),
                    reason,
                });
            }
        }
        if any {
            return Ok(reasons.into_iter().next());
        }
        let reason = self.not_made(selector).await;
        Ok(Some(Waiting {
            what: format!("pods with {selector}"),
            reason: reason.unwrap_or_else(|| "none yet".to_owned()),
        }))
    }

    /// Why no pod with a label is made: a quota, a policy. Deployments tell it in a condition, StatefulSets in an event
    /// alone; who may not read those is told nothing.
    async fn not_made(&self, selector: &str) -> Option<String> {
        let label = selector.split_once('=')?;
        let api: Api<Deployment> = Api::namespaced(self.client().clone(), self.namespace());
        let list = api.list(&ListParams::default()).await.ok()?;
        let theirs = list
            .items
            .iter()
            .filter(|one| makes(one.spec.template.metadata.as_ref(), label));
        let conditions = theirs.flat_map(|one| one.status.iter().flat_map(|it| &it.conditions));
        let refused = conditions
            .flatten()
            .filter(|one| one.type_.as_deref() == Some("ReplicaFailure"))
            .find(|one| one.status.as_deref() == Some("True"))
            .map(|one| one.message.clone());
        match refused {
            Some(message) => message,
            None => self.not_made_by_set(label).await,
        }
    }

    async fn not_made_by_set(&self, label: (&str, &str)) -> Option<String> {
        let api: Api<StatefulSet> = Api::namespaced(self.client().clone(), self.namespace());
        let list = api.list(&ListParams::default()).await.ok()?;
        let mut sets = list.items.iter();
        let set = sets.find(|one| makes(one.spec.template.metadata.as_ref(), label))?;
        let of_set = format!("reason=FailedCreate,involvedObject.name={}", set.name_any());
        let api: Api<Event> = Api::namespaced(self.client().clone(), self.namespace());
        let events = api
            .list(&ListParams::default().fields(&of_set))
            .await
            .ok()?;
        last_said(events.items)
    }

    /// A pod that waits for a volume says so only through its claim.
    async fn with_claims(&self, pod: &Pod, reason: String) -> String {
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
        let claims = volumes
            .into_iter()
            .flatten()
            .filter_map(|volume| volume.persistent_volume_claim.as_ref());
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client().clone(), self.namespace());
        for claim in claims {
            if let Ok(Some(found)) = api.get_opt(&claim.claim_name).await {
                let phase = found.status.and_then(|status| status.phase);
                if phase.as_deref() != Some("Bound") {
                    return format!("{reason}; claim {} is not bound", claim.claim_name);
                }
            }
        }
        reason
    }
}

/// The message of the latest event: a list is by name.
fn last_said(events: Vec<Event>) -> Option<String> {
    let told = events.into_iter().filter(|event| event.message.is_some());
    let time = |event: &Event| event.last_timestamp.as_ref().map(|time| time.0);
    told.max_by_key(time)?.message
}

/// Whether the pods of a template carry a label.
fn makes(template: Option<&ObjectMeta>, (key, value): (&str, &str)) -> bool {
    let labels = template.and_then(|meta| meta.labels.as_ref());
    labels
        .and_then(|labels| labels.get(key))
        .map(String::as_str)
        == Some(value)
}

/// Why an object's conditions do not hold yet.
fn conditions(object: Option<&DynamicObject>, kinds: &[&str]) -> Option<String> {
    let Some(object) = object else {
        return Some("not there".to_owned());
    };
    let all = object
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    kinds.iter().find_map(|kind| {
        let found = all
            .into_iter()
            .flatten()
            .find(|one| one["type"].as_str() == Some(*kind));
        match found {
            Some(one) if one["status"].as_str() == Some("True") => None,
            Some(one) => Some(format!(
                "not {kind}: {}",
                one["message"].as_str().unwrap_or_default()
            )),
            None => Some(format!("not {kind} yet; is its controller running?")),
        }
    })
}

/// Why a pod is not Ready, in the cluster's words.
fn pod_waits(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let conditions = status.conditions.iter().flatten();
    if conditions
        .clone()
        .any(|one| one.type_ == "Ready" && one.status == "True")
    {
        return None;
    }
    let containers = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .flatten();
    for container in containers {
        let Some(state) = &container.state else {
            continue;
        };
        if let Some(waiting) = &state.waiting {
            let reason = waiting.reason.as_deref().unwrap_or("waiting");
            let message = waiting.message.as_deref().unwrap_or_default();
            return Some(format!("{reason} {message}").trim().to_owned());
        }
        if let Some(ended) = &state.terminated {
            return Some(format!("it ended with exit code {}", ended.exit_code));
        }
    }
    let unscheduled = conditions
        .filter(|one| one.type_ == "PodScheduled" && one.status == "False")
        .find_map(|one| one.message.clone());
    Some(unscheduled.unwrap_or_else(|| {
        status
            .phase
            .clone()
            .unwrap_or_else(|| "not started".to_owned())
    }))
}

fn yaml(value: &Value) -> String {
    serde_yaml::to_string(value).unwrap_or_default()
}

/// The object without what only tells eventlab something.
fn shown(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        annotations.remove(APPLIED_ANNOTATION);
        if annotations.is_empty()
            && let Some(Value::Object(metadata)) = object.get_mut("metadata")
        {
            metadata.remove("annotations");
        }
    }
    object
}

/// The live object as far as the desired one speaks of it: a server's defaults are no difference.
fn restricted(live: &Value, desired: &Value) -> Value {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => desired
            .iter()
            .filter_map(|(key, wanted)| Some((key.clone(), restricted(live.get(key)?, wanted))))
            .collect::<Map<_, _>>()
            .into(),
        (Value::Array(live), Value::Array(desired)) if live.len() == desired.len() => live
            .iter()
            .zip(desired)
            .map(|(live, wanted)| restricted(live, wanted))
            .collect(),
        (live, _) => live.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_of_the_server_are_no_difference() {
        let live = json!({"spec": {"ports": [{"port": 1, "protocol": "TCP"}], "type": "ClusterIP"}, "status": {}});
        let desired = json!({"spec": {"ports": [{"port": 1}]}});
        assert_eq!(restricted(&live, &desired), desired);
        let other = json!({"spec": {"ports": [{"port": 2}]}});
        assert_eq!(
            restricted(&live, &other),
            json!({"spec": {"ports": [{"port": 1}]}})
        );
    }

    #[test]
    fn of_several_events_the_latest_is_told() {
        let event = |at: Option<&str>, message: Option<&str>| {
            let value = json!({"metadata": {}, "involvedObject": {}, "lastTimestamp": at, "message": message});
            serde_json::from_value::<Event>(value).unwrap()
        };
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z");
        for (events, want) in [
            (vec![], None),
            (
                vec![event(Some(late), Some("b")), event(Some(early), Some("a"))],
                Some("b"),
            ),
            (
                vec![event(Some(early), Some("a")), event(Some(late), Some("b"))],
                Some("b"),
            ),
            (
                vec![event(Some(early), Some("a")), event(None, Some("x"))],
                Some("a"),
            ),
            (
                vec![event(Some(late), None), event(Some(early), Some("a"))],
                Some("a"),
            ),
            (vec![event(None, Some("x"))], Some("x")),
        ] {
            assert_eq!(last_said(events).as_deref(), want);
        }
    }

    #[test]
    fn a_pod_says_what_it_waits_for() {
        let pod = |status: Value| serde_json::from_value::<Pod>(json!({"status": status})).unwrap();
        let main = |state: Value| json!({"containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state}]});
        for (status, reason) in [
            (
                json!({"conditions": [{"type": "Ready", "status": "True"}]}),
                None,
            ),
            (
                main(
                    json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"x\""}}),
                ),
                Some("ImagePullBackOff Back-off pulling image \"x\""),
            ),
            (
                main(json!({"terminated": {"exitCode": 64}})),
                Some("it ended with exit code 64"),
            ),
            (
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]}),
                Some("0/1 nodes are available"),
            ),
            (json!({"phase": "Pending"}), Some("Pending")),
        ] {
            assert_eq!(pod_waits(&pod(status)).as_deref(), reason);
        }
    }
}
