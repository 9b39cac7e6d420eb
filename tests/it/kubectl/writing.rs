//! Apply, create, edit, replace, patch, label, annotate, diff and delete.

use super::Kubectl;

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {a: first}\n";
const SENSOR: &str = "apiVersion: argoproj.io/v1alpha1
kind: Sensor
metadata: {name: s}
spec: {dependencies: [{name: d, eventName: e}], triggers: []}
";
const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 0
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      containers:
      - {name: main, image: 'eventlab:dev', env: [{name: A, value: '1'}]}
";

pub fn all(k: &mut Kubectl) {
    applies(k);
    applies_server_side(k);
    owns_what_it_writes(k);
    migrates_to_server_side(k);
    creates(k);
    edits_and_replaces(k);
    patches(k);
    labels(k);
    writes_that_write_nothing(k);
    what_is_misspelt(k);
    deletes(k);
    owners_and_finalizers(k);
}

fn applies(k: &mut Kubectl) {
    let changed = MAP.replace("first", "other");
    k.feeds("apply -f -", MAP, "configmap/cm created");
    k.feeds("apply -f -", MAP, "configmap/cm unchanged");
    k.feeds("diff -f -", MAP, "");
    k.feeds_in_vain("diff -f -", &changed, "-  a: first|+  a: other");
    k.feeds("apply -f -", &changed, "configmap/cm configured");
    k.says("get cm cm -o jsonpath={.data.a}", "other");
    // What the file no longer has goes, what others put there stays.
    k.ok(r#"patch cm cm -p '{"data":{"theirs":"1"}}'"#, "patched");
    let moved = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {b: new}\n";
    k.feeds("apply -f -", moved, "configmap/cm configured");
    k.says(
        "get cm cm -o jsonpath={.data}",
        r#"{"b":"new","theirs":"1"}"#,
    );
    k.ok("apply view-last-applied cm cm", "b: new");
    k.feeds("apply -f -", SENSOR, "sensor.argoproj.io/s created");
    k.feeds("apply -f -", SENSOR, "sensor.argoproj.io/s unchanged");
    let other = SENSOR.replace("eventName: e", "eventName: f");
    k.feeds_in_vain("diff -f -", &other, "-  - eventName: e|+  - eventName: f");
    k.feeds("apply -f -", &other, "sensor.argoproj.io/s configured");
    k.says(
        "get sensor s -o jsonpath={.spec.dependencies[0].eventName}",
        "f",
    );
    k.feeds("apply -f -", DEPLOYMENT, "deployment.apps/d created");
    k.feeds(
        "apply -f -",
        &DEPLOYMENT.replace("'1'", "'2'"),
        "deployment.apps/d configured",
    );
    k.says("get deploy d -o jsonpath={..env[0].value}", "2");
    k.feeds(
        "apply -f -",
        &format!("{MAP}---\n{SENSOR}"),
        "configmap/cm configured|sensor.argoproj.io/s configured",
    );
    k.feeds(
        "apply --prune -l part=pruned --prune-allowlist=core/v1/ConfigMap -f -",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, labels: {part: pruned}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: pruned, labels: {part: pruned}}\n",
        "configmap/pruned created",
    );
    k.feeds(
        "apply --prune -l part=pruned --prune-allowlist=core/v1/ConfigMap -f -",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, labels: {part: pruned}}\n",
        "configmap/pruned pruned",
    );
    k.feeds_in_vain(
        "apply -f -",
        &MAP.replace("name: cm", "name: Not_A_Name"),
        "is invalid|metadata.name",
    );
    k.feeds_in_vain("apply -n ghost -f -", MAP, "namespaces \"ghost\" not found");
}

