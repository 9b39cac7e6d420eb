//! `eventlab metrics`: the four counters of the session for Prometheus, printed once or served.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use clap::Args;

use super::exit::{Exit, Failure};
use super::output;
use super::place::Place;
use crate::report::metrics;
use crate::session::SessionView;

/// Arguments of `metrics`.
#[derive(Clone, Debug, Args)]
pub struct MetricsArgs {
    /// Serve them on /metrics of this loopback address until Ctrl-C, read anew for every request
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub serve: Option<SocketAddr>,
}

/// Prints or serves.
///
/// # Errors
/// There is no such session, or the address is taken.
pub async fn run(place: &Place, args: &MetricsArgs) -> Result<Exit, Failure> {
    let folder = place.folder()?;
    let Some(address) = args.serve else {
        let text = read(&folder).map_err(Failure::environment)?;
        output::raw(text.as_bytes());
        return Ok(Exit::Proven);
    };
    if !address.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "{address}: metrics are served on this machine alone; take 127.0.0.1:{}, and put a proxy of your own before it for others",
            address.port()
        )));
    }
    let taken = |error: std::io::Error| {
        Failure::environment(format!(
            "cannot listen on {address}: {error}; end what listens there, or take a free port with --serve 127.0.0.1:0"
        ))
    };
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .map_err(taken)?;
    let address = listener.local_addr().map_err(taken)?;
    output::line(&format!("http://{address}/metrics"));
    let router = Router::new().route("/metrics", get(move || answer(folder.clone())));
    tokio::select! {
        served = axum::serve(listener, router) => served.map_err(taken)?,
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(Exit::Interrupted)
}

fn read(folder: &Path) -> Result<String, String> {
    let view = SessionView::open(folder).map_err(|error| error.to_string())?;
    Ok(metrics::render(&view.entries))
}

async fn answer(folder: PathBuf) -> Response {
    let text = tokio::task::spawn_blocking(move || read(&folder)).await;
    match text {
        Ok(Ok(text)) => (
            [(
                header::CONTENT_TYPE,
                "text/plain; version=0.0.4; charset=utf-8",
            )],
            text,
        )
            .into_response(),
        Ok(Err(error)) => (StatusCode::SERVICE_UNAVAILABLE, error).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
