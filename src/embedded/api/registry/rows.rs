//! The rows of the table of kinds.

use k8s_openapi::api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Column, Decode, Kind, SelectableField, Storage, Subresource};

const ALL: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
/// Custom kinds list their verbs in this order.
const CUSTOM: &[&str] = &[
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const NO_COLLECTION: &[&str] = &[
    "create", "delete", "get", "list", "patch", "update", "watch",
];
const CREATE: &[&str] = &["create"];
const STATUS: &[&str] = &["get", "patch", "update"];
const STREAM: &[&str] = &["create", "get"];

fn typed<T: DeserializeOwned + Serialize>(value: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(value)?)
}

const fn built_in(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    decode: Decode,
) -> Kind {
    Kind {
        group,
        version,
        kind,
        plural,
        singular,
        short_names: &[],
        categories: &[],
        namespaced: true,
        verbs: ALL,
        status: false,
        subresources: &[],
        storage: Storage::Own,
        custom: false,
        body: &[],
        generation: false,
        decode: Some(decode),
        fields: &[],
        columns: &[],
    }
}

const fn core(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    decode: Decode,
) -> Kind {
    built_in("", "v1", kind, plural, singular, decode)
}

const fn rbac(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    decode: Decode,
) -> Kind {
    built_in(
        "rbac.authorization.k8s.io",
        "v1",
        kind,
        plural,
        singular,
        decode,
    )
}

const fn review(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    decode: Decode,
) -> Kind {
    Kind {
        verbs: CREATE,
        storage: Storage::Virtual,
        namespaced: false,
        ..built_in(group, "v1", kind, plural, singular, decode)
    }
}

const fn argo(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short_names: &'static [&'static str],
) -> Kind {
    Kind {
        group: "argoproj.io",
        version: "v1alpha1",
        kind,
        plural,
        singular,
        short_names,
        categories: &[],
        namespaced: true,
        verbs: CUSTOM,
        status: false,
        subresources: &[],
        storage: Storage::Own,
        custom: true,
        body: &["spec", "status"],
        generation: true,
        decode: None,
        fields: &[],
        columns: &[],
    }
}

const fn sub(
    name: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
) -> Subresource {
    Subresource {
        name,
        kind,
        group_version: None,
        verbs,
    }
}

const SCALE: Subresource = Subresource {
    name: "scale",
    kind: "Scale",
    group_version: Some(("autoscaling", "v1")),
    verbs: STATUS,
};

const POD_FIELDS: &[SelectableField] = &[
    SelectableField {
        label: "spec.nodeName",
        pointers: &["/spec/nodeName"],
    },
    SelectableField {
        label: "spec.restartPolicy",
        pointers: &["/spec/restartPolicy"],
    },
    SelectableField {
        label: "spec.schedulerName",
        pointers: &["/spec/schedulerName"],
    },
    SelectableField {
        label: "spec.serviceAccountName",
        pointers: &["/spec/serviceAccountName"],
    },
    SelectableField {
        label: "spec.hostNetwork",
        pointers: &["/spec/hostNetwork"],
    },
    SelectableField {
        label: "status.phase",
        pointers: &["/status/phase"],
    },
    SelectableField {
        label: "status.podIP",
        pointers: &["/status/podIP"],
    },
    SelectableField {
        label: "status.nominatedNodeName",
        pointers: &["/status/nominatedNodeName"],
    },
];

const EVENT_FIELDS: &[SelectableField] = &[
    SelectableField {
        label: "involvedObject.kind",
        pointers: &["/involvedObject/kind"],
    },
    SelectableField {
        label: "involvedObject.namespace",
        pointers: &["/involvedObject/namespace"],
    },
    SelectableField {
        label: "involvedObject.name",
        pointers: &["/involvedObject/name"],
    },
    SelectableField {
        label: "involvedObject.uid",
        pointers: &["/involvedObject/uid"],
    },
    SelectableField {
        label: "involvedObject.apiVersion",
        pointers: &["/involvedObject/apiVersion"],
    },
    SelectableField {
        label: "involvedObject.resourceVersion",
        pointers: &["/involvedObject/resourceVersion"],
    },
    SelectableField {
        label: "involvedObject.fieldPath",
        pointers: &["/involvedObject/fieldPath"],
    },
    SelectableField {
        label: "reason",
        pointers: &["/reason"],
    },
    SelectableField {
        label: "reportingComponent",
        pointers: &["/reportingComponent"],
    },
    SelectableField {
        label: "source",
        pointers: &["/source/component", "/reportingComponent"],
    },
    SelectableField {
        label: "type",
        pointers: &["/type"],
    },
];

