//! What is given to a Service: an address in the cluster, and ports on the node.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::embedded::api::object;
use crate::embedded::api::registry::{self, Kind};
use crate::embedded::api::selectors::Selector;
use crate::embedded::api::status::{Cause, Failure};
use crate::embedded::api::store::{Interest, Store, Stored};

/// Ports on the node, as kube-apiserver's `--service-node-port-range`.
const NODE_PORTS: RangeInclusive<i64> = 30_000..=32_767;
/// The address that a dry run shows, and the port before the first one.
const DRY_ADDRESS: &str = "10.96.0.0";
const DRY_PORT: i64 = 32_768;

/// Gives a Service what its type needs and takes away what it does not; `old` is what it was before. A dry run shows what
/// nobody can have.
///
/// # Errors
/// 422 for a port on the node that it cannot have.
pub(super) fn admit(
    store: &Store,
    kind: &Kind,
    old: Option<&Value>,
    new: &mut Value,
    dry: bool,
) -> Result<(), Failure> {
    address(store, kind, old, new, dry)?;
    if let Some(old) = old {
        drop_unused(old, new);
        carry_node_ports(old, new);
    }
    node_ports(store, kind, new, dry)
}

fn is_outside(service: &Value) -> bool {
    service.pointer("/spec/type").and_then(Value::as_str) == Some("ExternalName")
}

fn all(store: &Store) -> Vec<Arc<Stored>> {
    let interest = Interest::new("services", None, Selector::default());
    store.list(&interest, None, 0).items
}

/// An address of 10.96.0.0/16 that no other Service has.
fn address(
    store: &Store,
    kind: &Kind,
    old: Option<&Value>,
    object: &mut Value,
    dry: bool,
) -> Result<(), Failure> {
    let (outside, seed) = (is_outside(object), seed(object));
    let name = object::name(object).to_owned();
    let Some(spec) = object::child(object, "spec") else {
        return Ok(());
    };
    if outside {
        let was = old.and_then(|old| old.pointer("/spec/clusterIP"));
        if was.is_some() && spec.get("clusterIP") == was {
            spec.shift_remove("clusterIP");
            spec.shift_remove("clusterIPs");
        }
        return Ok(());
    }
    let asked = spec.get("clusterIP").and_then(Value::as_str).unwrap_or("");
    let had = old.is_some_and(|old| !is_outside(old));
    let address = match asked {
        "" if dry => DRY_ADDRESS.to_owned(),
        "" => free_address(&seed, &addresses(&all(store))),
        asked => asked.to_owned(),
    };
    if !had
        && !asked.is_empty()
        && let Some(why) = unavailable(store, asked)
    {
        let why = format!("failed to allocate IP {asked}: {why}");
        let cause = Cause::invalid("spec.clusterIPs", &json!([asked]), &why);
        return Err(Failure::invalid(kind, &name, vec![cause]));
    }
    spec.insert("clusterIP".to_owned(), Value::from(address.as_str()));
    object::default_field(spec, "clusterIPs", json!([address]));
    Ok(())
}

/// Why an address cannot be had; what is none is said elsewhere.
fn unavailable(store: &Store, asked: &str) -> Option<&'static str> {
    let address: std::net::IpAddr = asked.parse().ok()?;
    let inside = match address {
        std::net::IpAddr::V4(four) => four.octets().starts_with(&[10, 96]),
        std::net::IpAddr::V6(_) => false,
    };
    if !inside {
        return Some("the provided network does not match the current range");
    }
    addresses(&all(store))
        .contains(&asked)
        .then_some("provided IP is already allocated")
}

fn seed(object: &Value) -> String {
    format!("{}/{}", object::namespace(object), object::name(object))
}

fn addresses(services: &[Arc<Stored>]) -> Vec<&str> {
    let offered = registry::by_bucket("services").map_or(&[][..], |kind| kind.fields);
    let at = offered
        .iter()
        .position(|field| field.label == "spec.clusterIP");
    let found = services.iter().filter_map(|one| one.head.fields.get(at?));
    found.map(String::as_str).collect()
}

/// What a Service was given, it keeps when its new spec does not speak of it.
pub fn keep_allocated(kind: &Kind, old: &Value, new: &mut Value) {
    if (kind.group, kind.plural) != ("", "services") {
        return;
    }
    let Some(spec) = object::child(new, "spec") else {
        return;
    };
    let outside = |kind: Option<&Value>| kind.and_then(Value::as_str) == Some("ExternalName");
    if outside(spec.get("type")) || outside(old.pointer("/spec/type")) {
        return;
    }
    let empty = |value: Option<&Value>| {
        value.is_none_or(|value| value.is_null() || *value == "" || *value == json!([]))
    };
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if empty(spec.get(key))
            && let Some(was) = old.pointer(&format!("/spec/{key}"))
        {
            spec.insert(key.to_owned(), was.clone());
        }
    }
}

/// Starts at a place that depends on the name, so that a rewound cluster gives the same addresses again.
fn free_address(seed: &str, taken: &[&str]) -> String {
    let start = hash(seed);
    let candidates = (0..65_000_u32).map(|step| (start.wrapping_add(step)) % 65_000 + 100);
    let address = |number: u32| format!("10.96.{}.{}", number / 256, number % 256);
    candidates
        .map(address)
        .find(|address| !taken.contains(&address.as_str()))
        .unwrap_or_default()
}

