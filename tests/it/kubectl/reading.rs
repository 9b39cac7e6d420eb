//! Discovery, every output form, selectors, order, descriptions, events and explanations. What is read here was made by
//! the steps of `writing`.

use super::Kubectl;

pub fn all(k: &mut Kubectl) {
    discovery(k);
    output_forms(k);
    selectors_and_order(k);
    descriptions(k);
    explanations(k);
}

fn discovery(k: &mut Kubectl) {
    k.ok("version", "v1.36.2+eventlab");
    let version = k.json("version -o json");
    if version["serverVersion"]["gitVersion"] != "v1.36.2+eventlab" {
        k.report(version.to_string());
    }
    k.ok(
        "api-resources",
        "SHORTNAMES|sensors|argoproj.io/v1alpha1|deployments|deploy",
    );
    k.ok(
        "api-resources --api-group=argoproj.io -o wide",
        "VERBS|delete,deletecollection,get,list,patch,create,update,watch|Workflow",
    );
    k.ok(
        "api-resources --namespaced=false -o name",
        "nodes\n|clusterroles.rbac.authorization.k8s.io|clusterworkflowtemplates.argoproj.io",
    );
    k.ok("api-resources --verbs=list,watch -o name", "pods\n|leases");
    k.ok("api-versions", "argoproj.io/v1alpha1\n|apps/v1\n|v1\n");
    k.ok("cluster-info", "is running at|127.0.0.1:");
    k.ok("get --raw /version", "gitVersion");
    k.says("get --raw /healthz", "ok");
    k.ok("get --raw /readyz?verbose", "ok");
    k.ok("get namespaces", "NAME|STATUS|kube-system|Active");
    k.ok("get nodes -o wide", "ROLES|eventlab|v1.36.2");
    k.fails(
        "get nonsense",
        "the server doesn't have a resource type \"nonsense\"",
    );
    k.fails(
        "get --raw /apis/nothing.io/v1",
        "the server could not find the requested resource",
    );
}

fn output_forms(k: &mut Kubectl) {
    k.feeds(
        "apply --server-side -f -",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: forms, labels: {app: forms, tier: x}}\ndata: {a: one, b: two}\n",
        "serverside-applied",
    );
    k.ok("get cm forms", "NAME    DATA   AGE\nforms   2      ");
    k.ok("get cm forms --no-headers", "forms   2     ");
    k.ok("get cm forms --show-labels", "LABELS|app=forms,tier=x");
    k.ok("get cm forms -L tier,app", "TIER|APP|x      forms");
    k.ok("get cm forms --show-kind", "configmap/forms");
    k.ok("get cm forms -o wide", "NAME    DATA   AGE");
    k.says("get cm forms -o name", "configmap/forms\n");
    k.ok("get cm forms -o yaml", "kind: ConfigMap|  a: one\n");
    let object = k.json("get cm forms -o json");
    if object["data"]["b"] != "two" || object["metadata"].get("managedFields").is_some() {
        k.report(format!("get -o json: {object}"));
    }
    k.ok(
        "get cm forms -o yaml --show-managed-fields",
        "managedFields:|manager: kubectl\n|f:data|operation: Apply",
    );
    k.says("get cm forms -o jsonpath={.data.a}", "one");
    // kubectl goes through a map in any order.
    k.says(
        "get cm forms -o 'jsonpath={.data.a}{\"\\n\"}{.data.b}{\"\\n\"}'",
        "one\ntwo\n",
    );
    k.ok("get cm forms -o jsonpath-as-json={.data}", "\"a\": \"one\"");
    k.file("path", "{.data.b}");
    k.says("get cm forms -o jsonpath-file=path", "two");
    k.says("get cm forms -o go-template={{.data.a}}", "one");
    k.says("get cm forms -o template --template={{.data.a}}", "one");
    k.file("template", "{{range $k, $v := .data}}{{$k}}={{$v}} {{end}}");
    k.says("get cm forms -o go-template-file=template", "a=one b=two ");
    k.says(
        "get cm forms -o custom-columns=NAME:.metadata.name,A:.data.a,NONE:.data.z",
        "NAME    A     NONE\nforms   one   <none>\n",
    );
    k.file("columns", "NAME          B\nmetadata.name data.b\n");
    k.says(
        "get cm forms -o custom-columns-file=columns",
        "NAME    B\nforms   two\n",
    );
    k.ok(
        "get cm/forms ns/default -o name",
        "configmap/forms\nnamespace/default\n",
    );
    k.fails(
        "get cm ghost",
        "Error from server (NotFound): configmaps \"ghost\" not found",
    );
    k.says("get cm ghost --ignore-not-found", "");
    k.ok("get sensors", "No resources found in default namespace.");
    k.ok("get all", "No resources found in default namespace.");
}

