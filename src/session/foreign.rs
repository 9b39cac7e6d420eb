//! Objects that are not as the lab has applied them: what is seen over them proves nothing of the lab's own.
//!
//! Whoever takes them as they are may go on and look; a stage is not passed on them. The line of such an object's fingerprint
//! holds that of what was applied, so that it goes where the fingerprint goes: into snapshots and checkpoints.

use std::collections::BTreeSet;

use super::concluding::sentence;
use super::message::{Difference, Effect, Message};
use super::progress::{LabProgress, OpenReason, StageFailure};
use super::state::{StagePhase, State, Step};
use crate::cluster::{Drift, Fingerprint};
use crate::evidence::journal::Judgement;
use crate::evidence::{Outcome, Verdict};

/// Reason code of a stage that would have passed on such objects.
pub(super) const FOREIGN: &str = "foreign-object";

/// What a judgement claims where everything else is proven.
const OWN: &str = "what was seen is of the objects that this lab has applied";

/// Whether a judgement says that what was seen is of other objects.
pub(super) fn is_of_foreign(judgement: &Judgement) -> bool {
    judgement.verdict.claim == OWN && judgement.verdict.outcome != Outcome::Proven
}

/// Stands in a line between the fingerprint of what was taken and that of what was applied.
const INSTEAD_OF: &str = " instead-of ";

/// The fingerprint that is compared with what is there.
fn taken(line: &str) -> &str {
    line.split_once(INSTEAD_OF).map_or(line, |(taken, _)| taken)
}

/// The fingerprint of what was applied.
fn applied(line: &str) -> &str {
    line.split_once(INSTEAD_OF)
        .map_or(line, |(_, applied)| applied)
}

/// Whether an object has become another one: made anew with the same content it has not, nor has the cluster with another
/// version.
fn is_another(applied: &str, live: &str) -> bool {
    let (Some(applied), Some(live)) = (Fingerprint::parse(applied), Fingerprint::parse(live))
    else {
        return false;
    };
    match Drift::between(&applied, &live) {
        Drift::None | Drift::Version => false,
        Drift::Gone | Drift::Back | Drift::Changed => true,
        Drift::Replaced => applied.hash != live.hash,
    }
}

impl LabProgress {
    /// What differs is taken as it is, and compared with that from now on.
    pub(super) fn adopt_fingerprints(&mut self, drift: &[Difference]) {
        for kept in &mut self.fingerprints {
            let Some(one) = drift.iter().find(|one| one.kept == taken(kept)) else {
                continue;
            };
            let applied = applied(kept);
            *kept = if is_another(applied, &one.live) {
                format!("{}{INSTEAD_OF}{applied}", one.live)
            } else {
                one.live.clone()
            };
        }
    }

    /// Kind and name of what was taken although it is not what was applied. From now on it differs again.
    fn put_back_adopted(&mut self) -> Vec<String> {
        let mut titles = Vec::new();
        for kept in &mut self.fingerprints {
            if !kept.contains(INSTEAD_OF) {
                continue;
            }
            *kept = applied(kept).to_owned();
            if let Some(of) = Fingerprint::parse(kept) {
                titles.push(format!("{}/{}", of.kind, of.name));
            }
        }
        titles
    }

    fn has_adopted(&self) -> bool {
        self.fingerprints
            .iter()
            .any(|line| line.contains(INSTEAD_OF))
    }
}

impl State {
    /// Notes what is another's while a go is under way, also where it is soon changed back: what was seen meanwhile may be of
    /// that.
    pub(super) fn mark_foreign(&mut self, seen: &[Difference], out: &mut Vec<Effect>) {
        let step = match self.phase {
            StagePhase::Working { step, .. } | StagePhase::Interrupted { step } => step,
            _ => return,
        };
        let others: BTreeSet<String> = seen
            .iter()
            .filter(|one| is_another(&one.kept, &one.live))
            .filter_map(|one| Fingerprint::parse(&one.kept))
            .map(|of| format!("{}/{}", of.kind, of.name))
            .collect();
        let run = self.run_mut().filter(|_| step.is_stage_work());
        if let Some(run) = run
            && !others.is_subset(&run.foreign)
        {
            run.foreign.extend(others);
            out.push(Effect::Checkpoint);
        }
    }

    /// Whether the go at the present stage may be judged, or pass, on this message: what was changed until then belongs to it.
    #[must_use]
    pub fn may_judge_on(&self, message: &Message) -> bool {
        match message {
            Message::Collected { .. } => self.working() == Some(Step::Collecting),
            Message::Reviewed { .. } => self.working() == Some(Step::Reviewing),
            Message::Gate(report) => {
                let last = self
                    .current_stage()
                    .is_some_and(|stage| stage.probes.is_empty());
                let ended = report.failed.is_some() || (report.open && last);
                ended && self.working() == Some(Step::Gate)
            }
            _ => false,
        }
    }

    /// What a failure says where objects are not those of the lab: nothing of what the learner has applied.
    pub(super) fn failed_over_foreign(&mut self, failure: &StageFailure) -> Option<StagePhase> {
        let foreign = self.foreign()?;
        let open = |reason: &str, text: String| OpenReason {
            probe: None,
            reason: reason.to_owned(),
            text,
            environment: false,
        };
        let reasons = vec![
            open(
                FOREIGN,
                sentence(&foreign.claim, foreign.because.as_deref()),
            ),
            open(&failure.reason, failure.text.clone()),
        ];
        Some(StagePhase::Unproven { reasons })
    }

    /// Why the present stage is neither passed nor failed, whatever was seen: objects are not those of the lab.
    pub(super) fn foreign(&mut self) -> Option<Verdict> {
        let mut titles = self.here_mut().put_back_adopted();
        titles.extend(self.run().into_iter().flat_map(|run| run.foreign.clone()));
        titles.sort();
        titles.dedup();
        (!titles.is_empty()).then(|| Verdict {
            outcome: Outcome::Unproven,
            claim: OWN.to_owned(),
            because: Some(format!(
                "{} was changed by somebody else: change it back, apply again what the lab had applied, or reset; then do the stage again",
                titles.join(", ")
            )),
            facts: Vec::new(),
        })
    }

    /// Whether the present stage was seen over objects that are not those of the lab: it is done again, never looked up again.
    pub(super) fn was_foreign(&self) -> bool {
        matches!(&self.phase, StagePhase::Unproven { reasons } if reasons.iter().any(|one| one.reason == FOREIGN))
    }

    /// Where the stage stands once everything is applied again: what was seen before over other objects does not count.
    pub(super) fn phase_over_own(&self, phase: StagePhase) -> StagePhase {
        let adopted = self.here().is_some_and(LabProgress::has_adopted);
        let seen = self.run().is_some_and(|run| !run.foreign.is_empty());
        if phase != StagePhase::Passed && (adopted || seen || self.was_foreign()) {
            StagePhase::Fresh
        } else {
            phase
        }
    }
}
