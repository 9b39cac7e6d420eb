use super::*;
use crate::embedded::api::authn::Authenticator;

fn policy() -> Policy {
    Policy::new(&[
        json!({"kind": "Role", "metadata": {"name": "r", "namespace": "lab"},
               "rules": [{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get"]}]}),
        json!({"kind": "RoleBinding", "metadata": {"name": "b", "namespace": "lab"},
               "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "Group", "name": "dev"}]}),
        json!({"kind": "RoleBinding", "metadata": {"name": "c", "namespace": "lab"},
               "roleRef": {"kind": "Role", "name": "ghost"}, "subjects": [{"kind": "Group", "name": "dev"}]}),
        json!({"kind": "ClusterRole", "metadata": {"name": "urls"},
               "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}),
        json!({"kind": "ClusterRoleBinding", "metadata": {"name": "u"},
               "roleRef": {"kind": "ClusterRole", "name": "urls"}, "subjects": [{"kind": "User", "name": "alice"}]}),
    ])
}

fn alice() -> User {
    User {
        name: "alice".into(),
        uid: "7".into(),
        groups: vec!["dev".into()],
        extra: BTreeMap::new(),
    }
}

fn pods(namespace: &str) -> Value {
    json!({"namespace": namespace, "verb": "get", "resource": "pods", "subresource": "log", "name": "p"})
}

#[test]
fn a_self_review_is_about_the_caller() {
    let body =
        json!({"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": pods("lab")}});
    let answer = self_subject_access_review(&body, &alice(), &policy()).unwrap();
    assert_eq!(answer["spec"], body["spec"]);
    assert_eq!(answer["apiVersion"], "authorization.k8s.io/v1");
    assert_eq!(
        answer["status"],
        json!({"allowed": true, "reason": r#"RBAC: allowed by RoleBinding "b/lab" of Role "r" to Group "dev""#})
    );
}

#[test]
fn a_denial_carries_what_could_not_be_resolved() {
    let body = json!({"spec": {"resourceAttributes": {"namespace": "lab", "verb": "delete", "resource": "pods"}}});
    let answer = self_subject_access_review(&body, &alice(), &policy()).unwrap();
    let reason = r#"RBAC: role.rbac.authorization.k8s.io "ghost" not found"#;
    assert_eq!(
        answer["status"],
        json!({"allowed": false, "reason": reason})
    );
    let elsewhere = json!({"spec": {"resourceAttributes": pods("other")}});
    let answer = self_subject_access_review(&elsewhere, &alice(), &policy()).unwrap();
    assert_eq!(answer["status"], json!({"allowed": false}));
}

#[test]
fn paths_can_be_asked_for() {
    let body = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}});
    assert_eq!(
        self_subject_access_review(&body, &alice(), &policy()).unwrap()["status"]["allowed"],
        true
    );
}

#[test]
fn a_subject_review_is_about_the_named_one() {
    let body =
        json!({"spec": {"user": "bob", "groups": ["dev"], "resourceAttributes": pods("lab")}});
    assert_eq!(
        subject_access_review(&body, &policy()).unwrap()["status"]["allowed"],
        true
    );
    let body = json!({"spec": {"user": "bob", "resourceAttributes": pods("lab")}});
    assert_eq!(
        subject_access_review(&body, &policy()).unwrap()["status"]["allowed"],
        false
    );
}

#[test]
fn a_local_review_stays_in_its_namespace() {
    let body = |namespace: &str| {
        json!({"metadata": {"namespace": "lab"},
               "spec": {"groups": ["dev"], "resourceAttributes": pods(namespace)}})
    };
    let answer = local_subject_access_review(&body("lab"), "lab", &policy()).unwrap();
    assert_eq!(
        (
            &answer["status"]["allowed"],
            &answer["metadata"]["namespace"]
        ),
        (&json!(true), &json!("lab"))
    );
    let error = local_subject_access_review(&body("other"), "lab", &policy()).unwrap_err();
    assert_eq!(
        error.message,
        "LocalSubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: \
         Invalid value: \"other\": must match metadata.namespace"
    );
}

#[test]
fn senseless_specs_are_refused() {
    let both = json!({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}});
    let cases = [
        (
            json!({}),
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            json!({"spec": 3}),
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            both,
            "cannot be specified in combination with resourceAttributes",
        ),
        (
            json!({"metadata": {"name": "x"}, "spec": {"resourceAttributes": {}}}),
            "must be empty",
        ),
    ];
    for (body, text) in cases {
        let error = self_subject_access_review(&body, &alice(), &policy()).unwrap_err();
        assert_eq!(error.code, 422);
        assert!(error.message.ends_with(text), "{}", error.message);
    }
    let nobody =
        json!({"metadata": {"creationTimestamp": null}, "spec": {"resourceAttributes": {}}});
    let error = subject_access_review(&nobody, &policy()).unwrap_err();
    assert!(error.message.ends_with(
        "spec.user: Invalid value: \"\": at least one of user or group must be specified"
    ));
}

#[test]
fn the_rules_of_one_namespace_are_listed() {
    let body = json!({"spec": {"namespace": "lab"}});
    let answer = self_subject_rules_review(&body, &alice(), &policy()).unwrap();
    assert_eq!(
        answer["status"],
        json!({
            "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "pods/log"]}],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
            "incomplete": false,
            "evaluationError": "role.rbac.authorization.k8s.io \"ghost\" not found",
        })
    );
    let error = self_subject_rules_review(&json!({}), &alice(), &policy()).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (400, "no namespace on request")
    );
}

#[test]
fn who_am_i() {
    let answer = self_subject_review(&alice());
    assert_eq!(
        answer["status"]["userInfo"],
        json!({"username": "alice", "uid": "7", "groups": ["dev"]})
    );
}

mod tokens {
    use super::*;

    fn account() -> Value {
        json!({"metadata": {"name": "worker", "namespace": "lab", "uid": "u-1"}})
    }

    fn pod(name: &str) -> Option<BoundPod> {
        let service_account = if name == "foreign" { "other" } else { "worker" }.to_owned();
        (name != "ghost").then(|| BoundPod {
            uid: "p-1".into(),
            service_account,
        })
    }

    fn request(spec: Value) -> Result<Value, Box<Status>> {
        token_request(
            &json!({"spec": spec}),
            &account(),
            &Authenticator::new(b"key"),
            &pod,
        )
    }

    #[test]
    fn the_token_is_the_accounts() {
        let reference = json!({"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "p-1"});
        let answer =
            request(json!({"expirationSeconds": 600, "boundObjectRef": reference})).unwrap();
        assert_eq!(
            answer["spec"]["audiences"],
            json!(["https://kubernetes.default.svc.cluster.local"])
        );
        assert!(
            answer["status"]["expirationTimestamp"]
                .as_str()
                .unwrap()
                .ends_with('Z')
        );
        let token = answer["status"]["token"].as_str().unwrap();
        let present = |bucket: &str, _: &str, _: &str| {
            let uid = if bucket == "pods" { "p-1" } else { "u-1" };
            Some(uid.to_owned())
        };
        let user = Authenticator::new(b"key")
            .authenticate_token(token, &present)
            .unwrap();
        assert_eq!(user.name, "system:serviceaccount:lab:worker");
        assert_eq!(user.extra["authentication.kubernetes.io/pod-uid"], ["p-1"]);
        assert_eq!(
            request(json!({})).unwrap()["spec"]["expirationSeconds"],
            3600
        );
    }

    #[test]
    fn lifetimes_have_bounds() {
        let error = request(json!({"expirationSeconds": 599})).unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (
                422,
                "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: \
                 may not specify a duration less than 10 minutes"
            )
        );
        assert!(
            request(json!({"expirationSeconds": 1i64 << 33}))
                .unwrap_err()
                .message
                .contains("larger than 2^32")
        );
    }

    #[test]
    fn a_bound_pod_must_be_that_pod() {
        let bind = |kind: &str, name: &str, uid: &str| {
            let error =
                request(json!({"boundObjectRef": {"kind": kind, "name": name, "uid": uid}}))
                    .unwrap_err();
            (error.code, error.message)
        };
        assert_eq!(
            bind("Pod", "ghost", ""),
            (404, "pods \"ghost\" not found".into())
        );
        assert_eq!(bind("Pod", "p", "p-0").0, 409);
        assert_eq!(bind("Pod", "foreign", "p-1").0, 400);
        assert_eq!(bind("Secret", "s", "").0, 422);
    }
}
