//! Failures as the API tells them: `Status` objects with the texts and codes of kube-apiserver.
//!
//! Handlers return [`Failure`]; `server` turns it into the HTTP answer.

use std::borrow::Cow;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use kube::core::Status;
use kube::core::response::{StatusCause, StatusDetails};
use serde_json::{Map, Value, json};

use super::go_text::quote;
use super::registry::Kind;

/// One reason inside an `Invalid` answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub reason: &'static str,
    pub field: String,
    pub message: String,
}

/// A value in a message: a text as Go's `%q` prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        other => other.to_string(),
    }
}

impl Cause {
    /// `Invalid value: …: why`; `value` stands as Go's `%q` or `%v` would print it.
    #[must_use]
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        let shown = shown(value);
        Cause {
            reason: "FieldValueInvalid",
            field: field.into(),
            message: format!("Invalid value: {shown}: {why}"),
        }
    }

    /// `Required value: why`.
    #[must_use]
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Cause {
            reason: "FieldValueRequired",
            field: field.into(),
            message,
        }
    }

    /// `Duplicate value: …`.
    #[must_use]
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Cause {
            reason: "FieldValueDuplicate",
            field: field.into(),
            message: format!("Duplicate value: {}", shown(value)),
        }
    }

    /// `Not found: …`: it names something that is not there.
    #[must_use]
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Cause {
            reason: "FieldValueNotFound",
            field: field.into(),
            message: format!("Not found: {}", shown(value)),
        }
    }

    /// `Forbidden: why`.
    #[must_use]
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Cause {
            reason: "FieldValueForbidden",
            field: field.into(),
            message: format!("Forbidden: {why}"),
        }
    }

    /// Values of `dryRun` of which one is not `All`.
    #[must_use]
    pub fn dry_run(given: &[impl AsRef<str>]) -> Self {
        let given: Vec<&str> = given.iter().map(AsRef::as_ref).collect();
        let message = format!(
            "Unsupported value: {}: supported values: \"All\"",
            Value::from(given)
        );
        Cause {
            reason: "FieldValueNotSupported",
            field: "dryRun".to_owned(),
            message,
        }
    }

    /// `Unsupported value: "x": supported values: "a", "b"`.
    #[must_use]
    pub fn unsupported(field: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|one| quote(one)).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            quote(value),
            list.join(", ")
        );
        Cause {
            reason: "FieldValueNotSupported",
            field: field.into(),
            message,
        }
    }
}

/// Several texts as Go's aggregate error prints them.
#[must_use]
pub fn aggregate(texts: &[String]) -> String {
    match texts {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// 422 for parts of the API that answer with the client's own type.
#[must_use]
pub fn unprocessable(group: &str, kind: &str, name: &str, causes: Vec<StatusCause>) -> Box<Status> {
    let texts: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    let message = format!(
        "{} {} is invalid: {}",
        qualified(group, kind),
        quote(name),
        aggregate(&texts)
    );
    let details = StatusDetails {
        name: name.to_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        uid: String::new(),
        causes,
        retry_after_seconds: 0,
    };
    Box::new(
        Status::failure(&message, "Invalid")
            .with_code(422)
            .with_details(details),
    )
}

/// The fields of a `Status` with `status: Failure`.
#[derive(Clone, Debug, PartialEq)]
pub struct FailureStatus {
    pub code: u16,
    pub reason: Cow<'static, str>,
    pub message: String,
    /// `None` leaves `details` out.
    pub details: Option<Map<String, Value>>,
}

/// Why a request was not answered with what it asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    Status(Box<FailureStatus>),
    /// An unknown URL: plain text, not a Status.
    PageNotFound,
}

const NO_RESOURCE: &str = "the server could not find the requested resource";

/// `plural` or `plural.group`.
#[must_use]
pub fn qualified(group: &str, name: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

fn details(group: &str, kind: &str, name: &str) -> Map<String, Value> {
    let mut map = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            map.insert(key.to_owned(), Value::from(value));
        }
    }
    map
}

impl Failure {
    /// Any Status.
    #[must_use]
    pub fn status(
        code: u16,
        reason: &'static str,
        message: impl Into<String>,
        details: Option<Map<String, Value>>,
    ) -> Self {
        Failure::Status(Box::new(FailureStatus {
            code,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details,
        }))
    }

