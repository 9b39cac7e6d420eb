//! `--context`: the embedded API of another process stands for a cluster of somebody else's.
//!
//! Its own controllers run there; this program knows it by its kubeconfig alone: TLS, a token, port-forward, logs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tempfile::TempDir;

/// A cluster that another process runs.
struct Stranger {
    child: Child,
    state: TempDir,
}

impl Stranger {
    fn start() -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .args(["--state-dir", state.path().to_str().unwrap()])
            .args(["cluster", "start"])
            .env("TMPDIR", state.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().contains("https://127.0.0.1"));
        // The rest is read, so that the other side never waits for room.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, state }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.state.path().join("embedded").join("kubeconfig")
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The learner's side.
struct Here {
    state: TempDir,
    kubeconfig: PathBuf,
}

impl Here {
    fn new(kubeconfig: &Path) -> Self {
        Self {
            state: tempfile::tempdir().unwrap(),
            kubeconfig: kubeconfig.to_owned(),
        }
    }

    fn command(&self, context: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_eventlab"));
        command
            .args(["--state-dir", self.state.path().to_str().unwrap()])
            .args(["--context", context, "--kubeconfig"])
            .arg(&self.kubeconfig)
            .args(arguments)
            .env_remove("KUBECONFIG")
            // Nobody listens there: this machine is reached without it, as by kubectl.
            .env("HTTPS_PROXY", "http://127.0.0.1:9")
            .env("TMPDIR", self.state.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    fn run_as(&self, context: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(context, arguments);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap()
    }

    /// Runs without the context, or with another one, and expects a refusal.
    #[track_caller]
    fn strays(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_eventlab"));
        command.args(["--state-dir", self.state.path().to_str().unwrap()]);
        if arguments.contains(&"--context") {
            command.arg("--kubeconfig").arg(&self.kubeconfig);
        }
        let output = command
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}\n{}",
            text(&output)
        );
        text(&output)
    }

    /// The same cluster, to be reached through a proxy alone.
    fn behind(&self, proxy: &str) -> Self {
        let config = std::fs::read_to_string(&self.kubeconfig).unwrap();
        let mut config: Value = serde_yaml::from_str(&config).unwrap();
        for cluster in config["clusters"].as_array_mut().unwrap() {
            cluster["cluster"]["proxy-url"] = proxy.into();
        }
        let state = tempfile::tempdir().unwrap();
        let kubeconfig = state.path().join("config");
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        Self { state, kubeconfig }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_as("admin", arguments)
    }

    /// Runs, and expects this exit code.
    #[track_caller]
    fn ends(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}");
        text
    }
}

/// A proxy that connects whoever shows this login, and counts.
struct Proxy {
    address: std::net::SocketAddr,
    connected: Arc<AtomicUsize>,
}

impl Proxy {
    fn start(login: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connected = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connected);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                std::thread::spawn(move || tunnel(near, login, &count));
            }
        });
        Self { address, connected }
    }
}

fn tunnel(mut near: TcpStream, login: &str, count: &AtomicUsize) -> Option<()> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let mut byte = [0];
        near.read_exact(&mut byte).ok()?;
        head.push(char::from(byte[0]));
    }
    let target = head.strip_prefix("CONNECT ")?.split(' ').next()?;
    if !head
        .to_ascii_lowercase()
        .contains(&login.to_ascii_lowercase())
    {
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
        return near.write_all(refusal).ok();
    }
    let mut far = TcpStream::connect(target).ok()?;
    near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    count.fetch_add(1, Ordering::Relaxed);
    let (mut back, mut to) = (far.try_clone().ok()?, near.try_clone().ok()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut back, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let _ = std::io::copy(&mut near, &mut far);
    far.shutdown(Shutdown::Write).ok()
}

fn text(output: &Output) -> String {
    format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn points(output: &str) -> Vec<Value> {
    output
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn verdict<'a>(points: &'a [Value], name: &str) -> &'a str {
    let found = points.iter().find(|point| point["name"] == name);
    found.map_or("absent", |point| point["verdict"].as_str().unwrap())
}

const TRACE: [&str; 9] = [
    "trace",
    "--namespace",
    "eventlab",
    "--eventsource",
    "orders",
    "--sensor",
    "orders",
    "--event",
    "first-order",
];

fn traced<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&TRACE[..], more, &["--format", "json"]].concat()
}

