//! create.

use std::sync::Arc;

use serde_json::Value;

use super::update::writer;
use super::{Answer, Call, write_failure};
use crate::embedded::api::admission;
use crate::embedded::api::attributes::{Attributes, ResourceAttributes};
use crate::embedded::api::defaults;
use crate::embedded::api::managed;
use crate::embedded::api::object;
use crate::embedded::api::registry::Kind;
use crate::embedded::api::status::Failure;
use crate::embedded::api::store::{Place, Store, Stored, WriteError};
use crate::embedded::api::validation;

/// Characters of generated names: no vowels and nothing that looks like another one.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Longest base of a generated name.
const MAX_BASE: usize = 58;
/// What is told of an object that is meant for another namespace.
pub(super) const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";
/// Tries before a generated name that is taken is an error.
const TRIES: usize = 8;

/// A new object out of the body.
pub(super) fn create(call: &Call) -> Answer {
    let dry = call.dry_run()?;
    let value = call.object()?;
    create_value(call, value, dry)
}

/// A new object out of a value.
pub(super) fn create_value(call: &Call, value: Value, dry: bool) -> Answer {
    create_applied(call, value, None, dry)
}

/// Who makes an object by an update or an apply must be allowed to create it.
pub(super) fn check_may_create(call: &Call) -> Result<(), Failure> {
    let attributes = ResourceAttributes {
        verb: "create".to_owned(),
        ..call.attributes.clone()
    };
    call.api
        .authorize(&call.user, &Attributes::Resource(attributes))
}

/// A new object with its first owners.
pub(super) fn create_applied(
    call: &Call,
    mut value: Value,
    owners: Option<Value>,
    dry: bool,
) -> Answer {
    place(call.kind, &mut value, call.namespace())?;
    if !object::meta(&value, "resourceVersion").is_empty() {
        let message = "resourceVersion should not be set on objects to be created".to_owned();
        return Err(Failure::status(500, "", message, None));
    }
    create_typed(call, call.typed(value)?, owners, dry)
}

/// A new object out of one that has passed through its type already.
pub(super) fn create_typed(call: &Call, value: Value, owners: Option<Value>, dry: bool) -> Answer {
    let mut value = prepare(call.kind, value);
    match owners {
        Some(owners) => object::set_meta(&mut value, "managedFields", owners),
        None => {
            let kind = call.kind.stored_as();
            let authored = authored(kind, &value);
            managed::created(kind, &authored, &mut value, writer(call));
        }
    }
    warn_of_inert(call, &value);
    let checked = |object: &Value| {
        call.api
            .check_write(&call.user, &call.attributes, object, None)
    };
    match insert(call.api.store(), call.kind, value, dry, checked)? {
        Created::Stored(stored) => {
            call.api.after_create(call.kind, &stored);
            Ok(call.answer(201, &stored))
        }
        Created::Dry(value) => Ok(call.answer_value(201, value)),
    }
}

/// A new object with its defaults, but without what the server decides itself.
fn authored(kind: &Kind, value: &Value) -> Value {
    let mut authored = value.clone();
    defaults::apply(kind, &mut authored);
    let decided: &[&str] = match (kind.group, kind.plural) {
        ("", "services") => &["ipFamilies", "ipFamilyPolicy"],
        ("", "namespaces") => &["finalizers"],
        _ => &[],
    };
    for key in decided {
        if value.pointer(&format!("/spec/{key}")).is_none()
            && let Some(spec) = object::child(&mut authored, "spec")
        {
            spec.shift_remove(*key);
        }
    }
    authored
}

/// Kinds that are only stored: on a real cluster something would act on them.
const INERT: [(&str, &str); 6] = [
    ("", "LimitRange"),
    ("", "ResourceQuota"),
    ("apps", "StatefulSet"),
    ("argoproj.io", "CronWorkflow"),
    ("argoproj.io", "WorkflowEventBinding"),
    ("batch", "Job"),
];

/// Warns whoever creates what nothing here will act on; what a controller makes for itself is its own affair.
fn warn_of_inert(call: &Call, object: &Value) {
    let controlled = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .is_some_and(|owners| owners.iter().any(|owner| owner["controller"] == true));
    if !controlled && INERT.contains(&(call.kind.group, call.kind.kind)) {
        let kind = call.kind.kind;
        call.add_warning(format!(
            "eventlab: {kind} objects are stored, but nothing on the embedded cluster acts on them"
        ));
    }
}

