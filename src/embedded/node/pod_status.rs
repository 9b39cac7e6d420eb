//! A pod's phase and conditions out of its containers, by the kubelet's rules (`pkg/kubelet/kubelet_pods.go`).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, Pod, PodCondition, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::slot::{Slot, State};

/// When ended containers are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    pub(super) fn of(pod: &Pod) -> RestartPolicy {
        match pod
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref())
        {
            Some("OnFailure") => RestartPolicy::OnFailure,
            Some("Never") => RestartPolicy::Never,
            _ => RestartPolicy::Always,
        }
    }

    /// Whether a container that ended with this code is started again.
    pub(super) fn restarts(self, init: bool, exit_code: i32) -> bool {
        match self {
            RestartPolicy::Never => false,
            RestartPolicy::OnFailure => exit_code != 0,
            RestartPolicy::Always => !init || exit_code != 0,
        }
    }
}

/// Why a pod failed as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub reason: String,
    pub message: String,
}

/// What a status is made of.
pub(super) struct Parts<'a> {
    pub pod: &'a Pod,
    pub slots: &'a [Slot],
    pub policy: RestartPolicy,
    /// The node will not start anything of it again.
    pub ending: bool,
    pub failure: Option<&'a Failure>,
    pub start: Timestamp,
    pub pod_ip: &'a str,
    pub host_ip: &'a str,
    /// Whether its volumes are there.
    pub set_up: bool,
}

