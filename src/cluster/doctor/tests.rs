//! Each point as it stands on a sound cluster, and with one thing wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::cluster::RealCluster;
use crate::kinds::{MANAGED_BY, MANAGED_BY_LABEL};

/// Answers of an API server, by path; `{"refused": CODE}` is a refusal, and what is not there is not found.
type World = BTreeMap<String, Value>;

const EVENTS_SETTINGS: &str =
    "/api/v1/namespaces/argo-events/configmaps/argo-events-controller-config";
const WORKFLOWS_SETTINGS: &str = "/api/v1/namespaces/argo/configmaps/workflow-controller-configmap";
const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
const BUS: &str = "/apis/argoproj.io/v1alpha1/namespaces/eventlab/eventbus/default";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const CLAIM: &str = "/api/v1/namespaces/eventlab/persistentvolumeclaims/order-ledger";
const NAMESPACE: &str = "/api/v1/namespaces/eventlab";
const ARTIFACTS: &str = "/api/v1/namespaces/eventlab/configmaps/artifact-repositories";
const POD: &str = "/api/v1/namespaces/eventlab/pods/eventlab-image-x";

fn deployment(namespace: &str, image: &str, words: &[&str], ready: i32) -> Value {
    json!({"metadata": {"name": "controller", "namespace": namespace},
        "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c", "image": image, "args": words}]}}},
        "status": {"readyReplicas": ready}})
}

fn deployments(events: Value, workflows: Value) -> Value {
    json!({"items": [events, workflows]})
}

fn events(words: &[&str], ready: i32) -> Value {
    let words = [&["controller"], words].concat();
    deployment(
        "argo-events",
        "quay.io/argoproj/argo-events:v1.9.11",
        &words,
        ready,
    )
}

fn workflows(words: &[&str], ready: i32) -> Value {
    deployment(
        "argo",
        "quay.io/argoproj/workflow-controller:v4.1.2",
        words,
        ready,
    )
}

fn bus(spec: Value) -> Value {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventBus", "metadata": {"name": "default"}, "spec": spec,
        "status": {"conditions": [{"type": "Deployed", "status": "True"}, {"type": "Configured", "status": "True"}]}})
}

fn class(name: &str, provisioner: &str, default: bool) -> Value {
    json!({"items": [{"metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": default.to_string()}},
        "provisioner": provisioner}]})
}

fn claim(mode: &str, phase: &str) -> Value {
    json!({"metadata": {"name": "order-ledger"}, "spec": {"accessModes": [mode]}, "status": {"phase": phase}})
}

