//! What triggers do over the running Sensor: create, update, patch, delete, submit, log; dead letters, rates and resets.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api_support::{create, send};
use crate::sensor_service::{World, dependency, message, metrics, sensor_of, subscribed, trigger};
use crate::service_pods::{Pod, until};

const MAPS: &str = "/api/v1/namespaces/lab/configmaps";

fn rights(resources: &[&str], verbs: &[&str]) -> Value {
    json!([{"apiGroups": ["", "argoproj.io"], "resources": resources, "verbs": verbs}])
}

/// A Sensor whose one trigger has this template.
fn acting(template: Value) -> Value {
    let mut template = template;
    template["name"] = "start".into();
    sensor_of(
        json!([dependency("order", "orders")]),
        json!([{"template": template, "atLeastOnce": true}]),
    )
}

/// A trigger on ConfigMap `stock`, with a parameter that counts.
fn stock(operation: &str, more: Value) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stock", "labels": {"new": "yes"}},
        "data": {"count": "0", "unit": "piece"}});
    let count =
        json!({"src": {"dependencyName": "order", "dataKey": "body.count"}, "dest": "data.count"});
    let mut k8s =
        json!({"operation": operation, "source": {"resource": map}, "parameters": [count]});
    for (key, value) in more.as_object().unwrap() {
        k8s[key] = value.clone();
    }
    acting(json!({ "k8s": k8s }))
}

async fn stock_now(world: &World) -> Option<Value> {
    let path = format!("{MAPS}/stock");
    let (code, map) = send(&world.lab, "GET", &path, "application/json", "").await;
    (code == 200).then_some(map)
}

async fn stocked(world: &World) {
    let map = json!({"metadata": {"name": "stock", "labels": {"old": "yes"}}, "data": {"count": "7", "shelf": "A"}});
    create(&world.lab, MAPS, map).await;
}

