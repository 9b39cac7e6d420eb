//! Rights, identities, personas and tokens.

use super::Kubectl;

const ROBOT: &str = "--as=system:serviceaccount:default:robot";

pub fn all(k: &mut Kubectl) {
    k.ok("create sa robot", "serviceaccount/robot created");
    k.ok(
        "create role reader --verb=get,list --resource=pods,pods/log",
        "role.rbac.authorization.k8s.io/reader created",
    );
    k.ok(
        "create rolebinding reader --role=reader --serviceaccount=default:robot",
        "rolebinding.rbac.authorization.k8s.io/reader created",
    );
    questions(k);
    identities(k);
    personas(k);
    tokens(k);
    k.ok("delete sa/robot role/reader rolebinding/reader", "deleted");
}

fn questions(k: &mut Kubectl) {
    k.says("auth can-i create pods", "yes\n");
    k.says(&format!("auth can-i list pods {ROBOT}"), "yes\n");
    k.says(
        &format!("auth can-i get pods --subresource=log {ROBOT}"),
        "yes\n",
    );
    k.fails(&format!("auth can-i create pods {ROBOT}"), "no\n");
    k.fails(
        &format!("auth can-i create workflows.argoproj.io {ROBOT}"),
        "no\n",
    );
    k.fails(&format!("auth can-i get /metrics {ROBOT}"), "no\n");
    k.ok("auth can-i '*' '*' --all-namespaces", "yes");
    k.ok(
        &format!("auth can-i --list {ROBOT}"),
        "Resources|pods/log|selfsubjectaccessreviews|[get list]",
    );
    k.fails("auth can-i", "you must specify");
    k.fails(
        &format!("get cm {ROBOT}"),
        "Error from server (Forbidden): configmaps is forbidden: User \"system:serviceaccount:default:robot\" cannot list \
         resource \"configmaps\" in API group \"\" in the namespace \"default\"",
    );
    k.feeds_in_vain(
        &format!("create -f - {ROBOT}"),
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {generateName: w-}\nspec: {}\n",
        "workflows.argoproj.io is forbidden: User \"system:serviceaccount:default:robot\" cannot create resource \
         \"workflows\" in API group \"argoproj.io\" in the namespace \"default\"",
    );
    // Rights are not handed on by those who do not have them.
    k.ok(
        "create clusterrole binder --verb=create --resource=rolebindings.rbac.authorization.k8s.io",
        "created",
    );
    k.ok(
        "create clusterrolebinding binder --clusterrole=binder --user=bob",
        "created",
    );
    k.fails(
        "create rolebinding more --clusterrole=cluster-admin --user=bob --as=bob",
        "is attempting to grant RBAC permissions not currently held",
    );
    k.ok(
        "delete clusterrole/binder clusterrolebinding/binder",
        "deleted",
    );
    k.file(
        "rbac.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reader, namespace: default}\nrules:\n\
         - {apiGroups: [''], resources: [pods, pods/log], verbs: [get, list]}\n",
    );
    k.ok("auth reconcile -f rbac.yaml", "reconciled");
}

fn identities(k: &mut Kubectl) {
    // Version 1.27 knows that question in older forms only.
    if k.minor < 28 {
        return;
    }
    k.ok("auth whoami", "system:masters|system:authenticated");
    k.ok("auth whoami --as=bob --as-group=devs", "bob|devs");
    k.ok("auth whoami -o json", "\"username\": \"admin\"");
    k.ok(
        &format!("auth whoami {ROBOT}"),
        "system:serviceaccounts:default|system:authenticated",
    );
}

/// The contexts of the kubeconfig. Flags that come later win.
fn personas(k: &mut Kubectl) {
    k.ok(
        "config get-contexts -o name",
        "admin\nlearner\norder-runner\norder-sensor\n",
    );
    k.ok(
        "config view --minify",
        "certificate-authority-data: |REDACTED",
    );
    k.fails(
        "get secrets -n kube-system --context=learner",
        "Error from server (Forbidden): secrets is forbidden: User \"learner\" cannot list resource \"secrets\" in API group \
         \"\" in the namespace \"kube-system\"",
    );
    k.ok("get pods -n eventlab --context=learner", "");
    for account in ["order-sensor", "order-runner"] {
        let list = format!("get pods -n eventlab --context={account}");
        let refusal = format!(
            "User \"system:serviceaccount:eventlab:{account}\" cannot list resource \"pods\""
        );
        k.fails(&list, &refusal);
        // A service account's token means nothing while its account is not there.
        k.ok(&format!("delete sa {account} -n eventlab"), "deleted");
        k.fails(&list, "You must be logged in to the server");
        k.ok(&format!("create sa {account} -n eventlab"), "created");
        k.fails(&list, &refusal);
    }
}

fn tokens(k: &mut Kubectl) {
    let (_, token) = k.text("create token robot --duration=20m");
    let token = token.trim().to_owned();
    k.ok(&format!("get pods --context=learner --token={token}"), "");
    k.fails(
        &format!("get secrets --context=learner --token={token}"),
        "Forbidden",
    );
    k.fails(
        "create token robot --duration=1m",
        "may not specify a duration less than 10 minutes",
    );
    k.fails("create token ghost", "serviceaccounts \"ghost\" not found");
    k.fails(
        "get pods --context=learner --token=wrong",
        "You must be logged in to the server",
    );
}
