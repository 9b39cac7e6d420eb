//! Killed at any moment and started again: no request is sent twice, no fact is lost, no child is left, the lab is played
//! to its end.
//!
//! Two ways. Points numbered as the program passes them (`EVENTLAB_KILL_AT`): each kill begins with a session of its
//! own. A seeded sample runs here; with `EVENTLAB_ALL_KILL_POINTS=1` every one of them does. And places told by name
//! (`EVENTLAB_KILL_NEW`): one session is started again and again, and dies at the first place where none died before,
//! until it comes to its end; so every boundary of a lab is died at for the price of a start each. A part of one lab
//! runs here; with `EVENTLAB_ALL_KILL_PLACES=1` every lab is died in before and after every effect, after every request
//! and between the objects of every apply, and at a seeded share of what is written meanwhile (`EVENTLAB_KILL_SHARE=N`:
//! one of N; 1 is all; `EVENTLAB_KILL_SEED` draws them).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use eventlab::evidence::{Entry, Outcome};
use eventlab::lab::Catalog;
use eventlab::session::SessionView;
use serde_json::Value;

/// The lab that is killed: one that acts between its probes is told by `EVENTLAB_KILL_LAB`.
fn lab() -> String {
    std::env::var("EVENTLAB_KILL_LAB").unwrap_or_else(|_| "duplicates".to_owned())
}

/// How many points are tried where not all are: `EVENTLAB_KILL_SAMPLE`.
fn sample() -> u64 {
    let count = std::env::var("EVENTLAB_KILL_SAMPLE").ok();
    count
        .and_then(|count| count.parse().ok())
        .unwrap_or(6)
        .max(1)
}

/// Where the whole sweep begins: `EVENTLAB_KILL_FROM`, to go on with one that was cut off.
fn from() -> u64 {
    let first = std::env::var("EVENTLAB_KILL_FROM").ok();
    first.and_then(|first| first.parse().ok()).unwrap_or(1)
}

fn run(state: &Path, kill_at: Option<u64>) -> Output {
    let point = kill_at.map(|point| point.to_string());
    run_with(
        state,
        &lab(),
        point.as_deref().map(|point| ("EVENTLAB_KILL_AT", point)),
    )
}

fn run_with(state: &Path, lab: &str, variable: Option<(&str, &str)>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eventlab"));
    command
        .args(["--state-dir", state.to_str().unwrap(), "run", lab, "--keep"])
        .env_remove("EVENTLAB_KILL_AT");
    if lab == "incident" {
        // The same fault at every start.
        command.args(["--seed", "7"]);
    }
    command.envs(variable);
    command.output().unwrap()
}

