//! Deployments that roll, pods that are healed, logs, events, owners and nodes.

use super::Kubectl;

pub const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: eventlab:dev
        command: [/eventlab]
        args: [ledger, serve, --db, /data/l.db, --port, "8080"]
        env: [{name: STEP, value: "1"}]
        ports: [{containerPort: 8080, name: http}]
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
"#;
const OUT: &str = "successfully rolled out";
const STATUS: &str = "rollout status deploy/web --timeout=60s";

pub fn all(k: &mut Kubectl) {
    deployments_roll(k);
    logs_are_read(k);
    events_tell(k);
    pods_are_healed(k);
    workflows_run(k);
    nodes_are_drained(k);
    owners(k);
}

fn deployments_roll(k: &mut Kubectl) {
    k.file("web.yaml", WEB);
    k.ok(
        "apply -f web.yaml",
        "deployment.apps/web created|service/web created",
    );
    k.ok(STATUS, OUT);
    k.ok(
        "wait --for=condition=Available deploy/web --timeout=60s",
        "condition met",
    );
    k.ok("get deploy web", "NAME|READY|UP-TO-DATE|AVAILABLE|2/2");
    k.ok(
        "get deploy web -o wide",
        "CONTAINERS|IMAGES|SELECTOR|main|eventlab:dev|app=web",
    );
    k.ok("get rs", "DESIRED|CURRENT|READY|web-");
    k.ok(
        "get all",
        "pod/web-|service/web|deployment.apps/web|replicaset.apps/web-",
    );
    k.ok(
        "set env deploy/web STEP=2",
        "deployment.apps/web env updated",
    );
    k.ok(STATUS, OUT);
    k.ok(
        "annotate deploy web kubernetes.io/change-cause=second",
        "annotate",
    );
    k.ok(
        "rollout history deploy/web",
        "REVISION  CHANGE-CAUSE\n1         <none>\n2         second",
    );
    k.ok(
        "rollout history deploy/web --revision=1",
        "revision #1|STEP:\t1",
    );
    k.ok("rollout undo deploy/web", "deployment.apps/web rolled back");
    k.ok(STATUS, OUT);
    k.says("get deploy web -o jsonpath={..env[0].value}", "1");
    k.ok(
        "rollout undo deploy/web --to-revision=2",
        "deployment.apps/web rolled back",
    );
    k.ok(STATUS, OUT);
    k.says("get deploy web -o jsonpath={..env[0].value}", "2");
    k.ok(
        "rollout restart deploy/web",
        "deployment.apps/web restarted",
    );
    k.ok(STATUS, OUT);
    k.ok("rollout pause deploy/web", "paused");
    k.ok("rollout resume deploy/web", "resumed");
    k.fails(
        "scale deploy/web --current-replicas=7 --replicas=1",
        "Expected replicas to be 7, was 2",
    );
    k.ok(
        "scale deploy/web --replicas=1",
        "deployment.apps/web scaled",
    );
    k.ok(
        "wait --for=jsonpath={.status.replicas}=1 deploy/web --timeout=60s",
        "condition met",
    );
    k.ok(
        "describe deploy web",
        "NewReplicaSetAvailable|ScalingReplicaSet|deployment-controller|Scaled up replica set web-",
    );
    k.ok(
        "describe rs -l app=web",
        "Controlled By:  Deployment/web|SuccessfulCreate",
    );
    k.ok("describe service web", "Selector:|app=web|Endpoints:|10.");
    k.fails(
        "rollout status deploy/ghost",
        "deployments.apps \"ghost\" not found",
    );
}

