//! Objects through the API, as any client sees them: create, read, change, watch, delete.

use axum::body::Body;
use futures::{StreamExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, ServiceAccount};
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::api_support::{Lab, answer, create, object, over_both_transports, send};
use eventlab::kinds;

over_both_transports!(
    an_object_lives_and_dies,
    a_watch_tells_everything_once_and_in_order,
    a_new_namespace_has_a_default_account_and_ends_with_its_content,
    a_pod_on_a_node_ends_in_two_steps,
    status_is_written_by_its_own_url_where_there_is_one,
    plain_text_of_a_secret_is_stored_as_data,
    what_is_marked_immutable_stays,
    a_null_among_texts_is_an_empty_text,
    a_binding_means_its_own_namespace_where_it_names_none,
);

async fn an_object_lives_and_dies(lab: Lab) {
    let maps: Api<ConfigMap> = lab.api("lab");
    let made = maps
        .create(
            &PostParams::default(),
            &object(json!({"metadata": {"name": "x"}, "data": {"a": "1"}})),
        )
        .await
        .unwrap();
    assert!(made.metadata.uid.is_some());
    assert!(made.metadata.creation_timestamp.is_some());
    let listed = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    let merged = maps
        .patch(
            "x",
            &PatchParams::default(),
            &Patch::Merge(json!({"data": {"b": "2"}})),
        )
        .await
        .unwrap();
    assert_eq!(merged.data.as_ref().map(|data| data.len()), Some(2));
    assert_ne!(
        merged.metadata.resource_version,
        made.metadata.resource_version
    );
    let error = maps
        .replace("x", &PostParams::default(), &made)
        .await
        .unwrap_err();
    assert!(
        matches!(error, kube::Error::Api(ref status) if status.code == 409),
        "{error}"
    );
    let same = maps
        .patch(
            "x",
            &PatchParams::default(),
            &Patch::Merge(json!({"data": {"b": "2"}})),
        )
        .await
        .unwrap();
    assert_eq!(
        same.metadata.resource_version,
        merged.metadata.resource_version
    );
    assert!(
        maps.delete("x", &DeleteParams::default())
            .await
            .unwrap()
            .is_right()
    );
    assert!(maps.get_opt("x").await.unwrap().is_none());
}

async fn a_watch_tells_everything_once_and_in_order(lab: Lab) {
    let maps: Api<ConfigMap> = lab.api("lab");
    maps.create(
        &PostParams::default(),
        &object(json!({"metadata": {"name": "a"}})),
    )
    .await
    .unwrap();
    let start = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let params = WatchParams::default().labels("team=x");
    let mut events = maps.watch(&params, &start).await.unwrap().boxed();
    let label = |value: Value| Patch::Merge(json!({"metadata": {"labels": {"team": value}}}));
    maps.patch("a", &PatchParams::default(), &label(json!("x")))
        .await
        .unwrap();
    maps.patch(
        "a",
        &PatchParams::default(),
        &Patch::Merge(json!({"data": {"k": "v"}})),
    )
    .await
    .unwrap();
    maps.patch("a", &PatchParams::default(), &label(json!("y")))
        .await
        .unwrap();
    maps.patch("a", &PatchParams::default(), &label(json!("x")))
        .await
        .unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 5 {
        let event = lab.soon(events.try_next()).await.unwrap().unwrap();
        seen.push(match event {
            WatchEvent::Added(_) => "ADDED",
            WatchEvent::Modified(_) => "MODIFIED",
            WatchEvent::Deleted(_) => "DELETED",
            _ => "other",
        });
    }
    assert_eq!(seen, ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]);
}

async fn a_new_namespace_has_a_default_account_and_ends_with_its_content(lab: Lab) {
    let spaces: Api<Namespace> = Api::all(lab.admin());
    spaces
        .create(
            &PostParams::default(),
            &object(json!({"metadata": {"name": "n"}})),
        )
        .await
        .unwrap();
    let accounts: Api<ServiceAccount> = lab.api("n");
    assert!(accounts.get_opt("default").await.unwrap().is_some());
    let maps: Api<ConfigMap> = lab.api("n");
    maps.create(
        &PostParams::default(),
        &object(json!({"metadata": {"name": "held", "finalizers": ["a/b"]}})),
    )
    .await
    .unwrap();
    spaces.delete("n", &DeleteParams::default()).await.unwrap();
    let ending = spaces.get("n").await.unwrap();
    assert_eq!(ending.status.unwrap().phase.as_deref(), Some("Terminating"));
    let error = maps
        .create(
            &PostParams::default(),
            &object(json!({"metadata": {"name": "late"}})),
        )
        .await
        .unwrap_err();
    assert!(
        matches!(error, kube::Error::Api(ref status) if status.code == 403),
        "{error}"
    );
    maps.patch(
        "held",
        &PatchParams::default(),
        &Patch::Merge(json!({"metadata": {"finalizers": null}})),
    )
    .await
    .unwrap();
    assert!(spaces.get_opt("n").await.unwrap().is_none());
}

