//! The real `kubectl` against the embedded cluster: each verb with its flags and output forms, and what a real API
//! server answered to the same commands.
//!
//! Needs a `kubectl` on the PATH; without one it says so and does nothing. The newest of the versions beside it
//! (`kubectl.1.NN`, as the Google Cloud CLI brings them) takes part always, all of them in the ignored tests.

mod access;
mod golden;
mod reading;
mod streams;
mod watching;
mod workloads;
mod writing;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster_command::Background;

/// Only a guard against hanging.
const HANG: Duration = Duration::from_secs(120);

/// Every `kubectl` binary to be found, oldest first; the dispatcher of the Google Cloud CLI stands for the versions
/// beside it.
pub fn binaries() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join("kubectl"))
        .find(|file| file.is_file());
    let Some(found) = found.and_then(|file| file.canonicalize().ok()) else {
        eprintln!("SKIPPED: there is no kubectl on the PATH");
        return Vec::new();
    };
    let siblings = std::fs::read_dir(found.parent().unwrap_or(Path::new("/")))
        .into_iter()
        .flatten()
        .flatten();
    let mut versions: Vec<PathBuf> = siblings
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("kubectl.1."))
        })
        .collect();
    versions.sort();
    if versions.is_empty() {
        versions.push(found);
    }
    versions
}

/// One kubectl with a HOME of its own. What goes wrong is collected, so that one run shows all of it.
pub struct Kubectl {
    binary: PathBuf,
    /// HOME, and the folder in which it runs.
    home: PathBuf,
    kubeconfig: PathBuf,
    context: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    minor: u32,
    commands: usize,
    wrong: Vec<String>,
}

impl Kubectl {
    fn new(binary: &Path, home: &Path, kubeconfig: &Path) -> Kubectl {
        let mut kubectl = Kubectl {
            binary: binary.to_path_buf(),
            home: home.to_path_buf(),
            kubeconfig: kubeconfig.to_path_buf(),
            context: &[],
            environment: &[],
            minor: 0,
            commands: 0,
            wrong: Vec::new(),
        };
        let version = kubectl.json("version --client -o json");
        let minor = version["clientVersion"]["minor"].as_str().unwrap();
        kubectl.minor = minor.trim_end_matches('+').parse().unwrap();
        kubectl
    }

    /// As the admin of a cluster in the background.
    fn of(binary: &Path, cluster: &Background) -> Kubectl {
        let mut kubectl = Kubectl::new(binary, cluster.state(), &cluster.kubeconfig());
        kubectl.context = &["--context=admin", "-n", "default"];
        kubectl
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(self.context)
            .args(shell_words::split(line).unwrap())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBE_EDITOR", "sed -i s/first/second/")
            .envs(self.environment.iter().copied())
            .current_dir(&self.home)
            .stdin(Stdio::null());
        command
    }

    /// Whether a command succeeded, and all that it said.
    fn text(&self, line: &str) -> (bool, String) {
        self.speak(line, "")
    }

    /// The same of one that reads `input`.
    fn speak(&self, line: &str, input: &str) -> (bool, String) {
        let mut command = self.command(line);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that does not read it has ended.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    }

    /// A command that succeeds and says all of `words` (parted by `|`).
    fn ok(&mut self, line: &str, words: &str) {
        self.check(line, "", true, words);
    }

    /// A command that fails and says all of `words`.
    fn fails(&mut self, line: &str, words: &str) {
        self.check(line, "", false, words);
    }

    /// A command that reads `input`, succeeds and says all of `words`.
    fn feeds(&mut self, line: &str, input: &str, words: &str) {
        self.check(line, input, true, words);
    }

    /// A command that reads `input`, fails and says all of `words`.
    fn feeds_in_vain(&mut self, line: &str, input: &str, words: &str) {
        self.check(line, input, false, words);
    }

    /// A command whose whole output is this.
    fn says(&mut self, line: &str, wanted: &str) {
        self.commands += 1;
        let (did, said) = self.text(line);
        if !did || said != wanted {
            self.report(format!("{line}\n  wanted {wanted:?}\n  said   {said:?}"));
        }
    }

    fn check(&mut self, line: &str, input: &str, success: bool, words: &str) {
        self.commands += 1;
        let (did, said) = self.speak(line, input);
        if did != success || !has(&said, words) {
            let how = if did { "succeeded" } else { "failed" };
            self.report(format!("{line} {how}, wanted {words:?}:\n{said}"));
        }
    }

