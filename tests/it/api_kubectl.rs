//! kubectl of every version found beside the one in the path, through the TLS listener.
//!
//! Without kubectl the test says so and passes: a user's machine need not have it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::api_support::{Lab, Transport};

const LIMIT: Duration = Duration::from_secs(120);

/// The kubectl in the path, and those that come beside it as `kubectl.1.NN`.
fn clients() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(first) = std::env::split_paths(&path)
        .map(|dir| dir.join("kubectl"))
        .find(|file| file.is_file())
    else {
        return Vec::new();
    };
    let real = first.canonicalize().unwrap_or(first);
    let mut versions: Vec<PathBuf> = real
        .parent()
        .and_then(|dir| std::fs::read_dir(dir).ok())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("kubectl.1."))
        })
        .collect();
    versions.sort();
    if versions.is_empty() {
        versions.push(real);
    }
    versions
}

struct Kubectl<'a> {
    program: &'a Path,
    home: PathBuf,
    commands: usize,
    wrong: Vec<String>,
}

impl Kubectl<'_> {
    async fn output(&self, arguments: &str, input: &str) -> (bool, String) {
        use tokio::io::AsyncWriteExt;
        let words = shell_words::split(arguments).unwrap();
        let mut child = Command::new(self.program)
            .args(words)
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", "/usr/bin:/bin")
            .env("KUBECONFIG", self.home.join("config"))
            // Lists by watch, as newer clients do unasked.
            .env("KUBE_FEATURE_WatchListClient", "true")
            .env("KUBE_EDITOR", "sed -i s/first/second/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = tokio::spawn(async move {
            let _ = stdin.write_all(input.as_bytes()).await;
        });
        let output = tokio::time::timeout(LIMIT, child.wait_with_output())
            .await
            .expect("in time")
            .unwrap();
        writer.await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    }

    /// Runs a command that must succeed and say this.
    async fn ok(&mut self, arguments: &str, input: &str, want: &str) {
        self.commands += 1;
        let (success, text) = self.output(arguments, input).await;
        if !success || !text.contains(want) {
            self.wrong
                .push(format!("{arguments}\n    want {want:?}\n    have {text}"));
        }
    }

    /// Runs a command that must fail and say this.
    async fn fails(&mut self, arguments: &str, input: &str, want: &str) {
        self.commands += 1;
        let (success, text) = self.output(arguments, input).await;
        if success || !text.contains(want) {
            self.wrong.push(format!(
                "{arguments} (should fail)\n    want {want:?}\n    have {text}"
            ));
        }
    }
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {a: first}\n";
const MAP_CHANGED: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {a: other}\n";
const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 1
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      containers:
      - {name: main, image: 'eventlab:dev', env: [{name: A, value: '1'}]}
";
const SENSOR: &str = "apiVersion: argoproj.io/v1alpha1
kind: Sensor
metadata: {name: s}
spec: {dependencies: [{name: d, eventName: e}], triggers: []}
";

async fn discover(k: &mut Kubectl<'_>) {
    k.ok("version", "", "v1.36.2+eventlab").await;
    k.ok("api-resources", "", "sensors").await;
    k.ok("api-versions", "", "argoproj.io/v1alpha1").await;
    k.ok("get namespaces", "", "lab").await;
    k.ok("get sensors", "", "No resources found in lab namespace.")
        .await;
    k.fails(
        "get nonsense",
        "",
        "the server doesn't have a resource type",
    )
    .await;
    k.ok("get clusterroles cluster-admin", "", "CREATED AT")
        .await;
    k.ok("explain sensor.spec", "", "KIND:       Sensor").await;
    k.ok("get --raw /version", "", "gitVersion").await;
    k.ok("get --raw /healthz", "", "ok").await;
    k.ok("cluster-info", "", "is running at").await;
}

