//! What a learner sees after the process ended and came back.

use super::*;
use crate::evidence::journal::unresolved;
use crate::session::Checkpoint;

impl Session {
    /// The process ends and comes back; answers what it did by itself.
    pub(super) fn restart(&mut self) -> Vec<Effect> {
        let checkpoint = self.state.checkpoint();
        self.restart_from(Some(checkpoint))
    }

    fn restart_from(&mut self, checkpoint: Option<Checkpoint>) -> Vec<Effect> {
        let (state, effects) = State::resume(
            checkpoint,
            &self.runner.journal,
            course(),
            Timestamp::UNIX_EPOCH,
        );
        self.state = state;
        effects
    }

    pub(super) fn deliver(&mut self, effects: &[Effect]) {
        for effect in effects {
            for message in self.runner.answer(effect) {
                self.say(message);
            }
        }
    }
}

fn interrupted(step: Step) -> StagePhase {
    StagePhase::Interrupted { step }
}

#[test]
fn a_request_that_did_arrive_is_found_and_judged() {
    let mut session = Session::at("send");
    let trace = session.until_silent_at_send();
    // The request was made, and the process ended before its answer was read.
    let fate = Fate::Applied;
    let probe = probe("nested", fate.clone());
    let attempt = session.state.attempt();
    session
        .runner
        .send(testing::LAB, "send", attempt, &trace, &probe);
    session
        .runner
        .journal
        .retain(|entry| !matches!(entry, Entry::Fact(fact) if fact.trace.as_ref() == Some(&trace)));

    let effects = session.restart();
    assert_eq!(session.state.phase, interrupted(Step::Sending(0)));
    assert_eq!(session.state.unresolved().len(), 1);
    assert!(session.state.run().unwrap().sends[0].is_unresolved());
    assert_eq!(kinds(&effects), ["journal", "collect", "checkpoint"]);
    session.deliver(&effects);
    assert_eq!(
        session.state.phase,
        interrupted(Step::Sending(0)),
        "waits for the key"
    );
    assert_eq!(session.state.rows()[0].fate, Some(fate), "and was found");

    let effects = session.say(Message::Next);
    let sent = kinds(&effects)
        .iter()
        .filter(|kind| **kind == "send")
        .count();
    assert_eq!(sent, 1, "the other probe alone");
    assert_eq!(session.state.phase, StagePhase::Passed);
    assert!(unresolved(&session.runner.journal).is_empty());
}

#[test]
fn a_request_that_never_arrived_stays_unproven_until_the_learner_sends_anew() {
    let mut session = Session::at("send");
    let trace = session.until_silent_at_send();
    let effects = session.restart();
    session.deliver(&effects);
    for _ in 0..3 {
        let effects = session.say(Message::Next);
        assert!(!kinds(&effects).contains(&"send"), "looked up, not sent");
        assert!(matches!(session.state.phase, StagePhase::Unproven { .. }));
    }
    session.say(Message::Retry);
    assert_eq!(session.state.phase, StagePhase::Passed);
    let sends = &session.state.run().unwrap().sends;
    assert!(sends.iter().all(|send| send.trace != trace));
    assert!(session.state.unresolved().is_empty());
}

#[test]
fn a_look_up_under_way_is_given_up_when_the_learner_goes_on() {
    let mut session = Session::at("send");
    session.until_silent_at_send();
    session.restart();
    let effects = session.say(Message::Next);
    assert_eq!(kinds(&effects)[0], "cancel");
    let effects = session.say(Message::Next);
    assert!(!kinds(&effects).contains(&"cancel"), "only once");
}

