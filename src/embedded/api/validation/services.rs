//! Checks of Services.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::parts::{self, PROTOCOLS, items, port, port_number, supported, text};
use super::{label, subdomain};
use crate::embedded::api::status::Cause;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

/// A Service has ports, unless it is headless or a name of something outside; several have names.
pub(super) fn check(object: &Value, causes: &mut Vec<Cause>) {
    let Some(spec) = object.get("spec") else {
        causes.push(Cause::required("spec.ports", ""));
        return;
    };
    let kind = text(spec, "type");
    let address = text(spec, "clusterIP");
    if !matches!(address, "" | "None") && address.parse::<std::net::IpAddr>().is_err() {
        let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        causes.push(Cause::invalid("spec.clusterIPs[0]", &json!(address), why));
    }
    let headless = address == "None";
    let ports = items(spec, "ports");
    if ports.is_empty() && !headless && kind != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    if headless && matches!(kind, "NodePort" | "LoadBalancer") {
        let why = format!("may not be set to 'None' for {kind} services");
        causes.push(Cause::invalid("spec.clusterIPs[0]", &json!("None"), &why));
    }
    if kind == "ExternalName" {
        outside(text(spec, "externalName"), causes);
    }
    let mut names = BTreeSet::new();
    for (index, one) in ports.iter().enumerate() {
        check_port(one, index, ports.len() > 1, &mut names, causes);
    }
    parts::selector(spec.get("selector"), "spec.selector", causes);
    for (key, all) in [
        ("sessionAffinity", &["ClientIP", "None"][..]),
        ("type", &TYPES[..]),
        ("internalTrafficPolicy", &["Cluster", "Local"][..]),
    ] {
        supported(spec, "spec", key, all, causes);
    }
    twice(ports, causes);
    for (index, one) in ports.iter().enumerate() {
        let node = one.get("nodePort").and_then(Value::as_i64).unwrap_or(0);
        if node != 0 && matches!(kind, "ClusterIP" | "ExternalName") {
            let why = format!("may not be used when `type` is '{kind}'");
            causes.push(Cause::forbidden(
                format!("spec.ports[{index}].nodePort"),
                &why,
            ));
        }
    }
}

fn outside(name: &str, causes: &mut Vec<Cause>) {
    if name.is_empty() {
        causes.push(Cause::required("spec.externalName", ""));
    } else if let Some(why) = subdomain(name.trim_end_matches('.')) {
        causes.push(Cause::invalid(
            "spec.externalName",
            &Value::from(name),
            &why,
        ));
    }
}

fn check_port<'a>(
    one: &'a Value,
    index: usize,
    several: bool,
    names: &mut BTreeSet<&'a str>,
    causes: &mut Vec<Cause>,
) {
    let path = format!("spec.ports[{index}]");
    let name = text(one, "name");
    let shown = Value::from(name);
    if name.is_empty() {
        if several {
            causes.push(Cause::required(format!("{path}.name"), ""));
        }
    } else if let Some(why) = label(name) {
        causes.push(Cause::invalid(format!("{path}.name"), &shown, &why));
    } else if !names.insert(name) {
        causes.push(Cause::duplicate(format!("{path}.name"), &shown));
    }
    let number = one.get("port").unwrap_or(&Value::Null);
    port_number(number, format!("{path}.port"), causes);
    supported(one, &path, "protocol", &PROTOCOLS, causes);
    port(one.get("targetPort"), &format!("{path}.targetPort"), causes);
}

fn twice(ports: &[Value], causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, one) in ports.iter().enumerate() {
        let (number, protocol) = (
            one.get("port").and_then(Value::as_i64),
            text(one, "protocol"),
        );
        if !seen.insert((number, protocol)) {
            let shown = json!({"Name": "", "Protocol": protocol, "AppProtocol": null, "Port": number, "TargetPort": 0, "NodePort": 0});
            causes.push(Cause::duplicate(format!("spec.ports[{index}]"), &shown));
        }
    }
}

/// A Service keeps its address.
pub(super) fn check_change(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let address = |object: &Value| {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let named = text(spec, "type") != "ExternalName";
        named
            .then(|| text(spec, "clusterIP").to_owned())
            .filter(|address| !address.is_empty())
    };
    if let (Some(is), Some(was)) = (address(new), address(old))
        && is != was
    {
        causes.push(Cause::invalid(
            "spec.clusterIPs[0]",
            &json!([is]),
            "may not change once set",
        ));
    }
}
