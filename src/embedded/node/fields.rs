//! Fields of a pod that its containers may ask for (`fieldRef`), in environments and downward volumes.

use k8s_openapi::api::core::v1::Pod;

/// What the node knows of a pod beside its object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placement {
    pub node_name: String,
    pub host_ip: String,
    pub pod_ip: String,
}

/// The value of a field path, or why there is none.
pub(super) fn field(path: &str, pod: &Pod, placement: &Placement) -> Result<String, String> {
    let metadata = &pod.metadata;
    if let Some((map, key)) = subscript(path) {
        let values = match map {
            "metadata.labels" => metadata.labels.as_ref(),
            "metadata.annotations" => metadata.annotations.as_ref(),
            _ => return Err(format!("field {path:?} is not supported")),
        };
        return Ok(values
            .and_then(|values| values.get(key))
            .cloned()
            .unwrap_or_default());
    }
    let spec = pod.spec.as_ref();
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    Ok(match path {
        "metadata.name" => text(metadata.name.as_ref()),
        "metadata.namespace" => text(metadata.namespace.as_ref()),
        "metadata.uid" => text(metadata.uid.as_ref()),
        "metadata.labels" => lines(metadata.labels.as_ref()),
        "metadata.annotations" => lines(metadata.annotations.as_ref()),
        "spec.nodeName" => placement.node_name.clone(),
        "spec.serviceAccountName" => text(spec.and_then(|spec| spec.service_account_name.as_ref())),
        "status.hostIP" | "status.hostIPs" => placement.host_ip.clone(),
        "status.podIP" | "status.podIPs" => placement.pod_ip.clone(),
        _ => return Err(format!("field {path:?} is not supported")),
    })
}

/// `metadata.labels['key']` as map and key.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    Some((map, rest.strip_suffix("']")?))
}

/// A whole map, as downward volumes write it: sorted, one `key="value"` a line.
fn lines(values: Option<&std::collections::BTreeMap<String, String>>) -> String {
    let lines: Vec<String> = values
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    lines.join("\n")
}
