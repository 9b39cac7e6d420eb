//! What is waited for, and what the keys would do now.

use jiff::Timestamp;

use super::pipeline::{has_work, manifests};
use super::state::{StagePhase, State, Step};
use crate::evidence::{CellState, Layer};
use crate::lab::{Action, GateMode, Stage, StageKind};

/// What is waited for, and since when.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    pub what: String,
    pub since: Timestamp,
}

/// What a key would do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// Short phrase for what `next` does: `apply and send 2 probes`.
    pub next: String,
    /// False while something is under way or an answer is missing.
    pub next_enabled: bool,
    pub edit: bool,
    pub hint: bool,
    pub reveal: bool,
    pub retry: bool,
    pub cancel: bool,
    pub predict: bool,
    pub report: bool,
    /// Adopt, re-apply or reset is asked for.
    pub reconcile: bool,
}

impl State {
    /// What is waited for now; a cluster of which nothing is heard before everything else, also while nothing is under way.
    #[must_use]
    pub fn wait(&self) -> Option<Wait> {
        if let Some(wait) = &self.unheard {
            return Some(wait.clone());
        }
        let StagePhase::Working { step, since } = &self.phase else {
            return None;
        };
        let (what, since) = match step {
            Step::Gate => self.gate_wait(*since),
            step => (self.step_phrase(*step), *since),
        };
        // It is said to be waited for wherever it is shown.
        let what = what
            .strip_prefix("waiting for ")
            .map(str::to_owned)
            .unwrap_or(what);
        Some(Wait { what, since })
    }

    fn gate_wait(&self, since: Timestamp) -> (String, Timestamp) {
        match self
            .gate
            .conditions
            .iter()
            .find(|condition| !condition.holds)
        {
            Some(open) => (
                format!("{}: {}", open.name, open.detail),
                open.since.unwrap_or(since),
            ),
            None => ("the gate".to_owned(), since),
        }
    }

    /// What a step does, in a few words.
    #[must_use]
    pub fn step_phrase(&self, step: Step) -> String {
        let probe = |index: usize| {
            self.current_stage()
                .and_then(|stage| stage.probes.get(index))
                .map_or("the probe", |probe| probe.name.as_str())
        };
        match step {
            Step::Rewinding => "going back to the start of the stage".to_owned(),
            Step::Resetting => "starting the lab over".to_owned(),
            Step::Reapplying => "applying again".to_owned(),
            Step::Applying => "applying".to_owned(),
            Step::Acting(index) => self
                .current_stage()
                .and_then(|stage| stage.before.get(index))
                .map_or_else(|| "action".to_owned(), Action::phrase),
            Step::Preparing(index, action) => self
                .current_stage()
                .and_then(|stage| stage.probes.get(index)?.before.get(action))
                .map_or_else(|| "action".to_owned(), Action::phrase),
            Step::Gate => "waiting for the gate".to_owned(),
            Step::Sending(index) => format!("sending {}", probe(index)),
            Step::Settling(index) => {
                format!("waiting for what was sent, before {}", probe(index))
            }
            Step::Reviewing => self
                .current_stage()
                .map_or("looking", |stage| {
                    if stage.access.is_empty() {
                        "reading what stands in the ledger"
                    } else {
                        "asking what the accounts may do"
                    }
                })
                .to_owned(),
            Step::Collecting => match self.first_pending() {
                Some((probe, layer)) => format!("{probe}: {layer}"),
                None => "collecting facts".to_owned(),
            },
        }
    }

    fn first_pending(&self) -> Option<(String, Layer)> {
        self.rows().iter().find_map(|row| {
            let layer = Layer::ALL
                .into_iter()
                .find(|layer| row.cell(*layer).state == CellState::Pending)?;
            Some((row.probe.clone(), layer))
        })
    }

    /// What the keys do now.
    #[must_use]
    pub fn footer(&self) -> Footer {
        let Some(stage) = self.current_stage() else {
            return Footer::default();
        };
        let working = self.working().is_some();
        let fix = stage.fix.as_ref();
        let tried = self.here().is_some_and(|lab| {
            lab.failures
                .get(&stage.name)
                .is_some_and(|tries| *tries > 0)
        });
        let settled = self.drift.is_empty();
        let missing =
            self.phase == StagePhase::Fresh && !has_work(stage) && self.missing().is_some();
        Footer {
            next: self.next_phrase(stage),
            next_enabled: !working && settled && !missing && !self.finished,
            edit: fix.is_some(),
            hint: fix.is_some_and(|fix| self.hints().len() < fix.hints.len()),
            reveal: fix.is_some() && tried && !self.revealed(),
            retry: !working && settled && has_work(stage) && self.phase != StagePhase::Fresh,
            cancel: working,
            predict: stage.predicts.is_some() && self.phase == StagePhase::Fresh,
            report: stage.report.is_some() && self.phase == StagePhase::Fresh,
            reconcile: !settled && !working,
        }
    }

    fn next_phrase(&self, stage: &Stage) -> String {
        if !self.drift.is_empty() && self.working().is_none() {
            return "adopt, re-apply or reset".to_owned();
        }
        match &self.phase {
            StagePhase::Working { step, .. } => self.step_phrase(*step),
            StagePhase::Interrupted { step } if step.is_stage_work() && self.is_outdated() => {
                work_phrase(stage)
            }
            StagePhase::Interrupted { step } => {
                format!("continue: {}", self.step_phrase(*step))
            }
            StagePhase::Passed => self.onward(),
            StagePhase::Unproven { .. }
                if !self.is_outdated() && self.run().is_some_and(|run| !run.sends.is_empty()) =>
            {
                "look again".to_owned()
            }
            StagePhase::Failed { .. } | StagePhase::Unproven { .. } => {
                format!("again: {}", work_phrase(stage))
            }
            StagePhase::Fresh if has_work(stage) => work_phrase(stage),
            StagePhase::Fresh => self.missing().unwrap_or_else(|| self.onward()),
        }
    }

    fn onward(&self) -> String {
        let last_stage = self
            .current_lab()
            .is_none_or(|lab| self.stage + 1 >= lab.stages.len());
        if self.finished {
            match self.open_labs().len() {
                0 => "the course is done".to_owned(),
                1 => "the last lab is done, 1 lab is not complete".to_owned(),
                open => format!("the last lab is done, {open} labs are not complete"),
            }
        } else if !last_stage {
            "next stage".to_owned()
        } else if let Some(next) = self.labs.get(self.lab + 1) {
            format!("next lab: {}", next.name)
        } else {
            "finish".to_owned()
        }
    }
}

/// What the work of a stage is: `apply, wait for the gate, send 2 probes`.
fn work_phrase(stage: &Stage) -> String {
    let mut parts = Vec::new();
    if stage.kind == StageKind::Fix || !manifests(stage).is_empty() {
        parts.push("apply".to_owned());
    }
    parts.extend(stage.before.iter().map(Action::phrase));
    if stage.gate != GateMode::None {
        parts.push("wait for the gate".to_owned());
    }
    match stage.probes.len() {
        0 => {}
        1 => parts.push("send 1 probe".to_owned()),
        count => parts.push(format!("send {count} probes")),
    }
    parts.join(", ")
}