fn errors(pod: &Pod) -> Vec<String> {
    pod.said("Failed to execute a trigger")
        .iter()
        .map(|line| line["error"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn an_update_takes_its_object_into_the_one_that_is_there() {
    let world = World::new().await;
    world
        .allow_to(
            "maps",
            rights(&["configmaps"], &["get", "create", "update"]),
        )
        .await;
    let pod = world
        .start("orders-sensor-1", &stock("update", json!({})))
        .await;
    // There is none yet: it is created, without Argo's labels.
    world.post("id-1", &json!({"body": {"count": 1}})).await;
    pod.waits_for("object not found, creating the object...")
        .await;
    pod.waits_for("Successfully processed trigger 'start'")
        .await;
    let made = stock_now(&world).await.unwrap();
    assert_eq!(made["data"], json!({"count": "1", "unit": "piece"}));
    assert_eq!(made["metadata"]["labels"], json!({"new": "yes"}));
    let path = format!("{MAPS}/stock");
    send(&world.lab, "DELETE", &path, "application/json", "").await;
    stocked(&world).await;
    world.post("id-2", &json!({"body": {"count": 2}})).await;
    until("the update", || async {
        stock_now(&world)
            .await
            .is_some_and(|map| map["data"]["count"] == "2")
    })
    .await;
    let map = stock_now(&world).await.unwrap();
    assert_eq!(
        map["data"],
        json!({"count": "2", "shelf": "A", "unit": "piece"})
    );
    assert_eq!(
        map["metadata"]["labels"],
        json!({"old": "yes", "new": "yes"})
    );
    assert_eq!(pod.said("updating the object...").len(), 2);
}

#[tokio::test]
async fn a_patch_names_how_it_is_merged() {
    let world = World::new().await;
    world
        .allow_to("maps", rights(&["configmaps"], &["get", "patch"]))
        .await;
    stocked(&world).await;
    for (strategy, id) in [
        (json!({}), "id-1"),
        (
            json!({"patchStrategy": "application/strategic-merge-patch+json"}),
            "id-2",
        ),
    ] {
        let mut pod = world.start(id, &stock("patch", strategy)).await;
        world.post(id, &json!({"body": {"count": id}})).await;
        pod.waits_for("patching the object...").await;
        pod.waits_for("Successfully processed trigger 'start'")
            .await;
        let map = stock_now(&world).await.unwrap();
        assert_eq!(
            map["data"],
            json!({"count": id, "shelf": "A", "unit": "piece"})
        );
        pod.kill();
    }
    // An object is no list of operations, and an apply patch wants a field manager, which upstream does not name.
    for (strategy, said) in [
        ("application/json-patch+json", "cannot unmarshal"),
        (
            "application/apply-patch+yaml",
            "is required for apply patch",
        ),
    ] {
        let sensor = stock("patch", json!({"patchStrategy": strategy}));
        let mut pod = world
            .start(strategy.rsplit('/').next().unwrap(), &sensor)
            .await;
        world.post(strategy, &json!({"body": {"count": 9}})).await;
        pod.waits_for("Failed to execute a trigger").await;
        let error = errors(&pod).remove(0);
        assert!(error.contains(said), "{strategy}: {error}");
        pod.kill();
    }
    assert_eq!(stock_now(&world).await.unwrap()["data"]["count"], "id-2");
}

#[tokio::test]
async fn a_delete_wants_a_look_first_and_is_content_with_nothing() {
    let world = World::new().await;
    stocked(&world).await;
    let sensor = stock("delete", json!({}));
    let pod = world.start("orders-sensor-1", &sensor).await;
    world.post("id-1", &json!({"body": {"count": 1}})).await;
    pod.waits_for("Failed to execute a trigger").await;
    assert!(
        errors(&pod)[0].starts_with(
            "failed to execute trigger, failed to retrieve existing object. err: configmaps \"stock\" is forbidden: "
        ),
        "{:?}",
        errors(&pod)
    );
    world
        .allow_to("look", rights(&["configmaps"], &["get"]))
        .await;
    world.post("id-2", &json!({"body": {"count": 1}})).await;
    until("a second error", || async { errors(&pod).len() >= 2 }).await;
    assert!(
        errors(&pod)[1].starts_with("failed to execute trigger, failed to delete object. err: "),
        "{:?}",
        errors(&pod)
    );
    world
        .allow_to("remove", rights(&["configmaps"], &["delete"]))
        .await;
    world.post("id-3", &json!({"body": {"count": 1}})).await;
    until("it is gone", || async { stock_now(&world).await.is_none() }).await;
    world.post("id-4", &json!({"body": {"count": 1}})).await;
    pod.waits_for("object not found, nothing to delete...")
        .await;
    until("both succeed", || async {
        pod.said("Successfully processed trigger 'start'").len() == 2
    })
    .await;
}

#[tokio::test]
async fn a_live_object_takes_the_parameters() {
    let world = World::new().await;
    world
        .allow_to("maps", rights(&["configmaps"], &["get", "update"]))
        .await;
    stocked(&world).await;
    let mut sensor = stock("update", json!({"liveObject": true}));
    let k8s = &mut sensor["spec"]["triggers"][0]["template"]["k8s"];
    k8s["source"]["resource"]["metadata"]["namespace"] = "lab".into();
    let pod = world.start("orders-sensor-1", &sensor).await;
    world.post("id-1", &json!({"body": {"count": 3}})).await;
    pod.waits_for("Successfully processed trigger 'start'")
        .await;
    let map = stock_now(&world).await.unwrap();
    // What the source says beside the name is not looked at.
    assert_eq!(map["data"], json!({"count": "3", "shelf": "A"}));
    assert_eq!(map["metadata"]["labels"], json!({"old": "yes"}));
}

#[tokio::test]
async fn an_object_without_a_name_can_only_be_created() {
    let world = World::new().await;
    let resource =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}});
    let sensor = acting(json!({"k8s": {"operation": "update", "source": {"resource": resource}}}));
    let pod = world.start("orders-sensor-1", &sensor).await;
    world.post("id-1", &json!({})).await;
    pod.waits_for("Failed to execute a trigger").await;
    assert_eq!(
        errors(&pod)[0],
        "failed to execute trigger, failed to retrieve existing object. err: name is required"
    );
}

