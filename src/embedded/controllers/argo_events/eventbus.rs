//! EventBus: the objects of a JetStream bus, or only the status of one that runs elsewhere.
//!
//! There is one server, whatever `replicas` asks for; the counts that the real controller refuses are refused.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Shared;
use super::conditions::Conditions;
use super::jetstream::{JetStream, stream_config};
use super::workload::SPEC_HASH;
use crate::embedded::controllers::runtime::error::{is_already_exists, is_not_found, message};
use crate::embedded::controllers::runtime::objects::{is_active, is_controlled_by};
use crate::embedded::controllers::runtime::{Next, ObjectKey, Reconcile, ReconcileError, Result};
use crate::kinds;

const FINALIZER: &str = "eventbus-controller";
const DEPLOYED: &str = "Deployed";
const CONFIGURED: &str = "Configured";

pub(super) struct EventBusController(pub(super) Arc<Shared>);

/// A failed step: the condition's reason, and the error.
type Failure = (&'static str, ReconcileError);

impl Reconcile for EventBusController {
    type Key = ObjectKey;

    fn name(&self) -> &'static str {
        "eventbus"
    }

    async fn reconcile(&self, key: ObjectKey) -> Result<Next> {
        let (shared, kind) = (&self.0, kinds::event_bus());
        let Some(object) = shared.buses.cache.get(&key) else {
            return Ok(Next::Done);
        };
        if object.metadata.deletion_timestamp.is_some() {
            self.uninstall(&object).await?;
            return Ok(Next::Done);
        }
        let object = shared
            .set_finalizer(&kind, &shared.buses, &object, FINALIZER, true)
            .await?;
        let mut conditions = Conditions::start(object.data.get("status"), &[DEPLOYED, CONFIGURED]);
        let installed = match validate(&object.data["spec"]) {
            Ok(()) => {
                conditions.mark_true(CONFIGURED);
                self.install(&object, &mut conditions).await.map(Some)
            }
            Err(text) => {
                conditions.mark_false(CONFIGURED, "InvalidSpec", &text);
                Ok(None)
            }
        };
        let mut status = json!({"conditions": conditions.finish()});
        // A bus that cannot be installed as it stands now keeps the address it had.
        let former = object.data["status"].get("config").cloned();
        if let Some(config) = installed.as_ref().ok().cloned().flatten().or(former) {
            status["config"] = config;
        }
        shared
            .write_status(&kind, &shared.buses, &object, status)
            .await?;
        installed.map(|_| Next::Done)
    }
}

impl EventBusController {
    /// A bus in use is not deleted: its deletion waits until nobody names it.
    async fn uninstall(&self, bus: &DynamicObject) -> Result<()> {
        let (shared, name) = (&self.0, bus.name_any());
        let namespace = bus.namespace().unwrap_or_default();
        for (users, what) in [
            (&shared.sources, "EventSources"),
            (&shared.sensors, "Sensors"),
        ] {
            let users = users.cache.by_index(&namespace);
            let linked = users
                .iter()
                .filter(|user| kinds::event_bus_of(&user.data) == name)
                .count();
            if linked > 0 {
                tracing::warn!(target: "controllers", "can not delete an EventBus with {linked} {what} connected");
                return Ok(());
            }
        }
        shared
            .set_finalizer(&kinds::event_bus(), &shared.buses, bus, FINALIZER, false)
            .await?;
        Ok(())
    }

    async fn install(&self, bus: &DynamicObject, conditions: &mut Conditions) -> Result<Value> {
        let spec = &bus.data["spec"];
        if let (Some(exotic), None) = (object(spec, "jetstreamExotic"), object(spec, "jetstream")) {
            conditions.mark_true_because(
                DEPLOYED,
                "Skipped",
                "Skip deployment because of using exotic config.",
            );
            return Ok(json!({"jetstream": exotic}));
        }
        match self.install_jetstream(bus).await {
            Ok(config) => {
                conditions.mark_true_because(DEPLOYED, "Succeeded", "JetStream is deployed");
                Ok(config)
            }
            Err((reason, error)) => {
                let text = match &error {
                    ReconcileError::Api { source, .. } => message(source),
                    other => other.to_string(),
                };
                conditions.mark_false(DEPLOYED, reason, &text);
                Err(error)
            }
        }
    }

