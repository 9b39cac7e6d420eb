//! What a client takes for an answer: JSON, YAML, or nothing that there is.

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::api_support::{Lab, create};

const MAPS: &str = "/api/v1/namespaces/lab/configmaps";

/// Code, media type and text.
async fn ask(
    lab: &Lab,
    method: &str,
    path: &str,
    accept: &str,
    body: &str,
) -> (u16, String, String) {
    let token = lab.server.user_token("admin", &["system:masters"]);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Authorization", format!("Bearer {token}"))
        .header("Accept", accept)
        .header("Content-Type", "application/yaml")
        .body(Body::from(body.to_owned()))
        .unwrap();
    let response = lab.server.router().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let media = response.headers()["content-type"]
        .to_str()
        .unwrap()
        .to_owned();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, media, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn yaml_is_answered_to_those_who_ask_for_it() {
    let lab = Lab::new().await;
    let written =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yam}\ndata: {a: 'yes', 'n': '010'}\n";
    let (code, media, text) = ask(&lab, "POST", MAPS, "application/yaml", written).await;
    assert_eq!((code, media.as_str()), (201, "application/yaml"), "{text}");
    let object: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(object["data"], json!({"a": "yes", "n": "010"}), "{text}");
    // A reader of YAML 1.1 would take a bare time for something else than text.
    assert!(text.contains("creationTimestamp: \"20"), "{text}");
    let one = format!("{MAPS}/yam");
    for (path, kind) in [
        (one.as_str(), "ConfigMap"),
        (MAPS, "ConfigMapList"),
        ("/api", "APIVersions"),
        ("/apis/apps/v1", "APIResourceList"),
    ] {
        let (code, media, text) = ask(&lab, "GET", path, "application/yaml", "").await;
        assert_eq!((code, media.as_str()), (200, "application/yaml"), "{path}");
        let answer: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(answer["kind"], kind, "{text}");
    }
    let table = "application/yaml;as=Table;v=v1;g=meta.k8s.io";
    let (_, _, text) = ask(&lab, "GET", MAPS, table, "").await;
    let answer: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(answer["rows"][0]["cells"][0], "yam", "{text}");
    let (code, media, text) =
        ask(&lab, "GET", &format!("{MAPS}/none"), "application/yaml", "").await;
    assert_eq!((code, media.as_str()), (404, "application/yaml"));
    let status: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(status["message"], "configmaps \"none\" not found");
    // What is sent as YAML is YAML, and what is no object is refused.
    for bad in ["a: [", "- a\n- b\n", "just text", "a: &x [*x]\n"] {
        let (code, _, text) = ask(&lab, "POST", MAPS, "application/yaml", bad).await;
        assert_eq!(code, 400, "{bad}: {text}");
    }
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_what_there_is_is_told_so() {
    let lab = Lab::new().await;
    create(&lab, MAPS, json!({"metadata": {"name": "yam"}})).await;
    let paths = [
        MAPS,
        "/api",
        "/apis",
        "/api/v1",
        "/apis/argoproj.io/v1alpha1/namespaces/lab/workflows",
    ];
    for path in paths {
        for accept in [
            "text/html",
            "garbage",
            "application/vnd.kubernetes.protobuf",
            "application/json;as=Foo;g=x;v=v1",
        ] {
            let (code, _, text) = ask(&lab, "GET", path, accept, "").await;
            let status: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(
                (code, &status["reason"]),
                (406, &json!("NotAcceptable")),
                "{path} {accept} {text}"
            );
        }
        for accept in [
            "*/*",
            "text/html, */*;q=0.1",
            "application/json",
            "application/vnd.kubernetes.protobuf,application/json",
        ] {
            let (code, media, _) = ask(&lab, "GET", path, accept, "").await;
            assert_eq!(
                (code, media.as_str()),
                (200, "application/json"),
                "{path} {accept}"
            );
        }
    }
    // Nothing is written for somebody who cannot be answered.
    let written = "kind: ConfigMap\nmetadata: {name: z}\n";
    assert_eq!(ask(&lab, "POST", MAPS, "text/html", written).await.0, 406);
    assert_eq!(
        ask(&lab, "GET", &format!("{MAPS}/z"), "*/*", "").await.0,
        404
    );
    let watch = format!("{MAPS}?watch=true&timeoutSeconds=1");
    let (code, _, text) = ask(&lab, "GET", &watch, "application/yaml", "").await;
    assert!(
        code == 406 && text.contains("application/json;stream=watch"),
        "{text}"
    );
    assert_eq!(
        ask(&lab, "GET", &watch, "application/yaml,application/json", "")
            .await
            .0,
        200
    );
}

/// Measured: a list is no single object, and what goes into a Table is one of three.
#[tokio::test]
async fn a_shape_that_the_answer_cannot_have_is_refused() {
    const FLOWS: &str = "/apis/argoproj.io/v1alpha1/namespaces/lab/workflows";
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/lab/roles";
    let lab = Lab::new().await;
    create(&lab, MAPS, json!({"metadata": {"name": "one"}})).await;
    let flow = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "one"}, "spec": {}});
    create(&lab, FLOWS, flow).await;
    let one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let many = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let wrong = "Unable to convert to Table as requested: includeObject: Invalid value: \"x\": must be 'Metadata', 'Object', 'None', or empty";
    let list = |name: &str| {
        format!("you requested PartialObjectMetadata, but the requested object is a list (*{name})")
    };
    for (path, accept, code, message) in [
        (MAPS.to_owned(), one, 406, list("core.ConfigMapList")),
        (ROLES.to_owned(), one, 406, list("rbac.RoleList")),
        (FLOWS.to_owned(), one, 406, list("unstructured.UnstructuredList")),
        ("/apis/events.k8s.io/v1/events".to_owned(), one, 406, list("core.EventList")),
        (
            format!("{MAPS}/one"),
            many,
            406,
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)".to_owned(),
        ),
        (format!("{FLOWS}/one"), many, 500, "content is not a list".to_owned()),
        (format!("{MAPS}?includeObject=x"), table, 400, wrong.to_owned()),
        (format!("{MAPS}?includeObject=x&watch=1&timeoutSeconds=1"), table, 400, wrong.to_owned()),
        (format!("{MAPS}/none?includeObject=x"), table, 404, "configmaps \"none\" not found".to_owned()),
    ] {
        let (found, _, text) = ask(&lab, "GET", &path, accept, "").await;
        let status: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((found, &status["message"]), (code, &json!(message)), "{path} {accept}");
    }
    for (path, accept, kind) in [
        (MAPS.to_owned(), many, "PartialObjectMetadataList"),
        (format!("{FLOWS}/one"), one, "PartialObjectMetadata"),
        (format!("{MAPS}?includeObject=None"), table, "Table"),
        (
            format!("{MAPS}?includeObject=x"),
            "application/json",
            "ConfigMapList",
        ),
    ] {
        let (code, _, text) = ask(&lab, "GET", &path, accept, "").await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (code, &answer["kind"]),
            (200, &json!(kind)),
            "{path} {accept}"
        );
    }
}
