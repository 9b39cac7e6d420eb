//! What of the lab is on a cluster, and taking it away: only what carries the lab's label, in the lab's namespace.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, ListParams, Preconditions};
use kube::core::ApiResource;
use kube::discovery::{self, ApiGroup, Scope, verbs};
use kube::{Api, ResourceExt as _};

use super::{Cluster, LookError, unanswered};
use crate::kinds::{MANAGED_BY, MANAGED_BY_LABEL};

/// How long an object may take to go, finalizers included.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(250);
/// Who uses the bus goes before it: the EventBus refuses to go while they are there. Volumes go last.
const FIRST: [&str; 2] = ["Sensor", "EventSource"];
const LAST: [&str; 2] = ["EventBus", "PersistentVolumeClaim"];
/// Made by the cluster itself in every namespace, or passing by.
const AUTOMATIC_KINDS: [&str; 5] = ["Event", "Endpoints", "EndpointSlice", "PodMetrics", "Lease"];
const AUTOMATIC_NAMES: [(&str, &str); 4] = [
    ("ServiceAccount", "default"),
    ("ConfigMap", "kube-root-ca.crt"),
    ("ConfigMap", "openshift-service-ca.crt"),
    ("ConfigMap", "istio-ca-root-cert"),
];

/// An object that is on the cluster.
#[derive(Clone, Debug)]
pub struct Held {
    pub kind: String,
    pub name: String,
    uid: String,
    resource: ApiResource,
}

impl std::fmt::Display for Held {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.kind, self.name)
    }
}

/// What the lab's namespace holds.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// With the lab's label, in the order in which they are taken away. What they own goes with them.
    pub ours: Vec<Held>,
    /// Without it, and owned by nothing: never touched.
    pub foreign: Vec<String>,
    /// Kinds that could not be looked at.
    pub unseen: Vec<String>,
    /// The namespace carries the lab's label.
    pub namespace_is_ours: bool,
}

/// What became of the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceEnd {
    Deleted,
    /// It stays, for this reason.
    Kept(String),
}

impl Cluster {
    /// Looks through every kind that the namespace can hold.
    ///
    /// # Errors
    /// [`LookError::Api`] when the kinds could not be discovered, or the namespace not read.
    pub async fn inventory(&self) -> Result<Inventory, LookError> {
        let mut inventory = Inventory::default();
        let namespaces: Api<Namespace> = Api::all(self.client().clone());
        let namespace = namespaces
            .get_opt(self.namespace())
            .await
            .map_err(LookError::api("read namespace", self.namespace()))?;
        let Some(namespace) = namespace else {
            return Ok(inventory);
        };
        inventory.namespace_is_ours = carries_label(namespace.labels());
        let groups = self
            .client()
            .list_api_groups()
            .await
            .map_err(LookError::api("discover", "the kinds of the cluster"))?;
        let mut names: Vec<String> = groups.groups.into_iter().map(|group| group.name).collect();
        names.push(ApiGroup::CORE_GROUP.to_owned());
        for name in names {
            match discovery::group(self.client(), &name).await {
                Ok(group) => self.look_through_group(&group, &mut inventory).await,
                // Served by somebody else, who is away: the others are there all the same.
                Err(error) => {
                    let unseen = format!("the API group {name} ({})", unanswered(&error));
                    inventory.unseen.push(unseen);
                }
            }
        }
        inventory.ours.sort_by_key(|held| rank(&held.kind));
        Ok(inventory)
    }

    async fn look_through_group(&self, group: &ApiGroup, inventory: &mut Inventory) {
        for (resource, capabilities) in group.recommended_resources() {
            let looked = capabilities.scope == Scope::Namespaced
                && capabilities.supports_operation(verbs::LIST)
                && !AUTOMATIC_KINDS.contains(&resource.kind.as_str());
            if looked {
                self.look_through(&resource, inventory).await;
            }
        }
    }

