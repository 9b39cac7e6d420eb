//! What a stage checks besides the fates of its probes: access, events that must stay as they were, a gate that must fail.

use super::message::{Effect, StepError};
use super::state::{State, Step};
use crate::cluster::attempt_name;
use crate::evidence::journal::Judgement;
use crate::evidence::{AccessExpectation, Occasion, OrderExpectation, Scope, stays_as_it_was};
use crate::lab::{AccessCheck, Stage};

impl State {
    /// Asks for the access reviews of the stage, or judges at once where there are none.
    pub(super) fn review(&mut self, out: &mut Vec<Effect>) {
        let Some(stage) = self.current_stage() else {
            return;
        };
        if stage.access.is_empty() && stage.orders.is_empty() {
            if stage.probes.is_empty() && stage.not_repeated.is_empty() {
                self.pass_over_own(out);
            } else {
                self.judge_stage(None, out);
            }
            return;
        }
        let effect = Effect::Review {
            lab: self.lab_name(),
            stage: stage.name.clone(),
            attempt: self.attempt(),
            rights: access_expectations(stage)
                .into_iter()
                .map(|expectation| expectation.right)
                .collect(),
            orders: self.order_expectations(stage, self.run().map_or(0, |run| run.attempt)),
        };
        self.work(Step::Reviewing);
        out.push(Effect::Checkpoint);
        out.push(effect);
    }

    pub(super) fn on_reviewed(&mut self, result: Result<(), StepError>, out: &mut Vec<Effect>) {
        if self.working() == Some(Step::Reviewing) {
            let not_looked = result.err().map(|error| error.text);
            self.judge_stage(not_looked.as_deref(), out);
        }
    }

    /// The reason for which the gate of the present stage must fail.
    pub(super) fn gate_must_fail(&self) -> Option<String> {
        self.current_stage()
            .and_then(|stage| stage.gate_fails.clone())
    }

    /// Judges the probes of earlier stages that must not be handled again.
    pub(super) fn not_repeated(&self, stage: &Stage, occasion: Occasion<'_>) -> Vec<Judgement> {
        let facts = self.facts.get(occasion.lab).map_or(&[][..], Vec::as_slice);
        stage
            .not_repeated
            .iter()
            .map(|name| {
                let run = self.here().and_then(|lab| lab.runs.get(&name.stage));
                let then = Scope {
                    lab: occasion.lab,
                    attempt: run.map_or(0, |run| run.attempt),
                    settled: true,
                };
                let row = self.row_of(&name.stage, &name.probe);
                occasion.judgement(stays_as_it_was(
                    &row,
                    &name.stage,
                    facts,
                    then,
                    occasion.attempt,
                ))
            })
            .collect()
    }
}

/// What a stage expects of rights.
pub(super) fn access_expectations(stage: &Stage) -> Vec<AccessExpectation> {
    stage.access.iter().map(AccessCheck::expectation).collect()
}

impl State {
    /// What a stage expects of orders, under the names that this session gives them.
    pub(super) fn order_expectations(&self, stage: &Stage, attempt: u32) -> Vec<OrderExpectation> {
        let name = attempt_name(attempt, self.tag.as_deref());
        stage
            .orders
            .iter()
            .map(|check| check.expectation(&name))
            .collect()
    }
}

/// The gate opened although the stage says that it must fail.
pub(super) fn gate_opened(reason: &str) -> StepError {
    StepError {
        reason: "gate-opened".to_owned(),
        text: format!("the gate opened, and was to fail with {reason}"),
        environment: false,
    }
}
