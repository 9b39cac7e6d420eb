//! `eventlab node --context C`: the embedded controllers and node against another API server.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::exit::{Exit, Failure};
use super::place::Place;
use super::start;
use crate::cluster::Context;
use crate::embedded::controllers::{ControllerClients, Identity};
use crate::embedded::node::NODE_NAME;
use crate::embedded::standalone::{Standalone, StandaloneConfig};

/// Arguments of `node`.
#[derive(Clone, Debug, Args)]
pub struct NodeArgs {
    /// Act as the context's own user everywhere, instead of impersonating each controller and the node
    #[arg(long)]
    pub as_me: bool,
}

/// Runs controllers and node until Ctrl-C.
///
/// # Errors
/// No context, an API server that does not answer, a folder that cannot be used.
pub async fn run(place: &Place, args: &NodeArgs) -> Result<Exit, Failure> {
    let context = start::confirmed(&place.real).await?.ok_or_else(|| {
        Failure::usage(
            "node works for another API server: name it with --context NAME and --kubeconfig FILE",
        )
    })?;
    context.client.apiserver_version().await.map_err(|error| {
        Failure::environment(format!("{} does not answer: {error}", context.server))
    })?;
    let folder = place.folder()?;
    let files = start::open(&folder)?;
    let config = StandaloneConfig {
        state_dir: folder.clone(),
        program: start::program()?,
        controllers: controllers(&context, args)?,
        node: client(
            &context,
            args,
            &format!("system:node:{NODE_NAME}"),
            &["system:nodes"],
        )?,
        connect: connect(&context)?,
        api_address: address(&context.server),
        ca: context.ca_pem(),
    };
    let running = Standalone::start(config)
        .await
        .map_err(Failure::environment)?;
    eprintln!(
        "Controllers and node work on {} until Ctrl-C. The pods' logs are below {}.",
        context.server,
        folder.join("logs").display()
    );
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|error| Failure::environment(format!("cannot wait for SIGTERM: {error}")))?;
    let interrupted = tokio::select! {
        result = tokio::signal::ctrl_c() => result.is_ok(),
        _ = terminate.recv() => false,
    };
    running.stop().await;
    drop(files);
    Ok(if interrupted {
        Exit::Interrupted
    } else {
        Exit::Proven
    })
}

fn client(
    context: &Context,
    args: &NodeArgs,
    user: &str,
    groups: &[&str],
) -> Result<kube::Client, Failure> {
    if args.as_me {
        return Ok(context.client.clone());
    }
    context
        .impersonating(user, groups)
        .map_err(Failure::environment)
}

fn controllers(context: &Context, args: &NodeArgs) -> Result<ControllerClients, Failure> {
    let mut failed = None;
    let clients = ControllerClients::for_each(|identity: Identity| {
        client(context, args, identity.user(), &[]).unwrap_or_else(|failure| {
            failed = Some(failure);
            context.client.clone()
        })
    });
    failed.map_or(Ok(clients), Err)
}

/// A token that makes no client makes one that nobody knows, never one with the rights of the context.
fn connect(context: &Context) -> Result<crate::embedded::node::Connect, Failure> {
    let nobody = context.with_token("-").map_err(Failure::environment)?;
    let context = context.clone();
    Ok(Arc::new(move |token: &str| {
        context.with_token(token).unwrap_or_else(|_| nobody.clone())
    }))
}

/// The API server's address, where it is one of this machine that child processes can reach.
fn address(server: &str) -> Option<SocketAddr> {
    let uri: http::Uri = server.parse().ok()?;
    let authority = uri.authority()?.as_str();
    authority
        .parse()
        .ok()
        .filter(|address: &SocketAddr| address.ip().is_loopback())
}