fn applies_server_side(k: &mut Kubectl) {
    let map = |value: &str| MAP.replace("name: cm", "name: ssa").replace("first", value);
    k.feeds(
        "apply --server-side -f -",
        &map("one"),
        "configmap/ssa serverside-applied",
    );
    k.feeds("diff --server-side -f -", &map("one"), "");
    k.feeds_in_vain("diff --server-side -f -", &map("two"), "+  a: two");
    k.feeds_in_vain(
        "apply --server-side --field-manager=other -f -",
        &map("two"),
        "Apply failed with 1 conflict: conflict with \"kubectl\": .data.a|Please review the fields above",
    );
    k.says("get cm ssa -o jsonpath={.data.a}", "one");
    k.feeds(
        "apply --server-side --field-manager=other --force-conflicts -f -",
        &map("three"),
        "serverside-applied",
    );
    k.ok(
        "get cm ssa -o yaml --show-managed-fields",
        "a: three|manager: other\n|operation: Apply",
    );
    // Whoever else edits a field owns it from then on.
    k.ok(r#"patch cm ssa -p '{"data":{"a":"edited"}}'"#, "patched");
    k.feeds_in_vain(
        "apply --server-side --field-manager=other -f -",
        &map("four"),
        "conflict with \"kubectl-patch\" using v1|: .data.a",
    );
    k.feeds(
        "apply --server-side -f -",
        &SENSOR.replace("name: s}", "name: ssa}"),
        "sensor.argoproj.io/ssa serverside-applied",
    );
    k.feeds(
        "apply --server-side -f -",
        &SENSOR
            .replace("name: s}", "name: ssa}")
            .replace("eventName: e", "eventName: f"),
        "serverside-applied",
    );
    k.ok("delete cm/ssa sensor/ssa", "deleted");
}

/// Plain creates and edits own what they write, and a server-side apply of somebody else meets them.
fn owns_what_it_writes(k: &mut Kubectl) {
    let map = |value: &str| {
        MAP.replace("name: cm", "name: mine")
            .replace("first", value)
    };
    k.feeds("create -f -", &map("one"), "configmap/mine created");
    k.ok(
        "get cm mine -o yaml --show-managed-fields",
        "manager: kubectl-create|operation: Update|f:data:|f:a: {}",
    );
    k.feeds_in_vain(
        "apply --server-side --field-manager=other -f -",
        &map("two"),
        "Apply failed with 1 conflict: conflict with \"kubectl-create\" using v1: .data.a|Please review the fields above",
    );
    k.ok("label cm mine x=y", "labeled");
    k.ok(
        "get cm mine -o yaml --show-managed-fields",
        "manager: kubectl-create|manager: kubectl-label|f:x: {}",
    );
    k.says("get cm mine -o jsonpath={.data.a}", "one");
    k.ok("delete cm mine", "deleted");
}

/// From client-side to server-side apply: what the client applied before becomes its own there.
fn migrates_to_server_side(k: &mut Kubectl) {
    let two = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved}\ndata: {a: '1', b: '2'}\n";
    let one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved}\ndata: {a: '1'}\n";
    k.feeds("apply -f -", two, "configmap/moved created");
    k.feeds(
        "apply --server-side -f -",
        two,
        "configmap/moved serverside-applied",
    );
    k.feeds(
        "apply --server-side -f -",
        one,
        "configmap/moved serverside-applied",
    );
    k.says("get cm moved -o jsonpath={.data}", r#"{"a":"1"}"#);
    k.ok("delete cm moved", "deleted");
}

