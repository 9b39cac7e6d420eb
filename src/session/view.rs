//! What the screen and the shell read: labs, rows, counters, predictions, how far the course is.

use std::sync::Arc;

use jiff::Timestamp;

use super::message::GateReport;
use super::progress::{LabProgress, StageRun};
use super::state::{StagePhase, State};
use crate::evidence::journal::{Intent, Judgement};
use crate::evidence::{
    AccessRow, Counters, Fact, Layer, MatrixLine, Row, Scope, access_table, counters, matrix_line,
    rows,
};
use crate::lab::{Lab, Stage};

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

    /// Whether the working copy of a manifest is to be applied in the current stage, see [`uses_working_copy`].
    #[must_use]
    pub fn uses_working_copy(&self, manifest: &str) -> bool {
        match (self.current_lab(), self.current_stage()) {
            (Some(lab), Some(stage)) => uses_working_copy(lab, &stage.name, manifest),
            _ => false,
        }
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

    /// How cluster and checkpoint differ, one line each; empty when they do not, or when that was settled.
    #[must_use]
    pub fn drift(&self) -> Vec<&str> {
        self.drift.iter().map(|one| one.text.as_str()).collect()
    }

    /// What was found damaged, or otherwise than the session left it, when it was taken up; until the learner goes on.
    #[must_use]
    pub fn found(&self) -> &[String] {
        &self.found
    }

    /// Has something to say that was found when the session was taken up; what says more of the same is said instead.
    pub fn note_found(&mut self, texts: impl IntoIterator<Item = String>) {
        for text in texts {
            self.found.retain(|known| !text.starts_with(known.as_str()));
            self.found.push(text);
        }
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

    /// The last lab has passed, whatever became of those before it.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// The numbered labs that are not complete.
    #[must_use]
    pub fn open_labs(&self) -> Vec<String> {
        let standings = self.standings().into_iter();
        let open = standings.filter(|lab| !lab.completed);
        open.map(|lab| lab.name).collect()
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

    /// The stage whose probe table is shown.
    #[must_use]
    pub fn shown_stage(&self) -> Option<&Stage> {
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
        match (shown, run) {
            // Its rows are blank, and what was counted before does not belong beside them.
            (Some(_), None) => Counters::default(),
            (_, run) => {
                let attempt = run.map_or_else(|| self.attempt(), |run| run.attempt);
                counters(self.facts(), self.scope(attempt))
            }
        }
    }

    /// What service accounts may do in the current lab, as it was found and as it is.
    #[must_use]
    pub fn access(&self) -> Vec<AccessRow> {
        let lab = self.current_lab().map_or("", |lab| &lab.name);
        access_table(self.facts(), lab)
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

    /// The learner's predictions for a stage against what was seen of it, in the order of its probes.
    #[must_use]
    pub fn predictions_of(&self, stage: &str) -> Vec<PredictionScore> {
        let given = self.here().and_then(|lab| lab.predictions.get(stage));
        let Some(given) = given else {
            return Vec::new();
        };
        let probes = self
            .current_lab()
            .and_then(|lab| lab.stages.iter().find(|one| one.name == stage))
            .map_or(&[][..], |found| &found.probes);
        let place = |probe: &str| probes.iter().position(|one| one.name == probe);
        let mut scores: Vec<PredictionScore> = given
            .iter()
            .map(|(probe, predicted)| PredictionScore {
                probe: probe.clone(),
                predicted: *predicted,
                observed: self.row_of(stage, probe).fate.map(|fate| fate.stops_at()),
            })
            .collect();
        scores.sort_by_key(|score| place(&score.probe));
        scores
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

    /// The furthest stage of a lab that may be gone to, counted from 0.
    #[must_use]
    pub fn reached_in(&self, lab: &str) -> usize {
        let place = self.labs.iter().position(|one| one.name == lab);
        place.map_or(0, |place| self.reached(place))
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

    /// The lines of the verification matrix so far, when the current lab is one.
    #[must_use]
    pub fn matrix(&self) -> Option<Vec<MatrixLine>> {
        self.matrix_of(&self.current_lab()?.name)
    }

    /// The lines of a lab that is a verification matrix.
    #[must_use]
    pub fn matrix_of(&self, lab: &str) -> Option<Vec<MatrixLine>> {
        let lab = self.labs.iter().find(|one| one.name == lab && one.matrix)?;
        let kept = self.progress.get(&lab.name)?;
        let facts = self.facts.get(&lab.name).map_or(&[][..], Vec::as_slice);
        let sends = lab.stages.iter().filter(|stage| !stage.orders.is_empty());
        Some(
            sends
                .filter_map(|stage| {
                    let scope = Scope {
                        lab: &lab.name,
                        attempt: kept.runs.get(&stage.name)?.attempt,
                        settled: true,
                    };
                    let passed = kept.passed.contains(&stage.name);
                    let (name, title) = (&stage.name, &stage.title);
                    Some(matrix_line(facts, scope, name, title, passed))
                })
                .collect(),
        )
    }

    /// Completed labs and all labs, without the intro.
    #[must_use]
    pub fn course_progress(&self) -> (usize, usize) {
        let all = self.standings();
        (all.iter().filter(|lab| lab.completed).count(), all.len())
    }
}

/// Whether the working copy of a manifest is to be applied in a stage instead of the original.
///
/// It is from the first stage on that lets the learner edit it; a stage before that shows the original, also when the
/// learner has come back to it.
#[must_use]
pub fn uses_working_copy(lab: &Lab, stage: &str, manifest: &str) -> bool {
    let at = lab.stages.iter().position(|one| one.name == stage);
    at.is_some_and(|at| {
        lab.stages[..=at]
            .iter()
            .any(|one| one.fix.as_ref().is_some_and(|fix| fix.manifest == manifest))
    })
}
