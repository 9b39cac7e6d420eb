//! Whole passes without an API: a script plays the node, and the status tree is looked at.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::locks::Locks;
use super::operation::{Actions, Operation, Submission, Workflow, World};
use super::pods::NODE_ID;
use super::status::Phase;

/// A Workflow, its pods and the clock.
struct Stage {
    wf: Workflow,
    pods: BTreeMap<String, Arc<Pod>>,
    results: BTreeMap<String, Arc<DynamicObject>>,
    locks: Arc<Locks>,
    now: Timestamp,
    template: Option<Value>,
    /// What the API answers to the next pods.
    answer: Submission,
    actions: Actions,
}

impl Stage {
    fn new(spec: Value) -> Self {
        Self::named("order-1", spec)
    }

    fn named(name: &str, spec: Value) -> Self {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": {"name": name, "namespace": "lab", "uid": format!("uid-{name}"), "resourceVersion": "1",
                         "creationTimestamp": "2026-01-02T03:04:00Z", "labels": {"arrival": "abc"}},
            "spec": spec,
        }))
        .expect("workflow");
        Self {
            wf: Workflow::from_object(&object).expect("workflow"),
            pods: BTreeMap::new(),
            results: BTreeMap::new(),
            locks: Arc::new(Locks::new(|_| {})),
            now: "2026-01-02T03:04:05Z".parse().expect("time"),
            template: None,
            answer: Submission::Created,
            actions: Actions::default(),
        }
    }

    /// One pass; pods that it makes are Pending.
    fn pass(&mut self) -> &mut Self {
        let find_template = |name: &str| self.template.clone().filter(|_| name == "process-order");
        let config_map = |_: &str, name: &str, key: &str| match (name, key) {
            ("limits", "orders") => Ok("1".to_owned()),
            _ => Err(format!("configmap '{name}' not found")),
        };
        let world = World {
            pods: self.pods.clone(),
            results: self.results.clone(),
            on_hold: BTreeMap::new(),
            find_template: &find_template,
            config_map: &config_map,
            locks: &self.locks,
            pod_gc_delay: Duration::from_secs(1),
            now: self.now,
        };
        let mut operation = Operation::new(self.wf.clone(), &world);
        operation.begin();
        let mut made = Vec::new();
        for _ in 0..super::MAX_ROUNDS {
            let plans = operation.execute();
            if plans.is_empty() {
                break;
            }
            for plan in plans {
                operation.submitted(&plan.node, self.answer.clone());
                if self.answer == Submission::Created {
                    made.push(*plan.pod);
                }
            }
        }
        let (wf, _, actions) = operation.finish(&self.wf);
        for holder in &actions.release {
            self.locks.release(holder, holder.matches('/').count() == 1);
        }
        for pod in made {
            self.pods
                .insert(pod.annotations()[NODE_ID].clone(), Arc::new(pod));
        }
        (self.wf, self.actions) = (wf, actions);
        self
    }

    fn later(&mut self, seconds: i64) -> &mut Self {
        self.now = self
            .now
            .checked_add(SignedDuration::from_secs(seconds))
            .expect("time");
        self
    }

    /// Sets the status of the pod of the node with this display name, and passes.
    fn pod(&mut self, display: &str, status: Value) -> &mut Self {
        let id = self.id(display);
        let mut pod = (**self.pods.get(&id).expect("pod")).clone();
        pod.status = Some(serde_json::from_value(status).expect("status"));
        pod.spec.as_mut().expect("spec").node_name = Some("eventlab".into());
        self.pods.insert(id, Arc::new(pod));
        self.pass()
    }

    fn ends(&mut self, display: &str, main: i32, wait: i32) -> &mut Self {
        self.pod(display, ended(main, wait))
    }

    fn id(&self, display: &str) -> String {
        let nodes = self.wf.status.nodes.values();
        let mut found: Vec<_> = nodes.filter(|node| node.display_name == display).collect();
        found
            .pop()
            .unwrap_or_else(|| panic!("no node {display}"))
            .id
            .clone()
    }

    fn node(&self, display: &str) -> Value {
        serde_json::to_value(&self.wf.status.nodes[&self.id(display)]).expect("node")
    }

    fn phase(&self) -> (Option<Phase>, &str) {
        (self.wf.status.phase, &self.wf.status.message)
    }

    fn tree(&self) -> Value {
        serde_json::to_value(&self.wf.status.nodes).expect("nodes")
    }
}

