//! A cluster that has lost what it held: what was proven of it does not count any more.

use std::sync::Arc;

use super::message::Effect;
use super::pipeline::has_work;
use super::state::{StagePhase, State, Step};

impl State {
    /// The cluster came up without what it held when this session was left; `lost` says what, in sentences.
    ///
    /// Nothing is thrown away: the evidence stays, and so do the snapshots that can be gone back to. But no stage of a lab
    /// that is under way counts as passed before it is proven again, and nothing that was cut off is looked up in a cluster
    /// that cannot know of it. A lab that was completed elsewhere keeps its end: what it proved was true then.
    pub fn lose(&mut self, lost: &[String]) -> Vec<Effect> {
        let mut out = Vec::new();
        if lost.is_empty() {
            return out;
        }
        self.found.extend(lost.iter().cloned());
        let (labs, here) = (Arc::clone(&self.labs), self.lab_name());
        for lab in labs.iter() {
            let Some(kept) = self.progress.get_mut(&lab.name) else {
                continue;
            };
            if kept.completed && lab.name != here {
                continue;
            }
            let worked = lab.stages.iter().filter(|stage| has_work(stage));
            let open: Vec<&str> = worked
                .filter(|stage| kept.passed.remove(&stage.name))
                .map(|stage| stage.name.as_str())
                .collect();
            if !open.is_empty() {
                kept.completed = false;
                self.finished = false;
                self.found.push(format!(
                    "of {} these stages do not count as passed until they are proven again: {}",
                    lab.name,
                    open.join(", ")
                ));
            }
        }
        self.unresolved.clear();
        self.looking = false;
        if self.current_stage().is_some_and(has_work) && !self.is_going_back() {
            self.phase = StagePhase::Fresh;
        }
        self.note("damage", lost.join("; "), &mut out);
        out.push(Effect::Checkpoint);
        out
    }

    /// Whether what was cut off puts the cluster back or makes it anew, which it can still do.
    fn is_going_back(&self) -> bool {
        matches!(
            self.phase,
            StagePhase::Interrupted {
                step: Step::Rewinding | Step::Resetting | Step::Reapplying
            }
        )
    }

    /// Whether the present stage has something to do besides going on.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.current_stage().is_some_and(has_work)
    }
}