/// Imperative creates send protobuf from 1.32 on.
fn creates(k: &mut Kubectl) {
    k.ok("create namespace other", "namespace/other created");
    k.ok(
        "create configmap c2 --from-literal=a=1 --from-literal=b=2",
        "configmap/c2 created",
    );
    k.says("get cm c2 -o jsonpath={.data}", r#"{"a":"1","b":"2"}"#);
    k.file("plain.txt", "text\n");
    k.ok("create configmap c3 --from-file=plain.txt", "created");
    k.says("get cm c3 -o jsonpath={.data.plain\\\\.txt}", "text\n");
    k.ok(
        "create secret generic sec --from-literal=password=x",
        "secret/sec created",
    );
    k.says("get secret sec -o jsonpath={.data.password}", "eA==");
    k.ok("get secret sec", "TYPE|Opaque|1 ");
    k.ok("describe secret sec", "password:  1 bytes");
    k.ok(
        "create clusterrole cr --verb=get --resource=nodes",
        "created",
    );
    k.ok(
        "create clusterrolebinding crb --clusterrole=cr --user=u",
        "created",
    );
    k.ok("get clusterrolebindings crb -o wide", "ClusterRole/cr|u ");
    k.ok(
        "create deployment d2 --image=eventlab:dev --replicas=0 --port=8080",
        "deployment.apps/d2 created",
    );
    k.says(
        "get deploy d2 -o jsonpath={.spec.replicas}{..containerPort}",
        "08080",
    );
    k.ok(
        "create job j --image=eventlab:dev -- /eventlab ledger",
        "Warning: eventlab: Job objects are stored, but nothing on the embedded cluster acts on them|job.batch/j created",
    );
    k.says(
        "get job j -o jsonpath={..command}",
        r#"["/eventlab","ledger"]"#,
    );
    k.ok(
        "create service clusterip svc --tcp=80:8080",
        "service/svc created",
    );
    k.ok(
        "create service nodeport np --tcp=80:8080",
        "service/np created",
    );
    k.ok("get svc svc", "ClusterIP|10.96.|80/TCP");
    k.ok("create quota q --hard=pods=3", "created");
    k.ok(
        "expose deploy d2 --port=80 --name=exposed",
        "service/exposed exposed",
    );
    k.feeds(
        "create -f -",
        &SENSOR.replace("name: s}", "generateName: g-}"),
        "sensor.argoproj.io/g-",
    );
    k.feeds_in_vain(
        "apply -f -",
        &SENSOR.replace("name: s}", "generateName: g-}"),
        "cannot use generate name with apply",
    );
    k.fails(
        "create configmap c2",
        "error: failed to create configmap: configmaps \"c2\" already exists",
    );
    k.feeds_in_vain(
        "create -f -",
        MAP,
        "Error from server (AlreadyExists): error when creating \"STDIN\": configmaps \"cm\" already exists",
    );
    k.says(
        "create configmap c9 --dry-run=client -o name",
        "configmap/c9\n",
    );
    k.ok("delete cm/c2 cm/c3 secret/sec clusterrole/cr clusterrolebinding/crb deploy/d2 job/j quota/q", "deleted");
    k.ok("delete svc svc np exposed", "deleted");
    k.ok("delete namespace other", "namespace \"other\" deleted");
}

fn edits_and_replaces(k: &mut Kubectl) {
    k.feeds(
        "apply --server-side --force-conflicts -f -",
        MAP,
        "serverside-applied",
    );
    k.ok("edit cm cm", "configmap/cm edited");
    k.says("get cm cm -o jsonpath={.data.a}", "second");
    k.ok("edit cm cm", "Edit cancelled, no changes made.");
    k.feeds("replace -f -", MAP, "configmap/cm replaced");
    k.says("get cm cm -o jsonpath={.data}", r#"{"a":"first"}"#);
    let (_, old) = k.text("get cm cm -o yaml");
    k.ok("label cm cm moved=on", "labeled");
    k.feeds_in_vain(
        "replace -f -",
        &old,
        "Operation cannot be fulfilled on configmaps \"cm\": the object has been modified; please apply your changes to the \
         latest version and try again",
    );
    k.says("get cm cm -o jsonpath={.metadata.labels.moved}", "on");
    let (_, before) = k.text("get cm cm -o jsonpath={.metadata.uid}");
    k.feeds("replace --force -f -", MAP, "configmap/cm replaced");
    if k.text("get cm cm -o jsonpath={.metadata.uid}").1 == before {
        k.report("replace --force kept the object".to_owned());
    }
    k.feeds_in_vain(
        "replace -f -",
        &MAP.replace("name: cm", "name: ghost"),
        "configmaps \"ghost\" not found",
    );
    k.ok("edit sensor s", "Edit cancelled, no changes made.");
    k.ok(
        r#"patch sensor s --type=merge -p '{"spec":{"note":"first"}}'"#,
        "patched",
    );
    k.ok("edit sensor s", "sensor.argoproj.io/s edited");
    k.says("get sensor s -o jsonpath={.spec.note}", "second");
}

fn patches(k: &mut Kubectl) {
    k.ok(
        r#"patch cm cm -p '{"data":{"a":"9"}}'"#,
        "configmap/cm patched",
    );
    k.ok(
        r#"patch cm cm -p '{"data":{"a":"9"}}'"#,
        "configmap/cm patched (no change)",
    );
    k.ok(
        r#"patch cm cm --type=merge -p '{"data":{"b":"1"}}'"#,
        "patched",
    );
    k.ok(
        r#"patch cm cm --type=json -p '[{"op":"replace","path":"/data/a","value":"10"},{"op":"remove","path":"/data/b"}]'"#,
        "patched",
    );
    k.says("get cm cm -o jsonpath={.data}", r#"{"a":"10"}"#);
    k.fails(
        r#"patch cm cm --type=json -p '[{"op":"test","path":"/data/a","value":"0"}]'"#,
        "error",
    );
    k.file("patch.yaml", "data: {a: from-file}\n");
    k.ok("patch cm cm --patch-file=patch.yaml", "patched");
    // Containers are merged by their names.
    k.ok(
        r#"patch deploy d -p '{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"B","value":"3"}]}]}}}}'"#,
        "patched",
    );
    k.says(
        "get deploy d -o jsonpath={..env[*].name}{..image}",
        "B Aeventlab:dev",
    );
    k.fails(
        "patch sensor s -p '{\"spec\":{}}'",
        "the body of the request was in an unknown format",
    );
    k.ok(
        r#"patch sensor s --type=merge -p '{"spec":{"x":1}}'"#,
        "patched",
    );
    k.ok(
        r#"patch sensor s --type=json -p '[{"op":"remove","path":"/spec/x"}]'"#,
        "patched",
    );
    k.ok(
        r#"patch deploy d --subresource=scale --type=merge -p '{"spec":{"replicas":0}}'"#,
        "patched",
    );
    k.ok(
        r#"patch sensor s --subresource=status --type=merge -p '{"status":{"conditions":[]}}'"#,
        "patched",
    );
    k.fails(
        r#"patch cm ghost -p '{}'"#,
        "configmaps \"ghost\" not found",
    );
    k.ok(
        "set image deploy/d main=eventlab:x",
        "deployment.apps/d image updated",
    );
    k.ok("set env deploy/d C=4", "deployment.apps/d env updated");
    k.ok(
        "set resources deploy/d --limits=cpu=1",
        "resource requirements updated",
    );
    k.ok(
        "set serviceaccount deploy/d robot",
        "serviceaccount updated",
    );
    k.says(
        "get deploy d -o jsonpath={..image}{..limits.cpu}{..serviceAccountName}",
        "eventlab:x1robot",
    );
}

fn labels(k: &mut Kubectl) {
    k.ok("label cm cm team=x", "configmap/cm labeled");
    k.fails(
        "label cm cm team=y",
        "already has a value (x), and --overwrite is false",
    );
    k.ok("label cm cm team=y --overwrite", "configmap/cm labeled");
    k.ok("label cm cm team=y --overwrite", "configmap/cm not labeled");
    k.ok("label cm cm --list", "team=y");
    k.ok("label cm --all seen=yes", "configmap/cm labeled");
    k.ok("label cm -l team=y seen-", "configmap/cm unlabeled");
    k.ok("annotate cm cm note=first", "configmap/cm annotate");
    k.ok(
        "annotate cm cm note=other --overwrite",
        "configmap/cm annotate",
    );
    k.says(
        "get cm cm -o jsonpath={.metadata.annotations.note}",
        "other",
    );
    k.ok("annotate cm cm note-", "configmap/cm annotate");
    k.fails("label cm cm 'bad value=x y'", "invalid");
}

fn writes_that_write_nothing(k: &mut Kubectl) {
    k.ok("create configmap dry --dry-run=server -o yaml", "uid:");
    k.ok("create configmap dry --dry-run=client -o yaml", "name: dry");
    k.fails("get cm dry", "NotFound");
    let changed = MAP.replace("first", "dry");
    k.feeds(
        "apply --dry-run=server -f -",
        &changed,
        "configmap/cm configured (server dry run)",
    );
    k.feeds(
        "apply --server-side --force-conflicts --dry-run=server -f -",
        &changed,
        "configmap/cm serverside-applied (server dry run)",
    );
    k.ok(
        r#"patch cm cm --dry-run=server -p '{"data":{"a":"dry"}}'"#,
        "patched",
    );
    k.ok("label cm cm dry=run --dry-run=server", "labeled");
    k.ok("scale deploy d --replicas=5 --dry-run=server", "scaled");
    k.ok(
        "delete cm cm --dry-run=server",
        "configmap \"cm\" deleted (server dry run)",
    );
    k.says(
        "get cm cm -o jsonpath={.data.a}{.metadata.labels.dry}",
        "from-file",
    );
    k.says("get deploy d -o jsonpath={.spec.replicas}", "0");
}

fn what_is_misspelt(k: &mut Kubectl) {
    let typo = SENSOR
        .replace("spec:", "specc: {}\nspec:")
        .replace("name: s}", "name: t}");
    k.feeds_in_vain(
        "create -f -",
        &typo,
        "strict decoding error: unknown field \"specc\"",
    );
    k.feeds(
        "create --validate=warn -f -",
        &typo,
        "Warning: unknown field \"specc\"|created",
    );
    k.feeds("apply --validate=ignore -f -", &typo, "configured");
    k.feeds_in_vain(
        "apply -f -",
        &DEPLOYMENT.replace("replicas:", "replica:"),
        "strict decoding error: unknown field \"spec.replica\"",
    );
    k.feeds_in_vain(
        "apply -f -",
        "apiVersion: argoproj.io/v1alpha2\nkind: Sensor\nmetadata: {name: x}\n",
        "no matches for kind \"Sensor\" in version \"argoproj.io/v1alpha2\"",
    );
    k.ok("delete sensor t", "deleted");
}

fn deletes(k: &mut Kubectl) {
    for name in ["d1", "d2", "d3", "d4", "d5"] {
        k.ok(&format!("create configmap {name}"), "created");
    }
    k.ok("delete cm d1", "configmap \"d1\" deleted");
    k.fails("delete cm d1", "configmaps \"d1\" not found");
    k.says("delete cm d1 --ignore-not-found", "");
    k.ok("delete cm d2 --wait=false", "deleted");
    k.ok("delete cm d3 --cascade=foreground", "deleted");
    k.ok("delete cm d4 --cascade=orphan --now", "deleted");
    k.ok("delete cm/d5 -o name", "configmap/d5");
    k.feeds("delete -f -", SENSOR, "sensor.argoproj.io \"s\" deleted");
    k.fails(
        "get sensor s",
        "Error from server (NotFound): sensors.argoproj.io \"s\" not found",
    );
    k.ok("delete sensor --all", "deleted");
    k.ok("delete deploy d", "deployment.apps \"d\" deleted");
    k.ok("delete configmap,secret --all", "configmap \"cm\" deleted");
}

fn owners_and_finalizers(k: &mut Kubectl) {
    k.ok("create configmap held", "created");
    k.ok(
        r#"patch cm held --type=merge -p '{"metadata":{"finalizers":["lab/hold"]}}'"#,
        "patched",
    );
    k.ok("delete cm held --wait=false", "deleted");
    k.ok("get cm held -o jsonpath={.metadata.deletionTimestamp}", "T");
    k.fails(
        "delete cm held --timeout=1s",
        "timed out waiting for the condition",
    );
    k.fails(
        "wait --for=delete cm/held --timeout=1s",
        "timed out waiting",
    );
    k.ok(
        r#"patch cm held --type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]'"#,
        "patched",
    );
    k.ok("wait --for=delete cm/held --timeout=60s", "");
    k.fails("get cm held", "NotFound");
    k.ok("create namespace short", "created");
    k.ok("-n short create configmap inside", "created");
    k.ok("-n short create sa robot", "created");
    k.ok("delete namespace short --timeout=60s", "deleted");
    k.fails("get namespace short", "NotFound");
    k.fails(
        "-n short create configmap late",
        "namespaces \"short\" not found",
    );
    k.fails(
        "delete namespace kube-system",
        "is forbidden: this namespace may not be deleted",
    );
}
