//! `eventlab cluster`: start, status, kubeconfig and stop; and kubectl against the whole cluster, verb by verb.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::kubectl::binaries;

/// Only a guard against hanging.
const HANG: Duration = Duration::from_secs(120);

/// A cluster in the background; stopped at the end of the test.
pub struct Background {
    state: tempfile::TempDir,
}

impl Background {
    pub fn start() -> Background {
        let cluster = Background {
            state: tempfile::tempdir().unwrap(),
        };
        let output = cluster.run(&["cluster", "start", "--detach"]);
        assert!(output.status.success(), "{output:?}");
        cluster
    }

    /// A command of this program in the cluster's session.
    pub fn run(&self, arguments: &[&str]) -> Output {
        eventlab(self.state.path(), arguments)
    }

    /// Standard output of a command that must succeed.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn state(&self) -> &Path {
        self.state.path()
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.state.path().join("embedded").join("kubeconfig")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.run(&["cluster", "stop"]);
    }
}

fn eventlab(state: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(arguments)
        .arg("--state-dir")
        .arg(state)
        .env_remove("EVENTLAB_STATE_DIR")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn a_cluster_in_the_background_is_found_and_stopped() {
    let cluster = Background::start();
    let status = cluster.ok(&["cluster", "status"]);
    assert!(status.starts_with("running     process "), "{status}");
    let path = cluster.ok(&["cluster", "kubeconfig", "--path"]);
    assert_eq!(Path::new(path.trim()), cluster.kubeconfig());
    let export = cluster.ok(&["cluster", "kubeconfig", "--export"]);
    assert_eq!(export, format!("export KUBECONFIG='{}'\n", path.trim()));
    let read = kube::config::Kubeconfig::read_from(path.trim()).unwrap();
    let contexts: Vec<&str> = read.contexts.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        contexts,
        ["learner", "order-sensor", "order-runner", "admin"]
    );
    assert_eq!(read.current_context.as_deref(), Some("learner"));

    let second = cluster.run(&["cluster", "start", "--detach"]);
    assert_eq!(second.status.code(), Some(3), "{second:?}");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        said.contains("a cluster of this session runs already, in process "),
        "{said}"
    );

    assert_eq!(cluster.ok(&["cluster", "stop"]), "stopped\n");
    let gone = cluster.run(&["cluster", "status"]);
    assert_eq!(gone.status.code(), Some(3), "{gone:?}");
    // The same port again: shells keep their kubeconfig.
    let before = read.clusters[0].cluster.as_ref().unwrap().server.clone();
    cluster.ok(&["cluster", "start", "--detach"]);
    let read = kube::config::Kubeconfig::read_from(path.trim()).unwrap();
    assert_eq!(read.clusters[0].cluster.as_ref().unwrap().server, before);
}

