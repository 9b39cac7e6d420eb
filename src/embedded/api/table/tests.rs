use std::fs::File;
use std::io::{BufRead as _, BufReader};

use super::*;
use crate::embedded::api::registry;

fn kind(group: &str, plural: &str) -> &'static Kind {
    registry::kinds()
        .iter()
        .find(|kind| kind.group == group && kind.plural == plural)
        .unwrap()
}

fn cells(group: &str, plural: &str, object: Value) -> Vec<Value> {
    let answer = table(
        kind(group, plural),
        &[object],
        "v1",
        Include::None,
        json!({}),
    );
    answer["rows"][0]["cells"].as_array().unwrap().clone()
}

/// Cells whose text depends on when the question was asked.
fn is_about_time(column: &Value) -> bool {
    ["Age", "Last Seen", "First Seen"]
        .iter()
        .any(|name| column["name"] == *name)
}

#[test]
fn tables_are_upstreams() {
    let file = File::open(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/tables.jsonl"
    ))
    .unwrap();
    let mut lines = 0;
    for line in BufReader::new(file).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let path = line["path"].as_str().unwrap().split('?').next().unwrap();
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let group = if segments[0] == "api" {
            ""
        } else {
            segments[1]
        };
        let objects = line["objects"].as_array().unwrap();
        let answer = table(
            kind(group, segments.last().unwrap()),
            objects,
            "v1",
            Include::Metadata,
            json!({}),
        );
        let mut columns = answer["columnDefinitions"].clone();
        for column in columns.as_array_mut().unwrap() {
            assert!(
                column
                    .as_object_mut()
                    .unwrap()
                    .remove("description")
                    .is_some()
            );
        }
        assert_eq!(columns, line["columns"], "{path}");
        for (row, want) in answer["rows"]
            .as_array()
            .unwrap()
            .iter()
            .zip(line["cells"].as_array().unwrap())
        {
            let pairs = row["cells"]
                .as_array()
                .unwrap()
                .iter()
                .zip(want.as_array().unwrap());
            assert_eq!(
                row["cells"].as_array().unwrap().len(),
                want.as_array().unwrap().len(),
                "{path}"
            );
            for (column, (got, want)) in line["columns"].as_array().unwrap().iter().zip(pairs) {
                if is_about_time(column) {
                    assert_eq!(got.is_null(), want.is_null(), "{path} {column}");
                } else {
                    assert_eq!(got, want, "{path} {column}");
                }
            }
        }
        // Three lines hold columns alone.
        assert_eq!(
            answer["rows"].as_array().unwrap().len(),
            objects.len(),
            "{path}"
        );
        lines += 1;
    }
    assert_eq!(lines, 26);
}

fn pod(containers: usize, status: Value) -> Value {
    let spec: Vec<Value> = (0..containers)
        .map(|n| json!({"name": format!("c{n}")}))
        .collect();
    let init = json!([{"name": "init"}, {"name": "side", "restartPolicy": "Always"}]);
    json!({"metadata": {"name": "p"}, "spec": {"containers": spec, "initContainers": init}, "status": status})
}

fn ready_status_restarts(pod: Value) -> [String; 3] {
    let cells = cells("", "pods", pod);
    [1, 2, 3].map(|at: usize| cells[at].as_str().unwrap().to_owned())
}

#[test]
fn a_pod_says_in_one_word_how_it_is() {
    let running = json!({"ready": true, "state": {"running": {}}});
    let ended = |reason: &str, code: i64| json!({"state": {"terminated": {"reason": reason, "exitCode": code}}});
    let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
    let with = |statuses: &[Value]| json!({"phase": "Running", "containerStatuses": statuses});
    let cases = [
        (
            with(&[running.clone(), running.clone()]),
            ["2/3", "Running", "0"],
        ),
        (
            with(&[ended("Completed", 0), running.clone()]),
            ["1/3", "NotReady", "0"],
        ),
        (
            with(&[ended("Error", 1), running.clone()]),
            ["1/3", "Error", "0"],
        ),
        (
            with(&[ended("Completed", 0), ended("Error", 1)]),
            ["0/3", "Error", "0"],
        ),
        (
            with(&[ended("Error", 1), ended("Completed", 0)]),
            ["0/3", "Error", "0"],
        ),
        (
            with(&[
                ended("Completed", 0),
                ended("OOMKilled", 137),
                ended("Error", 1),
            ]),
            ["0/3", "OOMKilled", "0"],
        ),
        (
            with(&[ended("Completed", 0), ended("", 3), running.clone()]),
            ["1/3", "ExitCode:3", "0"],
        ),
        (
            with(&[ended("", 3), running.clone()]),
            ["1/3", "ExitCode:3", "0"],
        ),
        (
            with(&[waiting("CrashLoopBackOff"), running.clone()]),
            ["1/3", "CrashLoopBackOff", "0"],
        ),
        (
            json!({"phase": "Failed", "reason": "Evicted"}),
            ["0/3", "Evicted", "0"],
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [ended("Error", 1)]}),
            ["0/3", "Init:Error", "0"],
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [waiting("PodInitializing")]}),
            ["0/3", "Init:0/2", "0"],
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [waiting("ErrImagePull")]}),
            ["0/3", "Init:ErrImagePull", "0"],
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses":
                [ended("Completed", 0), {"name": "side", "started": true, "ready": true, "state": {"running": {}}}]}),
            ["1/3", "Pending", "0"],
        ),
    ];
    for (status, want) in cases {
        assert_eq!(
            ready_status_restarts(pod(2, status.clone())),
            want,
            "{status}"
        );
    }
}