fn ended(main: i32, wait: i32) -> Value {
    let container = |name: &str, code: i32, message: &str| {
        json!({"name": name, "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": {"terminated": {
            "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }, "message": message,
            "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:09Z"}}})
    };
    let forbidden = if wait == 0 {
        ""
    } else {
        "workflowtaskresults.argoproj.io is forbidden: no"
    };
    let phase = if main == 0 && wait == 0 {
        "Succeeded"
    } else {
        "Failed"
    };
    json!({"phase": phase, "containerStatuses": [container("wait", wait, forbidden), container("main", main, "")]})
}

fn running() -> Value {
    json!({"phase": "Running"})
}

fn apply() -> Value {
    json!({"name": "apply", "inputs": {"parameters": [{"name": "order"}]},
           "container": {"image": "eventlab:dev", "command": ["/eventlab"],
                         "args": ["ledger", "apply", "--order-id", "{{inputs.parameters.order}}", "--arrival", "{{workflow.labels.arrival}}", "--workflow-uid", "{{workflow.uid}}"]}})
}

fn one_pod() -> Value {
    json!({"entrypoint": "main", "serviceAccountName": "order-runner", "templates": [
        {"name": "main", "container": {"image": "eventlab:dev", "command": ["/eventlab"], "args": ["ledger"]}}]})
}

fn two_steps() -> Value {
    let step = |name: &str, order: &str| json!([{"name": name, "template": "apply", "arguments": {"parameters": [{"name": "order", "value": order}]}}]);
    json!({"entrypoint": "main", "templates": [
        {"name": "main", "steps": [step("first", "1001"), step("second", "{{steps.first.exitCode}}")]}, apply()]})
}

#[test]
fn a_single_pod_runs_to_its_end() {
    let mut stage = Stage::new(one_pod());
    stage.pass();
    assert_eq!(stage.phase(), (Some(Phase::Running), ""));
    let pod = stage.pods["order-1"].clone();
    assert_eq!(pod.name_any(), "order-1");
    assert_eq!(
        pod.spec
            .as_ref()
            .and_then(|spec| spec.service_account_name.as_deref()),
        Some("order-runner")
    );
    let containers: Vec<_> = pod
        .spec
        .iter()
        .flat_map(|spec| &spec.containers)
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(containers, ["wait", "main"]);
    assert_eq!(stage.node("order-1")["phase"], "Pending");
    stage.pod("order-1", running());
    assert_eq!(stage.node("order-1")["phase"], "Running");
    assert_eq!(stage.wf.status.conditions[0].status, "True");
    stage.ends("order-1", 0, 0);
    assert_eq!(stage.phase(), (Some(Phase::Succeeded), ""));
    let labels = stage.wf.meta.labels.clone().expect("labels");
    assert_eq!(labels["workflows.argoproj.io/phase"], "Succeeded");
    assert_eq!(labels["workflows.argoproj.io/completed"], "true");
    let node = stage.node("order-1");
    assert_eq!(node["outputs"]["exitCode"], "0");
    assert_eq!(node["hostNodeName"], "eventlab");
    assert_eq!(
        (node["progress"].as_str(), stage.wf.status.progress.as_str()),
        (Some("1/1"), "1/1")
    );
    assert_eq!(node["resourcesDuration"], json!({"cpu": 0, "memory": 8}));
    assert_eq!(node["finishedAt"], "2026-01-02T03:04:09Z");
    assert!(
        stage
            .wf
            .status
            .conditions
            .iter()
            .any(|condition| condition.kind == "Completed")
    );
}