/// What became of a create.
pub enum Created {
    Stored(Arc<Stored>),
    Dry(Value),
}

/// Puts an object into the namespace of the URL, or into none.
///
/// # Errors
/// 400 if it names another one.
pub(super) fn place(kind: &Kind, value: &mut Value, namespace: &str) -> Result<(), Failure> {
    let given = object::namespace(value);
    if !kind.namespaced {
        object::remove_meta(value, "namespace");
        return Ok(());
    }
    if !given.is_empty() && given != namespace {
        return Err(Failure::bad_request(OTHER_NAMESPACE));
    }
    object::set_meta(value, "namespace", namespace);
    Ok(())
}

/// Sets and takes away the fields of a new object that only the server decides.
#[must_use]
pub fn prepare(kind: &'static Kind, mut value: Value) -> Value {
    for key in [
        "resourceVersion",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
    ] {
        object::remove_meta(&mut value, key);
    }
    object::set_meta(&mut value, "uid", uuid::Uuid::new_v4().to_string());
    object::set_meta(&mut value, "creationTimestamp", object::now());
    if kind.generation {
        object::set_meta(&mut value, "generation", 1);
    } else {
        object::remove_meta(&mut value, "generation");
    }
    // A node may report its state as it registers; every other status begins empty.
    if kind.status && kind.plural != "nodes" {
        object::set_field(&mut value, "status", None);
    }
    value
}

/// Names, admits, validates and stores a prepared object.
///
/// # Errors
/// The Status to answer.
pub fn insert(
    store: &Store,
    kind: &'static Kind,
    value: Value,
    dry: bool,
    check: impl Fn(&Value) -> Result<(), Failure>,
) -> Result<Created, Failure> {
    let base = object::meta(&value, "generateName").to_owned();
    let generated = object::name(&value).is_empty() && !base.is_empty();
    let mut tries = if generated { TRIES } else { 1 };
    loop {
        tries -= 1;
        let mut value = value.clone();
        if generated {
            object::set_meta(&mut value, "name", generate_name(&base));
        }
        let result = insert_once(store, kind, value, dry, &check);
        match result {
            Err(failure) if generated && tries > 0 && failure.code() == 409 => {}
            other => return other,
        }
    }
}

fn insert_once(
    store: &Store,
    kind: &'static Kind,
    mut value: Value,
    dry: bool,
    check: &impl Fn(&Value) -> Result<(), Failure>,
) -> Result<Created, Failure> {
    let name = object::name(&value).to_owned();
    let namespace = object::namespace(&value).to_owned();
    admission::check_namespace(store, kind, &namespace, &name)?;
    let _allocating = admission::allocating(store, kind.stored_as());
    admission::admit_new(store, kind.stored_as(), &mut value, dry)?;
    let mut causes = validation::check_metadata(kind, &value);
    causes.extend(validation::check_object(kind, &value));
    if !causes.is_empty() {
        return Err(Failure::invalid(kind, &name, causes));
    }
    check(&value)?;
    let bucket = kind.bucket();
    let place = Place {
        bucket: &bucket,
        namespace: &namespace,
        name: &name,
    };
    if dry {
        return match store.get(place) {
            Some(there) => Err(taken(kind, &name, &there)),
            None => Ok(Created::Dry(value)),
        };
    }
    match store.put(place, None, value) {
        Ok(stored) => Ok(Created::Stored(stored)),
        Err(WriteError::Exists) => Err(match store.get(place) {
            Some(there) => taken(kind, &name, &there),
            None => Failure::already_exists(kind, &name),
        }),
        Err(error) => Err(write_failure(kind, &name, error)),
    }
}

/// 409 for a name that an object has, which may be about to go.
fn taken(kind: &Kind, name: &str, there: &Stored) -> Failure {
    if there.head.deleting {
        Failure::still_exists(kind, name)
    } else {
        Failure::already_exists(kind, name)
    }
}

fn generate_name(base: &str) -> String {
    let random = uuid::Uuid::new_v4();
    // Bytes 6 and 8 carry the version; the first five are random.
    let suffix = random
        .as_bytes()
        .iter()
        .take(5)
        .map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]));
    let base = object::beginning(base, MAX_BASE);
    format!("{base}{}", suffix.collect::<String>())
}
