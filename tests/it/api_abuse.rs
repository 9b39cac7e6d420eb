//! Clients that mean no good, or know no better: many watches, half requests, tricks to get past RBAC. Others must not
//! notice, and nobody gets what they may not have.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use crate::api_support::{Lab, Transport, answer, create, send};

const MAPS: &str = "/api/v1/namespaces/lab/configmaps";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/lab";
/// Only a guard against hanging.
const HANG: Duration = Duration::from_secs(120);

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_watches_hear_of_a_write_and_hold_nobody_up() {
    let lab = Lab::new().await;
    let list = send(&lab, "GET", MAPS, "application/json", "").await.1;
    let version = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    let token = format!("Bearer {}", lab.admin_token());
    let mut watches = Vec::new();
    for _ in 0..10_000 {
        let request = Request::get(format!("{MAPS}?watch=true&resourceVersion={version}"))
            .header("Authorization", &token)
            .body(Body::empty())
            .unwrap();
        let response = lab.server.router().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        watches.push(response.into_body());
    }
    create(&lab, MAPS, map("seen")).await;
    for watch in &mut watches {
        let frame = tokio::time::timeout(HANG, watch.frame())
            .await
            .expect("an event");
        let bytes = frame.unwrap().unwrap().into_data().unwrap();
        assert!(bytes.starts_with(br#"{"type":"ADDED""#), "{bytes:?}");
    }
    // Nobody reads them any more, and writes go on.
    for number in 0..50 {
        create(&lab, MAPS, map(&format!("m{number}"))).await;
    }
    drop(watches);
    assert_eq!(
        send(&lab, "GET", &format!("{MAPS}/m49"), "application/json", "")
            .await
            .0,
        200
    );
}

/// The port of a lab's listener.
fn port(lab: &Lab) -> u16 {
    let kubeconfig = lab.kubeconfig("x");
    let rest = kubeconfig.split("https://127.0.0.1:").nth(1).unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

async fn tls(lab: &Lab) -> tokio_rustls::client::TlsStream<TcpStream> {
    use base64::Engine as _;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let kubeconfig = lab.kubeconfig("x");
    let rest = kubeconfig
        .split("certificate-authority-data: ")
        .nth(1)
        .unwrap();
    let data = rest.split_whitespace().next().unwrap();
    let pem = base64::engine::general_purpose::STANDARD
        .decode(data)
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&pem).unwrap())
        .unwrap();
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port(lab))).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector
        .connect("127.0.0.1".try_into().unwrap(), stream)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_requests_hold_nobody_up() {
    let lab = Lab::over(Transport::Tls).await;
    let mut held = Vec::new();
    let token = lab.admin_token();
    let heads = [
        String::new(),
        "GET /api/v1/names".to_owned(),
        "GET /version HTTP/1.1\r\nHost: x\r\nX-Long: ".to_owned(),
        format!(
            "POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 1000000\r\n\r\n{{"
        ),
        format!(
            "POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"
        ),
        format!(
            "GET {MAPS}?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        ),
    ];
    for round in 0..10 {
        for head in &heads {
            let mut stream = tls(&lab).await;
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            held.push(stream);
        }
        let mut noise = TcpStream::connect(("127.0.0.1", port(&lab))).await.unwrap();
        // Half a greeting of TLS, and something that is none.
        let bytes: &[u8] = if round % 2 == 0 {
            &[0x16, 3, 1, 2, 0]
        } else {
            b"GET / HTTP/1.1\r\n\r\n"
        };
        noise.write_all(bytes).await.unwrap();
    }
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = lab.api("lab");
    let made = crate::api_support::object(map("fine"));
    lab.soon(maps.create(&Default::default(), &made))
        .await
        .unwrap();
    assert_eq!(
        lab.soon(maps.list(&Default::default()))
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    drop(held);
}

/// A request that is refused by its head is answered to who still sends its body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_reaches_who_still_sends() {
    use tokio::io::AsyncReadExt as _;
    let lab = Lab::over(Transport::Tls).await;
    let body = vec![b' '; 200_000];
    for _ in 0..10 {
        let mut stream = tls(&lab).await;
        let head = format!(
            "POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        for part in body.chunks(20_000) {
            stream.write_all(part).await.unwrap();
            stream.flush().await.unwrap();
        }
        let mut begun = [0; 12];
        tokio::time::timeout(HANG, stream.read_exact(&mut begun))
            .await
            .expect("an answer")
            .unwrap();
        assert_eq!(&begun, b"HTTP/1.1 401");
    }
}

/// What a client does not read is not kept for it: a watch over TLS that stalls is ended once more waits than is allowed,
/// and others see and write on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_is_cut_off() {
    use tokio::io::AsyncReadExt as _;
    let lab = Lab::over(Transport::Tls).await;
    let token = lab.admin_token();
    let mut stalled = tls(&lab).await;
    let head = format!(
        "GET {MAPS}?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stalled.write_all(head.as_bytes()).await.unwrap();
    let mut begun = [0; 12];
    stalled.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    let large = "x".repeat(800_000);
    let mut sent = 0;
    for number in 0..60 {
        let mut body = map(&format!("large-{number}"));
        body["data"] = json!({"k": large});
        // It is told of the object twice.
        sent += body.to_string().len();
        create(&lab, MAPS, body).await;
        let path = format!("{MAPS}/large-{number}");
        assert_eq!(
            send(&lab, "DELETE", &path, "application/json", "").await.0,
            200
        );
    }
    // It reads again, and finds the end of its watch, not all that it missed. An idle connection may stay open.
    let (mut read, mut buffer) = (0, vec![0; 1 << 16]);
    let pause = Duration::from_secs(2);
    while let Ok(Ok(length @ 1..)) = tokio::time::timeout(pause, stalled.read(&mut buffer)).await {
        read += length;
    }
    assert!(read > 0 && read < sent, "{read} of {sent} bytes");
}

/// Who sends large bodies and never ends them takes no memory from others: one is told to try again, or a slow one ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_that_never_end_are_not_kept_for_ever() {
    let lab = Arc::new(Lab::new().await);
    let endless = || Body::from_stream(futures::stream::pending::<Result<Vec<u8>, Infallible>>());
    let slow: Vec<_> = (0..64)
        .map(|_| {
            let lab = Arc::clone(&lab);
            tokio::spawn(async move {
                send(&lab, "POST", MAPS, "application/json", endless())
                    .await
                    .0
            })
        })
        .collect();
    let mut large = map("large");
    large["data"] = json!({"k": "x".repeat(100_000)});
    let mut told = false;
    // All of them are being read at some time, and then one more is too many.
    while !told && !slow.iter().any(tokio::task::JoinHandle::is_finished) {
        let path = format!("{MAPS}?dryRun=All");
        let (code, body) = send(&lab, "POST", &path, "application/json", large.to_string()).await;
        told = code == 429;
        assert!(told || code == 201, "{code} {body}");
        tokio::task::yield_now().await;
    }
    // Small ones need none of the memory.
    create(&lab, MAPS, map("small")).await;
    for one in slow {
        one.abort();
        let _ = one.await;
    }
    create(&lab, MAPS, large).await;
}

