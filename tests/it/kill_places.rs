//! Every lab, killed at every boundary of its effects and started again.
//!
//! The places are told by name (`EVENTLAB_KILL_NEW`): one session is started again and again, and dies at the first place
//! where none died before, until it comes to its end; so every boundary of a lab costs one start. A part of one lab runs
//! here. With `EVENTLAB_ALL_KILL_PLACES=1` every lab dies before and after every effect, after every request and between
//! the objects of every apply, and at a seeded share of what is written meanwhile (`EVENTLAB_KILL_SHARE=N`: one of N; 1 is
//! all; `EVENTLAB_KILL_SEED` draws them; `EVENTLAB_KILL_LABS=a,b` names the labs).

use std::collections::BTreeSet;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use eventlab::evidence::{Entry, Outcome};
use eventlab::lab::Catalog;
use eventlab::session::SessionView;

use crate::kill_points::{assert_no_child, assert_sent_once, facts, journal};

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
        assert!(output.status.success(), "{}: {}", self.lab, said(&output));
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
                said(&output)
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

fn said(output: &Output) -> String {
    format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
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