fn logs_are_read(k: &mut Kubectl) {
    k.soon("logs -l app=web", "serving ledger /data/l.db");
    k.ok(
        "logs deploy/web --timestamps --tail=1 --since=1h",
        "Z serving ledger",
    );
    k.says("logs deploy/web --tail=0", "");
    k.says("logs deploy/web --since-time=2100-01-01T00:00:00Z", "");
    k.ok("logs deploy/web -c main", "serving ledger");
    k.ok(
        "logs deploy/web --all-containers --prefix",
        "[pod/web-|/main] serving ledger",
    );
    k.says("logs deploy/web --limit-bytes=7", "serving");
    k.fails(
        "logs deploy/web -c ghost",
        "container ghost is not valid for pod web-",
    );
    k.fails(
        "logs deploy/web --previous",
        "previous terminated container \"main\" in pod",
    );
    k.fails("logs ghost", "pods \"ghost\" not found");
    let two = r#"run two --image=eventlab:dev --overrides={"spec":{"containers":[{"name":"a","image":"eventlab:dev","args":["ledger","serve","--db","/tmp/l.db"]},{"name":"b","image":"busybox"}]}}"#;
    k.ok(&two.replace('"', "\\\""), "pod/two created");
    // `ErrImagePull` at first, which no poll is sure to meet; then `ImagePullBackOff`.
    k.soon("get pod two -o jsonpath={..waiting.reason}", "ImagePull");
    k.ok("logs two", "Defaulted container \"a\" out of: a, b");
    k.fails(
        "logs two -c b",
        "container \"b\" in pod \"two\" is waiting to start",
    );
    k.ok("delete pod two --now", "deleted");
    // A log that is followed goes on until its container ends.
    let (_, pod) = k.text("get pods -l app=web -o jsonpath={.items[0].metadata.name}");
    let follow = k.follow(&format!("logs -f {pod}"));
    follow.until(k, "serving ledger");
    k.ok(&format!("delete pod {pod}"), "deleted");
    let (success, _) = follow.end();
    if !success {
        k.report(format!("logs -f {pod} failed at the end of its pod"));
    }
    k.ok(
        "wait --for=condition=Available deploy/web --timeout=60s",
        "condition met",
    );
}

fn events_tell(k: &mut Kubectl) {
    // A pod was deleted a moment ago, and what the Deployment says of it may be older.
    k.soon(
        "get pods -o wide -l app=web",
        "NOMINATED NODE|READINESS GATES|1/1|Running",
    );
    k.ok(
        "get pods --field-selector=status.phase=Running -o name",
        "pod/web-",
    );
    k.ok(
        "get deploy,rs,svc -o custom-columns=KIND:.kind,NAME:.metadata.name",
        "Deployment|ReplicaSet|Service",
    );
    k.soon(
        "describe pod -l app=web",
        "Controlled By:  ReplicaSet/web-|Scheduled|default-scheduler|Pulled|kubelet|Started container main",
    );
    k.ok("events --for deploy/web", "ScalingReplicaSet");
    k.ok("events --types=Normal", "SuccessfulCreate|ReplicaSet/web-");
    k.ok(
        "events -A",
        "NAMESPACE|LAST SEEN|TYPE|REASON|OBJECT|MESSAGE",
    );
    let watch = k.follow("events -w");
    watch.until(k, "Scheduled");
    k.ok(
        "get events --field-selector=reason=Scheduled",
        "LAST SEEN|Successfully assigned default/web-",
    );
    k.ok(
        "get events --sort-by=.lastTimestamp",
        "LAST SEEN|ScalingReplicaSet",
    );
    k.ok("get events.events.k8s.io", "LAST SEEN|TYPE|REASON|OBJECT");
}

