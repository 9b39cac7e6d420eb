//! What a pod may not ask of this node, since it would reach the host.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Volume};
use serde_json::Value;

/// A pod that will never run here, and the event that says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// Reason of the event: `FailedMount` for volumes, else `Failed`.
    pub event: &'static str,
    pub message: String,
}

/// How every refusal begins.
const MARK: &str = "eventlab:";

/// Kinds of volumes that the node gives.
pub const VOLUME_KINDS: [&str; 6] = [
    "emptyDir",
    "persistentVolumeClaim",
    "configMap",
    "secret",
    "projected",
    "downwardAPI",
];

/// Refuses what the node cannot give or must not.
pub(super) fn check(pod: &Pod) -> Result<(), Refused> {
    let Some(spec) = &pod.spec else {
        return Err(failed("the pod has no spec".to_owned()));
    };
    check_host(spec)?;
    for volume in spec.volumes.iter().flatten() {
        check_volume(volume)?;
    }
    for container in spec
        .init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
    {
        check_container(container, spec)?;
    }
    Ok(())
}

fn check_host(spec: &PodSpec) -> Result<(), Refused> {
    let asked = [
        ("hostNetwork", spec.host_network),
        ("hostPID", spec.host_pid),
        ("hostIPC", spec.host_ipc),
    ];
    for (field, value) in asked {
        if value == Some(true) {
            return Err(failed(format!(
                "spec.{field} is refused: the host is your own machine"
            )));
        }
    }
    Ok(())
}

fn check_volume(volume: &Volume) -> Result<(), Refused> {
    let name = &volume.name;
    if !is_label(name) {
        return Err(mount(name, "its name is not a DNS label".to_owned()));
    }
    let Ok(Value::Object(fields)) = serde_json::to_value(volume) else {
        return Err(mount(name, "it cannot be read".to_owned()));
    };
    let unknown = fields
        .keys()
        .find(|kind| *kind != "name" && !VOLUME_KINDS.contains(&kind.as_str()));
    match unknown.map(String::as_str) {
        None if asks_resources(volume) => Err(mount(
            name,
            "resourceFieldRef is not supported on the embedded cluster".to_owned(),
        )),
        None => Ok(()),
        Some("hostPath") => Err(mount(
            name,
            "hostPath is refused: the host is your own machine".to_owned(),
        )),
        Some(kind) => {
            let kinds = VOLUME_KINDS.join(", ");
            Err(mount(
                name,
                format!(
                    "volumes of kind {kind} do not exist on the embedded cluster, which has {kinds}"
                ),
            ))
        }
    }
}

/// Whether a file of the volume would tell what a container may use.
fn asks_resources(volume: &Volume) -> bool {
    let own = volume.downward_api.iter().flat_map(|api| &api.items);
    let projected = volume
        .projected
        .iter()
        .flat_map(|projected| projected.sources.iter().flatten())
        .filter_map(|source| source.downward_api.as_ref()?.items.as_ref());
    own.chain(projected)
        .flatten()
        .any(|item| item.resource_field_ref.is_some())
}

fn check_environment(container: &Container) -> Result<(), Refused> {
    let unknown = container.env.iter().flatten().find(|variable| {
        variable.value_from.as_ref().is_some_and(|source| {
            source.field_ref.is_none()
                && source.config_map_key_ref.is_none()
                && source.secret_key_ref.is_none()
        })
    });
    match unknown {
        None => Ok(()),
        Some(variable) => Err(failed(format!(
            "container {} is refused: the variable {:?} is valueFrom something else than fieldRef, configMapKeyRef or secretKeyRef, which is not supported on the embedded cluster",
            container.name, variable.name
        ))),
    }
}

fn check_container(container: &Container, spec: &PodSpec) -> Result<(), Refused> {
    let name = &container.name;
    check_environment(container)?;
    let security = container.security_context.as_ref();
    if security.and_then(|security| security.privileged) == Some(true) {
        return Err(failed(format!(
            "container {name} is refused: privileged, but the host is your own machine"
        )));
    }
    let hooks = container.lifecycle.as_ref();
    if hooks.is_some_and(|hooks| hooks.post_start.is_some() || hooks.pre_stop.is_some()) {
        return Err(failed(format!(
            "container {name} is refused: hooks of its lifecycle are not run on the embedded cluster"
        )));
    }
    if !is_label(name) {
        return Err(failed(format!(
            "container {name:?} is refused: its name is not a DNS label"
        )));
    }
    let known = |volume: &str| {
        spec.volumes
            .iter()
            .flatten()
            .any(|known| known.name == volume)
    };
    for asked in container.volume_mounts.iter().flatten() {
        if !known(&asked.name) {
            return Err(mount(
                &asked.name,
                format!("container {name} mounts it, but the pod has no such volume"),
            ));
        }
        if !asked.mount_path.starts_with('/') || asked.mount_path.contains([':', '\0']) {
            return Err(mount(
                &asked.name,
                format!("mountPath {:?} is not an absolute path", asked.mount_path),
            ));
        }
        let sub_path = asked.sub_path.as_deref().unwrap_or_default();
        if !sub_path.is_empty() && !is_relative(sub_path) {
            return Err(mount(
                &asked.name,
                format!("subPath {sub_path:?} must stay inside the volume"),
            ));
        }
        if asked.sub_path_expr.is_some() {
            return Err(mount(
                &asked.name,
                "subPathExpr is not supported on the embedded cluster".to_owned(),
            ));
        }
    }
    Ok(())
}