#[test]
fn the_tree_of_two_steps_is_that_of_argo() {
    let mut stage = Stage::new(two_steps());
    stage
        .pass()
        .pod("first", running())
        .ends("first", 0, 0)
        .pod("second", running())
        .ends("second", 0, 0);
    assert_eq!(stage.phase(), (Some(Phase::Succeeded), ""));
    let id = |name: &str| super::nodes::node_id("order-1", name);
    let (g0, first, g1, second) = (
        id("order-1[0]"),
        id("order-1[0].first"),
        id("order-1[1]"),
        id("order-1[1].second"),
    );
    let tree = stage.tree();
    let root = &tree["order-1"];
    assert_eq!(root["type"], "Steps");
    assert_eq!(root["children"], json!([g0]));
    assert_eq!(root["outboundNodes"], json!([second]));
    assert_eq!(root.get("boundaryID"), None);
    assert_eq!(root["templateScope"], "local/order-1");
    assert_eq!(root["progress"], "2/2");
    assert_eq!(tree[&g0]["type"], "StepGroup");
    assert_eq!(tree[&g0]["displayName"], "[0]");
    assert_eq!(tree[&g0]["boundaryID"], "order-1");
    assert_eq!(tree[&g0]["nodeFlag"], json!({}));
    assert_eq!(tree[&g0]["children"], json!([first]));
    assert_eq!(tree[&g0].get("taskResultSynced"), None);
    assert_eq!(tree[&first]["type"], "Pod");
    assert_eq!(tree[&first]["displayName"], "first");
    assert_eq!(tree[&first]["templateName"], "apply");
    assert_eq!(tree[&first]["boundaryID"], "order-1");
    assert_eq!(tree[&first]["children"], json!([g1]));
    assert_eq!(tree[&first]["taskResultSynced"], true);
    assert_eq!(
        tree[&first]["inputs"],
        json!({"parameters": [{"name": "order", "value": "1001"}]})
    );
    assert_eq!(
        tree[&second]["inputs"]["parameters"][0]["value"], "0",
        "the exit code of the first"
    );
    assert_eq!(tree.as_object().map(serde_json::Map::len), Some(5));
    let pod = &stage.pods[&first];
    assert_eq!(
        pod.name_any(),
        format!("order-1-apply-{}", first.trim_start_matches("order-1-"))
    );
    let args = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.containers[1].args.clone())
        .unwrap_or_default();
    assert_eq!(
        args,
        [
            "ledger",
            "apply",
            "--order-id",
            "1001",
            "--arrival",
            "abc",
            "--workflow-uid",
            "uid-order-1"
        ]
    );
}

#[test]
fn a_failing_step_hides_its_reason_below() {
    let mut stage = Stage::new(two_steps());
    stage.pass().ends("first", 3, 0);
    let first = stage.id("first");
    assert_eq!(
        stage.phase(),
        (
            Some(Phase::Failed),
            format!("child '{first}' failed").as_str()
        )
    );
    assert_eq!(stage.node("first")["message"], "main: Error (exit code 3)");
    assert_eq!(stage.node("[0]")["phase"], "Failed");
    assert_eq!(
        stage.tree().as_object().map(serde_json::Map::len),
        Some(3),
        "the second group never came to be"
    );
    assert!(
        stage
            .actions
            .notes
            .iter()
            .any(|note| note.reason == "WorkflowFailed")
    );
    assert!(
        stage
            .actions
            .notes
            .iter()
            .any(|note| note.reason == "WorkflowNodeFailed")
    );
}

#[test]
fn a_missing_executor_right_is_an_error_after_the_work() {
    let text = "wait: Error (exit code 64): workflowtaskresults.argoproj.io is forbidden: no";
    let mut stage = Stage::new(one_pod());
    stage
        .pass()
        .pod("order-1", running())
        .ends("order-1", 0, 64);
    assert_eq!(stage.phase(), (Some(Phase::Error), text));
    let mut stage = Stage::new(two_steps());
    stage.pass().pod("first", running()).ends("first", 0, 64);
    assert_eq!(stage.phase().0, Some(Phase::Failed));
    assert_eq!(stage.node("first")["phase"], "Error");
    assert_eq!(stage.node("first")["message"], text);
}

