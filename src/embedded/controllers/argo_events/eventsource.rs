//! EventSource: a Deployment that runs its sources, and a Service in front of them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::Shared;
use super::conditions::{Conditions, is_ready};
use super::workload::{Failure, SPEC_HASH, Workload, spec_hash};
use crate::embedded::controllers::runtime::error::is_not_found;
use crate::embedded::controllers::runtime::objects::{Labels, controller_ref, is_controlled_by};
use crate::embedded::controllers::runtime::{Next, ObjectKey, Reconcile, ReconcileError, Result};
use crate::embedded::services::eventsource;
use crate::kinds;

const FINALIZER: &str = "eventsource-controller";
const SOURCES: &str = "SourcesProvided";
const DEPLOYED: &str = "Deployed";

pub(super) struct EventSourceController(pub(super) Arc<Shared>);

impl Reconcile for EventSourceController {
    type Key = ObjectKey;

    fn name(&self) -> &'static str {
        "eventsource"
    }

    async fn reconcile(&self, key: ObjectKey) -> Result<Next> {
        let (shared, kind) = (&self.0, kinds::event_source());
        let Some(object) = shared.sources.cache.get(&key) else {
            return Ok(Next::Done);
        };
        let deleting = object.metadata.deletion_timestamp.is_some();
        let object = shared
            .set_finalizer(&kind, &shared.sources, &object, FINALIZER, !deleting)
            .await?;
        if deleting {
            return Ok(Next::Done);
        }
        let mut conditions = Conditions::start(object.data.get("status"), &[SOURCES, DEPLOYED]);
        let outcome = self.install(&object, &mut conditions).await;
        let status = json!({"conditions": conditions.finish()});
        shared
            .write_status(&kind, &shared.sources, &object, status)
            .await?;
        outcome.map(|()| Next::Done)
    }
}