#[test]
fn every_step_comes_back_as_interrupted() {
    for (keys, step) in [(1, Step::Acting(0)), (2, Step::Gate), (3, Step::Sending(0))] {
        let mut session = Session::at("send");
        let mut messages = VecDeque::from([Message::Next]);
        for _ in 0..keys {
            let Some(message) = messages.pop_front() else {
                break;
            };
            for effect in session.raw(message) {
                let answers = session.runner.answer(&effect);
                messages.extend(
                    answers.into_iter().filter(
                        |message| !matches!(message, Message::Gate(report) if !report.open),
                    ),
                );
            }
        }
        session.restart();
        assert_eq!(session.state.phase, interrupted(step));
        assert!(session.state.footer().next.starts_with("continue: "));
        let effects = session.say(Message::Next);
        // The process may have ended before the stage's snapshot was made; once something is sent, it is of another state.
        let made_up_for = effects
            .iter()
            .any(|effect| matches!(effect, Effect::Snapshot { unless_there, .. } if *unless_there));
        assert_eq!(made_up_for, !matches!(step, Step::Sending(_)), "{step:?}");
        let ended = matches!(
            session.state.phase,
            StagePhase::Passed | StagePhase::Unproven { .. }
        );
        assert!(ended, "{step:?}: {:?}", session.state.phase);
    }
}

#[test]
fn a_passed_stage_comes_back_with_its_judgements_and_rows() {
    let mut session = Session::at("send");
    session.say(Message::Next);
    let (rows, judgements) = (session.state.rows(), session.state.judgements().to_vec());
    let effects = session.restart();
    assert!(effects.is_empty(), "{effects:?}");
    assert_eq!(session.state.rows(), rows);
    assert_eq!(session.state.judgements(), judgements);
    assert_eq!(session.state.phase, StagePhase::Passed);
    session.say(Message::Next);
    assert_eq!(session.state.stage_name(), "fix");
}

#[test]
fn without_a_checkpoint_no_attempt_is_used_again() {
    let mut session = Session::at("fix");
    session.say(Message::Next);
    let attempt = session.state.attempt();
    session.restart_from(None);
    assert_eq!(session.state.stage_name(), "order");
    let kept = session.state.progress_of(testing::LAB).unwrap();
    assert_eq!(kept.attempt, attempt + 1);
    assert!(session.state.rows().iter().all(|row| row.trace.is_none()));
}

#[test]
fn a_lab_or_stage_that_is_gone_is_said() {
    let mut session = Session::at("fix");
    let mut checkpoint = session.state.checkpoint();
    checkpoint.stage = "elsewhere".to_owned();
    session.restart_from(Some(checkpoint.clone()));
    assert_eq!(session.state.lab_name(), testing::LAB);
    assert_eq!(session.state.stage_name(), "read");
    assert!(session.state.found()[0].contains("elsewhere"));
    assert_eq!(session.state.notice(), None, "it is said once");
    checkpoint.lab = "nowhere".to_owned();
    session.restart_from(Some(checkpoint));
    assert_eq!(session.state.stage_name(), "order");
    assert!(session.state.found()[0].contains("nowhere"));
    let fuller = format!("{}; it is kept", session.state.found()[0]);
    session.state.note_found([fuller.clone()]);
    assert_eq!(
        session.state.found(),
        [fuller],
        "what says more stands alone"
    );
}

#[test]
fn the_working_copy_of_a_fix_is_opened_again() {
    let mut session = Session::at("fix");
    assert_eq!(kinds(&session.restart()), ["open"]);
}

#[test]
fn an_edited_manifest_is_applied_even_after_an_unproven_try() {
    let mut session = Session::at("fix");
    session.runner.unseen.insert("discarded".to_owned());
    session.say(Message::Next);
    assert_eq!(session.state.footer().next, "look again");
    session.say(Message::Edited {
        manifest: "sensor.yaml".to_owned(),
    });
    assert!(session.state.footer().next.starts_with("again: apply"));
    session.runner.unseen.clear();
    let effects = session.say(Message::Next);
    assert!(kinds(&effects).contains(&"apply"));
    assert_eq!(session.state.phase, StagePhase::Passed);
}

