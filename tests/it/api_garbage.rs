//! Requests that nobody should send: each gets an answer, and the server goes on.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::api_support::{Lab, answer, create, send};

const MAPS: &str = "/api/v1/namespaces/lab/configmaps";

/// A small generator of numbers: the same rounds every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.roll(list.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.roll(most + 1);
        (0..length).map(|_| self.roll(256) as u8).collect()
    }
}

const METHODS: &[&str] = &[
    "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW",
];
const TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "text/html; charset=\"",
    "",
];
const PARTS: &[&str] = &[
    "api",
    "apis",
    "v1",
    "namespaces",
    "lab",
    "pods",
    "configmaps",
    "events",
    "argoproj.io",
    "v1alpha1",
    "sensors",
    "workflows",
    "x",
    "status",
    "scale",
    "log",
    "binding",
    "token",
    "finalize",
    "exec",
    "..",
    ".",
    "%2e%2e",
    "%2F",
    "%00",
    "%ff",
    "apps",
    "deployments",
    "openapi",
    "v3",
    "watch",
    "serviceaccounts",
    "default",
    "a%20b",
    "é",
    "nodes",
    "selfsubjectaccessreviews",
    "authorization.k8s.io",
    "deletecollection",
    "crd",
    "",
];
const QUERIES: &[&str] = &[
    "",
    "watch=true&timeoutSeconds=1",
    "labelSelector=a%3Db",
    "labelSelector=((((",
    "fieldSelector=a%5C",
    "limit=-1",
    "limit=99999999999999999999",
    "continue=AAAA",
    "resourceVersion=18446744073709551615",
    "dryRun=All",
    "dryRun=x",
    "fieldManager=m&force=true",
    "fieldValidation=Strict",
    "fieldValidation=x",
    "sendInitialEvents=x",
    "%%%=%%%&&&=",
    "gracePeriodSeconds=-9223372036854775808",
    "propagationPolicy=Orphan",
    "tailLines=-1",
    "includeObject=Object",
];
const BODIES: &[&str] = &[
    "",
    "{}",
    "[]",
    "null",
    "1",
    "\"x\"",
    "{\"metadata\":null}",
    "{\"metadata\":[]}",
    "{\"metadata\":{\"name\":5}}",
    "{\"metadata\":{\"name\":\"x\",\"labels\":{\"a\":1}}}",
    "{\"kind\":7,\"apiVersion\":{}}",
    "{\"spec\":[],\"status\":7}",
    "[{\"op\":\"add\",\"path\":\"/a/b/c\",\"value\":1}]",
    "[{\"op\":\"move\",\"from\":\"\",\"path\":\"/metadata\"}]",
    "[{\"op\":\"copy\",\"from\":\"\",\"path\":\"/metadata/annotations\"}]",
    "[{\"op\":\"remove\",\"path\":\"\"}]",
    "[{\"op\":\"replace\",\"path\":\"\",\"value\":null}]",
    "[{\"op\":\"remove\",\"path\":\"/metadata\"}]",
    "{\"spec\":{\"containers\":[{\"name\":null}]}}",
    "{\"$patch\":\"replace\"}",
    "{\"$patch\":7,\"$retainKeys\":{}}",
    "{\"metadata\":{\"$patch\":\"delete\"}}",
    "{\"spec\":{\"containers\":[{\"$patch\":\"replace\"},{\"image\":\"x\"}]}}",
    "{\"metadata\":{\"finalizers\":[1],\"ownerReferences\":[{}]}}",
    "{\"metadata\":{\"deletionTimestamp\":\"x\"}}",
    "{\"metadata\":{\"generateName\":\"ééééééééééééééééééééééééééééééééééééééé\"}}",
    "a: &a [*a]",
    "a: b: c",
    "{\"target\":{\"name\":\"n\"}}",
    "{\"spec\":{\"replicas\":1e99}}",
    "{\"spec\":{\"replicas\":-1}}",
    "{\"data\":{\"k\":null},\"stringData\":5}",
];

