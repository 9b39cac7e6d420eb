//! Access reviews of service accounts, and grants that a manifest no longer makes.

use std::net::SocketAddr;
use std::sync::Arc;

use eventlab::cluster::{AccessQuestion, Cluster, Host, Manifest, RewindError};
use eventlab::embedded::bus::Bus;
use futures::future::BoxFuture;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};

use crate::api_support::Lab;

/// A cluster of which nothing but the API is looked at.
pub struct NoHost;

impl Host for NoHost {
    fn service_address(&self, _: &str, _: &str, _: u16) -> Option<SocketAddr> {
        None
    }

    fn bus(&self, _: &str) -> Option<Arc<dyn Bus>> {
        None
    }

    fn snapshot<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), RewindError>> {
        Box::pin(async { Ok(()) })
    }

    fn rewind<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), RewindError>> {
        Box::pin(async { Ok(()) })
    }
}

fn cluster(lab: &Lab) -> Cluster {
    Cluster::embedded(lab.admin(), "lab", Arc::new(NoHost))
}

fn right<'a>(
    account: &'a str,
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
) -> AccessQuestion<'a> {
    AccessQuestion {
        account,
        verb,
        group,
        resource,
    }
}

fn role(name: &str, rule: &str) -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: {name}}}\nrules: [{rule}]\n"
    )
}

fn binding(name: &str, kind: &str, role: &str, account: &str) -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: {name}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {kind}, name: {role}}}\n\
         subjects: [{{kind: ServiceAccount, name: {account}, namespace: lab}}]\n"
    )
}

const CREATE: &str = "{apiGroups: [argoproj.io], resources: [workflows], verbs: [create]}";

async fn apply(cluster: &Cluster, file: &str, documents: &[String]) {
    let manifests = Manifest::read(file, &documents.join("---\n")).unwrap();
    for manifest in &manifests {
        cluster.apply(manifest).await.unwrap();
    }
    let own: Vec<&Manifest> = manifests.iter().collect();
    cluster
        .withdraw_grants(file, &own, &mut Vec::new())
        .await
        .unwrap();
}

async fn may(cluster: &Cluster, asked: AccessQuestion<'_>) -> bool {
    cluster.review(asked).await.unwrap().allowed
}

#[tokio::test]
async fn a_review_tells_the_right_from_its_neighbours() {
    let lab = Lab::new().await;
    let cluster = cluster(&lab);
    let create = right("order-sensor", "create", "argoproj.io", "workflows");
    assert!(!may(&cluster, create).await);
    let grants = [
        role("submit", CREATE),
        binding("submit", "Role", "submit", "order-sensor"),
    ];
    apply(&cluster, "submit.yaml", &grants).await;
    assert!(may(&cluster, create).await);
    for other in [
        right("order-runner", "create", "argoproj.io", "workflows"),
        right("order-sensor", "delete", "argoproj.io", "workflows"),
        right("order-sensor", "create", "", "workflows"),
        right("order-sensor", "create", "argoproj.io", "workflows/status"),
        right("order-sensor", "create", "", "pods/exec"),
    ] {
        assert!(!may(&cluster, other).await, "{other:?}");
    }
}

