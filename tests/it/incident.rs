//! The drill: a seed draws the fault, the session keeps it, every fault holds, and the report is answered by the truth.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use eventlab::evidence::Layer;
use eventlab::lab::Catalog;

fn eventlab(state: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["--state-dir", state.to_str().unwrap()])
        .args(arguments)
        .env_remove("EVENTLAB_KILL_AT")
        .env("TMPDIR", state)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The seed that draws a fault.
fn seed_of(fault: &str) -> String {
    let catalog = Catalog::bundled().unwrap();
    let faults = catalog.lab("incident").unwrap().faults.clone().unwrap();
    let seeds = faults.seeds();
    let found = seeds.iter().find(|(_, name)| *name == fault);
    found
        .unwrap_or_else(|| panic!("{fault} has no seed: {seeds:?}"))
        .0
        .to_string()
}

#[test]
fn every_fault_holds_and_there_are_enough_in_every_layer() {
    let catalog = Catalog::bundled().unwrap();
    catalog.check_faults().unwrap();
    let faults = catalog.lab("incident").unwrap().faults.clone().unwrap();
    assert_eq!(faults.seeds().len(), faults.list.len());
    assert!(faults.list.len() >= 15, "{}", faults.list.len());
    let layers: BTreeSet<Layer> = faults.list.iter().map(|fault| fault.layer).collect();
    assert_eq!(layers.len(), Layer::ALL.len(), "{layers:?}");
    let names: BTreeSet<&str> = faults.list.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names.len(), faults.list.len());
}

#[test]
fn a_seed_draws_the_same_fault_and_does_not_say_which() {
    let catalog = Catalog::bundled().unwrap();
    let drawn = |seed: u32| {
        let catalog = catalog.seeded(&|_| seed).unwrap();
        let lab = catalog.lab("incident").unwrap().clone();
        let found = catalog.manifest("incident/found.yaml").unwrap().to_owned();
        (lab, found)
    };
    let mut kinds = BTreeSet::new();
    for seed in 0..200 {
        let (lab, found) = drawn(seed);
        assert_eq!((lab.clone(), found.clone()), drawn(seed));
        kinds.insert(found);
        let fault = lab.drawn.clone().unwrap().fault;
        for stage in lab.stages.iter().take_while(|stage| stage.name != "report") {
            let shown = format!("{} {}", stage.title, stage.text);
            assert!(!shown.contains("{{"), "{shown}");
            assert!(!shown.contains(&format!("`{fault}`")), "{shown}");
        }
        let report = lab.stages.iter().find_map(|stage| stage.report.clone());
        let causes = report.unwrap().causes;
        assert_eq!(causes.iter().filter(|cause| cause.right).count(), 1);
        assert!(causes.len() >= 5, "{}", causes.len());
    }
    assert!(kinds.len() > 15, "200 seeds drew {} faults", kinds.len());
}

/// A list that grows or shrinks by one fault changes what that fault's own seeds draw, and nothing else.
#[test]
fn a_seed_keeps_its_fault_when_others_come_and_go() {
    let catalog = Catalog::bundled().unwrap();
    let all = catalog.lab("incident").unwrap().faults.clone().unwrap();
    let mut shares = std::collections::BTreeMap::new();
    for gone in 0..all.list.len() {
        let mut fewer = all.clone();
        let gone = fewer.list.remove(gone).name;
        for seed in 0..1000 {
            let before = &all.of_seed(seed).unwrap().name;
            let after = &fewer.of_seed(seed).unwrap().name;
            assert!(
                before == after || *before == gone,
                "{seed}: {before} {after}"
            );
            *shares.entry(before.clone()).or_insert(0_usize) += 1;
        }
    }
    // Each has its share: about a thousand of them here.
    assert_eq!(shares.len(), all.list.len());
    let (least, most) = (shares.values().min(), shares.values().max());
    assert!(*least.unwrap() > 300 && *most.unwrap() < 2500, "{shares:?}");
    let mut turned = all.clone();
    turned.list.reverse();
    for seed in 0..1000 {
        assert_eq!(
            turned.of_seed(seed),
            all.of_seed(seed),
            "the order of the list matters"
        );
    }
}

