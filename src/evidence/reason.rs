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
        408 | 425 | 429 => Reason::Unavailable,
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
    } else if is_trouble_of_the_api(error) {
        Reason::Unavailable
    } else {
        Reason::TriggerFailed
    }
}

/// What clients say when the API server did not decide: it does not know who asks, has no time, or is not there.
const TROUBLE: &[&str] = &[
    "Unauthorized",
    "asked for the client to provide credentials",
    "Internal error occurred",
    "currently unable to handle the request",
    "unable to return a response in the time allotted",
    "received too many requests",
    "Operation cannot be fulfilled",
    "etcdserver:",
    "TLS handshake timeout",
    "dial tcp",
    "http2: client connection lost",
];

fn is_trouble_of_the_api(error: &str) -> bool {
    TROUBLE.iter().any(|text| error.contains(text))
}

/// How a workload ends that could be done another time (`EX_TEMPFAIL` of sysexits), as a Workflow tells it.
const TEMPORARY: &str = "(exit code 75)";

/// Whether a Workflow's or a node's message says that the workload could not be done now, and may be another time.
#[must_use]
pub fn is_temporary(message: &str) -> bool {
    message.contains(TEMPORARY)
}

/// Why a Workflow did not end well; `None` while it runs and when it succeeded.
#[must_use]
pub fn of_phase(phase: &str, message: &str) -> Option<Reason> {
    match phase {
        "Failed" | "Error" if is_temporary(message) => Some(Reason::Unavailable),
        "Failed" => Some(Reason::WorkflowFailed),
        "Error" if is_trouble_of_the_api(message) => Some(Reason::Unavailable),
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
            (429, "slow down", Some(Reason::Unavailable)),
            (408, "", Some(Reason::Unavailable)),
        ] {
            assert_eq!(of_answer(status, body), want, "{status} {body}");
        }
    }

    /// What the API server did not decide is nobody's fault; what it decided about the object is.
    #[test]
    fn triggers() {
        for (error, want) in [
            (
                "workflows.argoproj.io is forbidden: User \"x\" cannot create",
                Reason::Forbidden,
            ),
            (
                "workflows.argoproj.io \"a\" already exists",
                Reason::AlreadyExists,
            ),
            ("failed to apply parameters", Reason::TriggerFailed),
            (
                "Workflow.argoproj.io \"ORD_1\" is invalid: metadata.name",
                Reason::TriggerFailed,
            ),
            (
                "failed to execute trigger, Unauthorized",
                Reason::Unavailable,
            ),
            (
                "the server has asked for the client to provide credentials",
                Reason::Unavailable,
            ),
            (
                "Internal error occurred: failed calling webhook",
                Reason::Unavailable,
            ),
            (
                "Post \"https://10.96.0.1:443/apis\": dial tcp 10.96.0.1:443: connect: connection refused",
                Reason::Unavailable,
            ),
            (
                "Operation cannot be fulfilled on x: the object has been modified",
                Reason::Unavailable,
            ),
        ] {
            assert_eq!(of_trigger(error), want, "{error}");
        }
    }

    #[test]
    fn phases() {
        for (phase, message, want) in [
            ("Running", "", None),
            ("Succeeded", "", None),
            (
                "Failed",
                "main: Error (exit code 1)",
                Some(Reason::WorkflowFailed),
            ),
            (
                "Failed",
                "main: Error (exit code 175)",
                Some(Reason::WorkflowFailed),
            ),
            (
                "Failed",
                "main: Error (exit code 75)",
                Some(Reason::Unavailable),
            ),
            (
                "Error",
                "main: Error (exit code 75): x",
                Some(Reason::Unavailable),
            ),
            (
                "Failed",
                "main: Error (exit code 1): Unauthorized",
                Some(Reason::WorkflowFailed),
            ),
            (
                "Error",
                "wait: Error (exit code 64): workflowtaskresults.argoproj.io is forbidden: x",
                Some(Reason::WorkflowError),
            ),
            (
                "Error",
                "wait: Error (exit code 64): Unauthorized",
                Some(Reason::Unavailable),
            ),
        ] {
            assert_eq!(of_phase(phase, message), want, "{phase} {message}");
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
