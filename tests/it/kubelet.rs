//! The node's own port, as an API server uses it: logs and port-forward, for a client that it knows and that may.

use std::net::{Ipv4Addr, SocketAddr};

use eventlab::embedded::api::tls::{ServingIdentity, init_tls};
use eventlab::embedded::standalone::kubelet::{Kubelet, KubeletConfig};
use futures::{SinkExt as _, StreamExt as _};
use http::Request;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, Config};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use serde_json::json;

use crate::api_support::{Lab, Transport, create};
use crate::node_support::{Cluster, phase_of, until};

/// An authority, and the certificates that it signed.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Certificate and key of a user in groups, both PEM.
    fn client(&self, user: &str, groups: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn client(port: u16, identity: Option<(String, String)>) -> Client {
    use base64::Engine as _;
    let encode = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
    let url = format!("https://127.0.0.1:{port}").parse().unwrap();
    let mut config = Config::new(url);
    config.accept_invalid_certs = true;
    if let Some((certificate, key)) = identity {
        config.auth_info.client_certificate_data = Some(encode(certificate));
        config.auth_info.client_key_data = Some(encode(key).into());
    }
    Client::try_from(config).unwrap()
}

fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path).body(Vec::new()).unwrap()
}

async fn text(client: &Client, path: &str) -> String {
    client.request_text(get(path)).await.unwrap()
}

/// The code of a request that is refused.
async fn code(client: &Client, path: &str) -> u16 {
    match client.request_text(get(path)).await {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("{path}: {other:?}"),
    }
}

#[tokio::test]
async fn an_api_server_reads_logs_and_reaches_ports_through_the_node() {
    init_tls();
    let cluster = Cluster::new().await;
    let spec = json!({"containers": [{"name": "main", "image": "eventlab:dev", "command": ["/eventlab"],
        "args": ["ledger", "serve", "--db", "/data/l.db", "--port", "8080"], "ports": [{"containerPort": 8080}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}]}], "volumes": [{"name": "data", "emptyDir": {}}]});
    cluster.create("view", spec).await;
    cluster.wait_phase("view", "Running").await;
    let authority = Authority::new();
    let server = &cluster.lab.server;
    let token = server.user_token("system:node:eventlab", &["system:nodes"]);
    let config = KubeletConfig {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        authority: authority.pem.clone(),
        client: server.client(&token),
        logs: cluster.logs.clone(),
        streams: cluster.streams.clone(),
    };
    let identity = ServingIdentity::load_or_create(cluster.state.path()).unwrap();
    let kubelet = Kubelet::start(config, &identity).await.unwrap();
    let with = |identity| client(kubelet.port(), identity);
    let log = "/containerLogs/lab/view/main";

    let known = with(Some(authority.client("api-server", &["system:masters"])));
    until(async || text(&known, log).await.contains("serving ledger")).await;
    let tail = text(&known, &format!("{log}?tailLines=1&timestamps=true")).await;
    assert!(tail.starts_with("20"), "{tail}");
    assert_eq!(code(&known, "/containerLogs/lab/ghost/main").await, 404);
    // The API server refuses a container that the pod does not have before it asks.
    assert_eq!(code(&known, "/containerLogs/lab/view/other").await, 404);
    assert_eq!(code(&known, &format!("{log}?tailLines=-1")).await, 422);
    let asked = get("/portForward/lab/view?port=8080");
    let mut socket = known.connect(asked).await.unwrap().into_stream();
    let request = b"\0GET /balances HTTP/1.1\r\nHost: view\r\nConnection: close\r\n\r\n";
    socket.send(request.to_vec().into()).await.unwrap();
    let mut answer = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        let data = message.into_data();
        // Each channel begins with the port's number.
        if data.first() == Some(&0) && data.len() > 3 {
            answer.extend_from_slice(&data[1..]);
        }
        if data.is_empty() {
            break;
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.contains("HTTP/1.1 200"), "{answer}");

    // Nobody else: no certificate, one without rights, one of another authority.
    assert_eq!(code(&with(None), log).await, 401);
    let learner = with(Some(authority.client("somebody", &[])));
    assert_eq!(code(&learner, log).await, 403);
    let other = with(Some(
        Authority::new().client("api-server", &["system:masters"]),
    ));
    assert!(other.request_text(get(log)).await.is_err());
    kubelet.stop().await;
    assert!(known.request_text(get(log)).await.is_err());
}

/// The program as `eventlab node`, ended in order.
struct NodeProcess(std::process::Child);

