//! The executor's containers: what `wait` reports as the pod's own account, and what a missing right does.

use std::sync::Arc;

use eventlab::embedded::node::process::{Exit, Service};
use eventlab::embedded::services::executor;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::api_support::{Lab, create, send};
use crate::service_pods::{Pod, PodSpec, TestBus};

const RESULTS: &str = "/apis/argoproj.io/v1alpha1/namespaces/lab/workflowtaskresults";

struct World {
    lab: Lab,
    bus: TestBus,
    main: watch::Sender<Option<Exit>>,
}

impl World {
    async fn new(verbs: &[&str]) -> World {
        let lab = Lab::new().await;
        create(
            &lab,
            "/api/v1/namespaces/lab/serviceaccounts",
            json!({"metadata": {"name": "order-runner"}}),
        )
        .await;
        let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/lab";
        let rules = json!([{"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": verbs}]);
        create(
            &lab,
            &format!("{roles}/roles"),
            json!({"metadata": {"name": "executor"}, "rules": rules}),
        )
        .await;
        let binding = json!({"metadata": {"name": "executor"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "executor"},
            "subjects": [{"kind": "ServiceAccount", "name": "order-runner", "namespace": "lab"}]});
        create(&lab, &format!("{roles}/rolebindings"), binding).await;
        World {
            lab,
            bus: TestBus::start(),
            main: watch::channel(None).0,
        }
    }

    fn pod(&self, service: Service) -> PodSpec {
        let server = Arc::clone(&self.lab.server);
        let token = server.service_account_token("lab", "order-runner");
        let mut spec = PodSpec::new(service, "order-1-main-7", &self.bus)
            .env("ARGO_NODE_ID", "order-1-7")
            .env("ARGO_WORKFLOW_NAME", "order-1")
            .env("ARGO_WORKFLOW_UID", "0b1c")
            .client(move || server.client_in(&token, "lab"));
        spec.namespace = "lab".to_owned();
        spec.siblings
            .insert("main".to_owned(), self.main.subscribe());
        spec
    }

    async fn results(&self) -> Vec<Value> {
        let (_, list) = send(&self.lab, "GET", RESULTS, "application/json", "").await;
        list["items"].as_array().cloned().unwrap_or_default()
    }

    fn main_ends(&self, code: i32) {
        self.main.send_replace(Some(Exit::Code(code)));
    }
}

fn wrote(pod: &Pod, text: &str) -> bool {
    pod.log.all().iter().any(|line| line.contains(text))
}

const FORBIDDEN: &str = "workflowtaskresults.argoproj.io is forbidden: User \"system:serviceaccount:lab:order-runner\" \
                         cannot create resource \"workflowtaskresults\" in API group \"argoproj.io\" in the namespace \"lab\"";

#[tokio::test]
async fn the_result_is_made_and_completed_after_main() {
    let world = World::new(&["create", "patch"]).await;
    let pod = world.pod(executor::wait).start();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(world.results().await.is_empty(), "main is still at work");
    world.main_ends(3);
    assert_eq!(pod.exit().await, 0, "main's failure is not the executor's");
    let results = world.results().await;
    let metadata = &results[0]["metadata"];
    assert_eq!(metadata["name"], "order-1-7");
    assert_eq!(
        metadata["labels"]["workflows.argoproj.io/workflow"],
        "order-1"
    );
    assert_eq!(
        metadata["labels"]["workflows.argoproj.io/report-outputs-completed"],
        "true"
    );
    let owner = &metadata["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&"Workflow".into(), &"0b1c".into())
    );
}

#[tokio::test]
async fn without_the_right_to_create_it_ends_with_64_and_the_reason() {
    let world = World::new(&["patch"]).await;
    let pod = world.pod(executor::wait).start();
    world.main_ends(0);
    assert_eq!(pod.exit().await, 64);
    assert_eq!(pod.termination.get(), FORBIDDEN);
    let warning = "level=WARN msg=\"failed to patch task result, see \
                   https://argo-workflows.readthedocs.io/en/latest/workflow-rbac/\" attempt=0 error=\"workflowtaskresults";
    assert!(wrote(&pod, warning), "{:?}", pod.log.all());
    assert!(wrote(
        &pod,
        "Non-transient error: workflowtaskresults.argoproj.io is forbidden"
    ));
    assert!(wrote(
        &pod,
        "level=ERROR msg=\"executor error\" error=\"workflowtaskresults"
    ));
    assert!(world.results().await.is_empty());
}

