//! The printer of pods: readiness, the one word for the state, restarts.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since;
use super::{
    AGE, Column, NAME, Printer, age, has_condition, integer, list, name, or, text, text_column,
    wide_column,
};

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Ready"),
    text_column("Status"),
    text_column("Restarts"),
    AGE,
    wide_column("IP"),
    wide_column("Node"),
    wide_column("Nominated Node"),
    wide_column("Readiness Gates"),
];

pub(super) const PODS: Printer = Printer {
    columns: COLUMNS,
    cells,
};

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let address = list(pod, "/status/podIPs")
        .first()
        .map_or("", |first| text(first, "/ip"));
    vec![
        json!(name(pod)),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.reason),
        json!(summary.restarts.cell(now)),
        json!(age(pod, now)),
        json!(or(or(address, text(pod, "/status/podIP")), "<none>")),
        json!(or(text(pod, "/spec/nodeName"), "<none>")),
        json!(or(text(pod, "/status/nominatedNodeName"), "<none>")),
        json!(readiness_gates(pod)),
    ]
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| has_condition(pod, text(gate, "/conditionType")))
        .count();
    format!("{open}/{}", gates.len())
}

#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += integer(status, "/restartCount");
        let ended = text(status, "/lastState/terminated/finishedAt")
            .parse()
            .ok();
        self.last = self.last.max(ended);
    }

    fn cell(&self, now: Timestamp) -> String {
        match self.last.filter(|_| self.count != 0) {
            Some(last) => format!(
                "{} ({} ago)",
                self.count,
                since(Some(&json!(last.to_string())), now)
            ),
            None => self.count.to_string(),
        }
    }
}

struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: Restarts,
}

impl Summary {
    /// Walks the container statuses in upstream's order; a later statement overrules an earlier one.
    fn of(pod: &Value) -> Summary {
        let sidecars = list(pod, "/spec/initContainers")
            .iter()
            .filter(|container| is_sidecar(container))
            .count();
        let mut reason = or(text(pod, "/status/reason"), text(pod, "/status/phase")).to_owned();
        if list(pod, "/status/conditions")
            .iter()
            .any(|one| one["reason"] == "SchedulingGated")
        {
            "SchedulingGated".clone_into(&mut reason);
        }
        let total = list(pod, "/spec/containers").len() + sidecars;
        let mut summary = Summary {
            ready: 0,
            total,
            reason,
            restarts: Restarts::default(),
        };
        let initializing = summary.init_containers(pod);
        if !initializing || has_condition(pod, "Initialized") {
            summary.containers(pod);
        }
        summary.deletion(pod);
        summary
    }

    /// Whether an init container still holds the pod up.
    fn init_containers(&mut self, pod: &Value) -> bool {
        let specs = list(pod, "/spec/initContainers");
        for (index, status) in list(pod, "/status/initContainerStatuses")
            .iter()
            .enumerate()
        {
            self.restarts.add(status);
            let terminated = status
                .pointer("/state/terminated")
                .filter(|state| !state.is_null());
            let sidecar = specs
                .iter()
                .any(|spec| spec["name"] == status["name"] && is_sidecar(spec));
            if terminated.is_some_and(|state| integer(state, "/exitCode") == 0) {
                continue;
            }
            if sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            let waiting = text(status, "/state/waiting/reason");
            let reason = match terminated {
                Some(state) => end_reason(state),
                None if !waiting.is_empty() && waiting != "PodInitializing" => waiting.to_owned(),
                None => format!("{index}/{}", specs.len()),
            };
            self.reason = format!("Init:{reason}");
            return true;
        }
        false
    }

    fn containers(&mut self, pod: &Value) {
        self.restarts = sidecar_restarts(pod);
        let mut has_running = false;
        // Why the first container that failed did so: the pod did not complete, whatever the others say.
        let mut failed = None;
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            self.restarts.add(status);
            let state = &status["state"];
            let waiting = text(state, "/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if !state["terminated"].is_null() {
                self.reason = end_reason(&state["terminated"]);
                if integer(&state["terminated"], "/exitCode") != 0 {
                    failed = Some(self.reason.clone());
                }
            } else if status["ready"] == true && !state["running"].is_null() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason != "Completed" {
            return;
        }
        if has_running && has_condition(pod, "Ready") {
            "Running".clone_into(&mut self.reason);
        } else if let Some(failed) = failed {
            self.reason = failed;
        } else if has_running {
            "NotReady".clone_into(&mut self.reason);
        }
    }

    fn deletion(&mut self, pod: &Value) {
        if text(pod, "/metadata/deletionTimestamp").is_empty() {
            return;
        }
        if text(pod, "/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut self.reason);
        } else if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut self.reason);
        }
    }
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn sidecar_restarts(pod: &Value) -> Restarts {
    let mut restarts = Restarts::default();
    let specs = list(pod, "/spec/initContainers");
    for status in list(pod, "/status/initContainerStatuses") {
        if specs
            .iter()
            .any(|spec| spec["name"] == status["name"] && is_sidecar(spec))
        {
            restarts.add(status);
        }
    }
    restarts
}

/// The reason of a terminated state, or what stands for it.
fn end_reason(terminated: &Value) -> String {
    match (text(terminated, "/reason"), integer(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", integer(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