#[test]
fn fingerprints_are_kept_by_object_and_go_back_with_the_snapshot() {
    let mut lab = LabProgress::default();
    let line = |name: &str, hash: &str| format!("v1 ConfigMap {name} uid {hash}");
    lab.take_fingerprints(vec![line("a", "1"), line("b", "1")]);
    lab.take_fingerprints(vec![line("b", "2")]);
    assert_eq!(lab.fingerprints, [line("a", "1"), line("b", "2")]);

    let mut session = Session::at("send");
    session.here_fingerprints(vec![line("late", "1")]);
    session.say(Message::GoTo {
        lab: testing::LAB.to_owned(),
        stage: 2,
    });
    let kept = session.state.progress_here().unwrap();
    assert_eq!(kept.fingerprints, ["uid"], "as at the start of that stage");
}

#[test]
fn what_is_adopted_is_compared_as_it_is_from_then_on() {
    let line = |kind: &str, name: &str, hash: &str| format!("v1 {kind} {name} uid {hash}");
    let mut session = Session::at("send");
    session.here_fingerprints(vec![
        line("Sensor", "orders", "1"),
        line("Sensor", "orders-b", "1"),
    ]);
    session.say(Message::Drift(vec![Difference {
        text: "Sensor/orders was changed".to_owned(),
        kept: line("Sensor", "orders", "1"),
        live: line("Sensor", "orders", "2"),
    }]));
    session.say(Message::Reconcile(Reconcile::Adopt));
    let kept = &session.state.progress_here().unwrap().fingerprints;
    let compared = |with: &String| kept.iter().any(|line| line.starts_with(with));
    assert!(compared(&line("Sensor", "orders", "2")), "{kept:?}");
    assert!(!compared(&line("Sensor", "orders", "1")), "{kept:?}");
    assert!(compared(&line("Sensor", "orders-b", "1")), "{kept:?}");
}

/// The manifest of a stage goes over a change that was made elsewhere: whoever adopts it hears where it belongs.
#[test]
fn who_adopts_a_change_where_a_manifest_is_edited_hears_where_it_belongs() {
    for (stage, said) in [("fix", true), ("send", false)] {
        let mut session = Session::at(stage);
        session.here_fingerprints(vec![a_difference().kept]);
        session.say(Message::Drift(vec![a_difference()]));
        session.raw(Message::Reconcile(Reconcile::Adopt));
        let notice = session.state.notice().unwrap_or_default();
        assert_eq!(notice.contains("sensor.yaml"), said, "{stage}: {notice}");
    }
}

#[test]
fn a_difference_that_goes_away_is_no_question_any_more_and_what_is_said_of_the_whole_cluster_stays()
{
    let of_all = Difference::of_all("the cluster has lost its objects".to_owned());
    let mut session = Session::at("send");
    session.say(Message::Drift(vec![a_difference()]));
    assert!(session.state.knows(&[a_difference()]));
    session.say(Message::Drift(Vec::new()));
    assert!(!session.state.footer().reconcile);
    let said = session.state.notice().unwrap();
    assert!(said.contains("again as the session left them"), "{said}");
    session.say(Message::Drift(vec![of_all.clone(), a_difference()]));
    for seen in [vec![a_difference()], Vec::new()] {
        session.say(Message::Drift(seen.clone()));
        assert!(session.state.knows(&seen));
        assert_eq!(session.state.drift()[0], of_all.text);
        assert_eq!(session.state.drift().len(), 1 + seen.len());
    }
}

#[test]
fn what_an_apply_has_changed_before_it_failed_is_kept() {
    let line = |name: &str, hash: &str| format!("v1 Role {name} uid {hash}");
    let mut session = Session::at("send");
    session.here_fingerprints(vec![line("a", "1"), line("b", "1")]);
    // Taken back and made anew in one apply: the last one holds.
    session.say(Message::AppliedInPart {
        fingerprints: vec![line("b", "-"), line("b", "2")],
    });
    let kept = &session.state.progress_here().unwrap().fingerprints;
    let known = [line("a", "1"), line("b", "2")];
    assert!(kept.ends_with(&known), "{kept:?}");
}