/// A list of reviews never shows that there is no other right; the rules do, whoever granted them.
#[tokio::test]
async fn a_right_beside_those_listed_is_seen() {
    let lab = Lab::new().await;
    let cluster = cluster(&lab);
    let listed = [("create", "argoproj.io", "workflows")]
        .map(|(verb, group, resource)| (verb.to_owned(), group.to_owned(), resource.to_owned()));
    let others = async |rule: &str, more: &[String]| {
        let mut grants = vec![
            role("submit", rule),
            binding("submit", "Role", "submit", "order-sensor"),
        ];
        grants.extend_from_slice(more);
        apply(&cluster, "submit.yaml", &grants).await;
        let review = cluster.review_others("order-sensor", &listed).await;
        let review = review.unwrap();
        assert_eq!(review.allowed, !review.reason.is_empty(), "{review:?}");
        review.reason
    };
    assert_eq!(others(CREATE, &[]).await, "");
    let argo = "apiGroups: [argoproj.io], resources: ";
    for (rule, reason) in [
        (
            format!("{{{argo}[workflows], verbs: [create, update]}}"),
            "update workflows.argoproj.io",
        ),
        (
            format!("{{{argo}[workflows, cronworkflows], verbs: [create]}}"),
            "create cronworkflows.argoproj.io",
        ),
        (
            format!("{{{argo}[workflows/status], verbs: [create]}}"),
            "create workflows.argoproj.io/status",
        ),
        (
            format!("{{{argo}[workflows], resourceNames: [x], verbs: [delete]}}"),
            "delete workflows.argoproj.io",
        ),
        (
            "{apiGroups: [''], resources: [configmaps], verbs: [list]}".to_owned(),
            "list configmaps",
        ),
        (
            format!("{{{argo}['*'], verbs: [create]}}"),
            "create *.argoproj.io",
        ),
    ] {
        assert_eq!(others(&rule, &[]).await, reason, "{rule}");
    }
    let admin = binding("more", "ClusterRole", "cluster-admin", "order-sensor");
    assert_eq!(others(CREATE, &[admin]).await, "* *.*");
    let everybody = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: all}\n\
         roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: all}\n\
         subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'system:serviceaccounts:lab'}]\n";
    let listing = role(
        "all",
        "{apiGroups: [''], resources: [secrets], verbs: [list]}",
    );
    assert_eq!(
        others(CREATE, &[listing, everybody.to_owned()]).await,
        "list secrets"
    );
}

#[tokio::test]
async fn a_grant_by_name_is_not_the_right_to_create() {
    let lab = Lab::new().await;
    let cluster = cluster(&lab);
    let named = "{apiGroups: [argoproj.io], resources: [workflows], resourceNames: [order-], verbs: [create, get]}";
    let grants = [
        role("submit", named),
        binding("submit", "Role", "submit", "order-sensor"),
    ];
    apply(&cluster, "submit.yaml", &grants).await;
    let create = right("order-sensor", "create", "argoproj.io", "workflows");
    assert!(!may(&cluster, create).await);
}

#[tokio::test]
async fn a_grant_that_left_its_file_is_withdrawn_and_others_stay() {
    let lab = Lab::new().await;
    let cluster = cluster(&lab);
    let submit = [
        role("submit", CREATE),
        binding("submit", "Role", "submit", "order-sensor"),
    ];
    let admin = binding(
        "submit-admin",
        "ClusterRole",
        "cluster-admin",
        "order-sensor",
    );
    let run = [
        role("run", CREATE),
        binding("run", "Role", "run", "order-runner"),
    ];
    apply(&cluster, "run.yaml", &run).await;
    let everything = [submit[0].clone(), submit[1].clone(), admin];
    apply(&cluster, "submit.yaml", &everything).await;
    let secrets = right("order-sensor", "get", "", "secrets");
    assert!(may(&cluster, secrets).await);
    // Somebody else's, without the lab's label.
    let foreign: RoleBinding = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "foreign", "annotations": {"eventlab.dev/manifest": "submit.yaml"}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "submit"},
    }))
    .unwrap();
    let bindings = lab.api::<RoleBinding>("lab");
    bindings
        .create(&Default::default(), &foreign)
        .await
        .unwrap();

    apply(&cluster, "submit.yaml", &submit).await;
    assert!(!may(&cluster, secrets).await);
    assert!(
        may(
            &cluster,
            right("order-runner", "create", "argoproj.io", "workflows")
        )
        .await
    );
    assert!(bindings.get_opt("foreign").await.unwrap().is_some());
    let roles = lab
        .api::<Role>("lab")
        .list(&Default::default())
        .await
        .unwrap();
    assert_eq!(roles.items.len(), 2);

    // A file that grants nothing withdraws nothing.
    apply(
        &cluster,
        "submit.yaml",
        &["apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n".to_owned()],
    )
    .await;
    assert!(bindings.get_opt("submit").await.unwrap().is_some());
}

#[tokio::test]
async fn cluster_wide_grants_are_not_applied() {
    let lab = Lab::new().await;
    let cluster = cluster(&lab);
    for kind in ["ClusterRole", "ClusterRoleBinding"] {
        let text = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: x}}\n"
        );
        let manifests = Manifest::read("x.yaml", &text).unwrap();
        let error = cluster.apply(&manifests[0]).await.unwrap_err().to_string();
        assert!(error.contains("not one the lab applies"), "{error}");
    }
}
