//! Who asks and for what: the input of authorization.

use std::collections::BTreeMap;

/// An authenticated caller (`authentication.k8s.io/v1` UserInfo).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What a request asks for, as `k8s.io/apiserver/pkg/endpoints/request/requestinfo.go` derives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes {
    Resource(ResourceAttributes),
    NonResource { verb: String, path: String },
}

/// A request for a resource. An empty string means "not given".
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ResourceAttributes {
    /// get, list, watch, create, update, patch, delete, deletecollection, or a special verb.
    pub verb: String,
    /// API group; empty is the core group.
    pub group: String,
    pub version: String,
    /// Plural resource name, without the subresource.
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}
