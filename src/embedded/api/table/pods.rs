//! Rows of pods (`printPod` of `pkg/printers/internalversion`).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Column, NAME, age, duration, list, number, or_none, string, text, wide};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    text("Ready"),
    text("Status"),
    text("Restarts"),
    text("Age"),
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
];

/// What the statuses of the containers add up to.
struct Summary {
    reason: String,
    ready: usize,
    restarts: i64,
    last_restart: String,
}

pub(super) fn row(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summarize(pod);
    let total = list(pod, "/spec/containers").count();
    let restarts = match summary.last_restart.as_str() {
        time if summary.restarts > 0 && !time.is_empty() => {
            format!("{} ({} ago)", summary.restarts, duration::since(time, now))
        }
        _ => summary.restarts.to_string(),
    };
    let gates: Vec<&str> = list(pod, "/spec/readinessGates")
        .map(|gate| string(gate, "/conditionType"))
        .collect();
    let open = gates
        .iter()
        .filter(|gate| condition(pod, gate) == "True")
        .count();
    let gates = if gates.is_empty() {
        "<none>".to_owned()
    } else {
        format!("{open}/{}", gates.len())
    };
    vec![
        json!(string(pod, "/metadata/name")),
        json!(format!("{}/{total}", summary.ready)),
        json!(summary.reason),
        json!(restarts),
        age(pod, now),
        or_none(string(pod, "/status/podIP")),
        or_none(string(pod, "/spec/nodeName")),
        or_none(string(pod, "/status/nominatedNodeName")),
        json!(gates),
    ]
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a str {
    let found =
        list(pod, "/status/conditions").find(|condition| string(condition, "/type") == kind);
    found.map_or("", |condition| string(condition, "/status"))
}

fn summarize(pod: &Value) -> Summary {
    let reason = match string(pod, "/status/reason") {
        "" => string(pod, "/status/phase"),
        reason => reason,
    };
    let mut summary = Summary {
        reason: reason.to_owned(),
        ready: 0,
        restarts: 0,
        last_restart: String::new(),
    };
    let initializing = initialize(pod, &mut summary);
    if !initializing || condition(pod, "Initialized") == "True" {
        run(pod, &mut summary);
    }
    let phase = string(pod, "/status/phase");
    if !string(pod, "/metadata/deletionTimestamp").is_empty() {
        if string(pod, "/status/reason") == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

fn count_restarts(status: &Value, summary: &mut Summary) {
    summary.restarts += number(status, "/restartCount");
    let finished = string(status, "/lastState/terminated/finishedAt");
    if finished > summary.last_restart.as_str() {
        summary.last_restart = finished.to_owned();
    }
}

fn ended(state: &Value) -> String {
    match (string(state, "/reason"), number(state, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(state, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// True while init containers hold the pod back.
fn initialize(pod: &Value, summary: &mut Summary) -> bool {
    let total = list(pod, "/spec/initContainers").count();
    for (index, status) in list(pod, "/status/initContainerStatuses").enumerate() {
        count_restarts(status, summary);
        let waiting = string(status, "/state/waiting/reason");
        match status.pointer("/state/terminated") {
            Some(state) if number(state, "/exitCode") == 0 => continue,
            Some(state) => summary.reason = format!("Init:{}", ended(state)),
            None if is_sidecar(pod, status)
                && status.get("started") == Some(&Value::Bool(true)) =>
            {
                continue;
            }
            None if !waiting.is_empty() && waiting != "PodInitializing" => {
                summary.reason = format!("Init:{waiting}")
            }
            None => summary.reason = format!("Init:{index}/{total}"),
        }
        return true;
    }
    false
}

fn is_sidecar(pod: &Value, status: &Value) -> bool {
    let name = string(status, "/name");
    let spec =
        list(pod, "/spec/initContainers").find(|container| string(container, "/name") == name);
    spec.is_some_and(|spec| string(spec, "/restartPolicy") == "Always")
}

fn run(pod: &Value, summary: &mut Summary) {
    summary.restarts = 0;
    let mut running = false;
    let statuses: Vec<&Value> = list(pod, "/status/containerStatuses").collect();
    for status in statuses.into_iter().rev() {
        count_restarts(status, summary);
        let waiting = string(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if let Some(state) = status.pointer("/state/terminated") {
            summary.reason = ended(state);
        } else if status.pointer("/state/running").is_some()
            && status.get("ready") == Some(&Value::Bool(true))
        {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" && running {
        let ready = condition(pod, "Ready") == "True";
        summary.reason = if ready { "Running" } else { "NotReady" }.to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pod: &Value) -> (String, String, String) {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().expect("time");
        let row = row(pod, now);
        let cell = |index: usize| row[index].as_str().expect("text").to_owned();
        (cell(1), cell(2), cell(3))
    }

    #[test]
    fn what_kubectl_get_pods_shows() {
        let spec = json!({"initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b"}]});
        let table = [
            (json!({"phase": "Pending"}), ("0/2", "Pending", "0")),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 0, "state": {"running": {}}}]}),
                ("0/2", "Init:0/1", "0"),
            ),
            (
                json!({"phase": "Failed", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 3}}}]}),
                ("0/2", "Init:ExitCode:3", "0"),
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}},
                     "lastState": {"terminated": {"finishedAt": "2026-01-01T00:50:00Z"}}},
                    {"name": "b", "ready": false, "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
                ("1/2", "CrashLoopBackOff", "3 (10m ago)"),
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "a", "ready": true, "state": {"running": {}}},
                    {"name": "b", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}),
                ("1/2", "NotReady", "0"),
            ),
            (
                json!({"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}),
                ("0/2", "OOMKilled", "0"),
            ),
        ];
        for (status_value, (ready, reason, restarts)) in table {
            let pod = json!({"metadata": {"name": "p"}, "spec": spec, "status": status_value});
            assert_eq!(
                status(&pod),
                (ready.to_owned(), reason.to_owned(), restarts.to_owned()),
                "{status_value}"
            );
        }
        let pod = json!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec, "status": {"phase": "Running"}});
        assert_eq!(status(&pod).1, "Terminating");
    }
}