#[tokio::test]
async fn without_the_right_to_patch_the_result_stays_incomplete() {
    let world = World::new(&["create"]).await;
    let pod = world.pod(executor::wait).start();
    world.main_ends(0);
    assert_eq!(pod.exit().await, 64);
    let text = "workflowtaskresults.argoproj.io \"order-1-7\" is forbidden: User \
                \"system:serviceaccount:lab:order-runner\" cannot patch resource";
    assert!(
        pod.termination.get().starts_with(text),
        "{}",
        pod.termination.get()
    );
    let results = world.results().await;
    assert_eq!(
        results[0]["metadata"]["labels"]["workflows.argoproj.io/report-outputs-completed"],
        "false"
    );
}

/// Any set of verbs without both of the two ends in 64, after the work, and names the one that is missing.
#[tokio::test]
async fn nothing_but_create_and_patch_together_is_enough() {
    for (verbs, missing) in [
        (
            &["get", "list", "watch", "update", "delete"][..],
            Some("create"),
        ),
        (&["patch", "update"][..], Some("create")),
        (&["create", "update", "get"][..], Some("patch")),
        (&["create", "patch"][..], None),
        (&["*"][..], None),
    ] {
        let world = World::new(verbs).await;
        let pod = world.pod(executor::wait).start();
        world.main_ends(0);
        let code = pod.exit().await;
        let said = pod.termination.get();
        match missing {
            None => assert_eq!(code, 0, "{verbs:?}: {said}"),
            Some(verb) => {
                assert_eq!(code, 64, "{verbs:?}");
                let wanted = format!("cannot {verb} resource \"workflowtaskresults\"");
                assert!(said.contains(&wanted), "{verbs:?}: {said}");
            }
        }
    }
}

#[tokio::test]
async fn a_result_that_is_there_already_is_completed() {
    let world = World::new(&["create", "patch"]).await;
    create(&world.lab, RESULTS, json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTaskResult", "metadata": {"name": "order-1-7"}})).await;
    let pod = world.pod(executor::wait).start();
    world.main_ends(0);
    assert_eq!(pod.exit().await, 0);
    let results = world.results().await;
    assert_eq!(
        results[0]["metadata"]["labels"]["workflows.argoproj.io/report-outputs-completed"],
        "true"
    );
}

#[tokio::test]
async fn outputs_out_of_files_are_refused_before_main_runs() {
    let world = World::new(&["create", "patch"]).await;
    let template = json!({"name": "t", "outputs": {"parameters": [{"name": "total", "valueFrom": {"path": "/tmp/total"}}]}});
    let pod = world
        .pod(executor::init)
        .env("ARGO_TEMPLATE", &template.to_string())
        .start();
    assert_eq!(pod.exit().await, 64);
    assert_eq!(
        pod.termination.get(),
        "eventlab: outputs.parameters (total) are not supported"
    );
    let plain =
        json!({"name": "t", "inputs": {"parameters": [{"name": "orderId"}]}, "container": {}});
    let pod = world
        .pod(executor::init)
        .env("ARGO_TEMPLATE", &plain.to_string())
        .start();
    assert_eq!(pod.exit().await, 0);
}

#[tokio::test]
async fn a_pod_without_main_is_an_error() {
    let world = World::new(&["create", "patch"]).await;
    let mut spec = world.pod(executor::wait);
    spec.siblings.clear();
    let pod = spec.start();
    assert_eq!(pod.exit().await, 64);
    assert!(
        pod.termination.get().starts_with("eventlab: "),
        "{}",
        pod.termination.get()
    );
}
