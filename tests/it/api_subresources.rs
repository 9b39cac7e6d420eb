//! What the scale of a workload and the binding of a pod take and refuse, as kube-apiserver does.

use serde_json::{Value, json};

use crate::api_support::{Lab, create, send};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/lab/deployments";
const PODS: &str = "/api/v1/namespaces/lab/pods";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

fn scale(metadata: Value) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": 3}})
}

#[tokio::test]
async fn a_scale_is_of_a_workload_that_is_there() {
    let lab = Lab::new().await;
    let workloads = [
        (DEPLOYMENTS, "deployments"),
        ("/apis/apps/v1/namespaces/lab/replicasets", "replicasets"),
        ("/apis/apps/v1/namespaces/lab/statefulsets", "statefulsets"),
    ];
    for (folder, plural) in workloads {
        let path = format!("{folder}/absent/scale");
        let sent = scale(json!({"name": "absent"})).to_string();
        let apply = format!("{path}?fieldManager=x");
        let asked = [
            ("GET", &path, JSON, String::new()),
            ("PUT", &path, JSON, sent.clone()),
            (
                "PUT",
                &path,
                JSON,
                scale(json!({"name": "absent", "uid": "u", "resourceVersion": "7"})).to_string(),
            ),
            (
                "PATCH",
                &path,
                MERGE,
                r#"{"spec":{"replicas":1}}"#.to_owned(),
            ),
            ("PATCH", &apply, APPLY, sent),
        ];
        for (method, path, media, body) in asked {
            let dry = format!(
                "{path}{}dryRun=All",
                if path.contains('?') { '&' } else { '?' }
            );
            for path in [path, &dry] {
                let (code, answer) = send(&lab, method, path, media, body.clone()).await;
                let want = format!("{plural}.apps \"absent\" not found");
                assert_eq!(
                    (code, &answer["message"]),
                    (404, &json!(want)),
                    "{method} {path}"
                );
                let details = json!({"name": "absent", "group": "apps", "kind": plural});
                assert_eq!(
                    (&answer["reason"], &answer["details"]),
                    (&json!("NotFound"), &details)
                );
            }
        }
        // It is not made, either.
        let all = send(&lab, "GET", folder, JSON, "").await.1;
        assert_eq!(all["items"], json!([]));
    }
}

#[tokio::test]
async fn a_scale_is_meant_for_one_workload() {
    let lab = Lab::new().await;
    let made = create(&lab, DEPLOYMENTS, deployment("d")).await;
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let conflict = "Operation cannot be fulfilled on deployments";
    let unmet = format!(
        "{conflict}.apps \"d\": StorageError: invalid object, Code: 4, Key: /registry/deployments/lab/d, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: {uid}"
    );
    let unmet_patch = format!(
        "{conflict}/scale.apps \"d\": Precondition failed: UID in precondition: other, UID in object meta: {uid}"
    );
    let modified = format!(
        "{conflict}.apps \"d\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let elsewhere =
        "the namespace of the provided object does not match the namespace sent on the request";
    let unnamed =
        "the name of the object (d based on URL) was undeterminable: name must be provided";
    let misnamed = "the name of the object (e) does not match the name on the URL (d)";
    let put = |metadata: Value| ("PUT", JSON, scale(metadata).to_string());
    let patch = |metadata: Value| ("PATCH", MERGE, json!({"metadata": metadata}).to_string());
    let cases = [
        (put(json!({})), 400, unnamed),
        (put(json!({"name": "e"})), 400, misnamed),
        (
            put(json!({"name": "d", "namespace": "other"})),
            400,
            elsewhere,
        ),
        (
            put(json!({"name": "d", "uid": "other"})),
            409,
            unmet.as_str(),
        ),
        (
            put(json!({"name": "d", "resourceVersion": "1"})),
            409,
            modified.as_str(),
        ),
        (patch(json!({"name": null})), 400, unnamed),
        (patch(json!({"name": "e"})), 400, misnamed),
        (patch(json!({"namespace": "other"})), 400, elsewhere),
        (patch(json!({"uid": "other"})), 409, unmet_patch.as_str()),
        (
            patch(json!({"resourceVersion": "1"})),
            409,
            modified.as_str(),
        ),
    ];
    let path = format!("{DEPLOYMENTS}/d/scale");
    for ((method, media, body), code, message) in cases {
        let (is, answer) = send(&lab, method, &path, media, body.clone()).await;
        assert_eq!(
            (is, &answer["message"]),
            (code, &json!(message)),
            "{method} {body}"
        );
    }
    let untouched = send(&lab, "GET", &format!("{DEPLOYMENTS}/d"), JSON, "")
        .await
        .1;
    assert_eq!(untouched, made);
    let version = &made["metadata"]["resourceVersion"];
    let exact = json!({"name": "d", "namespace": "lab", "uid": uid, "resourceVersion": version});
    let (code, answer) = send(&lab, "PUT", &path, JSON, scale(exact).to_string()).await;
    assert_eq!(
        (code, &answer["spec"]["replicas"]),
        (200, &json!(3)),
        "{answer}"
    );
    // The answer is what was written, of which it has the version.
    let now = send(&lab, "GET", &path, JSON, "").await.1;
    assert_eq!(now, answer);
}

fn binding(metadata: Value, target: Value) -> String {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})
        .to_string()
}

