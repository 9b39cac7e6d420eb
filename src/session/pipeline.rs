//! A stage's work, step by step: snapshot, apply, actions, gate; then what [`super::sending`] does.
//!
//! Each step ends with a message of the runner, which starts the next one. Whatever fails for a reason of the environment
//! leaves the stage unproven, never failed.

use super::checking::gate_opened;
use super::message::{Context, Effect, GateReport, SendOutcome, StepError};
use super::progress::{OpenReason, StageFailure, StageRun};
use super::state::{StagePhase, State, Step};
use crate::evidence::journal::IntentAction;
use crate::lab::{Action, GateMode, Stage};

/// Whether [`super::Message::Next`] has something to do in this stage besides going on.
pub(super) fn has_work(stage: &Stage) -> bool {
    !stage.apply.is_empty()
        || stage.fix.is_some()
        || !stage.before.is_empty()
        || stage.gate != GateMode::None
        || !stage.probes.is_empty()
        || !stage.access.is_empty()
        || !stage.orders.is_empty()
}

/// What a stage applies: its manifests, then the one that the learner edits.
pub(super) fn manifests(stage: &Stage) -> Vec<String> {
    let mut all = stage.apply.clone();
    if let Some(fix) = &stage.fix
        && !all.contains(&fix.manifest)
    {
        all.push(fix.manifest.clone());
    }
    all
}

impl State {
    /// Starts a go at the stage's work.
    pub(super) fn begin(&mut self, context: &Context, out: &mut Vec<Effect>) {
        let Some(stage) = self.current_stage().cloned() else {
            return;
        };
        self.stop_looking(out);
        self.snapshot(out);
        self.judgements.clear();
        self.gate = GateReport::default();
        self.gate_opened = false;
        self.forget_unresolved();
        let files = manifests(&stage);
        let lab = self.here_mut();
        lab.passed.remove(&stage.name);
        let sent_before = lab
            .runs
            .get(&stage.name)
            .is_some_and(|run| run.attempt == lab.attempt && !run.sends.is_empty());
        // Facts of an earlier go must not count for this one, and its orders must be new.
        if !files.is_empty() || lab.attempt == 0 || sent_before {
            lab.attempt = lab.attempt.saturating_add(1);
        }
        let run = StageRun {
            attempt: lab.attempt,
            ..StageRun::default()
        };
        lab.runs.insert(stage.name.clone(), run);
        if files.is_empty() {
            self.act(0, context, out);
        } else {
            self.work(Step::Applying);
            self.apply(files, context, out);
        }
    }

    /// Requests of an earlier process are of no interest once their stage is done again or left.
    pub(super) fn forget_unresolved(&mut self) {
        let (lab, stage) = (self.lab_name(), self.stage_name());
        self.unresolved
            .retain(|intent| intent.lab != lab || intent.stage != stage);
    }

    /// Ends the look-up that followed a restart, so that it does not keep the runner busy.
    pub(super) fn stop_looking(&mut self, out: &mut Vec<Effect>) {
        if std::mem::take(&mut self.looking) {
            out.push(Effect::CancelWork);
        }
    }

    /// The snapshot of a stage is taken once, before its first work.
    pub(super) fn snapshot(&mut self, out: &mut Vec<Effect>) {
        let name = self.stage_name();
        let lab = self.here_mut();
        if lab.snapshots.contains_key(&name) {
            self.make_up_for_snapshot(out);
        } else {
            lab.snapshots.insert(name, lab.fingerprints.clone());
            self.push_snapshot(self.stage, false, out);
        }
    }

    fn push_snapshot(&self, stage: usize, unless_there: bool, out: &mut Vec<Effect>) {
        out.push(Effect::Snapshot {
            lab: self.lab_name(),
            stage,
            unless_there,
        });
    }

    /// Stages just before this one that change nothing begin with what this one begins with: an earlier process may have
    /// ended before it made their snapshots.
    pub(super) fn make_up_for_earlier(&self, out: &mut Vec<Effect>) {
        let (Some(lab), Some(kept)) = (self.current_lab(), self.here()) else {
            return;
        };
        if self.run().is_some_and(|run| !run.sends.is_empty()) {
            return;
        }
        let before = lab.stages.iter().enumerate().take(self.stage).rev();
        for (index, stage) in before.take_while(|(_, stage)| !has_work(stage)) {
            if kept.snapshots.contains_key(&stage.name) {
                self.push_snapshot(index, true, out);
            }
        }
    }

