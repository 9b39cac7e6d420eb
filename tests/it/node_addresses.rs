//! Real sockets behind Services: they stay while pods come and go, and refuse while there is none.

use std::net::SocketAddr;

use eventlab::kinds::{ARGO_EVENTS_IMAGE, WORKLOAD_IMAGE};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::node_support::{Cluster, until};

async fn service(cluster: &Cluster, name: &str, port: u16, target: Value) {
    let api: kube::Api<Service> = cluster.lab.api("lab");
    let object = serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
        "selector": {"app": name}, "ports": [{"name": "web", "port": port, "targetPort": target}],
    }}));
    api.create(&Default::default(), &object.unwrap())
        .await
        .unwrap();
}

async fn server(cluster: &Cluster, name: &str, app: &str) {
    let spec = json!({"restartPolicy": "Always", "containers": [{
        "name": "main", "image": ARGO_EVENTS_IMAGE, "args": ["serve"],
        "ports": [{"name": "hook", "containerPort": 12000}],
    }]});
    cluster
        .create_with(json!({"name": name, "labels": {"app": app}}), spec)
        .await;
}

async fn read(address: SocketAddr) -> std::io::Result<String> {
    let mut text = String::new();
    TcpStream::connect(address)
        .await?
        .read_to_string(&mut text)
        .await?;
    Ok(text)
}

async fn real(cluster: &Cluster, name: &str, port: u16) -> SocketAddr {
    let book = cluster.node.as_ref().unwrap().addresses();
    let mut found = None;
    until(async || {
        found = book.service_address("lab", name, port);
        found.is_some()
    })
    .await;
    found.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_keeps_its_socket_and_refuses_without_pods() {
    let mut cluster = Cluster::new().await;
    service(&cluster, "web", 80, json!("hook")).await;
    let book = cluster.node.as_ref().unwrap().addresses().clone();
    until(async || !book.list().is_empty()).await;
    let listed = book.list()[0].clone();
    assert!(
        !listed.listening && listed.address.ip().is_loopback() && listed.address.port() >= 1024
    );
    assert_eq!(book.service_address("lab", "web", 80), None);
    let refused = TcpStream::connect(listed.address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);

    server(&cluster, "one", "web").await;
    let address = real(&cluster, "web", 80).await;
    assert_eq!(address, listed.address);
    assert_eq!(read(address).await.unwrap(), "one");
    for host in ["web", "web.lab", "web.lab.svc", "web.lab.svc.cluster.local"] {
        assert_eq!(book.resolve("lab", host, 80), Some(address), "{host}");
    }
    let api: kube::Api<Service> = cluster.lab.api("lab");
    let cluster_ip = api
        .get("web")
        .await
        .unwrap()
        .spec
        .unwrap()
        .cluster_ip
        .unwrap();
    assert_eq!(book.resolve("default", &cluster_ip, 80), Some(address));
    let pod_ip = cluster
        .wait_phase("one", "Running")
        .await
        .status
        .unwrap()
        .pod_ip
        .unwrap();
    let pod = book.resolve("default", &pod_ip, 12000).unwrap();
    assert_eq!(
        (
            read(pod).await.unwrap().as_str(),
            book.pod_address("lab", "one", 12000)
        ),
        ("one", Some(pod))
    );
    assert_eq!(book.resolve("lab", "other", 80), None);

    server(&cluster, "two", "web").await;
    until(async || read(address).await.is_ok_and(|name| name == "two")).await;
    cluster
        .pods()
        .delete("one", &DeleteParams::default())
        .await
        .unwrap();
    cluster.wait_gone("one").await;
    until(async || read(address).await.is_ok_and(|name| name == "two")).await;
    cluster
        .pods()
        .delete("two", &DeleteParams::default())
        .await
        .unwrap();
    cluster.wait_gone("two").await;
    until(async || TcpStream::connect(address).await.is_err()).await;
    server(&cluster, "three", "web").await;
    assert_eq!(real(&cluster, "web", 80).await, address);
    assert_eq!(read(address).await.unwrap(), "three");

    // The same socket in the next life.
    cluster.node.take();
    cluster.start_node().await;
    assert_eq!(real(&cluster, "web", 80).await, address);
    until(async || read(address).await.is_ok_and(|name| name == "three")).await;
    let nodes: kube::Api<Node> = kube::Api::all(cluster.lab.admin());
    until(async || {
        let node = nodes.get("eventlab").await.unwrap();
        let annotations = node.metadata.annotations.unwrap_or_default();
        annotations
            .get("eventlab.dev/addresses")
            .is_some_and(|text| text.contains(&address.to_string()))
    })
    .await;
    api.delete("web", &DeleteParams::default()).await.unwrap();
    let book = cluster.node.as_ref().unwrap().addresses();
    until(async || book.list().is_empty()).await;
    until(async || TcpStream::connect(address).await.is_err()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_serves_on_the_port_it_was_given_and_finds_services() {
    let cluster = Cluster::new().await;
    service(&cluster, "ledger", 8080, json!(8080)).await;
    until(async || !cluster.node.as_ref().unwrap().addresses().list().is_empty()).await;
    let serving = json!({"restartPolicy": "Always", "containers": [{
        "name": "main", "image": WORKLOAD_IMAGE, "command": ["/eventlab"],
        "args": ["ledger", "serve", "--db", "/data/ledger.db", "--port", "8080"],
        "ports": [{"containerPort": 8080}],
    }]});
    cluster
        .create_with(
            json!({"name": "view", "labels": {"app": "ledger"}}),
            serving,
        )
        .await;
    let address = real(&cluster, "ledger", 8080).await;
    use tokio::io::AsyncWriteExt;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /orders HTTP/1.1\r\nHost: ledger\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("[]"),
        "{answer}"
    );
    assert!(
        cluster
            .log("view", "main")
            .await
            .starts_with("serving ledger /data/ledger.db on http://127.0.0.1:")
    );

    cluster
        .create("report", super::node_support::service_spec("report"))
        .await;
    cluster.wait_phase("report", "Succeeded").await;
    let log = cluster.log("report", "main").await;
    for line in [
        "LEDGER_SERVICE_HOST=127.0.0.1",
        &format!("LEDGER_SERVICE_PORT={}", address.port()),
    ] {
        assert!(log.lines().any(|known| known == line), "{line} in {log}");
    }

    // A kill is followed by a new instance behind the same socket.
    assert!(
        cluster
            .node
            .as_ref()
            .unwrap()
            .kill("lab", "view", "main")
            .await
    );
    cluster
        .wait("view", |pod| {
            super::node_support::container(pod, "main")["restartCount"] == 1
        })
        .await;
    assert_eq!(real(&cluster, "ledger", 8080).await, address);
}
