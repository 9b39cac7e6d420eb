//! What is not a fix, beyond manifests: a row written by hand, what an earlier go has left, a cluster that went away.
//! And manifests that are none: each is refused in words, nothing of it runs, and the learner's text stays.

use std::process::Command;

use eventlab::evidence::{Fate, Layer, Reason};
use eventlab::session::{StageFailure, StagePhase, Step};
use k8s_openapi::api::rbac::v1::Role;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::lab_rig::{MANIFEST, Rig};

fn missing_path() -> Fate {
    Fate::Stopped {
        layer: Layer::Filter,
        reason: Reason::MissingPath,
    }
}

fn observed(failures: &[StageFailure], probe: &str) -> Option<Fate> {
    let of_probe = |failure: &&StageFailure| failure.probe.as_deref() == Some(probe);
    failures
        .iter()
        .find(of_probe)
        .and_then(|failure| failure.observed.clone())
}

/// The volume's file that the workload writes.
fn ledger_file(rig: &Rig) -> std::path::PathBuf {
    let mut pending = vec![rig.folder().join("volumes")];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => pending.push(path),
                path if path.ends_with("ledger.db") => return path,
                _ => {}
            }
        }
    }
    panic!("no ledger below {}", rig.folder().display());
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_a_row_by_hand_nor_what_an_earlier_go_left_passes_a_check() {
    let mut rig = Rig::start().await;
    rig.edit_from("filter-path/solution.yaml");
    assert_eq!(rig.check().await, StagePhase::Passed);

    // Everything of the go that passed is still there: Workflows, rows, consumers, lines.
    rig.edit_from(MANIFEST);
    let failures = Rig::failures(rig.check().await);
    assert_eq!(observed(&failures, "flat"), Some(missing_path()));

    // The order that was dropped, written into the ledger with its own arrival and trace.
    let row = rig.driver.state().rows().remove(0);
    let by_hand = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args([
            "ledger",
            "apply",
            "--mode",
            "atomic",
            "--order-id",
            "by-hand",
            "--amount",
            "4200",
        ])
        .args(["--db", ledger_file(&rig).to_str().unwrap()])
        .args(["--arrival", row.arrival.as_deref().unwrap()])
        .args(["--trace", row.trace.as_deref().unwrap()])
        .args(["--workflow-uid", "6f0d7231-9a2d-4f79-9039-01e4a410dc58"])
        .args(["--workflow-name", "by-hand"])
        .output()
        .unwrap();
    assert!(by_hand.status.success(), "{by_hand:?}");
    let failures = Rig::failures(rig.check().await);
    assert_eq!(observed(&failures, "flat"), Some(missing_path()));
    let rows = rig.driver.state().rows();
    assert!(
        rows.iter().all(|other| other.trace != row.trace),
        "each go has traces of its own"
    );

    // What the session itself has changed differs from nothing: a grant that was taken back, an apply that broke off.
    let role = |name: &str| {
        format!(
            "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: {name}}}\nrules: []\n"
        )
    };
    let sensor = rig.driver.original(MANIFEST);
    rig.edit(&format!("{sensor}{}{}", role("kept"), role("taken-back")));
    Rig::failures(rig.check().await);
    rig.edit(&format!("{sensor}{}", role("kept")));
    Rig::failures(rig.check().await);
    rig.edit(&format!(
        "{sensor}{}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: No_Name}}\n",
        role("kept")
    ));
    let failures = Rig::failures(rig.check().await);
    assert_eq!(failures[0].reason, "apply-refused", "{failures:?}");
    let rig = rig.taken_up_again().await;
    let none: [&str; 0] = [];
    assert_eq!(rig.driver.state().drift(), none);
    rig.stop().await;
}

/// Whoever could not look says so: never a pass, and never a failure of the learner.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_goes_away_during_a_check_leaves_it_unproven() {
    let mut rig = Rig::start().await;
    rig.edit_from("filter-path/solution.yaml");
    assert_eq!(rig.check().await, StagePhase::Passed);
    rig.driver.tell(eventlab::session::Message::Retry).unwrap();
    let sent = |phase: &StagePhase| {
        matches!(
            phase,
            StagePhase::Working {
                step: Step::Settling(_) | Step::Sending(1..),
                ..
            }
        )
    };
    rig.settle(sent).await;
    rig.cut(true);
    let StagePhase::Unproven { reasons } = rig.settle(|_| false).await else {
        panic!("{:?}", rig.driver.state().phase());
    };
    assert!(!reasons.is_empty());
    rig.cut(false);
    // The same key looks again; what was sent is not sent again.
    let before: Vec<_> = rig
        .driver
        .state()
        .rows()
        .into_iter()
        .map(|row| row.trace)
        .collect();
    let phase = rig.check().await;
    assert_eq!(
        phase,
        StagePhase::Passed,
        "{:?}",
        rig.driver.state().judgements()
    );
    let after: Vec<_> = rig
        .driver
        .state()
        .rows()
        .into_iter()
        .map(|row| row.trace)
        .collect();
    for trace in before.into_iter().flatten() {
        assert!(after.contains(&Some(trace)), "looked up, not sent again");
    }

    // Changed after the last request: the look before the judgement sees it, however little is left to do.
    rig.driver.tell(eventlab::session::Message::Retry).unwrap();
    let last = |phase: &StagePhase| {
        matches!(
            phase,
            StagePhase::Working {
                step: Step::Collecting,
                ..
            }
        )
    };
    rig.settle(last).await;
    let roles: Api<Role> = Api::namespaced(rig.cluster.client(), "eventlab");
    let rules = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    roles
        .patch(
            "order-submit",
            &PatchParams::default(),
            &Patch::Merge(rules),
        )
        .await
        .unwrap();
    let StagePhase::Unproven { reasons } = rig.settle(|_| false).await else {
        panic!("{:?}", rig.driver.state().phase());
    };
    assert_eq!(reasons[0].reason, "foreign-object", "{reasons:?}");
    assert!(reasons[0].text.contains("Role/order-submit"), "{reasons:?}");
    rig.stop().await;
}

