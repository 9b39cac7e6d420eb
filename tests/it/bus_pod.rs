//! The bus pod: its two ports, its credentials, and what its end means to clients.

use std::sync::Arc;

use eventlab::embedded::bus::host::LocalConnector;
use eventlab::embedded::bus::remote::RemoteConnector;
use eventlab::embedded::bus::{Access, Bus, BusError, ConnectBus, StreamConfig};
use eventlab::embedded::services::bus_service;

use crate::service_pods::{GUARD, Pod, PodSpec, TestBus};

const NAME: &str = "eventbus-default-js-0";
const URL: &str = "nats://eventbus-default-js-svc.eventlab.svc:4222";
const AUTH: &str = "system_account: sys\n\naccounts: {\"js\": {\"users\": [{\"user\": \"u\", \"pass\": \"s3cret\"}]}}\n";

fn not_served() -> TestBus {
    let mut bus = TestBus::start();
    bus.stop();
    bus
}

fn start(bus: &TestBus, auth: Option<&str>) -> Pod {
    let mut spec = PodSpec::new(bus_service::run, NAME, bus);
    if let Some(auth) = auth {
        spec.files
            .insert(bus_service::AUTH_FILE.to_owned(), auth.as_bytes().to_vec());
    }
    spec.start()
}

async fn connect(pod: &Pod, secret: &str) -> Result<Arc<dyn Bus>, BusError> {
    let base = format!("http://{}", pod.address(bus_service::CLIENT_PORT).await);
    RemoteConnector { base }
        .connect(URL, &Access::password(secret))
        .await
}

fn stream() -> StreamConfig {
    StreamConfig {
        name: "default".to_owned(),
        subjects: vec!["default.*.*".to_owned()],
        max_messages: 10,
        max_age: GUARD,
        duplicate_window: GUARD,
        ..StreamConfig::default()
    }
}

#[tokio::test]
async fn children_connect_with_the_password_of_the_accounts() {
    let bus = not_served();
    let pod = start(&bus, Some(AUTH));
    let connection = connect(&pod, "s3cret").await.unwrap();
    connection.ensure_stream(stream()).await.unwrap();
    connection
        .publish("default.webhook.orders", "1", b"x".to_vec())
        .await
        .unwrap();
    let refused = Some(BusError::Refused(
        "nats: Authorization Violation".to_owned(),
    ));
    assert_eq!(connect(&pod, "wrong").await.err(), refused);
    let local = LocalConnector(Arc::clone(&bus.host));
    assert_eq!(local.connect(URL, &Access::default()).await.err(), refused);
    local
        .connect(URL, &Access::password("s3cret"))
        .await
        .unwrap();
    let elsewhere = local
        .connect(
            "nats://eventbus-other-js-svc.eventlab.svc:4222",
            &Access::password("s3cret"),
        )
        .await;
    assert!(elsewhere.is_err());
    let url = format!(
        "http://{}/jsz?consumers=true",
        pod.address(bus_service::MONITOR_PORT).await
    );
    let jsz: serde_json::Value = reqwest::get(url).await.unwrap().json().await.unwrap();
    assert_eq!(jsz["messages"], 1);
}

#[tokio::test]
async fn without_credentials_only_this_process_connects() {
    let bus = not_served();
    let pod = start(&bus, None);
    assert!(connect(&pod, "").await.is_err());
    LocalConnector(Arc::clone(&bus.host))
        .connect(URL, &Access::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_killed_pod_loses_its_connections_and_keeps_its_data() {
    let bus = not_served();
    let mut pod = start(&bus, Some(AUTH));
    let remote = connect(&pod, "s3cret").await.unwrap();
    let local = LocalConnector(Arc::clone(&bus.host))
        .connect(URL, &Access::password("s3cret"))
        .await
        .unwrap();
    remote.ensure_stream(stream()).await.unwrap();
    remote
        .publish("default.webhook.orders", "1", b"x".to_vec())
        .await
        .unwrap();
    pod.kill();
    for connection in [&remote, &local] {
        tokio::time::timeout(GUARD, connection.closed().cancelled())
            .await
            .unwrap();
        assert_eq!(
            connection.stream_info("default").await,
            Err(BusError::Closed)
        );
    }
    let mut pod = start(&bus, Some(AUTH));
    let again = connect(&pod, "s3cret").await.unwrap();
    assert_eq!(again.stream_info("default").await.unwrap().messages, 1);
    assert_eq!(pod.end().await, 0);
    tokio::time::timeout(GUARD, again.closed().cancelled())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_second_bus_is_refused_with_the_reason() {
    let bus = TestBus::start();
    let pod = start(&bus, Some(AUTH));
    assert_eq!(pod.exit().await, 1);
    assert!(
        pod.termination.get().contains("one bus at a time"),
        "{}",
        pod.termination.get()
    );
}
