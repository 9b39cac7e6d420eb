//! Nodes of a Workflow: names, ids, pod names, and how a node comes into being and changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::operation::Operation;
use super::status::{Node, NodeFlag, NodeType, Phase, text};
use crate::embedded::controllers::deployment::fnv32a;

/// Longest part of a pod name before the hash, in bytes.
const MAX_PREFIX: usize = 242;

/// The id of a node: the Workflow's name for the root, else the name with a hash of the node's name.
pub(super) fn node_id(workflow: &str, node: &str) -> String {
    if node == workflow {
        workflow.to_owned()
    } else {
        format!("{workflow}-{}", fnv32a(node.as_bytes()))
    }
}

/// The name of a node's pod (version 2).
pub(super) fn pod_name(workflow: &str, node: &str, template: &str) -> String {
    if node == workflow {
        return workflow.to_owned();
    }
    let prefix = if template.is_empty() {
        workflow.to_owned()
    } else {
        format!("{workflow}-{template}")
    };
    let mut end = prefix.len().min(MAX_PREFIX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{}", &prefix[..end], fnv32a(node.as_bytes()))
}

/// The name of the exit handler's node.
pub(super) fn on_exit_name(node: &str) -> String {
    format!("{node}.onExit")
}

/// A node's name without the one of its boundary and the separator after it.
fn display_name(name: &str, boundary: Option<&str>) -> String {
    let Some(rest) = boundary.map(|boundary| name.strip_prefix(boundary).unwrap_or(name)) else {
        return name.to_owned();
    };
    let after_group = rest
        .strip_prefix('[')
        .and_then(|inner| inner.split_once(']'))
        .filter(|(number, _)| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
        .map_or(rest, |(_, after)| after);
    after_group.strip_prefix('.').unwrap_or(rest).to_owned()
}

/// What a new node is.
pub(super) struct NewNode<'a> {
    pub name: &'a str,
    pub kind: NodeType,
    pub template: &'a str,
    /// Id of the enclosing steps or dag node; empty for none.
    pub boundary: &'a str,
    pub phase: Phase,
    pub flag: Option<NodeFlag>,
    pub message: &'a str,
}

impl Operation<'_> {
    pub(super) fn id_of(&self, name: &str) -> String {
        node_id(self.name(), name)
    }

    /// The node of this name.
    pub(super) fn node(&self, name: &str) -> Option<&Node> {
        self.wf.status.nodes.get(&self.id_of(name))
    }

    pub(super) fn node_mut(&mut self, name: &str) -> Option<&mut Node> {
        let id = self.id_of(name);
        self.wf.status.nodes.get_mut(&id)
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&Node> {
        self.wf.status.nodes.get(id)
    }

    /// Makes a node. A pod's node expects a task result, which is in until one says that it is not.
    pub(super) fn init_node(&mut self, new: &NewNode<'_>) {
        let boundary = self
            .by_id(new.boundary)
            .map(|boundary| boundary.name.clone());
        if boundary.is_none() {
            let fields = [("boundaryID", new.boundary)];
            self.log.info(
                "was unable to obtain node, letting display name to be nodeName",
                &fields,
            );
        }
        let now = Time(self.now());
        let ended =
            new.phase.is_completed() || matches!(new.phase, Phase::Skipped | Phase::Omitted);
        let id = self.id_of(new.name);
        let node = Node {
            id: id.clone(),
            name: new.name.to_owned(),
            display_name: display_name(new.name, boundary.as_deref()),
            kind: new.kind,
            template_name: new.template.to_owned(),
            template_scope: self.template_scope(),
            phase: Some(new.phase),
            boundary_id: new.boundary.to_owned(),
            message: new.message.to_owned(),
            finished_at: ended.then(|| now.clone()),
            started_at: Some(now),
            node_flag: new.flag,
            task_result_synced: (new.kind == NodeType::Pod).then_some(true),
            ..Node::default()
        };
        let message = if new.message.is_empty() {
            String::new()
        } else {
            format!(" (message: {})", new.message)
        };
        let fields = [
            ("message", message.as_str()),
            ("node", id.as_str()),
            ("phase", new.phase.as_str()),
        ];
        self.log.info("node initialized", &fields);
        self.wf.status.nodes.insert(id, node);
    }

    /// Sets the phase of a node, and its message where one is given.
    pub(super) fn mark(&mut self, name: &str, phase: Phase, message: Option<&str>) {
        let now = self.now();
        let (log, id) = (self.log.clone(), self.id_of(name));
        let Some(node) = self.wf.status.nodes.get_mut(&id) else {
            let fields = [("nodeName", name), ("phase", phase.as_str())];
            return log.warn(
                "workflow node uninitialized when marking new phase",
                &fields,
            );
        };
        // What ends before it ran has no result to wait for.
        if node.phase != Some(Phase::Running) && phase.is_bad() && node.task_result_synced.is_some()
        {
            node.task_result_synced = Some(true);
        }
        if node.phase != Some(phase) {
            let fields = [
                ("fromPhase", text(node.phase)),
                ("node", id.as_str()),
                ("toPhase", phase.as_str()),
            ];
            log.info("node phase changed", &fields);
            node.phase = Some(phase);
        }
        if let Some(message) = message.filter(|message| *message != node.message) {
            log.info(
                "node message changed",
                &[("message", message), ("node", id.as_str())],
            );
            message.clone_into(&mut node.message);
        }
        if node.is_fulfilled() && node.finished_at.is_none() {
            node.finished_at = Some(Time(now));
            log.info(
                "node finished",
                &[
                    ("finishedAt", now.to_string().as_str()),
                    ("node", id.as_str()),
                ],
            );
        }
    }

    pub(super) fn mark_error(&mut self, name: &str, message: &str) {
        self.log.error(
            "marking node as error",
            &[("error", message), ("nodeName", name)],
        );
        self.mark(name, Phase::Error, Some(message));
    }

    /// Makes a node that is in error, or marks the one that is there.
    pub(super) fn init_or_mark_error(&mut self, new: &NewNode<'_>, message: &str) {
        if self.node(new.name).is_some() {
            return self.mark_error(new.name, message);
        }
        self.init_node(&NewNode {
            kind: NodeType::Skipped,
            phase: Phase::Error,
            message,
            ..*new
        });
    }

    pub(super) fn add_child(&mut self, parent: &str, child: &str) {
        let child = self.id_of(child);
        if let Some(parent) = self.node_mut(parent)
            && !parent.children.contains(&child)
        {
            parent.children.push(child);
        }
    }

    /// The nodes at which a node's work ends: what comes next hangs below them.
    pub(super) fn outbound(&self, id: &str) -> Vec<String> {
        let Some(node) = self.by_id(id) else {
            return Vec::new();
        };
        match node.kind {
            NodeType::Pod
            | NodeType::Skipped
            | NodeType::Suspend
            | NodeType::Http
            | NodeType::Plugin => {
                vec![id.to_owned()]
            }
            NodeType::Retry => node.children.last().cloned().into_iter().collect(),
            NodeType::Container | NodeType::TaskGroup if node.children.is_empty() => {
                vec![id.to_owned()]
            }
            NodeType::Container | NodeType::TaskGroup => node.children.clone(),
            // What a steps or dag node names are nodes that end work themselves.
            NodeType::Steps | NodeType::Dag | NodeType::StepGroup => node.outbound_nodes.clone(),
        }
    }

    /// Whether a node and all below it are fulfilled.
    pub(super) fn children_fulfilled(&self, id: &str) -> bool {
        let (mut open, mut seen) = (vec![id], std::collections::BTreeSet::new());
        while let Some(id) = open.pop() {
            let Some(node) = self.by_id(id).filter(|_| seen.insert(id)) else {
                continue;
            };
            if node.children.is_empty() && !node.is_fulfilled() {
                return false;
            }
            open.extend(node.children.iter().map(String::as_str));
        }
        true
    }

    /// Whether a node is the exit handler or below it.
    pub(super) fn is_part_of_exit_handler(&self, node: &Node) -> bool {
        let exit = on_exit_name(self.name());
        if node.is_hooked() || node.name == exit {
            return true;
        }
        let mut boundary = node.boundary_id.as_str();
        // A chain of boundaries is never longer than there are nodes.
        for _ in 0..self.wf.status.nodes.len() {
            match self.by_id(boundary) {
                Some(node) if node.is_hooked() => return true,
                Some(node) => boundary = &node.boundary_id,
                None => return false,
            }
        }
        false
    }

    fn template_scope(&self) -> String {
        if self
            .wf
            .spec
            .get("workflowTemplateRef")
            .is_some_and(|reference| !reference.is_null())
        {
            "local/".to_owned()
        } else {
            format!("local/{}", self.name())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_argo() {
        let vectors = [
            ("order-1001[0].charge", 3_706_419_028_u32),
            ("order-1001.charge", 2_403_314_230),
            ("order-1001(0)", 1_172_395_271),
            ("order-1001[0].charge(0)", 3_078_154_495),
            ("order-1001[1].record(0)", 3_271_166_861),
            ("order-1001.onExit", 3_139_330_975),
            ("order-1001.hooks.running", 337_809_015),
            ("two-artgc-8tcvt[0]", 292_960_257),
            ("http-template-fqgsf[0].good", 2_338_098_285),
            ("retry-backoff-s69z6(0)", 1_807_967_148),
            ("retry-backoff-s69z6(1)", 130_058_153),
            ("agent", 1_340_600_742),
        ];
        for (name, hash) in vectors {
            assert_eq!(fnv32a(name.as_bytes()), hash, "{name}");
        }
    }

    #[test]
    fn ids_and_pod_names_of_a_whole_workflow() {
        let workflow = "order-a-1001";
        let nodes = [
            ("order-a-1001", "", "order-a-1001", "order-a-1001"),
            (
                "order-a-1001[0].validate",
                "check",
                "order-a-1001-4218523988",
                "order-a-1001-check-4218523988",
            ),
            (
                "order-a-1001[1].record(0)",
                "write-ledger",
                "order-a-1001-2409340243",
                "order-a-1001-write-ledger-2409340243",
            ),
            (
                "order-a-1001[1].record(1)",
                "write-ledger",
                "order-a-1001-3013481622",
                "order-a-1001-write-ledger-3013481622",
            ),
            (
                "order-a-1001[2].notify",
                "say",
                "order-a-1001-3997715497",
                "order-a-1001-say-3997715497",
            ),
            (
                "order-a-1001.onExit",
                "report",
                "order-a-1001-3222262409",
                "order-a-1001-report-3222262409",
            ),
        ];
        for (node, template, id, pod) in nodes {
            assert_eq!(node_id(workflow, node), id);
            assert_eq!(pod_name(workflow, node, template), pod);
        }
        for (node, id) in [
            ("[0]", "1222751376"),
            ("[1]", "215947141"),
            ("[1].record", "3303360560"),
            ("[2]", "215800046"),
        ] {
            assert_eq!(
                node_id(workflow, &format!("{workflow}{node}")),
                format!("{workflow}-{id}")
            );
        }
    }

    #[test]
    fn a_pod_name_is_cut_before_its_hash() {
        let name = pod_name(&"w".repeat(300), "node", "template");
        assert_eq!(
            name.split_once('-').map(|(prefix, _)| prefix.len()),
            Some(242)
        );
        assert_eq!(pod_name("w", "node", ""), format!("w-{}", fnv32a(b"node")));
    }

    #[test]
    fn display_names_leave_the_boundary_out() {
        assert_eq!(display_name("w[0]", Some("w")), "[0]");
        assert_eq!(display_name("w[0].record", Some("w")), "record");
        assert_eq!(display_name("w[0].record(0)", Some("w")), "record(0)");
        assert_eq!(display_name("w.task", Some("w")), "task");
        assert_eq!(display_name("w[0].a[1].b", Some("w[0].a")), "b");
        assert_eq!(display_name("w.onExit", None), "w.onExit");
    }
}