pub fn journal(state: &Path) -> Vec<Value> {
    let path = state.join("embedded").join("evidence.jsonl");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

pub fn facts(entries: &[Value]) -> BTreeSet<String> {
    entries
        .iter()
        .filter_map(|entry| entry.get("fact"))
        .map(Value::to_string)
        .collect()
}

/// Each trace has one intent, and the bus holds it at most once.
pub fn assert_sent_once(entries: &[Value]) {
    let mut intents: BTreeMap<String, usize> = BTreeMap::new();
    for intent in entries.iter().filter_map(|entry| entry.get("intent")) {
        if intent["action"]["action"] == "send" {
            *intents
                .entry(intent["id"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
    }
    assert!(intents.values().all(|count| *count == 1), "{intents:?}");
    let mut arrivals: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for fact in entries.iter().filter_map(|entry| entry.get("fact")) {
        if fact["kind"] == "stored"
            && let (Some(trace), Some(arrival)) = (fact["trace"].as_str(), fact["arrival"].as_str())
        {
            arrivals
                .entry(trace.to_owned())
                .or_default()
                .insert(arrival.to_owned());
        }
    }
    assert!(
        arrivals.values().all(|ids| ids.len() == 1),
        "a trace arrived twice: {arrivals:?}"
    );
}

/// No process of this program with our folder in its command line or environment is left.
pub fn assert_no_child(state: &Path) {
    let needle = state.to_str().unwrap().as_bytes().to_vec();
    let holds = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    // A killed process's children notice within milliseconds; give the kernel a moment to reap them.
    for _ in 0..200 {
        let left = std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            entry
                .file_name()
                .to_string_lossy()
                .bytes()
                .all(|byte| byte.is_ascii_digit())
                && holds(&read("cmdline"))
        });
        if !left {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("a child of {} is left", state.display());
}

/// Points of an undisturbed run.
fn count_points() -> u64 {
    let state = tempfile::tempdir().unwrap();
    let output = run(state.path(), Some(u64::MAX));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let entries = journal(state.path());
    assert_sent_once(&entries);
    // Each entry that the state machine asked for passes two points, each effect three or four: a lower bound is enough
    // to choose from, since a point that is never reached only means that the run was not killed.
    u64::try_from(
        entries
            .iter()
            .filter(|entry| entry.get("fact").is_none())
            .count(),
    )
    .unwrap()
        * 4
}

/// False when the run ended before it came to this point.
fn survives(point: u64) -> bool {
    let state = tempfile::tempdir().unwrap();
    let killed = run(state.path(), Some(point));
    if killed.status.success() {
        return false;
    }
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&killed.status),
        Some(9),
        "point {point}: {}",
        String::from_utf8_lossy(&killed.stderr)
    );
    assert_no_child(state.path());
    let before = journal(state.path());
    let resumed = run(state.path(), None);
    let said = format!(
        "point {point}:\n{}\n{}\n{}",
        String::from_utf8_lossy(&killed.stderr),
        String::from_utf8_lossy(&resumed.stdout),
        String::from_utf8_lossy(&resumed.stderr)
    );
    assert!(resumed.status.success(), "{said}");
    let after = journal(state.path());
    assert_sent_once(&after);
    assert!(
        facts(&before).is_subset(&facts(&after)),
        "a fact was lost, {said}"
    );
    assert_no_child(state.path());
    true
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let total = count_points();
    let all = std::env::var_os("EVENTLAB_ALL_KILL_POINTS").is_some();
    let step = if all { 1 } else { (total / sample()).max(1) };
    let first = if all {
        from()
    } else {
        u64::from(std::process::id()) % step + 1
    };
    eprintln!("kill points {first}, every {step} of {total}");
    // With all of them, the first point that is not reached ends it.
    let last = if all { total * 4 } else { total };
    let points: Vec<u64> = (first..=last)
        .step_by(usize::try_from(step).unwrap())
        .collect();
    let next = AtomicUsize::new(0);
    let ended = AtomicBool::new(false);
    let reached = AtomicU64::new(u64::MAX);
    // A run mostly waits, so that more of them than there are cores take less time in all.
    let workers = if all { 6 } else { 2 };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let relaxed = Ordering::Relaxed;
                while let Some(point) = points.get(next.fetch_add(1, relaxed)) {
                    if ended.load(relaxed) {
                        break;
                    }
                    if !survives(*point) {
                        ended.store(true, relaxed);
                        reached.fetch_min(*point, relaxed);
                    }
                }
            });
        }
    });
    let reached = reached.into_inner();
    eprintln!("the first point that no run came to: {reached}");
    assert!(!all || reached < u64::MAX, "more points than {last}");
}

/// One of so many writes is died at; every boundary of an effect is.
fn share() -> u64 {
    number_of("EVENTLAB_KILL_SHARE").unwrap_or(8).max(1)
}

/// Draws the writes that are died at: another share every day.
fn seed() -> u64 {
    let days = || jiff::Timestamp::now().as_second().unsigned_abs() / 86_400;
    number_of("EVENTLAB_KILL_SEED").unwrap_or_else(days)
}

fn number_of(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Whether this place is died at: boundaries of effects are, the writes of journal and checkpoint by their share.
fn is_drawn(place: &str) -> bool {
    let is_write = [
        "before journal",
        "after journal",
        "before checkpoint",
        "after checkpoint",
    ]
    .iter()
    .any(|name| place.starts_with(name));
    // What is on disk before a request is what was there before its effect.
    if place.starts_with("before request") {
        return share() == 1;
    }
    let mut hasher = std::hash::DefaultHasher::new();
    (place, seed()).hash(&mut hasher);
    !is_write || hasher.finish().is_multiple_of(share())
}

/// Sessions of one lab that die at every place, one after the other.
struct Sweep {
    lab: String,
    /// The list of places where one died, or need not.
    places: PathBuf,
    kills: usize,
    chains: usize,
    _folder: tempfile::TempDir,
}

impl Sweep {
    fn new(lab: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            lab: lab.to_owned(),
            places: folder.path().join("places"),
            kills: 0,
            chains: 0,
            _folder: folder,
        }
    }

    fn died_at(&self) -> BTreeSet<String> {
        lines_of(&self.places)
    }

    /// Places that a run passes in which nothing happens.
    fn undisturbed(&self) -> BTreeSet<String> {
        let state = tempfile::tempdir().unwrap();
        let note = state.path().join("noted");
        let variable = ("EVENTLAB_KILL_NOTE", note.to_str().unwrap());
        let output = run_with(state.path(), &self.lab, Some(variable));
        assert!(
            output.status.success(),
            "{}: {}",
            self.lab,
            said(&[&output])
        );
        lines_of(&note)
    }

    /// One session from its beginning to its end, dying at every new place on the way, at most `most` times.
    fn chain(&mut self, most: usize) {
        self.chains += 1;
        let state = tempfile::tempdir().unwrap();
        let mut known: BTreeSet<String> = BTreeSet::new();
        let until = self.kills + most;
        loop {
            let list = self.places.to_str().unwrap().to_owned();
            let deadly = (self.kills < until).then_some(("EVENTLAB_KILL_NEW", list.as_str()));
            let output = run_with(state.path(), &self.lab, deadly);
            let at = format!(
                "{} in chain {} after {} kills: {}",
                self.lab,
                self.chains,
                self.kills,
                said(&[&output])
            );
            let entries = journal(state.path());
            assert_sent_once(&entries);
            let now = facts(&entries);
            assert!(known.is_subset(&now), "a fact was lost, {at}");
            known = now;
            assert_no_child(state.path());
            assert_passed_is_proven(&state.path().join("embedded"), &at);
            let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
            match signal {
                Some(9) => self.kills += 1,
                _ => {
                    assert!(output.status.success(), "{at}");
                    return;
                }
            }
        }
    }
}