    /// What was cut off may have been cut off before its snapshot was made; once something was sent, it was not.
    fn make_up_for_snapshot(&self, out: &mut Vec<Effect>) {
        let begun = self
            .here()
            .is_some_and(|lab| lab.snapshots.contains_key(&self.stage_name()));
        if begun && self.run().is_none_or(|run| run.sends.is_empty()) {
            self.push_snapshot(self.stage, true, out);
        }
    }

    pub(super) fn apply(&mut self, files: Vec<String>, context: &Context, out: &mut Vec<Effect>) {
        let lab = self.here_mut();
        for file in &files {
            lab.edited.remove(file);
            if !lab.in_force.contains(file) {
                lab.in_force.push(file.clone());
            }
        }
        let id = self.intent_id("apply", context);
        let action = IntentAction::Apply {
            manifests: files.clone(),
        };
        self.announce(id, action, out);
        out.push(Effect::Apply {
            lab: self.lab_name(),
            stage: self.stage_name(),
            attempt: self.attempt(),
            manifests: files,
        });
    }

    pub(super) fn on_applied(
        &mut self,
        attempt: u32,
        result: Result<Vec<String>, StepError>,
        context: &Context,
        out: &mut Vec<Effect>,
    ) {
        let step = match self.working() {
            Some(step @ (Step::Applying | Step::Reapplying)) if attempt == self.attempt() => step,
            _ => return,
        };
        let ended = result
            .as_ref()
            .map(|_| ())
            .map_err(|error| error.text.as_str());
        self.conclude(ended, out);
        match result {
            Ok(fingerprints) => {
                self.here_mut().take_fingerprints(fingerprints);
                if step == Step::Reapplying {
                    self.reapplied(out);
                } else {
                    self.act(0, context, out);
                }
            }
            Err(error) if step == Step::Reapplying => self.not_reapplied(&error, out),
            Err(error) => self.stop(&error, out),
        }
    }

    /// Does the n-th action, or goes on to the gate when there is none left.
    pub(super) fn act(&mut self, index: usize, context: &Context, out: &mut Vec<Effect>) {
        let action = self
            .current_stage()
            .and_then(|stage| stage.before.get(index).cloned());
        let Some(action) = action else {
            self.open_gate(context, out);
            return;
        };
        self.work(Step::Acting(index));
        self.start_action(action, context, out);
    }

    /// Does an action of the stage, or of one of its probes.
    pub(super) fn start_action(
        &mut self,
        action: Action,
        context: &Context,
        out: &mut Vec<Effect>,
    ) {
        let id = self.intent_id("act", context);
        let what = action.to_string();
        self.announce(id, IntentAction::Act { what }, out);
        out.push(Effect::Act {
            lab: self.lab_name(),
            stage: self.stage_name(),
            attempt: self.attempt(),
            action,
        });
    }

    pub(super) fn on_acted(
        &mut self,
        action: Action,
        result: Result<(), StepError>,
        context: &Context,
        out: &mut Vec<Effect>,
    ) {
        let (step, list) = match (self.working(), self.current_stage()) {
            (Some(step @ Step::Acting(index)), Some(stage)) => (step, stage.before.get(index)),
            (Some(step @ Step::Preparing(probe, index)), Some(stage)) => {
                let probe = stage.probes.get(probe);
                (step, probe.and_then(|probe| probe.before.get(index)))
            }
            _ => return,
        };
        if list != Some(&action) {
            return;
        }
        let ended = result
            .as_ref()
            .map_err(|error| error.text.as_str())
            .copied();
        self.conclude(ended, out);
        match result {
            Ok(()) => match step {
                Step::Acting(index) => self.act(index + 1, context, out),
                Step::Preparing(probe, index) => self.prepare(probe, index + 1, context, out),
                _ => {}
            },
            // The action is ours, so its failure is never the learner's.
            Err(error) => self.stop(
                &StepError {
                    environment: true,
                    ..error
                },
                out,
            ),
        }
    }

    /// Looks at the gate, or sends at once where the stage asks for none.
    pub(super) fn open_gate(&mut self, context: &Context, out: &mut Vec<Effect>) {
        let mode = self.gate_mode();
        if mode == GateMode::None {
            self.send_next(context, out);
            return;
        }
        self.gate_opened = false;
        self.gate = GateReport::default();
        self.work(Step::Gate);
        out.push(Effect::Checkpoint);
        out.push(Effect::OpenGate {
            lab: self.lab_name(),
            stage: self.stage_name(),
            attempt: self.attempt(),
            mode,
            must_fail: self.gate_must_fail(),
        });
    }

    fn gate_mode(&self) -> GateMode {
        self.current_stage()
            .map_or(GateMode::None, |stage| stage.gate)
    }