async fn write_objects(k: &mut Kubectl<'_>) {
    k.ok("apply -f -", MAP, "configmap/cm created").await;
    k.ok("apply -f -", MAP, "configmap/cm unchanged").await;
    k.ok("diff -f -", MAP, "").await;
    k.fails("diff -f -", MAP_CHANGED, "other").await;
    k.ok("apply -f -", MAP_CHANGED, "configmap/cm configured")
        .await;
    k.ok("get cm cm -o jsonpath={.data.a}", "", "other").await;
    k.ok(
        "apply --server-side --force-conflicts -f -",
        MAP,
        "configmap/cm serverside-applied",
    )
    .await;
    k.ok("edit cm cm", "", "configmap/cm edited").await;
    k.ok("get cm cm -o yaml", "", "a: second").await;
    k.ok("replace -f -", MAP, "configmap/cm replaced").await;
    k.ok("label cm cm team=x", "", "configmap/cm labeled").await;
    k.ok("annotate cm cm note=y", "", "configmap/cm annotate")
        .await;
    k.ok("get cm -l team=x", "", "cm").await;
    k.ok("apply -f -", SENSOR, "sensor.argoproj.io/s created")
        .await;
    k.ok(
        "apply -f -",
        &SENSOR.replace("eventName: e", "eventName: f"),
        "sensor.argoproj.io/s configured",
    )
    .await;
    k.ok(
        "apply --dry-run=server -f -",
        SENSOR,
        "sensor.argoproj.io/s configured (server dry run)",
    )
    .await;
    k.ok(
        "get sensor s -o jsonpath={.spec.dependencies[0].eventName}",
        "",
        "f",
    )
    .await;
    k.fails("patch sensor s -p '{\"spec\":{}}'", "", "unknown format")
        .await;
    k.ok(
        "patch sensor s --type merge -p '{\"spec\":{\"x\":1}}'",
        "",
        "patched",
    )
    .await;
    k.ok(
        "patch sensor s --type json -p '[{\"op\":\"remove\",\"path\":\"/spec/x\"}]'",
        "",
        "patched",
    )
    .await;
    let typo = SENSOR.replace("spec:", "specc:");
    k.fails(
        "create -f -",
        &typo.replace("name: s", "name: t"),
        "unknown field \"specc\"",
    )
    .await;
    k.ok(
        "create -f - --validate=warn",
        &typo.replace("name: s", "name: t"),
        "Warning: unknown field \"specc\"",
    )
    .await;
    k.ok(
        "create -f -",
        &SENSOR.replace("name: s}", "generateName: g-}"),
        "sensor.argoproj.io/g-",
    )
    .await;
    k.ok("delete sensor s", "", "sensor.argoproj.io \"s\" deleted")
        .await;
    k.fails(
        "get sensor s",
        "",
        "Error from server (NotFound): sensors.argoproj.io \"s\" not found",
    )
    .await;
}

/// From client-side to server-side apply, and what belongs to whom there.
async fn apply_server_side(k: &mut Kubectl<'_>) {
    let named = |text: &str, value: &str| {
        text.replace("name: cm", "name: ssa")
            .replace("a: first", &format!("a: {value}"))
    };
    k.ok("apply -f -", &named(MAP, "one"), "configmap/ssa created")
        .await;
    k.ok(
        "apply --server-side -f -",
        &named(MAP, "two"),
        "configmap/ssa serverside-applied",
    )
    .await;
    k.ok("get cm ssa -o jsonpath={.data.a}", "", "two").await;
    k.fails(
        "apply --server-side --field-manager=other -f -",
        &named(MAP, "three"),
        "conflict with \"kubectl\"",
    )
    .await;
    k.ok(
        "apply --server-side --field-manager=other --force-conflicts -f -",
        &named(MAP, "three"),
        "serverside-applied",
    )
    .await;
    k.ok(
        "get cm ssa -o yaml --show-managed-fields",
        "",
        "manager: other",
    )
    .await;
    k.ok(
        "apply --server-side -f -",
        &SENSOR.replace("name: s}", "name: ssa}"),
        "serverside-applied",
    )
    .await;
    k.ok(
        "apply --server-side -f -",
        &SENSOR
            .replace("name: s}", "name: ssa}")
            .replace("eventName: e", "eventName: f"),
        "serverside-applied",
    )
    .await;
}

async fn run_workloads(k: &mut Kubectl<'_>) {
    k.ok("apply -f -", DEPLOYMENT, "deployment.apps/d created")
        .await;
    k.ok(
        "apply -f -",
        &DEPLOYMENT.replace("'1'", "'2'"),
        "deployment.apps/d configured",
    )
    .await;
    k.ok("get deploy d -o jsonpath={..env[0].value}", "", "2")
        .await;
    k.ok(
        "set image deploy/d main=eventlab:x",
        "",
        "deployment.apps/d image updated",
    )
    .await;
    k.ok("set env deploy/d B=3", "", "deployment.apps/d env updated")
        .await;
    k.ok(
        "scale deploy d --replicas=3",
        "",
        "deployment.apps/d scaled",
    )
    .await;
    k.ok("get deploy d", "", "0/3").await;
    k.ok(
        "rollout restart deploy d",
        "",
        "deployment.apps/d restarted",
    )
    .await;
    k.ok("expose deploy d --port=80", "", "service/d exposed")
        .await;
    k.ok("get all", "", "service/d").await;
    k.ok("describe deploy d", "", "eventlab:x").await;
    k.ok("describe service d", "", "10.96.").await;
    k.ok("run p --image=eventlab:dev", "", "pod/p created")
        .await;
    k.ok("get pods -o wide", "", "<none>").await;
    k.ok(
        "wait pod/p --for=jsonpath={.status.phase}=Pending --timeout=30s",
        "",
        "condition met",
    )
    .await;
    k.ok("describe pod p", "", "eventlab:dev").await;
    k.fails("logs p", "", "no node is running").await;
    k.fails("logs ghost", "", "pods \"ghost\" not found").await;
    k.ok("delete pod p", "", "pod \"p\" deleted").await;
    k.ok("delete deploy,service --all", "", "deleted").await;
    k.ok("events", "", "").await;
}

