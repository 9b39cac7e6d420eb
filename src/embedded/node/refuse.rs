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

const VOLUME_KINDS: [&str; 6] = [
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

fn check_container(container: &Container, spec: &PodSpec) -> Result<(), Refused> {
    let name = &container.name;
    let security = container.security_context.as_ref();
    if security.and_then(|security| security.privileged) == Some(true) {
        return Err(failed(format!(
            "container {name} is refused: privileged, but the host is your own machine"
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
        message,
    }
}

fn mount(volume: &str, reason: String) -> Refused {
    Refused {
        event: "FailedMount",
        message: format!("MountVolume.SetUp failed for volume {volume:?} : {reason}"),
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
                refused.starts_with(&format!("Failed: {text} is refused")),
                "{refused}"
            );
        }
        let refused = mounted(
            json!({"name": "v", "hostPath": {"path": "/"}}),
            json!({"name": "v", "mountPath": "/x"}),
        );
        assert!(
            refused
                .unwrap_err()
                .starts_with("FailedMount: MountVolume.SetUp failed for volume \"v\" : hostPath")
        );
        let privileged = json!({"name": "main", "securityContext": {"privileged": true}});
        assert!(
            judge(json!({"containers": [privileged]}))
                .unwrap_err()
                .contains("privileged")
        );
        assert!(judge(json!({"containers": [], "initContainers": [privileged]})).is_err());
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
