//! Stages that only look, and reports on a layer that need not have stopped the event.

use super::*;
use crate::evidence::journal::ClaimAnswer;

/// The stage `send` of the main lab only looks.
fn watching(change: impl Fn(&mut Stage)) -> Session {
    let mut session = Session::at("send");
    let mut labs = session.state.labs.to_vec();
    for stage in labs.iter_mut().flat_map(|lab| &mut lab.stages) {
        if stage.name == "send" {
            stage.observe = true;
        }
        change(stage);
    }
    session.state.labs = labs.into();
    session
}

fn sends(session: &Session) -> usize {
    let send = |effect: &&Effect| matches!(effect, Effect::Send { .. });
    session.runner.effects.iter().filter(send).count()
}

#[test]
fn a_gate_that_fails_and_requests_that_nobody_takes_are_seen_and_judged_by_nobody() {
    let mut session = watching(|_| {});
    session.runner.gate = Some(StepError {
        reason: "nobody-listens".to_owned(),
        text: "no".to_owned(),
        environment: false,
    });
    session.runner.not_sent = true;
    let before = sends(&session);
    let effects = session.say(Message::Next);
    assert_eq!(session.state.phase, StagePhase::Passed);
    assert_eq!(sends(&session) - before, 2);
    assert!(session.state.judgements().is_empty());
    assert!(!kinds(&effects).join(" ").contains("judgement"));
}

#[test]
fn what_is_not_as_expected_does_not_fail_a_stage_that_looks() {
    let mut session = watching(|_| {});
    session
        .runner
        .fates
        .insert("flat".to_owned(), Fate::Applied);
    session.say(Message::Next);
    assert_eq!(session.state.phase, StagePhase::Passed);
    let rows = session.state.rows();
    assert_eq!(rows[1].fate, Some(Fate::Applied));
}

#[test]
fn a_report_can_ask_for_a_layer_that_stopped_nothing() {
    let mut session = watching(|stage| {
        if let Some(task) = &mut stage.report {
            task.layer = Some(Layer::Effect);
        }
    });
    session
        .runner
        .fates
        .insert("flat".to_owned(), Fate::Applied);
    session.skip_to_report();
    let row = session.state.row_of("send", "flat");
    let [stored, effect] = [Layer::Bus, Layer::Effect].map(|layer| row.cell(layer).facts[0]);
    session.tell("layer", "filter");
    session.tell("fact", &stored.to_string());
    let claims = session.state.claims();
    for claim in &claims {
        let told = matches!(&claim.answer, ClaimAnswer::ContradictedBy { because, .. } if !because.contains("effect"));
        assert!(told, "it must not say where the fault is: {claim:?}");
    }
    session.tell("layer", "effect");
    session.tell("fact", &effect.to_string());
    for claim in session.state.claims() {
        assert!(
            matches!(claim.answer, ClaimAnswer::SupportedBy { .. }),
            "{claim:?}"
        );
    }
}

impl Session {
    /// To the report stage, whatever the stages before it make of the fates.
    fn skip_to_report(&mut self) {
        for _ in 0..20 {
            if self.state.stage_name() == "report" {
                return;
            }
            self.say(Message::Next);
            if let StagePhase::Failed { .. } = self.state.phase {
                self.runner.fates.clear();
            }
        }
        panic!("the report was not reached: {:?}", self.state.phase);
    }
}
