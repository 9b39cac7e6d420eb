//! `eventlab node --context C`: the embedded controllers and node against another API server.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::exit::{Exit, Failure};
use super::output::note;
use super::place::Place;
use super::start;
use crate::cluster::{Context, unanswered};
use crate::embedded::controllers::{ControllerClients, Identity, Parts};
use crate::embedded::node::NODE_NAME;
use crate::embedded::standalone::{
    self, Others, Standalone, StandaloneConfig, VOLUME_USER, kubelet,
};

/// Arguments of `node`.
#[derive(Clone, Debug, Args)]
#[command(after_help = HELP)]
pub struct NodeArgs {
    /// Act as the context's own user everywhere, instead of impersonating each controller and the node
    #[arg(long)]
    pub as_me: bool,
    /// Which of the embedded controllers work
    #[arg(long, value_enum, default_value_t)]
    pub controllers: Which,
    /// Where the API server reaches this node for logs and port-forward, as it reaches a kubelet
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
}

const HELP: &str = "The API server must have Argo's kinds. Controllers that hold a Lease there (kube-controller-manager, \
kube-scheduler, Argo's) keep their work.
Pods run on this machine, as threads and child processes of this program, on a node named `eventlab`.
A claim (PersistentVolumeClaim) that names no storage class gets a folder of this machine.

Logs and port-forward: the API server connects to --listen with its client certificate (--kubelet-client-certificate), \
whose authority it publishes (ConfigMap extension-apiserver-authentication in kube-system).";

/// Which controllers work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Which {
    /// Those whose work nobody else does
    #[default]
    Auto,
    All,
    /// Argo's alone
    Argo,
    /// None: the node alone
    None,
}

/// Runs controllers and node until Ctrl-C.
///
/// # Errors
/// No context, an API server that does not answer, a folder that cannot be used.
pub async fn run(place: &Place, args: &NodeArgs) -> Result<Exit, Failure> {
    if args.listen.ip().is_unspecified() {
        return Err(Failure::usage(
            "--listen: name the address at which the API server reaches this machine; it cannot reach an address that means \"all\"",
        ));
    }
    let context = start::confirmed(&place.real).await?.ok_or_else(|| {
        Failure::usage(
            "node works for another API server: name it with --context NAME and --kubeconfig FILE",
        )
    })?;
    context.client.apiserver_version().await.map_err(|error| {
        Failure::environment(format!(
            "{} does not answer: {}",
            context.server,
            unanswered(&error)
        ))
    })?;
    let parts = parts(&context, args.controllers).await?;
    let folder = place.folder()?;
    let files = start::open(&folder)?;
    let logs = start::log_to(&folder);
    let controllers = controllers(&context, args)?;
    for lack in standalone::lacking(&controllers, parts).await {
        note!("eventlab: {lack}");
    }
    let config = StandaloneConfig {
        state_dir: folder.clone(),
        program: start::program()?,
        controllers,
        parts,
        volumes: client(&context, args, VOLUME_USER, &[])?,
        node: client(
            &context,
            args,
            &format!("system:node:{NODE_NAME}"),
            &["system:nodes"],
        )?,
        connect: connect(&context)?,
        api_address: address(&context.server),
        ca: context.ca_pem(),
        kubelet: listening(&context, args).await,
    };
    let running = Standalone::start(config)
        .await
        .map_err(Failure::environment)?;
    note!(
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
    note!("Stopping.");
    running.stop().await;
    drop((files, logs));
    Ok(if interrupted {
        Exit::Interrupted
    } else {
        Exit::Proven
    })
}

/// Which controllers work here, and says so.
async fn parts(context: &Context, which: Which) -> Result<Parts, Failure> {
    let none = Parts {
        core: false,
        scheduler: false,
        argo_events: false,
        argo_workflows: false,
    };
    let parts = match which {
        Which::All => Parts::ALL,
        Which::None => none,
        Which::Argo => Parts {
            argo_events: true,
            argo_workflows: true,
            ..none
        },
        Which::Auto => {
            let others = Others::look(&context.client).await.map_err(|error| {
                Failure::environment(format!(
                    "cannot see which controllers work there (Leases): {error}; say it with --controllers"
                ))
            })?;
            if !others.leases.is_empty() {
                note!("At work there already, and left alone: {others}.");
            }
            others.left()
        }
    };
    Ok(parts)
}

/// Where the node listens for the API server; without the authority of its clients, nowhere.
async fn listening(context: &Context, args: &NodeArgs) -> Option<(SocketAddr, String)> {
    match kubelet::authority(&context.client).await {
        Ok(authority) => Some((args.listen, authority)),
        Err(why) => {
            note!("eventlab: no logs, exec and port-forward of the pods: {why}");
            None
        }
    }
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
