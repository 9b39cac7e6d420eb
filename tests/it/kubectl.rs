//! The real `kubectl` against the embedded API: TLS, kubeconfig, tokens, tables, protobuf bodies, logs, refusals.
//!
//! Needs a `kubectl` on the PATH; without one it says so and does nothing. Versions installed beside it
//! (`kubectl.1.NN`) all take part in the ignored test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use eventlab::embedded::api::kubeconfig::{Kubeconfig, personas};
use eventlab::embedded::api::listener::{Limits, Listener};
use eventlab::embedded::api::logs::{FileLog, LogError, LogRequest, LogStream, PodLogs};
use eventlab::embedded::api::tls::ServingIdentity;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use crate::api_support::{Lab, create};

/// Against a hang; far longer than any command takes.
const GUARD: Duration = Duration::from_secs(120);

/// Every `kubectl` binary to be found; the dispatcher of the Google Cloud CLI stands for the versions beside it.
pub fn binaries() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join("kubectl"))
        .find(|file| file.is_file());
    let Some(found) = found.and_then(|file| file.canonicalize().ok()) else {
        return Vec::new();
    };
    let siblings = std::fs::read_dir(found.parent().unwrap_or(Path::new("/")))
        .into_iter()
        .flatten()
        .flatten();
    let mut versions: Vec<PathBuf> = siblings
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("kubectl.1."))
        })
        .collect();
    versions.sort();
    if versions.is_empty() {
        vec![found]
    } else {
        versions
    }
}

/// Serves logs from one directory: `CONTAINER.log`.
struct Logs(PathBuf);

impl PodLogs for Logs {
    fn open(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        async move {
            if request.options.previous {
                return Err(LogError::NoPrevious);
            }
            let path = self.0.join(format!("{}.log", request.container));
            match FileLog::open(&path, None).await {
                Ok(log) => log.stream(&request.options).await,
                Err(LogError::Gone) => Err(LogError::WaitingToStart("ContainerCreating".into())),
                Err(error) => Err(error),
            }
        }
        .boxed()
    }
}

struct Cluster {
    lab: Lab,
    home: tempfile::TempDir,
    stop: CancellationToken,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Cluster {
    async fn start() -> Cluster {
        let lab = Lab::new().await;
        let home = tempfile::tempdir().unwrap();
        let identity = ServingIdentity::load_or_create(home.path()).unwrap();
        let listener = Listener::bind(None, home.path(), &identity, Limits::default())
            .await
            .unwrap();
        let personas = personas(&lab.server);
        let kubeconfig = Kubeconfig {
            server: &listener.url(),
            ca_pem: identity.ca_pem(),
            namespace: "lab",
            personas: &personas,
            current: "admin",
        };
        kubeconfig.write(&home.path().join("config")).unwrap();
        lab.server
            .set_pod_logs(Arc::new(Logs(home.path().to_owned())));
        let stop = CancellationToken::new();
        tokio::spawn(listener.serve(lab.server.router(), stop.clone()));
        Cluster { lab, home, stop }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    }
}

struct Kubectl<'a> {
    binary: &'a Path,
    cluster: &'a Cluster,
    environment: BTreeMap<&'static str, &'static str>,
}

