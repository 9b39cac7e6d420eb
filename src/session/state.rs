//! The state of a session and its transitions.
//!
//! The screen reads it through the getters here and in [`super::view`]; only [`State::update`] changes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::footer::Wait;
use super::message::{Context, Difference, Effect, GateReport, Message, Reconcile};
use super::progress::{LabProgress, OpenReason, StageFailure, StageRun};
use crate::evidence::journal::{Intent, IntentAction, IntentOutcome, Judgement, Note, Prediction};
use crate::evidence::{Entry, Fact, Layer};
use crate::lab::{Lab, Probe, Stage};

/// What a stage is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Going back to the snapshot of the stage.
    Rewinding,
    Resetting,
    /// Applying again what the lab had applied, without starting the stage.
    Reapplying,
    Applying,
    /// Doing the n-th action of the stage.
    Acting(usize),
    Gate,
    /// Doing an action before a probe: which probe, and which of its actions.
    Preparing(usize, usize),
    /// Sending the n-th probe.
    Sending(usize),
    /// Waiting for what was sent before the n-th probe, whose fate depends on it.
    Settling(usize),
    Collecting,
    /// Asking what service accounts may do, and what stands about orders.
    Reviewing,
}

impl Step {
    /// Whether it belongs to a go at the stage's work.
    #[must_use]
    pub fn is_stage_work(self) -> bool {
        !matches!(self, Step::Rewinding | Step::Resetting | Step::Reapplying)
    }
}

/// Where a stage stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StagePhase {
    /// Nothing done yet.
    #[default]
    Fresh,
    Working {
        step: Step,
        since: Timestamp,
    },
    /// Cancelled, or cut off by the end of the process; [`Message::Next`] continues it.
    Interrupted {
        step: Step,
    },
    Passed,
    /// Facts contradict what the stage expects, or the cluster refused what was applied.
    Failed {
        failures: Vec<StageFailure>,
    },
    /// Something could not be looked at, or was not seen: never a pass, and never the learner's fault.
    Unproven {
        reasons: Vec<OpenReason>,
    },
}

impl StagePhase {
    /// Whether nothing but a race keeps the stage open, which the cluster won: another go may prove it.
    #[must_use]
    pub fn is_too_late(&self) -> bool {
        matches!(self, StagePhase::Unproven { reasons } if !reasons.is_empty()
            && reasons.iter().all(|one| one.reason == OpenReason::TOO_LATE))
    }
}

/// Topic of the notes that hold what the learner had changed in what was applied.
pub const APPLIED: &str = "applied";

/// Everything the screen shows and the checkpoint keeps.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(super) labs: Arc<[Lab]>,
    pub(super) lab: usize,
    pub(super) stage: usize,
    pub(super) phase: StagePhase,
    pub(super) progress: BTreeMap<String, LabProgress>,
    /// By lab, in journal order.
    pub(super) facts: BTreeMap<String, Vec<Fact>>,
    pub(super) gate: GateReport,
    /// The gate of this go was open; not kept over a restart.
    pub(super) gate_opened: bool,
    pub(super) judgements: Vec<Judgement>,
    pub(super) drift: Vec<Difference>,
    /// What is waited for while nothing is heard of the cluster; not kept over a restart.
    pub(super) unheard: Option<Wait>,
    /// Phase to return to after [`Step::Reapplying`].
    pub(super) held: Option<Box<StagePhase>>,
    /// Intent of the step that runs now.
    pub(super) pending: Option<String>,
    /// Sends of an earlier process whose outcome is not known, by trace.
    pub(super) unresolved: Vec<Intent>,
    /// What may have been sent before a restart is being looked up.
    pub(super) looking: bool,
    pub(super) notice: Option<String>,
    /// What was found damaged or otherwise when the session was taken up.
    pub(super) found: Vec<String>,
    pub(super) finished: bool,
    /// Seeds of labs that are not there now, from the checkpoint.
    pub(super) seeds: BTreeMap<String, u32>,
    /// What this session adds to the numbers of attempts in order ids; nothing where the cluster is its own.
    pub(super) tag: Option<String>,
    pub(super) now: Timestamp,
}

impl State {
    /// A session at the first stage of the first lab.
    #[must_use]
    pub fn new(labs: Arc<[Lab]>, now: Timestamp) -> State {
        let mut state = State {
            labs,
            now,
            ..State::default()
        };
        state.note_position();
        state
    }