fn layers(output: &str) -> Vec<(String, String)> {
    let value: Value = serde_json::from_str(output.lines().next().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {output}"));
    let layers = value["layers"].as_array().unwrap();
    layers
        .iter()
        .map(|layer| {
            (
                layer["layer"].as_str().unwrap().to_owned(),
                layer["standing"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

#[test]
fn the_labs_ground_is_made_played_on_traced_and_taken_away() {
    let stranger = Stranger::start();
    let here = Here::new(&stranger.kubeconfig());

    // Before: what is missing is named with what makes it, and looking changes nothing.
    let before = here.ends(1, &["doctor", "--format", "json"]);
    let before = points(&before);
    assert_eq!(verdict(&before, "server"), "good", "{before:?}");
    assert_eq!(verdict(&before, "argo kinds"), "good", "{before:?}");
    assert_eq!(verdict(&before, "event bus"), "missing", "{before:?}");
    assert_eq!(verdict(&before, "image"), "unknown", "{before:?}");
    let shown = here.ends(0, &["cluster", "prepare", "--dry-run"]);
    assert!(shown.contains("+ EventBus/default"), "{shown}");
    let refused = here.ends(2, &["cluster", "prepare"]);
    assert!(refused.contains("--yes"), "{refused}");

    let made = here.ends(0, &["cluster", "prepare", "--yes"]);
    assert!(made.contains("Ready after"), "{made}");
    let again = here.ends(0, &["cluster", "prepare", "--dry-run"]);
    assert!(again.contains("= EventBus/default"), "{again}");
    let after = here.ends(0, &["doctor", "--try-image", "--format", "json"]);
    for name in [
        "event bus",
        "ledger volume",
        "artifacts",
        "image",
        "bus",
        "rights: apply",
    ] {
        assert_eq!(verdict(&points(&after), name), "good", "{name}\n{after}");
    }

    // Two sessions after each other, both at attempt 1: neither meets what the other left. The second knows the way through
    // a proxy alone: requests, watches, followed logs and port-forwards.
    let proxy = Proxy::start("Basic dGluYTpwQHNz"); // tina:p@ss
    let far = here.behind(&format!("http://tina:p%40ss@{}", proxy.address));
    for here in [&here, &far] {
        let run = here.ends(0, &["run", "first-order"]);
        assert!(run.contains("first-order: proven"), "{run}");
    }
    assert!(proxy.connected.load(Ordering::Relaxed) > 2);
    let stranger_to_it = here.behind(&format!("http://{}", proxy.address));
    let refused = stranger_to_it.ends(3, &["doctor"]);
    assert!(refused.contains("proxy auth"), "{refused}");
    let rows = here.ends(0, &["ledger", "attempts", "--format", "json"]);
    assert_eq!(points(&rows).len(), 2, "{rows}");
    // A session of this context is not taken up on another cluster.
    let begun = text(&here.run(&["check", "--session", "one"]));
    assert!(!begun.contains("began on"), "{begun}");
    for arguments in [
        &["check"][..],
        &["cluster", "start"],
        &["--context", "learner", "check"],
    ] {
        let refused = here.strays(&[arguments, &["--session", "one"]].concat());
        assert!(refused.contains("began on context `admin`"), "{refused}");
    }

    let body = r#"{"kind":"order.created","orderId":"traced","amount":100}"#;
    let through = here.ends(0, &traced(&["--body", body, "--yes"]));
    let found = layers(&through);
    assert!(
        found.iter().all(|(_, standing)| standing == "through"),
        "{through}"
    );
    assert_eq!(found.last().unwrap().0, "run", "{through}");
    let other = r#"{"kind":"order.cancelled","orderId":"traced","amount":100}"#;
    let stopped = here.ends(0, &traced(&["--body", other, "--yes"]));
    let last = layers(&stopped).pop().unwrap();
    assert_eq!(last, ("filter".into(), "stopped".into()), "{stopped}");
    assert!(stopped.contains("the live filter drops it"), "{stopped}");
    // The same arrival once more, without sending.
    let value: Value = serde_json::from_str(stopped.lines().next().unwrap()).unwrap();
    let arrival = value["arrival"].as_str().unwrap();
    let looked = here.ends(0, &traced(&["--no-send", "--arrival", arrival]));
    assert_eq!(layers(&looked).pop().unwrap(), last, "{looked}");
    // By log alone the bus is not proven, and the filter still is.
    let by_log = here.ends(0, &traced(&["--body", other, "--yes", "--log-only"]));
    assert!(
        layers(&by_log).contains(&("bus".into(), "unproven".into())),
        "{by_log}"
    );
    assert_eq!(layers(&by_log).pop().unwrap(), last, "{by_log}");
    let silent = here.ends(2, &traced(&["--body", body]));
    assert!(silent.contains("--yes"), "{silent}");

    // What is not eventlab's stays, and so does the namespace around it.
    let kubectl = |arguments: &[&str]| {
        Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&here.kubeconfig)
            .args(["--context", "admin", "-n", "eventlab"])
            .args(arguments)
            .env("HOME", here.state.path())
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let foreign = kubectl(&["create", "configmap", "somebody-elses"]);
    let listed = here.ends(0, &["cluster", "remove", "--dry-run"]);
    assert!(listed.contains("- Sensor/orders"), "{listed}");
    let removed = here.ends(0, &["cluster", "remove", "--yes"]);
    if foreign {
        assert!(
            removed.contains("ConfigMap/somebody-elses is not eventlab's"),
            "{removed}"
        );
        assert!(removed.contains("Namespace/eventlab: kept"), "{removed}");
        assert!(kubectl(&["get", "configmap", "somebody-elses"]));
    }
    let left = here.ends(0, &["cluster", "remove", "--dry-run"]);
    assert!(!left.contains("- Sensor"), "{left}");

    // A server that hangs is told while it does, long before an answer is given up; then the command goes on.
    stranger.signal("-STOP");
    let mut waiting = here.command("admin", &["doctor"]);
    let mut waiting = waiting.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(waiting.stderr.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    stranger.signal("-CONT");
    assert!(
        first.contains("waiting for the API server, which does not answer (https://127.0.0.1"),
        "{first}"
    );
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    let code = waiting.wait().unwrap().code();
    assert_eq!(code, Some(1), "{rest:?}");
}

#[test]
fn a_context_is_never_guessed() {
    let here = Here::new(Path::new("/nowhere/config"));
    let output = here.run(&["run", "first-order"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("/nowhere/config"));
    let file = here.state.path().join("config");
    let config = "apiVersion: v1\nkind: Config\ncurrent-context: shop-prod\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\nusers: []\ncontexts: [{name: shop-prod, context: {cluster: c}}, {name: lab, context: {cluster: c}}]\n";
    std::fs::write(&file, config).unwrap();
    let here = Here {
        state: tempfile::tempdir().unwrap(),
        kubeconfig: file,
    };
    // Neither named: it is not taken because it is the current one.
    let output = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["--state-dir", here.state.path().to_str().unwrap(), "doctor"])
        .env("KUBECONFIG", &here.kubeconfig)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    let lonely = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args([
            "--state-dir",
            here.state.path().to_str().unwrap(),
            "--image",
            "x",
            "list",
        ])
        .output()
        .unwrap();
    assert_eq!(lonely.status.code(), Some(2), "{}", text(&lonely));
    let unknown = here.run_as("other", &["check"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown).contains("`shop-prod`, `lab`"),
        "{}",
        text(&unknown)
    );
    let refused = here.run_as("shop-prod", &["check"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused).contains("--yes-really-this-context shop-prod"),
        "{}",
        text(&refused)
    );
    let wrong = here.run_as("shop-prod", &["--yes-really-this-context", "lab", "check"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
    // A cluster that is not there is the environment's fault, and nobody else's.
    for arguments in [
        &["check"][..],
        &["run", "first-order"],
        &["doctor"],
        &["cluster", "remove", "--yes"],
    ] {
        let gone = here.run_as("lab", arguments);
        assert_eq!(
            gone.status.code(),
            Some(3),
            "{arguments:?}\n{}",
            text(&gone)
        );
    }
}

/// Every lab, over a kubeconfig alone: names carry the session's tag there, pods are asked for through the API.
#[test]
#[ignore = "minutes; .ci/run plays them"]
fn every_lab_is_proven_on_a_cluster_of_another_process() {
    let stranger = Stranger::start();
    let here = Here::new(&stranger.kubeconfig());
    let output = here.run(&["run"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let matrix = here.run(&["run", "matrix"]);
    assert_eq!(matrix.status.code(), Some(0), "{}", text(&matrix));
    // What the session left is read over the same context.
    let shown = here.run(&["ledger", "attempts", "--format", "json"]);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown));
    let verified = here.run(&["ledger", "verify"]);
    assert!(
        !text(&verified).contains("no session runs"),
        "{}",
        text(&verified)
    );
    let clock = here.run(&["ledger", "clock", "--advance", "60"]);
    assert_eq!(clock.status.code(), Some(0), "{}", text(&clock));
}

/// Waits as long as the program does, which is why it is not tried every time.
#[test]
#[ignore = "takes a minute; .ci/run tries it"]
fn a_cluster_that_goes_away_leaves_verdicts_open() {
    let mut stranger = Stranger::start();
    let here = Here::new(&stranger.kubeconfig());
    here.ends(0, &["cluster", "prepare", "--yes"]);
    let mut run = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["--state-dir", here.state.path().to_str().unwrap()])
        .args(["--context", "admin", "--kubeconfig"])
        .arg(&here.kubeconfig)
        .args(["run", "first-order", "--keep"])
        .env("TMPDIR", here.state.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once the session has been made, the cluster goes for good.
    let journal = here.state.path().join("admin").join("evidence.jsonl");
    while !journal.exists() && run.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(journal.exists(), "it never began");
    stranger.stop();
    let output = run.wait_with_output().unwrap();
    let code = output.status.code();
    assert!(matches!(code, Some(1 | 3)), "{code:?}\n{}", text(&output));
    assert!(!text(&output).contains("refuted"), "{}", text(&output));
    // The session is there, and says so without the cluster.
    let status = here.run(&["status"]);
    assert_eq!(status.status.code(), Some(0), "{}", text(&status));
}