async fn create_by_name(k: &mut Kubectl<'_>) {
    k.ok("create namespace other", "", "namespace/other created")
        .await;
    k.ok(
        "create configmap c2 --from-literal=a=1",
        "",
        "configmap/c2 created",
    )
    .await;
    k.ok(
        "create secret generic sec --from-literal=a=1",
        "",
        "secret/sec created",
    )
    .await;
    k.ok("get secret sec -o jsonpath={.data.a}", "", "MQ==")
        .await;
    k.ok("create sa robot", "", "serviceaccount/robot created")
        .await;
    k.ok(
        "create role reader --verb=get,list --resource=pods,pods/log",
        "",
        "role.rbac.authorization.k8s.io/reader created",
    )
    .await;
    k.ok(
        "create rolebinding rb --role=reader --serviceaccount=lab:robot",
        "",
        "rolebinding.rbac.authorization.k8s.io/rb created",
    )
    .await;
    k.ok(
        "create deployment d2 --image=eventlab:dev",
        "",
        "deployment.apps/d2 created",
    )
    .await;
    k.ok("create token robot", "", "eyJ").await;
    k.fails(
        "create token robot --duration=1m",
        "",
        "may not specify a duration less than 10 minutes",
    )
    .await;
    k.ok(
        "create quota q --dry-run=server",
        "",
        "created (server dry run)",
    )
    .await;
    k.fails(
        "create configmap c2",
        "",
        "error: failed to create configmap: configmaps \"c2\" already exists",
    )
    .await;
    k.ok(
        "delete configmap c2 --cascade=foreground --wait=false",
        "",
        "deleted",
    )
    .await;
    k.ok("delete namespace other", "", "namespace \"other\" deleted")
        .await;
}

async fn ask_rights(k: &mut Kubectl<'_>) {
    k.ok("auth can-i create pods", "", "yes").await;
    k.fails(
        "auth can-i create pods --as=system:serviceaccount:lab:robot",
        "",
        "no",
    )
    .await;
    k.ok(
        "auth can-i list pods --as=system:serviceaccount:lab:robot",
        "",
        "yes",
    )
    .await;
    k.ok(
        "auth can-i get pods --subresource=log --as=system:serviceaccount:lab:robot",
        "",
        "yes",
    )
    .await;
    k.ok(
        "auth can-i --list --as=system:serviceaccount:lab:robot",
        "",
        "pods/log",
    )
    .await;
    // Before 1.28 kubectl asks only for versions of the review that servers have dropped since.
    if !k.program.to_string_lossy().ends_with("1.27") {
        k.ok("auth whoami", "", "system:masters").await;
        k.ok("auth whoami --as=bob --as-group=devs", "", "devs")
            .await;
    }
    let denied = "Error from server (Forbidden): configmaps is forbidden: User \"system:serviceaccount:lab:robot\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"lab\"";
    k.fails("get cm --as=system:serviceaccount:lab:robot", "", denied)
        .await;
    k.fails(
        "get pods --token=wrong",
        "",
        "You must be logged in to the server",
    )
    .await;
}

async fn try_version(program: &Path) -> Vec<String> {
    let lab = Lab::over(Transport::Tls).await;
    let home = lab.directory().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("config"), lab.kubeconfig(&lab.admin_token())).unwrap();
    let mut k = Kubectl {
        program,
        home,
        commands: 0,
        wrong: Vec::new(),
    };
    discover(&mut k).await;
    write_objects(&mut k).await;
    apply_server_side(&mut k).await;
    run_workloads(&mut k).await;
    create_by_name(&mut k).await;
    ask_rights(&mut k).await;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    eprintln!("{name}: {} commands, {} wrong", k.commands, k.wrong.len());
    k.wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kubectl_found_does_its_daily_work() {
    let clients = clients();
    if clients.is_empty() {
        eprintln!("skipped: no kubectl in the path");
        return;
    }
    // Unset: the newest; `all`: every one; else those whose name ends so.
    let wanted = std::env::var("EVENTLAB_KUBECTL").unwrap_or_default();
    let chosen = clients
        .iter()
        .rev()
        .filter(|program| match wanted.as_str() {
            "" | "all" => true,
            suffix => program.to_string_lossy().ends_with(suffix),
        });
    let mut report = Vec::new();
    for program in chosen.take(if wanted.is_empty() { 1 } else { usize::MAX }) {
        for wrong in try_version(program).await {
            let name = program
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            report.push(format!("{name} {wrong}"));
        }
    }
    assert!(
        report.is_empty(),
        "{} commands went wrong:\n{}",
        report.len(),
        report.join("\n")
    );
}
