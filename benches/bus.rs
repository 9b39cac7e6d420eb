//! Figures of the path publish → judged → submitted over the embedded bus and over a real JetStream, in one run.
//!
//! `cargo bench --bench bus` on an idle machine. `EVENTLAB_NATS_SERVER` names a nats-server that is not on the path;
//! without any the embedded bus is measured alone.
//!
//! One Sensor service with one dependency and one trigger, which creates a Workflow in the embedded API. *Published* is
//! the bus's answer to the publisher, *judged* and *submitted* are the times in the Sensor's own lines.
#![allow(clippy::unwrap_used)] // a measurement that cannot be made ends with its reason

// What the service tests run on is what is measured here.
#[path = "../tests/it/api_support.rs"]
#[allow(dead_code, unused_imports, unused_macros)]
mod api_support;
#[path = "../tests/it/nats_support.rs"]
#[allow(dead_code)]
mod nats_support;
#[path = "../tests/it/sensor_service.rs"]
#[allow(dead_code, unused_imports)]
mod sensor_service;
#[path = "../tests/it/service_pods.rs"]
#[allow(dead_code)]
mod service_pods;

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use sensor_service::{World, orders};
use service_pods::{Pod, TestBus};

/// Events sent one after the other, for the times.
const PACED: usize = 300;
/// Slower than where the Sensor's log begins to sample its lines.
const PACE: Duration = Duration::from_millis(15);
/// Events sent without a pause, for the rate.
const BURST: usize = 2_000;

fn main() {
    // `cargo test --benches` only wants to know that it starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    // Clients are called from spawned tasks: from the main future each call costs fifteen times more.
    runtime.block_on(async { tokio::spawn(compare()).await.unwrap() });
}

async fn compare() {
    println!("bus                     event                  times in ms (and events a second)");
    measure("embedded", TestBus::start()).await;
    match nats_support::program() {
        Some(program) => {
            let said = Command::new(program).arg("--version").output().unwrap();
            let name = String::from_utf8_lossy(&said.stdout).trim().to_owned();
            measure(&name, TestBus::real().unwrap()).await;
        }
        None => println!("a real JetStream was not measured: there is no nats-server here"),
    }
}

fn seconds_of(line: &Value) -> f64 {
    match &line["ts"] {
        Value::Number(number) => number.as_f64().unwrap(),
        other => {
            let time: jiff::Timestamp = other.as_str().unwrap().parse().unwrap();
            time.as_nanosecond() as f64 / 1e9
        }
    }
}

fn now() -> f64 {
    jiff::Timestamp::now().as_nanosecond() as f64 / 1e9
}

/// Milliseconds at a share of the values.
fn at(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = ((sorted.len() - 1) as f64 * share).round() as usize;
    sorted[index] * 1e3
}

fn report(bus: &str, what: &str, values: &[f64]) {
    println!(
        "{bus:<23} {what:<22} p50 {:>7.2} ms   p99 {:>7.2} ms   ({} events, one every {} ms)",
        at(values, 0.5),
        at(values, 0.99),
        values.len(),
        PACE.as_millis(),
    );
}

/// Times of the lines that begin so.
fn times(pod: &Pod, prefix: &str) -> Vec<f64> {
    let lines = pod.lines();
    let wanted = lines.iter().filter(|line| {
        line["msg"]
            .as_str()
            .is_some_and(|text| text.starts_with(prefix))
    });
    wanted.map(seconds_of).collect()
}

async fn measure(name: &str, bus: TestBus) {
    let world = World::allowed_on(bus).await;
    let pod = world.start("orders-sensor-1", &orders()).await;
    let (mut published, mut sent) = (Vec::new(), Vec::new());
    for number in 0..PACED {
        let start = now();
        world
            .post(&format!("paced-{number}"), &json!({"body": {}}))
            .await;
        published.push(now() - start);
        sent.push(start);
        tokio::time::sleep(PACE).await;
    }
    world.settled().await;
    let judged = times(&pod, "Triggering actions after receiving dependency");
    let submitted = times(&pod, "Successfully processed trigger");
    assert_eq!(
        (judged.len(), submitted.len()),
        (PACED, PACED),
        "one line for each event, in their order"
    );
    let since = |ends: &[f64]| -> Vec<f64> {
        let pairs = ends.iter().zip(&sent);
        pairs.map(|(end, start)| end - start).collect()
    };
    report(name, "publish → published", &published);
    report(name, "publish → judged", &since(&judged));
    report(name, "publish → submitted", &since(&submitted));

    let start = Instant::now();
    for number in 0..BURST {
        world
            .post(&format!("burst-{number}"), &json!({"body": {}}))
            .await;
    }
    let stored = start.elapsed();
    world.settled().await;
    let rate = |time: Duration| BURST as f64 / time.as_secs_f64();
    println!(
        "{name:<23} {BURST} events from one publisher: {:.0} published a second, {:.0} submitted a second",
        rate(stored),
        rate(start.elapsed())
    );
}
