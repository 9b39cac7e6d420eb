//! The whole cluster killed with SIGKILL under load, again and again: what it acknowledged is there afterwards.
//!
//! `EVENTLAB_KILLS` says how often; a few times without it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

use crate::api_support::object;

/// Only a guard against hanging.
const HANG: Duration = Duration::from_secs(120);
const WRITERS: usize = 4;
const NAMESPACE: &str = "default";

/// What a writer knows of one object.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The last value that the API acknowledged.
    value: u64,
    /// Its deletion was asked for.
    deleting: bool,
    /// And acknowledged.
    deleted: bool,
}

#[derive(Debug, Default)]
struct Ledger {
    objects: BTreeMap<String, Known>,
    /// The highest resourceVersion that any answer carried.
    version: u64,
}

type Shared = Arc<Mutex<Ledger>>;

fn version(map: &ConfigMap) -> u64 {
    map.metadata
        .resource_version
        .as_deref()
        .unwrap()
        .parse()
        .unwrap()
}

/// Notes an acknowledged write.
fn note(ledger: &Shared, name: &str, version: u64, change: impl FnOnce(&mut Known)) {
    let mut ledger = ledger.lock().unwrap();
    assert!(version > 0);
    ledger.version = ledger.version.max(version);
    change(ledger.objects.entry(name.to_owned()).or_default());
}

/// Creates, changes and deletes until the cluster is gone.
async fn write(maps: Api<ConfigMap>, ledger: Shared, prefix: String) {
    for number in 0.. {
        let name = format!("{prefix}-{number}");
        if write_one(&maps, &ledger, &name, number % 4 == 3)
            .await
            .is_err()
        {
            return;
        }
    }
}

async fn write_one(
    maps: &Api<ConfigMap>,
    ledger: &Shared,
    name: &str,
    delete: bool,
) -> Result<(), kube::Error> {
    let map = object(json!({"metadata": {"name": name}, "data": {"n": "0"}}));
    let made = maps.create(&PostParams::default(), &map).await?;
    note(ledger, name, version(&made), |_| {});
    for value in 1..=2 {
        let patch = json!({"data": {"n": value.to_string()}});
        let made = maps
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        note(ledger, name, version(&made), |known| known.value = value);
    }
    if delete {
        note(ledger, name, 1, |known| known.deleting = true);
        maps.delete(name, &DeleteParams::default()).await?;
        note(ledger, name, 1, |known| known.deleted = true);
    }
    Ok(())
}

/// Follows all objects until the cluster is gone; versions only grow.
async fn follow(maps: Api<ConfigMap>, from: String) {
    let Ok(mut events) = maps
        .watch(&WatchParams::default(), &from)
        .await
        .map(StreamExt::boxed)
    else {
        return;
    };
    let mut last = from.parse::<u64>().unwrap();
    while let Ok(Some(event)) = events.try_next().await {
        let (WatchEvent::Added(map) | WatchEvent::Modified(map) | WatchEvent::Deleted(map)) = event
        else {
            continue;
        };
        assert!(version(&map) > last, "{} after {last}", version(&map));
        last = version(&map);
    }
}