#[tokio::test]
async fn every_odd_request_is_answered() {
    let lab = Lab::new().await;
    create(&lab, MAPS, json!({"metadata": {"name": "x"}})).await;
    create(
        &lab,
        "/api/v1/namespaces/lab/pods",
        json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    )
    .await;
    create(
        &lab,
        "/apis/argoproj.io/v1alpha1/namespaces/lab/sensors",
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Sensor", "metadata": {"name": "x"}, "spec": {}}),
    )
    .await;
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let token = lab.admin_token();
    let bases = [
        "",
        MAPS,
        "/api/v1/namespaces/lab/pods/x",
        "/apis/argoproj.io/v1alpha1/namespaces/lab/sensors/x",
        "/apis/apps/v1",
    ];
    for _ in 0..4000 {
        let mut path = dice.pick(&bases).to_owned();
        for _ in 0..dice.roll(5) {
            path = format!("{path}/{}", dice.pick(PARTS));
        }
        let uri = format!("/{}?{}", path.trim_start_matches('/'), dice.pick(QUERIES));
        let body = if dice.roll(4) == 0 {
            dice.bytes(200)
        } else {
            dice.pick(BODIES).as_bytes().to_vec()
        };
        let request = Request::builder()
            .method(dice.pick(METHODS))
            .uri(&uri)
            .header("Authorization", format!("Bearer {token}"))
            .header("Content-Type", dice.pick(TYPES))
            .body(Body::from(body.clone()));
        let Ok(request) = request else { continue };
        let shown = format!(
            "{} {uri} {}",
            request.method(),
            String::from_utf8_lossy(&body)
        );
        let (code, answer) = lab.soon(answer(&lab, request)).await;
        assert_ne!(code, 500, "{shown}: {answer}");
    }
    let (code, _) = send(&lab, "GET", MAPS, "application/json", "").await;
    assert_eq!(code, 200);
}

/// Code and message of a refusal.
async fn refused(
    lab: &Lab,
    method: &str,
    path: &str,
    media_type: &str,
    body: String,
) -> (u16, String) {
    let (code, answer) = send(lab, method, path, media_type, body).await;
    assert!((400..500).contains(&code), "{code}: {answer}");
    (
        code,
        answer["message"].as_str().unwrap_or_default().to_owned(),
    )
}

