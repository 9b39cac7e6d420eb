//! Rows of the core group.

use k8s_openapi::api;

use super::{CREATE, NO_COLLECTION, STATUS, STREAM, built_in, sub, typed};
use crate::embedded::api::registry::{Decode, Kind, SelectableField, Subresource};

const fn core(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    decode: Decode,
) -> Kind {
    built_in("", "v1", kind, plural, singular, decode)
}

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

pub(super) fn core_rows() -> Vec<Kind> {
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
                sub("attach", "PodAttachOptions", STREAM),
                sub("binding", "Binding", CREATE),
                sub("ephemeralcontainers", "Pod", STATUS),
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