    fn about(kind: &Kind, name: &str, code: u16, reason: &'static str, message: String) -> Self {
        Failure::status(
            code,
            reason,
            message,
            Some(details(kind.group, kind.plural, name)),
        )
    }

    /// 404 for an object.
    #[must_use]
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {} not found", kind.qualified(), quote(name));
        Failure::about(kind, name, 404, "NotFound", message)
    }

    /// 409 for a name that is taken.
    #[must_use]
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {} already exists", kind.qualified(), quote(name));
        Failure::about(kind, name, 409, "AlreadyExists", message)
    }

    /// 409 for a name whose object is about to go.
    #[must_use]
    pub fn still_exists(kind: &Kind, name: &str) -> Self {
        let message = format!(
            "object is being deleted: {} {} already exists",
            kind.qualified(),
            quote(name)
        );
        Failure::about(kind, name, 409, "AlreadyExists", message)
    }

    /// 409 with its cause.
    #[must_use]
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {why}",
            kind.qualified(),
            quote(name)
        );
        Failure::about(kind, name, 409, "Conflict", message)
    }

    /// 409 with its cause, of a subresource.
    #[must_use]
    pub fn conflict_in(kind: &Kind, sub: &str, name: &str, why: &str) -> Self {
        let resource = format!("{}/{sub}", kind.plural);
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {why}",
            qualified(kind.group, &resource),
            quote(name)
        );
        let details = Some(details(kind.group, &resource, name));
        Failure::status(409, "Conflict", message, details)
    }

    /// 409 of optimistic concurrency.
    #[must_use]
    pub fn modified(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Failure::conflict(kind, name, why)
    }

    /// 403 from admission (not from authorization): `pods "x" is forbidden: why`.
    #[must_use]
    pub fn refused(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("{} {} is forbidden: {why}", kind.qualified(), quote(name));
        Failure::about(kind, name, 403, "Forbidden", message)
    }

    /// 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Failure::status(400, "BadRequest", message, None)
    }

    /// 401.
    #[must_use]
    pub fn unauthorized() -> Self {
        Failure::status(401, "Unauthorized", "Unauthorized", None)
    }

    /// 405 as the generic handler words it.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Failure::status(405, "MethodNotAllowed", message, Some(Map::new()))
    }

    /// 404 for a URL that nothing is served at, among the built-in groups.
    #[must_use]
    pub fn unknown_resource() -> Self {
        Failure::status(404, "NotFound", NO_RESOURCE, Some(Map::new()))
    }

    /// 404 for a URL that nothing is served at: among custom kinds it is a page, elsewhere a Status.
    #[must_use]
    pub fn unknown_url(custom: bool) -> Self {
        if custom {
            Failure::PageNotFound
        } else {
            Failure::unknown_resource()
        }
    }

    /// 405 as custom kinds word it.
    #[must_use]
    pub fn verb_not_supported(kind: &Kind, verb: &str) -> Self {
        let message = format!(
            "{verb} is not supported on resources of kind {}",
            quote(&kind.qualified())
        );
        Failure::about(kind, "", 405, "MethodNotAllowed", message)
    }

    /// 409 for a precondition of a delete; it names the kind where others name the resource.
    #[must_use]
    pub fn precondition(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {why}",
            qualified(kind.group, kind.kind),
            quote(name)
        );
        let details = Some(details(kind.group, kind.kind, name));
        Failure::status(409, "Conflict", message, details)
    }

    /// 410: the watch or page asked for is older than what is kept.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Failure::status(410, "Expired", message, None)
    }

    /// 504: a request that did not come to its end.
    #[must_use]
    pub fn timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        Failure::status(504, "Timeout", message, Some(Map::new()))
    }

    /// 413.
    #[must_use]
    pub fn too_large(message: impl Into<String>) -> Self {
        Failure::status(413, "RequestEntityTooLarge", message, None)
    }

    /// 406 with what there is.
    #[must_use]
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Failure::status(406, "NotAcceptable", message, None)
    }

    /// 415 with what would be accepted.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Failure::status(415, "UnsupportedMediaType", message, None)
    }

    /// 422 without a cause, as a patch that cannot be applied is answered.
    #[must_use]
    pub fn rejected() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Failure::status(422, "Invalid", message, Some(Map::new()))
    }

    /// 422 for an object of `kind`.
    #[must_use]
    pub fn invalid(kind: &Kind, name: &str, causes: Vec<Cause>) -> Self {
        Failure::invalid_as(kind.group, kind.kind, name, causes)
    }

    /// 422 for a kind given by name.
    #[must_use]
    pub fn invalid_as(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let mut texts: Vec<String> = Vec::with_capacity(causes.len());
        for cause in &causes {
            let text = format!("{}: {}", cause.field, cause.message);
            if texts.last() != Some(&text) {
                texts.push(text);
            }
        }
        let text = aggregate(&texts);
        let message = format!(
            "{} {} is invalid: {text}",
            qualified(group, kind),
            quote(name)
        );
        let mut map = details(group, kind, name);
        let list = causes
            .into_iter()
            .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
            .collect::<Vec<_>>();
        map.insert("causes".to_owned(), Value::from(list));
        Failure::status(422, "Invalid", message, Some(map))
    }

    /// 429: clients try again by themselves.
    #[must_use]
    pub fn busy(why: &str) -> Self {
        Failure::status(429, "TooManyRequests", why, None)
    }

    /// 500: the cluster itself is in trouble, for example a full disk.
    #[must_use]
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let text = message.to_string();
        let mut map = Map::new();
        map.insert("causes".to_owned(), json!([{"message": text}]));
        Failure::status(
            500,
            "InternalError",
            format!("Internal error occurred: {text}"),
            Some(map),
        )
    }

    /// Adds a cause to the details.
    #[must_use]
    pub fn with_cause(mut self, cause: Value) -> Self {
        if let Failure::Status(status) = &mut self {
            let details = status.details.get_or_insert_with(Map::new);
            if let Some(list) = details
                .entry("causes")
                .or_insert_with(|| json!([]))
                .as_array_mut()
            {
                list.push(cause);
            }
        }
        self
    }

    /// The HTTP code.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Failure::Status(status) => status.code,
            Failure::PageNotFound => 404,
        }
    }

    /// The Status object (for an unknown page: a NotFound without details).
    #[must_use]
    pub fn body(&self) -> Value {
        match self {
            Failure::Status(status) => status.body(),
            Failure::PageNotFound => FailureStatus {
                code: 404,
                reason: Cow::Borrowed("NotFound"),
                message: NO_RESOURCE.to_owned(),
                details: None,
            }
            .body(),
        }
    }
}

