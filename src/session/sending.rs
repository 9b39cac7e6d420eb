//! The second half of a stage's work: one probe after another, collect, judge.
//!
//! A probe is sent once for its trace, after its intent, and when the fate of those before it is known.

use super::checking::access_expectations;
use super::message::{Context, Effect, SendOutcome, StepError};
use super::progress::{OpenReason, ProbeSend, StageRun};
use super::resume::NOT_SENT;
use super::state::{StagePhase, State, Step};
use crate::evidence::journal::{IntentAction, Judgement};
use crate::evidence::{
    Entry, Expectation, Fact, Fate, Observation, Occasion, Outcome, ProbeRun, Row, Scope, judge,
    judge_access, judge_orders, rows, trace_id, was_hindered,
};
use crate::lab::{GateMode, Stage};

impl State {
    /// Sends the next probe, or collects when all are sent.
    pub(super) fn send_next(&mut self, context: &Context, out: &mut Vec<Effect>) {
        let Some(stage) = self.current_stage().cloned() else {
            return;
        };
        if stage.probes.is_empty() {
            self.review(out);
            return;
        }
        let run = self.here_mut().runs.entry(stage.name.clone()).or_default();
        let index = run.sends.len();
        let any_sent = run.sends.iter().any(|send| !send.was_not_sent());
        let settled = run.settled;
        let Some(probe) = stage.probes.get(index) else {
            if any_sent {
                self.collect(Step::Collecting, out);
            } else {
                self.review(out);
            }
            return;
        };
        // What becomes of a probe can depend on those before it: they come to their end first.
        if settled < index && any_sent && !stage.together {
            self.collect(Step::Settling(index), out);
            return;
        }
        if stage.gate != GateMode::None && !self.gate_opened {
            self.open_gate(context, out);
            return;
        }
        if probe.before.is_empty() {
            self.send_probe(index, context, out);
        } else {
            self.prepare(index, 0, context, out);
        }
    }

    /// Does the n-th action before a probe, or sends the probe when there is none left.
    pub(super) fn prepare(
        &mut self,
        probe: usize,
        action: usize,
        context: &Context,
        out: &mut Vec<Effect>,
    ) {
        let next = self
            .current_stage()
            .and_then(|stage| stage.probes.get(probe)?.before.get(action).cloned());
        match next {
            Some(one) => {
                self.work(Step::Preparing(probe, action));
                self.start_action(one, context, out);
            }
            None => self.send_probe(probe, context, out),
        }
    }

