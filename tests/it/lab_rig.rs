//! A session on an embedded cluster inside the test, with a lab of one stage, whose API can be taken away.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use eventlab::cluster::{Cluster, Host, RewindError};
use eventlab::embedded::bus::Bus;
use eventlab::embedded::cluster::{EmbeddedCluster, EmbeddedConfig};
use eventlab::lab::Catalog;
use eventlab::runner::driver::Driver;
use eventlab::runner::work::Patience;
use eventlab::session::{Message, SessionFiles, StageFailure, StagePhase};
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;

/// A lab of one fix stage over the whole pipeline: the flat order must be applied, the cancelled one must not.
pub const LAB: &str = r#"
name: rig
title: Rig
summary: One stage.
event: filter-path
layers: [ready, intake, bus, filter, submit, run, effect]
clusters: [embedded]
links: []
stages:
  - name: fix
    kind: fix
    title: Fix
    text: ''
    apply:
      - base/namespace.yaml
      - base/accounts.yaml
      - base/eventbus.yaml
      - base/eventsource.yaml
      - base/ledger.yaml
      - base/process-order.yaml
    gate: open
    fix:
      manifest: filter-path/sensor.yaml
      hints: [none]
      solution: filter-path/solution.yaml
      wrong:
        - name: untouched
          manifest: filter-path/sensor.yaml
          why: none
          fails: {probe: flat, observed: {stops: filter, reason: missing-path}}
    probes:
      - name: flat
        title: flat
        control: true
        body: '{"kind":"order.created","orderId":"flat-{{attempt}}","amount":4200}'
        fate: applied
      - name: cancelled
        title: cancelled
        body: '{"kind":"order.cancelled","orderId":"gone-{{attempt}}","amount":4200}'
        fate: {stops: filter, reason: mismatch}
"#;

/// The manifest that the learner of [`LAB`] edits.
pub const MANIFEST: &str = "filter-path/sensor.yaml";
/// A hang guard, far above what anything here takes.
const GUARD: Duration = Duration::from_secs(120);

/// What the API answers to every write from now on: code and reason.
type Refusal = Arc<Mutex<Option<(u16, &'static str)>>>;

/// A part of the paths that the API lets nobody read from now on.
type Hidden = Arc<Mutex<Option<&'static str>>>;

/// The way to the API, which can be cut, or refuse what is written or read.
#[derive(Clone)]
struct Line {
    client: Client,
    cut: Arc<AtomicBool>,
    refusal: Refusal,
    hidden: Hidden,
}

fn refused(code: u16, reason: &str) -> Response<Body> {
    let status = kube::core::Status::failure("said so", reason).with_code(code);
    let body = serde_json::to_vec(&status).unwrap();
    Response::builder()
        .status(code)
        .body(Body::from(body))
        .unwrap()
}

impl tower::Service<Request<Body>> for Line {
    type Response = Response<Body>;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, tower::BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), tower::BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, cut) = (self.client.clone(), self.cut.load(Ordering::Relaxed));
        let refusal = *self.refusal.lock().unwrap();
        let hidden = *self.hidden.lock().unwrap();
        Box::pin(async move {
            if let Some((code, reason)) = refusal.filter(|_| request.method() != Method::GET) {
                return Ok(refused(code, reason));
            }
            if hidden.is_some_and(|part| request.uri().path().contains(part)) {
                return Ok(refused(403, "Forbidden"));
            }
            if cut {
                return Err("connection refused (os error 111)".into());
            }
            Ok(client.send(request).await?)
        })
    }
}

/// Services and bus of the cluster, as far as the line is not cut.
struct Reach {
    cluster: Arc<EmbeddedCluster>,
    cut: Arc<AtomicBool>,
    unread: Arc<AtomicBool>,
}

impl Host for Reach {
    fn service_address(&self, namespace: &str, service: &str, port: u16) -> Option<SocketAddr> {
        let whole = !self.cut.load(Ordering::Relaxed);
        whole
            .then(|| self.cluster.service_address(namespace, service, port))
            .flatten()
    }

    fn bus(&self, _: &str) -> Option<Arc<dyn Bus>> {
        let away = [&self.cut, &self.unread];
        let whole = away.iter().all(|flag| !flag.load(Ordering::Relaxed));
        whole.then(|| self.cluster.bus())
    }

    fn snapshot<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), RewindError>> {
        Box::pin(async { Ok(()) })
    }

    fn rewind<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), RewindError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A running session.
pub struct Rig {
    pub driver: Driver,
    pub cluster: Arc<EmbeddedCluster>,
    cut: Arc<AtomicBool>,
    unread: Arc<AtomicBool>,
    refusal: Refusal,
    hidden: Hidden,
    seen: Cluster,
    catalog: Arc<Catalog>,
    state: tempfile::TempDir,
    _labs: tempfile::TempDir,
}

const RIG_PATIENCE: Patience = Patience {
    gate: Some(Duration::from_secs(40)),
    stuck: Duration::from_secs(1),
    collect: Duration::from_secs(20),
    look: Duration::from_secs(15),
};

async fn driver(folder: &Path, seen: &Cluster, catalog: &Arc<Catalog>) -> Driver {
    let opened = SessionFiles::open(folder, Timestamp::now()).unwrap();
    Driver::start(opened, seen.clone(), Arc::clone(catalog), RIG_PATIENCE)
        .await
        .unwrap()
}

