//! What a container says from now on, for `attach`: its log, followed. Standard output and error come as one, since a
//! node keeps them as one.

use futures::StreamExt;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{ExecOutput, Output, PodTarget};
use crate::embedded::api::logs::{LogError, LogOptions, LogRequest, PodLogs};

/// Pieces that wait for a slow reader.
const WAITING: usize = 16;

/// True if the pod's status says that this container runs.
pub(super) fn runs(pod: &Value, container: &str) -> bool {
    ["containerStatuses", "initContainerStatuses"]
        .iter()
        .filter_map(|list| pod.pointer("/status")?.get(list)?.as_array())
        .flatten()
        .any(|status| {
            status.get("name").and_then(Value::as_str) == Some(container)
                && status.pointer("/state/running").is_some()
        })
}

/// Follows a container; the end of its log is the end, with success, as a kubelet has no code to tell here.
pub(super) async fn output(
    logs: &dyn PodLogs,
    pod: PodTarget,
    container: String,
    running: bool,
) -> Output {
    let place = format!("container {container:?} in pod {:?}", pod.pod);
    if !running {
        return Err(format!(
            "unable to attach: {place} is not running; `kubectl logs` shows what it said"
        ));
    }
    let request = LogRequest {
        namespace: pod.namespace,
        pod: pod.pod,
        uid: pod.uid,
        container,
        current: None,
        options: LogOptions {
            follow: true,
            tail_lines: Some(0),
            ..LogOptions::default()
        },
    };
    let mut lines = logs.open(request).await.map_err(|error: LogError| {
        format!("unable to attach: {place}: {error}; `kubectl describe pod` shows its state")
    })?;
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        loop {
            let piece = tokio::select! {
                piece = lines.next() => piece,
                () = sender.closed() => return,
            };
            let said = match piece {
                Some(Ok(bytes)) => ExecOutput::Stdout(bytes),
                // A log that cannot be read any more: the client is told of a loss, not of an end.
                Some(Err(_)) => return,
                None => {
                    // A reader that has gone needs no end.
                    let _ = sender.send(ExecOutput::Exit(0)).await;
                    return;
                }
            };
            if sender.send(said).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::runs;

    #[test]
    fn only_a_container_that_runs_can_be_attached_to() {
        let pod = json!({"status": {
            "containerStatuses": [{"name": "main", "state": {"running": {}}}, {"name": "side", "state": {"waiting": {}}}],
            "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 0}}}],
        }});
        let found: Vec<bool> = ["main", "side", "init", "ghost"]
            .map(|name| runs(&pod, name))
            .to_vec();
        assert_eq!(found, [true, false, false, false]);
        assert!(!runs(&json!({"status": "odd"}), "main"));
    }
}