    fn report(&mut self, problem: String) {
        self.wrong.push(format!("1.{} {problem}", self.minor));
    }

    /// Repeats a command until it says all of `words`.
    fn soon(&mut self, line: &str, words: &str) {
        let end = Instant::now() + HANG;
        loop {
            let (_, said) = self.text(line);
            if has(&said, words) {
                return;
            }
            if Instant::now() > end {
                return self.report(format!("{line} never said {words:?}:\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What a command printed, without what it said beside.
    fn json(&self, line: &str) -> Value {
        let output = self.command(line).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{line}: {output:?}"))
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.home.join(name), text).unwrap();
    }

    /// Starts a command that goes on.
    fn follow(&mut self, line: &str) -> Followed {
        self.commands += 1;
        let mut child = self
            .command(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let errors = child.stderr.take().unwrap();
        for stream in [
            Box::new(child.stdout.take().unwrap()) as Box<dyn std::io::Read + Send>,
            Box::new(errors),
        ] {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Followed {
            line: line.to_owned(),
            child,
            lines,
        }
    }
}

fn has(said: &str, words: &str) -> bool {
    words.split('|').all(|word| said.contains(word))
}

/// A command that goes on; it ends with its value.
struct Followed {
    line: String,
    child: Child,
    lines: Receiver<String>,
}

impl Followed {
    /// Reads on until a line has all of `words`, and answers it.
    fn until(&self, k: &mut Kubectl, words: &str) -> String {
        let (end, mut seen) = (Instant::now() + HANG, Vec::new());
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if has(&line, words) => return line,
                Ok(line) => seen.push(line),
                Err(_) => {
                    let seen = seen.join("\n");
                    k.report(format!("{} never said {words:?}:\n{seen}", self.line));
                    return String::new();
                }
            }
        }
    }

    /// Repeats a command (`{n}` in it is another number each time) until a line has all of `words`: no watch says when it
    /// has begun.
    fn until_repeated(&self, k: &mut Kubectl, command: &str, words: &str) {
        let end = Instant::now() + HANG;
        for number in 0_u32.. {
            k.ok(&command.replace("{n}", &number.to_string()), "");
            while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(200)) {
                if has(&line, words) {
                    return;
                }
            }
            if Instant::now() > end {
                return k.report(format!("{} never said {words:?}", self.line));
            }
        }
    }

    /// Waits for its end, and answers whether it succeeded and what it said from here on.
    fn end(mut self) -> (bool, Vec<String>) {
        let end = Instant::now() + HANG;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                // Its streams are at their ends then.
                let rest = std::iter::from_fn(|| self.lines.recv().ok()).collect();
                return (status.success(), rest);
            }
            assert!(Instant::now() < end, "{} does not end", self.line);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tries one kubectl; answers what went wrong.
fn objects(binary: &Path) -> Vec<String> {
    let cluster = Background::start();
    let mut k = Kubectl::of(binary, &cluster);
    // Lists by watch, as clients from 1.35 on do unasked.
    k.environment = &[("KUBE_FEATURE_WatchListClient", "true")];
    writing::all(&mut k);
    reading::all(&mut k);
    watching::all(&mut k);
    access::all(&mut k);
    eprintln!("kubectl 1.{}: {} commands on objects", k.minor, k.commands);
    k.wrong
}

fn pods(binary: &Path) -> Vec<String> {
    let cluster = Background::start();
    let mut k = Kubectl::of(binary, &cluster);
    workloads::all(&mut k);
    streams::all(&mut k);
    eprintln!("kubectl 1.{}: {} commands on pods", k.minor, k.commands);
    k.wrong
}

fn holds(wrong: &[String]) {
    let (count, text) = (wrong.len(), wrong.join("\n"));
    assert!(wrong.is_empty(), "{count} commands went wrong:\n{text}");
}

#[test]
fn the_newest_kubectl_reads_and_writes_objects() {
    if let Some(binary) = binaries().pop() {
        holds(&objects(&binary));
    }
}

#[test]
fn the_newest_kubectl_works_with_pods() {
    if let Some(binary) = binaries().pop() {
        holds(&pods(&binary));
    }
}

#[test]
#[ignore = "minutes: every kubectl version that is installed"]
fn every_kubectl_does_all_of_it() {
    let all = |binary: &PathBuf| [objects(binary), pods(binary)].concat();
    holds(&binaries().iter().flat_map(all).collect::<Vec<_>>());
}
