//! What only a real server can do to us: passwords, TLS, a hang, a restart, no room, no JetStream, and labs over it.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use eventlab::embedded::bus::jetstream::{JetStream, consumers_of_jsz};
use eventlab::embedded::bus::{Access, Bus, BusError, BusTls, ConsumerConfig, Login, StreamConfig};
use rustix::process::Signal;

use crate::nats_support::{NatsServer, SlowLine, WITHOUT_JETSTREAM};

const GUARD: Duration = Duration::from_secs(60);

fn stream() -> StreamConfig {
    StreamConfig {
        name: "default".to_owned(),
        subjects: vec!["default.*.*".to_owned()],
        ..StreamConfig::default()
    }
}

fn consumer() -> ConsumerConfig {
    ConsumerConfig {
        durable: "group-1".to_owned(),
        filter_subject: "default.a.b".to_owned(),
        ack_wait: Duration::from_secs(30),
    }
}

async fn refused(server: &NatsServer, access: &Access) -> String {
    match JetStream::connect(&server.url(), access).await {
        Ok(_) => panic!("it let {access:?} in"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn the_login_decides_who_comes_in() {
    let Some(server) = NatsServer::start("authorization { user: js, password: \"s3 cret\" }")
    else {
        return;
    };
    let login = |user: &str, password: &str| Access {
        login: Login::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        },
        tls: None,
    };
    for wrong in [
        Access::default(),
        login("js", "wrong"),
        login("other", "s3 cret"),
    ] {
        assert_eq!(
            refused(&server, &wrong).await,
            "nats: Authorization Violation"
        );
    }
    let bus = JetStream::connect(&server.url(), &login("js", "s3 cret"))
        .await
        .unwrap();
    bus.probe().await.unwrap();
    bus.ensure_stream(stream()).await.unwrap();
}

#[tokio::test]
async fn a_server_without_jetstream_says_so() {
    let Some(server) = NatsServer::start(WITHOUT_JETSTREAM) else {
        return;
    };
    let bus = JetStream::connect(&server.url(), &Access::default())
        .await
        .unwrap();
    let off = Err(BusError::Refused("nats: jetstream not enabled".to_owned()));
    assert_eq!(bus.probe().await, off);
    assert_eq!(
        bus.ensure_stream(stream()).await.map(drop),
        Err(BusError::Refused("nats: jetstream not enabled".to_owned()))
    );
}

/// An authority, and a server certificate of it for 127.0.0.1: PEM texts.
fn certificates() -> (String, String, String) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let mut server = CertificateParams::default();
    server.subject_alt_names = vec![SanType::IpAddress("127.0.0.1".parse().unwrap())];
    let certificate = server.signed_by(&key, &issuer).unwrap().pem();
    (authority_pem, certificate, key.serialize_pem())
}

#[tokio::test]
async fn tls_is_used_where_the_server_wants_it_and_checked_where_we_do() {
    let (authority, certificate, key) = certificates();
    let (stranger, _, _) = certificates();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cert.pem"), certificate).unwrap();
    std::fs::write(folder.path().join("key.pem"), key).unwrap();
    let settings = format!(
        "tls {{ cert_file: {:?}, key_file: {:?} }}",
        folder.path().join("cert.pem"),
        folder.path().join("key.pem")
    );
    let Some(server) = NatsServer::start_in(folder, &settings) else {
        return;
    };
    let checked_by = |pem: &str| Access {
        login: Login::Nobody,
        tls: Some(BusTls {
            authorities: Some(pem.as_bytes().to_vec()),
            ..BusTls::default()
        }),
    };
    for access in [Access::default(), checked_by(&authority)] {
        let bus = JetStream::connect(&server.url(), &access).await.unwrap();
        assert!(bus.server().tls);
        bus.ensure_stream(stream()).await.unwrap();
        bus.publish("default.a.b", "1", b"x".to_vec())
            .await
            .unwrap();
    }
    let text = refused(&server, &checked_by(&stranger)).await;
    assert!(
        text.contains("TLS") && text.contains("certificate"),
        "{text}"
    );
    let text = refused(&server, &checked_by("no certificate")).await;
    assert!(text.contains("authority"), "{text}");
}

#[tokio::test]
async fn nobody_who_listens_is_told_from_one_who_is_silent() {
    let access = Access::default();
    let nobody = JetStream::connect("nats://127.0.0.1:1", &access)
        .await
        .err();
    assert_eq!(
        nobody.unwrap().to_string(),
        "nats: no servers available for connection"
    );
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", silent.local_addr().unwrap());
    let text = JetStream::connect(&url, &access)
        .await
        .err()
        .unwrap()
        .to_string();
    assert_eq!(text, "nats: timeout");
    let babbler = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", babbler.local_addr().unwrap());
    let talk = tokio::spawn(async move {
        loop {
            let (mut socket, _) = babbler.accept().await.unwrap();
            let _ = tokio::io::AsyncWriteExt::write_all(&mut socket, b"HTTP/1.1 400 what\r\n\r\n")
                .await;
        }
    });
    let error = JetStream::connect(&url, &access).await.err();
    assert!(matches!(error, Some(BusError::Refused(_))), "{error:?}");
    talk.abort();
}

#[tokio::test]
async fn a_server_that_hangs_times_out_and_goes_on() {
    let Some(server) = NatsServer::start("") else {
        return;
    };
    let bus = JetStream::connect(&server.url(), &Access::default())
        .await
        .unwrap();
    bus.ensure_stream(stream()).await.unwrap();
    server.signal(Signal::STOP);
    let hung = bus.publish("default.a.b", "1", b"x".to_vec()).await;
    assert_eq!(hung, Err(BusError::Refused("nats: timeout".to_owned())));
    server.signal(Signal::CONT);
    // The first try was stored once the server went on: the same id finds it.
    let again = bus
        .publish("default.a.b", "1", b"x".to_vec())
        .await
        .unwrap();
    assert_eq!((again.sequence, again.duplicate), (1, true));
}

#[tokio::test]
async fn a_restart_ends_connections_and_keeps_what_is_stored() {
    let Some(mut server) = NatsServer::start("") else {
        return;
    };
    let access = Access::default();
    let bus = JetStream::connect(&server.url(), &access).await.unwrap();
    bus.ensure_stream(stream()).await.unwrap();
    let made = bus.ensure_consumer("default", consumer()).await.unwrap();
    for id in ["1", "2"] {
        bus.publish("default.a.b", id, b"x".to_vec()).await.unwrap();
    }
    let first = bus
        .pull("default", "group-1", GUARD)
        .await
        .unwrap()
        .unwrap();
    bus.ack("default", "group-1", &first.token).await.unwrap();
    // In order, so that the ack is on its disk: after a kill it may deliver once more.
    server.terminate();
    tokio::time::timeout(GUARD, bus.closed().cancelled())
        .await
        .unwrap();
    assert_eq!(
        bus.pull("default", "group-1", GUARD).await,
        Err(BusError::Closed)
    );
    server.run();
    assert_eq!(bus.stream_info("default").await, Err(BusError::Closed));
    let bus = JetStream::connect(&server.url(), &access).await.unwrap();
    let again = bus
        .publish("default.a.b", "2", b"x".to_vec())
        .await
        .unwrap();
    assert!(again.duplicate, "the window survives");
    let second = bus
        .pull("default", "group-1", GUARD)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(second.message.sequence, 2);
    let state = bus.consumers("default").await.unwrap().remove(0);
    assert_eq!(
        (state.created_at_sequence, state.ack_floor_stream),
        (made.created_at_sequence, 1)
    );
}

#[tokio::test]
async fn the_monitor_tells_of_consumers_what_the_client_port_does() {
    let Some(server) = NatsServer::start("") else {
        return;
    };
    let bus = Arc::new(
        JetStream::connect(&server.url(), &Access::default())
            .await
            .unwrap(),
    );
    bus.ensure_stream(stream()).await.unwrap();
    bus.ensure_consumer("default", consumer()).await.unwrap();
    bus.publish("default.a.b", "1", b"x".to_vec())
        .await
        .unwrap();
    let delivery = bus
        .pull("default", "group-1", GUARD)
        .await
        .unwrap()
        .unwrap();
    bus.ack("default", "group-1", &delivery.token)
        .await
        .unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = format!(
        "http://127.0.0.1:{}/jsz?accounts=true&streams=true&consumers=true&config=true",
        server.monitor
    );
    let jsz: serde_json::Value = reqwest::get(url).await.unwrap().json().await.unwrap();
    let seen = consumers_of_jsz(&jsz, "default").unwrap();
    let mut asked = bus.consumers("default").await.unwrap();
    // The monitor writes times of its own precision.
    asked[0].created = seen[0].created;
    assert_eq!(seen, asked);
    assert!(consumers_of_jsz(&serde_json::json!({}), "default").is_err());
}

/// The program over a server, in a state folder of its own.
fn eventlab(state: &tempfile::TempDir, url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eventlab"));
    command
        .args(["--state-dir", state.path().to_str().unwrap(), "--bus", url])
        .args(arguments)
        .env_remove("EVENTLAB_KILL_AT")
        .env("TMPDIR", state.path())
        .stdin(Stdio::null());
    command
}

fn text(output: &std::process::Output) -> String {
    format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A server with TLS and a password, and the file with its authority.
fn guarded(extra: &str) -> Option<(NatsServer, std::path::PathBuf)> {
    let (authority, certificate, key) = certificates();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("ca.pem"), authority).unwrap();
    std::fs::write(file("cert.pem"), certificate).unwrap();
    std::fs::write(file("key.pem"), key).unwrap();
    let settings = format!(
        "tls {{ cert_file: {:?}, key_file: {:?} }}\nauthorization {{ user: js, password: s3cret }}\n{extra}",
        file("cert.pem"),
        file("key.pem")
    );
    let authority = file("ca.pem");
    Some((NatsServer::start_in(folder, &settings)?, authority))
}

/// What a server holds of the labs: sequence of the last message of their stream, and its consumers.
fn held(url: &str, access: &Access) -> (u64, usize) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let bus = JetStream::connect(url, access).await.unwrap();
        let Ok(stream) = bus.stream_info("default").await else {
            return (0, 0);
        };
        let consumers = bus.consumers("default").await.unwrap();
        (stream.last_sequence, consumers.len())
    })
}