async fn a_pod_on_a_node_ends_in_two_steps(lab: Lab) {
    let pods: Api<Pod> = lab.api("lab");
    let pod = object(
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "eventlab:dev"}]}}),
    );
    let made = pods.create(&PostParams::default(), &pod).await.unwrap();
    assert_eq!(
        made.spec.as_ref().unwrap().service_account_name.as_deref(),
        Some("default")
    );
    assert_eq!(made.status.unwrap().phase.as_deref(), Some("Pending"));
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "eventlab"}});
    let answer: Value = pods
        .create_subresource("binding", "p", &PostParams::default(), &binding)
        .await
        .unwrap();
    assert_eq!(answer["status"], "Success");
    assert!(
        pods.delete("p", &DeleteParams::default())
            .await
            .unwrap()
            .is_left()
    );
    let ending = pods.get("p").await.unwrap();
    assert_eq!(ending.metadata.deletion_grace_period_seconds, Some(30));
    pods.delete("p", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
}

async fn status_is_written_by_its_own_url_where_there_is_one(lab: Lab) {
    let sensors: Api<DynamicObject> = Api::namespaced_with(lab.admin(), "lab", &kinds::sensor());
    let sensor = object(
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Sensor", "metadata": {"name": "s"}, "spec": {"a": 1}, "status": {"x": 1}}),
    );
    let made: DynamicObject = sensors
        .create(&PostParams::default(), &sensor)
        .await
        .unwrap();
    assert_eq!(made.data.get("status"), None);
    let patch = Patch::Merge(json!({"status": {"phase": "Running"}, "spec": {"a": 2}}));
    let patched = sensors
        .patch("s", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(patched.data.get("status"), None);
    assert_eq!(patched.metadata.generation, Some(2));
    let patched = sensors
        .patch_status("s", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(patched.data["status"]["phase"], "Running");
    assert_eq!(patched.metadata.generation, Some(2));
    let workflows: Api<DynamicObject> =
        Api::namespaced_with(lab.admin(), "lab", &kinds::workflow());
    let workflow = object(
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "w-"}, "spec": {}, "status": {"phase": "Running"}}),
    );
    let made: DynamicObject = workflows
        .create(&PostParams::default(), &workflow)
        .await
        .unwrap();
    assert_eq!(made.data["status"]["phase"], "Running");
    assert_eq!(made.metadata.name.map(|name| name.len()), Some(7));
}

async fn plain_text_of_a_secret_is_stored_as_data(lab: Lab) {
    let secrets: Api<Secret> = lab.api("lab");
    let made = secrets
        .create(
            &PostParams::default(),
            &object(json!({"metadata": {"name": "s"}, "stringData": {"k": "v"}})),
        )
        .await
        .unwrap();
    assert_eq!(made.data.unwrap()["k"].0, b"v");
    assert_eq!(made.type_.as_deref(), Some("Opaque"));
}

async fn what_is_marked_immutable_stays(lab: Lab) {
    for (path, kind) in [("configmaps", "ConfigMap"), ("secrets", "Secret")] {
        let path = format!("/api/v1/namespaces/lab/{path}");
        let frozen = json!({"kind": kind, "metadata": {"name": "frozen"}, "immutable": true,
            "data": {"a": "MQ=="}});
        create(&lab, &path, frozen.clone()).await;
        let refused = [
            json!({"data": {"a": "Mg=="}}),
            json!({"data": {"b": "MQ=="}}),
            json!({"immutable": null}),
            json!({"immutable": false}),
        ];
        for change in refused {
            let (code, body) = merge(&lab, &format!("{path}/frozen"), &change).await;
            assert_eq!(code, 422, "{kind} {change}: {body}");
            let message = body["message"].as_str().unwrap();
            let why = "Forbidden: field is immutable when `immutable` is set";
            assert!(message.contains(why), "{message}");
        }
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        let (code, body) = merge(&lab, &format!("{path}/frozen"), &label).await;
        assert_eq!(code, 200, "{kind}: {body}");
    }
}