/// The look before the verdict that could not look is not one that saw nothing: neither a pass nor a failure, also where what
/// is applied is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_waits_for_a_look_that_could_look() {
    let collecting = |phase: &StagePhase| {
        matches!(
            phase,
            StagePhase::Working {
                step: Step::Collecting,
                ..
            }
        )
    };
    let mut rig = Rig::start().await;
    for (file, passes) in [(MANIFEST, false), ("filter-path/solution.yaml", true)] {
        rig.edit_from(file);
        rig.driver.tell(eventlab::session::Message::Next).unwrap();
        rig.settle(collecting).await;
        rig.hide(Some("/roles/"));
        let StagePhase::Unproven { reasons } = rig.settle(|_| false).await else {
            panic!("{:?}", rig.driver.state().phase());
        };
        assert_eq!(reasons[0].reason, "not-compared", "{reasons:?}");
        assert!(reasons[0].environment, "{reasons:?}");
        assert!(reasons[0].text.contains("Role/"), "{reasons:?}");
        rig.hide(None);
        let phase = rig.check().await;
        assert_eq!(phase == StagePhase::Passed, passes, "{phase:?}");
        assert_eq!(matches!(phase, StagePhase::Failed { .. }), !passes);
    }

    // What was to be judged is no matter of the go after it, and does not hold it up.
    rig.driver.tell(eventlab::session::Message::Retry).unwrap();
    rig.settle(collecting).await;
    rig.hide(Some("/roles/"));
    let held = tokio::time::timeout(std::time::Duration::from_secs(5), rig.settle(|_| false));
    assert!(held.await.is_err(), "{:?}", rig.driver.state().phase());
    let before = rig.driver.state().attempt();
    rig.driver.tell(eventlab::session::Message::Cancel).unwrap();
    rig.hide(None);
    rig.driver.tell(eventlab::session::Message::Retry).unwrap();
    assert_eq!(rig.settle(|_| false).await, StagePhase::Passed);
    assert!(rig.driver.state().attempt() > before);
    rig.stop().await;
}

