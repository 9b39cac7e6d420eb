//! The rows of the table of kinds, and what they are built from.

mod access;
mod argo;
mod core;
mod workloads;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Decode, Kind, Storage, Subresource};
use crate::embedded::api::go_struct::{self, Misfit};

const ALL: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const NO_COLLECTION: &[&str] = &[
    "create", "delete", "get", "list", "patch", "update", "watch",
];
const CREATE: &[&str] = &["create"];
const STATUS: &[&str] = &["get", "patch", "update"];
const STREAM: &[&str] = &["create", "get"];

fn typed<T: DeserializeOwned + Serialize>(value: &Value) -> Result<Value, Misfit> {
    let typed: T = go_struct::decode(value)?;
    serde_json::to_value(typed).map_err(|error| Misfit::told(error.to_string()))
}

const fn built_in(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    decode: Decode,
) -> Kind {
    Kind {
        group,
        version,
        kind,
        plural,
        singular,
        short_names: &[],
        categories: &[],
        namespaced: true,
        verbs: ALL,
        status: false,
        subresources: &[],
        storage: Storage::Own,
        custom: false,
        body: &[],
        generation: false,
        decode: Some(decode),
        fields: &[],
        columns: &[],
    }
}

const fn sub(
    name: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
) -> Subresource {
    Subresource {
        name,
        kind,
        group_version: None,
        verbs,
    }
}

const SCALE: Subresource = Subresource {
    name: "scale",
    kind: "Scale",
    group_version: Some(("autoscaling", "v1")),
    verbs: STATUS,
};

/// All rows, group by group.
pub(super) fn table() -> Vec<Kind> {
    let mut rows = core::core_rows();
    rows.extend(workloads::workload_rows());
    rows.extend(workloads::other_rows());
    rows.extend(access::rbac_rows());
    rows.extend(access::review_rows());
    rows.extend(argo::argo_rows());
    rows
}
