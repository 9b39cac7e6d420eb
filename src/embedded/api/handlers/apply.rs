//! What a server-side apply must be like, and what becomes of one of an object that is not there.

use serde_json::Value;

use super::preconditions::{check_identity, named_version};
use super::update::{bad_option, writer};
use super::{Answer, Call, create};
use crate::embedded::api::body;
use crate::embedded::api::go_json;
use crate::embedded::api::go_struct::Misfit;
use crate::embedded::api::managed;
use crate::embedded::api::object;
use crate::embedded::api::registry::Kind;
use crate::embedded::api::status::{Cause, Failure};

/// An apply says of what kind and version its object is.
pub(super) fn check_type(version: &str, kind: &str, patch: &Value) -> Result<(), Failure> {
    if !matches!(patch, Value::Null | Value::Object(_)) {
        let word = go_json::word(patch);
        return Err(Failure::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
        )));
    }
    let text = |key: &str| patch.get(key).and_then(Value::as_str).unwrap_or("");
    let (given, found) = (text("apiVersion"), text("kind"));
    if given == version && found == kind {
        return Ok(());
    }
    let slash = if given.contains('/') { "" } else { "/" };
    Err(Failure::bad_request(format!(
        "invalid object type: {slash}{given}, Kind={found}"
    )))
}

/// An apply says who applies.
pub(super) fn check_manager(call: &Call) -> Result<(), Failure> {
    if call.query.text("fieldManager").is_empty() {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(bad_option(cause));
    }
    Ok(())
}

/// An apply says nothing of who applied before.
pub(super) fn check_owners(patch: &Value) -> Result<(), Failure> {
    let owners = patch.pointer("/metadata/managedFields");
    if owners.is_some_and(|value| !value.is_null()) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// An apply says who applies what, and nothing of who did.
pub(super) fn check(call: &Call, patch: &Value) -> Result<(), Failure> {
    check_manager(call)?;
    check_type(&call.kind.api_version(), call.kind.kind, patch)?;
    check_owners(&body::object(call.kind, patch.clone())?)
}

/// An apply names only fields that the kind has, each with a value of its type, and tells the elements of lists apart.
pub(super) fn check_declared(call: &Call, patch: &Value) -> Result<(), Failure> {
    if object::deeper_than(patch, body::MAX_DEPTH) {
        // That is said where the whole object is read.
        return Ok(());
    }
    let typed = body::typed(call.kind, patch);
    check_typed(call.kind, &go_kind(call.kind), patch, typed)
}

/// As [`check_declared`], with what the type that Go calls `go_kind` makes of it.
pub(super) fn check_typed(
    kind: &Kind,
    go_kind: &str,
    patch: &Value,
    typed: Result<Value, Misfit>,
) -> Result<(), Failure> {
    let lines = managed::faults(kind, patch, &typed);
    let why = match (lines.as_slice(), typed) {
        ([], Ok(_)) => return Ok(()),
        ([], Err(misfit)) => return Err(inconvertible(go_kind, patch, &misfit)),
        ([one], _) => one.clone(),
        (several, _) => format!("errors:\n  {}", several.join("\n  ")),
    };
    let message = format!(
        "failed to create typed patch object ({}): {why}",
        named(go_kind, patch)
    );
    Err(Failure::status(500, "", message, None))
}

fn named(go_kind: &str, object: &Value) -> String {
    let (namespace, name) = (object::namespace(object), object::name(object));
    format!("{namespace}/{name}; {go_kind}")
}

/// A kind as Go prints it.
fn go_kind(kind: &Kind) -> String {
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}

/// What was applied cannot be read back.
fn inconvertible(go_kind: &str, object: &Value, misfit: &Misfit) -> Failure {
    let message = format!(
        "failed to convert new object ({}) to proper version: unable to convert unstructured object to {go_kind}: {}",
        named(go_kind, object),
        misfit.converted
    );
    Failure::status(500, "", message, None)
}

/// An apply of an object that is not there creates it, for those who may create.
pub(super) fn apply_new(call: &Call, patch: Value, dry: bool) -> Answer {
    create::check_may_create(call)?;
    let mut value = body::object(call.kind, patch)?;
    if object::name(&value).is_empty() {
        object::set_meta(&mut value, "name", call.attributes.name.as_str());
    }
    check_identity(call, &value)?;
    let uid = object::uid(&value);
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Failure::conflict(call.kind, &call.attributes.name, &why));
    }
    // It says of which version it is meant; there is none to compare with.
    named_version(object::meta(&value, "resourceVersion"))?;
    object::remove_meta(&mut value, "resourceVersion");
    check_declared(call, &value)?;
    let owned = managed::apply(call.kind, None, &value, writer(call), false)?;
    let owners = owned.pointer("/metadata/managedFields").cloned();
    create::create_applied(call, value, owners, dry)
}
