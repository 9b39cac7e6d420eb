//! A probe as an HTTP request.

use crate::cluster::Request;
use crate::kinds::TRACE_HEADER;
use crate::lab::Probe;
use crate::lab::format::Answer;

/// The EventSource that the labs send to, its Service and port.
pub const EVENT_SOURCE: &str = "orders";
/// See [`EVENT_SOURCE`].
pub const WEBHOOK_SERVICE: &str = "orders-eventsource-svc";
/// See [`EVENT_SOURCE`].
pub const WEBHOOK_PORT: u16 = 12000;

/// The request of a probe; `{{attempt}}` in the body becomes the attempt, the trace goes into its header.
#[must_use]
pub fn request(
    probe: &Probe,
    event: &str,
    attempt: impl std::fmt::Display,
    trace: &str,
) -> Request {
    let mut headers = Vec::new();
    if !probe
        .headers
        .keys()
        .any(|name| name.eq_ignore_ascii_case("content-type"))
    {
        headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
    }
    headers.extend(
        probe
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    headers.push((TRACE_HEADER.to_owned(), trace.to_owned()));
    Request {
        method: probe.method.clone(),
        path: probe.path.clone().unwrap_or_else(|| format!("/{event}")),
        headers,
        body: probe
            .body
            .replace("{{attempt}}", &attempt.to_string())
            .into_bytes(),
        lose_answer: probe.answer == Answer::Lost,
    }
}

/// The command that sends the same request in the field.
#[must_use]
pub fn command(request: &Request, url: &str) -> String {
    let mut command = format!("curl -i -X {} {}{}", request.method, url, request.path);
    for (name, value) in &request.headers {
        command.push_str(&format!(" -H {}", quote(&format!("{name}: {value}"))));
    }
    command.push_str(&format!(
        " --data-binary {}",
        quote(&String::from_utf8_lossy(&request.body))
    ));
    command
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