#[test]
fn a_folder_named_from_here_is_found_by_pods() {
    let state = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .args(arguments)
            .args(["--state-dir", "here"])
            .current_dir(state.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    assert!(run(&["cluster", "start", "--detach"]).status.success());
    let path = run(&["cluster", "kubeconfig"]);
    run(&["cluster", "stop"]);
    let path = String::from_utf8(path.stdout).unwrap();
    assert!(Path::new(path.trim()).is_absolute(), "{path}");
}

#[test]
fn a_cluster_that_cannot_start_says_why() {
    let state = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = eventlab(
        state.path(),
        &["cluster", "start", "--detach", "--port", &port],
    );
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains(&format!("port {port} on 127.0.0.1 is taken")),
        "{said}"
    );
    let output = eventlab(state.path(), &["cluster", "stop"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

/// kubectl against a cluster in the background, as admin in a namespace of its own.
struct Kubectl<'a> {
    binary: &'a Path,
    cluster: &'a Background,
    wrong: Vec<String>,
}

impl Kubectl<'_> {
    fn command(&self, line: &str) -> Command {
        let words = shell_words::split(line).unwrap();
        let mut command = Command::new(self.binary);
        command
            .args(["--context=admin", "-n", "default"])
            .args(words)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.cluster.state())
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .current_dir(self.cluster.state())
            .stdin(Stdio::null());
        command
    }

    fn text(&self, line: &str) -> (bool, String) {
        let output = self.command(line).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.success(),
            text(&output.stdout) + &text(&output.stderr),
        )
    }

    /// A command that succeeds and says all of `words` (parted by `|`).
    fn ok(&mut self, line: &str, words: &str) {
        self.check(line, true, words);
    }

    /// A command that fails and says all of `words`.
    fn fails(&mut self, line: &str, words: &str) {
        self.check(line, false, words);
    }

    fn check(&mut self, line: &str, success: bool, words: &str) {
        let (did, said) = self.text(line);
        if did != success || !words.split('|').all(|word| said.contains(word)) {
            let how = if did { "succeeded" } else { "failed" };
            self.wrong
                .push(format!("{line} {how}, wanted {words:?}:\n{said}"));
        }
    }

    /// Repeats a command until it says all of `words`.
    fn soon(&mut self, line: &str, words: &str) {
        let end = Instant::now() + HANG;
        loop {
            let (_, said) = self.text(line);
            if words.split('|').all(|word| said.contains(word)) {
                return;
            }
            if Instant::now() > end {
                return self
                    .wrong
                    .push(format!("{line} never said {words:?}:\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn json(&self, line: &str) -> Value {
        let (_, said) = self.text(line);
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{line}: {said}"))
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.cluster.state().join(name), text).unwrap();
    }
}

const WEB: &str = r#"
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

fn deployments_roll(k: &mut Kubectl<'_>) {
    k.file("web.yaml", WEB);
    k.ok(
        "apply -f web.yaml",
        "deployment.apps/web created|service/web created",
    );
    k.ok(
        "rollout status deploy/web --timeout=60s",
        "successfully rolled out",
    );
    k.ok(
        "wait --for=condition=Available deploy/web --timeout=60s",
        "condition met",
    );
    k.ok("get deploy web", "NAME|READY|UP-TO-DATE|AVAILABLE|2/2");
    k.ok(
        "set env deploy/web STEP=2",
        "deployment.apps/web env updated",
    );
    k.ok(
        "rollout status deploy/web --timeout=60s",
        "successfully rolled out",
    );
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
    k.ok(
        "rollout status deploy/web --timeout=60s",
        "successfully rolled out",
    );
    k.ok("get deploy web -o jsonpath={..env[0].value}", "1");
    k.ok(
        "rollout restart deploy/web",
        "deployment.apps/web restarted",
    );
    k.ok(
        "rollout status deploy/web --timeout=60s",
        "successfully rolled out",
    );
    k.ok("rollout pause deploy/web", "paused");
    k.ok("rollout resume deploy/web", "resumed");
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
}

fn pods_are_read(k: &mut Kubectl<'_>) {
    k.ok("logs -l app=web", "serving ledger /data/l.db");
    k.ok(
        "logs deploy/web --timestamps --tail=1 --since=1h",
        "Z serving ledger",
    );
    k.ok("logs deploy/web -c main", "serving ledger");
    k.fails(
        "logs deploy/web --previous",
        "previous terminated container \"main\" in pod",
    );
    k.ok(
        "get pods -o wide -l app=web",
        "NOMINATED NODE|READINESS GATES|1/1|Running",
    );
    k.ok(
        "get pods -A --sort-by=.metadata.creationTimestamp",
        "NAMESPACE",
    );
    k.ok(
        "get pods -l 'app in (web)' --show-labels -o wide",
        "LABELS|app=web",
    );
    k.ok("get pods -l app=none", "No resources found");
    k.ok(
        "get pods --field-selector=status.phase=Running -o name",
        "pod/web-",
    );
    k.ok(
        "get deploy,rs,svc -o custom-columns=KIND:.kind,NAME:.metadata.name",
        "Deployment|ReplicaSet|Service",
    );
    k.ok("get deploy web -o go-template={{.metadata.name}}", "web");
    k.ok(
        "describe pod -l app=web",
        "Controlled By:  ReplicaSet/web-|Scheduled|default-scheduler|Pulled|kubelet|Started container main",
    );
    k.ok("events --for deploy/web", "ScalingReplicaSet");
    k.ok("events --types=Normal", "SuccessfulCreate|ReplicaSet/web-");
    k.ok(
        "get events --field-selector=reason=Scheduled",
        "LAST SEEN|Successfully assigned default/web-",
    );
    k.ok("exec deploy/web -- /eventlab ledger apply --db /data/l.db --mode atomic --order-id o --amount 5 --arrival a --workflow-uid u", "applied");
    k.fails(
        "exec deploy/web -- sh",
        "exec: \"sh\": executable file not found in $PATH",
    );
    let pod = k.text("get pods -l app=web -o name").1;
    let pod = pod.trim().trim_start_matches("pod/").to_owned();
    k.file("copied", "x");
    k.fails(
        &format!("cp copied {pod}:/tmp/x"),
        "exec: \"tar\": executable file not found in $PATH",
    );
    k.fails("attach deploy/web", "attach is not offered");
    k.fails("top pods", "Metrics API not available");
    k.fails(
        "autoscale deploy web --max=3",
        "the server could not find the requested resource",
    );
    k.ok("create job j --image=eventlab:dev", "Warning: eventlab: Job objects are stored, but nothing on the embedded cluster acts on them|created");
    k.ok("delete job j", "deleted");
    k.ok("explain sensor.spec", "KIND:       Sensor");
    k.ok("explain workflow", "apiVersion");
}

fn pods_are_healed(k: &mut Kubectl<'_>) {
    let before = k.text("get pods -l app=web -o name").1;
    k.ok("delete pod -l app=web", "deleted");
    k.ok(
        "wait --for=condition=Available deploy/web --timeout=60s",
        "condition met",
    );
    let after = k.text("get pods -l app=web -o name").1;
    if before == after || !after.starts_with("pod/web-") {
        k.wrong
            .push(format!("pods before {before} and after {after}"));
    }
    let crash = "run crash --image=eventlab:dev -- ledger show --db /none";
    k.ok(crash, "pod/crash created");
    k.soon("get pod crash", "CrashLoopBackOff");
    k.ok("logs crash --previous", "there is no ledger at /none");
    k.ok("describe pod crash", "Back-off restarting failed container crash in pod crash_default|CrashLoopBackOff|Exit Code:    1");
    k.ok("delete pod crash --grace-period=0 --force", "force deleted");
    k.ok("run nothing --image=busybox", "created");
    k.soon("get pod nothing", "ImagePullBackOff");
    k.ok(
        "describe pod nothing",
        "does not exist on the embedded cluster",
    );
    k.ok("delete pod nothing --now", "deleted");
}

fn owners_and_finalizers(k: &mut Kubectl<'_>) {
    // A ReplicaSet adopts the pods that it selects, and lets go of those that it no longer does.
    k.ok("delete deploy web --cascade=orphan", "deleted");
    k.ok("get rs -l app=web -o jsonpath={..ownerReferences}", "");
    k.ok("get pods -l app=web", "Running");
    k.ok("apply -f web.yaml", "deployment.apps/web created");
    k.ok(
        "rollout status deploy/web --timeout=60s",
        "successfully rolled out",
    );
    k.soon(
        "get rs -l app=web -o jsonpath={..ownerReferences[*].name}",
        "web",
    );
    k.ok(
        "delete deploy web --cascade=foreground --timeout=60s",
        "deleted",
    );
    k.ok("get rs,pods -l app=web", "No resources found");
    k.ok("create configmap held", "created");
    k.ok(
        r#"patch cm held --type=merge -p '{"metadata":{"finalizers":["lab/hold"]}}'"#,
        "patched",
    );
    k.ok("delete cm held --wait=false", "deleted");
    k.ok("get cm held -o jsonpath={.metadata.deletionTimestamp}", "T");
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
    k.ok("delete namespace short --timeout=60s", "deleted");
    k.fails("get namespace short", "NotFound");
    k.fails(
        "delete namespace kube-system",
        "is forbidden: this namespace may not be deleted",
    );
}

fn writes_that_write_nothing(k: &mut Kubectl<'_>) {
    k.ok("create configmap dry --dry-run=server -o yaml", "uid:");
    k.fails("get cm dry", "NotFound");
    k.ok(
        "apply -f web.yaml --dry-run=server",
        "created (server dry run)",
    );
    k.ok(
        "apply --server-side -f web.yaml --dry-run=server",
        "serverside-applied (server dry run)",
    );
    k.fails("get deploy web", "NotFound");
    k.file("typo.yaml", &WEB.replace("replicas:", "replica:"));
    k.fails(
        "apply -f typo.yaml",
        "strict decoding error: unknown field \"spec.replica\"",
    );
    let pod = "run p --image=eventlab:dev --dry-run=client -o json";
    let made = k.json(pod);
    if made["spec"]["containers"][0]["image"] != "eventlab:dev" {
        k.wrong.push(made.to_string());
    }
}

/// A Service is reached through a port of its own choice on this machine.
fn services_are_forwarded(k: &mut Kubectl<'_>) {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    k.ok("apply -f web.yaml", "created");
    k.ok(
        "rollout status deploy/web --timeout=60s",
        "successfully rolled out",
    );
    let mut forward = k.command("port-forward svc/web :80");
    let mut forward = forward.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    // Held until the end: the program says more, and would end without a reader.
    let mut out = BufReader::new(forward.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let port = line
        .strip_prefix("Forwarding from 127.0.0.1:")
        .and_then(|rest| rest.split(' ').next())
        .and_then(|port| port.parse::<u16>().ok());
    match port {
        Some(port) => {
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            let request = b"GET /balances HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n";
            stream.write_all(request).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            if !answer.starts_with("HTTP/1.1 ") {
                k.wrong.push(format!("the Service answered {answer:?}"));
            }
        }
        None => k.wrong.push(format!("port-forward said {line:?}")),
    }
    // It may have ended by itself.
    let _ = forward.kill();
    let _ = forward.wait();
}

/// Answers what went wrong.
fn every_verb(binary: &Path) -> Vec<String> {
    let cluster = Background::start();
    let mut k = Kubectl {
        binary,
        cluster: &cluster,
        wrong: Vec::new(),
    };
    deployments_roll(&mut k);
    pods_are_read(&mut k);
    pods_are_healed(&mut k);
    owners_and_finalizers(&mut k);
    writes_that_write_nothing(&mut k);
    services_are_forwarded(&mut k);
    k.wrong
}

#[test]
fn the_newest_kubectl_uses_the_whole_cluster() {
    let Some(binary) = binaries().pop() else {
        eprintln!("SKIPPED: there is no kubectl on the PATH");
        return;
    };
    let wrong = every_verb(&binary);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "minutes: every kubectl version that is installed"]
fn every_kubectl_uses_the_whole_cluster() {
    for binary in binaries() {
        let wrong = every_verb(&binary);
        assert!(
            wrong.is_empty(),
            "{}: {}",
            binary.display(),
            wrong.join("\n")
        );
        eprintln!("{} passed", binary.display());
    }
}
