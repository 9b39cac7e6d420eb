//! The API goes away and comes back under running controllers: watches end, requests fail, versions expire.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use eventlab::embedded::api::{ApiServer, Options};
use eventlab::embedded::controllers::{ControllerClients, Identity, Settings, start_with};
use eventlab::kinds;
use futures::StreamExt;
use http::{Request, StatusCode, header};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt, service_fn};

use crate::controllers_support::{container, play_node, runs, soon, typed, until};

/// A way to an API that can be cut and led to another one.
struct Line {
    router: Mutex<Option<Router>>,
    /// Grows with each cut; answers under way end.
    cuts: watch::Sender<u64>,
}

impl Line {
    fn new(server: &Arc<ApiServer>) -> Arc<Self> {
        let router = Mutex::new(Some(server.router()));
        Arc::new(Self {
            router,
            cuts: watch::Sender::new(0),
        })
    }

    fn lead_to(&self, server: Option<&Arc<ApiServer>>) {
        *self.router.lock().unwrap() = server.map(ApiServer::router);
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    fn client(self: &Arc<Self>, token: &str) -> Client {
        let (line, token) = (Arc::clone(self), format!("Bearer {token}"));
        let service = service_fn(move |mut request: Request<kube::client::Body>| {
            let bearer = token.parse().unwrap();
            request.headers_mut().insert(header::AUTHORIZATION, bearer);
            let line = Arc::clone(&line);
            async move { Ok::<_, Infallible>(line.call(request.map(Body::new)).await) }
        });
        Client::new(service, "lab")
    }

    async fn call(&self, request: Request<Body>) -> Response {
        let mut cuts = self.cuts.subscribe();
        cuts.mark_unchanged();
        let Some(router) = self.router.lock().unwrap().clone() else {
            return (StatusCode::BAD_GATEWAY, "nobody here").into_response();
        };
        let Ok(answer) = router.oneshot(request).await;
        let (head, body) = answer.into_parts();
        let cut = async move {
            let _ = cuts.changed().await;
        };
        let stream = body.into_data_stream().take_until(Box::pin(cut));
        Response::from_parts(head, Body::from_stream(stream))
    }
}

fn open(path: &Path) -> Arc<ApiServer> {
    ApiServer::open(path, Options::default()).unwrap()
}

fn token(server: &ApiServer, user: &str) -> String {
    match user.strip_prefix("system:serviceaccount:") {
        Some(account) => {
            let (namespace, name) = account.split_once(':').unwrap();
            server.service_account_token(namespace, name)
        }
        None => server.user_token(user, &[]),
    }
}

async fn create_workflow(client: &Client, name: &str) {
    let workflows: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "lab", &kinds::workflow());
    let step = |name: &str| json!([{"name": name, "template": "apply"}]);
    let object = typed(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": name},
        "spec": {"entrypoint": "main", "templates": [
            {"name": "main", "steps": [step("first"), step("second")]}, container("apply")]},
    }));
    workflows
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_survive_an_api_that_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cluster.db");
    let mut server = open(&path);
    let line = Line::new(&server);
    let admin = line.client(&server.user_token("admin", &["system:masters"]));
    let spaces: Api<Namespace> = Api::all(admin.clone());
    let space = typed(json!({"metadata": {"name": "lab"}}));
    spaces.create(&PostParams::default(), &space).await.unwrap();
    let nodes: Api<Node> = Api::all(admin.clone());
    let node = typed(json!({"metadata": {"name": "eventlab"}}));
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let clients = ControllerClients::for_each(|identity: Identity| {
        line.client(&token(&server, identity.user()))
    });
    let cancel = CancellationToken::new();
    let handle = start_with(clients, &Settings::default(), cancel.clone());
    let workflows: Api<DynamicObject> =
        Api::namespaced_with(admin.clone(), "lab", &kinds::workflow());
    for round in 0..3 {
        // The Workflow gets half-way, then everything is gone for a moment.
        let name = format!("order-{round}");
        create_workflow(&admin, &name).await;
        let pods: Api<Pod> = Api::namespaced(admin.clone(), "lab");
        let first = eventlab_pod(&name);
        until(&pods, &first, |pod| {
            pod.spec
                .as_ref()
                .is_some_and(|spec| spec.node_name.is_some())
        })
        .await;
        line.lead_to(None);
        drop(server);
        tokio::time::sleep(Duration::from_millis(30)).await;
        server = reopen(&path).await;
        line.lead_to(Some(&server));
        let node_token = server.user_token("system:node:eventlab", &["system:nodes"]);
        let player = tokio::spawn(play_node(
            line.client(&node_token),
            Arc::new(|_: &Pod| runs(0, 0)),
        ));
        let done = until(&workflows, &name, |workflow| {
            workflow.data["status"]["finishedAt"].is_string()
        })
        .await;
        assert_eq!(done.data["status"]["phase"], "Succeeded");
        player.abort();
    }
    cancel.cancel();
    soon(handle.stopped()).await;
}

/// The pod of the first step.
fn eventlab_pod(workflow: &str) -> String {
    let node = format!("{workflow}[0].first");
    let hash = node.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{workflow}-apply-{hash}")
}

/// Opens the database once the last request of the former server has let it go.
async fn reopen(path: &Path) -> Arc<ApiServer> {
    let opened = async {
        loop {
            match ApiServer::open(path, Options::default()) {
                Ok(server) => return server,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    soon(opened).await
}
