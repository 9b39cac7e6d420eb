//! Which working copies a message would have applied, so that they can be looked at before anything is done.

use super::message::{Message, Reconcile};
use super::pipeline::{has_work, manifests};
use super::state::{StagePhase, State, Step};

impl State {
    /// Manifests whose working copies would be applied at once on this message.
    #[must_use]
    pub fn would_apply(&self, message: &Message) -> Vec<String> {
        let again = Step::Reapplying;
        let files = match (message, self.phase()) {
            (Message::Reconcile(Reconcile::Reapply), _) => self.in_force(),
            (Message::Next, _) if !self.drift().is_empty() => Vec::new(),
            (Message::Next | Message::Retry, StagePhase::Interrupted { step })
                if *step == again =>
            {
                self.in_force()
            }
            (Message::Next, _) if self.begins() => self.of_stage(),
            (Message::Retry, phase) if !matches!(phase, StagePhase::Working { .. }) => {
                self.of_stage()
            }
            _ => Vec::new(),
        };
        files
            .into_iter()
            .filter(|file| self.uses_working_copy(file))
            .collect()
    }

    /// Whether [`Message::Next`] starts a go at the stage's work.
    fn begins(&self) -> bool {
        let sent = self.run().is_some_and(|run| !run.sends.is_empty());
        match self.phase() {
            StagePhase::Fresh => self.current_stage().is_some_and(has_work),
            StagePhase::Failed { .. } => true,
            StagePhase::Unproven { .. } => self.is_outdated() || !sent,
            StagePhase::Interrupted { step } => {
                let starts_over = matches!(step, Step::Applying | Step::Preparing(..));
                starts_over || (step.is_stage_work() && (self.is_outdated() || !sent))
            }
            StagePhase::Passed | StagePhase::Working { .. } => false,
        }
    }

    fn of_stage(&self) -> Vec<String> {
        self.current_stage().map(manifests).unwrap_or_default()
    }

    fn in_force(&self) -> Vec<String> {
        self.here()
            .map(|lab| lab.in_force.clone())
            .unwrap_or_default()
    }
}
