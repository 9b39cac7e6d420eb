//! `eventlab metrics`: the counters of a session, printed and served.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn command(state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eventlab"));
    command
        .args(["--state-dir", state.to_str().unwrap()])
        .args(arguments)
        .stdin(Stdio::null());
    command
}

fn eventlab(state: &Path, arguments: &[&str]) -> Output {
    command(state, arguments).output().unwrap()
}

fn fetch(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const COUNTED: [&str; 4] = [
    "argo_events_events_sent_total{lab=\"first-order\"} 1",
    "eventlab_approved_events_total{lab=\"first-order\"} 1",
    "argo_workflows_total_count{lab=\"first-order\",phase=\"Succeeded\"} 1",
    "eventlab_business_effects_total{lab=\"first-order\"} 1",
];

#[test]
fn four_counters_are_printed_and_served_on_loopback() {
    let state = tempfile::tempdir().unwrap();
    let order = eventlab(state.path(), &["check"]);
    assert!(order.status.success(), "{order:?}");
    let printed = eventlab(state.path(), &["metrics"]);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    let printed = String::from_utf8(printed.stdout).unwrap();
    for line in COUNTED {
        assert!(printed.contains(line), "{line}\n{printed}");
    }

    for address in ["0.0.0.0:0", "192.0.2.1:9464", "[::]:0"] {
        let refused = eventlab(state.path(), &["metrics", "--serve", address]);
        assert_eq!(refused.status.code(), Some(2), "{address}: {refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("127.0.0.1"), "{said}");
    }
    let mut serving = command(state.path(), &["metrics", "--serve", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    let mut output = BufReader::new(serving.stdout.take().unwrap());
    output.read_line(&mut url).unwrap();
    let answer = fetch(url.trim());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("text/plain; version=0.0.4"), "{answer}");
    for line in COUNTED {
        assert!(answer.contains(line), "{line}\n{answer}");
    }
    assert!(fetch(url.trim().trim_end_matches("metrics")).starts_with("HTTP/1.1 404"));
    let pid = rustix::process::Pid::from_raw(serving.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(serving.wait().unwrap().code(), Some(130));
}