const REGARDING_FIELDS: &[SelectableField] = &[
    SelectableField {
        label: "regarding.kind",
        pointers: &["/involvedObject/kind"],
    },
    SelectableField {
        label: "regarding.namespace",
        pointers: &["/involvedObject/namespace"],
    },
    SelectableField {
        label: "regarding.name",
        pointers: &["/involvedObject/name"],
    },
    SelectableField {
        label: "regarding.uid",
        pointers: &["/involvedObject/uid"],
    },
    SelectableField {
        label: "regarding.apiVersion",
        pointers: &["/involvedObject/apiVersion"],
    },
    SelectableField {
        label: "regarding.fieldPath",
        pointers: &["/involvedObject/fieldPath"],
    },
    SelectableField {
        label: "reason",
        pointers: &["/reason"],
    },
    SelectableField {
        label: "reportingController",
        pointers: &["/reportingComponent"],
    },
    SelectableField {
        label: "type",
        pointers: &["/type"],
    },
];

const WORKFLOW_COLUMNS: &[Column] = &[
    Column {
        name: "Status",
        kind: "string",
        format: "",
        path: "status.phase",
    },
    Column {
        name: "Age",
        kind: "date",
        format: "date-time",
        path: "status.startedAt",
    },
    Column {
        name: "Message",
        kind: "string",
        format: "",
        path: "status.message",
    },
];

/// All rows, group by group.
pub(super) fn table() -> Vec<Kind> {
    let mut rows = core_rows();
    rows.extend(workload_rows());
    rows.extend(other_rows());
    rows.extend(rbac_rows());
    rows.extend(review_rows());
    rows.extend(argo_rows());
    rows
}

fn core_rows() -> Vec<Kind> {
    use api::core::v1 as types;
    vec![
        Kind {
            short_names: &["cm"],
            ..core(
                "ConfigMap",
                "configmaps",
                "configmap",
                typed::<types::ConfigMap>,
            )
        },
        Kind {
            short_names: &["ep"],
            ..core(
                "Endpoints",
                "endpoints",
                "endpoints",
                typed::<types::Endpoints>,
            )
        },
        Kind {
            short_names: &["ev"],
            fields: EVENT_FIELDS,
            ..core("Event", "events", "event", typed::<types::Event>)
        },
        Kind {
            short_names: &["limits"],
            ..core(
                "LimitRange",
                "limitranges",
                "limitrange",
                typed::<types::LimitRange>,
            )
        },
        Kind {
            short_names: &["ns"],
            namespaced: false,
            verbs: NO_COLLECTION,
            status: true,
            subresources: const {
                &[
                    sub("finalize", "Namespace", &["update"]),
                    sub("status", "Namespace", STATUS),
                ]
            },
            fields: const {
                &[SelectableField {
                    label: "status.phase",
                    pointers: &["/status/phase"],
                }]
            },
            ..core(
                "Namespace",
                "namespaces",
                "namespace",
                typed::<types::Namespace>,
            )
        },
        Kind {
            short_names: &["no"],
            namespaced: false,
            status: true,
            subresources: const { &[sub("status", "Node", STATUS)] },
            fields: const {
                &[SelectableField {
                    label: "spec.unschedulable",
                    pointers: &["/spec/unschedulable"],
                }]
            },
            ..core("Node", "nodes", "node", typed::<types::Node>)
        },
        Kind {
            short_names: &["pvc"],
            status: true,
            subresources: const { &[sub("status", "PersistentVolumeClaim", STATUS)] },
            ..core(
                "PersistentVolumeClaim",
                "persistentvolumeclaims",
                "persistentvolumeclaim",
                typed::<types::PersistentVolumeClaim>,
            )
        },
        pods(),
        Kind {
            short_names: &["quota"],
            status: true,
            subresources: const { &[sub("status", "ResourceQuota", STATUS)] },
            ..core(
                "ResourceQuota",
                "resourcequotas",
                "resourcequota",
                typed::<types::ResourceQuota>,
            )
        },
        Kind {
            fields: const {
                &[SelectableField {
                    label: "type",
                    pointers: &["/type"],
                }]
            },
            ..core("Secret", "secrets", "secret", typed::<types::Secret>)
        },
        Kind {
            short_names: &["sa"],
            subresources: const {
                &[Subresource {
                    name: "token",
                    kind: "TokenRequest",
                    group_version: Some(("authentication.k8s.io", "v1")),
                    verbs: CREATE,
                }]
            },
            ..core(
                "ServiceAccount",
                "serviceaccounts",
                "serviceaccount",
                typed::<types::ServiceAccount>,
            )
        },
        Kind {
            short_names: &["svc"],
            categories: &["all"],
            status: true,
            subresources: const { &[sub("status", "Service", STATUS)] },
            fields: const {
                &[
                    SelectableField {
                        label: "spec.clusterIP",
                        pointers: &["/spec/clusterIP"],
                    },
                    SelectableField {
                        label: "spec.type",
                        pointers: &["/spec/type"],
                    },
                ]
            },
            ..core("Service", "services", "service", typed::<types::Service>)
        },
    ]
}

