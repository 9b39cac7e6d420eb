//! Rows of workloads, leases, endpoint slices, definitions, and the second shape of events.

use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{SCALE, STATUS, built_in, sub, typed};
use crate::embedded::api::registry::{Kind, SelectableField, Storage, Subresource};

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

pub(super) fn workload_rows() -> Vec<Kind> {
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

pub(super) fn other_rows() -> Vec<Kind> {
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