impl NodeProcess {
    fn start(state: &std::path::Path, kubeconfig: &std::path::Path) -> Self {
        let child = std::process::Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .arg("--state-dir")
            .arg(state)
            .args(["--context", "admin", "--kubeconfig"])
            .arg(kubeconfig)
            .arg("node")
            .env("TMPDIR", state)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Exit code and what it said, after a SIGTERM.
    fn stop(mut self) -> (Option<i32>, String) {
        let pid = rustix::process::Pid::from_raw(self.0.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut said = String::new();
        let mut stderr = self.0.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
        (self.0.wait().unwrap().code(), said)
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const WORKFLOW: &str = "
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: once, namespace: lab}
spec:
  entrypoint: main
  serviceAccountName: runner
  templates:
    - name: main
      container: {image: 'eventlab:dev', command: [/eventlab], args: [ledger, --help]}
";

const GROUND: &str = "
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: runner}}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: runner}
  rules: [{apiGroups: [argoproj.io], resources: [workflowtaskresults], verbs: [create, patch]}]
- apiVersion: rbac.authorization.k8s.io/v1
  kind: RoleBinding
  metadata: {name: runner}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: runner}
  subjects: [{kind: ServiceAccount, name: runner, namespace: lab}]
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: data}
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: view}
  spec:
    selector: {matchLabels: {app: view}}
    template:
      metadata: {labels: {app: view}}
      spec:
        containers:
          - name: main
            image: eventlab:dev
            command: [/eventlab]
            args: [ledger, serve, --db, /data/l.db, --port, '8080']
            volumeMounts: [{name: data, mountPath: /data}]
        volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
";

/// The API server has neither controllers nor a node; the command brings both.
#[tokio::test(flavor = "multi_thread")]
async fn the_node_command_brings_controllers_and_node_to_an_api_server_that_has_none() {
    let lab = Lab::over(Transport::Tls).await;
    let state = tempfile::tempdir().unwrap();
    let kubeconfig = state.path().join("config");
    std::fs::write(&kubeconfig, lab.kubeconfig(&lab.admin_token())).unwrap();
    let authority = Authority::new();
    let published = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extension-apiserver-authentication"},
        "data": {"client-ca-file": authority.pem}});
    create(&lab, "/api/v1/namespaces/kube-system/configmaps", published).await;
    let ground: Vec<serde_json::Value> = serde_yaml::from_str(GROUND).unwrap();
    for object in ground {
        let (group, plural) = match object["kind"].as_str().unwrap() {
            "ServiceAccount" => ("api/v1", "serviceaccounts"),
            "PersistentVolumeClaim" => ("api/v1", "persistentvolumeclaims"),
            "Role" => ("apis/rbac.authorization.k8s.io/v1", "roles"),
            "RoleBinding" => ("apis/rbac.authorization.k8s.io/v1", "rolebindings"),
            _ => ("apis/apps/v1", "deployments"),
        };
        create(&lab, &format!("/{group}/namespaces/lab/{plural}"), object).await;
    }
    let process = NodeProcess::start(state.path(), &kubeconfig);
    let pods: Api<Pod> = lab.api("lab");
    let views = ListParams::default().labels("app=view");
    until(async || {
        let list = pods.list(&views).await.unwrap();
        list.items.iter().any(|pod| phase_of(pod) == "Running")
    })
    .await;
    let workflow: serde_json::Value = serde_yaml::from_str(WORKFLOW).unwrap();
    let path = "/apis/argoproj.io/v1alpha1/namespaces/lab/workflows";
    create(&lab, path, workflow).await;
    let kind = eventlab::kinds::workflow();
    let workflows: Api<DynamicObject> = Api::namespaced_with(lab.admin(), "lab", &kind);
    until(async || {
        let once = workflows.get("once").await.unwrap();
        once.data.pointer("/status/phase") == Some(&json!("Succeeded"))
    })
    .await;

    // Where the Node says, the API server finds it.
    let nodes: Api<Node> = Api::all(lab.admin());
    let status = nodes.get("eventlab").await.unwrap().status.unwrap();
    let port = status
        .daemon_endpoints
        .unwrap()
        .kubelet_endpoint
        .unwrap()
        .port;
    assert_eq!(status.addresses.unwrap()[0].address, "127.0.0.1");
    let known = client(
        u16::try_from(port).unwrap(),
        Some(authority.client("api-server", &["system:masters"])),
    );
    let pod = pods.list(&views).await.unwrap().items.remove(0);
    let log = format!("/containerLogs/lab/{}/main", pod.metadata.name.unwrap());
    assert!(text(&known, &log).await.contains("serving ledger"));

    let (code, said) = tokio::task::spawn_blocking(|| process.stop())
        .await
        .unwrap();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("work on https://127.0.0.1"), "{said}");
    let node = nodes.get("eventlab").await.unwrap();
    let conditions = node.status.unwrap().conditions.unwrap();
    assert!(
        conditions
            .iter()
            .any(|one| one.type_ == "Ready" && one.status == "False"),
        "{conditions:?}"
    );
}