async fn merge(lab: &Lab, path: &str, change: &Value) -> (u16, Value) {
    let request = Request::patch(path)
        .header("Authorization", format!("Bearer {}", lab.admin_token()))
        .header("Content-Type", "application/merge-patch+json")
        .body(Body::from(change.to_string()))
        .unwrap();
    answer(lab, request).await
}

async fn a_null_among_texts_is_an_empty_text(lab: Lab) {
    let metadata =
        json!({"name": "nulls", "labels": {"a": null, "b": "c"}, "annotations": {"x": null}});
    let map = json!({"metadata": metadata, "data": {"k": null, "l": "m"}});
    let map = create(&lab, "/api/v1/namespaces/lab/configmaps", map).await;
    assert_eq!(map["data"], json!({"k": "", "l": "m"}));
    let workflow = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata,
        "spec": {"entrypoint": null}});
    let path = "/apis/argoproj.io/v1alpha1/namespaces/lab/workflows";
    let workflow = create(&lab, path, workflow).await;
    for made in [&map, &workflow] {
        assert_eq!(made["metadata"]["labels"], json!({"a": "", "b": "c"}));
        assert_eq!(made["metadata"]["annotations"], json!({"x": ""}));
    }
}

async fn a_binding_means_its_own_namespace_where_it_names_none(lab: Lab) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/lab";
    create(
        &lab,
        &format!("{rbac}/roles"),
        json!({"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}),
    )
    .await;
    create(
        &lab,
        &format!("{rbac}/rolebindings"),
        json!({"metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader"}]}),
    )
    .await;
    for (namespace, allowed) in [("lab", true), ("default", false)] {
        let review = json!({"spec": {"user": format!("system:serviceaccount:{namespace}:reader"),
            "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "lab"}}});
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let said = create(&lab, path, review).await;
        assert_eq!(said["status"]["allowed"], json!(allowed), "{namespace}");
    }
}

/// Measured: some kinds are shown as they were last, others are told of.
#[tokio::test]
async fn who_deletes_at_once_is_shown_what_is_gone() {
    let lab = Lab::new().await;
    let container = json!([{"name": "c", "image": "x"}]);
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    for (plural, body, kind) in [
        ("pods", json!({"spec": {"containers": container}}), "Pod"),
        ("resourcequotas", json!({"spec": {}}), "ResourceQuota"),
        ("limitranges", json!({"spec": {"limits": []}}), "Status"),
        (
            "persistentvolumeclaims",
            json!({"spec": claim}),
            "PersistentVolumeClaim",
        ),
        ("endpoints", json!({}), "Status"),
        (
            "services",
            json!({"spec": {"ports": [{"port": 1}]}}),
            "Service",
        ),
        ("serviceaccounts", json!({}), "ServiceAccount"),
        ("configmaps", json!({}), "Status"),
    ] {
        let all = format!("/api/v1/namespaces/lab/{plural}");
        let mut body = body;
        body["metadata"] = json!({"name": "gone"});
        create(&lab, &all, body).await;
        let url = format!("{all}/gone");
        for query in ["?dryRun=All", ""] {
            let path = format!("{url}{query}");
            let (code, told) = send(&lab, "DELETE", &path, "application/json", "").await;
            assert_eq!((code, &told["kind"]), (200, &json!(kind)), "{path}: {told}");
            let ends = !told["metadata"]["deletionTimestamp"].is_null();
            assert_eq!(ends, plural == "pods", "{told}");
        }
        assert_eq!(send(&lab, "GET", &url, "application/json", "").await.0, 404);
    }
    // An event has no dependents to wait for.
    let events = "/api/v1/namespaces/lab/events";
    create(
        &lab,
        events,
        json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "lab"}}),
    )
    .await;
    let path = format!("{events}/e?propagationPolicy=Foreground");
    let (_, told) = send(&lab, "DELETE", &path, "application/json", "").await;
    assert_eq!(told["status"], "Success", "{told}");
}

