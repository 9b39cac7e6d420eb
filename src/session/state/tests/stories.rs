//! What a learner sees happen.

use super::*;
use crate::evidence::Outcome;
use crate::evidence::journal::ClaimAnswer;
use crate::lab::format::GateFailure;

fn failures(session: &Session) -> Vec<StageFailure> {
    match &session.state.phase {
        StagePhase::Failed { failures } => failures.clone(),
        other => panic!("not failed: {other:?}"),
    }
}

pub(super) fn reasons(session: &Session) -> Vec<OpenReason> {
    match &session.state.phase {
        StagePhase::Unproven { reasons } => reasons.clone(),
        other => panic!("not unproven: {other:?}"),
    }
}

#[test]
fn the_first_lab_does_everything_on_one_key() {
    let mut session = Session::new();
    assert_eq!(
        session.state.footer().next,
        "apply, wait for the gate, send 1 probe"
    );
    let effects = session.say(Message::Next);
    assert_eq!(
        kinds(&effects).join(" "),
        "snapshot checkpoint intent apply outcome checkpoint gate checkpoint intent send outcome \
         checkpoint collect judgement judgement checkpoint"
    );
    assert_eq!(session.state.phase, StagePhase::Passed);
    assert_eq!(session.state.rows()[0].fate, Some(Fate::Applied));
    assert_eq!(session.state.counters().effects, 1);
    assert_eq!(session.state.footer().next, "next lab: filter-path");
    assert_eq!(session.state.course_progress(), (0, 2));
    session.say(Message::Next);
    assert_eq!(session.state.stage_name(), "read");
}

#[test]
fn a_lab_is_walked_through_key_by_key() {
    let mut session = Session::at("read");
    let mut seen = Vec::new();
    while session.state.lab_name() == testing::LAB {
        match session.state.stage_name().as_str() {
            "predict" => session.predict_all(),
            "report" => session.report_all(),
            _ => {}
        }
        let before = session.state.stage_name();
        let passed = session.state.phase == StagePhase::Passed;
        session.say(Message::Next);
        seen.push(format!("{before}{}", if passed { "+" } else { "" }));
        assert!(seen.len() < 40, "{seen:?}: {:?}", session.state.phase);
    }
    assert_eq!(
        seen.join(" "),
        "read apply apply+ gate gate+ predict send send+ fix fix+ report debrief"
    );
    assert_eq!(session.state.course_progress(), (1, 2));
    assert_eq!(session.state.standings()[0].passed, 8);
    session.skip_to("stale");
    session.runner.gate = Some(refusal("invalid-sensor"));
    session.say(Message::Next);
    session.say(Message::Next);
    assert!(session.state.finished());
    assert_eq!(session.state.course_progress(), (2, 2));
}

#[test]
fn a_probe_waits_for_what_becomes_of_the_one_before() {
    let mut session = Session::at("fix");
    let order: Vec<_> = kinds(&session.say(Message::Next))
        .into_iter()
        .filter(|kind| ["gate", "send", "collect"].contains(kind))
        .collect();
    assert_eq!(
        order.join(" "),
        "gate send collect send collect send collect"
    );
    assert_eq!(session.state.phase, StagePhase::Passed);
}

#[test]
fn a_prediction_is_needed_for_each_probe_and_scored_from_facts() {
    let mut session = Session::at("predict");
    assert!(!session.state.footer().next_enabled);
    session.say(Message::Predict {
        probe: "nested".to_owned(),
        stops_at: None,
    });
    session.say(Message::Next);
    assert_eq!(session.state.stage_name(), "predict");
    assert_eq!(session.state.notice(), Some("predict first: flat"));
    session.say(Message::Predict {
        probe: "nobody".to_owned(),
        stops_at: None,
    });
    assert!(session.state.notice().unwrap().contains("nobody"));
    session.predict_all();
    assert_eq!(session.state.prediction_score(), (0, 0), "nothing was seen");
    session.say(Message::Next);
    session.say(Message::Next);
    assert_eq!(session.state.phase, StagePhase::Passed);
    assert_eq!(session.state.prediction_score(), (1, 2));
}

