use std::collections::HashSet;

use super::*;
use crate::embedded::api::attributes::{ResourceAttributes, User};
use crate::embedded::api::rbac::Policy;

fn may(who: &str, groups: &[&str], verb: &str, resource: &str, namespace: &str) -> bool {
    let (group, resource) = resource.split_once(':').unwrap_or(("", resource));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let user = User {
        name: who.into(),
        groups: groups.iter().map(|&g| g.into()).collect(),
        ..User::default()
    };
    let attributes = ResourceAttributes {
        verb: verb.into(),
        group: group.into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        ..ResourceAttributes::default()
    };
    let objects = defaults();
    Policy::new(&objects)
        .authorize_resource(&user, &attributes)
        .allowed
}

#[test]
fn objects_are_whole_and_unique_and_their_namespaces_exist() {
    let objects = defaults();
    let namespaces: HashSet<&str> = objects
        .iter()
        .filter(|o| o["kind"] == "Namespace")
        .filter_map(|o| o["metadata"]["name"].as_str())
        .collect();
    let mut seen = HashSet::new();
    for object in &objects {
        let metadata = &object["metadata"];
        let key = (
            object["kind"].as_str().unwrap(),
            metadata["namespace"].as_str(),
            metadata["name"].as_str().unwrap(),
        );
        assert!(seen.insert(key), "{key:?} twice");
        assert!(object["apiVersion"].is_string());
        if let Some(namespace) = key.1 {
            assert!(namespaces.contains(namespace), "{key:?}");
        }
    }
    assert!(namespaces.contains("eventlab") && namespaces.contains("argo-events"));
}

#[test]
fn every_binding_refers_to_a_role_that_exists() {
    let objects = defaults();
    for binding in objects.iter().filter(|o| o.get("roleRef").is_some()) {
        let found = objects.iter().any(|o| {
            o["kind"] == binding["roleRef"]["kind"]
                && o["metadata"]["name"] == binding["roleRef"]["name"]
        });
        assert!(found, "{}", binding["metadata"]["name"]);
    }
}

#[test]
fn aggregated_roles_carry_their_rules() {
    for name in ["admin", "edit", "view"] {
        let objects = defaults();
        let role = objects
            .iter()
            .find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == name)
            .unwrap();
        let rules = role["rules"].as_array().unwrap();
        assert!(rules.iter().any(|rule| {
            rule["resources"]
                .as_array()
                .is_some_and(|r| r.contains(&json!("sensors")))
        }));
    }
}

#[test]
fn the_learner_edits_the_lab_namespace_only() {
    assert!(may(
        "learner",
        &[],
        "patch",
        "argoproj.io:sensors",
        "eventlab"
    ));
    assert!(may("learner", &[], "get", "pods/log", "eventlab"));
    assert!(may(
        "learner",
        &[],
        "create",
        "rbac.authorization.k8s.io:rolebindings",
        "eventlab"
    ));
    assert!(may("learner", &[], "list", "namespaces", ""));
    assert!(!may("learner", &[], "patch", "argoproj.io:sensors", "argo"));
    assert!(!may("learner", &[], "get", "secrets", "kube-system"));
    assert!(!may(
        "learner",
        &[],
        "create",
        "rbac.authorization.k8s.io:clusterrolebindings",
        ""
    ));
}

#[test]
fn controllers_hold_what_the_real_ones_hold_and_no_more() {
    let events = "system:serviceaccount:argo-events:argo-events-sa";
    assert!(may(events, &[], "create", "apps:deployments", "eventlab"));
    assert!(may(
        events,
        &[],
        "update",
        "argoproj.io:sensors/status",
        "eventlab"
    ));
    assert!(!may(
        events,
        &[],
        "create",
        "argoproj.io:workflows",
        "eventlab"
    ));
    let workflows = "system:serviceaccount:argo:argo";
    assert!(may(workflows, &[], "create", "pods", "eventlab"));
    assert!(may(
        workflows,
        &[],
        "deletecollection",
        "argoproj.io:workflowtaskresults",
        "eventlab"
    ));
    assert!(!may(
        workflows,
        &[],
        "create",
        "argoproj.io:workflowtaskresults",
        "eventlab"
    ));
    assert!(may(workflows, &[], "get", "secrets", "argo"));
    assert!(!may(workflows, &[], "get", "secrets", "eventlab"));
    assert!(may(
        "system:kube-scheduler",
        &[],
        "create",
        "pods/binding",
        "eventlab"
    ));
    assert!(may(
        "system:node:eventlab",
        &["system:nodes"],
        "patch",
        "pods/status",
        "eventlab"
    ));
    assert!(may(
        "system:serviceaccount:kube-system:deployment-controller",
        &[],
        "create",
        "apps:replicasets",
        "x"
    ));
    let endpoints = "system:serviceaccount:kube-system:endpoint-controller";
    assert!(may(endpoints, &[], "update", "endpoints", "x"));
    // In Kubernetes each kind has an account of its own.
    let slices = "system:serviceaccount:kube-system:endpointslice-controller";
    for (user, allowed) in [(endpoints, false), (slices, true)] {
        let kind = "discovery.k8s.io:endpointslices";
        assert_eq!(may(user, &[], "create", kind, "x"), allowed, "{user}");
    }
    let namespaces = "system:serviceaccount:kube-system:namespace-controller";
    assert!(may(namespaces, &[], "update", "namespaces/finalize", "x"));
    assert!(may(namespaces, &[], "delete", "argoproj.io:workflows", "x"));
    assert!(!may(
        "system:serviceaccount:eventlab:default",
        &["system:authenticated"],
        "get",
        "pods",
        "eventlab"
    ));
}
