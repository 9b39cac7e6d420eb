//! What an object that is written says of the one that it is meant for: its name, its uid, its resourceVersion.

use serde_json::Value;

use super::Call;
use crate::embedded::api::go_json;
use crate::embedded::api::object;
use crate::embedded::api::status::{Cause, Failure};
use crate::embedded::api::store::Stored;

/// An object has the name of its URL.
pub(super) fn check_identity(call: &Call, value: &Value) -> Result<(), Failure> {
    check_name(call, object::name(value))
}

/// As [`check_identity`], by the name alone.
pub(super) fn check_name(call: &Call, name: &str) -> Result<(), Failure> {
    let url = call.attributes.name.as_str();
    if name.is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({url} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != url {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({url})"
        )));
    }
    Ok(())
}

/// The resourceVersion that an object names; `None` if it names none.
pub(super) fn named_version(version: &str) -> Result<Option<u64>, Failure> {
    if version.is_empty() {
        return Ok(None);
    }
    let number = go_json::unsigned(version).map_err(|why| Failure::status(500, "", why, None))?;
    Ok(Some(number).filter(|number| *number > 0))
}

/// An update replaces the version that it names; most kinds need name none.
pub(super) fn check_version(call: &Call, version: &str, current: &Stored) -> Result<(), Failure> {
    let Some(version) = named_version(version)? else {
        if !call.kind.needs_version() {
            return Ok(());
        }
        let message = "Invalid value: 0: must be specified for an update".to_owned();
        let cause = Cause {
            reason: "FieldValueInvalid",
            field: "metadata.resourceVersion".to_owned(),
            message,
        };
        return Err(Failure::invalid_as(
            call.kind.group,
            call.kind.plural,
            &call.attributes.name,
            vec![cause],
        ));
    };
    if version != current.rv {
        return Err(Failure::modified(call.kind, &call.attributes.name));
    }
    Ok(())
}

/// An update of an object with another uid means another object.
pub(super) fn check_uid(call: &Call, is: &str, was: &str) -> Result<(), Failure> {
    if is.is_empty() || is == was {
        return Ok(());
    }
    Err(unmet(call, &other_uid(is, was)))
}

/// What is told of an object with another uid.
pub(super) fn other_uid(is: &str, was: &str) -> String {
    format!("Precondition failed: UID in precondition: {is}, UID in object meta: {was}")
}

/// 409 for a precondition that upstream's storage checks, which tells it with the object's key.
pub(super) fn unmet(call: &Call, why: &str) -> Failure {
    let kind = call.kind.stored_as();
    let folder = match (kind.group, kind.plural) {
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        (group, plural) if kind.custom || group == "apiextensions.k8s.io" => {
            format!("{group}/{plural}")
        }
        (_, plural) => plural.to_owned(),
    };
    let name = call.attributes.name.as_str();
    let place = match call.namespace() {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{folder}/{place}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    );
    Failure::conflict(call.kind, name, &why)
}