/// Gives a user of the same name these rules in the namespace `lab`.
async fn grant(lab: &Lab, user: &str, rules: Value) -> String {
    create(
        lab,
        &format!("{RBAC}/roles"),
        json!({"metadata": {"name": user}, "rules": rules}),
    )
    .await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": user}, "roleRef": {"apiGroup": group, "kind": "Role", "name": user},
        "subjects": [{"kind": "User", "apiGroup": group, "name": user}]});
    create(lab, &format!("{RBAC}/rolebindings"), binding).await;
    format!("Bearer {}", lab.server.user_token(user, &[]))
}

struct Trick {
    method: &'static str,
    path: String,
    headers: &'static [(&'static str, &'static str)],
    body: String,
}

fn trick(method: &'static str, path: &str) -> Trick {
    Trick {
        method,
        path: path.to_owned(),
        headers: &[],
        body: String::new(),
    }
}

#[tokio::test]
async fn rights_are_not_passed_by_tricks() {
    let lab = Lab::new().await;
    for name in ["mine", "other"] {
        create(&lab, MAPS, map(name)).await;
    }
    create(
        &lab,
        "/api/v1/namespaces/lab/secrets",
        json!({"metadata": {"name": "mine"}}),
    )
    .await;
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get", "patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["*"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create", "update"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["update"]},
    ]);
    let token = grant(&lab, "clerk", rules).await;
    let ask = async |trick: &Trick| {
        let mut request = Request::builder()
            .method(trick.method)
            .uri(&trick.path)
            .header("Authorization", &token);
        request = request.header("Content-Type", "application/json");
        for (name, value) in trick.headers {
            request = request.header(*name, *value);
        }
        answer(&lab, request.body(Body::from(trick.body.clone())).unwrap()).await
    };
    let allowed = ask(&trick("GET", &format!("{MAPS}/mine"))).await;
    assert_eq!(allowed.0, 200);
    // A selector of another name does not change which object a name means.
    let named = ask(&trick(
        "GET",
        &format!("{MAPS}/mine?watch=true&fieldSelector=metadata.name%3Dother"),
    ))
    .await;
    assert_eq!(
        (named.0, &named.1["metadata"]["name"]),
        (200, &json!("mine"))
    );

    let mut tricks = Vec::new();
    for path in [
        "other",
        "mine/../other",
        "mine%2F..%2Fother",
        "mine%2f%2e%2e%2fother",
        "./other",
        "/other",
        "mine//other",
        "Mine",
        "mine%00",
        "mine%20",
        "mine;other",
        "mine/status",
        "mine/finalizers",
    ] {
        tricks.push(trick("GET", &format!("{MAPS}/{path}")));
    }
    for path in [
        "/api/v1/namespaces/lab/configmaps",
        "/api/v1/namespaces/lab/configmaps?fieldSelector=metadata.name%3Dmine",
        "/api/v1/namespaces/lab/ConfigMaps/mine",
        "/api/v1/namespaces/LAB/configmaps/mine",
        "/api/V1/namespaces/lab/configmaps/mine",
        "/API/v1/namespaces/lab/configmaps/mine",
        "/api/v1/namespaces/lab/../lab/configmaps/mine",
        "/api/v1/namespaces//configmaps/mine",
        "//api/v1/namespaces/lab/configmaps/mine",
        "/api/v1/watch/namespaces/lab/configmaps/mine",
        "/api/v1/proxy/namespaces/lab/configmaps/mine",
        "/api/v1/configmaps/mine",
        "/api/v1/configmaps",
        "/api/v1/namespaces/lab/secrets/mine",
        "/api/v1/namespaces/lab/pods/mine/exec?command=x&stdout=1",
        "/api/v1/namespaces/lab/pods/mine/portforward?ports=1",
        "/apis/v1/namespaces/lab/configmaps/mine",
        "/apis/core/v1/namespaces/lab/configmaps/mine",
        "/apis/apps/v1/namespaces/lab/deployments/mine",
        "/metrics",
    ] {
        tricks.push(trick("GET", path));
    }
    for method in ["HEAD", "PUT", "DELETE", "POST", "OPTIONS", "TRACE", "BREW"] {
        tricks.push(trick(method, &format!("{MAPS}/other")));
    }
    tricks.push(trick("DELETE", MAPS));
    tricks.push(Trick {
        headers: &[
            ("X-HTTP-Method-Override", "GET"),
            ("X-Remote-User", "admin"),
            ("X-Remote-Group", "system:masters"),
        ],
        ..trick("DELETE", &format!("{MAPS}/mine"))
    });
    for headers in [
        &[("Impersonate-User", "admin")][..],
        &[
            ("Impersonate-User", "clerk"),
            ("Impersonate-Group", "system:masters"),
        ],
        &[(
            "Impersonate-User",
            "system:serviceaccount:kube-system:default",
        )],
        &[
            ("Impersonate-User", "system:serviceaccount:lab:default"),
            ("Impersonate-Group", "system:masters"),
        ],
        &[
            ("Impersonate-User", "system:serviceaccount:lab:default"),
            ("Impersonate-Uid", "1"),
        ],
        &[
            ("Impersonate-User", "system:serviceaccount:lab:default"),
            ("Impersonate-Extra-scopes", "all"),
        ],
        // As somebody with fewer rights than oneself.
        &[("Impersonate-User", "system:serviceaccount:lab:default")],
    ] {
        tricks.push(Trick {
            headers,
            ..trick("GET", &format!("{MAPS}/mine"))
        });
    }
    // More rights than one has, by a role, by a binding, and by one in somebody else's name.
    let role = json!({"metadata": {"name": "more"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    for (method, path) in [("POST", "roles"), ("PUT", "roles/more")] {
        tricks.push(Trick {
            body: role.to_string(),
            ..trick(method, &format!("{RBAC}/{path}"))
        });
    }
    let wide = json!({"metadata": {"name": "clerk"}, "rules": [{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]});
    tricks.push(Trick {
        body: wide.to_string(),
        ..trick("PUT", &format!("{RBAC}/roles/clerk"))
    });
    let binding = json!({"metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "clerk"}]});
    for (method, path) in [("POST", "rolebindings"), ("PUT", "rolebindings/more")] {
        tricks.push(Trick {
            body: binding.to_string(),
            ..trick(method, &format!("{RBAC}/{path}"))
        });
    }
    // An update makes an object only for those who may create it.
    let service = json!({"metadata": {"name": "absent"}, "spec": {"ports": [{"port": 80}]}});
    for query in ["", "?dryRun=All"] {
        let path = format!("/api/v1/namespaces/lab/services/absent{query}");
        tricks.push(Trick {
            body: service.to_string(),
            ..trick("PUT", &path)
        });
    }
    tricks.push(Trick {
        headers: &[("Content-Type", "application/apply-patch+yaml")],
        body: map("absent").to_string(),
        ..trick("PATCH", &format!("{MAPS}/absent?fieldManager=x"))
    });
    for trick in &tricks {
        let (code, body) = ask(trick).await;
        // A path that means nothing is for everybody to ask, and there is nothing at it.
        let unknown = "the server could not find the requested resource";
        let nothing = code == 404 && (body == "404 page not found\n" || body["message"] == unknown);
        assert!(
            code == 403 || nothing,
            "{} {} {:?}: {code} {body}",
            trick.method,
            trick.path,
            trick.headers
        );
    }
    // Nothing of it was done.
    let left = send(&lab, "GET", MAPS, "application/json", "").await.1;
    assert_eq!(left["items"].as_array().unwrap().len(), 2, "{left}");
    let roles = send(
        &lab,
        "GET",
        &format!("{RBAC}/roles"),
        "application/json",
        "",
    )
    .await
    .1;
    assert_eq!(roles["items"].as_array().unwrap().len(), 1, "{roles}");
}