fn failed(message: String) -> Refused {
    Refused {
        event: "Failed",
        message: format!("{MARK} {message}"),
    }
}

fn mount(volume: &str, reason: String) -> Refused {
    Refused {
        event: "FailedMount",
        message: format!("{MARK} MountVolume.SetUp failed for volume {volume:?} : {reason}"),
    }
}

/// A DNS label (RFC 1123), which is also a harmless file name.
fn is_label(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 63
        && !name.starts_with('-')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// A path that stays below the folder it is joined to.
pub(super) fn is_relative(path: &str) -> bool {
    !path.is_empty()
        && path.len() <= 1024
        && !path.contains('\0')
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judge(spec: Value) -> Result<(), String> {
        let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        check(&pod).map_err(|refused| format!("{}: {}", refused.event, refused.message))
    }

    fn mounted(volume: Value, mount: Value) -> Result<(), String> {
        judge(
            json!({"containers": [{"name": "main", "volumeMounts": [mount]}], "volumes": [volume]}),
        )
    }

    #[test]
    fn the_host_is_out_of_reach() {
        for (field, text) in [
            ("hostNetwork", "spec.hostNetwork"),
            ("hostPID", "spec.hostPID"),
            ("hostIPC", "spec.hostIPC"),
        ] {
            let refused = judge(json!({"containers": [], field: true})).unwrap_err();
            assert!(
                refused.starts_with(&format!("Failed: eventlab: {text} is refused")),
                "{refused}"
            );
        }
        let refused = mounted(
            json!({"name": "v", "hostPath": {"path": "/"}}),
            json!({"name": "v", "mountPath": "/x"}),
        );
        assert!(refused.unwrap_err().starts_with(
            "FailedMount: eventlab: MountVolume.SetUp failed for volume \"v\" : hostPath"
        ));
        let privileged = json!({"name": "main", "securityContext": {"privileged": true}});
        assert!(
            judge(json!({"containers": [privileged]}))
                .unwrap_err()
                .contains("privileged")
        );
        assert!(judge(json!({"containers": [], "initContainers": [privileged]})).is_err());
        let hooked =
            json!({"name": "main", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}});
        assert!(
            judge(json!({"containers": [hooked]}))
                .unwrap_err()
                .starts_with("Failed: eventlab: container main is refused")
        );
    }

    /// Whatever the node refuses for ever says by its first word who refuses it.
    #[test]
    fn every_refusal_begins_with_the_name_of_who_refuses() {
        let resource = json!({"resource": "limits.cpu", "containerName": "main"});
        let item = json!({"path": "cpu", "resourceFieldRef": resource});
        let container = |fields: Value| {
            let mut container = fields;
            container["name"] = json!("main");
            json!({"containers": [container]})
        };
        let volume = |volume: Value| json!({"containers": [], "volumes": [volume]});
        let mount = |mount: Value| json!({"containers": [{"name": "main", "volumeMounts": [mount]}], "volumes": [{"name": "v", "emptyDir": {}}]});
        for spec in [
            json!({"containers": [], "hostNetwork": true}),
            container(json!({"securityContext": {"privileged": true}})),
            container(json!({"lifecycle": {"postStart": {"exec": {"command": ["x"]}}}})),
            container(
                json!({"env": [{"name": "CPU", "valueFrom": {"resourceFieldRef": resource}}]}),
            ),
            volume(json!({"name": "v", "hostPath": {"path": "/"}})),
            volume(json!({"name": "v", "nfs": {"server": "s", "path": "/"}})),
            volume(json!({"name": "v", "downwardAPI": {"items": [item]}})),
            volume(
                json!({"name": "v", "projected": {"sources": [{"downwardAPI": {"items": [item]}}]}}),
            ),
            mount(json!({"name": "v", "mountPath": "/x", "subPathExpr": "$(X)"})),
            mount(json!({"name": "v", "mountPath": "x"})),
            mount(json!({"name": "w", "mountPath": "/x"})),
        ] {
            let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
            let refused = check(&pod).unwrap_err();
            assert!(refused.message.starts_with("eventlab: "), "{refused:?}");
        }
    }

    #[test]
    fn unknown_volumes_are_named() {
        let refused = judge(
            json!({"containers": [], "volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]}),
        );
        assert!(
            refused
                .unwrap_err()
                .contains("volumes of kind nfs do not exist")
        );
        assert!(
            judge(json!({"containers": [], "volumes": [{"name": "../v", "emptyDir": {}}]}))
                .is_err()
        );
        let unknown = judge(
            json!({"containers": [{"name": "main", "volumeMounts": [{"name": "w", "mountPath": "/x"}]}]}),
        );
        assert!(unknown.unwrap_err().contains("no such volume"));
    }

    #[test]
    fn sub_paths_stay_in_their_volume() {
        let sub_path = |path: &str| {
            mounted(
                json!({"name": "v", "emptyDir": {}}),
                json!({"name": "v", "mountPath": "/x", "subPath": path}),
            )
        };
        for fine in ["", "a", "a/b", "..a", "a.."] {
            assert_eq!(sub_path(fine), Ok(()), "{fine}");
        }
        for escape in [
            "..",
            "../x",
            "a/../../x",
            "/etc",
            "a/..",
            "./a",
            "a//b",
            "a\u{0}",
        ] {
            assert!(sub_path(escape).is_err(), "{escape}");
        }
        let relative = mounted(
            json!({"name": "v", "emptyDir": {}}),
            json!({"name": "v", "mountPath": "x"}),
        );
        assert!(relative.is_err());
    }
}
