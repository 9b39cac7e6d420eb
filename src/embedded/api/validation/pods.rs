//! Checks of a pod's spec, as `pkg/apis/core/validation` has them: what goes wrong in a manifest by a slip.

use std::collections::BTreeSet;

use serde_json::Value;

use super::parts::{self, items, supported, text};
use super::{containers, dns_label, subdomain, volumes};
use crate::embedded::api::object::sorted;
use crate::embedded::api::status::Cause;

const RESTART: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
/// Most changed fields that a refusal names.
const MAX_NAMED: usize = 5;

/// The spec of a pod or of a pod template, which stands at `path`.
pub(super) fn check(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let volumes = volumes::check(spec, path, causes);
    containers::check(spec, path, &volumes, causes);
    supported(spec, path, "restartPolicy", &RESTART, causes);
    supported(spec, path, "dnsPolicy", &DNS, causes);
    let deadline = spec.get("activeDeadlineSeconds");
    if let Some(seconds) = deadline.filter(|seconds| seconds.as_i64().is_some_and(|n| n < 1)) {
        let why = "must be between 1 and 2147483647, inclusive";
        causes.push(Cause::invalid(
            format!("{path}.activeDeadlineSeconds"),
            seconds,
            why,
        ));
    }
    names(spec, path, causes);
    for (index, toleration) in items(spec, "tolerations").iter().enumerate() {
        tolerate(toleration, &format!("{path}.tolerations[{index}]"), causes);
    }
}

fn names(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    type Rule = fn(&str) -> Option<String>;
    let rules: [(&str, Rule); 4] = [
        ("nodeName", subdomain),
        ("serviceAccountName", subdomain),
        ("hostname", dns_label),
        ("subdomain", dns_label),
    ];
    for (key, rule) in rules {
        let name = text(spec, key);
        if let Some(why) = rule(name).filter(|_| !name.is_empty()) {
            causes.push(Cause::invalid(
                format!("{path}.{key}"),
                &Value::from(name),
                &why,
            ));
        }
    }
    let field = format!("{path}.nodeSelector");
    parts::selector(spec.get("nodeSelector"), &field, causes);
}

fn tolerate(toleration: &Value, path: &str, causes: &mut Vec<Cause>) {
    let operator = text(toleration, "operator");
    let shown = Value::from(operator);
    if text(toleration, "key").is_empty() && operator != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        causes.push(Cause::invalid(format!("{path}.operator"), &shown, why));
    }
    match operator {
        "" | "Equal" => {}
        "Exists" if text(toleration, "value").is_empty() => {}
        "Exists" => {
            let value = Value::from(text(toleration, "value"));
            let why = "value must be empty when `operator` is 'Exists'";
            causes.push(Cause::invalid(format!("{path}.operator"), &value, why));
        }
        other => causes.push(Cause::unsupported(
            format!("{path}.operator"),
            other,
            &["Equal", "Exists"],
        )),
    }
    supported(toleration, path, "effect", &EFFECTS, causes);
}

/// A pod keeps its spec, but for its images, its deadline and further tolerations.
pub(super) fn check_change(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let empty = Value::Null;
    let (new, old) = (
        new.get("spec").unwrap_or(&empty),
        old.get("spec").unwrap_or(&empty),
    );
    for group in ["containers", "initContainers"] {
        let names = |spec: &Value| -> Vec<String> {
            let names = items(spec, group)
                .iter()
                .map(|one| text(one, "name").to_owned());
            names.collect()
        };
        if names(new) != names(old) {
            let field = format!("spec.{group}");
            causes.push(Cause::forbidden(
                field,
                "pod updates may not add or remove containers",
            ));
            return;
        }
    }
    deadline(new, old, causes);
    let changed = changes(&without_changeable(new), &without_changeable(old));
    // By their text, so that many of them are found at once.
    let tolerations: BTreeSet<String> = items(new, "tolerations")
        .iter()
        .map(|one| sorted(one.clone()).to_string())
        .collect();
    let kept = items(old, "tolerations")
        .iter()
        .all(|one| tolerations.contains(&sorted(one.clone()).to_string()));
    if !changed.is_empty() || !kept {
        let named: Vec<&str> = changed.iter().take(MAX_NAMED).map(String::as_str).collect();
        let why = format!("{CHANGEABLE}\nchanged: {}", named.join(", "));
        causes.push(Cause::forbidden(
            "spec",
            why.trim_end_matches("\nchanged: "),
        ));
    }
}

fn deadline(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let seconds = |spec: &Value| spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    let field = "spec.activeDeadlineSeconds";
    match (seconds(new), seconds(old)) {
        (Some(new), Some(old)) if new > old => {
            let why = "must be less than or equal to previous value";
            causes.push(Cause::invalid(field, &Value::from(new), why));
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            causes.push(Cause::invalid(field, &Value::Null, why));
        }
        _ => {}
    }
}

fn without_changeable(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for group in ["containers", "initContainers"] {
        let list = spec.get_mut(group).and_then(Value::as_array_mut);
        for container in list.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.shift_remove("image");
        }
    }
    if let Some(map) = spec.as_object_mut() {
        map.shift_remove("activeDeadlineSeconds");
        map.shift_remove("tolerations");
        let grace = map.get("terminationGracePeriodSeconds");
        if grace
            .and_then(Value::as_i64)
            .is_some_and(|seconds| seconds < 0)
        {
            map.insert("terminationGracePeriodSeconds".to_owned(), Value::from(1));
        }
    }
    spec
}

/// Paths below `spec` where two specs differ.
fn changes(new: &Value, old: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![("spec".to_owned(), Some(new), Some(old))];
    while let Some((path, new, old)) = pending.pop() {
        if new == old {
            continue;
        }
        match (new, old) {
            (Some(Value::Object(new)), Some(Value::Object(old))) => {
                let lone = old.keys().filter(|key| !new.contains_key(*key));
                let keys = new.keys().chain(lone);
                pending
                    .extend(keys.map(|key| (format!("{path}.{key}"), new.get(key), old.get(key))));
            }
            (Some(Value::Array(new)), Some(Value::Array(old))) if new.len() == old.len() => {
                let pairs = new.iter().zip(old).enumerate();
                pending.extend(
                    pairs.map(|(at, (new, old))| (format!("{path}[{at}]"), Some(new), Some(old))),
                );
            }
            _ => found.push(path),
        }
    }
    found.sort();
    found
}
