use std::convert::Infallible;

use axum::Router;
use axum::routing::get;
use futures::StreamExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use super::*;
use crate::embedded::api::kubeconfig::{Kubeconfig as Written, Persona};
use crate::embedded::api::tls::init_tls;

/// A body that no socket takes as a whole.
const LARGE: usize = 16 << 20;
/// Against a hang; no test waits for it.
const GUARD: Duration = Duration::from_secs(60);

struct Served {
    directory: tempfile::TempDir,
    identity: ServingIdentity,
    port: u16,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

async fn serve_with(limits: Limits) -> Served {
    let directory = tempfile::tempdir().unwrap();
    let identity = ServingIdentity::load_or_create(directory.path()).unwrap();
    let listener = Listener::bind(None, directory.path(), &identity, limits)
        .await
        .unwrap();
    let (port, stop) = (listener.port(), CancellationToken::new());
    let router = Router::new()
        .route(
            "/version",
            get(|headers: http::HeaderMap| async move { echo(&headers) }),
        )
        .route(
            "/endless",
            get(|| async { Body::from_stream(one_then_pending()) }),
        )
        .route(
            "/large",
            axum::routing::any(|| async { Body::from(vec![b'x'; LARGE]) }),
        )
        .route(
            "/panic",
            get(|| async { panic!("a handler's mistake") as &'static str }),
        );
    let task = tokio::spawn(listener.serve(router, stop.clone()));
    Served {
        directory,
        identity,
        port,
        stop,
        task,
    }
}

fn echo(headers: &http::HeaderMap) -> String {
    let token = headers
        .get("authorization")
        .map(|value| value.to_str().unwrap())
        .unwrap_or("none");
    serde_json::json!({"gitVersion": token}).to_string()
}

fn one_then_pending() -> impl futures::Stream<Item = Result<&'static str, Infallible>> {
    futures::stream::iter([Ok("one\n")]).chain(futures::stream::pending())
}

impl Served {
    async fn client(&self, ca_pem: &str) -> kube::Client {
        init_tls();
        let personas = [Persona {
            name: "learner".into(),
            token: "secret".into(),
        }];
        let server = format!("https://127.0.0.1:{}", self.port);
        let written = Written {
            server: &server,
            ca_pem,
            namespace: "eventlab",
            personas: &personas,
            current: "learner",
        };
        let path = self.directory.path().join("kubeconfig");
        written.write(&path).unwrap();
        let read = Kubeconfig::read_from(&path).unwrap();
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
            .await
            .unwrap();
        kube::Client::try_from(config).unwrap()
    }

    /// The answer to one request, by a client that does not try again.
    async fn raw(&self) -> String {
        self.raw_of("/version").await
    }

    async fn raw_of(&self, path: &str) -> String {
        self.raw_by("GET", path).await
    }

    async fn raw_by(&self, method: &str, path: &str) -> String {
        let mut stream = self.asking_by(method, path).await;
        let mut answer = Vec::new();
        // An end without a farewell is an end.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A connection with one request, whose answer is not read yet.
    async fn asking(&self, path: &str) -> tokio_rustls::client::TlsStream<TcpStream> {
        self.asking_by("GET", path).await
    }

    async fn asking_by(
        &self,
        method: &str,
        path: &str,
    ) -> tokio_rustls::client::TlsStream<TcpStream> {
        init_tls();
        let ca = CertificateDer::from_pem_slice(self.identity.ca_pem().as_bytes()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(ca).unwrap();
        let config = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let name = "127.0.0.1".try_into().unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        stream
    }

    async fn get(&self, path: &str) -> Result<String, kube::Error> {
        let client = self.client(self.identity.ca_pem()).await;
        client
            .request_text(Request::get(path).body(Vec::new()).unwrap())
            .await
    }
}

#[tokio::test]
async fn a_client_with_the_kubeconfig_gets_through_with_its_token() {
    let served = serve_with(Limits::default()).await;
    assert_eq!(
        served.get("/version").await.unwrap(),
        r#"{"gitVersion":"Bearer secret"}"#
    );
}

#[tokio::test]
async fn a_client_that_trusts_another_authority_does_not() {
    let served = serve_with(Limits::default()).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let other = ServingIdentity::load_or_create(elsewhere.path()).unwrap();
    let client = served.client(other.ca_pem()).await;
    let answer = client
        .request_text(Request::get("/version").body(Vec::new()).unwrap())
        .await;
    assert!(
        matches!(
            answer,
            Err(kube::Error::HyperError(_) | kube::Error::Service(_))
        ),
        "{answer:?}"
    );
}

#[tokio::test]
async fn it_survives_noise_and_a_panicking_handler() {
    let served = serve_with(Limits::default()).await;
    for noise in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\xff\xff", b""] {
        let mut plain = TcpStream::connect(("127.0.0.1", served.port))
            .await
            .unwrap();
        plain.write_all(noise).await.unwrap();
        plain.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(GUARD, plain.read_to_end(&mut answer))
            .await
            .unwrap();
        assert!(!answer.starts_with(b"HTTP"));
    }
    assert!(served.get("/panic").await.is_err());
    assert!(served.get("/version").await.is_ok());
}

#[tokio::test]
async fn a_silent_client_is_let_go() {
    let short = Duration::from_millis(50);
    let served = serve_with(Limits {
        handshake: short,
        header: short,
        ..Limits::default()
    })
    .await;
    let mut silent = TcpStream::connect(("127.0.0.1", served.port))
        .await
        .unwrap();
    let end = tokio::time::timeout(GUARD, silent.read(&mut [0; 16]))
        .await
        .unwrap();
    assert!(matches!(end, Ok(0) | Err(_)));
}

impl Served {
    /// Begins an answer without an end.
    async fn endless(&self, path: &str) -> Result<Response<kube::client::Body>, kube::Error> {
        let client = self.client(self.identity.ca_pem()).await;
        let request = Request::get(path).body(kube::client::Body::empty());
        client.send(request.unwrap()).await
    }

    async fn raw_until(&self, beginning: &str) -> String {
        let answer = async {
            loop {
                let answer = self.raw().await;
                if answer.starts_with(beginning) {
                    return answer;
                }
            }
        };
        tokio::time::timeout(GUARD, answer).await.unwrap()
    }
}

fn few(connections: usize) -> Limits {
    Limits {
        connections,
        ..Limits::default()
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_are_told_so() {
    let served = serve_with(few(1)).await;
    let holder = served.endless("/endless").await.unwrap();
    let refused = served.raw_until("HTTP/1.1 429 ").await;
    assert!(refused.contains("retry-after: 1"), "{refused}");
    assert!(
        refused.contains("\"reason\":\"TooManyRequests\""),
        "{refused}"
    );
    // Whoever tries again gets through as soon as there is room.
    drop(holder);
    served.raw_until("HTTP/1.1 200 ").await;
}

/// They hold a place until somebody needs it, whether they have said nothing, half of something, or are done.
#[tokio::test]
async fn who_waits_for_nothing_gives_way() {
    let served = serve_with(few(4)).await;
    let mut silent = Vec::new();
    for number in 0..40_u8 {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port))
            .await
            .unwrap();
        if number.is_multiple_of(2) {
            stream.write_all(b"\x16\x03\x01").await.unwrap();
        }
        silent.push(stream);
        assert!(served.raw().await.starts_with("HTTP/1.1 200 "));
    }
    let mut done = Vec::new();
    for _ in 0..8 {
        let client = served.client(served.identity.ca_pem()).await;
        let request = Request::get("/version").body(Vec::new()).unwrap();
        assert!(client.request_text(request).await.is_ok());
        done.push(client);
    }
    assert!(served.raw().await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn streams_leave_places_for_others() {
    let served = serve_with(few(4)).await;
    let mut watches = Vec::new();
    for _ in 0..3 {
        let watch = served.endless("/endless?watch=true").await.unwrap();
        assert_eq!(watch.status(), 200);
        watches.push(watch);
    }
    let path = "/endless?follow=1";
    let one_more = served.raw_of(path).await;
    assert!(one_more.starts_with("HTTP/1.1 429 "), "{one_more}");
    for _ in 0..3 {
        assert!(served.raw().await.starts_with("HTTP/1.1 200 "));
    }
}

/// What a client does not read is kept for it only as long as nobody else needs the memory.
#[tokio::test]
async fn who_reads_slowly_gives_way_to_others() {
    let served = serve_with(Limits {
        answers: 2 * LARGE,
        reading: Duration::ZERO,
        ..Limits::default()
    })
    .await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut stream = served.asking("/large").await;
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        slow.push(stream);
    }
    let answer = served.raw_of("/large").await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.len() > LARGE);
    let mut rest = Vec::new();
    let _ = slow[0].read_to_end(&mut rest).await;
    assert!(rest.len() < LARGE, "{} bytes", rest.len());
}

#[tokio::test]
async fn while_all_memory_for_answers_is_in_use_others_are_told_to_try_again() {
    let served = serve_with(Limits {
        answers: LARGE,
        reading: Duration::MAX,
        ..Limits::default()
    })
    .await;
    let mut first = served.asking("/large").await;
    let mut begun = [0; 12];
    first.read_exact(&mut begun).await.unwrap();
    let refused = served.raw_of("/large").await;
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    assert!(refused.contains("retry-after: 1"), "{refused}");
    // Small ones need none of it.
    assert!(served.raw().await.starts_with("HTTP/1.1 200 "));
    let mut rest = Vec::new();
    let _ = first.read_to_end(&mut rest).await;
    assert!(rest.len() > LARGE);
    let again = served.raw_of("/large").await;
    assert!(again.starts_with("HTTP/1.1 200 ") && again.len() > LARGE);
}

/// A write that was made is never answered as if it were refused: what is only read gives way.
#[tokio::test]
async fn no_write_is_refused_for_want_of_memory() {
    for method in ["PUT", "POST", "PATCH", "DELETE"] {
        let served = serve_with(Limits {
            answers: LARGE,
            reading: Duration::MAX,
            ..few(4)
        })
        .await;
        let mut reader = served.asking("/large").await;
        let mut begun = [0; 12];
        reader.read_exact(&mut begun).await.unwrap();
        let answer = served.raw_by(method, "/large").await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.len() > LARGE);
        let mut rest = Vec::new();
        let _ = reader.read_to_end(&mut rest).await;
        assert!(rest.len() < LARGE, "{} bytes", rest.len());
        // Nor because it asks as if it were a watch, of which there are too many.
        let mut watches = Vec::new();
        for _ in 0..3 {
            watches.push(served.endless("/endless?watch=true").await.unwrap());
        }
        let answer = served.raw_by(method, "/large?watch=true").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{method}");
    }
}

#[tokio::test]
async fn stopping_cuts_endless_answers_after_a_while() {
    let served = serve_with(Limits {
        grace: Duration::from_millis(20),
        ..Limits::default()
    })
    .await;
    let client = served.client(served.identity.ca_pem()).await;
    let response = client
        .send(
            Request::get("/endless")
                .body(kube::client::Body::empty())
                .unwrap(),
        )
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    served.stop.cancel();
    tokio::time::timeout(GUARD, served.task)
        .await
        .unwrap()
        .unwrap();
    assert!(
        TcpStream::connect(("127.0.0.1", served.port))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_port_is_remembered_and_a_given_one_is_refused_when_taken() {
    let directory = tempfile::tempdir().unwrap();
    let identity = ServingIdentity::load_or_create(directory.path()).unwrap();
    let bind = |port| Listener::bind(port, directory.path(), &identity, Limits::default());
    let first = bind(None).await.unwrap();
    let port = first.port();
    let error = bind(Some(port)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "port {port} on 127.0.0.1 is taken; stop what listens there, or choose another port"
        )
    );
    let other = bind(None).await.unwrap();
    assert_ne!(other.port(), port);
    drop(first);
    let mut last = other;
    // Somebody else may take the port in between, though hardly five times.
    let mut returned = false;
    for _ in 0..5 {
        let remembered = last.port();
        drop(last);
        last = bind(None).await.unwrap();
        returned |= last.port() == remembered;
    }
    assert!(returned);
    std::fs::write(directory.path().join(PORT_FILE), "no port").unwrap();
    assert!(bind(None).await.is_ok());
}