#[test]
fn a_node_waits_for_its_task_result() {
    let mut stage = Stage::new(one_pod());
    stage.pass().pod("order-1", running());
    let result = |completed: &str| -> Arc<DynamicObject> {
        Arc::new(
            serde_json::from_value(json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTaskResult",
                "metadata": {"name": "order-1", "labels": {"workflows.argoproj.io/report-outputs-completed": completed}},
                "outputs": {"result": "17"}, "progress": "1/2",
            }))
            .expect("result"),
        )
    };
    stage.results.insert("order-1".into(), result("false"));
    stage.ends("order-1", 0, 0);
    assert_eq!(
        stage.phase().0,
        Some(Phase::Running),
        "the result is not complete"
    );
    assert_eq!(stage.node("order-1")["taskResultSynced"], false);
    stage.results.insert("order-1".into(), result("true"));
    stage.pass();
    assert_eq!(stage.phase().0, Some(Phase::Succeeded));
    let node = stage.node("order-1");
    assert_eq!(node["outputs"], json!({"result": "17", "exitCode": "0"}));
    assert_eq!(node["progress"], "2/2");
}

#[test]
fn success_waits_for_the_wait_container() {
    let mut stage = Stage::new(one_pod());
    let mut status = ended(0, 0);
    status["containerStatuses"][0]["state"] = json!({"running": {}});
    stage
        .pass()
        .pod("order-1", running())
        .pod("order-1", status);
    assert_eq!(stage.node("order-1")["phase"], "Running");
}

#[test]
fn a_pod_that_is_gone_is_an_error_unless_it_had_not_begun() {
    let mut stage = Stage::new(one_pod());
    stage.pass();
    stage.pods.clear();
    stage.pass();
    assert_eq!(stage.pods.len(), 1, "a pending pod is made again");
    stage.pod("order-1", running());
    stage.pods.clear();
    stage.pass();
    assert_eq!(stage.phase(), (Some(Phase::Error), "pod deleted"));
    assert!(stage.pods.is_empty());
}

#[test]
fn a_refused_pod_ends_the_workflow_with_the_reason() {
    let why = "pods \"order-1\" is forbidden: error looking up service account lab/x: serviceaccount \"x\" not found";
    let mut stage = Stage::new(one_pod());
    stage.answer = Submission::Refused(why.into());
    stage.pass();
    assert_eq!(
        stage.phase(),
        (
            Some(Phase::Error),
            format!("error in entry template execution: {why}").as_str()
        )
    );
    let mut stage = Stage::new(two_steps());
    stage.answer = Submission::Refused(why.into());
    stage.pass();
    let text = format!("step group deemed errored due to child order-1[0].first error: {why}");
    assert_eq!(stage.phase(), (Some(Phase::Failed), text.as_str()));
    assert_eq!(stage.node("[0]")["phase"], "Error");
    assert_eq!(stage.node("first")["phase"], "Error");
}

#[test]
fn a_postponed_pod_leaves_its_node_pending() {
    let mut stage = Stage::new(one_pod());
    stage.answer = Submission::Postponed("exceeded quota: orders".into());
    stage.pass();
    assert_eq!(stage.phase().0, Some(Phase::Running));
    assert_eq!(stage.node("order-1")["phase"], "Pending");
    assert_eq!(stage.node("order-1")["message"], "exceeded quota: orders");
    stage.answer = Submission::Created;
    stage.pass().ends("order-1", 0, 0);
    assert_eq!(stage.phase(), (Some(Phase::Succeeded), ""));
}

