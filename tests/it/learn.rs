//! The course from the shell: `check`, `next` and `status` say the same, and each names the command that goes on.

use super::program::eventlab;
use std::path::Path;

/// What a command says, after its exit code was the one that it must be.
fn said(state: &Path, arguments: &[&str], code: i32) -> String {
    let output = eventlab(state, arguments);
    let text = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    text
}

/// Every command that `status` names does what it says, from the first order to the report of the first lab's first stages.
#[test]
fn the_shell_goes_from_stage_to_stage_by_the_commands_that_it_names() {
    let state = tempfile::tempdir().unwrap();
    let state = state.path();
    // What has work to do is not passed by.
    let early = said(state, &["next"], 1);
    assert!(
        early.contains("not passed yet") && early.contains("eventlab check"),
        "{early}"
    );
    assert!(said(state, &["status"], 0).contains("(`eventlab check`)"));
    let done = said(state, &["check"], 0);
    assert!(done.contains("first-order order: proven"), "{done}");
    assert!(said(state, &["status"], 0).contains("next stage (`eventlab next`)"));
    let debrief = said(state, &["next"], 0);
    assert!(debrief.contains("first-order debrief"), "{debrief}");
    let read = said(state, &["next"], 0);
    assert!(read.contains("readiness read"), "{read}");
    // Where there is nothing to prove, nothing is said to be proven, and nothing passes by a check.
    for _ in 0..2 {
        let nothing = said(state, &["check"], 0);
        assert!(
            nothing.contains("readiness read: nothing is checked"),
            "{nothing}"
        );
        assert!(
            !nothing.contains("proven") && nothing.contains("eventlab next"),
            "{nothing}"
        );
    }
    assert!(said(state, &["next"], 0).contains("readiness apply"));
    assert!(said(state, &["check"], 0).contains("readiness apply"));
    assert!(said(state, &["next"], 0).contains("predict-early"));
    // An answer is wanted first.
    for command in ["check", "next"] {
        let wanted = said(state, &[command], 1);
        assert!(wanted.contains("predict first"), "{wanted}");
        assert!(wanted.contains("--predict"), "{wanted}");
        // What is to be predicted can be read here, too.
        assert!(wanted.contains(": POST {"), "{wanted}");
    }
    let wrong = said(state, &["next", "--predict", "nonsense=ready"], 1);
    assert!(wrong.contains("no probe `nonsense`"), "{wrong}");
    let wrong = said(state, &["next", "--predict", "early=nowhere"], 2);
    assert!(wrong.contains("no layer `nowhere`"), "{wrong}");
}

/// Text of a lab of one edit.
const ONE_EDIT: &str = r#"name: one-edit
title: One edit
summary: One edit.
event: one-edit
layers: [ready, intake, bus, filter, submit, run, effect]
needs: []
clusters: [embedded]
links: []
stages:
  - {name: read, kind: read, title: Read, text: Read.}
  - name: edit
    kind: fix
    title: Edit
    text: Edit.
    gate: open
    fix:
      manifest: regex/sensor.yaml
      hints: [One.]
      solution: regex/solution.yaml
      wrong:
        - name: untouched
          manifest: regex/sensor.yaml
          why: Nothing was edited.
          fails: {probe: one, observed: {stops: filter, reason: mismatch}}
    probes:
      - {name: one, title: one, body: "{}", fate: applied}
"#;

/// Whoever goes to a stage that asks for an edit by a command finds the file to edit when the command has ended.
#[test]
fn a_command_that_goes_to_a_fix_leaves_its_file_to_edit() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("one-edit.yaml"), ONE_EDIT).unwrap();
    let labs = dir.path().to_str().unwrap();
    let state = tempfile::tempdir().unwrap();
    said(state.path(), &["--labs", labs, "reset", "one-edit"], 0);
    said(state.path(), &["--labs", labs, "next"], 0);
    let copy = state.path().join("embedded/manifests/regex/sensor.yaml");
    assert!(copy.is_file(), "no working copy at {}", copy.display());
}
