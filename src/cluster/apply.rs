//! Applying an object so that what it no longer says is gone, and nothing that is not ours is touched.
//!
//! Create, or replace under the resourceVersion that was read. A hash of what was applied, kept as an annotation, tells
//! an unchanged object without a write.

use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::manifest::text;
use super::{Cluster, LookError, Manifest};
use crate::kinds::{MANAGED_BY, MANAGED_BY_LABEL, WORKLOAD_IMAGE};

pub(super) const APPLIED_ANNOTATION: &str = "eventlab.dev/applied";
/// Names the file that made an object.
pub(super) const MANIFEST_ANNOTATION: &str = "eventlab.dev/manifest";
/// Conflicts are retried on the fresh object this often.
const TRIES: usize = 5;

/// What apply did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Created,
    Configured,
    Unchanged,
}

/// An applied object: what was done, and what it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub change: Change,
    pub fingerprint: Fingerprint,
}

/// Tells whether an object is still the one that was applied. Written as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    /// Of everything but metadata and status.
    pub hash: String,
}

impl Fingerprint {
    fn of(live: &Value) -> Self {
        let content: Map<String, Value> = live
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Self {
            api_version: text(live, "/apiVersion").to_owned(),
            kind: text(live, "/kind").to_owned(),
            name: text(live, "/metadata/name").to_owned(),
            uid: text(live, "/metadata/uid").to_owned(),
            hash: digest(&canonical(&Value::Object(content))),
        }
    }

    /// Reads what [`std::fmt::Display`] wrote.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ').map(str::to_owned);
        let (api_version, kind, name, uid, hash) = (
            words.next()?,
            words.next()?,
            words.next()?,
            words.next()?,
            words.next()?,
        );
        Some(Self {
            api_version,
            kind,
            name,
            uid,
            hash,
        })
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} {} {} {} {}",
            self.api_version, self.kind, self.name, self.uid, self.hash
        )
    }
}

/// How a live object differs from what was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    None,
    Gone,
    /// Deleted and made anew.
    Replaced,
    Changed,
    /// The cluster itself has another version now: this one.
    Version(String),
}

/// The first words of the fingerprint that tells the version of a cluster.
const SERVER: (&str, &str, &str) = ("version", "Cluster", "kubernetes");

/// Why an object was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(
        "{object}: kind {kind} is not one the lab applies; those are {}",
        applied_kinds()
    )]
    UnknownKind { object: String, kind: String },
    #[error(
        "{object} is there and does not carry {MANAGED_BY_LABEL}={MANAGED_BY}: it is not the lab's, and is left alone. Delete or rename it"
    )]
    NotOurs { object: String },
    #[error("{object} is for namespace {namespace}; the lab changes only its own")]
    ForeignNamespace { object: String, namespace: String },
    #[error("the API server refused {object}: {message}")]
    Refused { object: String, message: String },
    #[error("cannot apply {object}: {message}; is the cluster there? (`eventlab status`)")]
    Unavailable { object: String, message: String },
}

/// Kinds a lab may apply: api version, kind, plural, namespaced.
const KINDS: &[(&str, &str, &str, bool)] = &[
    ("v1", "Namespace", "namespaces", false),
    ("v1", "ConfigMap", "configmaps", true),
    ("v1", "Secret", "secrets", true),
    ("v1", "Service", "services", true),
    ("v1", "ServiceAccount", "serviceaccounts", true),
    (
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        true,
    ),
    ("apps/v1", "Deployment", "deployments", true),
    ("rbac.authorization.k8s.io/v1", "Role", "roles", true),
    (
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "rolebindings",
        true,
    ),
    ("argoproj.io/v1alpha1", "EventBus", "eventbus", true),
    ("argoproj.io/v1alpha1", "EventSource", "eventsources", true),
    ("argoproj.io/v1alpha1", "Sensor", "sensors", true),
    (
        "argoproj.io/v1alpha1",
        "WorkflowTemplate",
        "workflowtemplates",
        true,
    ),
    ("argoproj.io/v1alpha1", "Workflow", "workflows", true),
];

