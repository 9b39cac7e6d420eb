//! Columns and rows of the other built-in kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Column, NAME, Printer, age, duration, labels, list, number, or_none, pods, string, text, wide,
    workloads,
};
use crate::embedded::api::registry::Kind;

const CREATED: Column = Column {
    kind: "date",
    ..text("Created At")
};

/// The printer of a kind; what has none of its own shows name and time of creation.
pub(super) fn find(kind: &Kind) -> Printer {
    let (columns, row): (&'static [Column], fn(&Value, Timestamp) -> Vec<Value>) =
        match (kind.group, kind.plural) {
            ("", "pods") => (pods::COLUMNS, pods::row),
            ("", "namespaces") => (const { &[NAME, text("Status"), text("Age")] }, namespace),
            ("", "configmaps") => (const { &[NAME, text("Data"), text("Age")] }, config_map),
            ("", "secrets") => (
                const { &[NAME, text("Type"), text("Data"), text("Age")] },
                secret,
            ),
            ("", "serviceaccounts") => (const { &[NAME, text("Age")] }, name_and_age),
            ("", "services") => (SERVICE, service),
            ("", "events") => (EVENT, event),
            ("", "persistentvolumeclaims") => (CLAIM, claim),
            ("", "nodes") => (NODE, node),
            ("", "endpoints") => (const { &[NAME, text("Endpoints"), text("Age")] }, endpoints),
            ("apps", "deployments") => (workloads::DEPLOYMENT, workloads::deployment),
            ("apps", "replicasets") => (workloads::REPLICA_SET, workloads::replica_set),
            ("apps", "statefulsets") => (workloads::STATEFUL_SET, workloads::stateful_set),
            ("batch", "jobs") => (workloads::JOB, workloads::job),
            ("coordination.k8s.io", "leases") => {
                (const { &[NAME, text("Holder"), text("Age")] }, lease)
            }
            ("discovery.k8s.io", "endpointslices") => (SLICE, endpoint_slice),
            ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
                (BINDING, binding)
            }
            _ => (const { &[NAME, CREATED] }, created),
        };
    Printer { columns, row }
}

fn name(object: &Value) -> Value {
    json!(string(object, "/metadata/name"))
}

fn size(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

fn created(object: &Value, _: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(string(object, "/metadata/creationTimestamp")),
    ]
}

fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(string(object, "/status/phase")),
        age(object, now),
    ]
}

fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(size(object, "/data") + size(object, "/binaryData")),
        age(object, now),
    ]
}

fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(string(object, "/type")),
        json!(size(object, "/data")),
        age(object, now),
    ]
}

fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(string(object, "/spec/holderIdentity")),
        age(object, now),
    ]
}

const SERVICE: &[Column] = &[
    NAME,
    text("Type"),
    text("Cluster-IP"),
    text("External-IP"),
    text("Port(s)"),
    text("Age"),
    wide("Selector"),
];

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list(object, "/spec/ports").map(service_port).collect();
    vec![
        name(object),
        json!(string(object, "/spec/type")),
        or_none(string(object, "/spec/clusterIP")),
        json!(external_address(object)),
        or_none(&ports.join(",")),
        age(object, now),
        json!(labels(object.pointer("/spec/selector"))),
    ]
}

fn service_port(port: &Value) -> String {
    let (number, protocol) = (number(port, "/port"), string(port, "/protocol"));
    match super::number(port, "/nodePort") {
        0 => format!("{number}/{protocol}"),
        node => format!("{number}:{node}/{protocol}"),
    }
}

fn external_address(object: &Value) -> String {
    let mut addresses: Vec<&str> = list(object, "/spec/externalIPs")
        .filter_map(Value::as_str)
        .collect();
    match string(object, "/spec/type") {
        "ExternalName" => return string(object, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let ingress = list(object, "/status/loadBalancer/ingress");
            addresses.extend(ingress.map(|one| match string(one, "/ip") {
                "" => string(one, "/hostname"),
                ip => ip,
            }));
            if addresses.is_empty() {
                return "<pending>".to_owned();
            }
        }
        _ if addresses.is_empty() => return "<none>".to_owned(),
        _ => {}
    }
    addresses.join(",")
}

const EVENT: &[Column] = &[
    text("Last Seen"),
    text("Type"),
    text("Reason"),
    text("Object"),
    wide("Subobject"),
    wide("Source"),
    text("Message"),
    wide("First Seen"),
    wide("Count"),
    Column {
        format: "name",
        ..wide("Name")
    },
];

fn first<'a>(candidates: &[&'a str]) -> &'a str {
    candidates
        .iter()
        .find(|text| !text.is_empty())
        .copied()
        .unwrap_or("")
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let began = first(&[
        string(object, "/firstTimestamp"),
        string(object, "/eventTime"),
    ]);
    let last = first(&[
        string(object, "/series/lastObservedTime"),
        string(object, "/lastTimestamp"),
        began,
    ]);
    let count = match number(object, "/series/count") {
        0 => number(object, "/count").max(1),
        count => count,
    };
    let kind = string(object, "/involvedObject/kind").to_lowercase();
    let target = match string(object, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = first(&[
        string(object, "/source/component"),
        string(object, "/reportingComponent"),
    ]);
    let host = first(&[
        string(object, "/source/host"),
        string(object, "/reportingInstance"),
    ]);
    let source = if host.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {host}")
    };
    vec![
        json!(duration::since(last, now)),
        json!(string(object, "/type")),
        json!(string(object, "/reason")),
        json!(target),
        json!(string(object, "/involvedObject/fieldPath")),
        json!(source),
        json!(string(object, "/message").trim()),
        json!(duration::since(began, now)),
        json!(count),
        name(object),
    ]
}

