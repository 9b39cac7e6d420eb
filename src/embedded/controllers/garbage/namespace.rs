//! Empties a namespace that is being deleted, and then lets it go through its `finalize` subresource.

use std::sync::Arc;

use http::{Method, Request};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Kind;
use crate::embedded::controllers::runtime::error::is_not_found;
use crate::embedded::controllers::runtime::informer::Source;
use crate::embedded::controllers::runtime::{
    Informer, Next, ObjectKey, Reconcile, ReconcileError, Result, Tasks, WorkQueue,
};

struct Namespaces {
    client: Client,
    kinds: Vec<Kind>,
    namespaces: Informer<Namespace>,
}

/// Starts the controller for the kinds given. Its queue takes namespaces from which something has gone.
pub(super) fn start(
    client: &Client,
    kinds: Vec<Kind>,
    tasks: &mut Tasks,
    cancel: &CancellationToken,
) -> Arc<WorkQueue<ObjectKey>> {
    let queue = Arc::new(WorkQueue::new());
    let namespaces = {
        let queue = Arc::clone(&queue);
        Source::new(Api::all(client.clone()))
            .on_change(move |change| {
                if change
                    .new
                    .as_ref()
                    .is_some_and(|namespace: &Arc<Namespace>| {
                        namespace.metadata.deletion_timestamp.is_some()
                    })
                {
                    queue.add(change.key.clone());
                }
            })
            .start(tasks, cancel)
    };
    let kinds = kinds.into_iter().filter(|kind| kind.namespaced).collect();
    let synced = namespaces.clone();
    let controller = Arc::new(Namespaces {
        client: client.clone(),
        kinds,
        namespaces,
    });
    tasks.workers(&controller, &queue, 1, cancel, async move {
        synced.synced().await
    });
    queue
}

impl Reconcile for Namespaces {
    type Key = ObjectKey;

    fn name(&self) -> &'static str {
        "namespace"
    }

    async fn reconcile(&self, key: ObjectKey) -> Result<Next> {
        let Some(namespace) = self.namespaces.cache.get(&key) else {
            return Ok(Next::Done);
        };
        if namespace.metadata.deletion_timestamp.is_none() {
            return Ok(Next::Done);
        }
        let mut left = 0;
        for kind in &self.kinds {
            left += self.empty(kind, &key.name).await?;
        }
        // What is still there comes back through the queue when it goes.
        if left == 0 {
            self.finalize(&namespace).await?;
        }
        Ok(Next::Done)
    }
}

impl Namespaces {
    /// Deletes what is there of one kind, and answers how many objects take their time.
    async fn empty(&self, kind: &Kind, namespace: &str) -> Result<usize> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &kind.resource);
        let plural = &kind.resource.plural;
        let found =
            api.list_metadata(&ListParams::default())
                .await
                .map_err(ReconcileError::api(format!(
                    "list {plural} of namespace {namespace}"
                )))?;
        let mut left = 0;
        for object in found.items {
            if object.metadata.deletion_timestamp.is_some() {
                left += 1;
                continue;
            }
            let name = object.name_any();
            match api.delete(&name, &DeleteParams::background()).await {
                Ok(answer) => left += usize::from(answer.is_left()),
                Err(error) if is_not_found(&error) => {}
                Err(error) => {
                    return Err(ReconcileError::api(format!(
                        "delete {plural} {namespace}/{name}"
                    ))(error));
                }
            }
        }
        Ok(left)
    }

    async fn finalize(&self, namespace: &Namespace) -> Result<()> {
        let name = namespace.name_any();
        let failed =
            |text: String| ReconcileError::Malformed(format!("finalize namespace {name}: {text}"));
        let mut body =
            serde_json::to_value(namespace).map_err(|error| failed(error.to_string()))?;
        body["spec"]["finalizers"] = json!([]);
        let request = Request::builder()
            .method(Method::PUT)
            .uri(format!("/api/v1/namespaces/{name}/finalize"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .map_err(|error| failed(error.to_string()))?;
        match self.client.request::<Value>(request).await {
            Err(error) if !is_not_found(&error) => Err(ReconcileError::api(format!(
                "finalize namespace {name}"
            ))(error)),
            _ => Ok(()),
        }
    }
}
