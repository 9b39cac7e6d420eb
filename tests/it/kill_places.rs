//! Every lab, killed at every boundary of its effects and started again.
//!
//! The places are told by name (`EVENTLAB_KILL_NEW`): one session is started again and again, and dies at the first place
//! where none died before, until it comes to its end; so every boundary costs one start. A part of one lab runs here. With
//! `EVENTLAB_ALL_KILL_PLACES=1` every lab dies before and after every effect, after every request and between the objects of
//! every apply, and at a seeded share of what is written meanwhile and of a request's copies after the second
//! (`EVENTLAB_KILL_SHARE=N`: one of N; 1 is all; `EVENTLAB_KILL_SEED` draws them; `EVENTLAB_KILL_LABS=a,b` names the labs). Each stage begins with a copy of the session as
//! it came there undisturbed, so that the stages of all labs die side by side and none carries the deaths of another.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use eventlab::lab::{Catalog, Lab, Stage};
use serde_json::Value;
use tempfile::TempDir;

use crate::kill_points::{assert_no_child, assert_sent_once};

static LABS: LazyLock<Vec<Lab>> = LazyLock::new(|| Catalog::bundled().unwrap().labs().to_vec());

fn run_with(state: &Path, lab: &str, variable: Option<(&str, &Path)>) -> Output {
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

/// One of so many writes and copies is died at; every boundary of an effect is.
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

/// Whether this place is died at: boundaries of effects are, the writes of journal and checkpoint by their share, and so the
/// requests of which a probe sends many alike.
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
    let copy = place.rsplit_once("copy-").map(|(_, number)| number.parse());
    let is_alike = matches!(copy, Some(Ok(3u32..)));
    !(is_write || is_alike) || hasher.finish().is_multiple_of(share())
}

/// How a start ended.
enum End {
    /// At this place.
    Died(String),
    Done,
}

/// A session that is started again and again.
struct Walk {
    lab: String,
    state: TempDir,
    /// The list of places where one died, or need not.
    places: PathBuf,
    kills: usize,
    /// The journal as the last start left it.
    journal: Vec<u8>,
}

impl Walk {
    /// From the lab's beginning, or from a copy of a session.
    fn new(lab: &str, copy: Option<&Path>, known: &BTreeSet<String>) -> Self {
        let state = tempfile::tempdir().unwrap();
        if let Some(copy) = copy {
            copy_tree(copy, &state.path().join("embedded"));
        }
        let places = state.path().join("places");
        let lines: String = known.iter().map(|place| format!("{place}\n")).collect();
        std::fs::write(&places, lines).unwrap();
        Self {
            lab: lab.to_owned(),
            state,
            places,
            kills: 0,
            journal: Vec::new(),
        }
    }

    fn session(&self) -> PathBuf {
        self.state.path().join("embedded")
    }

    fn known(&self) -> BTreeSet<String> {
        lines_of(&self.places).into_iter().collect()
    }

    /// These are not died at any more.
    fn leave_out(&self, places: &BTreeSet<String>) {
        let all: BTreeSet<String> = self.known().union(places).cloned().collect();
        let lines: String = all.iter().map(|place| format!("{place}\n")).collect();
        std::fs::write(&self.places, lines).unwrap();
    }

    /// Starts it once; where it is `deadly`, it dies at the first place that is not listed.
    fn step(&mut self, deadly: bool) -> End {
        let variable = deadly.then_some(("EVENTLAB_KILL_NEW", self.places.as_path()));
        let output = run_with(self.state.path(), &self.lab, variable);
        let at = format!(
            "{} after {} kills, the last at {:?}: {}",
            self.lab,
            self.kills,
            lines_of(&self.places).pop(),
            said(&output)
        );
        self.check(&at);
        if std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(9) {
            self.kills += 1;
            return End::Died(lines_of(&self.places).pop().unwrap());
        }
        assert!(
            output.status.success(),
            "{at}\nthe journal ends so:\n{}",
            self.end_of_journal()
        );
        End::Done
    }

    /// For who reads why a run has failed.
    fn end_of_journal(&self) -> String {
        let text = String::from_utf8_lossy(&self.journal);
        let mut lines: Vec<_> = text.lines().rev().take(60).collect();
        lines.reverse();
        lines.join("\n")
    }

