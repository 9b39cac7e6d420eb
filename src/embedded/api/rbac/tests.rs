use serde_json::json;

use super::*;

fn user(name: &str, groups: &[&str]) -> User {
    User {
        name: name.into(),
        groups: groups.iter().map(|&g| g.into()).collect(),
        ..User::default()
    }
}

fn resource(
    verb: &str,
    group: &str,
    resource: &str,
    namespace: &str,
    name: &str,
) -> ResourceAttributes {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    ResourceAttributes {
        verb: verb.into(),
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        name: name.into(),
    }
}

fn message(user_name: &str, attributes: Attributes, reason: &str) -> String {
    let verdict = Verdict {
        allowed: false,
        reason: reason.into(),
    };
    forbidden_message(&user(user_name, &[]), &attributes, &verdict)
}

fn role(name: &str, rules: Value) -> Value {
    json!({"kind": "Role", "metadata": {"name": name, "namespace": "lab"}, "rules": rules})
}

fn cluster_role(name: &str, rules: Value) -> Value {
    json!({"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn bind(kind: &str, name: &str, role_kind: &str, role: &str, subject: Value) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": "lab"},
           "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role}, "subjects": [subject]})
}

fn alice() -> Value {
    json!({"kind": "User", "name": "alice"})
}

fn allowed(objects: &[Value], who: &User, attributes: &ResourceAttributes) -> bool {
    Policy::new(objects)
        .authorize_resource(who, attributes)
        .allowed
}

#[test]
fn every_form_of_the_403_text() {
    let cases = [
        (
            Attributes::Resource(resource("create", "argoproj.io", "workflows", "lab", "")),
            r#"workflows.argoproj.io is forbidden: User "bob" cannot create resource "workflows" in API group "argoproj.io" in the namespace "lab""#,
        ),
        (
            Attributes::Resource(resource("get", "", "pods/log", "lab", "p")),
            r#"pods "p" is forbidden: User "bob" cannot get resource "pods/log" in API group "" in the namespace "lab""#,
        ),
        (
            Attributes::Resource(resource("list", "", "namespaces", "", "")),
            r#"namespaces is forbidden: User "bob" cannot list resource "namespaces" in API group "" at the cluster scope"#,
        ),
        (
            Attributes::NonResource {
                verb: "get".into(),
                path: "/metrics".into(),
            },
            r#"forbidden: User "bob" cannot get path "/metrics""#,
        ),
    ];
    for (attributes, want) in cases {
        assert_eq!(message("bob", attributes, ""), want);
    }
}

#[test]
fn unresolved_references_follow_the_text() {
    let attributes = Attributes::NonResource {
        verb: "get".into(),
        path: "/x".into(),
    };
    assert_eq!(
        message(
            "bob",
            attributes,
            "RBAC: role.rbac.authorization.k8s.io \"x\" not found"
        ),
        r#"forbidden: User "bob" cannot get path "/x": RBAC: role.rbac.authorization.k8s.io "x" not found"#
    );
}

#[test]
fn only_the_middle_of_the_text_is_escaped() {
    let attributes = Attributes::Resource(resource("get", "g", "things", "lab", "a<b"));
    assert_eq!(
        message("<eve> & co", attributes, "RBAC: <r>"),
        "things.g \"a<b\" is forbidden: User \"&lt;eve&gt; &amp; co\" cannot get resource \"things\" in API group \"g\" \
         in the namespace \"lab\": RBAC: <r>"
    );
}

#[test]
fn the_status_names_the_object() {
    let attributes = Attributes::Resource(resource("get", "", "pods", "lab", "p"));
    let status = forbidden(&user("bob", &[]), &attributes, &Verdict::default());
    let details = status.details.unwrap();
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        (
            details.name.as_str(),
            details.kind.as_str(),
            details.group.as_str()
        ),
        ("p", "pods", "")
    );
}

#[test]
fn masters_need_no_role() {
    let verdict = Policy::default()
        .authorize_resource(&user("root", &[MASTERS]), &resource("x", "y", "z", "", ""));
    assert_eq!(
        verdict,
        Verdict {
            allowed: true,
            reason: String::new()
        }
    );
}