fn hash(seed: &str) -> u32 {
    seed.bytes().fold(5381_u32, |hash, byte| {
        hash.wrapping_mul(33) ^ u32::from(byte)
    })
}

/// True for a Service that is to be reached through the node.
fn on_node(service: &Value) -> bool {
    let spec = service.get("spec").unwrap_or(&Value::Null);
    match spec.get("type").and_then(Value::as_str) {
        Some("NodePort") => true,
        Some("LoadBalancer") => {
            spec.get("allocateLoadBalancerNodePorts") != Some(&Value::from(false))
        }
        _ => false,
    }
}

fn node_port(port: &Value) -> Option<i64> {
    let number = port.get("nodePort").and_then(Value::as_i64);
    number.filter(|number| *number != 0)
}

fn set_node_port(port: &mut Value, number: i64) {
    if let Some(port) = port.as_object_mut() {
        port.insert("nodePort".to_owned(), Value::from(number));
    }
}

fn numbers(service: &Value) -> Vec<i64> {
    ports(service).iter().filter_map(node_port).collect()
}

fn ports(service: &Value) -> &[Value] {
    let list = service.pointer("/spec/ports").and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn ports_mut(service: &mut Value) -> impl Iterator<Item = &mut Value> {
    let list = service.pointer_mut("/spec/ports");
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Fields that belong to the type that a Service no longer has.
fn drop_unused(old: &Value, new: &mut Value) {
    let kind = |service: &Value| {
        let kind = service.pointer("/spec/type").and_then(Value::as_str);
        kind.unwrap_or("").to_owned()
    };
    let (was, is) = (kind(old), kind(new));
    let Some(spec) = object::child(new, "spec").filter(|_| was != is) else {
        return;
    };
    let unused: &[&str] = match is.as_str() {
        "LoadBalancer" => &[],
        "NodePort" => &["allocateLoadBalancerNodePorts"],
        "ExternalName" => &[
            "allocateLoadBalancerNodePorts",
            "externalTrafficPolicy",
            "internalTrafficPolicy",
            "ipFamilies",
            "ipFamilyPolicy",
        ],
        _ => &["allocateLoadBalancerNodePorts", "externalTrafficPolicy"],
    };
    for field in unused {
        spec.shift_remove(*field);
    }
}

/// A port keeps the node's port that its name had; a Service that is no longer on the node loses those it had.
fn carry_node_ports(old: &Value, new: &mut Value) {
    if !on_node(old) {
        return;
    }
    let (was, is) = (numbers(old), numbers(new));
    if !on_node(new) {
        if was == is {
            for port in ports_mut(new).filter_map(Value::as_object_mut) {
                port.shift_remove("nodePort");
            }
        }
        return;
    }
    let mut used: BTreeSet<i64> = is.into_iter().filter(|one| was.contains(one)).collect();
    for port in ports_mut(new) {
        let same = |one: &&Value| one.get("name") == port.get("name");
        let known = ports(old).iter().find(same).and_then(node_port);
        if node_port(port).is_none()
            && let Some(number) = known
            && used.insert(number)
        {
            set_node_port(port, number);
        }
    }
}

/// Each port of a Service on the node has one of the node's that no other Service has.
fn node_ports(store: &Store, kind: &Kind, service: &mut Value, dry: bool) -> Result<(), Failure> {
    if !on_node(service) {
        return Ok(());
    }
    let (namespace, name) = (object::namespace(service), object::name(service));
    let others = all(store);
    let others = others
        .iter()
        .filter(|one| (&*one.namespace, &*one.name) != (namespace, name));
    let mut taken: BTreeSet<i64> = others
        .filter_map(|one| one.value().ok())
        .flat_map(|one| numbers(&one))
        .collect();
    if let Some(cause) = refused(ports(service), &taken) {
        return Err(Failure::invalid(kind, name, vec![cause]));
    }
    if dry {
        show_node_ports(service);
        return Ok(());
    }
    taken.extend(numbers(service));
    let start = i64::from(hash(&seed(service)));
    for port in ports_mut(service) {
        let size = NODE_PORTS.end() - NODE_PORTS.start() + 1;
        let mut candidates = (0..size).map(|step| NODE_PORTS.start() + (start + step) % size);
        if node_port(port).is_none()
            && let Some(number) = candidates.find(|number| !taken.contains(number))
        {
            taken.insert(number);
            set_node_port(port, number);
        }
    }
    Ok(())
}

/// Ports after the last one that the Service has.
fn show_node_ports(service: &mut Value) {
    let mut last = numbers(service).into_iter().max().unwrap_or(DRY_PORT);
    for port in ports_mut(service).filter(|port| node_port(port).is_none()) {
        last += 1;
        set_node_port(port, last);
    }
}

/// The first port that cannot be had.
fn refused(ports: &[Value], taken: &BTreeSet<i64>) -> Option<Cause> {
    let same = |one: &Value, other: &Value| {
        let protocol = |port: &Value| port.get("protocol").cloned();
        node_port(one) == node_port(other) && protocol(one) == protocol(other)
    };
    ports.iter().enumerate().find_map(|(index, port)| {
        let number = node_port(port)?;
        let why = if !NODE_PORTS.contains(&number) {
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        } else if taken.contains(&number) || ports[..index].iter().any(|one| same(one, port)) {
            "provided port is already allocated"
        } else {
            return None;
        };
        let field = format!("spec.ports[{index}].nodePort");
        Some(Cause::invalid(field, &Value::from(number), why))
    })
}