    /// Nothing was sent twice, nothing that was written is lost, no child is left, and what counts as passed is proven.
    fn check(&mut self, at: &str) {
        assert_no_child(self.state.path());
        let journal = std::fs::read(self.session().join("evidence.jsonl")).unwrap_or_default();
        let before = &self.journal[..end_of_lines(&self.journal)];
        assert!(journal.starts_with(before), "evidence was lost, {at}");
        let entries = |words: &[&str]| -> Vec<Value> {
            let text = std::str::from_utf8(&journal[..end_of_lines(&journal)]).unwrap();
            let named = |line: &&str| words.iter().any(|word| line.contains(word));
            let lines = text.lines().filter(named);
            lines
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        };
        assert_sent_once(&entries(&["\"intent\"", "\"stored\""]));
        assert_passed_is_proven(&self.session(), &entries(&["\"judgement\""]), at);
        self.journal = journal;
    }
}

/// A last line without an end may be a part of one.
fn end_of_lines(journal: &[u8]) -> usize {
    journal
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1)
}

fn lines_of(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy_tree(&entry.path(), &target);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn said(output: &Output) -> String {
    format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A stage counts as passed only where each of its probes was proven with facts; and it can be gone back to.
fn assert_passed_is_proven(session: &Path, judgements: &[Value], at: &str) {
    let Ok(checkpoint) = std::fs::read(session.join("checkpoint.json")) else {
        return;
    };
    let checkpoint: Value = serde_json::from_slice(&checkpoint).unwrap();
    // The drill's stages are drawn; their probes are judged under the same names.
    for lab in LABS.iter() {
        let passed = checkpoint["labs"][&lab.name]["passed"].as_array();
        let passed = passed.into_iter().flatten().filter_map(Value::as_str);
        let place = |name| lab.stages.iter().position(|stage| stage.name == name);
        // Stages without work have theirs made up for by the next that has some.
        let works = |stage: &&Stage| !stage.apply.is_empty() || !stage.probes.is_empty();
        let worked = passed.clone().filter_map(place).filter(|index| {
            let stage = lab.stages.get(*index);
            stage.filter(works).is_some()
        });
        let done = worked.max();
        for name in passed {
            let Some(index) = lab.stages.iter().position(|stage| stage.name == name) else {
                continue;
            };
            let stage = &lab.stages[index];
            let copy = session.join(format!("snapshots/{}-{index}", lab.name));
            let begun = !checkpoint["labs"][&lab.name]["snapshots"][name].is_null();
            let kept = !begun || copy.is_dir() || lab.faults.is_some() || done < Some(index);
            assert!(
                kept,
                "no snapshot of {} {name}, which has passed; {at}",
                lab.name
            );
            for probe in stage.probes.iter().filter(|_| !stage.observe) {
                let proven = judgements.iter().any(|entry| {
                    let one = &entry["judgement"];
                    one["lab"] == lab.name.as_str()
                        && one["stage"] == name
                        && one["probe"] == probe.name.as_str()
                        && one["verdict"]["outcome"] == "proven"
                        && one["verdict"]["facts"]
                            .as_array()
                            .is_some_and(|facts| !facts.is_empty())
                });
                assert!(
                    proven,
                    "{} {name} counts as passed, and {} was never proven; {at}",
                    lab.name, probe.name
                );
            }
        }
    }
}

/// A stage of a lab in which every place is died at.
struct Part {
    lab: String,
    number: usize,
    /// The session as it came to the stage; nothing for the lab's beginning.
    copy: Option<PathBuf>,
    /// Places up to the stage's end that are not died at.
    known: BTreeSet<String>,
    wanted: BTreeSet<String>,
    /// Places of later stages: who comes there has left this one.
    beyond: BTreeSet<String>,
    /// Keeps the copies until the last part is done.
    _copies: Arc<TempDir>,
}

/// Places of a run in which nothing happens, in their order, cut where a stage begins that has effects.
fn undisturbed(lab: &str) -> Vec<Vec<String>> {
    let state = tempfile::tempdir().unwrap();
    let note = state.path().join("noted");
    let output = run_with(
        state.path(),
        lab,
        Some(("EVENTLAB_KILL_NOTE", note.as_path())),
    );
    assert!(output.status.success(), "{lab}: {}", said(&output));
    let has_effect = |part: &Vec<String>| part.iter().any(|place| place.contains(" effect: "));
    let mut parts: Vec<Vec<String>> = vec![Vec::new()];
    for place in lines_of(&note) {
        let begins = place.starts_with("after checkpoint: ") && place.ends_with(" fresh");
        if begins && parts.last().is_some_and(has_effect) {
            parts.push(Vec::new());
        }
        parts.last_mut().unwrap().push(place);
    }
    parts
}

/// The parts of a lab, each with the session as an undisturbed run brings it there.
fn parts_of(lab: &str) -> Vec<Part> {
    let parts = undisturbed(lab);
    let all: BTreeSet<String> = parts.iter().flatten().cloned().collect();
    let begins: BTreeSet<String> = parts[1..].iter().map(|part| part[0].clone()).collect();
    let copies = Arc::new(tempfile::tempdir().unwrap());
    let others = all.difference(&begins).cloned().collect();
    let mut walk = Walk::new(lab, None, &others);
    let (mut found, mut before) = (Vec::new(), BTreeSet::new());
    for (number, places) in parts.iter().enumerate() {
        let copy = (number > 0).then(|| copies.path().join(number.to_string()));
        if let Some(copy) = &copy {
            loop {
                match walk.step(true) {
                    End::Died(place) if place == places[0] => break,
                    // What only some runs come to.
                    End::Died(_) => {}
                    End::Done => panic!("{lab} did not come to {}", places[0]),
                }
            }
            copy_tree(&walk.session(), copy);
        }
        // The copy is of a session that died at the first of them.
        let died = |place: &str| number > 0 && place == places[0];
        let (wanted, left): (BTreeSet<String>, BTreeSet<String>) = places
            .iter()
            .cloned()
            .partition(|place| is_drawn(place) && !died(place));
        before.extend(left);
        let known = before.clone();
        before.extend(wanted.iter().cloned());
        found.push(Part {
            lab: lab.to_owned(),
            number,
            copy,
            known,
            beyond: all.difference(&before).cloned().collect(),
            wanted,
            _copies: Arc::clone(&copies),
        });
    }
    found
}

impl Part {
    /// Dies at every place of the part; answers how often.
    fn sweep(&self) -> usize {
        const CHAINS: usize = 12;
        if self.wanted.is_empty() {
            return 0;
        }
        let mut known = self.known.clone();
        let mut kills = 0;
        for _ in 0..CHAINS {
            let before = known.len();
            let mut walk = Walk::new(&self.lab, self.copy.as_deref(), &known);
            let mut left = false;
            while let End::Died(place) = walk.step(true) {
                let beyond = self.beyond.contains(&place);
                left |= beyond;
                if left && self.wanted.is_subset(&walk.known()) {
                    break;
                }
                if beyond {
                    // An effect is carried out beside what is written after it: what was too slow this time is made up for
                    // at the next start.
                    walk.leave_out(&self.beyond);
                }
                assert!(
                    walk.kills < 40 * (self.wanted.len() + 5),
                    "{}: no end at {place}",
                    self.lab
                );
            }
            kills += walk.kills;
            let died_at = walk.known();
            known.extend(died_at.difference(&self.beyond).cloned());
            let missed: Vec<&String> = self.wanted.difference(&known).collect();
            if missed.is_empty() {
                return kills;
            }
            assert!(
                known.len() > before,
                "{}: nobody died at {missed:?}",
                self.lab
            );
        }
        panic!("{}: {CHAINS} sessions did not do", self.lab);
    }
}

enum Job {
    /// Plays a lab, for its parts.
    Lab(String),
    Part(Box<Part>),
}

/// What is still to be done.
struct Work {
    queue: Mutex<VecDeque<Job>>,
    /// Jobs that are not done; who does one may add others before.
    open: AtomicUsize,
    failed: AtomicBool,
}

impl Work {
    fn new(labs: Vec<String>) -> Self {
        Self {
            open: AtomicUsize::new(labs.len()),
            queue: Mutex::new(labs.into_iter().map(Job::Lab).collect()),
            failed: AtomicBool::new(false),
        }
    }

    /// Does one job after another until none is left, or somebody has failed.
    fn carry_out(&self) {
        /// Tells the others of a panic.
        struct Guard<'a>(&'a AtomicBool);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.fetch_or(std::thread::panicking(), Ordering::SeqCst);
            }
        }
        let _guard = Guard(&self.failed);
        while self.open.load(Ordering::SeqCst) > 0 && !self.failed.load(Ordering::SeqCst) {
            let job = self.queue.lock().unwrap().pop_front();
            let Some(job) = job else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            self.work(job);
            self.open.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn work(&self, job: Job) {
        let begun = Instant::now();
        match job {
            Job::Lab(lab) => {
                let parts = parts_of(&lab);
                self.open.fetch_add(parts.len(), Ordering::SeqCst);
                let mut queue = self.queue.lock().unwrap();
                // Before other labs: they free the copies that they hold.
                for part in parts {
                    queue.push_front(Job::Part(Box::new(part)));
                }
            }
            Job::Part(part) => {
                let kills = part.sweep();
                eprintln!(
                    "{}, part {}: died {kills} times, at each of {} places, in {} s",
                    part.lab,
                    part.number,
                    part.wanted.len(),
                    begun.elapsed().as_secs()
                );
            }
        }
    }
}

/// Labs to be swept: all, or those of `EVENTLAB_KILL_LABS` (names with commas between).
fn labs_to_sweep() -> Vec<String> {
    if let Ok(names) = std::env::var("EVENTLAB_KILL_LABS") {
        return names.split(',').map(str::to_owned).collect();
    }
    LABS.iter().map(|lab| lab.name.clone()).collect()
}

#[test]
fn a_session_that_dies_again_and_again_comes_to_its_end() {
    let mut labs = labs_to_sweep();
    if std::env::var_os("EVENTLAB_ALL_KILL_PLACES").is_none() {
        // One lab a day, and a part of its places: the whole is for `.ci/run`.
        let seed = usize::try_from(std::process::id()).unwrap();
        let lab = &labs[seed % labs.len()];
        eprintln!("a part of {lab}");
        let mut walk = Walk::new(lab, None, &BTreeSet::new());
        while let End::Died(_) = walk.step(walk.kills < 5) {}
        return;
    }
    eprintln!("one of {} writes, EVENTLAB_KILL_SEED={}", share(), seed());
    // The longest first.
    let stages = |name: &String| {
        let lab = LABS.iter().find(|lab| lab.name == *name);
        lab.map_or(0, |lab| lab.stages.len())
    };
    labs.sort_by_key(|lab| std::cmp::Reverse(stages(lab)));
    let work = Work::new(labs);
    // A run waits now and then, so that more of them than there are cores take less time in all.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| work.carry_out());
        }
    });
}

/// Who dies between the checkpoint that names a snapshot and its making has none, and not an older one of that name: that is
/// made up for by the next start.
#[test]
fn an_older_snapshot_never_stands_for_one_that_was_not_made() {
    let lab = LABS.iter().find(|lab| lab.intro).unwrap().name.clone();
    let mut walk = Walk::new(&lab, None, &BTreeSet::new());
    let name = format!("{lab}-0");
    let snapshot = walk.session().join("snapshots").join(&name);
    let applied = walk.session().join("applied-at").join(&name);
    for file in [snapshot.join("cluster.db"), applied.clone()] {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "of an earlier go").unwrap();
    }
    let place = format!("before effect: {lab} 0 snapshot");
    while !matches!(walk.step(true), End::Died(at) if at == place) {
        assert!(walk.kills < 40, "nobody died at {place}");
    }
    assert!(!snapshot.exists() && !applied.exists());
    assert!(matches!(walk.step(false), End::Done));
    let made = std::fs::read(snapshot.join("cluster.db")).unwrap();
    assert!(made.starts_with(b"SQLite format 3\0"));
}
