//! The real program plays its labs: untouched they fail for the stated reason, with the solution they pass.

use std::process::{Command, Output};

use tempfile::TempDir;

/// The program with a state folder of its own, and nothing of the caller's environment that could matter.
fn eventlab(state: &TempDir, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["--state-dir", state.path().to_str().unwrap()])
        .args(arguments)
        .env_remove("EVENTLAB_KILL_AT")
        .env("TMPDIR", state.path())
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

/// The first wrong fix of each lab is its untouched manifest, or stands for it.
fn proves_itself(lab: &str) {
    let state = tempfile::tempdir().unwrap();
    let output = eventlab(&state, &["lab", "test", lab, "--sample", "0"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(
        text(&output).contains("fails as it must"),
        "{}",
        text(&output)
    );
    let left: Vec<_> = std::fs::read_dir(state.path()).unwrap().collect();
    assert!(left.is_empty(), "something was left behind: {left:?}");
}

#[test]
fn readiness_fails_untouched_and_passes_with_its_solution() {
    proves_itself("readiness");
}

#[test]
fn filter_path_fails_untouched_and_passes_with_its_solution() {
    proves_itself("filter-path");
}

#[test]
fn duplicates_fails_untouched_and_passes_with_its_solution() {
    proves_itself("duplicates");
}

#[test]
fn identity_fails_untouched_and_passes_with_its_solution() {
    proves_itself("identity");
}

#[test]
fn claim_fails_untouched_and_passes_with_its_solution() {
    proves_itself("claim");
}

#[test]
fn uncertain_fails_untouched_and_passes_with_its_solution() {
    proves_itself("uncertain");
}

#[test]
fn retention_fails_untouched_and_passes_with_its_solution() {
    proves_itself("retention");
}

#[test]
fn every_line_of_the_matrix_is_one_intended_effect() {
    let state = tempfile::tempdir().unwrap();
    let output = eventlab(&state, &["run", "matrix", "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output));
    let table: serde_json::Value = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find(|line| line.get("matrix").is_some())
        .unwrap();
    let lines = table["matrix"].as_array().unwrap();
    let row = |line: &serde_json::Value| {
        let count = |name: &str| line["line"][name].as_u64().unwrap();
        (
            line["line"]["stage"].as_str().unwrap().to_owned(),
            [
                count("intakes"),
                count("orders"),
                count("effects"),
                count("records"),
                count("unresolved"),
                count("open"),
            ],
        )
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    assert_eq!(
        rows,
        [
            ("sequence".into(), [3, 1, 1, 1, 0, 0]),
            ("together".into(), [2, 1, 1, 1, 0, 0]),
            ("crash".into(), [3, 1, 1, 1, 1, 0]),
            ("expired".into(), [3, 1, 1, 1, 0, 0]),
            ("customer".into(), [2, 2, 2, 2, 0, 0]),
        ]
    );
    assert!(lines.iter().all(|line| line["holds"] == true));
}

/// What `run matrix` says of a pipeline that was changed.
fn matrix_over(from: &str, to: &str) -> (Option<i32>, String) {
    let state = tempfile::tempdir().unwrap();
    let own = tempfile::tempdir().unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::create_dir_all(own.path().join("labs")).unwrap();
    std::fs::create_dir_all(own.path().join("manifests/matrix")).unwrap();
    std::fs::copy(
        root.join("labs/matrix.yaml"),
        own.path().join("labs/matrix.yaml"),
    )
    .unwrap();
    let good = std::fs::read_to_string(root.join("manifests/matrix/process-order.yaml")).unwrap();
    let changed = good.replace(from, to);
    assert_ne!(good, changed);
    std::fs::write(
        own.path().join("manifests/matrix/process-order.yaml"),
        changed,
    )
    .unwrap();
    let labs = own.path().to_str().unwrap();
    let output = eventlab(&state, &["--labs", labs, "run", "matrix"]);
    (output.status.code(), text(&output))
}

#[test]
fn a_matrix_over_a_pipeline_that_repeats_itself_is_refuted() {
    let (code, said) = matrix_over("- claimed", "- blind");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("DOES NOT HOLD"), "{said}");
}

/// A lease of a day: the run is dead, and everybody is told that it works on it.
#[test]
fn a_matrix_whose_unresolved_case_nobody_can_see_is_refuted() {
    let (code, said) = matrix_over("\"300\"", "\"86400\"");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("DOES NOT HOLD"), "{said}");
    assert!(
        said.contains("expected: stopped at run: unresolved"),
        "{said}"
    );
}

#[test]
fn regex_fails_untouched_and_passes_with_its_solution() {
    proves_itself("regex");
}

#[test]
fn type_fails_untouched_and_passes_with_its_solution() {
    proves_itself("type");
}

#[test]
fn operator_fails_untouched_and_passes_with_its_solution() {
    proves_itself("operator");
}

#[test]
fn rbac_fails_untouched_and_passes_with_its_solution() {
    proves_itself("rbac");
}

#[test]
fn the_report_of_a_played_lab_is_complete_and_says_what_is_not_proven() {
    let state = tempfile::tempdir().unwrap();
    let run = eventlab(&state, &["run", "filter-path", "--keep"]);
    assert!(run.status.success(), "{}", text(&run));
    let report = eventlab(&state, &["report"]);
    assert!(report.status.success(), "{}", text(&report));
    let report = text(&report);
    for part in [
        "filter: no such path",
        "**no**",
        "kubectl -n eventlab logs",
        "### Not proven",
        "### Claims",
        "https://",
        "### Timeline",
        "- ruled out for order (flat): ready [#",
        "### Changes made",
        "```diff",
        "-          - path: body.event.kind",
        "+          - path: body.kind",
        "That the flat order has the right amount. What would prove it: A condition on the amount",
        "- prediction for flat: filter stops it: right",
    ] {
        assert!(report.contains(part), "{part} is missing:\n{report}");
    }
    assert!(!report.contains("not finished"), "{report}");
    // Every prediction was the truth of its own stage; another stage's probe of that name is no judge of it.
    assert!(!report.contains(": wrong"), "{report}");
    let json = eventlab(&state, &["report", "--format", "json"]);
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["labs"][0]["name"], "filter-path");
    let status = eventlab(&state, &["status", "--format", "json"]);
    let value: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(value["held"], serde_json::Value::Null);
}

#[test]
fn the_report_of_a_half_done_lab_says_so() {
    let state = tempfile::tempdir().unwrap();
    let killed = std::process::Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["--state-dir", state.path().to_str().unwrap()])
        .args(["run", "filter-path", "--keep"])
        .env("EVENTLAB_KILL_AT", "40")
        .output()
        .unwrap();
    assert!(!killed.status.success());
    let report = eventlab(&state, &["report"]);
    assert_eq!(report.status.code(), Some(1), "{}", text(&report));
    assert!(
        text(&report).contains("**This lab is not finished.**"),
        "{}",
        text(&report)
    );
    let json = eventlab(&state, &["report", "--format", "json"]);
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["labs"][0]["complete"], false);
}

