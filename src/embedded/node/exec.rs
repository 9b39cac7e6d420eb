//! A second command in a container that runs: the same environment and mounts, output to whoever asked.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::{mpsc, watch};

use super::children::{self, ChildProcess, ChildSpec};
use super::environment::deny;
use super::images;
use super::mounts::Mounts;
use super::process::{Exit, PodIdentity, PodProcess as _};
use super::starter::{PodContext, StartFailure, child_variables, surroundings};
use super::streams::Started;
use crate::embedded::api::streams::ExecOutput;

/// Pieces of output that wait for a slow reader.
const WAITING: usize = 16;
/// Longest piece (bytes).
const PIECE: u64 = 16 * 1024;
/// How long a reader may be behind the end of its command.
const DRAIN: Duration = Duration::from_secs(600);

/// Starts a command; it is killed when its reader or its container ends.
pub(super) async fn start(
    context: PodContext,
    container: Container,
    identity: PodIdentity,
    container_exit: watch::Receiver<Option<Exit>>,
    command: Vec<String>,
) -> Started {
    let image = container.image.as_deref().unwrap_or_default();
    let (sender, receiver) = mpsc::channel(WAITING);
    let arguments = match images::exec(image, &command) {
        Ok(arguments) => arguments,
        Err(images::Refusal::Exit(code, message)) => {
            // The channel has room for both.
            let _ = sender.try_send(ExecOutput::Stderr(format!("{message}\n").into()));
            let _ = sender.try_send(ExecOutput::Exit(code));
            return Ok(receiver);
        }
        Err(images::Refusal::Start(message) | images::Refusal::Image(message)) => {
            return Err(message);
        }
    };
    let child = child(&context, &container, &identity, &arguments, &sender).await?;
    tokio::spawn(watch_over(child, container_exit, sender));
    Ok(receiver)
}

async fn child(
    context: &PodContext,
    container: &Container,
    identity: &PodIdentity,
    arguments: &[String],
    sender: &mpsc::Sender<ExecOutput>,
) -> Result<ChildProcess, String> {
    let (mut env, mounts) = surroundings(context, container, &identity.namespace)
        .await
        .map_err(|failure| match failure {
            StartFailure::Image(message)
            | StartFailure::Config(message)
            | StartFailure::Ended { message, .. } => message,
        })?;
    deny(&mut env);
    // Any free one: nobody else is told of it.
    let port = images::served_port(arguments).map(|port| (port, 0));
    child_variables(&mut env, context, identity, &mounts, port.as_slice());
    let spec = ChildSpec {
        program: context.shared.program.clone(),
        args: mounts.arguments(arguments),
        env,
        folder: mounts.root().to_path_buf(),
        container: format!(
            "{}/{}/{} (exec)",
            identity.namespace, identity.name, identity.container
        ),
    };
    let sender = sender.clone();
    let output = move |stdout, stderr| async move {
        let out = async {
            if let Some(stream) = stdout {
                copy(stream, &mounts, &sender, ExecOutput::Stdout).await;
            }
        };
        let err = async {
            if let Some(stream) = stderr {
                copy(stream, &mounts, &sender, ExecOutput::Stderr).await;
            }
        };
        tokio::join!(out, err);
    };
    children::start_with(spec, &context.shared.records, DRAIN, output)
        .await
        .map_err(|error| {
            format!(
                "failed to start the program of container {:?}: {error}",
                container.name
            )
        })
}

/// Copies output piece by piece, with host paths as the container knows them.
async fn copy(
    stream: impl AsyncRead + Unpin,
    mounts: &Arc<Mounts>,
    sender: &mpsc::Sender<ExecOutput>,
    kind: fn(axum::body::Bytes) -> ExecOutput,
) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut piece = Vec::new();
        let mut limited = (&mut reader).take(PIECE);
        match limited.read_until(b'\n', &mut piece).await {
            // A pipe that cannot be read any more has ended.
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let piece = match String::from_utf8(piece) {
            Ok(text) => mounts.hide_host(&text).into_bytes(),
            Err(error) => error.into_bytes(),
        };
        // A reader that has gone takes the command with it.
        if sender.send(kind(piece.into())).await.is_err() {
            return;
        }
    }
}

/// Tells the end of a command; keeps it until then, and no longer than its reader and its container.
async fn watch_over(
    child: ChildProcess,
    mut container: watch::Receiver<Option<Exit>>,
    sender: mpsc::Sender<ExecOutput>,
) {
    let mut exit = child.exit();
    let code = tokio::select! {
        ended = exit.wait_for(Option::is_some) => {
            ended.ok().and_then(|exit| *exit).unwrap_or(Exit::Unknown).code()
        }
        _ = container.wait_for(Option::is_some) => {
            child.kill();
            Exit::Signal(9).code()
        }
        () = sender.closed() => return,
    };
    // A reader that has gone needs no code.
    let _ = sender.send(ExecOutput::Exit(code)).await;
}
