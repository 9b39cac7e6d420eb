//! The EventSource service beyond its answers: log lines, counters, and a bus that comes and goes.

use eventlab::embedded::services::eventsource;
use serde_json::{Value, json};

use crate::service_pods::{GUARD, Pod, PodSpec, TestBus, event_data, until};
use crate::webhook_golden::exchange;

fn object(spec: &Value) -> Value {
    json!({"metadata": {"name": "webhook", "namespace": "eventlab"}, "spec": spec})
}

fn orders() -> Value {
    object(&json!({"webhook": {
        "orders": {"endpoint": "/orders", "method": "POST", "port": "12000"},
        "refunds": {"endpoint": "/refunds", "method": "POST", "port": "12000", "metadata": {"shop": "a"}},
    }}))
}

pub async fn start(bus: &TestBus) -> Pod {
    let pod = PodSpec::new(eventsource::run, "webhook-eventsource-1", bus)
        .object("EVENTSOURCE_OBJECT", &orders())
        .start();
    pod.waits_for("Eventing server started.").await;
    pod
}

pub async fn post(pod: &Pod, path: &str, body: &str) -> (u16, String) {
    let raw = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer hidden\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (status, _, text) = exchange(pod.address(12_000).await, raw.as_bytes()).await;
    (status, text)
}

#[tokio::test]
async fn an_accepted_event_is_on_the_bus_and_in_the_log_under_one_id() {
    let bus = TestBus::start();
    let pod = start(&bus).await;
    assert_eq!(
        post(&pod, "/orders", "{\"kind\":\"order.created\"}").await,
        (200, "success".to_owned())
    );
    let stored = bus.messages().await;
    assert_eq!(stored[0].subject, "default.webhook.orders");
    let event: Value = serde_json::from_slice(&stored[0].payload).unwrap();
    let id = event["id"].as_str().unwrap();
    assert!(
        id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{id}"
    );
    assert_eq!(stored[0].message_id.as_deref(), Some(id));
    let context = [
        "type",
        "source",
        "subject",
        "datacontenttype",
        "specversion",
    ]
    .map(|key| event[key].as_str().unwrap());
    assert_eq!(
        context,
        ["webhook", "webhook", "orders", "application/json", "1.0"]
    );
    let data = String::from_utf8(event_data(&stored[0].payload)).unwrap();
    assert!(
        !data.contains("hidden") && data.contains("*** Masked Auth Secret ***"),
        "{data}"
    );

    let line = &pod.said("Succeeded to publish an event")[0];
    assert_eq!(line["logger"], "argo-events.eventsource");
    assert_eq!(line["level"], "info");
    let fields = ["eventSourceName", "eventName", "eventSourceType", "eventID"]
        .map(|key| line[key].as_str().unwrap());
    assert_eq!(fields, ["webhook", "orders", "webhook", id]);
    let debug = &pod.said(&data)[0];
    assert_eq!(
        (&debug["level"], &debug["eventID"]),
        (&"debug".into(), &id.into())
    );
    assert_eq!(pod.said("a request received, processing it...").len(), 1);
}

#[tokio::test]
async fn several_events_share_a_port_and_carry_their_metadata() {
    let bus = TestBus::start();
    let pod = start(&bus).await;
    assert_eq!(post(&pod, "/refunds", "1").await.0, 200);
    let stored = bus.messages().await;
    assert_eq!(stored[0].subject, "default.webhook.refunds");
    let data: Value = serde_json::from_slice(&event_data(&stored[0].payload)).unwrap();
    assert_eq!(data["metadata"], json!({"shop": "a"}));
}

#[tokio::test]
async fn a_lost_bus_answers_500_at_once_and_comes_back() {
    let mut bus = TestBus::start();
    let pod = start(&bus).await;
    bus.stop();
    pod.waits_for("NATS connection lost").await;
    let before = std::time::Instant::now();
    assert_eq!(
        post(&pod, "/orders", "{}").await,
        (500, "failed to record event".to_owned())
    );
    assert!(
        before.elapsed() < std::time::Duration::from_secs(4),
        "no tries on a closed connection"
    );
    assert_eq!(post(&pod, "/health", "").await, (200, "OK".to_owned()));
    assert_eq!(bus.messages().await.len(), 0);
    let line = &pod.said("failed to send event")[0];
    assert_eq!(
        line["error"],
        "failed to publish event, eventbus connection closed"
    );

    bus.serve();
    pod.waits_for("reconnected to eventbus successfully").await;
    assert_eq!(post(&pod, "/orders", "{}").await.0, 200);
    assert_eq!(bus.messages().await.len(), 1);
}

#[tokio::test]
async fn a_name_with_a_dot_fits_no_subject_and_fails_after_five_tries() {
    let bus = TestBus::start();
    let spec = json!({"webhook": {"order.created": {"endpoint": "/orders", "method": "POST", "port": "12000"}}});
    let pod = PodSpec::new(eventsource::run, "p", &bus)
        .object("EVENTSOURCE_OBJECT", &object(&spec))
        .start();
    assert_eq!(
        post(&pod, "/orders", "{}").await,
        (500, "failed to record event".to_owned())
    );
    let tries = pod.said("published message to subject default.webhook.order.created");
    assert_eq!(tries.len(), 5);
    let line = &pod.said("Failed to publish an event")[0];
    assert_eq!(
        line["error"],
        "failed after retries: nats: no response from stream"
    );
}

