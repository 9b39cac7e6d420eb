//! Rows of Argo's kinds.

use super::{STATUS, sub};
use crate::embedded::api::registry::{Column, Kind, Storage};

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

pub(super) fn argo_rows() -> Vec<Kind> {
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