#[tokio::test]
async fn a_log_trigger_writes_every_event() {
    let world = World::new().await;
    let pod = world
        .start(
            "orders-sensor-1",
            &acting(json!({"log": {"intervalSeconds": 3600}})),
        )
        .await;
    for id in ["id-1", "id-2"] {
        world.post(id, &json!({"body": {"kind": id}})).await;
        let line = pod
            .waits_for(&format!(r#"{{"body":{{"kind":"{id}"}}}}"#))
            .await;
        assert_eq!(
            (
                &line["level"],
                &line["triggerType"],
                &line["dependencyName"]
            ),
            (&"info".into(), &"Log".into(), &"order".into())
        );
        assert_eq!(line["eventContext"]["id"], id);
    }
    until("both succeed", || async {
        pod.said("Successfully processed trigger 'start'").len() == 2
    })
    .await;
    world.settled().await;
}

#[tokio::test]
async fn a_submitted_workflow_is_looked_up_afterwards() {
    let world = World::allowed().await;
    let workflow = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "order-"},
        "spec": {"workflowTemplateRef": {"name": "process-order"}}});
    let sensor =
        acting(json!({"argoWorkflow": {"operation": "submit", "source": {"resource": workflow}}}));
    let pod = world.start("orders-sensor-1", &sensor).await;
    let failed = |number: usize, said: &'static str| {
        let pod = &pod;
        async move {
            until(said, || async { errors(pod).len() >= number }).await;
            let error = errors(pod).remove(number - 1);
            assert!(error.contains(said), "{error}");
        }
    };
    world.post("id-1", &json!({})).await;
    failed(1, "exit status 1 (eventlab: the command line says: workflowtemplates.argoproj.io \"process-order\" is forbidden").await;
    world
        .allow_to("templates", rights(&["workflowtemplates"], &["get"]))
        .await;
    world.post("id-2", &json!({})).await;
    failed(
        2,
        "workflowtemplates.argoproj.io \"process-order\" not found",
    )
    .await;
    let template = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTemplate", "metadata": {"name": "process-order"}, "spec": {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "a"}}]}});
    create(
        &world.lab,
        "/apis/argoproj.io/v1alpha1/namespaces/lab/workflowtemplates",
        template,
    )
    .await;
    assert!(world.workflows().await.is_empty());
    // Without the right to list, the failure comes after the Workflow was made.
    world.post("id-3", &json!({})).await;
    failed(3, "cannot list resource \"workflows\"").await;
    assert_eq!(world.workflows().await.len(), 1);
    world
        .allow_to("list", rights(&["workflows"], &["list"]))
        .await;
    world.post("id-4", &json!({})).await;
    let line = pod
        .waits_for("Successfully processed trigger 'start'")
        .await;
    assert_eq!(line["triggerType"], "ArgoWorkflow");
    let workflows = world.workflows().await;
    assert_eq!(workflows.len(), 2);
    assert_eq!(
        workflows[1]["metadata"]["labels"]["events.argoproj.io/sensor"],
        "orders"
    );
}

/// A trigger without rights whose dead letters become ConfigMaps.
fn with_dead_letters(at_least_once: bool) -> Value {
    let arrival = json!({"src": {"dependencyName": "order", "contextKey": "id"}, "dest": "metadata.name", "operation": "append"});
    let letter = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dead-"}});
    let mut start = trigger("start", "order");
    start["atLeastOnce"] = at_least_once.into();
    start["retryStrategy"] = json!({"steps": 2, "duration": "5ms"});
    start["dlqTrigger"] = json!({"atLeastOnce": true, "retryStrategy": {"steps": 3, "duration": "5ms"},
        "template": {"name": "letters", "k8s": {"source": {"resource": letter}, "parameters": [arrival]}}});
    sensor_of(json!([dependency("order", "orders")]), json!([start]))
}