fn pods_are_healed(k: &mut Kubectl) {
    let before = k.text("get pods -l app=web -o name").1;
    k.ok("delete pod -l app=web", "deleted");
    k.ok(
        "wait --for=condition=Available deploy/web --timeout=60s",
        "condition met",
    );
    k.soon("get pods -l app=web -o name", "pod/web-");
    let after = k.text("get pods -l app=web -o name").1;
    if before == after || !after.starts_with("pod/web-") {
        k.report(format!("pods before {before} and after {after}"));
    }
    k.ok(
        "run crash --image=eventlab:dev -- ledger show --db /none",
        "pod/crash created",
    );
    k.soon("get pod crash", "CrashLoopBackOff");
    k.ok("logs crash --previous", "there is no ledger at /none");
    k.soon(
        "describe pod crash",
        "Back-off restarting failed container crash in pod crash_default|CrashLoopBackOff|Exit Code:    1",
    );
    k.ok("delete pod crash --grace-period=0 --force", "force deleted");
    k.ok("run nothing --image=busybox", "created");
    k.soon("get pod nothing", "ImagePullBackOff");
    k.ok(
        "describe pod nothing",
        "does not exist on the embedded cluster",
    );
    k.ok("delete pod nothing --now", "deleted");
    k.ok(
        "run once --image=eventlab:dev --restart=Never -- ledger show --db /none",
        "created",
    );
    k.ok(
        "wait --for=jsonpath={.status.phase}=Failed pod/once --timeout=60s",
        "condition met",
    );
    k.ok("get pod once", "0/1|Error");
    k.ok("delete pod once", "deleted");
}

/// A Workflow that takes its pods, and then itself, away.
fn workflows_run(k: &mut Kubectl) {
    k.feeds(
        "create -f -",
        "apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: brief}
spec:
  entrypoint: main
  serviceAccountName: default
  podGC: {strategy: OnWorkflowCompletion}
  ttlStrategy: {secondsAfterCompletion: 20}
  templates:
  - name: main
    container: {image: 'eventlab:dev', command: [/eventlab], args: [ledger, show, --db, /none]}
",
        "workflow.argoproj.io/brief created",
    );
    // By its name alone kubectl drops the first event, which may be the last one.
    let watch = k.follow("get wf -w --field-selector=metadata.name=brief");
    watch.until(k, "brief|Failed");
    k.ok(
        "wait --for=jsonpath={.status.phase}=Failed wf/brief --timeout=60s",
        "condition met",
    );
    k.ok("describe wf brief", "WorkflowRunning|workflow-controller");
    k.ok("wait --for=delete wf/brief --timeout=60s", "");
    k.says(
        "get pods -l workflows.argoproj.io/workflow=brief -o name",
        "",
    );
}

fn nodes_are_drained(k: &mut Kubectl) {
    k.ok("cordon eventlab", "node/eventlab cordoned");
    k.ok("get nodes", "Ready,SchedulingDisabled");
    k.ok(
        "run late --image=eventlab:dev -- ledger serve --db /tmp/l.db",
        "created",
    );
    k.soon("describe pod late", "FailedScheduling");
    k.ok("uncordon eventlab", "node/eventlab uncordoned");
    k.ok(
        "wait --for=condition=Ready pod/late --timeout=60s",
        "condition met",
    );
    // From 1.32 on a drain deletes pods with a protobuf body.
    k.ok(
        "drain eventlab --disable-eviction --force --grace-period=0 --delete-emptydir-data",
        "node/eventlab drained",
    );
    k.fails("get pod late", "pods \"late\" not found");
    k.ok("uncordon eventlab", "node/eventlab uncordoned");
    k.ok(
        "wait --for=condition=Available deploy/web --timeout=60s",
        "condition met",
    );
}

fn owners(k: &mut Kubectl) {
    // A ReplicaSet adopts the pods that it selects, and lets go of those that it no longer does.
    k.ok("delete deploy web --cascade=orphan", "deleted");
    k.says("get rs -l app=web -o jsonpath={..ownerReferences}", "");
    k.ok("get pods -l app=web", "Running");
    k.ok("apply -f web.yaml", "deployment.apps/web created");
    k.ok(STATUS, OUT);
    k.soon(
        "get rs -l app=web -o jsonpath={..ownerReferences[*].name}",
        "web",
    );
    k.ok(
        "delete deploy web --cascade=foreground --timeout=60s",
        "deleted",
    );
    k.ok("get rs,pods -l app=web", "No resources found");
}
