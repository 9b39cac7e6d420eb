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

/// Names whose searches begin at the same port of the node, as the hash of `lab/NAME` has it.
fn colliding(count: usize) -> Vec<String> {
    let hash = |name: &str| {
        let seed = format!("lab/{name}");
        seed.bytes().fold(5381_u32, |hash, byte| {
            hash.wrapping_mul(33) ^ u32::from(byte)
        })
    };
    let names = (0_u32..).map(|number| format!("c{number}"));
    let ports = 32_767 - 30_000 + 1;
    let first = hash("c0") % ports;
    let same = names.filter(|name| hash(name) % ports == first);
    same.take(count).collect()
}

/// Round after round two Services look for the same port of the node, ask for the same address and the same name.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_that_want_the_same_each_has_its_own() {
    const ROUNDS: usize = 32;
    let lab = Arc::new(Lab::new().await);
    let start = Arc::new(tokio::sync::Barrier::new(2));
    let names = colliding(2 * ROUNDS);
    for pair in names.chunks(2) {
        let two = pair.iter().map(|name| {
            let (lab, start, name) = (Arc::clone(&lab), Arc::clone(&start), name.clone());
            tokio::spawn(async move {
                start.wait().await;
                let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
                let body = json!({"metadata": {"name": name}, "spec": spec}).to_string();
                let named = send(&lab, "POST", SERVICES, "application/json", body).await;
                let body = json!({"metadata": {"generateName": "g-"}, "spec": spec}).to_string();
                let generated = send(&lab, "POST", SERVICES, "application/json", body).await;
                [named.0, generated.0]
            })
        });
        for codes in futures::future::join_all(two.collect::<Vec<_>>()).await {
            assert_eq!(codes.unwrap(), [201, 201]);
        }
    }
    let (_, all) = send(&lab, "GET", SERVICES, "application/json", "").await;
    let items = all["items"].as_array().unwrap();
    assert_eq!(items.len(), 4 * ROUNDS);
    for pointer in [
        "/metadata/name",
        "/spec/clusterIP",
        "/spec/ports/0/nodePort",
    ] {
        let values: BTreeSet<String> = items
            .iter()
            .map(|item| item.pointer(pointer).unwrap().to_string())
            .collect();
        assert_eq!(values.len(), items.len(), "{pointer}");
    }
    // One port, address or name that both name themselves is one's.
    let used: BTreeSet<u64> = items
        .iter()
        .filter_map(|item| item["spec"]["ports"][0]["nodePort"].as_u64())
        .collect();
    let free = (30_000_u64..).filter(|port| !used.contains(port));
    for (round, port) in (0..ROUNDS).zip(free) {
        let address = format!("10.96.255.{round}");
        let asked = [
            json!({"metadata": {"name": format!("a{round}")}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}),
            json!({"metadata": {"name": format!("b{round}")}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}),
            json!({"metadata": {"name": format!("x{round}")}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}}),
            json!({"metadata": {"name": format!("y{round}")}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}}),
            json!({"metadata": {"name": format!("same{round}")}, "spec": {"ports": [{"port": 80}]}}),
            json!({"metadata": {"name": format!("same{round}")}, "spec": {"ports": [{"port": 81}]}}),
        ];
        let all = asked.map(|body| {
            let lab = Arc::clone(&lab);
            tokio::spawn(async move {
                send(&lab, "POST", SERVICES, "application/json", body.to_string())
                    .await
                    .0
            })
        });
        let codes = futures::future::join_all(all).await;
        let codes: Vec<u16> = codes.into_iter().map(Result::unwrap).collect();
        for (pair, refused) in codes.chunks(2).zip([422, 422, 409]) {
            let mut pair = pair.to_vec();
            pair.sort_unstable();
            assert_eq!(pair, [201, refused], "{round}: {codes:?}");
        }
    }
}

/// However a Service is written: a port without a target leads to the same port of the pod.
#[tokio::test]
async fn a_port_without_a_target_leads_to_its_own_number() {
    let lab = Lab::new().await;
    let targets = [
        (json!({"port": 80}), json!(80)),
        (json!({"port": 80, "targetPort": null}), json!(80)),
        (json!({"port": 80, "targetPort": 0}), json!(80)),
        (json!({"port": 80, "targetPort": ""}), json!(80)),
        (json!({"port": 80, "targetPort": 8080}), json!(8080)),
        (json!({"port": 80, "targetPort": "web"}), json!("web")),
    ];
    let shown = |service: &Value| service["spec"]["ports"][0]["targetPort"].clone();
    for (number, (port, want)) in targets.iter().enumerate() {
        let name = format!("s{number}");
        let body = json!({"metadata": {"name": name}, "spec": {"ports": [port]}});
        let made = create(&lab, SERVICES, body).await;
        assert_eq!(shown(&made), *want, "{port}");
        let path = format!("{SERVICES}/{name}");
        for (other, want) in &targets {
            let patch = json!({"spec": {"ports": [other]}}).to_string();
            let (code, now) =
                send(&lab, "PATCH", &path, "application/merge-patch+json", patch).await;
            assert_eq!((code, shown(&now)), (200, want.clone()), "{other}");
            let mut put = made.clone();
            put["metadata"]["resourceVersion"] = Value::Null;
            put["spec"]["ports"] = json!([other]);
            let (code, now) = send(&lab, "PUT", &path, "application/json", put.to_string()).await;
            assert_eq!((code, shown(&now)), (200, want.clone()), "{other}");
        }
    }
    for bad in [
        json!("8080"),
        json!("-"),
        json!(70000),
        json!(-1),
        json!("a name"),
    ] {
        let body = json!({"metadata": {"name": "bad"}, "spec": {"ports": [{"port": 80, "targetPort": bad}]}});
        let (code, answer) =
            send(&lab, "POST", SERVICES, "application/json", body.to_string()).await;
        assert_eq!(code, 422, "{bad}: {answer}");
    }
}