fn lines_of(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn said(outputs: &[&Output]) -> String {
    let texts = outputs.iter().map(|output| {
        format!(
            "{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    });
    texts.collect::<Vec<_>>().join("\n--\n")
}

/// A stage counts as passed only where each of its probes was proven in the go that the checkpoint keeps.
fn assert_passed_is_proven(session: &Path, at: &str) {
    let Ok(view) = SessionView::open(session) else {
        return;
    };
    let Some(checkpoint) = view.checkpoint else {
        return;
    };
    let labs = Catalog::bundled().unwrap().labs();
    for (name, progress) in &checkpoint.labs {
        // The drill's stages are drawn; their probes are judged under the same names.
        let Some(lab) = labs.iter().find(|lab| lab.name == *name) else {
            continue;
        };
        let passed = lab.stages.iter().filter(|stage| {
            progress.passed.contains(&stage.name) && !stage.observe && !stage.probes.is_empty()
        });
        for stage in passed {
            for probe in &stage.probes {
                let proven = view.entries.iter().any(|entry| match entry {
                    Entry::Judgement(one) => {
                        one.lab == *name
                            && one.stage == stage.name
                            && one.probe.as_deref() == Some(&probe.name)
                            && one.verdict.outcome == Outcome::Proven
                            && !one.verdict.facts.is_empty()
                    }
                    _ => false,
                });
                assert!(
                    proven,
                    "{name} {} counts as passed, and {} was never proven; {at}",
                    stage.name, probe.name
                );
            }
        }
    }
}

/// Every place of a lab; at most so many sessions until nothing new comes.
fn sweep_whole(lab: &str) {
    const CHAINS: usize = 12;
    let begun = Instant::now();
    let mut sweep = Sweep::new(lab);
    let (wanted, left): (BTreeSet<String>, BTreeSet<String>) = sweep
        .undisturbed()
        .into_iter()
        .partition(|place| is_drawn(place));
    let lines: String = left.iter().map(|place| format!("{place}\n")).collect();
    std::fs::write(&sweep.places, lines).unwrap();
    loop {
        let before = sweep.kills;
        sweep.chain(usize::MAX - before);
        let died_at = sweep.died_at();
        let missed: Vec<&String> = wanted.difference(&died_at).collect();
        if missed.is_empty() {
            break;
        }
        assert!(
            sweep.kills > before && sweep.chains < CHAINS,
            "{lab}: nobody died at {missed:?}"
        );
    }
    eprintln!(
        "{lab}: died {} times in {} sessions, at each of {} places of an undisturbed run ({} writes left out), in {} s",
        sweep.kills,
        sweep.chains,
        wanted.len(),
        left.len(),
        begun.elapsed().as_secs()
    );
}

/// Labs to be swept: all, or those of `EVENTLAB_KILL_LABS` (names with commas between).
fn labs_to_sweep() -> Vec<String> {
    if let Ok(names) = std::env::var("EVENTLAB_KILL_LABS") {
        return names.split(',').map(str::to_owned).collect();
    }
    let labs = Catalog::bundled().unwrap().labs();
    labs.iter().map(|lab| lab.name.clone()).collect()
}

#[test]
fn a_session_that_dies_again_and_again_comes_to_its_end() {
    if std::env::var_os("EVENTLAB_ALL_KILL_PLACES").is_none() {
        // One lab a day, and a part of its places: the whole is for `.ci/run`.
        let labs = labs_to_sweep();
        let seed = usize::try_from(std::process::id()).unwrap();
        let lab = &labs[seed % labs.len()];
        eprintln!("a part of {lab}");
        Sweep::new(lab).chain(5);
        return;
    }
    let labs = labs_to_sweep();
    eprintln!("one of {} writes, EVENTLAB_KILL_SEED={}", share(), seed());
    let next = AtomicUsize::new(0);
    // A run mostly waits, so that more of them than there are cores take less time in all.
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(lab) = labs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    sweep_whole(lab);
                }
            });
        }
    });
}
