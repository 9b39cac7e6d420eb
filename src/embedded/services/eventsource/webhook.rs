//! One webhook event: from a request to the answer and the event data, in upstream's order of checks.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http::{HeaderMap, Method, Request, header, request};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::{Mutex, Semaphore};

use super::super::log::Logger;
use super::super::metrics::Metric;
use super::config::Webhook;
use super::expression::{Expression, Failure};
use super::payload;
use super::publish::Publisher;
use crate::embedded::node::process::ContainerFiles;

/// Bodies up to this size need no permit.
const SMALL_BODY: u64 = 64 << 10;
/// A client that sends no piece of its body for so long is given up.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Upstream's lines of an event that its filter drops.
pub(super) const FILTERED_LINE: &str = "Filter condition not met, skip dispatching";
pub(super) const FILTER_FAILED_LINE: &str = "Failed to filter event";
/// What is still read of a body that is too large, so that the client gets to see the answer.
const MAX_DRAIN: u64 = 4 << 20;

/// What a request is answered with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub status: u16,
    pub text: String,
}

impl Reply {
    pub(super) fn new(status: u16, text: impl Into<String>) -> Reply {
        Reply {
            status,
            text: text.into(),
        }
    }

    /// Upstream writes some errors twice into one answer.
    fn twice(status: u16, text: &str) -> Reply {
        Reply::new(status, text.repeat(2))
    }
}

/// The route of one webhook event.
pub(super) struct Route {
    pub webhook: Webhook,
    files: Arc<dyn ContainerFiles>,
    publisher: Arc<Publisher>,
    log: Logger,
    /// One permit for each large body in memory, shared by all routes.
    bodies: Arc<Semaphore>,
    /// Events of one route go to the bus one after another.
    turn: Arc<Mutex<()>>,
}

impl Route {
    pub(super) fn new(
        webhook: Webhook,
        files: Arc<dyn ContainerFiles>,
        publisher: Arc<Publisher>,
        bodies: Arc<Semaphore>,
        log: Logger,
    ) -> Route {
        Route {
            webhook,
            files,
            publisher,
            log,
            bodies,
            turn: Arc::default(),
        }
    }

    /// Answers a request whose path is this route's.
    pub(super) async fn handle(&self, request: Request<Incoming>) -> Reply {
        let (head, body) = request.into_parts();
        if let Some(refused) = self.authenticate(&head.headers).await {
            return refused;
        }
        let log = self
            .log
            .with("endpoint", self.webhook.endpoint.as_str())
            .with("port", self.webhook.port.to_string())
            .with("http-method", self.webhook.method.as_str());
        log.info("a request received, processing it...", &[]);
        if head.method.as_str() != self.webhook.method {
            log.info("http method does not match", &[]);
            return Reply::new(400, "http method does not match");
        }
        let _body = match body.size_hint().upper() {
            Some(size) if size <= SMALL_BODY => None,
            _ => self.bodies.acquire().await.ok(),
        };
        match self.event_data(&head, body, &log).await {
            Ok(data) => self.dispatch(data, log).await,
            Err(reply) => reply,
        }
    }

    async fn authenticate(&self, headers: &HeaderMap) -> Option<Reply> {
        let (name, key) = self.webhook.auth.as_ref()?;
        let file = format!("/argo-events/secrets/{name}/{key}");
        let token = match self.files.read(&file).await {
            Ok(token) => token,
            Err(error) => {
                let error = format!("{file}: {error}");
                self.log.error(
                    "failed to get auth secret from volume",
                    &[("error", error.into())],
                );
                return Some(Reply::new(500, "Error loading auth token"));
            }
        };
        let shown = headers
            .get(header::AUTHORIZATION)
            .map_or(&b""[..], |value| value.as_bytes().trim_ascii());
        let Some(shown) = shown.strip_prefix(b"Bearer ") else {
            self.log.error("invalid auth header", &[]);
            return Some(Reply::new(401, "Invalid Authorization Header"));
        };
        if shown != token.strip_suffix(b"\n").unwrap_or(&token) {
            self.log.error("invalid auth token", &[]);
            return Some(Reply::new(401, "Invalid Auth token"));
        }
        None
    }

    /// `{"header": …, "body": …, "metadata": …}`, or the answer that says why there is none.
    async fn event_data(
        &self,
        head: &request::Parts,
        body: Incoming,
        log: &Logger,
    ) -> Result<Vec<u8>, Reply> {
        let content = self.body(head, body, log).await?;
        payload::event_data(&head.headers, &content, &self.webhook.metadata).map_err(|error| {
            log.error(
                "failed to construct the event payload",
                &[("error", error.as_str().into())],
            );
            self.failed();
            Reply::new(400, error)
        })
    }

