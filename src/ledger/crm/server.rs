//! The CRM over HTTP.
//!
//! `POST /entries` writes (201, or 200 for a known key; 409 for a key with another content), `GET /entries?source_id=ID`
//! searches if it can (else 501). For the lab, not for clients of the business: `GET /admin/entries?after=SEQ` shows
//! everything, `POST /admin/faults` lets the next requests fail.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{Capability, CrmError, FaultPoint, NewEntry, Store};

/// Largest request body (bytes).
const MAX_BODY: usize = 64 * 1024;
/// Most entries in one answer.
const MAX_ENTRIES: i64 = 1000;
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(50);

struct Crm {
    store: Store,
    capability: Capability,
}

/// Marks a response that must never reach the client.
#[derive(Clone, Copy)]
enum Vanish {
    /// The connection is closed at once.
    Close,
    /// Nothing happens on it until the client has given up.
    Hang,
}

/// How long a connection that hangs is kept.
const HANG: Duration = Duration::from_secs(60);

/// Serves until `cancel`.
pub async fn serve(
    store: Store,
    capability: Capability,
    listener: TcpListener,
    cancel: CancellationToken,
) {
    let app = router(Arc::new(Crm { store, capability }));
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(tokio::spawn(connection(stream, app.clone()))),
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
}

/// One connection; an error of its service closes it without an answer.
async fn connection(stream: TcpStream, app: Router) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let answer = app.clone().oneshot(request.map(Body::new));
        async move {
            let response = answer
                .await
                .unwrap_or_else(|never: Infallible| match never {});
            match response.extensions().get::<Vanish>() {
                Some(vanish) => {
                    if matches!(vanish, Vanish::Hang) {
                        tokio::time::sleep(HANG).await;
                    }
                    Err(std::io::Error::other("told to close without an answer"))
                }
                None => Ok(response),
            }
        }
    });
    // The client notices a broken connection itself.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn router(crm: Arc<Crm>) -> Router {
    Router::new()
        .route("/entries", post(write).get(search))
        .route("/admin/entries", get(all))
        .route("/admin/faults", post(set_fault))
        .route("/healthz", get(|| async { Json(json!({"status": "ok"})) }))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(crm)
}

async fn write(State(crm): State<Arc<Crm>>, headers: HeaderMap, body: Bytes) -> Response {
    let Ok(new) = serde_json::from_slice::<NewEntry>(&body) else {
        return failure(
            StatusCode::BAD_REQUEST,
            "the body must hold source_id, order_id and amount_cents",
        );
    };
    let key = match headers.get("idempotency-key").map(|key| key.to_str()) {
        Some(Err(_)) => return failure(StatusCode::BAD_REQUEST, "the idempotency key is not text"),
        Some(Ok(key)) if crm.capability == Capability::Idempotency => Some(key.to_owned()),
        _ => None,
    };
    blocking(move || {
        if crm.store.take_fault(FaultPoint::BeforeCommit)? {
            return Ok(failure(
                StatusCode::SERVICE_UNAVAILABLE,
                "out of service; nothing was written",
            ));
        }
        let written = crm.store.write(&new, key.as_deref())?;
        if crm.store.take_fault(FaultPoint::AfterCommit)? {
            let mut response = StatusCode::OK.into_response();
            response.extensions_mut().insert(Vanish::Close);
            return Ok(response);
        }
        if crm.store.take_fault(FaultPoint::Hang)? {
            let mut response = StatusCode::OK.into_response();
            response.extensions_mut().insert(Vanish::Hang);
            return Ok(response);
        }
        if crm.store.take_fault(FaultPoint::WrongAnswer)? {
            return Ok(failure(
                StatusCode::INTERNAL_SERVER_ERROR,
                "something went wrong",
            ));
        }
        let status = if written.created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        Ok((status, Json(written)).into_response())
    })
    .await
}

#[derive(Deserialize)]
struct Search {
    source_id: String,
}

async fn search(State(crm): State<Arc<Crm>>, Query(search): Query<Search>) -> Response {
    if crm.capability != Capability::Search {
        return failure(
            StatusCode::NOT_IMPLEMENTED,
            "entries cannot be searched by source id here",
        );
    }
    blocking(move || {
        Ok(Json(crm.store.entries(Some(&search.source_id), 0, MAX_ENTRIES)?).into_response())
    })
    .await
}

#[derive(Deserialize)]
struct After {
    #[serde(default)]
    after: i64,
}

async fn all(State(crm): State<Arc<Crm>>, Query(window): Query<After>) -> Response {
    blocking(move || Ok(Json(crm.store.entries(None, window.after, MAX_ENTRIES)?).into_response()))
        .await
}

#[derive(Deserialize)]
struct Fault {
    point: FaultPoint,
    times: u32,
}

async fn set_fault(State(crm): State<Arc<Crm>>, body: Bytes) -> Response {
    let Ok(fault) = serde_json::from_slice::<Fault>(&body) else {
        let points = "before-commit, after-commit, wrong-answer or hang";
        return failure(
            StatusCode::BAD_REQUEST,
            &format!("the body must hold times and a point: {points}"),
        );
    };
    blocking(move || {
        crm.store.set_fault(fault.point, fault.times)?;
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

/// Runs work on the database off the connections' threads.
async fn blocking(work: impl FnOnce() -> Result<Response, CrmError> + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(response)) => response,
        Ok(Err(error @ CrmError::Invalid(_))) => {
            failure(StatusCode::BAD_REQUEST, &error.to_string())
        }
        Ok(Err(error @ CrmError::KeyReused(_))) => {
            failure(StatusCode::CONFLICT, &error.to_string())
        }
        Ok(Err(error @ CrmError::Database { .. })) => {
            failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        }
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn failure(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"error": message}))).into_response()
}
