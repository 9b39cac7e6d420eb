//! Roles of Kubernetes itself: everybody's discovery, the node, the scheduler, the controllers.
//!
//! Source of the rights: the bootstrap policy of kube-apiserver 1.36.

use serde_json::Value;

use super::{
    account, bootstrap, cluster_binding, cluster_role, events_rule, group, rule, service_account,
    url_rule, user,
};

const AUTHENTICATED: &str = "system:authenticated";

pub(super) fn objects() -> Vec<Value> {
    let mut objects = everybody();
    objects.extend(node());
    objects.extend(scheduler());
    objects.extend(controllers());
    objects
}

fn everybody() -> Vec<Value> {
    let discovery =
        "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/";
    let objects = [
        cluster_role(
            "cluster-admin",
            vec![rule("*", "*", "*"), url_rule("*", "*")],
        ),
        cluster_binding(
            "cluster-admin",
            "cluster-admin",
            vec![group("system:masters")],
        ),
        cluster_role("system:discovery", vec![url_rule(discovery, "get")]),
        cluster_binding(
            "system:discovery",
            "system:discovery",
            vec![group(AUTHENTICATED)],
        ),
        cluster_role(
            "system:basic-user",
            vec![
                rule(
                    "authorization.k8s.io",
                    "selfsubjectaccessreviews selfsubjectrulesreviews",
                    "create",
                ),
                rule("authentication.k8s.io", "selfsubjectreviews", "create"),
            ],
        ),
        cluster_binding(
            "system:basic-user",
            "system:basic-user",
            vec![group(AUTHENTICATED)],
        ),
        cluster_role(
            "system:public-info-viewer",
            vec![url_rule(
                "/healthz /livez /readyz /version /version/",
                "get",
            )],
        ),
        cluster_binding(
            "system:public-info-viewer",
            "system:public-info-viewer",
            vec![group(AUTHENTICATED), group("system:unauthenticated")],
        ),
    ];
    objects.into_iter().map(bootstrap).collect()
}

/// The real node is judged by an authorizer of its own that looks at its pods; here its role is bound to all nodes.
fn node() -> Vec<Value> {
    let rules = vec![
        rule("authentication.k8s.io", "tokenreviews", "create"),
        rule(
            "authorization.k8s.io",
            "localsubjectaccessreviews subjectaccessreviews",
            "create",
        ),
        rule("core", "services", "get list watch"),
        rule("core", "nodes", "create get list watch patch update"),
        rule("core", "nodes/status", "patch update"),
        rule("core", "events", "create patch update"),
        rule("core", "pods", "get list watch create delete"),
        rule("core", "pods/status", "patch update"),
        rule("core", "pods/eviction", "create"),
        rule("core", "configmaps secrets", "get list watch"),
        rule(
            "core",
            "persistentvolumeclaims persistentvolumes",
            "get list watch",
        ),
        rule("core", "persistentvolumeclaims/status", "get patch update"),
        rule("core", "endpoints", "get"),
        rule("core", "serviceaccounts", "get list watch"),
        rule("core", "serviceaccounts/token", "create"),
        rule(
            "coordination.k8s.io",
            "leases",
            "create delete get patch update",
        ),
    ];
    vec![
        bootstrap(cluster_role("system:node", rules)),
        bootstrap(cluster_binding(
            "system:node",
            "system:node",
            vec![group("system:nodes")],
        )),
    ]
}

fn scheduler() -> Vec<Value> {
    let rules = vec![
        events_rule(),
        rule(
            "coordination.k8s.io",
            "leases",
            "create get list update watch",
        ),
        rule("core", "nodes", "get list watch"),
        rule("core", "pods", "delete get list watch"),
        rule("core", "bindings pods/binding", "create"),
        rule("core", "pods/status", "patch update"),
        rule("core", "replicationcontrollers services", "get list watch"),
        rule("apps", "replicasets statefulsets", "get list watch"),
        rule("policy", "poddisruptionbudgets", "get list watch"),
        rule(
            "core",
            "persistentvolumeclaims persistentvolumes",
            "get list watch",
        ),
        rule("core", "namespaces", "get list watch"),
        rule("authentication.k8s.io", "tokenreviews", "create"),
        rule("authorization.k8s.io", "subjectaccessreviews", "create"),
    ];
    vec![
        bootstrap(cluster_role("system:kube-scheduler", rules)),
        bootstrap(cluster_binding(
            "system:kube-scheduler",
            "system:kube-scheduler",
            vec![user("system:kube-scheduler")],
        )),
    ]
}

fn controllers() -> Vec<Value> {
    let garbage_collector = vec![
        rule("*", "*", "delete get list patch update watch"),
        events_rule(),
    ];
    let table = [
        ("deployment-controller", deployment_controller()),
        ("replicaset-controller", replicaset_controller()),
        ("statefulset-controller", statefulset_controller()),
        ("endpoint-controller", endpoint_controller()),
        ("endpointslice-controller", endpoint_slice_controller()),
        ("namespace-controller", namespace_controller()),
        ("generic-garbage-collector", garbage_collector),
    ];
    let mut objects = Vec::new();
    for (name, rules) in table {
        let role = format!("system:controller:{name}");
        let subjects = vec![account("kube-system", name)];
        objects.push(service_account("kube-system", name));
        objects.push(bootstrap(cluster_role(&role, rules)));
        objects.push(bootstrap(cluster_binding(&role, &role, subjects)));
    }
    objects
}

fn endpoint_controller() -> Vec<Value> {
    vec![
        rule("core", "pods services", "get list watch"),
        rule("core", "endpoints", "create delete get list update watch"),
        rule("core", "endpoints/restricted", "create"),
        events_rule(),
    ]
}

fn endpoint_slice_controller() -> Vec<Value> {
    vec![
        rule("core", "nodes pods services", "get list watch"),
        rule("core", "services/finalizers", "update"),
        rule(
            "discovery.k8s.io",
            "endpointslices",
            "create delete get list update watch",
        ),
        events_rule(),
    ]
}

fn namespace_controller() -> Vec<Value> {
    vec![
        rule("core", "namespaces", "delete get list watch"),
        rule("core", "namespaces/finalize namespaces/status", "update"),
        rule("*", "*", "delete deletecollection get list watch"),
    ]
}

fn deployment_controller() -> Vec<Value> {
    vec![
        rule("apps extensions", "deployments", "get list update watch"),
        rule("apps extensions", "deployments/status", "update"),
        rule("apps extensions", "deployments/finalizers", "update"),
        rule(
            "apps extensions",
            "replicasets",
            "create delete get list patch update watch",
        ),
        rule("core", "pods", "get list update watch"),
        events_rule(),
    ]
}

fn replicaset_controller() -> Vec<Value> {
    vec![
        rule("apps extensions", "replicasets", "get list update watch"),
        rule("apps extensions", "replicasets/status", "update"),
        rule("apps extensions", "replicasets/finalizers", "update"),
        rule("core", "pods", "create delete list patch watch"),
        events_rule(),
    ]
}

fn statefulset_controller() -> Vec<Value> {
    vec![
        rule("core", "pods", "list watch"),
        rule("apps", "statefulsets", "get list watch"),
        rule("apps", "statefulsets/status", "update"),
        rule("apps", "statefulsets/finalizers", "update"),
        rule("core", "pods", "create delete get patch update"),
        rule(
            "apps",
            "controllerrevisions",
            "create delete get list patch update watch",
        ),
        rule(
            "core",
            "persistentvolumeclaims",
            "create delete get list update watch",
        ),
        events_rule(),
    ]
}
