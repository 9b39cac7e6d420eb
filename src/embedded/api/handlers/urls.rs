//! Which verbs a URL takes.

use super::Call;
use crate::embedded::api::go_text::quote;
use crate::embedded::api::registry::Storage;
use crate::embedded::api::status::Failure;

/// Refuses a verb that the URL of a resource does not take.
///
/// Rules are compared with the name in the URL, and a create takes its name from the body: by a create with both, a
/// rule for one name would give any. Custom kinds take it all the same, as they do in the field.
///
/// # Errors
/// 404 for a URL that the kind does not have, 405 for a verb that it does not take.
pub(super) fn check(call: &Call) -> Result<(), Failure> {
    let verb = call.attributes.verb.as_str();
    let reads_all = matches!(verb, "list" | "watch");
    // The name of a list is out of its field selector.
    let named = !reads_all && !call.attributes.name.is_empty();
    let placed = is_placed(call);
    if call.kind.custom {
        return match verb {
            _ if reads_all => Ok(()),
            _ if !placed => Err(Failure::PageNotFound),
            "update" | "patch" if !named => Err(Failure::bad_request("name must be provided")),
            _ => Ok(()),
        };
    }
    let question = call.kind.storage == Storage::Virtual;
    let there = if question {
        placed && !named
    } else {
        placed || !named
    };
    if !there {
        return Err(Failure::unknown_resource());
    }
    let taken = match verb {
        "create" => placed && !named,
        "list" | "watch" => !question,
        "deletecollection" => placed && !question,
        _ => named,
    };
    if taken {
        Ok(())
    } else {
        Err(Failure::method_not_allowed())
    }
}

/// Whether the URL says in which namespace, where the kind needs one.
pub(super) fn is_placed(call: &Call) -> bool {
    !call.kind.namespaced || !call.attributes.namespace.is_empty()
}

/// Refuses a name that cannot be one segment of a path.
///
/// # Errors
/// 400.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let why = match name {
        "." | ".." => format!("may not be '{name}'"),
        _ => match name.chars().find(|c| matches!(c, '/' | '%')) {
            Some(c) => format!("may not contain '{c}'"),
            None => return Ok(()),
        },
    };
    Err(Failure::bad_request(format!(
        "Name parameter invalid: {}: {why}",
        quote(name)
    )))
}
