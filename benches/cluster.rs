//! What the embedded API costs: requests a second, a list of 10,000 objects, memory per object and per watch, and 1,000
//! watches under 100 writes a second.
//!
//! `cargo bench --bench cluster` on an idle machine. Memory and processor time are read from `/proc`, so those lines
//! are of Linux alone.
#![allow(clippy::unwrap_used)] // a measurement that cannot be made ends with its reason

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use eventlab::embedded::api::kubeconfig::{Kubeconfig, Persona};
use eventlab::embedded::api::listener::{Limits, Listener};
use eventlab::embedded::api::tls::{ServingIdentity, init_tls};
use eventlab::embedded::api::{ApiServer, Options};
use futures::StreamExt as _;
use http::Request;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

const NAMESPACE: &str = "default";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Requests of each kind that are timed.
const REQUESTS: usize = 2_000;
/// Clients at once.
const CLIENTS: usize = 8;
const OBJECTS: usize = 10_000;
const WATCHES: usize = 1_000;
const WRITES_PER_SECOND: u64 = 100;
const WATCH_SECONDS: u64 = 10;

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
    runtime.block_on(async { tokio::spawn(measure()).await.unwrap() });
}

struct Bench {
    server: Arc<ApiServer>,
    tls: Client,
    _directory: tempfile::TempDir,
}

async fn open() -> Bench {
    init_tls();
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::open(&directory.path().join("cluster.db"), Options::default()).unwrap();
    let identity = ServingIdentity::load_or_create(directory.path()).unwrap();
    let listener = Listener::bind(None, directory.path(), &identity, Limits::default())
        .await
        .unwrap();
    let admin = Persona {
        name: "admin".to_owned(),
        token: server.user_token("admin", &["system:masters"]),
    };
    let file = directory.path().join("kubeconfig");
    let written = Kubeconfig {
        server: &listener.url(),
        ca_pem: identity.ca_pem(),
        namespace: NAMESPACE,
        personas: &[admin],
        current: "admin",
    };
    written.write(&file).unwrap();
    tokio::spawn(listener.serve(server.router(), CancellationToken::new()));
    let read = kube::config::Kubeconfig::read_from(&file).unwrap();
    let config = kube::Config::from_custom_kubeconfig(read, &Default::default())
        .await
        .unwrap();
    Bench {
        server,
        tls: Client::try_from(config).unwrap(),
        _directory: directory,
    }
}

async fn measure() {
    let bench = open().await;
    let token = bench.server.user_token("admin", &["system:masters"]);
    let inside = bench.server.client(&token);
    for (name, client) in [("in process", &inside), ("over TLS", &bench.tls)] {
        for clients in [1, CLIENTS] {
            requests(name, client, clients).await;
        }
    }
    objects(&bench, &inside).await;
    for (name, client) in [("in process", &inside), ("over TLS", &bench.tls)] {
        watches(name, client, &inside).await;
    }
}

/// A config map of about a kilobyte.
fn map(name: &str) -> ConfigMap {
    let body = json!({"metadata": {"name": name, "labels": {"app": "bench"}}, "data": {"text": "x".repeat(800)}});
    serde_json::from_value(body).unwrap()
}

async fn requests(transport: &str, client: &Client, clients: usize) {
    let prefix = format!("{}-{clients}", transport.replace(' ', "-").to_lowercase());
    timed(
        &format!("create {transport}, {clients} at once"),
        client,
        clients,
        &prefix,
        |api, name| async move {
            api.create(&PostParams::default(), &map(&name))
                .await
                .map(drop)
        },
    )
    .await;
    timed(
        &format!("get    {transport}, {clients} at once"),
        client,
        clients,
        &prefix,
        |api, name| async move { api.get(&name).await.map(drop) },
    )
    .await;
    timed(
        &format!("patch  {transport}, {clients} at once"),
        client,
        clients,
        &prefix,
        |api, name| async move {
            let patch = Patch::Merge(json!({"data": {"more": "1"}}));
            api.patch(&name, &PatchParams::default(), &patch)
                .await
                .map(drop)
        },
    )
    .await;
}

/// Times `REQUESTS` requests, dealt out to so many clients.
async fn timed<F, R>(what: &str, client: &Client, clients: usize, prefix: &str, request: F)
where
    F: Fn(Api<ConfigMap>, String) -> R + Clone + Send + 'static,
    R: Future<Output = Result<(), kube::Error>> + Send + 'static,
{
    let start = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|worker| {
            let (api, request, prefix) = (
                Api::namespaced(client.clone(), NAMESPACE),
                request.clone(),
                prefix.to_owned(),
            );
            tokio::spawn(async move {
                let mut took = Vec::new();
                for number in (worker..REQUESTS).step_by(clients) {
                    let begun = Instant::now();
                    request(api.clone(), format!("{prefix}-{number}"))
                        .await
                        .unwrap();
                    took.push(begun.elapsed());
                }
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.unwrap());
    }
    let whole = start.elapsed();
    took.sort();
    println!(
        "{what:34} {:8.0}/s   p50 {:6.0} us   p99 {:6.0} us",
        REQUESTS as f64 / whole.as_secs_f64(),
        quantile(&took, 0.50).as_secs_f64() * 1e6,
        quantile(&took, 0.99).as_secs_f64() * 1e6,
    );
}

fn quantile(sorted: &[Duration], part: f64) -> Duration {
    let place = (sorted.len() as f64 * part) as usize;
    sorted
        .get(place.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

/// Resident memory of this process in bytes.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or("");
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<f64>().ok())
        .unwrap_or(f64::NAN)
        * 1024.0
}

/// Processor time of this process in seconds (a tick is 10 ms wherever this runs).
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(") ").next().unwrap_or("");
    let fields: Vec<f64> = after
        .split(' ')
        .filter_map(|field| field.parse().ok())
        .collect();
    // Without the state, which is no number: utime and stime are fields 14 and 15 of the line.
    (fields.get(10).unwrap_or(&f64::NAN) + fields.get(11).unwrap_or(&f64::NAN)) / 100.0
}