#[test]
fn a_template_ref_is_merged_once_and_kept() {
    let mut stage = Stage::new(json!({"workflowTemplateRef": {"name": "process-order"},
        "arguments": {"parameters": [{"name": "order", "value": "1001"}]}}));
    let template = |image: &str| {
        json!({"entrypoint": "main", "serviceAccountName": "order-runner",
               "arguments": {"parameters": [{"name": "order", "value": "none"}, {"name": "mode", "value": "naive"}]},
               "templates": [{"name": "main", "container": {"image": image, "command": ["/eventlab"], "args": ["{{workflow.parameters.order}}", "{{workflow.parameters.mode}}"]}}]})
    };
    stage.template = Some(template("eventlab:dev"));
    stage.pass();
    let stored = stage
        .wf
        .status
        .stored_workflow_template_spec
        .clone()
        .expect("stored");
    assert_eq!(stored["serviceAccountName"], "order-runner");
    let args = stage.pods["order-1"]
        .spec
        .as_ref()
        .and_then(|spec| spec.containers[1].args.clone());
    assert_eq!(args, Some(vec!["1001".to_owned(), "naive".to_owned()]));
    assert_eq!(
        stage
            .wf
            .meta
            .labels
            .as_ref()
            .map(|all| all["workflows.argoproj.io/workflow-template"].as_str()),
        Some("process-order")
    );
    assert_eq!(stage.node("order-1")["templateScope"], "local/");
    stage.template = Some(template("other"));
    stage.pass();
    assert_eq!(stage.wf.status.stored_workflow_template_spec, Some(stored));
}

#[test]
fn mistakes_end_in_the_phase_and_words_of_argo() {
    let end = |spec: Value| {
        let mut stage = Stage::new(spec);
        stage.pass();
        assert!(
            stage.wf.status.nodes.is_empty()
                && stage.wf.status.finished_at.is_some()
                && stage.wf.status.started_at.is_some()
        );
        (stage.wf.status.phase, stage.wf.status.message)
    };
    assert_eq!(
        end(json!({"workflowTemplateRef": {"name": "nope"}})),
        (
            Some(Phase::Error),
            "workflowtemplates.argoproj.io \"nope\" not found".into()
        )
    );
    assert_eq!(
        end(json!({"templates": [apply()]})),
        (
            Some(Phase::Failed),
            "invalid spec: spec.entrypoint is required".into()
        )
    );
    let (phase, message) =
        end(json!({"entrypoint": "main", "templates": [{"name": "main", "dag": {"tasks": []}}]}));
    assert_eq!(phase, Some(Phase::Error));
    assert!(
        message.starts_with("eventlab: spec.templates[0].dag is not supported"),
        "{message}"
    );
    let (phase, message) = end(json!({"entrypoint": 7}));
    assert_eq!(phase, Some(Phase::Failed));
    assert!(message.starts_with("cannot unmarshall spec: "), "{message}");
}

#[test]
fn the_deadline_ends_a_running_pod() {
    let mut spec = one_pod();
    spec["activeDeadlineSeconds"] = json!(10);
    let mut stage = Stage::new(spec);
    stage.pass();
    assert_eq!(
        stage.pods["order-1"]
            .spec
            .as_ref()
            .and_then(|spec| spec.active_deadline_seconds),
        Some(10)
    );
    assert_eq!(stage.actions.again, Some(Duration::from_secs(10)));
    stage.pod("order-1", running()).later(11).pass();
    assert_eq!(
        stage.phase(),
        (Some(Phase::Failed), "Step exceeded its deadline")
    );
    assert_eq!(stage.actions.terminate.len(), 1);
}

#[test]
fn a_pod_that_the_node_refuses_for_ever_ends_the_workflow_with_the_reason() {
    let waiting = |message: &str| {
        json!({"phase": "Pending", "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0,
            "image": "", "imageID": "", "state": {"waiting": {"reason": "CreateContainerConfigError", "message": message}}}]})
    };
    let mut stage = Stage::new(one_pod());
    let refusal = "eventlab: container main is refused: privileged";
    stage.pass().pod("order-1", waiting(refusal));
    assert_eq!(stage.phase(), (Some(Phase::Error), refusal));
    assert_eq!(stage.actions.terminate.len(), 1);
    // What may still come is waited for.
    let mut stage = Stage::new(one_pod());
    stage
        .pass()
        .pod("order-1", waiting("configmap \"prices\" not found"));
    assert_eq!(stage.phase().0, Some(Phase::Running));
}

