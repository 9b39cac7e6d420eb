//! Objects of the lab that somebody else has changed, or that could not be looked at.

use super::stories::reasons;
use super::*;

/// A look at the Sensor of the lab: what is kept of it, and what it is now.
fn seen(kept: &str, uid: &str, hash: &str) -> Message {
    let line = |uid: &str, hash: &str| format!("v1 Sensor orders {uid} {hash}");
    Message::Drift(vec![Difference {
        text: "Sensor/orders was changed".to_owned(),
        kept: line("uid", kept),
        live: line(uid, hash),
    }])
}

fn with_a_sensor() -> Session {
    let mut session = Session::at("send");
    session.here_fingerprints(vec!["v1 Sensor orders uid 1".to_owned()]);
    session
}

#[test]
fn no_stage_passes_on_an_object_that_was_taken_although_it_is_not_the_labs() {
    let mut session = with_a_sensor();
    // Changed, taken; changed again, taken; and the process comes back.
    session.say(seen("1", "uid", "2"));
    session.say(Message::Reconcile(Reconcile::Adopt));
    session.say(seen("2", "uid", "3"));
    session.say(Message::Reconcile(Reconcile::Adopt));
    session.restart();
    session.say(Message::Next);
    let open = reasons(&session)[0].clone();
    assert_eq!(open.reason, "foreign-object");
    assert!(open.text.contains("Sensor/orders"), "{}", open.text);
    let kept = &session.state.progress_here().unwrap().fingerprints;
    assert!(
        kept.contains(&"v1 Sensor orders uid 1".to_owned()),
        "it differs again, and is asked about again: {kept:?}"
    );
    // What was seen over it does not count once everything is the lab's again, whoever saw to that.
    let effects = session.say(Message::Next);
    assert!(kinds(&effects).contains(&"send"), "{:?}", kinds(&effects));
    assert_eq!(session.state.phase, StagePhase::Passed);
}

#[test]
fn applied_again_the_stage_starts_anew_also_when_it_was_cut_off() {
    let mut session = with_a_sensor();
    session.say(seen("1", "uid", "2"));
    session.say(Message::Reconcile(Reconcile::Adopt));
    session.say(Message::Next);
    assert_eq!(reasons(&session)[0].reason, "foreign-object");
    session.say(seen("1", "uid", "2"));
    session.say(Message::Reconcile(Reconcile::Reapply));
    assert_eq!(session.state.phase, StagePhase::Fresh);

    let mut session = with_a_sensor();
    session.say(seen("1", "uid", "2"));
    session.say(Message::Reconcile(Reconcile::Adopt));
    session.until_silent_at_send();
    session.restart();
    session.say(seen("2", "uid", "3"));
    session.say(Message::Reconcile(Reconcile::Reapply));
    assert_eq!(session.state.phase, StagePhase::Fresh);
}

#[test]
fn an_object_that_is_the_labs_again_is_no_foreign_one() {
    for (uid, hash) in [("another", "1"), ("uid", "1")] {
        let mut session = with_a_sensor();
        session.say(seen("1", "uid", "2"));
        session.say(Message::Reconcile(Reconcile::Adopt));
        session.say(seen("2", uid, hash));
        session.say(Message::Reconcile(Reconcile::Adopt));
        session.say(Message::Next);
        assert_eq!(session.state.phase, StagePhase::Passed, "{uid} {hash}");
    }
    // Another version of the cluster is no object of the lab.
    let mut session = Session::at("send");
    let version = |version: &str| format!("version Cluster kubernetes - {version}");
    session.here_fingerprints(vec![version("v1")]);
    session.say(Message::Drift(vec![Difference {
        text: "Cluster/kubernetes has version v2".to_owned(),
        kept: version("v1"),
        live: version("v2"),
    }]));
    session.say(Message::Reconcile(Reconcile::Adopt));
    session.say(Message::Next);
    assert_eq!(session.state.phase, StagePhase::Passed);
}

/// Works on a stage; with the first request its Sensor is changed, and `meanwhile` is told before the request is answered.
fn changed_while_it_works(meanwhile: &[Message]) -> Session {
    let mut session = with_a_sensor();
    let (mut queue, mut changed) = (VecDeque::from([Message::Next]), false);
    while let Some(message) = queue.pop_front() {
        for effect in session.raw(message) {
            if matches!(effect, Effect::Send { .. }) && !changed {
                changed = true;
                session.raw(seen("1", "uid", "2"));
                assert!(!session.state.footer().reconcile, "not while it works");
                assert_eq!(session.state.footer().next, "sending nested");
                for message in meanwhile {
                    session.raw(message.clone());
                }
            }
            queue.extend(session.runner.answer(&effect));
        }
    }
    session
}