fn pod(state: Value) -> Value {
    json!({"metadata": {"name": "eventlab-image-x"}, "status": {"containerStatuses": [
        {"name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state}]}})
}

/// A cluster on which everything is as it should be.
fn sound() -> World {
    let names = [
        "eventbus",
        "eventsources",
        "sensors",
        "workflows",
        "workflowtemplates",
        "workflowtaskresults",
    ];
    let resources: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "singularName": "", "namespaced": true, "kind": "K", "verbs": ["get"]}))
        .collect();
    let config =
        "eventBus:\n  jetstream:\n    versions:\n    - version: latest\n    - version: 2.10.10\n";
    [
        ("/version", json!({"major": "1", "minor": "36", "gitVersion": "v1.36.2", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": ""})),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({"status": {"userInfo": {"username": "dana"}}})),
        (NAMESPACE, json!({"metadata": {"name": "eventlab", "labels": {MANAGED_BY_LABEL: MANAGED_BY}}})),
        ("/apis/argoproj.io/v1alpha1", json!({"kind": "APIResourceList", "groupVersion": "argoproj.io/v1alpha1", "resources": resources})),
        (DEPLOYMENTS, deployments(events(&[], 1), workflows(&[], 1))),
        (EVENTS_SETTINGS, json!({"metadata": {"name": "c"}, "data": {"controller-config.yaml": config}})),
        (WORKFLOWS_SETTINGS, json!({"metadata": {"name": "c"}, "data": {}})),
        (ARTIFACTS, json!({"metadata": {"name": "artifact-repositories"}})),
        (BUS, bus(json!({"jetstream": {"version": "latest", "replicas": 1, "streamConfig": "replicas: 1\n"}}))),
        (CLASSES, class("standard", "rancher.io/local-path", true)),
        ("/api/v1/nodes", json!({"items": []})),
        (CLAIM, claim("ReadWriteOnce", "Bound")),
        ("/api/v1/namespaces/eventlab/pods", json!({"metadata": {"name": "eventlab-image-x"}})),
        (POD, pod(json!({"terminated": {"exitCode": 0}}))),
    ]
    .into_iter()
    .map(|(path, value)| (path.to_owned(), value))
    .collect()
}

fn refused(code: u64) -> Value {
    json!({"refused": code})
}

fn forbidden(message: &str) -> Value {
    json!({"refused": 403, "message": message})
}

/// How far the server's clock is ahead (seconds), and rights that are not there (`VERB RESOURCE`).
#[derive(Clone, Copy, Default)]
struct Odd {
    ahead: i64,
    denied: &'static str,
}

fn answer(world: &World, odd: Odd, method: &Method, path: &str, body: &Value) -> (u16, Value) {
    if path.ends_with("/selfsubjectaccessreviews") {
        let asked = &body["spec"]["resourceAttributes"];
        let part = asked["subresource"]
            .as_str()
            .map_or(String::new(), |part| format!("/{part}"));
        let asked = format!(
            "{} {}{part}",
            asked["verb"].as_str().unwrap_or_default(),
            asked["resource"].as_str().unwrap_or_default()
        );
        return (
            201,
            json!({"spec": {}, "status": {"allowed": asked != odd.denied}}),
        );
    }
    if *method == Method::DELETE {
        return (
            200,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 200}),
        );
    }
    match world.get(path) {
        Some(value) if value["refused"].is_u64() => {
            let code = value["refused"].as_u64().unwrap_or_default();
            let code = u16::try_from(code).unwrap_or_default();
            (
                code,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
                "message": value["message"].as_str().map_or(format!("{path} is refused"), str::to_owned), "code": code}),
            )
        }
        Some(value) => (200, value.clone()),
        None => (
            404,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
            "message": format!("{path} not found"), "code": 404}),
        ),
    }
}

fn client(world: World, odd: Odd) -> Client {
    let world = Arc::new(world);
    let service = tower::service_fn(move |request: Request<Body>| {
        let world = Arc::clone(&world);
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body
                .collect()
                .await
                .map(|body| body.to_bytes())
                .unwrap_or_default();
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            let (code, value) = answer(&world, odd, &parts.method, parts.uri.path(), &body);
            let now = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(odd.ahead);
            let date = jiff::fmt::rfc2822::to_string(&now.to_zoned(jiff::tz::TimeZone::UTC))
                .unwrap_or_default();
            Response::builder()
                .status(code)
                .header("content-type", "application/json")
                .header("date", date)
                .body(Full::new(axum::body::Bytes::from(value.to_string())))
        }
    });
    Client::new(service, "default")
}

/// All points but those of the bus's content, which takes a connection.
async fn points(world: World, odd: Odd, context: &str) -> Vec<Point> {
    let mut context = Context::silent(context).await;
    context.client = client(world, odd);
    let cluster = Cluster::of_context(&context, "eventlab", RealCluster::default());
    let mut patient = Patient {
        context: &context,
        cluster: &cluster,
        kubectl: format!("kubectl {}", context.options()),
        embedded: false,
        node: false,
    };
    let (mut all, version) = server::points(&patient).await;
    if version.is_none() {
        return all;
    }
    patient.node = server::has_our_node(&patient).await;
    all.extend(rights::points(&patient).await);
    all.extend(argo::points(&patient).await);
    all.extend(storage::points(&patient).await);
    all.push(image::point(&patient, &Options { try_image: true }).await);
    all
}

#[tokio::test]
async fn a_sound_cluster_is_sound_in_every_point() {
    let points = points(sound(), Odd::default(), "lab").await;
    let names: Vec<&str> = points.iter().map(|point| point.name).collect();
    assert_eq!(
        names,
        [
            "server",
            "context",
            "identity",
            "clocks",
            "namespace",
            "rights: apply",
            "rights: grant",
            "rights: look",
            "rights: reach",
            "rights: bus",
            "rights: review",
            "argo kinds",
            "argo events",
            "argo workflows",
            "event bus",
            "instance id",
            "artifacts",
            "kept workflows",
            "storage class",
            "ledger volume",
            "image",
        ]
    );
    for point in points {
        assert_eq!(point.verdict, Verdict::Good, "{point:?}");
    }
}

