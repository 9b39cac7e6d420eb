//! The first step: what the webhook EventSource makes of a POST request.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::json;

use super::{IntakeStep, LogLine, Stop};
use crate::embedded::services::eventsource::payload;
use crate::embedded::services::eventsource::{Admission, Intake};

const LOGGER: &str = "argo-events.eventsource";

/// A POST request as a client sends it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
}

impl Request {
    /// A request with the headers given as `Name: value`, and those that every request with a body has.
    ///
    /// # Errors
    /// A header that is none.
    pub fn new(
        headers: &[String],
        content_type: Option<&str>,
        body: Vec<u8>,
    ) -> Result<Self, String> {
        let mut map = HeaderMap::new();
        for text in headers {
            let wrong = || format!("--header {text:?} is no header; write it as `Name: value`");
            let (name, value) = text.split_once(':').ok_or_else(wrong)?;
            let name = HeaderName::try_from(name.trim()).map_err(|_| wrong())?;
            let value = HeaderValue::from_bytes(value.trim().as_bytes()).map_err(|_| wrong())?;
            map.append(name, value);
        }
        if let Some(text) = content_type {
            let value = HeaderValue::from_bytes(text.trim().as_bytes())
                .map_err(|_| format!("--content-type {text:?} is no header value"))?;
            map.insert(header::CONTENT_TYPE, value);
        }
        map.entry(header::CONTENT_TYPE)
            .or_insert(HeaderValue::from_static("application/json"));
        map.entry(header::CONTENT_LENGTH)
            .or_insert(HeaderValue::from(body.len()));
        Ok(Self { headers: map, body })
    }
}

/// What became of a request: the event data, or the lines and the advice of its refusal.
pub(super) enum Taken {
    Data(IntakeStep, Vec<u8>),
    Refused(Stop, IntakeStep, Vec<LogLine>, Vec<String>),
    /// Why it is not known here whether the EventSource's filter lets it pass.
    Unknown(IntakeStep, String),
}

/// Takes a request in, in the EventSource's order of checks. Of a bearer token it is known here only whether there is one.
pub(super) fn take(request: &Request, intake: &Intake) -> Taken {
    if let Some((secret, key)) = &intake.auth
        && !has_bearer(request)
    {
        let lines = vec![LogLine::new("error", LOGGER, "invalid auth header", &[])];
        let hint = format!(
            "send `Authorization: Bearer …` with the token of Secret {secret}, key {key}: the EventSource's `authSecret` asks for it"
        );
        return refused(401, "Invalid Authorization Header", lines, hint);
    }
    if intake.method != "POST" {
        let text = "http method does not match";
        let hint = format!(
            "the EventSource takes {:?} and the request is a POST; set its `method: POST`",
            intake.method
        );
        return refused(
            400,
            text,
            vec![LogLine::new("info", LOGGER, text, &[])],
            hint,
        );
    }
    let content = match content(request, intake) {
        Ok(content) => content,
        Err(refused) => return refused,
    };
    match payload::event_data(&request.headers, &content, &intake.metadata) {
        Ok(data) => publish(intake, data),
        Err(error) => {
            let line = line("failed to construct the event payload", &error);
            refused(400, &error, vec![line], not_json(request))
        }
    }
}

/// Whether the request has a bearer token, whatever it is.
fn has_bearer(request: &Request) -> bool {
    let shown = request.headers.get(header::AUTHORIZATION);
    shown.is_some_and(|value| value.as_bytes().trim_ascii().starts_with(b"Bearer "))
}

/// The EventSource's own filter has the last word; the client hears nothing of it.
fn publish(intake: &Intake, data: Vec<u8>) -> Taken {
    let step = IntakeStep {
        status: Some(200),
        response: "success".to_owned(),
        assumed: false,
    };
    match intake.admission(&data) {
        Admission::Admitted => Taken::Data(step, data),
        Admission::Stopped(error) => Taken::Unknown(step, error),
        Admission::Dropped {
            expression,
            level,
            message,
            error,
        } => {
            let fields: Vec<_> = error.iter().map(|error| ("error", json!(error))).collect();
            let line = LogLine::new(level, LOGGER, message, &fields);
            let hint = match error {
                None => format!(
                    "the EventSource's `filter.expression` {expression:?} is not true of this event"
                ),
                Some(_) => format!(
                    "correct the EventSource's `filter.expression` {expression:?}: it fails for this event, which drops it"
                ),
            };
            Taken::Refused(Stop::Bus, step, vec![line], vec![hint])
        }
    }
}

fn content(request: &Request, intake: &Intake) -> Result<Vec<u8>, Taken> {
    let (form, size) = (
        payload::is_form(&request.headers),
        request.body.len() as u64,
    );
    let limit = if form {
        payload::MAX_FORM
    } else {
        intake.max_payload
    };
    if size <= limit && !form {
        return Ok(request.body.clone());
    }
    let (status, message, error, hint) = if size <= limit {
        match payload::form_content(&request.body, "") {
            Ok(content) => return Ok(content),
            Err(error) => (
                500,
                "failed to parse form data",
                error,
                "percent-encode the form's names and values".to_owned(),
            ),
        }
    } else if form {
        let error = "http: POST too large".to_owned();
        (
            500,
            "failed to parse form data",
            error,
            too_large(size, limit),
        )
    } else {
        let error = "failed to parse request body, http: request body too large".to_owned();
        (
            400,
            "failed to read request body",
            error,
            too_large(size, limit),
        )
    };
    let lines = vec![line(message, &error), line("failed to get body", &error)];
    // Upstream writes these errors twice into one answer.
    Err(refused(status, &error.repeat(2), lines, hint))
}

fn refused(status: u16, response: &str, lines: Vec<LogLine>, hint: String) -> Taken {
    let step = IntakeStep {
        status: Some(status),
        response: response.to_owned(),
        assumed: false,
    };
    Taken::Refused(Stop::Intake, step, lines, vec![hint])
}

fn line(message: &str, error: &str) -> LogLine {
    LogLine::new("error", LOGGER, message, &[("error", json!(error))])
}

fn too_large(size: u64, limit: u64) -> String {
    format!(
        "the body has {size} bytes and {limit} are taken; send less, or raise `maxPayloadSize` of the EventSource"
    )
}

fn not_json(request: &Request) -> String {
    let looks_like_form = !request.body.starts_with(b"{") && request.body.contains(&b'=');
    if request.body.is_empty() {
        "the body is empty; send JSON".to_owned()
    } else if looks_like_form {
        "send JSON, or a form with exactly `Content-Type: application/x-www-form-urlencoded`"
            .to_owned()
    } else {
        "correct the JSON of the body: every content type but a form's is read as JSON".to_owned()
    }
}