#[test]
fn two_unresolved_references_are_listed_once_each() {
    let objects = [
        bind("RoleBinding", "a", "Role", "ghost", alice()),
        bind("RoleBinding", "b", "Role", "ghost", alice()),
        bind("RoleBinding", "c", "ClusterRole", "spirit", alice()),
        bind(
            "RoleBinding",
            "d",
            "Role",
            "not mine",
            json!({"kind": "User", "name": "bob"}),
        ),
    ];
    let verdict = Policy::new(&objects)
        .authorize_resource(&user("alice", &[]), &resource("get", "", "pods", "lab", ""));
    assert_eq!(
        verdict.reason,
        r#"RBAC: [role.rbac.authorization.k8s.io "ghost" not found, clusterrole.rbac.authorization.k8s.io "spirit" not found]"#
    );
}

#[test]
fn a_service_account_without_namespace_is_of_the_bindings_own() {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let worker = json!({"kind": "ServiceAccount", "name": "worker"});
    let attributes = resource("get", "", "pods", "lab", "p");
    let who = user("system:serviceaccount:lab:worker", &[]);
    let local = [
        role("r", rules.clone()),
        bind("RoleBinding", "b", "Role", "r", worker.clone()),
    ];
    let verdict = Policy::new(&local).authorize_resource(&who, &attributes);
    assert_eq!(
        verdict.reason,
        r#"RBAC: allowed by RoleBinding "b/lab" of Role "r" to ServiceAccount "worker/lab""#
    );
    let global = [
        cluster_role("r", rules),
        bind("ClusterRoleBinding", "b", "ClusterRole", "r", worker),
    ];
    assert!(!allowed(&global, &who, &attributes));
}