#[test]
fn an_image_that_cannot_be_pulled_stays_pending_until_the_deadline() {
    let mut spec = one_pod();
    spec["activeDeadlineSeconds"] = json!(10);
    let mut stage = Stage::new(spec);
    let waiting = json!({"phase": "Pending", "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0,
        "image": "", "imageID": "", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}]});
    stage.pass().pod("order-1", waiting);
    assert_eq!(stage.phase().0, Some(Phase::Running));
    assert_eq!(
        stage.node("order-1")["message"],
        "ErrImagePull: no such image"
    );
    stage.later(11).pass();
    assert_eq!(
        stage.phase(),
        (Some(Phase::Failed), "Step exceeded its deadline")
    );
}

#[test]
fn a_shutdown_ends_what_runs() {
    for (strategy, handler) in [("Stop", true), ("Terminate", false)] {
        let mut spec = one_pod();
        spec["onExit"] = json!("main");
        let mut stage = Stage::new(spec);
        stage.pass().pod("order-1", running());
        stage.wf.spec["shutdown"] = json!(strategy);
        stage.pass();
        let message = format!("workflow shutdown with strategy:  {strategy}");
        assert_eq!(stage.node("order-1")["message"], message.as_str());
        assert_eq!(stage.pods.len(), if handler { 2 } else { 1 }, "{strategy}");
        if handler {
            stage.ends("order-1.onExit", 0, 0);
        }
        assert_eq!(
            stage.phase(),
            (
                Some(Phase::Failed),
                format!("Stopped with strategy '{strategy}'").as_str()
            )
        );
    }
}

#[test]
fn suspend_freezes_between_passes() {
    let mut spec = one_pod();
    spec["suspend"] = json!(true);
    let mut stage = Stage::new(spec);
    stage.pass();
    assert_eq!(stage.phase().0, Some(Phase::Running));
    assert!(stage.pods.is_empty());
    stage.wf.spec["suspend"] = json!(false);
    stage.pass();
    assert_eq!(stage.pods.len(), 1);
}

fn with_retries(strategy: Value) -> Value {
    let mut spec = one_pod();
    spec["templates"][0]["retryStrategy"] = strategy;
    spec
}

#[test]
fn a_failure_is_tried_again_up_to_the_limit() {
    let mut stage = Stage::new(with_retries(json!({"limit": "1"})));
    stage.pass();
    assert_eq!(stage.node("order-1")["type"], "Retry");
    assert_eq!(
        stage.node("order-1(0)")["nodeFlag"],
        json!({"retried": true})
    );
    assert_eq!(
        stage.pods.values().next().map(|pod| pod.name_any()),
        Some(super::nodes::pod_name("order-1", "order-1(0)", "main"))
    );
    stage.ends("order-1(0)", 1, 0);
    assert_eq!(stage.phase().0, Some(Phase::Running));
    stage.ends("order-1(1)", 2, 0);
    assert_eq!(stage.phase(), (Some(Phase::Failed), "No more retries left"));
    assert_eq!(
        stage.node("order-1")["children"].as_array().map(Vec::len),
        Some(2)
    );
}

#[test]
fn an_error_is_not_a_failure() {
    let text = "wait: Error (exit code 64): workflowtaskresults.argoproj.io is forbidden: no";
    let mut stage = Stage::new(with_retries(json!({"limit": 3})));
    stage.pass().ends("order-1(0)", 0, 64);
    assert_eq!(stage.phase(), (Some(Phase::Error), text));
    let mut stage = Stage::new(with_retries(json!({"limit": 3, "retryPolicy": "Always"})));
    stage.pass().ends("order-1(0)", 0, 64);
    assert_eq!(
        stage.phase().0,
        Some(Phase::Running),
        "the work is done a second time"
    );
    stage.ends("order-1(1)", 0, 0);
    assert_eq!(stage.phase(), (Some(Phase::Succeeded), ""));
    assert_eq!(stage.node("order-1")["outputs"]["exitCode"], "0");
}

