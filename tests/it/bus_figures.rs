//! Figures of the path publish → judged → submitted, on the embedded bus and on a real one, in one run. For an idle
//! machine: `cargo test --release --test it -- --ignored --nocapture bus_figures`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sensor_service::{World, orders};
use crate::service_pods::{Pod, TestBus};

/// Events sent one after the other for the times, slower than the sampling of the log begins.
const PACED: usize = 300;
const PACE: Duration = Duration::from_millis(15);
/// Events sent at once for the rate.
const BURST: usize = 2_000;

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

/// Milliseconds at a share of the sorted values.
fn at(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = ((sorted.len() - 1) as f64 * share).round() as usize;
    sorted[index] * 1e3
}

fn report(bus: &str, what: &str, values: &[f64]) {
    println!(
        "{bus:<10} {what:<22} p50 {:>7.2} ms  p99 {:>7.2} ms",
        at(values, 0.5),
        at(values, 0.99)
    );
}

/// Times of the lines that begin so.
fn times(pod: &Pod, prefix: &str) -> Vec<f64> {
    let lines = pod.lines();
    lines
        .iter()
        .filter(|line| {
            line["msg"]
                .as_str()
                .is_some_and(|text| text.starts_with(prefix))
        })
        .map(seconds_of)
        .collect()
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
        "one line an event"
    );
    let since = |ends: &[f64]| -> Vec<f64> {
        ends.iter()
            .zip(&sent)
            .map(|(end, start)| end - start)
            .collect()
    };
    report(name, "publish", &published);
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
        "{name:<10} {BURST} events at once: {:.0} published a second, {:.0} through to the Workflow a second",
        rate(stored),
        rate(start.elapsed())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "figures, for an idle machine"]
async fn embedded_and_real_in_one_run() {
    measure("embedded", TestBus::start()).await;
    match TestBus::real() {
        Some(bus) => measure("real", bus).await,
        None => println!("real       not measured: there is no nats-server here"),
    }
}
