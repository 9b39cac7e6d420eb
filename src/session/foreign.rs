//! Objects that are not as the lab has applied them: what is seen over them proves nothing of the lab's own.
//!
//! Whoever takes them as they are may go on and look; a stage is not passed on them. The line of such an object's fingerprint
//! holds that of what was applied, so that it goes where the fingerprint goes: into snapshots and checkpoints.

use std::collections::BTreeSet;

use super::concluding::sentence;
use super::message::{Difference, Effect, GateReport, Message, StepError};
use super::progress::{LabProgress, OpenReason, StageFailure};
use super::state::{StagePhase, State, Step};
use crate::cluster::{Drift, Fingerprint};
use crate::evidence::journal::Judgement;
use crate::evidence::{Outcome, Verdict};

/// Reason code of a stage that would have passed on such objects.
pub(super) const FOREIGN: &str = "foreign-object";

/// Reason code of a stage whose objects could not be compared before it was judged.
const NOT_COMPARED: &str = "not-compared";

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

/// Why a stage is open over objects that are not those of the lab.
fn open_over(foreign: &Verdict) -> OpenReason {
    OpenReason {
        probe: None,
        reason: FOREIGN.to_owned(),
        text: sentence(&foreign.claim, foreign.because.as_deref()),
        environment: false,
    }
}

impl LabProgress {
    /// What differs is taken as it is, and compared with that from now on. Answers whether anything of it is another's.
    pub(super) fn adopt_fingerprints(&mut self, drift: &[Difference]) -> bool {
        let mut others = false;
        for kept in &mut self.fingerprints {
            let Some(one) = drift.iter().find(|one| one.kept == taken(kept)) else {
                continue;
            };
            let applied = applied(kept);
            *kept = if is_another(applied, &one.live) {
                others = true;
                format!("{}{INSTEAD_OF}{applied}", one.live)
            } else {
                one.live.clone()
            };
        }
        others
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
    /// that. So too where the go has ended unproven, since it is looked up again.
    pub(super) fn mark_foreign(&mut self, seen: &[Difference], out: &mut Vec<Effect>) {
        let of_go = match self.phase {
            StagePhase::Working { step, .. } | StagePhase::Interrupted { step } => {
                step.is_stage_work()
            }
            StagePhase::Unproven { .. } => true,
            _ => false,
        };
        let others: BTreeSet<String> = seen
            .iter()
            .filter(|one| is_another(&one.kept, &one.live))
            .filter_map(|one| Fingerprint::parse(&one.kept))
            .map(|of| format!("{}/{}", of.kind, of.name))
            .collect();
        let run = self.run_mut().filter(|_| of_go);
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
            Message::Collected { .. } => match self.working() {
                Some(Step::Collecting) => true,
                // A probe waits for those before it, and what is not known of them ends the go.
                Some(Step::Settling(_)) => !self.observes() && !self.all_settled(),
                _ => false,
            },
            Message::Reviewed { .. } => self.working() == Some(Step::Reviewing),
            Message::Gate(report) => {
                self.working() == Some(Step::Gate) && self.gate_may_end(report)
            }
            _ => false,
        }
    }

    /// Whether the go may be judged, or pass, on this report of its gate.
    fn gate_may_end(&self, report: &GateReport) -> bool {
        let stage = self.current_stage();
        let last = stage.is_some_and(|stage| stage.probes.is_empty());
        let must_fail = self.gate_must_fail();
        match &report.failed {
            // Requests follow, if there are any.
            Some(error) if self.observes() || must_fail.as_ref() == Some(&error.reason) => last,
            // What could not be looked at is unproven, whatever is there.
            Some(error) => !error.environment,
            None => report.open && (last || must_fail.is_some()),
        }
    }

    /// Passes the stage that nothing was sent for or that only looks, unless objects are not those of the lab.
    pub(super) fn pass_over_own(&mut self, out: &mut Vec<Effect>) {
        let Some(foreign) = self.foreign() else {
            self.pass(out);
            return;
        };
        self.phase = StagePhase::Unproven {
            reasons: vec![open_over(&foreign)],
        };
        out.push(Effect::Checkpoint);
    }

    /// The objects could not be looked at before the verdict: nobody knows whose they are, and nothing is judged on them.
    pub(super) fn on_not_compared(&mut self, why: &str, out: &mut Vec<Effect>) {
        if !self.working().is_some_and(Step::is_stage_work) {
            return;
        }
        let error = StepError {
            reason: NOT_COMPARED.to_owned(),
            text: format!(
                "whether somebody else has changed the lab's objects could not be seen, so that nothing is judged on them ({why}): see to it that the cluster answers and that they can be read, then check again"
            ),
            environment: true,
        };
        self.stop(&error, out);
    }

    /// What a failure says where objects are not those of the lab: nothing of what the learner has applied.
    pub(super) fn failed_over_foreign(&mut self, failure: &StageFailure) -> Option<StagePhase> {
        let foreign = self.foreign()?;
        let failed = OpenReason {
            probe: None,
            reason: failure.reason.clone(),
            text: failure.text.clone(),
            environment: false,
        };
        let reasons = vec![open_over(&foreign), failed];
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
