//! `eventlab cluster`: start, status, kubeconfig and stop.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A cluster in the background; stopped at the end of the test.
pub struct Background {
    state: tempfile::TempDir,
}

impl Background {
    pub fn start() -> Background {
        let cluster = Background {
            state: tempfile::tempdir().unwrap(),
        };
        let output = cluster.run(&["cluster", "start", "--detach"]);
        assert!(output.status.success(), "{output:?}");
        cluster
    }

    /// A command of this program in the cluster's session.
    pub fn run(&self, arguments: &[&str]) -> Output {
        eventlab(self.state.path(), arguments)
    }

    /// Standard output of a command that must succeed.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn state(&self) -> &Path {
        self.state.path()
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.state.path().join("embedded").join("kubeconfig")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.run(&["cluster", "stop"]);
    }
}

fn eventlab(state: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(arguments)
        .arg("--state-dir")
        .arg(state)
        .env_remove("EVENTLAB_STATE_DIR")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn a_cluster_in_the_background_is_found_and_stopped() {
    let cluster = Background::start();
    let status = cluster.ok(&["cluster", "status"]);
    assert!(status.starts_with("running     process "), "{status}");
    let path = cluster.ok(&["cluster", "kubeconfig", "--path"]);
    assert_eq!(Path::new(path.trim()), cluster.kubeconfig());
    let export = cluster.ok(&["cluster", "kubeconfig", "--export"]);
    assert_eq!(export, format!("export KUBECONFIG='{}'\n", path.trim()));
    let both = cluster.run(&["cluster", "kubeconfig", "--path", "--export"]);
    assert_eq!(
        (both.status.code(), both.stdout.as_slice()),
        (Some(2), &b""[..])
    );
    let read = kube::config::Kubeconfig::read_from(path.trim()).unwrap();
    let contexts: Vec<&str> = read.contexts.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        contexts,
        ["learner", "order-sensor", "order-runner", "admin"]
    );
    assert_eq!(read.current_context.as_deref(), Some("learner"));

    let second = cluster.run(&["cluster", "start", "--detach"]);
    assert_eq!(second.status.code(), Some(3), "{second:?}");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        said.contains("a cluster of this session runs already, in process "),
        "{said}"
    );

    assert_eq!(cluster.ok(&["cluster", "stop"]), "stopped\n");
    let gone = cluster.run(&["cluster", "status"]);
    assert_eq!(gone.status.code(), Some(3), "{gone:?}");
    let idle = cluster.run(&["cluster", "kubeconfig"]);
    assert!(
        idle.status.success() && idle.stdout == path.as_bytes(),
        "{idle:?}"
    );
    let said = String::from_utf8_lossy(&idle.stderr).into_owned();
    assert!(
        said.contains("No cluster of this session runs now"),
        "{said}"
    );
    // The same port again: shells keep their kubeconfig.
    let before = read.clusters[0].cluster.as_ref().unwrap().server.clone();
    cluster.ok(&["cluster", "start", "--detach"]);
    let read = kube::config::Kubeconfig::read_from(path.trim()).unwrap();
    assert_eq!(read.clusters[0].cluster.as_ref().unwrap().server, before);
}

/// A killed process leaves its record behind, and its number may be somebody else's by now.
#[test]
fn only_who_holds_the_session_is_stopped() {
    let cluster = Background::start();
    let record = cluster.state().join("embedded").join("running.json");
    let written = std::fs::read_to_string(&record).unwrap();
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let mut old: serde_json::Value = serde_json::from_str(&written).unwrap();
    old["pid"] = other.id().into();
    std::fs::write(&record, old.to_string()).unwrap();
    let stop = cluster.run(&["cluster", "stop"]);
    assert_eq!(stop.status.code(), Some(3), "{stop:?}");
    assert_eq!(other.try_wait().unwrap(), None, "it was killed");
    other.kill().unwrap();
    other.wait().unwrap();
    std::fs::write(&record, written).unwrap();
    assert_eq!(cluster.ok(&["cluster", "stop"]), "stopped\n");
}

#[test]
fn a_folder_named_from_here_is_found_by_pods() {
    let state = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .args(arguments)
            .args(["--state-dir", "here"])
            .current_dir(state.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    assert!(run(&["cluster", "start", "--detach"]).status.success());
    let path = run(&["cluster", "kubeconfig"]);
    run(&["cluster", "stop"]);
    let path = String::from_utf8(path.stdout).unwrap();
    assert!(Path::new(path.trim()).is_absolute(), "{path}");
}

#[test]
fn a_cluster_that_cannot_start_says_why() {
    let state = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = eventlab(
        state.path(),
        &["cluster", "start", "--detach", "--port", &port],
    );
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains(&format!("port {port} on 127.0.0.1 is taken")),
        "{said}"
    );
    let output = eventlab(state.path(), &["cluster", "stop"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}