#[test]
fn a_deleted_pod_is_tried_again_by_the_policy_for_errors() {
    let mut stage = Stage::new(with_retries(json!({"limit": 1, "retryPolicy": "OnError"})));
    stage.pass().pod("order-1(0)", running());
    stage.pods.clear();
    stage.pass();
    assert_eq!(stage.node("order-1(0)")["message"], "pod deleted");
    stage.ends("order-1(1)", 0, 0);
    assert_eq!(stage.phase().0, Some(Phase::Succeeded));
}

#[test]
fn attempts_wait_for_their_back_off() {
    let mut stage = Stage::new(with_retries(
        json!({"limit": 3, "backoff": {"duration": "5", "factor": 2}}),
    ));
    stage.pass().later(4).ends("order-1(0)", 1, 0);
    assert_eq!(stage.node("order-1")["message"], "Backoff for 5 seconds");
    assert_eq!(stage.actions.again, Some(Duration::from_secs(5)));
    assert_eq!(stage.pods.len(), 1);
    stage.later(5).pass();
    assert_eq!(stage.pods.len(), 2);
    assert_eq!(stage.node("order-1").get("message"), None);
}

#[test]
fn refused_pods_are_retried_no_further_than_the_limit() {
    let mut stage = Stage::new(with_retries(json!({"limit": 2, "retryPolicy": "Always"})));
    stage.answer = Submission::Refused("no".into());
    stage.pass();
    assert_eq!(stage.phase(), (Some(Phase::Error), "No more retries left"));
    let mut stage = Stage::new(with_retries(json!({"retryPolicy": "Always"})));
    stage.answer = Submission::Refused("no".into());
    stage.pass();
    assert!(
        stage.wf.status.nodes.len() < 200,
        "an endless retry does not run away in one pass"
    );
}

#[test]
fn an_exit_handler_runs_last_and_may_spoil_a_success() {
    let mut spec = one_pod();
    spec["onExit"] = json!("report");
    let handler = json!({"name": "report", "container": {"image": "eventlab:dev", "command": ["/eventlab"], "args": ["{{workflow.status}}"]}});
    spec["templates"]
        .as_array_mut()
        .expect("templates")
        .push(handler);
    let mut stage = Stage::new(spec.clone());
    stage.pass().ends("order-1", 0, 0);
    assert_eq!(stage.phase().0, Some(Phase::Running));
    let exit = stage.id("order-1.onExit");
    let pod = stage.pods[&exit].clone();
    assert_eq!(pod.labels()["workflows.argoproj.io/on-exit"], "true");
    assert_eq!(
        pod.spec
            .as_ref()
            .and_then(|spec| spec.containers[1].args.clone()),
        Some(vec!["Succeeded".to_owned()])
    );
    assert_eq!(
        stage.node("order-1.onExit")["nodeFlag"],
        json!({"hooked": true})
    );
    assert_eq!(stage.node("order-1.onExit").get("boundaryID"), None);
    stage.ends("order-1.onExit", 4, 0);
    assert_eq!(
        stage.phase(),
        (Some(Phase::Failed), "main: Error (exit code 4)")
    );
    let mut stage = Stage::new(spec);
    stage.pass().ends("order-1", 3, 0);
    stage.ends("order-1.onExit", 0, 0);
    assert_eq!(
        stage.phase(),
        (Some(Phase::Failed), "main: Error (exit code 3)")
    );
}

