//! Why a reconcile did not get to its end.

/// Answer of a reconcile step.
pub type Result<T, E = ReconcileError> = std::result::Result<T, E>;

/// A failed step of a reconcile; the key is tried again with back-off.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The API refused or did not answer.
    #[error("{action}: {}", message(source))]
    Api {
        action: String,
        source: Box<kube::Error>,
    },
    /// What was read is not what this kind looks like.
    #[error("{0}")]
    Malformed(String),
    /// The state seen is not one to act on yet; a later look decides.
    #[error("{0}")]
    NotYet(String),
}

impl ReconcileError {
    /// Names the action that an API error ended.
    pub fn api(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |source| Self::Api {
            action,
            source: Box::new(source),
        }
    }

    /// Whether somebody else changed the object first.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source, .. } if is_conflict(source))
    }
}

/// The message of an API Status, without the transport's wrapping.
#[must_use]
pub fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The reason of an API Status; empty when the error is none.
#[must_use]
pub fn reason(error: &kube::Error) -> &str {
    match error {
        kube::Error::Api(status) => &status.reason,
        _ => "",
    }
}

/// HTTP 409 because the object changed.
#[must_use]
pub fn is_conflict(error: &kube::Error) -> bool {
    reason(error) == "Conflict"
}

/// HTTP 409 because the name is taken.
#[must_use]
pub fn is_already_exists(error: &kube::Error) -> bool {
    reason(error) == "AlreadyExists"
}

/// HTTP 404.
#[must_use]
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// An error that may pass by itself: no answer, overload, a full quota.
#[must_use]
pub fn is_transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            matches!(status.code, 429 | 500 | 502 | 503 | 504)
                || (status.code == 403 && status.message.contains("exceeded quota"))
        }
        kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => true,
        _ => false,
    }
}

/// Turns "not there" into `None`.
///
/// # Errors
/// Every other error, unchanged.
pub fn optional<T>(result: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
