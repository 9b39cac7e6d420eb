//! Rights from the field, by kind: a grant limited to names, asked about as `auth can-i` asks and used as a client uses it;
//! and the one right that each identity of the pipeline needs.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::api_support::{Lab, answer, create};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/lab";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Group, its path, plural, and an object of it without a name.
fn resources() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let argo = "/apis/argoproj.io/v1alpha1";
    let pod = json!({"spec": {"containers": [{"name": "main", "image": "eventlab:dev"}]}});
    let workflow = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "spec": {"entrypoint": "t", "templates": [{"name": "t", "container": {"image": "eventlab:dev"}}]}
    });
    let result = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTaskResult"});
    vec![
        ("argoproj.io", argo, "workflows", workflow),
        ("argoproj.io", argo, "workflowtaskresults", result),
        ("", "/api/v1", "configmaps", json!({"data": {}})),
        ("", "/api/v1", "secrets", json!({"stringData": {}})),
        ("", "/api/v1", "pods", pod),
    ]
}

/// An account with one rule.
struct Account {
    lab: Lab,
    token: String,
}

impl Account {
    async fn with(rule: Value) -> Account {
        let lab = Lab::new().await;
        let accounts = "/api/v1/namespaces/lab/serviceaccounts";
        let own = json!({"metadata": {"name": "order-sensor"}});
        create(&lab, accounts, own).await;
        let role = json!({"metadata": {"name": "r"}, "rules": [rule]});
        create(&lab, &format!("{ROLES}/roles"), role).await;
        let binding = json!({"metadata": {"name": "r"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "order-sensor", "namespace": "lab"}]});
        create(&lab, &format!("{ROLES}/rolebindings"), binding).await;
        let token = lab.server.service_account_token("lab", "order-sensor");
        Account { lab, token }
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Content-Type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        answer(&self.lab, request).await
    }

    /// `kubectl auth can-i VERB RESOURCE[/NAME]`.
    async fn can_i(&self, verb: &str, group: &str, resource: &str, name: &str) -> bool {
        let attributes = json!({"namespace": "lab", "verb": verb, "group": group, "resource": resource, "name": name});
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}});
        let (code, answer) = self.send("POST", REVIEWS, &review).await;
        assert_eq!(code, 201, "{answer}");
        answer["status"]["allowed"] == true
    }
}

/// `auth can-i create x/one` says yes, and no object is ever created: a create has no name in its address.
#[tokio::test]
async fn create_limited_to_names_is_no_right_to_create() {
    for (group, path, resource, object) in resources() {
        let rule = json!({"apiGroups": [group], "resources": [resource], "resourceNames": ["one"], "verbs": ["create", "get", "list", "delete"]});
        let account = Account::with(rule).await;
        let collection = format!("{path}/namespaces/lab/{resource}");
        assert!(
            account.can_i("create", group, resource, "one").await,
            "{resource}: asked with the name"
        );
        assert!(!account.can_i("create", group, resource, "").await);
        assert!(!account.can_i("create", group, resource, "two").await);
        for metadata in [json!({"name": "one"}), json!({"generateName": "one-"})] {
            let mut object = object.clone();
            object["metadata"] = metadata;
            let (code, answer) = account.send("POST", &collection, &object).await;
            assert_eq!(code, 403, "{resource}: {answer}");
            let said = answer["message"].as_str().unwrap();
            assert!(
                said.contains(&format!(
                    "cannot create resource \"{resource}\" in API group \"{group}\""
                )),
                "{said}"
            );
        }
        // What has a name in its address is allowed by name, and by that alone.
        let by_name = |name: &str| format!("{collection}/{name}");
        assert_eq!(
            account.send("GET", &by_name("one"), &Value::Null).await.0,
            404
        );
        assert_eq!(
            account.send("GET", &by_name("two"), &Value::Null).await.0,
            403
        );
        assert_eq!(account.send("GET", &collection, &Value::Null).await.0, 403);
    }
}

/// The same rule without names creates; and it gives nothing beside it.
#[tokio::test]
async fn create_alone_creates_and_does_nothing_else() {
    for (group, path, resource, object) in resources() {
        let rule = json!({"apiGroups": [group], "resources": [resource], "verbs": ["create"]});
        let account = Account::with(rule).await;
        let collection = format!("{path}/namespaces/lab/{resource}");
        let mut object = object.clone();
        object["metadata"] = json!({"name": "one"});
        let (code, answer) = account.send("POST", &collection, &object).await;
        assert_eq!(code, 201, "{resource}: {answer}");
        let of_it = format!("{collection}/one");
        for (method, path) in [("GET", &of_it), ("DELETE", &of_it), ("GET", &collection)] {
            let (code, _) = account.send(method, path, &Value::Null).await;
            assert_eq!(code, 403, "{method} {path}");
        }
        for (other_group, _, other, _) in resources() {
            if other != resource {
                assert!(!account.can_i("create", other_group, other, "").await);
            }
        }
    }
}

/// A group that is not the resource's, a subresource, a plural that nobody has: a rule that looks right and grants nothing.
#[tokio::test]
async fn rules_that_miss_their_resource_grant_nothing() {
    for (groups, names) in [
        (json!([""]), json!(["workflows"])),
        (json!(["argoproj.io/v1alpha1"]), json!(["workflows"])),
        (json!(["workflows.argoproj.io"]), json!(["workflows"])),
        (json!(["argoproj.io"]), json!(["workflow"])),
        (json!(["argoproj.io"]), json!(["Workflow"])),
        (json!(["argoproj.io"]), json!(["workflows.argoproj.io"])),
        (json!(["argoproj.io"]), json!(["workflows/status"])),
        (json!(["argoproj.io"]), json!(["workflowtemplates"])),
        (json!(["batch"]), json!(["*"])),
    ] {
        let rule = json!({"apiGroups": groups, "resources": names, "verbs": ["create"]});
        let account = Account::with(rule.clone()).await;
        let (_, path, resource, mut object) = resources().remove(0);
        object["metadata"] = json!({"generateName": "order-"});
        let collection = format!("{path}/namespaces/lab/{resource}");
        let (code, answer) = account.send("POST", &collection, &object).await;
        assert_eq!(code, 403, "{rule}: {answer}");
        assert!(!account.can_i("create", "argoproj.io", resource, "").await);
    }
}