#[test]
fn a_mutex_orders_two_workflows() {
    let mut spec = one_pod();
    spec["synchronization"] = json!({"mutexes": [{"name": "order-{{workflow.parameters.id}}"}]});
    spec["arguments"] = json!({"parameters": [{"name": "id", "value": "7"}]});
    let mut first = Stage::named("order-a", spec.clone());
    first.pass();
    let mut second = Stage::named("order-b", spec);
    second.locks = Arc::clone(&first.locks);
    second.pass();
    assert_eq!(
        second.phase(),
        (
            Some(Phase::Pending),
            "Waiting for lab/Mutex/order-7 lock. Lock status: 0/1"
        )
    );
    assert_eq!(second.wf.status.started_at, None);
    let shown =
        |stage: &Stage| serde_json::to_value(&stage.wf.status.synchronization).expect("json");
    assert_eq!(
        shown(&first),
        json!({"mutex": {"holding": [{"mutex": "lab/Mutex/order-7", "holder": "lab/order-a"}]}})
    );
    assert_eq!(
        shown(&second),
        json!({"mutex": {"waiting": [{"mutex": "lab/Mutex/order-7", "holder": "lab/order-a"}]}})
    );
    first.ends("order-a", 0, 0);
    assert_eq!(shown(&first), Value::Null);
    second.pass();
    assert_eq!(second.phase(), (Some(Phase::Running), ""));
    second.ends("order-b", 0, 0);
    assert_eq!(second.phase().0, Some(Phase::Succeeded));
}

#[test]
fn a_lock_of_a_template_holds_one_node_back() {
    let step = |name: &str| json!({"name": name, "template": "apply", "arguments": {"parameters": [{"name": "order", "value": "1"}]}});
    let mut template = apply();
    template["synchronization"] =
        json!({"semaphores": [{"configMapKeyRef": {"name": "limits", "key": "orders"}}]});
    let spec = json!({"entrypoint": "main", "templates": [{"name": "main", "steps": [[step("one"), step("two")]]}, template]});
    let mut stage = Stage::new(spec);
    stage.pass();
    assert_eq!(stage.pods.len(), 1);
    let waiting = stage.node("two");
    assert_eq!(waiting["phase"], "Pending");
    assert_eq!(
        waiting["message"],
        "Waiting for lab/ConfigMap/limits/orders lock. Lock status: 0/1"
    );
    assert_eq!(
        waiting["synchronizationStatus"]["waiting"],
        "lab/ConfigMap/limits/orders"
    );
    stage.ends("one", 0, 0).pass();
    assert_eq!(stage.pods.len(), 2);
    assert_eq!(stage.node("two").get("synchronizationStatus"), None);
    stage.ends("two", 0, 0);
    assert_eq!(stage.phase().0, Some(Phase::Succeeded));
}

#[test]
fn a_missing_semaphore_limit_fails_the_workflow() {
    let mut spec = one_pod();
    spec["synchronization"] =
        json!({"semaphores": [{"configMapKeyRef": {"name": "nope", "key": "orders"}}]});
    let mut stage = Stage::new(spec);
    stage.pass();
    let (phase, message) = stage.phase();
    assert_eq!(phase, Some(Phase::Failed));
    assert!(
        message.starts_with(
            "Failed to acquire the synchronization lock. failed to initialize semaphore"
        ),
        "{message}"
    );
}

#[test]
fn a_template_that_calls_itself_ends_at_the_depth_limit() {
    let spec = json!({"entrypoint": "main", "templates": [{"name": "main", "steps": [[{"name": "again", "template": "main"}]]}]});
    let mut stage = Stage::new(spec);
    stage.pass();
    assert_eq!(stage.phase().0, Some(Phase::Failed));
    assert!(
        stage
            .wf
            .status
            .nodes
            .values()
            .any(|node| node.message == super::TOO_DEEP)
    );
}

#[test]
fn a_pass_over_an_unchanged_workflow_changes_nothing() {
    let mut stage = Stage::new(two_steps());
    stage.pass().pod("first", running());
    let before = stage.wf.clone();
    stage.pass();
    assert_eq!(stage.wf, before);
    stage.ends("first", 0, 0).ends("second", 1, 0);
    let before = stage.wf.clone();
    stage.pass();
    assert_eq!(stage.wf, before, "a completed Workflow is never touched");
}