/// Version and kind of all that a lab may apply.
fn applied_kinds() -> String {
    let names: Vec<String> = KINDS
        .iter()
        .map(|(version, kind, ..)| format!("{version} {kind}"))
        .collect();
    names.join(", ")
}

impl Cluster {
    /// Applies one object of the lab; adds the lab's label and namespace.
    ///
    /// # Errors
    /// Foreign objects and namespaces, unknown kinds, what the API server refuses, and an API that cannot be asked.
    pub async fn apply(&self, manifest: &Manifest) -> Result<Applied, ApplyError> {
        let title = manifest.title();
        let (api, namespaced) = self.api_for(&manifest.object, &title)?;
        let mut desired = self.desired(&manifest.object, namespaced, &title)?;
        note_file(&mut desired, &manifest.file);
        for _ in 0..TRIES {
            match self.apply_once(&api, &desired, &title).await {
                Err(Retry::Again) => {}
                Err(Retry::Final(error)) => return Err(error),
                Ok(applied) => return Ok(applied),
            }
        }
        Err(ApplyError::Unavailable {
            object: title,
            message: format!("somebody else changed it {TRIES} times meanwhile"),
        })
    }

    pub(super) fn api_for(
        &self,
        object: &Value,
        title: &str,
    ) -> Result<(Api<DynamicObject>, bool), ApplyError> {
        let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let known = KINDS.iter().find(|(known_version, known_kind, ..)| {
            *known_version == version && *known_kind == kind
        });
        let Some((_, _, plural, namespaced)) = known else {
            return Err(ApplyError::UnknownKind {
                object: title.to_owned(),
                kind: format!("{version} {kind}"),
            });
        };
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        Ok((
            api(
                self.client().clone(),
                self.namespace(),
                &resource,
                *namespaced,
            ),
            *namespaced,
        ))
    }

    pub(super) fn desired(
        &self,
        object: &Value,
        namespaced: bool,
        title: &str,
    ) -> Result<Value, ApplyError> {
        let mut object = object.clone();
        let stated = text(&object, "/metadata/namespace").to_owned();
        if namespaced && !stated.is_empty() && stated != self.namespace() {
            return Err(ApplyError::ForeignNamespace {
                object: title.to_owned(),
                namespace: stated,
            });
        }
        if !namespaced && text(&object, "/metadata/name") != self.namespace() {
            return Err(ApplyError::ForeignNamespace {
                object: title.to_owned(),
                namespace: text(&object, "/metadata/name").to_owned(),
            });
        }
        name_image(&mut object, self.host().image());
        if self.host().is_shared() {
            own_volumes(&mut object);
        }
        let hash = digest(&object);
        if let Value::Object(map) = &mut object {
            edit(map, "metadata", |metadata| {
                if namespaced {
                    metadata.insert("namespace".to_owned(), json!(self.namespace()));
                }
                edit(metadata, "labels", |labels| {
                    labels.insert(MANAGED_BY_LABEL.to_owned(), json!(MANAGED_BY));
                });
                edit(metadata, "annotations", |annotations| {
                    annotations.insert(APPLIED_ANNOTATION.to_owned(), json!(hash));
                });
            });
        }
        Ok(object)
    }

    /// The cluster's version, kept beside the fingerprints of what was applied to it.
    ///
    /// # Errors
    /// [`LookError`] when the API server did not say.
    pub async fn server_fingerprint(&self) -> Result<Fingerprint, LookError> {
        let version = self
            .client()
            .apiserver_version()
            .await
            .map_err(LookError::api("read", "the cluster's version".to_owned()))?;
        let (api_version, kind, name) = SERVER;
        Ok(Fingerprint {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: "-".to_owned(),
            hash: version.git_version.replace(' ', "_"),
        })
    }