#[test]
fn the_actions_come_before_the_gate_and_the_gate_before_the_probes() {
    let mut session = Session::at("send");
    let order: Vec<_> = kinds(&session.say(Message::Next))
        .into_iter()
        .filter(|kind| ["snapshot", "intent", "act", "gate", "send", "collect"].contains(kind))
        .collect();
    assert_eq!(
        order.join(" "),
        "snapshot intent act gate intent send collect intent send collect"
    );
}

#[test]
fn a_wrong_fix_fails_for_its_reason_and_the_right_one_passes() {
    let mut session = Session::at("fix");
    assert!(session.state.uses_working_copy("sensor.yaml"));
    assert!(!session.state.uses_working_copy("base.yaml"));
    session
        .runner
        .fates
        .insert("first".to_owned(), missing_path());
    session.say(Message::Edited {
        manifest: "sensor.yaml".to_owned(),
    });
    session.say(Message::Next);
    let failed = failures(&session);
    assert!(
        failed
            .iter()
            .any(|one| one.is(&wrong_fix("first", missing_path())))
    );
    assert!(
        !failed
            .iter()
            .any(|one| one.is(&wrong_fix("again", missing_path())))
    );
    let attempt = session.state.attempt();

    session.runner.fates.clear();
    assert!(session.state.footer().next.starts_with("again: apply"));
    session.say(Message::Next);
    assert_eq!(session.state.phase, StagePhase::Passed);
    assert_eq!(session.state.attempt(), attempt + 1);
}

#[test]
fn a_refusal_fails_the_stage_and_the_environment_never_does() {
    let mut session = Session::at("fix");
    session.runner.apply = Some(refusal("apply-refused"));
    session.say(Message::Next);
    assert_eq!(failures(&session)[0].reason, "apply-refused");

    session.runner.apply = Some(environment("no-answer"));
    session.say(Message::Next);
    assert!(reasons(&session)[0].environment);

    session.runner.apply = None;
    session.runner.gate = Some(refusal("invalid-sensor"));
    session.say(Message::Next);
    assert!(failures(&session)[0].is(&Failure::Gate(GateFailure {
        gate: "invalid-sensor".to_owned()
    })));

    session.runner.gate = Some(environment("no-answer"));
    session.say(Message::Next);
    assert!(reasons(&session)[0].environment);
}

#[test]
fn an_action_or_a_send_that_could_not_be_done_is_no_failure() {
    let mut session = Session::at("send");
    session.runner.act = Some(refusal("forbidden"));
    session.say(Message::Next);
    assert!(reasons(&session)[0].environment);
    session.runner.act = None;
    session.runner.not_sent = true;
    session.say(Message::Next);
    assert_eq!(reasons(&session)[0].reason, "not-sent");
    let first = session.state.run().unwrap().sends[0].trace.clone();
    session.runner.not_sent = false;
    session.say(Message::Next);
    assert_eq!(session.state.phase, StagePhase::Passed);
    let sends = &session.state.run().unwrap().sends;
    assert_eq!(sends.len(), 2);
    assert_ne!(sends[0].trace, first, "a new send has a new trace");
}

#[test]
fn what_was_not_seen_is_unproven_and_looked_for_again_without_sending() {
    let mut session = Session::at("send");
    session.runner.unseen.insert("discarded".to_owned());
    session.say(Message::Next);
    assert!(reasons(&session).iter().all(|reason| !reason.environment));
    assert_eq!(session.state.footer().next, "look again");
    let effects = session.say(Message::Next);
    assert!(!kinds(&effects).contains(&"send"));

    session.runner.unseen.clear();
    let effects = session.say(Message::Retry);
    assert!(kinds(&effects).contains(&"send"));
    assert_eq!(session.state.phase, StagePhase::Passed);
}

#[test]
fn hints_and_the_solution() {
    let mut session = Session::at("fix");
    session.say(Message::Hint);
    assert_eq!(session.state.hints(), ["one"]);
    session.say(Message::Hint);
    session.say(Message::Hint);
    assert_eq!(session.state.hints(), ["one", "two"]);
    assert!(session.state.notice().is_some());

    session.say(Message::Reveal { confirmed: false });
    assert!(!session.state.revealed());
    session.runner.gate = Some(refusal("invalid-sensor"));
    session.say(Message::Next);
    session.say(Message::Reveal { confirmed: false });
    assert!(session.state.revealed());

    let mut other = Session::at("fix");
    other.say(Message::Reveal { confirmed: true });
    assert!(other.state.revealed());
}

