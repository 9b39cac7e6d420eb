//! From checkpoint and journal back to a session.
//!
//! What was under way is shown as interrupted. A request whose outcome is not known is looked up by its trace, and never
//! sent again by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::checking::access_expectations;
use super::checkpoint::Checkpoint;
use super::message::{Effect, SendOutcome};
use super::progress::{ProbeSend, StageRun};
use super::state::{StagePhase, State, Step};
use crate::evidence::journal::{Intent, IntentAction, IntentOutcome, Judgement, unresolved};
use crate::evidence::{Entry, Fact, Observation, Outcome, Right};
use crate::lab::{Lab, Stage};

impl State {
    /// Takes a session up again. Without a checkpoint it begins anew, with attempts that the journal has not seen.
    #[must_use]
    pub fn resume(
        checkpoint: Option<Checkpoint>,
        entries: &[Entry],
        labs: Arc<[Lab]>,
        now: Timestamp,
    ) -> (State, Vec<Effect>) {
        let mut state = State::new(labs, now);
        let anew = checkpoint.is_none();
        if let Some(checkpoint) = checkpoint {
            state.restore(checkpoint);
            state.revalidate(entries);
        }
        state.take_facts(facts_of(entries));
        state.raise_attempts(entries, u32::from(anew));
        state.adopt_sends(entries);
        state.recall_judgements(entries);
        state.note_cut_off();
        let effects = state.first_effects();
        (state, effects)
    }

    /// The session with its stage as that was judged, for showing: what a checkpoint says of a judged stage is not taken on
    /// trust, and a stage whose last go was never judged is one that was interrupted.
    #[must_use]
    pub fn as_judged(mut self) -> State {
        let stage = self.stage_name();
        let counts = self.here().is_some_and(|lab| lab.passed.contains(&stage));
        let sent = self.run().is_some_and(|run| !run.sends.is_empty());
        let ended = !matches!(
            self.phase,
            StagePhase::Working { .. } | StagePhase::Interrupted { .. }
        );
        if ended && !self.judgements.is_empty() {
            self.phase = match self.concluded(false, &[]) {
                StagePhase::Passed if !counts => StagePhase::Fresh,
                phase => phase,
            };
        } else if self.phase == StagePhase::Fresh && sent {
            self.phase = if self.observes() && self.all_settled() {
                StagePhase::Passed
            } else {
                StagePhase::Interrupted {
                    step: Step::Collecting,
                }
            };
        }
        self
    }

    fn restore(&mut self, checkpoint: Checkpoint) {
        self.found.extend(checkpoint.misfit(&self.labs));
        self.now = self.now.max(checkpoint.written);
        self.progress = checkpoint.labs;
        self.seeds = checkpoint.seeds;
        let Some(lab) = self.labs.iter().position(|lab| lab.name == checkpoint.lab) else {
            self.note_position();
            return;
        };
        self.lab = lab;
        let stage = self.labs[lab]
            .stages
            .iter()
            .position(|stage| stage.name == checkpoint.stage);
        let Some(stage) = stage else {
            self.note_position();
            return;
        };
        self.stage = stage;
        self.finished = checkpoint.finished;
        self.held = checkpoint.held.map(Box::new);
        self.phase = match checkpoint.phase {
            StagePhase::Working { step, .. } => StagePhase::Interrupted { step },
            phase => phase,
        };
        self.note_position();
    }

    /// A stage counts as passed only while the journal proves each of its checks, with facts that are there: labs change
    /// from version to version, and files get lost.
    fn revalidate(&mut self, entries: &[Entry]) {
        let proven = proven_checks(entries);
        let labs = Arc::clone(&self.labs);
        for lab in labs.iter() {
            let Some(kept) = self.progress.get_mut(&lab.name) else {
                continue;
            };
            let judged = lab
                .stages
                .iter()
                .filter(|stage| !stage.observe && stage.gate_fails.is_none());
            for stage in judged {
                let bare = Check::all(stage)
                    .map(|check| (lab.name.as_str(), stage.name.as_str(), check))
                    .find(|check| !proven.contains(check));
                let Some((.., check)) = bare.filter(|_| kept.passed.remove(&stage.name)) else {
                    continue;
                };
                kept.completed = false;
                self.finished = false;
                self.found.push(format!(
                    "stage `{}` of {} does not count as passed any more: nothing that is kept proves its {check} (the lab or the evidence has changed since)",
                    stage.name, lab.name
                ));
            }
        }
        let here = self.stage_name();
        let counts = self.here().is_some_and(|lab| lab.passed.contains(&here));
        if self.phase == StagePhase::Passed && !counts {
            self.phase = StagePhase::Fresh;
        }
    }

