//! How long one event takes in a filter: by kind of condition, by size of the payload, with and without the explanation.

use divan::{Bencher, black_box};
use eventlab::sensor::{Event, Filter};
use serde_json::{Value, json};

fn main() {
    divan::main();
}

/// An order, padded to about so many bytes behind the fields that are looked at.
fn event(bytes: usize) -> Event {
    let filler: Vec<Value> = (0..bytes / 64)
        .map(|place| json!({"sku": format!("item-{place:08}"), "count": 3, "note": "fragile, this side up"}))
        .collect();
    let body = json!({
        "kind": "order.created", "orderId": "o-1001", "customerId": "c-7", "amount": 4200, "enabled": true,
        "trace": "t-1", "items": filler,
    });
    let data = json!({"header": {"Content-Type": ["application/json"]}, "body": body});
    Event {
        id: "evt".into(),
        source: "webhook".into(),
        subject: "orders".into(),
        r#type: "webhook".into(),
        specversion: "1.0".into(),
        datacontenttype: "application/json".into(),
        time: "2026-01-02T03:04:05Z".parse().ok(),
        data: Some(data.to_string().into_bytes()),
    }
}

fn condition(path: &str, kind: &str, value: &str) -> Value {
    json!({"path": path, "type": kind, "value": [value]})
}

fn string() -> Value {
    json!({"data": [condition("body.kind", "string", r"^order\.created$")]})
}

fn ten() -> Value {
    let mut conditions = vec![
        condition("body.kind", "string", r"^order\.created$"),
        condition("body.orderId", "string", "^o-[0-9]+$"),
        condition("body.customerId", "string", "^c-"),
        condition("body.trace", "string", "^t-"),
        condition("body.enabled", "bool", "true"),
        condition("body.amount", "number", "4200"),
        condition("header.Content-Type.0", "string", "json$"),
    ];
    conditions.extend_from_within(..3);
    json!({"data": conditions})
}

fn or() -> Value {
    json!({"dataLogicalOperator": "or", "data": [
        condition("body.missing", "string", "x"),
        condition("body.kind", "string", "^order\\.cancelled$"),
        condition("body.kind", "string", r"^order\.created$"),
    ]})
}

fn template() -> Value {
    json!({"data": [{"path": "body.kind", "type": "string", "value": ["^ORDER"], "template": "{{ .Input | upper }}"}]})
}

fn expression() -> Value {
    json!({"exprs": [{"expr": "kind == 'order.created' && amount > 100", "fields": [
        {"name": "kind", "path": "body.kind"}, {"name": "amount", "path": "body.amount"}]}]})
}

fn script() -> Value {
    json!({"script": "return event.body.kind == 'order.created' and event.body.enabled == true"})
}

const KINDS: [&str; 8] = [
    "string",
    "bool",
    "number",
    "ten",
    "or",
    "script",
    "expression",
    "template",
];

fn filter(kind: &str) -> Filter {
    let spec = match kind {
        "string" => string(),
        "bool" => json!({"data": [condition("body.enabled", "bool", "true")]}),
        "number" => json!({"data": [condition("body.amount", "number", "4200")]}),
        "ten" => ten(),
        "or" => or(),
        "script" => script(),
        "expression" => expression(),
        _ => template(),
    };
    match Filter::compile(Some(&spec), "") {
        Ok(filter) => filter,
        Err(error) => panic!("{kind}: {error}"),
    }
}

/// A filter that passes its event, or the numbers would be those of an early end.
fn passing(kind: &str, event: &Event) -> Filter {
    let filter = filter(kind);
    assert!(filter.evaluate(event).passed, "{kind} does not pass");
    filter
}

#[divan::bench(args = KINDS)]
fn evaluate(bencher: Bencher, kind: &str) {
    let event = event(0);
    let filter = passing(kind, &event);
    bencher.bench_local(|| filter.evaluate(black_box(&event)));
}

#[divan::bench(args = KINDS)]
fn explain(bencher: Bencher, kind: &str) {
    let event = event(0);
    let filter = passing(kind, &event);
    bencher.bench_local(|| filter.explain(black_box(&event)));
}

#[divan::bench(args = [1 << 10, 64 << 10, 1 << 20])]
fn string_by_payload(bencher: Bencher, bytes: usize) {
    let event = event(bytes);
    let filter = passing("string", &event);
    bencher
        .counter(divan::counter::BytesCount::new(
            event.data.as_ref().map_or(0, Vec::len),
        ))
        .bench_local(|| filter.evaluate(black_box(&event)));
}