fn pods() -> Kind {
    Kind {
        short_names: &["po"],
        categories: &["all"],
        status: true,
        generation: true,
        subresources: const {
            &[
                sub("binding", "Binding", CREATE),
                sub("exec", "PodExecOptions", STREAM),
                sub("log", "Pod", &["get"]),
                sub("portforward", "PodPortForwardOptions", STREAM),
                sub("status", "Pod", STATUS),
            ]
        },
        fields: POD_FIELDS,
        ..core("Pod", "pods", "pod", typed::<api::core::v1::Pod>)
    }
}

fn workload_rows() -> Vec<Kind> {
    use api::{apps, batch};
    const SETS: &[Subresource] = &[SCALE, sub("status", "ReplicaSet", STATUS)];
    const DEPLOYMENTS: &[Subresource] = &[SCALE, sub("status", "Deployment", STATUS)];
    vec![
        Kind {
            short_names: &["deploy"],
            categories: &["all"],
            status: true,
            generation: true,
            subresources: DEPLOYMENTS,
            ..built_in(
                "apps",
                "v1",
                "Deployment",
                "deployments",
                "deployment",
                typed::<apps::v1::Deployment>,
            )
        },
        Kind {
            short_names: &["rs"],
            categories: &["all"],
            status: true,
            generation: true,
            subresources: SETS,
            fields: const {
                &[SelectableField {
                    label: "status.replicas",
                    pointers: &["/status/replicas"],
                }]
            },
            ..built_in(
                "apps",
                "v1",
                "ReplicaSet",
                "replicasets",
                "replicaset",
                typed::<apps::v1::ReplicaSet>,
            )
        },
        Kind {
            short_names: &["sts"],
            categories: &["all"],
            status: true,
            generation: true,
            subresources: const { &[SCALE, sub("status", "StatefulSet", STATUS)] },
            ..built_in(
                "apps",
                "v1",
                "StatefulSet",
                "statefulsets",
                "statefulset",
                typed::<apps::v1::StatefulSet>,
            )
        },
        Kind {
            categories: &["all"],
            status: true,
            generation: true,
            subresources: const { &[sub("status", "Job", STATUS)] },
            ..built_in("batch", "v1", "Job", "jobs", "job", typed::<batch::v1::Job>)
        },
    ]
}

fn other_rows() -> Vec<Kind> {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    vec![
        Kind {
            short_names: &["crd", "crds"],
            categories: &["api-extensions"],
            namespaced: false,
            status: true,
            generation: true,
            subresources: const { &[sub("status", "CustomResourceDefinition", STATUS)] },
            ..built_in(
                "apiextensions.k8s.io",
                "v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
                "customresourcedefinition",
                typed::<CustomResourceDefinition>,
            )
        },
        built_in(
            "coordination.k8s.io",
            "v1",
            "Lease",
            "leases",
            "lease",
            typed::<api::coordination::v1::Lease>,
        ),
        built_in(
            "discovery.k8s.io",
            "v1",
            "EndpointSlice",
            "endpointslices",
            "endpointslice",
            typed::<api::discovery::v1::EndpointSlice>,
        ),
        Kind {
            short_names: &["ev"],
            storage: Storage::Shared("events"),
            fields: REGARDING_FIELDS,
            ..built_in(
                "events.k8s.io",
                "v1",
                "Event",
                "events",
                "event",
                typed::<api::events::v1::Event>,
            )
        },
    ]
}