impl Kubectl<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.binary);
        command
            .args(arguments)
            .env_clear()
            .envs(&self.environment)
            .kill_on_drop(true)
            .env("HOME", self.cluster.home.path())
            .env("KUBECONFIG", self.cluster.home.path().join("config"));
        command
    }

    async fn output(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output();
        tokio::time::timeout(GUARD, output)
            .await
            .expect("kubectl ends")
            .unwrap()
    }

    /// Standard output of a command that must succeed.
    async fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{} {arguments:?}: {}{}",
            self.binary.display(),
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Standard error of a command that must fail.
    async fn fail(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments).await;
        assert!(
            !output.status.success(),
            "{} {arguments:?}",
            self.binary.display()
        );
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.run(arguments).await).unwrap()
    }

    /// Checks who `kubectl auth whoami` says we are. Version 1.27 knows that question in older forms only.
    async fn is(&self, arguments: &[&str], name: &str) {
        if self.binary.ends_with("kubectl.1.27") {
            return;
        }
        let whoami = self.run(&[&["auth", "whoami"], arguments].concat()).await;
        assert!(
            whoami.contains(name) && whoami.contains("system:authenticated"),
            "{whoami}"
        );
    }

    /// Discovery, tables and YAML.
    async fn reads(&self) {
        let version = self.json(&["version", "-o", "json"]).await;
        assert_eq!(version["serverVersion"]["gitVersion"], "v1.36.2+eventlab");
        let resources = self.run(&["api-resources"]).await;
        assert!(
            resources.contains("sensors") && resources.contains("argoproj.io/v1alpha1"),
            "{resources}"
        );
        let namespaces = self.run(&["get", "ns"]).await;
        assert!(
            namespaces.starts_with("NAME") && namespaces.contains("kube-system"),
            "{namespaces}"
        );
        let roles = self
            .run(&["get", "clusterrolebindings", "-o", "wide"])
            .await;
        assert!(
            roles.contains("ClusterRole/system:discovery")
                && roles.contains("system:authenticated"),
            "{roles}"
        );
        let yaml = self
            .run(&["get", "clusterrole", "system:basic-user", "-o", "yaml"])
            .await;
        assert!(
            yaml.contains("kind: ClusterRole") && yaml.contains("- selfsubjectreviews"),
            "{yaml}"
        );
        let all = self.run(&["get", "pods", "-A", "--show-labels"]).await;
        assert!(all.starts_with("NAMESPACE"), "{all}");
    }

    /// Imperative creates send protobuf from 1.32 on.
    async fn creates(&self) {
        let made = self
            .run(&[
                "create",
                "configmap",
                "c",
                "--from-literal=a=1",
                "--from-literal=b=2",
            ])
            .await;
        assert_eq!(made, "configmap/c created\n");
        assert_eq!(
            self.json(&["get", "configmap", "c", "-o", "json"]).await["data"],
            json!({"a": "1", "b": "2"})
        );
        let table = self.run(&["get", "cm", "c"]).await;
        let cells: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(cells[..2], ["c", "2"]);
        self.run(&[
            "create",
            "secret",
            "generic",
            "s",
            "--from-literal=password=x",
        ])
        .await;
        assert_eq!(
            self.run(&["get", "secret", "s", "-o", "jsonpath={.data.password}"])
                .await,
            "eA=="
        );
        self.run(&["create", "namespace", "other"]).await;
        self.run(&["create", "serviceaccount", "worker"]).await;
        self.run(&[
            "create",
            "role",
            "reader",
            "--verb=get,list",
            "--resource=pods,pods/log",
        ])
        .await;
        self.run(&[
            "create",
            "rolebinding",
            "reader",
            "--role=reader",
            "--serviceaccount=lab:worker",
        ])
        .await;
        let image = "--image=eventlab:dev";
        self.run(&[
            "create",
            "deployment",
            "d",
            image,
            "--replicas=0",
            "--port=8080",
        ])
        .await;
        let deployment = self.json(&["get", "deployment", "d", "-o", "json"]).await;
        assert_eq!(deployment["spec"]["replicas"], 0);
        assert_eq!(
            deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"],
            8080
        );
        self.run(&["create", "job", "j", image, "--", "/eventlab", "ledger"])
            .await;
        let command = self.json(&["get", "job", "j", "-o", "json"]).await;
        assert_eq!(
            command["spec"]["template"]["spec"]["containers"][0]["command"],
            json!(["/eventlab", "ledger"])
        );
        self.run(&["create", "service", "clusterip", "svc", "--tcp=80:8080"])
            .await;
        let token = self
            .run(&["create", "token", "worker", "--duration=20m"])
            .await;
        let account = "system:serviceaccount:lab:worker";
        self.is(&["--token", token.trim()], account).await;
    }

    async fn applies(&self) {
        let sensor = |path: &str| {
            format!(
                "apiVersion: argoproj.io/v1alpha1\nkind: Sensor\nmetadata:\n  name: orders\nspec:\n  dependencies:\n  \
                 - name: order\n    eventSourceName: shop\n    eventName: order\n    filters:\n      data:\n      \
                 - path: {path}\n        type: string\n        value: [created]\n  triggers: []\n"
            )
        };
        let file = self.cluster.file("sensor.yaml", &sensor("body.event.kind"));
        assert_eq!(
            self.run(&["apply", "-f", &file]).await,
            "sensor.argoproj.io/orders created\n"
        );
        assert_eq!(
            self.run(&["apply", "-f", &file]).await,
            "sensor.argoproj.io/orders unchanged\n"
        );
        let file = self.cluster.file("sensor.yaml", &sensor("body.kind"));
        assert_eq!(
            self.run(&["apply", "-f", &file]).await,
            "sensor.argoproj.io/orders configured\n"
        );
        let path = "jsonpath={.spec.dependencies[0].filters.data[0].path}";
        assert_eq!(
            self.run(&["get", "sensor", "orders", "-o", path]).await,
            "body.kind"
        );
        let label = self.run(&["label", "sensor", "orders", "team=shop"]).await;
        assert_eq!(label, "sensor.argoproj.io/orders labeled\n");
        self.run(&["patch", "configmap", "c", "-p", r#"{"data":{"a":"9"}}"#])
            .await;
        assert_eq!(
            self.run(&["get", "cm", "c", "-o", "jsonpath={.data.a}"])
                .await,
            "9"
        );
        self.run(&["scale", "deployment", "d", "--replicas=3"])
            .await;
        assert_eq!(
            self.run(&["get", "deploy", "d", "-o", "jsonpath={.spec.replicas}"])
                .await,
            "3"
        );
        let server_side = self.cluster.file(
            "cm.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ssa}\ndata: {x: one}\n",
        );
        let applied = self
            .run(&["apply", "--server-side", "-f", &server_side])
            .await;
        assert_eq!(applied, "configmap/ssa serverside-applied\n");
        assert!(
            self.run(&["describe", "sensor", "orders"])
                .await
                .contains("body.kind")
        );
    }

    /// Waits and watches, with lists that stream as newer clients ask for them.
    async fn follows(&self) {
        let changed = "--for=jsonpath={.data.a}=9";
        self.run(&["wait", changed, "configmap/c", "--timeout=60s"])
            .await;
        let streaming = Kubectl {
            environment: BTreeMap::from([("KUBE_FEATURE_WatchListClient", "true")]),
            ..*self
        };
        streaming
            .run(&["wait", changed, "configmap/c", "--timeout=60s"])
            .await;
        let mut watch = self.command(&["get", "configmap", "-w", "--output-watch-events"]);
        let mut watch = watch.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        wait_for(&mut lines, &["ADDED", " c "]).await;
        self.run(&["create", "configmap", "late"]).await;
        wait_for(&mut lines, &["ADDED", "late", "0"]).await;
        self.run(&["patch", "configmap", "late", "-p", r#"{"data":{"x":"1"}}"#])
            .await;
        wait_for(&mut lines, &["MODIFIED", "late", "1"]).await;
        self.run(&["delete", "configmap", "late"]).await;
        wait_for(&mut lines, &["DELETED", "late"]).await;
        watch.kill().await.unwrap();
    }

    async fn reviews(&self) {
        let account = "--as=system:serviceaccount:lab:worker";
        assert_eq!(
            self.run(&["auth", "can-i", "get", "pods", "--subresource=log", account])
                .await,
            "yes\n"
        );
        let output = self
            .output(&["auth", "can-i", "create", "workflows.argoproj.io", account])
            .await;
        assert_eq!(
            (output.status.code(), output.stdout.as_slice()),
            (Some(1), &b"no\n"[..])
        );
        let rules = self.run(&["auth", "can-i", "--list", account]).await;
        assert!(
            rules.contains("pods/log") && rules.contains("selfsubjectaccessreviews"),
            "{rules}"
        );
        self.is(&["--context=learner"], "learner").await;
        let refusal = self
            .fail(&["get", "secrets", "-n", "kube-system", "--context=learner"])
            .await;
        assert_eq!(
            refusal,
            "Error from server (Forbidden): secrets is forbidden: User \"learner\" cannot list resource \"secrets\" in \
             API group \"\" in the namespace \"kube-system\"\n"
        );
        let refusal = self
            .fail(&[
                "create",
                "-f",
                &self.cluster.file("wf.yaml", WORKFLOW),
                account,
            ])
            .await;
        assert!(
            refusal.contains(
                "workflows.argoproj.io is forbidden: User \"system:serviceaccount:lab:worker\" cannot create resource \
                 \"workflows\" in API group \"argoproj.io\" in the namespace \"lab\""
            ),
            "{refusal}"
        );
        let early = self.fail(&["get", "pods", "--context=order-sensor"]).await;
        assert!(
            early.contains("You must be logged in to the server"),
            "{early}"
        );
        self.run(&["create", "serviceaccount", "order-sensor", "-n", "eventlab"])
            .await;
        let sensor = "system:serviceaccount:eventlab:order-sensor";
        self.is(&["--context=order-sensor"], sensor).await;
        let unauthorized = self.fail(&["get", "pods", "--token=wrong"]).await;
        assert!(
            unauthorized.contains("You must be logged in to the server"),
            "{unauthorized}"
        );
    }

    async fn logs(&self) {
        assert_eq!(self.run(&["logs", "p", "-c", "main"]).await, "one\ntwo\n");
        assert_eq!(
            self.run(&["logs", "p", "-c", "main", "--tail=1"]).await,
            "two\n"
        );
        let stamped = self
            .run(&["logs", "p", "-c", "main", "--timestamps", "-f"])
            .await;
        assert_eq!(
            stamped,
            "2026-01-02T03:04:05.000000001Z one\n2026-01-02T03:04:06.000000002Z two\n"
        );
        let refusal = self.fail(&["logs", "p", "-c", "side"]).await;
        assert!(
            refusal
                .contains("container \"side\" in pod \"p\" is waiting to start: ContainerCreating"),
            "{refusal}"
        );
        let refusal = self.fail(&["logs", "p", "-c", "main", "--previous"]).await;
        assert!(
            refusal.contains("previous terminated container \"main\" in pod \"p\" not found"),
            "{refusal}"
        );
        let refusal = self.fail(&["logs", "p", "-c", "ghost"]).await;
        assert!(
            refusal.contains("container ghost is not valid for pod p"),
            "{refusal}"
        );
        assert!(
            self.run(&["get", "pods", "-o", "wide"])
                .await
                .contains("eventlab")
        );
        assert!(
            self.run(&["describe", "pod", "p"])
                .await
                .contains("eventlab:dev")
        );
    }

    /// The last step: from 1.32 on a drain deletes pods with a protobuf body.
    async fn deletes(&self) {
        let drain = [
            "drain",
            "eventlab",
            "--disable-eviction",
            "--force",
            "--grace-period=0",
        ];
        let drained = self.run(&drain).await;
        assert!(drained.contains("node/eventlab drained"), "{drained}");
        let node = self.run(&["get", "nodes"]).await;
        assert!(node.contains("SchedulingDisabled"), "{node}");
        assert!(
            self.fail(&["get", "pod", "p"])
                .await
                .contains("pods \"p\" not found")
        );
        assert!(
            self.run(&["delete", "sensor", "orders"])
                .await
                .contains("\"orders\" deleted")
        );
        self.run(&["delete", "configmap,secret", "--all"]).await;
        self.run(&[
            "delete",
            "deployment/d",
            "job/j",
            "service/svc",
            "role/reader",
            "rolebinding/reader",
            "sa/worker",
        ])
        .await;
        self.run(&["delete", "namespace", "other"]).await;
        assert!(
            self.fail(&["get", "sensor", "orders"])
                .await
                .contains("sensors.argoproj.io \"orders\" not found")
        );
    }
}

/// Reads on until a line holds all of `words`.
async fn wait_for(lines: &mut Lines<BufReader<ChildStdout>>, words: &[&str]) {
    let found = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if words.iter().all(|word| line.contains(word)) {
                return true;
            }
        }
        false
    };
    let found = tokio::time::timeout(GUARD, found).await;
    assert_eq!(found, Ok(true), "a watch never showed {words:?}");
}

const WORKFLOW: &str =
    "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {generateName: w-}\nspec: {}\n";

/// A pod that a node has taken, with one container that has written two lines.
async fn pod_with_log(cluster: &Cluster) {
    let node = json!({"metadata": {"name": "eventlab"}});
    create(&cluster.lab, "/api/v1/nodes", node).await;
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": "eventlab", "containers": [
            {"name": "main", "image": "eventlab:dev"}, {"name": "side", "image": "eventlab:dev"},
        ]},
    });
    create(&cluster.lab, "/api/v1/namespaces/lab/pods", pod).await;
    cluster.file(
        "main.log",
        "2026-01-02T03:04:05.000000001Z one\n2026-01-02T03:04:06.000000002Z two\n",
    );
}

async fn every_step(binary: &Path, cluster: &Cluster) {
    let kubectl = Kubectl {
        binary,
        cluster,
        environment: BTreeMap::new(),
    };
    kubectl.reads().await;
    kubectl.creates().await;
    kubectl.applies().await;
    kubectl.follows().await;
    kubectl.reviews().await;
    kubectl.logs().await;
    kubectl.deletes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_kubectl_does_its_daily_work() {
    let Some(binary) = binaries().pop() else {
        eprintln!("SKIPPED: there is no kubectl on the PATH");
        return;
    };
    let cluster = Cluster::start().await;
    pod_with_log(&cluster).await;
    every_step(&binary, &cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes: every kubectl version that is installed"]
async fn every_kubectl_does_its_daily_work() {
    for binary in binaries() {
        let cluster = Cluster::start().await;
        pod_with_log(&cluster).await;
        every_step(&binary, &cluster).await;
        eprintln!("{} passed", binary.display());
    }
}
