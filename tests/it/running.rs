//! Commands that read a session which another process runs.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A hang guard, far above what anything here takes.
const GUARD: Duration = Duration::from_secs(60);

fn command(state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eventlab"));
    command
        .args(["--state-dir", state.to_str().unwrap()])
        .args(arguments)
        .env_remove("EVENTLAB_KILL_AT");
    command
}

fn eventlab(state: &Path, arguments: &[&str]) -> Output {
    command(state, arguments).output().unwrap()
}

/// `cluster start`, once its API answers.
fn cluster(state: &Path) -> Child {
    let mut child = command(state, &["cluster", "start"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert!(line.contains("https://127.0.0.1:"), "{line}");
    child
}

fn rows(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn the_ledger_of_a_running_session_is_read_from_another_terminal() {
    let state = tempfile::tempdir().unwrap();
    for command in ["show", "attempts", "claims"] {
        let none = eventlab(state.path(), &["ledger", command]);
        assert_eq!(none.status.code(), Some(3), "{none:?}");
        let said = String::from_utf8_lossy(&none.stderr).into_owned();
        assert!(
            said.contains("no session runs") && said.contains("--db"),
            "{said}"
        );
        assert!(none.stdout.is_empty());
    }
    let order = eventlab(state.path(), &["check"]);
    assert!(order.status.success(), "{order:?}");

    let mut child = cluster(state.path());
    let end = Instant::now() + GUARD;
    // The ledger's pod comes up after the API does; until then the command says so.
    let shown = loop {
        let shown = eventlab(state.path(), &["ledger", "show", "--format", "json"]);
        if shown.status.success() || Instant::now() > end {
            break shown;
        }
        assert_eq!(shown.status.code(), Some(3), "{shown:?}");
        assert!(
            String::from_utf8_lossy(&shown.stderr).contains("order-ledger"),
            "{shown:?}"
        );
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(rows(&shown)[0]["order_id"], "first-1", "{shown:?}");
    let attempts = eventlab(state.path(), &["ledger", "attempts", "--format", "json"]);
    assert_eq!(rows(&attempts)[0]["outcome"], "applied", "{attempts:?}");
    let text = eventlab(state.path(), &["ledger", "attempts"]);
    assert!(
        String::from_utf8_lossy(&text.stdout).contains("first-1"),
        "{text:?}"
    );

    let verified = eventlab(state.path(), &["ledger", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");

    // What writes runs in a pod of the session, which alone has the file.
    let clock = eventlab(state.path(), &["ledger", "clock", "--advance", "60"]);
    assert_eq!(clock.status.code(), Some(0), "{clock:?}");
    assert!(!clock.stdout.is_empty(), "{clock:?}");
    let decision = [
        "ledger",
        "decide",
        "--order-id",
        "none",
        "--absent",
        "--by",
        "dana",
    ];
    let decision = eventlab(state.path(), &decision);
    assert_eq!(decision.status.code(), Some(64), "{decision:?}");
    let said = String::from_utf8_lossy(&decision.stderr).into_owned();
    assert!(said.contains("there is no claim on order none"), "{said}");

    assert!(
        eventlab(state.path(), &["cluster", "stop"])
            .status
            .success()
    );
    child.wait().unwrap();
    let gone = eventlab(state.path(), &["ledger", "show"]);
    assert_eq!(gone.status.code(), Some(3), "{gone:?}");
}
