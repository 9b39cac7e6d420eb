//! How long an event takes to its effect with 1, 10 and 100 in flight: a measurement, for `.ci/run`.
//!
//! The real program plays a lab that is written for it. Two spans of each event are printed: from the message on the bus to
//! the effect row, by the times that bus and ledger wrote themselves, and from the request to the effect being seen.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use jiff::Timestamp;
use serde_json::Value;

/// Stages of a measurement, and events that each of them has in flight.
const MEASUREMENTS: [(usize, usize); 3] = [(40, 1), (10, 10), (3, 100)];

/// A lab that sends so many orders at once, in so many stages, through the pipeline of the lab `claim`.
fn lab(stages: usize, in_flight: usize) -> String {
    let mut text = String::from(
        r#"name: latency
title: Latency
summary: A measurement.
event: claim
layers: [effect]
clusters: [embedded]
links: []
stages:
  - name: apply
    kind: apply
    title: Apply
    text: The pipeline, atomic.
    apply: [base/namespace.yaml, base/accounts.yaml, base/eventbus.yaml, base/eventsource.yaml, base/ledger.yaml, claim/solution.yaml, claim/sensor.yaml]
    gate: open
"#,
    );
    for stage in 0..stages {
        text.push_str(&format!(
            "  - {{name: s{stage}, kind: send, title: Send, text: All at once., together: true, probes: ["
        ));
        for number in 0..in_flight {
            text.push_str(&format!(
                "{{name: p{number}, title: p, fate: applied, body: '{{\"kind\":\"order.created\",\"orderId\":\"l-{stage}-{number}-{{{{attempt}}}}\",\"amount\":1}}'}}, "
            ));
        }
        text.push_str("]}\n");
    }
    text
}

/// The time that a line ends with.
fn time_in(line: &str, before: &str) -> Timestamp {
    line.rsplit(before).next().unwrap().parse().unwrap()
}

/// Milliseconds of each event, in order: from the stored message to the row, and from the request to the seen effect.
fn latencies(journal: &Path) -> (Vec<f64>, Vec<f64>) {
    let text = std::fs::read_to_string(journal).unwrap();
    let (mut sent, mut stored) = (BTreeMap::new(), BTreeMap::new());
    let (mut to_row, mut to_seen) = (Vec::new(), Vec::new());
    let span = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64() * 1000.0;
    for entry in text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        if entry["intent"]["action"]["action"] == "send" {
            let time: Timestamp = entry["intent"]["time"].as_str().unwrap().parse().unwrap();
            sent.insert(entry["intent"]["id"].as_str().unwrap().to_owned(), time);
        }
        let fact = &entry["fact"];
        let (Some(trace), Some(line)) = (fact["trace"].as_str(), fact["line"].as_str()) else {
            continue;
        };
        match fact["kind"].as_str() {
            Some("stored") => drop(stored.insert(trace.to_owned(), time_in(line, " stored "))),
            Some("ledger-effect") => {
                let seen: Timestamp = fact["time"].as_str().unwrap().parse().unwrap();
                to_row.push(span(stored[trace], time_in(line, " ledger time ")));
                to_seen.push(span(sent[trace], seen));
            }
            _ => {}
        }
    }
    to_row.sort_by(f64::total_cmp);
    to_seen.sort_by(f64::total_cmp);
    (to_row, to_seen)
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

#[test]
#[ignore = "a measurement; run with --ignored --nocapture"]
fn event_to_effect() {
    for (stages, in_flight) in MEASUREMENTS {
        let folder = tempfile::tempdir().unwrap();
        let labs = folder.path().join("labs");
        std::fs::create_dir_all(&labs).unwrap();
        std::fs::write(labs.join("latency.yaml"), lab(stages, in_flight)).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .arg("--state-dir")
            .arg(folder.path().join("state"))
            .arg("--labs")
            .arg(folder.path())
            .args(["run", "latency", "--keep"])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let journal = folder.path().join("state/embedded/evidence.jsonl");
        let (to_row, to_seen) = latencies(&journal);
        assert_eq!(to_row.len(), stages * in_flight);
        println!(
            "{in_flight:>3} in flight, {} events: message to effect row p50 {:.0} ms, p99 {:.0} ms; request to seen effect p50 {:.0} ms, p99 {:.0} ms",
            to_row.len(),
            percentile(&to_row, 50),
            percentile(&to_row, 99),
            percentile(&to_seen, 50),
            percentile(&to_seen, 99)
        );
    }
}
