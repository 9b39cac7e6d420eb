//! Readiness probes: `httpGet` and `tcpSocket` against the container's real socket.
//!
//! Until a container is ready it is asked ten times a second, whatever its period says: a lab should not wait for a
//! clock. Other kinds of probes, and liveness and startup probes, are not carried out.

use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe as Spec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::addresses::AddressBook;
use super::process::Exit;

/// Pause between probes of a container that is not ready.
const EAGER: Duration = Duration::from_millis(100);
/// How often it is said why a container is not ready yet.
const TELL: Duration = Duration::from_secs(1);

/// What to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Question {
    Connect,
    Get {
        path: String,
        headers: Vec<(String, String)>,
    },
}

/// A readiness probe that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    question: Question,
    port: u16,
    delay: Duration,
    period: Duration,
    timeout: Duration,
    successes: u32,
    failures: u32,
}

/// Names the container instance that is asked.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub book: AddressBook,
    pub uid: String,
}

impl Probe {
    /// The readiness probe of a container; an error says why it cannot be carried out.
    pub(super) fn of(container: &Container) -> Option<Result<Probe, String>> {
        container
            .readiness_probe
            .as_ref()
            .map(|spec| Probe::parse(spec, container))
    }

    fn parse(spec: &Spec, container: &Container) -> Result<Probe, String> {
        let (question, port) = if let Some(get) = &spec.http_get {
            if get.scheme.as_deref().is_some_and(|scheme| scheme != "HTTP") {
                return Err("only the scheme HTTP is supported on the embedded cluster".to_owned());
            }
            let headers = get.http_headers.iter().flatten();
            let headers = headers
                .map(|header| (header.name.clone(), header.value.clone()))
                .collect();
            let path = get
                .path
                .clone()
                .filter(|path| path.starts_with('/'))
                .unwrap_or_else(|| "/".to_owned());
            (Question::Get { path, headers }, &get.port)
        } else if let Some(socket) = &spec.tcp_socket {
            (Question::Connect, &socket.port)
        } else {
            return Err(
                "only httpGet and tcpSocket are supported on the embedded cluster".to_owned(),
            );
        };
        let seconds = |value: Option<i32>, usual: u64| {
            let stated = value
                .and_then(|value| u64::try_from(value).ok())
                .unwrap_or(usual);
            Duration::from_secs(stated)
        };
        let times = |value: Option<i32>, usual: u32| {
            value
                .and_then(|value| u32::try_from(value).ok())
                .unwrap_or(usual)
                .max(1)
        };
        Ok(Probe {
            question,
            port: number(port, container)
                .ok_or_else(|| "its port is not one of the container".to_owned())?,
            delay: seconds(spec.initial_delay_seconds, 0),
            period: seconds(spec.period_seconds, 10).max(Duration::from_secs(1)),
            timeout: seconds(spec.timeout_seconds, 1).max(Duration::from_secs(1)),
            successes: times(spec.success_threshold, 1),
            failures: times(spec.failure_threshold, 3),
        })
    }

    /// Asks until the container ends, and reports every change, and now and then why it is not ready yet.
    pub(super) async fn run(
        self,
        target: Target,
        mut exit: watch::Receiver<Option<Exit>>,
        report: impl Fn(bool, Option<String>),
    ) {
        let asking = async {
            tokio::time::sleep(self.delay).await;
            let (mut ready, mut row) = (false, 0u32);
            let mut told = Instant::now();
            loop {
                let failure = self.ask(&target).await.err();
                // How often in a row the answer has been another one than the state.
                row = if failure.is_none() == ready {
                    0
                } else {
                    row + 1
                };
                let enough = if ready { self.failures } else { self.successes };
                if row >= enough {
                    ready = !ready;
                    row = 0;
                    report(ready, failure);
                } else if let Some(failure) = failure.filter(|_| !ready && told.elapsed() >= TELL) {
                    told = Instant::now();
                    report(false, Some(failure));
                }
                tokio::time::sleep(if ready {
                    self.period
                } else {
                    EAGER.min(self.period)
                })
                .await;
            }
        };
        tokio::select! {
            () = asking => {}
            // Closed means that it has ended, too.
            _ = exit.wait_for(Option::is_some) => {}
        }
    }

    async fn ask(&self, target: &Target) -> Result<(), String> {
        let address = target.book.socket(&target.uid, self.port);
        let address = address
            .ok_or_else(|| format!("dial tcp :{}: connect: connection refused", self.port))?;
        match tokio::time::timeout(self.timeout, self.exchange(address)).await {
            Ok(answer) => answer,
            Err(_) => Err(
                "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
                    .to_owned(),
            ),
        }
    }

    async fn exchange(&self, address: SocketAddr) -> Result<(), String> {
        let text = |error: std::io::Error| format!("dial tcp :{}: {error}", self.port);
        let mut stream = TcpStream::connect(address).await.map_err(text)?;
        let Question::Get { path, headers } = &self.question else {
            return Ok(());
        };
        let mut head = format!("GET {} HTTP/1.1\r\n", one_line(path));
        if headers
            .iter()
            .all(|(name, _)| !name.eq_ignore_ascii_case("host"))
        {
            head.push_str("Host: localhost\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{}: {}\r\n", one_line(name), one_line(value)));
        }
        head.push_str("User-Agent: kube-probe/1.36\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.map_err(text)?;
        // The status line is all that counts: `HTTP/1.1 200`.
        let mut start = [0u8; 12];
        stream.read_exact(&mut start).await.map_err(text)?;
        let status = start
            .get(9..)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|text| text.parse().ok());
        match status {
            Some(200u16..=399) => Ok(()),
            Some(status) => Err(format!("HTTP probe failed with statuscode: {status}")),
            None => Err("the answer is not HTTP".to_owned()),
        }
    }
}

fn number(port: &IntOrString, container: &Container) -> Option<u16> {
    match port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) => {
            let known = container
                .ports
                .iter()
                .flatten()
                .find(|port| port.name.as_ref() == Some(name));
            known.and_then(|port| u16::try_from(port.container_port).ok())
        }
    }
}

fn one_line(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control())
        .collect()
}
