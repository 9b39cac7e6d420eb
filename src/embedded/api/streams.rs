//! `pods/NAME/exec`, `attach` and `portforward`: upgrades, framings, and the border to whoever runs the pods.
//!
//! The node implements [`PodStreams`]; the API's handler calls [`exec`], [`attach`] and [`forward`]. Each answers `101
//! Switching Protocols` and goes on in a task of its own, which ends with the client, the pod or the listener.

mod attach;
mod channels;
mod exec;
mod forward;
mod spdy;
mod spdy_exec;
mod spdy_forward;
mod tunnel;
mod upgrade;

use std::io;
use std::sync::Arc;

use axum::body::Bytes;
use futures::future::BoxFuture;
use http::HeaderMap;
use hyper::upgrade::OnUpgrade;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use self::upgrade::{Framing, Handshake};
use super::handlers::{Answer, Call, value_of};
use super::logs::choose_container;
use super::status::Failure;

pub use self::upgrade::Stop;
pub(super) use self::upgrade::is_upgrade;

/// Exec, attach and port-forward sessions that may be open at once.
pub const MAX_SESSIONS: usize = 512;
/// Ports of one session in the channel framing: each has two channels, and a channel's number is one byte.
const MAX_PORTS: usize = 64;

/// A pod on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTarget {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
}

/// A command to run in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecRequest {
    pub pod: PodTarget,
    pub container: String,
    /// Program and arguments.
    pub command: Vec<String>,
}

/// What a command in a container says, in order; the exit code comes last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecOutput {
    Stdout(Bytes),
    Stderr(Bytes),
    Exit(i32),
}

/// Runs commands in containers and connects to their ports.
pub trait PodStreams: Send + Sync {
    /// Connects to a port of a pod, as from inside it.
    fn connect(&self, pod: PodTarget, port: u16) -> BoxFuture<'_, io::Result<TcpStream>>;
    /// Starts a command; it is killed when the receiver is dropped. The error is the text of a container runtime.
    fn exec(
        &self,
        request: ExecRequest,
    ) -> BoxFuture<'_, Result<mpsc::Receiver<ExecOutput>, String>>;
}

/// What a command says, or why it cannot be heard.
type Output = Result<mpsc::Receiver<ExecOutput>, String>;

/// What the client of a command wants to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// A request that asks to become a stream, as its listener handed it over.
#[derive(Debug)]
pub struct Upgrading<'a> {
    pub headers: &'a HeaderMap,
    /// The connection itself; `None` when it cannot be upgraded.
    pub upgrade: Option<OnUpgrade>,
    /// Ends the stream.
    pub stop: CancellationToken,
    /// Places for streams that may be open at once.
    pub sessions: &'a Arc<Semaphore>,
}

impl<'a> Upgrading<'a> {
    fn of(call: &'a Call) -> Self {
        Self {
            headers: &call.headers,
            upgrade: call.take_upgrade(),
            stop: call.stop.clone(),
            sessions: call.api.sessions(),
        }
    }
}

impl Wanted {
    /// What the query asks for.
    ///
    /// # Errors
    /// 400 when it asks for nothing.
    fn of(call: &Call) -> Result<Wanted, Failure> {
        let wanted = Wanted {
            stdin: call.query.flag("stdin"),
            stdout: call.query.flag("stdout"),
            stderr: call.query.flag("stderr"),
            tty: call.query.flag("tty"),
        };
        match wanted.stdin || wanted.stdout || wanted.stderr {
            true => Ok(wanted),
            false => Err(Failure::bad_request(
                "you must specify at least 1 of stdin, stdout, stderr",
            )),
        }
    }
}

/// Runs a command in a container.
///
/// # Errors
/// The pod is not there, its container cannot be told, nothing is wanted, or the connection cannot be upgraded.
pub(super) fn exec(call: &Call) -> Answer {
    let pod = value_of(&*call.current()?)?;
    let name = call.attributes.name.as_str();
    let wanted = Wanted::of(call)?;
    let command: Vec<String> = call.query.all("command").map(str::to_owned).collect();
    if command.is_empty() {
        return Err(Failure::bad_request(
            "you must specify at least 1 command for the container",
        ));
    }
    let container =
        choose_container(&pod, name, call.query.text("container")).map_err(Failure::bad_request)?;
    let request = ExecRequest {
        pod: target(&pod)?,
        container,
        command,
    };
    serve_exec(Upgrading::of(call), node(call)?, request, wanted)
}

/// Runs a command that was checked before, and carries what it says to the client.
///
/// # Errors
/// The connection cannot be upgraded.
pub fn serve_exec(
    upgrading: Upgrading<'_>,
    node: Arc<dyn PodStreams>,
    request: ExecRequest,
    wanted: Wanted,
) -> Answer {
    speak(upgrading, wanted, async move { node.exec(request).await })
}

