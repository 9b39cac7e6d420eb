//! Checks of a pod's containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::parts::{
    PROTOCOLS, items, path_below, port_name, port_number, quantity, supported, text,
};
use super::{data, dns_label, probes, subdomain};
use crate::embedded::api::status::Cause;

const PULL: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const MESSAGES: [&str; 2] = ["File", "FallbackToLogsOnError"];
/// What a container may ask for under a plain name.
const RESOURCES: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
const SOURCES: [&str; 5] = [
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "fileKeyRef",
];

/// The containers of the pod spec at `path`, which may mount `volumes`.
pub(super) fn check(spec: &Value, path: &str, volumes: &BTreeSet<&str>, causes: &mut Vec<Cause>) {
    if items(spec, "containers").is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let mut names = BTreeSet::new();
    for group in ["containers", "initContainers"] {
        for (index, container) in items(spec, group).iter().enumerate() {
            let path = format!("{path}.{group}[{index}]");
            name(container, &path, &mut names, causes);
            image(container, &path, causes);
            ports(container, &path, causes);
            environment(container, &path, causes);
            mounts(container, &path, volumes, causes);
            words(container, &path, causes);
            resources(container, &path, causes);
            if group == "initContainers" {
                probes::check_init(container, &path, causes);
            } else {
                probes::check(container, &path, causes);
            }
        }
    }
    if !items(spec, "ephemeralContainers").is_empty() {
        let field = format!("{path}.ephemeralContainers");
        causes.push(Cause::forbidden(field, "cannot be set on create"));
    }
}

fn name<'a>(
    container: &'a Value,
    path: &str,
    names: &mut BTreeSet<&'a str>,
    causes: &mut Vec<Cause>,
) {
    let name = text(container, "name");
    let (field, shown) = (format!("{path}.name"), Value::from(name));
    if name.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if let Some(why) = dns_label(name) {
        causes.push(Cause::invalid(field, &shown, &why));
    } else if !names.insert(name) {
        causes.push(Cause::duplicate(field, &shown));
    }
}

fn image(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    let image = text(container, "image");
    let field = format!("{path}.image");
    if image.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        causes.push(Cause::invalid(field, &Value::from(image), why));
    }
}

fn ports(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut names = BTreeSet::new();
    for (index, port) in items(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = text(port, "name");
        let (field, shown) = (format!("{path}.name"), Value::from(name));
        let wrong = if name.is_empty() {
            Vec::new()
        } else {
            port_name(name)
        };
        if wrong.is_empty() && !name.is_empty() && !names.insert(name) {
            causes.push(Cause::duplicate(field.as_str(), &shown));
        }
        let wrong = wrong.into_iter();
        causes.extend(wrong.map(|why| Cause::invalid(field.as_str(), &shown, why)));
        match port
            .get("containerPort")
            .filter(|number| number.as_i64() != Some(0))
        {
            None => causes.push(Cause::required(format!("{path}.containerPort"), "")),
            Some(number) => port_number(number, format!("{path}.containerPort"), causes),
        }
        if let Some(number) = port
            .get("hostPort")
            .filter(|number| number.as_i64() != Some(0))
        {
            port_number(number, format!("{path}.hostPort"), causes);
        }
        supported(port, &path, "protocol", &PROTOCOLS, causes);
    }
}

fn words(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    supported(container, path, "imagePullPolicy", &PULL, causes);
    supported(
        container,
        path,
        "terminationMessagePolicy",
        &MESSAGES,
        causes,
    );
}

fn variable(name: &str) -> Option<&'static str> {
    let good = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    (!name.bytes().all(good)).then_some(
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    )
}

fn environment(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, env) in items(container, "env").iter().enumerate() {
        let path = format!("{path}.env[{index}]");
        let name = text(env, "name");
        if name.is_empty() {
            causes.push(Cause::required(format!("{path}.name"), ""));
        } else if let Some(why) = variable(name) {
            causes.push(Cause::invalid(
                format!("{path}.name"),
                &Value::from(name),
                why,
            ));
        }
        if let Some(from) = env.get("valueFrom").filter(|from| from.is_object()) {
            value_from(env, from, &format!("{path}.valueFrom"), causes);
        }
    }
    for (index, from) in items(container, "envFrom").iter().enumerate() {
        env_from(from, &format!("{path}.envFrom"), index, causes);
    }
}

