//! Roles of Argo Events' and Argo Workflows' controllers, and what both add to `admin`, `edit` and `view`.
//!
//! Source of the rights: the cluster install manifests of argo-events v1.9.11 and argo-workflows v4.1.2.

use serde_json::Value;

use super::user_facing::aggregate_label;
use super::{
    account, cluster_binding, cluster_role, label, role, role_binding, rule, service_account,
};

const ARGO: &str = "argoproj.io";
const EVENTS_HOME: &str = "argo-events";
const WORKFLOWS_HOME: &str = "argo";
const READ: &str = "get list watch";
const ALL: &str = "create delete deletecollection get list patch update watch";
const POD_WRITER: &str = "create get list watch update patch delete";

pub(super) fn objects() -> Vec<Value> {
    let mut objects = events_controller();
    objects.extend(workflow_controller());
    objects.extend(aggregates());
    objects
}

fn events_controller() -> Vec<Value> {
    let kinds = "sensors sensors/finalizers sensors/status eventsources eventsources/finalizers eventsources/status \
                 eventbus eventbus/finalizers eventbus/status";
    let rules = vec![
        rule("apiextensions.k8s.io", "customresourcedefinitions", ALL),
        rule(ARGO, kinds, ALL),
        rule(
            "core",
            "pods pods/exec configmaps services persistentvolumeclaims",
            POD_WRITER,
        ),
        rule(
            "core",
            "secrets",
            "create get list watch update patch delete",
        ),
        rule("core", "events", "create patch"),
        rule("apps", "deployments statefulsets", POD_WRITER),
        rule(
            "coordination.k8s.io",
            "leases",
            "create get list watch update patch delete",
        ),
    ];
    vec![
        service_account(EVENTS_HOME, "argo-events-sa"),
        cluster_role("argo-events-role", rules),
        cluster_binding(
            "argo-events-role-binding",
            "argo-events-role",
            vec![account(EVENTS_HOME, "argo-events-sa")],
        ),
    ]
}

fn workflow_controller() -> Vec<Value> {
    let controller = || vec![account(WORKFLOWS_HOME, "argo")];
    let local = vec![
        rule("coordination.k8s.io", "leases", "create get update"),
        rule("core", "secrets", "get"),
    ];
    vec![
        service_account(WORKFLOWS_HOME, "argo"),
        cluster_role("argo-cluster-role", workflow_controller_rules()),
        cluster_binding("argo-binding", "argo-cluster-role", controller()),
        role(WORKFLOWS_HOME, "argo-role", local),
        role_binding(
            WORKFLOWS_HOME,
            "argo-binding",
            ("Role", "argo-role"),
            controller(),
        ),
    ]
}

fn workflow_controller_rules() -> Vec<Value> {
    let templates = "workflowtemplates workflowtemplates/finalizers clusterworkflowtemplates \
                     clusterworkflowtemplates/finalizers";
    let owned = "workflows workflows/finalizers workflowtasksets workflowtasksets/finalizers workflowartifactgctasks";
    vec![
        rule("core", "pods pods/exec", POD_WRITER),
        rule("core", "configmaps namespaces", READ),
        rule(
            "core",
            "persistentvolumeclaims persistentvolumeclaims/finalizers",
            "create update delete get",
        ),
        rule(ARGO, owned, "get list watch update patch delete create"),
        rule(ARGO, templates, READ),
        rule(ARGO, "workflowtaskresults", "list watch deletecollection"),
        rule(
            ARGO,
            "cronworkflows cronworkflows/finalizers",
            "get list watch update patch delete",
        ),
        rule("core", "serviceaccounts", "get list"),
        rule("core", "events", "create patch"),
        rule("policy", "poddisruptionbudgets", "create get delete"),
    ]
}

fn aggregates() -> Vec<Value> {
    let events = "sensors sensors/finalizers sensors/status eventsources eventsources/finalizers eventsources/status \
                  eventbus eventbus/finalizers eventbus/status";
    let workflows = "workflows workflows/finalizers workfloweventbindings workfloweventbindings/finalizers \
                     workflowtemplates workflowtemplates/finalizers cronworkflows cronworkflows/finalizers \
                     clusterworkflowtemplates clusterworkflowtemplates/finalizers";
    let internal = "workflowtasksets workflowtasksets/finalizers workflowtaskresults workflowtaskresults/finalizers \
                    workflowartifactgctasks workflowartifactgctasks/finalizers";
    let mut roles = Vec::new();
    for (to, verbs) in [("view", READ), ("edit", ALL), ("admin", ALL)] {
        let mut workflow_rules = vec![rule(ARGO, workflows, verbs)];
        if to != "view" {
            workflow_rules.push(rule(ARGO, internal, verbs));
        }
        let aggregate =
            |name: String, rules| label(cluster_role(&name, rules), &aggregate_label(to), "true");
        roles.push(aggregate(
            format!("argo-events-aggregate-to-{to}"),
            vec![rule(ARGO, events, verbs)],
        ));
        roles.push(aggregate(format!("argo-aggregate-to-{to}"), workflow_rules));
    }
    roles
}
