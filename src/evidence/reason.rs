//! From the texts of HTTP answers, log lines and phases to reason codes.
//!
//! The texts are those of Argo Events 1.9 (filters/data.go, webhook.go) and of the Kubernetes API's refusals.

use super::layer::Reason;

/// Why the EventSource did not take a request; `None` for 200.
#[must_use]
pub fn of_answer(status: u16, body: &str) -> Option<Reason> {
    Some(match status {
        200 => return None,
        400 if body.contains("method") || body.is_empty() => Reason::WrongMethod,
        401 | 403 => Reason::Unauthorized,
        405 => Reason::WrongMethod,
        300..=399 | 404 | 410 => Reason::NoSuchEndpoint,
        500 if !body.contains("failed to") => Reason::BadBody,
        500..=599 => Reason::PublishFailed,
        _ => Reason::BadBody,
    })
}

/// Why a filter let an event go; no error text means a clean mismatch.
#[must_use]
pub fn of_discard(error: Option<&str>) -> Reason {
    match error {
        None => Reason::Mismatch,
        Some(text) if text.contains("error parsing regexp") => Reason::BadPattern,
        Some(text) if text.contains("does not exist") => Reason::MissingPath,
        Some(_) => Reason::FilterError,
    }
}

/// Why a trigger did not make its object.
#[must_use]
pub fn of_trigger(error: &str) -> Reason {
    if error.contains("is forbidden") {
        Reason::Forbidden
    } else if error.contains("already exists") {
        Reason::AlreadyExists
    } else {
        Reason::TriggerFailed
    }
}

/// Why a Workflow did not end well; `None` while it runs and when it succeeded.
#[must_use]
pub fn of_phase(phase: &str) -> Option<Reason> {
    match phase {
        "Failed" => Some(Reason::WorkflowFailed),
        "Error" => Some(Reason::WorkflowError),
        _ => None,
    }
}

/// Why the ledger added nothing; `None` for an outcome that says nothing of the kind.
#[must_use]
pub fn of_attempt(outcome: &str) -> Option<Reason> {
    match outcome {
        "duplicate" => Some(Reason::Duplicate),
        "conflict" => Some(Reason::Conflict),
        "unresolved" => Some(Reason::Unresolved),
        "busy" => Some(Reason::Busy),
        "failed" => Some(Reason::NotWritten),
        "refused" => Some(Reason::StaleOwner),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        for (status, body, want) in [
            (200, "success", None),
            (400, "http method does not match", Some(Reason::WrongMethod)),
            (400, "", Some(Reason::WrongMethod)),
            (400, "unsupoorted method: DELETE", Some(Reason::WrongMethod)),
            (
                400,
                "json: error calling MarshalJSON",
                Some(Reason::BadBody),
            ),
            (
                401,
                "Invalid Authorization Header",
                Some(Reason::Unauthorized),
            ),
            (404, "404 page not found", Some(Reason::NoSuchEndpoint)),
            (301, "", Some(Reason::NoSuchEndpoint)),
            (
                500,
                "invalid semicolon separator in query",
                Some(Reason::BadBody),
            ),
            (500, "failed to record event", Some(Reason::PublishFailed)),
            (503, "", Some(Reason::PublishFailed)),
        ] {
            assert_eq!(of_answer(status, body), want, "{status} {body}");
        }
    }

    #[test]
    fn discards() {
        for (error, want) in [
            (None, Reason::Mismatch),
            (
                Some("data filter error (path 'body.kind' does not exist)"),
                Reason::MissingPath,
            ),
            (
                Some("data filter error (error parsing regexp: missing closing ]: `[`)"),
                Reason::BadPattern,
            ),
            (
                Some("data filter error (strconv.ParseBool: parsing \"x\": invalid syntax)"),
                Reason::FilterError,
            ),
        ] {
            assert_eq!(of_discard(error), want, "{error:?}");
        }
    }
}
