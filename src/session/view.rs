//! What the screen and the shell read: rows, counters, what is waited for, what the next key does.

use std::sync::Arc;

use jiff::Timestamp;

use super::message::GateReport;
use super::pipeline::{action_name, has_work, manifests};
use super::progress::{LabProgress, StageRun};
use super::state::{StagePhase, State, Step};
use crate::evidence::journal::{Intent, Judgement};
use crate::evidence::{CellState, Counters, Fact, Layer, Row, Scope, counters, rows};
use crate::lab::{GateMode, Lab, Stage, StageKind};

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

/// One prediction against what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictionScore {
    pub probe: String,
    /// `None` predicted an effect.
    pub predicted: Option<Layer>,
    /// `None` while it is not settled; else the layer that stopped it, if any did.
    pub observed: Option<Option<Layer>>,
}

impl PredictionScore {
    /// `None` while it is not settled.
    #[must_use]
    pub fn right(&self) -> Option<bool> {
        self.observed.map(|observed| observed == self.predicted)
    }
}

/// How far a lab is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabStanding {
    pub name: String,
    pub title: String,
    pub passed: usize,
    pub stages: usize,
    pub completed: bool,
    pub current: bool,
}

impl State {
    /// All labs in course order.
    #[must_use]
    pub fn labs(&self) -> &Arc<[Lab]> {
        &self.labs
    }

    /// The current lab; `None` only without any labs.
    #[must_use]
    pub fn lab(&self) -> Option<&Lab> {
        self.current_lab()
    }

    /// The current stage.
    #[must_use]
    pub fn stage(&self) -> Option<&Stage> {
        self.current_stage()
    }

    /// Index of the current stage, from 0.
    #[must_use]
    pub fn stage_index(&self) -> usize {
        self.stage
    }

    #[must_use]
    pub fn phase(&self) -> &StagePhase {
        &self.phase
    }

    /// Everything that is kept of the current lab.
    #[must_use]
    pub fn progress_here(&self) -> Option<&LabProgress> {
        self.here()
    }

    /// Everything that is kept of a lab.
    #[must_use]
    pub fn progress_of(&self, lab: &str) -> Option<&LabProgress> {
        self.progress.get(lab)
    }

    /// Whether the working copy of a manifest is to be applied instead of the original.
    ///
    /// From the first stage on that lets the learner edit it; before that the lab shows the original.
    #[must_use]
    pub fn uses_working_copy(&self, manifest: &str) -> bool {
        self.current_lab().is_some_and(|lab| {
            lab.stages.iter().take(self.stage + 1).any(|stage| {
                stage
                    .fix
                    .as_ref()
                    .is_some_and(|fix| fix.manifest == manifest)
            })
        })
    }

    /// The gate as last seen in this stage.
    #[must_use]
    pub fn gate(&self) -> &GateReport {
        &self.gate
    }

    /// Judgements of the last go at the current stage.
    #[must_use]
    pub fn judgements(&self) -> &[Judgement] {
        &self.judgements
    }

    /// How cluster and checkpoint differ; empty when they do not, or when that was settled.
    #[must_use]
    pub fn drift(&self) -> &[String] {
        &self.drift
    }

    /// What the last key could not do, and why.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Requests of an earlier process that may or may not have been sent.
    #[must_use]
    pub fn unresolved(&self) -> &[Intent] {
        &self.unresolved
    }

    /// The last lab has passed.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// The latest time this state was told.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Facts of the current lab in journal order.
    #[must_use]
    pub fn facts(&self) -> &[Fact] {
        self.current_lab()
            .and_then(|lab| self.facts.get(&lab.name))
            .map_or(&[], Vec::as_slice)
    }

    /// The fact with this number, of any lab.
    #[must_use]
    pub fn fact(&self, seq: u64) -> Option<&Fact> {
        self.facts.values().find_map(|list| {
            list.binary_search_by_key(&seq, |fact| fact.seq)
                .ok()
                .map(|at| &list[at])
        })
    }