#[tokio::test]
async fn too_large_too_deep_and_too_much_are_refused() {
    let lab = Lab::new().await;
    create(
        &lab,
        MAPS,
        json!({"metadata": {"name": "x"}, "data": {"k": "v"}}),
    )
    .await;
    let x = format!("{MAPS}/x");
    let big = json!({"metadata": {"name": "big"}, "data": {"k": "a".repeat(3 << 20)}}).to_string();
    assert_eq!(
        refused(&lab, "POST", MAPS, "application/json", big).await.0,
        413
    );
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(
        refused(&lab, "POST", MAPS, "application/json", deep.clone())
            .await
            .0,
        400
    );
    assert_eq!(
        refused(&lab, "POST", MAPS, "application/yaml", deep)
            .await
            .0,
        400
    );
    let many: Vec<Value> = (0..10_001)
        .map(|_| json!({"op": "test", "path": "/kind", "value": "ConfigMap"}))
        .collect();
    assert_eq!(
        refused(
            &lab,
            "PATCH",
            &x,
            "application/json-patch+json",
            json!(many).to_string()
        )
        .await
        .0,
        413
    );
    // Each copy doubles what is there.
    let mut doubling = vec![json!({"op": "add", "path": "/data/a", "value": "x".repeat(1000)})];
    for _ in 0..40 {
        doubling.push(json!({"op": "copy", "from": "/data", "path": "/data/b"}));
        doubling.push(json!({"op": "copy", "from": "/data", "path": "/data/c"}));
    }
    assert_eq!(
        refused(
            &lab,
            "PATCH",
            &x,
            "application/json-patch+json",
            json!(doubling).to_string()
        )
        .await
        .0,
        413
    );
    // Each copy into what is innermost doubles the depth.
    let mut deepening = vec![json!({"op": "add", "path": "/data/a", "value": {}})];
    let mut innermost = "/data/a".to_owned();
    for _ in 0..20 {
        let steps = innermost.matches('/').count() - 1;
        innermost.push_str(&"/a".repeat(steps.min(60_000)));
        deepening.push(json!({"op": "copy", "from": "/data", "path": innermost.clone()}));
        if innermost.len() > 300_000 {
            break;
        }
    }
    let (code, message) = refused(
        &lab,
        "PATCH",
        &x,
        "application/json-patch+json",
        json!(deepening).to_string(),
    )
    .await;
    assert_eq!(code, 413);
    assert!(message.contains("nested too deeply"), "{message}");
    let list: Vec<u8> = vec![0; 300_000];
    let mut shifting = vec![json!({"op": "add", "path": "/data/l", "value": list})];
    for _ in 0..9_000 {
        shifting.push(json!({"op": "add", "path": "/data/l/0", "value": 1}));
    }
    assert_eq!(
        refused(
            &lab,
            "PATCH",
            &x,
            "application/json-patch+json",
            json!(shifting).to_string()
        )
        .await
        .0,
        413
    );
    let bomb = format!(
        "a: &a [{}]\nb: &b [{}]\nc: &c [{}]\nd: [{}]",
        "x,".repeat(50),
        "*a,".repeat(50),
        "*b,".repeat(50),
        "*c,".repeat(50)
    );
    refused(&lab, "POST", MAPS, "application/yaml", bomb).await;
    let (_, kept) = send(&lab, "GET", &x, "application/json", "").await;
    assert_eq!(kept["data"], json!({"k": "v"}));
}

/// A place below is named by all keys above it; a name for each at once would fill any memory.
#[tokio::test]
async fn a_long_key_over_many_others_is_answered() {
    let lab = Lab::new().await;
    let workflows = "/apis/argoproj.io/v1alpha1/namespaces/lab/workflows";
    let keys: serde_json::Map<String, Value> = (0..100_000)
        .map(|number| (format!("k{number}"), Value::from(1)))
        .collect();
    let key = "k".repeat(1 << 20);
    for inner in [Value::Object(keys), json!(vec![1; 100_000])] {
        let workflow = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "x"},
            "spec": {key.as_str(): inner},
        })
        .to_string();
        let applied = format!("{workflows}/x?fieldManager=m&force=true");
        for (method, path, media_type) in [
            ("POST", workflows, "application/json"),
            ("PATCH", &applied, "application/apply-patch+yaml"),
            ("DELETE", &format!("{workflows}/x"), "application/json"),
        ] {
            let body = if method == "DELETE" { "" } else { &workflow };
            let (code, answer) = lab
                .soon(send(&lab, method, path, media_type, body.to_owned()))
                .await;
            assert!(
                (200..500).contains(&code),
                "{method}: {code} {}",
                answer["message"]
            );
        }
    }
    let (code, _) = send(&lab, "GET", workflows, "application/json", "").await;
    assert_eq!(code, 200);
}

