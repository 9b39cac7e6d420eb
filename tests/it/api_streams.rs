//! Exec and port-forward: kube-rs in process and over TLS, real kubectl of every age, and who may.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::AttachParams;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::api_support::{Lab, Transport, create, send};
use crate::kubectl::binaries;
use crate::node_support::{Cluster, container, service_spec};

/// Only a guard against hanging.
const HANG: Duration = Duration::from_secs(60);
const REQUEST: &[u8] = b"GET /orders HTTP/1.1\r\nHost: ledger\r\nConnection: close\r\n\r\n";

/// A cluster with a pod `view` that serves a ledger on port 8080.
async fn with_ledger(transport: Transport) -> Cluster {
    let cluster = Cluster::over(transport).await;
    let spec = json!({"restartPolicy": "Never",
    "volumes": [{"name": "data", "emptyDir": {}}],
    "containers": [{
        "name": "main", "image": "eventlab:dev", "command": ["/eventlab"],
        "args": ["ledger", "serve", "--db", "/data/ledger.db", "--port", "8080"],
        "ports": [{"containerPort": 8080}], "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    }]});
    cluster.create("view", spec).await;
    cluster
        .wait("view", |pod| {
            pod.status.is_some() && container(pod, "main")["ready"] == true
        })
        .await;
    cluster
}

async fn text(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut text = String::new();
    stream.unwrap().read_to_string(&mut text).await.unwrap();
    text
}

/// Runs a command and answers stdout, stderr and the Status.
async fn exec(pods: &Api<Pod>, command: &[&str]) -> (String, String, Value) {
    let running = async {
        let mut process = pods
            .exec("view", command.to_vec(), &AttachParams::default())
            .await
            .unwrap();
        let status = process.take_status().unwrap();
        let (out, err) = tokio::join!(text(process.stdout()), text(process.stderr()));
        let status = serde_json::to_value(status.await).unwrap();
        process.join().await.unwrap();
        (out, err, status)
    };
    tokio::time::timeout(HANG, running).await.expect("an end")
}

async fn commands_run_in_containers(cluster: Cluster) {
    let pods = cluster.pods();
    let command = "/eventlab ledger apply --db /data/ledger.db --mode atomic --order-id o-1 --amount 1250 --arrival a \
                   --workflow-uid u";
    let (out, err, status) = exec(&pods, &command.split(' ').collect::<Vec<_>>()).await;
    assert!(out.contains("applied"), "{out} {err} {status}");
    assert_eq!(status["status"], "Success");
    let (out, _, _) = exec(
        &pods,
        &["/eventlab", "ledger", "attempts", "--db", "/data/ledger.db"],
    )
    .await;
    assert!(out.contains("o-1"), "{out}");

    let (_, err, status) = exec(&pods, &["/eventlab", "cluster", "start"]).await;
    assert!(err.contains("does not run in a pod"), "{err}");
    assert_eq!(status["details"]["causes"][0]["message"], "64");

    let (out, err, status) = exec(&pods, &["sh", "-c", "ls"]).await;
    assert_eq!((out.as_str(), err.as_str()), ("", ""));
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("exec: \"sh\": executable file not found in $PATH"),
        "{message}"
    );
}

async fn ports_are_forwarded(cluster: Cluster) {
    let pods = cluster.pods();
    let forwarding = async {
        let mut forwarder = pods.portforward("view", &[8080, 9]).await.unwrap();
        let mut stream = forwarder.take_stream(8080).unwrap();
        stream.write_all(REQUEST).await.unwrap();
        let mut answer = [0u8; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        let error = forwarder.take_error(9).unwrap().await.unwrap();
        assert!(
            error.contains("error forwarding port 9") && error.contains("connection refused"),
            "{error}"
        );
        forwarder.abort();
    };
    tokio::time::timeout(HANG, forwarding)
        .await
        .expect("an end");
    let none = pods.portforward("ghost", &[80]).await;
    assert!(none.is_err());
}

macro_rules! over_both {
    ($($check:ident),* $(,)?) => {
        mod in_process {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                super::$check(super::with_ledger(super::Transport::InProcess).await).await;
            })*
        }
        mod over_tls {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                super::$check(super::with_ledger(super::Transport::Tls).await).await;
            })*
        }
    };
}
over_both!(commands_run_in_containers, ports_are_forwarded);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_ends_with_its_container() {
    let cluster = with_ledger(Transport::InProcess).await;
    let serve = [
        "/eventlab",
        "ledger",
        "serve",
        "--db",
        "/data/ledger.db",
        "--port",
        "0",
    ];
    let mut process = cluster
        .pods()
        .exec("view", serve.to_vec(), &AttachParams::default())
        .await
        .unwrap();
    let status = process.take_status().unwrap();
    let mut out = BufReader::new(process.stderr().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).await.unwrap();
    assert!(line.starts_with("serving ledger /data/ledger.db"), "{line}");
    let node = cluster.node.as_ref().unwrap();
    assert!(node.kill("lab", "view", "main").await);
    let status = tokio::time::timeout(HANG, status).await.expect("an end");
    let status = serde_json::to_value(status).unwrap();
    assert_eq!(status["details"]["causes"][0]["message"], "137", "{status}");
    let (_, _, status) = exec(&cluster.pods(), &["/eventlab", "ledger", "show"]).await;
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("container not found (\"main\")"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_create_exec_may_run_commands() {
    let cluster = with_ledger(Transport::InProcess).await;
    let role = |name: &str, resource: &str, verb: &str| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}]});
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/lab";
    for (user, resource, verb, allowed) in [
        ("creator", "pods/exec", "create", true),
        ("getter", "pods/exec", "get", true),
        ("reader", "pods", "get", false),
        ("logger", "pods/log", "create", false),
    ] {
        create(
            &cluster.lab,
            &format!("{path}/roles"),
            role(user, resource, verb),
        )
        .await;
        let binding = json!({"metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]});
        create(&cluster.lab, &format!("{path}/rolebindings"), binding).await;
        let token = cluster.lab.server.user_token(user, &[]);
        let pods: Api<Pod> = Api::namespaced(cluster.lab.client(&token), "lab");
        let command = ["/eventlab", "ledger", "show", "--db", "/data/ledger.db"];
        let result = pods.exec("view", command, &AttachParams::default()).await;
        assert_eq!(result.is_ok(), allowed, "{user}");
        let request =
            http::Request::get("/api/v1/namespaces/lab/pods/view/exec?command=x&stdout=1")
                .header("Authorization", format!("Bearer {token}"))
                .body(axum::body::Body::empty())
                .unwrap();
        let (code, answer) = crate::api_support::answer(&cluster.lab, request).await;
        let text = answer["message"].as_str().unwrap_or_default();
        match allowed {
            true => assert_eq!((code, text), (400, "Upgrade request required")),
            false => {
                assert_eq!(code, 403);
                let want = format!(
                    "pods \"view\" is forbidden: User \"{user}\" cannot create resource \"pods/exec\" in API group \"\" in \
                     the namespace \"lab\""
                );
                assert_eq!(text, want);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_upgraded_is_told() {
    let cluster = Cluster::new().await;
    cluster.create("p", service_spec("wait-for-end")).await;
    let pod = json!({"metadata": {"name": "free"}, "spec": {"containers": [{"name": "main", "image": "x"}]}});
    create(&cluster.lab, "/api/v1/namespaces/lab/pods", pod).await;
    for (path, code, text) in [
        (
            "p/exec?stdout=1",
            400,
            "you must specify at least 1 command",
        ),
        (
            "p/exec?command=x",
            400,
            "you must specify at least 1 of stdin",
        ),
        (
            "p/exec?command=x&stdout=1&container=ghost",
            400,
            "container ghost is not valid for pod p",
        ),
        (
            "free/exec?command=x&stdout=1",
            400,
            "pod free does not have a host assigned",
        ),
        (
            "ghost/exec?command=x&stdout=1",
            404,
            "pods \"ghost\" not found",
        ),
        (
            "p/portforward?ports=0",
            400,
            "unable to parse \"0\" as a port",
        ),
        (
            "p/portforward?ports=80,x",
            400,
            "unable to parse \"x\" as a port",
        ),
        ("p/portforward?ports=80", 400, "Upgrade request required"),
        (
            "p/attach",
            400,
            "you must specify at least 1 of stdin, stdout, stderr",
        ),
        ("free/attach?stdout=1", 400, "does not have a host assigned"),
        ("ghost/attach?stdout=1", 404, "pods \"ghost\" not found"),
        ("p/attach?stdout=1", 400, "Upgrade request required"),
        (
            "p/ephemeralcontainers",
            400,
            "eventlab: no container can be added to a pod here",
        ),
    ] {
        let path = format!("/api/v1/namespaces/lab/pods/{path}");
        let (got, answer) = send(&cluster.lab, "GET", &path, "application/json", "").await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(
            got == code && message.contains(text),
            "{path}: {got} {answer}"
        );
    }
}

/// A command of this kubectl as `admin` of a lab.
fn kubectl(binary: &Path, lab: &Lab, arguments: &[&str]) -> Command {
    let config = lab.directory().join("config");
    std::fs::write(&config, lab.kubeconfig(&lab.admin_token())).unwrap();
    let mut command = Command::new(binary);
    command
        .args(arguments)
        .env_clear()
        .env("HOME", lab.directory())
        .env("KUBECONFIG", config)
        .kill_on_drop(true);
    command
}

async fn kubectl_reaches_into_pods(binary: &Path) {
    let cluster = with_ledger(Transport::Tls).await;
    let run = async |arguments: &[&str]| {
        let output = kubectl(binary, &cluster.lab, arguments).output();
        let output = tokio::time::timeout(HANG, output)
            .await
            .expect("an end")
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let show = [
        "exec",
        "view",
        "--",
        "/eventlab",
        "ledger",
        "show",
        "--db",
        "/data/ledger.db",
    ];
    let (code, _, err) = run(&show).await;
    assert_eq!(code, Some(1), "{err}");
    assert_eq!(
        err.lines().collect::<Vec<_>>(),
        [
            "error: there is no ledger at /data/ledger.db; the first `eventlab ledger apply` makes it",
            "command terminated with exit code 1",
        ]
    );
    let apply = "exec view -- /eventlab ledger apply --db /data/ledger.db --mode atomic --order-id o-1 --amount 1250 \
                 --arrival a --workflow-uid u";
    let (code, out, err) = run(&apply.split(' ').collect::<Vec<_>>()).await;
    assert_eq!(code, Some(0), "{} {out}{err}", binary.display());
    let (code, _, err) = run(&["exec", "view", "--", "/eventlab", "run"]).await;
    assert!(
        code == Some(64) && err.contains("does not run in a pod"),
        "{code:?} {err}"
    );
    let (code, _, err) = run(&["exec", "-i", "view", "--", "sh"]).await;
    assert!(
        code == Some(1) && err.contains("exec: \"sh\": executable file not found in $PATH"),
        "{code:?} {err}"
    );

    let mut forward = kubectl(
        binary,
        &cluster.lab,
        &["port-forward", "pod/view", ":8080", ":9"],
    );
    let mut forward = forward
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(forward.stdout.take().unwrap()).lines();
    let mut ports = Vec::new();
    while ports.len() < 2 {
        let line = tokio::time::timeout(HANG, lines.next_line())
            .await
            .expect("a line")
            .unwrap();
        let Some(line) = line else {
            panic!(
                "{}: {}",
                binary.display(),
                text(forward.stderr.take()).await
            )
        };
        if let Some(rest) = line.strip_prefix("Forwarding from 127.0.0.1:") {
            ports.push(rest.split(' ').next().unwrap().parse::<u16>().unwrap());
        }
    }
    // Several connections, one after the other and at once.
    let ask = async || {
        let mut stream = TcpStream::connect(("127.0.0.1", ports[0])).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        let answer = tokio::time::timeout(HANG, text(Some(stream)))
            .await
            .expect("an answer");
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains("o-1"),
            "{answer}"
        );
    };
    ask().await;
    tokio::join!(ask(), ask(), ask());
    let mut refused = TcpStream::connect(("127.0.0.1", ports[1])).await.unwrap();
    // Nothing to write to: the connection is closed, and kubectl says why.
    let _ = refused.read(&mut [0u8; 1]).await;
    let mut said = BufReader::new(forward.stderr.take().unwrap()).lines();
    let mut all = String::new();
    while !all.contains("error forwarding port 9 to pod view") {
        let line = tokio::time::timeout(HANG, said.next_line())
            .await
            .expect("a line")
            .unwrap();
        all.push_str(&line.unwrap_or_else(|| panic!("{}: {all}", binary.display())));
    }
    // The program may have ended by itself.
    let _ = forward.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_of_both_framings_reaches_into_pods() {
    let all = binaries();
    let (Some(oldest), Some(newest)) = (all.first(), all.last()) else {
        eprintln!("SKIPPED: there is no kubectl on the PATH");
        return;
    };
    kubectl_reaches_into_pods(newest).await;
    if oldest != newest {
        kubectl_reaches_into_pods(oldest).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "every kubectl version that is installed"]
async fn every_kubectl_reaches_into_pods() {
    for binary in binaries() {
        kubectl_reaches_into_pods(&binary).await;
        eprintln!("{} passed", binary.display());
    }
}
