//! Every measured answer of Argo's webhook, asked over a real socket byte by byte.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use eventlab::embedded::services::eventsource;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::service_pods::{GUARD, Pod, PodSpec, TestBus, event_data};

#[derive(serde::Deserialize)]
struct Case {
    id: String,
    source: Value,
    request: Value,
    want: Want,
}

#[derive(serde::Deserialize)]
struct Want {
    status: u16,
    response: String,
    /// Not parsed: one of them nests deeper than the parser goes.
    event: Box<RawValue>,
}

fn cases() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/webhook.jsonl");
    std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// One event for every source that the cases name, each on a port of its own.
fn start(bus: &TestBus, cases: &[Case]) -> (Pod, BTreeMap<String, u16>) {
    let mut ports = BTreeMap::new();
    let mut events = Map::new();
    let mut spec = PodSpec::new(eventsource::run, "webhook-eventsource-1", bus);
    for case in cases {
        let source = &case.source;
        let port = 12_000 + u16::try_from(ports.len()).unwrap();
        let port = *ports.entry(source.to_string()).or_insert(port);
        let mut event = json!({"endpoint": source["endpoint"], "method": source["method"],
            "port": port.to_string(), "maxPayloadSize": source["maxPayloadSize"]});
        if let Some(token) = source["token"].as_str() {
            event["authSecret"] = json!({"name": "orders", "key": "token"});
            // Editors leave a newline at the end.
            spec.files.insert(
                "/argo-events/secrets/orders/token".to_owned(),
                format!("{token}\n").into_bytes(),
            );
        }
        events.insert(format!("event-{port}"), event);
    }
    let object = json!({"metadata": {"name": "webhook", "namespace": "eventlab"}, "spec": {"webhook": events}});
    (spec.object("EVENTSOURCE_OBJECT", &object).start(), ports)
}

fn raw_request(request: &Value) -> Vec<u8> {
    let text = |name: &str| request[name].as_str().unwrap();
    let body = match request.get("bodyBuild") {
        Some(build) => {
            let part = |name: &str| build[name].as_str().unwrap();
            let count = usize::try_from(build["count"].as_u64().unwrap()).unwrap();
            [part("prefix"), &part("fill").repeat(count), part("suffix")]
                .concat()
                .into_bytes()
        }
        None => STANDARD.decode(text("bodyBase64")).unwrap(),
    };
    let mut head = format!(
        "{} {} HTTP/1.1\r\nHost: localhost\r\n",
        text("method"),
        text("path")
    );
    for header in request["headers"].as_array().unwrap() {
        head.push_str(&format!(
            "{}: {}\r\n",
            header[0].as_str().unwrap(),
            header[1].as_str().unwrap()
        ));
    }
    if request["contentLength"] == true && !body.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("Connection: close\r\n\r\n");
    // Headers were sent in Latin-1.
    let mut raw: Vec<u8> = head
        .chars()
        .map(|c| u8::try_from(u32::from(c)).unwrap())
        .collect();
    raw.extend_from_slice(&body);
    raw
}

pub async fn exchange(address: std::net::SocketAddr, raw: &[u8]) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut answer = Vec::new();
    let both = async {
        // The server may close before it has read everything.
        tokio::join!(writer.write_all(raw), reader.read_to_end(&mut answer))
    };
    let _ = tokio::time::timeout(GUARD, both).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

fn check_event(id: &str, want: &RawValue, stored: Option<&[u8]>) {
    let wanted = want.get();
    match stored {
        None => assert_eq!(wanted, "null", "{id}: the event is missing on the bus"),
        Some(payload) => {
            let data = event_data(payload);
            let text = String::from_utf8_lossy(&data);
            let want: Option<Value> = serde_json::from_str(wanted).ok();
            match want {
                None => assert_eq!(text, wanted.replace(' ', ""), "{id}"),
                Some(Value::Null) => panic!("{id}: nothing belongs on the bus, found {text}"),
                Some(want) => match want["eventBase64"].as_str() {
                    Some(exact) => assert_eq!(STANDARD.encode(&data), exact, "{id}: {text}"),
                    None => assert_eq!(
                        normal(&serde_json::from_slice(&data).unwrap()),
                        normal(&want),
                        "{id}"
                    ),
                },
            }
        }
    }
}

/// Numbers as floats, since the measured file writes `1.50` as `1.5` and `1E3` as `1000.0`.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), normal(value)))
            .collect(),
        other => other.clone(),
    }
}

#[tokio::test]
async fn every_measured_request_is_answered_alike() {
    let bus = TestBus::start();
    let cases = cases();
    let (pod, ports) = start(&bus, &cases);
    pod.waits_for("Eventing server started.").await;
    let mut failures = Vec::new();
    for Case {
        id,
        source,
        request,
        want,
    } in &cases
    {
        let address = pod.address(ports[&source.to_string()]).await;
        let before = bus.messages().await.len();
        let (status, head, body) = exchange(address, &raw_request(request)).await;
        let text = want.response.as_str();
        let same_text = if text.starts_with("json:") {
            body.starts_with("json:")
        } else {
            body == text
        };
        if want.status != status || !same_text {
            failures.push(format!(
                "{id}: want {} {text:?}, got {status} {body:?}",
                want.status
            ));
        }
        if status == 301 {
            assert!(
                head.to_ascii_lowercase().contains("\r\nlocation: /orders"),
                "{id}: {head}"
            );
        }
        let stored = bus.messages().await.split_off(before);
        assert!(stored.len() <= 1, "{id}: {} messages", stored.len());
        check_event(
            id,
            &want.event,
            stored.first().map(|message| message.payload.as_slice()),
        );
    }
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}
