//! What each verb does, after the caller was authenticated and authorized.

mod apply;
pub mod create;
mod delete;
mod fields;
mod page;
mod preconditions;
mod read;
mod scale;
mod subresources;
mod update;
mod urls;
mod virtual_kinds;

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use hyper::upgrade::OnUpgrade;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::accept::formats;
use super::attributes::{ResourceAttributes, User};
use super::registry::{Kind, Storage};
use super::represent::Shape;
use super::request::{Query, content_type};
use super::server::ApiServer;
use super::status::{Cause, Failure, json_response};
use super::store::{Place, Stored, WriteError};
use super::table::Include;
use super::{body, object};

/// One authorized request for a resource.
pub struct Call {
    pub api: Arc<ApiServer>,
    pub user: User,
    pub kind: &'static Kind,
    pub attributes: ResourceAttributes,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// What the answer's `Warning` headers say.
    pub warnings: Mutex<Vec<String>>,
    /// The connection itself, if the request came over one that can speak another protocol.
    pub upgrade: Mutex<Option<OnUpgrade>>,
    /// Ends what outlives the request.
    pub stop: CancellationToken,
}

/// Longest name of a field manager (bytes).
const MAX_MANAGER: usize = 128;

/// What is told to those who still ask for `v1` Endpoints.
const OLD_ENDPOINTS: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// The result of every handler.
pub type Answer = Result<Response, Failure>;

impl Call {
    /// The connection, once.
    #[must_use]
    pub fn take_upgrade(&self) -> Option<OnUpgrade> {
        self.upgrade
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Name of the bucket of this kind.
    #[must_use]
    pub fn bucket(&self) -> String {
        self.kind.bucket()
    }

    /// Namespace of the object; empty for cluster-scoped kinds (a Namespace is in no namespace).
    #[must_use]
    pub fn namespace(&self) -> &str {
        if self.kind.namespaced {
            &self.attributes.namespace
        } else {
            ""
        }
    }

    /// The object of the request.
    ///
    /// # Errors
    /// 404, or 400 for a name that no object can have.
    pub fn current(&self) -> Result<Arc<Stored>, Failure> {
        urls::check_name(&self.attributes.name)?;
        let bucket = self.bucket();
        let place = Place {
            bucket: &bucket,
            namespace: self.namespace(),
            name: &self.attributes.name,
        };
        self.api
            .store()
            .get(place)
            .ok_or_else(|| Failure::not_found(self.kind, &self.attributes.name))
    }

    /// How the answer shall look.
    #[must_use]
    pub fn shape(&self) -> Shape {
        Shape::new(
            self.kind,
            &formats(&self.headers),
            Include::parse(self.query.text("includeObject")),
        )
    }

    /// True if nothing may be written.
    ///
    /// # Errors
    /// 422 for a value other than `All`.
    pub fn dry_run(&self) -> Result<bool, Failure> {
        let given: Vec<&str> = self.query.all("dryRun").collect();
        if given.iter().all(|one| *one == "All") {
            return Ok(!given.is_empty());
        }
        let cause = Cause::dry_run(&given);
        Err(Failure::invalid_as(
            "meta.k8s.io",
            self.options(),
            "",
            vec![cause],
        ))
    }

    /// Who owns what this request writes: the field manager, else the first word of the user agent, else the account.
    #[must_use]
    pub fn manager(&self) -> &str {
        let agent = self
            .headers
            .get(header::USER_AGENT)
            .and_then(|value| value.to_str().ok());
        let first = agent
            .and_then(|agent| agent.split('/').next())
            .unwrap_or("");
        let first = object::beginning(first, MAX_MANAGER);
        match self.query.text("fieldManager") {
            // The program's own controllers send no agent; their account says who they are.
            "" if first.is_empty() => {
                let name = self.user.name.as_str();
                name.rsplit_once(':').map_or(name, |(_, last)| last)
            }
            "" => first,
            manager => manager,
        }
    }

    /// Refuses a field manager that no entry of `managedFields` could carry.
    fn check_manager(&self) -> Result<(), Failure> {
        let manager = self.query.text("fieldManager");
        let strange = manager.chars().enumerate().find(|(_, c)| c.is_control());
        let cause = match strange {
            _ if manager.len() > MAX_MANAGER => Cause {
                reason: "FieldValueTooLong",
                field: "fieldManager".to_owned(),
                message: format!("Too long: may not be more than {MAX_MANAGER} bytes"),
            },
            Some((at, c)) => {
                let shown: String = manager
                    .chars()
                    .map(|c| match c {
                        '\n' | '\r' | '\t' => c.escape_default().to_string(),
                        c if c.is_control() => format!("\\x{:02x}", u32::from(c)),
                        c => c.to_string(),
                    })
                    .collect();
                let code = u32::from(c);
                let why = format!("invalid character U+{code:04X} (at position {at})");
                Cause {
                    reason: "FieldValueInvalid",
                    field: "fieldManager".to_owned(),
                    message: format!("Invalid value: \"{shown}\": {why}"),
                }
            }
            None => return Ok(()),
        };
        Err(Failure::invalid_as(
            "meta.k8s.io",
            self.options(),
            "",
            vec![cause],
        ))
    }

    /// The kind of the options that come with this request.
    fn options(&self) -> &'static str {
        match self.attributes.verb.as_str() {
            "create" => "CreateOptions",
            "update" => "UpdateOptions",
            "delete" | "deletecollection" => "DeleteOptions",
            _ => "PatchOptions",
        }
    }