    pub(super) fn on_gate(&mut self, report: GateReport, context: &Context, out: &mut Vec<Effect>) {
        self.gate = report;
        if self.working() != Some(Step::Gate) {
            return;
        }
        let failed = self.gate.failed.clone();
        match (self.gate_must_fail(), failed) {
            (Some(reason), Some(error)) if error.reason == reason => {
                self.gate_opened = true;
                self.send_next(context, out);
            }
            // A gate that does not open is what this stage sees; the probes show what runs all the same.
            (_, Some(_)) if self.observes() => {
                self.gate_opened = true;
                self.send_next(context, out);
            }
            (_, Some(error)) => self.stop(&error, out),
            (Some(reason), None) if self.gate.open => self.stop(&gate_opened(&reason), out),
            (None, None) if self.gate.open => {
                self.gate_opened = true;
                self.send_next(context, out);
            }
            (_, None) => {}
        }
    }

    pub(super) fn pass(&mut self, out: &mut Vec<Effect>) {
        let stage = self.stage_name();
        let stages = self.current_lab().map_or(&[][..], |lab| &lab.stages);
        let last = self.stage + 1 >= stages.len();
        let worked = stages.iter().filter(|stage| has_work(stage));
        let worked: Vec<String> = worked.map(|stage| stage.name.clone()).collect();
        let lab = self.here_mut();
        lab.passed.insert(stage);
        // A stage that was taken back is open, although those after it were passed by.
        lab.completed |= last && worked.iter().all(|stage| lab.passed.contains(stage));
        self.phase = StagePhase::Passed;
        out.push(Effect::Checkpoint);
    }

    pub(super) fn fail(&mut self, failures: Vec<StageFailure>, out: &mut Vec<Effect>) {
        let stage = self.stage_name();
        *self.here_mut().failures.entry(stage).or_default() += 1;
        self.phase = StagePhase::Failed { failures };
        out.push(Effect::Checkpoint);
    }

    /// A step could not be done: a failure of what was applied, or of the environment.
    pub(super) fn stop(&mut self, error: &StepError, out: &mut Vec<Effect>) {
        self.pending = None;
        if error.environment {
            self.phase = StagePhase::Unproven {
                reasons: vec![OpenReason {
                    probe: None,
                    reason: error.reason.clone(),
                    text: error.text.clone(),
                    environment: true,
                }],
            };
            out.push(Effect::Checkpoint);
            return;
        }
        let failure = StageFailure {
            probe: None,
            reason: error.reason.clone(),
            text: error.text.clone(),
            expected: None,
            observed: None,
            access: None,
            order: None,
            line: None,
        };
        // What does not start over objects of somebody else's is not what the learner has applied.
        let at_gate = self.working() == Some(Step::Gate);
        match at_gate
            .then(|| self.failed_over_foreign(&failure))
            .flatten()
        {
            Some(phase) => {
                self.phase = phase;
                out.push(Effect::Checkpoint);
            }
            None => self.fail(vec![failure], out),
        }
    }

    /// Takes a cancelled or cut-off step up again. What may have been sent is never sent again.
    pub(super) fn resume_step(&mut self, step: Step, context: &Context, out: &mut Vec<Effect>) {
        self.stop_looking(out);
        self.gate_opened = false;
        match step {
            Step::Rewinding => self.rewind(context, out),
            Step::Resetting => self.reset(context, out),
            Step::Reapplying => {
                let held = self.held.take().map_or(StagePhase::Fresh, |phase| *phase);
                self.reapply(held, context, out);
            }
            // Nobody knows whether the action before a probe was done: the stage starts over, with new orders.
            Step::Applying | Step::Preparing(..) => self.begin(context, out),
            _ => {
                self.make_up_for_snapshot(out);
                self.resume_sending(context, out);
            }
        }
    }

    pub(super) fn resume_sending(&mut self, context: &Context, out: &mut Vec<Effect>) {
        let probes = self.current_stage().map_or(0, |stage| stage.probes.len());
        let Some(run) = self.run_mut() else {
            self.begin(context, out);
            return;
        };
        run.sends.retain(|send| !send.was_not_sent());
        for send in &mut run.sends {
            send.outcome.get_or_insert(SendOutcome::Unresolved);
        }
        let sent = run.sends.len();
        // What is done before a probe may have been done already, and must not be done twice for one order.
        let prepared = self
            .current_stage()
            .and_then(|stage| stage.probes.get(sent))
            .is_some_and(|probe| !probe.before.is_empty());
        if prepared {
            self.begin(context, out);
            return;
        }
        match sent {
            0 => self.act(0, context, out),
            sent if sent >= probes => self.collect(Step::Collecting, out),
            _ => self.open_gate(context, out),
        }
    }
}
