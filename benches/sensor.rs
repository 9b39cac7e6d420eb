//! How long one event takes in a filter: by kind of condition, by size of the payload, with and without the explanation;
//! and how that stands against Argo Events itself.

use std::time::{Duration, Instant};

use divan::{Bencher, black_box};
use eventlab::sensor::{Event, Filter};
use serde_json::{Value, json};

fn main() {
    divan::main();
    // Under `--test` or `--list` nothing is measured.
    if !std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        ratios();
    }
}

/// What Argo Events' own filter takes for the same (microseconds, Go 1.27 on a machine of this kind), and how many
/// times faster this one should be.
const UPSTREAM: [(&str, usize, f64, f64); 11] = [
    ("string", 0, 2.9, 10.0),
    ("bool", 0, 0.26, 2.0),
    ("number", 0, 0.30, 2.0),
    ("ten", 0, 11.7, 10.0),
    ("or", 0, 3.3, 10.0),
    ("script", 0, 78.0, 10.0),
    ("expression", 0, 4.2, 10.0),
    ("template", 0, 35.0, 10.0),
    ("string", 1 << 10, 4.0, 2.0),
    ("string", 64 << 10, 63.0, 2.0),
    ("string", 1 << 20, 950.0, 2.0),
];

/// Prints the median time of each kind against upstream's.
fn ratios() {
    println!("against Argo Events     here     upstream    times   aim");
    for (kind, bytes, upstream, aim) in UPSTREAM {
        let event = event(bytes);
        let filter = passing(kind, &event);
        let here = median(|| drop(black_box(filter.evaluate(black_box(&event)))));
        let times = upstream / here;
        let missed = if times < aim { "  missed" } else { "" };
        println!(
            "{kind:<12} {bytes:>8} B {here:>8.3} µs {upstream:>8.2} µs {times:>7.1}x {aim:>4.0}x{missed}"
        );
    }
}

/// The median time of one call, in microseconds.
fn median(call: impl Fn()) -> f64 {
    const BATCH: Duration = Duration::from_micros(200);
    let time = |calls: u32| {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed()
    };
    let mut calls = 1;
    while time(calls) < BATCH {
        calls *= 2;
    }
    let mut times: Vec<f64> = (0..101)
        .map(|_| time(calls).as_secs_f64() * 1e6 / f64::from(calls))
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
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
