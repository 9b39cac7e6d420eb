//! The namespaces of the cluster, and the persona `learner`.

use serde_json::Value;

use super::{cluster_binding, cluster_role, label, namespace, role_binding, rule, user};
use crate::kinds::{MANAGED_BY, MANAGED_BY_LABEL, NAMESPACE};

/// User name of the person at the lab.
const LEARNER: &str = "learner";

pub(super) fn namespaces() -> Vec<Value> {
    let names = [
        "default",
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "argo-events",
        "argo",
    ];
    let mut objects: Vec<Value> = names.into_iter().map(namespace).collect();
    objects.push(label(namespace(NAMESPACE), MANAGED_BY_LABEL, MANAGED_BY));
    objects
}

/// The learner edits the lab namespace and mends its roles there (never beyond the rights of `admin`), and reads what
/// has no namespace.
pub(super) fn objects() -> Vec<Value> {
    let learner = || vec![user(LEARNER)];
    let cluster_view = vec![
        rule(
            "core",
            "namespaces nodes persistentvolumes",
            "get list watch",
        ),
        rule(
            "rbac.authorization.k8s.io",
            "clusterroles clusterrolebindings",
            "get list watch",
        ),
        rule(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "get list watch",
        ),
        rule("argoproj.io", "clusterworkflowtemplates", "get list watch"),
    ];
    vec![
        role_binding(NAMESPACE, "learner", ("ClusterRole", "admin"), learner()),
        cluster_role("eventlab:cluster-view", cluster_view),
        cluster_binding(
            "eventlab:learner-cluster-view",
            "eventlab:cluster-view",
            learner(),
        ),
    ]
}
