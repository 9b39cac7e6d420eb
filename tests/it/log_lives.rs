//! Whose log a line is: each line is handed on once, under the life of the container that wrote it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use eventlab::cluster;
use eventlab::cluster::{LogFollower, LogLine};
use serde_json::json;
use tokio::sync::mpsc;

use super::cluster_access::NoHost;
use super::node_support::{Cluster, service_spec};

async fn talkative() -> Cluster {
    let cluster = Cluster::new().await;
    let mut spec = service_spec("say-life");
    spec["restartPolicy"] = "Always".into();
    let metadata = json!({"name": "talks", "labels": {"sensor-name": "orders"}});
    cluster.create_with(metadata, spec).await;
    cluster
}

fn follow(cluster: &Cluster) -> (LogFollower, mpsc::Receiver<LogLine>) {
    let client = cluster.lab.admin();
    cluster::Cluster::embedded(client, "lab", Arc::new(NoHost)).follow_logs("sensor-name")
}

/// Waits for the line of a life, and keeps what comes before it.
async fn wait_for(lines: &mut mpsc::Receiver<LogLine>, life: u32, all: &mut Vec<(String, u32)>) {
    let waiting = async {
        loop {
            let line = lines.recv().await.unwrap();
            all.push((line.text.clone(), line.pod.instance));
            if line.text == format!("life {life}") {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(waited.is_ok(), "no line of life {life}: {all:?}");
}

fn assert_once_and_right(all: &[(String, u32)]) {
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    for (text, instance) in all {
        assert_eq!(*text, format!("life {instance}"), "{all:?}");
        *times.entry(text).or_default() += 1;
    }
    assert!(times.values().all(|count| *count == 1), "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_a_container_that_is_killed_belong_to_its_lives() {
    let cluster = talkative().await;
    let (_follower, mut lines) = follow(&cluster);
    let mut all = Vec::new();
    for life in 0..8 {
        wait_for(&mut lines, life, &mut all).await;
        let node = cluster.node.as_ref().unwrap();
        assert!(node.kill("lab", "talks", "main").await);
    }
    wait_for(&mut lines, 8, &mut all).await;
    assert_once_and_right(&all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_after_a_crash_of_the_node_do_not_belong_to_the_life_before() {
    let mut cluster = talkative().await;
    let mut all = Vec::new();
    let (_follower, mut lines) = follow(&cluster);
    wait_for(&mut lines, 0, &mut all).await;
    for life in 1..6 {
        // The API goes on saying that the life before runs, and somebody begins to read just then.
        cluster.node.take();
        let (_other, mut begun) = follow(&cluster);
        let mut seen = Vec::new();
        wait_for(&mut begun, life - 1, &mut seen).await;
        cluster.start_node().await;
        wait_for(&mut begun, life, &mut seen).await;
        assert_once_and_right(&seen);
        wait_for(&mut lines, life, &mut all).await;
    }
    assert_once_and_right(&all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_life_has_the_number_of_another_after_the_cluster_was_set_back() {
    let mut cluster = talkative().await;
    let (_follower, mut lines) = follow(&cluster);
    let mut all = Vec::new();
    wait_for(&mut lines, 0, &mut all).await;
    let snapshot = cluster.state.path().join("snapshot.db");
    cluster.lab.server.snapshot(&snapshot).unwrap();
    for life in 1..5 {
        let node = cluster.node.take().unwrap();
        node.stop(Duration::from_secs(5)).await;
        cluster.lab.server.restore(&snapshot).unwrap();
        cluster.start_node().await;
        wait_for(&mut lines, life, &mut all).await;
    }
    assert_once_and_right(&all);
}
