//! The table of phases and conditions.

use serde_json::{Value, json};

use super::*;
use crate::embedded::node::process::Exit;

/// A pod whose containers are `init` and `main`, each `w`aiting, ended with a digit, or waiting after a crash (`c`).
fn judge(policy: RestartPolicy, init: &str, main: &str, ending: bool) -> PodStatus {
    let containers = |names: &str| -> Vec<Value> {
        (0..names.len())
            .map(|index| json!({"name": format!("c{index}"), "image": "x"}))
            .collect()
    };
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {"initContainers": containers(init), "containers": containers(main)},
    }))
    .unwrap();
    let slot = |name: &str, state: char, init: bool| {
        let spec = serde_json::from_value(json!({"name": name, "image": "x"})).unwrap();
        let mut slot = Slot::new(spec, init, "ContainerCreating");
        match state {
            'w' => {}
            'c' => {
                slot.end(Exit::Code(1), None, None);
                slot.back_off(Default::default(), "p");
            }
            digit => slot.end(
                Exit::Code(digit.to_digit(10).unwrap().try_into().unwrap()),
                None,
                None,
            ),
        }
        slot
    };
    let inits = init
        .chars()
        .enumerate()
        .map(|(index, state)| slot(&format!("i{index}"), state, true));
    let mains = main
        .chars()
        .enumerate()
        .map(|(index, state)| slot(&format!("c{index}"), state, false));
    let slots: Vec<Slot> = inits.chain(mains).collect();
    let parts = Parts {
        pod: &pod,
        slots: &slots,
        policy,
        ending,
        failure: None,
        start: Timestamp::UNIX_EPOCH,
        pod_ip: "10.244.0.2",
        host_ip: "10.0.0.1",
        set_up: true,
    };
    status(&parts, &mut Vec::new())
}

#[test]
fn phases_follow_the_kubelet() {
    use RestartPolicy::{Always, Never, OnFailure};
    for (policy, init, main, ending, expected) in [
        (Never, "", "w", false, "Pending"),
        (Never, "", "0", false, "Succeeded"),
        (Never, "", "3", false, "Failed"),
        (Never, "", "03", false, "Failed"),
        (Never, "", "0w", false, "Pending"),
        (Never, "w", "w", false, "Pending"),
        (Never, "0", "w", false, "Pending"),
        (Never, "1", "w", false, "Failed"),
        (Never, "0", "0", false, "Succeeded"),
        (Always, "", "0", false, "Running"),
        (Always, "", "c", false, "Running"),
        (Always, "1", "w", false, "Pending"),
        (Always, "", "0", true, "Succeeded"),
        (Always, "", "3", true, "Failed"),
        (Always, "", "w", true, "Failed"),
        (OnFailure, "", "0", false, "Succeeded"),
        (OnFailure, "", "c", false, "Running"),
        (OnFailure, "", "3", true, "Failed"),
    ] {
        let status = judge(policy, init, main, ending);
        assert_eq!(
            status.phase.as_deref(),
            Some(expected),
            "{policy:?} {init:?} {main:?} {ending}"
        );
    }
}

#[test]
fn containers_are_told_by_name_and_init_containers_in_their_order() {
    let slots = ["wait", "main", "init", "a"].map(|name| {
        let spec = serde_json::from_value(json!({"name": name, "image": "x"})).unwrap();
        Slot::new(spec, matches!(name, "init" | "a"), "ContainerCreating")
    });
    let pod = Pod::default();
    let parts = Parts {
        pod: &pod,
        slots: &slots,
        policy: RestartPolicy::Never,
        ending: false,
        failure: None,
        start: Timestamp::UNIX_EPOCH,
        pod_ip: "10.244.0.2",
        host_ip: "10.0.0.1",
        set_up: true,
    };
    let status = status(&parts, &mut Vec::new());
    let names = |list: Option<Vec<_>>| -> Vec<String> {
        let list: Vec<k8s_openapi::api::core::v1::ContainerStatus> = list.unwrap();
        list.into_iter().map(|status| status.name).collect()
    };
    assert_eq!(names(status.container_statuses), ["main", "wait"]);
    assert_eq!(names(status.init_container_statuses), ["init", "a"]);
}

#[test]
fn conditions_say_what_is_missing() {
    let status = judge(RestartPolicy::Never, "w", "w", false);
    let conditions = status.conditions.unwrap();
    let find = |kind: &str| {
        conditions
            .iter()
            .find(|condition| condition.type_ == kind)
            .unwrap()
    };
    assert_eq!(
        find("Initialized").message.as_deref(),
        Some("containers with incomplete status: [i0]")
    );
    assert_eq!(
        find("Ready").message.as_deref(),
        Some("containers with unready status: [c0]")
    );
    assert_eq!(find("PodScheduled").status, "True");
    let over = judge(RestartPolicy::Never, "", "0", false)
        .conditions
        .unwrap();
    let ready = over
        .iter()
        .find(|condition| condition.type_ == "Ready")
        .unwrap();
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_deref()),
        ("False", Some("PodCompleted"))
    );
}
