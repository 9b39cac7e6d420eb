//! Workflows through the real API: pods, results, conflicts, clean-up.

use std::sync::Arc;

use eventlab::kinds;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::controllers_support::{
    Cluster, NS, Play, container, runs, soon, typed, until, until_gone, until_list,
};

/// A node on which every pod ends well.
fn all_good() -> Play {
    Arc::new(|_| runs(0, 0))
}

fn status(workflow: &DynamicObject) -> (&str, &str) {
    let text = |field: &str| workflow.data["status"][field].as_str().unwrap_or_default();
    (text("phase"), text("message"))
}

fn one_pod() -> Value {
    json!({"entrypoint": "main", "templates": [container("main")]})
}

fn two_steps() -> Value {
    let step = |name: &str| json!([{"name": name, "template": "apply"}]);
    json!({"entrypoint": "main", "templates": [{"name": "main", "steps": [step("first"), step("second")]}, container("apply")]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_of_steps_succeeds_and_is_labelled() {
    let cluster = Cluster::new(all_good()).await;
    cluster.create_workflow("order-1", two_steps()).await;
    let done = cluster.finished("order-1").await;
    assert_eq!(status(&done), ("Succeeded", ""));
    assert_eq!(done.labels()["workflows.argoproj.io/completed"], "true");
    assert_eq!(
        done.annotations()["workflows.argoproj.io/pod-name-format"],
        "v2"
    );
    let nodes = done.data["status"]["nodes"].as_object().unwrap();
    assert_eq!(nodes.len(), 5);
    assert_eq!(done.data["status"]["progress"], "2/2");
    let pods = until_list(
        &cluster.api::<Pod>(),
        "workflows.argoproj.io/workflow=order-1",
        |pods| {
            pods.len() == 2
                && pods
                    .iter()
                    .all(|pod| pod.labels()["workflows.argoproj.io/completed"] == "true")
        },
    )
    .await;
    for pod in &pods {
        let id = &pod.annotations()["workflows.argoproj.io/node-id"];
        assert_eq!(nodes[id]["hostNodeName"], "eventlab");
        assert_eq!(pod.owner_references()[0].name, "order-1");
    }
    let events = until_list(&cluster.api::<Event>(), "", |events| {
        events
            .iter()
            .any(|event| event.reason.as_deref() == Some("WorkflowSucceeded"))
    })
    .await;
    let node = events
        .iter()
        .find(|event| event.reason.as_deref() == Some("WorkflowNodeSucceeded"))
        .unwrap();
    assert!(
        node.annotations()
            .contains_key("workflows.argoproj.io/node-name")
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_account_that_is_missing_is_an_error_with_its_name() {
    let cluster = Cluster::new(all_good()).await;
    let mut spec = one_pod();
    spec["serviceAccountName"] = json!("nobody");
    cluster.create_workflow("order-1", spec).await;
    let done = cluster.finished("order-1").await;
    assert_eq!(
        status(&done),
        (
            "Error",
            "error in entry template execution: pods \"order-1\" is forbidden: error looking up service account lab/nobody: serviceaccount \"nobody\" not found"
        )
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_is_read_by_the_controller_when_the_workflow_is_there() {
    let cluster = Cluster::new(all_good()).await;
    cluster
        .create_workflow(
            "too-early",
            json!({"workflowTemplateRef": {"name": "process-order"}}),
        )
        .await;
    let early = cluster.finished("too-early").await;
    assert_eq!(
        status(&early),
        (
            "Error",
            "workflowtemplates.argoproj.io \"process-order\" not found"
        )
    );
    let body = json!({"metadata": {"name": "process-order"}, "spec": one_pod()});
    cluster.create(&kinds::workflow_template(), body).await;
    // The controller's cache may not have it yet; a Workflow made after the cache has it finds it.
    let mut last = early;
    for attempt in 0..100 {
        let name = format!("order-{attempt}");
        cluster
            .create_workflow(
                &name,
                json!({"workflowTemplateRef": {"name": "process-order"}}),
            )
            .await;
        last = cluster.finished(&name).await;
        if status(&last).0 == "Succeeded" {
            break;
        }
    }
    assert_eq!(status(&last), ("Succeeded", ""));
    assert_eq!(
        last.data["status"]["storedWorkflowTemplateSpec"]["entrypoint"],
        "main"
    );
    assert_eq!(
        last.labels()["workflows.argoproj.io/workflow-template"],
        "process-order"
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_results_are_waited_for_folded_in_and_deleted() {
    let cluster = Cluster::new(Arc::new(|_| vec![json!({"phase": "Running"})])).await;
    cluster.create_workflow("order-1", one_pod()).await;
    let running = |wf: &DynamicObject| wf.data["status"]["nodes"]["order-1"]["phase"] == "Running";
    cluster.workflow("order-1", running).await;
    let kind = kinds::workflow_task_result();
    let labels = |done: &str| json!({"workflows.argoproj.io/workflow": "order-1", "workflows.argoproj.io/report-outputs-completed": done});
    let body = json!({"metadata": {"name": "order-1", "labels": labels("false")}, "outputs": {"result": "17"}});
    cluster.create(&kind, body).await;
    let unsynced =
        |wf: &DynamicObject| wf.data["status"]["nodes"]["order-1"]["taskResultSynced"] == false;
    cluster.workflow("order-1", unsynced).await;
    let pods = cluster.api::<Pod>();
    let ended = Patch::Merge(json!({"status": runs(0, 0).pop()}));
    pods.patch_status("order-1", &PatchParams::default(), &ended)
        .await
        .unwrap();
    let seen = |wf: &DynamicObject| wf.data["status"]["nodes"]["order-1"]["phase"] == "Succeeded";
    let waiting = cluster.workflow("order-1", seen).await;
    assert_eq!(status(&waiting).0, "Running");
    let results = cluster.argo(&kind);
    let complete = Patch::Merge(json!({"metadata": {"labels": labels("true")}}));
    results
        .patch("order-1", &PatchParams::default(), &complete)
        .await
        .unwrap();
    let done = cluster.finished("order-1").await;
    assert_eq!(
        done.data["status"]["nodes"]["order-1"]["outputs"],
        json!({"result": "17", "exitCode": "0"})
    );
    until_gone(&results, "order-1").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_pod_is_an_error_and_policies_decide_about_it() {
    // The first attempt never ends by itself.
    let play: Play = Arc::new(
        |pod: &Pod| match pod.annotations()["workflows.argoproj.io/node-name"].as_str() {
            "order-1" | "order-2(0)" => vec![json!({"phase": "Running"})],
            _ => runs(0, 0),
        },
    );
    let cluster = Cluster::new(play).await;
    let pods = cluster.api::<Pod>();
    cluster.create_workflow("order-1", one_pod()).await;
    let is_running = |wf: &DynamicObject| wf.data["status"]["conditions"][0]["status"] == "True";
    cluster.workflow("order-1", is_running).await;
    pods.delete("order-1", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert_eq!(
        status(&cluster.finished("order-1").await),
        ("Error", "pod deleted")
    );
    let mut spec = one_pod();
    spec["templates"][0]["retryStrategy"] = json!({"limit": 1, "retryPolicy": "OnError"});
    cluster.create_workflow("order-2", spec).await;
    let running = cluster.workflow("order-2", is_running).await;
    assert!(running.data["status"]["nodes"].as_object().unwrap().len() == 2);
    let labels = "workflows.argoproj.io/workflow=order-2";
    let first = until_list(&pods, labels, |pods| pods.len() == 1)
        .await
        .remove(0);
    pods.delete(&first.name_any(), &DeleteParams::default())
        .await
        .unwrap();
    let done = cluster.finished("order-2").await;
    assert_eq!(status(&done), ("Succeeded", ""));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_fails_on_its_way_out_counts_as_deleted() {
    let cluster = Cluster::bare().await;
    cluster.start_controllers();
    cluster.create_workflow("order-1", one_pod()).await;
    let pods = cluster.api::<Pod>();
    until(&pods, "order-1", |pod| {
        pod.spec.as_ref().unwrap().node_name.is_some()
    })
    .await;
    let set = async |status: Value| {
        let patch = Patch::Merge(json!({ "status": status }));
        pods.patch_status("order-1", &PatchParams::default(), &patch)
            .await
            .unwrap()
    };
    set(json!({"phase": "Running"})).await;
    cluster
        .workflow("order-1", |wf| {
            wf.data["status"]["nodes"]["order-1"]["phase"] == "Running"
        })
        .await;
    pods.delete("order-1", &DeleteParams::default().grace_period(30))
        .await
        .unwrap();
    set(runs(143, 0).pop().unwrap()).await;
    pods.delete("order-1", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert_eq!(
        status(&cluster.finished("order-1").await),
        ("Error", "pod deleted")
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_writers_do_not_stop_the_controller() {
    let cluster = Cluster::new(all_good()).await;
    let workflows = cluster.argo(&kinds::workflow());
    let names: Vec<String> = (0..5).map(|number| format!("order-{number}")).collect();
    for name in &names {
        cluster.create_workflow(name, two_steps()).await;
    }
    let storm = {
        let (workflows, names) = (workflows.clone(), names.clone());
        tokio::spawn(async move {
            for round in 0..100_u32 {
                for name in &names {
                    let patch = Patch::Merge(
                        json!({"metadata": {"annotations": {"storm": round.to_string()}}}),
                    );
                    workflows
                        .patch(name, &PatchParams::default(), &patch)
                        .await
                        .unwrap();
                }
            }
        })
    };
    for name in &names {
        assert_eq!(status(&cluster.finished(name).await), ("Succeeded", ""));
    }
    soon(storm).await.unwrap();
    for name in &names {
        let last = until(&workflows, name, |wf| {
            wf.annotations()
                .get("storm")
                .is_some_and(|round| round == "99")
        })
        .await;
        assert_eq!(
            status(&last),
            ("Succeeded", ""),
            "a later write of somebody else kept the status"
        );
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_starts_late_or_anew_goes_on_from_the_status() {
    let cluster = Cluster::bare().await;
    cluster.create_workflow("order-1", two_steps()).await;
    cluster.start_controllers();
    let pods = cluster.api::<Pod>();
    let labels = "workflows.argoproj.io/workflow=order-1";
    until_list(&pods, labels, |pods| {
        pods.len() == 1 && pods[0].spec.as_ref().unwrap().node_name.is_some()
    })
    .await;
    // Two controllers at once, as after a restart whose predecessor still writes.
    cluster.start_controllers();
    cluster.start_node(all_good());
    let done = cluster.finished("order-1").await;
    assert_eq!(status(&done), ("Succeeded", ""));
    assert_eq!(
        pods.list(&ListParams::default().labels(labels))
            .await
            .unwrap()
            .items
            .len(),
        2
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_and_workflows_go_when_their_time_is_over() {
    let cluster = Cluster::new(Arc::new(|pod: &Pod| match pod.name_any().as_str() {
        "bad" => runs(1, 0),
        _ => runs(0, 0),
    }))
    .await;
    let mut spec = one_pod();
    spec["podGC"] = json!({"strategy": "OnWorkflowSuccess"});
    cluster.create_workflow("good", spec.clone()).await;
    cluster.create_workflow("bad", spec.clone()).await;
    let pods = cluster.api::<Pod>();
    assert_eq!(status(&cluster.finished("good").await).0, "Succeeded");
    assert_eq!(
        status(&cluster.finished("bad").await),
        ("Failed", "main: Error (exit code 1)")
    );
    until_gone(&pods, "good").await;
    let kept = until(&pods, "bad", |pod| {
        pod.labels()["workflows.argoproj.io/completed"] == "true"
    })
    .await;
    assert!(kept.metadata.deletion_timestamp.is_none());
    spec["ttlStrategy"] = json!({"secondsAfterCompletion": 0});
    cluster.create_workflow("short", spec).await;
    let workflows = cluster.argo(&kinds::workflow());
    until_gone(&workflows, "short").await;
    until_gone(&pods, "short").await;
    // A Workflow that is deleted takes its pods along.
    workflows
        .delete("bad", &DeleteParams::default())
        .await
        .unwrap();
    until_gone(&pods, "bad").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mutex_lets_one_workflow_after_the_other_run() {
    let cluster = Cluster::new(Arc::new(|pod: &Pod| match pod.name_any().as_str() {
        "order-a" => vec![json!({"phase": "Running"})],
        _ => runs(0, 0),
    }))
    .await;
    let mut spec = one_pod();
    spec["synchronization"] = json!({"mutexes": [{"name": "orders"}]});
    cluster.create_workflow("order-a", spec.clone()).await;
    cluster
        .workflow("order-a", |wf| {
            wf.data["status"]["conditions"][0]["status"] == "True"
        })
        .await;
    cluster.create_workflow("order-b", spec).await;
    let waiting = cluster
        .workflow("order-b", |wf| status(wf).0 == "Pending")
        .await;
    assert_eq!(
        status(&waiting).1,
        "Waiting for lab/Mutex/orders lock. Lock status: 0/1"
    );
    // A holder that is deleted gives its lock up as one that ends does.
    cluster
        .argo(&kinds::workflow())
        .delete("order-a", &DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(
        status(&cluster.finished("order-b").await),
        ("Succeeded", "")
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_workflow_leaves_its_pod_to_be_read() {
    let cluster = Cluster::new(Arc::new(|_| vec![json!({"phase": "Running"})])).await;
    cluster.create_workflow("order-1", one_pod()).await;
    cluster
        .workflow("order-1", |wf| {
            wf.data["status"]["conditions"][0]["status"] == "True"
        })
        .await;
    let stop = Patch::Merge(json!({"spec": {"shutdown": "Stop"}}));
    cluster
        .argo(&kinds::workflow())
        .patch("order-1", &PatchParams::default(), &stop)
        .await
        .unwrap();
    let done = cluster.finished("order-1").await;
    assert_eq!(status(&done), ("Failed", "Stopped with strategy 'Stop'"));
    assert_eq!(
        done.data["status"]["nodes"]["order-1"]["message"],
        "workflow shutdown with strategy:  Stop"
    );
    let told = until(&cluster.api::<Pod>(), "order-1", |pod| {
        pod.spec.as_ref().unwrap().active_deadline_seconds == Some(1)
    })
    .await;
    assert!(told.metadata.deletion_timestamp.is_none());
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_executed_is_refused_aloud() {
    let cluster = Cluster::new(all_good()).await;
    let of_kind = |kind: &str, asked: Value| json!({"entrypoint": "main", "templates": [{"name": "main", kind: asked}]});
    let with = |field: &str, asked: Value| {
        let mut spec = one_pod();
        spec["templates"][0]["container"][field] = asked;
        spec
    };
    let on_volume = |kind: &str| {
        let mut spec = with("volumeMounts", json!([{"name": "v", "mountPath": "/v"}]));
        spec["volumes"] = json!([{"name": "v", kind: {"path": "/"}}]);
        spec
    };
    for (number, (spec, path)) in [
        (
            of_kind("script", json!({"image": "x", "source": "y"})),
            "spec.templates[0].script",
        ),
        (of_kind("suspend", json!({})), "spec.templates[0].suspend"),
        (of_kind("dag", json!({})), "spec.templates[0].dag"),
        (
            with("securityContext", json!({"privileged": true})),
            "spec.templates[0].container.securityContext.privileged",
        ),
        (
            with(
                "lifecycle",
                json!({"preStop": {"exec": {"command": ["x"]}}}),
            ),
            "spec.templates[0].container.lifecycle",
        ),
        (on_volume("hostPath"), "spec.volumes[0].hostPath"),
        (on_volume("whatever"), "spec.volumes[0].whatever"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("order-{number}");
        cluster.create_workflow(&name, spec).await;
        let done = cluster.finished(&name).await;
        let (phase, message) = status(&done);
        assert_eq!(phase, "Error", "{path}");
        assert!(
            message.starts_with(&format!("eventlab: {path} is not supported")),
            "{message}"
        );
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_workflows_at_once_all_end() {
    let cluster = Cluster::new(all_good()).await;
    for number in 0..40 {
        cluster
            .create_workflow(&format!("order-{number}"), one_pod())
            .await;
    }
    let done = until_list(
        &cluster.argo(&kinds::workflow()),
        "workflows.argoproj.io/completed=true",
        |all| all.len() == 40,
    )
    .await;
    assert!(
        done.iter()
            .all(|workflow| status(workflow).0 == "Succeeded")
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_to_make_pods_the_workflow_says_so() {
    use k8s_openapi::api::rbac::v1::ClusterRole;
    let cluster = Cluster::new(all_good()).await;
    let roles: Api<ClusterRole> = Api::all(cluster.admin());
    let mut role = roles.get("argo-cluster-role").await.unwrap();
    for rule in role.rules.iter_mut().flatten() {
        if rule
            .resources
            .iter()
            .flatten()
            .any(|resource| resource == "pods")
        {
            rule.verbs = ["get", "list", "watch"].map(str::to_owned).to_vec();
        }
    }
    roles
        .replace("argo-cluster-role", &PostParams::default(), &role)
        .await
        .unwrap();
    cluster.create_workflow("order-1", one_pod()).await;
    let done = cluster.finished("order-1").await;
    let text = format!(
        "error in entry template execution: pods is forbidden: User \"system:serviceaccount:argo:argo\" cannot create resource \"pods\" in API group \"\" in the namespace \"{NS}\""
    );
    assert_eq!(status(&done), ("Error", text.as_str()));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_made_anew_under_its_name_runs_anew() {
    let cluster = Cluster::new(all_good()).await;
    let first = cluster.create_workflow("order-1", one_pod()).await;
    cluster.finished("order-1").await;
    let workflows = cluster.argo(&kinds::workflow());
    workflows
        .delete("order-1", &DeleteParams::default())
        .await
        .unwrap();
    until_gone(&cluster.api::<Pod>(), "order-1").await;
    let object: DynamicObject = typed(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "order-1"}, "spec": one_pod(),
    }));
    let again = workflows
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    assert_ne!(again.uid(), first.uid());
    let done = cluster.finished("order-1").await;
    assert_eq!(
        (done.uid(), status(&done)),
        (again.uid(), ("Succeeded", ""))
    );
    cluster.stop().await;
}