#[test]
fn what_is_changed_while_a_stage_works_keeps_it_from_passing() {
    let session = changed_while_it_works(&[]);
    assert_eq!(reasons(&session)[0].reason, "foreign-object");
    assert!(session.state.footer().reconcile);
    // Changed back before anything is judged: what was seen between may be of the other.
    let mut session = changed_while_it_works(&[Message::Drift(Vec::new())]);
    assert_eq!(reasons(&session)[0].reason, "foreign-object");
    assert!(!session.state.footer().reconcile);
    let effects = session.say(Message::Next);
    assert!(kinds(&effects).contains(&"send"), "{:?}", kinds(&effects));
    assert_eq!(session.state.phase, StagePhase::Passed);
}

/// What fails over objects of somebody else's is not what the learner has applied: neither a probe nor the gate.
#[test]
fn what_is_refuted_over_another_object_is_no_failure_of_the_learner() {
    let refuting = |session: &mut Session| {
        let fate = Fate::Stopped {
            layer: Layer::Submit,
            reason: Reason::Forbidden,
        };
        session.runner.fates.insert("nested".to_owned(), fate);
    };
    let mut own = with_a_sensor();
    refuting(&mut own);
    own.say(Message::Next);
    let refuted = own.state.phase.clone();
    assert!(matches!(refuted, StagePhase::Failed { .. }), "{refuted:?}");

    let mut adopted = with_a_sensor();
    refuting(&mut adopted);
    adopted.say(seen("1", "uid", "2"));
    adopted.say(Message::Reconcile(Reconcile::Adopt));
    adopted.say(Message::Next);
    let open = reasons(&adopted);
    assert_eq!(open[0].reason, "foreign-object");
    let said = open.iter().any(|one| one.text.contains("submit layer"));
    assert!(said, "what was seen is told all the same: {open:?}");
    let tries = |session: &Session| session.state.progress_here().unwrap().failures.clone();
    assert!(tries(&adopted).is_empty(), "{:?}", tries(&adopted));
    adopted.restart();
    assert_eq!(reasons(&adopted)[0].reason, "foreign-object");
    adopted.state = adopted.state.clone().as_judged();
    assert_eq!(reasons(&adopted)[0].reason, "foreign-object");

    let mut gate = Session::at("gate");
    gate.here_fingerprints(vec!["v1 Sensor orders uid 1".to_owned()]);
    gate.say(seen("1", "uid", "2"));
    gate.say(Message::Reconcile(Reconcile::Adopt));
    let effects = gate.raw(Message::Next);
    assert!(kinds(&effects).contains(&"gate"), "{:?}", kinds(&effects));
    gate.raw(Message::Gate(GateReport {
        failed: Some(StepError {
            reason: "invalid-sensor".to_owned(),
            text: "the controller refuses it".to_owned(),
            environment: false,
        }),
        ..GateReport::default()
    }));
    let open = reasons(&gate);
    assert_eq!(open[0].reason, "foreign-object");
    assert_eq!(open[1].reason, "invalid-sensor");
    assert!(tries(&gate).is_empty(), "{:?}", tries(&gate));
}

#[test]
fn what_was_seen_over_another_object_does_not_count_after_a_cut() {
    for back in [true, false] {
        let mut session = with_a_sensor();
        let trace = session.until_silent_at_send();
        let attempt = session.state.attempt();
        let sent = probe("nested", Fate::Applied);
        session
            .runner
            .send(testing::LAB, "send", attempt, &trace, &sent);
        session.say(seen("1", "uid", "2"));
        let effects = session.restart();
        session.deliver(&effects);
        if back {
            session.say(Message::Drift(Vec::new()));
            session.say(Message::Next);
            assert_eq!(reasons(&session)[0].reason, "foreign-object");
        } else {
            session.say(seen("1", "uid", "2"));
            session.say(Message::Reconcile(Reconcile::Reapply));
            assert_eq!(session.state.phase, StagePhase::Fresh);
        }
    }
}