/// Where a volume goes from node to node, only one of them has it; a node that takes no pods does not count.
#[tokio::test]
async fn several_nodes_are_a_matter_of_the_class() {
    let node =
        |name: &str, taints: Value| json!({"metadata": {"name": name}, "spec": {"taints": taints}});
    let tainted = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
    let two = json!({"items": [node("a", json!([])), node("b", json!([]))]});
    let one = json!({"items": [node("a", json!([])), node("b", tainted)]});
    for (provisioner, nodes, verdict, word) in [
        ("ebs.csi.aws.com", &two, Verdict::Warn, "Multi-Attach"),
        ("ebs.csi.aws.com", &one, Verdict::Good, "ebs"),
        ("rancher.io/local-path", &two, Verdict::Good, "2 nodes"),
    ] {
        let mut world = sound();
        world.insert(CLASSES.to_owned(), class("standard", provisioner, true));
        world.insert("/api/v1/nodes".to_owned(), nodes.clone());
        let points = points(world, Odd::default(), "lab").await;
        let point = points
            .iter()
            .find(|point| point.name == "storage class")
            .unwrap();
        assert_eq!(point.verdict, verdict, "{point:?}");
        assert!(point.found.contains(word), "{point:?}");
    }
}

/// Several are installed, in whatever order: the one that looks after the namespace is the one that counts.
#[tokio::test]
async fn a_controller_of_others_is_nobodys_fault() {
    let others = |image: &str, word: &[&str]| {
        let words = [word, &["--namespaced"]].concat();
        deployment("team-a", image, &words, 1)
    };
    let mut installed = vec![
        others("quay.io/argoproj/argo-events:v1.7.2", &["controller"]),
        others("quay.io/argoproj/workflow-controller:v3.4.0", &[]),
        events(&["--managed-namespace", "argo"], 1),
        deployment(
            "argo",
            "mirror.corp:5000/quay/workflow-controller:v4.1.2",
            &[],
            1,
        ),
        deployment("old", "quay.io/argoproj/workflow-controller:v3.4.0", &[], 0),
    ];
    for _ in 0..installed.len() {
        installed.rotate_left(1);
        let mut world = sound();
        world.insert(DEPLOYMENTS.to_owned(), json!({"items": installed}));
        let points = points(world, Odd::default(), "lab").await;
        for name in ["argo events", "argo workflows"] {
            let point = points.iter().find(|point| point.name == name).unwrap();
            assert_eq!(point.verdict, Verdict::Good, "{point:?}");
        }
    }
}

/// What is changed in a sound cluster, the point that says so, its verdict, and words of the finding and of the mend.
type Case = (
    &'static str,
    Value,
    &'static str,
    Verdict,
    &'static str,
    &'static str,
);

