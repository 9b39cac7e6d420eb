//! A stage's work, step by step: snapshot, apply, actions, gate, one probe after another, collect, judge.
//!
//! Each step ends with a message of the runner, which starts the next one. Whatever fails for a reason of the environment
//! leaves the stage unproven, never failed.

use super::checking::{access_expectations, gate_opened};
use super::message::{Context, Effect, GateReport, SendOutcome, StepError};
use super::progress::{OpenReason, ProbeSend, StageFailure, StageRun};
use super::resume::NOT_SENT;
use super::state::{StagePhase, State, Step};
use crate::evidence::journal::IntentAction;
use crate::evidence::{
    Entry, Expectation, Fate, Occasion, Outcome, Scope, judge, judge_access, rows, trace_id,
};
use crate::lab::{Action, GateMode, Stage};

/// Whether [`super::Message::Next`] has something to do in this stage besides going on.
pub(super) fn has_work(stage: &Stage) -> bool {
    !stage.apply.is_empty()
        || stage.fix.is_some()
        || !stage.before.is_empty()
        || stage.gate != GateMode::None
        || !stage.probes.is_empty()
        || !stage.access.is_empty()
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

/// The word of an action in a lab file.
pub(super) fn action_name(action: Action) -> &'static str {
    match action {
        Action::DeleteSensorPod => "delete-sensor-pod",
        Action::KillSensorPod => "kill-sensor-pod",
    }
}

