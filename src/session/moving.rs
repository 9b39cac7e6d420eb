//! From stage to stage and from lab to lab: next, go to, retry, reset, cancel, and what follows a rewind.

use super::claims::missing_claims;
use super::message::{Context, Difference, Effect, GateReport, NO_SNAPSHOT, StepError};
use super::pipeline::{has_work, manifests};
use super::state::{StagePhase, State, Step};
use crate::evidence::journal::IntentAction;
use crate::lab::StageKind;
use crate::words::counted;

impl State {
    pub(super) fn on_next(&mut self, context: &Context, out: &mut Vec<Effect>) {
        if !self.drift.is_empty() {
            self.notice = Some(
                "the cluster is not as this session left it: adopt, re-apply or reset first"
                    .to_owned(),
            );
            return;
        }
        match self.phase.clone() {
            StagePhase::Working { .. } => {
                self.notice = Some("still under way".to_owned());
            }
            StagePhase::Passed => self.advance(out),
            StagePhase::Interrupted { step } if step.is_stage_work() && self.is_outdated() => {
                self.begin(context, out);
            }
            StagePhase::Interrupted { step } => self.resume_step(step, context, out),
            StagePhase::Fresh if self.current_stage().is_some_and(has_work) => {
                self.begin(context, out);
            }
            StagePhase::Fresh => self.pass_by(out),
            StagePhase::Failed { .. } => self.begin(context, out),
            StagePhase::Unproven { .. } if self.is_outdated() => self.begin(context, out),
            StagePhase::Unproven { .. } => self.look_again(context, out),
        }
    }

    /// Whether what was seen says nothing of what the stage would apply now: the learner has edited its manifest since then,
    /// or it was seen over objects that are not those of the lab.
    pub(super) fn is_outdated(&self) -> bool {
        if self.was_foreign() {
            return true;
        }
        let fix = self.current_stage().and_then(|stage| stage.fix.as_ref());
        fix.is_some_and(|fix| {
            self.here()
                .is_some_and(|lab| lab.edited.contains(&fix.manifest))
        })
    }

    /// What was sent is looked up again, never sent again.
    fn look_again(&mut self, context: &Context, out: &mut Vec<Effect>) {
        if self.run().is_some_and(|run| !run.sends.is_empty()) {
            self.gate_opened = false;
            self.resume_sending(context, out);
        } else {
            self.begin(context, out);
        }
    }

    /// A stage without work is left by `next` alone, once what it asks for is there.
    fn pass_by(&mut self, out: &mut Vec<Effect>) {
        if let Some(missing) = self.missing() {
            self.notice = Some(missing);
            return;
        }
        self.snapshot(out);
        self.pass(out);
        self.advance(out);
    }

    /// What a stage without work still wants from the learner.
    pub(super) fn missing(&self) -> Option<String> {
        let stage = self.current_stage()?;
        match stage.kind {
            StageKind::Predict => {
                let open = self.unpredicted();
                let open: Vec<&str> = open.iter().map(|probe| probe.name.as_str()).collect();
                (!open.is_empty()).then(|| format!("predict first: {}", open.join(", ")))
            }
            StageKind::Report => {
                stage.report.as_ref()?;
                missing_claims(&self.claims())
            }
            _ => None,
        }
    }

    /// Goes to the next stage, the next lab, or the end of the course.
    fn advance(&mut self, out: &mut Vec<Effect>) {
        self.forget_unresolved();
        let stages = self.current_lab().map_or(0, |lab| lab.stages.len());
        if self.stage + 1 < stages {
            self.enter(self.lab, self.stage + 1, out);
            return;
        }
        if self.lab + 1 < self.labs.len() {
            let lab = self.lab + 1;
            self.enter(lab, self.standing(lab), out);
        } else {
            self.finished = true;
            out.push(Effect::Checkpoint);
        }
    }

    /// The stage where a lab was left.
    fn standing(&self, lab: usize) -> usize {
        let Some(lab) = self.labs.get(lab) else {
            return 0;
        };
        let at = self.progress.get(&lab.name).map(|kept| kept.stage.as_str());
        lab.stages
            .iter()
            .position(|stage| Some(stage.name.as_str()) == at)
            .unwrap_or(0)
    }

