//! Data goes to stdout, and what did not arrive there is never an exit 0. What is said beside it may go nowhere.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::program::{command, eventlab, text};

const SENSOR: &str = "apiVersion: argoproj.io/v1alpha1
kind: Sensor
metadata: {name: s}
spec:
  dependencies:
    - name: d
      eventSourceName: e
      eventName: orders
      filters: {data: [{path: body.kind, type: string, value: [a.b]}]}
  triggers:
    - template: {name: t, log: {intervalSeconds: 1}}
";

/// Commands that print nothing here: they want a real cluster, or serve until they are ended.
const SILENT: [&str; 4] = ["doctor", "node", "trace", "crm"];

/// A device that takes nothing.
fn full() -> Option<Stdio> {
    let device = OpenOptions::new().write(true).open("/dev/full");
    if device.is_err() {
        eprintln!("skipped: there is no /dev/full here");
    }
    device.ok().map(Stdio::from)
}

/// A state directory with a session in it, a bundle of it, a ledger and a Sensor.
fn prepared(state: &Path) {
    let done = |arguments: &[&str]| {
        let output = inside(state, arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    };
    std::fs::write(state.join("sensor.yaml"), SENSOR).unwrap();
    done(&["check"]);
    done(&["report", "--bundle", "case.tgz"]);
    let order =
        "--order-id a --amount 1 --arrival b --workflow-uid 6f0d7231-9a2d-4f79-9039-01e4a410dc58";
    let mut apply = vec!["ledger", "apply", "--db", "l.db", "--mode", "atomic"];
    apply.extend(order.split(' '));
    done(&apply);
}

fn inside(state: &Path, arguments: &[&str]) -> Command {
    let mut command = command(state, arguments);
    command.current_dir(state).stdin(Stdio::null());
    command
}

/// A command line for each way to print, in an order in which each has something to say.
fn printing() -> Vec<Vec<&'static str>> {
    let lines = [
        "run first-order --keep",
        "run first-order --format json",
        "run first-order --format junit",
        "lab test first-order",
        "list",
        "list --format json",
        "status",
        "status --format json",
        "hint",
        "check",
        "check --format json",
        "next",
        "reset first-order",
        "report",
        "report --format json",
        "report --runbook",
        "report --bundle new.tgz",
        "open case.tgz",
        "open case.tgz --format json",
        "explain -f sensor.yaml --body {}",
        "lint -f sensor.yaml",
        "lint -f sensor.yaml --format json",
        "lint --list-rules",
        "metrics",
        "lab schema",
        "lab new own",
        "cluster kubeconfig",
        "cluster kubeconfig --export",
        "ledger show --db l.db",
        "ledger attempts --db l.db",
        "ledger verify --db l.db",
        "completions bash",
        "man",
        "man --dir pages",
        "--help",
        "run --help",
        "--version",
        "--accessible",
    ];
    lines.iter().map(|line| line.split(' ').collect()).collect()
}

#[test]
fn every_command_that_prints_is_among_those_that_are_tried() {
    let state = tempfile::tempdir().unwrap();
    let help = text(&eventlab(state.path(), &["--help"]));
    let commands = help.split("Commands:").nth(1).unwrap();
    let commands = commands.split("Options:").next().unwrap();
    let names = commands
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    for name in names {
        let tried = printing().iter().any(|line| line[0] == name);
        assert!(tried || SILENT.contains(&name), "{name}");
    }
}

/// Whatever a command has to print: where it cannot be written, that is said, and it is not as if all were well.
#[test]
fn data_that_did_not_arrive_is_said_and_is_no_success() {
    if full().is_none() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    prepared(state.path());
    for arguments in printing() {
        let output = inside(state.path(), &arguments)
            .stdout(full().unwrap())
            .output()
            .unwrap();
        let said = text(&output);
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        // The ledger's codes are its own, in pods as well.
        let code = if arguments[0] == "ledger" { 1 } else { 3 };
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        let told = match arguments[0] {
            "ledger" => "write to stdout",
            _ => "cannot write to standard output",
        };
        assert!(said.contains(told), "{arguments:?}: {said}");
    }
    // It has gone on all the same, and ended in order.
    let status = text(&eventlab(state.path(), &["status"]));
    assert!(!status.contains("interrupted"), "{status}");
}

/// A reader that went away has what it wanted.
#[test]
fn a_reader_that_went_away_ends_the_output_without_a_word() {
    let state = tempfile::tempdir().unwrap();
    prepared(state.path());
    for arguments in printing() {
        let usual = inside(state.path(), &arguments).output().unwrap();
        if arguments.starts_with(&["lab", "new"]) {
            std::fs::remove_dir_all(state.path().join("own")).unwrap();
        }
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = inside(state.path(), &arguments)
            .stdout(writer)
            .output()
            .unwrap();
        let said = text(&output);
        assert!(!said.contains("standard output"), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        // What moves on by being asked (`next`) may answer otherwise the second time.
        let moves = ["next", "check", "hint"].contains(&arguments[0]);
        assert!(
            moves || output.status.code() == usual.status.code(),
            "{arguments:?}: {said}"
        );
    }
}

/// Talk that nobody takes changes nothing.
#[test]
fn a_full_stderr_changes_no_outcome() {
    if full().is_none() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    prepared(state.path());
    let code = |output: Output| output.status.code();
    for arguments in [
        &["check"][..],
        &["list"],
        &["report"],
        &["open", "case.tgz"],
        &["lint", "-f", "sensor.yaml", "--format", "sarif"],
        &["cluster", "kubeconfig"],
        &["run", "first-order"],
        &["report", "--bundle", "other.tgz"],
        &["doctor"],
        &["--labs", "/nowhere", "list"],
        &["ledger", "show"],
    ] {
        let usual = code(inside(state.path(), arguments).output().unwrap());
        let quiet = inside(state.path(), arguments)
            .stderr(full().unwrap())
            .output()
            .unwrap();
        assert_eq!(code(quiet), usual, "{arguments:?}");
        assert_ne!(usual, Some(4), "{arguments:?}");
    }
}
