//! The value of a Secret of the lab's namespace is in no journal, checkpoint, log and report of a session.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CANARY: &str = "canary-4f1c-do-not-write";
/// The pods' own files and what stands for the cluster's disks: there a Secret has its place.
const CLUSTER: [&str; 8] = [
    "cluster.db",
    "bus.db",
    "volumes",
    "pods",
    "node",
    "snapshots",
    "kubeconfig",
    "pki",
];

fn eventlab(state: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["--state-dir", state.to_str().unwrap()])
        .args(arguments)
        .env_remove("EVENTLAB_KILL_AT")
        .env("EVENTLAB_LOG", "debug")
        .output()
        .unwrap()
}

/// A lab whose order, manifest and header carry the value.
fn lab(folder: &Path) {
    let labs = folder.join("labs");
    std::fs::create_dir_all(&labs).unwrap();
    std::fs::create_dir_all(folder.join("manifests/canary")).unwrap();
    let base = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/first-order/sensor.yaml"),
    )
    .unwrap();
    let sensor = base.replace("eventName: first-order", "eventName: canary");
    let source = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/base/eventsource.yaml"),
    )
    .unwrap();
    let hook = "    canary:\n      port: \"12000\"\n      endpoint: /canary\n      method: POST\n";
    let source = source.replace("  webhook:\n", &format!("  webhook:\n{hook}"));
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: shop\nstringData:\n  password: {CANARY}\n"
    );
    for (name, text) in [
        ("sensor", &sensor),
        ("source", &source),
        ("secret", &secret),
    ] {
        std::fs::write(folder.join(format!("manifests/canary/{name}.yaml")), text).unwrap();
    }
    let lab = format!(
        r#"
name: canary
title: Canary
summary: A secret on its way.
event: canary
layers: [ready, intake, bus, filter, submit, run, effect]
clusters: [embedded]
links: []
stages:
  - name: send
    kind: send
    title: Send
    text: ''
    apply: [base/namespace.yaml, canary/secret.yaml, base/accounts.yaml, base/eventbus.yaml, canary/source.yaml, base/ledger.yaml, base/process-order.yaml, canary/sensor.yaml]
    gate: open
    probes:
      - name: order
        title: order
        control: true
        headers: {{X-Shop-Password: {CANARY}, X-Api-Key: another-secret-key, Authorization: Bearer {CANARY}}}
        body: '{{"kind":"order.created","note":"{CANARY}","orderId":"canary-{{{{attempt}}}}","amount":4200}}'
        fate: applied
"#
    );
    std::fs::write(labs.join("canary.yaml"), lab).unwrap();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let cluster = CLUSTER
                .iter()
                .any(|own| name == *own || name.starts_with(&format!("{own}-")));
            if path.is_dir() && !cluster {
                pending.push(path);
            } else if path.is_file() && !cluster {
                found.push(path);
            }
        }
    }
    found
}

fn holds(bytes: &[u8], needle: &str) -> bool {
    bytes
        .windows(needle.len())
        .any(|window| window == needle.as_bytes())
}

#[test]
fn a_secret_is_in_no_file_log_or_report_of_a_session() {
    let folder = tempfile::tempdir().unwrap();
    lab(folder.path());
    let state = folder.path().join("state");
    let labs = folder.path().to_owned();
    let run = eventlab(
        &state,
        &["--labs", labs.to_str().unwrap(), "run", "canary", "--keep"],
    );
    let said = format!("{run:?}");
    assert!(run.status.success(), "{said}");
    let mut read = vec![
        ("stdout of run".to_owned(), run.stdout),
        ("stderr of run".to_owned(), run.stderr),
    ];
    for arguments in [
        &["report"][..],
        &["report", "--format", "json"][..],
        &["status"][..],
        &["status", "--format", "json"][..],
    ] {
        let mut all = vec!["--labs", labs.to_str().unwrap()];
        all.extend(arguments);
        let output = eventlab(&state, &all);
        read.push((format!("{arguments:?}"), output.stdout));
    }
    for file in files(&state.join("embedded")) {
        read.push((file.display().to_string(), std::fs::read(&file).unwrap()));
    }
    let names: Vec<&String> = read.iter().map(|(name, _)| name).collect();
    for wanted in [
        "evidence.jsonl",
        "checkpoint.json",
        "eventlab.log",
        "report",
    ] {
        assert!(
            names.iter().any(|name| name.contains(wanted)),
            "{wanted} was not read: {names:?}"
        );
    }
    let base64 = "Y2FuYXJ5LTRmMWMtZG8tbm90LXdyaXRl";
    for (name, bytes) in &read {
        for secret in [CANARY, base64, "another-secret-key"] {
            assert!(
                !holds(bytes, secret),
                "{secret} is in {name}:\n{}",
                String::from_utf8_lossy(bytes)
            );
        }
    }
    let journal = std::fs::read_to_string(state.join("embedded/evidence.jsonl")).unwrap();
    assert!(journal.contains("<redacted>"));
}
