//! Whether an object is still the one that was applied.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::manifest::text;
use super::{Cluster, LookError};

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
    pub(super) fn of(live: &Value) -> Self {
        let mut content: Map<String, Value> = live
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let kind = text(live, "/kind");
        for (_, part, field) in SET_LATER.iter().filter(|(of, ..)| *of == kind) {
            let part = match *part {
                "" => Some(&mut content),
                part => content.get_mut(part).and_then(Value::as_object_mut),
            };
            if let Some(part) = part {
                part.remove(*field);
            }
        }
        Self {
            api_version: text(live, "/apiVersion").to_owned(),
            kind: kind.to_owned(),
            name: text(live, "/metadata/name").to_owned(),
            uid: text(live, "/metadata/uid").to_owned(),
            hash: digest(&canonical(&Value::Object(content))),
        }
    }

    /// The same object, not there.
    fn absent(&self) -> Self {
        Self {
            uid: NONE.to_owned(),
            hash: NONE.to_owned(),
            ..self.clone()
        }
    }

    /// Of an object that is to be gone.
    #[must_use]
    pub fn gone(api_version: &str, kind: &str, name: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: NONE.to_owned(),
            hash: NONE.to_owned(),
        }
    }

    fn is_absent(&self) -> bool {
        self.uid == NONE && self.hash == NONE
    }

    fn is_server(&self) -> bool {
        (
            self.api_version.as_str(),
            self.kind.as_str(),
            self.name.as_str(),
        ) == SERVER
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

/// How a live object differs from what was applied, or from what was taken as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    None,
    Gone,
    /// It was gone, and is there again.
    Back,
    /// Deleted and made anew.
    Replaced,
    Changed,
    /// The cluster itself has another version now.
    Version,
}

impl Drift {
    /// How an object differs, by the fingerprint that is kept and that of now.
    #[must_use]
    pub fn between(kept: &Fingerprint, live: &Fingerprint) -> Self {
        if kept == live {
            Self::None
        } else if kept.is_server() {
            Self::Version
        } else if live.is_absent() {
            Self::Gone
        } else if kept.is_absent() {
            Self::Back
        } else if kept.uid != live.uid {
            Self::Replaced
        } else {
            Self::Changed
        }
    }
}

/// What a cluster itself sets some time after an object was made: kind, part, field.
const SET_LATER: [(&str, &str, &str); 3] = [
    ("PersistentVolumeClaim", "spec", "volumeName"),
    ("ServiceAccount", "", "secrets"),
    ("ServiceAccount", "", "imagePullSecrets"),
];
/// Stands for a uid or a content that there is not.
const NONE: &str = "-";
/// The first words of the fingerprint that tells the version of a cluster.
const SERVER: (&str, &str, &str) = ("version", "Cluster", "kubernetes");

impl Cluster {
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
            uid: NONE.to_owned(),
            hash: version.git_version.replace(' ', "_"),
        })
    }

    /// The fingerprint of an object as it is now; one that is not there has one, too. A kind that is not known here is
    /// taken to be as it was.
    ///
    /// # Errors
    /// [`LookError`] when it could not be looked at.
    pub async fn live_fingerprint(&self, kept: &Fingerprint) -> Result<Fingerprint, LookError> {
        if kept.is_server() {
            return self.server_fingerprint().await;
        }
        let title = format!("{}/{}", kept.kind, kept.name);
        let object = json!({"apiVersion": kept.api_version, "kind": kept.kind});
        let Ok((api, _)) = self.api_for(&object, &title) else {
            return Ok(kept.clone());
        };
        let live = api
            .get_opt(&kept.name)
            .await
            .map_err(LookError::api("read", title))?;
        Ok(match live {
            Some(live) => {
                // What was read has no version and kind of its own in every answer.
                let mut live = serde_json::to_value(&live).unwrap_or_default();
                live["apiVersion"] = json!(kept.api_version);
                live["kind"] = json!(kept.kind);
                Fingerprint::of(&live)
            }
            None => kept.absent(),
        })
    }
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

pub(super) fn digest(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string().as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_the_cluster_sets_later_is_no_difference() {
        let claim = |spec: Value| {
            let metadata = json!({"name": "x", "uid": "u"});
            Fingerprint::of(
                &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}),
            )
        };
        let made = claim(json!({"accessModes": ["ReadWriteOnce"]}));
        let bound = claim(json!({"accessModes": ["ReadWriteOnce"], "volumeName": "pv-1"}));
        let other = claim(json!({"accessModes": ["ReadOnlyMany"], "volumeName": "pv-1"}));
        assert_eq!(made, bound);
        assert_ne!(made, other);
        let account = |rest: Value| {
            let mut object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "x", "uid": "u"}});
            for (key, value) in rest.as_object().unwrap() {
                object[key] = value.clone();
            }
            Fingerprint::of(&object)
        };
        let made = account(json!({}));
        let token = account(
            json!({"secrets": [{"name": "x-token"}], "imagePullSecrets": [{"name": "x-dockercfg"}]}),
        );
        assert_eq!(made, token);
        assert_ne!(
            made,
            account(json!({"automountServiceAccountToken": false}))
        );
        assert_ne!(
            Fingerprint::of(&json!({"kind": "ConfigMap", "secrets": 1})),
            Fingerprint::of(&json!({"kind": "ConfigMap"}))
        );
    }

    #[test]
    fn a_difference_is_told_by_what_is_kept_and_what_is_there() {
        let print = |uid: &str, hash: &str| {
            Fingerprint::parse(&format!("v1 ConfigMap x {uid} {hash}")).unwrap()
        };
        let (kept, gone) = (print("u", "1"), print("u", "1").absent());
        for (kept, live, drift) in [
            (&kept, print("u", "1"), Drift::None),
            (&kept, print("u", "2"), Drift::Changed),
            (&kept, print("v", "1"), Drift::Replaced),
            (&kept, gone.clone(), Drift::Gone),
            (&gone, gone.clone(), Drift::None),
            (&gone, print("v", "1"), Drift::Back),
        ] {
            assert_eq!(Drift::between(kept, &live), drift, "{kept} to {live}");
        }
        let server = |version: &str| {
            Fingerprint::parse(&format!("version Cluster kubernetes - {version}")).unwrap()
        };
        assert_eq!(Drift::between(&server("1"), &server("1")), Drift::None);
        assert_eq!(Drift::between(&server("1"), &server("2")), Drift::Version);
    }
}
