//! The Sensor service against the bus and the API: order of start, election, delivery, purge, conditions, losses.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use eventlab::embedded::bus::ConsumerInfo;
use eventlab::embedded::node::process::ServiceContext;
use eventlab::embedded::services::sensor::{self, Timing};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::api_support::{Lab, create, send};
use crate::service_pods::{Pod, PodSpec, TestBus, until};

const WORKFLOWS: &str = "/apis/argoproj.io/v1alpha1/namespaces/lab/workflows";

/// Upstream's rules with waits that a test can sit out.
fn quick(context: ServiceContext) -> BoxFuture<'static, i32> {
    let timing = Timing {
        ack_wait: Duration::from_secs(1),
        look: Duration::from_millis(100),
        closing: Duration::from_millis(50),
    };
    sensor::run_with(context, timing)
}

pub struct World {
    pub lab: Lab,
    pub bus: TestBus,
}

impl World {
    pub async fn new() -> World {
        World::on(TestBus::start()).await
    }

    async fn on(bus: TestBus) -> World {
        let lab = Lab::new().await;
        let account = json!({"metadata": {"name": "order-sensor"}});
        create(&lab, "/api/v1/namespaces/lab/serviceaccounts", account).await;
        World { lab, bus }
    }

    pub async fn allowed_on(bus: TestBus) -> World {
        let world = World::on(bus).await;
        world.allow().await;
        world
    }

    /// With the right that the Sensor's account needs.
    pub async fn allowed() -> World {
        let world = World::new().await;
        world.allow().await;
        world
    }