    /// Workloads ran as children of the program that is gone: what they did not do says nothing about what was applied.
    fn note_cut_off(&mut self) {
        let StagePhase::Interrupted { step } = self.phase else {
            return;
        };
        if step.is_stage_work()
            && let Some(run) = self.run_mut()
            && !run.sends.is_empty()
        {
            run.cut_off = true;
        }
    }

    /// No attempt is below one in the journal, even if the checkpoint is older than its last lines; without a checkpoint
    /// none is used again.
    fn raise_attempts(&mut self, entries: &[Entry], by: u32) {
        let mut highest: BTreeMap<&str, u32> = BTreeMap::new();
        for entry in entries {
            let (lab, attempt) = match entry {
                Entry::Fact(fact) => (&fact.lab, fact.attempt),
                Entry::Intent(intent) => (&intent.lab, intent.attempt),
                _ => continue,
            };
            let known = highest.entry(lab).or_default();
            *known = attempt.max(*known);
        }
        for (lab, attempt) in highest {
            if self.labs.iter().any(|known| known.name == lab) {
                let kept = &mut self.progress.entry(lab.to_owned()).or_default().attempt;
                *kept = attempt.saturating_add(by).max(*kept);
            }
        }
    }

    /// Brings the journal's knowledge of sends into the present stage.
    fn adopt_sends(&mut self, entries: &[Entry]) {
        let outcomes = outcomes_of(entries);
        let intents = self.own_sends(entries);
        if let Some(run) = self.run_mut() {
            // The intent comes first: a send that has none was never made.
            run.sends.retain(|send| {
                send.outcome.is_some() || intents.iter().any(|intent| intent.id == send.trace)
            });
            for send in &mut run.sends {
                if send.outcome.is_none() || send.is_unresolved() {
                    send.outcome = Some(outcome_in(&outcomes, &send.trace));
                }
            }
        }
        for intent in intents {
            self.adopt(intent, &outcomes);
        }
        self.unresolved = unresolved(entries)
            .into_iter()
            .filter(|intent| matches!(intent.action, IntentAction::Send { .. }))
            .filter(|intent| {
                self.progress
                    .get(&intent.lab)
                    .is_some_and(|kept| kept.attempt == intent.attempt)
            })
            .cloned()
            .collect();
    }

    /// Intents to send a probe of the present stage in the present attempt.
    fn own_sends<'a>(&self, entries: &'a [Entry]) -> Vec<&'a Intent> {
        let (lab, stage, attempt) = (self.lab_name(), self.stage_name(), self.attempt());
        let is_probe = |intent: &Intent| match &intent.action {
            IntentAction::Send { probe } => self
                .current_stage()
                .is_some_and(|stage| stage.probes.iter().any(|one| one.name == *probe)),
            _ => false,
        };
        entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Intent(intent) => Some(intent),
                _ => None,
            })
            .filter(|intent| {
                intent.lab == lab && intent.stage == stage && intent.attempt == attempt
            })
            .filter(|intent| is_probe(intent))
            .collect()
    }

    /// A send that is newer than the checkpoint is known from its intent.
    fn adopt(&mut self, intent: &Intent, outcomes: &BTreeMap<&str, SendOutcome>) {
        let IntentAction::Send { probe } = &intent.action else {
            return;
        };
        let stage = self.stage_name();
        let run = self.here_mut().runs.entry(stage).or_default();
        if run.attempt < intent.attempt {
            *run = StageRun {
                attempt: intent.attempt,
                ..StageRun::default()
            };
        }
        if run.sends.iter().any(|send| send.trace == intent.id) {
            return;
        }
        run.sends.push(ProbeSend {
            probe: probe.clone(),
            trace: intent.id.clone(),
            outcome: Some(outcome_in(outcomes, &intent.id)),
        });
        let step = Step::Sending(run.sends.len() - 1);
        if !matches!(self.phase, StagePhase::Interrupted { .. }) {
            self.phase = StagePhase::Interrupted { step };
        }
    }

    /// The last judgements of the present go, so that the screen shows them again.
    fn recall_judgements(&mut self, entries: &[Entry]) {
        let (lab, stage) = (self.lab_name(), self.stage_name());
        let Some(attempt) = self.run().map(|run| run.attempt) else {
            return;
        };
        for entry in entries {
            if let Entry::Judgement(one) = entry
                && one.lab == lab
                && one.stage == stage
                && one.attempt == attempt
            {
                self.judgements.retain(|old| {
                    (&old.probe, &old.verdict.claim) != (&one.probe, &one.verdict.claim)
                });
                self.judgements.push(one.clone());
            }
        }
    }

    /// The working copy is opened, and what may have been sent is looked up.
    fn first_effects(&mut self) -> Vec<Effect> {
        let mut out = Vec::new();
        self.make_up_for_earlier(&mut out);
        if let Some(fix) = self.current_stage().and_then(|stage| stage.fix.as_ref()) {
            out.push(Effect::OpenWorkingCopy {
                manifest: fix.manifest.clone(),
            });
        }
        if let StagePhase::Interrupted { step } = self.phase {
            let text = format!("interrupted while {}", self.step_phrase(step));
            self.note("resumed", text, &mut out);
            self.looking = self.push_collect(&mut out);
            out.push(Effect::Checkpoint);
        }
        out
    }
}