fn selectors_and_order(k: &mut Kubectl) {
    for (name, tier, team) in [
        ("s-b", "front", "x"),
        ("s-a", "back", "y"),
        ("s-c", "front", "y"),
    ] {
        k.ok(&format!("create configmap {name}"), "created");
        k.ok(
            &format!("label cm {name} tier={tier} team={team} part=order"),
            "labeled",
        );
    }
    let names = |k: &mut Kubectl, selector: &str, wanted: &[&str]| {
        let (_, said) = k.text(&format!(
            "get cm {selector} -o custom-columns=:metadata.name --no-headers"
        ));
        let found: Vec<&str> = said.split_whitespace().collect();
        if found != wanted {
            k.report(format!("get cm {selector}: {said}"));
        }
    };
    let order = "-l part=order";
    names(k, "-l tier=front", &["s-b", "s-c"]);
    names(k, "-l tier==front,team=y", &["s-c"]);
    names(k, "-l part=order,tier!=front", &["s-a"]);
    names(
        k,
        "-l 'tier in (front,back),team notin (x)'",
        &["s-a", "s-c"],
    );
    names(k, "-l 'part,!nothing'", &["s-a", "s-b", "s-c"]);
    names(k, "--field-selector=metadata.name=s-a", &["s-a"]);
    names(
        k,
        &format!("{order} --field-selector=metadata.name!=s-a"),
        &["s-b", "s-c"],
    );
    names(
        k,
        &format!("{order} --sort-by=.metadata.name"),
        &["s-a", "s-b", "s-c"],
    );
    names(
        k,
        &format!("{order} --sort-by=.metadata.labels.team"),
        &["s-b", "s-a", "s-c"],
    );
    names(
        k,
        &format!("{order} --chunk-size=1"),
        &["s-a", "s-b", "s-c"],
    );
    k.ok(
        "get cm -A -l part=order",
        "NAMESPACE   NAME   DATA   AGE\ndefault     s-a",
    );
    k.ok(
        "get cm -A --sort-by=.metadata.creationTimestamp -l part=order",
        "default     s-b",
    );
    k.fails(
        "get cm --field-selector=spec.x=1",
        "\"spec.x\" is not a known field selector",
    );
    k.fails("get cm -l 'a==='", "that match label selector \"a===\"");
    k.ok(
        "delete cm -l part=order",
        "configmap \"s-a\" deleted|configmap \"s-c\" deleted",
    );
    k.ok("get cm -l part=order", "No resources found");
}

fn descriptions(k: &mut Kubectl) {
    k.ok(
        "describe cm forms",
        "Name:         forms|Labels:       app=forms|a:\n----\none",
    );
    k.ok(
        "describe ns default",
        "Status:       Active|No resource quota.|No LimitRange resource.",
    );
    k.ok(
        "describe node eventlab",
        "Name:               eventlab|Capacity:|Kubelet Version:",
    );
    k.ok("describe sa default", "Name:                default");
    k.ok(
        "describe clusterrole view",
        "PolicyRule:|workflows.argoproj.io|[get list watch]",
    );
    k.ok(
        "describe crd sensors.argoproj.io",
        "Group:       argoproj.io",
    );
    k.feeds(
        "apply -f -",
        "apiVersion: argoproj.io/v1alpha1\nkind: Sensor\nmetadata: {name: told}\nspec:\n  dependencies:\n  - {name: order, eventSourceName: shop, eventName: order}\n  triggers: []\n",
        "created",
    );
    k.ok(
        "describe sensor told",
        "Kind:         Sensor|Event Source Name:  shop",
    );
    k.fails("describe sensor ghost", "NotFound");
    k.ok("delete sensor told", "deleted");
}

fn explanations(k: &mut Kubectl) {
    for kind in [
        "sensor",
        "eventsource",
        "eventbus",
        "workflow",
        "workflowtemplate",
        "cronworkflow",
    ] {
        k.ok(
            &format!("explain {kind}"),
            "KIND: |VERSION: |argoproj.io|FIELDS:|spec\t",
        );
    }
    k.ok("explain sensor.spec", "KIND:       Sensor|FIELD: spec");
    k.ok("explain workflow --recursive", "apiVersion");
    k.fails("explain sensor.nothing", "field \"nothing\" does not exist");
    k.fails(
        "explain ghost",
        "the server doesn't have a resource type \"ghost\"",
    );
}
