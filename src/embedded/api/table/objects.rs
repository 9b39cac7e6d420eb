//! Printers of everything that is neither a pod nor makes pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since;
use super::{
    AGE, Column, NAME, Printer, age, has_condition, integer, list, name, or, size, text,
    text_column, wide_column,
};
use crate::embedded::api::convert;

pub(super) const NAME_AND_AGE: Printer = Printer {
    columns: &[NAME, AGE],
    cells: |object, now| vec![json!(name(object)), json!(age(object, now))],
};

/// Roles and definitions show when they were made, not how long ago.
pub(super) const CREATED_AT: Printer = Printer {
    columns: &[NAME, ("Created At", "date", "", 0)],
    cells: |object, _| {
        vec![
            json!(name(object)),
            json!(text(object, "/metadata/creationTimestamp")),
        ]
    },
};

pub(super) const NAMESPACES: Printer = Printer {
    columns: &[NAME, text_column("Status"), AGE],
    cells: |object, now| {
        vec![
            json!(name(object)),
            json!(text(object, "/status/phase")),
            json!(age(object, now)),
        ]
    },
};

pub(super) const CONFIG_MAPS: Printer = Printer {
    columns: &[NAME, text_column("Data"), AGE],
    cells: |object, now| {
        let count = size(object, "/data") + size(object, "/binaryData");
        vec![json!(name(object)), json!(count), json!(age(object, now))]
    },
};

pub(super) const SECRETS: Printer = Printer {
    columns: &[NAME, text_column("Type"), text_column("Data"), AGE],
    cells: |object, now| {
        let kind = text(object, "/type");
        vec![
            json!(name(object)),
            json!(kind),
            json!(size(object, "/data")),
            json!(age(object, now)),
        ]
    },
};

pub(super) const LEASES: Printer = Printer {
    columns: &[NAME, text_column("Holder"), AGE],
    cells: |object, now| {
        vec![
            json!(name(object)),
            json!(text(object, "/spec/holderIdentity")),
            json!(age(object, now)),
        ]
    },
};

pub(super) const QUOTAS: Printer = Printer {
    columns: &[NAME, text_column("Request"), text_column("Limit"), AGE],
    cells: |object, now| {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (resource, hard) in object["status"]["hard"].as_object().into_iter().flatten() {
            let used = or(
                object["status"]["used"][resource]
                    .as_str()
                    .unwrap_or_default(),
                "0",
            );
            let part = format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default());
            if resource.starts_with("limits.") {
                limits.push(part)
            } else {
                requests.push(part)
            }
        }
        let cells = [
            name(object).to_owned(),
            requests.join(", "),
            limits.join(", "),
            age(object, now),
        ];
        cells.map(Value::from).into()
    },
};

pub(super) const NODES: Printer = Printer {
    columns: &[
        NAME,
        text_column("Status"),
        text_column("Roles"),
        AGE,
        text_column("Version"),
        wide_column("Internal-IP"),
        wide_column("External-IP"),
        wide_column("OS-Image"),
        wide_column("Kernel-Version"),
        wide_column("Container-Runtime"),
    ],
    cells: node,
};

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let address = |kind: &str| {
        let found = list(object, "/status/addresses")
            .iter()
            .find(|one| one["type"] == kind);
        or(found.map_or("", |one| text(one, "/address")), "<none>")
    };
    let info = |field: &str| or(text(&object["status"]["nodeInfo"], field), "<unknown>");
    vec![
        json!(name(object)),
        json!(node_status(object)),
        json!(node_roles(object)),
        json!(age(object, now)),
        json!(text(object, "/status/nodeInfo/kubeletVersion")),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(info("/osImage")),
        json!(info("/kernelVersion")),
        json!(info("/containerRuntimeVersion")),
    ]
}

fn node_status(object: &Value) -> String {
    let known = list(object, "/status/conditions")
        .iter()
        .any(|one| one["type"] == "Ready");
    let mut status = match (known, has_condition(object, "Ready")) {
        (false, _) => "Unknown",
        (true, true) => "Ready",
        (true, false) => "NotReady",
    }
    .to_owned();
    if object["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn node_roles(object: &Value) -> String {
    let mut roles: Vec<&str> = Vec::new();
    for (label, value) in object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let role = match label.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => role,
            None if label == "kubernetes.io/role" => value.as_str().unwrap_or_default(),
            None => "",
        };
        if !role.is_empty() {
            roles.push(role);
        }
    }
    roles.sort_unstable();
    roles.dedup();
    or(&roles.join(","), "<none>").to_owned()
}

