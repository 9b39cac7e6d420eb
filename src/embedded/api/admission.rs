//! What a new or changed object must satisfy beyond its own fields: its namespace, its service account, its address.

use serde_json::{Value, json};

use super::defaults;
use super::object;
use super::registry::Kind;
use super::status::Failure;
use super::store::{Interest, Place, Store};

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
        let message = format!("namespaces {namespace:?} not found");
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

/// Fills in what the server decides about a new object.
///
/// # Errors
/// 403 for a pod whose service account is missing.
pub fn admit_new(store: &Store, kind: &Kind, object: &mut Value) -> Result<(), Failure> {
    defaults::apply(kind, object);
    match (kind.group, kind.plural) {
        ("", "pods") => pod(store, kind, object),
        ("", "services") => {
            service_address(store, object);
            Ok(())
        }
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
            "error looking up service account {namespace}/{account}: serviceaccount {account:?} not found"
        );
        return Err(Failure::refused(kind, &name, &why));
    }
    Ok(())
}

/// Gives a Service an address of 10.96.0.0/16 that no other one has.
fn service_address(store: &Store, object: &mut Value) {
    let interest = Interest::new("services", None, super::selectors::Selector::default());
    let services = store.list(&interest, None, 0).items;
    let offered = super::registry::by_bucket("services").map_or(&[][..], |kind| kind.fields);
    let at = offered
        .iter()
        .position(|field| field.label == "spec.clusterIP");
    let taken: Vec<&str> = services
        .iter()
        .filter_map(|one| one.head.fields.get(at?))
        .map(String::as_str)
        .collect();
    let seed = format!("{}/{}", object::namespace(object), object::name(object));
    let Some(spec) = object::child(object, "spec") else {
        return;
    };
    if spec.get("type").and_then(Value::as_str) == Some("ExternalName") {
        return;
    }
    let asked = spec
        .get("clusterIP")
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_owned();
    let address = if asked.is_empty() {
        free_address(&seed, &taken)
    } else {
        asked
    };
    spec.insert("clusterIP".to_owned(), Value::from(address.as_str()));
    object::default_field(spec, "clusterIPs", json!([address]));
}

/// What a Service was given, it keeps when its new spec does not speak of it.
pub fn keep_allocated(kind: &Kind, old: &Value, new: &mut Value) {
    if (kind.group, kind.plural) != ("", "services") {
        return;
    }
    let Some(spec) = object::child(new, "spec") else {
        return;
    };
    let outside = |kind: Option<&Value>| kind.and_then(Value::as_str) == Some("ExternalName");
    if outside(spec.get("type")) || outside(old.pointer("/spec/type")) {
        return;
    }
    let empty = |value: Option<&Value>| {
        value.is_none_or(|value| value.is_null() || *value == "" || *value == json!([]))
    };
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if empty(spec.get(key))
            && let Some(was) = old.pointer(&format!("/spec/{key}"))
        {
            spec.insert(key.to_owned(), was.clone());
        }
    }
}

/// Starts at a place that depends on the name, so that a rewound cluster gives the same addresses again.
fn free_address(seed: &str, taken: &[&str]) -> String {
    let start = seed.bytes().fold(5381_u32, |hash, byte| {
        hash.wrapping_mul(33) ^ u32::from(byte)
    });
    let candidates = (0..65_000_u32).map(|step| (start.wrapping_add(step)) % 65_000 + 100);
    let address = |number: u32| format!("10.96.{}.{}", number / 256, number % 256);
    candidates
        .map(address)
        .find(|address| !taken.contains(&address.as_str()))
        .unwrap_or_default()
}
