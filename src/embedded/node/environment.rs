//! A container's environment, built from its pod alone: nothing of the host's is in it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, Pod};

use super::expand::expand;
use super::fields::{Placement, field};
use super::sources::{Data, SetupError, Sources};

/// Variables that would change how a child is loaded or allocates, whatever its pod says. `RUST_*` is among them because
/// the workload is a Rust program whose runtime reads such names (`RUST_MIN_STACK`).
const DENIED_PREFIXES: [&str; 7] = [
    "LD_", "DYLD_", "MALLOC_", "RUST_", "GLIBC_", "GCONV_", "SQLITE_",
];
const DENIED: [&str; 5] = [
    "LOCPATH",
    "NLSPATH",
    "TMPDIR",
    "HOSTALIASES",
    "EVENTLAB_PARENT",
];

/// Everything that values may come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs<'a> {
    pub pod: &'a Pod,
    pub placement: &'a Placement,
    pub sources: &'a Sources,
    /// Service variables; the container's own ones win.
    pub services: &'a BTreeMap<String, String>,
}

/// The variables of a container as its pod states them, with those of Services.
pub(super) fn environment(
    container: &Container,
    inputs: Inputs<'_>,
) -> Result<BTreeMap<String, String>, SetupError> {
    let mut result = BTreeMap::new();
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if let Some(reference) = &source.config_map_ref {
            let data = inputs
                .sources
                .config_map(&reference.name, reference.optional.unwrap_or(false))?;
            take_all(&mut result, prefix, data)?;
        }
        if let Some(reference) = &source.secret_ref {
            let data = inputs
                .sources
                .secret(&reference.name, reference.optional.unwrap_or(false))?;
            take_all(&mut result, prefix, data)?;
        }
    }
    for variable in container.env.iter().flatten() {
        check_name(&variable.name)?;
        if let Some(value) = value(variable, &result, inputs)? {
            result.insert(variable.name.clone(), value);
        }
    }
    for (name, value) in inputs.services {
        result.entry(name.clone()).or_insert_with(|| value.clone());
    }
    Ok(result)
}

/// Splits off what a child process must not get; answers the names that were taken out.
pub(super) fn deny(variables: &mut BTreeMap<String, String>) -> Vec<String> {
    let denied = |name: &String| {
        DENIED.contains(&name.as_str())
            || DENIED_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
    };
    let names: Vec<String> = variables
        .keys()
        .filter(|name| denied(name))
        .cloned()
        .collect();
    for name in &names {
        variables.remove(name);
    }
    names
}

/// A command or argument with its references replaced.
pub(super) fn expand_words(words: &[String], variables: &BTreeMap<String, String>) -> Vec<String> {
    words
        .iter()
        .map(|word| expand(word, |name| variables.get(name).cloned()))
        .collect()
}

fn take_all(
    result: &mut BTreeMap<String, String>,
    prefix: &str,
    data: Option<&Data>,
) -> Result<(), SetupError> {
    for (key, value) in data.into_iter().flatten() {
        let name = format!("{prefix}{key}");
        check_name(&name)?;
        result.insert(name, text(value)?);
    }
    Ok(())
}

/// A name that no process could have is refused here, where the reason can still be told.
fn check_name(name: &str) -> Result<(), SetupError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(SetupError(format!(
            "{name:?} cannot be the name of an environment variable"
        )));
    }
    Ok(())
}

fn text(value: &[u8]) -> Result<String, SetupError> {
    match String::from_utf8(value.to_vec()) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(SetupError(
            "an environment variable cannot hold binary data".to_owned(),
        )),
    }
}

fn value(
    variable: &EnvVar,
    earlier: &BTreeMap<String, String>,
    inputs: Inputs<'_>,
) -> Result<Option<String>, SetupError> {
    let Some(source) = &variable.value_from else {
        let stated = variable.value.as_deref().unwrap_or_default();
        let lookup = |name: &str| {
            earlier
                .get(name)
                .or_else(|| inputs.services.get(name))
                .cloned()
        };
        return text(expand(stated, lookup).as_bytes()).map(Some);
    };
    from_source(source, inputs)
}

fn from_source(source: &EnvVarSource, inputs: Inputs<'_>) -> Result<Option<String>, SetupError> {
    let namespace = inputs.pod.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(reference) = &source.field_ref {
        return field(&reference.field_path, inputs.pod, inputs.placement)
            .map(Some)
            .map_err(SetupError);
    }
    if let Some(reference) = &source.config_map_key_ref {
        let optional = reference.optional.unwrap_or(false);
        let data = inputs.sources.config_map(&reference.name, optional)?;
        return key(
            data,
            &reference.key,
            optional,
            "ConfigMap",
            namespace,
            &reference.name,
        );
    }
    if let Some(reference) = &source.secret_key_ref {
        let optional = reference.optional.unwrap_or(false);
        let data = inputs.sources.secret(&reference.name, optional)?;
        return key(
            data,
            &reference.key,
            optional,
            "Secret",
            namespace,
            &reference.name,
        );
    }
    Err(SetupError(
        "this kind of valueFrom is not supported on the embedded cluster".to_owned(),
    ))
}