impl From<Box<kube::core::Status>> for Failure {
    fn from(status: Box<kube::core::Status>) -> Self {
        let details = status
            .details
            .as_ref()
            .and_then(|details| serde_json::to_value(details).ok());
        let details = match details {
            Some(Value::Object(map)) => Some(map),
            _ => None,
        };
        Failure::Status(Box::new(FailureStatus {
            code: status.code,
            reason: Cow::Owned(status.reason),
            message: status.message,
            details,
        }))
    }
}

impl FailureStatus {
    fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message,
        });
        if let Value::Object(map) = &mut body {
            if !self.reason.is_empty() {
                map.insert("reason".to_owned(), Value::from(&*self.reason));
            }
            if let Some(details) = &self.details {
                map.insert("details".to_owned(), Value::Object(details.clone()));
            }
            map.insert("code".to_owned(), Value::from(self.code));
        }
        body
    }
}

/// A JSON answer with its code.
#[must_use]
pub fn json_response(code: u16, body: impl Into<Body>) -> Response {
    typed_response(code, "application/json", body)
}

/// An answer with its code and media type.
#[must_use]
pub fn typed_response(code: u16, media_type: &str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let value =
        HeaderValue::from_str(media_type).unwrap_or(HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Failure::PageNotFound => {
                let mut response =
                    typed_response(404, "text/plain; charset=utf-8", "404 page not found\n");
                response.headers_mut().insert(
                    header::X_CONTENT_TYPE_OPTIONS,
                    HeaderValue::from_static("nosniff"),
                );
                response
            }
            Failure::Status(status) => {
                let mut response = json_response(status.code, status.body().to_string());
                if status.code == 403 {
                    let nosniff = HeaderValue::from_static("nosniff");
                    response
                        .headers_mut()
                        .insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
                }
                if status.code == 429 {
                    let seconds = HeaderValue::from_static("1");
                    response.headers_mut().insert(header::RETRY_AFTER, seconds);
                }
                response
            }
        }
    }
}