impl Rig {
    /// Starts a session at the stage of [`LAB`].
    pub async fn start() -> Rig {
        Rig::with(LAB).await
    }

    /// Starts a session at the first stage of a lab named `rig`.
    pub async fn with(lab: &str) -> Rig {
        let state = tempfile::tempdir().unwrap();
        let labs = tempfile::tempdir().unwrap();
        std::fs::write(labs.path().join("rig.yaml"), lab).unwrap();
        let config = EmbeddedConfig {
            state_dir: state.path().to_owned(),
            program: PathBuf::from(env!("CARGO_BIN_EXE_eventlab")),
            api_port: None,
            bus_tag: None,
        };
        let cluster = Arc::new(EmbeddedCluster::start(config).await.unwrap());
        let cut = Arc::new(AtomicBool::new(false));
        let unread = Arc::new(AtomicBool::new(false));
        let (refusal, hidden) = (Refusal::default(), Hidden::default());
        let line = Line {
            client: cluster.client(),
            cut: Arc::clone(&cut),
            refusal: Arc::clone(&refusal),
            hidden: Arc::clone(&hidden),
        };
        let reach = Reach {
            cluster: Arc::clone(&cluster),
            cut: Arc::clone(&cut),
            unread: Arc::clone(&unread),
        };
        let seen = Cluster::embedded(Client::new(line, "eventlab"), "eventlab", Arc::new(reach));
        let catalog = Arc::new(Catalog::folder(labs.path()).unwrap());
        let mut rig = Rig {
            driver: driver(state.path(), &seen, &catalog).await,
            cluster,
            cut,
            unread,
            refusal,
            hidden,
            seen,
            catalog,
            state,
            _labs: labs,
        };
        let lab = Message::GoTo {
            lab: "rig".to_owned(),
            stage: 0,
        };
        rig.driver.tell(lab).unwrap();
        rig
    }

    /// Leaves the session, and takes it up again on the same cluster.
    pub async fn taken_up_again(self) -> Rig {
        self.driver.close().await;
        // The observer has the files a moment longer than the driver.
        let taken = async {
            while SessionFiles::open(self.state.path(), Timestamp::now()).is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(GUARD, taken).await.unwrap();
        Rig {
            driver: driver(self.state.path(), &self.seen, &self.catalog).await,
            ..self
        }
    }

    /// The session's folder.
    pub fn folder(&self) -> &Path {
        self.state.path()
    }

    /// Cuts the way to the cluster, or mends it.
    pub fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }

    /// Keeps the session from reading the bus, and nobody else from using it, or lets it again.
    pub fn keep_from_bus(&self, keep: bool) {
        self.unread.store(keep, Ordering::Relaxed);
    }

    /// Has the API let the session read nothing below such paths, or everything again.
    pub fn hide(&self, part: Option<&'static str>) {
        *self.hidden.lock().unwrap() = part;
    }

    /// Has the API answer every write of the session so, or let it through again.
    pub fn refuse(&self, answer: Option<(u16, &'static str)>) {
        *self.refusal.lock().unwrap() = answer;
    }

    /// Replaces the working copy of [`MANIFEST`].
    pub fn edit(&mut self, text: &str) {
        self.edit_file(MANIFEST, text);
    }

    /// Replaces a working copy.
    pub fn edit_file(&mut self, file: &str, text: &str) {
        self.driver.write_copy(file, text).unwrap();
        let manifest = file.to_owned();
        self.driver.tell(Message::Edited { manifest }).unwrap();
    }

    /// Puts a file of the lab into the place of the working copy.
    pub fn edit_from(&mut self, file: &str) {
        let text = self.driver.original(file);
        self.edit(&text);
    }

    /// Does the stage's work, until nothing is under way.
    pub async fn check(&mut self) -> StagePhase {
        let passed = *self.driver.state().phase() == StagePhase::Passed;
        let key = if passed {
            Message::Retry
        } else {
            Message::Next
        };
        self.driver.tell(key).unwrap();
        self.settle(|_| false).await
    }

    /// Does the stage's work again with new requests, until nothing is under way.
    pub async fn again(&mut self) -> StagePhase {
        self.driver.tell(Message::Retry).unwrap();
        self.settle(|_| false).await
    }

    /// Takes what the work says, until nothing is under way or `stop` says so.
    pub async fn settle(&mut self, stop: impl Fn(&StagePhase) -> bool) -> StagePhase {
        let work = async {
            while matches!(self.driver.state().phase(), StagePhase::Working { .. })
                && !stop(self.driver.state().phase())
            {
                let message = self.driver.next().await;
                self.driver.take(message).unwrap();
            }
        };
        tokio::time::timeout(GUARD, work).await.unwrap();
        self.driver.state().phase().clone()
    }

    /// The failures of a phase that must be one.
    pub fn failures(phase: StagePhase) -> Vec<StageFailure> {
        match phase {
            StagePhase::Failed { failures } => failures,
            other => panic!("not failed: {other:?}"),
        }
    }

    /// Ends everything.
    pub async fn stop(self) {
        self.driver.close().await;
        self.cluster.stop().await;
    }
}