fn rbac_rows() -> Vec<Kind> {
    use api::rbac::v1 as types;
    vec![
        Kind {
            namespaced: false,
            ..rbac(
                "ClusterRoleBinding",
                "clusterrolebindings",
                "clusterrolebinding",
                typed::<types::ClusterRoleBinding>,
            )
        },
        Kind {
            namespaced: false,
            ..rbac(
                "ClusterRole",
                "clusterroles",
                "clusterrole",
                typed::<types::ClusterRole>,
            )
        },
        rbac(
            "RoleBinding",
            "rolebindings",
            "rolebinding",
            typed::<types::RoleBinding>,
        ),
        rbac("Role", "roles", "role", typed::<types::Role>),
    ]
}

fn review_rows() -> Vec<Kind> {
    use api::{authentication, authorization};
    const AUTHN: &str = "authentication.k8s.io";
    const AUTHZ: &str = "authorization.k8s.io";
    vec![
        review(
            AUTHN,
            "SelfSubjectReview",
            "selfsubjectreviews",
            "selfsubjectreview",
            typed::<authentication::v1::SelfSubjectReview>,
        ),
        review(
            AUTHN,
            "TokenReview",
            "tokenreviews",
            "tokenreview",
            typed::<authentication::v1::TokenReview>,
        ),
        Kind {
            namespaced: true,
            ..review(
                AUTHZ,
                "LocalSubjectAccessReview",
                "localsubjectaccessreviews",
                "localsubjectaccessreview",
                typed::<authorization::v1::LocalSubjectAccessReview>,
            )
        },
        review(
            AUTHZ,
            "SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            "selfsubjectaccessreview",
            typed::<authorization::v1::SelfSubjectAccessReview>,
        ),
        review(
            AUTHZ,
            "SelfSubjectRulesReview",
            "selfsubjectrulesreviews",
            "selfsubjectrulesreview",
            typed::<authorization::v1::SelfSubjectRulesReview>,
        ),
        review(
            AUTHZ,
            "SubjectAccessReview",
            "subjectaccessreviews",
            "subjectaccessreview",
            typed::<authorization::v1::SubjectAccessReview>,
        ),
    ]
}

fn argo_rows() -> Vec<Kind> {
    vec![
        Kind {
            status: true,
            subresources: const { &[sub("status", "WorkflowTaskSet", STATUS)] },
            ..argo(
                "WorkflowTaskSet",
                "workflowtasksets",
                "workflowtaskset",
                &["wfts"],
            )
        },
        Kind {
            columns: WORKFLOW_COLUMNS,
            ..argo("Workflow", "workflows", "workflow", &["wf"])
        },
        Kind {
            namespaced: false,
            ..argo(
                "ClusterWorkflowTemplate",
                "clusterworkflowtemplates",
                "clusterworkflowtemplate",
                &["clusterwftmpl", "cwft"],
            )
        },
        argo(
            "WorkflowEventBinding",
            "workfloweventbindings",
            "workfloweventbinding",
            &["wfeb"],
        ),
        Kind {
            status: true,
            subresources: const { &[sub("status", "EventBus", STATUS)] },
            ..argo("EventBus", "eventbus", "eventbus", &["eb"])
        },
        Kind {
            body: &["message", "outputs", "phase", "progress"],
            ..argo(
                "WorkflowTaskResult",
                "workflowtaskresults",
                "workflowtaskresult",
                &[],
            )
        },
        argo(
            "WorkflowTemplate",
            "workflowtemplates",
            "workflowtemplate",
            &["wftmpl"],
        ),
        Kind {
            status: true,
            subresources: const { &[sub("status", "WorkflowArtifactGCTask", STATUS)] },
            ..argo(
                "WorkflowArtifactGCTask",
                "workflowartifactgctasks",
                "workflowartifactgctask",
                &["wfat"],
            )
        },
        argo(
            "CronWorkflow",
            "cronworkflows",
            "cronworkflow",
            &["cwf", "cronwf"],
        ),
        Kind {
            status: true,
            subresources: const { &[sub("status", "EventSource", STATUS)] },
            ..argo("EventSource", "eventsources", "eventsource", &["es"])
        },
        Kind {
            status: true,
            subresources: const { &[sub("status", "Sensor", STATUS)] },
            ..argo("Sensor", "sensors", "sensor", &["sn"])
        },
    ]
}