/// What is wrong with an apply fits a screen or two, however much it is.
#[tokio::test]
async fn only_so_many_faults_of_an_apply_are_told() {
    let lab = Lab::new().await;
    let unknown: serde_json::Map<String, Value> = (0..10_000)
        .map(|number| (format!("k{number}"), Value::from(1)))
        .collect();
    let mut flat = unknown.clone();
    flat.extend([
        ("apiVersion".to_owned(), Value::from("v1")),
        ("kind".to_owned(), Value::from("Pod")),
        ("metadata".to_owned(), json!({"name": "x"})),
    ]);
    let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec});
    let twice = vec![json!({"name": "c", "image": "i"}); 10_000];
    let each: Vec<Value> = (0..10_000)
        .map(|number| json!({"name": format!("c{number}"), "bogus": 1}))
        .collect();
    for (what, body) in [
        ("not declared", Value::Object(flat)),
        ("not declared", pod(Value::Object(unknown))),
        ("not declared", pod(json!({"containers": each}))),
        ("duplicate entries", pod(json!({"containers": twice}))),
    ] {
        let path = "/api/v1/namespaces/lab/pods/x?fieldManager=m";
        let media_type = "application/apply-patch+yaml";
        let (code, answer) = send(&lab, "PATCH", path, media_type, body.to_string()).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!(code, 500, "{message}");
        let told = message.lines().filter(|line| line.contains(what)).count();
        assert!((2..=60).contains(&told), "{what}: {told} lines");
    }
}

#[tokio::test]
async fn an_object_cannot_be_nested_deeper_step_by_step() {
    let lab = Lab::new().await;
    let sensors = "/apis/argoproj.io/v1alpha1/namespaces/lab/sensors";
    create(
        &lab,
        sensors,
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Sensor", "metadata": {"name": "x"}, "spec": {}}),
    )
    .await;
    let mut path = "/spec".to_owned();
    let mut refused = false;
    for _ in 0..120 {
        path.push_str("/a");
        let patch = json!([{"op": "add", "path": path, "value": {}}]).to_string();
        let (code, _) = send(
            &lab,
            "PATCH",
            &format!("{sensors}/x"),
            "application/json-patch+json",
            patch,
        )
        .await;
        refused |= code == 422;
    }
    assert!(refused);
    assert_eq!(
        send(&lab, "GET", sensors, "application/json", "").await.0,
        200
    );
}

#[tokio::test]
async fn strange_credentials_are_no_credentials() {
    let lab = Lab::new().await;
    let token = lab.admin_token();
    let table = [
        (format!("Bearer {token}x"), 401),
        (format!("Bearer {}", "a.b.c"), 401),
        (format!("Bearer {}", "x".repeat(100_000)), 401),
        ("Basic YTpi".to_owned(), 403),
        ("Bearer".to_owned(), 403),
        (format!("bearer {token}"), 200),
    ];
    for (header, want) in table {
        let request = Request::builder()
            .uri(MAPS)
            .header("Authorization", header.as_str())
            .body(Body::empty())
            .unwrap();
        assert_eq!(
            answer(&lab, request).await.0,
            want,
            "{}",
            &header[..header.len().min(40)]
        );
    }
    let impersonations = [
        (vec![("Impersonate-User", "bob")], 403),
        (vec![("Impersonate-Group", "system:masters")], 400),
        (
            vec![("Impersonate-User", "system:serviceaccount:lab:default")],
            403,
        ),
        (
            vec![
                ("Impersonate-User", "x"),
                ("Impersonate-Group", "system:masters"),
            ],
            200,
        ),
    ];
    for (headers, want) in impersonations {
        let mut request = Request::builder()
            .uri(MAPS)
            .header("Authorization", format!("Bearer {token}"));
        for (key, value) in &headers {
            request = request.header(*key, *value);
        }
        assert_eq!(
            answer(&lab, request.body(Body::empty()).unwrap()).await.0,
            want,
            "{headers:?}"
        );
    }
    // Nobody but those with the right may act as somebody else.
    let learner = lab.server.user_token("learner", &[]);
    let request = Request::builder()
        .uri(MAPS)
        .header("Authorization", format!("Bearer {learner}"))
        .header("Impersonate-User", "admin")
        .body(Body::empty())
        .unwrap();
    let (code, body) = answer(&lab, request).await;
    assert_eq!(code, 403);
    assert!(
        body["message"]
            .as_str()
            .unwrap()
            .contains("cannot impersonate resource \"users\"")
    );
}