#[test]
fn claims_are_answered_from_facts() {
    let mut session = Session::at("report");
    session.say(Message::Next);
    assert_eq!(
        session.state.notice(),
        Some("not supported yet: layer, fact, cause, not-proven")
    );
    let row = session.state.row_of("send", "flat");
    let discard = row.cell(Layer::Filter).facts[0];
    let stored = row.cell(Layer::Bus).facts[0];
    let other = session
        .state
        .row_of("send", "nested")
        .cell(Layer::Run)
        .facts[0];
    let last = |session: &Session| session.state.claims().last().unwrap().answer.clone();

    session.tell("layer", "bus");
    assert!(
        matches!(last(&session), ClaimAnswer::ContradictedBy { facts, .. } if facts == [discard])
    );
    session.tell("layer", "none");
    assert!(matches!(last(&session), ClaimAnswer::ContradictedBy { .. }));
    session.tell("layer", "filter");
    assert_eq!(
        last(&session),
        ClaimAnswer::SupportedBy {
            facts: vec![discard]
        }
    );

    for (answer, right) in [(stored, false), (other, false), (discard, true)] {
        session.tell("fact", &answer.to_string());
        let supported = matches!(last(&session), ClaimAnswer::SupportedBy { .. });
        assert_eq!(supported, right, "{answer}");
    }
    session.tell("fact", "99999");
    assert_eq!(last(&session), ClaimAnswer::NothingShowsThis);
    session.tell("fact", &format!("#{discard}"));

    session.tell("cause", "the bus lost it");
    assert!(
        matches!(last(&session), ClaimAnswer::ContradictedBy { because, .. } if because == "the message is on the bus")
    );
    session.tell("cause", "1");
    session.tell("not-proven", "2");
    assert!(matches!(last(&session), ClaimAnswer::ContradictedBy { .. }));
    session.say(Message::Next);
    assert_eq!(
        session.state.notice(),
        Some("not supported yet: not-proven")
    );
    session.tell("not-proven", "1");
    session.say(Message::Next);
    assert_eq!(session.state.stage_name(), "debrief");
}

#[test]
fn going_back_rewinds_and_forgets_what_came_after() {
    let go = |stage: usize| Message::GoTo {
        lab: testing::LAB.to_owned(),
        stage,
    };
    let mut session = Session::at("fix");
    session.say(Message::Next);
    let attempt = session.state.attempt();
    session.say(go(9));
    assert!(session.state.notice().is_some());
    let effects = session.say(go(4));
    assert!(kinds(&effects).contains(&"rewind"));
    assert_eq!(session.state.stage_name(), "send");
    assert_eq!(session.state.phase, StagePhase::Fresh);
    assert_eq!(session.state.attempt(), attempt + 1);
    assert!(!session.state.uses_working_copy("sensor.yaml"));
    let kept = session.state.progress_here().unwrap();
    assert_eq!(kept.in_force, ["base.yaml", "sensor.yaml"]);
    assert!(session.state.rows().iter().all(|row| row.trace.is_none()));
    session.say(Message::Next);
    assert_eq!(session.state.phase, StagePhase::Passed);
}

#[test]
fn a_cluster_without_snapshots_is_applied_to_again() {
    let mut session = Session::at("fix");
    session.runner.rewind = Some(environment(crate::session::NO_SNAPSHOT));
    let effects = session.say(Message::GoTo {
        lab: testing::LAB.to_owned(),
        stage: 2,
    });
    assert!(effects.iter().any(
        |effect| matches!(effect, Effect::Apply { manifests, .. } if *manifests == ["base.yaml", "sensor.yaml"])
    ));
    assert_eq!(session.state.stage_name(), "gate");
    assert_eq!(session.state.phase, StagePhase::Fresh);
}

#[test]
fn a_stage_ahead_is_not_gone_to() {
    let go = |lab: &str, stage: usize| Message::GoTo {
        lab: lab.to_owned(),
        stage,
    };
    let mut session = Session::at("gate");
    session.say(go(testing::LAB, 5));
    assert_eq!(session.state.stage_name(), "gate");
    assert!(session.state.notice().is_some());
    session.say(go("readiness", 0));
    assert_eq!(session.state.lab_name(), "readiness");
    session.say(go(testing::LAB, 2));
    assert_eq!(session.state.stage_name(), "gate");
}

