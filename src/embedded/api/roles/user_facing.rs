//! The roles that people are given: `admin`, `edit` and `view`, each gathered from parts.
//!
//! Source of the rights: the bootstrap policy of kube-apiserver 1.36, for the resources that exist here.

use serde_json::{Value, json};

use super::{bootstrap, cluster_role, label, rule};

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const ALL: &str = "create delete deletecollection get list patch update watch";

pub(super) fn objects() -> Vec<Value> {
    let aggregate = |object: Value, to: &str| label(object, &aggregate_label(to), "true");
    let parts = [
        gathering("admin"),
        aggregate(gathering("edit"), "admin"),
        aggregate(gathering("view"), "edit"),
        aggregate(
            cluster_role("system:aggregate-to-admin", admin_rules()),
            "admin",
        ),
        aggregate(
            cluster_role("system:aggregate-to-edit", edit_rules()),
            "edit",
        ),
        aggregate(
            cluster_role("system:aggregate-to-view", view_rules()),
            "view",
        ),
    ];
    parts.into_iter().map(bootstrap).collect()
}

/// The label by which a ClusterRole adds its rules to `admin`, `edit` or `view`.
pub(super) fn aggregate_label(to: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{to}")
}

fn gathering(name: &str) -> Value {
    let mut object = cluster_role(name, Vec::new());
    object["aggregationRule"] =
        json!({"clusterRoleSelectors": [{"matchLabels": {aggregate_label(name): "true"}}]});
    object
}

fn admin_rules() -> Vec<Value> {
    vec![
        rule(
            "authorization.k8s.io",
            "localsubjectaccessreviews",
            "create",
        ),
        rule("rbac.authorization.k8s.io", "rolebindings roles", ALL),
    ]
}

fn edit_rules() -> Vec<Value> {
    let streams = "pods/attach pods/exec pods/portforward pods/proxy";
    vec![
        rule("core", &format!("{streams} secrets services/proxy"), READ),
        rule("core", "serviceaccounts", "impersonate"),
        rule("core", &format!("pods {streams}"), WRITE),
        rule("core", "pods/eviction", "create"),
        rule(
            "core",
            "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
             serviceaccounts services services/proxy",
            WRITE,
        ),
        rule("core", "serviceaccounts/token", "create"),
        rule(
            "apps",
            "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale \
             statefulsets statefulsets/scale",
            WRITE,
        ),
        rule("autoscaling", "horizontalpodautoscalers", WRITE),
        rule("batch", "cronjobs jobs", WRITE),
        rule("policy", "poddisruptionbudgets", WRITE),
        rule("networking.k8s.io", "ingresses networkpolicies", WRITE),
        rule("coordination.k8s.io", "leases", ALL),
    ]
}

fn view_rules() -> Vec<Value> {
    vec![
        rule(
            "core",
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers \
             replicationcontrollers/scale serviceaccounts services services/status",
            READ,
        ),
        rule(
            "core",
            "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status \
             resourcequotas resourcequotas/status",
            READ,
        ),
        rule("core", "namespaces", READ),
        rule("discovery.k8s.io", "endpointslices", READ),
        rule(
            "apps",
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status \
             replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
            READ,
        ),
        rule(
            "autoscaling",
            "horizontalpodautoscalers horizontalpodautoscalers/status",
            READ,
        ),
        rule("batch", "cronjobs cronjobs/status jobs jobs/status", READ),
        rule(
            "policy",
            "poddisruptionbudgets poddisruptionbudgets/status",
            READ,
        ),
        rule(
            "networking.k8s.io",
            "ingresses ingresses/status networkpolicies",
            READ,
        ),
    ]
}
