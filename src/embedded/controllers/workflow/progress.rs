//! Sums: `progress` of a Workflow and its nodes, and what its containers cost.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::status::{Node, NodeType, Phase, Status};

/// Reads `7/10`.
pub(super) fn parse(text: &str) -> Option<(u64, u64)> {
    let (done, all) = text.split_once('/')?;
    let (done, all) = (done.parse().ok()?, all.parse().ok()?);
    (done <= all && all > 0).then_some((done, all))
}

fn is_executable(node: &Node) -> bool {
    matches!(
        node.kind,
        NodeType::Pod | NodeType::Container | NodeType::Http | NodeType::Plugin | NodeType::Suspend
    )
}

/// Brings every sum up to its parts.
pub(super) fn update(status: &mut Status) {
    if status.nodes.is_empty() {
        if status.phase.is_some() && status.progress.is_empty() {
            "0/0".clone_into(&mut status.progress);
        }
        return;
    }
    let (mut done, mut all) = (0, 0);
    for node in status.nodes.values_mut().filter(|node| is_executable(node)) {
        if node.progress.is_empty() {
            "0/1".clone_into(&mut node.progress);
        }
        let Some((mut part, whole)) = parse(&node.progress) else {
            continue;
        };
        if matches!(
            node.phase,
            Some(Phase::Succeeded | Phase::Skipped | Phase::Omitted)
        ) {
            part = whole;
            node.progress = format!("{whole}/{whole}");
        }
        done += part;
        all += whole;
    }
    status.progress = format!("{done}/{all}");
    sum_groups(status);
    sum_resources(status);
}

/// The nodes that stand for others.
fn groups(status: &Status) -> Vec<String> {
    let groups = status.nodes.iter().filter(|(_, node)| !is_executable(node));
    groups.map(|(id, _)| id.clone()).collect()
}

fn sum_groups(status: &mut Status) {
    for id in groups(status) {
        let below = below(status, &id);
        let parts = below
            .iter()
            .filter_map(|id| status.nodes.get(id))
            .filter(|node| is_executable(node));
        let (done, all) = parts
            .filter_map(|node| parse(&node.progress))
            .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        if let Some(node) = status.nodes.get_mut(&id).filter(|_| all > 0) {
            node.progress = format!("{done}/{all}");
        }
    }
}

fn sum_resources(status: &mut Status) {
    let mut total: BTreeMap<String, i64> = BTreeMap::new();
    for node in status.nodes.values().filter(|node| is_executable(node)) {
        for (resource, seconds) in &node.resources_duration {
            *total.entry(resource.clone()).or_default() += seconds;
        }
    }
    for id in groups(status) {
        let mut sum: BTreeMap<String, i64> = BTreeMap::new();
        for part in below(status, &id)
            .iter()
            .filter_map(|id| status.nodes.get(id))
            .filter(|node| is_executable(node))
        {
            for (resource, seconds) in &part.resources_duration {
                *sum.entry(resource.clone()).or_default() += seconds;
            }
        }
        if let Some(node) = status.nodes.get_mut(&id).filter(|node| node.is_fulfilled()) {
            node.resources_duration = sum;
        }
    }
    if status.is_fulfilled() {
        status.resources_duration = total;
    }
}

/// Every node below a node.
fn below(status: &Status, id: &str) -> BTreeSet<String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![id.to_owned()]);
    while let Some(id) = open.pop() {
        for child in status
            .nodes
            .get(&id)
            .map(|node| node.children.as_slice())
            .unwrap_or_default()
        {
            if seen.insert(child.clone()) {
                open.push(child.clone());
            }
        }
    }
    seen
}

/// What a pod's containers cost: seconds of a whole CPU, and of 100 MiB of memory, by their default requests.
pub(super) fn pod_resources(pod: &Pod, now: Timestamp) -> BTreeMap<String, i64> {
    let status = pod.status.as_ref();
    let lists = [
        status.and_then(|status| status.init_container_statuses.as_ref()),
        status.and_then(|status| status.container_statuses.as_ref()),
    ];
    let seconds: Vec<i64> = lists
        .into_iter()
        .flatten()
        .flatten()
        .map(|status| ran_for(status, now))
        .collect();
    // 100m of a CPU and 100Mi are what a container without requests counts for.
    let cpu = seconds.iter().map(|seconds| seconds / 10).sum();
    let memory = seconds.iter().sum();
    BTreeMap::from([("cpu".to_owned(), cpu), ("memory".to_owned(), memory)])
}

fn ran_for(status: &ContainerStatus, now: Timestamp) -> i64 {
    let Some(state) = &status.state else { return 0 };
    let (from, to) = match (&state.running, &state.terminated) {
        (Some(running), _) => (running.started_at.as_ref(), Some(now)),
        (None, Some(ended)) => (
            ended.started_at.as_ref(),
            ended.finished_at.as_ref().map(|time| time.0),
        ),
        (None, None) => return 0,
    };
    match (from, to) {
        (Some(from), Some(to)) => (to.as_second() - from.0.as_second()).max(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_sum_what_is_below_them() {
        let mut status: Status = serde_json::from_value(json!({
            "phase": "Running",
            "nodes": {
                "w": {"id": "w", "type": "Steps", "children": ["g"]},
                "g": {"id": "g", "type": "StepGroup", "children": ["a", "b"]},
                "a": {"id": "a", "type": "Pod", "phase": "Succeeded"},
                "b": {"id": "b", "type": "Pod", "phase": "Running", "progress": "7/10"},
            },
        }))
        .expect("status");
        update(&mut status);
        assert_eq!(status.progress, "8/11");
        assert_eq!(status.nodes["w"].progress, "8/11");
        assert_eq!(status.nodes["a"].progress, "1/1");
    }

    #[test]
    fn progress_is_read_strictly() {
        assert_eq!(parse("7/10"), Some((7, 10)));
        for bad in ["", "7", "11/10", "-1/2", "0/0", "a/b"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