    async fn install_jetstream(&self, bus: &DynamicObject) -> std::result::Result<Value, Failure> {
        let parts = JetStream::new(bus);
        let stream_config = stream_config(&bus.data["spec"]["jetstream"])
            .map_err(|error| ("JetStreamConfigMapFailed", ReconcileError::Malformed(error)))?;
        self.ensure_secrets(bus, &parts)
            .await
            .map_err(|error| ("JetStreamAuthSecretsFailed", error))?;
        self.ensure::<ConfigMap>(parts.config_map())
            .await
            .map_err(|error| ("JetStreamConfigMapFailed", error))?;
        self.ensure::<Service>(parts.service())
            .await
            .map_err(|error| ("JetStreamServiceFailed", error))?;
        if let Some(claim) = parts.claim() {
            let ensured = self.ensure::<PersistentVolumeClaim>(claim).await;
            ensured.map_err(|error| ("JetStreamStatefulSetFailed", error))?;
        }
        self.ensure_pod(bus, &parts)
            .await
            .map_err(|error| ("JetStreamStatefulSetFailed", error))?;
        Ok(parts.config(&stream_config))
    }

    /// Both Secrets are made together: one without the other is of no use.
    async fn ensure_secrets(&self, bus: &DynamicObject, parts: &JetStream<'_>) -> Result<()> {
        let api: Api<Secret> = Api::namespaced(self.0.client.clone(), &parts.namespace);
        let uid = bus.uid().unwrap_or_default();
        let mut present = Vec::new();
        for name in [&parts.server_auth, &parts.client_auth] {
            let found = api
                .get_opt(name)
                .await
                .map_err(ReconcileError::api(format!("read secret {name}")))?;
            present.extend(found.filter(|secret| is_controlled_by(secret, &uid)));
        }
        if present.len() == 2 {
            return Ok(());
        }
        for secret in present {
            let name = secret.name_any();
            let deleted = api.delete(&name, &DeleteParams::default()).await;
            deleted.map_err(ReconcileError::api(format!("delete secret {name}")))?;
        }
        for secret in parts.secrets() {
            let secret: Secret = parse(secret)?;
            let created = api.create(&PostParams::default(), &secret).await;
            created.map_err(ReconcileError::api(format!(
                "create secret {}",
                secret.name_any()
            )))?;
        }
        Ok(())
    }

    /// Makes an object, or writes it anew when its hash differs from what is there.
    async fn ensure<K: Resource<DynamicType = ()>>(&self, wanted: Value) -> Result<()> {
        let wanted: DynamicObject = parse(wanted)?;
        let (namespace, name) = (wanted.namespace().unwrap_or_default(), wanted.name_any());
        let api = self.0.api(&ApiResource::erase::<K>(&()), &namespace);
        let kind = K::kind(&());
        let failed = |verb: &str| ReconcileError::api(format!("{verb} {kind} {namespace}/{name}"));
        let hash = |object: &DynamicObject| object.annotations().get(SPEC_HASH).cloned();
        match api.get_opt(&name).await.map_err(failed("read"))? {
            None => drop(
                api.create(&PostParams::default(), &wanted)
                    .await
                    .map_err(failed("create"))?,
            ),
            Some(present) if hash(&wanted).is_none() || hash(&present) == hash(&wanted) => {}
            Some(mut present) => {
                present
                    .metadata
                    .annotations
                    .clone_from(&wanted.metadata.annotations);
                present.data = wanted.data;
                api.replace(&name, &PostParams::default(), &present)
                    .await
                    .map_err(failed("update"))?;
            }
        }
        Ok(())
    }

