//! Requests that were accepted and never came to the bus: their absence is proven, although the bus could not be read for a
//! moment, or does not begin with its first message any more.

use std::process::Command;
use std::time::Duration;

use eventlab::evidence::Observation;
use eventlab::session::{StagePhase, Step};

use crate::lab_rig::Rig;

/// Two requests that the EventSource's own filter drops: the client is told 200, and the bus has neither.
const DROPPED: &str = r#"
name: rig
title: Rig
summary: One stage.
event: filter-path
layers: [ready, intake, bus, filter, submit, run, effect]
clusters: [embedded]
links: []
stages:
  - name: send
    kind: send
    title: Send
    text: ''
    apply:
      - base/namespace.yaml
      - base/accounts.yaml
      - base/eventbus.yaml
      - filter-path/source.yaml
      - base/ledger.yaml
      - base/process-order.yaml
      - filter-path/solution.yaml
    gate: open
    probes:
      - name: first
        title: first
        body: '{"kind":"order.created","orderId":"first-{{attempt}}","amount":4200}'
        fate: {stops: bus, reason: source-filter}
      - name: second
        title: second
        body: '{"kind":"order.created","orderId":"second-{{attempt}}","amount":4200}'
        fate: {stops: bus, reason: source-filter}
"#;

fn proven_absent(rig: &Rig) -> bool {
    let facts = rig.driver.state().facts();
    facts
        .iter()
        .any(|fact| matches!(fact.observation, Observation::NotStored { .. }))
}

/// One thread, so that nothing is sent between the step's beginning and what is done here.
#[tokio::test]
async fn what_was_accepted_and_never_came_to_the_bus_is_proven_once_it_can_be_read() {
    let mut rig = Rig::with(DROPPED).await;
    rig.driver.tell(eventlab::session::Message::Next).unwrap();
    let sends = |phase: &StagePhase| {
        let step = Step::Sending(0);
        matches!(phase, StagePhase::Working { step: now, .. } if *now == step)
    };
    let phase = rig.settle(sends).await;
    assert!(sends(&phase), "{phase:?}");
    rig.keep_from_bus(true);
    let phase = rig.settle(|phase| !sends(phase)).await;
    assert!(matches!(phase, StagePhase::Working { .. }), "{phase:?}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!proven_absent(&rig));
    rig.keep_from_bus(false);
    let phase = rig.settle(|_| false).await;
    assert_eq!(phase, StagePhase::Passed);
    assert!(proven_absent(&rig));
    rig.stop().await;
}

/// The cluster is put back to where each lab began: the stream goes on counting, what it held is gone, and the objects are
/// older than those that its controllers knew.
#[test]
fn labs_that_are_played_again_are_proven_again() {
    let state = tempfile::tempdir().unwrap();
    for time in 1..=2 {
        let output = Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .arg("--state-dir")
            .arg(state.path())
            .args(["run", "first-order", "filter-path", "--keep"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "time {time}: {said}");
    }
}
