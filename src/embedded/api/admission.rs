//! What a new or changed object must satisfy beyond its own fields: its namespace, its service account, its address.

use std::sync::MutexGuard;

use serde_json::{Value, json};

use super::defaults;
use super::go_text::quote;
use super::object;
use super::registry::Kind;
use super::status::Failure;
use super::store::{Place, Store};

mod services;

pub use services::keep_allocated;

/// Namespaces that cannot be deleted.
pub const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

/// Refuses objects for a namespace that is missing or ending.
///
/// # Errors
/// 404 or 403.
pub fn check_namespace(
    store: &Store,
    kind: &Kind,
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    if !kind.namespaced {
        return Ok(());
    }
    let place = Place {
        bucket: "namespaces",
        namespace: "",
        name: namespace,
    };
    let Some(stored) = store.get(place) else {
        let message = format!("namespaces {} not found", quote(namespace));
        let details = json!({"name": namespace, "kind": "namespaces"});
        return Err(Failure::status(
            404,
            "NotFound",
            message,
            details.as_object().cloned(),
        ));
    };
    if stored.head.deleting {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        return Err(Failure::refused(kind, name, &why).with_cause(json!({
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        })));
    }
    Ok(())
}

/// What is given to a Service is chosen among what no other has, and is its own only when it is stored: held until then.
#[must_use]
pub fn allocating<'a>(store: &'a Store, kind: &Kind) -> Option<MutexGuard<'a, ()>> {
    let allocates = (kind.group, kind.plural) == ("", "services");
    allocates.then(|| store.allocating())
}

/// Fills in what the server decides about a new object; `dry`: nothing is given to anybody.
///
/// # Errors
/// 403 for a pod whose service account is missing.
pub fn admit_new(store: &Store, kind: &Kind, object: &mut Value, dry: bool) -> Result<(), Failure> {
    defaults::apply(kind, object);
    match (kind.group, kind.plural) {
        ("", "pods") => pod(store, kind, object),
        ("", "services") => services::admit(store, kind, None, object, dry),
        _ => Ok(()),
    }
}

fn pod(store: &Store, kind: &Kind, object: &mut Value) -> Result<(), Failure> {
    let namespace = object::namespace(object).to_owned();
    let name = object::name(object).to_owned();
    let Some(spec) = object::child(object, "spec") else {
        return Ok(());
    };
    object::default_field(spec, "serviceAccountName", "default");
    let account = spec
        .get("serviceAccountName")
        .and_then(Value::as_str)
        .unwrap_or("default")
        .to_owned();
    object::default_field(spec, "serviceAccount", account.as_str());
    let place = Place {
        bucket: "serviceaccounts",
        namespace: &namespace,
        name: &account,
    };
    if store.get(place).is_none() {
        let why = format!(
            "error looking up service account {namespace}/{account}: serviceaccount {} not found",
            quote(&account)
        );
        return Err(Failure::refused(kind, &name, &why));
    }
    Ok(())
}

/// Fills in what the server decides about a changed object; `dry`: nothing is given to anybody.
///
/// # Errors
/// 422 for what another object has already.
pub fn admit_change(
    store: &Store,
    kind: &Kind,
    old: &Value,
    new: &mut Value,
    dry: bool,
) -> Result<(), Failure> {
    match (kind.group, kind.plural) {
        ("", "services") => services::admit(store, kind, Some(old), new, dry),
        _ => Ok(()),
    }
}