    /// How the object of a fingerprint differs now.
    ///
    /// # Errors
    /// [`LookError`] when it could not be looked at.
    pub async fn drift(&self, applied: &Fingerprint) -> Result<Drift, LookError> {
        let words = (
            applied.api_version.as_str(),
            applied.kind.as_str(),
            applied.name.as_str(),
        );
        if words == SERVER {
            let now = self.server_fingerprint().await?.hash;
            return Ok(if now == applied.hash {
                Drift::None
            } else {
                Drift::Version(now)
            });
        }
        let title = format!("{}/{}", applied.kind, applied.name);
        let object = json!({"apiVersion": applied.api_version, "kind": applied.kind});
        let Ok((api, _)) = self.api_for(&object, &title) else {
            return Ok(Drift::None);
        };
        let live = api
            .get_opt(&applied.name)
            .await
            .map_err(LookError::api("read", title))?;
        let Some(live) = live else {
            return Ok(Drift::Gone);
        };
        let live = Fingerprint::of(&serde_json::to_value(&live).unwrap_or_default());
        Ok(if live.uid != applied.uid {
            Drift::Replaced
        } else if live.hash == applied.hash {
            Drift::None
        } else {
            Drift::Changed
        })
    }

    async fn apply_once(
        &self,
        api: &Api<DynamicObject>,
        desired: &Value,
        title: &str,
    ) -> Result<Applied, Retry> {
        let name = text(desired, "/metadata/name");
        let live = api
            .get_opt(name)
            .await
            .map_err(|error| failed(title, &error))?;
        let Some(live) = live else {
            return match api
                .create(&PostParams::default(), &typed(desired, title)?)
                .await
            {
                Ok(live) => Ok(applied(Change::Created, &live)),
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                    Err(Retry::Again)
                }
                Err(error) => Err(failed(title, &error)),
            };
        };
        if !is_ours(&live) {
            return Err(Retry::Final(ApplyError::NotOurs {
                object: title.to_owned(),
            }));
        }
        let value = serde_json::to_value(&live).map_err(|error| refused(title, &error))?;
        let hash = "/metadata/annotations/eventlab.dev~1applied";
        if text(&value, hash) == text(desired, hash) && !drifted(&value, desired) {
            return Ok(applied(Change::Unchanged, &live));
        }
        let object = typed(&replacement(&value, desired), title)?;
        match api.replace(name, &PostParams::default(), &object).await {
            Ok(live) => Ok(applied(Change::Configured, &live)),
            Err(kube::Error::Api(status)) if status.reason == "Conflict" => Err(Retry::Again),
            Err(error) => Err(failed(title, &error)),
        }
    }
}

/// The user of the program's image, who is not root.
const IMAGE_GROUP: u32 = 65532;

/// A volume of a real cluster belongs to root unless the pod says for whom it is.
fn own_volumes(object: &mut Value) {
    let spec = match text(object, "/kind") {
        "Deployment" => object.pointer_mut("/spec/template/spec"),
        "WorkflowTemplate" | "Workflow" => object.pointer_mut("/spec"),
        _ => None,
    };
    let Some(Value::Object(spec)) = spec else {
        return;
    };
    let claims = spec
        .get("volumes")
        .and_then(Value::as_array)
        .is_some_and(|volumes| {
            volumes
                .iter()
                .any(|volume| volume.get("persistentVolumeClaim").is_some())
        });
    if claims {
        spec.entry("securityContext")
            .or_insert_with(|| json!({"fsGroup": IMAGE_GROUP}));
    }
}

/// Manifests name the program's image once and for all; a real cluster may know it by another name.
fn name_image(value: &mut Value, image: &str) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "image" && text == WORKLOAD_IMAGE => {
                        image.clone_into(text);
                    }
                    value => name_image(value, image),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| name_image(item, image)),
        _ => {}
    }
}

fn note_file(desired: &mut Value, file: &str) {
    if let Value::Object(map) = desired {
        edit(map, "metadata", |metadata| {
            edit(metadata, "annotations", |annotations| {
                annotations.insert(MANIFEST_ANNOTATION.to_owned(), json!(file));
            });
        });
    }
}