impl EventSourceController {
    async fn install(&self, object: &DynamicObject, conditions: &mut Conditions) -> Result<()> {
        if let Err(message) = validate(object) {
            conditions.mark_false(SOURCES, "InvalidEventSource", &message);
            return Ok(());
        }
        conditions.mark_true(SOURCES);
        let Some(bus) = self.0.bus_of(object) else {
            conditions.mark_false(DEPLOYED, "EventBusNotFound", "EventBus not found.");
            return Ok(());
        };
        if !is_ready(bus.data.get("status")) {
            conditions.mark_false(DEPLOYED, "EventBusNotReady", "EventBus not ready.");
            return Ok(());
        }
        let installed = match self.deploy(object, &bus.data["status"]["config"]).await {
            Ok(()) => self.serve(object).await,
            failed => failed,
        };
        match installed {
            Ok(()) => conditions.mark_true(DEPLOYED),
            Err(Failure(reason, message, error)) => {
                conditions.mark_false(DEPLOYED, reason, message);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn deploy(
        &self,
        object: &DynamicObject,
        bus_config: &Value,
    ) -> std::result::Result<(), Failure> {
        let workload = Workload {
            kind: &kinds::event_source(),
            owner: object,
            role: "eventsource",
            object_variable: "EVENTSOURCE_OBJECT",
            labels: labels(object),
            bus_config,
        };
        self.0.deploy(&workload).await
    }

    /// Makes, makes anew, or deletes the Service.
    async fn serve(&self, object: &DynamicObject) -> std::result::Result<(), Failure> {
        let (shared, uid) = (&self.0, object.uid().unwrap_or_default());
        let present = shared
            .services
            .cache
            .by_index(&uid)
            .into_iter()
            .find(|one| is_controlled_by(&**one, &uid));
        let wanted = service(object).map_err(|error| {
            Failure("BuildServiceFailed", "Failed to build service spec", error)
        })?;
        let api: Api<Service> = Api::namespaced(
            shared.client.clone(),
            &object.namespace().unwrap_or_default(),
        );
        if let Some(present) = &present {
            let hash = |service: &Service| service.annotations().get(SPEC_HASH).cloned();
            if wanted
                .as_ref()
                .is_some_and(|wanted| hash(wanted) == hash(present))
            {
                return Ok(());
            }
            let name = present.name_any();
            match api.delete(&name, &DeleteParams::default()).await {
                Err(error) if !is_not_found(&error) => {
                    let error = ReconcileError::api(format!("delete service {name}"))(error);
                    return Err(Failure(
                        "DeleteServiceFailed",
                        "Failed to delete existing service",
                        error,
                    ));
                }
                _ => drop(shared.services.cache.remove(present)),
            }
        }
        let Some(wanted) = wanted else { return Ok(()) };
        let written = api
            .create(&PostParams::default(), &wanted)
            .await
            .map_err(|error| {
                let error =
                    ReconcileError::api(format!("create service {}", wanted.name_any()))(error);
                Failure("CreateServiceFailed", "Failed to create a service", error)
            })?;
        shared.services.cache.upsert(written);
        Ok(())
    }
}

fn labels(object: &DynamicObject) -> Labels {
    let name = object.name_any();
    Labels::from([
        ("controller".to_owned(), FINALIZER.to_owned()),
        ("eventsource-name".to_owned(), name.clone()),
        ("owner-name".to_owned(), name),
    ])
}

/// The Service that `spec.service` asks for.
fn service(object: &DynamicObject) -> Result<Option<Service>> {
    let spec = &object.data["spec"]["service"];
    if spec["ports"].as_array().is_none_or(Vec::is_empty) {
        return Ok(None);
    }
    let name = object.name_any();
    let custom = |field: &str| -> Labels {
        serde_json::from_value(spec["metadata"][field].clone()).unwrap_or_default()
    };
    let mut all_labels = custom("labels");
    all_labels.extend(object.labels().clone());
    all_labels.extend(labels(object));
    let service = json!({
        "metadata": {
            "name": format!("{name}-eventsource-svc"),
            "namespace": object.namespace(),
            "labels": all_labels,
            "annotations": custom("annotations"),
        },
        "spec": {"type": "ClusterIP", "ports": spec["ports"], "clusterIP": spec["clusterIP"], "selector": labels(object)},
    });
    let mut service: Service = serde_json::from_value(service).map_err(|error| {
        ReconcileError::Malformed(format!("spec.service of event source {name}: {error}"))
    })?;
    service.metadata.owner_references = Some(vec![controller_ref(object, &kinds::event_source())]);
    let hash = spec_hash(&service);
    service.annotations_mut().insert(SPEC_HASH.into(), hash);
    Ok(Some(service))
}

fn validate(object: &DynamicObject) -> std::result::Result<(), String> {
    eventsource::validate(&object.name_any(), &object.data["spec"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(spec: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource",
            "metadata": {"name": "shop", "namespace": "lab", "uid": "u"}, "spec": spec,
        }))
        .expect("event source")
    }

    #[test]
    fn a_webhook_needs_an_endpoint_and_a_port() {
        let webhook = |fields: Value| validate(&source(json!({"webhook": {"orders": fields}})));
        assert_eq!(
            webhook(json!({"endpoint": "/orders", "port": "12000", "method": "POST"})),
            Ok(())
        );
        assert_eq!(
            webhook(json!({"endpoint": "/orders"})),
            Err("Invalid spec: shop - orders".into())
        );
        assert_eq!(
            webhook(json!({"endpoint": "/orders", "port": "x"})),
            Err("Invalid spec: shop - orders".into())
        );
    }

    #[test]
    fn a_filter_that_cannot_be_evaluated_is_refused_and_unknown_fields_are_not_read() {
        let filter = |expression: &str| {
            let hook = json!({"endpoint": "/", "port": "1", "filter": {"expression": expression}});
            validate(&source(
                json!({"webhook": {"a": hook}, "filter": {"expression": "now()"}}),
            ))
        };
        assert_eq!(filter("body.kind == 'x'"), Ok(()));
        let refused = filter("now() > 1").expect_err("refused");
        assert!(
            refused.starts_with("eventlab: the filter expression"),
            "{refused}"
        );
    }

    #[test]
    fn other_sources_are_refused_aloud() {
        let message = validate(&source(json!({"calendar": {"tick": {}}}))).expect_err("refused");
        assert!(message.starts_with("eventlab: spec.calendar"), "{message}");
        let twice = validate(&source(
            json!({"webhook": {"a": {"endpoint": "/", "port": "1"}}, "kafka": {"a": {}}}),
        ));
        assert_eq!(twice, Err("more than one \"a\" found".into()));
    }

    #[test]
    fn a_service_selects_the_pods_of_its_source() {
        let object = source(json!({"service": {"ports": [{"port": 12000, "targetPort": 12000}]}}));
        let service = service(&object).expect("valid").expect("service");
        assert_eq!(service.name_any(), "shop-eventsource-svc");
        assert_eq!(
            service.spec.and_then(|spec| spec.selector),
            Some(labels(&object))
        );
        assert!(super::service(&source(json!({}))).expect("valid").is_none());
    }
}