fn key(
    data: Option<&Data>,
    key: &str,
    optional: bool,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<String>, SetupError> {
    match data.and_then(|data| data.get(key)) {
        Some(value) => text(value).map(Some),
        None if optional => Ok(None),
        None => Err(SetupError(format!(
            "couldn't find key {key} in {kind} {namespace}/{name}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn variables(container: Value) -> Result<BTreeMap<String, String>, String> {
        let container: Container = serde_json::from_value(container).unwrap();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "eventlab", "uid": "u-1", "labels": {"app.io/x": "y"}},
            "spec": {"containers": [], "serviceAccountName": "runner"},
        }))
        .unwrap();
        let placement = Placement {
            node_name: "eventlab".into(),
            host_ip: "127.0.0.1".into(),
            pod_ip: "10.244.0.7".into(),
        };
        let data = |pairs: &[(&str, &[u8])]| -> Option<Data> {
            Some(
                pairs
                    .iter()
                    .map(|(key, value)| ((*key).to_owned(), value.to_vec()))
                    .collect(),
            )
        };
        let sources = Sources {
            config_maps: BTreeMap::from([
                (
                    "settings".to_owned(),
                    data(&[("MODE", b"atomic"), ("level", b"debug")]),
                ),
                ("none".to_owned(), None),
            ]),
            secrets: BTreeMap::from([(
                "login".to_owned(),
                data(&[("token", b"t0p"), ("raw", b"\xff")]),
            )]),
        };
        let services = BTreeMap::from([("CRM_SERVICE_PORT".to_owned(), "12345".to_owned())]);
        let inputs = Inputs {
            pod: &pod,
            placement: &placement,
            sources: &sources,
            services: &services,
        };
        environment(&container, inputs).map_err(|error| error.0)
    }

    fn env(list: Value) -> Result<BTreeMap<String, String>, String> {
        variables(json!({"name": "main", "env": list}))
    }

    #[test]
    fn values_come_from_the_pod_and_what_it_refers_to() {
        let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
        let found = env(json!([
            {"name": "PLAIN", "value": "x"},
            {"name": "EMPTY"},
            {"name": "NAME", "valueFrom": field("metadata.name")},
            {"name": "IP", "valueFrom": field("status.podIP")},
            {"name": "LABEL", "valueFrom": field("metadata.labels['app.io/x']")},
            {"name": "ABSENT", "valueFrom": field("metadata.labels['none']")},
            {"name": "ACCOUNT", "valueFrom": field("spec.serviceAccountName")},
            {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "level"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "login", "key": "token"}}},
            {"name": "MAYBE", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "token", "optional": true}}},
            {"name": "URL", "value": "http://$(NAME):$(CRM_SERVICE_PORT)/$(LATER)$$(NAME)"},
            {"name": "LATER", "value": "z"},
        ]))
        .unwrap();
        let expected = [
            ("ABSENT", ""),
            ("ACCOUNT", "runner"),
            ("CRM_SERVICE_PORT", "12345"),
            ("EMPTY", ""),
            ("IP", "10.244.0.7"),
            ("LABEL", "y"),
            ("LATER", "z"),
            ("LEVEL", "debug"),
            ("NAME", "p"),
            ("PLAIN", "x"),
            ("TOKEN", "t0p"),
            ("URL", "http://p:12345/$(LATER)$(NAME)"),
        ];
        let found: Vec<_> = found
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn whole_maps_come_with_a_prefix() {
        let found = variables(json!({"name": "main", "envFrom": [
            {"prefix": "P_", "configMapRef": {"name": "settings"}},
            {"configMapRef": {"name": "none", "optional": true}},
        ], "env": [{"name": "P_MODE", "value": "naive"}]}))
        .unwrap();
        assert_eq!(
            (found["P_MODE"].as_str(), found["P_level"].as_str()),
            ("naive", "debug")
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let reference = |kind: &str, name: &str, key: &str| {
            env(json!([{"name": "X", "valueFrom": {kind: {"name": name, "key": key}}}]))
                .unwrap_err()
        };
        assert_eq!(
            reference("configMapKeyRef", "none", "x"),
            "configmap \"none\" not found"
        );
        assert_eq!(
            reference("secretKeyRef", "gone", "x"),
            "secret \"gone\" not found"
        );
        assert_eq!(
            reference("configMapKeyRef", "settings", "x"),
            "couldn't find key x in ConfigMap eventlab/settings"
        );
        assert!(reference("secretKeyRef", "login", "raw").contains("binary"));
        assert!(env(json!([{"name": "A=B", "value": ""}])).is_err());
        assert!(env(json!([{"name": "A", "value": "\u{0}"}])).is_err());
        assert!(env(json!([{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}])).is_err());
    }

    #[test]
    fn a_child_does_not_get_what_changes_its_loading() {
        let names = [
            "LD_PRELOAD",
            "DYLD_INSERT_LIBRARIES",
            "RUST_LOG",
            "MALLOC_ARENA_MAX",
            "TMPDIR",
            "LDAP",
            "ORDER",
        ];
        let mut variables = names
            .iter()
            .map(|name| ((*name).to_owned(), String::new()))
            .collect();
        let denied = deny(&mut variables);
        assert_eq!(
            denied,
            [
                "DYLD_INSERT_LIBRARIES",
                "LD_PRELOAD",
                "MALLOC_ARENA_MAX",
                "RUST_LOG",
                "TMPDIR"
            ]
        );
        assert_eq!(variables.keys().collect::<Vec<_>>(), ["LDAP", "ORDER"]);
    }
}
