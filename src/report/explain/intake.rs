//! The first step: what the webhook EventSource makes of a POST request.

use std::fmt;

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

/// An EventSource's event as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// What it does with a request.
    pub intake: Intake,
    /// The bearer token that it asks for, where it asks for one.
    pub token: Token,
}

impl From<Intake> for Known {
    /// Without the Secret.
    fn from(intake: Intake) -> Self {
        Self {
            intake,
            token: Token::default(),
        }
    }
}

impl Known {
    /// Whether the last word has a token that is not known here.
    pub(super) fn is_open(&self) -> bool {
        self.intake.auth.is_some() && matches!(self.token, Token::Unknown)
    }
}

/// What is known of the Secret with a bearer token. Its value is never shown.
#[derive(Clone, Default)]
pub enum Token {
    /// The Secret is not at hand.
    #[default]
    Unknown,
    /// The Secret has no such key.
    Missing,
    /// Its value.
    Value(Vec<u8>),
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "Unknown",
            Self::Missing => "Missing",
            Self::Value(_) => "Value",
        })
    }
}

impl Token {
    /// Whether a request may show this token; what is not known here may be right. A file's last line break is none of it.
    fn accepts(&self, shown: &[u8]) -> bool {
        match self {
            Self::Unknown => true,
            Self::Missing => false,
            Self::Value(value) => same(shown, value.strip_suffix(b"\n").unwrap_or(value)),
        }
    }
}

/// Compares in a time that says nothing of where they differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

/// What became of a request: the event data, or the lines and the advice of its refusal.
pub(super) enum Taken {
    Data(IntakeStep, Vec<u8>),
    Refused(Stop, IntakeStep, Vec<LogLine>, Vec<String>),
    /// Why it is not known here whether the EventSource's filter lets it pass.
    Unknown(IntakeStep, String),
}

/// Takes a request in, in the EventSource's order of checks.
pub(super) fn take(request: &Request, known: &Known) -> Taken {
    if let Some(refused) = authenticate(request, known) {
        return refused;
    }
    let intake = &known.intake;
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

/// The refusal of a request without the token that the EventSource asks for.
fn authenticate(request: &Request, known: &Known) -> Option<Taken> {
    let (secret, key) = known.intake.auth.as_ref()?;
    if matches!(known.token, Token::Missing) {
        let text = "Error loading auth token";
        let line = LogLine::new(
            "error",
            LOGGER,
            "failed to get auth secret from volume",
            &[],
        );
        let hint = format!(
            "Secret {secret} has no key {key}; put the token there, or correct the EventSource's `authSecret`"
        );
        return Some(refused(500, text, vec![line], hint));
    }
    let shown = request.headers.get(header::AUTHORIZATION);
    let shown = shown.map_or(&b""[..], |value| value.as_bytes().trim_ascii());
    let (response, line) = match shown.strip_prefix(b"Bearer ") {
        Some(token) if known.token.accepts(token) => return None,
        Some(_) => ("Invalid Auth token", "invalid auth token"),
        None => ("Invalid Authorization Header", "invalid auth header"),
    };
    let hint = format!(
        "send `Authorization: Bearer …` with the token of Secret {secret}, key {key}: the EventSource's `authSecret` asks for it"
    );
    let lines = vec![LogLine::new("error", LOGGER, line, &[])];
    Some(refused(401, response, lines, hint))
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