#[tokio::test]
async fn a_pod_is_bound_once_and_to_a_node() {
    let lab = Lab::new().await;
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = create(&lab, PODS, pod).await;
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let version = pod["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{PODS}/p/binding");
    let node = json!({"kind": "Node", "name": "n\u{200b}\u{1}"});
    let unmet = |what: &str, was: &str| {
        format!(
            "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, Key: /registry/pods/lab/p, \
             ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: 1, {what} in object meta: {was}"
        )
    };
    let refusals = [
        (
            binding(json!({}), node.clone()),
            400,
            "name in URL does not match name in Binding object".to_owned(),
        ),
        (
            binding(json!({"name": "p"}), json!({"kind": "Node"})),
            500,
            "target.name: Required value".to_owned(),
        ),
        (
            binding(json!({"name": "p"}), json!({"kind": "Pod", "name": "n"})),
            500,
            "target.kind: Unsupported value: \"Pod\": supported values: \"<empty>\", \"Node\""
                .to_owned(),
        ),
        (
            binding(json!({"name": "p", "uid": "1"}), node.clone()),
            409,
            unmet("UID", uid),
        ),
        (
            binding(json!({"name": "p", "resourceVersion": "1"}), node.clone()),
            409,
            unmet("ResourceVersion", version),
        ),
    ];
    for (body, code, message) in refusals {
        let (is, answer) = send(&lab, "POST", &path, JSON, body.clone()).await;
        assert_eq!((is, &answer["message"]), (code, &json!(message)), "{body}");
    }
    let bind = binding(
        json!({"name": "p", "uid": uid, "resourceVersion": version}),
        node.clone(),
    );
    let dry = send(
        &lab,
        "POST",
        &format!("{path}?dryRun=All"),
        JSON,
        bind.clone(),
    )
    .await;
    assert_eq!(dry.0, 201, "{}", dry.1);
    assert_eq!(
        send(&lab, "GET", &format!("{PODS}/p"), JSON, "").await.1,
        pod
    );
    assert_eq!(send(&lab, "POST", &path, JSON, bind).await.0, 201);
    // The name of a node is told as Go quotes it.
    let (code, answer) = send(
        &lab,
        "POST",
        &path,
        JSON,
        binding(json!({"name": "p"}), node),
    )
    .await;
    let want = r#"Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n\u200b\x01""#;
    assert_eq!((code, &answer["message"]), (409, &json!(want)));
    assert_eq!(
        answer["details"],
        json!({"name": "p", "kind": "pods/binding"})
    );
}

/// What is told of a text has Go's escapes, wherever it stands.
#[tokio::test]
async fn texts_are_quoted_as_go_quotes_them() {
    let lab = Lab::new().await;
    let odd = "x\u{200b}\u{1}\u{e9}";
    let shown = "\"x\\u200b\\x01\u{e9}\"";
    let maps = "/api/v1/namespaces/lab/configmaps";
    let kinds = "is registered for version \"v1\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"";
    let cases = [
        (
            "POST",
            maps.to_owned(),
            json!({"apiVersion": "v1", "kind": odd, "metadata": {"name": "a"}}),
            format!("no kind {shown} {kinds}"),
        ),
        (
            "POST",
            maps.to_owned(),
            json!({"metadata": {"name": odd}}),
            format!("metadata.name: Invalid value: {shown}: "),
        ),
        (
            "POST",
            format!("{maps}?fieldValidation=Strict"),
            json!({"metadata": {"name": "a"}, odd: 1}),
            format!("unknown field {shown}"),
        ),
        (
            "GET",
            format!("{maps}/x%E2%80%8B%01%C3%A9"),
            Value::Null,
            format!("configmaps {shown} not found"),
        ),
        (
            "GET",
            format!("{maps}?resourceVersion=x%E2%80%8B%01%C3%A9"),
            Value::Null,
            format!("Invalid value: {shown}: strconv.ParseUint: parsing {shown}: invalid syntax"),
        ),
        (
            "GET",
            format!("{maps}?labelSelector=a%3Dx%C3%A9-%C2%A0"),
            Value::Null,
            "\\u00a0\"".to_owned(),
        ),
    ];
    for (method, path, body, part) in cases {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let (code, answer) = send(&lab, method, &path, JSON, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(
            code >= 400 && message.contains(&part),
            "{method} {path}: {code} {message}"
        );
    }
}

/// A second delete of a pod only shortens what the first one granted, and says nothing new if it asks for nothing.
#[tokio::test]
async fn the_grace_of_a_pod_only_becomes_shorter() {
    let lab = Lab::new().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    create(&lab, PODS, pod).await;
    let path = format!("{PODS}/p");
    let delete = async |grace: Value| {
        let body = json!({"gracePeriodSeconds": grace}).to_string();
        let (code, pod) = send(&lab, "DELETE", &path, JSON, body).await;
        assert_eq!(code, 200, "{pod}");
        let metadata = pod["metadata"].clone();
        let end: jiff::Timestamp = metadata["deletionTimestamp"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        (
            metadata["deletionGracePeriodSeconds"].as_i64().unwrap(),
            end.as_second(),
            metadata,
        )
    };
    let (grace, end, first) = delete(json!(600)).await;
    assert_eq!(grace, 600);
    for same in [json!(null), json!(600), json!(3000)] {
        assert_eq!(delete(same.clone()).await.2, first, "{same}");
    }
    for shorter in [300, 5, -1] {
        let grace = if shorter < 0 { 1 } else { shorter };
        let (is, until, metadata) = delete(json!(shorter)).await;
        assert_eq!((is, until), (grace, end - 600 + grace));
        assert_eq!(metadata["generation"], first["generation"]);
    }
    let body = json!({"gracePeriodSeconds": 0}).to_string();
    assert_eq!(send(&lab, "DELETE", &path, JSON, body).await.0, 200);
    assert_eq!(send(&lab, "GET", &path, JSON, "").await.0, 404);
}