pub(super) const SERVICES: Printer = Printer {
    columns: &[
        NAME,
        text_column("Type"),
        text_column("Cluster-IP"),
        text_column("External-IP"),
        text_column("Port(s)"),
        AGE,
        wide_column("Selector"),
    ],
    cells: |object, now| {
        let cluster_ip = list(object, "/spec/clusterIPs")
            .first()
            .and_then(Value::as_str)
            .unwrap_or_default();
        let cells = [
            name(object).to_owned(),
            text(object, "/spec/type").to_owned(),
            or(or(cluster_ip, text(object, "/spec/clusterIP")), "<none>").to_owned(),
            external_ip(object),
            ports(object),
            age(object, now),
            labels(&object["spec"]["selector"]),
        ];
        cells.map(Value::from).into()
    },
};

fn external_ip(service: &Value) -> String {
    let mut addresses: Vec<&str> = list(service, "/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    match text(service, "/spec/type") {
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let ingress = list(service, "/status/loadBalancer/ingress").iter();
            let given: Vec<&str> = ingress
                .map(|one| or(text(one, "/ip"), text(one, "/hostname")))
                .collect();
            addresses.splice(0..0, given);
            or(&addresses.join(","), "<pending>").to_owned()
        }
        _ => or(&addresses.join(","), "<none>").to_owned(),
    }
}

fn ports(service: &Value) -> String {
    let ports = list(service, "/spec/ports").iter().map(|port| {
        let (number, protocol) = (integer(port, "/port"), text(port, "/protocol"));
        match integer(port, "/nodePort") {
            0 => format!("{number}/{protocol}"),
            node => format!("{number}:{node}/{protocol}"),
        }
    });
    or(&ports.collect::<Vec<_>>().join(","), "<none>").to_owned()
}

/// Labels as `k=v,k=v`, sorted.
fn labels(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten();
    let mut pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort();
    or(&pairs.join(","), "<none>").to_owned()
}

pub(super) const CLAIMS: Printer = Printer {
    columns: &[
        NAME,
        text_column("Status"),
        text_column("Volume"),
        text_column("Capacity"),
        text_column("Access Modes"),
        text_column("StorageClass"),
        text_column("VolumeAttributesClass"),
        AGE,
        wide_column("VolumeMode"),
    ],
    cells: claim,
};

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let deleted = !text(object, "/metadata/deletionTimestamp").is_empty();
    let volume = text(object, "/spec/volumeName");
    let (mut capacity, mut modes) = ("", String::new());
    if !volume.is_empty() {
        capacity = or(text(object, "/status/capacity/storage"), "0");
        modes = access_modes(object);
    }
    vec![
        json!(name(object)),
        json!(if deleted {
            "Terminating"
        } else {
            text(object, "/status/phase")
        }),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(text(object, "/spec/storageClassName")),
        json!(or(
            text(object, "/spec/volumeAttributesClassName"),
            "<unset>"
        )),
        json!(age(object, now)),
        json!(or(text(object, "/spec/volumeMode"), "<unset>")),
    ]
}

fn access_modes(claim: &Value) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = list(claim, "/status/accessModes");
    let found = known
        .iter()
        .filter(|(mode, _)| modes.iter().any(|one| one == mode));
    found.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

pub(super) const EVENTS: Printer = Printer {
    columns: &[
        text_column("Last Seen"),
        text_column("Type"),
        text_column("Reason"),
        text_column("Object"),
        wide_column("Subobject"),
        wide_column("Source"),
        text_column("Message"),
        wide_column("First Seen"),
        wide_column("Count"),
        ("Name", "string", "name", 1),
    ],
    cells: event,
};

