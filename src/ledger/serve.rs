//! The ledger's read-only HTTP view.
//!
//! `GET /orders`, `/attempts`, `/effects`, `/balances`, `/claims` and `/transitions` (of claims) answer a JSON array of
//! rows, oldest first; `?after=SEQ&limit=N` (at most [`MAX_PAGE`]) asks for later rows. The header `Ledger-Clock` holds the ledger's time, `Ledger-More: true`
//! says that rows were left over. `GET /verification` answers what `ledger verify` finds, `GET /healthz` answers 200 while the file can be read.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::read::Table;
use super::{
    AttemptRow, BalanceRow, ClaimRow, EffectRow, LedgerError, OrderRow, Page, Reader, TransitionRow,
};

/// Most rows in one answer, and how many come without `limit`.
pub const MAX_PAGE: usize = 1000;
/// How long open connections may take to end after the cancellation.
const DRAIN: Duration = Duration::from_secs(1);

const CLOCK: HeaderName = HeaderName::from_static("ledger-clock");
const MORE: HeaderName = HeaderName::from_static("ledger-more");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Window {
    #[serde(default)]
    after: i64,
    limit: Option<usize>,
}

/// Serves the ledger at `path` on `listener` until `cancel`.
pub async fn serve(
    path: PathBuf,
    listener: TcpListener,
    cancel: CancellationToken,
) -> std::io::Result<()> {
    let app = router(Arc::new(Reader::new(path)));
    let drained = cancel.clone();
    let server = axum::serve(listener, app).with_graceful_shutdown(cancel.cancelled_owned());
    tokio::select! {
        ended = server.into_future() => ended,
        () = async { drained.cancelled().await; tokio::time::sleep(DRAIN).await } => Ok(()),
    }
}

/// The routes, for a server of one's own.
pub fn router(reader: Arc<Reader>) -> Router {
    Router::new()
        .route(OrderRow::VIEW, get(page::<OrderRow>))
        .route(AttemptRow::VIEW, get(page::<AttemptRow>))
        .route(EffectRow::VIEW, get(page::<EffectRow>))
        .route(BalanceRow::VIEW, get(page::<BalanceRow>))
        .route(ClaimRow::VIEW, get(page::<ClaimRow>))
        .route(TransitionRow::VIEW, get(page::<TransitionRow>))
        .route("/verification", get(verification))
        .route("/healthz", get(healthz))
        .fallback(|| async {
            failure(
                StatusCode::NOT_FOUND,
                "no such view; there are /orders, /attempts, /effects, /balances, /claims, /transitions, /verification and /healthz",
            )
        })
        .with_state(reader)
}

async fn page<T: Table + Serialize + Send + 'static>(
    State(reader): State<Arc<Reader>>,
    window: Result<Query<Window>, QueryRejection>,
) -> Response {
    let window = match window {
        Ok(Query(window)) => window,
        Err(rejection) => return failure(StatusCode::BAD_REQUEST, &rejection.body_text()),
    };
    let limit = window.limit.unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE);
    answer(
        tokio::task::spawn_blocking(move || reader.page::<T>(window.after, limit)).await,
        rows,
    )
}

fn rows<T: Serialize>(page: Page<T>) -> Response {
    let mut response = Json(page.items).into_response();
    let headers = response.headers_mut();
    headers.insert(
        MORE,
        HeaderValue::from_static(if page.more { "true" } else { "false" }),
    );
    if let Some(clock) = page
        .clock
        .and_then(|clock| HeaderValue::try_from(clock).ok())
    {
        headers.insert(CLOCK, clock);
    }
    response
}

/// Balances recomputed from effects; the file is read whole.
async fn verification(State(reader): State<Arc<Reader>>) -> Response {
    let read = tokio::task::spawn_blocking(move || reader.verify()).await;
    answer(read, |found| Json(found).into_response())
}

async fn healthz(State(reader): State<Arc<Reader>>) -> Response {
    let read = tokio::task::spawn_blocking(move || reader.balances(i64::MAX, 1)).await;
    answer(read, |_| Json(json!({"status": "ok"})).into_response())
}

fn answer<T>(
    read: Result<Result<T, LedgerError>, JoinError>,
    show: impl FnOnce(T) -> Response,
) -> Response {
    match read {
        Ok(Ok(value)) => show(value),
        Ok(Err(error)) if error.is_of_the_environment() => {
            failure(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())
        }
        Ok(Err(error)) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(error) => failure(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("read the ledger: {error}"),
        ),
    }
}

fn failure(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"error": message}))).into_response()
}
