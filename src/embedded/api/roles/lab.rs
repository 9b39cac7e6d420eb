//! The namespaces of the cluster, and the personas of the lab.

use serde_json::Value;

use super::{
    cluster_binding, cluster_role, label, namespace, role_binding, rule, service_account, user,
};
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

/// The accounts of a lab's Sensor and of its Workflows: the kubeconfig has a context for each. A lab gives them their
/// rights, and may as well delete them.
const ACCOUNTS: [&str; 2] = ["order-sensor", "order-runner"];

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
    let accounts = ACCOUNTS.map(|name| {
        let account = service_account(NAMESPACE, name);
        label(account, MANAGED_BY_LABEL, MANAGED_BY)
    });
    let mut objects = Vec::from(accounts);
    objects.extend([
        role_binding(NAMESPACE, "learner", ("ClusterRole", "admin"), learner()),
        cluster_role("eventlab:cluster-view", cluster_view),
        cluster_binding(
            "eventlab:learner-cluster-view",
            "eventlab:cluster-view",
            learner(),
        ),
    ]);
    objects
}