#[tokio::test]
async fn what_fails_after_its_retries_goes_to_the_dead_letter_trigger() {
    let world = World::new().await;
    let pod = world
        .start("orders-sensor-1", &with_dead_letters(true))
        .await;
    // Without rights of its own the dead letter is lost, too, after retries of its own.
    world.post("lost", &json!({})).await;
    pod.waits_for("invoking dlqTrigger").await;
    let line = pod
        .waits_for(
            "failed to trigger dlqTrigger, failed after retries: failed to execute trigger, ",
        )
        .await;
    assert_eq!(line["level"], "error");
    let of = |name: &str| {
        let lines = pod.said("Failed to execute a trigger");
        lines
            .iter()
            .filter(|line| line["triggerName"] == name)
            .count()
    };
    assert_eq!((of("start"), of("letters")), (2, 3));
    world.settled().await;
    world
        .allow_to("letters", rights(&["configmaps"], &["create"]))
        .await;
    world.post("kept", &json!({})).await;
    let path = format!("{MAPS}/dead-kept");
    until("the dead letter", || async {
        send(&world.lab, "GET", &path, "application/json", "")
            .await
            .0
            == 200
    })
    .await;
    pod.waits_for("Successfully processed trigger 'letters'")
        .await;
    world.settled().await;
    assert!(world.workflows().await.is_empty());
    let metrics = metrics(&pod).await;
    for (name, trigger, count) in [
        ("action_retries_failed_total", "start", "2"),
        ("action_retries_failed_total", "letters", "1"),
        ("action_triggered_total", "letters", "1"),
    ] {
        let line = format!(
            "argo_events_{name}{{namespace=\"lab\",sensor_name=\"orders\",trigger_name=\"{trigger}\"}} {count}\n"
        );
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn what_succeeds_leaves_no_dead_letter() {
    let world = World::allowed().await;
    world
        .allow_to("letters", rights(&["configmaps"], &["create"]))
        .await;
    let pod = world
        .start("orders-sensor-1", &with_dead_letters(true))
        .await;
    world.post("id-1", &json!({})).await;
    world.arrives(&["id-1"]).await;
    world.settled().await;
    assert!(pod.said("invoking dlqTrigger").is_empty());
    let path = format!("{MAPS}/dead-id-1");
    assert_eq!(
        send(&world.lab, "GET", &path, "application/json", "")
            .await
            .0,
        404
    );
}

#[tokio::test]
async fn a_rate_limit_spaces_the_workflows() {
    let world = World::allowed().await;
    let mut start = trigger("start", "order");
    start["atLeastOnce"] = true.into();
    start["rateLimit"] = json!({"unit": "Second", "requestsPerUnit": 5});
    let sensor = sensor_of(json!([dependency("order", "orders")]), json!([start]));
    let _pod = world.start("orders-sensor-1", &sensor).await;
    let ids = ["id-1", "id-2", "id-3", "id-4"];
    let begin = Instant::now();
    for id in ids {
        world.post(id, &json!({})).await;
    }
    world.arrives(&ids).await;
    // Of four at five a second three wait 200 ms each; a slow machine only makes it longer.
    assert!(
        begin.elapsed() >= Duration::from_millis(600),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn at_most_once_acknowledges_before_it_acts() {
    let world = World::new().await;
    let mut start = trigger("start", "order");
    start["rateLimit"] = json!({"unit": "Hour", "requestsPerUnit": 1});
    let sensor = sensor_of(json!([dependency("order", "orders")]), json!([start]));
    let pod = world.start("orders-sensor-1", &sensor).await;
    world.post("id-1", &json!({})).await;
    pod.waits_for("Failed to execute a trigger").await;
    // The second one waits an hour for its turn, and is acknowledged all the same.
    world.post("id-2", &json!({})).await;
    until("both are taken on", || async {
        pod.said("Triggering actions after receiving dependency order")
            .len()
            == 2
    })
    .await;
    world.settled().await;
    assert!(
        pod.said("Failed to execute a trigger")
            .iter()
            .all(|line| line["triggeredByEvents"] != json!(["id-2"]))
    );
}

/// `conditionsReset` at work: a schedule of every minute is met within a minute.
#[tokio::test]
#[ignore = "waits up to a minute for the clock"]
async fn a_reset_forgets_what_is_half_met_when_its_time_comes() {
    let world = World::allowed().await;
    let mut start = trigger("start", "order");
    start["template"]["conditionsReset"] = json!([{"byTime": {"cron": "* * * * *"}}]);
    let dependencies = json!([
        dependency("order", "orders"),
        dependency("payment", "payments")
    ]);
    let pod = world
        .pod("orders-sensor-1", &sensor_of(dependencies, json!([start])))
        .start();
    subscribed(&pod, 2).await;
    world.post_to("orders", "order-1", &json!({})).await;
    pod.waits_for("Current state of dependencies: map[order:true payment:false]")
        .await;
    let reset = async {
        while pod.said("reset conditions").is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), reset)
        .await
        .expect("a reset within a minute");
    world.post_to("payments", "payment-1", &json!({})).await;
    let line = pod
        .waits_for("Current state of dependencies: map[order:false payment:true]")
        .await;
    assert!(message(&line).contains("order:false"));
    world.settled().await;
    assert!(world.workflows().await.is_empty());
}