#[test]
fn a_lab_starts_over_with_a_higher_attempt() {
    let mut session = Session::at("fix");
    session.say(Message::Next);
    let attempt = session.state.attempt();
    let effects = session.say(Message::Reset);
    assert!(kinds(&effects).contains(&"reset"));
    assert_eq!(session.state.stage_name(), "read");
    assert_eq!(session.state.phase, StagePhase::Fresh);
    assert_eq!(session.state.attempt(), attempt + 1);
    assert_eq!(session.state.standings()[0].passed, 0);
}

#[test]
fn a_cancelled_send_is_not_sent_again() {
    let mut session = Session::at("send");
    let trace = session.until_silent_at_send();
    assert_eq!(session.state.wait().unwrap().what, "sending nested");
    let effects = session.say(Message::Cancel);
    assert_eq!(kinds(&effects), ["cancel", "checkpoint"]);
    let interrupted = StagePhase::Interrupted {
        step: Step::Sending(0),
    };
    assert_eq!(session.state.phase, interrupted);
    assert_eq!(session.state.footer().next, "continue: sending nested");

    let effects = session.say(Message::Next);
    let sent: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send { probe, .. } => Some(probe.name.clone()),
            _ => None,
        })
        .collect();
    let none: [String; 0] = [];
    assert_eq!(
        sent, none,
        "what becomes of a later probe may depend on this one"
    );
    assert_eq!(reasons(&session)[0].probe.as_deref(), Some("nested"));
    assert!(session.state.run().unwrap().sends[0].is_unresolved());
    assert_eq!(session.state.run().unwrap().sends[0].trace, trace);
}

#[test]
fn drift_asks_before_anything_else_is_done() {
    let drift = || Message::Drift(vec![a_difference()]);
    let mut session = Session::at("send");
    session.say(drift());
    assert!(session.say(Message::Next).is_empty());
    assert!(session.state.footer().reconcile);
    session.say(Message::Reconcile(Reconcile::Adopt));
    assert!(session.state.drift().is_empty());

    session.say(drift());
    let attempt = session.state.attempt();
    let effects = session.say(Message::Reconcile(Reconcile::Reapply));
    assert!(kinds(&effects).contains(&"apply"));
    assert_eq!(session.state.attempt(), attempt + 1);
    assert_eq!(session.state.phase, StagePhase::Fresh);
    assert_eq!(session.state.stage_name(), "send");

    session.say(drift());
    session.runner.apply = Some(environment("no-answer"));
    session.say(Message::Reconcile(Reconcile::Reapply));
    let interrupted = StagePhase::Interrupted {
        step: Step::Reapplying,
    };
    assert_eq!(session.state.phase, interrupted);
    session.runner.apply = None;
    session.say(Message::Reconcile(Reconcile::Reapply));
    assert_eq!(session.state.phase, StagePhase::Fresh);

    session.say(drift());
    session.say(Message::Reconcile(Reconcile::Reset));
    assert_eq!(session.state.stage_name(), "read");
}

#[test]
fn the_gate_says_what_it_waits_for() {
    let mut session = Session::at("gate");
    session.raw(Message::Next);
    for message in session.runner.gate_reports().into_iter().take(1) {
        session.raw(message);
    }
    assert_eq!(session.state.wait().unwrap().what, "subscribed: stand by");
}

#[test]
fn judgements_are_on_record() {
    let mut session = Session::at("send");
    session.say(Message::Next);
    let recorded = session
        .runner
        .journal
        .iter()
        .filter(|entry| matches!(entry, Entry::Judgement(one) if one.stage == "send"))
        .count();
    assert_eq!(recorded, 3, "two probes and the filter");
    let all = session.state.judgements();
    assert!(all.iter().all(|one| one.verdict.outcome == Outcome::Proven));
}

#[test]
fn without_labs_nothing_happens() {
    let mut state = State::new(Arc::from(Vec::new()), Timestamp::UNIX_EPOCH);
    let context = Context {
        now: Timestamp::UNIX_EPOCH,
        id: 1,
    };
    for message in [
        Message::Next,
        Message::Retry,
        Message::Reset,
        Message::Cancel,
        Message::Hint,
    ] {
        assert!(state.update(message, &context).is_empty());
    }
    assert!(state.rows().is_empty());
}