/// The phase of a pod.
pub(super) fn phase(parts: &Parts<'_>) -> &'static str {
    if parts.failure.is_some() {
        return "Failed";
    }
    for slot in parts.slots.iter().filter(|slot| slot.init) {
        match &slot.state {
            State::Terminated(terminated) if terminated.exit_code == 0 => {}
            State::Terminated(_) if parts.policy == RestartPolicy::Never || parts.ending => {
                return "Failed";
            }
            _ if parts.ending && !slot.is_running() => return "Failed",
            _ => return "Pending",
        }
    }
    main_phase(parts)
}

fn main_phase(parts: &Parts<'_>) -> &'static str {
    let (mut waiting, mut running, mut stopped, mut succeeded) = (0, 0, 0, 0);
    for slot in parts.slots.iter().filter(|slot| !slot.init) {
        match &slot.state {
            State::Running { .. } => running += 1,
            State::Terminated(terminated) => {
                stopped += 1;
                succeeded += usize::from(terminated.exit_code == 0);
            }
            // A container that crashed counts as stopped while it waits for its restart.
            State::Waiting { .. } if slot.last.is_some() => stopped += 1,
            State::Waiting { .. } => waiting += 1,
        }
    }
    let over = parts.ending || parts.policy == RestartPolicy::Never;
    match (waiting, running, stopped) {
        (1.., _, _) if !parts.ending || running > 0 => "Pending",
        (_, 1.., _) => "Running",
        (1.., ..) => "Failed",
        (_, _, 1..) if parts.policy == RestartPolicy::Always && !parts.ending => "Running",
        (_, _, 1..) if stopped == succeeded => "Succeeded",
        (_, _, 1..) if over => "Failed",
        (_, _, 1..) => "Running",
        _ => "Pending",
    }
}

/// The whole status; `conditions` keeps when each of them changed last.
pub(super) fn status(parts: &Parts<'_>, conditions: &mut Vec<PodCondition>) -> PodStatus {
    let phase = phase(parts);
    update_conditions(parts, phase, conditions);
    let statuses = |init: bool| -> Vec<_> {
        parts
            .slots
            .iter()
            .filter(|slot| slot.init == init)
            .map(Slot::status)
            .collect()
    };
    let init = statuses(true);
    // Init containers stay in the order in which they run; the others are told by name.
    let mut main = statuses(false);
    main.sort_by(|one, other| one.name.cmp(&other.name));
    PodStatus {
        phase: Some(phase.to_owned()),
        reason: parts.failure.map(|failure| failure.reason.clone()),
        message: parts.failure.map(|failure| failure.message.clone()),
        conditions: Some(conditions.clone()),
        init_container_statuses: (!init.is_empty()).then_some(init),
        container_statuses: Some(main),
        start_time: Some(Time(parts.start)),
        host_ip: Some(parts.host_ip.to_owned()),
        host_ips: Some(vec![HostIP {
            ip: parts.host_ip.to_owned(),
        }]),
        pod_ip: Some(parts.pod_ip.to_owned()),
        pod_ips: Some(vec![PodIP {
            ip: parts.pod_ip.to_owned(),
        }]),
        // As the API server found it when the pod was made: it never changes.
        qos_class: parts
            .pod
            .status
            .as_ref()
            .and_then(|status| status.qos_class.clone()),
        ..PodStatus::default()
    }
}

/// Whether all containers are ready.
pub(super) fn is_ready(slots: &[Slot]) -> bool {
    slots.iter().all(|slot| {
        if slot.init {
            slot.has_succeeded()
        } else {
            slot.ready
        }
    })
}

fn update_conditions(parts: &Parts<'_>, phase: &str, conditions: &mut Vec<PodCondition>) {
    // The scheduler's own condition comes with the object.
    let scheduled = parts
        .pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    for condition in scheduled.filter(|condition| condition.type_ == "PodScheduled") {
        conditions.retain(|known| known.type_ != "PodScheduled");
        conditions.push(condition.clone());
    }
    if conditions
        .iter()
        .all(|condition| condition.type_ != "PodScheduled")
    {
        set(conditions, "PodScheduled", None);
    }
    let names = |wanted: &dyn Fn(&&Slot) -> bool| {
        parts
            .slots
            .iter()
            .filter(wanted)
            .map(|slot| slot.name().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let ended = match phase {
        "Succeeded" => Some(("PodCompleted", String::new())),
        "Failed" => Some(("PodFailed", String::new())),
        _ => None,
    };
    let incomplete = names(&|slot| slot.init && !slot.has_succeeded());
    let initialized = (!incomplete.is_empty()).then(|| {
        (
            "ContainersNotInitialized",
            format!("containers with incomplete status: [{incomplete}]"),
        )
    });
    let unready = names(&|slot| !slot.init && !slot.ready);
    let not_ready = (!unready.is_empty()).then(|| {
        (
            "ContainersNotReady",
            format!("containers with unready status: [{unready}]"),
        )
    });
    let not_ready = ended.clone().or(not_ready).or_else(|| initialized.clone());
    let sandbox = (!parts.set_up || ended.is_some()).then(|| ("", String::new()));
    set(conditions, "PodReadyToStartContainers", sandbox);
    let initialized = if phase == "Succeeded" {
        Some(("PodCompleted", String::new()))
    } else {
        initialized
    };
    // A pod that completed was initialized, and says why it is over.
    set_to(
        conditions,
        "Initialized",
        phase == "Succeeded" || initialized.is_none(),
        initialized,
    );
    set(conditions, "Ready", not_ready.clone());
    set(conditions, "ContainersReady", not_ready);
}

/// True without a reason why not.
fn set(conditions: &mut Vec<PodCondition>, kind: &str, not: Option<(&str, String)>) {
    set_to(conditions, kind, not.is_none(), not);
}

fn set_to(
    conditions: &mut Vec<PodCondition>,
    kind: &str,
    value: bool,
    reason: Option<(&str, String)>,
) {
    let status = if value { "True" } else { "False" };
    let (reason, message) = reason.unwrap_or_default();
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let since = conditions
        .iter()
        .find(|known| known.type_ == kind && known.status == status)
        .and_then(|known| known.last_transition_time.clone());
    let condition = PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: some(reason),
        message: some(&message),
        last_transition_time: Some(since.unwrap_or_else(|| Time(Timestamp::now()))),
        ..PodCondition::default()
    };
    match conditions.iter_mut().find(|known| known.type_ == kind) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests;