    async fn look_through(&self, resource: &ApiResource, inventory: &mut Inventory) {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client().clone(), self.namespace(), resource);
        let list = match api.list(&ListParams::default()).await {
            Ok(list) => list,
            // A kind that is discovered and not served any more holds nothing.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => return,
            Err(error) => {
                let unseen = format!("{} ({})", resource.kind, unanswered(&error));
                inventory.unseen.push(unseen);
                return;
            }
        };
        for object in list {
            let (name, owned) = (object.name_any(), !object.owner_references().is_empty());
            if owned {
                continue;
            }
            if carries_label(object.labels()) {
                inventory.ours.push(Held {
                    kind: resource.kind.clone(),
                    uid: object.uid().unwrap_or_default(),
                    name,
                    resource: resource.clone(),
                });
            } else if !is_automatic(&resource.kind, &name) {
                inventory.foreign.push(format!("{}/{name}", resource.kind));
            }
        }
    }

    /// Deletes one object of an inventory, as it was then: one made anew since is left alone. Waits until it is gone.
    ///
    /// # Errors
    /// [`LookError`] when it could not be deleted, or does not go.
    pub async fn take_away(&self, held: &Held) -> Result<(), LookError> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client().clone(), self.namespace(), &held.resource);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(held.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match api.delete(&held.name, &params).await {
            Ok(_) => {}
            // Gone already, or made anew under the same name.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(()),
            Err(error) => return Err(LookError::api("delete", held.to_string())(error)),
        }
        let started = tokio::time::Instant::now();
        while started.elapsed() < PATIENCE {
            let live = api
                .get_opt(&held.name)
                .await
                .map_err(LookError::api("read", held.to_string()))?;
            if live.is_none_or(|live| live.uid().as_deref() != Some(&held.uid)) {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        Err(LookError::Stays {
            object: held.to_string(),
            seconds: PATIENCE.as_secs(),
        })
    }

    /// Deletes the namespace, if it carries the lab's label and holds nothing of anybody else's.
    ///
    /// # Errors
    /// [`LookError::Api`].
    pub async fn take_namespace_away(&self) -> Result<NamespaceEnd, LookError> {
        let inventory = self.inventory().await?;
        let kept = |reason: String| Ok(NamespaceEnd::Kept(reason));
        if !inventory.namespace_is_ours {
            return kept(format!("it does not carry {MANAGED_BY_LABEL}={MANAGED_BY}"));
        }
        if let Some(foreign) = inventory.foreign.first() {
            return kept(format!(
                "it holds what is not eventlab's: {foreign}{}",
                if inventory.foreign.len() > 1 {
                    ", …"
                } else {
                    ""
                }
            ));
        }
        if let Some(unseen) = inventory.unseen.first() {
            return kept(format!("not everything in it could be looked at: {unseen}"));
        }
        if let Some(left) = inventory.ours.first() {
            return kept(format!("{left} is still there"));
        }
        let api: Api<Namespace> = Api::all(self.client().clone());
        match api.delete(self.namespace(), &DeleteParams::default()).await {
            Ok(_) => Ok(NamespaceEnd::Deleted),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(NamespaceEnd::Deleted),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                kept(format!("you may not delete it: {}", status.message))
            }
            Err(error) => Err(LookError::api("delete namespace", self.namespace())(error)),
        }
    }
}

fn carries_label(labels: &std::collections::BTreeMap<String, String>) -> bool {
    labels.get(MANAGED_BY_LABEL).map(String::as_str) == Some(MANAGED_BY)
}

fn is_automatic(kind: &str, name: &str) -> bool {
    AUTOMATIC_NAMES.contains(&(kind, name))
        || (kind == "Secret" && name.starts_with("default-token-"))
}

fn rank(kind: &str) -> usize {
    if FIRST.contains(&kind) {
        0
    } else if LAST.contains(&kind) {
        2
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use http_body_util::Full;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::{BusAccess, Context, RealCluster};

    /// An API server of two groups of its own and one of somebody who is away, as a cluster without its metrics server is.
    fn answer(path: &str) -> (u16, Value) {
        let group = |name: &str, version: &str| {
            let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
            json!({"name": name, "versions": [version], "preferredVersion": version})
        };
        let kind = |version: &str, plural: &str, kind: &str| {
            json!({"groupVersion": version, "resources": [{"name": plural, "singularName": "", "namespaced": true,
                "kind": kind, "verbs": ["list", "get", "delete"]}]})
        };
        let labels = json!({MANAGED_BY_LABEL: MANAGED_BY});
        let items = |items: Value| json!({"metadata": {}, "items": items});
        let ours = json!({"metadata": {"name": "orders", "uid": "1", "labels": labels}});
        (
            200,
            match path {
                "/api/v1/namespaces/eventlab" => {
                    json!({"metadata": {"name": "eventlab", "labels": labels}})
                }
                "/apis" => {
                    json!({"groups": [group("metrics.k8s.io", "v1beta1"), group("apps", "v1")]})
                }
                "/api" => json!({"versions": ["v1"], "serverAddressByClientCIDRs": []}),
                "/apis/apps/v1" => kind("apps/v1", "deployments", "Deployment"),
                "/api/v1" => kind("v1", "configmaps", "ConfigMap"),
                "/apis/apps/v1/namespaces/eventlab/deployments" => items(json!([ours])),
                "/api/v1/namespaces/eventlab/configmaps" => {
                    items(json!([{"metadata": {"name": "somebody-elses"}}]))
                }
                _ => {
                    return (
                        503,
                        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503,
                    "reason": "ServiceUnavailable", "message": "the server is currently unable to handle the request"}),
                    );
                }
            },
        )
    }

    #[tokio::test]
    async fn a_group_that_is_away_is_told_and_hides_no_other() {
        let mut context = Context::silent("c").await;
        let service = tower::service_fn(|request: Request<Body>| async move {
            let (code, value) = answer(request.uri().path());
            Response::builder()
                .status(code)
                .body(Full::new(axum::body::Bytes::from(value.to_string())))
        });
        context.client = Client::new(service, "default");
        let options = RealCluster {
            bus: BusAccess::LogOnly,
            ..RealCluster::default()
        };
        let cluster = Cluster::of_context(&context, "eventlab", options);
        let inventory = cluster.inventory().await.unwrap();
        let ours: Vec<String> = inventory.ours.iter().map(Held::to_string).collect();
        assert_eq!(ours, ["Deployment/orders"]);
        assert_eq!(inventory.foreign, ["ConfigMap/somebody-elses"]);
        assert_eq!(
            inventory.unseen,
            ["the API group metrics.k8s.io (the server is currently unable to handle the request)"]
        );
    }
}
