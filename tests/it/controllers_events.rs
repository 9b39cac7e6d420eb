//! EventBus, EventSource and Sensor through the real API.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use eventlab::kinds;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::controllers_support::{Cluster, all_ready, until, until_gone, until_list};

fn condition(object: &DynamicObject, kind: &str) -> (String, String) {
    let conditions = object.data["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .cloned()
        .unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

fn is_true(object: &DynamicObject, kind: &str) -> bool {
    condition(object, kind).0 == "True"
}

async fn bus(cluster: &Cluster) -> DynamicObject {
    let spec =
        json!({"jetstream": {"version": "latest", "replicas": 1, "streamConfig": "replicas: 1"}});
    let body = json!({"metadata": {"name": "default"}, "spec": spec});
    cluster.create(&kinds::event_bus(), body).await;
    let is_ready = |bus: &DynamicObject| is_true(bus, "Deployed") && is_true(bus, "Configured");
    until(&cluster.argo(&kinds::event_bus()), "default", is_ready).await
}

fn sensor_spec(value: &str) -> Value {
    json!({
        "template": {"serviceAccountName": "default",
            "metadata": {"annotations": {"eventlab.dev/election-seconds": "0"}},
            "container": {"env": [{"name": "LOG_LEVEL", "value": "debug"}]}},
        "dependencies": [{"name": "order", "eventSourceName": "shop", "eventName": "orders",
            "filters": {"data": [{"path": "body.kind", "type": "string", "value": [value]}]}}],
        "triggers": [{"template": {"name": "order", "k8s": {"operation": "create", "source": {"resource": {
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": {"generateName": "order-"},
            "spec": {"workflowTemplateRef": {"name": "process-order"}},
        }}}}}],
    })
}

async fn sensor(cluster: &Cluster, spec: Value) -> DynamicObject {
    let body = json!({"metadata": {"name": "orders", "labels": {"team": "shop"}}, "spec": spec});
    cluster.create(&kinds::sensor(), body).await
}

/// The Sensor that a Deployment carries.
fn carried(deployment: &Deployment) -> Value {
    let env = deployment.spec.template.spec.as_ref().unwrap().containers[0]
        .env
        .clone()
        .unwrap();
    let object = env
        .into_iter()
        .find(|one| one.name == "SENSOR_OBJECT")
        .unwrap()
        .value
        .unwrap();
    serde_json::from_slice(&STANDARD.decode(object).unwrap()).unwrap()
}

fn is_live(deployments: &[Deployment]) -> bool {
    deployments.len() == 1
        && deployments[0]
            .status
            .as_ref()
            .is_some_and(|status| status.available_replicas == Some(1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_consists_of_secrets_a_service_and_a_pod_that_is_healed() {
    let cluster = Cluster::new(all_ready()).await;
    let bus = bus(&cluster).await;
    let config = &bus.data["status"]["config"]["jetstream"];
    assert_eq!(config["url"], "nats://eventbus-default-js-svc.lab.svc:4222");
    assert!(
        config["streamConfig"]
            .as_str()
            .unwrap()
            .contains("replicas: 1\n")
    );
    let secrets = cluster.api::<Secret>();
    let auth = secrets
        .get("eventbus-default-js-client-auth")
        .await
        .unwrap();
    let auth = String::from_utf8(auth.data.unwrap()["client-auth"].0.clone()).unwrap();
    assert!(
        auth.starts_with("username: ") && auth.contains("\npassword: "),
        "{auth}"
    );
    let service = cluster
        .api::<Service>()
        .get("eventbus-default-js-svc")
        .await
        .unwrap();
    assert_eq!(service.spec.unwrap().cluster_ip.as_deref(), Some("None"));
    let pods = cluster.api::<Pod>();
    let pod = until(&pods, "eventbus-default-js-0", |pod| {
        pod.spec.as_ref().unwrap().node_name.is_some()
    })
    .await;
    pods.delete(&pod.name_any(), &DeleteParams::default())
        .await
        .unwrap();
    until(&pods, "eventbus-default-js-0", |again| {
        again.uid() != pod.uid()
    })
    .await;
    // Nothing uses it: it goes, with all it consists of.
    cluster
        .argo(&kinds::event_bus())
        .delete("default", &DeleteParams::default())
        .await
        .unwrap();
    until_gone(&pods, "eventbus-default-js-0").await;
    until_gone(&secrets, "eventbus-default-js-client-auth").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_of_two_is_refused_and_an_exotic_one_is_only_told() {
    let cluster = Cluster::new(all_ready()).await;
    let body = json!({"metadata": {"name": "two"}, "spec": {"jetstream": {"version": "latest", "replicas": 2}}});
    cluster.create(&kinds::event_bus(), body).await;
    let buses = cluster.argo(&kinds::event_bus());
    let refused = until(&buses, "two", |bus| {
        condition(bus, "Configured").0 == "False"
    })
    .await;
    assert_eq!(
        condition(&refused, "Configured").1,
        "invalid spec: a jetstream eventbus requires 1 replica or >= 3 replicas"
    );
    let exotic = json!({"url": "nats://elsewhere:4222"});
    let body = json!({"metadata": {"name": "far"}, "spec": {"jetstreamExotic": exotic}});
    cluster.create(&kinds::event_bus(), body).await;
    let told = until(&buses, "far", |bus| is_true(bus, "Deployed")).await;
    assert_eq!(told.data["status"]["config"], json!({"jetstream": exotic}));
    assert!(
        cluster
            .api::<Pod>()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_source_waits_for_the_bus_and_then_serves() {
    let cluster = Cluster::new(all_ready()).await;
    let kind = kinds::event_source();
    let spec = json!({
        "service": {"ports": [{"port": 12000, "targetPort": 12000}]},
        "webhook": {"orders": {"endpoint": "/orders", "method": "POST", "port": "12000"}},
    });
    cluster
        .create(&kind, json!({"metadata": {"name": "shop"}, "spec": spec}))
        .await;
    let sources = cluster.argo(&kind);
    let waiting = until(&sources, "shop", |source| {
        condition(source, "Deployed").0 == "False"
    })
    .await;
    assert_eq!(condition(&waiting, "Deployed").1, "EventBus not found.");
    bus(&cluster).await;
    until(&sources, "shop", |source| {
        is_true(source, "Deployed") && is_true(source, "SourcesProvided")
    })
    .await;
    let services = cluster.api::<Service>();
    let service = services.get("shop-eventsource-svc").await.unwrap();
    assert_eq!(
        service.spec.unwrap().selector.unwrap()["eventsource-name"],
        "shop"
    );
    let deployments = cluster.api::<Deployment>();
    let live = until_list(&deployments, "eventsource-name=shop", is_live).await;
    assert!(live[0].name_any().starts_with("shop-eventsource-"));
    let container = &live[0].spec.template.spec.as_ref().unwrap().containers[0];
    assert_eq!(container.args.clone().unwrap(), ["eventsource-service"]);
    // A Service that is deleted by hand comes back; one that is not wanted any more goes.
    services
        .delete("shop-eventsource-svc", &DeleteParams::default())
        .await
        .unwrap();
    until(&services, "shop-eventsource-svc", |_| true).await;
    let without = Patch::Merge(json!({"spec": {"service": null}}));
    sources
        .patch("shop", &PatchParams::default(), &without)
        .await
        .unwrap();
    until_gone(&services, "shop-eventsource-svc").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_sensor_keeps_the_deployment_it_had() {
    let cluster = Cluster::new(all_ready()).await;
    bus(&cluster).await;
    sensor(&cluster, sensor_spec("order")).await;
    let (sensors, deployments) = (cluster.argo(&kinds::sensor()), cluster.api::<Deployment>());
    let live = until_list(&deployments, "sensor-name=orders", is_live)
        .await
        .remove(0);
    assert!(live.name_any().starts_with("orders-sensor-"));
    assert_eq!(live.labels()["team"], "shop");
    let template = live.spec.template.clone();
    assert_eq!(
        template.metadata.unwrap().annotations.unwrap()["eventlab.dev/election-seconds"],
        "0"
    );
    assert_eq!(
        template.spec.unwrap().service_account_name.as_deref(),
        Some("default")
    );
    assert_eq!(carried(&live)["spec"], sensor_spec("order"));
    // A filter without a path is accepted by the API and refused by the controller.
    let mut broken = sensor_spec("order");
    broken["dependencies"][0]["filters"]["data"][0]["path"] = json!("");
    let edit = Patch::Merge(json!({ "spec": broken }));
    sensors
        .patch("orders", &PatchParams::default(), &edit)
        .await
        .unwrap();
    let refused = until(&sensors, "orders", |one| {
        condition(one, "DependenciesProvided").0 == "False"
    })
    .await;
    assert!(!condition(&refused, "DependenciesProvided").1.is_empty());
    let kept = deployments.get(&live.name_any()).await.unwrap();
    assert_eq!(
        (kept.uid(), kept.metadata.generation),
        (live.uid(), live.metadata.generation)
    );
    assert_eq!(carried(&kept)["spec"], sensor_spec("order"));
    // A valid edit goes live on the same Deployment.
    let edit = Patch::Merge(json!({"spec": sensor_spec("refund")}));
    sensors
        .patch("orders", &PatchParams::default(), &edit)
        .await
        .unwrap();
    let edited = until(&deployments, &live.name_any(), |one| {
        carried(one)["spec"] == sensor_spec("refund")
    })
    .await;
    assert_eq!(edited.uid(), live.uid());
    until(&sensors, "orders", |one| {
        is_true(one, "DependenciesProvided")
            && is_true(one, "TriggersProvided")
            && is_true(one, "Deployed")
    })
    .await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_in_use_outlives_its_deletion_until_nobody_uses_it() {
    let cluster = Cluster::new(all_ready()).await;
    bus(&cluster).await;
    sensor(&cluster, sensor_spec("order")).await;
    let deployments = cluster.api::<Deployment>();
    let live = until_list(&deployments, "sensor-name=orders", is_live)
        .await
        .remove(0);
    let buses = cluster.argo(&kinds::event_bus());
    buses
        .delete("default", &DeleteParams::default())
        .await
        .unwrap();
    let held = until(&buses, "default", |bus| {
        bus.metadata.deletion_timestamp.is_some()
    })
    .await;
    assert_eq!(held.finalizers(), ["eventbus-controller"]);
    cluster
        .argo(&kinds::sensor())
        .delete("orders", &DeleteParams::default())
        .await
        .unwrap();
    until_gone(&buses, "default").await;
    until_gone(&deployments, &live.name_any()).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_with_a_whole_pipeline_can_be_deleted() {
    let cluster = Cluster::new(all_ready()).await;
    bus(&cluster).await;
    sensor(&cluster, sensor_spec("order")).await;
    until_list(&cluster.api::<Deployment>(), "sensor-name=orders", is_live).await;
    let spaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(cluster.admin());
    spaces
        .delete("lab", &DeleteParams::default())
        .await
        .unwrap();
    until_gone(&spaces, "lab").await;
    cluster.stop().await;
}
