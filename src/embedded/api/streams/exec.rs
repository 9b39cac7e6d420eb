//! A command over a WebSocket: stdin 0, stdout 1, stderr 2, the Status 3, the size of the terminal 4.

use futures::SinkExt;
use serde_json::{Value, json};

use super::channels::{self, Incoming, message};
use super::upgrade::Socket;
use super::{ExecOutput, Output, Wanted};
use crate::embedded::api::status::Failure;

const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;

/// Carries a command's output to the client, then its Status. What the client types is read and dropped: no workload
/// command reads stdin.
pub(super) async fn serve(
    mut socket: Box<Socket>,
    started: impl Future<Output = Output>,
    wanted: Wanted,
) {
    // Tells the client that the connection stands.
    let first = if wanted.stdout { STDOUT } else { STDERR };
    if socket.send(message(first, b"")).await.is_err() {
        return;
    }
    let mut output = match started.await {
        Ok(output) => output,
        Err(why) => {
            let status = refusal(&why).to_string();
            if socket
                .send(message(STATUS, status.as_bytes()))
                .await
                .is_ok()
            {
                channels::close(&mut *socket).await;
            }
            return;
        }
    };
    loop {
        let said = tokio::select! {
            said = output.recv() => said,
            incoming = channels::next(&mut *socket) => match incoming {
                Incoming::End => return,
                Incoming::Data(..) | Incoming::Closed(_) => continue,
            },
        };
        let (reply, last) = match said {
            Some(ExecOutput::Exit(code)) => (
                Some(message(STATUS, status(code).to_string().as_bytes())),
                true,
            ),
            Some(output) => (
                shown(output, wanted).map(|(channel, bytes)| message(channel, &bytes)),
                false,
            ),
            None => (Some(message(STATUS, lost().to_string().as_bytes())), true),
        };
        if let Some(reply) = reply
            && socket.send(reply).await.is_err()
        {
            return;
        }
        if last {
            return channels::close(&mut *socket).await;
        }
    }
}

/// Where a piece of output goes, if the client wants it; a terminal has one output and ends lines with CR LF.
pub(super) fn shown(output: ExecOutput, wanted: Wanted) -> Option<(u8, axum::body::Bytes)> {
    match output {
        ExecOutput::Stdout(bytes) | ExecOutput::Stderr(bytes) if wanted.tty && wanted.stdout => {
            let mut text = Vec::with_capacity(bytes.len() + 16);
            for byte in bytes {
                if byte == b'\n' {
                    text.push(b'\r');
                }
                text.push(byte);
            }
            Some((STDOUT, text.into()))
        }
        ExecOutput::Stdout(bytes) if wanted.stdout => Some((STDOUT, bytes)),
        ExecOutput::Stderr(bytes) if wanted.stderr => Some((STDERR, bytes)),
        ExecOutput::Stdout(_) | ExecOutput::Stderr(_) | ExecOutput::Exit(_) => None,
    }
}

/// The Status of a command that ended.
pub(super) fn status(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

/// The Status of a command that never ran.
pub(super) fn refusal(why: &str) -> Value {
    Failure::internal(why).body()
}

/// The Status of a command whose end nobody saw.
pub(super) fn lost() -> Value {
    refusal("the node stopped before the command ended; look whether the pod still runs")
}
