//! What a server-side apply must be like, and what becomes of one of an object that is not there.

use serde_json::Value;

use super::update::{bad_option, check_identity, writer};
use super::{Answer, Call, create};
use crate::embedded::api::attributes::{Attributes, ResourceAttributes};
use crate::embedded::api::body;
use crate::embedded::api::go_json;
use crate::embedded::api::go_struct::Misfit;
use crate::embedded::api::managed;
use crate::embedded::api::object;
use crate::embedded::api::registry::Kind;
use crate::embedded::api::status::{Cause, Failure};

/// An apply says of what kind and version its object is.
fn check_type(kind: &Kind, patch: &Value) -> Result<(), Failure> {
    if !matches!(patch, Value::Null | Value::Object(_)) {
        let word = go_json::word(patch);
        return Err(Failure::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
        )));
    }
    let text = |key: &str| patch.get(key).and_then(Value::as_str).unwrap_or("");
    let (version, found) = (text("apiVersion"), text("kind"));
    if version == kind.api_version() && found == kind.kind {
        return Ok(());
    }
    let slash = if version.contains('/') { "" } else { "/" };
    Err(Failure::bad_request(format!(
        "invalid object type: {slash}{version}, Kind={found}"
    )))
}

/// An apply says who applies, and nothing of who did.
pub(super) fn check(call: &Call, patch: &Value) -> Result<(), Failure> {
    if call.query.text("fieldManager").is_empty() {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(bad_option(cause));
    }
    check_type(call.kind, patch)?;
    let object = body::object(call.kind, patch.clone())?;
    if object
        .pointer("/metadata/managedFields")
        .is_some_and(|value| !value.is_null())
    {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// An apply names only fields that the kind has, each with a value of its type, and tells the elements of lists apart.
pub(super) fn check_declared(call: &Call, patch: &Value) -> Result<(), Failure> {
    if object::deeper_than(patch, body::MAX_DEPTH) {
        // That is said where the whole object is read.
        return Ok(());
    }
    let typed = body::typed(call.kind, patch);
    let lines = managed::faults(call.kind, patch, &typed);
    let why = match (lines.as_slice(), typed) {
        ([], Ok(_)) => return Ok(()),
        ([], Err(misfit)) => return Err(inconvertible(call.kind, patch, &misfit)),
        ([one], _) => one.clone(),
        (several, _) => format!("errors:\n  {}", several.join("\n  ")),
    };
    let message = format!(
        "failed to create typed patch object ({}): {why}",
        named(call.kind, patch)
    );
    Err(Failure::status(500, "", message, None))
}

fn named(kind: &Kind, object: &Value) -> String {
    let (namespace, name) = (object::namespace(object), object::name(object));
    format!("{namespace}/{name}; {}", go_kind(kind))
}

/// A kind as Go prints it.
fn go_kind(kind: &Kind) -> String {
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}

/// What was applied cannot be read back.
fn inconvertible(kind: &Kind, object: &Value, misfit: &Misfit) -> Failure {
    let message = format!(
        "failed to convert new object ({}) to proper version: unable to convert unstructured object to {}: {}",
        named(kind, object),
        go_kind(kind),
        misfit.converted
    );
    Failure::status(500, "", message, None)
}

/// An apply of an object that is not there creates it, for those who may create.
pub(super) fn apply_new(call: &Call, patch: Value, dry: bool) -> Answer {
    let attributes = ResourceAttributes {
        verb: "create".to_owned(),
        ..call.attributes.clone()
    };
    call.api
        .authorize(&call.user, &Attributes::Resource(attributes))?;
    let mut value = body::object(call.kind, patch)?;
    if object::name(&value).is_empty() {
        object::set_meta(&mut value, "name", call.attributes.name.as_str());
    }
    check_identity(call, &value)?;
    check_declared(call, &value)?;
    let owned = managed::apply(call.kind, None, &value, writer(call), false)?;
    let owners = owned.pointer("/metadata/managedFields").cloned();
    create::create_applied(call, value, owners, dry)
}
