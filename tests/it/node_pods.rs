//! Pods through the real API: what they run, what their statuses say, and how they end.

use std::time::Duration;

use eventlab::kinds::{ARGO_EVENTS_IMAGE, WORKLOAD_IMAGE};
use eventlab::ledger::Reader;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, LogParams, PostParams};
use serde_json::{Value, json};

use super::api_support::object;
use super::node_support::{Cluster, container, phase_of, service_spec, until};

fn workload(command: &[&str], args: &[&str]) -> Value {
    json!({"name": "main", "image": WORKLOAD_IMAGE, "command": command, "args": args})
}

fn never(container: Value) -> Value {
    json!({"restartPolicy": "Never", "containers": [container]})
}

async fn claim(cluster: &Cluster, name: &str) {
    let api: kube::Api<k8s_openapi::api::core::v1::PersistentVolumeClaim> = cluster.lab.api("lab");
    let claim = serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}},
    }}));
    api.create(&Default::default(), &claim.unwrap())
        .await
        .unwrap();
}

/// A pod spec that applies an order to the ledger on the claim `orders`.
fn apply(order: &str, amount: &str) -> Value {
    let args = [
        "ledger",
        "apply",
        "--db",
        "/data/ledger.db",
        "--mode",
        "atomic",
        "--order-id",
        order,
        "--amount",
        amount,
        "--workflow-uid",
        "$(UID)",
        "--arrival",
        "a-1",
    ];
    let mut container = workload(&["/eventlab"], &args);
    container["env"] =
        json!([{"name": "UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]);
    container["volumeMounts"] = json!([{"name": "orders", "mountPath": "/data"}]);
    json!({
        "restartPolicy": "Never", "containers": [container],
        "volumes": [{"name": "orders", "persistentVolumeClaim": {"claimName": "orders"}}],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_writes_the_ledger_on_its_claim() {
    let cluster = Cluster::new().await;
    claim(&cluster, "orders").await;
    let created = cluster.create("first", apply("o/1", "4200")).await;
    let first = cluster.wait_phase("first", "Succeeded").await;
    let state = container(&first, "main");
    assert_eq!(
        state["state"]["terminated"]["reason"], "Completed",
        "{state}"
    );
    assert_eq!(state["state"]["terminated"]["exitCode"], 0);
    let status = first.status.unwrap();
    assert!(status.pod_ip.unwrap().starts_with("10.244."));
    assert_eq!(status.host_ip.as_deref(), Some("10.0.0.1"));
    let line: Value = serde_json::from_str(&cluster.log("first", "main").await).unwrap();
    assert_eq!(
        (&line["outcome"], &line["order_id"]),
        (&"applied".into(), &"o/1".into())
    );
    assert_eq!(line["workflow_uid"], created.metadata.uid.unwrap());

    cluster.create("second", apply("o/1", "4200")).await;
    cluster.wait_phase("second", "Succeeded").await;
    cluster.create("third", apply("o/1", "1")).await;
    let third = cluster.wait_phase("third", "Failed").await;
    assert_eq!(
        container(&third, "main")["state"]["terminated"]["exitCode"],
        3
    );

    let claims = std::fs::read_dir(cluster.state.path().join("volumes/lab")).unwrap();
    let folders: Vec<_> = claims.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1);
    let outcomes: Vec<String> = Reader::new(folders[0].join("ledger.db"))
        .attempts(0, 10)
        .unwrap()
        .items
        .into_iter()
        .map(|row| row.outcome)
        .collect();
    assert_eq!(outcomes, ["applied", "duplicate", "conflict"]);
    let api: kube::Api<k8s_openapi::api::core::v1::PersistentVolumeClaim> = cluster.lab.api("lab");
    assert_eq!(
        api.get("orders")
            .await
            .unwrap()
            .status
            .unwrap()
            .phase
            .as_deref(),
        Some("Bound")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_commands_end_as_in_an_image_without_a_shell() {
    let cluster = Cluster::new().await;
    cluster
        .create("shell", never(workload(&["sh", "-c"], &["echo"])))
        .await;
    let shell = container(&cluster.wait_phase("shell", "Failed").await, "main");
    let terminated = &shell["state"]["terminated"];
    assert_eq!(
        (&terminated["reason"], &terminated["exitCode"]),
        (&"StartError".into(), &128.into())
    );
    let message = terminated["message"].as_str().unwrap();
    assert!(
        message.ends_with("exec: \"sh\": executable file not found in $PATH"),
        "{message}"
    );

    let labels = json!({"name": "wf", "labels": {"workflows.argoproj.io/workflow": "wf"}});
    cluster
        .create_with(labels, never(workload(&["sh"], &[])))
        .await;
    let workflow = container(&cluster.wait_phase("wf", "Failed").await, "main");
    let terminated = &workflow["state"]["terminated"];
    assert_eq!(
        (&terminated["reason"], &terminated["exitCode"]),
        (&"Error".into(), &64.into())
    );
    assert_eq!(
        terminated["message"],
        "failed to find name in PATH: exec: \"sh\": executable file not found in $PATH"
    );

    cluster
        .create(
            "other",
            never(workload(&["/eventlab"], &["cluster", "start"])),
        )
        .await;
    let other = container(&cluster.wait_phase("other", "Failed").await, "main");
    assert_eq!(other["state"]["terminated"]["exitCode"], 64);
    assert!(
        cluster
            .log("other", "main")
            .await
            .contains("does not run in a pod")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_images_do_not_exist() {
    let cluster = Cluster::new().await;
    cluster
        .create("busy", never(json!({"name": "main", "image": "busybox:1"})))
        .await;
    let reason = |wanted: &'static str| {
        move |pod: &k8s_openapi::api::core::v1::Pod| {
            container(pod, "main")["state"]["waiting"]["reason"] == wanted
        }
    };
    let has_status = |pod: &k8s_openapi::api::core::v1::Pod| {
        pod.status
            .as_ref()
            .is_some_and(|status| status.container_statuses.is_some())
    };
    let pod = cluster
        .wait("busy", |pod| {
            has_status(pod) && reason("ImagePullBackOff")(pod)
        })
        .await;
    assert_eq!(phase_of(&pod), "Pending");
    let message = container(&pod, "main")["state"]["waiting"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.starts_with("Back-off pulling image \"busybox:1\"")
            && message.contains(WORKLOAD_IMAGE),
        "{message}"
    );
    let events = cluster.events("busy", "BackOff").await;
    assert!(
        events
            .iter()
            .any(|(_, message)| message == "Error: ErrImagePull"),
        "{events:?}"
    );
    let refused = cluster
        .pods()
        .logs("busy", &LogParams::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("trying and failing to pull image"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_host_is_out_of_reach() {
    let cluster = Cluster::new().await;
    let apply = |db: &str| {
        workload(
            &["/eventlab"],
            &[
                "ledger",
                "apply",
                "--mode",
                "naive",
                "--order-id",
                "o",
                "--amount",
                "1",
                "--workflow-uid",
                "w",
                "--arrival",
                "a",
                "--db",
                db,
            ],
        )
    };
    let with = |mut spec: Value, field: &str, value: Value| {
        spec[field] = value;
        spec
    };
    let host_path = json!([{"name": "v", "hostPath": {"path": "/etc"}}]);
    let mut escaping = apply("/v/ledger.db");
    escaping["volumeMounts"] = json!([{"name": "v", "mountPath": "/v", "subPath": "../../x"}]);
    let mut privileged = apply("/x");
    privileged["securityContext"] = json!({"privileged": true});
    for (name, spec, event) in [
        (
            "host-path",
            with(never(apply("/x")), "volumes", host_path),
            "FailedMount",
        ),
        (
            "host-network",
            with(never(apply("/x")), "hostNetwork", json!(true)),
            "Failed",
        ),
        ("privileged", never(privileged), "Failed"),
        (
            "sub-path",
            with(
                never(escaping),
                "volumes",
                json!([{"name": "v", "emptyDir": {}}]),
            ),
            "FailedMount",
        ),
        (
            "nfs",
            with(
                never(apply("/x")),
                "volumes",
                json!([{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
            ),
            "FailedMount",
        ),
    ] {
        let pod = serde_json::from_value(
            json!({"metadata": {"name": name}, "spec": with(spec, "nodeName", "eventlab".into())}),
        );
        if let Err(refused) = cluster
            .pods()
            .create(&Default::default(), &pod.unwrap())
            .await
        {
            assert!(refused.to_string().contains("subPath"), "{name}: {refused}");
            continue;
        }
        cluster.events(name, event).await;
        let pod = cluster
            .wait(name, |pod| {
                pod.status
                    .as_ref()
                    .is_some_and(|status| status.container_statuses.is_some())
            })
            .await;
        assert_eq!(phase_of(&pod), "Pending", "{name}");
        assert_eq!(
            container(&pod, "main")["state"]["waiting"]["reason"],
            "CreateContainerConfigError",
            "{name}"
        );
    }

    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("ledger.db");
    let climbing = format!("/data/../../../../../../../..{}", target.display());
    for (index, db) in [
        target.to_str().unwrap(),
        &climbing,
        "../../../../../../etc/ledger.db",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("outside-{index}");
        cluster.create(&name, never(apply(db))).await;
        let pod = cluster.wait_phase(&name, "Failed").await;
        assert_eq!(
            container(&pod, "main")["state"]["terminated"]["exitCode"],
            1
        );
        let log = cluster.log(&name, "main").await;
        assert!(
            log.contains("ledger.db") && !log.contains(cluster.state.path().to_str().unwrap()),
            "{log}"
        );
    }
    assert!(!target.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_gets_no_variable_that_changes_its_loading() {
    let cluster = Cluster::new().await;
    let mut container = workload(
        &["/eventlab"],
        &["ledger", "serve", "--db", "/data/x", "--port", "8080"],
    );
    container["ports"] = json!([{"containerPort": 8080}]);
    container["env"] =
        json!([{"name": "LD_PRELOAD", "value": "/tmp/evil.so"}, {"name": "ORDER", "value": "1"}]);
    cluster.create("loaded", never(container)).await;
    cluster.wait_phase("loaded", "Running").await;
    let events = cluster.events("loaded", "VariablesDenied").await;
    assert!(
        events
            .iter()
            .any(|(_, message)| message.ends_with(": LD_PRELOAD")),
        "{events:?}"
    );
    #[cfg(target_os = "linux")]
    {
        let records = std::fs::read_dir(cluster.state.path().join("node/children")).unwrap();
        let names: Vec<String> = records
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let pid = names[0].strip_suffix(".json").unwrap();
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        let environment = String::from_utf8(environment).unwrap();
        assert!(
            environment.contains("ORDER=1") && !environment.contains("LD_PRELOAD"),
            "{environment}"
        );
        assert!(
            !environment.contains("CARGO"),
            "nothing of the host's environment: {environment}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_gets_its_environment_files_and_identity() {
    let cluster = Cluster::new().await;
    let config: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = cluster.lab.api("lab");
    let object = serde_json::from_value(
        json!({"metadata": {"name": "settings"}, "data": {"mode": "atomic"}}),
    );
    config
        .create(&Default::default(), &object.unwrap())
        .await
        .unwrap();
    let mut spec = service_spec("report");
    spec["containers"][0]["env"] = json!([
        {"name": "CODE", "value": "7"},
        {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}},
    ]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "config", "mountPath": "/config"}]);
    spec["volumes"] = json!([{"name": "config", "configMap": {"name": "settings"}}]);
    cluster.create("report", spec).await;
    let pod = cluster.wait_phase("report", "Failed").await;
    let terminated = container(&pod, "main")["state"]["terminated"].clone();
    assert_eq!(
        (&terminated["exitCode"], &terminated["message"]),
        (&7.into(), &"said by itself".into())
    );
    let log = cluster.log("report", "main").await;
    for line in [
        "MODE=atomic",
        "namespace lab",
        "/etc/passwd: None",
        "/config/../../etc/passwd: None",
        "/config/mode: Some(\"atomic\")",
        "user system:serviceaccount:lab:default",
    ] {
        assert!(log.lines().any(|known| known == line), "{line} in {log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_pod_refers_to_may_come_later() {
    let cluster = Cluster::new().await;
    let mut spec = service_spec("report");
    spec["containers"][0]["env"] = json!([{"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "mode"}}}]);
    cluster.create("env", spec).await;
    let mut spec = service_spec("report");
    spec["volumes"] = json!([{"name": "v", "configMap": {"name": "late"}}]);
    cluster.create("volume", spec).await;
    let pod = cluster.wait("env", |pod| {
        pod.status
            .as_ref()
            .is_some_and(|status| status.container_statuses.is_some())
            && container(pod, "main")["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    });
    let message = container(&pod.await, "main")["state"]["waiting"]["message"].clone();
    assert_eq!(message, "configmap \"late\" not found");
    let events = cluster.events("volume", "FailedMount").await;
    assert!(
        events[0].1.ends_with("configmap \"late\" not found"),
        "{events:?}"
    );

    let config: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = cluster.lab.api("lab");
    let object =
        serde_json::from_value(json!({"metadata": {"name": "late"}, "data": {"mode": "atomic"}}));
    config
        .create(&Default::default(), &object.unwrap())
        .await
        .unwrap();
    cluster.wait_phase("env", "Succeeded").await;
    cluster.wait_phase("volume", "Succeeded").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_stays_in_its_container() {
    let cluster = Cluster::new().await;
    cluster.create("panics", service_spec("panic")).await;
    let pod = cluster.wait_phase("panics", "Failed").await;
    assert_eq!(
        container(&pod, "main")["state"]["terminated"]["exitCode"],
        2
    );
    assert_eq!(
        cluster.log("panics", "main").await,
        "before\npanic: as panics asked\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_back_off_and_logs_are_kept_by_instance() {
    let cluster = Cluster::new().await;
    let mut spec = service_spec("panic");
    spec["restartPolicy"] = "Always".into();
    cluster.create("crash", spec).await;
    let pod = cluster
        .wait("crash", |pod| {
            pod.status
                .as_ref()
                .is_some_and(|status| status.container_statuses.is_some())
                && container(pod, "main")["restartCount"].as_i64().unwrap() >= 3
                && container(pod, "main")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        })
        .await;
    assert_eq!(phase_of(&pod), "Running");
    let state = container(&pod, "main");
    assert_eq!(state["lastState"]["terminated"]["exitCode"], 2);
    assert!(
        state["state"]["waiting"]["message"]
            .as_str()
            .unwrap()
            .starts_with("back-off "),
        "{state}"
    );
    let events = cluster.events("crash", "BackOff").await;
    assert!(events.iter().any(|(_, message)| {
        message.starts_with("Back-off restarting failed container main in pod crash_lab(")
    }));
    let previous = LogParams {
        previous: true,
        ..LogParams::default()
    };
    assert!(
        cluster
            .pods()
            .logs("crash", &previous)
            .await
            .unwrap()
            .contains("panic: as crash asked")
    );
    let uid = pod.metadata.uid.unwrap();
    let folder = cluster
        .state
        .path()
        .join(format!("logs/pods/lab_crash_{uid}/main"));
    assert!(folder.join("0.log").exists() && folder.join("2.log").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn init_containers_come_first_and_siblings_see_exits() {
    let cluster = Cluster::new().await;
    let service =
        |name: &str, word: &str| json!({"name": name, "image": ARGO_EVENTS_IMAGE, "args": [word]});
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [service("first", "report"), service("second", "report")],
        "containers": [service("wait", "await-main"), service("main", "report")],
    });
    cluster.create("ordered", spec).await;
    let pod = cluster.wait_phase("ordered", "Succeeded").await;
    for name in ["first", "second", "wait", "main"] {
        assert_eq!(
            container(&pod, name)["state"]["terminated"]["exitCode"],
            0,
            "{name}"
        );
    }
    assert_eq!(cluster.log("ordered", "wait").await, "main ended with 0\n");

    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [service("first", "panic"), service("second", "report")],
        "containers": [service("main", "report")],
    });
    cluster.create("broken", spec).await;
    let pod = cluster.wait_phase("broken", "Failed").await;
    assert_eq!(
        container(&pod, "second")["state"]["waiting"]["reason"],
        "PodInitializing"
    );
    assert_eq!(
        container(&pod, "main")["state"]["waiting"]["reason"],
        "PodInitializing"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_asks_first_and_kills_later() {
    let cluster = Cluster::new().await;
    cluster.create("polite", service_spec("wait-for-end")).await;
    let polite = cluster.wait_phase("polite", "Running").await;
    cluster
        .pods()
        .delete("polite", &DeleteParams::default())
        .await
        .unwrap();
    cluster.wait_gone("polite").await;
    let uid = polite.metadata.uid.unwrap();
    until(async || !cluster.state.path().join("pods").join(&uid).exists()).await;
    assert!(
        !cluster
            .state
            .path()
            .join(format!("logs/pods/lab_polite_{uid}"))
            .exists()
    );
    cluster.events("polite", "Killing").await;

    // A grace period of a second, and a pod that does not care; then one that is forced.
    for grace in [1, 0] {
        let name = format!("stubborn-{grace}");
        cluster.create(&name, service_spec("ignore-end")).await;
        cluster.wait_phase(&name, "Running").await;
        cluster
            .pods()
            .delete(
                &name,
                &DeleteParams {
                    grace_period_seconds: Some(grace),
                    ..DeleteParams::default()
                },
            )
            .await
            .unwrap();
        cluster.wait_gone(&name).await;
    }
    // The name is free again.
    cluster.create("polite", service_spec("report")).await;
    cluster.wait_phase("polite", "Succeeded").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_ends_a_pod() {
    let cluster = Cluster::new().await;
    let mut spec = service_spec("wait-for-end");
    spec["activeDeadlineSeconds"] = 1.into();
    cluster.create("late", spec).await;
    let pod = cluster.wait("late", |pod| {
        phase_of(pod) == "Failed" && !container(pod, "main")["state"]["terminated"].is_null()
    });
    let status = pod.await.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(
        status.message.as_deref(),
        Some("Pod was active on the node longer than the specified deadline")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_container_is_seen_as_killed() {
    let cluster = Cluster::new().await;
    let node = cluster.node.as_ref().unwrap();
    cluster
        .create("service", service_spec("wait-for-end"))
        .await;
    let mut serving = workload(
        &["/eventlab"],
        &["ledger", "serve", "--db", "/x", "--port", "8080"],
    );
    serving["ports"] = json!([{"containerPort": 8080}]);
    cluster.create("child", never(serving)).await;
    for name in ["service", "child"] {
        cluster.wait_phase(name, "Running").await;
        assert!(node.kill("lab", name, "main").await);
        let pod = cluster.wait_phase(name, "Failed").await;
        assert_eq!(
            container(&pod, "main")["state"]["terminated"]["exitCode"],
            137,
            "{name}"
        );
        assert!(!node.kill("lab", name, "main").await);
    }
    assert!(
        !cluster
            .log("service", "main")
            .await
            .contains("asked to end")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_nobody_claims_to_know_how_a_container_ended() {
    let mut cluster = Cluster::new().await;
    let mut always = service_spec("wait-for-end");
    always["restartPolicy"] = "Always".into();
    cluster.create("always", always).await;
    cluster.create("never", service_spec("wait-for-end")).await;
    let mut serving = workload(
        &["/eventlab"],
        &["ledger", "serve", "--db", "/x", "--port", "8080"],
    );
    serving["ports"] = json!([{"containerPort": 8080}]);
    cluster.create("child", never(serving)).await;
    cluster.create("done", service_spec("report")).await;
    for name in ["always", "never", "child"] {
        cluster.wait_phase(name, "Running").await;
    }
    cluster.wait_phase("done", "Succeeded").await;
    // As a kill ends it: nothing is written.
    cluster.node.take();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(
        phase_of(&cluster.pods().get("never").await.unwrap()),
        "Running"
    );

    cluster.start_node().await;
    for name in ["never", "child"] {
        let pod = cluster.wait_phase(name, "Failed").await;
        let terminated = container(&pod, "main")["state"]["terminated"].clone();
        assert_eq!(
            (&terminated["exitCode"], &terminated["reason"]),
            (&137.into(), &"ContainerStatusUnknown".into())
        );
        assert_eq!(container(&pod, "main")["restartCount"], 0);
    }
    let always = cluster.wait("always", |pod| {
        container(pod, "main")["restartCount"] == 1
            && !container(pod, "main")["state"]["running"].is_null()
    });
    let state = container(&always.await, "main");
    assert_eq!(
        state["lastState"]["terminated"]["reason"],
        "ContainerStatusUnknown"
    );
    assert_eq!(
        phase_of(&cluster.pods().get("done").await.unwrap()),
        "Succeeded"
    );
    assert!(
        cluster
            .log("done", "main")
            .await
            .contains("user system:serviceaccount:lab:default")
    );
    cluster
        .node
        .take()
        .unwrap()
        .stop(Duration::from_secs(5))
        .await;
    assert!(
        cluster
            .log("always", "main")
            .await
            .ends_with("asked to end\n")
    );
}

/// A server behind a readiness probe; its environment comes from the ConfigMap `settings`.
fn ready_server() -> Value {
    let mut serving = workload(
        &["/eventlab"],
        &["ledger", "serve", "--db", "/x", "--port", "8080"],
    );
    serving["ports"] = json!([{"containerPort": 8080}]);
    serving["readinessProbe"] = json!({"httpGet": {"path": "/healthz", "port": 8080}});
    serving["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    json!({"restartPolicy": "Always", "containers": [serving]})
}

/// After the node has ended as by a kill, with a pod `once` that has not begun.
async fn served_before() -> Cluster {
    let mut cluster = Cluster::new().await;
    let settings = json!({"metadata": {"name": "settings"}, "data": {"MODE": "calm"}});
    let settings: ConfigMap = object(settings);
    let maps: Api<ConfigMap> = cluster.lab.api("lab");
    maps.create(&PostParams::default(), &settings)
        .await
        .unwrap();
    cluster.create("server", ready_server()).await;
    cluster.wait("server", is_ready).await;
    cluster.node.take();
    cluster.create("once", service_spec("report")).await;
    cluster
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status.is_some_and(|status| status.container_statuses.is_some())
        && container(pod, "main")["ready"] == true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_what_runs_once_finds_the_services_that_were_there() {
    let mut cluster = served_before().await;
    cluster.start_node().await;
    cluster.wait_phase("once", "Succeeded").await;
    // Its status is written by itself, and may come a little later.
    let again = |pod: &Pod| is_ready(pod) && container(pod, "main")["restartCount"] != 0;
    let server = cluster.wait("server", again).await;
    let once = cluster.pods().get("once").await.unwrap();
    let begun = container(&once, "main")["state"]["terminated"]["startedAt"].clone();
    let conditions = server.status.unwrap().conditions.unwrap();
    let ready = conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    let since = serde_json::to_value(&ready.last_transition_time).unwrap();
    assert!(begun.as_str() >= since.as_str(), "{begun} {since}");
    // Whoever comes later waits for nobody.
    let node = cluster.node.as_ref().unwrap();
    assert!(node.kill("lab", "server", "main").await);
    cluster.create("later", service_spec("report")).await;
    cluster.wait_phase("later", "Succeeded").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_does_not_come_back_is_not_waited_for_for_ever() {
    let mut cluster = served_before().await;
    cluster.patience = Duration::from_secs(1);
    let maps: Api<ConfigMap> = cluster.lab.api("lab");
    maps.delete("settings", &DeleteParams::default())
        .await
        .unwrap();
    cluster.create("unwanted", service_spec("report")).await;
    cluster.start_node().await;
    cluster
        .pods()
        .delete("unwanted", &DeleteParams::default())
        .await
        .unwrap();
    cluster.wait_gone("unwanted").await;
    cluster.wait_phase("once", "Succeeded").await;
    let server = cluster.pods().get("server").await.unwrap();
    assert!(!is_ready(&server), "{server:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_set_back_is_caught_up_with() {
    let cluster = Cluster::new().await;
    cluster.create("runs", service_spec("wait-for-end")).await;
    cluster.create("ends", service_spec("wait-for-end")).await;
    for name in ["runs", "ends"] {
        cluster.wait_phase(name, "Running").await;
    }
    let snapshot = cluster.state.path().join("snapshot.db");
    cluster.lab.server.snapshot(&snapshot).unwrap();
    let node = cluster.node.as_ref().unwrap();
    assert!(node.kill("lab", "ends", "main").await);
    cluster.wait_phase("ends", "Failed").await;
    cluster.create("later", service_spec("wait-for-end")).await;
    let later = cluster.wait_phase("later", "Running").await;

    cluster.lab.server.restore(&snapshot).unwrap();
    // Nobody knows a pod of a time that has not been.
    let folder = cluster
        .state
        .path()
        .join("pods")
        .join(later.metadata.uid.unwrap());
    until(async || !folder.exists()).await;
    assert!(cluster.pods().get_opt("later").await.unwrap().is_none());
    // What had ended meanwhile is not running again by that.
    let ends = cluster.wait_phase("ends", "Failed").await;
    assert_eq!(
        container(&ends, "main")["state"]["terminated"]["reason"],
        "ContainerStatusUnknown"
    );
    assert_eq!(
        phase_of(&cluster.pods().get("runs").await.unwrap()),
        "Running"
    );
    assert!(node.kill("lab", "runs", "main").await, "it still runs");
    cluster.wait_phase("runs", "Failed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_readiness_probe_decides_when_a_pod_is_ready() {
    let cluster = Cluster::new().await;
    let probed = |path: &str, port: u16| {
        let mut serving = workload(
            &["/eventlab"],
            &["ledger", "serve", "--db", "/x", "--port", "8080"],
        );
        serving["ports"] = json!([{"name": "http", "containerPort": 8080}]);
        serving["readinessProbe"] = json!({"httpGet": {"path": path, "port": port}});
        never(serving)
    };
    cluster.create("good", probed("/healthz", 8080)).await;
    cluster
        .wait("good", |pod| {
            pod.status
                .as_ref()
                .is_some_and(|status| status.container_statuses.is_some())
                && container(pod, "main")["ready"] == true
        })
        .await;
    cluster.create("wrong-path", probed("/nowhere", 8080)).await;
    cluster.create("wrong-port", probed("/healthz", 9)).await;
    for name in ["wrong-path", "wrong-port"] {
        let pod = cluster.wait_phase(name, "Running").await;
        assert_eq!(container(&pod, "main")["ready"], false, "{name}");
        let ready = pod.status.unwrap().conditions.unwrap();
        let ready = ready
            .iter()
            .find(|condition| condition.type_ == "Ready")
            .unwrap();
        assert_eq!(
            ready.reason.as_deref(),
            Some("ContainersNotReady"),
            "{name}"
        );
    }
    let events = cluster.events("wrong-path", "Unhealthy").await;
    let text = "Readiness probe failed: HTTP probe failed with statuscode: 404";
    assert!(
        events.iter().any(|(_, message)| message == text),
        "{events:?}"
    );
    let mut spec = service_spec("wait-for-end");
    spec["containers"][0]["readinessProbe"] = json!({"exec": {"command": ["true"]}});
    cluster.create("exec", spec).await;
    let events = cluster.events("exec", "Unhealthy").await;
    assert!(
        events
            .iter()
            .any(|(_, message)| message.contains("only httpGet")),
        "{events:?}"
    );
}

/// The program that runs in a pod is the one that runs on the host: what it can be told there must not lead to the host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_option_of_the_program_leads_to_the_host() {
    let cluster = Cluster::new().await;
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("kubeconfig");
    std::fs::write(&secret, "canary: yes").unwrap();
    let (folder, file) = (outside.path().to_str().unwrap(), secret.to_str().unwrap());
    let mut pods = vec![
        vec!["ledger", "show"],
        vec!["ledger", "clock"],
        vec!["ledger", "reconcile"],
    ];
    for command in ["show", "verify", "clock", "reconcile"] {
        pods.extend([
            vec!["ledger", command, "--state-dir", folder],
            vec!["--state-dir", folder, "ledger", command],
            vec!["ledger", command, "--session", "embedded"],
            vec![
                "ledger",
                command,
                "--context",
                "admin",
                "--kubeconfig",
                file,
            ],
            vec!["ledger", command, "--labs", folder],
            vec!["ledger", command, "--bus", "nats://127.0.0.1:1"],
        ]);
    }
    let names: Vec<String> = (0..pods.len())
        .map(|index| format!("reach-{index}"))
        .collect();
    for (name, words) in names.iter().zip(&pods) {
        let mut container = workload(&["/eventlab"], words);
        container["env"] = json!([
            {"name": "EVENTLAB_STATE_DIR", "value": folder}, {"name": "KUBECONFIG", "value": file},
            {"name": "HOME", "value": folder}, {"name": "XDG_STATE_HOME", "value": folder},
        ]);
        cluster.create(name, never(container)).await;
    }
    for (name, words) in names.iter().zip(&pods) {
        let pod = cluster.wait_phase(name, "Failed").await;
        let log = cluster.log(name, "main").await;
        let code = container(&pod, "main")["state"]["terminated"]["exitCode"].clone();
        assert!(
            code == 64 || (code == 1 && words.len() == 2),
            "{words:?} {code} {log}"
        );
        assert!(
            !log.contains("canary") && !log.is_empty(),
            "{words:?} {log}"
        );
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}
