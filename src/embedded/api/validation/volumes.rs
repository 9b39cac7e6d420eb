//! Checks of a pod's volumes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::dns_label;
use super::parts::{items, path_below, quantity, text};
use crate::embedded::api::status::Cause;

/// In the order in which they are looked at.
const SOURCES: [&str; 15] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "configMap",
    "rbd",
    "persistentVolumeClaim",
    "downwardAPI",
    "projected",
    "csi",
    "ephemeral",
    "image",
];

/// The volumes of the pod spec at `path`; answers the names of those that can be mounted.
pub(super) fn check<'a>(spec: &'a Value, path: &str, causes: &mut Vec<Cause>) -> BTreeSet<&'a str> {
    let (mut names, mut good) = (BTreeSet::new(), BTreeSet::new());
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let path = format!("{path}.volumes[{index}]");
        let name = text(volume, "name");
        let before = causes.len();
        sources(volume, &path, causes);
        let shown = Value::from(name);
        if name.is_empty() {
            causes.push(Cause::required(format!("{path}.name"), ""));
        } else if let Some(why) = dns_label(name) {
            causes.push(Cause::invalid(format!("{path}.name"), &shown, &why));
        } else if !names.insert(name) {
            causes.push(Cause::duplicate(format!("{path}.name"), &shown));
        }
        if causes.len() == before {
            good.insert(name);
        }
    }
    good
}

fn sources(volume: &Value, path: &str, causes: &mut Vec<Cause>) {
    let sources = SOURCES.iter();
    let sources = sources.filter_map(|kind| Some((*kind, volume.get(*kind)?)));
    let sources = sources.filter(|(_, source)| source.is_object());
    for (count, (kind, source)) in sources.enumerate() {
        let path = format!("{path}.{kind}");
        if count > 0 {
            causes.push(Cause::forbidden(
                path,
                "may not specify more than 1 volume type",
            ));
            continue;
        }
        match kind {
            "configMap" => named(source, &path, "name", causes),
            "secret" => named(source, &path, "secretName", causes),
            "persistentVolumeClaim" => named(source, &path, "claimName", causes),
            "hostPath" => host_path(source, &path, causes),
            "emptyDir" => empty_dir(source, &path, causes),
            "projected" => projected(source, &path, causes),
            "downwardAPI" => downward(source, &path, causes),
            _ => {}
        }
    }
}

/// A source that names another object, with the keys it takes from there.
fn named(source: &Value, path: &str, key: &str, causes: &mut Vec<Cause>) {
    if text(source, key).is_empty() {
        causes.push(Cause::required(format!("{path}.{key}"), ""));
    }
    mode(source, path, "defaultMode", causes);
    for (index, item) in items(source, "items").iter().enumerate() {
        let path = format!("{path}.items[{index}]");
        for key in ["key", "path"] {
            if text(item, key).is_empty() {
                causes.push(Cause::required(format!("{path}.{key}"), ""));
            }
        }
        path_below(text(item, "path"), &format!("{path}.path"), causes);
        mode(item, &path, "mode", causes);
    }
}

fn mode(source: &Value, path: &str, key: &str, causes: &mut Vec<Cause>) {
    let given = source.get(key).filter(|mode| !mode.is_null());
    if let Some(mode) = given.filter(|mode| !(0..=0o777).contains(&mode.as_i64().unwrap_or(-1))) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        causes.push(Cause::invalid(format!("{path}.{key}"), mode, why));
    }
}

fn host_path(source: &Value, path: &str, causes: &mut Vec<Cause>) {
    let given = text(source, "path");
    let field = format!("{path}.path");
    if given.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if given.split('/').any(|part| part == "..") {
        causes.push(Cause::invalid(
            field,
            &Value::from(given),
            "must not contain '..'",
        ));
    }
}

fn empty_dir(source: &Value, path: &str, causes: &mut Vec<Cause>) {
    if quantity(text(source, "sizeLimit")).is_some_and(|amount| amount < 0.0) {
        let why = "SizeLimit field must be a valid resource quantity";
        causes.push(Cause::forbidden(format!("{path}.sizeLimit"), why));
    }
}

fn projected(source: &Value, path: &str, causes: &mut Vec<Cause>) {
    mode(source, path, "defaultMode", causes);
    for (index, one) in items(source, "sources").iter().enumerate() {
        let path = format!("{path}.sources[{index}]");
        for kind in ["configMap", "secret"] {
            if let Some(source) = one.get(kind).filter(|source| source.is_object()) {
                named(source, &format!("{path}.{kind}"), "name", causes);
            }
        }
        let Some(token) = one
            .get("serviceAccountToken")
            .filter(|token| token.is_object())
        else {
            continue;
        };
        let path = format!("{path}.serviceAccountToken");
        let seconds = token.get("expirationSeconds");
        if let Some(seconds) = seconds.filter(|seconds| seconds.as_i64().is_some_and(|n| n < 600)) {
            let why = "may not specify a duration less than 10 minutes";
            causes.push(Cause::invalid(
                format!("{path}.expirationSeconds"),
                seconds,
                why,
            ));
        }
        if text(token, "path").is_empty() {
            causes.push(Cause::required(format!("{path}.path"), ""));
        }
    }
}

fn downward(source: &Value, path: &str, causes: &mut Vec<Cause>) {
    for item in items(source, "items") {
        let refers = |key: &str| item.get(key).is_some_and(Value::is_object);
        if !refers("fieldRef") && !refers("resourceFieldRef") {
            let why = "one of fieldRef and resourceFieldRef is required";
            causes.push(Cause::required(path, why));
        }
        path_below(text(item, "path"), &format!("{path}.items.path"), causes);
    }
}