/// Untouched it fails as the fault says, with the solution it passes, and the report is supported.
fn proves_itself(fault: &str) {
    let state = tempfile::tempdir().unwrap();
    let seed = seed_of(fault);
    let test = eventlab(state.path(), &["lab", "test", "incident", "--seed", &seed]);
    let said = text(&test);
    assert!(test.status.success(), "{fault}: {said}");
    assert!(
        said.contains("wrong fix untouched: fails as it must"),
        "{said}"
    );
    assert!(
        said.contains(&format!("incident (seed {seed}): proven")),
        "{said}"
    );
}

#[test]
fn a_subject_that_nobody_listens_to_is_found_and_fixed() {
    proves_itself("event-name");
}

#[test]
fn a_port_that_nobody_listens_on_is_found_and_fixed() {
    proves_itself("port");
}

#[test]
fn a_sensor_that_is_not_live_is_found_and_fixed() {
    proves_itself("operator-word");
}

#[test]
fn an_effect_that_is_there_twice_is_found_and_fixed() {
    proves_itself("naive");
}

/// The seed that the session has written down.
fn kept_seed(state: &Path) -> String {
    let checkpoint = std::fs::read_to_string(state.join("embedded/checkpoint.json"));
    let checkpoint: serde_json::Value = serde_json::from_str(&checkpoint.unwrap()).unwrap();
    checkpoint["seeds"]["incident"].to_string()
}

#[test]
fn the_session_keeps_its_seed_until_it_is_told_otherwise() {
    let state = tempfile::tempdir().unwrap();
    let (first, second) = (seed_of("pattern"), seed_of("path"));
    let run = eventlab(
        state.path(),
        &["run", "incident", "--seed", &first, "--keep"],
    );
    assert!(run.status.success(), "{}", text(&run));
    let report = text(&eventlab(state.path(), &["report"]));
    assert!(report.contains(&format!("Incident {first}")), "{report}");
    assert!(report.contains("pattern does not match"), "{report}");
    assert_eq!(kept_seed(state.path()), first);
    let other = eventlab(
        state.path(),
        &["run", "incident", "--seed", &second, "--keep"],
    );
    assert_eq!(other.status.code(), Some(2), "{}", text(&other));
    assert!(
        text(&other).contains(&format!("eventlab reset incident --seed {second}")),
        "{}",
        text(&other)
    );
    let reset = eventlab(state.path(), &["reset", "incident", "--seed", &second]);
    assert!(reset.status.success(), "{}", text(&reset));
    let status = text(&eventlab(state.path(), &["status"]));
    assert!(status.contains(&second), "{status}");
    assert_eq!(kept_seed(state.path()), second);
    let again = eventlab(state.path(), &["run", "incident", "--keep"]);
    assert!(again.status.success(), "{}", text(&again));
    assert!(
        text(&again).contains(&format!("incident (seed {second}): proven")),
        "{}",
        text(&again)
    );
}

#[test]
fn a_session_that_shows_other_labs_meanwhile_keeps_the_seed() {
    let state = tempfile::tempdir().unwrap();
    let seed = seed_of("submit-right");
    let run = eventlab(
        state.path(),
        &["run", "incident", "--seed", &seed, "--keep"],
    );
    assert!(run.status.success(), "{}", text(&run));
    let made = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["lab", "new", "mine"])
        .current_dir(state.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let labs = state.path().join("mine");
    let labs = labs.to_str().unwrap();
    let other = eventlab(state.path(), &["--labs", labs, "check"]);
    assert!(other.status.success(), "{}", text(&other));
    assert_eq!(kept_seed(state.path()), seed);
}

#[test]
fn a_seed_that_cannot_be_one_and_a_lab_that_draws_nothing_are_refused() {
    let state = tempfile::tempdir().unwrap();
    for arguments in [
        &["run", "incident", "--seed", "-1"][..],
        &["run", "incident", "--seed", "4294967296"],
        &["run", "incident", "--seed", "x"],
        &["reset", "regex", "--seed", "1"],
    ] {
        let output = eventlab(state.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    }
}
