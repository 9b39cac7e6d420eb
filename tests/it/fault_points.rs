//! Killed at every named point of a delivery: the run itself, and the program that started it.
//!
//! The run stands still at its point (`ledger deliver --fault POINT --hold`), is seen there in ledger and CRM, and the one or
//! the other process gets SIGKILL. Then the lab is played to its end: the retry while the lease runs, the one after it, the
//! look, the last retry; one effect and one record must come out, and an unresolved case in between wherever the CRM may
//! have been called. A sample runs here, with `EVENTLAB_ALL_KILL_POINTS=1` every point with both victims.
#![cfg(target_os = "linux")] // processes are found in /proc

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use eventlab::ledger::Fault;
use rusqlite::{Connection, OpenFlags};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    /// The process in the Workflow's pod.
    Run,
    /// The program with the whole embedded cluster.
    Program,
}

/// Whether a run that is gone at this point may have called the CRM, and whether the CRM has the entry then.
fn called(fault: Fault) -> (bool, bool) {
    match fault {
        Fault::None | Fault::AfterClaim | Fault::Stall => (false, false),
        Fault::BeforeWrite | Fault::CrmBeforeCommit => (true, false),
        Fault::AfterWrite | Fault::CrmAfterCommit | Fault::CrmWrongAnswer | Fault::CrmHang => {
            (true, true)
        }
    }
}

fn name(fault: Fault) -> String {
    fault.to_possible_value().unwrap().get_name().to_owned()
}

/// A lab of one delivery that goes wrong at the point, and the retries after it.
fn lab(fault: Fault) -> String {
    let duplicate = "{stops: effect, reason: duplicate}";
    let (late, after_the_look) = match called(fault) {
        (false, _) => ("applied", duplicate),
        (true, false) => ("{stops: run, reason: unresolved}", "applied"),
        (true, true) => ("{stops: run, reason: unresolved}", duplicate),
    };
    let probe = |probe: &str, fault: &str, fate: &str, more: &str| {
        format!(
            "      - {{name: {probe}, title: {probe}, fate: {fate}, {more} body: '{{\"kind\":\"order.created\",\"orderId\":\"o-{{{{attempt}}}}\",\"amount\":700,\"fault\":\"{fault}\"}}'}}\n"
        )
    };
    let gone = "or: [{stops: run, reason: workflow-error}, {run-stops: workflow-failed}, {run-stops: workflow-error}],";
    [
        r#"name: points
title: Points
summary: A delivery that is killed.
event: uncertain
layers: [effect]
clusters: [embedded]
links: []
stages:
  - name: send
    kind: send
    title: Send
    text: A delivery and its retries.
    apply: [base/namespace.yaml, base/accounts.yaml, base/eventbus.yaml, base/eventsource.yaml, base/ledger.yaml, base/crm.yaml, points/process-order.yaml, uncertain/sensor.yaml]
    before: [{available: crm}]
    gate: open
    probes:
"#
        .to_owned(),
        probe("gone", &name(fault), "{stops: run, reason: workflow-failed}", gone),
        probe("early", "none", "{stops: run, reason: busy}", ""),
        probe("late", "none", late, "before: [{run: base/clock.yaml, with: {seconds: \"400\"}}],"),
        probe("last", "none", after_the_look, "before: [{run: base/reconcile.yaml}],"),
        "    orders:\n      - {name: once, order: \"o-{{attempt}}\", action: notify, effects: 1, records: 1, claim: completed}\n".to_owned(),
    ]
    .concat()
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(fault: Fault) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let solution = fs::read_to_string(root.join("manifests/uncertain/solution.yaml")).unwrap();
        let held = solution.replace(
            "          - --fault\n",
            "          - --hold\n          - --fault\n",
        );
        let held = held.replace("- \"2000\"", "- \"60000\"");
        assert_ne!(held, solution);
        for (file, text) in [
            ("labs/labs/points.yaml", lab(fault)),
            ("labs/manifests/points/process-order.yaml", held),
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self { folder }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn start(&self, output: &str) -> Child {
        let output = File::create(self.folder.path().join(output)).unwrap();
        Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .arg("--state-dir")
            .arg(self.state())
            .arg("--labs")
            .arg(self.folder.path().join("labs"))
            .args(["run", "points", "--keep"])
            .env_remove("EVENTLAB_KILL_AT")
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap()
    }

    fn said(&self) -> String {
        ["first", "second"]
            .map(|name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default())
            .concat()
    }

    /// Numbers of a file on a volume; `None` while it is not there.
    fn numbers(&self, file: &str, query: &str) -> Option<i64> {
        let path = find(&self.state(), file)?;
        let connection =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
        connection.busy_timeout(Duration::from_secs(5)).ok()?;
        connection.query_row(query, [], |row| row.get(0)).ok()
    }

    /// Whether the run stands at its point.
    fn stands_at(&self, fault: Fault) -> bool {
        let ledger = |query: &str| self.numbers("ledger.db", query).unwrap_or_default();
        let crm = |query: &str| self.numbers("crm.db", query).unwrap_or_default();
        let (sending, written) = called(fault);
        ledger("SELECT count(*) FROM claims WHERE state = 'processing'") == 1
            && ledger("SELECT count(*) FROM claims WHERE sending = 1") == i64::from(sending)
            && crm("SELECT count(*) FROM entries") == i64::from(written)
            // The CRM was told, and has done it: else the next request would meet it.
            && crm("SELECT count(*) FROM faults WHERE times = 0") == i64::from(fault.at_crm().is_some())
    }

    /// Processes with this folder in their command line, and `deliver` in it where only the run is wanted.
    fn processes(&self, deliveries: bool) -> Vec<i32> {
        let needle = self.folder.path().to_str().unwrap().to_owned();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse() else {
                continue;
            };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            if line.contains(&needle) && (!deliveries || line.contains("\0deliver\0")) {
                found.push(pid);
            }
        }
        found
    }
}

