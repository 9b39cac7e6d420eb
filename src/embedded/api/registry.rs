//! The one table of kinds: it drives routing, storage, discovery, tables and decoding. A new kind is a new row.

mod rows;

use std::sync::LazyLock;

use serde_json::Value;

use super::go_struct::Misfit;
use super::status::qualified;

/// A subresource as discovery lists it.
#[derive(Debug)]
pub struct Subresource {
    pub name: &'static str,
    /// Kind of its body; group and version when they differ from the parent's.
    pub kind: &'static str,
    pub group_version: Option<(&'static str, &'static str)>,
    pub verbs: &'static [&'static str],
}

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In the bucket named after the kind.
    Own,
    /// In another kind's bucket, in that kind's shape (`events.k8s.io` in core events).
    Shared(&'static str),
    /// Nowhere: answered on the spot (reviews).
    Virtual,
}

/// A printer column of a custom kind (`additionalPrinterColumns`).
#[derive(Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: &'static str,
    pub format: &'static str,
    /// Dotted path into the object.
    pub path: &'static str,
}

/// A field selector beyond `metadata.name` and `metadata.namespace`.
#[derive(Debug)]
pub struct SelectableField {
    pub label: &'static str,
    /// JSON pointers, first one that is there wins.
    pub pointers: &'static [&'static str],
}

/// Passes an object through the typed struct of its kind: unknown fields fall out, wrong types are an error.
pub type Decode = fn(&Value) -> Result<Value, Misfit>;

/// One row of the table.
#[derive(Debug)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    pub verbs: &'static [&'static str],
    /// Has a status subresource, so that the main URL leaves status alone.
    pub status: bool,
    pub subresources: &'static [Subresource],
    pub storage: Storage,
    /// Defined by a CustomResourceDefinition.
    pub custom: bool,
    /// Top-level fields of a custom kind beside apiVersion, kind and metadata.
    pub body: &'static [&'static str],
    /// Carries `metadata.generation`.
    pub generation: bool,
    /// `None`: custom kinds, decoded by their metadata alone.
    pub decode: Option<Decode>,
    pub fields: &'static [SelectableField],
    /// For custom kinds; built-in kinds have printers in code.
    pub columns: &'static [Column],
}

impl Kind {
    /// `plural` or `plural.group`.
    #[must_use]
    pub fn qualified(&self) -> String {
        qualified(self.group, self.plural)
    }

    /// `version` or `group/version`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The kind of its list.
    #[must_use]
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// The kind whose bucket and shape hold the objects.
    #[must_use]
    pub fn stored_as(&'static self) -> &'static Kind {
        match self.storage {
            Storage::Shared(bucket) => by_bucket(bucket).unwrap_or(self),
            Storage::Own | Storage::Virtual => self,
        }
    }

    /// Name of the bucket in the store.
    #[must_use]
    pub fn bucket(&self) -> String {
        match self.storage {
            Storage::Shared(bucket) => bucket.to_owned(),
            Storage::Own | Storage::Virtual => self.qualified(),
        }
    }

    /// An update of one that is not there makes it (`AllowCreateOnUpdate`).
    #[must_use]
    pub fn made_by_update(&self) -> bool {
        match self.group {
            "" => matches!(
                self.plural,
                "endpoints" | "events" | "limitranges" | "services"
            ),
            "coordination.k8s.io" | "events.k8s.io" | "rbac.authorization.k8s.io" => true,
            _ => false,
        }
    }

    /// An update must say which resourceVersion it replaces (no `AllowUnconditionalUpdate`).
    #[must_use]
    pub fn needs_version(&self) -> bool {
        self.custom || self.group == "coordination.k8s.io"
    }

    /// One that is gone at once is shown as it was, not told of in a Status (`ReturnDeletedObject`).
    #[must_use]
    pub fn shown_when_gone(&self) -> bool {
        let kinds = [
            "persistentvolumeclaims",
            "pods",
            "resourcequotas",
            "serviceaccounts",
            "services",
        ];
        self.group.is_empty() && kinds.contains(&self.plural)
    }

    /// Its objects can have no dependents, so there is nothing to delete before or to orphan.
    #[must_use]
    pub fn childless(&self) -> bool {
        self.plural == "events"
    }

    /// The subresource of that name, if discovery lists it.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}

static TABLE: LazyLock<Vec<Kind>> = LazyLock::new(rows::table);

/// All rows, in discovery order.
#[must_use]
pub fn kinds() -> &'static [Kind] {
    &TABLE
}

/// The row that serves a URL.
#[must_use]
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    kinds()
        .iter()
        .find(|kind| kind.plural == plural && kind.group == group && kind.version == version)
}

/// The row of a kind by its group and kind, whatever the version.
#[must_use]
pub fn by_kind(group: &str, kind: &str) -> Option<&'static Kind> {
    kinds()
        .iter()
        .find(|row| row.kind == kind && row.group == group)
}

/// The row that owns a bucket of the store.
#[must_use]
pub fn by_bucket(bucket: &str) -> Option<&'static Kind> {
    kinds()
        .iter()
        .find(|kind| kind.storage == Storage::Own && kind.qualified() == bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_url_and_its_bucket() {
        for kind in kinds() {
            let found = find(kind.group, kind.version, kind.plural).expect("row");
            assert_eq!(found.kind, kind.kind);
            if kind.storage != Storage::Virtual {
                assert!(by_bucket(&kind.bucket()).is_some(), "{}", kind.qualified());
            }
        }
    }
}