    /// Stands at a stage, with nothing of it done.
    pub(super) fn enter(&mut self, lab: usize, stage: usize, out: &mut Vec<Effect>) {
        self.lab = lab;
        self.stage = stage;
        self.finished = false;
        self.settle_in(out);
    }

    /// The stage is fresh: its working copy is opened and the place written down.
    fn settle_in(&mut self, out: &mut Vec<Effect>) {
        self.phase = StagePhase::Fresh;
        self.held = None;
        self.pending = None;
        self.judgements.clear();
        self.gate = GateReport::default();
        self.gate_opened = false;
        self.note_position();
        let fix = self.current_stage().and_then(|stage| stage.fix.as_ref());
        if let Some(manifest) = fix.map(|fix| fix.manifest.clone()) {
            self.here_mut().working_copies.insert(manifest.clone());
            out.push(Effect::OpenWorkingCopy { manifest });
        }
        out.push(Effect::Checkpoint);
    }

    pub(super) fn go_to(
        &mut self,
        name: &str,
        stage: usize,
        context: &Context,
        out: &mut Vec<Effect>,
    ) {
        let Some(lab) = self.labs.iter().position(|lab| lab.name == name) else {
            self.notice = Some(format!("there is no lab named `{name}`"));
            return;
        };
        let stages = self.labs[lab].stages.len();
        if stage >= stages {
            self.notice = Some(format!("lab `{name}` has {}", counted(stages, "stage")));
            return;
        }
        if stage > self.reached(lab) {
            self.notice = Some(format!(
                "stage {} of `{name}` is not reached yet",
                stage + 1
            ));
            return;
        }
        if (lab, stage) == (self.lab, self.stage) && self.phase == StagePhase::Fresh {
            return;
        }
        self.leave(out);
        if lab != self.lab {
            // Of the objects of the lab that is left: come back to, they are compared again.
            self.drift.retain(Difference::is_of_all);
        }
        self.lab = lab;
        self.stage = stage;
        self.finished = false;
        let target = self.stage_name();
        if let Some(then) = self.here_mut().snapshots.get(&target).cloned() {
            self.here_mut().fingerprints = then;
            self.forget_from(stage);
            let before = self.applied_before();
            self.here_mut().in_force = before;
            let attempt = &mut self.here_mut().attempt;
            *attempt = attempt.saturating_add(1);
            self.settle_in(out);
            self.rewind(context, out);
        } else {
            self.settle_in(out);
        }
    }

    /// The furthest stage of a lab that may be gone to: the first that has not passed, or where it stands.
    pub(super) fn reached(&self, lab: usize) -> usize {
        let Some(found) = self.labs.get(lab) else {
            return 0;
        };
        let Some(kept) = self.progress.get(&found.name) else {
            return 0;
        };
        let open = found
            .stages
            .iter()
            .position(|stage| !kept.passed.contains(&stage.name))
            .unwrap_or(found.stages.len().saturating_sub(1));
        if kept.completed {
            found.stages.len().saturating_sub(1)
        } else {
            open.max(self.standing(lab))
        }
    }

    /// Leaves the present stage so that it can be come back to.
    fn leave(&mut self, out: &mut Vec<Effect>) {
        self.stop_looking(out);
        if self.working().is_some() {
            out.push(Effect::CancelWork);
        }
        let untouched = self.phase == StagePhase::Fresh;
        if untouched && self.attempt() > 0 {
            self.snapshot(out);
        }
    }

    /// What was done from this stage on does not hold in the rewound cluster.
    fn forget_from(&mut self, stage: usize) {
        let Some(lab) = self.current_lab() else {
            return;
        };
        let names: Vec<String> = lab.stages[stage..]
            .iter()
            .map(|stage| stage.name.clone())
            .collect();
        let first = names.first().cloned();
        let kept = self.here_mut();
        for name in names {
            kept.passed.remove(&name);
            kept.runs.remove(&name);
            kept.predictions.remove(&name);
            kept.claims.retain(|claim| claim.stage != name);
            if Some(&name) != first.as_ref() {
                kept.snapshots.remove(&name);
            }
        }
    }

    /// Goes back to the snapshot of the present stage.
    pub(super) fn rewind(&mut self, context: &Context, out: &mut Vec<Effect>) {
        self.work(Step::Rewinding);
        let id = self.intent_id("rewind", context);
        let action = IntentAction::Rewind {
            stage: self.stage_name(),
        };
        self.announce(id, action, out);
        out.push(Effect::Rewind {
            lab: self.lab_name(),
            stage: self.stage,
        });
    }