/// Whatever a change says of it: an object stays where its URL has it.
#[tokio::test]
async fn an_object_stays_in_its_namespace() {
    const MAP: &str = "/api/v1/namespaces/lab/configmaps/here";
    const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/wide";
    const FLOW: &str = "/apis/argoproj.io/v1alpha1/namespaces/lab/workflowtemplates/flow";
    let lab = Lab::new().await;
    let parent = |url: &str| url.rsplit_once('/').unwrap().0.to_owned();
    create(&lab, &parent(MAP), json!({"metadata": {"name": "here"}})).await;
    let role = json!({"metadata": {"name": "wide", "namespace": "lab"}, "rules": []});
    create(&lab, &parent(ROLE), role.clone()).await;
    let flow = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTemplate",
        "metadata": {"name": "flow"}, "spec": {}});
    create(&lab, &parent(FLOW), flow).await;
    let remove = json!([{"op": "remove", "path": "/metadata/namespace"}]);
    let (merge, strategic, json_patch) = (
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/json-patch+json",
    );
    let none = json!({"metadata": {"namespace": null, "labels": {"a": "b"}}});
    let replaced = json!({"metadata": {"$patch": "replace", "name": "here"}});
    let other = json!({"metadata": {"namespace": "lab", "labels": {"a": "b"}}});
    for (method, url, media, body, namespace) in [
        ("PATCH", MAP, merge, none.clone(), json!("lab")),
        ("PATCH", MAP, strategic, none.clone(), json!("lab")),
        ("PATCH", MAP, strategic, replaced, json!("lab")),
        ("PATCH", MAP, json_patch, remove.clone(), json!("lab")),
        ("PATCH", FLOW, merge, none, json!("lab")),
        ("PATCH", FLOW, json_patch, remove, json!("lab")),
        ("PATCH", ROLE, merge, other.clone(), Value::Null),
        ("PATCH", ROLE, strategic, other, Value::Null),
        ("PUT", ROLE, "application/json", role, Value::Null),
    ] {
        let (code, told) = send(&lab, method, url, media, body.to_string()).await;
        assert_eq!(
            (code, &told["metadata"]["namespace"]),
            (200, &namespace),
            "{url} {body}: {told}"
        );
        let (_, kept) = send(&lab, "GET", url, "application/json", "").await;
        assert_eq!(kept["metadata"]["namespace"], namespace, "{url} {body}");
    }
}

/// Measured: what comes with the status of a workload, and what counts as a change of its spec.
#[tokio::test]
async fn a_workload_takes_metadata_with_its_status() {
    let lab = Lab::new().await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let spec = json!({"replicas": 0, "serviceName": "x", "selector": {"matchLabels": {"a": "b"}}, "template": template});
    for (plural, kind) in [
        ("deployments", "Deployment"),
        ("replicasets", "ReplicaSet"),
        ("statefulsets", "StatefulSet"),
    ] {
        let all = format!("/apis/apps/v1/namespaces/lab/{plural}");
        let metadata = json!({"name": "w", "labels": {"l": "1"}, "annotations": {"a": "1"}});
        let body =
            json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec});
        create(&lab, &all, body).await;
        let url = format!("{all}/w");
        let more = json!({"metadata": {"labels": {"n": "1"}, "annotations": {"n": "1"}, "finalizers": ["x.y/z"]},
            "spec": {"replicas": 3}});
        let (_, made) = merge(&lab, &format!("{url}/status"), &more).await;
        let labelled = kind != "Deployment";
        assert_eq!(made["metadata"]["labels"]["n"] == "1", labelled, "{made}");
        assert_eq!(made["metadata"]["annotations"], json!({"a": "1", "n": "1"}));
        assert_eq!(made["metadata"]["finalizers"], json!(["x.y/z"]));
        assert_eq!(
            (&made["metadata"]["generation"], &made["spec"]["replicas"]),
            (&json!(1), &json!(0))
        );
        let annotated = i32::from(!labelled);
        for (change, generation) in [
            (
                json!({"metadata": {"annotations": {"z": "1"}}}),
                1 + annotated,
            ),
            (
                json!({"metadata": {"annotations": {"z": "1"}}}),
                1 + annotated,
            ),
            (json!({"metadata": {"labels": {"z": "1"}}}), 1 + annotated),
            (json!({"metadata": {"finalizers": null}}), 1 + annotated),
            (
                json!({"metadata": {"annotations": null}}),
                1 + 2 * annotated,
            ),
            (json!({"spec": {"minReadySeconds": 3}}), 2 + 2 * annotated),
        ] {
            let (_, made) = merge(&lab, &url, &change).await;
            assert_eq!(
                made["metadata"]["generation"], generation,
                "{kind} {change}"
            );
        }
    }
}
