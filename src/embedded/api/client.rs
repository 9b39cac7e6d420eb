//! `kube::Client`s that call the API in process, with a token of their own.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, header};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tower::{Service, ServiceExt, service_fn};

use super::server::ApiServer;
use super::status::Failure;
use super::streams::is_upgrade;

impl ApiServer {
    /// A client that calls this server directly, as the owner of `token` (anonymous with an empty one).
    ///
    /// To be called inside a tokio runtime, and used from spawned tasks of that runtime: from the main `block_on` future
    /// each call costs fifteen times more.
    #[must_use]
    pub fn client(self: &Arc<Self>, token: &str) -> kube::Client {
        self.client_in(token, "default")
    }

    /// As [`ApiServer::client`], with a default namespace.
    #[must_use]
    pub fn client_in(self: &Arc<Self>, token: &str, namespace: &str) -> kube::Client {
        let header = bearer(token);
        let router = self.router();
        let service = service_fn(move |mut request: Request<kube::client::Body>| {
            if let Some(header) = &header {
                request
                    .headers_mut()
                    .insert(header::AUTHORIZATION, header.clone());
            }
            call(router.clone(), request.map(Body::new))
        });
        kube::Client::new(service, namespace)
    }

    /// A token for a service account of this cluster that does not end; it follows the account's name.
    #[must_use]
    pub fn service_account_token(&self, namespace: &str, name: &str) -> String {
        // Its end is the end of all time: a clock that jumps ahead ends no controller's credentials.
        self.authenticator()
            .issue_service_account(namespace, name, "", &[], jiff::SignedDuration::MAX, None)
            .token
    }

    /// A token for an ordinary user with these groups.
    #[must_use]
    pub fn user_token(&self, name: &str, groups: &[&str]) -> String {
        self.authenticator().issue_user(name, groups)
    }
}

fn bearer(token: &str) -> Option<HeaderValue> {
    if token.is_empty() {
        return None;
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A panic in a handler becomes a 500: in process it would otherwise unwind into the calling controller.
fn call(
    router: Router,
    request: Request<Body>,
) -> BoxFuture<'static, Result<Response, Infallible>> {
    let answer = async move {
        if is_upgrade(request.headers()) {
            return Ok(over_a_pipe(router, request).await);
        }
        let mut router = router;
        let service = ServiceExt::<Request<Body>>::ready(&mut router).await?;
        service.call(request).await
    };
    let caught = AssertUnwindSafe(answer).catch_unwind();
    Box::pin(async move {
        match caught.await {
            Ok(result) => result,
            Err(_) => {
                tracing::error!("a request handler panicked");
                Ok(Failure::internal(
                    "a request handler panicked; this is a defect of the API server",
                )
                .into_response())
            }
        }
    })
}

/// Bytes that wait in each direction of a pipe.
const PIPE: usize = 64 * 1024;

/// Sends a request that asks for another protocol: only a connection can speak one, so it gets one, without a socket.
async fn over_a_pipe(router: Router, request: Request<Body>) -> Response {
    let (near, far) = tokio::io::duplex(PIPE);
    let serving = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(far), TowerToHyperService::new(router))
        .with_upgrades();
    tokio::spawn(serving);
    let sent = async {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(near)).await?;
        tokio::spawn(connection.with_upgrades());
        sender.send_request(request).await
    };
    match sent.await {
        Ok(response) => response.map(Body::new),
        Err(error) => Failure::internal(error).into_response(),
    }
}
