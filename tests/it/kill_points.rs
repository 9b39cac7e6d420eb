//! Killed at any moment and started again: no request is sent twice, no fact is lost, no child is left, the lab is played
//! to its end.
//!
//! The points are numbered as the program passes them (`EVENTLAB_KILL_AT`). A seeded sample runs here; with
//! `EVENTLAB_ALL_KILL_POINTS=1` every one of them does, and every name that the program gives a point must have been among
//! them. Every lab, by the names of its places, is for `kill_places`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The lab that is killed: another one is told by `EVENTLAB_KILL_LAB`, with its options (`incident --seed 7`).
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
    let lab = lab();
    let words: Vec<&str> = lab.split_whitespace().collect();
    run_lab(state, &words, kill_at)
}

fn run_lab(state: &Path, lab: &[&str], kill_at: Option<u64>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eventlab"));
    command
        .args(["--state-dir", state.to_str().unwrap(), "run"])
        .args(lab)
        .arg("--keep")
        .env_remove("EVENTLAB_KILL_AT");
    if let Some(point) = kill_at {
        command.env("EVENTLAB_KILL_AT", point.to_string());
    }
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

/// The name of the point, or nothing when the run ended before it came to it.
fn survives(point: u64) -> Option<String> {
    let state = tempfile::tempdir().unwrap();
    let killed = run(state.path(), Some(point));
    if killed.status.success() {
        return None;
    }
    goes_on(state.path(), point, &killed, || run(state.path(), None));
    let told = String::from_utf8_lossy(&killed.stderr).into_owned();
    let name = told.lines().find_map(|line| {
        line.split_once(&format!("killed at point {point}, "))
            .map(|(_, name)| name.to_owned())
    });
    assert!(name.is_some(), "{told}");
    name
}

/// After the kill no child is left; going on sends nothing twice and loses no fact.
fn goes_on(state: &Path, point: u64, killed: &Output, resume: impl FnOnce() -> Output) -> Output {
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&killed.status),
        Some(9),
        "point {point}: {}",
        String::from_utf8_lossy(&killed.stderr)
    );
    assert_no_child(state);
    let before = journal(state);
    let resumed = resume();
    let said = format!(
        "point {point}:\n{}\n{}\n{}",
        String::from_utf8_lossy(&killed.stderr),
        String::from_utf8_lossy(&resumed.stdout),
        String::from_utf8_lossy(&resumed.stderr)
    );
    assert!(resumed.status.success(), "{said}");
    let after = journal(state);
    assert_sent_once(&after);
    assert!(
        facts(&before).is_subset(&facts(&after)),
        "a fact was lost, {said}"
    );
    assert_no_child(state);
    resumed
}

/// The names that the program's source gives its points.
fn names() -> BTreeSet<String> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/runner")];
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let (inner, files): (Vec<_>, Vec<_>) = entries
            .map(|entry| entry.path())
            .partition(|path| path.is_dir());
        folders.extend(inner);
        let texts = files
            .iter()
            .map(|file| std::fs::read_to_string(file).unwrap_or_default());
        let text: String = texts.collect();
        for call in text.split("fault::point(\"").skip(1) {
            found.insert(call.split('"').next().unwrap().to_owned());
        }
    }
    assert!(found.len() >= 7, "{found:?}");
    found
}

/// The drill that is killed goes on with the fault that it had drawn, whoever does not name the seed again.
#[test]
fn a_killed_drill_goes_on_with_its_own_fault() {
    let seed = std::process::id();
    for point in [12 + u64::from(seed % 20), 40 + u64::from(seed % 25)] {
        let state = tempfile::tempdir().unwrap();
        let with_seed = ["incident", "--seed", &seed.to_string()];
        let killed = run_lab(state.path(), &with_seed, Some(point));
        let resumed = goes_on(state.path(), point, &killed, || {
            run_lab(state.path(), &["incident"], None)
        });
        let said = String::from_utf8_lossy(&resumed.stdout).into_owned();
        let proven = format!("incident (seed {seed}): proven");
        assert!(said.contains(&proven), "point {point}: {said}");
    }
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
    let next = std::sync::atomic::AtomicUsize::new(0);
    let ended = std::sync::atomic::AtomicBool::new(false);
    let reached = std::sync::atomic::AtomicU64::new(u64::MAX);
    let passed = std::sync::Mutex::new(BTreeSet::new());
    // A run mostly waits, so that more of them than there are cores take less time in all.
    let workers = if all { 6 } else { 2 };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(point) =
                    points.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let relaxed = std::sync::atomic::Ordering::Relaxed;
                    if ended.load(relaxed) {
                        break;
                    }
                    match survives(*point) {
                        Some(name) => drop(passed.lock().unwrap().insert(name)),
                        None => {
                            ended.store(true, relaxed);
                            reached.fetch_min(*point, relaxed);
                        }
                    }
                }
            });
        }
    });
    let reached = reached.into_inner();
    eprintln!("the first point that no run came to: {reached}");
    assert!(!all || reached < u64::MAX, "more points than {last}");
    let passed = passed.into_inner().unwrap();
    eprintln!("names of the points: {passed:?}");
    if all && first == 1 {
        assert_eq!(passed, names(), "a named point was never killed at");
    }
}
