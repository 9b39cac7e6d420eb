//! The bus pod: serves the bus of this process on the client port and the monitor port while the pod lives.

use std::sync::Arc;

use axum::Router;
use futures::future::BoxFuture;
use tokio::net::TcpListener;

use super::environment::password;
use crate::embedded::bus::host::ServeGuard;
use crate::embedded::bus::server::{client_router, monitor_router};
use crate::embedded::node::process::ServiceContext;

/// Client port.
pub const CLIENT_PORT: u16 = 4222;
/// Monitor port.
pub const MONITOR_PORT: u16 = 8222;
/// Where the pod finds the credentials that clients must show (the client-auth Secret's text), if it has any.
pub const AUTH_FILE: &str = "/etc/nats-config/client-auth";

/// Runs the bus pod.
#[must_use]
pub fn run(context: ServiceContext) -> BoxFuture<'static, i32> {
    Box::pin(async move {
        match serve(&context).await {
            Ok(()) => 0,
            Err(message) => {
                context.log.line(&format!("[FTL] {message}"));
                context.termination.set(&message);
                1
            }
        }
    })
}

async fn serve(context: &ServiceContext) -> Result<(), String> {
    let host = context
        .bus
        .0
        .host()
        .ok_or("eventlab: this process has no bus to serve")?;
    let credentials = credentials(context).await?;
    let guard = host
        .serve(
            &context.pod.namespace,
            &context.pod.name,
            credentials.clone(),
        )
        .map_err(|error| error.to_string())?;
    let (client, monitor) = (
        bind(context, CLIENT_PORT).await?,
        bind(context, MONITOR_PORT).await?,
    );
    if credentials.is_none() {
        context
            .log
            .line("[WRN] No credentials: the client port refuses everybody");
    }
    context.log.line("[INF] Starting nats-server");
    context.log.line(&format!(
        "[INF] Listening for client connections on 0.0.0.0:{CLIENT_PORT}"
    ));
    context.log.line("[INF] Server is ready");
    let faces = async {
        tokio::join!(
            serve_on(
                client,
                client_router(Arc::clone(&host), credentials.as_deref())
            ),
            serve_on(monitor, monitor_router(host.bus(), &context.pod.name)),
        )
    };
    tokio::select! {
        _ = faces => {}
        () = context.terminate.cancelled() => context.log.line("[INF] Initiating Shutdown..."),
    }
    shut_down(guard);
    Ok(())
}

/// Every connection is lost from here on; the data stay.
fn shut_down(guard: ServeGuard) {
    drop(guard);
}

async fn serve_on(listener: TcpListener, router: Router) {
    // axum's server ends only with its runtime.
    let _ = axum::serve(listener, router).await;
}

async fn bind(context: &ServiceContext, port: u16) -> Result<TcpListener, String> {
    context
        .ports
        .bind(port)
        .await
        .map_err(|error| format!("Error listening on port: 0.0.0.0:{port}, {error}"))
}

async fn credentials(context: &ServiceContext) -> Result<Option<String>, String> {
    match context.files.read(AUTH_FILE).await {
        Ok(text) => match password(&text) {
            Some(password) => Ok(Some(password)),
            None => Err(format!(
                "{AUTH_FILE} holds no password; recreate the EventBus's client-auth Secret"
            )),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read {AUTH_FILE}: {error}")),
    }
}