fn find(folder: &Path, file: &str) -> Option<PathBuf> {
    let mut pending = vec![folder.join("embedded/volumes")];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.ends_with(file) {
                return Some(path);
            }
        }
    }
    None
}

fn wait_for(what: &str, place: &Place, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < end, "{what} never came\n{}", place.said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn kill(pid: i32) {
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
}

fn survives(fault: Fault, victim: Victim) {
    let place = Place::new(fault);
    let what = format!("{} {victim:?}", name(fault));
    let mut program = place.start("first");
    wait_for(&what, &place, || place.stands_at(fault));
    let runs = place.processes(true);
    assert_eq!(runs.len(), 1, "{what}: {}", place.said());
    let status = match victim {
        Victim::Run => {
            kill(runs[0]);
            program.wait().unwrap()
        }
        Victim::Program => {
            program.kill().unwrap();
            program.wait().unwrap();
            wait_for("the end of the children", &place, || {
                place.processes(false).is_empty()
            });
            place.start("second").wait().unwrap()
        }
    };
    assert!(status.success(), "{what}: {}", place.said());
    assert!(
        place.said().contains("points: proven"),
        "{what}: {}",
        place.said()
    );
    let unresolved = place.numbers(
        "ledger.db",
        "SELECT count(*) FROM transitions WHERE state = 'unresolved'",
    );
    assert_eq!(unresolved, Some(i64::from(called(fault).0)), "{what}");
    wait_for("the end of the children", &place, || {
        place.processes(false).is_empty()
    });
}

#[test]
fn a_delivery_killed_at_any_point_has_one_effect_whoever_dies() {
    let mut cases: Vec<(Fault, Victim)> = Fault::value_variants()
        .iter()
        .filter(|fault| **fault != Fault::None)
        .flat_map(|fault| [(*fault, Victim::Run), (*fault, Victim::Program)])
        .collect();
    let all = std::env::var_os("EVENTLAB_ALL_KILL_POINTS").is_some();
    if !all {
        // One of each victim, another point in each run of the tests.
        let first = usize::try_from(std::process::id()).unwrap() % (cases.len() / 2) * 2;
        let other = (first + 7) % cases.len();
        cases = vec![cases[first], cases[other]];
    }
    eprintln!("killed at {cases:?}");
    let next = std::sync::Mutex::new(cases.into_iter());
    std::thread::scope(|scope| {
        // A delivery mostly waits, so that more of them than there are cores take less time in all.
        for _ in 0..if all { 4 } else { 2 } {
            scope.spawn(|| {
                while let Some((fault, victim)) = { next.lock().unwrap().next() } {
                    survives(fault, victim);
                }
            });
        }
    });
}
