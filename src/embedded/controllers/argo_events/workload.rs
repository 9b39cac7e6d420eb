//! The Deployment that runs an EventSource or a Sensor, built from its `spec.template`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Shared;
use crate::embedded::controllers::deployment::fnv32a;
use crate::embedded::controllers::runtime::objects::{Labels, controller_ref, is_controlled_by};
use crate::embedded::controllers::runtime::{ReconcileError, Result};
use crate::kinds::ARGO_EVENTS_IMAGE;

/// Annotation with the hash of what a child was made from; another hash means an update.
pub(super) const SPEC_HASH: &str = "resource-spec-hash";
const LEADER_ELECTION: &str = "events.argoproj.io/leader-election";
const METRICS_PORT: i32 = 7777;

/// What a Deployment is built for.
pub(super) struct Workload<'a> {
    pub kind: &'a ApiResource,
    pub owner: &'a DynamicObject,
    /// `eventsource` or `sensor`: part of the Deployment's name and of the container's argument.
    pub role: &'a str,
    /// Environment variable that carries the object.
    pub object_variable: &'a str,
    pub labels: Labels,
    /// `status.config` of the EventBus.
    pub bus_config: &'a Value,
}

/// A condition's reason and message.
pub(super) struct Failure(pub &'static str, pub &'static str, pub ReconcileError);

impl Shared {
    /// Makes the Deployment, or updates it when what it was made from has changed.
    pub(super) async fn deploy(&self, workload: &Workload<'_>) -> std::result::Result<(), Failure> {
        let wanted = workload.deployment().map_err(|error| {
            Failure(
                "BuildDeploymentSpecFailed",
                "Failed to build Deployment spec.",
                error,
            )
        })?;
        let (namespace, name) = (
            workload.owner.namespace().unwrap_or_default(),
            workload.owner.name_any(),
        );
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &namespace);
        let uid = workload.owner.uid().unwrap_or_default();
        let present = self
            .deployments
            .cache
            .by_index(&uid)
            .into_iter()
            .find(|one| is_controlled_by(&**one, &uid));
        let action = |verb: &str| {
            ReconcileError::api(format!(
                "{verb} the deployment of {} {namespace}/{name}",
                workload.role
            ))
        };
        let written = match present {
            None => api
                .create(&PostParams::default(), &wanted)
                .await
                .map_err(|error| {
                    Failure(
                        "CreateDeploymentFailed",
                        "Failed to create a deployment",
                        action("create")(error),
                    )
                })?,
            Some(present)
                if present.annotations().get(SPEC_HASH) == wanted.annotations().get(SPEC_HASH) =>
            {
                return Ok(());
            }
            Some(present) => {
                let next = updated((*present).clone(), wanted);
                api.replace(&next.name_any(), &PostParams::default(), &next)
                    .await
                    .map_err(|error| {
                        Failure(
                            "UpdateDeploymentFailed",
                            "Failed to update existing deployment",
                            action("update")(error),
                        )
                    })?
            }
        };
        self.deployments.cache.upsert(written);
        Ok(())
    }
}

fn updated(mut present: Deployment, wanted: Deployment) -> Deployment {
    let hash = wanted
        .annotations()
        .get(SPEC_HASH)
        .cloned()
        .unwrap_or_default();
    present.spec = wanted.spec;
    present.metadata.labels = wanted.metadata.labels;
    present.annotations_mut().insert(SPEC_HASH.into(), hash);
    present
}

/// The hash in [`SPEC_HASH`].
pub(super) fn spec_hash(object: &impl Serialize) -> String {
    fnv32a(&serde_json::to_vec(object).unwrap_or_default()).to_string()
}