#[test]
fn a_deleted_pod_is_terminating_until_it_ended() {
    let mut one = pod(1, json!({"phase": "Running"}));
    one["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    assert_eq!(ready_status_restarts(one.clone())[1], "Terminating");
    one["status"] = json!({"phase": "Succeeded"});
    assert_eq!(ready_status_restarts(one)[1], "Succeeded");
}

#[test]
fn restarts_say_when_the_last_one_was() {
    let ended = (Timestamp::now() - jiff::SignedDuration::from_secs(605)).to_string();
    let status = json!({"restartCount": 2, "ready": true, "state": {"running": {}},
                        "lastState": {"terminated": {"finishedAt": ended}}});
    let cells = ready_status_restarts(pod(
        1,
        json!({"phase": "Running", "containerStatuses": [status]}),
    ));
    assert_eq!(cells[2], "2 (10m ago)");
}

#[test]
fn services_show_node_ports_and_outer_addresses() {
    let service = |spec: Value| {
        cells(
            "",
            "services",
            json!({"metadata": {"name": "s"}, "spec": spec}),
        )
    };
    let balanced = service(
        json!({"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"},
                                                                       {"port": 53, "protocol": "UDP"}]}),
    );
    assert_eq!(
        balanced[3..5],
        [json!("<pending>"), json!("80:30080/TCP,53/UDP")]
    );
    let named = service(json!({"type": "ExternalName", "externalName": "example.com"}));
    assert_eq!(
        named[2..5],
        [json!("<none>"), json!("example.com"), json!("<none>")]
    );
    let headless = service(
        json!({"type": "ClusterIP", "clusterIP": "None", "selector": {"b": "2", "a": "1"}}),
    );
    assert_eq!(
        (&headless[2], &headless[6]),
        (&json!("None"), &json!("a=1,b=2"))
    );
}

#[test]
fn selectors_are_written_as_they_are_typed() {
    let spec = json!({"selector": {"matchLabels": {"z": "1"}, "matchExpressions": [
        {"key": "a", "operator": "In", "values": ["y", "x"]},
        {"key": "m", "operator": "DoesNotExist"},
        {"key": "n", "operator": "NotIn", "values": ["q"]},
        {"key": "o", "operator": "Exists"},
    ]}});
    let cells = cells(
        "apps",
        "deployments",
        json!({"metadata": {"name": "d"}, "spec": spec}),
    );
    assert_eq!(cells[7], "a in (x,y),!m,n notin (q),o,z=1");
}

#[test]
fn jobs_count_completions() {
    let job = |spec: Value, status: Value| {
        let cells = cells(
            "batch",
            "jobs",
            json!({"metadata": {"name": "j"}, "spec": spec, "status": status}),
        );
        [1, 2, 3].map(|at: usize| cells[at].as_str().unwrap().to_owned())
    };
    let times = json!({"startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:06:10Z", "succeeded": 1,
                       "conditions": [{"type": "Complete", "status": "True"}]});
    assert_eq!(
        job(json!({"completions": 1}), times),
        ["Complete", "1/1", "2m5s"]
    );
    assert_eq!(
        job(json!({"parallelism": 3}), json!({})),
        ["Running", "0/1 of 3", ""]
    );
}

#[test]
fn rows_carry_as_much_of_the_object_as_asked_for() {
    let object = json!({"metadata": {"name": "c", "namespace": "lab"}, "data": {"a": "1"}});
    let row = |include: &str| {
        let answer = table(
            kind("", "configmaps"),
            std::slice::from_ref(&object),
            "v1",
            Include::parse(include),
            json!({}),
        );
        answer["rows"][0]["object"].clone()
    };
    assert_eq!(row("Object"), object);
    assert_eq!(row("None"), Value::Null);
    let metadata = row("");
    assert_eq!(
        (&metadata["kind"], &metadata["metadata"]["namespace"]),
        (&json!("PartialObjectMetadata"), &json!("lab"))
    );
    assert!(metadata.get("data").is_none());
}

#[test]
fn every_kind_prints_an_empty_and_a_broken_object() {
    for kind in registry::kinds() {
        for object in [
            json!({}),
            json!({"metadata": 3, "spec": [], "status": "x", "subjects": {}, "data": 7}),
        ] {
            let answer = table(kind, &[object], "v1", Include::Metadata, json!({}));
            let columns = answer["columnDefinitions"].as_array().unwrap().len();
            assert_eq!(
                answer["rows"][0]["cells"].as_array().unwrap().len(),
                columns,
                "{}",
                kind.plural
            );
        }
    }
}