/// A cluster process; killed at the end of the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Process {
    async fn start(state: &Path) -> Process {
        let mut child = Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .args(["cluster", "start", "--state-dir"])
            .arg(state)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let record = state.join("embedded").join("running.json");
        let ready = async {
            loop {
                let text = std::fs::read_to_string(&record).unwrap_or_default();
                let known: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
                if known["pid"] == child.id() {
                    return;
                }
                assert!(
                    child.try_wait().unwrap().is_none(),
                    "the cluster ended by itself"
                );
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(HANG, ready).await.expect("a start");
        Process(child)
    }

    fn kill(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn client(state: &Path) -> Client {
    let path = state.join("embedded").join("kubeconfig");
    let options = KubeConfigOptions {
        context: Some("admin".to_owned()),
        ..KubeConfigOptions::default()
    };
    let read = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(read, &options)
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

/// Processes that work in a folder of this cluster.
#[cfg(target_os = "linux")]
fn children(state: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let folders = entries.filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok());
    folders
        .filter(|folder| folder.starts_with(state.join("embedded")))
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn children(_state: &Path) -> Vec<std::path::PathBuf> {
    Vec::new()
}

async fn deployment_is_whole(client: &Client) {
    let api: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let whole = async {
        loop {
            let ready = api
                .get("web")
                .await
                .unwrap()
                .status
                .and_then(|status| status.ready_replicas);
            if ready == Some(2) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(HANG, whole)
        .await
        .expect("pods that are reconciled");
}

/// Everything that was acknowledged is there, and nothing went back.
async fn check(client: &Client, ledger: &Shared, round: usize) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let list = maps.list(&ListParams::default()).await.unwrap();
    let listed: u64 = list
        .metadata
        .resource_version
        .as_deref()
        .unwrap()
        .parse()
        .unwrap();
    let present: BTreeMap<&str, u64> = list
        .items
        .iter()
        .map(|map| {
            let value = map
                .data
                .as_ref()
                .and_then(|data| data.get("n"))
                .map_or(0, |n| n.parse().unwrap());
            (map.metadata.name.as_deref().unwrap(), value)
        })
        .collect();
    let old = {
        let ledger = ledger.lock().unwrap();
        for (name, known) in &ledger.objects {
            match present.get(name.as_str()) {
                Some(value) => assert!(
                    !known.deleted && *value >= known.value,
                    "round {round}: {name} has {value}, {known:?}"
                ),
                None => assert!(known.deleting, "round {round}: {name} is lost, {known:?}"),
            }
        }
        assert!(
            listed >= ledger.version,
            "round {round}: {listed} after {}",
            ledger.version
        );
        ledger.version
    };
    // A watch from before tells the truth: to list anew.
    let watched = maps.watch(&WatchParams::default(), &old.to_string()).await;
    let first = match watched {
        Err(error) => Err(error),
        Ok(events) => Ok(tokio::time::timeout(Duration::from_secs(1), events.boxed().next()).await),
    };
    match first {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 410, "round {round}"),
        Ok(Ok(Some(Ok(WatchEvent::Error(status))))) => {
            assert_eq!(status.code, 410, "round {round}")
        }
        // Nothing has happened to these since.
        Ok(Err(_)) if list.items.iter().all(|map| version(map) <= old) => {}
        other => panic!("round {round}: a watch from {old} of {listed} answered {other:?}"),
    }
}

async fn round(state: &Path, ledger: &Shared, number: usize) {
    let mut process = Process::start(state).await;
    let client = client(state).await;
    if number == 0 {
        let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2,
            "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "eventlab:dev", "command": ["/eventlab"],
                "args": ["ledger", "serve", "--db", "/l.db", "--port", "8080"], "ports": [{"containerPort": 8080}]}]}}}});
        let api: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
        api.create(&PostParams::default(), &object(web))
            .await
            .unwrap();
        deployment_is_whole(&client).await;
    } else {
        check(&client, ledger, number).await;
    }
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let from = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        tasks.spawn(write(
            maps.clone(),
            Arc::clone(ledger),
            format!("r{number}-w{writer}"),
        ));
    }
    tasks.spawn(follow(maps, from));
    // Not a random number that could be had again, but no two moments are alike either.
    let moment = u64::from(
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .subsec_nanos(),
    );
    tokio::time::sleep(Duration::from_micros(20_000 + moment % 300_000)).await;
    process.kill();
    let ended = async {
        while let Some(task) = tasks.join_next().await {
            task.unwrap()
        }
    };
    tokio::time::timeout(HANG, ended)
        .await
        .expect("clients that notice");
    let gone = async {
        while !children(state).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(HANG, gone)
        .await
        .expect("no child that is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_cluster_keeps_what_it_acknowledged() {
    let kills = std::env::var("EVENTLAB_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(3);
    let state = tempfile::tempdir().unwrap();
    let path = state.path().canonicalize().unwrap();
    let ledger = Shared::default();
    for number in 0..kills {
        round(&path, &ledger, number).await;
    }
    let _process = Process::start(&path).await;
    let client = client(&path).await;
    check(&client, &ledger, kills).await;
    deployment_is_whole(&client).await;
    let known = ledger.lock().unwrap();
    eprintln!(
        "{kills} kills, {} objects, last version {}",
        known.objects.len(),
        known.version
    );
    assert!(known.objects.len() >= kills);
}
