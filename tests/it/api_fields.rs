//! Fields that stand twice or that a kind does not have: refused, told or passed over, as the request asks. The texts
//! are those of kube-apiserver 1.36.2.

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use crate::api_support::{Lab, create};

const MAPS: &str = "/api/v1/namespaces/lab/configmaps";
const SENSORS: &str = "/apis/argoproj.io/v1alpha1/namespaces/lab/sensors";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

struct Case {
    method: &'static str,
    path: String,
    media_type: &'static str,
    body: &'static str,
    /// The end of the message of a strict request, with its code.
    refusal: (u16, &'static str),
    warnings: &'static [&'static str],
}

/// Sends a dry run of a case; answers the code, the body and the warnings.
async fn ask(lab: &Lab, case: &Case, validation: &str) -> (u16, Value, Vec<String>) {
    let more = if case.path.contains('?') { '&' } else { '?' };
    let uri = format!("{}{more}dryRun=All&fieldValidation={validation}", case.path);
    let request = Request::builder()
        .method(case.method)
        .uri(uri)
        .header("Authorization", format!("Bearer {}", lab.admin_token()))
        .header("Content-Type", case.media_type)
        .body(Body::from(case.body))
        .unwrap();
    let response = lab.server.router().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("Warning").iter();
    let warnings = warnings.map(|one| one.to_str().unwrap().to_owned());
    let warnings = warnings.collect();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap(), warnings)
}

fn cases() -> Vec<Case> {
    let post = |path: &str, media_type, body, refusal, warnings| Case {
        method: "POST",
        path: path.to_owned(),
        media_type,
        body,
        refusal: (400, refusal),
        warnings,
    };
    let patch = |path: &str, media_type, body, refusal, warnings| Case {
        method: "PATCH",
        path: path.to_owned(),
        media_type,
        body,
        refusal,
        warnings,
    };
    let named = format!("{MAPS}/ok");
    let applied = format!("{MAPS}/ok?fieldManager=x&force=true");
    vec![
        post(
            MAPS,
            JSON,
            r#"{"apiVersion":"v1","kind":"ConfigMap","zz":1,"metadata":{"name":"x","labels":{"l":"1","l":"2","l":"3"}},"data":{"a":"1","a":"2"},"xx":1,"xx":2}"#,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"zz\", duplicate field \"metadata.labels.l\", duplicate field \"data.a\", unknown field \"xx\"",
            &[
                "unknown field \"zz\"",
                "duplicate field \"metadata.labels.l\"",
                "duplicate field \"data.a\"",
                "unknown field \"xx\"",
            ],
        ),
        post(
            "/api/v1/namespaces/lab/pods",
            JSON,
            r#"{"apiVersion":"v1","kind":"Pod","apiVersion":"v1","metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"x","env":[{"name":"a","value":"1","value":"2"}]}],"containers":[{"name":"e","image":"x"}],"nodeSelector":{"a":"b","a":"c"}}}"#,
            "strict decoding error: duplicate field \"apiVersion\", duplicate field \"spec.containers[0].env[0].value\", duplicate field \"spec.containers\", duplicate field \"spec.nodeSelector.a\"",
            &[
                "duplicate field \"apiVersion\"",
                "duplicate field \"spec.containers[0].env[0].value\"",
                "duplicate field \"spec.containers\"",
                "duplicate field \"spec.nodeSelector.a\"",
            ],
        ),
        post(
            SENSORS,
            JSON,
            r#"{"apiVersion":"argoproj.io/v1alpha1","kind":"Sensor","zz":1,"metadata":{"name":"x","name":"x","labels":{"a":"1","a":"2"}},"spec":{"q":1,"q":2,"r":[{"a":1,"a":2}]},"spec":{"t":1}}"#,
            "Sensor in version \"v1alpha1\" cannot be handled as a Sensor: strict decoding error: duplicate field \"metadata.name\", duplicate field \"metadata.labels.a\", duplicate field \"spec.q\", duplicate field \"spec.r[0].a\", duplicate field \"spec\", unknown field \"zz\"",
            &[
                "duplicate field \"metadata.name\"",
                "duplicate field \"metadata.labels.a\"",
                "duplicate field \"spec.q\"",
                "duplicate field \"spec.r[0].a\"",
                "duplicate field \"spec\"",
                "unknown field \"zz\"",
            ],
        ),
        post(
            MAPS,
            YAML,
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  labels: {l: \"1\", l: \"2\"}\n  annotations:\n    a: \"1\"\n    a: \"2\"\n    a: \"3\"\nbogus: 1\n",
            "strict decoding error: yaml: unmarshal errors:\n  line 5: key \"l\" already set in map\n  line 8: key \"a\" already set in map\n  line 9: key \"a\" already set in map, unknown field \"bogus\"",
            &[
                "line 5: key \"l\" already set in map",
                "line 8: key \"a\" already set in map",
                "line 9: key \"a\" already set in map",
                "unknown field \"bogus\"",
            ],
        ),
        post(
            SENSORS,
            YAML,
            "apiVersion: argoproj.io/v1alpha1\nkind: Sensor\nmetadata:\n  name: x\n  name: x\nzz: 1\nspec: {}\n",
            "strict decoding error: yaml: unmarshal errors:\n  line 5: key \"name\" already set in map, unknown field \"zz\"",
            &[
                "line 5: key \"name\" already set in map",
                "unknown field \"zz\"",
            ],
        ),
        Case {
            method: "PUT",
            ..post(
                &named,
                JSON,
                r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ok"},"data":{"a":"1","a":"2"}}"#,
                "strict decoding error: duplicate field \"data.a\"",
                &["duplicate field \"data.a\""],
            )
        },
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            JSON,
            r#"{"spec":{"resourceAttributes":{"verb":"get","verb":"list"}}}"#,
            "strict decoding error: duplicate field \"spec.resourceAttributes.verb\"",
            &["duplicate field \"spec.resourceAttributes.verb\""],
        ),
        patch(
            &named,
            "application/merge-patch+json",
            r#"{"data":{"a":"1","a":"2"},"zz":1}"#,
            (
                422,
                "strict decoding error: duplicate field \"data.a\", unknown field \"zz\"",
            ),
            &["duplicate field \"data.a\"", "unknown field \"zz\""],
        ),
        patch(
            &named,
            "application/strategic-merge-patch+json",
            r#"{"data":{"a":"1","a":"2"},"zz":1}"#,
            (
                422,
                "strict decoding error: duplicate field \"data.a\", unknown field \"zz\"",
            ),
            &["duplicate field \"data.a\"", "unknown field \"zz\""],
        ),
        patch(
            &named,
            "application/json-patch+json",
            r#"[{"op":"add","op":"add","path":"/data/q","value":"1"}]"#,
            (
                422,
                "strict decoding error: json patch duplicate field \"[0].op\"",
            ),
            &["json patch duplicate field \"[0].op\""],
        ),
        patch(
            &applied,
            "application/apply-patch+yaml",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ok"},"data":{"a":"1","a":"2"}}"#,
            (
                400,
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 1: key \"a\" already set in map",
            ),
            &["line 1: key \"a\" already set in map"],
        ),
        patch(
            &applied,
            "application/apply-patch+yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ok\ndata:\n  a: \"1\"\n  a: \"2\"\n  b: \"1\"\n  b: \"2\"\n",
            (
                400,
                "yaml: unmarshal errors:\n  line 7: key \"a\" already set in map\n  line 9: key \"b\" already set in map",
            ),
            &[
                "line 7: key \"a\" already set in map",
                "line 9: key \"b\" already set in map",
            ],
        ),
    ]
}