async fn objects(bench: &Bench, client: &Client) {
    let present = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    let present = present
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .len();
    let before = resident();
    timed_fill(client, OBJECTS.saturating_sub(present)).await;
    let per_object = (resident() - before) / (OBJECTS - present) as f64;
    println!(
        "memory per object of 1 kB            {per_object:8.0} bytes (with the history for watches)"
    );
    for (name, accept) in [
        ("JSON", "application/json"),
        ("Table", "application/json;as=Table;v=v1;g=meta.k8s.io"),
        (
            "metadata",
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        ),
    ] {
        let token = bench.server.user_token("admin", &["system:masters"]);
        let mut took = Vec::new();
        let mut bytes = 0;
        for _ in 0..5 {
            let request = Request::get(MAPS)
                .header("Authorization", format!("Bearer {token}"))
                .header("Accept", accept)
                .body(Body::empty())
                .unwrap();
            let start = Instant::now();
            let response = bench.server.router().oneshot(request).await.unwrap();
            bytes = response
                .into_body()
                .collect()
                .await
                .unwrap()
                .to_bytes()
                .len();
            took.push(start.elapsed());
        }
        took.sort();
        println!(
            "list of {OBJECTS} as {name:8}             {:8.1} ms   {:.1} MB",
            quantile(&took, 0.5).as_secs_f64() * 1e3,
            bytes as f64 / 1e6
        );
    }
}

async fn timed_fill(client: &Client, count: usize) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    for number in 0..count {
        api.create(&PostParams::default(), &map(&format!("fill-{number}")))
            .await
            .unwrap();
    }
}

async fn watches(transport: &str, watcher: &Client, writer: &Client) {
    let api: Api<ConfigMap> = Api::namespaced(watcher.clone(), NAMESPACE);
    let version = api
        .list(&ListParams::default().limit(1))
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let before = resident();
    let (sender, mut seen) = mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for _ in 0..WATCHES {
        let mut events = api
            .watch(&WatchParams::default(), &version)
            .await
            .unwrap()
            .boxed();
        let sender = sender.clone();
        tasks.push(tokio::spawn(async move {
            while let Some(Ok(event)) = events.next().await {
                if let WatchEvent::Modified(map) = event
                    && let Some(at) = map.data.as_ref().and_then(|data| data.get("at"))
                    && sender
                        .send((at.parse::<u64>().unwrap_or(0), Instant::now()))
                        .is_err()
                {
                    return;
                }
            }
        }));
    }
    println!(
        "memory per watch {transport:12}        {:8.0} bytes (client and server)",
        (resident() - before) / WATCHES as f64
    );
    let (begun, cpu) = (Instant::now(), processor());
    let writer: Api<ConfigMap> = Api::namespaced(writer.clone(), NAMESPACE);
    let writes = WRITES_PER_SECOND * WATCH_SECONDS;
    let writing = tokio::spawn(async move {
        let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / WRITES_PER_SECOND));
        for _ in 0..writes {
            tick.tick().await;
            let at = begun.elapsed().as_micros().to_string();
            let patch = Patch::Merge(json!({"data": {"at": at}}));
            writer
                .patch("fill-0", &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
    });
    let wanted = writes as usize * WATCHES;
    let mut took = Vec::with_capacity(wanted);
    let collecting = async {
        while took.len() < wanted
            && let Some((at, when)) = seen.recv().await
        {
            took.push(
                when.duration_since(begun)
                    .saturating_sub(Duration::from_micros(at)),
            );
        }
    };
    // What has not come by then is counted as missing.
    let _ = tokio::time::timeout(Duration::from_secs(WATCH_SECONDS * 6), collecting).await;
    let whole = begun.elapsed().as_secs_f64();
    writing.await.unwrap();
    took.sort();
    println!(
        "{WATCHES} watches {transport}, {WRITES_PER_SECOND} writes/s: {} of {wanted} events, p50 {:.2} ms, p99 {:.2} ms, {:.0} % of one processor (clients included)",
        took.len(),
        quantile(&took, 0.50).as_secs_f64() * 1e3,
        quantile(&took, 0.99).as_secs_f64() * 1e3,
        (processor() - cpu) / whole * 100.0,
    );
    for task in tasks {
        task.abort();
    }
}