    /// Says what this session adds to the numbers of attempts in order ids, on a cluster that others use, too.
    pub fn set_tag(&mut self, tag: Option<&str>) {
        self.tag = tag.map(str::to_owned);
    }

    /// Whether the cluster can be set back to a copy: one that others use, too, cannot.
    #[must_use]
    pub fn rewinds(&self) -> bool {
        self.tag.is_none()
    }

    /// Takes one message, and answers what is to be done about it, in order.
    pub fn update(&mut self, message: Message, context: &Context) -> Vec<Effect> {
        self.now = self.now.max(context.now);
        let mut out = Vec::new();
        match message {
            Message::Tick(now) => self.now = self.now.max(now),
            Message::Facts(facts) => self.take_facts(facts),
            Message::Gate(report) => self.on_gate(report, context, &mut out),
            Message::Changed { diff } => self.note(APPLIED, diff, &mut out),
            Message::AppliedInPart { fingerprints } => {
                self.here_mut().take_fingerprints(fingerprints);
            }
            Message::Applied { attempt, result } => {
                self.on_applied(attempt, result, context, &mut out);
            }
            Message::Acted { action, result } => self.on_acted(action, result, context, &mut out),
            Message::Sent {
                probe,
                trace,
                outcome,
            } => self.on_sent(&probe, &trace, outcome, context, &mut out),
            // What is still open is judged as unproven, so that it does not matter why the collecting ended.
            Message::Collected { complete: _ } => self.on_collected(context, &mut out),
            Message::Reviewed { result } => self.on_reviewed(result, &mut out),
            Message::Rewound { result } => self.on_rewound(result, context, &mut out),
            Message::Drift(drift) => self.on_drift(drift, &mut out),
            Message::NotCompared { why } => self.on_not_compared(&why, &mut out),
            Message::Unheard(wait) => self.unheard = wait,
            learner => {
                self.notice = None;
                self.found.clear();
                if !self.labs.is_empty() {
                    self.on_learner(learner, context, &mut out);
                }
            }
        }
        out
    }

    fn on_learner(&mut self, message: Message, context: &Context, out: &mut Vec<Effect>) {
        match message {
            Message::Next => self.on_next(context, out),
            Message::GoTo { lab, stage } => self.go_to(&lab, stage, context, out),
            Message::Predict { probe, stops_at } => self.predict(&probe, stops_at, out),
            Message::Hint => self.hint(out),
            Message::Reveal { confirmed } => self.reveal(confirmed, out),
            Message::Edited { manifest } => self.edited(manifest, out),
            Message::Retry => self.retry(context, out),
            Message::Reset => self.reset(context, out),
            Message::Report { topic, answer } => self.report(&topic, &answer, out),
            Message::Cancel => self.cancel(out),
            Message::Reconcile(choice) => self.reconcile(choice, context, out),
            _ => {}
        }
    }

    // What everything else is built on.

    pub(super) fn current_lab(&self) -> Option<&Lab> {
        self.labs.get(self.lab)
    }

    pub(super) fn current_stage(&self) -> Option<&Stage> {
        self.current_lab()?.stages.get(self.stage)
    }

    pub(super) fn lab_name(&self) -> String {
        self.current_lab()
            .map(|lab| lab.name.clone())
            .unwrap_or_default()
    }

    pub(super) fn stage_name(&self) -> String {
        self.current_stage()
            .map(|stage| stage.name.clone())
            .unwrap_or_default()
    }

    pub(super) fn here(&self) -> Option<&LabProgress> {
        self.progress.get(&self.current_lab()?.name)
    }

    /// Progress of the current lab.
    pub(super) fn here_mut(&mut self) -> &mut LabProgress {
        let name = self.lab_name();
        self.progress.entry(name).or_default()
    }

    pub(super) fn run(&self) -> Option<&StageRun> {
        self.here()?.runs.get(&self.current_stage()?.name)
    }

    pub(super) fn run_mut(&mut self) -> Option<&mut StageRun> {
        let stage = self.stage_name();
        self.here_mut().runs.get_mut(&stage)
    }