#[tokio::test]
async fn what_stands_twice_or_is_unknown_is_told() {
    let lab = Lab::new().await;
    let ok = serde_json::json!({"metadata": {"name": "ok"}, "data": {"a": "0"}});
    create(&lab, MAPS, ok).await;
    for case in cases() {
        let (code, body, _) = ask(&lab, &case, "Strict").await;
        let message = body["message"].as_str().unwrap_or_default();
        assert_eq!(code, case.refusal.0, "{}: {body}", case.body);
        let want = case.refusal.1;
        assert!(
            message.ends_with(want),
            "{}\n  want {want}\n  have {message}",
            case.body
        );
        let framed: Vec<String> = case
            .warnings
            .iter()
            .map(|one| format!("299 - {one:?}"))
            .collect();
        for validation in ["Warn", ""] {
            let (code, body, warnings) = ask(&lab, &case, validation).await;
            assert!(code < 300, "{}: {body}", case.body);
            assert_eq!(warnings, framed, "{}", case.body);
        }
        let (code, body, warnings) = ask(&lab, &case, "Ignore").await;
        assert!(code < 300, "{}: {body}", case.body);
        assert_eq!(warnings, [""; 0], "{}", case.body);
    }
}

#[tokio::test]
async fn the_last_value_of_a_key_is_the_one_that_is_stored() {
    let lab = Lab::new().await;
    for (media_type, body) in [
        (
            JSON,
            r#"{"metadata":{"name":"x"},"data":{"a":"1","a":"2"}}"#,
        ),
        (YAML, "metadata: {name: x}\ndata:\n  a: \"1\"\n  a: \"2\"\n"),
    ] {
        let case = Case {
            method: "POST",
            path: MAPS.to_owned(),
            media_type,
            body,
            refusal: (400, ""),
            warnings: &[],
        };
        let (code, made, _) = ask(&lab, &case, "Ignore").await;
        assert_eq!(code, 201, "{made}");
        assert_eq!(made["data"]["a"], "2", "{made}");
    }
}
