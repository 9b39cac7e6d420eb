//! How values merge under server-side apply: which maps are one value, which lists are maps in disguise.

use crate::embedded::api::registry::Kind;

/// How a value merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Key by key.
    Map,
    /// Element by element, told apart by these fields.
    Keyed(&'static [&'static str]),
    /// Value by value.
    Set,
    /// As one.
    Atomic,
}

/// The rules of one kind, seen from one place in the object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    rules: Rules,
    shape: Shape,
    depth: usize,
    /// In `metadata`, where all kinds are alike.
    metadata: bool,
    parent: Parent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    BuiltIn,
    /// `spec` and `status` merge key by key, their lists as one.
    Free,
    /// `spec` and `status` are one value each, as Argo Workflows' definitions say.
    Whole,
}

/// What the tables need to know about where a field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parent {
    Root,
    Container,
    Other,
}

impl Schema {
    pub(super) fn of(kind: &Kind) -> Self {
        let rules = match kind.kind {
            _ if !kind.custom => Rules::BuiltIn,
            "EventBus" | "EventSource" | "Sensor" | "WorkflowTaskResult" => Rules::Free,
            _ => Rules::Whole,
        };
        Schema {
            rules,
            shape: Shape::Map,
            depth: 0,
            metadata: false,
            parent: Parent::Root,
        }
    }

    pub(super) fn shape(self) -> Shape {
        self.shape
    }

    /// The rules for a field of this map.
    pub(super) fn field(self, name: &str) -> Self {
        let metadata = self.metadata
            || (name == "metadata" && (self.depth == 0 || self.rules == Rules::BuiltIn));
        let shape = match self.rules {
            _ if self.metadata => metadata_shape(name),
            _ if metadata => Shape::Map,
            Rules::BuiltIn => built_in(name, self.parent),
            // What is a list is found out by looking at the value: no table says so.
            Rules::Free => Shape::Map,
            Rules::Whole if self.depth == 0 => Shape::Atomic,
            Rules::Whole => Shape::Map,
        };
        let container = matches!(
            name,
            "containers" | "initContainers" | "ephemeralContainers"
        );
        let parent = if container {
            Parent::Container
        } else {
            Parent::Other
        };
        Schema {
            shape,
            depth: self.depth + 1,
            metadata,
            parent,
            ..self
        }
    }

    /// The rules for an element of this list; an owner reference is one value.
    pub(super) fn item(self) -> Self {
        let whole = self.shape == OWNERS;
        Schema {
            shape: if whole { Shape::Atomic } else { Shape::Map },
            depth: self.depth + 1,
            ..self
        }
    }
}

const OWNERS: Shape = Shape::Keyed(&["uid"]);

fn metadata_shape(name: &str) -> Shape {
    match name {
        "ownerReferences" => OWNERS,
        "finalizers" => Shape::Set,
        _ => Shape::Map,
    }
}

/// Lists of built-in kinds are one value unless they are named here; maps merge unless they are named here.
fn built_in(name: &str, parent: Parent) -> Shape {
    match name {
        "imagePullSecrets" if parent == Parent::Root => Shape::Map,
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "schedulingGates"
        | "resourceClaims" => Shape::Keyed(&["name"]),
        "secrets" if parent == Parent::Root => Shape::Keyed(&["name"]),
        "ports" if parent == Parent::Container => Shape::Keyed(&["containerPort", "protocol"]),
        "ports" if parent == Parent::Root => Shape::Map,
        "ports" => Shape::Keyed(&["port", "protocol"]),
        "podCIDRs" => Shape::Set,
        "volumeMounts" => Shape::Keyed(&["mountPath"]),
        "volumeDevices" => Shape::Keyed(&["devicePath"]),
        "hostAliases" | "podIPs" | "hostIPs" => Shape::Keyed(&["ip"]),
        "topologySpreadConstraints" => Shape::Keyed(&["topologyKey", "whenUnsatisfiable"]),
        "conditions" | "addresses" => Shape::Keyed(&["type"]),
        "selector" | "labelSelector" | "nodeSelector" | "roleRef" | "fieldRef"
        | "resourceFieldRef" | "secretKeyRef" | "configMapKeyRef" | "involvedObject" => {
            Shape::Atomic
        }
        _ => Shape::Map,
    }
}
