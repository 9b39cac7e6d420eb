//! What the judgements of a go say together, in the learner's words.

use std::collections::BTreeSet;

use super::foreign::{FOREIGN, is_of_foreign};
use super::message::Effect;
use super::progress::{OpenReason, StageFailure};
use super::state::{StagePhase, State};
use crate::evidence::journal::Judgement;
use crate::evidence::{Fact, Fate, Observation, Outcome, Reason};

/// So many characters of an error are told.
const SAID: usize = 300;

impl State {
    /// A judgement for the learner, who knows a probe by the title that the table shows.
    fn told(&self, one: &Judgement) -> String {
        let text = sentence(&one.verdict.claim, one.verdict.because.as_deref());
        let Some((name, stage)) = one.probe.as_ref().zip(self.current_stage()) else {
            return text;
        };
        let of_name = stage.probes.iter().find(|probe| probe.name == *name);
        let (Some(probe), Some(rest)) = (of_name, text.strip_prefix(&format!("{name}: "))) else {
            return text;
        };
        let title = &probe.title;
        let alike = stage.probes.iter().filter(|other| other.title == *title);
        match alike.count() {
            1 => format!("{title}: expected {rest}"),
            _ => format!("{title} ({name}): expected {rest}"),
        }
    }

    /// As [`State::told`], with what the Sensor said of a filter that ended with an error; of each such error once.
    fn told_with_its_error(&self, one: &Judgement, said: &mut BTreeSet<String>) -> String {
        let text = self.told(one);
        let is_error = matches!(
            one.observed,
            Some(Fate::Stopped {
                reason: Reason::FilterError | Reason::BadPattern,
                ..
            })
        );
        let of_fact = |fact: &Fact| match &fact.observation {
            Observation::Discarded { error: Some(error) }
                if one.verdict.facts.contains(&fact.seq) =>
            {
                Some(error.chars().take(SAID).collect::<String>())
            }
            _ => None,
        };
        let error = self.facts().iter().rev().find_map(of_fact);
        match error.filter(|_| is_error) {
            Some(error) if said.insert(error.clone()) => format!("{text}; it said: {error}"),
            _ => text,
        }
    }

    /// The line of the last of these facts.
    fn line_of(&self, facts: &[u64]) -> Option<String> {
        let last = facts.iter().max()?;
        let fact = self.facts().iter().find(|fact| fact.seq == *last)?;
        (!fact.line.is_empty()).then(|| fact.line.clone())
    }

    pub(super) fn conclude_stage(
        &mut self,
        blind: bool,
        hindered: &[String],
        out: &mut Vec<Effect>,
    ) {
        match self.concluded(blind, hindered) {
            StagePhase::Failed { failures } => self.fail(failures, out),
            StagePhase::Passed => self.pass(out),
            phase => {
                self.phase = phase;
                out.push(Effect::Checkpoint);
            }
        }
    }

    /// What the judgements of the present go say together. Refuted wins over unproven, since it rests on facts; of facts that
    /// may be of somebody else's objects it does not. `blind` says that access could not be reviewed, `hindered` which probes
    /// the environment has kept from their way.
    pub(super) fn concluded(&self, blind: bool, hindered: &[String]) -> StagePhase {
        let failures = self.refuted();
        let cut_off = self.run().is_some_and(|run| run.cut_off);
        let foreign = self.judgements.iter().any(is_of_foreign);
        let (others, failures): (Vec<StageFailure>, Vec<StageFailure>) =
            failures.into_iter().partition(|_| foreign);
        let (lost, failures): (Vec<StageFailure>, Vec<StageFailure>) = failures
            .into_iter()
            .partition(|failure| cut_off && failure.may_be_of_a_lost_pod());
        let mut reasons = self.open(blind, hindered);
        reasons.sort_by_key(|reason| reason.reason != FOREIGN);
        reasons.extend(others.into_iter().map(|failure| OpenReason {
            probe: failure.probe,
            reason: failure.reason,
            text: failure.text,
            environment: false,
        }));
        reasons.extend(lost.into_iter().map(|failure| OpenReason {
            probe: failure.probe,
            reason: "cut-off".to_owned(),
            text: format!(
                "{}; the program ended meanwhile, and its pods with it: do the stage again",
                failure.text
            ),
            environment: false,
        }));
        if !failures.is_empty() {
            StagePhase::Failed { failures }
        } else if reasons.is_empty() {
            StagePhase::Passed
        } else {
            StagePhase::Unproven { reasons }
        }
    }

    fn judged(&self, outcome: Outcome) -> impl Iterator<Item = &Judgement> {
        self.judgements
            .iter()
            .filter(move |one| one.verdict.outcome == outcome)
    }

    fn refuted(&self) -> Vec<StageFailure> {
        let mut said = BTreeSet::new();
        self.judged(Outcome::Refuted)
            .map(|one| StageFailure {
                probe: one.probe.clone(),
                reason: StageFailure::FATE.to_owned(),
                text: self.told_with_its_error(one, &mut said),
                expected: one.expected.clone(),
                observed: one.observed.clone(),
                access: one.access.clone(),
                order: one.order.clone(),
                line: self.line_of(&one.verdict.facts),
            })
            .collect()
    }

    fn open(&self, blind: bool, hindered: &[String]) -> Vec<OpenReason> {
        self.judged(Outcome::Unproven)
            .map(|one| OpenReason {
                probe: one.probe.clone(),
                reason: match one {
                    one if is_of_foreign(one) => FOREIGN.to_owned(),
                    one if one.verdict.is_too_late() => OpenReason::TOO_LATE.to_owned(),
                    _ => "evidence".to_owned(),
                },
                text: self.told(one),
                environment: match &one.probe {
                    Some(probe) => hindered.contains(probe),
                    None => blind && (one.access.is_some() || one.order.is_some()),
                },
            })
            .collect()
    }
}

pub(super) fn sentence(claim: &str, because: Option<&str>) -> String {
    match because {
        Some(because) => format!("{claim} ({because})"),
        None => claim.to_owned(),
    }
}