    fn send_probe(&mut self, index: usize, context: &Context, out: &mut Vec<Effect>) {
        let Some(stage) = self.current_stage().cloned() else {
            return;
        };
        let Some(probe) = stage.probes.get(index) else {
            return;
        };
        let attempt = self.attempt();
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
            SendOutcome::NotSent { error } if !self.observes() => {
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

    /// Asks for what was sent to be looked up; false when nothing was.
    pub(super) fn push_collect(&self, out: &mut Vec<Effect>) -> bool {
        let (Some(stage), Some(run)) = (self.current_stage(), self.run()) else {
            return false;
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
            return false;
        }
        out.push(Effect::Collect {
            lab: self.lab_name(),
            stage: stage.name.clone(),
            attempt: run.attempt,
            probes,
        });
        true
    }

    pub(super) fn on_collected(&mut self, context: &Context, out: &mut Vec<Effect>) {
        match self.working() {
            Some(Step::Settling(index)) if self.all_settled() || self.observes() => {
                if let Some(run) = self.run_mut() {
                    run.settled = index;
                }
                self.send_next(context, out);
            }
            // A later probe would be judged by what an earlier one may or may not have done.
            Some(Step::Settling(_)) => self.judge_stage(None, out),
            Some(Step::Collecting) => self.review(out),
            _ => self.looking = false,
        }
    }

    /// Whether the present stage only looks.
    pub(super) fn observes(&self) -> bool {
        self.current_stage().is_some_and(|stage| stage.observe)
    }

    /// Whether the fate of everything sent in this go is known.
    pub(super) fn all_settled(&self) -> bool {
        let (Some(lab), Some(run)) = (self.current_lab(), self.run()) else {
            return false;
        };
        let scope = Scope {
            lab: &lab.name,
            attempt: run.attempt,
            settled: true,
        };
        all_known(&run.probe_runs(), self.facts(), scope)
    }

    /// Judges everything that the stage expects; `not_looked` says why access could not be reviewed.
    pub(super) fn judge_stage(&mut self, not_looked: Option<&str>, out: &mut Vec<Effect>) {
        let (Some(stage), Some(run)) = (self.current_stage().cloned(), self.run().cloned()) else {
            return;
        };
        if stage.observe && run.cut_off && !self.all_settled() {
            self.phase = StagePhase::Unproven {
                reasons: vec![OpenReason {
                    probe: None,
                    reason: "cut-off".to_owned(),
                    text: "the program ended while these requests were under way: what became of them cannot be seen any more, send them again"
                        .to_owned(),
                    environment: false,
                }],
            };
            out.push(Effect::Checkpoint);
            return;
        }
        if stage.observe {
            self.notice = self
                .gate
                .failed
                .as_ref()
                .map(|error| format!("the gate did not open: {}", error.text));
            self.pass_over_own(out);
            return;
        }
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
        let mut judgements = judge(occasion, &expectations(&stage, &run, &rows), &rows, facts);
        judgements.extend(self.not_repeated(&stage, occasion));
        let rights = access_expectations(&stage);
        judgements.extend(judge_access(occasion, &rights, facts, not_looked));
        let orders = self.order_expectations(&stage, run.attempt);
        // What came after the look at the orders says nothing of what the look could have seen.
        let look = facts.iter().rposition(|fact| {
            is_look(fact) && fact.stage == stage.name && fact.attempt == run.attempt
        });
        let until_then = look.and_then(|look| facts.get(..look)).unwrap_or(facts);
        let hindered = hindered(&judgements, &rows);
        let open = if !hindered.is_empty() {
            Some("the environment kept a request or a run from its work")
        } else if !all_known(&run.probe_runs(), until_then, scope) {
            Some("a run had not ended by then")
        } else {
            None
        };
        judgements.extend(judge_orders(occasion, &orders, facts, not_looked, open));
        let foreign = self.foreign();
        judgements.extend(foreign.map(|verdict| occasion.judgement(verdict)));
        for judgement in &judgements {
            out.push(Effect::Journal(Box::new(Entry::Judgement(
                judgement.clone(),
            ))));
        }
        self.judgements = judgements;
        self.conclude_stage(not_looked.is_some(), &hindered, out);
    }
}

/// What the stage expects; a probe with alternatives is held to the one that was seen.
fn expectations(stage: &Stage, run: &StageRun, rows: &[Row]) -> Vec<Expectation> {
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
            fate: probe.fate_for(seen_fate(&probe.name, rows)).clone(),
            control: probe.control,
        })
        .collect()
}

fn seen_fate<'a>(probe: &str, rows: &'a [Row]) -> Option<&'a Fate> {
    let row = rows.iter().find(|row| row.probe == probe)?;
    row.fate.as_ref()
}

/// Whether the fate of each of these requests is known from these facts. Rows of others, such as the learner's own, come
/// after theirs.
fn all_known(sent: &[ProbeRun], facts: &[Fact], scope: Scope<'_>) -> bool {
    rows(sent, facts, scope)
        .iter()
        .take(sent.len())
        .all(|row| row.fate.is_some())
}

/// Probes that are not proven because the environment did not take them.
fn hindered(judgements: &[Judgement], rows: &[Row]) -> Vec<String> {
    judgements
        .iter()
        .filter(|one| one.verdict.outcome == Outcome::Unproven)
        .filter_map(|one| one.probe.clone())
        .filter(|probe| {
            rows.iter()
                .any(|row| row.probe == *probe && was_hindered(row))
        })
        .collect()
}

fn is_look(fact: &Fact) -> bool {
    matches!(fact.observation, Observation::OrderState { .. })
}
