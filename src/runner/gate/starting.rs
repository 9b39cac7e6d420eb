//! Why a pod that should run does not, and whether waiting is of any use.

use serde_json::Value;

use super::pods::{pod_name, split_pods, terminating};
use super::{Input, condition_of, text};
use crate::session::message::StepError;

/// A container that ended so often is not waited for: every start costs the kubelet a longer pause.
const ENOUGH_RESTARTS: u64 = 3;
/// Reason codes of what keeps a pod from running.
const CRASH_LOOP: &str = "crash-loop";
const NO_START: &str = "no-start";
/// What the kubelet says of a container whose image it does not get, or that it cannot make as it is written.
pub(in crate::runner) const NO_START_REASONS: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
];

/// What keeps a pod from running.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hindrance {
    /// What the pod's status says, in a sentence without its name.
    pub text: String,
    /// Reason code of what does not go away by waiting, as far as can be seen.
    pub lasting: Option<&'static str>,
    /// Whether it has run and ended, so that its last lines say more.
    pub ran: bool,
}

/// What keeps the first hindered container from running; `None` where all run, or nothing is said yet.
pub(super) fn hindrance(pod: &Value) -> Option<Hindrance> {
    let of = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array);
    let init = of("/status/initContainerStatuses").into_iter().flatten();
    let main = of("/status/containerStatuses").into_iter().flatten();
    let done = |status: &&Value| status.pointer("/state/terminated/exitCode") != Some(&0.into());
    init.filter(done)
        .chain(main)
        .find_map(of_container)
        .or_else(|| unscheduled(pod))
}

fn of_container(status: &Value) -> Option<Hindrance> {
    let restarts = status.get("restartCount").and_then(Value::as_u64);
    let restarts = restarts.unwrap_or_default();
    let ended = status
        .pointer("/state/terminated")
        .or_else(|| status.pointer("/lastState/terminated"));
    let waiting = status.pointer("/state/waiting");
    if let Some(waiting) = waiting
        && text(waiting, "/reason") != "CrashLoopBackOff"
    {
        let reason = text(waiting, "/reason");
        return Some(Hindrance {
            text: joined(reason, text(waiting, "/message")),
            lasting: NO_START_REASONS.contains(&reason).then_some(NO_START),
            ran: false,
        });
    }
    let ended = ended?;
    if waiting.is_none() && status.pointer("/state/running").is_some() {
        return None;
    }
    let again = match restarts {
        0 => String::new(),
        1 => ", restarted once".to_owned(),
        more => format!(", restarted {more} times"),
    };
    let code = ended.get("exitCode").and_then(Value::as_i64);
    let said = text(ended, "/message").trim();
    Some(Hindrance {
        text: format!(
            "it ended with exit code {}{again}{}{said}",
            code.map_or_else(|| "unknown".to_owned(), |code| code.to_string()),
            if said.is_empty() { "" } else { ": " },
        ),
        lasting: (restarts >= ENOUGH_RESTARTS).then_some(CRASH_LOOP),
        ran: true,
    })
}

fn unscheduled(pod: &Value) -> Option<Hindrance> {
    let (status, message) = condition_of(pod, "PodScheduled")?;
    (status == "False").then(|| Hindrance {
        text: format!("no node takes it: {message}"),
        lasting: None,
        ran: false,
    })
}

fn joined(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// Why a pod is not Ready, in a sentence, and the command that says more.
pub(super) fn not_ready(pod: &Value, namespace: &str) -> (String, String) {
    let name = pod_name(pod);
    let hindrance = hindrance(pod);
    let why = hindrance.as_ref().map_or_else(
        || text(pod, "/status/phase").to_owned(),
        |hindrance| hindrance.text.clone(),
    );
    let command = if hindrance.is_some_and(|hindrance| hindrance.ran) {
        format!("kubectl -n {namespace} logs {name} --previous")
    } else {
        format!("kubectl -n {namespace} describe pod {name}")
    };
    (format!("pod {name} is not Ready: {why}"), command)
}

/// Why no pod of a Deployment is made, as its ReplicaSet tells.
pub(super) fn not_made(input: &Input, which: impl Fn(&Value) -> bool) -> Option<String> {
    let mut theirs = input.deployments.iter().filter(|one| which(one));
    theirs.find_map(|one| {
        let (status, message) = condition_of(one, "ReplicaFailure")?;
        (status == "True").then(|| message.to_owned())
    })
}

/// The Deployment that a controller of Argo Events makes for the object of this name.
fn made_for(label: &str, name: &str) -> impl Fn(&Value) -> bool {
    move |deployment| {
        let labels = deployment.pointer("/metadata/labels");
        labels.and_then(|labels| labels.get(label)?.as_str()) == Some(name)
    }
}

/// What is said of an object whose present spec no pod runs, followed by the reason where the cluster tells it of the object or
/// of its Deployment.
pub(super) fn no_pod(input: &Input, object: &Value, label: &str, said: String) -> String {
    let made = made_for(label, text(object, "/metadata/name"));
    let of_object = || match condition_of(object, "Deployed") {
        Some(("False", message)) => Some(format!("Deployed is False: {message}")),
        _ => None,
    };
    match not_made(input, made).or_else(of_object) {
        Some(why) => format!("{said}; no pod is made: {why}"),
        None => said,
    }
}

/// The pods that must run: those of the present specs, and the ledger's.
fn needed(input: &Input) -> Vec<&Value> {
    let present = |object: &Option<Value>, pods, variable| match object {
        Some(object) => split_pods(pods, object, variable).0,
        None => Vec::new(),
    };
    let mut pods = present(
        &input.event_source,
        &input.event_source_pods,
        "EVENTSOURCE_OBJECT",
    );
    pods.extend(present(&input.sensor, &input.sensor_pods, "SENSOR_OBJECT"));
    pods.extend(input.ledger_pods.iter().filter(|pod| !terminating(pod)));
    pods
}

fn hindered(input: &Input, reasons: &[&str]) -> Option<StepError> {
    needed(input).into_iter().find_map(|pod| {
        let reason = hindrance(pod)?.lasting?;
        reasons.contains(&reason).then(|| StepError {
            reason: reason.to_owned(),
            text: not_ready(pod, &input.namespace).0,
            environment: true,
        })
    })
}

/// A container that ends at every start. While the bus does not answer it is waited for all the same: services of Argo start
/// over until it does.
pub(super) fn crash_loop(input: &Input) -> Option<StepError> {
    let bus_answers = input.consumers.is_ok() || input.by_log_alone.is_some();
    bus_answers
        .then(|| hindered(input, &[CRASH_LOOP]))
        .flatten()
}

/// A container that cannot be made, or a pod that may not be. Both can be a matter of a moment.
pub(super) fn no_start(input: &Input) -> Option<StepError> {
    hindered(input, &[NO_START]).or_else(|| {
        let roles = [
            ("eventsource-name", &input.event_source, "EventSource"),
            ("sensor-name", &input.sensor, "Sensor"),
        ];
        roles.into_iter().find_map(|(label, object, kind)| {
            let name = text(object.as_ref()?, "/metadata/name");
            let why = not_made(input, made_for(label, name))?;
            Some(StepError {
                reason: "no-pod".to_owned(),
                text: format!("no pod of {kind} {name} is made: {why}"),
                environment: true,
            })
        })
    })
}