#[test]
fn aggregation_gathers_through_levels_and_ignores_own_rules() {
    let gather = |name: &str, key: &str, labels: Value| {
        json!({"kind": "ClusterRole", "metadata": {"name": name, "labels": labels},
               "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
               "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {key: "true"}}]}})
    };
    let leaf = json!({"kind": "ClusterRole", "metadata": {"name": "leaf", "labels": {"to-view": "true"}},
                      "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let objects = [
        gather("a-top", "to-top", json!({})),
        leaf,
        gather("view", "to-view", json!({"to-top": "true"})),
        bind("RoleBinding", "b", "ClusterRole", "a-top", alice()),
    ];
    let who = user("alice", &[]);
    assert!(allowed(
        &objects,
        &who,
        &resource("get", "", "pods", "lab", "")
    ));
    assert!(!allowed(
        &objects,
        &who,
        &resource("delete", "", "pods", "lab", "")
    ));
}

#[test]
fn damaged_objects_grant_nothing_and_do_not_panic() {
    let objects = [
        json!(null),
        json!(7),
        json!({"kind": "Role"}),
        json!({"kind": "RoleBinding", "subjects": "x", "roleRef": []}),
        json!({"kind": "ClusterRole", "metadata": 3, "rules": [1, {"verbs": "get", "resources": [2]}], "aggregationRule": 1}),
        json!({"kind": "ClusterRoleBinding", "subjects": [{"kind": "User", "name": "alice"}], "roleRef": {"kind": "Nope"}}),
    ];
    let verdict = Policy::new(&objects)
        .authorize_resource(&user("alice", &[]), &resource("get", "", "pods", "", ""));
    assert!(!verdict.allowed);
    assert_eq!(
        verdict.reason,
        r#"RBAC: unsupported role reference kind: "Nope""#
    );
}

mod escalating {
    use super::*;

    fn world(own: Value) -> Policy {
        Policy::new(&[
            role("own", own),
            bind("RoleBinding", "own", "Role", "own", alice()),
            role(
                "target",
                json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"]}]),
            ),
        ])
    }

    fn dev() -> User {
        user("alice", &["devs", "system:authenticated"])
    }

    fn create_role(policy: &Policy, rules: Value) -> Result<(), String> {
        let attributes = resource("create", GROUP, "roles", "lab", "");
        escalation(policy, &dev(), &attributes, &role("x", rules), None)
            .map_err(|status| status.message)
    }

    #[test]
    fn a_role_beyond_own_rights_is_refused_with_upstreams_text() {
        let policy = world(json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]));
        let wanted = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete", "watch"]},
                            {"nonResourceURLs": ["/x"], "verbs": ["get"]}]);
        let text = create_role(&policy, wanted).unwrap_err();
        assert_eq!(
            text,
            "roles.rbac.authorization.k8s.io \"x\" is forbidden: user \"alice\" (groups=[\"devs\" \
             \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"watch\"]}\n\
             {NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}"
        );
    }

    #[test]
    fn own_rights_may_be_passed_on() {
        let policy =
            world(json!([{"apiGroups": [""], "resources": ["*/log", "pods"], "verbs": ["*"]}]));
        assert_eq!(
            create_role(
                &policy,
                json!([{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}])
            ),
            Ok(())
        );
        let narrowed = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}]);
        assert_eq!(create_role(&policy, narrowed), Ok(()));
        assert!(
            create_role(
                &policy,
                json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}])
            )
            .is_err()
        );
    }

    #[test]
    fn a_name_restricted_right_does_not_cover_the_open_one() {
        let policy = world(
            json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}]),
        );
        assert!(
            create_role(
                &policy,
                json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])
            )
            .is_err()
        );
    }

    #[test]
    fn escalate_and_bind_lift_the_guard() {
        let lifted = world(
            json!([{"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate", "bind"]}]),
        );
        assert_eq!(
            create_role(
                &lifted,
                json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
            ),
            Ok(())
        );
        let attributes = resource("create", GROUP, "rolebindings", "lab", "");
        let binding = bind("RoleBinding", "b", "Role", "target", alice());
        assert!(escalation(&lifted, &dev(), &attributes, &binding, None).is_ok());
        let plain = world(json!([]));
        let status = escalation(&plain, &dev(), &attributes, &binding, None).unwrap_err();
        assert!(status.message.starts_with(
            "rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: user \"alice\""
        ));
    }

    #[test]
    fn binding_a_missing_role_is_not_found() {
        let attributes = resource("create", GROUP, "rolebindings", "lab", "");
        let binding = bind("RoleBinding", "b", "Role", "ghost", alice());
        let status =
            escalation(&world(json!([])), &dev(), &attributes, &binding, None).unwrap_err();
        assert_eq!(status.code, 404);
        assert_eq!(
            status.message,
            "role.rbac.authorization.k8s.io \"ghost\" not found"
        );
    }

    #[test]
    fn an_aggregation_rule_needs_everything() {
        let policy = Policy::new(&[
            cluster_role(
                "r",
                json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get"]}]),
            ),
            bind("ClusterRoleBinding", "b", "ClusterRole", "r", alice()),
        ]);
        let attributes = resource("create", GROUP, "clusterroles", "", "");
        let gathering =
            json!({"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": []}});
        let status = escalation(&policy, &dev(), &attributes, &gathering, None).unwrap_err();
        assert!(
            status
                .message
                .ends_with("must have cluster-admin privileges to use the aggregationRule")
        );
    }

    #[test]
    fn metadata_alone_may_change() {
        let old = role(
            "x",
            json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
        );
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!([]);
        let attributes = resource("update", GROUP, "roles", "lab", "x");
        assert!(escalation(&world(json!([])), &dev(), &attributes, &new, Some(&old)).is_ok());
    }

    #[test]
    fn a_role_of_millions_of_rights_is_refused_quickly() {
        let many: Vec<String> = (0..300).map(|n| format!("r{n}")).collect();
        let rules = json!([{"apiGroups": many, "resources": many, "verbs": many}]);
        assert!(
            create_role(&world(json!([])), rules)
                .unwrap_err()
                .contains("27000000 single rights")
        );
    }
}
