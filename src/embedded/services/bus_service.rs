//! The bus pod: serves the bus of this process on the client port and the monitor port while the pod lives.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::embedded::bus::host::{BusHost, ServeGuard};
use crate::embedded::bus::server::{client_router, monitor_router};
use crate::embedded::node::process::ServiceContext;

/// Client port.
pub const CLIENT_PORT: u16 = 4222;
/// Monitor port.
pub const MONITOR_PORT: u16 = 8222;
/// Where the pod finds the accounts of its clients, if it has any.
pub const AUTH_FILE: &str = "/etc/nats-config/auth.conf";

/// How long a starting pod waits for the one before it to end.
const HANDOVER: Duration = Duration::from_secs(2);

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
    let guard = take(&host, context, credentials.as_ref()).await?;
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

/// Takes the bus over; a pod that is ending may still hold it.
async fn take(
    host: &Arc<BusHost>,
    context: &ServiceContext,
    credentials: Option<&String>,
) -> Result<ServeGuard, String> {
    let give_up = Instant::now() + HANDOVER;
    loop {
        let (namespace, pod) = (&context.pod.namespace, &context.pod.name);
        match host.serve(namespace, pod, credentials.cloned()) {
            Ok(guard) => return Ok(guard),
            Err(error) if Instant::now() >= give_up => return Err(error.to_string()),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
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
                "{AUTH_FILE} names no JetStream user; delete the EventBus's Secrets to have them made anew"
            )),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read {AUTH_FILE}: {error}")),
    }
}

/// The password of the account `js` in a server configuration whose accounts are written as JSON.
fn password(text: &[u8]) -> Option<String> {
    let (_, accounts) = std::str::from_utf8(text).ok()?.split_once("accounts:")?;
    let accounts = serde_json::Deserializer::from_str(accounts)
        .into_iter::<Value>()
        .next()?
        .ok()?;
    let password = accounts.pointer("/js/users/0/pass")?.as_str()?;
    (!password.is_empty()).then(|| password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_stands_in_the_js_account() {
        let text = r#"system_account: sys

accounts: {
  "js": {"jetstream": true, "users": [{"user": "u", "pass": "s3cret"}]},
  "sys": {"users": [{"user": "sys", "pass": "x"}]}
}

tls { cert_file: "/etc/nats-config/server-cert.pem" }
"#;
        assert_eq!(password(text.as_bytes()).as_deref(), Some("s3cret"));
        for none in ["", "accounts: {}", "accounts: nothing"] {
            assert_eq!(password(none.as_bytes()), None, "{none}");
        }
    }
}
