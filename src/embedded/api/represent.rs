//! Objects as the client asked to see them: as stored, in the shape of a sibling group, as metadata, or as a Table.

use axum::body::Bytes;
use serde_json::{Map, Value, json};

use super::accept::Format;
use super::convert;
use super::history::event_line;
use super::registry::{Kind, Storage};
use super::status::Failure;
use super::store::Stored;
use super::table::{self, Include};

/// How objects of one kind are shown in one answer.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub kind: &'static Kind,
    pub format: Format,
    pub include: Include,
}

impl Shape {
    /// The first format that objects can have.
    #[must_use]
    pub fn new(kind: &'static Kind, formats: &[Format], include: Include) -> Self {
        let usable = formats
            .iter()
            .find(|format| !matches!(format, Format::Discovery(_)));
        Shape {
            kind,
            format: usable.copied().unwrap_or(Format::Json),
            include,
        }
    }

    /// Refuses a shape that one object (or a list of them) cannot have.
    ///
    /// # Errors
    /// 406, 400 or, as custom kinds have it, 500.
    pub fn check(&self, list: bool, include: &str) -> Result<(), Failure> {
        let kind = self.kind;
        let group = match kind.group.split('.').next() {
            Some("" | "events") | None => "core",
            Some(first) => first,
        };
        let type_name = match (kind.custom, list) {
            (true, true) => "unstructured.UnstructuredList".to_owned(),
            (_, true) => format!("{group}.{}", kind.list_kind()),
            (_, false) => format!("{group}.{}", kind.kind),
        };
        match self.format {
            Format::Metadata(_) if list => Err(Failure::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{type_name})"
            ))),
            Format::MetadataList(_) if !list && kind.custom => {
                Err(Failure::status(500, "", "content is not a list", None))
            }
            Format::MetadataList(_) if !list => Err(Failure::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{type_name})"
            ))),
            Format::Table(_) => Include::check(include),
            _ => Ok(()),
        }
    }

    /// True if objects are shown as they are stored.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.format == Format::Json && !matches!(self.kind.storage, Storage::Shared(_))
    }

    /// One object.
    #[must_use]
    pub fn object(&self, value: Value) -> Value {
        let value = self.convert(value);
        match self.format {
            Format::Json | Format::Discovery(_) => value,
            Format::Metadata(version) | Format::MetadataList(version) => partial(value, version),
            Format::Table(version) => {
                let rv = value.pointer("/metadata/resourceVersion").cloned();
                table::table(
                    self.kind,
                    std::slice::from_ref(&value),
                    version,
                    self.include,
                    rv_only(rv),
                )
            }
        }
    }

    /// One stored object, serialized.
    #[must_use]
    pub fn stored(&self, stored: &Stored) -> Bytes {
        if self.is_plain() {
            return stored.json.clone();
        }
        let value = stored.value().unwrap_or_default();
        Bytes::from(self.object(value).to_string())
    }

    /// A list answer.
    #[must_use]
    pub fn list(&self, items: &[std::sync::Arc<Stored>], metadata: Value) -> Bytes {
        if self.is_plain() {
            return plain_list(self.kind, items, &metadata);
        }
        let values = items
            .iter()
            .filter_map(|stored| stored.value().ok())
            .map(|value| self.convert(value));
        let body = match self.format {
            Format::Table(version) => {
                let values: Vec<Value> = values.collect();
                table::table(self.kind, &values, version, self.include, metadata)
            }
            Format::Metadata(version) | Format::MetadataList(version) => {
                let items: Vec<Value> = values.map(|value| partial(value, version)).collect();
                let api_version = format!("meta.k8s.io/{version}");
                json!({"kind": "PartialObjectMetadataList", "apiVersion": api_version, "metadata": metadata, "items": items})
            }
            Format::Json | Format::Discovery(_) => {
                let items: Vec<Value> = values.collect();
                json!({"kind": self.kind.list_kind(), "apiVersion": self.kind.api_version(), "metadata": metadata, "items": items})
            }
        };
        Bytes::from(body.to_string())
    }

    /// A watch event line of a stored object.
    #[must_use]
    pub fn event(&self, kind: &str, stored: &Stored) -> Bytes {
        event_line(kind, &self.stored(stored))
    }

    /// A watch event line of a value in storage shape.
    #[must_use]
    pub fn event_of(&self, kind: &str, value: Value) -> Bytes {
        event_line(kind, self.object(value).to_string().as_bytes())
    }

    /// The object of a bookmark.
    #[must_use]
    pub fn bookmark(&self, metadata: Value) -> Value {
        match self.format {
            Format::Table(version) => table::table(self.kind, &[], version, self.include, metadata),
            Format::Metadata(version) | Format::MetadataList(version) => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata})
            }
            Format::Json | Format::Discovery(_) => {
                json!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata})
            }
        }
    }

    fn convert(&self, value: Value) -> Value {
        match self.kind.storage {
            Storage::Shared(_) => convert::from_storage(value),
            Storage::Own | Storage::Virtual => value,
        }
    }
}

fn rv_only(rv: Option<Value>) -> Value {
    let mut map = Map::new();
    if let Some(rv) = rv {
        map.insert("resourceVersion".to_owned(), rv);
    }
    Value::Object(map)
}

/// `PartialObjectMetadata` of an object.
#[must_use]
pub fn partial(mut value: Value, version: &str) -> Value {
    let metadata = value
        .get_mut("metadata")
        .map(Value::take)
        .unwrap_or_default();
    json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata})
}

/// Joins the stored bytes without parsing them.
fn plain_list(kind: &Kind, items: &[std::sync::Arc<Stored>], metadata: &Value) -> Bytes {
    let size: usize = items.iter().map(|item| item.json.len() + 1).sum();
    let mut out = Vec::with_capacity(size + 160);
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        kind.list_kind(),
        kind.api_version()
    );
    out.extend_from_slice(head.as_bytes());
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&item.json);
    }
    out.extend_from_slice(b"]}");
    Bytes::from(out)
}
