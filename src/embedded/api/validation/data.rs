//! Checks of what holds data: ConfigMaps, Secrets and claims of storage, as `pkg/apis/core/validation` has them.

use serde_json::Value;

use crate::embedded::api::registry::Kind;
use crate::embedded::api::status::Cause;

/// Most bytes of all values together (`MaxSecretSize`, and the same for ConfigMaps).
const LIMIT: usize = 1024 * 1024;
const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Why a key cannot be one (`IsConfigMapKey`): it becomes the name of a file.
pub(super) fn wrong_key(key: &str) -> Option<&'static str> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match key {
        "." => Some("must not be '.'"),
        ".." => Some("must not be '..'"),
        _ if key.len() > 253 => Some("must be no more than 253 characters"),
        _ if key.is_empty() || !key.bytes().all(good) => Some(KEY),
        _ if key.starts_with("..") => Some("must not start with '..'"),
        _ => None,
    }
}

/// Keys and size of a ConfigMap's or Secret's data.
pub(super) fn check(kind: &Kind, object: &Value, causes: &mut Vec<Cause>) {
    let mut total = 0;
    for group in ["data", "binaryData"] {
        let base64 = group == "binaryData" || kind.plural == "secrets";
        for (key, value) in object
            .get(group)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            if let Some(why) = wrong_key(key) {
                let field = format!("{group}[{key}]");
                causes.push(Cause::invalid(field, &Value::from(key.as_str()), why));
            }
            if group == "data"
                && object
                    .pointer("/binaryData")
                    .is_some_and(|one| one.get(key).is_some())
            {
                let why = "duplicate of key present in binaryData";
                let field = format!("data[{key}]");
                causes.push(Cause::invalid(field, &Value::from(key.as_str()), why));
            }
            let length = value.as_str().map_or(0, str::len);
            total += if base64 { length / 4 * 3 } else { length };
        }
    }
    if kind.plural == "secrets" {
        check_type(object, causes);
    }
    if total > LIMIT {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: if kind.plural == "secrets" {
                "data"
            } else {
                "[]"
            }
            .to_owned(),
            message: format!("Too long: may not be more than {LIMIT} bytes"),
        });
    }
}

/// A Secret of a standard type has the keys that its readers look for.
fn check_type(secret: &Value, causes: &mut Vec<Cause>) {
    let kind = secret.get("type").and_then(Value::as_str).unwrap_or("");
    let data = |key: &str| secret.get("data").and_then(|data| data.get(key));
    let mut require = |keys: &[&str]| {
        for key in keys {
            causes.push(Cause::required(format!("data[{key}]"), ""));
        }
    };
    match kind.strip_prefix("kubernetes.io/").unwrap_or("") {
        "tls" => {
            let missing = ["tls.crt", "tls.key"];
            let missing = missing.into_iter().filter(|key| data(key).is_none());
            require(&missing.collect::<Vec<_>>());
        }
        "basic-auth" if data("username").or_else(|| data("password")).is_none() => {
            require(&["username", "password"]);
        }
        "ssh-auth" if data("ssh-privatekey").is_none_or(|key| key == "") => {
            require(&["ssh-privatekey"]);
        }
        "dockerconfigjson" if data(".dockerconfigjson").is_none() => {
            require(&[".dockerconfigjson"]);
        }
        "dockercfg" if data(".dockercfg").is_none() => require(&[".dockercfg"]),
        "service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            let annotations = secret.pointer("/metadata/annotations");
            let account = annotations.and_then(|map| map.get(ACCOUNT));
            if account.is_none_or(|account| account == "") {
                let field = format!("metadata.annotations[{ACCOUNT}]");
                causes.push(Cause::required(field, ""));
            }
        }
        _ => {}
    }
}

/// What is marked immutable stays as it is, and marked.
pub(super) fn check_frozen(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if new.get("immutable") != old.get("immutable") {
        causes.push(Cause::forbidden("immutable", why));
    }
    for group in ["data", "binaryData"] {
        if new.get(group) != old.get(group) {
            causes.push(Cause::forbidden(group, why));
        }
    }
}

/// A claim says how it is mounted and how much it wants.
pub(super) fn check_claim(object: &Value, causes: &mut Vec<Cause>) {
    let modes = object
        .pointer("/spec/accessModes")
        .and_then(Value::as_array);
    let modes = modes.map_or(&[][..], Vec::as_slice);
    if modes.is_empty() {
        let why = "at least 1 access mode is required";
        causes.push(Cause::required("spec.accessModes", why));
    }
    for mode in modes.iter().map(|mode| mode.as_str().unwrap_or("")) {
        if !MODES.contains(&mode) {
            causes.push(Cause::unsupported("spec.accessModes", mode, &MODES));
        }
    }
    let size = object
        .pointer("/spec/resources/requests/storage")
        .and_then(Value::as_str);
    match size.map(str::trim) {
        None | Some("") => causes.push(Cause::required("spec.resources[storage]", "")),
        Some(size)
            if size.starts_with('-') || !size.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) =>
        {
            let field = "spec.resources[storage]";
            causes.push(Cause::invalid(
                field,
                &Value::from(size),
                "must be greater than zero",
            ));
        }
        Some(_) => {}
    }
}

/// A claim stays as it was made; what the binding fills in may be filled in.
pub(super) fn check_claim_change(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let bound = old.pointer("/status/phase").and_then(Value::as_str) == Some("Bound");
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Some(map) = spec.as_object_mut() {
            for key in ["volumeName", "storageClassName"] {
                if old.pointer(&format!("/spec/{key}")).is_none() {
                    map.shift_remove(key);
                }
            }
            if bound
                && let Some(resources) = map.get_mut("resources").and_then(Value::as_object_mut)
            {
                resources.shift_remove("requests");
            }
        }
        spec
    };
    if fixed(new) != fixed(old) {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        causes.push(Cause::forbidden("spec", why));
    }
}

#[cfg(test)]
mod tests {
    use super::wrong_key;

    /// A key becomes the name of a file in a mounted volume.
    #[test]
    fn a_key_is_the_name_of_a_file_and_of_nothing_else() {
        let longest = "k".repeat(253);
        for good in ["a", "a.b", ".a", "a..", "-_.", longest.as_str()] {
            assert_eq!(wrong_key(good), None, "{good}");
        }
        let too_long = "k".repeat(254);
        for bad in [
            "",
            ".",
            "..",
            "..a",
            "..2024",
            "a/b",
            "../a",
            "a b",
            "é",
            too_long.as_str(),
        ] {
            assert!(wrong_key(bad).is_some(), "{bad}");
        }
    }
}