impl State {
    /// Starts a go at the stage's work.
    pub(super) fn begin(&mut self, context: &Context, out: &mut Vec<Effect>) {
        let Some(stage) = self.current_stage().cloned() else {
            return;
        };
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

    /// The snapshot of a stage is taken once, before its first work.
    pub(super) fn snapshot(&mut self, out: &mut Vec<Effect>) {
        let name = self.stage_name();
        if self.here_mut().snapshots.insert(name) {
            out.push(Effect::Snapshot {
                lab: self.lab_name(),
                stage: self.stage,
            });
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
                self.here_mut().fingerprints = fingerprints;
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
            .and_then(|stage| stage.before.get(index).copied());
        let Some(action) = action else {
            self.open_gate(context, out);
            return;
        };
        self.work(Step::Acting(index));
        let what = action_name(action);
        let id = self.intent_id(what, context);
        self.announce(
            id,
            IntentAction::Act {
                what: what.to_owned(),
            },
            out,
        );
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
        let Some(Step::Acting(index)) = self.working() else {
            return;
        };
        let expected = self
            .current_stage()
            .and_then(|stage| stage.before.get(index).copied());
        if expected != Some(action) {
            return;
        }
        let ended = result
            .as_ref()
            .map_err(|error| error.text.as_str())
            .copied();
        self.conclude(ended, out);
        match result {
            Ok(()) => self.act(index + 1, context, out),
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
            (_, Some(error)) => self.stop(&error, out),
            (Some(reason), None) if self.gate.open => self.stop(&gate_opened(&reason), out),
            (None, None) if self.gate.open => {
                self.gate_opened = true;
                self.send_next(context, out);
            }
            (_, None) => {}
        }
    }

    /// Sends the next probe, or collects when all are sent.
    fn send_next(&mut self, context: &Context, out: &mut Vec<Effect>) {
        let Some(stage) = self.current_stage().cloned() else {
            return;
        };
        if stage.probes.is_empty() {
            self.review(out);
            return;
        }
        let attempt = self.attempt();
        let run = self.here_mut().runs.entry(stage.name.clone()).or_default();
        let index = run.sends.len();
        let Some(probe) = stage.probes.get(index) else {
            self.collect(Step::Collecting, out);
            return;
        };
        // What becomes of a probe can depend on those before it: they come to their end first.
        if run.settled < index {
            self.collect(Step::Settling(index), out);
            return;
        }
        if stage.gate != GateMode::None && !self.gate_opened {
            self.open_gate(context, out);
            return;
        }
        let trace = self.fresh_trace(&probe.name, context);
        if let Some(run) = self.run_mut() {
            run.attempt = attempt;
            run.sends.push(ProbeSend {
                probe: probe.name.clone(),
                trace: trace.clone(),
                outcome: None,
            });
        }
        self.work(Step::Sending(index));
        let action = IntentAction::Send {
            probe: probe.name.clone(),
        };
        self.announce(trace.clone(), action, out);
        out.push(Effect::Send {
            lab: self.lab_name(),
            stage: stage.name.clone(),
            attempt,
            trace,
            probe: Box::new(probe.clone()),
        });
    }

    /// A trace that this lab has not used, whatever the id source gives.
    fn fresh_trace(&self, probe: &str, context: &Context) -> String {
        let lab = self.lab_name();
        let used = |trace: &str| {
            let sent = self.here().is_some_and(|lab| {
                lab.runs
                    .values()
                    .flat_map(|run| &run.sends)
                    .any(|send| send.trace == trace)
            });
            sent || self.unresolved.iter().any(|intent| intent.id == trace)
        };
        let mut id = context.id;
        loop {
            let trace = trace_id(&lab, self.attempt(), probe, id);
            if !used(&trace) {
                return trace;
            }
            id = id.wrapping_add(1);
        }
    }

    pub(super) fn on_sent(
        &mut self,
        probe: &str,
        trace: &str,
        outcome: SendOutcome,
        context: &Context,
        out: &mut Vec<Effect>,
    ) {
        let known = self.run_mut().and_then(|run| {
            run.sends
                .iter_mut()
                .find(|send| send.trace == trace && send.probe == probe)
        });
        let Some(send) = known else {
            return;
        };
        if send
            .outcome
            .as_ref()
            .is_some_and(|known| *known != SendOutcome::Unresolved)
        {
            return;
        }
        send.outcome = Some(outcome.clone());
        if self.pending.as_deref() == Some(trace) {
            self.pending = None;
        }
        self.unresolved.retain(|intent| intent.id != trace);
        match &outcome {
            SendOutcome::Answered { .. } => {
                self.journal_outcome(trace.to_owned(), Ok(()), out);
            }
            SendOutcome::Lost { error } => {
                self.journal_outcome(trace.to_owned(), Err(error), out);
            }
            SendOutcome::NotSent { error } => {
                let result = format!("{NOT_SENT}{error}");
                self.journal_outcome(trace.to_owned(), Err(&result), out);
            }
            SendOutcome::Unresolved => {}
        }
        if !self.is_sending(trace) {
            out.push(Effect::Checkpoint);
            return;
        }
        match outcome {
            SendOutcome::NotSent { error } => {
                let text = format!("{probe} was not sent: {error}");
                let error = StepError {
                    reason: "not-sent".to_owned(),
                    text,
                    environment: true,
                };
                self.stop(&error, out);
            }
            _ => self.send_next(context, out),
        }
    }

    /// Whether the request under way now is the one with this trace.
    fn is_sending(&self, trace: &str) -> bool {
        let Some(Step::Sending(index)) = self.working() else {
            return false;
        };
        self.run()
            .and_then(|run| run.sends.get(index))
            .is_some_and(|send| send.trace == trace)
    }

    /// Waits for what was sent so far.
    pub(super) fn collect(&mut self, step: Step, out: &mut Vec<Effect>) {
        self.work(step);
        out.push(Effect::Checkpoint);
        self.push_collect(out);
    }

    pub(super) fn push_collect(&self, out: &mut Vec<Effect>) {
        let (Some(stage), Some(run)) = (self.current_stage(), self.run()) else {
            return;
        };
        let probes: Vec<(String, String, Fate)> = run
            .sends
            .iter()
            .filter(|send| !send.was_not_sent())
            .filter_map(|send| {
                let probe = stage.probes.iter().find(|probe| probe.name == send.probe)?;
                Some((send.probe.clone(), send.trace.clone(), probe.fate.clone()))
            })
            .collect();
        if probes.is_empty() {
            return;
        }
        out.push(Effect::Collect {
            lab: self.lab_name(),
            stage: stage.name.clone(),
            attempt: run.attempt,
            probes,
        });
    }

    pub(super) fn on_collected(&mut self, context: &Context, out: &mut Vec<Effect>) {
        match self.working() {
            Some(Step::Settling(index)) => {
                if let Some(run) = self.run_mut() {
                    run.settled = index;
                }
                if self.all_settled() {
                    self.send_next(context, out);
                } else {
                    // A later probe would be judged by what an earlier one may or may not have done.
                    self.judge_stage(None, out);
                }
            }
            Some(Step::Collecting) => self.review(out),
            _ => {}
        }
    }

    /// Whether the fate of everything sent in this go is known.
    fn all_settled(&self) -> bool {
        let (Some(lab), Some(run)) = (self.current_lab(), self.run()) else {
            return false;
        };
        let scope = Scope {
            lab: &lab.name,
            attempt: run.attempt,
            settled: true,
        };
        let facts = self.facts.get(&lab.name).map_or(&[][..], Vec::as_slice);
        let sent = run.probe_runs();
        rows(&sent, facts, scope)
            .iter()
            .take(sent.len())
            .all(|row| row.fate.is_some())
    }

    /// Judges everything that the stage expects; `not_looked` says why access could not be reviewed.
    pub(super) fn judge_stage(&mut self, not_looked: Option<&str>, out: &mut Vec<Effect>) {
        let (Some(stage), Some(run)) = (self.current_stage().cloned(), self.run().cloned()) else {
            return;
        };
        let lab = self.lab_name();
        let occasion = Occasion {
            time: self.now,
            lab: &lab,
            stage: &stage.name,
            attempt: run.attempt,
        };
        let scope = Scope {
            lab: &lab,
            attempt: run.attempt,
            settled: true,
        };
        let facts = self.facts.get(&lab).map_or(&[][..], Vec::as_slice);
        let rows = rows(&run.probe_runs(), facts, scope);
        let mut judgements = judge(occasion, &expectations(&stage, &run), &rows, facts);
        judgements.extend(self.not_repeated(&stage, occasion));
        let rights = access_expectations(&stage);
        judgements.extend(judge_access(occasion, &rights, facts, not_looked));
        for judgement in &judgements {
            out.push(Effect::Journal(Box::new(Entry::Judgement(
                judgement.clone(),
            ))));
        }
        self.judgements = judgements;
        self.conclude_stage(not_looked.is_some(), out);
    }

    /// Refuted wins over unproven, since it rests on facts. `blind` says that access could not be reviewed.
    fn conclude_stage(&mut self, blind: bool, out: &mut Vec<Effect>) {
        let of = |outcome: Outcome| {
            self.judgements
                .iter()
                .filter(move |one| one.verdict.outcome == outcome)
        };
        let failures: Vec<StageFailure> = of(Outcome::Refuted)
            .map(|one| StageFailure {
                probe: one.probe.clone(),
                reason: StageFailure::FATE.to_owned(),
                text: sentence(&one.verdict.claim, one.verdict.because.as_deref()),
                expected: one.expected.clone(),
                observed: one.observed.clone(),
                access: one.access.clone(),
            })
            .collect();
        let reasons: Vec<OpenReason> = of(Outcome::Unproven)
            .map(|one| OpenReason {
                probe: one.probe.clone(),
                reason: "evidence".to_owned(),
                text: sentence(&one.verdict.claim, one.verdict.because.as_deref()),
                environment: blind && one.access.is_some(),
            })
            .collect();
        if !failures.is_empty() {
            self.fail(failures, out);
        } else if reasons.is_empty() {
            self.pass(out);
        } else {
            self.phase = StagePhase::Unproven { reasons };
            out.push(Effect::Checkpoint);
        }
    }

    pub(super) fn pass(&mut self, out: &mut Vec<Effect>) {
        let stage = self.stage_name();
        let last = self
            .current_lab()
            .is_some_and(|lab| self.stage + 1 >= lab.stages.len());
        let lab = self.here_mut();
        lab.passed.insert(stage);
        lab.completed |= last;
        self.phase = StagePhase::Passed;
        out.push(Effect::Checkpoint);
    }

    fn fail(&mut self, failures: Vec<StageFailure>, out: &mut Vec<Effect>) {
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
        };
        self.fail(vec![failure], out);
    }

    /// Takes a cancelled or cut-off step up again. What may have been sent is never sent again.
    pub(super) fn resume_step(&mut self, step: Step, context: &Context, out: &mut Vec<Effect>) {
        self.gate_opened = false;
        match step {
            Step::Rewinding => self.rewind(context, out),
            Step::Resetting => self.reset(context, out),
            Step::Reapplying => {
                let held = self.held.take().map_or(StagePhase::Fresh, |phase| *phase);
                self.reapply(held, context, out);
            }
            Step::Applying => self.begin(context, out),
            _ => self.resume_sending(context, out),
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
        match run.sends.len() {
            0 => self.act(0, context, out),
            sent if sent >= probes => self.collect(Step::Collecting, out),
            _ => self.open_gate(context, out),
        }
    }
}

fn expectations(stage: &Stage, run: &StageRun) -> Vec<Expectation> {
    stage
        .probes
        .iter()
        .map(|probe| Expectation {
            probe: probe.name.clone(),
            trace: run
                .sends
                .iter()
                .find(|send| send.probe == probe.name && !send.was_not_sent())
                .map(|send| send.trace.clone()),
            fate: probe.fate.clone(),
            control: probe.control,
        })
        .collect()
}

fn sentence(claim: &str, because: Option<&str>) -> String {
    match because {
        Some(because) => format!("{claim} ({because})"),
        None => claim.to_owned(),
    }
}
