//! What Services are given: addresses in the cluster and ports of the node.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::api_support::{Lab, create, send};

const SERVICES: &str = "/api/v1/namespaces/lab/services";

/// Measured: a dry run gives nothing away, and shows what nobody can have.
#[tokio::test]
async fn a_dry_run_of_a_service_is_given_nothing() {
    let lab = Lab::new().await;
    let dry = async |method: &str, path: &str, media: &str, body: Value| {
        let path = format!("{SERVICES}{path}?dryRun=All");
        let (_, service) = send(&lab, method, &path, media, body.to_string()).await;
        let ports = service["spec"]["ports"].as_array().unwrap().iter();
        let ports: Vec<Value> = ports.map(|port| port["nodePort"].clone()).collect();
        (service["spec"]["clusterIP"].clone(), ports)
    };
    let json = "application/json";
    for (ports, want) in [
        (json!([{"port": 80}]), json!([32769])),
        (
            json!([{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]),
            json!([32769, 32770]),
        ),
        (
            json!([{"port": 80, "name": "a", "nodePort": 30500}, {"port": 81, "name": "b"}]),
            json!([30500, 30501]),
        ),
    ] {
        let body = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}});
        let shown = dry("POST", "", json, body).await;
        assert_eq!(
            shown,
            (json!("10.96.0.0"), want.as_array().unwrap().clone())
        );
    }
    let made = create(
        &lab,
        SERVICES,
        json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
    )
    .await;
    let change = json!({"spec": {"type": "NodePort"}});
    let shown = dry("PATCH", "/s", "application/merge-patch+json", change).await;
    assert_eq!(
        shown,
        (made["spec"]["clusterIP"].clone(), vec![json!(32769)])
    );
}

/// However many are made at once: a port of the node and an address belong to one Service.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn services_that_are_made_at_once_share_nothing() {
    let lab = Arc::new(Lab::new().await);
    let make = |name: String, port: Value| {
        let lab = Arc::clone(&lab);
        tokio::spawn(async move {
            let body =
                json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [port]}});
            send(&lab, "POST", SERVICES, "application/json", body.to_string()).await
        })
    };
    let same = (0..16).map(|n| make(format!("same-{n}"), json!({"port": 80, "nodePort": 30777})));
    // Those whose names begin their search at the same port would find the same one free.
    let other = (0..48).map(|n| make(format!("other-{n}"), json!({"port": 80})));
    let made = futures::future::join_all(same.chain(other).collect::<Vec<_>>()).await;
    let codes: Vec<u16> = made.into_iter().map(|one| one.unwrap().0).collect();
    let won = codes[..16].iter().filter(|code| **code == 201).count();
    assert_eq!(won, 1, "{codes:?}");
    assert!(codes[16..].iter().all(|code| *code == 201), "{codes:?}");
    let (_, all) = send(&lab, "GET", SERVICES, "application/json", "").await;
    let specs: Vec<&Value> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["spec"])
        .collect();
    let distinct = |values: Vec<String>| {
        let set: BTreeSet<String> = values.iter().cloned().collect();
        assert_eq!(set.len(), values.len(), "{values:?}");
    };
    distinct(
        specs
            .iter()
            .map(|spec| spec["ports"][0]["nodePort"].to_string())
            .collect(),
    );
    distinct(
        specs
            .iter()
            .map(|spec| spec["clusterIP"].to_string())
            .collect(),
    );
}