    pub(super) fn on_rewound(
        &mut self,
        result: Result<(), StepError>,
        context: &Context,
        out: &mut Vec<Effect>,
    ) {
        let step = match self.working() {
            Some(step @ (Step::Rewinding | Step::Resetting)) => step,
            _ => return,
        };
        let ended = result
            .as_ref()
            .map_err(|error| error.text.as_str())
            .copied();
        self.conclude(ended, out);
        match result {
            Ok(()) => {
                self.drift.clear();
                self.settle_in(out);
            }
            Err(error) if step == Step::Rewinding && error.reason == NO_SNAPSHOT => {
                self.reapply(StagePhase::Fresh, context, out);
            }
            Err(error) => {
                self.notice = Some(error.text);
                self.phase = StagePhase::Interrupted { step };
                out.push(Effect::Checkpoint);
            }
        }
    }

    /// Manifests that the stages before the present one apply.
    fn applied_before(&self) -> Vec<String> {
        let mut all = Vec::new();
        let stages = self
            .current_lab()
            .map_or(&[][..], |lab| &lab.stages[..self.stage]);
        for file in stages.iter().flat_map(manifests) {
            if !all.contains(&file) {
                all.push(file);
            }
        }
        all
    }

    /// Applies again what the lab had applied, as a new attempt, and returns to `after`.
    pub(super) fn reapply(&mut self, after: StagePhase, context: &Context, out: &mut Vec<Effect>) {
        let files = self
            .here()
            .map(|lab| lab.in_force.clone())
            .unwrap_or_default();
        self.held = Some(Box::new(after));
        if files.is_empty() {
            self.reapplied(out);
            return;
        }
        let attempt = &mut self.here_mut().attempt;
        *attempt = attempt.saturating_add(1);
        self.work(Step::Reapplying);
        self.apply(files, context, out);
    }

    pub(super) fn reapplied(&mut self, out: &mut Vec<Effect>) {
        self.drift.clear();
        self.phase = self.held.take().map_or(StagePhase::Fresh, |phase| *phase);
        out.push(Effect::Checkpoint);
    }

    pub(super) fn not_reapplied(&mut self, error: &StepError, out: &mut Vec<Effect>) {
        self.notice = Some(error.text.clone());
        self.phase = StagePhase::Interrupted {
            step: Step::Reapplying,
        };
        out.push(Effect::Checkpoint);
    }

    pub(super) fn retry(&mut self, context: &Context, out: &mut Vec<Effect>) {
        if self.working().is_some() {
            self.notice = Some("still under way; cancel it first".to_owned());
        } else if !self.drift.is_empty() {
            self.notice = Some("adopt, re-apply or reset first".to_owned());
        } else if matches!(
            self.phase,
            StagePhase::Interrupted {
                step: Step::Rewinding | Step::Resetting | Step::Reapplying
            }
        ) {
            self.on_next(context, out);
        } else if self.current_stage().is_some_and(has_work) {
            self.begin(context, out);
        } else {
            self.notice = Some("there is nothing to do again in this stage".to_owned());
        }
    }

    pub(super) fn reset(&mut self, context: &Context, out: &mut Vec<Effect>) {
        self.stop_looking(out);
        if self.working().is_some() {
            out.push(Effect::CancelWork);
        }
        self.note("reset", "lab started over", out);
        let name = self.lab_name();
        self.stage = 0;
        let first = self.stage_name();
        let kept = self.here_mut().started_over(&first);
        self.progress.insert(name, kept);
        self.unresolved.clear();
        self.finished = false;
        self.drift.clear();
        self.held = None;
        self.judgements.clear();
        self.gate = GateReport::default();
        self.note_position();
        self.work(Step::Resetting);
        let id = self.intent_id("reset", context);
        self.announce(id, IntentAction::Reset, out);
        out.push(Effect::Reset {
            lab: self.lab_name(),
        });
    }

    pub(super) fn cancel(&mut self, out: &mut Vec<Effect>) {
        let Some(step) = self.working() else {
            return;
        };
        self.phase = StagePhase::Interrupted { step };
        out.push(Effect::CancelWork);
        out.push(Effect::Checkpoint);
    }
}
