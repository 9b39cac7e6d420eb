//! One stored object: its bytes, and the little of it that is kept parsed.

use std::collections::BTreeMap;

use axum::body::Bytes;
use serde_json::Value;

use crate::embedded::api::{object, registry};

/// The few parsed fields of an object that the server itself needs often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub uid: Box<str>,
    pub labels: BTreeMap<String, String>,
    pub deleting: bool,
    /// Values of the selectable fields of the kind that owns the bucket, in their order.
    pub fields: Vec<String>,
}

/// One object: its serialized bytes and a small parsed head.
#[derive(Debug)]
pub struct Stored {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub rv: u64,
    pub head: Head,
    pub json: Bytes,
}

impl Stored {
    pub(super) fn new(bucket: &str, rv: u64, value: &Value, json: Bytes) -> Self {
        let labels = value.pointer("/metadata/labels").and_then(Value::as_object);
        let labels = labels
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let offered = registry::by_bucket(bucket).map_or(&[][..], |kind| kind.fields);
        let fields = offered.iter().map(|field| {
            let found = field
                .pointers
                .iter()
                .filter_map(|pointer| value.pointer(pointer))
                .map(text)
                .find(|text| !text.is_empty());
            found.unwrap_or_default()
        });
        let head = Head {
            uid: object::uid(value).into(),
            labels: labels.collect(),
            deleting: object::is_deleting(value),
            fields: fields.collect(),
        };
        Stored {
            namespace: object::namespace(value).into(),
            name: object::name(value).into(),
            rv,
            head,
            json,
        }
    }

    /// `namespace/name`.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The object as a value.
    ///
    /// # Errors
    /// The stored bytes are not JSON: the file was changed by something else.
    pub fn value(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.json)
    }

    #[cfg(test)]
    pub(in crate::embedded::api) fn for_tests(
        namespace: &str,
        name: &str,
        rv: u64,
        size: usize,
    ) -> Self {
        let json = Bytes::from(vec![b' '; size]);
        Stored {
            namespace: namespace.into(),
            name: name.into(),
            rv,
            head: Head::default(),
            json,
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Which objects of a bucket.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub bucket: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Place<'_> {
    /// `namespace/name`.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}