    /// Attempt of the current lab; 0 before anything was done.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.here().map_or(0, |lab| lab.attempt)
    }

    /// Writes down where the current lab stands.
    pub(super) fn note_position(&mut self) {
        if self.labs.is_empty() {
            return;
        }
        let stage = self.stage_name();
        self.here_mut().stage = stage;
    }

    pub(super) fn working(&self) -> Option<Step> {
        match self.phase {
            StagePhase::Working { step, .. } => Some(step),
            _ => None,
        }
    }

    pub(super) fn work(&mut self, step: Step) {
        self.phase = StagePhase::Working {
            step,
            since: self.now,
        };
    }

    /// Announces an effect: the checkpoint and the intent, both before the effect itself.
    pub(super) fn announce(&mut self, id: String, action: IntentAction, out: &mut Vec<Effect>) {
        self.pending = Some(id.clone());
        out.push(Effect::Checkpoint);
        out.push(Effect::Journal(Box::new(Entry::Intent(Intent {
            time: self.now,
            lab: self.lab_name(),
            stage: self.stage_name(),
            attempt: self.attempt(),
            id,
            action,
        }))));
    }

    /// Writes down how the announced effect ended.
    pub(super) fn conclude(&mut self, result: Result<(), &str>, out: &mut Vec<Effect>) {
        if let Some(id) = self.pending.take() {
            self.journal_outcome(id, result, out);
        }
    }

    pub(super) fn journal_outcome(
        &self,
        id: String,
        result: Result<(), &str>,
        out: &mut Vec<Effect>,
    ) {
        out.push(Effect::Journal(Box::new(Entry::Outcome(IntentOutcome {
            time: self.now,
            id,
            result: result.err().unwrap_or("done").to_owned(),
            ok: result.is_ok(),
        }))));
    }

    pub(super) fn note(&self, topic: &str, text: impl Into<String>, out: &mut Vec<Effect>) {
        out.push(Effect::Journal(Box::new(Entry::Note(Note {
            time: self.now,
            lab: self.lab_name(),
            stage: self.stage_name(),
            attempt: self.attempt(),
            topic: topic.to_owned(),
            text: text.into(),
        }))));
    }

    /// Names an intent that is not a send.
    pub(super) fn intent_id(&self, what: &str, context: &Context) -> String {
        format!(
            "{}-a{}-{what}-{:08x}",
            self.lab_name(),
            self.attempt(),
            context.id
        )
    }

    /// Files new facts in journal order; one that is there already is not filed again.
    pub(super) fn take_facts(&mut self, facts: Vec<Fact>) {
        for fact in facts {
            let list = self.facts.entry(fact.lab.clone()).or_default();
            let at = list.partition_point(|known| known.seq < fact.seq);
            if list.get(at).is_none_or(|known| known.seq != fact.seq) {
                list.insert(at, fact);
            }
        }
    }

    // Small keys of the learner.

    fn predict(&mut self, probe: &str, stops_at: Option<Layer>, out: &mut Vec<Effect>) {
        let Some(predicted) = self.predicted_stage() else {
            self.notice = Some("this stage asks for no prediction".to_owned());
            return;
        };
        if !predicted.probes.iter().any(|known| known.name == probe) {
            self.notice = Some(format!("there is no probe `{probe}` to predict"));
            return;
        }
        let stage = predicted.name.clone();
        let attempt = self.attempt();
        self.here_mut()
            .predictions
            .entry(stage.clone())
            .or_default()
            .insert(probe.to_owned(), stops_at);
        out.push(Effect::Journal(Box::new(Entry::Prediction(Prediction {
            time: self.now,
            lab: self.lab_name(),
            stage,
            attempt,
            probe: probe.to_owned(),
            stops_at,
        }))));
        out.push(Effect::Checkpoint);
    }

    /// The stage whose probes are predicted here.
    #[must_use]
    pub fn predicted_stage(&self) -> Option<&Stage> {
        let name = self.current_stage()?.predicts.as_ref()?;
        self.current_lab()?
            .stages
            .iter()
            .find(|stage| stage.name == *name)
    }

    /// The probes that are to be predicted here and have no prediction yet, in their order.
    #[must_use]
    pub fn unpredicted(&self) -> Vec<&Probe> {
        let Some(predicted) = self.predicted_stage() else {
            return Vec::new();
        };
        let given = self
            .here()
            .and_then(|lab| lab.predictions.get(&predicted.name));
        let open = |probe: &&Probe| given.is_none_or(|given| !given.contains_key(&probe.name));
        predicted.probes.iter().filter(open).collect()
    }

    fn hint(&mut self, out: &mut Vec<Effect>) {
        let Some(total) = self
            .current_stage()
            .and_then(|stage| stage.fix.as_ref())
            .map(|fix| fix.hints.len())
        else {
            self.notice = Some("this stage has no hints".to_owned());
            return;
        };
        let stage = self.stage_name();
        let shown = self.here_mut().hints.entry(stage).or_default();
        if *shown >= total {
            self.notice = Some("that was the last hint".to_owned());
            return;
        }
        *shown += 1;
        let text = format!("hint {shown} of {total} shown");
        self.note("hint", text, out);
        out.push(Effect::Checkpoint);
    }

    fn reveal(&mut self, confirmed: bool, out: &mut Vec<Effect>) {
        let stage = self.stage_name();
        if self.current_stage().is_none_or(|stage| stage.fix.is_none()) {
            self.notice = Some("this stage has no solution".to_owned());
            return;
        }
        let tried = self.here_mut().failures.get(&stage).copied().unwrap_or(0) > 0;
        if !tried && !confirmed {
            self.notice = Some("nothing was tried yet; confirm to see the solution".to_owned());
            return;
        }
        self.here_mut().revealed.insert(stage);
        self.note("solution", "solution shown", out);
        out.push(Effect::Checkpoint);
    }

    fn edited(&mut self, manifest: String, out: &mut Vec<Effect>) {
        let lab = self.here_mut();
        lab.working_copies.insert(manifest.clone());
        lab.edited.insert(manifest);
        out.push(Effect::Checkpoint);
    }

    /// The present phase, or the one that an interrupted re-apply was to return to.
    fn phase_but_reapplying(&mut self) -> StagePhase {
        let reapplying = StagePhase::Interrupted {
            step: Step::Reapplying,
        };
        if self.phase == reapplying {
            self.held.take().map_or(StagePhase::Fresh, |phase| *phase)
        } else {
            self.phase.clone()
        }
    }

    /// What was said of the whole cluster stands until the learner settles it.
    fn on_drift(&mut self, seen: Vec<Difference>, out: &mut Vec<Effect>) {
        self.mark_foreign(&seen, out);
        let differed = !self.drift.is_empty();
        self.drift
            .retain(|one| one.is_of_all() && !seen.contains(one));
        self.drift.extend(seen);
        if differed && self.drift.is_empty() {
            self.notice =
                Some("the objects of this lab are again as the session left them".to_owned());
        }
    }

    /// What is known to differ from what this lab had applied.
    #[must_use]
    pub fn differences(&self) -> &[Difference] {
        &self.drift
    }

    /// Whether this is what is known to differ in the lab's objects.
    #[must_use]
    pub fn knows(&self, seen: &[Difference]) -> bool {
        self.drift.iter().filter(|one| !one.is_of_all()).eq(seen)
    }

    fn reconcile(&mut self, choice: Reconcile, context: &Context, out: &mut Vec<Effect>) {
        if self.drift.is_empty() {
            return;
        }
        if self.working().is_some() {
            self.notice = Some("something is under way; cancel it first".to_owned());
            return;
        }
        match choice {
            Reconcile::Adopt => {
                self.phase = self.phase_but_reapplying();
                let text = self.drift().join("; ");
                let drift = std::mem::take(&mut self.drift);
                let others = self.here_mut().adopt_fingerprints(&drift);
                self.note("adopted", text, out);
                out.push(Effect::Checkpoint);
                let fix = self.current_stage().and_then(|stage| stage.fix.as_ref());
                let applies = fix.filter(|_| others && self.phase != StagePhase::Passed);
                // A change that was made elsewhere would be gone without a word.
                self.notice = applies.map(|fix| {
                    format!(
                        "your change belongs into {}: that is applied over this",
                        fix.manifest
                    )
                });
            }
            Reconcile::Reapply => {
                let phase = self.phase_but_reapplying();
                let phase = self.phase_over_own(phase);
                self.reapply(phase, context, out);
            }
            Reconcile::Reset => self.reset(context, out),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