const CLAIM: &[Column] = &[
    NAME,
    text("Status"),
    text("Volume"),
    text("Capacity"),
    text("Access Modes"),
    text("StorageClass"),
    text("VolumeAttributesClass"),
    text("Age"),
    wide("VolumeMode"),
];

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let volume = string(object, "/spec/volumeName");
    let bound = !volume.is_empty();
    let deleting = !string(object, "/metadata/deletionTimestamp").is_empty();
    let phase = if deleting {
        "Terminating"
    } else {
        string(object, "/status/phase")
    };
    let modes: Vec<&str> = list(object, "/status/accessModes")
        .filter_map(Value::as_str)
        .map(short_mode)
        .collect();
    let class = string(object, "/spec/volumeAttributesClassName");
    vec![
        name(object),
        json!(phase),
        json!(volume),
        json!(if bound {
            string(object, "/status/capacity/storage")
        } else {
            ""
        }),
        json!(if bound {
            modes.join(",")
        } else {
            String::new()
        }),
        json!(string(object, "/spec/storageClassName")),
        json!(if class.is_empty() { "<unset>" } else { class }),
        age(object, now),
        json!(first(&[string(object, "/spec/volumeMode"), "<unset>"])),
    ]
}

fn short_mode(mode: &str) -> &str {
    match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        other => other,
    }
}

const NODE: &[Column] = &[
    NAME,
    text("Status"),
    text("Roles"),
    text("Age"),
    text("Version"),
    wide("Internal-IP"),
    wide("External-IP"),
    wide("OS-Image"),
    wide("Kernel-Version"),
    wide("Container-Runtime"),
];

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(object, "/status/conditions").find(|one| string(one, "/type") == "Ready");
    let mut status = match ready.map(|one| string(one, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = list(object, "/status/addresses").find(|one| string(one, "/type") == kind);
        or_none(found.map_or("", |one| string(one, "/address")))
    };
    let info = |field: &str| {
        json!(first(&[
            string(object, &format!("/status/nodeInfo/{field}")),
            "<unknown>"
        ]))
    };
    vec![
        name(object),
        json!(status),
        or_none(&roles(object).join(",")),
        age(object, now),
        json!(string(object, "/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn roles(object: &Value) -> Vec<String> {
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    let mut roles: Vec<String> = labels
        .into_iter()
        .flatten()
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) if !role.is_empty() => Some(role.to_owned()),
                _ if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
                _ => None,
            },
        )
        .collect();
    roles.sort();
    roles
}

const BINDING: &[Column] = &[
    NAME,
    text("Role"),
    text("Age"),
    wide("Users"),
    wide("Groups"),
    wide("ServiceAccounts"),
];

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let found = list(object, "/subjects").filter(|one| string(one, "/kind") == kind);
        let names = found.map(|one| match kind {
            "ServiceAccount" => format!("{}/{}", string(one, "/namespace"), string(one, "/name")),
            _ => string(one, "/name").to_owned(),
        });
        json!(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(object),
        json!(format!(
            "{}/{}",
            string(object, "/roleRef/kind"),
            string(object, "/roleRef/name")
        )),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

/// At most three, then how many more.
fn shortened(all: &[String]) -> Value {
    match all {
        [] => json!("<none>"),
        few if few.len() <= 3 => json!(few.join(",")),
        [one, two, three, rest @ ..] => {
            json!(format!("{one},{two},{three} + {} more...", rest.len()))
        }
        other => json!(other.join(",")),
    }
}

fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in list(object, "/subsets") {
        for address in list(subset, "/addresses").map(|one| string(one, "/ip")) {
            let ports: Vec<&Value> = list(subset, "/ports").collect();
            if ports.is_empty() {
                all.push(address.to_owned());
            }
            all.extend(
                ports
                    .into_iter()
                    .map(|port| format!("{address}:{}", number(port, "/port"))),
            );
        }
    }
    vec![name(object), shortened(&all), age(object, now)]
}

const SLICE: &[Column] = &[
    NAME,
    text("AddressType"),
    text("Ports"),
    text("Endpoints"),
    text("Age"),
];

fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list(object, "/ports")
        .map(|port| number(port, "/port").to_string())
        .collect();
    let addresses = list(object, "/endpoints").flat_map(|one| list(one, "/addresses"));
    let addresses: Vec<String> = addresses
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let unset = |all: &[String]| {
        if all.is_empty() {
            json!("<unset>")
        } else {
            shortened(all)
        }
    };
    vec![
        name(object),
        json!(string(object, "/addressType")),
        unset(&ports),
        unset(&addresses),
        age(object, now),
    ]
}