    async fn allow(&self) {
        let rules = json!([{"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["create"]}]);
        self.allow_to("order-sensor", rules).await;
    }

    /// With rights of one more Role.
    pub async fn allow_to(&self, role: &str, rules: Value) {
        let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/lab";
        create(
            &self.lab,
            &format!("{roles}/roles"),
            json!({"metadata": {"name": role}, "rules": rules}),
        )
        .await;
        let binding = json!({"metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "order-sensor", "namespace": "lab"}]});
        create(&self.lab, &format!("{roles}/rolebindings"), binding).await;
    }

    pub fn pod(&self, name: &str, sensor: &Value) -> PodSpec {
        let server = Arc::clone(&self.lab.server);
        let token = server.service_account_token("lab", "order-sensor");
        PodSpec::new(quick, name, &self.bus)
            .object("SENSOR_OBJECT", sensor)
            .client(move || server.client_in(&token, "lab"))
    }

    /// A running pod whose triggers are all subscribed.
    pub async fn start(&self, name: &str, sensor: &Value) -> Pod {
        let pod = self.pod(name, sensor).start();
        subscribed(&pod, 1).await;
        pod
    }

    pub async fn post(&self, id: &str, data: &Value) {
        self.post_to("orders", id, data).await;
    }

    pub async fn post_to(&self, event: &str, id: &str, data: &Value) {
        let body = json!({"specversion": "1.0", "id": id, "source": "webhook", "type": "webhook", "subject": event,
            "datacontenttype": "application/json", "time": "2026-01-02T03:04:05Z",
            "data_base64": STANDARD.encode(data.to_string())});
        let bus = self.bus.bus().await;
        bus.publish(
            &format!("default.webhook.{event}"),
            id,
            body.to_string().into_bytes(),
        )
        .await
        .unwrap();
    }

    pub async fn workflows(&self) -> Vec<Value> {
        let (_, list) = send(&self.lab, "GET", WORKFLOWS, "application/json", "").await;
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// The `arrival` labels of the Workflows.
    async fn arrivals(&self) -> Vec<String> {
        let label = |item: &Value| {
            item["metadata"]["labels"]["arrival"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let mut ids: Vec<_> = self.workflows().await.iter().map(label).collect();
        ids.sort();
        ids
    }

    pub async fn arrives(&self, ids: &[&str]) {
        until(&format!("workflows of {ids:?}"), || async {
            self.arrivals().await == ids
        })
        .await;
    }

    pub async fn consumers(&self) -> Vec<ConsumerInfo> {
        self.bus
            .bus()
            .await
            .consumers("default")
            .await
            .unwrap_or_default()
    }

    /// Everything on the bus has been handed out and acknowledged.
    pub async fn settled(&self) {
        let done = |info: &ConsumerInfo| info.num_pending == 0 && info.num_ack_pending == 0;
        until("every message is acknowledged", || async {
            self.consumers().await.iter().all(done)
        })
        .await;
    }
}

pub async fn subscribed(pod: &Pod, subjects: usize) {
    let count = || {
        pod.lines()
            .iter()
            .filter(|line| message(line).starts_with("successfully subscribed to subject "))
            .count()
    };
    until("the subscription", || async { count() >= subjects }).await;
}

pub fn message(line: &Value) -> &str {
    line["msg"].as_str().unwrap()
}

pub fn dependency(name: &str, event: &str) -> Value {
    json!({"name": name, "eventSourceName": "webhook", "eventName": event})
}

pub fn trigger(name: &str, dependency: &str) -> Value {
    let arrival = json!({"src": {"dependencyName": dependency, "contextKey": "id"}, "dest": "metadata.labels.arrival"});
    let workflow = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"generateName": "order-"}, "spec": {"workflowTemplateRef": {"name": "process-order"}}});
    json!({"template": {"name": name, "k8s": {"source": {"resource": workflow}, "parameters": [arrival]}}})
}

pub fn sensor_of(dependencies: Value, triggers: Value) -> Value {
    json!({"metadata": {"name": "orders", "namespace": "lab"}, "spec": {"dependencies": dependencies, "triggers": triggers}})
}

pub fn orders() -> Value {
    sensor_of(
        json!([dependency("order", "orders")]),
        json!([trigger("start", "order")]),
    )
}

fn filtered(value: &str) -> Value {
    let mut order = dependency("order", "orders");
    order["filters"] = json!({"data": [{"path": "body.kind", "type": "string", "value": [value]}]});
    sensor_of(json!([order]), json!([trigger("start", "order")]))
}

#[tokio::test]
async fn it_starts_in_upstreams_order() {
    let world = World::allowed().await;
    let pod = world.start("orders-sensor-1", &orders()).await;
    let lines = pod.lines();
    let consumer = &world.consumers().await[0];
    let wanted = [
        "starting sensor server".to_owned(),
        "Not the LEADER, stand by ...".to_owned(),
        "Becoming a Candidate, stand by ...".to_owned(),
        "I'm the LEADER, starting ...".to_owned(),
        "successfully created/located K/V store for sensor orders".to_owned(),
        "Dependency expression for trigger start: order".to_owned(),
        "started subscribing to events for trigger start with client connection JetstreamTriggerConn{Sensor:orders,Trigger:start}".to_owned(),
        format!("Subscribing to subject default.webhook.orders with durable name {}", consumer.durable),
        format!("successfully subscribed to subject default.webhook.orders with durable name {}", consumer.durable),
    ];
    let mut rest = lines.iter();
    for text in &wanted {
        assert!(
            rest.any(|line| message(line) == text),
            "{text} is missing or out of order"
        );
    }
    let success = lines
        .iter()
        .find(|line| message(line).starts_with("successfully subscribed"))
        .unwrap();
    assert_eq!(
        (&success["level"], &success["logger"]),
        (&"debug".into(), &"argo-events.sensor".into())
    );
    assert_eq!(
        (&success["sensorName"], &success["triggerName"]),
        (&"orders".into(), &"start".into())
    );
    until("it pulls", || async {
        world.consumers().await[0].num_waiting >= 1
    })
    .await;
}

#[tokio::test]
async fn an_event_becomes_a_workflow_with_argos_labels() {
    let world = World::allowed().await;
    let pod = world.start("orders-sensor-1", &orders()).await;
    world.post("id-1", &json!({"body": {}})).await;
    world.arrives(&["id-1"]).await;
    let workflow = &world.workflows().await[0];
    let labels = &workflow["metadata"]["labels"];
    assert_eq!(labels["events.argoproj.io/sensor"], "orders");
    assert_eq!(labels["events.argoproj.io/trigger"], "start");
    labels["events.argoproj.io/action-timestamp"]
        .as_str()
        .unwrap()
        .parse::<u64>()
        .unwrap();
    let line = pod
        .waits_for("Successfully processed trigger 'start'")
        .await;
    assert_eq!(
        (&line["triggeredBy"], &line["triggeredByEvents"]),
        (&json!(["order"]), &json!(["id-1"]))
    );
    assert_eq!(
        (&line["level"], &line["triggerType"]),
        (&"info".into(), &"Kubernetes".into())
    );
    assert_eq!(
        pod.said("Triggering actions after receiving dependency order")
            .len(),
        1
    );
    world.settled().await;
}

#[tokio::test]
async fn what_came_before_the_subscription_is_never_delivered() {
    let world = World::allowed().await;
    // The stream is there already, as it is when the EventSource started first.
    let pod = world
        .start(
            "orders-sensor-0",
            &sensor_of(
                json!([dependency("other", "other")]),
                json!([trigger("t", "other")]),
            ),
        )
        .await;
    world.post("early", &json!({})).await;
    drop(pod);
    let named = |name: &str| {
        let mut sensor = orders();
        sensor["metadata"]["name"] = name.into();
        sensor
    };
    let mut pod = world.start("orders-sensor-1", &named("orders-b")).await;
    world.post("late", &json!({})).await;
    world.arrives(&["late"]).await;
    assert_eq!(pod.end().await, 0);
    // The consumer keeps its place while nobody is there.
    world.post("meanwhile", &json!({})).await;
    let _pod = world.start("orders-sensor-2", &named("orders-b")).await;
    world.arrives(&["late", "meanwhile"]).await;
}

#[tokio::test]
async fn a_second_pod_stands_by_until_the_first_is_gone() {
    let world = World::allowed().await;
    let mut first = world.start("orders-sensor-1", &orders()).await;
    let second = world.pod("orders-sensor-2", &orders()).start();
    second.waits_for("Not the LEADER, stand by ...").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(
        second.said("Becoming a Candidate, stand by ...").is_empty(),
        "the first is alive"
    );
    first.kill();
    subscribed(&second, 1).await;
    world.post("id-1", &json!({})).await;
    world.arrives(&["id-1"]).await;
    assert_eq!(
        world.consumers().await.len(),
        1,
        "it took over the consumer"
    );
}

#[tokio::test]
async fn a_changed_filter_starts_the_consumer_anew_and_an_equal_one_does_not() {
    let world = World::allowed().await;
    let mut pod = world.start("orders-sensor-1", &filtered("a")).await;
    let created = world.consumers().await[0].created;
    pod.kill();
    world.post("kept", &json!({"body": {"kind": "a"}})).await;
    let mut pod = world.start("orders-sensor-2", &filtered("a")).await;
    world.arrives(&["kept"]).await;
    assert_eq!(world.consumers().await[0].created, created);
    assert_eq!(pod.end().await, 0);

    world
        .post("judged by nobody", &json!({"body": {"kind": "b"}}))
        .await;
    let pod = world.start("orders-sensor-3", &filtered("b")).await;
    let line = pod
        .waits_for("Comparison of previous dependencies definitions to current")
        .await;
    assert!(
        message(&line).ends_with("changed=[order], removed=[], still valid=[]"),
        "{line}"
    );
    assert!(world.consumers().await[0].created > created);
    world.post("new", &json!({"body": {"kind": "b"}})).await;
    world.arrives(&["kept", "new"]).await;
}

#[tokio::test]
async fn discard_lines_carry_the_id_and_the_reason() {
    let world = World::allowed().await;
    let pod = world.start("orders-sensor-1", &filtered("order")).await;
    world
        .post("mismatch", &json!({"body": {"kind": "refund"}}))
        .await;
    world.post("missing", &json!({"body": {}})).await;
    world
        .post("good", &json!({"body": {"kind": "order"}}))
        .await;
    world.arrives(&["good"]).await;
    let data = r#"{"body":{"kind":"refund"}}"#;
    let text = format!(
        "Event [ID 'mismatch', Source 'webhook', Time '2026-01-02T03:04:05Z', Data '{data}'] discarded due to filtering"
    );
    assert_eq!(pod.said(&text)[0]["level"], "debug");
    let error = pod.waits_for("Event [ID 'missing', ").await;
    assert_eq!(error["level"], "warn");
    assert!(
        message(&error).contains("discarded due to filtering error: data filter error (path "),
        "{error}"
    );
    assert_eq!(
        pod.said("not interested in dependency order (didn't pass filter)")
            .len(),
        2
    );
    world.settled().await;
}

#[tokio::test]
async fn a_condition_waits_for_both_across_a_restart_and_keeps_the_latest_of_each() {
    let world = World::allowed().await;
    let dependencies = json!([
        dependency("order", "orders"),
        dependency("payment", "payments")
    ]);
    let both = sensor_of(dependencies, json!([trigger("start", "order")]));
    let mut pod = world.pod("orders-sensor-1", &both).start();
    subscribed(&pod, 2).await;
    world.post_to("orders", "order-1", &json!({})).await;
    pod.waits_for("Current state of dependencies: map[order:true payment:false]")
        .await;
    world.settled().await;
    assert!(world.workflows().await.is_empty());
    pod.kill();
    let pod = world.pod("orders-sensor-2", &both).start();
    subscribed(&pod, 2).await;
    // The second order takes the place of the first, which no payment meets any more.
    world.post_to("orders", "order-2", &json!({})).await;
    pod.waits_for("Current state of dependencies: map[order:true payment:false]")
        .await;
    world.settled().await;
    world.post_to("payments", "payment-1", &json!({})).await;
    world.arrives(&["order-2"]).await;
    let line = pod
        .waits_for("Successfully processed trigger 'start'")
        .await;
    assert_eq!(line["triggeredBy"], json!(["order", "payment"]));
    assert_eq!(line["triggeredByEvents"], json!(["order-2", "payment-1"]));
    // The state is cleared: one of them is not enough again.
    world.post_to("payments", "payment-2", &json!({})).await;
    pod.waits_for("Current state of dependencies: map[order:false payment:true]")
        .await;
    world.settled().await;
    assert_eq!(world.workflows().await.len(), 1);
}

#[tokio::test]
async fn dependencies_on_one_event_share_a_consumer_named_after_the_last() {
    let world = World::allowed().await;
    let dependencies = json!([dependency("one", "orders"), dependency("two", "orders")]);
    let mut start = trigger("start", "one");
    start["template"]["conditions"] = "one || two".into();
    let parameter = json!({"src": {"dependencyName": "two", "contextKey": "subject"}, "dest": "metadata.labels.two"});
    start["template"]["k8s"]["parameters"]
        .as_array_mut()
        .unwrap()
        .push(parameter);
    let pod = world
        .start("orders-sensor-1", &sensor_of(dependencies, json!([start])))
        .await;
    world.post("id-1", &json!({})).await;
    until("both are acted on", || async {
        world.workflows().await.len() == 2
    })
    .await;
    assert_eq!(world.consumers().await.len(), 1);
    pod.waits_for("durable name for sensor='orders', trigger='start', dep='two'")
        .await;
    assert_eq!(
        pod.said("Dependency expression for trigger start: one||two")
            .len(),
        1
    );
}

#[tokio::test]
async fn a_forbidden_trigger_loses_the_event() {
    let world = World::new().await;
    let pod = world.start("orders-sensor-1", &orders()).await;
    world.post("lost", &json!({})).await;
    until("both lines", || async {
        pod.said("Failed to execute a trigger").len() == 2
    })
    .await;
    let lines = pod.said("Failed to execute a trigger");
    let text = "failed to execute trigger, workflows.argoproj.io is forbidden: User \
                \"system:serviceaccount:lab:order-sensor\" cannot create resource \"workflows\" in API group \
                \"argoproj.io\" in the namespace \"lab\"";
    assert!(
        lines
            .iter()
            .all(|line| line["error"] == text && line["level"] == "error"),
        "{lines:?}"
    );
    assert_eq!(lines[0]["triggeredByEvents"], json!(["lost"]));
    assert!(lines[0]["stacktrace"].is_string() && lines[1]["triggeredByEvents"].is_null());
    world.settled().await;
    world.allow().await;
    world.post("next", &json!({})).await;
    world.arrives(&["next"]).await;
    let metrics = metrics(&pod).await;
    let count = |name: &str| {
        let line =
            format!("{name}{{namespace=\"lab\",sensor_name=\"orders\",trigger_name=\"start\"}} ");
        metrics
            .split_once(&line)
            .unwrap()
            .1
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(count("argo_events_action_triggered_total"), "1");
    assert_eq!(count("argo_events_action_failed_total"), "1");
    assert_eq!(count("argo_events_action_retries_failed_total"), "1");
}

pub async fn metrics(pod: &Pod) -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = format!("http://{}/metrics", pod.address(7777).await);
    reqwest::get(url).await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn at_least_once_retries_and_then_gives_up_the_event() {
    let world = World::new().await;
    let mut start = trigger("start", "order");
    start["atLeastOnce"] = true.into();
    start["retryStrategy"] = json!({"steps": 3, "duration": "10ms"});
    let sensor = sensor_of(json!([dependency("order", "orders")]), json!([start]));
    let pod = world.start("orders-sensor-1", &sensor).await;
    world.post("lost", &json!({})).await;
    let line = pod
        .waits_for("failed to trigger actions, failed after retries: failed to execute trigger, ")
        .await;
    assert_eq!(line["level"], "warn");
    assert_eq!(pod.said("Failed to execute a trigger").len(), 3);
    world.settled().await;
    world.allow().await;
    world.post("next", &json!({})).await;
    world.arrives(&["next"]).await;
}

/// A right that is given while the trigger is tried again comes in time; one that is given afterwards does not.
#[tokio::test]
async fn a_right_that_comes_during_the_retries_saves_the_event() {
    let world = World::new().await;
    let mut start = trigger("start", "order");
    start["atLeastOnce"] = true.into();
    start["retryStrategy"] = json!({"steps": 500, "duration": "20ms", "factor": 1.0});
    let sensor = sensor_of(json!([dependency("order", "orders")]), json!([start]));
    let pod = world.start("orders-sensor-1", &sensor).await;
    world.post("late", &json!({})).await;
    until("a refusal", || async {
        !pod.said("Failed to execute a trigger").is_empty()
    })
    .await;
    assert!(world.workflows().await.is_empty());
    world.allow().await;
    world.arrives(&["late"]).await;
    world.settled().await;
}

#[tokio::test]
async fn at_most_once_ignores_the_retry_strategy() {
    let world = World::new().await;
    let mut start = trigger("start", "order");
    start["retryStrategy"] = json!({"steps": 5, "duration": "1ms"});
    let pod = world
        .start(
            "orders-sensor-1",
            &sensor_of(json!([dependency("order", "orders")]), json!([start])),
        )
        .await;
    world.post("lost", &json!({})).await;
    world.post("lost too", &json!({})).await;
    until("two lines each", || async {
        pod.said("Failed to execute a trigger").len() == 4
    })
    .await;
    assert_eq!(pod.said("Successfully processed trigger 'start'").len(), 0);
}

#[tokio::test]
async fn a_pod_killed_before_the_ack_gets_the_event_again() {
    let world = World::allowed().await;
    let mut start = trigger("start", "order");
    start["atLeastOnce"] = true.into();
    let sensor = sensor_of(json!([dependency("order", "orders")]), json!([start]));
    let mut stuck = world
        .pod("orders-sensor-1", &sensor)
        .client(silent_api)
        .start();
    subscribed(&stuck, 1).await;
    world.post("id-1", &json!({})).await;
    stuck.waits_for("creating the object...").await;
    // Longer than the ack wait: a message in work is not handed out again.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let state = world.consumers().await[0].clone();
    assert_eq!((state.num_ack_pending, state.num_redelivered), (1, 0));
    stuck.kill();
    let _pod = world.start("orders-sensor-2", &sensor).await;
    world.arrives(&["id-1"]).await;
    world.settled().await;
    assert_eq!(world.workflows().await.len(), 1);
}

/// An API that takes every request and never answers.
fn silent_api() -> kube::Client {
    let wait = tower::service_fn(|_: http::Request<kube::client::Body>| {
        futures::future::pending::<
            Result<http::Response<kube::client::Body>, std::convert::Infallible>,
        >()
    });
    kube::Client::new(wait, "lab")
}

/// What the caller hears of its first create, which the API has carried out.
#[derive(Clone, Copy)]
enum Heard {
    Nothing,
    GatewayTimeout,
}

/// An API whose answer to the first create is lost.
fn answer_lost(api: kube::Client, heard: Heard) -> kube::Client {
    let first = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (api, first) = (api.clone(), Arc::clone(&first));
        async move {
            let create = request.method() == http::Method::POST;
            let answer = api.send(request).await?;
            if !create || !first.swap(false, std::sync::atomic::Ordering::Relaxed) {
                return Ok::<_, kube::Error>(answer);
            }
            match heard {
                Heard::Nothing => std::future::pending().await,
                Heard::GatewayTimeout => {
                    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 504,
                        "reason": "Timeout", "message": "the server was unable to return a response in time"});
                    let body = kube::client::Body::from(status.to_string().into_bytes());
                    let mut lost = http::Response::new(body);
                    *lost.status_mut() = http::StatusCode::GATEWAY_TIMEOUT;
                    Ok(lost)
                }
            }
        }
    });
    kube::Client::new(service, "lab")
}

/// Whatever the answer to a create is lost by, at least once means a second Workflow of one arrival: it is the business
/// key's to know the order.
#[tokio::test]
async fn a_create_whose_answer_is_lost_is_made_again() {
    for heard in [Heard::Nothing, Heard::GatewayTimeout] {
        let world = World::allowed().await;
        let mut start = trigger("start", "order");
        start["atLeastOnce"] = true.into();
        start["retryStrategy"] = json!({"steps": 3, "duration": "10ms"});
        let sensor = sensor_of(json!([dependency("order", "orders")]), json!([start]));
        let server = Arc::clone(&world.lab.server);
        let token = server.service_account_token("lab", "order-sensor");
        let mut pod = world
            .pod("orders-sensor-1", &sensor)
            .client(move || answer_lost(server.client_in(&token, "lab"), heard))
            .start();
        subscribed(&pod, 1).await;
        world.post("id-1", &json!({})).await;
        let _next = match heard {
            Heard::Nothing => {
                world.arrives(&["id-1"]).await;
                pod.kill();
                Some(world.start("orders-sensor-2", &sensor).await)
            }
            Heard::GatewayTimeout => None,
        };
        world.arrives(&["id-1", "id-1"]).await;
        world.settled().await;
        assert_eq!(world.workflows().await.len(), 2);
    }
}

/// The order id as the Workflow's name: a guard while the Workflow is there, and only for ids that can be names. None of
/// the refusals is a matter of rights.
#[tokio::test]
async fn an_order_id_as_a_name_guards_some_orders_and_refuses_others() {
    let world = World::allowed().await;
    let mut start = trigger("start", "order");
    let name = json!({"src": {"dependencyName": "order", "dataKey": "body.orderId"}, "dest": "metadata.name"});
    start["template"]["k8s"]["parameters"]
        .as_array_mut()
        .unwrap()
        .push(name);
    let resource = &mut start["template"]["k8s"]["source"]["resource"]["metadata"];
    resource.as_object_mut().unwrap().remove("generateName");
    let sensor = sensor_of(json!([dependency("order", "orders")]), json!([start]));
    let pod = world.start("orders-sensor-1", &sensor).await;
    let long = "x".repeat(80);
    let too_long = "x".repeat(254);
    let taken = ["order-7", "42", &long];
    let refused = [
        "order-7",
        "ORD_1",
        "Order-8",
        "bestellung-ü",
        " order-9",
        &too_long,
    ];
    for (number, id) in taken.iter().chain(&refused).enumerate() {
        world
            .post(&format!("id-{number}"), &json!({"body": {"orderId": id}}))
            .await;
    }
    until("every refusal", || async {
        pod.said("Failed to execute a trigger").len() == 2 * refused.len()
    })
    .await;
    world.settled().await;
    let mut names: Vec<String> = world
        .workflows()
        .await
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["42", "order-7", long.as_str()]);
    let lines = pod.said("Failed to execute a trigger");
    let errors: Vec<&str> = lines
        .iter()
        .map(|line| line["error"].as_str().unwrap())
        .collect();
    assert!(
        errors[0].contains("\"order-7\" already exists"),
        "{errors:?}"
    );
    assert!(
        errors.iter().all(|error| !error.contains("forbidden")),
        "{errors:?}"
    );
    let invalid = errors
        .iter()
        .filter(|error| error.contains("is invalid: metadata.name"));
    assert_eq!(invalid.count(), 2 * (refused.len() - 1), "{errors:?}");
}

#[tokio::test]
async fn sigterm_leaves_the_message_in_work_unacknowledged() {
    let world = World::allowed().await;
    let mut start = trigger("start", "order");
    start["atLeastOnce"] = true.into();
    let sensor = sensor_of(json!([dependency("order", "orders")]), json!([start]));
    let mut stuck = world
        .pod("orders-sensor-1", &sensor)
        .client(silent_api)
        .start();
    subscribed(&stuck, 1).await;
    world.post("id-1", &json!({})).await;
    stuck.waits_for("creating the object...").await;
    assert_eq!(stuck.end().await, 0);
    assert_eq!(world.consumers().await[0].num_ack_pending, 1);
}

#[tokio::test]
async fn a_hundred_events_become_a_hundred_workflows() {
    let world = World::allowed().await;
    let _pod = world.start("orders-sensor-1", &orders()).await;
    let ids: Vec<String> = (0..100).map(|number| format!("id-{number:03}")).collect();
    for id in &ids {
        world.post(id, &json!({"body": {"orderId": id}})).await;
    }
    world
        .arrives(&ids.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    world.settled().await;
}

#[tokio::test]
async fn a_lost_bus_is_reported_and_found_again() {
    let mut world = World::allowed().await;
    let pod = world.start("orders-sensor-1", &orders()).await;
    world.bus.stop();
    pod.waits_for("NATS connection lost").await;
    pod.waits_for("failed to fetch messages for subscription ")
        .await;
    pod.waits_for("EventBus connection lost, reconnecting...")
        .await;
    let line = pod.waits_for("failed to reconnect to eventbus").await;
    assert_eq!(line["error"], "nats: no servers available for connection");
    world.bus.serve();
    pod.waits_for("reconnected to EventBus.").await;
    subscribed(&pod, 2).await;
    world.post("id-1", &json!({})).await;
    world.arrives(&["id-1"]).await;
}

#[tokio::test]
async fn what_is_not_supported_is_named_and_not_subscribed() {
    let world = World::allowed().await;
    let mut scripted = dependency("scripted", "scripts");
    scripted["transform"] = json!({"jq": "input"});
    let mut other = json!({"template": {"name": "cli", "argoWorkflow": {"operation": "resubmit", "source": {}}}});
    other["template"]["conditions"] = "order".into();
    let (mut start, mut transformed) = (
        trigger("start", "order"),
        trigger("transformed", "scripted"),
    );
    start["template"]["conditions"] = "order".into();
    transformed["template"]["conditions"] = "scripted".into();
    let sensor = sensor_of(
        json!([dependency("order", "orders"), scripted]),
        json!([other, transformed, start]),
    );
    let pod = world.start("orders-sensor-1", &sensor).await;
    let cli = pod
        .waits_for("eventlab: trigger cli is not subscribed: ")
        .await;
    assert!(
        cli["level"] == "error" && message(&cli).contains("argoWorkflow"),
        "{cli}"
    );
    let transform = pod
        .waits_for("eventlab: trigger transformed is not subscribed: ")
        .await;
    assert!(
        message(&transform).contains("dependency scripted: eventlab: `input/0`"),
        "{transform}"
    );
    world.post("id-1", &json!({})).await;
    world.arrives(&["id-1"]).await;
    assert_eq!(world.consumers().await.len(), 1);
}

#[tokio::test]
async fn a_transform_makes_what_filters_and_parameters_see() {
    let world = World::allowed().await;
    let mut order = dependency("order", "orders");
    order["transform"] = json!({"jq": "{kind: .body.kind, short: (.body.id | ascii_downcase)}"});
    order["filters"] = json!({"data": [{"path": "kind", "type": "string", "value": ["^order$"]}]});
    let mut start = trigger("start", "order");
    let short = json!({"src": {"dependencyName": "order", "dataKey": "short"}, "dest": "metadata.labels.short"});
    start["template"]["k8s"]["parameters"]
        .as_array_mut()
        .unwrap()
        .push(short);
    let pod = world
        .start(
            "orders-sensor-1",
            &sensor_of(json!([order]), json!([start])),
        )
        .await;
    // A transform that fails takes the event with it, without a word of its id.
    world
        .post("id-1", &json!({"body": {"kind": "order", "id": 5}}))
        .await;
    let line = pod
        .waits_for("failed to apply event transformation, ")
        .await;
    assert_eq!(line["level"], "error");
    assert!(!line.to_string().contains("id-1"), "{line}");
    world
        .post("id-2", &json!({"body": {"kind": "order", "id": "O-2"}}))
        .await;
    world.arrives(&["id-2"]).await;
    assert_eq!(
        world.workflows().await[0]["metadata"]["labels"]["short"],
        "o-2"
    );
}

#[tokio::test]
async fn what_was_half_met_before_the_last_reset_is_forgotten() {
    let world = World::allowed().await;
    let mut start = trigger("start", "order");
    start["template"]["conditionsReset"] =
        json!([{"byTime": {"cron": "0 0 * * *", "timezone": "Europe/Berlin"}}]);
    let dependencies = json!([
        dependency("order", "orders"),
        dependency("payment", "payments")
    ]);
    let both = sensor_of(dependencies, json!([start]));
    let mut pod = world.pod("orders-sensor-1", &both).start();
    subscribed(&pod, 2).await;
    pod.waits_for("previous trigger time: ").await;
    world.post_to("orders", "order-1", &json!({})).await;
    pod.waits_for("Current state of dependencies: map[order:true payment:false]")
        .await;
    world.settled().await;
    pod.kill();
    // Made as old as one that came the day before.
    let bus = world.bus.bus().await;
    let stored = bus
        .bucket_get("orders", "start/order")
        .await
        .unwrap()
        .unwrap();
    let mut old: Value = serde_json::from_slice(&stored).unwrap();
    old["Timestamp"] = "2020-01-01T00:00:00Z".into();
    bus.bucket_put("orders", "start/order", old.to_string().into_bytes())
        .await
        .unwrap();
    let pod = world.pod("orders-sensor-2", &both).start();
    subscribed(&pod, 2).await;
    world.post_to("payments", "payment-1", &json!({})).await;
    pod.waits_for("Current state of dependencies: map[order:false payment:true]")
        .await;
    world.settled().await;
    assert!(world.workflows().await.is_empty());
}

#[tokio::test]
async fn a_policy_looks_at_the_object_until_it_has_its_labels() {
    let world = World::allowed().await;
    let policy = |labels: Value, fails: bool| {
        let backoff = json!({"steps": 2, "duration": "10ms", "jitter": 0});
        json!({"k8s": {"labels": labels, "backoff": backoff, "errorOnBackoffTimeout": fails}})
    };
    let mut start = trigger("start", "order");
    start["policy"] = policy(json!({"phase": "Succeeded"}), true);
    let with = |start: &Value| sensor_of(json!([dependency("order", "orders")]), json!([start]));
    let mut pod = world.start("orders-sensor-1", &with(&start)).await;
    world.post("id-1", &json!({})).await;
    // The object is created; to look at it is a right of its own.
    let line = pod.waits_for("Failed to execute a trigger").await;
    assert!(
        line["error"]
            .as_str()
            .unwrap()
            .contains("cannot get resource \"workflows\""),
        "{line}"
    );
    pod.kill();
    let rules =
        json!([{"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["get"]}]);
    world.allow_to("look", rules).await;
    let mut pod = world.start("orders-sensor-2", &with(&start)).await;
    world.post("id-2", &json!({})).await;
    let line = pod.waits_for("Failed to execute a trigger").await;
    assert_eq!(
        line["error"],
        "failed to determine status of the triggered resource. setting trigger state as failed"
    );
    pod.kill();
    // A label that Argo itself puts on the object is there at the first look.
    start["policy"] = policy(json!({"events.argoproj.io/trigger": "start"}), true);
    let pod = world.start("orders-sensor-3", &with(&start)).await;
    world.post("id-3", &json!({})).await;
    pod.waits_for("Successfully processed trigger 'start'")
        .await;
    world.arrives(&["id-1", "id-2", "id-3"]).await;
}

#[tokio::test]
async fn unknown_names_in_conditions_are_reported() {
    let world = World::allowed().await;
    let mut start = trigger("start", "order");
    start["template"]["conditions"] = "order && nobody".into();
    let sensor = sensor_of(json!([dependency("order", "orders")]), json!([start]));
    let pod = world.pod("orders-sensor-1", &sensor).start();
    let line = pod.waits_for("failed to get dependency expression").await;
    assert_eq!(
        (&line["level"], &line["triggerName"]),
        (&"error".into(), &"start".into())
    );
    pod.waits_for("Sensor started.").await;
    assert!(world.consumers().await.is_empty());
}

#[tokio::test]
async fn a_removed_trigger_leaves_its_consumer_behind() {
    let world = World::allowed().await;
    let two = json!([trigger("start", "order"), trigger("audit", "order")]);
    let mut pod = world
        .pod(
            "orders-sensor-1",
            &sensor_of(json!([dependency("order", "orders")]), two),
        )
        .start();
    subscribed(&pod, 2).await;
    pod.kill();
    let pod = world.start("orders-sensor-2", &orders()).await;
    let line = pod
        .waits_for("Comparison of previous trigger list to current")
        .await;
    assert!(
        message(&line).ends_with("changed=[], removed=[audit], still valid=[start]"),
        "{line}"
    );
    assert_eq!(world.consumers().await.len(), 2);
}
