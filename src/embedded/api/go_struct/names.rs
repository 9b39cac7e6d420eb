//! Go's names of the types that Rust's structs do not tell apart: its texts, lists and maps with names of their own.

/// The struct that a field really stands in, where Go puts one into another.
pub(super) fn embedded(owner: &str, field: &str) -> Option<&'static str> {
    Some(match (owner, field) {
        ("EphemeralContainer", field) if field != "targetContainerName" => {
            "EphemeralContainerCommon"
        }
        ("Probe", "exec" | "grpc" | "httpGet" | "tcpSocket") => "ProbeHandler",
        ("Volume", field) if field != "name" => "VolumeSource",
        (
            "ConfigMapEnvSource"
            | "ConfigMapKeySelector"
            | "ConfigMapProjection"
            | "ConfigMapVolumeSource"
            | "SecretEnvSource"
            | "SecretKeySelector"
            | "SecretProjection",
            "name",
        ) => "LocalObjectReference",
        _ => return None,
    })
}

/// The name of a field's type; that of a list's elements stands behind `[]`.
pub(super) fn of(owner: &str, field: &str) -> Option<&'static str> {
    Some(match (owner, field) {
        ("SubjectAccessReviewSpec" | "UserInfo", "uid") => return None,
        (_, "uid") => "types.UID",
        (_, "limits" | "requests" | "capacity" | "allocatable" | "hard" | "used") => {
            "v1.ResourceList"
        }
        ("SubjectAccessReviewSpec" | "UserInfo", "extra") => "map[string]v1.ExtraValue",
        ("Capabilities", _) => "[]v1.Capability",
        ("ContainerPort" | "ServicePort" | "EndpointPort", "protocol") => "v1.Protocol",
        ("DeploymentStrategy", "type") => "v1.DeploymentStrategyType",
        ("EmptyDirVolumeSource", "medium") => "v1.StorageMedium",
        ("HTTPGetAction", "scheme") => "v1.URIScheme",
        ("HostPathVolumeSource", "type") => "v1.HostPathType",
        ("LabelSelectorRequirement", "operator") => "v1.LabelSelectorOperator",
        ("ManagedFieldsEntry", "operation") => "v1.ManagedFieldsOperationType",
        ("NamespaceSpec", "finalizers") => "[]v1.FinalizerName",
        ("NamespaceStatus", "phase") => "v1.NamespacePhase",
        ("NodeSelectorRequirement", "operator") => "v1.NodeSelectorOperator",
        ("PersistentVolumeClaimStatus", "phase") => "v1.PersistentVolumeClaimPhase",
        ("PodSpec", "restartPolicy") => "v1.RestartPolicy",
        ("PodStatus", "phase") => "v1.PodPhase",
        ("SeccompProfile", "type") => "v1.SeccompProfileType",
        ("Secret", "type") => "v1.SecretType",
        ("ServiceSpec", "type") => "v1.ServiceType",
        ("Taint" | "Toleration", "effect") => "v1.TaintEffect",
        ("Toleration", "operator") => "v1.TolerationOperator",
        (_, "accessModes") => "[]v1.PersistentVolumeAccessMode",
        (_, "completionMode") => "v1.CompletionMode",
        (_, "dnsPolicy") => "v1.DNSPolicy",
        (_, "externalTrafficPolicy") => "v1.ServiceExternalTrafficPolicy",
        (_, "fsGroupChangePolicy") => "v1.PodFSGroupChangePolicy",
        (_, "imagePullPolicy" | "pullPolicy") => "v1.PullPolicy",
        (_, "internalTrafficPolicy") => "v1.ServiceInternalTrafficPolicy",
        (_, "ipFamilies") => "[]v1.IPFamily",
        (_, "ipFamilyPolicy") => "v1.IPFamilyPolicy",
        (_, "mountPropagation") => "v1.MountPropagationMode",
        (_, "preemptionPolicy") => "v1.PreemptionPolicy",
        (_, "qosClass") => "v1.PodQOSClass",
        (_, "restartPolicy") => "v1.ContainerRestartPolicy",
        (_, "sessionAffinity") => "v1.ServiceAffinity",
        (_, "terminationMessagePolicy") => "v1.TerminationMessagePolicy",
        (_, "volumeMode") => "v1.PersistentVolumeMode",
        (_, "whenUnsatisfiable") => "v1.UnsatisfiableConstraintAction",
        (owner, "status") if owner.ends_with("Condition") => "v1.ConditionStatus",
        _ => return None,
    })
}
