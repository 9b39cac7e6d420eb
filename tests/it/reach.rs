//! Reaching a Service through port-forwards that break: each connection finds the pod of the moment, and what was not sent is
//! told from what may have arrived.

use std::collections::BTreeSet;
use std::sync::Arc;

use eventlab::cluster::context::{Context, ContextRequest};
use eventlab::cluster::{Cluster as Reached, RealCluster, Request, SendError};
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::api_support::{Transport, object};
use crate::node_support::{Cluster, until};

/// Requests while the pod is replaced.
const REQUESTS: usize = 60;

async fn reached(cluster: &Cluster) -> Reached {
    let path = cluster.state.path().join("config");
    let token = cluster.lab.admin_token();
    std::fs::write(&path, cluster.lab.kubeconfig(&token)).unwrap();
    let request = ContextRequest {
        name: "admin".to_owned(),
        kubeconfig: Some(path),
        confirmed: None,
    };
    let context = Context::load(&request).await.unwrap();
    Reached::of_context(&context, "lab", RealCluster::default())
}

/// An external system on a volume that outlives its pods.
fn crm() -> Value {
    json!({"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "eventlab:dev", "command": ["/eventlab"],
        "args": ["crm", "serve", "--db", "/data/crm.db", "--port", "8080"], "ports": [{"containerPort": 8080}],
        "readinessProbe": {"periodSeconds": 1, "httpGet": {"path": "/healthz", "port": 8080}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]})
}

fn entry(id: usize) -> Request {
    let body =
        json!({"source_id": format!("s-{id}"), "order_id": format!("o-{id}"), "amount_cents": 1});
    Request {
        method: "POST".to_owned(),
        path: "/entries".to_owned(),
        headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
        body: body.to_string().into_bytes(),
        lose_answer: false,
    }
}

async fn written(reached: &Reached) -> Option<BTreeSet<String>> {
    let rows: Value = reached
        .get_json("crm", 80, "/admin/entries?after=0")
        .await
        .ok()?;
    let rows = rows.as_array()?;
    let id = |row: &Value| row["source_id"].as_str().map(str::to_owned);
    Some(rows.iter().filter_map(id).collect())
}

async fn start(cluster: &Cluster, name: &str) {
    let metadata = json!({"name": name, "labels": {"app": "crm"}});
    cluster.create_with(metadata, crm()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_goes_takes_no_request_with_it_unseen() {
    let cluster = Cluster::over(Transport::Tls).await;
    let claim = object::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(
        json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}),
    );
    let claims = cluster.lab.api("lab");
    claims.create(&PostParams::default(), &claim).await.unwrap();
    let service: Service = object(
        json!({"metadata": {"name": "crm"}, "spec": {"selector": {"app": "crm"}, "ports": [{"port": 80, "targetPort": 8080}]}}),
    );
    let services = cluster.lab.api("lab");
    services
        .create(&PostParams::default(), &service)
        .await
        .unwrap();
    let reached = Arc::new(reached(&cluster).await);

    // Nobody is behind it yet: nothing was sent, and that is what is said.
    let nobody = reached.send("crm", 80, &entry(REQUESTS)).await;
    assert!(matches!(nobody, Err(SendError::NotSent(_))), "{nobody:?}");
    start(&cluster, "crm-1").await;
    until(async || written(&reached).await.is_some()).await;

    let sending = {
        let reached = Arc::clone(&reached);
        tokio::spawn(async move {
            let mut outcomes = Vec::new();
            for id in 0..REQUESTS {
                outcomes.push((id, reached.send("crm", 80, &entry(id)).await));
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            outcomes
        })
    };
    until(async || {
        written(&reached)
            .await
            .is_some_and(|rows| rows.len() > REQUESTS / 6)
    })
    .await;
    let pods = cluster.pods();
    pods.delete("crm-1", &DeleteParams::default())
        .await
        .unwrap();
    cluster.wait_gone("crm-1").await;
    let outcomes = sending.await.unwrap();
    let gone = reached.send("crm", 80, &entry(REQUESTS + 1)).await;
    assert!(matches!(gone, Err(SendError::NotSent(_))), "{gone:?}");

    // The next pod is found without a word, and what each request was told is true.
    start(&cluster, "crm-2").await;
    until(async || written(&reached).await.is_some()).await;
    let rows = written(&reached).await.unwrap();
    let mut unsent = 0;
    for (id, outcome) in outcomes {
        let there = rows.contains(&format!("s-{id}"));
        match outcome {
            Ok(answer) => {
                assert!(
                    there || answer.status >= 400,
                    "s-{id} was answered {answer:?}, and is not there"
                );
            }
            Err(SendError::NotSent(why)) => {
                assert!(!there, "s-{id} was not sent ({why}), and is there");
                unsent += 1;
            }
            // It may have arrived, or not: nothing is claimed.
            Err(SendError::AnswerLost(_)) => {}
        }
    }
    eprintln!(
        "{unsent} of {REQUESTS} were not sent, {} are there",
        rows.len()
    );
    let after = reached.send("crm", 80, &entry(REQUESTS + 2)).await.unwrap();
    assert!(after.status < 300, "{after:?}");
}