fn cases() -> Vec<Case> {
    use Verdict::{Missing, Unknown, Warn};
    let spaced = |labels: Value| json!({"metadata": {"name": "eventlab", "labels": labels}});
    let stream = |version: &str, config: &str| {
        bus(json!({"jetstream": {"version": version, "replicas": 1, "streamConfig": config}}))
    };
    let waiting =
        |reason: &str| pod(json!({"waiting": {"reason": reason, "message": "no such image"}}));
    let settings = |data: Value| json!({"metadata": {"name": "c"}, "data": data});
    let deleting = json!({"metadata": {"name": "eventlab", "deletionTimestamp": "2026-01-02T03:04:05Z", "labels": {MANAGED_BY_LABEL: MANAGED_BY}}});
    let old = json!({"major": "1", "minor": "24+", "gitVersion": "v1.24.1", "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
    vec![
        ("/version", old, "server", Warn, "v1.24.1", "newer cluster"),
        (
            "/version",
            refused(403),
            "server",
            Unknown,
            "does not answer",
            "cluster-info",
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            Value::Null,
            "identity",
            Unknown,
            "not found",
            "auth can-i",
        ),
        (
            NAMESPACE,
            Value::Null,
            "namespace",
            Missing,
            "is not there",
            "cluster prepare",
        ),
        (
            NAMESPACE,
            spaced(json!({})),
            "namespace",
            Missing,
            "not eventlab's",
            "label namespace",
        ),
        (
            NAMESPACE,
            deleting,
            "namespace",
            Missing,
            "being deleted",
            "wait --for=delete",
        ),
        (
            NAMESPACE,
            refused(403),
            "namespace",
            Unknown,
            "may not look",
            "ask whoever",
        ),
        (
            NAMESPACE,
            spaced(
                json!({MANAGED_BY_LABEL: MANAGED_BY, "pod-security.kubernetes.io/enforce": "restricted"}),
            ),
            "namespace",
            Missing,
            "restricted",
            "enforce=baseline",
        ),
        (
            "/apis/argoproj.io/v1alpha1",
            Value::Null,
            "argo kinds",
            Missing,
            "eventbus, eventsources",
            "install.yaml",
        ),
        (
            "/apis/argoproj.io/v1alpha1",
            refused(403),
            "argo kinds",
            Unknown,
            "may not look",
            "ask whoever",
        ),
        (
            DEPLOYMENTS,
            deployments(events(&[], 0), workflows(&[], 1)),
            "argo events",
            Missing,
            "no replica",
            "describe deployment",
        ),
        (
            DEPLOYMENTS,
            deployments(events(&["--namespaced"], 1), workflows(&[], 1)),
            "argo events",
            Missing,
            "watches namespace argo-events alone",
            "whole cluster",
        ),
        (
            DEPLOYMENTS,
            deployments(
                events(&["--namespaced", "--managed-namespace", "shop"], 1),
                workflows(&[], 1),
            ),
            "argo events",
            Missing,
            "shop alone",
            "--managed-namespace",
        ),
        (
            DEPLOYMENTS,
            deployments(
                json!({"metadata": {}, "spec": {"selector": {}, "template": {}}}),
                workflows(&[], 1),
            ),
            "argo events",
            Missing,
            "no Deployment",
            "argo-events/releases",
        ),
        (
            DEPLOYMENTS,
            deployments(
                deployment(
                    "e",
                    "quay.io/argoproj/argo-events:v1.7.2",
                    &["controller"],
                    1,
                ),
                workflows(&[], 1),
            ),
            "argo events",
            Warn,
            "release 1.7.2",
            "v1.9.11",
        ),
        (
            DEPLOYMENTS,
            deployments(events(&[], 1), workflows(&["--namespaced"], 1)),
            "argo workflows",
            Missing,
            "argo alone",
            "--namespaced",
        ),
        (
            DEPLOYMENTS,
            deployments(
                events(&[], 1),
                deployment("argo", "argoproj/workflow-controller", &[], 1),
            ),
            "argo workflows",
            Warn,
            "release unknown",
            "v4.1.2",
        ),
        (
            DEPLOYMENTS,
            refused(403),
            "argo workflows",
            Unknown,
            "may not look",
            "ask whoever",
        ),
        (
            WORKFLOWS_SETTINGS,
            settings(json!({"instanceID": "blue"})),
            "instance id",
            Missing,
            "=blue",
            "remove instanceID",
        ),
        (
            WORKFLOWS_SETTINGS,
            Value::Null,
            "instance id",
            Unknown,
            "could not be read",
            "instanceID",
        ),
        (
            ARTIFACTS,
            Value::Null,
            "artifacts",
            Missing,
            "controller's default",
            "cluster prepare",
        ),
        (
            ARTIFACTS,
            refused(403),
            "artifacts",
            Unknown,
            "may not look",
            "ask whoever",
        ),
        (
            BUS,
            Value::Null,
            "event bus",
            Missing,
            "no EventBus",
            "cluster prepare",
        ),
        (
            BUS,
            bus(json!({"nats": {}})),
            "event bus",
            Missing,
            "not of type jetstream",
            "cluster prepare",
        ),
        (
            BUS,
            stream("9.9.9", "replicas: 1"),
            "event bus",
            Missing,
            "`9.9.9` is not one",
            "cluster prepare",
        ),
        (
            BUS,
            stream("latest", ""),
            "event bus",
            Missing,
            "streams of 3",
            "cluster prepare",
        ),
        (
            BUS,
            json!({"metadata": {"name": "default"}, "spec": {"jetstream": {"version": "latest", "replicas": 1, "streamConfig": "replicas: 1"}}}),
            "event bus",
            Warn,
            "not Deployed yet",
            "eventbus-name=default",
        ),
        (
            BUS,
            refused(403),
            "event bus",
            Unknown,
            "may not look",
            "ask whoever",
        ),
        (
            CLASSES,
            json!({"items": []}),
            "storage class",
            Missing,
            "there is none",
            "local-path",
        ),
        (
            CLASSES,
            class("slow", "x", false),
            "storage class",
            Missing,
            "none is the default",
            "annotate storageclass slow",
        ),
        (
            CLASSES,
            class("efs", "efs.csi.aws.com", true),
            "storage class",
            Missing,
            "network file system",
            "annotate storageclass",
        ),
        (
            CLASSES,
            refused(403),
            "storage class",
            Unknown,
            "may not look",
            "ask whoever",
        ),
        (
            CLAIM,
            Value::Null,
            "ledger volume",
            Missing,
            "is not there",
            "cluster prepare",
        ),
        (
            CLAIM,
            claim("ReadWriteOnce", "Pending"),
            "ledger volume",
            Warn,
            "Pending",
            "app=order-ledger",
        ),
        (
            CLAIM,
            claim("ReadWriteOnce", "Lost"),
            "ledger volume",
            Missing,
            "lost",
            "delete pvc",
        ),
        (
            CLAIM,
            claim("ReadWriteMany", "Bound"),
            "ledger volume",
            Warn,
            "several nodes",
            "cluster prepare",
        ),
        (
            CLAIM,
            refused(403),
            "ledger volume",
            Unknown,
            "may not look",
            "ask whoever",
        ),
        (
            POD,
            waiting("ImagePullBackOff"),
            "image",
            Missing,
            "no such image",
            "kind load",
        ),
        (
            POD,
            waiting("ErrImageNeverPull"),
            "image",
            Missing,
            "ErrImageNeverPull",
            "--image",
        ),
        (
            POD,
            pod(json!({"terminated": {"exitCode": 128}})),
            "image",
            Missing,
            "exit code 128",
            "docker build",
        ),
        (
            "/api/v1/namespaces/eventlab/pods",
            forbidden(
                "pods \"eventlab-image-x\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true",
            ),
            "image",
            Missing,
            "refuses a pod with it",
            "enforce=baseline",
        ),
        (
            "/api/v1/namespaces/eventlab/pods",
            forbidden(
                "pods \"eventlab-image-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3",
            ),
            "image",
            Missing,
            "limited: pods=3",
            "describe resourcequota",
        ),
        (
            "/api/v1/namespaces/eventlab/pods",
            forbidden("admission webhook \"images.corp\" denied the request: only our registry"),
            "image",
            Missing,
            "only our registry",
            "leave the labs' namespace out",
        ),
        (
            "/api/v1/namespaces/eventlab/pods",
            forbidden(
                "pods is forbidden: User \"dana\" cannot create resource \"pods\" in API group \"\" in the namespace \"eventlab\"",
            ),
            "image",
            Unknown,
            "may not look",
            "ask whoever",
        ),
        (
            "/version",
            json!({"refused": 401, "message": "Unauthorized"}),
            "server",
            Unknown,
            "does not take the context's login",
            "auth whoami",
        ),
        (
            "/api/v1/namespaces/eventlab/pods",
            refused(403),
            "image",
            Unknown,
            "may not look",
            "ask whoever",
        ),
        (
            "/api/v1/namespaces/eventlab/pods",
            Value::Null,
            "image",
            Unknown,
            "not there yet",
            "cluster prepare",
        ),
    ]
}

#[tokio::test]
async fn each_point_says_what_is_wrong_and_what_mends_it() {
    for (path, value, name, verdict, found, mend) in cases() {
        let mut world = sound();
        match value.is_null() {
            true => world.remove(path),
            false => world.insert(path.to_owned(), value.clone()),
        };
        let points = points(world, Odd::default(), "lab").await;
        let point = points.iter().find(|point| point.name == name);
        let point = point.unwrap_or_else(|| panic!("{path} {value}: no point {name}"));
        assert_eq!(point.verdict, verdict, "{path} {value}: {point:?}");
        assert!(point.found.contains(found), "{path} {value}: {point:?}");
        let said = point.mend.clone().unwrap_or_default();
        assert!(said.contains(mend), "{path} {value}: {point:?}");
    }
}

#[tokio::test]
async fn clocks_rights_and_a_name_of_production_are_points_too() {
    let point = |points: Vec<Point>, name: &str| {
        points.into_iter().find(|point| point.name == name).unwrap()
    };
    for (ahead, verdict) in [
        (10, Verdict::Warn),
        (-10, Verdict::Warn),
        (120, Verdict::Missing),
        (-120, Verdict::Missing),
    ] {
        let odd = Odd {
            ahead,
            ..Odd::default()
        };
        let clocks = point(points(sound(), odd, "lab").await, "clocks");
        assert_eq!(clocks.verdict, verdict, "{ahead}: {clocks:?}");
        assert!(clocks.mend.unwrap().contains("timedatectl"));
    }
    for (denied, name, verdict) in [
        ("create sensors", "rights: apply", Verdict::Missing),
        (
            "patch workflowtaskresults",
            "rights: grant",
            Verdict::Missing,
        ),
        ("get pods/log", "rights: look", Verdict::Missing),
        ("create pods/portforward", "rights: reach", Verdict::Missing),
        ("get secrets", "rights: bus", Verdict::Warn),
        (
            "create localsubjectaccessreviews",
            "rights: review",
            Verdict::Warn,
        ),
    ] {
        let odd = Odd {
            denied,
            ..Odd::default()
        };
        let right = point(points(sound(), odd, "lab").await, name);
        assert_eq!(right.verdict, verdict, "{denied}: {right:?}");
        let (verb, resource) = denied.split_once(' ').unwrap();
        let said = right.mend.clone().unwrap();
        assert!(
            right.found.contains(&format!("({verb} {resource}")),
            "{right:?}"
        );
        assert!(
            said.contains(&format!("--verb={verb} --resource={resource}"))
                && said.contains("--user dana"),
            "{said}"
        );
        assert!(right.found.starts_with("eventlab cannot "), "{right:?}");
    }
    let production = point(
        points(sound(), Odd::default(), "shop-prod").await,
        "context",
    );
    assert_eq!(production.verdict, Verdict::Warn);
    assert!(
        production
            .mend
            .unwrap()
            .contains("--yes-really-this-context shop-prod")
    );
}

#[tokio::test]
async fn a_controller_that_keeps_few_workflows_is_told() {
    for (data, verdict, word) in [
        (
            json!({"retentionPolicy": "completed: 10\nfailed: 3\nerrored: 3\n"}),
            Verdict::Warn,
            "10 completed, 3 failed, 3 errored",
        ),
        (
            json!({"config": "retentionPolicy:\n  completed: 7\n"}),
            Verdict::Warn,
            "7 completed",
        ),
        (json!({"retentionPolicy": "{}"}), Verdict::Good, "no limit"),
    ] {
        let mut world = sound();
        let map = json!({"metadata": {"name": "c", "namespace": "argo"}, "data": data});
        world.insert(WORKFLOWS_SETTINGS.to_owned(), map);
        let points = points(world, Odd::default(), "lab").await;
        let point = points.iter().find(|one| one.name == "kept workflows");
        let point = point.unwrap();
        assert_eq!(point.verdict, verdict, "{point:?}");
        assert!(point.found.contains(word), "{point:?}");
        assert!(point.shows.contains("-n argo"), "{point:?}");
    }
}

#[tokio::test]
async fn where_eventlabs_node_works_there_are_no_deployments_and_no_class() {
    let mut world = sound();
    world.insert(DEPLOYMENTS.to_owned(), json!({"items": []}));
    world.insert(CLASSES.to_owned(), json!({"items": []}));
    let node = json!({"metadata": {"name": "eventlab"}, "status": {"conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.36.2+eventlab", "kubeProxyVersion": "", "containerRuntimeVersion": "", "operatingSystem": "",
            "architecture": "", "osImage": "", "kernelVersion": "", "machineID": "", "systemUUID": "", "bootID": ""}}});
    world.insert("/api/v1/nodes/eventlab".to_owned(), node);
    for point in points(world, Odd::default(), "lab").await {
        assert_eq!(point.verdict, Verdict::Good, "{point:?}");
    }
}