pub(super) fn is_ours(live: &DynamicObject) -> bool {
    let labels = live.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(MANAGED_BY_LABEL))
        .map(String::as_str)
        == Some(MANAGED_BY)
}

fn typed(object: &Value, title: &str) -> Result<DynamicObject, Retry> {
    serde_json::from_value(object.clone()).map_err(|error| refused(title, &error))
}

fn applied(change: Change, live: &DynamicObject) -> Applied {
    let live = serde_json::to_value(live).unwrap_or_default();
    Applied {
        change,
        fingerprint: Fingerprint::of(&live),
    }
}

enum Retry {
    Again,
    Final(ApplyError),
}

fn refused(title: &str, error: &serde_json::Error) -> Retry {
    Retry::Final(ApplyError::Refused {
        object: title.to_owned(),
        message: error.to_string(),
    })
}

fn failed(title: &str, error: &kube::Error) -> Retry {
    Retry::Final(match error {
        kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429 => {
            ApplyError::Refused {
                object: title.to_owned(),
                message: status.message.clone(),
            }
        }
        other => ApplyError::Unavailable {
            object: title.to_owned(),
            message: other.to_string(),
        },
    })
}

fn api(
    client: Client,
    namespace: &str,
    resource: &ApiResource,
    namespaced: bool,
) -> Api<DynamicObject> {
    if namespaced {
        Api::namespaced_with(client, namespace, resource)
    } else {
        Api::all_with(client, resource)
    }
}

/// Somebody else may have changed the live object although our hash still stands on it.
fn drifted(live: &Value, desired: &Value) -> bool {
    let Some(desired) = desired.as_object() else {
        return false;
    };
    desired
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status"))
        .any(|(key, wanted)| !contains(live.get(key), wanted))
}

/// The live value holds everything that is wanted; defaults that a server adds do not count, list lengths do.
pub(super) fn contains(live: Option<&Value>, wanted: &Value) -> bool {
    match (live, wanted) {
        (Some(Value::Object(live)), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| contains(live.get(key), value)),
        (Some(Value::Array(live)), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| contains(Some(live), wanted))
        }
        (Some(live), wanted) => live == wanted,
        (None, wanted) => wanted.is_null(),
    }
}

/// The desired object with what the server owns taken from the live one.
fn replacement(live: &Value, desired: &Value) -> Value {
    let mut object = desired.as_object().cloned().unwrap_or_default();
    let live_metadata = live.get("metadata").cloned().unwrap_or_default();
    edit(&mut object, "metadata", |metadata| {
        keep_metadata(metadata, &live_metadata)
    });
    if let Some(status) = live.get("status") {
        object.entry("status").or_insert_with(|| status.clone());
    }
    let kept: &[&str] = match text(desired, "/kind") {
        "Service" => &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"],
        "PersistentVolumeClaim" => &[
            "volumeName",
            "storageClassName",
            "volumeMode",
            "accessModes",
            "resources",
        ],
        _ => &[],
    };
    if !kept.is_empty() {
        edit(&mut object, "spec", |spec| {
            keep(spec, live.get("spec"), kept)
        });
    }
    if let Some(secrets) = live.get("secrets") {
        object.entry("secrets").or_insert_with(|| secrets.clone());
    }
    Value::Object(object)
}

fn keep_metadata(metadata: &mut Map<String, Value>, live: &Value) {
    keep(
        metadata,
        Some(live),
        &["resourceVersion", "uid", "ownerReferences", "finalizers"],
    );
    for field in ["labels", "annotations"] {
        let kept = live
            .get(field)
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        edit(metadata, field, |target| {
            for (key, value) in kept {
                target.entry(key).or_insert(value);
            }
        });
    }
}

/// Fields that the server filled in or that cannot change.
fn keep(target: &mut Map<String, Value>, live: Option<&Value>, fields: &[&str]) {
    for field in fields {
        if let Some(value) = live.and_then(|live| live.get(*field)) {
            target.insert((*field).to_owned(), value.clone());
        }
    }
}

