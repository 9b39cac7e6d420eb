//! The gate on a whole cluster, shut by edits that no waiting mends: it says at once what keeps it shut, and ends with that.

use std::time::{Duration, Instant};

use eventlab::session::StagePhase;

use crate::lab_rig::{LAB, MANIFEST, Rig};

const SOURCE: &str = "base/eventsource.yaml";
/// Far below the gate's patience in these tests, 40 s.
const SOON: Duration = Duration::from_secs(30);

/// The lab of the rig with the EventSource as the manifest that is edited.
fn lab_of_the_source() -> String {
    LAB.replace(
        "      - base/eventsource.yaml\n",
        "      - filter-path/solution.yaml\n",
    )
    .replace(
        "manifest: filter-path/sensor.yaml\n      hints",
        "manifest: base/eventsource.yaml\n      hints",
    )
}

/// What the check of an edit comes to: reason, text, and whether it is refuted.
async fn outcome(rig: &mut Rig, file: &str, text: &str) -> (String, String, bool) {
    rig.edit_file(file, text);
    let begun = Instant::now();
    let phase = rig.check().await;
    assert!(begun.elapsed() < SOON, "{phase:?}");
    match phase {
        StagePhase::Failed { failures } => {
            (failures[0].reason.clone(), failures[0].text.clone(), true)
        }
        StagePhase::Unproven { reasons } => {
            (reasons[0].reason.clone(), reasons[0].text.clone(), false)
        }
        other => panic!("{other:?}\n{text}"),
    }
}

/// Each edit: what is replaced by what, the reason, a word of the text, and whether the edit is to blame beyond doubt.
type Edit = (&'static str, &'static str, &'static str, &'static str, bool);

async fn assert_ends(rig: &mut Rig, file: &str, edits: &[Edit]) {
    let whole = rig.driver.original(file);
    for (from, to, reason, word, refuted) in edits {
        assert!(whole.contains(from), "{from:?} in {file}");
        let text = whole.replacen(from, to, 1);
        let (seen, said, blamed) = outcome(rig, file, &text).await;
        assert_eq!((seen.as_str(), blamed), (*reason, *refuted), "{said}");
        assert!(said.contains(word), "{said}");
        assert!(
            rig.driver
                .state()
                .rows()
                .iter()
                .all(|row| row.trace.is_none()),
            "nothing was sent"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_source_that_cannot_answer_ends_the_wait_with_the_reason() {
    let mut rig = Rig::with(&lab_of_the_source()).await;
    let edits: [Edit; 7] = [
        (
            "      endpoint: /first-order\n",
            "",
            "invalid-event-source",
            "Invalid spec: orders - first-order",
            true,
        ),
        (
            "  webhook:\n",
            "  calendar: {daily: {schedule: '* * * * *'}}\n  webhook:\n",
            "invalid-event-source",
            "spec.calendar does not run",
            true,
        ),
        (
            "        port: 12000\n",
            "        port: 80\n",
            "no-service",
            "no Service on port 12000",
            true,
        ),
        (
            "        targetPort: 12000\n",
            "        targetPort: 13000\n",
            "nobody-listens",
            "port 13000",
            true,
        ),
        (
            "    container:\n",
            "    container:\n      image: shop/eventsource:1\n",
            "no-start",
            "shop/eventsource:1",
            false,
        ),
        (
            "  template:\n",
            "  template:\n    volumes: [{name: h, hostPath: {path: /etc}}]\n",
            "no-start",
            "hostPath is refused",
            false,
        ),
        (
            "  template:\n",
            "  template:\n    serviceAccountName: nobody\n",
            "no-pod",
            "nobody",
            false,
        ),
    ];
    assert_ends(&mut rig, SOURCE, &edits).await;
    // Without a webhook the service ends at every start.
    let whole = rig.driver.original(SOURCE);
    let (head, _) = whole.split_once("  webhook:\n").unwrap();
    let (reason, said, refuted) = outcome(&mut rig, SOURCE, head).await;
    assert_eq!((reason.as_str(), refuted), ("crash-loop", false), "{said}");
    assert!(said.contains("exit code 1"), "{said}");
    rig.edit_file(SOURCE, &whole);
    assert_eq!(rig.check().await, StagePhase::Passed);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sensor_that_cannot_run_ends_the_wait_with_the_reason() {
    let mut rig = Rig::start().await;
    let solution = rig.driver.original("filter-path/solution.yaml");
    let with = |from: &str, to: &str| {
        assert!(solution.contains(from), "{from:?}");
        solution.replacen(from, to, 1)
    };
    let account = "    serviceAccountName: order-sensor\n";
    for (text, reason, word, refuted) in [
        (
            with(account, "    serviceAccountName: nobody\n"),
            "no-pod",
            "nobody",
            false,
        ),
        (
            with(
                "    container:\n",
                "    container:\n      image: shop/sensor:1\n",
            ),
            "no-start",
            "shop/sensor:1",
            false,
        ),
        (
            with("spec:\n", "spec:\n  eventBusName: other\n"),
            "no-event-bus",
            "other",
            true,
        ),
    ] {
        let (seen, said, blamed) = outcome(&mut rig, MANIFEST, &text).await;
        assert_eq!((seen.as_str(), blamed), (reason, refuted), "{said}");
        assert!(said.contains(word), "{said}");
    }
    rig.edit(&solution);
    assert_eq!(rig.check().await, StagePhase::Passed);
    rig.stop().await;
}
