//! The bus over HTTP: calls of children on the client port, NATS's monitor answers on the monitor port.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, extract::Request, middleware};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use sha2::{Digest, Sha256};

use super::engine::{EmbeddedBus, MAX_PAYLOAD};
use super::host::BusHost;
use super::monitor::{self, Detail};
use super::protocol::{self, ATTACH_PATH, Answer, CALL_PATH, Call, LISTEN_PATH};
use super::{Bus, BusError, NO_SERVERS};

/// Longest wait of one pull.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// A call with the largest payload in base64, and its names.
const MAX_CALL: usize = MAX_PAYLOAD * 4 / 3 + (64 << 10);

#[derive(Clone)]
struct Client {
    host: Arc<BusHost>,
    /// Digest of the secret; without one nobody is let in.
    secret: Option<[u8; 32]>,
}

/// The client port. Callers show `secret` as a bearer token; without a secret every call is refused.
pub fn client_router(host: Arc<BusHost>, secret: Option<&str>) -> Router {
    let client = Client {
        host,
        secret: secret.map(digest),
    };
    Router::new()
        .route(CALL_PATH, post(call))
        .route(ATTACH_PATH, post(attach))
        .route(LISTEN_PATH, post(listen))
        .layer(DefaultBodyLimit::max(MAX_CALL))
        .layer(middleware::from_fn_with_state(client.clone(), authenticate))
        .with_state(client)
}

/// The monitor port: `/jsz`, `/varz` and `/healthz` in NATS's JSON, without authentication as there.
pub fn monitor_router(bus: Arc<EmbeddedBus>, server_name: &str) -> Router {
    Router::new()
        .route(
            "/",
            get(|| async { "eventlab bus monitor: /healthz /varz /jsz?consumers=true\n" }),
        )
        .route(
            "/healthz",
            get(|| async { Json(serde_json::json!({"status": "ok"})) }),
        )
        .route("/varz", get(varz))
        .route("/jsz", get(jsz))
        .with_state((bus, Arc::from(server_name)))
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

async fn authenticate(
    State(client): State<Client>,
    request: Request,
    next: middleware::Next,
) -> Response {
    let shown = bearer(request.headers()).map(digest);
    match (client.secret, shown) {
        (Some(secret), Some(shown)) if secret == shown => next.run(request).await,
        _ => (StatusCode::UNAUTHORIZED, "nats: Authorization Violation").into_response(),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
}

async fn call(State(client): State<Client>, Json(call): Json<Call>) -> Json<Answer> {
    let Some(bus) = client.host.served() else {
        return Json(Answer::Error(BusError::Closed));
    };
    Json(answer(&bus, call).await.unwrap_or_else(Answer::Error))
}

async fn answer(bus: &dyn Bus, call: Call) -> Result<Answer, BusError> {
    Ok(match call {
        Call::EnsureStream(config) => Answer::Stream(bus.ensure_stream(config).await?),
        Call::Publish {
            subject,
            message_id,
            payload,
        } => Answer::Published(bus.publish(&subject, &message_id, payload).await?),
        Call::EnsureConsumer { stream, config } => {
            Answer::Consumer(bus.ensure_consumer(&stream, config).await?)
        }
        Call::DeleteConsumer { stream, durable } => {
            done(bus.delete_consumer(&stream, &durable).await)?
        }
        Call::Pull {
            stream,
            durable,
            wait,
        } => Answer::Delivery(bus.pull(&stream, &durable, wait.min(MAX_WAIT)).await?),
        Call::Ack {
            stream,
            durable,
            token,
        } => done(bus.ack(&stream, &durable, &token).await)?,
        Call::InProgress {
            stream,
            durable,
            token,
        } => done(bus.in_progress(&stream, &durable, &token).await)?,
        Call::StreamInfo(stream) => Answer::Stream(bus.stream_info(&stream).await?),
        Call::Consumers(stream) => Answer::Consumers(bus.consumers(&stream).await?),
        Call::Messages {
            stream,
            after,
            limit,
        } => Answer::Messages(bus.messages(&stream, after, limit).await?),
        Call::BucketGet { bucket, key } => {
            Answer::Value(bus.bucket_get(&bucket, &key).await?.map(protocol::Bytes))
        }
        Call::BucketPut { bucket, key, value } => done(bus.bucket_put(&bucket, &key, value).await)?,
        Call::BucketDelete { bucket, key } => done(bus.bucket_delete(&bucket, &key).await)?,
        Call::Signal { subject, payload } => done(bus.signal(&subject, payload).await)?,
    })
}

fn done(result: Result<(), BusError>) -> Result<Answer, BusError> {
    result.map(|()| Answer::Done)
}

/// A body that stays open as long as the connection to the bus does.
async fn attach(State(client): State<Client>) -> Response {
    let Some(bus) = client.host.served() else {
        return not_served();
    };
    let hello = futures::stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b"\n")) });
    let open = futures::stream::pending().take_until(bus.closed().cancelled_owned());
    Body::from_stream(hello.chain(open)).into_response()
}

/// Signals of one subject, one base64 line each; an empty line first, so that the caller knows it is subscribed.
async fn listen(State(client): State<Client>, subject: String) -> Response {
    let Some(bus) = client.host.served() else {
        return not_served();
    };
    let Ok(signals) = bus.listen(&subject).await else {
        return not_served();
    };
    let hello = futures::stream::once(async { Bytes::from_static(b"\n") });
    let lines = signals.map(|payload| Bytes::from(STANDARD.encode(payload) + "\n"));
    Body::from_stream(hello.chain(lines).map(Ok::<_, Infallible>)).into_response()
}

fn not_served() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, NO_SERVERS).into_response()
}

type Monitored = (Arc<EmbeddedBus>, Arc<str>);

async fn varz(State((bus, name)): State<Monitored>) -> Response {
    answer_monitor(monitor::varz(&bus, &name))
}

async fn jsz(
    State((bus, name)): State<Monitored>,
    Query(query): Query<std::collections::BTreeMap<String, String>>,
) -> Response {
    let on = |flag: &str| {
        query
            .get(flag)
            .is_some_and(|value| matches!(value.as_str(), "true" | "1" | "t"))
    };
    let detail = Detail {
        consumers: on("consumers"),
        streams: on("streams") || on("consumers"),
        accounts: on("accounts") || on("streams") || on("consumers"),
    };
    answer_monitor(monitor::jsz(&bus, &name, detail))
}

fn answer_monitor(answer: Result<serde_json::Value, BusError>) -> Response {
    match answer {
        Ok(value) => Json(value).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
