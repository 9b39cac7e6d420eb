//! The texts of refusals, and Go's `%q` that they are written with.

use kube::core::Status;
use kube::core::response::StatusDetails;

use super::Verdict;
use super::rule::combined_resource;
use crate::embedded::api::attributes::{Attributes, User};
use crate::embedded::api::go_text;

/// The message of the 403 for a denied request (`responsewriters.Forbidden` of apiserver).
///
/// `&`, `<` and `>` are escaped as HTML in the middle part; the object's name and the reason are not.
#[must_use]
pub fn forbidden_message(user: &User, attributes: &Attributes, verdict: &Verdict) -> String {
    let mut message = format!(
        "{}: {}",
        subject_of(attributes),
        escape_html(&denied(user, attributes))
    );
    if !verdict.reason.is_empty() {
        message.push_str(": ");
        message.push_str(&verdict.reason);
    }
    message
}

/// The whole Status of the 403 for a denied request.
#[must_use]
pub fn forbidden(user: &User, attributes: &Attributes, verdict: &Verdict) -> Status {
    let details = match attributes {
        Attributes::Resource(wanted) => details(&wanted.name, &wanted.group, &wanted.resource),
        Attributes::NonResource { .. } => details("", "", ""),
    };
    status(&forbidden_message(user, attributes, verdict), details)
}

/// A 403 for an object of `group` and `resource` with a text of its own: `roles.… "x" is forbidden: BECAUSE`.
#[must_use]
pub fn forbidden_because(group: &str, resource: &str, name: &str, because: &str) -> Status {
    let message = format!("{}: {because}", is_forbidden(group, resource, name));
    status(&message, details(name, group, resource))
}

fn status(message: &str, details: StatusDetails) -> Status {
    Status::failure(message, "Forbidden")
        .with_code(403)
        .with_details(details)
}

/// Details of a Status about one object; `kind` is the plural resource name.
pub(super) fn details(name: &str, group: &str, kind: &str) -> StatusDetails {
    StatusDetails {
        name: name.to_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    }
}

fn subject_of(attributes: &Attributes) -> String {
    match attributes {
        Attributes::Resource(wanted) => is_forbidden(&wanted.group, &wanted.resource, &wanted.name),
        Attributes::NonResource { .. } => "forbidden".to_owned(),
    }
}

fn is_forbidden(group: &str, resource: &str, name: &str) -> String {
    let mut qualified = resource.to_owned();
    if !group.is_empty() {
        qualified.push('.');
        qualified.push_str(group);
    }
    match (resource.is_empty(), name.is_empty()) {
        (true, _) => "forbidden".to_owned(),
        (_, true) => format!("{qualified} is forbidden"),
        _ => format!("{qualified} {} is forbidden", go_text::quote(name)),
    }
}

fn denied(user: &User, attributes: &Attributes) -> String {
    let who = go_text::quote(&user.name);
    match attributes {
        Attributes::NonResource { verb, path } => {
            format!("User {who} cannot {verb} path {}", go_text::quote(path))
        }
        Attributes::Resource(wanted) => {
            let resource = go_text::quote(&combined_resource(wanted));
            let group = go_text::quote(&wanted.group);
            let place = if wanted.namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {}", go_text::quote(&wanted.namespace))
            };
            format!(
                "User {who} cannot {} resource {resource} in API group {group} {place}",
                wanted.verb
            )
        }
    }
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
