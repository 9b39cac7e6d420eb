//! `eventlab explain --live`: what the pod of a running Sensor carries, through a kubeconfig as in the field.

use std::process::Output;
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams,
};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::cluster_command::Background;

/// Only a guard against hanging.
const HANG: Duration = Duration::from_secs(180);
const NAMESPACE: &str = "eventlab";

struct Running {
    cluster: Background,
    client: Client,
}

impl Running {
    async fn start() -> Running {
        let cluster = Background::start();
        let file = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
        let options = KubeConfigOptions {
            context: Some("admin".to_owned()),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(file, &options)
            .await
            .unwrap();
        Running {
            cluster,
            client: Client::try_from(config).unwrap(),
        }
    }

    fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = match kind {
            "EventBus" => ApiResource::from_gvk_with_plural(&gvk, "eventbus"),
            _ => ApiResource::from_gvk(&gvk),
        };
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    async fn create(&self, kind: &str, name: &str, spec: Value) {
        let object = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let api = self.api("argoproj.io", "v1alpha1", kind);
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn until(&self, what: &str, holds: impl AsyncFn(&Running) -> bool) {
        let started = Instant::now();
        while !holds(self).await {
            assert!(started.elapsed() < HANG, "{what}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn explain(&self, more: &[&str]) -> Output {
        let kubeconfig = self.cluster.kubeconfig();
        let live = [
            "explain",
            "--live",
            "--context",
            "admin",
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
            "--sensor",
            "orders",
            "-n",
            NAMESPACE,
        ];
        self.cluster.run(&[&live, more].concat())
    }

    fn walk(&self, body: &str) -> (i32, Value) {
        let output = self.explain(&["--format", "json", "--body", body]);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let line = text.lines().next().unwrap_or_else(|| panic!("{output:?}"));
        (
            output.status.code().unwrap(),
            serde_json::from_str(line).unwrap(),
        )
    }
}

fn spec(value: &str, operator: &str) -> Value {
    let resource = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "order-"}, "spec": {}});
    json!({"dependencies": [{"name": "order", "eventSourceName": "web", "eventName": "orders",
        "filters": {"dataLogicalOperator": operator, "data": [{"path": "body.kind", "type": "string", "value": [value]}]}}],
        "triggers": [{"template": {"name": "run", "k8s": {"operation": "create", "source": {"resource": resource}}}}]})
}

async fn pods(running: &Running) -> usize {
    let pods = running.api("", "v1", "Pod");
    let list = pods
        .list(&ListParams::default().labels("sensor-name=orders"))
        .await;
    let runs = |pod: &&DynamicObject| pod.data["status"]["phase"] == "Running";
    list.map_or(0, |list| list.items.iter().filter(runs).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_explained_and_held_against_what_the_sensor_says() {
    let running = Running::start().await;
    let output = running.explain(&["--body", "{}"]);
    assert_eq!(
        output.status.code(),
        Some(3),
        "there is no Sensor: {output:?}"
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("\"orders\" not found")
            && !said.contains("ErrorResponse")
            && !said.contains("Some("),
        "{said}"
    );
    running
        .create(
            "EventBus",
            "default",
            json!({"jetstream": {"version": "latest"}}),
        )
        .await;
    running.create("EventSource", "web", json!({"webhook": {"orders": {"endpoint": "/orders", "port": "12000", "method": "POST"}}})).await;
    running
        .create("Sensor", "orders", spec("^order$", "and"))
        .await;
    running
        .until("a Sensor pod", async |running| pods(running).await > 0)
        .await;
    let (code, walk) = running.walk(r#"{"kind":"order"}"#);
    assert_eq!((code, &walk["live"]["same"]), (0, &json!(true)), "{walk:#}");
    // An edit that the controller refuses: the pod goes on with the old filter.
    let api = running.api("argoproj.io", "v1alpha1", "Sensor");
    let mut sensor = api.get("orders").await.unwrap();
    sensor.data["spec"] = spec("^refund$", "OR");
    api.replace("orders", &PostParams::default(), &sensor)
        .await
        .unwrap();
    running
        .until("the controller's refusal", async |running| {
            let api = running.api("argoproj.io", "v1alpha1", "Sensor");
            let sensor = api.get("orders").await.unwrap();
            sensor.data["status"].to_string().contains("\"False\"")
        })
        .await;
    let (code, walk) = running.walk(r#"{"kind":"order"}"#);
    assert_eq!(
        (code, &walk["live"]["same"]),
        (0, &json!(false)),
        "{walk:#}"
    );
    let difference = walk["live"]["difference"].to_string();
    assert!(
        difference.contains("- ")
            && difference.contains("^order$")
            && difference.contains("^refund$"),
        "{difference}"
    );
    let conditions = walk["live"]["conditions"].to_string();
    assert!(
        conditions.contains("DependenciesProvided is False"),
        "{conditions}"
    );
    let text = running.explain(&["--body", r#"{"kind":"refund"}"#]);
    assert_eq!(text.status.code(), Some(1));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("runs something else than the Sensor says"),
        "{text}"
    );
    nothing_listens(&running).await;
}

/// Without its EventSource the running Sensor gets nothing, however well its filter would judge it.
async fn nothing_listens(running: &Running) {
    let api = running.api("argoproj.io", "v1alpha1", "EventSource");
    api.delete("web", &DeleteParams::default()).await.unwrap();
    running
        .until("the EventSource's end", async |_| {
            matches!(api.get_opt("web").await, Ok(None))
        })
        .await;
    let (code, walk) = running.walk(r#"{"kind":"order"}"#);
    assert_eq!(
        (code, &walk["stopped_at"]),
        (1, &json!("intake")),
        "{walk:#}"
    );
    assert_eq!(walk["intake"]["status"], json!(null));
    let folder = tempfile::tempdir().unwrap();
    let event = folder.path().join("event.json");
    std::fs::write(&event, r#"{"body":{"kind":"order"}}"#).unwrap();
    let after = running.explain(&["--event", event.to_str().unwrap()]);
    assert_eq!(after.status.code(), Some(0), "{after:?}");
}
