//! How long an event takes to its effect with 1, 10 and 100 in flight: a measurement, for `.ci/run`.
//!
//! The real program plays a lab that is written for it; the times are those of its own facts, from the message on the bus
//! to the effect row, so that the looking is part of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use jiff::Timestamp;
use serde_json::Value;

/// A lab that sends so many orders at once through the pipeline of the lab `claim`.
fn lab(in_flight: usize) -> String {
    let stages = r#"  - name: apply
    kind: apply
    title: Apply
    text: The pipeline, atomic.
    apply: [base/namespace.yaml, base/accounts.yaml, base/eventbus.yaml, base/eventsource.yaml, base/ledger.yaml, claim/solution.yaml, claim/sensor.yaml]
  - name: send
    kind: send
    title: Send
    text: All at once.
    gate: open
    together: true
    probes:
"#;
    let probes: String = (0..in_flight)
        .map(|number| {
            format!(
                "      - {{name: p{number}, title: p, fate: applied, body: '{{\"kind\":\"order.created\",\"orderId\":\"l-{{{{attempt}}}}-{number}\",\"amount\":1}}'}}\n"
            )
        })
        .collect();
    format!(
        "name: latency\ntitle: Latency\nsummary: A measurement.\nevent: claim\nlayers: [effect]\nclusters: [embedded]\nlinks: []\nstages:\n{stages}{probes}"
    )
}

/// Milliseconds from the message on the bus to the effect row, of each arrival, in order.
fn latencies(journal: &Path) -> Vec<f64> {
    let text = std::fs::read_to_string(journal).unwrap();
    let mut stored: BTreeMap<String, Timestamp> = BTreeMap::new();
    let mut found = Vec::new();
    for fact in text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|entry| entry.get("fact").cloned())
    {
        let (Some(arrival), Some(time)) = (fact["arrival"].as_str(), fact["time"].as_str()) else {
            continue;
        };
        let time: Timestamp = time.parse().unwrap();
        match fact["kind"].as_str() {
            Some("stored") => drop(stored.entry(arrival.to_owned()).or_insert(time)),
            Some("ledger-effect") => {
                if let Some(start) = stored.get(arrival) {
                    found.push(time.duration_since(*start).as_secs_f64() * 1000.0);
                }
            }
            _ => {}
        }
    }
    found.sort_by(f64::total_cmp);
    found
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

#[test]
#[ignore = "a measurement; run with --ignored --nocapture"]
fn event_to_effect() {
    for in_flight in [1, 10, 100] {
        let folder = tempfile::tempdir().unwrap();
        let labs = folder.path().join("labs");
        std::fs::create_dir_all(&labs).unwrap();
        std::fs::write(labs.join("latency.yaml"), lab(in_flight)).unwrap();
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
        let times = latencies(&journal);
        assert_eq!(times.len(), in_flight);
        println!(
            "{in_flight:>3} in flight: p50 {:.0} ms, p99 {:.0} ms",
            percentile(&times, 50),
            percentile(&times, 99)
        );
    }
}