#[test]
fn what_differs_in_a_lab_is_no_matter_of_another() {
    let of_all = Difference::of_all("the ledger's file is another".to_owned());
    let mut session = with_a_sensor();
    let Message::Drift(mut differences) = seen("1", "uid", "2") else {
        unreachable!()
    };
    differences.insert(0, of_all.clone());
    session.say(Message::Drift(differences));
    // What differs everywhere is settled by the rewind that follows, if there is one.
    session.raw(Message::GoTo {
        lab: "first-order".to_owned(),
        stage: 0,
    });
    assert_eq!(session.state.drift(), [of_all.text.as_str()]);
}

/// A stage that sends nothing and one that only looks: neither passes over objects of somebody else's.
#[test]
fn nothing_passes_over_an_object_of_somebody_elses_where_nothing_is_judged() {
    let at = |place: &str| {
        let observing = place == "observing";
        let mut session = Session::at(if observing { "send" } else { place });
        let mut labs = session.state.labs.to_vec();
        for stage in labs.iter_mut().flat_map(|lab| &mut lab.stages) {
            stage.observe |= observing && stage.name == "send";
        }
        session.state.labs = labs.into();
        session.here_fingerprints(vec!["v1 Sensor orders uid 1".to_owned()]);
        session
    };
    for place in ["apply", "gate", "observing"] {
        for while_it_works in [false, true] {
            let mut session = at(place);
            if while_it_works {
                let mut queue: VecDeque<Effect> = session.raw(Message::Next).into();
                session.raw(seen("1", "uid", "2"));
                session.raw(Message::Drift(Vec::new()));
                while let Some(effect) = queue.pop_front() {
                    for message in session.runner.answer(&effect) {
                        queue.extend(session.raw(message));
                    }
                }
            } else {
                session.say(seen("1", "uid", "2"));
                session.say(Message::Reconcile(Reconcile::Adopt));
                session.say(Message::Next);
            }
            let open = reasons(&session);
            assert_eq!(open[0].reason, "foreign-object", "{place} {open:?}");
            assert!(open[0].text.contains("Sensor/orders"), "{open:?}");
            let here = session.state.progress_here().unwrap();
            let stage = session.state.stage_name();
            assert!(!here.passed.contains(&stage), "{place}");
            session.restart();
            assert_eq!(reasons(&session)[0].reason, "foreign-object", "{place}");
            session.say(seen("1", "uid", "2"));
            session.say(Message::Reconcile(Reconcile::Reapply));
            session.say(Message::Next);
            assert_eq!(session.state.phase, StagePhase::Passed, "{place}");
        }
    }
}

/// What is looked up again is of whatever was there since it was sent.
#[test]
fn what_is_changed_while_a_stage_is_unproven_keeps_the_look_from_passing() {
    let mut session = with_a_sensor();
    session.runner.unseen.insert("discarded".to_owned());
    session.say(Message::Next);
    assert_eq!(reasons(&session)[0].reason, "evidence");
    session.runner.unseen.clear();
    session.say(seen("1", "uid", "2"));
    session.say(Message::Drift(Vec::new()));
    session.restart();
    session.say(Message::Next);
    assert_eq!(reasons(&session)[0].reason, "foreign-object");
    let effects = session.say(Message::Next);
    assert!(kinds(&effects).contains(&"send"), "{:?}", kinds(&effects));
    assert_eq!(session.state.phase, StagePhase::Passed);
}

const WHY: &str = "cannot read Role/order-submit: forbidden";

fn not_compared() -> Message {
    Message::NotCompared {
        why: WHY.to_owned(),
    }
}

/// A go at a stage whose n-th message that it could be judged on is held back, and the step at that; nothing where there are
/// fewer. A `wrong` one would not pass.
fn held_back(place: &str, wrong: bool, nth: usize) -> Option<(Step, Session)> {
    let mut session = Session::at(place);
    if place == "stale" {
        session.runner.gate = Some(refusal("invalid-sensor"));
    }
    if wrong {
        let fates = &mut session.runner.fates;
        fates.insert("first".to_owned(), missing_path());
        session.runner.unseen.insert("discarded".to_owned());
    }
    let (mut queue, mut left) = (VecDeque::from([Message::Next]), nth);
    while let Some(message) = queue.pop_front() {
        if session.state.may_judge_on(&message) {
            if left == 0 {
                return Some((session.state.working()?, session));
            }
            left -= 1;
        }
        for effect in session.raw(message) {
            queue.extend(session.runner.answer(&effect));
        }
    }
    None
}