/// Edits a field that must be an object; anything else in its place is replaced by one.
fn edit(map: &mut Map<String, Value>, field: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    let mut inner = match map.get_mut(field).map(Value::take) {
        Some(Value::Object(inner)) => inner,
        _ => Map::new(),
    };
    change(&mut inner);
    map.insert(field.to_owned(), Value::Object(inner));
}

/// The same content in one order, without the empty fields that typed clients add or drop.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<(&String, Value)> = fields
                .iter()
                .map(|(key, value)| (key, canonical(value)))
                .filter(|(_, value)| !is_empty(value))
                .collect();
            sorted.sort_by_key(|(key, _)| *key);
            sorted
                .into_iter()
                .map(|(key, value)| (key.clone(), value))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn digest(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string().as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_drops_what_is_no_longer_said_and_keeps_what_the_server_owns() {
        let live = json!({"kind": "Service", "metadata": {"resourceVersion": "7", "uid": "u", "labels": {"a": "b"}}, "spec": {"clusterIP": "10.0.0.1", "ports": [1, 2]}, "status": {"x": 1}});
        let desired = json!({"kind": "Service", "metadata": {"name": "s", "labels": {"c": "d"}}, "spec": {"ports": [1]}});
        let object = replacement(&live, &desired);
        assert_eq!(
            object["spec"],
            json!({"ports": [1], "clusterIP": "10.0.0.1"})
        );
        assert_eq!(object["metadata"]["labels"], json!({"c": "d", "a": "b"}));
        assert_eq!(object["metadata"]["resourceVersion"], "7");
        assert_eq!(object["status"], json!({"x": 1}));
    }

    #[test]
    fn a_volume_is_made_for_the_images_user_and_the_image_is_named() {
        let mut object = json!({"kind": "Deployment", "spec": {"template": {"spec": {
            "containers": [{"image": WORKLOAD_IMAGE}, {"image": "other"}], "volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}}}});
        own_volumes(&mut object);
        name_image(&mut object, "registry.example/eventlab:1");
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["fsGroup"], 65532);
        assert_eq!(pod["containers"][0]["image"], "registry.example/eventlab:1");
        assert_eq!(pod["containers"][1]["image"], "other");
        let mut none = json!({"kind": "Sensor", "spec": {"volumes": []}});
        own_volumes(&mut none);
        assert_eq!(none["spec"].get("securityContext"), None);
    }

    #[test]
    fn a_fingerprint_does_not_depend_on_order_or_empty_fields() {
        let object = json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "uid": "u"}, "spec": {"a": 1, "b": [{"c": 2, "d": {}}]}});
        let same = json!({"kind": "A", "spec": {"b": [{"e": null, "c": 2}], "a": 1, "f": []}, "apiVersion": "v1", "metadata": {"uid": "u", "name": "x", "labels": {"l": "m"}}, "status": {"s": 1}});
        let other = json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "uid": "u"}, "spec": {"a": 1, "b": [{"c": 3}]}});
        assert_eq!(Fingerprint::of(&object), Fingerprint::of(&same));
        assert_ne!(Fingerprint::of(&object), Fingerprint::of(&other));
        let line = Fingerprint::of(&object).to_string();
        assert_eq!(Fingerprint::parse(&line), Some(Fingerprint::of(&object)));
        assert_eq!(Fingerprint::parse("v1 A"), None);
    }

    #[test]
    fn drift_is_seen_below_defaults() {
        let desired = json!({"metadata": {}, "spec": {"filters": {"data": [{"path": "a"}]}}});
        assert!(!drifted(
            &json!({"spec": {"filters": {"data": [{"path": "a", "default": 1}]}, "more": true}}),
            &desired
        ));
        assert!(drifted(
            &json!({"spec": {"filters": {"data": [{"path": "b"}]}}}),
            &desired
        ));
        assert!(drifted(
            &json!({"spec": {"filters": {"data": [{"path": "a"}, {"path": "c"}]}}}),
            &desired
        ));
        assert!(drifted(&json!({"spec": {}}), &desired));
    }
}