impl Workload<'_> {
    fn deployment(&self) -> Result<Deployment> {
        let (namespace, name) = (
            self.owner.namespace().unwrap_or_default(),
            self.owner.name_any(),
        );
        let mut labels = self.owner.labels().clone();
        labels.extend(self.labels.clone());
        let deployment = json!({
            "metadata": {"namespace": namespace, "generateName": format!("{name}-{}-", self.role), "labels": labels},
            "spec": self.deployment_spec(),
        });
        let mut deployment: Deployment = serde_json::from_value(deployment).map_err(|error| {
            ReconcileError::Malformed(format!(
                "spec.template of {} {namespace}/{name}: {error}",
                self.role
            ))
        })?;
        deployment.metadata.owner_references = Some(vec![controller_ref(self.owner, self.kind)]);
        let hash = spec_hash(&deployment);
        deployment.annotations_mut().insert(SPEC_HASH.into(), hash);
        Ok(deployment)
    }

    fn spec(&self) -> &Value {
        &self.owner.data["spec"]
    }

    fn deployment_spec(&self) -> Value {
        let template = &self.spec()["template"];
        let mut spec = json!({
            "selector": {"matchLabels": self.labels},
            "replicas": self.spec()["replicas"].as_i64().filter(|count| *count > 0).unwrap_or(1),
            "template": {"metadata": {"labels": self.pod_labels(template)}, "spec": self.pod_spec(template)},
        });
        copy(self.spec(), &mut spec, &["revisionHistoryLimit"]);
        copy(
            &template["metadata"],
            &mut spec["template"]["metadata"],
            &["annotations"],
        );
        spec
    }

    fn pod_labels(&self, template: &Value) -> Map<String, Value> {
        let mut labels = template["metadata"]["labels"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        labels.extend(
            self.labels
                .iter()
                .map(|(key, value)| (key.clone(), json!(value))),
        );
        labels
    }

    fn pod_spec(&self, template: &Value) -> Value {
        let (volumes, mounts) = self.volumes();
        let mut container = json!({
            "name": "main",
            "image": ARGO_EVENTS_IMAGE,
            "args": [format!("{}-service", self.role)],
            "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        });
        let custom = &template["container"];
        copy(
            custom,
            &mut container,
            &[
                "image",
                "command",
                "args",
                "resources",
                "securityContext",
                "imagePullPolicy",
                "envFrom",
            ],
        );
        container["env"] = joined(&custom["env"], self.environment());
        container["volumeMounts"] = joined(&custom["volumeMounts"], mounts);
        let mut spec =
            json!({"containers": [container], "volumes": joined(&template["volumes"], volumes)});
        let fields = [
            "serviceAccountName",
            "securityContext",
            "nodeSelector",
            "tolerations",
            "affinity",
            "imagePullSecrets",
            "priorityClassName",
            "priority",
        ];
        copy(template, &mut spec, &fields);
        spec
    }

    fn environment(&self) -> Vec<Value> {
        let namespace = self.owner.namespace().unwrap_or_default();
        // Without apiVersion and status, as the real controllers hand it over.
        let object = json!({
            "metadata": {"name": self.owner.name_any(), "namespace": namespace},
            "spec": self.spec(),
        });
        let election = self
            .owner
            .annotations()
            .get(LEADER_ELECTION)
            .cloned()
            .unwrap_or_default();
        vec![
            json!({"name": self.object_variable, "value": encoded(&object)}),
            json!({"name": "EVENTBUS_SUBJECT", "value": format!("eventbus-{namespace}")}),
            json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
            json!({"name": "LEADER_ELECTION", "value": election}),
            json!({"name": "EVENTBUS_CONFIG", "value": encoded(self.bus_config)}),
        ]
    }

    /// Volumes and mounts, each in order of its name.
    fn volumes(&self) -> (Vec<Value>, Vec<Value>) {
        let mut volumes =
            BTreeMap::from([("tmp".to_owned(), json!({"name": "tmp", "emptyDir": {}}))]);
        let mut mounts = BTreeMap::from([(
            "tmp".to_owned(),
            json!({"name": "tmp", "mountPath": "/tmp"}),
        )]);
        let access = &self.bus_config["jetstream"]["accessSecret"];
        if let (Some(secret), Some(key)) = (access["name"].as_str(), access["key"].as_str()) {
            let items = json!([{"key": key, "path": "auth.yaml"}]);
            let volume =
                json!({"name": "auth-volume", "secret": {"secretName": secret, "items": items}});
            volumes.insert("auth-volume".into(), volume);
            mounts.insert(
                "auth-volume".into(),
                json!({"name": "auth-volume", "mountPath": "/etc/eventbus/auth"}),
            );
        }
        let of_bus = named_secrets(&self.bus_config["jetstream"]["tls"]);
        for secret in named_secrets(self.spec()).into_iter().chain(of_bus) {
            let name = format!("secret-{secret}").replace('_', "-");
            let path = format!("/argo-events/secrets/{secret}");
            volumes.insert(
                name.clone(),
                json!({"name": name, "secret": {"secretName": secret}}),
            );
            mounts.insert(
                name.clone(),
                json!({"name": name, "readOnly": true, "mountPath": path}),
            );
        }
        (
            volumes.into_values().collect(),
            mounts.into_values().collect(),
        )
    }
}

fn encoded(value: &Value) -> String {
    STANDARD.encode(value.to_string())
}

/// Copies the fields that are there.
fn copy(from: &Value, to: &mut Value, fields: &[&str]) {
    for field in fields {
        if let Some(value) = from.get(field).filter(|value| !value.is_null()) {
            to[*field] = value.clone();
        }
    }
}

fn joined(custom: &Value, own: Vec<Value>) -> Value {
    let mut list = custom.as_array().cloned().unwrap_or_default();
    list.extend(own);
    Value::Array(list)
}

/// Names of the Secrets that fields such as `authSecret: {name, key}` refer to.
fn named_secrets(spec: &Value) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![spec]);
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    let named = field.ends_with("Secret") && value["key"].is_string();
                    if let (true, Some(name)) = (named, value["name"].as_str()) {
                        found.push(name.to_owned());
                    }
                    open.push(value);
                }
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sensor(spec: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Sensor",
            "metadata": {"name": "orders", "namespace": "lab", "uid": "u", "labels": {"team": "a"}},
            "spec": spec,
        }))
        .expect("sensor")
    }

    fn deployment(spec: Value) -> Deployment {
        let (owner, kind) = (sensor(spec), crate::kinds::sensor());
        let bus_config = json!({"jetstream": {"url": "nats://x", "accessSecret": {"name": "auth", "key": "client-auth"}}});
        let workload = Workload {
            kind: &kind,
            owner: &owner,
            role: "sensor",
            object_variable: "SENSOR_OBJECT",
            labels: Labels::from([("sensor-name".to_owned(), "orders".to_owned())]),
            bus_config: &bus_config,
        };
        workload.deployment().expect("deployment")
    }

    #[test]
    fn the_whole_object_travels_in_the_environment() {
        let spec = json!({
            "dependencies": [{"name": "order"}],
            "template": {
                "serviceAccountName": "order-sensor",
                "metadata": {"annotations": {"eventlab.dev/election-seconds": "0"}},
                "container": {"env": [{"name": "LOG_LEVEL", "value": "debug"}]},
            },
        });
        let deployment = deployment(spec.clone());
        let template = deployment.spec.template;
        let pod = template.spec.expect("pod");
        assert_eq!(pod.service_account_name.as_deref(), Some("order-sensor"));
        assert_eq!(
            template
                .metadata
                .and_then(|meta| meta.annotations)
                .map(|all| all.len()),
            Some(1)
        );
        let env = pod.containers[0].env.clone().expect("env");
        assert_eq!(env[0].name, "LOG_LEVEL");
        let object = env
            .iter()
            .find(|one| one.name == "SENSOR_OBJECT")
            .and_then(|one| one.value.clone())
            .expect("object");
        let object: Value =
            serde_json::from_slice(&STANDARD.decode(object).expect("base64")).expect("json");
        assert_eq!(object["spec"], spec);
        let mounts: Vec<_> = pod.containers[0]
            .volume_mounts
            .iter()
            .flatten()
            .map(|one| one.mount_path.as_str())
            .collect();
        assert_eq!(mounts, ["/etc/eventbus/auth", "/tmp"]);
    }

    #[test]
    fn the_hash_follows_the_spec_alone() {
        let hash = |spec: Value| deployment(spec).annotations()[SPEC_HASH].clone();
        assert_eq!(hash(json!({"triggers": []})), hash(json!({"triggers": []})));
        assert_ne!(
            hash(json!({"triggers": []})),
            hash(json!({"triggers": [1]}))
        );
    }

    #[test]
    fn secrets_named_in_the_spec_are_mounted() {
        let spec = json!({"webhook": {"orders": {"authSecret": {"name": "token", "key": "k"}, "secretive": {"name": "x"}}}});
        assert_eq!(named_secrets(&spec), ["token"]);
    }
}
