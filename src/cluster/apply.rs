//! Applying an object so that what it no longer says is gone, and nothing that is not ours is touched.
//!
//! Create, or replace under the resourceVersion that was read. A hash of what was applied, kept as an annotation, tells
//! an unchanged object without a write.

use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::fingerprint::digest;
use super::manifest::text;
use super::merge::{drifted, edit, replacement};
use super::{Cluster, Fingerprint, Manifest, told};
use crate::kinds::{MANAGED_BY, MANAGED_BY_LABEL};

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
    #[error("cannot apply {object}: {message}")]
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

impl ApplyError {
    /// Whether what is applied is at fault; else it is a matter of the environment, and nobody's failure.
    #[must_use]
    pub fn is_of_the_manifest(&self) -> bool {
        matches!(
            self,
            ApplyError::UnknownKind { .. }
                | ApplyError::ForeignNamespace { .. }
                | ApplyError::Refused { .. }
        )
    }
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

    /// Looks at an object as [`Cluster::apply`] does before it asks the API server anything.
    ///
    /// # Errors
    /// Foreign namespaces and unknown kinds.
    pub fn vet(&self, manifest: &Manifest) -> Result<(), ApplyError> {
        let title = manifest.title();
        let (_, namespaced) = self.api_for(&manifest.object, &title)?;
        self.desired(&manifest.object, namespaced, &title).map(drop)
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
        self.fit(&mut object);
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
        let value = serde_json::to_value(&live).map_err(|error| {
            Retry::Final(ApplyError::Unavailable {
                object: title.to_owned(),
                message: format!("what is there cannot be read: {error}"),
            })
        })?;
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
        kube::Error::Api(status) if is_about_the_object(status) => ApplyError::Refused {
            object: title.to_owned(),
            message: status.message.clone(),
        },
        other => ApplyError::Unavailable {
            object: title.to_owned(),
            message: told(other),
        },
    })
}

/// Whether an answer speaks of the object's own text.
///
/// Everything else is between eventlab and the API server: who eventlab is (401), what it may do (403, also by quota or an
/// admission rule of the cluster), what somebody else does (404, 408, 409, 429), and what a server or a proxy before it
/// cannot do. A proxy's own 400 has no reason of the API's.
fn is_about_the_object(status: &kube::core::Status) -> bool {
    matches!(
        (status.code, status.reason.as_str()),
        (400, "BadRequest") | (413, "RequestEntityTooLarge") | (422, "Invalid")
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, reason: &str) -> ApplyError {
        let status = kube::core::Status::failure("said so", reason).with_code(code);
        match failed("Sensor/orders", &kube::Error::Api(Box::new(status))) {
            Retry::Final(error) => error,
            Retry::Again => panic!("{code} {reason} is tried again"),
        }
    }

    /// Only what speaks of the object's text is about the object.
    #[test]
    fn no_answer_about_eventlab_or_the_server_is_held_against_a_manifest() {
        for (code, reason) in [
            (400, "BadRequest"),
            (413, "RequestEntityTooLarge"),
            (422, "Invalid"),
        ] {
            assert!(
                answered(code, reason).is_of_the_manifest(),
                "{code} {reason}"
            );
        }
        let named = [
            (401, "Unauthorized"),
            (403, "Forbidden"),
            (404, "NotFound"),
            (405, "MethodNotAllowed"),
            (408, "Timeout"),
            (409, "Conflict"),
            (409, "AlreadyExists"),
            (410, "Expired"),
            (415, "UnsupportedMediaType"),
            (429, "TooManyRequests"),
        ];
        // A proxy's answers have no reason of the API's.
        let foreign = (400..600).map(|code| (code, "Failed to parse error data"));
        for (code, reason) in named.into_iter().chain(foreign) {
            let error = answered(code, reason);
            assert!(!error.is_of_the_manifest(), "{code} {reason}: {error}");
        }
    }
}