/// What a stage checks one by one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Check {
    Probe(String),
    Access(Right),
    Order(String),
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Check::Probe(name) => write!(f, "probe `{name}`"),
            Check::Access(right) => write!(f, "check of access {right}"),
            Check::Order(name) => write!(f, "check of order `{name}`"),
        }
    }
}

impl Check {
    fn of(judgement: &Judgement) -> Option<Self> {
        let probe = judgement.probe.clone().map(Check::Probe);
        let access = judgement.access.clone().map(Check::Access);
        let order = judgement.order.clone().map(Check::Order);
        probe.or(access).or(order)
    }

    fn all(stage: &Stage) -> impl Iterator<Item = Self> {
        let probes = stage
            .probes
            .iter()
            .map(|probe| Check::Probe(probe.name.clone()));
        let access = access_expectations(stage).into_iter();
        let access = access.map(|expectation| Check::Access(expectation.right));
        let orders = stage
            .orders
            .iter()
            .map(|check| Check::Order(check.name.clone()));
        probes.chain(access).chain(orders)
    }
}

/// Lab, stage and check of each judgement that is proven by facts of this journal.
fn proven_checks(entries: &[Entry]) -> BTreeSet<(&str, &str, Check)> {
    let there: BTreeSet<u64> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Fact(fact) => Some(fact.seq),
            _ => None,
        })
        .collect();
    entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Judgement(one) => Some(one),
            _ => None,
        })
        .filter(|one| one.verdict.outcome == Outcome::Proven)
        .filter(|one| one.verdict.facts.iter().all(|fact| there.contains(fact)))
        .filter_map(|one| Some((one.lab.as_str(), one.stage.as_str(), Check::of(one)?)))
        .collect()
}

fn facts_of(entries: &[Entry]) -> Vec<Fact> {
    entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Fact(fact) => Some(fact.clone()),
            _ => None,
        })
        .collect()
}

/// How requests ended, by trace: what the client saw, else what the outcome says.
fn outcomes_of(entries: &[Entry]) -> BTreeMap<&str, SendOutcome> {
    let mut outcomes = BTreeMap::new();
    for entry in entries {
        match entry {
            Entry::Outcome(outcome) => {
                if let Some(outcome_of) = outcome_of(outcome) {
                    outcomes.entry(outcome.id.as_str()).or_insert(outcome_of);
                }
            }
            Entry::Fact(fact) => {
                let seen = match &fact.observation {
                    Observation::HttpAnswer { status, .. } => {
                        SendOutcome::Answered { status: *status }
                    }
                    Observation::AnswerLost { error } => SendOutcome::Lost {
                        error: error.clone(),
                    },
                    _ => continue,
                };
                if let Some(trace) = fact.known_trace() {
                    outcomes.insert(trace, seen);
                }
            }
            _ => {}
        }
    }
    outcomes
}

fn outcome_in(outcomes: &BTreeMap<&str, SendOutcome>, trace: &str) -> SendOutcome {
    outcomes
        .get(trace)
        .cloned()
        .unwrap_or(SendOutcome::Unresolved)
}

/// A good outcome without the answer's fact says too little.
fn outcome_of(outcome: &IntentOutcome) -> Option<SendOutcome> {
    if outcome.ok {
        return None;
    }
    Some(match outcome.result.strip_prefix(NOT_SENT) {
        Some(error) => SendOutcome::NotSent {
            error: error.to_owned(),
        },
        None => SendOutcome::Lost {
            error: outcome.result.clone(),
        },
    })
}

/// How the outcome of a request starts that was never written to the wire.
pub(super) const NOT_SENT: &str = "not sent: ";