/// Whose objects could not be looked at says so, whatever it would have said.
fn assert_nothing_is_said(mut session: Session) {
    session.raw(not_compared());
    let open = reasons(&session);
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!(open[0].reason, "not-compared");
    assert!(
        open[0].environment && open[0].text.contains(WHY),
        "{open:?}"
    );
    let (here, stage) = (
        session.state.progress_here().unwrap(),
        session.state.stage_name(),
    );
    assert!(!here.passed.contains(&stage) && !here.failures.contains_key(&stage));
    // What comes too late says nothing.
    session.say(Message::Collected { complete: true });
    session.say(Message::Reviewed { result: Ok(()) });
    assert_eq!(reasons(&session), open);
}

/// In the place of every message that a go could be judged on comes that nobody could look.
#[test]
fn what_could_not_be_compared_is_neither_a_pass_nor_a_failure_at_any_step() {
    let mut steps = BTreeSet::new();
    for place in ["gate", "send", "fix", "early", "rights", "race", "stale"] {
        for wrong in [false, true] {
            let mut session = held_back(place, wrong, 0);
            for nth in 1.. {
                let Some((step, held)) = session else {
                    break;
                };
                steps.insert(format!("{step:?}"));
                assert_nothing_is_said(held);
                session = held_back(place, wrong, nth);
            }
        }
    }
    for step in ["Gate", "Settling", "Collecting", "Reviewing"] {
        let tried = steps.iter().any(|one| one.starts_with(step));
        assert!(tried, "{step} of {steps:?}");
    }
    // Where nothing is under way, nobody had to look.
    for phase in [StagePhase::Fresh, StagePhase::Passed] {
        let mut session = Session::at("send");
        session.state.phase = phase.clone();
        session.raw(not_compared());
        assert_eq!(session.state.phase, phase);
    }
}

/// A gate that must fail and opens is judged at once, as one that fails otherwise: it may be that of somebody else's object.
#[test]
fn a_gate_that_must_fail_is_judged_on_what_was_looked_at() {
    let report = |open: bool, failed: Option<StepError>| {
        Message::Gate(GateReport {
            open,
            failed,
            ..GateReport::default()
        })
    };
    for (place, message, judged) in [
        ("stale", report(true, None), true),
        ("stale", report(false, None), false),
        (
            "stale",
            report(false, Some(refusal("invalid-sensor"))),
            false,
        ),
        (
            "stale",
            report(false, Some(refusal("not-subscribed"))),
            true,
        ),
        ("send", report(true, None), false),
        ("send", report(false, Some(refusal("invalid-sensor"))), true),
        (
            "send",
            report(false, Some(environment("gate-timeout"))),
            false,
        ),
        ("gate", report(true, None), true),
    ] {
        let mut session = Session::at(place);
        let mut effects: VecDeque<Effect> = session.raw(Message::Next).into();
        while session.state.working() != Some(Step::Gate) {
            let effect = effects.pop_front().unwrap();
            for message in session.runner.answer(&effect) {
                effects.extend(session.raw(message));
            }
        }
        let may = session.state.may_judge_on(&message);
        assert_eq!(may, judged, "{place} {message:?}");
    }
}

/// Whoever takes what nobody else has changed is not told where a change of theirs belongs.
#[test]
fn only_who_takes_what_another_has_changed_hears_where_a_change_belongs() {
    let version = |version: &str| format!("version Cluster kubernetes - {version}");
    let sensor = |uid: &str, hash: &str| format!("v1 Sensor orders {uid} {hash}");
    for (kept, live, said) in [
        (sensor("uid", "1"), sensor("uid", "2"), true),
        (sensor("uid", "1"), sensor("another", "1"), false),
        (version("v1"), version("v2"), false),
    ] {
        let mut session = Session::at("fix");
        session.here_fingerprints(vec![kept.clone()]);
        session.say(Message::Drift(vec![Difference {
            text: "it differs".to_owned(),
            kept,
            live: live.clone(),
        }]));
        session.raw(Message::Reconcile(Reconcile::Adopt));
        assert_eq!(session.state.notice().is_some(), said, "{live}");
    }
    let mut session = Session::at("fix");
    session.say(Message::Drift(vec![Difference::of_all("lost".to_owned())]));
    session.raw(Message::Reconcile(Reconcile::Adopt));
    assert_eq!(session.state.notice(), None);
}