#[test]
fn a_lab_passes_over_tls_with_a_password_twice() {
    let Some((server, authority)) = guarded("") else {
        return;
    };
    let state = tempfile::tempdir().unwrap();
    let play = |url: &str, authority: &std::path::Path| {
        let arguments = [
            "--bus-ca",
            authority.to_str().unwrap(),
            "run",
            "filter-path",
        ];
        eventlab(&state, url, &arguments).output().unwrap()
    };
    let url = format!("tls://js:s3cret@127.0.0.1:{}", server.port);
    let access = Access {
        login: Login::Password {
            user: "js".to_owned(),
            password: "s3cret".to_owned(),
        },
        tls: None,
    };
    let mut before = held(&server.url(), &access);
    // The second session finds the consumers and messages of the first.
    for _ in 0..2 {
        let output = play(&url, &authority);
        // Whatever it says, its events went through this server.
        let after = held(&server.url(), &access);
        assert!(
            after.0 > before.0 + 5 && after.1 > 0,
            "{before:?} {after:?} {}",
            text(&output)
        );
        before = after;
        assert!(output.status.success(), "{}", text(&output));
        assert!(
            text(&output).contains("the bus is nats-server"),
            "{}",
            text(&output)
        );
    }
    let (stranger, _, _) = certificates();
    let other = state.path().join("other.pem");
    std::fs::write(&other, stranger).unwrap();
    let wrong = format!("tls://js:wrong@127.0.0.1:{}", server.port);
    for (url, authority, said) in [
        (&wrong, &authority, "Authorization Violation"),
        (&url, &other, "certificate"),
        (&url, &state.path().join("none.pem"), "none.pem"),
    ] {
        let output = play(url, authority);
        assert!(
            output.status.code() == Some(3) || output.status.code() == Some(2),
            "{}",
            text(&output)
        );
        assert!(text(&output).contains(said), "{}", text(&output));
        // A password is never shown.
        assert!(!text(&output).contains("s3cret"), "{}", text(&output));
    }
    let output = eventlab(&state, "nats://token@127.0.0.1", &["run", "filter-path"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}

/// Every lab over a server that wants TLS and a password.
#[test]
#[ignore = "takes minutes; .ci/nats"]
fn every_lab_passes_over_tls_with_a_password() {
    let Some((server, authority)) = guarded("") else {
        return;
    };
    let state = tempfile::tempdir().unwrap();
    let url = format!("tls://js:s3cret@127.0.0.1:{}", server.port);
    let arguments = ["--bus-ca", authority.to_str().unwrap(), "run"];
    let output = eventlab(&state, &url, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

/// A round trip of so many milliseconds, as to a server far away or under load.
#[test]
#[ignore = "takes minutes; .ci/nats"]
fn a_slow_server_is_survived_or_said() {
    let Some(server) = NatsServer::start("") else {
        return;
    };
    for (round_trip, lab, wanted) in [
        (200, "filter-path", &[0][..]),
        (1_000, "first-order", &[0, 1, 3]),
        (12_000, "first-order", &[3]),
    ] {
        let state = tempfile::tempdir().unwrap();
        let line = SlowLine::to(server.port, Duration::from_millis(round_trip / 2));
        let url = format!("nats://127.0.0.1:{}", line.port);
        let started = std::time::Instant::now();
        let output = eventlab(&state, &url, &["run", lab, "--format", "json"])
            .output()
            .unwrap();
        let (code, said) = (output.status.code().unwrap(), text(&output));
        let took = started.elapsed().as_secs();
        let (last, _) = held(&server.url(), &Access::default());
        println!(
            "round trip of {round_trip} ms: exit {code} after {took} s, {last} messages on the server"
        );
        assert!(code != 0 || last > 0, "{said}");
        assert!(wanted.contains(&code), "{round_trip} ms: {code}\n{said}");
        assert!(!said.contains("\"outcome\":\"refuted\""), "{said}");
    }
}

/// The stream takes nothing any more, whoever filled it: the first layer that failed is named, and nobody blamed.
#[tokio::test]
#[ignore = "takes a while; .ci/nats"]
async fn a_full_server_is_said() {
    let Some(server) = NatsServer::start("") else {
        return;
    };
    let bus = JetStream::connect(&server.url(), &Access::default())
        .await
        .unwrap();
    let full = StreamConfig {
        max_bytes: 1,
        discard_new: true,
        ..stream()
    };
    bus.ensure_stream(full).await.unwrap();
    let state = tempfile::tempdir().unwrap();
    let mut command = eventlab(&state, &server.url(), &["run", "first-order"]);
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("the intake layer was not able to take it") && said.contains("500"),
        "{said}"
    );
    assert!(!said.contains("refuted"), "{said}");
}

/// Why checks of a run in JSON were refuted.
fn refuted(lines: &[u8]) -> Vec<String> {
    let lines = String::from_utf8_lossy(lines).into_owned();
    let stages = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let checks = stages.flat_map(|stage| stage["checks"].as_array().cloned().unwrap_or_default());
    checks
        .filter(|check| check["outcome"] == "refuted")
        .map(|check| check["because"].to_string())
        .collect()
}

/// Whatever the moment of the restart: passed, or said that it could not be seen; never held against anybody.
#[test]
#[ignore = "takes minutes; .ci/nats"]
fn a_restart_in_the_middle_of_a_lab_is_survived_or_said() {
    let Some(mut server) = NatsServer::start("") else {
        return;
    };
    let state = tempfile::tempdir().unwrap();
    for pause in [500, 1500, 2500, 4000, 6000] {
        let child = eventlab(
            &state,
            &server.url(),
            &["run", "filter-path", "--format", "json"],
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        server.kill();
        std::thread::sleep(Duration::from_millis(300));
        server.run();
        let output = child.wait_with_output().unwrap();
        let said = text(&output);
        println!(
            "restart after {pause} ms: exit {:?}, {:?} on the server",
            output.status.code(),
            held(&server.url(), &Access::default())
        );
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{said}");
        let blamed = refuted(&output.stdout);
        assert!(blamed.is_empty(), "after {pause} ms: {blamed:?}\n{said}");
    }
}