    /// The probe table: that of the current stage, of the stage it predicts or reports on, or the last one before it.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        match self.shown_stage() {
            Some(stage) => self.rows_of(stage),
            None => Vec::new(),
        }
    }

    fn shown_stage(&self) -> Option<&Stage> {
        let lab = self.current_lab()?;
        let stage = self.current_stage()?;
        let named = |name: &str| lab.stages.iter().find(|stage| stage.name == name);
        if !stage.probes.is_empty() {
            return Some(stage);
        }
        if let Some(name) = &stage.predicts {
            return named(name);
        }
        if let Some(task) = &stage.report {
            return named(&task.stage);
        }
        lab.stages[..self.stage]
            .iter()
            .rev()
            .find(|stage| !stage.probes.is_empty())
    }

    /// The probe table of a stage of the current lab; probes that were not sent have blank rows.
    #[must_use]
    pub fn rows_of(&self, stage: &Stage) -> Vec<Row> {
        let run = self.here().and_then(|lab| lab.runs.get(&stage.name));
        let Some(run) = run else {
            return stage
                .probes
                .iter()
                .map(|probe| Row::blank(&probe.name))
                .collect();
        };
        let runs = run.probe_runs();
        let mut sent = rows(&runs, self.facts(), self.scope(run.attempt));
        let own = sent.split_off(runs.len());
        let mut table: Vec<Row> = stage
            .probes
            .iter()
            .map(|probe| {
                sent.iter()
                    .find(|row| row.probe == probe.name)
                    .cloned()
                    .unwrap_or_else(|| Row::blank(&probe.name))
            })
            .collect();
        table.extend(own);
        table
    }

    /// The row of one probe; blank when it was not sent.
    pub(super) fn row_of(&self, stage: &str, probe: &str) -> Row {
        let found = self
            .current_lab()
            .and_then(|lab| lab.stages.iter().find(|one| one.name == stage))
            .and_then(|stage| {
                self.rows_of(stage)
                    .into_iter()
                    .find(|row| row.probe == probe)
            });
        found.unwrap_or_else(|| Row::blank(probe))
    }

    fn scope(&self, attempt: u32) -> Scope<'_> {
        Scope {
            lab: self.current_lab().map_or("", |lab| &lab.name),
            attempt,
            settled: self.working().is_none(),
        }
    }

    /// The four counters of the attempt whose rows are shown.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let shown = self.shown_stage().map(|stage| stage.name.as_str());
        let run = shown.and_then(|name| self.here()?.runs.get(name));
        let attempt = run.map_or_else(|| self.attempt(), |run| run.attempt);
        counters(self.facts(), self.scope(attempt))
    }

    /// The last go at the current stage.
    #[must_use]
    pub fn stage_run(&self) -> Option<&StageRun> {
        self.run()
    }

    /// Hints shown in this stage.
    #[must_use]
    pub fn hints(&self) -> &[String] {
        let Some(stage) = self.current_stage() else {
            return &[];
        };
        let shown = self
            .here()
            .and_then(|lab| lab.hints.get(&stage.name))
            .copied();
        stage.fix.as_ref().map_or(&[], |fix| {
            let shown = shown.unwrap_or(0).min(fix.hints.len());
            &fix.hints[..shown]
        })
    }

    /// Whether the solution of this stage may be shown.
    #[must_use]
    pub fn revealed(&self) -> bool {
        self.here()
            .is_some_and(|lab| lab.revealed.contains(&self.stage_name()))
    }

    /// The learner's predictions for a stage against what was seen of it.
    #[must_use]
    pub fn predictions_of(&self, stage: &str) -> Vec<PredictionScore> {
        let given = self.here().and_then(|lab| lab.predictions.get(stage));
        let Some(given) = given else {
            return Vec::new();
        };
        given
            .iter()
            .map(|(probe, predicted)| PredictionScore {
                probe: probe.clone(),
                predicted: *predicted,
                observed: self.row_of(stage, probe).fate.map(|fate| fate.stops_at()),
            })
            .collect()
    }

    /// Right and settled predictions of the current lab.
    #[must_use]
    pub fn prediction_score(&self) -> (usize, usize) {
        let stages = self
            .here()
            .map(|lab| lab.predictions.keys().cloned().collect::<Vec<_>>());
        let verdicts: Vec<bool> = stages
            .unwrap_or_default()
            .iter()
            .flat_map(|stage| self.predictions_of(stage))
            .filter_map(|score| score.right())
            .collect();
        (
            verdicts.iter().filter(|right| **right).count(),
            verdicts.len(),
        )
    }

    /// Every numbered lab and how far it is.
    #[must_use]
    pub fn standings(&self) -> Vec<LabStanding> {
        self.labs
            .iter()
            .enumerate()
            .filter(|(_, lab)| !lab.intro)
            .map(|(index, lab)| {
                let kept = self.progress.get(&lab.name);
                LabStanding {
                    name: lab.name.clone(),
                    title: lab.title.clone(),
                    passed: kept.map_or(0, |kept| {
                        lab.stages
                            .iter()
                            .filter(|stage| kept.passed.contains(&stage.name))
                            .count()
                    }),
                    stages: lab.stages.len(),
                    completed: kept.is_some_and(|kept| kept.completed),
                    current: index == self.lab,
                }
            })
            .collect()
    }

    /// Completed labs and all labs, without the intro.
    #[must_use]
    pub fn course_progress(&self) -> (usize, usize) {
        let all = self.standings();
        (all.iter().filter(|lab| lab.completed).count(), all.len())
    }

    /// What is waited for now.
    #[must_use]
    pub fn wait(&self) -> Option<Wait> {
        let StagePhase::Working { step, since } = &self.phase else {
            return None;
        };
        let (what, since) = match step {
            Step::Gate => self.gate_wait(*since),
            step => (self.step_phrase(*step), *since),
        };
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
                .map_or("action", |action| action_name(*action))
                .replace('-', " "),
            Step::Gate => "waiting for the gate".to_owned(),
            Step::Sending(index) => format!("sending {}", probe(index)),
            Step::Settling(index) => {
                format!("waiting for what was sent, before {}", probe(index))
            }
            Step::Reviewing => "asking what the accounts may do".to_owned(),
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
        if !self.drift.is_empty() {
            return "adopt, re-apply or reset".to_owned();
        }
        match &self.phase {
            StagePhase::Working { step, .. } => self.step_phrase(*step),
            StagePhase::Interrupted { step } => {
                format!("continue: {}", self.step_phrase(*step))
            }
            StagePhase::Passed => self.onward(),
            StagePhase::Unproven { .. } if self.run().is_some_and(|run| !run.sends.is_empty()) => {
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
            "the course is done".to_owned()
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
    parts.extend(
        stage
            .before
            .iter()
            .map(|action| action_name(*action).replace('-', " ")),
    );
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
