//! The HTTP server of one port: its routes, `/health`, and what Go's server and router answer by themselves.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http::{HeaderValue, Request, Response, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::super::tasks::Tasks;
use super::path::{self, Routed};
use super::webhook::{Reply, Route};

/// Connections of one port that are served at once.
const MAX_CONNECTIONS: usize = 512;
/// A client that sends no header for so long is cut off.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves one port as long as the service lives.
pub(super) async fn serve(listener: TcpListener, routes: Arc<Vec<Route>>, tasks: Tasks) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let routes = Arc::clone(&routes);
                tasks.spawn(async move {
                    serve_connection(stream, routes).await;
                    drop(slot);
                });
            }
            // Out of descriptors, or the client is gone already: the next one may work.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, routes: Arc<Vec<Route>>) {
    let service = service_fn(move |request| {
        let routes = Arc::clone(&routes);
        async move { Ok::<_, Infallible>(answer(&routes, request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // An error is the client's: it went away or spoke no HTTP.
    let _ = connection.await;
}

async fn answer(routes: &[Route], request: Request<Incoming>) -> Response<Full<Bytes>> {
    if let Some(problem) = malformed(&request) {
        let mut response = text(&Reply::new(400, format!("400 Bad Request{problem}")));
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    let endpoints = routes.iter().map(|route| route.webhook.endpoint.as_str());
    let uri = request.uri();
    match path::route(uri.path(), uri.query(), endpoints) {
        Routed::Malformed => return text(&Reply::new(400, "400 Bad Request")),
        Routed::Moved(location) => return redirect(&location),
        Routed::Health => return text(&Reply::new(200, "OK")),
        Routed::To(number) => {
            if let Some(route) = routes.get(number) {
                return text(&route.handle(request).await);
            }
        }
        Routed::Nowhere => {}
    }
    let mut response = text(&Reply::new(404, "404 page not found\n"));
    response.headers_mut().insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// What Go's server refuses before any handler sees it.
fn malformed(request: &Request<Incoming>) -> Option<&'static str> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Some(": too many Host headers"),
        (None, None) if request.version() == Version::HTTP_11 => {
            Some(": missing required Host header")
        }
        _ => None,
    }
}

fn text(reply: &Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(reply.text.clone())));
    *response.status_mut() = http::StatusCode::from_u16(reply.status).unwrap_or_default();
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

fn redirect(location: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = http::StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