    /// True for a server-side apply.
    #[must_use]
    pub fn is_apply(&self) -> bool {
        self.attributes.verb == "patch"
            && content_type(&self.headers) == "application/apply-patch+yaml"
    }

    /// The body as an object of this kind.
    ///
    /// # Errors
    /// 400, 415 or 422.
    pub fn object(&self) -> Result<Value, Failure> {
        body::object(self.kind, body::read(self.kind, &self.headers, &self.body)?)
    }

    /// Notes a warning for the answer.
    pub fn add_warning(&self, text: String) {
        self.warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(text);
    }

    /// Adds the warnings to an answer.
    fn warn(&self, mut response: Response) -> Response {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings.drain(..) {
            let text: String = warning
                .chars()
                .filter(|c| !c.is_control())
                .take(400)
                .collect();
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
                response.headers_mut().append(header::WARNING, value);
            }
        }
        response
    }

    /// Answers one object.
    #[must_use]
    pub fn answer(&self, code: u16, stored: &Stored) -> Response {
        json_response(code, self.shape().stored(stored))
    }

    /// Answers a value in storage shape.
    #[must_use]
    pub fn answer_value(&self, code: u16, value: Value) -> Response {
        json_response(code, self.shape().object(value).to_string())
    }
}

/// Parses a stored object.
///
/// # Errors
/// 500: the stored bytes are damaged.
pub fn value_of(stored: &Stored) -> Result<Value, Failure> {
    stored.value().map_err(|error| {
        Failure::internal(format!(
            "cannot read the stored object {}/{}: {error}",
            stored.namespace, stored.name
        ))
    })
}

/// Tells a failed write; `Exists` and `Changed` as the API words them.
#[must_use]
pub fn write_failure(kind: &Kind, name: &str, error: WriteError) -> Failure {
    match error {
        WriteError::Exists => Failure::already_exists(kind, name),
        WriteError::Changed => Failure::modified(kind, name),
        WriteError::Database(error) => {
            tracing::error!(%error, "write failed");
            Failure::internal(error)
        }
    }
}

/// Carries out a request.
///
/// # Errors
/// The Status to answer.
pub async fn handle(call: Call) -> Answer {
    if matches!(call.attributes.verb.as_str(), "create" | "update" | "patch") {
        call.check_manager()?;
    }
    let response = if call.attributes.subresource.is_empty() {
        main_url(&call)
    } else {
        subresources::handle(&call).await
    };
    Ok(call.warn(response?))
}

fn main_url(call: &Call) -> Answer {
    urls::check(call)?;
    if call.kind.storage == Storage::Virtual {
        return virtual_kinds::handle(call);
    }
    if (call.kind.group, call.kind.plural) == ("", "endpoints") {
        call.add_warning(OLD_ENDPOINTS.to_owned());
    }
    match call.attributes.verb.as_str() {
        "get" => read::get(call),
        "list" => read::list(call),
        "watch" => read::watch(call),
        "create" => create::create(call),
        "update" => update::put(call),
        "patch" => update::patch(call),
        "delete" => delete::delete(call),
        "deletecollection" if call.kind.verbs.contains(&"deletecollection") => {
            delete::delete_collection(call)
        }
        _ => Err(Failure::method_not_allowed()),
    }
}

/// Deletes everything in a namespace that is ending.
pub(super) fn empty_namespace(api: &Arc<ApiServer>, namespace: &str) {
    delete::empty(api, namespace);
}