fn value_from(env: &Value, from: &Value, path: &str, causes: &mut Vec<Cause>) {
    let sources = SOURCES
        .iter()
        .filter(|key| from.get(**key).is_some_and(Value::is_object));
    let empty = Value::from("");
    match sources.count() {
        0 => {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
            causes.push(Cause::invalid(path, &empty, why));
        }
        _ if !text(env, "value").is_empty() => {
            let why = "may not be specified when `value` is not empty";
            causes.push(Cause::invalid(path, &empty, why));
        }
        1 => {}
        _ => {
            let why = "may not have more than one field specified at a time";
            causes.push(Cause::invalid(path, &empty, why));
        }
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let Some(source) = from.get(kind).filter(|source| source.is_object()) else {
            continue;
        };
        let path = format!("{path}.{kind}");
        if let Some(why) = subdomain(text(source, "name")) {
            let name = Value::from(text(source, "name"));
            causes.push(Cause::invalid(format!("{path}.name"), &name, &why));
        }
        let key = text(source, "key");
        if key.is_empty() {
            causes.push(Cause::required(format!("{path}.key"), ""));
        } else if let Some(why) = data::wrong_key(key) {
            causes.push(Cause::invalid(
                format!("{path}.key"),
                &Value::from(key),
                why,
            ));
        }
    }
    if let Some(field) = from.get("fieldRef").filter(|field| field.is_object()) {
        field_ref(
            text(field, "fieldPath"),
            &format!("{path}.fieldRef.fieldPath"),
            causes,
        );
    }
}

/// What the downward API can put into a variable.
fn field_ref(path: &str, field: &str, causes: &mut Vec<Cause>) {
    const FIELDS: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let keyed = ["metadata.labels['", "metadata.annotations['"];
    let is_keyed = keyed.iter().any(|start| path.starts_with(start)) && path.ends_with("']");
    if path.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if !FIELDS.contains(&path) && !is_keyed {
        let why = format!("error converting fieldPath: field label not supported: {path}");
        causes.push(Cause::invalid(field, &Value::from(path), &why));
    }
}

fn env_from(from: &Value, path: &str, index: usize, causes: &mut Vec<Cause>) {
    let prefix = text(from, "prefix");
    if let Some(why) = variable(prefix) {
        let field = format!("{path}[{index}].prefix");
        causes.push(Cause::invalid(field, &Value::from(prefix), why));
    }
    let mut sources = 0;
    for kind in ["configMapRef", "secretRef"] {
        let Some(source) = from.get(kind).filter(|source| source.is_object()) else {
            continue;
        };
        sources += 1;
        let (field, name) = (format!("{path}[{index}].{kind}.name"), text(source, "name"));
        if name.is_empty() {
            causes.push(Cause::required(field, ""));
        } else if let Some(why) = subdomain(name) {
            causes.push(Cause::invalid(field, &Value::from(name), &why));
        }
    }
    if sources != 1 {
        let why = match sources {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            _ => "may not have more than one field specified at a time",
        };
        causes.push(Cause::invalid(path, &Value::from(""), why));
    }
}

fn mounts(container: &Value, path: &str, volumes: &BTreeSet<&str>, causes: &mut Vec<Cause>) {
    let mut places = BTreeSet::new();
    for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
        let at = format!("{path}.volumeMounts[{index}]");
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        }
        if !volumes.contains(name) {
            causes.push(Cause::not_found(format!("{at}.name"), &Value::from(name)));
        }
        if place.is_empty() {
            causes.push(Cause::required(format!("{at}.mountPath"), ""));
        }
        if !places.insert(place) {
            let field = format!("{at}.mountPath");
            causes.push(Cause::invalid(field, &Value::from(place), "must be unique"));
        }
        path_below(
            text(mount, "subPath"),
            &format!("{path}.volumeMounts.subPath"),
            causes,
        );
    }
}

fn resources(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    let part = |kind: &str| {
        let map = container.get("resources").and_then(|all| all.get(kind));
        map.and_then(Value::as_object).into_iter().flatten()
    };
    for kind in ["limits", "requests"] {
        for (name, amount) in part(kind) {
            let field = format!("{path}.resources.{kind}[{name}]");
            let plain = !name.contains('/') && !name.starts_with("hugepages-");
            if plain && !RESOURCES.contains(&name.as_str()) {
                let shown = Value::from(name.as_str());
                for why in [
                    "must be a standard resource type or fully qualified",
                    "must be a standard resource for containers",
                ] {
                    causes.push(Cause::invalid(field.as_str(), &shown, why));
                }
            }
            if quantity(amount.as_str().unwrap_or("")).is_some_and(|amount| amount < 0.0) {
                let why = "must be greater than or equal to 0";
                causes.push(Cause::invalid(field, amount, why));
            }
        }
    }
    for (name, request) in part("requests") {
        let Some((_, limit)) = part("limits").find(|(other, _)| *other == name) else {
            continue;
        };
        let (asked, most) = (request.as_str().unwrap_or(""), limit.as_str().unwrap_or(""));
        if quantity(asked) > quantity(most) {
            let why = format!("must be less than or equal to {name} limit of {most}");
            causes.push(Cause::invalid(
                format!("{path}.resources.requests"),
                request,
                &why,
            ));
        }
    }
}
