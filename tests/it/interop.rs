//! Another client on the same real bus: its events are judged by our Sensor, ours are read by it, and what a deleted
//! Sensor leaves behind is there for both. Needs nats-server and a Python with nats-py; without either it skips aloud.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::sensor_service::{World, orders};
use crate::service_pods::TestBus;
use crate::{eventsource, nats_support};

/// Names a Python that has nats-py.
const PYTHON: &str = "EVENTLAB_NATS_PYTHON";

fn python() -> Option<PathBuf> {
    let Some(python) = std::env::var_os(PYTHON) else {
        eprintln!("SKIPPED: {PYTHON} names no Python with nats-py: no other client was tried");
        return None;
    };
    nats_support::program()?;
    Some(python.into())
}

/// Runs a command of the other client.
async fn other(python: &PathBuf, bus: &TestBus, arguments: &[&str]) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/interop.py");
    let mut command = Command::new(python);
    command.arg(script).arg(bus.nats_url()).args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
#[ignore = "needs a Python with nats-py; .ci/run"]
async fn an_event_of_another_program_is_judged_by_our_sensor() {
    let Some(python) = python() else { return };
    let world = World::allowed_on(TestBus::real().unwrap()).await;
    let mut pod = world.start("orders-sensor-1", &orders()).await;
    let stored = other(
        &python,
        &world.bus,
        &["publish", "theirs-1", "{\"body\": {}}"],
    )
    .await;
    assert_eq!(stored, json!({"sequence": 1, "duplicate": false}));
    world.arrives(&["theirs-1"]).await;
    let again = other(&python, &world.bus, &["publish", "theirs-1", "{}"]).await;
    assert_eq!(again, json!({"sequence": 1, "duplicate": true}));
    let deps = other(&python, &world.bus, &["bucket", "orders", "Deps"]).await;
    assert!(
        deps["value"].as_str().unwrap().contains("\"order\""),
        "{deps}"
    );

    // The Sensor is deleted; its consumer stays and collects.
    world.settled().await;
    pod.end().await;
    let durable = world.consumers().await[0].durable.clone();
    for id in ["left-1", "left-2", "left-3"] {
        other(&python, &world.bus, &["publish", id, "{\"body\": {}}"]).await;
    }
    let taken = other(&python, &world.bus, &["read", &durable]).await;
    assert_eq!(
        (&taken["id"], &taken["sequence"]),
        (&"left-1".into(), &2.into())
    );
    // Made again with the same dependency, it gets the rest of what was posted meanwhile.
    let _pod = world.start("orders-sensor-2", &orders()).await;
    world.arrives(&["left-2", "left-3", "theirs-1"]).await;
}

#[tokio::test]
#[ignore = "needs a Python with nats-py; .ci/run"]
async fn an_event_of_our_source_is_read_by_another_program() {
    let Some(python) = python() else { return };
    let bus = TestBus::real().unwrap();
    let pod = eventsource::start(&bus).await;
    other(&python, &bus, &["listen", "theirs"]).await;
    let answer = eventsource::post(&pod, "/orders", "{\"kind\":\"order.created\"}").await;
    assert_eq!(answer, (200, "success".to_owned()));
    let read = other(&python, &bus, &["read", "theirs"]).await;
    assert_eq!(read["id"], read["header"]);
    assert_eq!(
        (&read["type"], &read["source"], &read["subject"]),
        (&"webhook".into(), &"webhook".into(), &"orders".into())
    );
    assert_eq!(read["data"]["body"], json!({"kind": "order.created"}));
}