#[tokio::test]
async fn counters_count_what_was_sent_and_what_failed() {
    let bus = TestBus::start();
    let pod = start(&bus).await;
    for _ in 0..3 {
        assert_eq!(post(&pod, "/orders", "{}").await.0, 200);
    }
    assert_eq!(post(&pod, "/orders", "no JSON").await.0, 400);
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let (_, _, text) = exchange(pod.address(7777).await, request).await;
    let count = |name: &str, event: &str| {
        let line = format!(
            "{name}{{event_name=\"{event}\",eventsource_name=\"webhook\",namespace=\"eventlab\"}} "
        );
        let rest = text
            .split_once(&line)
            .unwrap_or_else(|| panic!("{line} in {text}"))
            .1;
        rest.lines().next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(count("argo_events_events_sent_total", "orders"), 3);
    assert_eq!(count("argo_events_events_sent_total", "refunds"), 0);
    assert_eq!(
        count("argo_events_events_processing_failed_total", "orders"),
        1
    );
}

#[tokio::test]
async fn a_hundred_events_at_once_are_all_stored() {
    let bus = TestBus::start();
    let pod = start(&bus).await;
    let posts = (0..100).map(|number| {
        let pod = &pod;
        async move {
            post(pod, "/orders", &format!("{{\"orderId\":\"o-{number}\"}}"))
                .await
                .0
        }
    });
    assert!(
        futures::future::join_all(posts)
            .await
            .iter()
            .all(|status| *status == 200)
    );
    let mut ids: Vec<_> = bus
        .messages()
        .await
        .iter()
        .map(|message| message.message_id.clone().unwrap())
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 100);
}

#[tokio::test]
async fn an_unsupported_event_is_named_and_the_rest_runs() {
    let bus = TestBus::start();
    let spec = json!({"calendar": {"daily": {"schedule": "0 0 * * *"}},
        "webhook": {"orders": {"endpoint": "/orders", "method": "POST", "port": "12000"}}});
    let pod = PodSpec::new(eventsource::run, "p", &bus)
        .object("EVENTSOURCE_OBJECT", &object(&spec))
        .start();
    let line = pod.waits_for("Validation failed").await;
    assert_eq!(
        (&line["eventName"], &line["eventSourceType"]),
        (&"daily".into(), &"calendar".into())
    );
    assert_eq!(post(&pod, "/orders", "{}").await.0, 200);
}

#[tokio::test]
async fn a_source_without_a_supported_event_ends_with_the_reason() {
    let bus = TestBus::start();
    let filtered = json!({"endpoint": "/orders", "method": "POST", "port": "12000", "filter": {"expression": "sum(1..9) == body.a"}});
    let spec = json!({"webhook": {"orders": filtered}});
    let pod = PodSpec::new(eventsource::run, "p", &bus)
        .object("EVENTSOURCE_OBJECT", &object(&spec))
        .start();
    assert_eq!(pod.exit().await, 1);
    assert!(
        pod.termination
            .get()
            .contains("eventlab: the filter expression"),
        "{}",
        pod.termination.get()
    );
    assert_eq!(pod.lines().last().unwrap()["level"], "fatal");
}

/// 200 says nothing of the bus: the EventSource's own filter drops what it is not true of, and what it fails at.
#[tokio::test]
async fn a_filter_of_the_source_answers_200_and_keeps_the_event_off_the_bus() {
    let bus = TestBus::start();
    let hook = |path: &str, expression: &str| json!({"endpoint": path, "method": "POST", "port": "12000", "filter": {"expression": expression}});
    let spec = json!({"webhook": {
        "orders": hook("/orders", "body.kind == 'order.created' && body.amount > 100"),
        "broken": hook("/broken", "body.kind =="),
        "text": hook("/text", "body.kind"),
    }});
    let pod = PodSpec::new(eventsource::run, "p", &bus)
        .object("EVENTSOURCE_OBJECT", &object(&spec))
        .start();
    pod.waits_for("Eventing server started.").await;
    let success = (200, "success".to_owned());
    for (path, body) in [
        ("/orders", r#"{"kind":"order.created","amount":4200}"#),
        ("/orders", r#"{"kind":"order.cancelled","amount":4200}"#),
        ("/orders", r#"{"kind":"order.created","amount":100}"#),
        ("/orders", "[]"),
        ("/broken", r#"{"kind":"order.created"}"#),
        ("/text", r#"{"kind":"order.created"}"#),
    ] {
        assert_eq!(post(&pod, path, body).await, success, "{path} {body}");
    }
    let stored = bus.messages().await;
    assert_eq!(stored.len(), 1, "only the order that the filter is true of");
    let dropped = pod.said("Filter condition not met, skip dispatching");
    assert_eq!(dropped.len(), 2);
    assert_eq!(dropped[0]["level"], "debug");
    let failed = pod.said("Failed to filter event");
    assert_eq!(
        failed.len(),
        3,
        "a body without fields, no expression, no boolean"
    );
    assert_eq!(failed[0]["level"], "error");
    assert_eq!(
        failed[2]["error"],
        "unable to cast expression result 'order.created' to bool"
    );
    assert_eq!(pod.said("Succeeded to publish an event").len(), 1);
}

#[tokio::test]
async fn a_pod_without_its_environment_says_what_is_missing() {
    let bus = TestBus::start();
    let pod = PodSpec::new(eventsource::run, "p", &bus).start();
    assert_eq!(pod.exit().await, 1);
    assert_eq!(
        pod.termination.get(),
        "required environment variable 'EVENTSOURCE_OBJECT' not defined"
    );
}

#[tokio::test]
async fn sigterm_ends_it_with_code_0() {
    let bus = TestBus::start();
    let mut pod = start(&bus).await;
    let address = pod.address(12_000).await;
    assert_eq!(tokio::time::timeout(GUARD, pod.end()).await.unwrap(), 0);
    until("the port is closed", || async {
        tokio::net::TcpStream::connect(address).await.is_err()
    })
    .await;
}