    /// Makes the server's pod, and makes it anew when it has ended or was made from something else.
    async fn ensure_pod(&self, bus: &DynamicObject, parts: &JetStream<'_>) -> Result<()> {
        let wanted: Pod = parse(parts.pod())?;
        let api: Api<Pod> = Api::namespaced(self.0.client.clone(), &parts.namespace);
        let (name, cache) = (wanted.name_any(), &self.0.pods.cache);
        if let Some(present) = cache.get(&ObjectKey::of(&wanted)) {
            let same = present.annotations().get(SPEC_HASH) == wanted.annotations().get(SPEC_HASH);
            let owned = is_controlled_by(&*present, &bus.uid().unwrap_or_default());
            // One that is on its way out brings the reconcile back when it is gone.
            if present.metadata.deletion_timestamp.is_some()
                || (same && owned && is_active(&present))
            {
                return Ok(());
            }
            let only_this = Preconditions {
                uid: present.uid(),
                resource_version: None,
            };
            let answer = api
                .delete(&name, &DeleteParams::default().preconditions(only_this))
                .await;
            match answer.map(|answer| answer.left()) {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => drop(cache.remove(&present)),
                Err(error) if is_not_found(&error) => drop(cache.remove(&present)),
                Err(error) => return Err(ReconcileError::api(format!("delete pod {name}"))(error)),
            }
        }
        match api.create(&PostParams::default(), &wanted).await {
            Ok(created) => drop(cache.upsert(created)),
            Err(error) if is_already_exists(&error) => {}
            Err(error) => return Err(ReconcileError::api(format!("create pod {name}"))(error)),
        }
        Ok(())
    }
}

fn parse<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value)
        .map_err(|error| ReconcileError::Malformed(format!("spec.jetstream: {error}")))
}

fn object<'a>(spec: &'a Value, field: &str) -> Option<&'a Value> {
    spec.get(field).filter(|value| value.is_object())
}

/// What the real controller refuses, and the kinds of buses that do not run here.
fn validate(spec: &Value) -> std::result::Result<(), String> {
    for field in ["nats", "kafka"] {
        if object(spec, field).is_some() {
            return Err(format!(
                "eventlab: spec.{field} does not run on the embedded cluster; use jetstream or jetstreamExotic"
            ));
        }
    }
    let (jetstream, exotic) = (object(spec, "jetstream"), object(spec, "jetstreamExotic"));
    if jetstream.is_none() && exotic.is_none() {
        let fields =
            r#"either "nats", "jetstream", "jetstreamExotic", or "kafka" needs to be specified"#;
        return Err(format!("invalid spec: {fields}"));
    }
    if let Some(jetstream) = jetstream {
        if jetstream["version"].as_str().unwrap_or_default().is_empty() {
            return Err("invalid spec: a version for jetstream needs to be specified".into());
        }
        if jetstream["replicas"]
            .as_i64()
            .is_some_and(|count| count == 2 || count <= 0)
        {
            return Err(
                "invalid spec: a jetstream eventbus requires 1 replica or >= 3 replicas".into(),
            );
        }
    }
    if exotic.is_some_and(|exotic| exotic["url"].as_str().unwrap_or_default().is_empty()) {
        return Err(r#""spec.jetstreamExotic.url" is missing"#.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_checked_as_upstream_does() {
        let jetstream = |replicas: i64| {
            validate(&json!({"jetstream": {"version": "latest", "replicas": replicas}}))
        };
        assert!(jetstream(1).is_ok() && jetstream(3).is_ok());
        let refused = Err(
            "invalid spec: a jetstream eventbus requires 1 replica or >= 3 replicas".to_owned(),
        );
        assert_eq!(jetstream(2), refused);
        assert_eq!(jetstream(0), refused);
        assert!(validate(&json!({"jetstream": {}})).is_err());
        assert!(validate(&json!({"jetstreamExotic": {"url": "nats://bus:4222"}})).is_ok());
        assert!(
            validate(&json!({"kafka": {"url": "x"}}))
                .expect_err("refused")
                .starts_with("eventlab: spec.kafka")
        );
    }
}