#[test]
fn the_course_lists_every_lab_and_says_which_are_not_there() {
    let state = tempfile::tempdir().unwrap();
    let list = eventlab(&state, &["list"]);
    assert!(list.status.success());
    let list = text(&list);
    let catalog = eventlab::lab::Catalog::bundled().unwrap();
    for (name, _) in eventlab::lab::COURSE {
        let line = list.lines().find(|line| line.contains(name)).unwrap();
        let there = catalog.lab(name).is_ok();
        assert_eq!(!line.contains("not among these labs"), there, "{list}");
        if !there {
            let run = eventlab(&state, &["run", name]);
            assert_eq!(run.status.code(), Some(2), "{}", text(&run));
        }
    }
    // Of other labs the course says nothing.
    let own = state.path().join("own");
    let made = eventlab(
        &state,
        &["lab", "new", "own", "--dir", own.to_str().unwrap()],
    );
    assert!(made.status.success(), "{}", text(&made));
    let list = eventlab(&state, &["--labs", own.to_str().unwrap(), "list"]);
    let lines: Vec<String> = text(&list).lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("own "), "{lines:?}");
    assert!(lines[1].is_empty(), "{lines:?}");
    let run = eventlab(&state, &["run", "nonsense"]);
    assert_eq!(run.status.code(), Some(2), "{}", text(&run));
}