/// Shows what a container that runs says from now on, until it ends.
///
/// # Errors
/// As [`exec`].
pub(super) fn attach(call: &Call) -> Answer {
    let pod = value_of(&*call.current()?)?;
    let name = call.attributes.name.as_str();
    let wanted = Wanted::of(call)?;
    let container =
        choose_container(&pod, name, call.query.text("container")).map_err(Failure::bad_request)?;
    let target = target(&pod)?;
    let logs = call.api.pod_logs().ok_or_else(no_node)?;
    let running = attach::runs(&pod, &container);
    speak(Upgrading::of(call), wanted, async move {
        attach::output(&*logs, target, container, running).await
    })
}

/// Upgrades the connection and carries a command's output over it.
fn speak(
    upgrading: Upgrading<'_>,
    wanted: Wanted,
    started: impl Future<Output = Output> + Send + 'static,
) -> Answer {
    let handshake = Handshake::of(upgrading, &[Framing::V5, Framing::V4], upgrade::SPDY_EXEC)?;
    Ok(handshake.go(move |connection| async move {
        match connection {
            upgrade::Connection::Channels(socket) => exec::serve(socket, started, wanted).await,
            upgrade::Connection::Spdy(stream) => spdy_exec::serve(stream, started, wanted).await,
        }
    }))
}

/// Connects the client with ports of a pod.
///
/// # Errors
/// The pod is not there, the ports are no ports, or the connection cannot be upgraded.
pub(super) fn forward(call: &Call) -> Answer {
    let pod = value_of(&*call.current()?)?;
    let target = target(&pod)?;
    let ports = ports(call.query.all("ports"))?;
    serve_forward(Upgrading::of(call), node(call)?, target, ports)
}

/// Connects the client with ports of a pod that is known to be there.
///
/// # Errors
/// The connection cannot be upgraded, or names no port where it must.
pub fn serve_forward(
    upgrading: Upgrading<'_>,
    node: Arc<dyn PodStreams>,
    target: PodTarget,
    ports: Vec<u16>,
) -> Answer {
    let framings = [Framing::SpdyTunnel, Framing::V5, Framing::V4];
    let handshake = Handshake::of(upgrading, &framings, upgrade::SPDY_FORWARD)?;
    if handshake.is_channels() && ports.is_empty() {
        return Err(Failure::bad_request(
            "query parameter \"ports\" is required: the ports of the pod, as in ports=8080",
        ));
    }
    Ok(handshake.go(move |connection| async move {
        match connection {
            upgrade::Connection::Channels(socket) => {
                forward::serve(socket, node, target, ports).await;
            }
            upgrade::Connection::Spdy(stream) => spdy_forward::serve(stream, node, target).await,
        }
    }))
}

fn node(call: &Call) -> Result<Arc<dyn PodStreams>, Failure> {
    call.api.pod_streams().ok_or_else(no_node)
}

fn no_node() -> Failure {
    Failure::bad_request(
        "no node is running, so no pod can be reached; start the cluster's node and try again",
    )
}

fn target(pod: &Value) -> Result<PodTarget, Failure> {
    let text = |pointer: &str| {
        let value = pod.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let target = PodTarget {
        namespace: text("/metadata/namespace"),
        pod: text("/metadata/name"),
        uid: text("/metadata/uid"),
    };
    if text("/spec/nodeName").is_empty() {
        let name = &target.pod;
        return Err(Failure::bad_request(format!(
            "pod {name} does not have a host assigned"
        )));
    }
    Ok(target)
}

/// Ports from query parameters, each a port or several with commas between them.
///
/// # Errors
/// Something is no port, or there are too many.
pub fn ports<'a>(parameters: impl Iterator<Item = &'a str>) -> Result<Vec<u16>, Failure> {
    let mut ports = Vec::new();
    for word in parameters.flat_map(|list| list.split(',')) {
        match word.parse::<u16>() {
            Ok(port) if port != 0 && ports.len() < MAX_PORTS => ports.push(port),
            Ok(_) if ports.len() >= MAX_PORTS => {
                return Err(Failure::bad_request(format!(
                    "at most {MAX_PORTS} ports can be forwarded by one connection"
                )));
            }
            _ => {
                return Err(Failure::bad_request(format!(
                    "unable to parse {word:?} as a port: it is a number from 1 to 65535"
                )));
            }
        }
    }
    Ok(ports)
}

/// What a client of `port` is told when nothing listens there, in the words of a container runtime.
fn refused(pod: &PodTarget, port: u16, error: &io::Error) -> String {
    format!(
        "error forwarding port {port} to pod {}, uid {}: failed to connect to localhost:{port} inside the pod's network \
         namespace: {error}",
        pod.pod, pod.uid
    )
}