/// A destination beside the ledger that could not be looked for is not one that is not there: what a run has left is not known.
#[tokio::test(flavor = "multi_thread")]
async fn no_effect_is_judged_while_nobody_knows_where_there_could_be_one() {
    let mut rig = Rig::start().await;
    rig.edit_from("filter-path/solution.yaml");
    rig.hide(Some("/services/crm"));
    let phase = rig.check().await;
    assert!(matches!(phase, StagePhase::Unproven { .. }), "{phase:?}");
    rig.hide(None);
    assert_eq!(rig.check().await, StagePhase::Passed);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_that_are_none_are_refused_with_their_place() {
    let mut rig = Rig::start().await;
    let solution = rig.driver.original("filter-path/solution.yaml");
    let with = |from: &str, to: &str| {
        assert!(solution.contains(from), "{from}");
        solution.replacen(from, to, 1)
    };
    for (text, words) in [
        (
            with("kind: Sensor", "kind: Sensr"),
            &["Sensr", MANIFEST][..],
        ),
        (with("kind: Sensor\n", ""), &["kind", MANIFEST][..]),
        (
            with("  name: orders\n", "  labels: {}\n"),
            &["name", MANIFEST][..],
        ),
        (with("metadata:", "metadata: []\nx:"), &[MANIFEST][..]),
        (
            with("spec:\n", "spec: [\n"),
            &["line", "column", MANIFEST][..],
        ),
        (
            with("spec:\n", "spec:\n\t- a\n"),
            &["line", "column", MANIFEST][..],
        ),
        (
            with("value:\n", "value: \"body\\.kind\"\n"),
            &["line", "column", MANIFEST][..],
        ),
        ("just words".to_owned(), &[MANIFEST][..]),
        ("- 1\n- 2\n".to_owned(), &[MANIFEST][..]),
    ] {
        rig.edit(&text);
        let failures = Rig::failures(rig.check().await);
        assert_eq!(failures[0].reason, "apply-refused", "{failures:?}");
        for word in words {
            assert!(
                failures[0].text.contains(word),
                "{word}: {failures:?}\n{text}"
            );
        }
        assert_eq!(
            rig.driver.copy_text(MANIFEST).unwrap().as_deref(),
            Some(text.as_str())
        );
        assert!(
            rig.driver
                .state()
                .rows()
                .iter()
                .all(|row| row.trace.is_none()),
            "nothing was sent"
        );
    }
    // Taken by the API server, and refused by the controller before any pod.
    for (text, reason) in [
        (
            with("      eventName: filter-path\n", "      eventName: 5\n"),
            "invalid-sensor",
        ),
        (
            with("  dependencies:\n", "  dependencies: none\n  x:\n"),
            "invalid-sensor",
        ),
    ] {
        rig.edit(&text);
        let failures = Rig::failures(rig.check().await);
        assert_eq!(failures[0].reason, reason, "{failures:?}");
    }
    rig.edit(&solution);
    assert_eq!(rig.check().await, StagePhase::Passed);
    rig.stop().await;
}

/// What is on the cluster of an earlier go is right, and would be judged in the place of an edit that holds nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_without_what_it_edits_is_not_judged_by_what_was_there() {
    let mut rig = Rig::start().await;
    let solution = rig.driver.original("filter-path/solution.yaml");
    let other = solution.replacen("name: orders\n", "name: other\n", 1);
    assert_ne!(other, solution);
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
    rig.edit(&solution);
    assert_eq!(rig.check().await, StagePhase::Passed);
    for (text, words) in [
        (String::new(), "does not hold Sensor/orders"),
        ("# nothing\n---\n".to_owned(), "does not hold Sensor/orders"),
        (map.to_owned(), "does not hold Sensor/orders"),
        (other.clone(), "does not hold Sensor/orders"),
        (
            format!("{solution}---\n{other}"),
            "holds Sensor/other, which the lab's file does not",
        ),
        (
            format!("{solution}---\n{solution}"),
            "holds Sensor/orders twice",
        ),
    ] {
        rig.edit(&text);
        let failures = Rig::failures(rig.check().await);
        assert_eq!(failures[0].reason, "apply-refused", "{failures:?}");
        assert!(failures[0].text.contains(words), "{failures:?}");
        let rows = rig.driver.state().rows();
        assert!(
            rows.iter().all(|row| row.trace.is_none()),
            "nothing was sent"
        );
    }
    // Whatever takes part in nothing may stand beside it.
    rig.edit(&format!("{solution}---\n{map}"));
    assert_eq!(rig.check().await, StagePhase::Passed);
    rig.stop().await;
}

/// Who eventlab is, what it may do, and how busy a server is: none of it is the learner's, and nothing was sent.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_api_answers_about_eventlab_is_never_held_against_the_learner() {
    let mut rig = Rig::start().await;
    rig.edit_from("filter-path/solution.yaml");
    for answer in [
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (408, "Timeout"),
        (409, "Conflict"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
    ] {
        rig.refuse(Some(answer));
        let StagePhase::Unproven { reasons } = rig.check().await else {
            panic!("{answer:?}: {:?}", rig.driver.state().phase());
        };
        assert!(reasons[0].environment, "{answer:?}: {reasons:?}");
    }
    // What it says about the object is.
    rig.refuse(Some((422, "Invalid")));
    let failures = Rig::failures(rig.check().await);
    assert_eq!(failures[0].reason, "apply-refused", "{failures:?}");
    rig.refuse(None);
    assert_eq!(rig.check().await, StagePhase::Passed);
    rig.stop().await;
}

/// Another process holds the ledger for longer than a run waits: the run could not write, and says so on its last line.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_stays_locked_is_the_environments_and_so_is_one_that_was_removed() {
    let mut rig = Rig::start().await;
    rig.edit_from("filter-path/solution.yaml");
    assert_eq!(rig.check().await, StagePhase::Passed);
    let file = ledger_file(&rig);
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let StagePhase::Unproven { reasons } = rig.check().await else {
        panic!("{:?}", rig.driver.state().phase());
    };
    let of_probe = reasons.iter().find(|one| one.probe.is_some()).unwrap();
    assert!(of_probe.environment, "{reasons:?}");
    assert!(of_probe.text.contains("stayed locked"), "{reasons:?}");
    holder.execute_batch("ROLLBACK").unwrap();
    drop(holder);
    assert_eq!(rig.again().await, StagePhase::Passed);

    // Runs would go on in a new file, which the reader has not read; what it lacks says nothing.
    std::fs::remove_file(&file).unwrap();
    let StagePhase::Unproven { reasons } = rig.check().await else {
        panic!("{:?}", rig.driver.state().phase());
    };
    assert!(
        reasons[0].environment && reasons[0].reason == "ledger-gone",
        "{reasons:?}"
    );
    rig.stop().await;
}