#[test]
fn a_state_folder_that_cannot_be_used_is_named() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["--state-dir", file.to_str().unwrap(), "check"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(
        text(&output).contains(file.to_str().unwrap()),
        "{}",
        text(&output)
    );
}

#[test]
fn a_damaged_cluster_database_is_refused_and_left_as_it_is() {
    let state = tempfile::tempdir().unwrap();
    let session = state.path().join("embedded");
    std::fs::create_dir_all(&session).unwrap();
    let garbage = vec![7_u8; 8192];
    std::fs::write(session.join("cluster.db"), &garbage).unwrap();
    let output = eventlab(&state, &["check"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("cluster.db"), "{}", text(&output));
    assert_eq!(std::fs::read(session.join("cluster.db")).unwrap(), garbage);
}

#[test]
fn a_session_in_use_is_refused_with_its_holder() {
    let state = tempfile::tempdir().unwrap();
    let mut first = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args([
            "--state-dir",
            state.path().to_str().unwrap(),
            "cluster",
            "start",
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(first.stdout.take().unwrap()));
    assert!(
        lines
            .next()
            .unwrap()
            .unwrap()
            .contains("https://127.0.0.1:")
    );
    let second = eventlab(&state, &["check"]);
    assert_eq!(second.status.code(), Some(3), "{}", text(&second));
    assert!(
        text(&second).contains(&first.id().to_string()),
        "{}",
        text(&second)
    );
    let stopped = eventlab(&state, &["cluster", "stop"]);
    assert!(stopped.status.success(), "{}", text(&stopped));
    first.wait().unwrap();
}

/// The rights of both accounts, as they were found and as they were left.
#[test]
fn the_report_of_rbac_has_the_access_table() {
    let state = tempfile::tempdir().unwrap();
    let run = eventlab(&state, &["run", "rbac", "--keep"]);
    assert!(run.status.success(), "{}", text(&run));
    let report = eventlab(&state, &["report"]);
    let report = text(&report);
    for row in [
        "| order-sensor | create | workflows.argoproj.io | no | yes |",
        "| order-sensor | list | workflows.argoproj.io | yes | no |",
        "| order-sensor | get | secrets | no | no |",
        "| order-runner | create | workflowtaskresults.argoproj.io | no | yes |",
        "| order-runner | patch | pods | yes | no |",
        "| order-runner | create | workflows.argoproj.io | no | no |",
        "| order-sensor | any-other | right | yes | no |",
        "| order-runner | any-other | right | yes | no |",
        // Two orders of before, of one name, are two claims.
        "order of stage forbidden: stays as it was",
        "order of stage half: stays as it was",
    ] {
        assert!(report.contains(row), "{row} is missing:\n{report}");
    }
    assert!(!report.contains("not reviewed again"), "{report}");
}

/// Whoever asks for the end, and whenever: the folder of the run goes, with the databases and the signing key in it.
#[test]
fn a_run_that_is_told_to_stop_leaves_nothing_behind() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};
    for (signal, code, at_once) in [
        (Signal::TERM, 143, true),
        (Signal::TERM, 143, false),
        (Signal::INT, 130, false),
    ] {
        let state = TempDir::new().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .args(["--state-dir", state.path().to_str().unwrap()])
            .args(["run", "filter-path"])
            .env_remove("EVENTLAB_KILL_AT")
            .env("TMPDIR", state.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        if at_once {
            let end = Instant::now() + Duration::from_secs(120);
            while std::fs::read_dir(state.path()).unwrap().next().is_none() {
                assert!(Instant::now() < end, "nothing was made");
                std::thread::sleep(Duration::from_millis(1));
            }
        } else {
            // Its first stage is done, and the next ones are under way.
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().unwrap())
                .read_line(&mut line)
                .unwrap();
            assert!(!line.is_empty());
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait().unwrap();
        assert_eq!(ended.code(), Some(code), "{signal:?} {ended:?}");
        let left: Vec<_> = std::fs::read_dir(state.path()).unwrap().collect();
        assert!(left.is_empty(), "{signal:?} left {left:?}");
    }
}