/// Both groups of events are printed alike.
fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let converted;
    let object = if object.get("regarding").is_some() {
        converted = convert::to_storage(object.clone());
        &converted
    } else {
        object
    };
    let time = |pointer: &str| object.pointer(pointer).filter(|time| time.is_string());
    let first = time("/firstTimestamp").or_else(|| time("/eventTime"));
    let last = time("/series/lastObservedTime")
        .or_else(|| time("/lastTimestamp"))
        .or(first);
    let count = match (integer(object, "/series/count"), integer(object, "/count")) {
        (0, 0) => 1,
        (0, count) => count,
        (series, _) => series,
    };
    vec![
        json!(since(last, now)),
        json!(text(object, "/type")),
        json!(text(object, "/reason")),
        json!(target(object)),
        json!(text(object, "/involvedObject/fieldPath")),
        json!(source(object)),
        json!(text(object, "/message").trim()),
        json!(since(first, now)),
        json!(count),
        json!(name(object)),
    ]
}

fn target(event: &Value) -> String {
    let kind = text(event, "/involvedObject/kind").to_lowercase();
    match text(event, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let component = or(
        text(event, "/source/component"),
        text(event, "/reportingComponent"),
    );
    match or(
        text(event, "/source/host"),
        text(event, "/reportingInstance"),
    ) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

const BINDING: &[Column] = &[
    NAME,
    text_column("Role"),
    AGE,
    wide_column("Users"),
    wide_column("Groups"),
    wide_column("ServiceAccounts"),
];

pub(super) const ROLE_BINDINGS: Printer = Printer {
    columns: BINDING,
    cells: |object, now| {
        let subjects = |kind: &str| {
            let found = list(object, "/subjects")
                .iter()
                .filter(|subject| subject["kind"] == kind);
            let names = found.map(|subject| match kind {
                "ServiceAccount" => {
                    format!("{}/{}", text(subject, "/namespace"), text(subject, "/name"))
                }
                _ => text(subject, "/name").to_owned(),
            });
            names.collect::<Vec<_>>().join(", ")
        };
        let cells = [
            name(object).to_owned(),
            format!(
                "{}/{}",
                text(object, "/roleRef/kind"),
                text(object, "/roleRef/name")
            ),
            age(object, now),
            subjects("User"),
            subjects("Group"),
            subjects("ServiceAccount"),
        ];
        cells.map(Value::from).into()
    },
};

/// Addresses beyond this many are only counted.
const SHOWN: usize = 3;

fn first_ones(items: &[String], none: &str) -> String {
    let shown = items
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(",");
    match items.len() {
        0 => none.to_owned(),
        count if count > SHOWN => format!("{shown} + {} more...", count - SHOWN),
        _ => shown,
    }
}

pub(super) const ENDPOINTS: Printer = Printer {
    columns: &[NAME, text_column("Endpoints"), AGE],
    cells: |object, now| {
        let mut found = Vec::new();
        for subset in list(object, "/subsets") {
            for port in list(subset, "/ports") {
                let addresses = list(subset, "/addresses").iter();
                found.extend(
                    addresses.map(|one| format!("{}:{}", text(one, "/ip"), integer(port, "/port"))),
                );
            }
        }
        vec![
            json!(name(object)),
            json!(first_ones(&found, "<none>")),
            json!(age(object, now)),
        ]
    },
};

pub(super) const ENDPOINT_SLICES: Printer = Printer {
    columns: &[
        NAME,
        text_column("AddressType"),
        text_column("Ports"),
        text_column("Endpoints"),
        AGE,
    ],
    cells: |object, now| {
        let ports = list(object, "/ports")
            .iter()
            .map(|port| match integer(port, "/port") {
                0 => "*".to_owned(),
                number => number.to_string(),
            });
        let endpoints = list(object, "/endpoints")
            .iter()
            .flat_map(|endpoint| list(endpoint, "/addresses"));
        let addresses: Vec<String> = endpoints
            .filter_map(|one| one.as_str().map(str::to_owned))
            .collect();
        let cells = [
            name(object).to_owned(),
            text(object, "/addressType").to_owned(),
            first_ones(&ports.collect::<Vec<_>>(), "<unset>"),
            first_ones(&addresses, "<unset>"),
            age(object, now),
        ];
        cells.map(Value::from).into()
    },
};