/// A stage that the journal does not prove any more, or a probe that a newer version of the lab has: said, and to do again.
#[test]
fn old_progress_counts_only_while_the_evidence_proves_it() {
    let session = Session::at("send");
    let whole = session.runner.journal.clone();
    let mut played = session;
    played.say(Message::Next);
    let checkpoint = played.state.checkpoint();
    let passed = |state: &State| state.progress_here().unwrap().passed.clone();
    let back = |entries: &[Entry]| {
        State::resume(
            Some(checkpoint.clone()),
            entries,
            course(),
            Timestamp::UNIX_EPOCH,
        )
        .0
    };
    let again = back(&played.runner.journal);
    assert!(passed(&again).contains("send"), "{:?}", passed(&again));
    assert!(again.found().is_empty(), "{:?}", again.found());
    // The evidence of the send is lost.
    let lost = back(&whole);
    assert!(!passed(&lost).contains("send"));
    assert!(lost.found()[0].contains("`send`"), "{:?}", lost.found());
    // A fact that a judgement rests on is lost.
    let judged = played.runner.journal.iter().find_map(|entry| match entry {
        Entry::Judgement(one) if one.stage == "send" => one.verdict.facts.first().copied(),
        _ => None,
    });
    let without: Vec<Entry> = played
        .runner
        .journal
        .iter()
        .filter(|entry| !matches!(entry, Entry::Fact(fact) if Some(fact.seq) == judged))
        .cloned()
        .collect();
    assert!(!passed(&back(&without)).contains("send"));
}

impl Session {
    pub(super) fn here_fingerprints(&mut self, lines: Vec<String>) {
        self.state.here_mut().take_fingerprints(lines);
    }
}

/// Nothing that was proven over a store that is gone counts, and nothing is looked up in it; the evidence stays.
#[test]
fn a_cluster_that_lost_what_it_held_has_everything_proven_again() {
    let mut session = Session::at("send");
    session.say(Message::Next);
    assert_eq!(session.state.phase, StagePhase::Passed);
    session.restart();
    assert_eq!(session.state.phase, StagePhase::Passed);
    assert!(session.state.lose(&[]).is_empty());
    assert_eq!(session.state.phase, StagePhase::Passed);

    let effects = session.state.lose(&["bus.db is empty".to_owned()]);
    assert_eq!(kinds(&effects), ["journal", "checkpoint"]);
    assert_eq!(session.state.phase, StagePhase::Fresh);
    let kept = session.state.here().unwrap();
    assert!(!kept.passed.contains("send") && !kept.completed);
    assert!(
        session
            .state
            .found()
            .iter()
            .any(|text| text.contains("bus.db"))
    );
    let facts = session.state.facts().len();
    assert!(facts > 0, "the evidence stays");
    let attempt = session.state.attempt();
    session.say(Message::Next);
    assert_eq!(session.state.phase, StagePhase::Passed);
    assert!(session.state.attempt() > attempt, "and proves nothing anew");
}

/// A course that was at its end is not any more, however its stages were taken back, and going by what is left without work
/// does not bring the end back.
#[test]
fn a_finished_course_whose_stages_were_taken_back_is_open_again() {
    let lost = |session: &mut Session| {
        session.state.lose(&["cluster.db is empty".to_owned()]);
    };
    let unproven = |session: &mut Session| {
        let journal = &mut session.runner.journal;
        journal.retain(|entry| !matches!(entry, Entry::Fact(_)));
        session.restart();
    };
    for take_back in [&lost as &dyn Fn(&mut Session), &unproven] {
        let mut session = Session::at("stale");
        session.runner.gate = Some(refusal("invalid-sensor"));
        session.say(Message::Next);
        session.say(Message::Next);
        assert!(session.state.finished() && session.state.open_labs().is_empty());
        assert_eq!(session.state.footer().next, "the course is done");
        take_back(&mut session);
        assert!(!session.state.finished());
        assert!(!session.state.open_labs().is_empty());
        assert!(session.state.footer().next_enabled);
    }
}

#[test]
fn a_debrief_completes_no_lab_whose_stages_were_taken_back() {
    let mut session = Session::at("debrief");
    let lab = session.state.lab_name();
    session.state.lose(&["bus.db is empty".to_owned()]);
    session.say(Message::Next);
    assert_ne!(session.state.lab_name(), lab);
    assert!(session.state.open_labs().contains(&lab));
}
