//! What a stage checks besides fates.

use super::*;
use crate::lab::format::AccessFailure;

fn failures(session: &Session) -> Vec<StageFailure> {
    match &session.state.phase {
        StagePhase::Failed { failures } => failures.clone(),
        other => panic!("not failed: {other:?}"),
    }
}

#[test]
fn rights_are_reviewed_after_the_probes_and_judged() {
    let mut session = Session::at("early");
    let effects = session.say(Message::Next);
    let kinds = kinds(&effects);
    let place = |kind| kinds.iter().rposition(|one| *one == kind).unwrap();
    assert!(place("collect") < place("review") && place("review") < place("judgement"));
    assert_eq!(session.state.phase, StagePhase::Passed);
}

#[test]
fn a_right_too_many_fails_the_stage_by_its_name() {
    let mut session = Session::at("rights");
    let right = access("create", false).expectation().right;
    session.runner.rights.insert(right.clone());
    session.say(Message::Next);
    let failed = failures(&session);
    let named = |right: Right| Failure::Access(AccessFailure { access: right });
    assert!(failed[0].is(&named(right.clone())));
    assert!(!failed[0].is(&named(access("list", false).expectation().right)));
    assert!(failed[0].text.contains("more than it needs"));
    session.runner.rights.clear();
    session.say(Message::Next);
    assert_eq!(session.state.phase, StagePhase::Passed);
}

#[test]
fn a_review_that_could_not_be_made_is_never_a_failure() {
    let mut session = Session::at("rights");
    session.runner.review = Some(environment("no-answer"));
    session.say(Message::Next);
    let StagePhase::Unproven { reasons } = &session.state.phase else {
        panic!("{:?}", session.state.phase)
    };
    assert!(reasons[0].environment && reasons[0].text.contains("no-answer happened"));
    session.runner.review = None;
    session.say(Message::Next);
    assert_eq!(session.state.phase, StagePhase::Passed);
}

#[test]
fn a_gate_that_must_fail_lets_the_probes_pass_only_when_it_does() {
    let mut session = Session::at("stale");
    session.say(Message::Next);
    assert_eq!(failures(&session)[0].reason, "gate-opened");
    assert!(session.state.run().unwrap().sends.is_empty());

    session.runner.gate = Some(refusal("not-subscribed"));
    session.say(Message::Next);
    assert_eq!(failures(&session)[0].reason, "not-subscribed");

    session.runner.gate = Some(refusal("invalid-sensor"));
    let effects = session.say(Message::Next);
    assert_eq!(session.state.phase, StagePhase::Passed);
    assert_eq!(session.state.run().unwrap().sends.len(), 1);
    // Requests follow that failure, so the EventSource has to answer first.
    let anyway = |effect: &Effect| {
        matches!(
            effect,
            Effect::OpenGate {
                must_fail: Some(_),
                ..
            }
        )
    };
    assert!(effects.iter().any(anyway));
}

#[test]
fn an_event_of_before_that_is_handled_again_fails_the_stage() {
    let mut session = Session::at("stale");
    session.runner.gate = Some(refusal("invalid-sensor"));
    let created = session
        .state
        .facts()
        .iter()
        .find(|fact| matches!(fact.observation, Observation::WorkflowCreated { .. }))
        .cloned()
        .unwrap();
    let again = Fact {
        seq: u64::MAX,
        execution: Some("another".to_owned()),
        ..created
    };
    session.raw(Message::Facts(vec![again]));
    session.say(Message::Next);
    assert!(failures(&session)[0].text.contains("2 Workflows"));
}

#[test]
fn an_event_of_before_whose_consumer_was_not_read_since_is_unproven() {
    let mut session = Session::at("stale");
    session.runner.gate = Some(refusal("invalid-sensor"));
    session.runner.unseen.insert("consumer".to_owned());
    session.say(Message::Next);
    assert!(
        matches!(&session.state.phase, StagePhase::Unproven { reasons } if reasons.iter().any(|one| one.text.contains("not seen since"))),
        "{:?}",
        session.state.phase
    );
}

#[test]
fn probes_that_run_together_do_not_wait_for_each_other_and_either_may_win() {
    let mut session = Session::at("race");
    session.runner.fates.insert("left".into(), duplicate());
    let effects = session.say(Message::Next);
    let order: Vec<_> = kinds(&effects)
        .into_iter()
        .filter(|kind| ["act", "send", "collect", "review"].contains(kind))
        .collect();
    assert_eq!(order.join(" "), "send act act send collect review");
    assert_eq!(session.state.phase, StagePhase::Passed);
}

#[test]
fn what_stands_about_an_order_is_judged_beside_the_fates() {
    let mut session = Session::at("race");
    session.runner.order_effects = Some(2);
    session.say(Message::Next);
    let failed = failures(&session);
    assert_eq!(failed[0].order.as_deref(), Some("once"));
    assert!(failed[0].text.contains("it has 2 effects"), "{failed:?}");
    session.runner.order_effects = None;
    session.runner.review = Some(environment("no-answer"));
    session.say(Message::Next);
    let StagePhase::Unproven { reasons } = &session.state.phase else {
        panic!("{:?}", session.state.phase)
    };
    assert!(reasons[0].environment, "{reasons:?}");
}

#[test]
fn an_action_before_a_probe_that_was_cut_off_is_done_again_for_a_new_order_only() {
    let mut session = Session::at("race");
    session.runner.act = Some(environment("no-answer"));
    session.say(Message::Next);
    assert!(matches!(session.state.phase, StagePhase::Unproven { .. }));
    let before = session.state.attempt();
    session.runner.act = None;
    session.state.phase = StagePhase::Interrupted {
        step: Step::Preparing(1, 0),
    };
    session.say(Message::Next);
    assert_eq!(session.state.attempt(), before + 1);
    assert_eq!(session.state.phase, StagePhase::Passed);
}

#[test]
fn a_run_that_ended_with_the_program_is_open_and_a_rejected_event_stays_a_failure() {
    for (seen, open) in [
        (
            Fate::Stopped {
                layer: Layer::Run,
                reason: Reason::WorkflowFailed,
            },
            true,
        ),
        (missing_path(), false),
    ] {
        let mut session = Session::at("race");
        session.runner.fates.insert("left".into(), seen);
        session.say(Message::Next);
        failures(&session);
        session.state.run_mut().unwrap().cut_off = true;
        session.state.work(Step::Reviewing);
        let mut out = Vec::new();
        session.state.judge_stage(None, &mut out);
        match (&session.state.phase, open) {
            (StagePhase::Unproven { reasons }, true) => assert_eq!(reasons[0].reason, "cut-off"),
            (StagePhase::Failed { .. }, false) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// What the Sensor says of its filter teaches more than that it ended with an error; said of every probe it hides the rest.
#[test]
fn an_error_of_the_filter_is_told_once() {
    let mut session = Session::at("fix");
    for probe in ["first", "third"] {
        let fate = Fate::Stopped {
            layer: Layer::Filter,
            reason: Reason::FilterError,
        };
        session.runner.fates.insert(probe.to_owned(), fate);
    }
    session.say(Message::Next);
    let failures = failures(&session);
    let told: Vec<bool> = failures
        .iter()
        .filter(|failure| failure.probe.is_some())
        .map(|failure| failure.text.contains("it said: "))
        .collect();
    assert_eq!(told.iter().filter(|told| **told).count(), 1, "{failures:?}");
    assert!(told[0] && told.len() > 1, "{failures:?}");
}
