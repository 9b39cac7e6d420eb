//! The account that submits: what bindings give it, by whatever way.

use super::super::rule::{Place, example};
use super::{found, report};

const RULE: &str = "submit-account";

fn sensor(account: Option<&str>) -> String {
    let text = example(Place::Filters, "script: return event.body.ok == true");
    match account {
        Some(account) => text.replace(
            "spec:\n  dependencies",
            &format!("spec:\n  template: {{serviceAccountName: {account}}}\n  dependencies"),
        ),
        None => text,
    }
}

fn bound(kind: &str, role: &str, subject: &str) -> String {
    let cluster = if kind.starts_with("Cluster") {
        ""
    } else {
        ", namespace: shop"
    };
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: a{cluster}}}\nroleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}\nsubjects: [{subject}]\n---\n"
    )
}

fn cluster_role(name: &str, verbs: &str) -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {name}}}\nrules: [{{apiGroups: [argoproj.io], resources: [workflows], verbs: {verbs}}}]\n---\n"
    )
}

#[test]
fn too_much_is_found_by_every_way_that_an_account_gets_it() {
    for subject in [
        "{kind: ServiceAccount, name: submit, namespace: shop}",
        "{kind: User, name: 'system:serviceaccount:shop:submit'}",
        "{kind: Group, name: 'system:serviceaccounts'}",
        "{kind: Group, name: 'system:serviceaccounts:shop'}",
        "{kind: Group, name: 'system:authenticated'}",
    ] {
        for role in ["cluster-admin", "admin", "edit", "view"] {
            for kind in ["ClusterRoleBinding", "RoleBinding"] {
                let text = bound(kind, role, subject) + &sensor(Some("submit"));
                assert_eq!(found(&text), [RULE], "{kind} {role} {subject}");
            }
        }
        let all = cluster_role("all", "['*']");
        let text = all + &bound("RoleBinding", "all", subject) + &sensor(Some("submit"));
        assert_eq!(found(&text), [RULE], "{subject}");
        let enough = cluster_role("enough", "[create]");
        let text = enough + &bound("RoleBinding", "enough", subject) + &sensor(Some("submit"));
        assert!(found(&text).is_empty(), "{subject}");
    }
    for subject in [
        "{kind: ServiceAccount, name: other, namespace: shop}",
        "{kind: ServiceAccount, name: submit, namespace: else}",
        "{kind: User, name: 'system:serviceaccount:else:submit'}",
        "{kind: Group, name: 'system:serviceaccounts:else'}",
        "{kind: Group, name: 'system:masters'}",
    ] {
        let text = bound("ClusterRoleBinding", "cluster-admin", subject) + &sensor(Some("submit"));
        assert!(found(&text).is_empty(), "{subject}");
    }
}

#[test]
fn a_sensor_without_an_account_runs_as_default() {
    let subject = "{kind: ServiceAccount, name: default, namespace: shop}";
    let text = cluster_role("all", "['*']") + &bound("RoleBinding", "all", subject);
    let report = report(&(text.clone() + &sensor(None)));
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert!(report.findings[0].what.contains("`default`"));
    assert!(found(&(text + &sensor(Some("submit")))).is_empty());
    assert!(found(&sensor(None)).is_empty());
}

#[test]
fn nothing_is_said_to_lack_where_a_role_is_not_known() {
    let subject = "{kind: ServiceAccount, name: submit, namespace: shop}";
    let reads = cluster_role("reads", "[create]").replace("workflows", "workflowtaskresults");
    let known = reads + &bound("RoleBinding", "reads", subject);
    let lacking = report(&(known.clone() + &sensor(Some("submit"))));
    assert!(
        lacking
            .findings
            .iter()
            .any(|finding| finding.what.contains("forbidden"))
    );
    let other = bound("RoleBinding", "elsewhere", subject);
    let report = report(&(known + &other + &sensor(Some("submit"))));
    assert!(
        report
            .findings
            .iter()
            .all(|finding| !finding.what.contains("forbidden")),
        "{:?}",
        report.findings
    );
    // What every account has from the start is not this Sensor's.
    let basic = cluster_role("system:basic-user", "[create]").replace("workflows", "reviews");
    let group = "{kind: Group, name: 'system:authenticated'}";
    let text = basic + &bound("ClusterRoleBinding", "system:basic-user", group);
    assert!(found(&(text + &sensor(Some("submit")))).is_empty());
}