    async fn body(
        &self,
        head: &request::Parts,
        body: Incoming,
        log: &Logger,
    ) -> Result<Vec<u8>, Reply> {
        if head.method == Method::GET {
            return Ok(payload::query_content(head.uri.query().unwrap_or_default()));
        }
        if head.method != Method::POST {
            let error = format!("unsupoorted method: {}", head.method);
            log.error("failed to get body", &[("error", error.as_str().into())]);
            self.failed();
            return Err(Reply::new(400, error));
        }
        if payload::is_form(&head.headers) {
            return self.form(head, body, log).await;
        }
        read(body, self.webhook.max_payload).await.map_err(|error| {
            let error = format!("failed to parse request body, {error}");
            self.failed_twice("failed to read request body", &error, log);
            Reply::twice(400, &error)
        })
    }

    async fn form(
        &self,
        head: &request::Parts,
        body: Incoming,
        log: &Logger,
    ) -> Result<Vec<u8>, Reply> {
        let fail = |error: &str| {
            self.failed_twice("failed to parse form data", error, log);
            Reply::twice(500, error)
        };
        let text = read(body, payload::MAX_FORM)
            .await
            .map_err(|error| match error {
                BodyError::TooLarge => fail("http: POST too large"),
                BodyError::Broken => fail(&error.to_string()),
            })?;
        payload::form_content(&text, head.uri.query().unwrap_or_default())
            .map_err(|error| fail(&error))
    }

    /// Upstream counts and logs an error of the body where it happens, and once more where it is handed on.
    fn failed_twice(&self, message: &str, error: &str, log: &Logger) {
        for message in [message, "failed to get body"] {
            log.error(message, &[("error", error.into())]);
            self.failed();
        }
    }

    fn failed(&self) {
        let labels = [self.webhook.event.as_str(), self.publisher.source.as_str()];
        self.publisher
            .metrics
            .add(Metric::EventsProcessingFailed, labels, 1);
    }

    /// Publishes in the route's turn. It goes on when the client goes away.
    async fn dispatch(&self, data: Vec<u8>, log: Logger) -> Reply {
        log.info("dispatching event on route's dispatch channel...", &[]);
        let (publisher, event, turn) = (
            Arc::clone(&self.publisher),
            self.webhook.event.clone(),
            Arc::clone(&self.turn),
        );
        let (route_log, filter) = (self.log.clone(), self.webhook.filter.clone());
        let published = tokio::spawn(async move {
            let _turn = turn.lock().await;
            route_log.info("new event received, dispatching it...", &[]);
            if !admitted(filter, &data, &publisher.log).await {
                return true;
            }
            let result = publisher.publish(&event, &data).await;
            if let Err(error) = &result {
                route_log.error("failed to send event", &[("error", error.as_str().into())]);
                let labels = [event.as_str(), publisher.source.as_str()];
                publisher
                    .metrics
                    .add(Metric::EventsProcessingFailed, labels, 1);
            }
            result.is_ok()
        });
        if published.await.unwrap_or(false) {
            log.info("successfully dispatched the request to the event bus", &[]);
            Reply::new(200, "success")
        } else {
            log.error("failed to dispatch the request to the event bus", &[]);
            Reply::new(500, "failed to record event")
        }
    }
}

/// Whether the event goes on. Upstream tells the client nothing of one that does not.
async fn admitted(filter: Option<Expression>, data: &[u8], log: &Logger) -> bool {
    let Some(filter) = filter else { return true };
    let data = data.to_vec();
    let evaluated = tokio::task::spawn_blocking(move || filter.admits(&data)).await;
    let evaluated =
        evaluated.unwrap_or_else(|error| Err(Failure::Stopped(format!("eventlab: {error}"))));
    match evaluated.map_err(|failure| failure.to_string()) {
        Ok(true) => true,
        Ok(false) => {
            log.debug(FILTERED_LINE, &[]);
            false
        }
        Err(error) => {
            log.error(FILTER_FAILED_LINE, &[("error", error.into())]);
            false
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum BodyError {
    #[error("http: request body too large")]
    TooLarge,
    #[error("unexpected EOF")]
    Broken,
}

/// Reads a body of at most `limit` bytes.
async fn read(mut body: Incoming, limit: u64) -> Result<Vec<u8>, BodyError> {
    let mut content = Vec::new();
    while let Some(chunk) = next_chunk(&mut body).await? {
        if content.len() as u64 + chunk.len() as u64 > limit {
            drain(&mut body).await;
            return Err(BodyError::TooLarge);
        }
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}

async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    loop {
        match tokio::time::timeout(BODY_TIMEOUT, body.frame()).await {
            Ok(None) => return Ok(None),
            Err(_) | Ok(Some(Err(_))) => return Err(BodyError::Broken),
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

async fn drain(body: &mut Incoming) {
    let mut read = 0;
    while read < MAX_DRAIN {
        match next_chunk(body).await {
            Ok(Some(chunk)) => read += chunk.len() as u64,
            _ => return,
        }
    }
}
