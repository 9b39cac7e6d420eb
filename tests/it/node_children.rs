//! Child processes of the node: environment, exits, logs, and that none of them outlives its parent.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use eventlab::embedded::node::children::{ChildSpec, start};
use eventlab::embedded::node::process::{Exit, LogSink, PodProcess};
use eventlab::embedded::node::sweep::Records;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

/// Only a guard against hanging.
const HANG: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Lines(Mutex<Vec<String>>);

impl LogSink for Lines {
    fn line(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }
}

impl Lines {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn spec(folder: &Path, args: &[&str]) -> ChildSpec {
    ChildSpec {
        program: PathBuf::from(env!("CARGO_BIN_EXE_eventlab")),
        args: args.iter().map(Into::into).collect(),
        env: BTreeMap::new(),
        folder: folder.to_path_buf(),
        container: "eventlab/pod/main".into(),
    }
}

fn shell(folder: &Path, script: &str) -> ChildSpec {
    ChildSpec {
        program: PathBuf::from("/bin/sh"),
        ..spec(folder, &["-c", script])
    }
}

async fn run(spec: ChildSpec, records: &Records) -> (Exit, Vec<String>) {
    let lines = Arc::new(Lines::default());
    let child = start(spec, records, lines.clone()).await.unwrap();
    let mut exit = child.exit();
    let ended = tokio::time::timeout(HANG, exit.wait_for(Option::is_some))
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    (ended, lines.all())
}

fn folder() -> (TempDir, Records) {
    let folder = tempfile::tempdir().unwrap();
    let records = Records::open(folder.path().join("children")).unwrap();
    (folder, records)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn exits_are_exact_and_logs_are_whole_when_they_are_seen() {
    let (folder, records) = folder();
    block_on(async {
        for code in [0, 3, 64, 255] {
            let (exit, lines) = run(
                shell(
                    folder.path(),
                    &format!("echo out; echo err >&2; exit {code}"),
                ),
                &records,
            )
            .await;
            assert_eq!(exit, Exit::Code(code));
            let mut lines = lines;
            lines.sort();
            assert_eq!(lines, ["err", "out"]);
        }
        for (signal, number) in [("TERM", 15), ("KILL", 9), ("ABRT", 6)] {
            let (exit, _) = run(
                shell(folder.path(), &format!("kill -{signal} $$")),
                &records,
            )
            .await;
            assert_eq!((exit, exit.code()), (Exit::Signal(number), 128 + number));
        }
        let (_, lines) = run(shell(folder.path(), "seq 1 20000"), &records).await;
        assert_eq!(
            (lines.len(), lines.last().unwrap().as_str()),
            (20000, "20000")
        );
    });
    assert_eq!(
        std::fs::read_dir(folder.path().join("children"))
            .unwrap()
            .count(),
        0,
        "records are gone"
    );
}

#[test]
fn the_environment_is_what_was_given() {
    let (folder, records) = folder();
    block_on(async {
        let mut spec = shell(folder.path(), "env; pwd");
        spec.env.insert("ORDER".into(), "o 1=x".into());
        let (_, lines) = run(spec, &records).await;
        let names: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.split_once('='))
            .map(|pair| pair.0)
            .collect();
        // The shell itself sets PWD, SHLVL and _.
        let ours: Vec<&&str> = names
            .iter()
            .filter(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(*name))
            .collect();
        assert_eq!(ours.len(), 2, "{lines:?}");
        assert!(lines.contains(&"ORDER=o 1=x".to_owned()));
        let here = folder.path().canonicalize().unwrap();
        assert_eq!(lines.last().unwrap(), here.to_str().unwrap());
    });
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let (folder, records) = folder();
    let spec = ChildSpec {
        program: folder.path().join("nothing"),
        ..spec(folder.path(), &[])
    };
    let error = block_on(async {
        start(spec, &records, Arc::new(Lines::default()))
            .await
            .err()
            .unwrap()
    });
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn terminate_lets_a_workload_end_in_order_and_kill_does_not() {
    let (folder, records) = folder();
    let db = folder.path().join("ledger.db");
    let args = [
        "ledger",
        "serve",
        "--db",
        db.to_str().unwrap(),
        "--port",
        "0",
    ];
    block_on(async {
        for (kill, expected) in [(false, Exit::Code(0)), (true, Exit::Signal(9))] {
            let lines = Arc::new(Lines::default());
            let child = start(spec(folder.path(), &args), &records, lines.clone())
                .await
                .unwrap();
            hang_guard(|| !lines.all().is_empty()).await;
            if kill {
                child.kill()
            } else {
                child.terminate()
            }
            let mut exit = child.exit();
            let ended = tokio::time::timeout(HANG, exit.wait_for(Option::is_some))
                .await
                .unwrap()
                .unwrap()
                .unwrap();
            assert_eq!(ended, expected);
            // A signal to a process that is gone reaches nobody.
            child.terminate();
            child.kill();
        }
    });
}

#[test]
fn a_dropped_child_is_killed() {
    let (folder, records) = folder();
    block_on(async {
        let child = start(
            shell(folder.path(), "sleep 1000"),
            &records,
            Arc::new(Lines::default()),
        )
        .await
        .unwrap();
        let pid = child.pid();
        drop(child);
        hang_guard(|| !alive(pid)).await;
    });
}

async fn hang_guard(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + HANG;
    while !condition() {
        assert!(Instant::now() < end, "it never came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + HANG;
    while !condition() {
        assert!(Instant::now() < end, "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number.try_into().unwrap()).unwrap()
}

/// Whether a process runs; one that ended and was not waited for does not.
fn alive(number: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{number}/stat")) {
        Ok(stat) => !stat
            .rsplit_once(')')
            .unwrap()
            .1
            .trim_start()
            .starts_with('Z'),
        Err(_) if Path::new("/proc/self").exists() => false,
        Err(_) => test_kill_process(pid(number)).is_ok(),
    }
}

/// Not a test: the parent that others start and kill. It starts serving children and prints their process ids.
#[test]
#[ignore = "the parent process of other tests"]
fn parent() {
    let Ok(folder) = std::env::var("EVENTLAB_TEST_FOLDER") else {
        return;
    };
    let folder = PathBuf::from(folder);
    let records = Records::open(folder.join("children")).unwrap();
    block_on(async {
        let db = folder.join("ledger.db");
        let args = [
            "ledger",
            "serve",
            "--db",
            db.to_str().unwrap(),
            "--port",
            "0",
        ];
        let mut children = Vec::new();
        for _ in 0..10 {
            let lines = Arc::new(Lines::default());
            let child = start(spec(&folder, &args), &records, lines.clone())
                .await
                .unwrap();
            hang_guard(|| !lines.all().is_empty()).await;
            println!("\nchild {}", child.pid());
            children.push(child);
        }
        println!("\nready");
        tokio::time::sleep(Duration::from_secs(600)).await;
    });
}

/// Starts [`parent`] and answers it with its children's process ids.
fn start_parent(folder: &Path) -> (Child, Vec<u32>) {
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "node_children::parent",
            "--ignored",
            "--nocapture",
        ])
        .env("EVENTLAB_TEST_FOLDER", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut children = Vec::new();
    for line in BufReader::new(parent.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(pid) = line.strip_prefix("child ") {
            children.push(pid.parse().unwrap());
        }
        if line == "ready" {
            break;
        }
    }
    assert_eq!(children.len(), 10);
    (parent, children)
}

#[test]
fn no_child_outlives_a_killed_parent() {
    let folder = tempfile::tempdir().unwrap();
    let (mut parent, children) = start_parent(folder.path());
    assert!(children.iter().all(|child| alive(*child)));
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until(|| !children.iter().any(|child| alive(*child)));
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_left_is_swept_at_the_next_start() {
    let (folder, records) = folder();
    // A child without guards, as one that was stopped before it could set them up.
    let stray = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    let mut bystander = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    let stat = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<String> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .map(Into::into)
            .collect();
        fields[19].clone()
    };
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let record = |pid: u32, started: &str, boot: &str| {
        let json = serde_json::json!({"pid": pid, "started": started, "boot": boot.trim(), "container": "x"});
        std::fs::write(
            folder.path().join(format!("children/{pid}.json")),
            json.to_string(),
        )
        .unwrap();
    };
    record(stray.id(), &stat(stray.id()), &boot);
    // The id was given to another process since.
    record(bystander.id(), "1", &boot);
    std::fs::write(folder.path().join("children/torn.json"), "{\"pid\":").unwrap();

    let swept = records.sweep().unwrap();
    assert_eq!(
        swept.iter().map(|record| record.pid).collect::<Vec<_>>(),
        [stray.id()]
    );
    assert!(!alive(stray.id()) && alive(bystander.id()));
    assert_eq!(
        std::fs::read_dir(folder.path().join("children"))
            .unwrap()
            .count(),
        0
    );
    record(bystander.id(), &stat(bystander.id()), "another boot");
    assert!(records.sweep().unwrap().is_empty() && alive(bystander.id()));

    bystander.kill().unwrap();
    bystander.wait().unwrap();
    let mut stray = stray;
    stray.wait().unwrap();
}

#[test]
fn a_stopped_child_of_a_killed_parent_is_swept_at_the_latest() {
    let folder = tempfile::tempdir().unwrap();
    let (mut parent, children) = start_parent(folder.path());
    for child in &children {
        kill_process(pid(*child), Signal::STOP).unwrap();
    }
    parent.kill().unwrap();
    parent.wait().unwrap();
    Records::open(folder.path().join("children"))
        .unwrap()
        .sweep()
        .unwrap();
    wait_until(|| !children.iter().any(|child| alive(*child)));
}

#[test]
fn the_end_of_stdin_ends_a_workload_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["ledger", "serve", "--port", "0", "--db"])
        .arg(folder.path().join("ledger.db"))
        .env("EVENTLAB_PARENT", std::process::id().to_string())
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // We, its parent, live on.
    drop(child.stdin.take());
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn a_workload_with_another_parent_does_not_begin() {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["ledger", "serve", "--port", "0", "--db"])
        .arg(folder.path().join("ledger.db"))
        .env("EVENTLAB_PARENT", "1")
        .stdin(Stdio::piped())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(137));
}

#[cfg(target_os = "linux")]
#[test]
fn the_death_signal_ends_a_workload_whose_stdin_stays_open() {
    let folder = tempfile::tempdir().unwrap();
    // The shell is the parent; the pipe on stdin is ours and stays open.
    let script = format!(
        "exec 3<&0; EVENTLAB_PARENT=$$ {} ledger serve --port 0 --db {}/ledger.db <&3 2>&1 & echo $!; wait",
        env!("CARGO_BIN_EXE_eventlab"),
        folder.path().display()
    );
    let mut shell = Command::new("/bin/sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
    let child: u32 = lines.next().unwrap().unwrap().trim().parse().unwrap();
    assert!(lines.next().unwrap().unwrap().starts_with("serving"));
    shell.kill().unwrap();
    shell.wait().unwrap();
    wait_until(|| !alive(child));
    drop(shell.stdin.take());
}
